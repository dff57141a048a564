"""Hoarding, leak, or neither: from malloc's figures, Python's blocks and RSS."""

from collections.abc import Callable
from typing import Any

import pytest
from truemem_workbench.judge.causes import find
from truemem_workbench.judge.curves import curves_of
from truemem_workbench.judge.finding import Commands, Finding
from truemem_workbench.judge.heap import malloc_heap

from testing.invented_lines import line, parsed

Curve = Callable[[int], float]


def found(
    in_use: Curve = lambda _: 75,
    held: Curve = lambda _: 3,
    *,
    other: Curve = lambda _: 40,
    blocks: Curve | None = None,
    invocations: int = 200,
    **members: Any,
) -> Finding:
    """The finding on an environment with these sizes in MiB; `other` is what of RSS is not malloc's."""
    texts = []
    for n in range(invocations):
        heap = {"inUse": in_use(n), "held": held(n), "mapped": 1, "blocks": round(blocks(n)) if blocks else None}
        rss = in_use(n) + held(n) + 1 + other(n)
        texts.append(line(n, **{"CurrentRSS": rss, "PeakRSS": rss + 5, "processes": 1, "heap": heap, **members}))
    return find(curves_of(parsed(texts)), Commands(again="again", repair="repair"))


SCENARIOS: dict[str, tuple[dict[str, Any], tuple[str, str, bool, bool]]] = {
    "much is held": ({"held": lambda _: 61}, ("hoarding", "malloc", False, False)),
    "held grows": ({"held": lambda n: 30 + n / 4}, ("hoarding", "malloc", False, True)),
    "in use grows": ({"in_use": lambda n: 75 + n / 4}, ("leak", "memory in use", False, True)),
    "a slow leak beside hoarding": (
        {"in_use": lambda n: 36 + 0.04 * n, "held": lambda _: 34},
        ("leak", "memory in use", False, True),
    ),
    "what was freed is kept": (
        {"in_use": lambda n: 75 + n / 8, "held": lambda n: 61 - n / 8},
        ("leak", "memory in use", True, True),
    ),
    "Python's objects grow": (
        {"other": lambda n: 40 + n / 4, "blocks": lambda n: 1e5 + 4096 * n},
        ("leak", "Python objects", False, True),
    ),
    "only what extensions of Python hold grows": (
        {"in_use": lambda n: 75 + n / 4, "blocks": lambda _: 1e5},
        ("leak", "large objects or native memory", False, True),
    ),
    "mapped memory grows": ({"other": lambda n: 40 + n / 4}, ("native", "mapped memory", False, True)),
    "after the repair": ({"in_use": lambda _: 15, "other": lambda _: 99}, ("none", "", False, False)),
    "several processes": ({"held": lambda _: 61, "processes": 3}, ("hoarding", "malloc", False, False)),
    "loaded in the first tenth": (
        {"in_use": lambda n: min(75, 10 + 3 * n), "held": lambda _: 61},
        ("hoarding", "malloc", False, False),
    ),
    "too few": ({"in_use": lambda n: 75 + n, "invocations": 100}, ("undecided", "", False, False)),
}


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_hoarding_is_told_and_hides_no_leak(scenario: str) -> None:
    curves, (cause, holder, hidden, grows) = SCENARIOS[scenario]
    finding = found(**curves)
    assert (finding.cause, finding.holder, finding.hidden, finding.grows) == (cause, holder, hidden, grows)
    assert finding.next == ("repair" if cause == "hoarding" else "again")
    assert (finding.setting == {"MALLOC_MMAP_THRESHOLD_": "32768"}) is (cause == "hoarding")


@pytest.mark.parametrize("held", [None, "61", True, -1, [61], float("nan"), 10**400])
def test_a_figure_that_is_none_makes_no_reading(held: object) -> None:
    assert malloc_heap({"heap": {"inUse": 1, "held": held, "mapped": 1}}) is None


def with_children(count: Curve) -> Finding:
    """Each child process has 2 MiB of its own; malloc's figures are the runtime's alone."""
    heap = {"inUse": 20, "held": 3, "mapped": 1, "blocks": 1000}
    texts = []
    for n in range(400):
        processes = round(count(n))
        rss = 30 + 2 * processes + n % 7 / 50
        texts.append(line(n, CurrentRSS=rss, PeakRSS=rss + 5, processes=processes, heap=heap))
    return find(curves_of(parsed(texts)), Commands(again="again"))


def test_a_child_in_fifty_invocations_that_stays_is_named() -> None:
    found = with_children(lambda n: 1 + n // 50)
    assert (found.cause, found.grows) == ("processes", True)
    assert found.title == "Child processes stay: 0.018 more in each invocation."


def test_children_of_a_pool_that_is_full_are_no_growth() -> None:
    assert with_children(lambda n: 1 + min(4, n // 10)).cause in ("cache", "none")
