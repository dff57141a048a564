"""Many ordinary invocations in one line: what of each is told, what has a line of its own, how long it may wait."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from truemem.batch import BatchLines
from truemem.config import Config
from truemem.heaps.page import RuntimeHeap, Settled
from truemem.line_schema import MEMBERS, METRICS
from truemem.malloc import MALLOC_NOTE
from truemem.platform.telemetry import REPORT
from truemem.records import record as records
from truemem.records.pending_record import DeathReport, Measured, PendingRecord
from truemem.records.record import finished
from truemem.wings import HEAP_NOTE
from truemem_workbench.printed.document import OF_THE_LAST, spread

from testing.emf_check import VALUES, valid_emf
from tests.records import BEGUN_MS, event, fits, printed, record, succeeded, window

ON = {b"TRUEMEM_AGGREGATE": b"60"}
WHOLE = {b"TRUEMEM_DETAIL": b"always"}
"""Lines with all members."""
OF_ALL = ("rss", "holders", "requestId")
"""As of the last of them."""

Capture = pytest.CaptureFixture[str]


def numbers(line: str) -> list[int]:
    """Of the invocations that it tells of."""
    return [one["invocation"] for one in spread(json.loads(line))]


def test_a_hundred_are_one_line_a_fifth_as_long(capfd: Capture) -> None:
    hundred = [record(number, 90 + number / 7, 100 + number / 3) for number in range(1, 101)]
    (together,) = printed(capfd, hundred, ON)
    alone = printed(capfd, hundred, {})
    assert len(valid_emf(together)["PeakRSS"]) == len(alone) == VALUES
    assert len(together) < len("".join(alone)) / 5
    for name, value in json.loads(together).items():
        several = name in METRICS and isinstance(value, list)
        assert fits([MEMBERS[name]] if several else MEMBERS[name], value), (name, value)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    made=st.lists(
        st.tuples(
            st.floats(1, 400), st.floats(0, 500), st.booleans(), st.integers(0, 50_000), st.sampled_from(["", "t"])
        ),
        min_size=1,
        max_size=130,
    )
)
def test_taken_apart_it_is_the_lines_that_each_would_have_had(capfd: Capture, made: list[Any]) -> None:
    records, time_ms = [], BEGUN_MS
    for number, (held, high, raced, later_ms, tenant) in enumerate(made, 1):
        report = succeeded(1 + later_ms / 8, tenantId=tenant)
        records.append(record(number, held, high, raced=raced, report=report))
        records[-1].time_ms = time_ms = time_ms + later_ms
    alone = [json.loads(line) for line in printed(capfd, records, WHOLE)]
    together = [valid_emf(line) for line in printed(capfd, records, ON | WHOLE)]
    apart = [one for line in together for one in spread(line)]
    kept = set(MEMBERS) - OF_THE_LAST | {"requestId", "raced", "invocation", "durationMs", "peakUpper"}
    kept |= {"PeakRSS", "CurrentRSS", "MaxMemoryUsed"}
    for was, now in zip(alone, apart, strict=True):
        assert was["_aws"]["Timestamp"] == now["_aws"]["Timestamp"]
        for name in kept - {"_aws", "environmentId"}:
            assert was.get(name) == now.get(name), name
    for line in together:
        last = alone[line["invocation"] - 1]
        assert [line.get(name) for name in OF_ALL] == [last[name] for name in OF_ALL]


def test_what_is_found_without_taking_it_apart(capfd: Capture) -> None:
    (text,) = printed(capfd, [record(number, 90, 300 if number == 5 else 100) for number in range(1, 31)], ON)
    line = valid_emf(text)
    assert line["aggregate"]["invocations"] == 30
    assert line["aggregate"]["peakMax"] == 300
    assert line["aggregate"]["peakRequestId"] == record(5, 0).request_id
    names = list(line)
    # Logs Insights finds 200 members of a line: columns come last
    assert names[-4:] == ["aggregate", "PeakRSS", "CurrentRSS", "MaxMemoryUsed"]
    assert list(line["aggregate"])[:3] == ["invocations", "peakMax", "peakRequestId"]


ASKS_FOR_ATTENTION: dict[str, Callable[[PendingRecord], object]] = {
    "a cold start": lambda one: one.follows_init(cold_start=True, suppressed=False),
    "a reset": lambda one: one.follows_init(cold_start=False, suppressed=True),
    "an error": lambda one: one.join(event(REPORT, status="error")),
    "a timeout": lambda one: one.join(event(REPORT, status="timeout")),
    "out of memory": lambda one: one.killed(1),
    "a death": lambda one: one.died(DeathReport("failure", 1, 0.0, {})),
    "the last": lambda one: one.close(Measured(one.window, "shutdown")),
    "never seen": lambda one: one.close(Measured(window(), "next-invoke")),
    "a request id of two words": lambda one: setattr(one, "request_id", "a b"),
    "what it keeps": lambda one: one.note(HEAP_NOTE, RuntimeHeap("nodejs", 9000, 9000, settled=Settled(9000, 0, None))),
    "what malloc has": lambda one: one.note(MALLOC_NOTE, {"inUse": 1.5, "source": "outside"}),
}


@pytest.mark.parametrize("ask", ASKS_FOR_ATTENTION.values(), ids=ASKS_FOR_ATTENTION)
def test_what_asks_for_attention_has_its_own_line_in_its_place(
    ask: Callable[[PendingRecord], object], capfd: Capture
) -> None:
    records = [record(number, 90) for number in range(1, 8)]
    ask(records[3])
    lines = printed(capfd, records, ON)
    assert [numbers(line) for line in lines] == [[1, 2, 3], [4], [5, 6, 7]]
    assert "aggregate" not in json.loads(lines[1])


def test_what_differs_in_kind_is_not_mixed(capfd: Capture) -> None:
    records = [record(number, 90, report=None if number in (3, 4) else succeeded()) for number in range(1, 7)]
    lines = printed(capfd, records, ON)
    assert [numbers(line) for line in lines] == [[1, 2], [3, 4], [5, 6]]
    assert [json.loads(line).get("reportMissing") for line in lines] == [None, True, None]


@pytest.mark.parametrize("value", [b"0", b"off", b""])
def test_off_is_the_default_and_one_alone_has_its_usual_line(value: bytes, capfd: Capture) -> None:
    assert len(printed(capfd, [record(1, 90), record(2, 90)], {b"TRUEMEM_AGGREGATE": value})) == 2
    ((alone,), (together,)) = (printed(capfd, [record(1, 90)], environ) for environ in ({}, ON))
    same = {"environmentId": ""}  # of another environment
    assert json.loads(together) | same == json.loads(alone) | same


def test_none_waits_for_longer_than_it_may() -> None:
    first, late = (finished(record(number, 90), Config({}), "") for number in (1, 2))
    late.time_ms = first.time_ms + 10_000

    def waiting() -> BatchLines:
        config = Config({b"TRUEMEM_AGGREGATE": b"10"})
        lines = BatchLines(config, lambda each: records.line(each, config))
        assert lines.add(first, 0) == []
        return lines

    assert BatchLines(Config({}), lambda _: "alone").overdue(first.time_ms) == []
    assert waiting().overdue(first.time_ms + 9_999) == []
    for now_ms in first.time_ms + 10_000, first.time_ms - 1:  # or the clock was set back
        assert len(waiting().overdue(now_ms)) == 1
    assert [numbers(line.text) for line in waiting().add(late, 0)] == [[1]]


def test_the_last_verdict_that_came_within_is_told(capfd: Capture) -> None:
    lines = printed(capfd, [record(number, 90 + number) for number in range(1, 151)], ON)
    told = [json.loads(line) for line in lines]
    assert [line["invocation"] for line in told] == [100, 150]
    for line in told:
        assert line["MemoryDrift"] == line["drift"]["perInvocationKiB"]
        assert {"Name": "MemoryDrift", "Unit": "Kilobytes"} in line["_aws"]["CloudWatchMetrics"][0]["Metrics"]
    assert [line["drift"]["verdict"] for line in told] == ["warming", "growing"]
    assert [line.get("MemoryGrowing") for line in told] == [None, 1]


def test_a_verdict_taken_back_within_the_line_is_not_told(capfd: Capture) -> None:
    def lines(environ: dict[bytes, bytes]) -> list[Any]:
        made = [record(number, 90 + min(number, 130)) for number in range(1, 301)]
        return [json.loads(line) for line in printed(capfd, made, environ)]

    assert [line["invocation"] for line in lines({}) if "MemoryGrowing" in line] == [128, 144]
    together = lines(ON)
    assert [line["drift"]["verdict"] for line in together] == ["warming", "plateau", "plateau"]
    assert [line["drift"].get("ended") for line in together] == [None, "levelled off", "levelled off"]
    assert not any("MemoryGrowing" in line for line in together)
