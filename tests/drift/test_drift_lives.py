"""Environments that are killed before there is enough to judge: what several short lives tell."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from numpy.random import Generator
from truemem.verdict import GROWING_FROM, MINIMUM
from truemem_workbench.judge.causes import find
from truemem_workbench.judge.curves import Curves
from truemem_workbench.judge.drift import Curve, Point, judge
from truemem_workbench.judge.finding import commands_local
from truemem_workbench.judge.thresholds import SHORT_LIFE
from truemem_workbench.support.typed_command import Command

from testing.drift.compositions import MIB, Floats
from tests.drift.test_drift import interval

BASE_KIB = 40 * MIB
LIMIT_KIB = 128 * MIB


def lives(curves: Sequence[Floats], *, died: bool = True, seed: int = 0) -> list[Point]:
    """Each is killed in its last invocation, at the limit."""
    random = np.random.default_rng(seed)
    made: list[Point] = []
    for curve in curves:
        held = (BASE_KIB + curve + random.normal(0, 100, len(curve))).tolist()
        for at, kib in enumerate(held):
            number, last = len(made) + 1, at == len(curve) - 1
            peak_kib = LIMIT_KIB if last else kib + 200
            made.append(Point(number, 1000.0 * number, kib, peak_kib, begins=at == 0, died=died and last))
    return made


def leak(kib: float, count: int) -> Floats:
    return np.arange(count) * kib


def test_a_saw_of_kills_is_a_leak_with_its_rate() -> None:
    curve = lives([leak(6 * MIB, 15)] * 4)
    assert len(curve) == 60
    verdict = judge(curve)
    assert verdict.name == "growing"
    assert verdict.per_invocation_kib == pytest.approx(6 * MIB, rel=0.02)
    low, high = interval(verdict)
    assert low <= 6 * MIB <= high


def test_one_short_life_is_enough() -> None:
    curve = lives([leak(6 * MIB, 15), leak(6 * MIB, 5)])
    assert judge(curve[:15]).name == "growing"
    assert judge([*curve[:-1], curve[-1]._replace(died=False)]).name == "growing"


@pytest.mark.parametrize("count", [SHORT_LIFE, MINIMUM - 1, MINIMUM, GROWING_FROM - 1])
def test_any_life_that_is_too_short_for_its_shape(count: int) -> None:
    killed = lives([leak(80 * MIB / count, count)])
    assert judge(killed).name == "growing"
    assert judge(killed[1:]).name == ("growing" if count > SHORT_LIFE else "insufficient")
    not_killed = lives([leak(80 * MIB / count, count)], died=False)
    assert judge(not_killed).name == ("warming" if count >= MINIMUM else "insufficient")


SPIKES: dict[str, Callable[[Generator, int], Floats]] = {
    "spike": lambda _, count: np.zeros(count),
    "load": lambda random, count: np.where(np.arange(count) < random.integers(1, count), 0.0, 60 * MIB),
    "cache": lambda random, count: 60 * MIB * -np.expm1(-np.arange(count) / (count * random.uniform(0.1, 0.25))),
    "noise": lambda random, count: random.lognormal(0, 1, count) * 4 * MIB,
}


@pytest.mark.parametrize("curve", SPIKES)
@pytest.mark.parametrize("several", [1, 5])
def test_a_spike_that_kills_is_no_leak(several: int, curve: str) -> None:
    for seed in range(20):
        random = np.random.default_rng(seed)
        counts = random.integers(SHORT_LIFE, MINIMUM, several).tolist()
        killed = lives([SPIKES[curve](random, count) for count in counts], seed=seed)
        assert judge(killed).name == "insufficient", seed


def with_last(curve: Floats, mib: float) -> Floats:
    """The last invocation takes so much at once, and it is seen."""
    curve[-1] += mib * MIB
    return curve


def by_size() -> list[Floats]:
    """Six lives of a leak by the size of requests."""
    random = np.random.default_rng(1)
    steps = [random.lognormal(0, 1.2, 20) for _ in range(6)]
    return [np.cumsum(each) / each.sum() * 80 * MIB for each in steps]


FLAT, CREEP = np.zeros(15), leak(400, 12)


SEVERAL = {
    "a spike that is seen itself": ([with_last(np.zeros(12), 80)] * 3, "insufficient"),
    "and one that does not hide the growth before it": ([with_last(leak(4 * MIB, 14), 30)], "growing"),
    "one life grew among many that did not": ([leak(6 * MIB, 15), FLAT, FLAT], "insufficient"),
    "by the size of requests, in several lives": (by_size(), "growing"),
    "among more that did not grow": ([*by_size(), *[np.zeros(20)] * 7], "insufficient"),
    "loads at other times do not add up": (
        [CREEP + np.where(np.arange(12) > at, 50 * MIB, 0.0) for at in (4, 5, 6, 5)],
        "insufficient",
    ),
    "a small leak and a spike": ([leak(200, 15)] * 4, "insufficient"),
}


@pytest.mark.parametrize(("curves", "verdict"), SEVERAL.values(), ids=SEVERAL)
def test_the_verdict_of_several_lives(curves: list[Floats], verdict: str) -> None:
    assert judge(lives(curves)).name == verdict


def test_a_leak_by_the_size_of_requests_takes_several_lives() -> None:
    assert [judge(lives([curve])).name for curve in by_size()].count("growing") < 6


@pytest.mark.parametrize(
    ("curve", "memory", "following"),
    [
        (leak(20 * MIB, 5), 128, "check app.py:handler --memory 4096"),
        (leak(20 * MIB, 5), 8192, "check app.py:handler --memory 10240"),
        (leak(20 * MIB, 5), 10240, "size app.py:handler"),
        (leak(40 * MIB, 3), 128, "check app.py:handler --memory 4096"),
        (leak(0, 1), 128, "size app.py:handler"),
        (leak(0, 6), 128, "size app.py:handler"),
    ],
)
def test_too_short_lives_are_given_more_memory(curve: Floats, memory: int, following: str) -> None:
    """What leaks is measured once more where it lasts; what needs much at once is tried at several sizes."""
    points = [*lives([curve * memory / 128] * 10)]
    points = [each._replace(peak_kib=memory * MIB) if each.died else each for each in points]
    curves = Curves(
        invocations=len(points),
        rss=Curve.of(points),
        limit_mib=memory,
        out_of_memory=[each.invocation for each in points if each.died],
    )
    typed = Command("check", ("app.py:handler",), (("--memory", str(memory)),))
    finding = find(curves, commands_local(typed))
    assert (finding.next, finding.next_when) == (f"truemem {following}", "")
    is_leak = len(curve) < 6 and len(curve) > 1
    assert ("too few to be compared" in finding.title) == is_leak
    assert ("needs more at once" in finding.title) != is_leak
