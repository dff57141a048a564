"""Which record is printed when, as scenarios of what came."""

from __future__ import annotations

import json
from typing import Any

import pytest
from truemem.config import Config
from truemem.history import History
from truemem.journal import Journal
from truemem.ledger import CHANCE_MS, WAITING, Ledger
from truemem.publisher import Publisher
from truemem.record import InvocationRecord
from truemem.telemetry import REPORT, RUNTIME_DONE, START, Event
from truemem.window import Window


def opened(ledger: Ledger, request_id: str) -> InvocationRecord:
    record = InvocationRecord(request_id, 1, 0)
    ledger.open(record)
    return record


def event(kind: str, request_id: str, **record: Any) -> Event:
    return Event(kind, {"requestId": request_id, **record})


def due(ledger: Ledger, running_ms: float = 0) -> list[str]:
    """Request ids of what can be printed now."""
    taken = []
    while record := ledger.due(running_ms):
        taken.append(record.request_id)
    return taken


def test_a_record_waits_for_its_report() -> None:
    ledger = Ledger()
    first = opened(ledger, "1")
    first.closed = True
    opened(ledger, "2")
    assert due(ledger) == []
    ledger.join(event(REPORT, "1", metrics={"maxMemoryUsedMB": 94}))
    assert due(ledger) == ["1"]
    assert first.max_memory_used_mib == 94


def test_a_report_before_the_close_is_kept() -> None:
    ledger = Ledger()
    record = opened(ledger, "1")
    ledger.join(event(REPORT, "1", metrics={"maxMemoryUsedMB": 94}))
    assert due(ledger) == []
    record.closed = True
    assert due(ledger) == ["1"]


def test_a_missing_report_is_waited_for_until_the_next_invocation_ends() -> None:
    ledger = Ledger()
    first = opened(ledger, "1")
    first.closed = True
    second = opened(ledger, "2")
    assert due(ledger) == []
    second.closed = True
    assert due(ledger, CHANCE_MS) == ["1"]
    assert not first.report_came


def test_short_invocations_give_telemetry_its_chance() -> None:
    ledger = Ledger()
    for number in range(WAITING):
        opened(ledger, str(number)).closed = True
    assert due(ledger, CHANCE_MS - 1) == []
    opened(ledger, "one too many").closed = True
    assert due(ledger, CHANCE_MS - 1) == ["0"]


def test_without_telemetry_nothing_is_waited_for() -> None:
    ledger = Ledger(reports=False)
    opened(ledger, "1").closed = True
    assert due(ledger) == ["1"]
    assert ledger.complete()


def test_records_leave_in_order_even_if_reports_do_not_come_so() -> None:
    ledger = Ledger()
    first, second = opened(ledger, "1"), opened(ledger, "2")
    first.closed = second.closed = True
    ledger.join(event(REPORT, "2"))
    assert due(ledger, CHANCE_MS) == ["1", "2"]


def test_what_nothing_has_confirmed_waits_and_all_that_follow_it() -> None:
    ledger = Ledger()
    first, second = opened(ledger, "1"), opened(ledger, "2")
    first.closed = second.closed = first.provisional = True
    for request_id in ("1", "2"):
        ledger.join(event(REPORT, request_id))
    assert due(ledger, 10 * CHANCE_MS) == []
    first.provisional = False
    assert due(ledger) == ["1", "2"]


def test_without_telemetry_it_waits_as_well() -> None:
    ledger = Ledger(reports=False)
    record = opened(ledger, "1")
    record.closed = record.provisional = True
    assert due(ledger) == []
    record.provisional = False
    assert due(ledger) == ["1"]


def test_where_the_next_event_has_not_told_it_waits_for_the_platforms_word_no_longer_than_for_its_report() -> None:
    ledger = Ledger()
    first, second = opened(ledger, "1"), opened(ledger, "2")
    first.closed = second.closed = first.provisional = True
    first.after = Window(0, 0, resets=True), "next-invoke", None, 0
    assert due(ledger, CHANCE_MS - 1) == []
    assert due(ledger, CHANCE_MS) == ["1"]
    assert not first.provisional


def test_at_the_end_it_is_taken_as_it_is() -> None:
    ledger = Ledger()
    record = opened(ledger, "1")
    record.closed = record.provisional = True
    assert ledger.rest() == [record]


def test_the_last_invocation_is_there_until_it_is_printed() -> None:
    ledger = Ledger(reports=False)
    assert ledger.last() is None
    record = opened(ledger, "1")
    assert ledger.last() is ledger.current() is record
    record.closed = True
    assert (ledger.last(), ledger.current()) == (record, None)
    assert due(ledger) == ["1"]
    assert ledger.last() is None


def test_shutdown_takes_everything() -> None:
    ledger = Ledger()
    opened(ledger, "1").closed = True
    opened(ledger, "2")
    assert not ledger.complete()
    assert [record.request_id for record in ledger.rest()] == ["1", "2"]
    assert ledger.rest() == []


def test_a_stranger_changes_nothing() -> None:
    ledger = Ledger()
    record = opened(ledger, "1")
    assert not ledger.join(event(REPORT, "of the environment before"))
    assert not record.report_came


def test_a_retry_in_the_same_environment_has_the_same_request_id_and_words_of_its_own() -> None:
    """The report of the first attempt comes with the second, and so may the end of the second."""
    ledger = Ledger()
    first = opened(ledger, "1")
    ledger.join(Event(RUNTIME_DONE, {"requestId": "1", "status": "error", "errorType": "Runtime.Unknown"}, 7))
    first.closed = True
    second = opened(ledger, "1")
    assert ledger.find("1") is second
    for each in (
        Event(REPORT, {"requestId": "1", "status": "error", "metrics": {"maxMemoryUsedMB": 94}}),
        event(START, "1"),
        Event(RUNTIME_DONE, {"requestId": "1", "status": "success"}, 9),
        Event(REPORT, {"requestId": "1", "status": "success", "metrics": {"maxMemoryUsedMB": 95}}),
    ):
        assert ledger.join(each)
    assert (first.status, first.done_ns, first.max_memory_used_mib) == ("error", 7, 94)
    assert (second.status, second.done_ns, second.max_memory_used_mib) == ("success", 9, 95)
    assert second.error_type is None


def test_the_reports_duration_replaces_the_runtimes() -> None:
    ledger = Ledger()
    record = opened(ledger, "1")
    ledger.join(event(START, "1", tenantId="blue"))
    ledger.join(event(REPORT, "1", status="timeout", metrics={"durationMs": 30}))
    ledger.join(event(RUNTIME_DONE, "1", status="timeout", metrics={"durationMs": 20}))
    assert (record.duration_ms, record.status, record.tenant_id) == (30, "timeout", "blue")


@pytest.mark.parametrize(
    ("held_ms", "runtime_ms", "report_ms", "hold_ms"),
    [
        (3.0, 20, 25, 3.0),
        (3.0, 20, 21, 1.0),  # all that came after the runtime took no longer
        (3.0, 20, 19, 0.0),
        (None, 20, 25, None),  # not held
        (3.0, None, 25, 3.0),  # nobody has said how long the runtime took
    ],
)
def test_what_a_hold_has_cost_is_no_more_than_the_platform_saw_after_the_runtime(
    held_ms: float | None, runtime_ms: float | None, report_ms: float, hold_ms: float | None
) -> None:
    ledger = Ledger()
    record = opened(ledger, "1")
    record.hold_ms = held_ms
    if runtime_ms is not None:
        ledger.join(event(RUNTIME_DONE, "1", metrics={"durationMs": runtime_ms}))
    ledger.join(event(REPORT, "1", metrics={"durationMs": report_ms}))
    assert (record.hold_ms, record.duration_ms) == (hold_ms, report_ms)


def test_more_than_twice_as_many_as_may_wait_are_a_crowd() -> None:
    ledger = Ledger()
    for number in range(2 * WAITING):
        ledger.open(InvocationRecord(f"{number}", number, 0))
    assert not ledger.crowded()
    ledger.open(InvocationRecord("one more", 0, 0))
    assert ledger.crowded()


def test_events_that_leave_no_time_to_print_do_not_pile_up(capfd: pytest.CaptureFixture[str]) -> None:
    publisher = Publisher(Config({}), True, History(), Journal(""), lambda: 0)
    for number in range(500):
        record = InvocationRecord(f"{number}", number, 0)
        publisher.open(record)
        record.closed = True
    printed = [json.loads(line)["requestId"] for line in capfd.readouterr().out.splitlines()]
    assert printed == [f"{number}" for number in range(500 - 2 * WAITING - 1)]
