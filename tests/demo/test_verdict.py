"""The sentences are true of the rows, whatever the rows are."""

import dataclasses
from typing import Any

import pytest
from truemem_workbench.demo.verdict import Row, headline, verdict
from truemem_workbench.demo.workload import Call

from tests.demo.conftest import MakeRow

POINT = "Max Memory Used keeps the worst moment. The function needed it once."
PLAIN = "Each invocation's own memory, beside Max Memory Used"


def test_a_spike_that_does_not_stay(spike_run: list[Row]) -> None:
    assert verdict(spike_run) == [
        "Max Memory Used rose from 225 to 512 MiB by invocation 5, and never fell again.",
        "The function's own peak was highest in invocation 5 (a batch of 4,000 rows): 500 MiB; in the next it was"
        " 210 MiB. In 25 of 30 invocations it was 10 % or more below the mark, by 301 MiB at the median.",
    ]
    assert headline(spike_run) == POINT


def test_a_run_that_failed_has_no_triumphant_title(spike_run: list[Row]) -> None:
    spike_run[4] = dataclasses.replace(spike_run[4], error="Runtime.OutOfMemory")
    assert headline(spike_run) == PLAIN


def test_growth_has_a_plain_title(make_row: MakeRow) -> None:
    rows = [make_row(n, peak=100 + 2 * n, current=99 + 2 * n, mark=112 + 2 * n) for n in range(1, 31)]
    mark, peaks = verdict(rows)
    assert mark == "Max Memory Used rose from 114 to 172 MiB, and never fell."
    assert peaks.startswith("The function's own peak was highest in invocation 30: 160 MiB. In 3 of 30")
    assert headline(rows) == PLAIN


def test_a_level_run_has_no_peak_below_the_mark(make_row: MakeRow) -> None:
    rows = [make_row(n, peak=100, current=90, mark=110) for n in range(1, 11)]
    assert verdict(rows) == [
        "Max Memory Used was 110 MiB from the first invocation to the last.",
        "The function's own peak was highest in invocation 1: 100 MiB; in the next it was 100 MiB."
        " It was never known to be 10 % or more below the mark.",
    ]


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
