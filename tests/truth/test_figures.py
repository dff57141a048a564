"""The benchmark of figures and intervals: does it see a false figure, and is every kind of work in every cell?"""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any, cast

import pytest

from benchmarks.kit.truth import Judged
from benchmarks.threads import cell, lives, planned, truth
from testing.environment import Record

FIXED = {"PeakRSS": 80.0, "baselineRSS": 30.0, "method": "vmhwm", "raced": None, "peakLower": None, "peakUpper": None}
THREADS = {"method": "vmhwm-threads", "peakLower": 80.0, "peakUpper": 120.0}


def record(**members: Any) -> Record:
    return cast("Record", SimpleNamespace(**{**FIXED, **members}))


def judged(known: float | None, **members: Any) -> Judged:
    return Judged("touch", record(**members), known, known)


@pytest.mark.parametrize(
    ("members", "known", "false"),
    [
        ({}, 80.4, False),
        ({}, 80.6, True),
        ({}, 79.4, True),
        (THREADS, 120.4, False),
        (THREADS, 120.6, True),
        (THREADS, 79.4, True),
        ({**THREADS, "peakUpper": None}, 1000.0, False),
        ({"raced": True, "peakLower": 30.0, "peakUpper": 80.0}, 35.0, False),
        ({}, None, False),
    ],
)
def test_a_truth_outside_of_the_bounds_is_false(members: dict[str, Any], known: float | None, false: bool) -> None:
    assert judged(known, **members).is_false is false


def test_a_cell_counts_figures_of_all_and_judges_the_traced() -> None:
    figures = [judged(80.3), *[judged(None)] * 6]
    assert cell([*figures, judged(121.0, **THREADS)]) == "87.5 % / 40.0 / 0.30 / 1"


def test_a_share_is_never_rounded_up() -> None:
    assert cell([*[judged(None)] * 9999, judged(None, **THREADS)]) == "99.9 % / 40.0"


def test_what_was_given_back_before_the_window_is_no_truth() -> None:
    assert truth(record(), [90.0, 30.2, 75.0, 31.0]) == 75.0
    assert truth(record(baselineRSS=None), [90.0, 30.2, 75.0]) == 90.0


def test_every_kind_of_work_is_in_every_cell() -> None:
    events = [event["work"] for life in lives(("touch", "twice", "small"), 900) for event in life]
    assert Counter(events) == {"touch": 300, "twice": 300, "small": 300}


def test_the_modes_take_turns_and_half_is_traced() -> None:
    keys = {("exact", "idle"): 1200, ("default", "idle"): 300}
    plan = planned(("touch",), keys)
    assert "".join(mode[0] for (mode, _), _, _ in plan) == "edeeedee"
    traced = {key: sum(len(life) for of, is_traced, life in plan if is_traced and of == key) for key in keys}
    assert traced == {key: count / 2 for key, count in keys.items()}
