"""The sentences are true of the rows, whatever the rows are."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pytest
from truemem_workbench.analysis.heap import UNKNOWN
from truemem_workbench.demo.verdict import Row, headline, verdict
from truemem_workbench.demo.workload import Call

if TYPE_CHECKING:
    from tests.demo.conftest import MakeRow

POINT = "Max Memory Used keeps the worst moment. The function left it behind."
PLAIN = "Each invocation's own memory, beside Max Memory Used"


def test_a_spike_that_does_not_stay(spike_run: list[Row]) -> None:
    assert verdict(spike_run) == [
        "Max Memory Used rose from 225 to 512 MiB by invocation 5, and never fell again.",
        "The function's own peak was highest in invocation 5 (a batch of 4,000 rows): 500 MiB; in the next it was"
        " 210 MiB. In 25 of 30 invocations it was 10 % or more below the mark, by 301 MiB at the median.",
        "What it leaves behind is flat: current RSS 200 MiB over invocations 11 to 20, 200 MiB over the last 10"
        " (medians). As far as these invocations can tell, this is not a leak: it is a mark that cannot fall.",
        UNKNOWN,
    ]
    assert headline(spike_run) == POINT


def test_a_run_that_failed_has_no_triumphant_title(spike_run: list[Row]) -> None:
    spike_run[4] = dataclasses.replace(spike_run[4], error="Runtime.OutOfMemory")
    assert headline(spike_run) == PLAIN


def test_growth_is_not_called_flat(make_row: MakeRow) -> None:
    rows = [make_row(n, peak=100 + 2 * n, current=99 + 2 * n, mark=112 + 2 * n) for n in range(1, 31)]
    mark, peaks, left, _ = verdict(rows)
    assert mark == "Max Memory Used rose from 114 to 172 MiB, and never fell."
    assert peaks.startswith("The function's own peak was highest in invocation 30: 160 MiB. In 3 of 30")
    assert left.startswith("What it leaves behind still rises: current RSS 130 MiB over invocations 11 to 20, 150")
    assert "not a leak" not in left
    assert headline(rows) == PLAIN


def test_a_level_that_falls_is_said_to_fall(make_row: MakeRow) -> None:
    rows = [make_row(n, peak=300, current=300 - 5 * n, mark=310) for n in range(1, 21)]
    assert verdict(rows)[-2].startswith("What it leaves behind fell: ")


def test_flat_is_within_two_percent_or_two_mib(make_row: MakeRow) -> None:
    def left(before: float, after: float) -> str:
        rows = [make_row(n, peak=600, current=before if n <= 10 else after, mark=700) for n in range(1, 21)]
        return verdict(rows)[-2]

    assert "is flat" in left(500, 510)
    assert "still rises" in left(500, 510.1)
    assert "is flat" in left(20, 22)
    assert "still rises" in left(20, 22.1)
    assert "fell:" in left(510.3, 500)


def test_few_invocations_give_no_verdict_on_a_leak(make_row: MakeRow) -> None:
    rows = [make_row(n, peak=100, current=90, mark=110) for n in range(1, 11)]
    assert verdict(rows) == [
        "Max Memory Used was 110 MiB from the first invocation to the last.",
        "The function's own peak was highest in invocation 1: 100 MiB; in the next it was 100 MiB."
        " It was never known to be 10 % or more below the mark.",
        "Current RSS went from 90 to 90 MiB: 10 invocations are too few to call that flat or rising.",
        UNKNOWN,
    ]


def test_with_the_probe_it_names_hoarding_and_not_a_leak(make_row: MakeRow) -> None:
    heap = {"inUse": 100, "held": 50, "mapped": 10}
    rows = [make_row(n, peak=200, current=190 + n, mark=300, heap=heap, processes=3) for n in range(1, 21)]
    *_, left, told = verdict(rows)
    assert left == (
        "What it leaves behind still rises: current RSS 196 MiB over invocations 1 to 10, 206 MiB over the last 10"
        " (medians)."
    )
    assert told.startswith("50 MiB are freed but held by the allocator, beside 110 MiB in use: hoarding; ")


BELOW = "never known to be 10 % or more below the mark."
FELL = "Max Memory Used reached 300 MiB and fell once: a new environment starts with a new mark."


@pytest.mark.parametrize(
    ("marks", "members", "said"),
    [
        ([200] * 30, {"peakUpper": 190}, BELOW),
        ([200] * 30, {"peakUpper": None, "method": "sampled"}, f"{BELOW} (30 of the peaks are lower bounds"),
        ([300] * 14 + [130] * 16, {}, FELL),
    ],
    ids=["an upper bound near the mark", "a sampled peak is a lower bound", "a mark that fell: another environment"],
)
def test_what_proves_no_spike_has_a_plain_title(
    make_row: MakeRow, marks: list[float], members: dict[str, Any], said: str
) -> None:
    rows = [make_row(n, peak=100, current=90, mark=mark, **members) for n, mark in enumerate(marks, 1)]
    assert said in " ".join(verdict(rows)[:2])
    assert headline(rows) == PLAIN


def test_what_failed_and_what_was_not_measured_is_counted(make_row: MakeRow) -> None:
    failed = Row(number=2, call=Call(1), record=None, mark=512, error="Runtime.OutOfMemory")
    rows = [make_row(1, 100, 90, 110), failed, make_row(3, 100, 90, None), make_row(4, 100, 90, 110)]
    assert verdict(rows)[:2] == [
        "1 of 4 invocations failed, first number 2 (Runtime.OutOfMemory).",
        "2 of 4 invocations without a complete record, left out below: first number 2.",
    ]
    assert verdict([failed])[-1] == "Too few records to compare anything."
    assert headline([failed]) == PLAIN


def test_flat_at_the_end_of_a_long_rise_is_not_yet_no_leak(make_row: MakeRow) -> None:
    rows = [make_row(n, peak=500, current=300 + 40 * (1 - 0.96**n), mark=600) for n in range(1, 65)]
    left = verdict(rows)[-2]
    assert "What it leaves behind is flat of late" in left
    assert "Over all of them: Warming: it still grows" in left
    assert "not a leak" not in left
