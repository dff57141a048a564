"""Many ordinary invocations in one line: what of each is told, what has a line of its own, how long it may wait."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from truemem.config import Config
from truemem.line_schema import MEMBERS
from truemem.records.batch_line import BatchLine
from truemem.records.out_of_memory import DeathReport
from truemem.records.record import finished
from truemem_workbench.lines.batch_line import OF_THE_LAST, spread
from truemem_workbench.testing.emf_check import VALUES, valid_emf

from tests.printed import BEGUN_MS, printed, record

ON = {b"TRUEMEM_AGGREGATE": b"60"}
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
    assert set(json.loads(together)) <= set(MEMBERS)


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
        one = record(number, held, high, raced=raced)
        one.time_ms = time_ms = time_ms + later_ms
        one.tenant_id, one.duration_ms = tenant or None, 1 + later_ms / 8
        records.append(one)
    alone = [json.loads(line) for line in printed(capfd, records, {})]
    together = [valid_emf(line) for line in printed(capfd, records, ON)]
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


ASKS_FOR_ATTENTION: dict[str, tuple[str, object]] = {
    "a cold start": ("cold_start", True),
    "a reset": ("suppressed_init", True),
    "an error": ("status", "error"),
    "a timeout": ("status", "timeout"),
    "out of memory": ("kernel_kills", 1),
    "a death": ("death", DeathReport("failure", 1, 0.0, {})),
    "the last": ("closed_by", "shutdown"),
    "never seen": ("peak", None),
    "a request id of two words": ("request_id", "a b"),
}


@pytest.mark.parametrize("why", ASKS_FOR_ATTENTION)
def test_whatever_asks_for_attention_has_its_own_line_in_its_place(why: str, capfd: Capture) -> None:
    records = [record(number, 90) for number in range(1, 8)]
    setattr(records[3], *ASKS_FOR_ATTENTION[why])
    lines = printed(capfd, records, ON)
    assert [numbers(line) for line in lines] == [[1, 2, 3], [4], [5, 6, 7]]
    assert "aggregate" not in json.loads(lines[1])


def test_what_differs_in_kind_is_not_mixed(capfd: Capture) -> None:
    records = [record(number, 90) for number in range(1, 7)]
    for late in records[2:4]:
        late.report_came, late.status, late.duration_ms, late.max_memory_used_mib = False, None, None, None
    lines = printed(capfd, records, ON)
    assert [numbers(line) for line in lines] == [[1, 2], [3, 4], [5, 6]]
    assert [json.loads(line).get("reportMissing") for line in lines] == [None, True, None]


@pytest.mark.parametrize("value", [b"0", b"off", b""])
def test_off_is_the_default_and_one_alone_has_the_line_that_it_always_has(value: bytes, capfd: Capture) -> None:
    assert len(printed(capfd, [record(1, 90), record(2, 90)], {b"TRUEMEM_AGGREGATE": value})) == 2
    ((alone,), (together,)) = (printed(capfd, [record(1, 90)], environ) for environ in ({}, ON))
    same = {"environmentId": ""}  # of another environment
    assert json.loads(together) | same == json.loads(alone) | same


def test_none_waits_for_longer_than_it_may() -> None:
    aggregate = BatchLine(10)
    first = finished(record(1, 90), Config({}), "")
    assert not aggregate.overdue(first.time_ms)
    aggregate.add(first)
    assert not aggregate.overdue(first.time_ms + 9_999)
    assert aggregate.overdue(first.time_ms + 10_000)
    assert aggregate.overdue(first.time_ms - 1)  # the clock was set back
    late = record(2, 90)
    late.time_ms = first.time_ms + 10_000
    assert not aggregate.fits(finished(late, Config({}), ""))


def test_the_last_verdict_that_came_within_is_told(capfd: Capture) -> None:
    lines = printed(capfd, [record(number, 90 + number) for number in range(1, 151)], ON)
    told = [json.loads(line) for line in lines]
    assert [line["invocation"] for line in told] == [100, 150]
    for line in told:
        assert line["MemoryDrift"] == line["drift"]["perInvocationKiB"]
        assert {"Name": "MemoryDrift", "Unit": "Kilobytes"} in line["_aws"]["CloudWatchMetrics"][0]["Metrics"]
    assert [line["drift"]["verdict"] for line in told] == ["warming", "growing"]
    assert [line.get("MemoryGrowing") for line in told] == [None, 1]


def test_a_verdict_that_another_took_back_within_the_line_is_not_told(capfd: Capture) -> None:
    def lines(environ: dict[bytes, bytes]) -> list[Any]:
        made = [record(number, 90 + min(number, 130)) for number in range(1, 301)]
        return [json.loads(line) for line in printed(capfd, made, environ)]

    assert [line["invocation"] for line in lines({}) if "MemoryGrowing" in line] == [128, 144]
    together = lines(ON)
    assert [line["drift"]["verdict"] for line in together] == ["warming", "plateau", "plateau"]
    assert [line["drift"].get("ended") for line in together] == [None, "levelled off", "levelled off"]
    assert not any("MemoryGrowing" in line for line in together)
