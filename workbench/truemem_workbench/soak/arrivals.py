"""When requests are due: rates, ramps, bursts, a day's curve, and the times of a log. Pure.

Every iterator gives seconds since the begin of the soak, in order.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import repeat, takewhile
from random import Random
from typing import NamedTuple

import numpy as np

from ..support.bad_input import BadInput

BLOCK_REQUESTS = 100
"""Requests that are spread at random over the time of so many: like independent callers, and yet the rate is exact."""
SLICE_S = 0.1
"""A rate is taken as constant for so long."""
LEAST_PAUSE_S = 1.0
"""A gap that is longer is a pause, which `speed` shortens."""
TRY = "Try --rate 50/s (also 600/m, 10..200/s, bursts:5..200/s, day:5..200/s, mixed)"

Total = Callable[[float], float]
"""How many requests are due in the first so many seconds."""


def schedule(text: str, for_s: float, seed: int) -> Iterator[float]:
    """The moments of `--rate` until `for_s`, with random gaps (Poisson).

    `50/s` (also `/m`, `/h`; `50` is `50/s`). `10..200/s` rises over the whole time, `10..200/s,10m` in 10 minutes.
    `bursts:5..200/s,10s/60s`: 200/s in the last 10 s of each minute, else 5/s. `day:5..200/s`: from night to noon to
    night in the whole time, `day:5..200/s,24h` in 24 hours. `mixed`: stretches that tell clocks of growth apart.

    The number of requests is that of the rate, rounded. Raises BadInput.
    """
    if text.strip() == "mixed":
        return takewhile(lambda moment: moment < for_s, _mixed(Random(seed)))
    total = _total(text.strip(), for_s)
    if total(for_s) < 0.5:
        raise BadInput(f"--rate {text}: no request is due in {for_s:g} s. Try a longer --for, or a higher --rate")
    return _moments(total, _random(total(for_s), Random(seed)))


def like(times: Sequence[float], speed: float = 1.0) -> Iterator[float]:
    """The moments of a log's invocations, again and again. `times` are in seconds, at least two, in any order.

    Pauses of more than a second are divided by `speed`, but not to less than a second: what ran at the same time does
    so again, and the function still freezes.
    """
    gaps = np.diff(np.sort(np.asarray(times, dtype=float)))
    gaps = np.where(gaps > LEAST_PAUSE_S, np.maximum(gaps / speed, LEAST_PAUSE_S), gaps)
    again = float(gaps.mean()) or LEAST_PAUSE_S  # between the last one and the first
    moment = 0.0
    while True:
        for gap in gaps:
            yield moment
            moment += float(gap)
        yield moment
        moment += again


# --- the grammar ------------------------------------------------------------------------------------------------------

_NUMBER = r"\d+(?:\.\d+)?"
_RATE = re.compile(
    rf"(?:(?P<shape>bursts|day):)?(?P<low>{_NUMBER})(?:\.\.(?P<high>{_NUMBER}))?(?:/(?P<unit>[smh]))?(?:,(?P<times>.*))?"
)
_UNIT_S = {"s": 1, "m": 60, "h": 3600}


def _total(text: str, for_s: float) -> Total:
    found = _RATE.fullmatch(text)
    if found is None:
        raise BadInput(f"--rate {text} is no rate. {TRY}")
    per_s = _UNIT_S[found["unit"] or "s"]
    shape, low = found["shape"], float(found["low"]) / per_s
    if found["high"] is None:
        if shape is not None or found["times"] is not None:
            raise BadInput(f"--rate {text} needs two rates, as in {shape + ':' if shape else ''}5..200/s. {TRY}")
        return lambda seconds: low * seconds
    high = float(found["high"]) / per_s
    if shape == "bursts":
        long, period = _times(text, found["times"] or "10s/60s", 2)
        if long >= period:
            raise BadInput(f"--rate {text}: bursts that never end. Try --rate {text.partition(',')[0]},10s/60s")
        return _bursts(low, high, long, period)
    (length,) = [for_s] if found["times"] is None else _times(text, found["times"], 1)
    return _day(low, high, length) if shape == "day" else _ramp(low, high, length)


def _times(text: str, given: str, count: int) -> list[float]:
    """The lengths behind the rates, in seconds."""
    found = [re.fullmatch(rf"({_NUMBER})([smh])", each) for each in given.split("/")]
    times = [float(each[1]) * _UNIT_S[each[2]] for each in found if each is not None]
    if len(found) != count or len(times) != count or not all(times):
        example = "10s/60s" if count == 2 else "10m"
        raise BadInput(f"--rate {text}: {given} is no length. Try --rate {text.partition(',')[0]},{example}")
    return times


def _ramp(low: float, high: float, length: float) -> Total:
    def total(seconds: float) -> float:
        rising = min(seconds, length)
        return low * rising + (high - low) * rising**2 / (2 * length) + high * (seconds - rising)

    return total


def _bursts(low: float, high: float, long: float, period: float) -> Total:
    def total(seconds: float) -> float:
        periods, rest = divmod(seconds, period)
        burst = max(0.0, rest - (period - long))
        return periods * (low * (period - long) + high * long) + low * (rest - burst) + high * burst

    return total


def _day(low: float, high: float, length: float) -> Total:
    def total(seconds: float) -> float:
        turn = 2 * math.pi / length
        return (low + high) / 2 * seconds - (high - low) / 2 * math.sin(turn * seconds) / turn

    return total


# --- from numbers to moments ------------------------------------------------------------------------------------------


def _random(total: float, random: Random) -> Iterator[float]:
    count = round(total)
    for begin in range(0, count, BLOCK_REQUESTS):
        due = min(BLOCK_REQUESTS, count - begin)
        width = min(BLOCK_REQUESTS, total - begin)
        yield from sorted([begin + width * random.random() for _ in range(due)])


def _moments(total: Total, numbers: Iterator[float]) -> Iterator[float]:
    """When so many requests are due. `numbers` rise."""
    slices, before, after = 0, 0.0, 0.0
    for number in numbers:
        while after <= number:
            slices += 1
            before, after = after, total(slices * SLICE_S)
        yield (slices - 1 + (number - before) / (after - before)) * SLICE_S


# --- mixed ------------------------------------------------------------------------------------------------------------


class Stretch(NamedTuple):
    """A time with one kind of traffic. `together` requests are due at the same moment."""

    length_s: float
    gap_s: float
    together: int = 1
    varied: float = 0.2
    """Each gap is longer or shorter by up to this part, so that nothing is periodic."""


# chosen by `python -m benchmarks clocks`: all clocks of growth can be told apart in five minutes
MIXED_STRETCHES = (
    Stretch(15, 1 / 20),  # busy; with more a second, most requests would overlap
    Stretch(15, 1 / 5),
    Stretch(15, 1.25),
    Stretch(25, 4.25, varied=0.4),  # long pauses of many lengths: the least that makes memory grow can be found
    Stretch(10, 1, together=8),  # bursts: more environments, or more requests in one
)
VARIED_SHARE = 0.2
"""Each stretch is longer or shorter by up to this part."""


def _mixed(random: Random) -> Iterator[float]:
    moment = 0.0
    while True:
        for stretch in random.sample(MIXED_STRETCHES, len(MIXED_STRETCHES)):
            end = moment + stretch.length_s * random.uniform(1 - VARIED_SHARE, 1 + VARIED_SHARE)
            while moment < end:
                yield from repeat(moment, stretch.together)
                moment += stretch.gap_s * random.uniform(1 - stretch.varied, 1 + stretch.varied)
