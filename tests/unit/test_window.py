"""The arithmetic of one window: the truth lies between the bounds, whatever was lost."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from truemem.linux.proc_text import Status
from truemem.measure.race import KERNEL_SLACK_KIB, Boundary, Sample
from truemem.measure.window import Peak, Window, current, peak

MiB = 1024

Levels = list[tuple[int, int]]
"""Watermark and RSS of each process, MiB."""


def status(hwm: int, rss: int) -> Status:
    return Status(hwm * MiB, rss * MiB, rss * MiB, 0, 0, 1)


def window(closing: list[Status], baseline: int = 50, before: int = 50, resets: bool = True) -> Window:
    made = Window(baseline * MiB, before * MiB, resets)
    made.closing = closing
    made.multi_process = len(closing) > 1
    return made


def around(hwm: int, kib: int = 0) -> Boundary:
    """An event whose time is not known, with one look that may lie after it: `hwm` in MiB, or `kib`."""
    made = Boundary()
    made.samples = [[Sample(1, hwm * MiB + kib, hwm * MiB + kib, 0, 0)]]
    return made


def known(made: Window) -> Peak:
    result = peak(made)
    assert result is not None
    return result


def mib(made: Window) -> tuple[int, int, int]:
    """Lower bound, estimate, upper bound."""
    result = known(made)
    return result.lower // MiB, result.estimate // MiB, result.upper // MiB


@pytest.mark.parametrize(
    ("closing", "settings", "sampled", "expected"),
    [
        ([(250, 60)], {}, 0, (250, 250, 250, "vmhwm")),
        ([(100, 60), (80, 20)], {}, 150, (150, 180, 180, "vmhwm-sum")),
        ([(400, 60)], {"before": 400, "resets": False}, 120, (120, 120, 400, "sampled")),
        ([(450, 60)], {"before": 400, "resets": False}, 120, (450, 450, 450, "sampled")),
        ([], {}, 120, (120, 120, 0, "sampled")),
    ],
    ids=["one process", "several processes", "no resets", "no resets, and a risen watermark", "the function is gone"],
)
def test_bounds_and_method(closing: Levels, settings: Any, sampled: int, expected: tuple[int, int, int, str]) -> None:
    made = window([status(*levels) for levels in closing], **settings)
    made.sampled = sampled * MiB
    assert mib(made) == expected[:3]
    assert (known(made).method, known(made).raced) == (expected[3], False)


@pytest.mark.parametrize(("hwm", "seen_mib", "upper", "raced"), [(60, 300, 300, True), (90, 90, 90, False)])
def test_what_ran_before_the_reset_is_below_the_watermark_that_closed_the_window_before(
    hwm: int, seen_mib: int, upper: int, raced: bool
) -> None:
    """Where that makes no difference it is not raced."""
    made = window([status(hwm, 55)])
    made.opening = around(hwm=seen_mib)
    assert (mib(made)[0], mib(made)[2], known(made).raced) == (hwm, upper, raced)


def test_at_an_unproven_end_the_lower_bound_is_what_proven_looks_saw() -> None:
    """Or the level at the opening; where that makes no difference it is not raced."""
    for levels, lower in [([(5, 90 * MiB), (8, 250 * MiB)], 90), ([], 50)]:
        made = window([status(300, 280)])
        made.end = Boundary()
        made.end.levels = levels
        made.end.prove(7)
        assert (mib(made)[0], mib(made)[2], known(made).raced) == (lower, 300, True)
    made = window([status(90, 60)])
    made.end = Boundary()
    made.end.levels = [(5, 90 * MiB - KERNEL_SLACK_KIB)]
    made.end.prove(7)
    assert not known(made).raced


def test_children_that_ended_widen_the_upper_bound_only() -> None:
    made = window([status(60, 55)])
    made.multi_process, made.ended, made.unseen = True, 40 * MiB, 5 * MiB
    assert mib(made) == (60, 100, 105)


def test_a_function_never_seen_has_no_peak() -> None:
    assert peak(Window(0, 0, resets=True)) is None


@pytest.mark.parametrize(("closing", "held"), [([(90, 60), (20, 5)], 65), ([], 40)], ids=["read", "gone: last seen"])
def test_what_was_left_behind_is_read_at_the_close(closing: Levels, held: int) -> None:
    made = window([status(*levels) for levels in closing])
    made.last = 40 * MiB
    assert current(made) == held * MiB


levels = st.integers(0, 10_000)


@given(st.lists(st.tuples(levels, levels), max_size=5), levels, levels, levels, st.booleans(), st.booleans())
def test_estimates_lie_within_the_bounds(
    closing: Levels, baseline: int, sampled: int, ended: int, exact: bool, resets: bool
) -> None:
    made = window([status(hwm + rss, rss) for hwm, rss in closing], baseline, baseline, resets)
    made.sampled, made.ended = sampled * MiB, ended * MiB
    if not exact:
        made.opening, made.end = around(hwm=sampled), Boundary()
    result = peak(made)
    if result is not None:
        assert result.lower <= result.estimate
        assert result.estimate <= result.upper or result.upper == 0


@given(st.lists(st.integers(0, 10_000), min_size=1, max_size=20), st.integers(0, 20))
def test_the_truth_of_one_process_is_never_outside(curve: list[int], hidden: int) -> None:
    """A process follows `curve`; its first points lie before the reset."""
    hidden = min(hidden, len(curve))
    seen = curve[hidden:] or curve[-1:]
    made = Window(seen[0], 0, True, around(hwm=0, kib=max(curve[:hidden], default=0)))
    made.closing = [Status(max(seen), seen[-1], seen[-1], 0, 0, 1)]
    result = known(made)
    assert result.lower <= max(curve) <= result.upper
