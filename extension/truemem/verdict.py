"""The drift of an environment: its CurrentRSS as a few levels, and the verdict on them as the line has it. Pure.

A level is the median of CurrentRSS, in KiB, over a few invocations; its floor is their minimum. Levels are evenly
spaced over all invocations: when there are MOST_LEVELS_KEPT of them, each two are made one. So some hundred numbers are
enough, however long the environment lives. A reset starts new processes, and a new history.

Sidecar and workbench judge by this module alone, and so do both by `heap_limit_advice`.
"""

from __future__ import annotations

from .support.named_tuple import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

LEAST_KIB = 512
"""A smaller rise is none: it is twice KERNEL_SLACK_KIB (measure/window)."""
COUNTED_KIB = 24
"""What a descriptor, thread or process stands for: LEAST_KIB is 21 of them, and GATE_KIB one in 24 invocations."""
NOISE_KIB = 64
"""A rise counts as this at least where something is told as a part of it."""
RISE_PARTS = 6
"""Parts of a series whose rises tell how evenly it rises."""
LEAST_ERROR = 0.05
"""The interval is at least this part of the slope wide, to each side: leaks come by chance and in steps."""
SLOW_INVOCATIONS = 400
"""An interval is wider by this many invocations to those seen: slow movements are not seen yet."""
TAIL_PART, STRAIGHT_TAIL_PART = 0.2, 0.28
"""Growth goes on if the last third brings more than the first part of the whole rise, or more than the other part of
the rise since what is loaded at the start. A straight line brings a third. Chosen on the tuning seeds of testing.drift:
they find most leaks while hardly anything that fills is accused."""


class Trend(NamedTuple):
    """How some levels rise, KiB per level or invocation."""

    slope: float
    low: float
    high: float
    """Ends of the 95 % interval."""


def trend(levels: Sequence[float], slope: float, invocations: float) -> Trend:
    """The trend of at least six levels, KiB, of so many invocations, whose `median_slope` this is."""
    count = len(levels)
    parts = parts_of(levels, RISE_PARTS)
    middles, lengths = [median(part) for part in parts], [len(part) for part in parts]
    # parts may differ by a level: of each rise only what the slope does not make of its length
    off = [middles[at + 1] - middles[at] - slope * (lengths[at] + lengths[at + 1]) / 2 for at in range(RISE_PARTS - 1)]
    mean = sum(off) / (RISE_PARTS - 1)
    variance = sum([(one - mean) ** 2 for one in off]) / (RISE_PARTS - 2)
    error = float((variance / (RISE_PARTS - 1)) ** 0.5) * RISE_PARTS / count
    margin = max(error, LEAST_ERROR * abs(slope)) * (1 + SLOW_INVOCATIONS / invocations)
    return Trend(slope, slope - margin, slope + margin)


def goes_on(levels: Sequence[float]) -> bool:
    """True if the last third of at least eight levels goes on to rise."""
    was_as_high = max(levels[1 : len(levels) // 3]) >= max(levels[-(len(levels) // 4) :])
    return not was_as_high and (
        tail(levels[1:]) > TAIL_PART or tail(levels[first_judged(levels) :]) > STRAIGHT_TAIL_PART
    )


def may_grow(floors: Sequence[float]) -> bool:
    """False where a look at these floors cannot newly say `growing`. It takes far less time than the look."""
    judged = floors[first_judged(floors) :]
    # Half of all pairs are less than 0.3 of the levels apart: a median slope of LEAST_KIB in all needs a quarter of it.
    return max(judged) - min(judged) > LEAST_KIB / 4 and goes_on(floors)


def tail(levels: Sequence[float]) -> float:
    last, third = median(levels[-3:]), len(levels) * 2 // 3
    return (last - median(levels[third - 1 : third + 2])) / max(last - levels[0], NOISE_KIB)


def first_judged(levels: Sequence[float]) -> int:
    """The first level after what is loaded and imported at the start."""
    return max(2, len(levels) // 6)


def next_step(levels: Sequence[float]) -> float:
    """The second largest step between levels that was never given back, if such a step may be due: one may be a load,
    two are a habit, until twice the usual time between them has passed. Of two alone that time is known badly: V8 takes
    what it needs in steps at uneven times. There, until four times have passed. Else 0."""
    steps, above = [], levels[-1]
    for at in range(len(levels) - 2, -1, -1):
        lower = min(levels[at], above)
        steps.append((above - lower, at))
        above = lower
    size = sorted(steps)[-2][0]
    alike = [at for step, at in steps if step >= size / 2]
    apart = (alike[0] - alike[-1]) / (len(alike) - 1)
    return size if len(levels) - 1 - alike[0] <= (4 if len(alike) == 2 else 2) * apart else 0.0


def median_slope(levels: Sequence[float]) -> float:
    """The median of the slopes between each two levels (Sen 1968)."""
    found = []
    for gap in range(1, len(levels)):
        found += [(late - early) / gap for late, early in zip(levels[gap:], levels, strict=False)]
    found.sort()
    return middle(found)


def middle(ordered: Sequence[float]) -> float:
    """The median of values that are in order; 0 of none."""
    if not ordered:
        return 0.0
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def median(values: Sequence[float]) -> float:
    """The median of at least one value."""
    return middle(sorted(values))


def parts_of(levels: Sequence[float], count: int) -> list[Sequence[float]]:
    """The levels in `count` parts of about the same length."""
    edges = [round(len(levels) * at / count) for at in range(count + 1)]
    return [levels[edges[at] : edges[at + 1]] for at in range(count)]


STABLE = "stable"
WARMING = "warming"
PLATEAU = "plateau"
GROWING = "growing"
SPIKY = "spiky"
INSUFFICIENT = "insufficient"

GROWING_FROM = 128
"""Invocations before growth may be called a leak: until then most caches grow as well."""
GATE_KIB, SLOW_KIB = 1.0, 64 * 1024
"""Growth per invocation that is called a leak, at least: caches end as slowly. Or what it has come to in all: an
instance of 14 days may serve a hundred million requests."""
GIVEN_BACK = 0.5
"""Growth has been given back if so much of it is gone."""
LEAST_LEVELS = 6
"""A trend needs so many."""
OPEN_KIB = 16
"""KiB of growth per invocation: while the interval has as much in it, it is too early for `stable` and `plateau`."""

LEVELLED_OFF = "levelled off"
FELL_BACK = "fell back"

CONFIDENCE = ((4096, 0.94), (1024, 0.88), (0, 0.84))
"""From this number of invocations on, this part of the verdicts `growing` was right (benchmarks/results/drift.md,
"Confidence")."""


class LeakVerdict:
    """The verdict on one life of an environment: from a look to the next."""

    def slope_of(self, levels: Sequence[float]) -> float:
        """The median slope of levels: the workbench has numpy for it."""
        return median_slope(levels)

    def __init__(self) -> None:
        self._base = self._top = 0.0
        """Where growth began, and its highest level since, KiB."""
        self.name = ""
        """Empty before the first look."""
        self.growth = (0.0, 0.0, 0.0)
        """KiB per invocation, and its 95 % interval. Where it has stopped, that of the time since."""
        self.since = 0
        """The invocation at which it was called growing; 0 if it is not."""
        self.grown_kib = 0.0
        """What it has grown by in all."""
        self.confidence = 0.0
        self.ended = ""
        """Why it is not called growing any more."""

    def look(
        self,
        levels: Sequence[float],
        floors: Sequence[float],
        invocations: int,
        spikes: int = 0,
    ) -> None:
        """Judge at least eight levels, KiB, evenly spaced over all `invocations` of this life, and the floors of the
        same. `spikes`: how many invocations had one."""
        first = first_judged(levels)
        judged = floors[first:]
        per_level = invocations / len(levels)
        seen = self._see(judged, per_level)
        rate, low, _ = self.growth
        is_certain = low > 0
        is_large = seen.slope * len(judged) > LEAST_KIB
        going = goes_on(floors)
        if self.since:
            self._withdraw(going, levels)
        elif is_certain and is_large and going and self._is_leak(rate, invocations):
            self.since, self.ended = invocations, ""
            self._base, self._top = min(judged), max(levels[first:])
        if self.since and is_certain:
            self.name, self.grown_kib = GROWING, max(0.0, levels[-1] - self._base)
            self.confidence = next(share for least, share in CONFIDENCE if invocations >= least)
            return
        self.name = self._settled(levels, judged, per_level)
        if 0 < 2 * spikes <= invocations and self.name == STABLE:
            self.name = SPIKY  # where most have one, that is what an invocation needs

    def _see(self, judged: Sequence[float], per_level: float) -> Trend:
        """Set the growth to that of some levels."""
        seen = trend(judged, self.slope_of(judged), len(judged) * per_level)
        self.growth = (seen.slope / per_level, seen.low / per_level, seen.high / per_level)
        return seen

    def _is_leak(self, rate: float, invocations: int) -> bool:
        """Is certain growth that goes on a leak?"""
        return invocations >= GROWING_FROM and (rate >= GATE_KIB or rate * invocations >= SLOW_KIB)

    def _withdraw(self, going: bool, levels: Sequence[float]) -> None:
        """End it if it has been given back, or does not go on."""
        self._top = max(self._top, levels[-1])
        half = self._base + GIVEN_BACK * (self._top - self._base)
        if not going or median(levels[-max(1, len(levels) // 6) :]) < half:
            self.ended = FELL_BACK if levels[-1] < half else LEVELLED_OFF
            self.since = 0

    def _settled(self, levels: Sequence[float], judged: Sequence[float], per_level: float) -> str:
        """The verdict where nothing is called a leak: WARMING while growth is certain, or while the interval is too
        wide to deny it. Else PLATEAU if there was growth."""
        whole, step = self.growth, next_step(judged)
        for since in (0, len(judged) // 2, len(judged) * 2 // 3):
            late = judged[since:]
            if len(late) < LEAST_LEVELS:
                break
            self._see(late, per_level)
            rate, low, high = self.growth
            high = max(high, step / (len(late) * per_level))  # the next step may be due
            self.growth = (rate, low, high)
            if (low <= 0 or rate < GATE_KIB) and high <= OPEN_KIB:
                start = levels[max(1, len(levels) // 24)]
                last = parts_of(levels, 3)[2]
                rise = median(last) - start
                grew = rise > max(2 * LEAST_KIB, 6 * noise_of(levels), start / 50) and min(last) - start > rise / 2
                return PLATEAU if grew else STABLE
        self.growth = whole
        return WARMING


def noise_of(levels: Sequence[float]) -> float:
    """Standard deviation of one level, KiB, from how far each lies off its two neighbours: growth cancels out."""
    off = [abs(levels[at] - (levels[at - 1] + levels[at + 1]) / 2) for at in range(1, len(levels) - 1)]
    return median(off) * 1.4826 / 1.2247 if off else 0.0


LEVEL_INVOCATIONS = 4
"""Invocations in a level at first; it doubles when two levels are made one."""
MOST_LEVELS_KEPT = 40
"""Levels kept, at most."""
LEVELS_NEEDED = 8
"""Levels that a verdict needs."""
MINIMUM = LEVEL_INVOCATIONS * LEVELS_NEEDED
"""Invocations that a verdict needs."""
STEP = 4
"""Levels from one look to the next."""
VERDICT_EVERY = 16
"""A verdict is printed with each invocation whose number is a multiple of this, and with the last."""
SPIKE_KIB = 16 * 1024
"""A peak this far above CurrentRSS before and after it is a spike, if that is a quarter of CurrentRSS as well."""


def look_schedule() -> Iterator[tuple[int, int]]:
    """Yields for each look at the levels, without end: the invocations in one level, and the number of levels."""
    stride, count = LEVEL_INVOCATIONS, LEVELS_NEEDED
    while True:
        yield stride, count
        if count == MOST_LEVELS_KEPT:
            stride, count = stride * 2, MOST_LEVELS_KEPT // 2
        count += STEP


class _HeapLimit(NamedTuple):
    """How the limit of one runtime's heap is set."""

    how: str
    """How the limit is set, with places for MiB, or with `X` for bytes, and then for MiB of V8's semi-space."""
    percent: int
    """Percent of the memory size to be proposed, if what is outside of the heap leaves so much."""
    beside: int = 0
    """By how much the heap's limit is at most above the value that is set: percent of the memory size."""


_HEAP_LIMITS = {
    # AWS's own Java runtimes give the heap 85 % (445,645 KiB of 512 MiB; DataDog/datadog-lambda-extension#117).
    "java": _HeapLimit(
        "-Xmx{}m, or a lower -XX:MaxRAMPercentage, where JAVA_TOOL_OPTIONS or the command has it (that wins)", 85
    ),
    # Outside of V8's old generation: its young one, buffers, code, stacks. Lambda's command line has both sizes, unless
    # NODE_OPTIONS name one. Its young one is three semi-spaces, each rounded up to a power of two.
    "nodejs": _HeapLimit("--max-old-space-size={} --max-semi-space-size={} in the variable NODE_OPTIONS", 75, 10),
    # "leave an additional 5-10% of headroom" (A Guide to the Go Garbage Collector, "Suggested uses").
    "go": _HeapLimit("the variable GOMEMLIMIT={}MiB", 90),
    # The default in a container that has a limit (learn.microsoft.com, "Runtime configuration options for GC").
    "dotnet": _HeapLimit("the variable DOTNET_GCHeapHardLimit=0x{:X}", 75),
}
SEMI_SPACE = 60
"""Lambda gives V8's semi-space this part of the memory size."""


def heap_limit_advice(runtime: str, limit_kib: int, memory_kib: int, outside_kib: int = 0) -> str:
    """What to set where the heap's limit, with what the runtime is known to hold outside of its heap, is above the
    memory size. "" where it is not, or where the runtime or a size (0) is not known."""
    setting = _HEAP_LIMITS.get(runtime)
    if setting is None or not limit_kib or not memory_kib or limit_kib + outside_kib <= memory_kib:
        return ""
    most_kib = memory_kib - outside_kib - memory_kib * setting.beside // 100
    mib = min(memory_kib * setting.percent // 100, most_kib) // 1024
    how = setting.how.format(mib << 20 if "X}" in setting.how else mib, memory_kib // 1024 // SEMI_SPACE)
    what_to_do = f"Set {how}" if mib > 0 else "No limit fits: it needs a larger memory size"
    beside = f" and {outside_kib // 1024} MiB outside of it" if outside_kib >= 1024 else ""
    return (
        f"the heap may grow to {limit_kib // 1024} MiB{beside}, the function has {memory_kib // 1024} MiB: it can be "
        f"killed before the garbage collector has to run. {what_to_do}"
    )
