"""Short lines and full ones: to all readers they are the same invocations."""

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import asdict
from truemem.line_schema import SMALL_BYTES
from truemem.measure.window import NEVER_NS, Boundary
from truemem.platform.telemetry import REPORT
from truemem.records.pending_record import Exchange, PendingRecord
from truemem_workbench.page.environments import gather
from truemem_workbench.printed.line import Line, read

from tests.records import event, printed, record, succeeded, window
from tests.report.conftest import Command
from tests.report.test_aggregate import log_costs
from tests.report.written import log

ENVIRON = {b"TRUEMEM_PROPERTIES": b"model=7b"}
ALWAYS = {b"TRUEMEM_DETAIL": b"always"}
NOT_COMPARED = {
    *("members", "rss", "holders", "environment_memory", "schema"),
}
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
            made.close(measured._replace(window=closed, closed_by="next-request"))
            made.answer = Exchange(number * 300, 5_000_000 if number % 3 else 20, failed=False)
        records.append(made)
    return records


@pytest.fixture
def logs(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> tuple[Path, Path]:
    """Two environments, one in exact mode: with short lines, and with full ones alone."""

    def made(environ: dict[bytes, bytes], name: str) -> Path:
        lines = (
            json.dumps(json.loads(text) | {"environmentId": stream})
            for stream, is_exact in (("2026/11/21/[7]a", False), ("2026/11/21/[7]b", True))
            for text in printed(capfd, life(is_exact=is_exact), ENVIRON | environ)
        )
        return log(tmp_path, lines, name)

    return made({}, "short.log"), made(ALWAYS, "full.log")


def test_a_log_has_both_kinds(logs: tuple[Path, Path]) -> None:
    short, full = ([json.loads(text)["schema"] for text in path.read_text().splitlines()] for path in logs)
    assert set(full) == {1}
    assert 0.85 < short.count(2) / len(short) < 1


def comparable(line: Line) -> dict[str, Any]:
    """The fields, without what only full lines say, and without small payloads."""
    fields = {name: value for name, value in asdict(line).items() if name not in NOT_COMPARED}
    small = [name for name in ("request_bytes", "response_bytes") if (fields[name] or 0) < SMALL_BYTES]
    return fields | dict.fromkeys(small, 0.0)


def test_the_invocations_are_the_same(logs: tuple[Path, Path]) -> None:
    short, full = ([*read([path])] for path in logs)
    assert len(short) == 2 * INVOCATIONS
    assert [comparable(line) for line in short] == [comparable(line) for line in full]


NOT_SPELLED_OUT = ("status", "level", "closedBy", "functionVersion", "processes", "threads")
OPTIONS = [(), ("--by", "model"), ("--since", "2023-11-14T22:13:35Z"), *(("--by", name) for name in NOT_SPELLED_OUT)]


@pytest.mark.parametrize("more", OPTIONS, ids=" ".join)
def test_a_report_says_the_same(more: tuple[str, ...], logs: tuple[Path, Path], truemem: Command) -> None:
    short, full = (truemem("report", path, "--json", *more).document for path in logs)
    assert short["lines"] == full["lines"] > 0
    assert log_costs(short) < log_costs(full)
    assert short == full


def test_the_page_says_the_same(logs: tuple[Path, Path]) -> None:
    short, full = (gather(read([path])) for path in logs)
    for one, other in zip(short, full, strict=True):
        assert (one.words, one.version, one.limit, one.holders) == (
            other.words,
            other.version,
            other.limit,
            other.holders,
        )
        assert str(one.columns) == str(other.columns)  # NaN is equal to nothing
        assert one.finding == other.finding
