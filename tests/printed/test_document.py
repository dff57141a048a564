"""Short lines, common ones and those without metadata: to all readers they are the invocations that full lines have."""

import json
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import asdict
from truemem.line_schema import SMALL_BYTES
from truemem.measure.window import NEVER_NS, Boundary
from truemem.platform.telemetry import REPORT
from truemem.records.pending_record import Exchange, Measured, PendingRecord
from truemem_workbench.judge.drift import points
from truemem_workbench.page.environments import gather
from truemem_workbench.printed.line import Line, read

from tests.records import event, printed, record, succeeded, window
from tests.report.conftest import Command
from tests.report.written import log

Environ = dict[bytes, bytes]
FULL = {b"TRUEMEM_DETAIL": b"always"}
SHORT: Environ = {}
TOGETHER = {b"TRUEMEM_AGGREGATE": b"60"}
PLAIN = {b"TRUEMEM_OUTPUT": b"json"}
OTHERS = pytest.mark.parametrize(
    "environ", [SHORT, TOGETHER, PLAIN, TOGETHER | PLAIN], ids=["short", "together", "plain", "plain and together"]
)
INVOCATIONS = 256
"""The last line is full in any case: what it says of holders is in the report."""


def life(*, is_exact: bool) -> list[PendingRecord]:
    """An environment that grows by 0.5 MiB in each invocation, with races, a spike, failures and large events."""
    records = []
    for number in range(1, INVOCATIONS + 1):
        held, peak = 90 + number / 2, 240 + number % 9 + 40 * (number == 77)
        failed = event(REPORT, status="error", errorType="Runtime.ExitError", duration_ms=9, mark_mib=100)
        report = failed if number % 50 == 7 else succeeded(10 + number / 8)
        made = record(number, held, peak, raced=not is_exact and number % 50 == 3, report=report)
        if is_exact:
            measured = made.measured
            assert measured is not None
            closed = window((peak, held), baseline=held - 0.5 * (number % 2), opening=Boundary(NEVER_NS))
            made.close(Measured(closed, "next-request", memory=measured.memory))
            made.answer = Exchange(number * 300, 5_000_000 if number % 3 else 20, failed=False)
        records.append(made)
    return records


class Logs:
    """The same two environments, one in exact mode, as the sidecar prints them with different settings."""

    def __init__(self, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
        self.folder, self.capfd = folder, capfd

    def __call__(self, environ: Environ) -> Path:
        lines = [
            json.dumps(json.loads(text) | {"environmentId": stream})
            for stream, is_exact in (("2026/11/21/[7]a", False), ("2026/11/21/[7]b", True))
            for text in printed(self.capfd, life(is_exact=is_exact), {b"TRUEMEM_PROPERTIES": b"model=7b"} | environ)
        ]
        return log(self.folder, lines, f"{b','.join(environ.values()).decode()}.log")


@pytest.fixture
def logs(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Logs:
    return Logs(tmp_path, capfd)


def test_most_lines_are_short_unless_full_ones_are_asked_for(logs: Logs) -> None:
    short, full = (
        [json.loads(text)["schema"] for text in logs(each).read_text().splitlines()] for each in (SHORT, FULL)
    )
    assert set(full) == {1}
    assert 0.85 < short.count(2) / len(short) < 1


NOT_COMPARED = ("members", "rss", "holders", "environment_memory", "schema")


def comparable(line: Line) -> dict[str, Any]:
    """The fields, without what only full lines say, and without small payloads."""
    fields = {name: value for name, value in asdict(line).items() if name not in NOT_COMPARED}
    small = [name for name in ("request_bytes", "response_bytes") if (fields[name] or 0) < SMALL_BYTES]
    return fields | dict.fromkeys(small, 0.0)


def test_invocations_of_short_lines_are_those_of_full_ones(logs: Logs) -> None:
    short, full = ([*read([logs(each)])] for each in (SHORT, FULL))
    assert len(short) == 2 * INVOCATIONS
    assert [comparable(line) for line in short] == [comparable(line) for line in full]


def on_common_lines(line: Line) -> tuple[Any, ...]:
    return line.request_id, line.time_ms, line.may_repeat, line.duration_ms, line.peak_upper, line.max_memory_used


@OTHERS
def test_all_lines_have_the_same_invocations(environ: Environ, logs: Logs) -> None:
    others, full = ([*read([logs(each)])] for each in (environ, FULL))
    assert points(others) == points(full)
    assert [*map(on_common_lines, others)] == [*map(on_common_lines, full)]


def costs(document: Any) -> list[float]:
    """What the lines of each function cost. Takes that out of the report, and what is on no common line: what an
    invocation found, by which parts are in order."""
    for each in document["environments"]:
        del each["line_bytes"]
    for each in document["parts"]:
        del each["added_p50"], each["left_mean"], each["left_sum"]
    document["parts"].sort(key=itemgetter("value"))
    document["sentences"] = [each for each in document["sentences"] if "log lines" not in each]
    return [each.pop("cost")["log_lines"] for each in document["functions"]]


NOT_SPELLED_OUT = ("status", "level", "closedBy", "functionVersion", "processes", "threads")
OPTIONS = [(), ("--since", "2023-11-14T22:13:35Z"), *(("--by", name) for name in ("model", *NOT_SPELLED_OUT))]


@pytest.mark.parametrize("more", OPTIONS, ids=" ".join)
@OTHERS
def test_a_report_says_the_same(environ: Environ, more: tuple[str, ...], logs: Logs, truemem: Command) -> None:
    others, full = (truemem("report", logs(each), "--json", *more).document for each in (environ, FULL))
    assert others["lines"] == full["lines"] > 0
    assert costs(others) < costs(full)
    assert others == full


def test_the_page_says_the_same(logs: Logs) -> None:
    for one, other in zip(*(gather(read([logs(each)])) for each in (SHORT, FULL)), strict=True):
        assert (one.words, one.version, one.limit, one.holders) == (
            other.words,
            other.version,
            other.limit,
            other.holders,
        )
        assert str(one.columns) == str(other.columns)  # NaN is equal to nothing
        assert one.finding == other.finding


def test_one_that_may_repeat_counts_once(logs: Logs, tmp_path: Path, truemem: Command) -> None:
    """The process was killed while it printed them together: the next one cannot know, and tells of each again."""
    again = [json.loads(text) | {"recovered": True, "mayRepeat": True} for text in logs(PLAIN).read_text().splitlines()]
    lines = [*logs(TOGETHER).read_text().splitlines(), *map(json.dumps, again[:100])]
    both = log(tmp_path, lines, "both.log")
    assert len([*read([both])]) == 2 * INVOCATIONS
    report = truemem("report", both, "--json").document
    assert (report["functions"][0]["peaks"]["invocations"], report["repeated"]) == (2 * INVOCATIONS, 100)


@pytest.mark.parametrize(
    "aggregate",
    [
        {},
        {"requestId": 7},
        {"requestId": "a b", "invocation": "x", "startMs": [None], "durationMs": {}, "raced": [9]},
        {"requestId": "", "invocation": []},
        {"requestId": "a", "invocation": [1, 2, 3]},
    ],
)
def test_columns_of_another_kind_harm_nothing(aggregate: object, logs: Logs, tmp_path: Path, truemem: Command) -> None:
    usual = logs(FULL).read_text().splitlines()
    path = log(tmp_path, [*usual, json.dumps(json.loads(usual[-1]) | {"aggregate": aggregate})], "odd.log")
    assert 0 <= len([*read([path])]) - len(usual) <= 2
    assert truemem("report", path, "--json").document["environments"][0]["finding"]["cause"] == "leak"
