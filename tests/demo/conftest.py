"""Rows of an invented run, written as the sidecar would print them."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from truemem_workbench.demo.verdict import Row
from truemem_workbench.demo.workload import Call
from truemem_workbench.printed.line import parse_line

MakeRow = Callable[..., Row]


def emf(**members: Any) -> str:
    """A line of the sidecar."""
    return json.dumps({"_aws": {"Timestamp": 1, "CloudWatchMetrics": []}, "schema": 1, "environmentId": "e", **members})


@pytest.fixture
def make_row() -> MakeRow:
    """One row: peak, current and mark in MiB, other members as the line has them."""

    def make(number: int, peak: float, current: float, mark: float | None, batch: int = 1, **members: Any) -> Row:
        bounds = {"peakLower": peak, "peakUpper": peak, "method": "vmhwm"}
        line = emf(PeakRSS=peak, CurrentRSS=current, **{**bounds, **members})
        return Row(number=number, call=Call(number % 40, batch), record=parse_line(line), mark=mark)

    return make


@pytest.fixture
def spike_run(make_row: MakeRow) -> list[Row]:
    """The story: a level of 200 MiB, one peak of 500 in invocation 5 of 30, a mark that stays at 512."""
    return [
        make_row(
            number,
            peak=500 if number == 5 else 210 + number % 3,
            current=200 + number % 2,
            mark=512 if number >= 5 else 225,
            batch=4000 if number == 5 else 1,
        )
        for number in range(1, 31)
    ]
