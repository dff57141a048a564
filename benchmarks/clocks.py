"""How often growth is said to follow the right clock: invocations, minutes, pauses, or overlap.

Runs composed at random (testing.clock_cases), of seeds by which no threshold was chosen. With --seeds tuning of those
that one may look at while thresholds change. Two minutes.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from truemem_workbench.soak.clocks import GrowthClock, clock_of

from benchmarks.kit.bench import Bench, percent, share
from testing.clock_cases import HARDLY, KINDS, LEAKS, MIXTURE, SEALED, TUNING, collected, compose
from testing.pages import Result, Table

TITLE = "Clocks"
SETTINGS = {"seeds": "tuning: other seeds. Writes nothing."}
CASES = 600
"""Of all traffics; and as many with the default traffic of a soak, five minutes of it."""
DEFAULT = "mixed"
GROWTH_MIB = {"1 to 4 MiB": (1, 4), "4 to 8 MiB": (4, 8), "8 to 16 MiB": (8, 16), "16 MiB or more": (16, 1000)}
APART, NOT = "not told apart", "no growth"
ANSWERS = (*LEAKS, APART, NOT)
MOST_WRONG, LEAST_COVERED = 0.03, 0.9
"""Of the clocks that are named."""
LEAST_FOUND, FOUND_MIB = 0.7, 8
"""In the default traffic, of leaks that grow by FOUND_MIB or more."""


class Judged(NamedTuple):
    """One case, and what was said of it."""

    kind: str
    traffic: str
    clocks: Sequence[str]
    grown_mib: float
    environments: int
    rate_kib: float | None
    clock: GrowthClock
    seconds: float

    @property
    def answer(self) -> str:
        return self.clock.name or (APART if self.clock.grows else NOT)

    @property
    def is_wrong(self) -> bool:
        """A clock was named, and it is not the one that most growth follows. What still fills counts apart."""
        return bool(self.clock.name) and tuple(self.clocks[:1]) != (self.clock.name,) and self.kind != "fills"

    @property
    def is_covered(self) -> bool | None:
        """Does the interval have the true rate? None if the clock is not named, or not right."""
        low, high, rate = self.clock.low_kib, self.clock.high_kib, self.rate_kib
        if rate is None or low is None or high is None or self.is_wrong:
            return None
        return low <= rate <= high


def judged(case: tuple[int, str | None, bool]) -> Judged:
    """The case of this seed, with a traffic or one that is drawn; of RSS, or of a collected heap."""
    seed, traffic, is_collected = case
    made = compose(seed, traffic)
    if is_collected:
        made = collected(made, seed)
    begun = time.process_time()
    clock = clock_of(made.environments, is_collected)
    took, of = time.process_time() - begun, len(made.environments)
    return Judged(made.kind, made.traffic, made.clocks, made.grown_mib, of, made.rate_kib, clock, took)


def confusion(title: str, cases: Sequence[Judged], note: str) -> Table:
    """What was said, by what is true."""
    rows = []
    for kind in KINDS:
        of = [each for each in cases if each.kind == kind]
        said = Counter(each.answer for each in of)
        wrong = str(sum(each.is_wrong for each in of) or "")
        rows.append([kind, *(str(said[answer] or "") for answer in ANSWERS), str(len(of)), wrong])
    return Table(title, ("what is true", *ANSWERS, "cases", "wrong clock"), rows, note)


def found_by_growth(title: str, cases: Sequence[Judged]) -> Table:
    """The part of leaks whose clock is named rightly, by what they grew by."""
    rows = []
    for kind in LEAKS:
        of = [each for each in cases if each.kind == kind]
        spans = ([each for each in of if low <= each.grown_mib < high] for low, high in GROWTH_MIB.values())
        rows.append([kind, *(f"{sum(each.answer == kind for each in span)} of {len(span)}" for span in spans)])
    return Table(title, ("leak by", *GROWTH_MIB), rows)


def promises(
    every: Sequence[Judged], default: Sequence[Judged], heaps: Sequence[Judged]
) -> list[tuple[str, str, float | None, bool]]:
    """What is promised, its aim, what was measured, and whether that is kept."""
    named = [each for each in (*every, *default, *heaps) if each.clock.name and each.kind != "fills"]
    wrong, covered = share(each.is_wrong for each in named), share(each.is_covered for each in named)
    large = [each for each in default if each.kind in LEAKS and each.grown_mib >= FOUND_MIB]
    found, words = share(each.answer == each.kind for each in large), f"leaks of {FOUND_MIB} MiB or more"
    is_right, least = wrong is not None and wrong <= MOST_WRONG, "at least "
    is_covered = covered is not None and covered >= LEAST_COVERED
    return [
        ("named clocks that are wrong", f"at most {MOST_WRONG:.0%}", wrong, is_right),
        ("95 % intervals that have the true rate", f"{least}{LEAST_COVERED:.0%}", covered, is_covered),
        (
            f"default traffic, 5 minutes, {words}: clock named rightly",
            f"{least}{LEAST_FOUND:.0%}",
            found,
            found is not None and found >= LEAST_FOUND,
        ),
    ]


def run(bench: Bench) -> Result:
    seeds, count = TUNING if bench.settings.get("seeds") == "tuning" else SEALED, bench.count(CASES)
    half = len(seeds) // 2
    work: list[tuple[int, str | None, bool]] = [(seed, None, False) for seed in seeds[:count]]
    work += [(seed, DEFAULT, is_heap) for is_heap in (False, True) for seed in seeds[half : half + count]]
    made = bench.spread("cases", judged, work)
    every, default, heaps = made[:count], made[count : 2 * count], made[2 * count :]
    promised = promises(every, default, heaps)
    kept = [[what, aim, percent(value), "yes" if is_kept else "**NO**"] for what, aim, value, is_kept in promised]
    tables = [
        Table("", ("promised", "aim", "measured", "kept"), kept, COMPOSED),
        confusion("All traffics", every, f"{count} cases. {OTHERS}"),
        confusion("The default traffic, five minutes", default, f"{count} cases with `--rate {DEFAULT}`."),
        found_by_growth("Named rightly, by growth", default),
        confusion("The same runs, in a collected heap", heaps, COLLECTED),
        found_by_growth("Named rightly, by growth in a collected heap", heaps),
    ]
    took = f"CPU time of an answer: {np.mean([each.seconds for each in made]) * 1000:.0f} ms."
    return Result(tables, [what for what, _, _, is_kept in promised if not is_kept], note=took)


COMPOSED = """\
Runs composed at random by `testing.clock_cases`, of sealed seeds: leaks that grow by 1 to 48 MiB beside up to three of
white and slow noise, spikes, garbage, warming up, memory of a busy time, memory of other requests, trimming in pauses;
some in arenas of up to 4 MiB, with resets, missing and uncertain readings, with only every second or fourth line. One
to eight environments, on demand or managed."""
OTHERS = f"""`{HARDLY}`: less than 1 MiB, such as a leak by pauses where there were none. `{MIXTURE}`: the clock of the
larger part is right, and `{APART}` is better. `fills`: a cache of which keys are drawn at random; it may be far from
full, and follow invocations until it is."""
COLLECTED = """With garbage of two generations. What was used is not kept if less was used later; what grows long after
the last major collection does not count."""
