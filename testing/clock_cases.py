"""Runs of several environments, composed at random: they judge which clock growth is said to follow.

A case is one run: arrivals, environments that serve them as Lambda would, what leaks by which clock, and noise. All is
drawn by the seed, from ranges that were written before any answer about these cases was seen. Thresholds may be chosen
by the seeds in `TUNING`; those in `SEALED` only judge.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from truemem_workbench.judge.runtime_heap import HeapReading, kept_at_most
from truemem_workbench.soak.arrivals import schedule
from truemem_workbench.soak.clocks import PAUSES_MS, Step

Floats = NDArray[np.floating]

MIB = 1024.0
TUNING = range(4000)
SEALED = range(2_000_000, 2_004_000)
"""Seeds. No threshold may be chosen by those that are sealed."""

MOST_KEPT = 1024
"""Lines kept of an environment: of more, every second is dropped."""
MOST_ARRIVALS = 12_000

LEAKS = ("invocation", "minute", "pause", "overlap")
RENEWED = "renewed"
"""Grows by the minute, but in a pause only once: what is too old is renewed when it is next used."""
OTHERS = ("still", "warms up", "fills", "steps", "saw")
"""What does not leak."""
MIXTURE = "two at once"
HARDLY = "hardly leaks"
"""What would leak, and has hardly done so: there were hardly any pauses or requests at once."""
SEEN_KIB = 1024.0
DRAWN = {
    "invocation": 0.14,
    "minute": 0.09,
    RENEWED: 0.05,
    "pause": 0.14,
    "overlap": 0.14,
    MIXTURE: 0.12,
} | dict.fromkeys(OTHERS, 0.064)
"""How likely each is."""
KINDS = (*LEAKS, RENEWED, MIXTURE, HARDLY, *OTHERS)
TRAFFICS = ("constant", "random", "ramp", "bursts", "day", "pauses", "mixed")


class Served(NamedTuple):
    """What one environment served, an element for each invocation."""

    time_s: Floats
    pause_s: Floats
    """Idle before it."""
    overlap: NDArray[np.intp]
    """Requests at once when it began, with itself."""


class Case(NamedTuple):
    """One run, and the truth about it."""

    kind: str
    """One of KINDS."""
    traffic: str
    environments: list[list[Step]]
    grown_mib: float
    """What the leaks have grown by in the environment where that is most."""
    rate_kib: float | None
    """KiB per unit of its clock; None unless `kind` is one of LEAKS."""
    pause_ms: float
    """Pauses at least so long count."""
    clocks: tuple[str, ...]
    """The clocks of what leaks, largest part first."""
    noises: tuple[str, ...]


def compose(seed: int, traffic: str | None = None, kind: str | None = None) -> Case:
    """The case of this seed; with a traffic or a kind that is not drawn."""
    rng = np.random.default_rng(seed)
    drawn_traffic, drawn_kind = str(rng.choice(TRAFFICS)), str(rng.choice([*DRAWN], p=[*DRAWN.values()]))
    traffic, kind = traffic or drawn_traffic, kind or drawn_kind
    managed = kind == "overlap" or rng.random() < 0.35
    span_s = 300.0 if traffic == "mixed" else _between(rng, 150, 300 if rng.random() < 0.6 else 20_000)
    arrivals = _arrivals(rng, traffic, span_s)
    served = serve(rng, arrivals, int(rng.choice([1, 1, 2, 3, 4, 8])), int(rng.choice([2, 4, 16])) if managed else 1)
    return _with_memory(rng, kind, traffic, served)


def collected(case: Case, seed: int) -> Case:
    """The same run, where a collected heap is what tells: what is held, with garbage of two generations."""
    rng = np.random.default_rng([seed, 1])
    heap = _Collected(
        base_kib=_between(rng, 2 * MIB, 32 * MIB),
        kib=_between(rng, 1, 256),
        minute_kib=_between(rng, 16, 4 * MIB),
        young_kib=_between(rng, 1 * MIB, 32 * MIB),
        promoted=float(rng.uniform(0, 0.2)),
        grows_by=float(rng.uniform(1.2, 2.5)),
    )
    return case._replace(environments=[heap.steps(steps) for steps in case.environments])


class _Collected(NamedTuple):
    """A heap that is collected when it is full."""

    base_kib: float
    """The least that is held."""
    kib: float
    """Garbage of an invocation,"""
    minute_kib: float
    """and of a minute."""
    young_kib: float
    """So much is made before the young generation is collected."""
    promoted: float
    """Part of that garbage which the old generation gets."""
    grows_by: float
    """The old one is collected when it is so many times what it was after the last time."""

    def steps(self, steps: list[Step]) -> list[Step]:
        """The same steps, with what the heap has kept at most."""
        young = old = least = 0.0
        number, found, before = 0, [], steps[0]
        lowest = min((step.current_kib for step in steps if step.current_kib is not None), default=0.0)
        for step in steps:
            if step.begins:
                young, old, least, number = 0.0, 0.0, 2.0 * MIB, 0
            known = step.current_kib or before.current_kib or lowest
            held = known - lowest + self.base_kib
            minutes = (step.time_ms - before.time_ms) / 60_000
            young += self.kib * (step.invocation - before.invocation) + self.minute_kib * minutes
            if young > self.young_kib:
                old, young = old + young * self.promoted, young % self.young_kib
            if held + old > self.grows_by * max(least, 2 * MIB):
                old, young, least, number = 0.0, 0.0, held, number + 1
            before = step._replace(current_kib=known)
            if step.current_kib is not None:
                used = (held + old + young) / 1024
                found.append(
                    HeapReading(
                        runtime="nodejs", number=step.invocation, committed=used, used=used, collections=number,
                        begins=step.begins,
                    )
                )  # fmt: skip
        kept = kept_at_most(found)
        return [step._replace(current_kib=kept.get(step.invocation), certain=True) for step in steps]


def _between(rng: Generator, low: float, high: float) -> float:
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


# ---- arrivals, seconds ----


def _arrivals(rng: Generator, traffic: str, span_s: float) -> Floats:
    if traffic == "mixed":
        times = np.array(list(schedule("mixed", span_s, int(rng.integers(1 << 30)))))
    else:
        rate = _between(rng, max(0.3, 100 / span_s), min(60, MOST_ARRIVALS / span_s))
        times = _SHAPES[traffic](rng, span_s, rate)
    return np.sort(times[times < span_s])[:MOST_ARRIVALS]


def _thinned(rng: Generator, span_s: float, rate: float, share: Callable[[Floats], Floats]) -> Floats:
    """Random arrivals of that mean rate, as often at each time as `share` says (at most 1)."""
    times = rng.uniform(0, span_s, int(2 * rate * span_s))
    return times[rng.random(len(times)) < share(times)]


def _ramp(rng: Generator, span_s: float, rate: float) -> Floats:
    rising = rng.random() < 0.7
    return _thinned(rng, span_s, rate, lambda t: t / span_s if rising else 1 - t / span_s)


def _day(rng: Generator, span_s: float, rate: float) -> Floats:
    days, phase = rng.uniform(1, 3), rng.uniform(0, 2 * np.pi)
    return _thinned(rng, span_s, rate, lambda t: 0.525 + 0.475 * np.sin(2 * np.pi * days * t / span_s + phase))


def _bursts(rng: Generator, span_s: float, rate: float) -> Floats:
    every = span_s / rng.integers(4, 20)
    busy, low = rng.uniform(0.1, 0.5), _between(rng, 0.01, 0.3)
    return _thinned(rng, span_s, rate, lambda t: np.where(t % every < busy * every, 1.0, low))


def _pauses(rng: Generator, span_s: float, rate: float) -> Floats:
    """Groups of requests, with a pause after each."""
    pause, most = _between(rng, 0.5, span_s / 12), int(rng.integers(1, 30))
    times, at = [], 0.0
    while at < span_s:
        count = int(rng.integers(1, most + 1))
        group = at + np.arange(count) / max(rate, 5)
        times.append(group)
        at = float(group[-1]) + pause * rng.uniform(0.3, 2)
    return np.concatenate(times)


_SHAPES: dict[str, Callable[[Generator, float, float], Floats]] = {
    "constant": lambda rng, span_s, rate: np.arange(0.5 / rate, span_s, 1 / rate),
    "random": lambda rng, span_s, rate: rng.uniform(0, span_s, int(rate * span_s)),
    "ramp": _ramp,
    "bursts": _bursts,
    "day": _day,
    "pauses": _pauses,
}


# ---- who serves them ----


def serve(rng: Generator, arrivals: Floats, most: int, places: int) -> list[Served]:
    """Give each to an environment with a free place, else to a new one, else to none (throttled).

    One place: the most recently used environment first. Several places (Managed Instances): all environments are there
    from the start, and the one with the fewest requests is taken."""
    duration = _between(rng, 0.003, 0.3)
    lasts = duration * np.exp(rng.normal(0, 0.3, len(arrivals)))
    running: list[list[float]] = [[] for _ in range(most if places > 1 else 0)]
    free_since = [0.0] * len(running)
    taken: list[list[tuple[float, float, int]]] = [[] for _ in running]
    for at, last in zip(arrivals.tolist(), lasts.tolist(), strict=True):
        for number, ends in enumerate(running):
            still = [end for end in ends if end > at]
            if ends and not still:
                free_since[number] = max(ends)
            running[number] = still
        open_ones = [number for number, ends in enumerate(running) if len(ends) < places]
        if not open_ones:
            if len(running) >= most:
                continue
            running.append([])
            taken.append([])
            free_since.append(at)
            open_ones = [len(running) - 1]
        number = (
            min(open_ones, key=lambda each: len(running[each]))
            if places > 1
            else max(open_ones, key=lambda each: free_since[each])
        )
        pause = 0.0 if running[number] else at - free_since[number]
        running[number].append(at + last)
        taken[number].append((at, pause, len(running[number])))
    made = []
    for each in taken:
        if each:
            times, pauses, overlaps = (np.array(column) for column in zip(*each, strict=True))
            made.append(Served(times, pauses, overlaps.astype(np.intp)))
    return made


# ---- memory, KiB after each invocation ----


def _with_memory(rng: Generator, kind: str, traffic: str, served: list[Served]) -> Case:
    pause_s = _between(rng, 0.3, 12)
    total = _between(rng, 2 * MIB, 48 * MIB)
    clocks = _leaking(rng, kind)
    sizes = _Sizes(rng, total, pause_s, clocks, kind)
    leaks = [sizes.grown(served, clock, part) for clock, part in clocks.items()]
    rate_kib = leaks[0][1] if len(leaks) == 1 else None
    noises = tuple(rng.choice(list(_NOISES), size=int(rng.integers(1, 4)), replace=False).tolist())
    makers = [_NOISES[name](rng) for name in noises]
    other = _OTHERS[kind](rng, total) if kind in _OTHERS else None
    arena = _between(rng, 64, 4 * MIB) if rng.random() < 0.25 else 0.0
    restarts = rng.random() < 0.15
    missing, doubtful = (float(rng.choice([0, 0, 0.05, 0.2])) for _ in range(2))
    environments = []
    for at, each in enumerate(served):
        count = len(each.time_s)
        begins = np.zeros(count, bool)
        begins[0] = True
        if restarts:
            begins |= rng.random(count) < 2 / max(count, 50)
        life = np.cumsum(begins) - 1
        starts = np.flatnonzero(begins)
        held = np.full(count, _between(rng, 32 * MIB, 256 * MIB))
        for grown, _ in leaks:
            held += grown[at] - grown[at][starts][life]
        if arena:
            held = np.ceil(held / arena) * arena
        since = np.arange(count) - starts[life]
        if other:
            held += other(each, since)
        for maker in makers:
            held += maker(each, since)
        environments.append(_steps(rng, each, np.maximum(held, 1024), begins, missing, doubtful))
    made = {clock: sum(float(each[-1]) for each in grown) for clock, (grown, _) in zip(clocks, leaks, strict=True)}
    parts = tuple(sorted((clock for clock in made if made[clock] > 0), key=lambda clock: -made[clock]))
    if arena:
        noises = (*noises, "arenas")
    grown_by = [sum(float(grown[at][-1]) for grown, _ in leaks) for at in range(len(served))]
    if kind in (*LEAKS, RENEWED, MIXTURE) and max(grown_by) < SEEN_KIB:
        kind, rate_kib = HARDLY, None
    return Case(kind, traffic, environments, max(grown_by) / MIB, rate_kib, pause_s * 1000, parts, noises)


def _leaking(rng: Generator, kind: str) -> dict[str, float]:
    """The clocks of what leaks, and the part of each."""
    if kind == RENEWED:
        return {"minute": 1.0}
    if kind != MIXTURE:
        return {kind: 1.0} if kind in LEAKS else {}
    first, second = rng.choice(LEAKS, 2, replace=False).tolist()
    part = float(rng.uniform(0.25, 0.75))
    return {first: part, second: 1 - part}


class _Sizes:
    """How much is left by each unit of a clock."""

    def __init__(self, rng: Generator, total: float, pause_s: float, clocks: dict[str, float], kind: str) -> None:
        self.rng, self.total, self.pause_s, self.is_renewed = rng, total, pause_s, kind == RENEWED
        self.sigma = float(rng.choice([0, 0.3, 1]))
        self.part_that_leaks = float(rng.choice([1, 1, 0.3, 0.05])) if "invocation" in clocks else 1.0

    def grown(self, served: list[Served], clock: str, part: float) -> tuple[list[Floats], float | None]:
        """What each environment holds by it after each invocation, and the mean of a unit if there is one."""
        rng = self.rng
        if self.is_renewed:
            age_s = _between(rng, 2, 20)
            renewed = [_renewed(each.time_s, age_s) for each in served]
            most = max(1.0, *(float(each[-1]) for each in renewed))
            return [each * self.total * part / most for each in renewed], None
        if clock == "minute":
            longest = max(each.time_s[-1] - each.time_s[0] for each in served) / 60 or 1.0
            rate = self.total * part / longest
            most_s = _between(rng, 10, 100) if rng.random() < 0.5 else np.inf
            return [rate * _caught_up(each.time_s, most_s) / 60 for each in served], rate
        units = [
            {
                "invocation": np.ones(len(each.time_s)),
                "pause": (each.pause_s >= self.pause_s).astype(float),
                "overlap": (each.overlap > 1).astype(float),
            }[clock]
            for each in served
        ]
        rate = self.total * part / max(1.0, *(float(each.sum()) for each in units))
        grown: list[Floats] = []
        for each in units:
            sizes = rate * np.exp(rng.normal(0, self.sigma, len(each)) - self.sigma**2 / 2)
            if clock == "invocation":
                sizes *= (rng.random(len(each)) < self.part_that_leaks) / self.part_that_leaks
            grown.append(np.cumsum(each * sizes))
        return grown, rate


def _renewed(times_s: Floats, age_s: float) -> Floats:
    """How often what is used in each invocation was renewed, because it was too old: once in a pause, however long."""
    count, made_s, counts = 0, float(times_s[0]), []
    for time_s in times_s.tolist():
        if time_s - made_s > age_s:
            count, made_s = count + 1, time_s
        counts.append(count)
    return np.array(counts, dtype=np.float64)


def _caught_up(times_s: Floats, most_s: float) -> Floats:
    """The seconds that a thread has made up for. It is frozen between invocations, and makes up for so many in each."""
    made_s, all_s = 0.0, []
    for time_s in (times_s - times_s[0]).tolist():
        made_s = min(time_s, made_s + most_s)
        all_s.append(made_s)
    return np.array(all_s, dtype=np.float64)


Memory = Callable[[Served, NDArray[np.intp]], Floats]
"""KiB after each invocation, from what was served and the invocation's number in its life, from 0."""


def _white(rng: Generator) -> Memory:
    sigma = _between(rng, 4, 300)
    return lambda served, since: rng.normal(0, sigma, len(since))


def _slow(rng: Generator) -> Memory:
    """Noise that remembers (AR 1)."""
    sigma, keeps = _between(rng, 16, 1024), float(rng.uniform(0.8, 0.99))

    def made(_: Served, since: NDArray[np.intp]) -> Floats:
        shocks = rng.normal(0, sigma * np.sqrt(1 - keeps**2), len(since))
        level, levels = 0.0, []
        for shock in shocks:
            level = keeps * level + shock
            levels.append(level)
        return np.array(levels)

    return made


def _spikes(rng: Generator) -> Memory:
    often, size = _between(rng, 0.002, 0.05), _between(rng, 1 * MIB, 64 * MIB)
    return lambda served, since: (rng.random(len(since)) < often) * rng.exponential(size, len(since))


def _saw(rng: Generator, most: float = 6 * MIB) -> Memory:
    """Garbage that is collected every some invocations."""
    height, length = _between(rng, 0.25 * MIB, most), _between(rng, 4, 200)
    return lambda served, since: height * ((since + rng.uniform(0, length)) % length) / length


def _warm(rng: Generator, height: float | None = None) -> Memory:
    high = height or _between(rng, 0.5 * MIB, 24 * MIB)
    by_time = rng.random() < 0.3
    invocations, seconds = _between(rng, 2, 80), _between(rng, 1, 20)

    def made(served: Served, since: NDArray[np.intp]) -> Floats:
        starts = served.time_s[np.arange(len(since)) - since]
        return high * (1 - np.exp(-((served.time_s - starts) / seconds if by_time else since / invocations)))

    return made


def _fills(rng: Generator, height: float) -> Memory:
    """A cache that fills, keys drawn with a long tail or not: mostly full at the end, or not."""
    keys, tail = _between(rng, 32, 2000), rng.uniform(0, 1.2)
    likely = np.arange(1, int(keys) + 1) ** -tail
    likely /= likely.sum()

    def made(_: Served, since: NDArray[np.intp]) -> Floats:
        held, known = [], set[int]()
        for number, key in zip(since.tolist(), rng.choice(len(likely), len(since), p=likely).tolist(), strict=True):
            if number == 0:
                known.clear()
            known.add(key)
            held.append(len(known))
        return np.array(held) * height / len(likely)

    return made


def _jumps(rng: Generator, height: float) -> Memory:
    """Some loads, each once."""
    count = int(rng.integers(1, 6))

    def made(served: Served, since: NDArray[np.intp]) -> Floats:
        first = rng.exponential(len(since) / 4, count)
        return np.searchsorted(np.sort(first), since, side="right") * (height / count)

    return made


def _busy(rng: Generator) -> Memory:
    """Held while much is asked, and given back later."""
    size, memory_s = _between(rng, 16, 512), _between(rng, 2, 20)

    def made(served: Served, since: NDArray[np.intp]) -> Floats:
        before: Floats = np.searchsorted(served.time_s, served.time_s - memory_s).astype(np.float64)
        return size * np.log1p(np.arange(len(since)) - before)

    return made


def _in_flight(rng: Generator) -> Memory:
    """What other requests hold at that moment."""
    size = _between(rng, 16, 2 * MIB)
    return lambda served, since: (served.overlap - 1) * size * rng.uniform(0, 1, len(since))


def _trimmed(rng: Generator) -> Memory:
    """Some memory is given back in a long pause, and comes again."""
    size, pause_s = _between(rng, 64, 2 * MIB), _between(rng, 0.5, 10)
    return lambda served, since: np.where(served.pause_s >= pause_s, -size, 0.0)


_NOISES: dict[str, Callable[[Generator], Memory]] = {
    "white": _white,
    "slow": _slow,
    "spikes": _spikes,
    "saw": _saw,
    "warm": _warm,
    "busy": _busy,
    "in flight": _in_flight,
    "trimmed": _trimmed,
}
_OTHERS: dict[str, Callable[[Generator, float], Memory]] = {
    "warms up": _warm,
    "fills": _fills,
    "steps": _jumps,
    "saw": _saw,
}


def _steps(
    rng: Generator, served: Served, held: Floats, begins: NDArray[np.bool_], missing: float, doubtful: float
) -> list[Step]:
    """As lines tell it, of which every second is dropped while there are too many."""
    count = len(held)
    pauses = np.cumsum(served.pause_s[:, None] * 1000 >= np.array(PAUSES_MS)[None], axis=0)
    overlapped = np.cumsum(served.overlap > 1)
    gone, uncertain = rng.random(count) < missing, rng.random(count) < doubtful
    held = held + uncertain * rng.exponential(2 * MIB, count)
    stride = 1
    while count / stride > MOST_KEPT:
        stride *= 2
    return [
        Step(
            float(served.time_s[at] * 1000),
            at + 1,
            tuple(pauses[at].tolist()),
            int(overlapped[at]),
            None if gone[at] else float(held[at]),
            not uncertain[at],
            bool(begins[at]),
        )
        for at in range(count)
        if at % stride == 0 or begins[at]
    ]
