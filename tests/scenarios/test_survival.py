"""Whatever goes wrong around the sidecar, the function's answers are untouched and the record does not pretend."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from truemem_workbench.testing.environment import SIDECAR, SLACK_MIB, SOURCE, Environment, Record

INVOCATIONS = 12


def serve(environment: Environment, count: int = INVOCATIONS) -> list[Record]:
    """`count` invocations, each answered as if there were no sidecar; the records."""
    for number in range(count):
        assert environment.invoke(mib=number, ms=2)["touched"] == number * 1024
    records = environment.records()
    assert [record.requestId for record in records] == [made.request_id for made in environment.invocations]
    return records


def faulty(fault: str, folder: Path, environment: Mapping[str, str] | None = None, **settings: Any) -> Environment:
    """The sidecar with a fault underneath it."""
    if SIDECAR != SOURCE:
        pytest.skip("faults are put underneath the source; the executable cannot be reached")
    extension = folder / "truemem"
    shutil.copy(Path(__file__).parent / "extensions" / "faulty.py", extension)
    extension.chmod(0o755)
    variables = {"FAULT": fault, "FAULT_SOURCE": str(SOURCE.parent), **(environment or {})}
    return Environment(sidecar=extension, environment=variables, **settings)


@pytest.mark.parametrize("status", [202, 400, 403, 500])
def test_without_telemetry_it_measures_all_the_same(status: int) -> None:
    with Environment(telemetry=status) as environment:
        records = serve(environment)
        log = environment.log()
    assert ("telemetry=not supported here" if status == 202 else f"status {status}") in log
    for record in records:
        assert record.reportMissing is True
        assert record.MaxMemoryUsed is None
        assert record.PeakRSS is not None


@pytest.mark.parametrize("fault", ["eacces", "enoent", "erofs", "no-effect"])
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
        records = serve(environment, 30)
    assert len(records) == 30


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
        for number in range(INVOCATIONS):
            assert environment.invoke(mib=number)["touched"] == number * 1024
        records = environment.records()
        assert "ZeroDivisionError" in environment.log()
    assert [record.requestId for record in records] == [made.request_id for made in environment.invocations]
    assert {record.PeakRSS for record in records} == {None}
    assert sum(record.dropped or 0 for record in records) >= INVOCATIONS


def test_a_shutdown_while_the_window_is_open() -> None:
    with Environment() as environment:
        environment.invoke(mib=5)
        running = threading.Thread(target=environment.attempt, kwargs={"mib": 60, "ms": 3000})
        running.start()
        while not any(event["type"] == "platform.start" for event in environment.local.events[-1:]):
            threading.Event().wait(0.01)
        threading.Event().wait(0.3)
        records = environment.records()
        running.join()
    assert len(records) == 2
    assert records[1].closedBy == "shutdown"
    assert records[1].PeakRSS > 60


@pytest.mark.smoke
def test_a_crash_is_told_by_its_record() -> None:
    with Environment() as environment:
        failed = environment.attempt("crash", mib=40, ms=1000)  # samples are all that is left: time for one
        environment.invoke()
        records = environment.records()
    assert failed.function_error == "Unhandled"
    assert (records[0].status, records[0].errorType) == ("error", "Runtime.ExitError")
    assert records[0].method == "sampled"
    assert records[0].peakLower > 40
    assert len(records) == 2
