"""Measures how often growth is said to follow the right clock: invocations, minutes, idle pauses, or overlap.

Runs composed at random (testing.clock_cases), of seeds by which no threshold was chosen. Writes results/clocks.md. Exit
codes: 0 as promised, 1 not.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from multiprocessing import Pool
from pathlib import Path
from typing import NamedTuple

import click
import numpy as np
from rich.console import Console
from rich.progress import track
from truemem_workbench.analysis.clocks import Clock, clock_of

from benchmarks.publish import exit_if_broken, machine, markdown
from testing.clock_cases import HARDLY, KINDS, LEAKS, MIXTURE, SEALED, TRAFFICS, TUNING, collected, compose

RESULTS = Path(__file__).with_name("results") / "clocks.md"
BY = "python -m benchmarks.clocks"

CASES = 600
"""Of all traffics; and as many with the default traffic of a soak, five minutes of it."""
DEFAULT = "mixed"
GROWTH_MIB = ((1, 4), (4, 8), (8, 16), (16, 1000))
APART, GROWS, NOT = "not told apart", "grows", "no growth"
ANSWERS = (*LEAKS, APART, NOT)
MOST_WRONG = 0.03
"""Of the clocks that are named."""
LEAST_COVERED = 0.9
LEAST_FOUND = 0.7
"""In the default traffic, of leaks that grow by 8 MiB or more."""
FOUND_MIB = 8


class Judged(NamedTuple):
    """One case, and what was said of it."""

    kind: str
    traffic: str
    clocks: Sequence[str]
    grown_mib: float
    environments: int
    rate_kib: float | None
    clock: Clock
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
    took = time.process_time() - begun
    return Judged(
        made.kind, made.traffic, made.clocks, made.grown_mib, len(made.environments), made.rate_kib, clock, took
    )


def share(which: Sequence[Judged], is_so: Callable[[Judged], bool | None]) -> float | None:
    """The part of these for which it is so; None of nothing."""
    known = [so for each in which if (so := is_so(each)) is not None]
    return sum(known) / len(known) if known else None


def percent(part: float | None) -> str:
    return "" if part is None else f"{part:.1%}"


def confusion(cases: Sequence[Judged]) -> str:
    """What was said, by what is true."""
    rows = []
    for kind in KINDS:
        said = Counter(each.answer for each in cases if each.kind == kind)
        wrong = sum(each.is_wrong for each in cases if each.kind == kind)
        rows.append([kind, *(str(said[answer] or "") for answer in ANSWERS), str(said.total()), str(wrong or "")])
    return markdown(["what is true", *ANSWERS, "cases", "wrong clock"], rows)


def found_by_growth(cases: Sequence[Judged]) -> str:
    """The part of leaks whose clock is named rightly, by what they grew by."""
    rows = []
    for kind in LEAKS:
        cells = []
        for low, high in GROWTH_MIB:
            of = [each for each in cases if each.kind == kind and low <= each.grown_mib < high]
            cells.append(f"{sum(each.answer == kind for each in of)} of {len(of)}")
        rows.append([kind, *cells])
    heads = [f"{low} to {high} MiB" if high < 1000 else f"{low} MiB or more" for low, high in GROWTH_MIB]
    return markdown(["leak by", *heads], rows)


def by_traffic(cases: Sequence[Judged]) -> str:
    """Leaks of one clock: named rightly, not told apart, wrong; with one environment and with several."""
    rows = []
    for traffic in TRAFFICS:
        for words, is_one in (("one", True), ("several", False)):
            of = [
                each
                for each in cases
                if each.traffic == traffic and each.kind in LEAKS and (each.environments == 1) is is_one
            ]
            named = share(of, lambda each: each.answer == each.kind)
            apart = share(of, lambda each: each.answer == APART)
            wrong = sum(each.is_wrong for each in of)
            rows.append([traffic, words, percent(named), percent(apart), str(wrong or ""), str(len(of))])
    return markdown(["traffic", "environments", "named rightly", APART, "wrong clock", "leaks"], rows, 2)


def promises(
    every: Sequence[Judged], default: Sequence[Judged], heaps: Sequence[Judged]
) -> list[tuple[str, str, float | None, bool]]:
    """What is promised, its aim, what was measured, and whether that is kept."""
    named = [each for each in (*every, *default, *heaps) if each.clock.name and each.kind != "fills"]
    large = [each for each in default if each.kind in LEAKS and each.grown_mib >= FOUND_MIB]
    wrong = share(named, lambda each: each.is_wrong)
    covered = share(named, lambda each: each.is_covered)
    found = share(large, lambda each: each.answer == each.kind)
    return [
        ("named clocks that are wrong", f"at most {MOST_WRONG:.0%}", wrong, wrong is not None and wrong <= MOST_WRONG),
        (
            "95 % intervals that have the true rate",
            f"at least {LEAST_COVERED:.0%}",
            covered,
            covered is not None and covered >= LEAST_COVERED,
        ),
        (
            f"default traffic, 5 minutes, leaks of {FOUND_MIB} MiB or more: clock named rightly",
            f"at least {LEAST_FOUND:.0%}",
            found,
            found is not None and found >= LEAST_FOUND,
        ),
    ]


def page(every: Sequence[Judged], default: Sequence[Judged], heaps: Sequence[Judged]) -> str:
    """The results."""
    promised = promises(every, default, heaps)
    table = [[what, aim, percent(value), "yes" if kept else "**NO**"] for what, aim, value, kept in promised]
    took = np.mean([each.seconds for each in (*every, *default, *heaps)]) * 1000
    return (
        f"# Clocks\n\n`{BY}`, on {machine()}.\n\n"
        "Runs composed at random by `testing.clock_cases`, of sealed seeds: leaks that grow by 1 to 48 MiB beside up "
        "to three of white and slow noise, spikes, garbage, warming up, memory of a busy time, memory of other "
        "requests, trimming in pauses; some in arenas of up to 4 MiB, with resets, missing and uncertain readings, "
        "with only every second or fourth line. One to eight environments, on demand or managed.\n\n"
        + markdown(["promised", "aim", "measured", "kept"], table)
        + f"\n\n## All traffics\n\n{len(every)} cases. `{HARDLY}`: less than 1 MiB, such as a leak by pauses where "
        f"there were none. `{MIXTURE}`: the clock of the larger part is right, and `{APART}` is better. `fills`: a "
        "cache of which keys are drawn at random; it may be far from full, and follow invocations until it is.\n\n"
        + confusion(every)
        + f"\n\n### Leaks by traffic\n\n{by_traffic(every)}\n\n"
        + f"## The default traffic, five minutes\n\n{len(default)} cases with `--rate {DEFAULT}`.\n\n"
        + confusion(default)
        + f"\n\n### Named rightly, by growth\n\n{found_by_growth(default)}\n\n"
        + f"## The same runs, in a collected heap\n\n{len(heaps)} cases, with garbage of two generations. "
        "What was used is not kept if less was used later; what grows long after the last major collection does not "
        "count.\n\n"
        + confusion(heaps)
        + f"\n\n### Named rightly, by growth in a collected heap\n\n{found_by_growth(heaps)}\n\n"
        + f"CPU time of an answer: {took:.0f} ms.\n"
    )


@click.command(help=__doc__)
@click.option("--cases", default=CASES, show_default=True, help="Of each traffic set; fewer write nothing.")
@click.option("--tuning", is_flag=True, help="Of tuning seeds, to look at while thresholds change. Writes nothing.")
def main(cases: int, tuning: bool) -> None:
    """See the module."""
    seeds = TUNING if tuning else SEALED
    half = len(seeds) // 2
    other = seeds[half : half + cases]
    work: list[tuple[int, str | None, bool]] = [(seed, None, False) for seed in seeds[:cases]]
    work += [(seed, DEFAULT, is_collected) for is_collected in (False, True) for seed in other]
    with Pool() as pool:
        made = list(
            track(
                pool.imap(judged, work, chunksize=4), "cases", len(work), console=Console(stderr=True), transient=True
            )
        )
    every, default, heaps = made[:cases], made[cases : 2 * cases], made[2 * cases :]
    text = page(every, default, heaps)
    click.echo(text)
    if tuning or cases < CASES:
        return
    RESULTS.write_text(text)
    exit_if_broken([what for what, _, _, kept in promises(every, default, heaps) if not kept])


if __name__ == "__main__":
    main()
