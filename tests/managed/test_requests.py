"""Which requests run at once, by what telemetry tells of them."""

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from truemem.managed.requests import LONGEST_NS, MOST_EARLY, MOST_RUNNING, Request, Requests
from truemem.platform.telemetry import REPORT, START, PlatformEvent

MS = 1_000_000
NOW = 1_800_000_000_000 * MS
LATER = NOW + 60_000 * MS


def started(name: str, at_ms: int | None, **members: Any) -> PlatformEvent:
    return PlatformEvent(START, {"requestId": name, **members}, None if at_ms is None else NOW + at_ms * MS)


def reported(name: str, at_ms: int, status: str = "success", duration_ms: float = 1.0, **members: Any) -> PlatformEvent:
    record = {"requestId": name, "status": status, "metrics": {"durationMs": duration_ms}, **members}
    return PlatformEvent(REPORT, record, NOW + at_ms * MS)


def after(*deliveries: list[PlatformEvent]) -> Requests:
    requests = Requests()
    for delivery in deliveries:
        requests.join(delivery, LATER)
    return requests


def shared(requests: Requests) -> dict[str, int]:
    return dict(sorted((request.record.request_id, request.record.shared_by) for request in requests.take_all(LATER)))


def ids(requests: list[Request]) -> list[str]:
    return [request.record.request_id for request in requests]


def spans(*times_ms: tuple[int, int]) -> list[PlatformEvent]:
    """Requests "0", "1", ..., in the order of their moments; at the same one, those that end come first."""
    told = [(end, 0, reported(f"{number}", end)) for number, (_, end) in enumerate(times_ms)]
    told += [(start, 1, started(f"{number}", start)) for number, (start, _) in enumerate(times_ms)]
    return [each for *_, each in sorted(told, key=lambda each: each[:2])]


@pytest.mark.parametrize(
    ("times_ms", "sharing"),
    [
        ([(0, 5), (5, 9)], [1, 1]),
        ([(0, 5), (2, 9), (6, 9)], [2, 2, 2]),
        ([(0, 200), *((number * 10, number * 10 + 8) for number in range(1, 11))], [2] * 11),
    ],
    ids=["one by one each is alone", "those that overlap share", "one after the other they do not add up"],
)
def test_shared_by_is_how_many_ran_at_once(times_ms: list[tuple[int, int]], sharing: list[int]) -> None:
    assert list(shared(after(spans(*times_ms))).values()) == sharing


@given(st.lists(st.tuples(st.integers(0, 200), st.integers(1, 60)), min_size=1, max_size=12), st.randoms())
def test_shared_by_is_the_most_at_once(drawn: list[tuple[int, int]], chance: Any) -> None:
    """Against counting at every moment; within a delivery events come in any order."""
    # no two at the same ms: their order would be unknown
    intervals = [(start * 100 + n, (start + length) * 100 + 50 + n) for n, (start, length) in enumerate(drawn)]
    events = spans(*intervals)
    chance.shuffle(events)
    found = shared(after(events))
    for number, (start, end) in enumerate(intervals):
        moments = [moment for moment, _ in intervals if start <= moment < end]
        at_once = [sum(first <= moment < last for first, last in intervals) for moment in moments]
        assert found[f"{number}"] == max(at_once)


def test_what_the_platform_tells_is_on_the_record() -> None:
    first = started("a", 0, tenantId="blue")
    last = reported("a", 40, "error", 38.125, errorType="Runtime.ExitError")
    (request,) = after([first, last]).ended(LATER)
    record = request.record
    assert (request.start_ns, request.end_ns) == (NOW, NOW + 40 * MS)
    said = record.reported
    assert (said.status, said.error_type, said.duration_ms) == ("error", "Runtime.ExitError", 38.125)
    assert (said.tenant_id, said.report_came, record.time_ms) == ("blue", True, NOW // MS)


def test_they_are_numbered_in_the_order_of_their_start() -> None:
    requests = after([started("a", 0), started("b", 1), reported("b", 5), reported("a", 9), started("c", 10)])
    numbers = {request.record.request_id: request.record for request in requests.take_all(NOW)}
    assert [numbers[name].invocation for name in "abc"] == [1, 2, 3]
    assert [numbers[name].cold_start for name in "abc"] == [True, False, False]


def test_ended_ones_are_taken_once() -> None:
    requests = after([started("a", 0), started("b", 1), reported("a", 5)])
    assert ids(requests.ended(LATER)) == ["a"]
    assert requests.ended(LATER) == []
    assert (requests.running(), requests.any()) == (1, True)


@pytest.mark.parametrize(("first_ms", "then_ms"), [(4, 5), (-3_600_000, -3_600_000)], ids=["in time", "set back"])
def test_a_requests_end_is_waited_for_but_not_forever(first_ms: int, then_ms: int) -> None:
    """The clock may have been set back."""
    requests = after([started("a", 0), reported("a", 5)])
    assert requests.ended(NOW + first_ms * MS) == []
    assert ids(requests.ended(NOW + then_ms * MS)) == ["a"]


def test_at_the_end_those_that_run_go_out_without_a_report() -> None:
    requests = after([started("a", 0), started("b", 5000)])
    requests.end_overdue(NOW + LONGEST_NS)
    assert requests.running() == 2
    requests.end_overdue(NOW + LONGEST_NS + MS)
    (request,) = requests.ended(NOW + LONGEST_NS)
    assert (request.record.request_id, request.end_ns) == ("a", NOW + LONGEST_NS)
    assert requests.running() == 1
    (request,) = requests.take_all(NOW + 5700 * MS)
    assert (request.record.request_id, request.record.reported.report_came) == ("b", False)
    assert request.end_ns == NOW + 5700 * MS
    assert not requests.any()


def test_without_a_start_time_any_may_be_true() -> None:
    requests = after([started("a", None)])
    requests.end_overdue(LATER)
    requests.join([reported("a", 5)], LATER)
    (request,) = requests.ended(LATER)
    assert request.start_ns == 0
    assert request.record.time_ms > NOW // MS


def test_what_is_not_known_is_counted() -> None:
    events = [started("a", 6), started("a", 7), PlatformEvent(START, {}, NOW), PlatformEvent(REPORT, {}, NOW)]
    requests = after([*events, reported("never-started", 5), reported("never-started", 6)])
    assert requests.lost == 4
    assert requests.running() == 1
    requests.take_all(LATER)
    assert requests.lost == 5  # its start might have come until now


def test_a_report_may_come_in_a_delivery_before_its_start() -> None:
    requests = after([started("a", 0), reported("b", 5, duration_ms=3.5)], [started("b", 2)])
    assert (requests.running(), requests.lost) == (1, 0)
    (request,) = requests.ended(LATER)
    assert (request.record.request_id, request.record.reported.duration_ms) == ("b", 3.5)
    assert (request.start_ns, request.end_ns) == (NOW + 2 * MS, NOW + 5 * MS)
    assert shared(requests) == {"a": 2}
    (request,) = after([started("a", 50)], [reported("a", 40)]).ended(LATER)
    assert request.end_ns == request.start_ns  # the clock may have been set back


def test_a_kill_may_be_that_of_any_request_that_ran() -> None:
    requests = after([started("a", 0), started("b", 1), reported("a", 5, "timeout")])
    requests.killed(1)
    requests.join([started("c", 10)], NOW)
    assert {request.record.request_id: request.kills for request in requests.take_all(NOW)} == {"a": 1, "b": 1, "c": 0}


def test_how_many_run_ended_or_wait_for_a_start_is_bounded() -> None:
    """A flood of deliveries comes faster than cuts may be made."""
    requests = after(spans(*((2 * number, 2 * number + 1) for number in range(MOST_RUNNING + 5))))
    assert (len(requests.ended(LATER)), requests.lost) == (MOST_RUNNING, 5)
    requests = after([reported(f"{number}", number) for number in range(MOST_EARLY + 5)])
    assert requests.lost == 5
    requests.join([started("0", 0), started(f"{MOST_EARLY}", 0)], LATER)
    assert ids(requests.ended(LATER)) == [f"{MOST_EARLY}"]


def test_of_more_than_can_run_the_oldest_have_ended() -> None:
    """Reports are lost, and a request may run for 90 minutes: those that come meanwhile must not be lost."""
    requests = after([started(f"{number}", number) for number in range(MOST_RUNNING + 5)])
    assert (requests.running(), requests.lost) == (MOST_RUNNING, 0)
    ended = requests.ended(LATER)
    assert ids(ended) == [f"{number}" for number in range(5)]
    assert {(request.end_ns, request.record.reported.report_came) for request in ended} == {(LATER, False)}


def passed(requests: Requests, name: str, start_ms: int, end_ms: int) -> None:
    """In exact mode."""
    invocation: Any = SimpleNamespace(request_id=name, unsure=False, answer=None, size=None, failed=False)
    requests.began(invocation, NOW + start_ms * MS)
    requests.ended_at(invocation, NOW + end_ms * MS)


def test_what_has_passed_of_a_request_is_kept_until_it_has_ended() -> None:
    """Also of one whose report was lost."""
    requests = Requests()
    for name in ("a", "b"):
        passed(requests, name, 3, 7)
    requests.join([started("a", 2), started("b", 2), reported("a", 8)], LATER)
    requests.end_overdue(NOW + LONGEST_NS + 10 * MS)
    ended = requests.ended(NOW + LONGEST_NS + 10 * MS)
    assert [request.take_exact_times() for request in ended] == [True, True]
    assert {(request.start_ns, request.end_ns) for request in ended} == {(NOW + 3 * MS, NOW + 7 * MS)}
    assert not requests._passages
