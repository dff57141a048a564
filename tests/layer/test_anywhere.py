"""The executable runs wherever a Lambda function might: attached under the local Lambda, with the world against it."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Literal

import pytest
from truemem_workbench.local import Function

from testing.environment import SLACK_MIB, SOURCE, Environment, Record
from tests.layer.built import Layer, in_an_empty_root, measured, script

HOSTILE = {
    "LD_PRELOAD": "/nowhere/evil.so",
    "LD_LIBRARY_PATH": "/var/task/lib:/nowhere",
    "PYTHONPATH": "/nowhere",
    "PYTHONHOME": "/nowhere",
    "PYTHONSTARTUP": "/nowhere/evil.py",
    "PYTHONVERBOSE": "1",
    "PYTHONWARNINGS": "error",
    "PYTHONMALLOC": "debug",
    "PYTHONINSPECT": "1",
    "PYTHONHASHSEED": "not a number",
    "PYTHONUTF8": "7",
    "LC_ALL": "tr_TR.ISO-8859-9",
    "TZ": "/nowhere",
}

ONE_THREAD = "python3.11"
"""Later clients ask for events from a second thread, and some peaks are intervals."""

IN_ITS_OWN_NAMESPACE = "exec unshare --mount sh -c"

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="chroot and mount need root")


def exported(variables: dict[str, str]) -> str:
    return "".join(f"export {name}='{value}'\n" for name, value in variables.items())


def test_hostile_variables_do_not_reach_it(native: Layer, tmp_path: Path) -> None:
    extension = script(tmp_path, f"{exported(HOSTILE)}exec {native.executable}")
    measured(Environment(sidecar=extension))


@root_only
def test_nothing_but_opt_and_proc_is_needed(native: Layer, tmp_path: Path) -> None:
    """An empty root, as a `FROM scratch` image has. A read-only one, and another runtime: `test_own_root`."""
    root = tmp_path / "root"
    inside = in_an_empty_root(native, root)
    records = measured(
        Environment(sidecar=script(tmp_path, f"{IN_ITS_OWN_NAMESPACE} '{inside}'"), user="current", runtime=ONE_THREAD)
    )
    assert sorted(path.name for path in root.iterdir()) == ["opt", "proc"]
    assert {record.method for record in records[:-1]} == {"vmhwm"}


@pytest.mark.parametrize("name", ["with space", "überwachung"])
def test_under_any_name_it_registers_and_measures(native: Layer, tmp_path: Path, name: str) -> None:
    records = measured(Environment(sidecar=Path(shutil.copy(native.executable, tmp_path / name)), runtime=ONE_THREAD))
    assert {record.method for record in records[:-1]} == {"vmhwm"}


@pytest.mark.timeout(300)
def test_on_arm64_it_registers_subscribes_measures_and_ends(foreign: Layer, emulator: Path, tmp_path: Path) -> None:
    """Under qemu-user: whether it works, not how fast."""
    checked = subprocess.run([emulator, foreign.executable, "--check"], capture_output=True, text=True, check=True)
    assert ", aarch64: " in checked.stdout
    with Environment(sidecar=script(tmp_path, f"exec {emulator} -0 $0 {foreign.executable}")) as environment:
        environment.invoke(mib=20, ms=300)
        environment.invoke(ms=300)
        records = environment.records()
        log = environment.log()
    assert [record.requestId for record in records] == [made.request_id for made in environment.invocations]
    assert "telemetry=on" in log
    assert records[0].PeakRSS > 20
    assert records[0].MaxMemoryUsed is not None


# --- standard descriptors that are closed, or a directory -------------------------------------------------------------

WAYS = ["</", ">&-", "<&- >&- 2>&-"]


def serves(extension: Path, closed: str, user: Literal["auto", "current"] = "auto") -> None:
    """Registered, called, and shut down in order; what it has to say comes where that is still open."""
    with Environment(sidecar=extension, user=user) as environment:
        for number in range(2):
            assert environment.invoke(mib=number)["touched"] == number * 1024
        records = environment.records()
        log = environment.log()
    assert len(records) == (0 if ">&-" in closed.replace("2>&-", "") else 2)
    assert ("method=" in log) == ("2>&-" not in closed)
    assert not any(record.dropped for record in records)  # nothing of the log went to the Extensions API


@pytest.mark.parametrize("closed", WAYS)
def test_closed_or_a_directory(native: Layer, tmp_path: Path, closed: str) -> None:
    serves(script(tmp_path, f"exec {native.executable} {closed}"), closed)


@pytest.mark.parametrize("closed", ["</", "<&- >&- 2>&-"])
def test_the_source_as_well(tmp_path: Path, closed: str) -> None:
    serves(script(tmp_path, f"exec {SOURCE} {closed}", name="run"), closed)


@root_only
def test_where_there_is_no_dev_null(native: Layer, tmp_path: Path) -> None:
    inside = in_an_empty_root(native, tmp_path / "root")
    closed = "<&- >&- 2>&-"
    serves(script(tmp_path, f"{IN_ITS_OWN_NAMESPACE} '{inside}' {closed}"), closed, user="current")


# The first INVOKE


@pytest.fixture(scope="module")
def at_once(static_runtime: Path) -> Function:
    return Function.from_bootstrap(static_runtime)


def first(runtime: Function, layer: Layer, release: str, exact: bool) -> tuple[Record, float]:
    """The record of an environment's first invocation, and the true peak in MiB."""
    with Environment(runtime, sidecar=layer.executable, exact=exact, release=release) as environment:
        made = environment.local.invoke("40 MiB for 20 ms")
        environment.local.invoke("1 MiB for 1 ms")
        record = environment.records()[0]
    assert (record.requestId, record.coldStart) == (made.request_id, True)
    return record, int(str(made.payload)) / 1024


@pytest.mark.parametrize("release", ["runtime:500", "together", "extension:300", "aws"])
@pytest.mark.parametrize("exact", [False, True], ids=["default", "exact mode"])
def test_it_is_measured_as_any_other(at_once: Function, native: Layer, release: str, exact: bool) -> None:
    record, truth = first(at_once, native, release, exact)
    assert record.peakLower <= truth + SLACK_MIB
    assert record.peakUpper is None or truth <= record.peakUpper + SLACK_MIB
    assert abs(record.PeakRSS - truth) <= SLACK_MIB or record.raced
    if exact:
        assert (record.mode, record.raced) == ("exact", None)
        assert abs(record.PeakRSS - truth) <= SLACK_MIB
