"""Which record is printed when, as scenarios of what came."""

from __future__ import annotations

import json
from typing import Any

import pytest
from truemem.config import Config
from truemem.linux.proc_text import Status
from truemem.measure.race import Boundary
from truemem.measure.window import Window
from truemem.platform.telemetry_events import REPORT, RUNTIME_DONE, START, Event
from truemem.records.environment_state import EnvironmentState
from truemem.records.journal import Journal
from truemem.records.pending_record import PendingRecord
from truemem.records.pending_records import CHANCE_MS, START_MS, WAITING, PendingRecords
from truemem.records.publisher import Publisher

MS = 1_000_000


def opened(pending: PendingRecords, request_id: str) -> PendingRecord:
    record = PendingRecord(request_id, 1, 0)
    pending.open(record)
    return record


def event(kind: str, request_id: str, time_ms: int | None = None, **record: Any) -> Event:
    return Event(kind, {"requestId": request_id, **record}, None if time_ms is None else time_ms * MS)


def due(pending: PendingRecords, running_ms: float = 0) -> list[str]:
    """Request ids of what can be printed now."""
    taken = []
    while record := pending.due(running_ms):
        taken.append(record.request_id)
    return taken


def plays(script: str, *, reports: bool = True, running_ms: float = 0) -> list[str]:
    """`+1`: the invocation 1 begins; `-1`: its window is closed; `=1`: its report comes. What can be printed then:
    nothing before the last step."""
    pending, records = PendingRecords(reports=reports), {}
    taken: list[str] = []
    for step in script.split():
        assert taken == []
        if step[0] == "+":
            records[step[1:]] = opened(pending, step[1:])
        elif step[0] == "-":
            records[step[1:]].closed = True
        else:
            assert pending.join(event(REPORT, step[1:], metrics={"maxMemoryUsedMB": 94}))
            assert records[step[1:]].max_memory_used_mib == 94
        taken = due(pending, running_ms)
    return taken


LIVES = {
    "waits for its report": ("+1 -1 +2 =1", ["1"]),
    "waits for its window's close": ("+1 =1 -1", ["1"]),
    "a missing report is waited for until the next one ends": ("+1 -1 +2 -2", ["1"]),
    "in their order, whichever report came": ("+1 -1 +2 =2 -2", ["1", "2"]),
}


@pytest.mark.parametrize(("script", "printed"), LIVES.values(), ids=LIVES)
def test_a_record_is_due_when_all_of_it_is_known(script: str, printed: list[str]) -> None:
    assert plays(script, running_ms=CHANCE_MS) == printed


def test_short_invocations_give_telemetry_its_chance() -> None:
    waiting = " ".join(f"+{number} -{number}" for number in range(WAITING))
    assert plays(waiting, running_ms=CHANCE_MS - 1) == []
    assert plays(f"{waiting} +last -last", running_ms=CHANCE_MS - 1) == ["0"]


def test_without_telemetry_nothing_is_waited_for() -> None:
    assert plays("+1 -1", reports=False) == ["1"]


LEVEL_KIB = 90 * 1024


def follow(pending: PendingRecords, raced: bool = True) -> tuple[PendingRecord, PendingRecord]:
    """Two invocations. The first is closed at 1000 ms of running time, and has its report. Its watermark was seen at
    8 ms (epoch): it is its own where that is proven to lie before the second one's event."""
    first, second = opened(pending, "1"), opened(pending, "2")
    first.window = window = Window(LEVEL_KIB // 2, 0, resets=True)
    window.closing = [Status(LEVEL_KIB, LEVEL_KIB // 2, LEVEL_KIB // 2, 0, 0, 1)]
    if raced:
        window.end = Boundary()
        window.end.levels = [(5 * MS, LEVEL_KIB // 2), (8 * MS, LEVEL_KIB)]
    second.opening = window.end
    first.closed, first.closed_at_ms = True, 1000
    first.update_peak()
    assert is_raced(first) is raced
    pending.join(event(REPORT, "1"))
    return first, second


def is_raced(record: PendingRecord) -> bool:
    """Its lower bound is that of the looks before 8 ms then, or the watermark."""
    assert record.peak is not None
    assert record.peak.lower == (LEVEL_KIB // 2 if record.peak.raced else LEVEL_KIB)
    return record.peak.raced


def test_what_nothing_has_proven_waits_for_the_start_of_the_next_and_all_that_follow_it_wait_too() -> None:
    pending = PendingRecords()
    first, second = follow(pending)
    second.closed, second.closed_at_ms = True, 1000
    pending.join(event(REPORT, "2"))
    assert due(pending, 1000 + START_MS - 1) == []
    assert due(pending, 1000 + START_MS) == ["1", "2"]
    assert is_raced(first)


@pytest.mark.parametrize(("reports", "raced"), [(True, False), (False, True)], ids=["no need", "without telemetry"])
def test_where_no_proof_is_needed_or_comes_none_is_waited_for(reports: bool, raced: bool) -> None:
    pending = PendingRecords(reports=reports)
    first, _ = follow(pending, raced)
    assert due(pending, 1000) == ["1"]
    assert is_raced(first) is raced


PROOFS = {
    "began before it": (event(START, "2", 7), True),
    "began then": (event(START, "2", 8), False),
    "began later": (event(START, "2", 9), False),
    "began, without a time": (event(START, "2"), True),
    "the runtime was done": (event(RUNTIME_DONE, "1", 8), False),
}


@pytest.mark.parametrize(("proof", "raced"), PROOFS.values(), ids=PROOFS)
def test_what_telemetry_says_of_the_next_one_ends_the_wait_and_may_be_proof(proof: Event, raced: bool) -> None:
    pending = PendingRecords()
    first, second = follow(pending)
    assert due(pending, 1000) == []
    pending.join(proof)
    assert due(pending, 1000) == ["1"]
    assert second.started is (proof.kind == START)
    assert is_raced(first) is raced


def test_before_its_report_has_come_no_proof_makes_it_due() -> None:
    pending = PendingRecords()
    first, _ = follow(pending)
    first.report_came = False
    pending.join(event(START, "2", 9))
    assert due(pending, 1000 + CHANCE_MS) == []
    pending.join(event(REPORT, "1"))
    assert due(pending, 1000 + CHANCE_MS) == ["1"]


def test_at_the_end_all_that_is_known_by_then_counts() -> None:
    pending = PendingRecords()
    first, second = follow(pending)
    first.done_ns = 9 * MS
    assert pending.take_all() == [first, second]
    assert not is_raced(first)


def test_the_current_invocation_is_the_one_whose_window_is_open() -> None:
    pending = PendingRecords(reports=False)
    assert pending.current() is None
    record = opened(pending, "1")
    assert pending.current() is record
    record.closed = True
    assert pending.current() is None
    assert due(pending) == ["1"]


def test_shutdown_takes_everything() -> None:
    pending = PendingRecords()
    opened(pending, "1").closed = True
    opened(pending, "2")
    assert not pending.complete()
    assert [record.request_id for record in pending.take_all()] == ["1", "2"]
    assert pending.take_all() == []
    assert pending.complete()


def test_a_stranger_changes_nothing() -> None:
    pending = PendingRecords()
    record = opened(pending, "1")
    assert not pending.join(event(REPORT, "of the environment before"))
    assert not record.report_came


def test_a_retry_in_the_same_environment_has_the_same_request_id_and_words_of_its_own() -> None:
    """The report of the first attempt comes with the second, and so may the end of the second."""
    pending = PendingRecords()
    first = opened(pending, "1")
    pending.join(event(RUNTIME_DONE, "1", 7, status="error", errorType="Runtime.Unknown"))
    first.closed = True
    second = opened(pending, "1")
    assert pending.for_request("1") is second
    assert pending.join(event(REPORT, "1", status="error", metrics={"maxMemoryUsedMB": 94}))
    assert pending.join(event(START, "1"))
    assert pending.join(event(RUNTIME_DONE, "1", 9, status="success"))
    assert pending.join(event(REPORT, "1", status="success", metrics={"maxMemoryUsedMB": 95}))
    assert (first.status, first.done_ns, first.max_memory_used_mib) == ("error", 7 * MS, 94)
    assert (second.status, second.done_ns, second.max_memory_used_mib) == ("success", 9 * MS, 95)
    assert second.error_type is None


def test_the_start_of_a_retry_is_no_proof_of_when_the_first_attempt_began() -> None:
    pending = PendingRecords()
    first = opened(pending, "1")
    first.opening = Boundary()
    pending.join(event(START, "1", 5))
    first.closed = True
    second = opened(pending, "1")
    second.opening = Boundary()
    pending.join(event(START, "1", 9))
    assert (first.opening.not_before_ns, second.opening.not_before_ns) == (5 * MS, 9 * MS)
    assert second.started


def test_the_reports_duration_replaces_the_runtimes() -> None:
    pending = PendingRecords()
    record = opened(pending, "1")
    pending.join(event(START, "1", tenantId="blue"))
    pending.join(event(REPORT, "1", status="timeout", metrics={"durationMs": 30}))
    pending.join(event(RUNTIME_DONE, "1", status="timeout", metrics={"durationMs": 20}))
    assert (record.duration_ms, record.status, record.tenant_id) == (30, "timeout", "blue")


def test_more_than_twice_as_many_as_may_wait_are_a_crowd() -> None:
    pending = PendingRecords()
    for number in range(2 * WAITING):
        pending.open(PendingRecord(f"{number}", number, 0))
    assert not pending.over_capacity()
    pending.open(PendingRecord("one more", 0, 0))
    assert pending.over_capacity()


def test_events_that_leave_no_time_to_print_do_not_pile_up(capfd: pytest.CaptureFixture[str]) -> None:
    publisher = Publisher(Config({}), True, EnvironmentState(), Journal(""), lambda: 0)
    for number in range(500):
        record = PendingRecord(f"{number}", number, 0)
        publisher.open(record)
        record.closed = True
    printed = [json.loads(line)["requestId"] for line in capfd.readouterr().out.splitlines()]
    assert printed == [f"{number}" for number in range(500 - 2 * WAITING - 1)]
