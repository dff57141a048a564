"""Other packages that look into a function, in the same one: they and the profile do not disturb each other."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from truemem.verdict import GROWING_FROM
from truemem_workbench.local import Function

from testing.environment import Environment
from tests.heaps.test_preload import CLIENTS, PYTHON
from tests.lines.test_python import run

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
DATADOG = ("ddtrace", "datadog-lambda")
OPENTELEMETRY = ("opentelemetry-distro", "opentelemetry-instrumentation-aws-lambda")
APP = """
import sys
KEPT = []
def handler(event, context):
    KEPT.append(bytearray(40 * 1024))
    return {"kept": len(KEPT), "loaded": [name for name in ("ddtrace", "opentelemetry.sdk") if name in sys.modules]}
"""
WRAPPER = """#!/bin/sh
exec {python} {folder}/bin/opentelemetry-instrument "$@"
"""


@pytest.fixture
def task() -> Iterator[Path]:
    """Not pytest's folder: only root can read that."""
    with tempfile.TemporaryDirectory(prefix="truemem-test-vendors-", dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "app.py").write_text(APP)
        yield folder


def installed(task: Path, *packages: str) -> Path:
    folder = task / "packages"
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--target", folder, *packages],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        pytest.skip(f"not installed: {done.stderr.splitlines()[-1]}")
    return folder


def check(function: Function, loaded: str, **variables: str) -> None:
    path = f"{ROOT / 'layer' / 'truemem' / 'python'}:{variables.pop('path')}"
    with Environment(function, environment={"TRUEMEM_LINES": "on", "PYTHONPATH": path, **variables}) as running:
        for number in range(GROWING_FROM + 200):
            assert running.invoke() == {"kept": number + 1, "loaded": [loaded]}
        records = running.told()
    (record,) = [each for each in records if each.growthProfile]
    assert "gaveUp" not in record.growthProfile
    first = record.growthLines[0]
    assert (first["file"], first["line"], first["perInvocationKiB"]) == ("app.py", 5, pytest.approx(40, rel=0.1))


def test_datadogs_library_wraps_the_handler(task: Path) -> None:
    packages = installed(task, *DATADOG)
    function = Function.from_handler(f"{task / 'app.py'}:handler")
    function = replace(function, command=(*function.command[:-1], "datadog_lambda.handler.handler"))
    check(
        function, "ddtrace", path=str(packages), DD_LAMBDA_HANDLER="app.handler", DD_API_KEY="x", DD_FLUSH_TO_LOG="true"
    )


def test_opentelemetrys_wrapper_starts_the_runtime(task: Path) -> None:
    packages = installed(task, *OPENTELEMETRY)
    wrapper = task / "wrapper"
    wrapper.write_text(WRAPPER.format(python=PYTHON, folder=packages))
    wrapper.chmod(0o755)
    function = Function.from_handler(f"{task / 'app.py'}:handler")
    function = replace(function, command=(PYTHON, *function.command[1:]))
    exporters = {f"OTEL_{signal}_EXPORTER": "none" for signal in ("TRACES", "METRICS", "LOGS")}
    check(
        function, "opentelemetry.sdk", path=f"{packages}:{CLIENTS}", AWS_LAMBDA_EXEC_WRAPPER=str(wrapper), **exporters
    )


@pytest.mark.parametrize(
    ("package", "starts"),
    [
        ("debugpy", 'import debugpy; debugpy.listen(("127.0.0.1", 0))'),
        ("coverage", "import coverage; begun = coverage.Coverage(data_file=None); begun.start()"),
    ],
)
def test_beside_a_debugger_no_line_is_guessed(task: Path, tmp_path: Path, package: str, starts: str) -> None:
    source = f"""
        {starts}
        KEPT = []
        def handler(event, context):
            KEPT.append(bytearray(40_000))
            return 1
    """
    found = run(tmp_path, source, PYTHONPATH=str(installed(task, package)), HOME=str(task))
    assert found.told["gaveUp"] in ("sys.settrace is in use", "sys.monitoring is in use")
    assert found.lines == []  # a traced Python does not tell which lines have run
    assert set(found.sent) == {"1"}
