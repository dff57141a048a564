"""On Managed Instances requests overlap, and whose memory is whose cannot be known: what each record may still say."""

import random
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from truemem_workbench.local import Invocation

from testing.environment import FUNCTIONS, SIDECAR, SLACK_MIB, Environment, Record
from tests.local.conftest import executable, until

WORKERS = 3
PROCESSES = WORKERS + 1
"""The runtime forks its workers."""
LIMIT_MIB = 2048
HELD_MS = 300
"""So long that a cut falls within it, whatever CPU time the cuts before it have cost: a level that was reached is known
from then on (`peakLower`). Of a shorter request it may be unknown."""


@pytest.fixture
def meeting() -> Iterator[str]:
    """A folder where the function's processes, of another user, can meet."""
    with tempfile.TemporaryDirectory(prefix="truemem-meet-") as folder:
        Path(folder).chmod(0o777)
        yield folder


def managed(**settings: Any) -> Environment:
    return Environment(FUNCTIONS / "together.py", managed_instances=WORKERS, memory_mib=LIMIT_MIB, **settings)


def attempt_all(environment: Environment, events: Sequence[dict[str, Any]]) -> list[Invocation]:
    """Invoke with all of them, as many at once as there are workers; in the events' order."""
    with ThreadPoolExecutor(WORKERS) as pool:
        return list(pool.map(environment.local.invoke, events))


def invoke_all(environment: Environment, events: Sequence[dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    """The same; each one's request id and answer."""
    answered = []
    for invocation in attempt_all(environment, events):
        assert invocation.function_error is None, invocation.payload
        assert isinstance(invocation.payload, dict)
        answered.append((invocation.request_id, invocation.payload))
    return answered


def wait_for_lines(environment: Environment, count: int) -> None:
    until(lambda: len(environment.local.extension_stdout(environment.name)) >= count)


def warm_up(environment: Environment) -> None:
    """One request; its line shows that the function's processes are known."""
    invoke_all(environment, [{"mib": 1}])
    wait_for_lines(environment, 1)


def records_by_id(environment: Environment) -> dict[str, Record]:
    records = environment.records()
    by_id = {record.requestId: record for record in records}
    assert len(by_id) == len(records)
    return by_id


@pytest.mark.smoke
def test_requests_at_once_have_the_peak_of_all(meeting: str) -> None:
    together = [{"mib": mib, "ms": HELD_MS, "meet": meeting, "of": WORKERS} for mib in (20, 50, 80)]
    with managed() as environment:
        answers = invoke_all(environment, together)
        wait_for_lines(environment, WORKERS)
        ((alone, _),) = invoke_all(environment, [{"mib": 5, "ms": 60}])
        wait_for_lines(environment, WORKERS + 1)
        records = records_by_id(environment)
        log = environment.log()

    assert len({answer["pid"] for _, answer in answers}) == WORKERS
    for request_id, answer in answers:
        record = records[request_id]
        assert record.sharedBy == WORKERS
        assert record.PeakRSS == pytest.approx(answer["all"] / 1024, abs=PROCESSES * SLACK_MIB)
        assert record.peakLower <= record.PeakRSS <= record.peakUpper
        assert record.highWaterMark >= record.PeakRSS
        assert (record.method, record.processes, record.status) == ("vmhwm-segments", PROCESSES, "success")
        assert record.holders["function"] == record.CurrentRSS
        assert record.durationMs >= HELD_MS
        assert record.baselineRSS is None
        assert record.MaxMemoryUsed is None
    assert sorted(record.invocation for record in records.values()) == [1, 2, 3, 4]
    assert records[alone].sharedBy == 1
    assert records[alone].PeakRSS < max(answer["all"] for _, answer in answers) / 1024 - 100
    (first,) = [record for record in records.values() if record.coldStart]
    assert first.initializationType == "lambda-managed-instances"
    assert log.count("method=vmhwm-segments") == 1


def test_no_record_is_below_what_its_own_worker_held() -> None:
    chance = random.Random(2026)
    events = [{"mib": chance.choice([1, 5, 20, 64]), "ms": chance.choice([0, 1, 5, 30])} for _ in range(60)]
    with managed() as environment:
        answers = invoke_all(environment, events)
        wait_for_lines(environment, len(events))
        records = records_by_id(environment)
        started = [event for event in environment.local.events if event["type"] == "platform.start"]

    assert records.keys() == {request_id for request_id, _ in answers}
    for request_id, answer in answers:
        record = records[request_id]
        assert record.peakUpper >= record.PeakRSS >= answer["own"] / 1024 - SLACK_MIB, record
        assert (record.peakLower or 0) <= record.PeakRSS
        assert 1 <= record.sharedBy <= WORKERS
        assert not record.reportMissing
        assert not record.dropped
    assert [event["record"]["requestId"] for event in started] == sorted(
        records, key=lambda request_id: records[request_id].invocation
    )


def test_shutdown_prints_what_has_not_been_printed(meeting: str) -> None:
    """The reports come just before it, while the function's processes are gone already."""
    events = [{"mib": 10, "meet": meeting, "of": WORKERS} for _ in range(WORKERS)]
    with managed() as environment:
        warm_up(environment)
        answers = invoke_all(environment, events)
        records = records_by_id(environment)
    assert len(records) == 1 + WORKERS
    for request_id, answer in answers:
        record = records[request_id]
        if record.PeakRSS is None:  # nothing was read since it began
            assert (record.method, record.CurrentRSS, record.peakUpper) == (None, None, None)
        else:
            assert record.method == ("sampled" if record.peakUpper is None else "vmhwm-segments")
        assert record.peakUpper is None or record.peakUpper >= answer["own"] / 1024 - SLACK_MIB
        assert (record.status, record.reportMissing) == ("success", None)


def crashed(meeting: str, **settings: Any) -> list[Record]:
    """Of two requests that ran at once, the second of which killed the runtime."""
    events: list[dict[str, Any]] = [{"mib": 30, "ms": 1000, "meet": meeting, "of": 2} for _ in range(2)]
    events[1]["do"] = "die"
    with managed(**settings) as environment:
        warm_up(environment)
        made = attempt_all(environment, events)
        wait_for_lines(environment, 1 + 2)
        records = records_by_id(environment)
    assert all(invocation.function_error is not None for invocation in made)
    return [records[invocation.request_id] for invocation in made]


def test_a_runtime_that_is_killed_leaves_the_end_of_its_curve(meeting: str) -> None:
    for record in crashed(meeting):
        assert record.status == "error"
        assert record.ending["level"] > 60  # both workers', also where a cut has fallen between their deaths
        assert record.lastSamples[-1][1] > 60
        assert record.sharedBy == 2
        assert record.peakUpper is None or record.peakUpper >= 30


def test_a_crash_of_workers_with_a_shared_model_is_no_oom(meeting: str) -> None:
    """Each of them has it in its RSS, and the environment once."""
    model = Path(meeting) / "model"
    with model.open("wb") as file:
        file.truncate(800 << 20)
    for record in crashed(meeting, environment={"MODEL": str(model)}):
        assert max(level for _, level in record.lastSamples) > LIMIT_MIB
        assert 800 < record.ending["level"] < 0.9 * LIMIT_MIB
        assert (record.status, record.OutOfMemory, record.outOfMemory) == ("error", None, None)


def test_on_managed_instances_it_registers_for_shutdown_only(tmp_path: Path) -> None:
    """An environment that does not say what it is refuses INVOKE all the same."""
    text = f"#!/bin/sh\nunset AWS_LAMBDA_INITIALIZATION_TYPE\nexec {SIDECAR}\n"
    unaware = executable(tmp_path / SIDECAR.name, text)
    tmp_path.chmod(0o755)
    with managed(sidecar=unaware) as environment:
        ((request_id, _),) = invoke_all(environment, [{"mib": 5, "ms": HELD_MS}])
        wait_for_lines(environment, 1)
        assert records_by_id(environment)[request_id].sharedBy == 1  # which only Managed Instances say
    extension = next(event for event in environment.local.events if event["type"] == "platform.extension")
    assert extension["record"]["events"] == ["SHUTDOWN"]
