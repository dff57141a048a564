"""Whatever goes wrong around the sidecar, the function's answers are untouched and the record does not pretend."""

import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from testing.environment import EXTENSION, SIDECAR, SLACK_MIB, SOURCE, Environment, Record
from tests.local.conftest import in_background, until

INVOCATIONS = 12


def serve(environment: Environment, count: int = INVOCATIONS) -> list[Record]:
    """`count` invocations, each answered as if there were no sidecar; the records."""
    for number in range(count):
        assert environment.invoke(mib=number, ms=2)["touched"] == number * 1024
    return environment.told()


def faulty(fault: str, folder: Path, **settings: Any) -> Environment:
    """The sidecar with a fault underneath it."""
    if SIDECAR != SOURCE:
        pytest.skip("faults are put underneath the source; the executable cannot be reached")
    extension = folder / "truemem"
    shutil.copy(Path(__file__).parent / "extensions" / "faulty.py", extension)
    extension.chmod(0o755)
    variables = {"FAULT": fault, "FAULT_SOURCE": str(EXTENSION)}
    return Environment(sidecar=extension, environment=variables, **settings)


@pytest.mark.parametrize("status", [202, 500])
def test_without_telemetry_it_measures_all_the_same(status: int) -> None:
    with Environment(telemetry=status) as environment:
        records = serve(environment)
        log = environment.log()
    assert ("telemetry=not supported here" if status == 202 else f"status {status}") in log
    for record in records:
        assert record.reportMissing is True
        assert record.MaxMemoryUsed is None
        assert record.PeakRSS is not None


@pytest.mark.parametrize("fault", ["eacces", "no-effect"])
def test_without_the_watermark_reset_every_record_says_sampled(tmp_path: Path, fault: str) -> None:
    with faulty(fault, tmp_path) as environment:
        answers = [environment.invoke(mib=mib, ms=150) for mib in (50, 5, 20)]
        records = environment.records()
        log = environment.log()
    assert {record.method for record in records} == {"sampled"}
    assert "method=sampled (clear_refs: " in log
    for record, answer in zip(records, answers, strict=True):
        truth = answer["truth"] / 1024
        assert record.peakLower <= truth + SLACK_MIB
        assert record.peakUpper is None or truth - SLACK_MIB <= record.peakUpper
    assert records[1].PeakRSS < answers[0]["truth"] / 1024 - 20  # even so: the peak goes down again


def test_a_proc_that_vanishes_in_the_middle_of_reading(tmp_path: Path) -> None:
    with faulty("vanishing", tmp_path) as environment:
        assert len(serve(environment, 30)) == 30


def test_no_proc_at_all(tmp_path: Path) -> None:
    with faulty("no-proc", tmp_path) as environment:
        records = serve(environment)
    for record in records:
        assert record.PeakRSS is None
        assert record.method is None
    assert sum(record.dropped or 0 for record in records) > 0


@pytest.mark.parametrize("exact", [False, True], ids=["default", "exact"])
def test_a_bug_of_ours_is_not_the_functions(tmp_path: Path, exact: bool) -> None:
    with faulty("bug", tmp_path, exact=exact) as environment:
        records = serve(environment)
        assert "ZeroDivisionError" in environment.log()
    assert {record.PeakRSS for record in records} == {None}
    assert sum(record.dropped or 0 for record in records) >= INVOCATIONS


def test_a_shutdown_while_the_window_is_open() -> None:
    with Environment() as environment:
        environment.invoke(mib=5)
        running = in_background(lambda: environment.attempt(mib=60, ms=3000))
        until(lambda: environment.local.events[-1]["type"] == "platform.start")
        time.sleep(0.3)
        _, last = environment.records()
        running.result()
    assert last.closedBy == "shutdown"
    assert last.PeakRSS > 60


@pytest.mark.smoke
def test_a_crash_is_told_by_its_record() -> None:
    with Environment() as environment:
        failed = environment.attempt("crash", mib=40, ms=1000)  # samples are all that is left: time for one
        environment.invoke()
        record, _ = environment.records()
    assert failed.function_error == "Unhandled"
    assert (record.status, record.errorType) == ("error", "Runtime.ExitError")
    assert record.method == "sampled"
    assert record.peakLower > 40
