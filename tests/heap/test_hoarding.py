"""Hoarding, leak, or neither: from figures alone."""

from __future__ import annotations

import json
from typing import Any

import pytest
from truemem_workbench.analysis.heap import UNKNOWN, explain, hoarding, reading
from truemem_workbench.lines.record import Record, parse_line


def record(in_use: float, held: float, *, mapped: float = 1, other: float = 40, **members: Any) -> Record:
    """A line of the sidecar; `other` is what of RSS is not malloc's."""
    heap = {"inUse": in_use, "held": held, "mapped": mapped, "gc": [1, 2, 3], "threads": 1}
    rss = in_use + held + mapped + other
    line = {"_aws": {}, "schema": 1, "CurrentRSS": rss, "processes": 1, "heap": heap, **members}
    made = parse_line(json.dumps(line))
    assert made is not None
    return made


HOARDING = "hoarding; nothing else grows: not a leak. Set MALLOC_MMAP_THRESHOLD_=32768."
OTHERS = "what is not malloc's (Python's small objects, stacks, files) grows, from 44 to 54 MiB"


@pytest.mark.parametrize(
    ("lines", "alone", "said"),
    [
        ([record(75, 61)] * 20, True, f"61 MiB are freed but held by the allocator, beside 76 MiB in use: {HOARDING}"),
        ([record(75, 30 + n) for n in range(20)], True, "44 MiB (34 before) are freed but held"),
        ([record(75 + n, 61) for n in range(20)], False, "what is in use grows, from 80 to 90 MiB: a cache that fills"),
        ([record(75, 61, other=40 + n) for n in range(20)], False, OTHERS),
        ([record(75 + n, 61) for n in range(19)], False, "more invocations can tell whether something leaks"),
        ([record(36 + 0.04 * n, 34) for n in range(300)], False, "what is in use grows, from 43 to 49 MiB"),
    ],
    ids=["nothing grows", "held grows", "a leak", "Python's own objects leak", "a few readings", "a slow leak"],
)
def test_hoarding_is_told_and_hides_no_leak(lines: list[Record], alone: bool, said: str) -> None:
    found = hoarding(lines)
    assert found is not None
    assert found.alone is alone
    assert said in found.sentence()


@pytest.mark.parametrize(
    ("lines", "hoards", "said"),
    [
        (
            [record(75 + n, 3) for n in range(20)],
            False,
            "90 MiB are in use, 3 MiB freed but held by the allocator: no hoarding; what is in use grows, from 80 to 90"
            " MiB: a cache that fills, or a leak.",
        ),
        ([record(15, 2, mapped=59)] * 20, False, "no hoarding; nothing else grows: not a leak."),
        ([record(75, 61, processes=3)] * 20, True, "what is in use does not grow"),
        ([record(min(75.0, 10 + 3 * n), 61) for n in range(64)], True, HOARDING.partition("; ")[2]),
        ([record(1, 1, heap=None)], False, UNKNOWN),
    ],
    ids=["a leak", "after the repair", "several processes: only malloc's", "loaded in the first half", "no probe"],
)
def test_what_is_said_is_what_is_known(lines: list[Record], hoards: bool, said: str) -> None:
    assert (hoarding(lines) is not None) is hoards
    assert said in explain(lines)
    assert ("not a leak" in explain(lines)) is ("not a leak" in said)


@pytest.mark.parametrize("held", [None, "61", True, -1, [61], float("nan"), 10**400])
def test_a_figure_that_is_none_makes_no_reading(held: object) -> None:
    assert reading({"heap": {"inUse": 1, "held": held, "mapped": 1}}) is None


def test_lines_without_a_reading_are_passed_over() -> None:
    lines = [record(75, 61), record(1, 1, heap="none"), record(75, 61)]
    found = hoarding(lines)
    assert found is not None
    assert found.held == 61
