"""Every query of docs/queries.md, on lines of real runs: its answer is what the invocations did."""

import json
import re
from typing import Any

import pytest
from truemem.line_schema import MEMBERS
from truemem_workbench.printed.document import completed
from truemem_workbench.support.untrusted_text import parsed

from tests.attach.captured import RUNS, VENDOR, live, stored
from tests.attach.insights import SYSTEM_FIELDS, LogEvent, discovered, names, run
from tests.attach.pages import Block, block, blocks

PAGE = "queries.md"
STORED = stored()
QUERIES = [made for made in blocks(PAGE) if made.language == "cwli"]

Answer = dict[str, Any]
"""A row."""


def ask(name: str, *logs: list[LogEvent]) -> list[Answer]:
    """The answer of the query of that name, on the lines of these environments."""
    return run(block(PAGE, name), [event for log in logs for event in log])


def environment_id(log: list[LogEvent]) -> Any:
    (found,) = {row["environmentId"] for row in map(discovered, log) if "environmentId" in row}
    return found


def of(log: list[LogEvent], rows: list[Answer]) -> Answer:
    (row,) = (row for row in rows if row["environmentId"] == environment_id(log))
    return row


# --- all of them ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.name)
def test_a_query_finds_fields_that_lines_have(query: Block) -> None:
    rows = ask(query.name, *STORED.values())
    assert rows
    assert any(None not in row.values() for row in rows)  # no column that is always empty
    used = names(query.text)
    assert used <= {name for log in STORED.values() for event in log for name in discovered(event)}
    assert {name.partition(".")[0] for name in used} <= {*MEMBERS, *SYSTEM_FIELDS}


def spelled_out(event: LogEvent) -> LogEvent:
    """The event, a short line with all that follows from it: as a line was when there were no short ones."""
    line = parsed(event.message)
    if not isinstance(line, dict) or "environmentId" not in line:
        return event
    return event._replace(message=json.dumps(dict(completed(line)), separators=(",", ":")))


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.name)
def test_short_lines_answer_as_if_they_were_spelled_out(query: Block) -> None:
    def answers(events: list[LogEvent]) -> list[Answer]:
        return [{name: value for name, value in row.items() if name != "@message"} for row in run(query.text, events)]

    events = [event for log in STORED.values() for event in log]
    assert any('"schema":2' in event.message for event in events)
    assert answers(events) == answers(list(map(spelled_out, events)))


def first_words(log: list[LogEvent]) -> list[str]:
    """The names on the line about what the environment allows."""
    (line,) = (event.message for event in log if event.message.startswith("truemem INFO method="))
    return re.findall(r"(\w+)=", line)


def test_the_stored_lines_are_like_those_of_today() -> None:
    anew, today = "python -m tests.attach.captured", live(RUNS["spike"])
    stored = {name for events in STORED.values() for event in events for name in discovered(event)}
    known = {name.partition(".")[0] for name in stored}
    found = {name for event in today for name in discovered(event)}
    assert {name for name in found if name.partition(".")[0] in known} <= stored, (
        anew
    )  # a new member needs no new lines
    assert first_words(today) == first_words(STORED["spike"]), anew


# --- a leak and a spike -----------------------------------------------------------------------------------------------


def over_time(log: list[LogEvent], rows: list[Answer]) -> list[Answer]:
    """The rows about that environment, by time: a run may fall on the edge of two bins."""
    return sorted((row for row in rows if row["environmentId"] == environment_id(log)), key=lambda row: row["bin(5m)"])


def test_the_one_plot_has_a_line_for_each_environment() -> None:
    rows = ask("the-one-plot", STORED["leak"], STORED["spike"])
    assert {row["environmentId"] for row in rows} == {environment_id(STORED["leak"]), environment_id(STORED["spike"])}
    assert max(row["current"] for row in over_time(STORED["leak"], rows)) > 8 * (len(RUNS["leak"].events) - 1)
    assert max(row["current"] for row in over_time(STORED["spike"], rows)) < 60
    assert {row["bin(5m)"] % 300_000 for row in rows} == {0}


def test_a_spike_is_in_peak_and_mark_and_not_in_current() -> None:
    rows = over_time(STORED["spike"], ask("peak-current-mark", STORED["leak"], STORED["spike"]))
    assert max(row["peak"] for row in rows) > 300
    assert max(row["mark"] for row in rows) > 300
    assert max(row["current"] for row in rows if row["current"] is not None) < 60


def test_invocations_come_in_order() -> None:
    rows = ask("invocations", STORED["spike"])
    assert [row["invocation"] for row in rows] == list(range(1, len(RUNS["spike"].events) + 1))
    highest = max(rows, key=lambda row: row["PeakRSS"])
    assert highest["invocation"] == 2
    after = [row for row in rows if row["invocation"] > 2]
    assert all(row["MaxMemoryUsed"] > 300 for row in after)
    assert all(row["CurrentRSS"] < 60 for row in after[:-1])  # the last may not have been looked at


def test_drift_is_told_from_a_spike() -> None:
    rows = ask("drift", STORED["leak"], STORED["spike"])
    assert [row["environmentId"] for row in rows] == [environment_id(STORED["leak"]), environment_id(STORED["spike"])]
    leak, spike = rows
    assert leak["lines"] == len(RUNS["leak"].events) - 3  # the first two, and the last, are left out
    assert leak["slopeKiB"] == pytest.approx(8 * 1024, rel=0.5)
    assert leak["lastRSS"] > leak["firstRSS"] + 20
    assert abs(spike["slopeKiB"]) < 1024


def test_the_sidecars_own_verdict_on_each_environment() -> None:
    rows = ask("verdicts", *STORED.values())
    (row,) = (row for row in rows if row["environmentId"] == environment_id(STORED["drift"]))
    assert row["verdict"] == "warming"  # it grows; too early to call it a leak
    assert row["perInvocationKiB"] == pytest.approx(1024, rel=0.05)
    assert row["low"] <= row["perInvocationKiB"]
    assert row["perMinuteKiB"] > row["perInvocationKiB"]
    assert row["invocations"] == len(RUNS["drift"].events)
    assert {row["environmentId"] for row in rows} == {environment_id(STORED[name]) for name in ("drift", "hot")}


def test_the_right_size_is_the_peaks_not_the_mark() -> None:
    (row,) = ask("right-size", STORED["spike"])
    assert (row["invocations"], row["size"]) == (len(RUNS["spike"].events), 512)
    assert row["p50"] < 60
    assert row["highest"] > 300
    assert row["mark"] > 300
    assert row["p99"] == row["highest"]


def test_a_cold_start_for_each_environment() -> None:
    (row,) = ask("cold-starts", STORED["leak"], STORED["spike"])
    assert row["starts"] == 2
    assert 5 < row["p50"] <= row["highest"] < 60


def test_every_invocation_is_counted_by_how_exact_it_was() -> None:
    rows = ask("how-exact", STORED["leak"], STORED["spike"])
    inexact = ask("not-exact", STORED["leak"], STORED["spike"])
    invocations = len(RUNS["leak"].events) + len(RUNS["spike"].events)
    assert sum(row["invocations"] for row in rows) == invocations
    exact = sum(row["invocations"] - row["intervals"] for row in rows if row["method"] == "vmhwm")
    assert invocations - len(inexact) <= exact
    assert sum(row["method"] == "sampled" for row in inexact) == 2  # the last ones


# --- whatever else can happen -----------------------------------------------------------------------------------------


def test_near_the_limit() -> None:
    rows = ask("near-the-limit", *STORED.values())
    assert {row["environmentId"] for row in rows} <= {
        environment_id(STORED[name]) for name in ("near the limit", "out of memory", "child killed")
    }
    row = of(STORED["near the limit"], rows)
    assert row["invocation"] == 2
    assert row["percent"] == pytest.approx(row["PeakRSS"] / 256 * 100)
    assert 80 <= row["percent"] < 100


@pytest.mark.parametrize(
    ("name", "status", "error"),
    [
        ("out of memory", "error", "Runtime.OutOfMemory"),
        ("timeout", "timeout", None),
        ("crash", "error", "Runtime.ExitError"),
    ],
)
def test_an_invocation_that_failed_is_found(name: str, status: str, error: str | None) -> None:
    row = of(STORED[name], ask("failed", *STORED.values()))
    assert (row["status"], row["errorType"], row["invocation"]) == (status, error, 2)


def test_out_of_memory_by_every_signal() -> None:
    rows = ask("out-of-memory", *STORED.values())
    died, child = of(STORED["out of memory"], rows), of(STORED["child killed"], rows)
    assert (died["signal"], died["status"], died["invocation"]) == ("Runtime.OutOfMemory", "error", 2)
    assert died["ending.level"] > 100
    assert str(died["ending.holder.process"]).startswith("python")
    assert (child["signal"], child["status"], child["ending.level"]) == ("kernel", "success", None)
    assert len(rows) == 2


def test_an_out_of_memory_that_comes_twice_counts_once() -> None:
    (row,) = ask("out-of-memory-once", *STORED.values(), STORED["out of memory"])
    assert row == {"invocations": 2, "environments": 2}


def test_failures_are_counted_by_kind() -> None:
    rows = ask("failures-by-kind", *STORED.values())
    assert {row["kind"]: row["invocations"] for row in rows} == {
        "Runtime.OutOfMemory": 1,
        "Runtime.ExitError": 1,
        "timeout": 1,
    }


def test_what_the_platform_says_of_an_oom() -> None:
    (row,) = ask("platform-out-of-memory", *STORED.values())
    assert row["@logStream"] == STORED["out of memory"][0].stream
    assert "Max Memory Used: 256 MB\tStatus: error\tError Type: Runtime.OutOfMemory" in str(row["@message"])


def test_who_holds_the_memory() -> None:
    rows = ask("who-holds-the-memory", *STORED.values())
    vendor = of(STORED["vendor"], rows)
    assert f'"{VENDOR}":' in str(vendor["extensionsHold"])
    assert 1 < vendor["truememHolds"] < 40
    assert vendor["environmentUsed"] > 32
    leak = of(STORED["leak"], rows)
    assert leak["extensionsHold"] is None
    assert leak["ofInvocation"] == 4  # of eight: the last that is full, but for that of the shutdown
    assert leak["functionHolds"] > 8 * (leak["ofInvocation"] - 1)


def test_one_extension() -> None:
    rows = ask("one-extension", *STORED.values())
    assert {row["environmentId"] for row in rows} == {environment_id(STORED["vendor"])}
    assert all(row["vendorAgent"] > 32 for row in rows)


def test_many_invocations_in_one_line() -> None:
    rows = ask("together", STORED["hot"])
    assert sum(row["invocations"] for row in rows) == len(RUNS["hot"].events) - 2  # cold start and last: alone
    assert 60 < max(row["peak"] for row in rows) <= max(row["ownMark"] for row in rows) < 120


def test_what_got_lost() -> None:
    rows = ask("lost", *STORED.values())
    silent = environment_id(STORED["no telemetry"])
    assert sorted(row["invocation"] for row in rows if row["environmentId"] == silent) == [1, 2]
    garbage = [row for row in rows if row["environmentId"] == environment_id(STORED["garbage"])]
    assert sum(row["dropped"] for row in garbage) == len(RUNS["garbage"].events)
    healthy = {environment_id(STORED[name]) for name in ("leak", "spike", "vendor")}
    assert not healthy & {row["environmentId"] for row in rows}


def test_several_processes_are_not_exact() -> None:
    child = environment_id(STORED["child"])
    rows = [row for row in ask("not-exact", *STORED.values()) if row["environmentId"] == child]
    assert {row["method"] for row in rows} >= {"vmhwm-sum"}


def test_lost_races_are_intervals() -> None:
    counted = [row for row in ask("how-exact", STORED["race"]) if row["method"] == "vmhwm"]
    intervals = sum(row["intervals"] for row in counted)
    rows = [row for row in ask("not-exact", STORED["race"]) if row["method"] == "vmhwm"]
    assert 0 < intervals == len(rows)
    assert all(row["peakUpper"] > row["peakLower"] for row in rows)
