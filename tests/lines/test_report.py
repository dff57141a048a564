"""A profile of the lines, as a deployed function runs it, and what the commands say of its log."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from truemem_workbench.local import Function, LocalLambda, Settings
from truemem_workbench.local.configuration.layer import in_exact_mode, with_probe
from truemem_workbench.page.environments import gather
from truemem_workbench.printed.line import read

from testing.environment import SIDECAR, SOURCE
from tests.report.conftest import Command, truemem

__all__ = ["truemem"]
SERIES = Path(__file__).with_name("functions") / "series.py"


def log(folder: Path, name: str, invocations: int, **variables: str) -> Path:
    """What the sidecar prints of so many invocations in production, in a file."""
    exact = in_exact_mode(Function.from_handler(f"{SERIES}:handler"), variables, SOURCE)
    assert exact is not None
    function, environment = exact
    settings = Settings(name=name, extensions=[SIDECAR], environment=environment)
    with LocalLambda(with_probe(function, environment), settings) as running:
        for _ in range(invocations):
            assert running.invoke({}).function_error is None
        running.stop()
        lines = running.extension_stdout(SIDECAR.name)
    file = folder / f"{name}.log"
    file.write_text("\n".join(lines))
    return file


def finding(truemem: Command, file: Path) -> Mapping[str, Any]:
    (function,) = truemem("report", file, "--json").document["functions"]
    found: Mapping[str, Any] = function["finding"]
    return found


@pytest.mark.nightly
@pytest.mark.timeout(300)
def test_a_profile_is_no_part_of_the_rate_of_a_leak(truemem: Command, tmp_path: Path) -> None:
    """Its free room would hold what the leak keeps in 500 invocations."""
    plain, profiled = (log(tmp_path, f"leaks-{lines}", 1000, TRUEMEM_LINES=lines) for lines in ("off", "on"))
    before, after = finding(truemem, plain), finding(truemem, profiled)
    assert (before["cause"], after["cause"], after["hidden"]) == ("leak", "leak", False)
    assert after["perInvocationKiB"] == pytest.approx(before["perInvocationKiB"], rel=0.1)
    assert after["holder"] == "Python objects"
    (named, *_) = truemem("lines", profiled, "--json").document["versions"][0]["lines"]
    assert [after["line"][name] for name in ("file", "line")] == [named["file"], named["line"]]
    assert after["sentence"] in truemem("doctor", profiled).out
    assert {each.finding.paragraph() for each in gather(read([profiled]))} == {after["sentence"]}


def test_the_repaired_function_has_no_leak_and_no_profile(truemem: Command, tmp_path: Path) -> None:
    file = log(tmp_path, "repaired", 400, TRUEMEM_LINES="on", REPAIRED="yes")
    assert finding(truemem, file)["cause"] == "none"
    assert truemem("lines", file).code == 2
