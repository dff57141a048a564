"""Measures how often environments together are judged rightly (truemem_workbench.analysis.fleet), on fleets made from
seeds: false accusations, and leaks found.

Writes results/fleet.md. Exit codes: 0 as promised, 1 not: no accusation without a leak, each leak of PROMISED_KIB or
more is found.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Sequence
from multiprocessing import Pool
from pathlib import Path

import click
from truemem_workbench.analysis.drift import Point, judge
from truemem_workbench.analysis.fleet import RATE, Together, accuse, evidence, pool

from benchmarks.publish import machine, markdown
from testing.fleets import QUIET, leaking, quiet

RESULTS = Path(__file__).with_name("results") / "fleet.md"
LEAKS_KIB = (0.5, 1.0, 2.0, 4.0)
PROMISED_KIB = 1.0
"""Smallest leak that is promised to be found, in 100 environments of 200 invocations."""
ALONE = 5
"""Environments of each leaking fleet that are also judged alone."""


def together(fleet: Sequence[Sequence[Point]]) -> Together | None:
    """The judgement on one fleet, as on the only function of a report."""
    return accuse([pool([evidence(environment) for environment in fleet])])[0]


def tell_quiet(which: tuple[str, int]) -> tuple[str, int, Together | None]:
    """Of a fleet of that kind and seed; with its number of environments."""
    fleet = quiet(*which)
    return which[0], len(fleet), together(fleet)


def tell_leak(which: tuple[float, int]) -> tuple[float, Together | None, int]:
    """Of a fleet with that leak and seed; with how many of ALONE environments are growing alone."""
    fleet = leaking(*which)
    return which[0], together(fleet), sum(judge(environment).name == "growing" for environment in fleet[:ALONE])


def quiet_table(told: Sequence[tuple[str, int, Together | None]]) -> str:
    """A row for each kind."""
    rows = []
    for name in QUIET:
        own = [(count, each) for kind, count, each in told if kind == name]
        known = [each for _, each in own if each is not None]
        lowest = min((each.p for each in known), default=1.0)
        accused = sum(each.grows for each in known)
        rows.append([name, f"{len(own):,}", f"{len(known):,}", f"{accused:,}", f"{lowest:.1g}"])
    return markdown(["fleets without a leak", "fleets", "compared", "accused", "lowest p"], rows)


def leak_table(told: Sequence[tuple[float, Together | None, int]]) -> str:
    """A row for each leak."""
    rows = []
    for kib in LEAKS_KIB:
        own = [(each, alone) for leak, each, alone in told if leak == kib]
        known = [each for each, _ in own if each is not None]
        width = statistics.median(each.high_kib - each.low_kib for each in known)
        inside = sum(each.low_kib <= kib <= each.high_kib for each in known)
        found = sum(each.grows for each in known)
        alone = sum(each for _, each in own)
        figures = [f"{len(own):,}", f"{found:,}", f"{max(each.p for each in known):.1g}"]
        rows.append([f"{kib:g} KiB", *figures, f"{width:.3f}", f"{inside:,}", f"{alone:,} of {len(own) * ALONE:,}"])
    names = ["leak per invocation", "fleets", "found", "highest p", "width of interval, KiB", "leak within it"]
    return markdown([*names, "growing alone"], rows)


@click.command()
@click.option("--fleets", default=1300, show_default=True, help="Fleets without a leak.")
@click.option("--leaks", default=100, show_default=True, help="Fleets of each leak.")
def main(fleets: int, leaks: int) -> None:
    """See the module."""
    kinds = list(QUIET)
    with Pool() as workers:
        free = workers.map(tell_quiet, [(kinds[at % len(kinds)], 10_000 + at) for at in range(fleets)], chunksize=5)
        leaky = workers.map(tell_leak, [(kib, 10_000 + at) for kib in LEAKS_KIB for at in range(leaks)], chunksize=5)
    text = f"""# Environments together

`python -m benchmarks.fleet`, on {machine()}.

{quiet_table(free)}

20 to 200 environments of 60 to 400 invocations; a fifth of the fleets has two kinds at once. Compared: enough
environments are long enough, and calm. A function is accused if p is at most {RATE:g} (it is alone in its report).

{leak_table(leaky)}

100 environments of 200 invocations. Noise: log-normal jitter of 4 to 64 KiB, outliers, and in each environment its own
base and settling of 1 to 20 MiB. Growing alone: {ALONE} environments of each fleet, by their own verdict.
"""
    click.echo(text)
    RESULTS.write_text(text)
    accused = sum(each is not None and each.grows for *_, each in free)
    missed = sum(kib >= PROMISED_KIB and not (each is not None and each.grows) for kib, each, _ in leaky)
    if accused or missed:
        click.echo(f"not as promised: {accused:,} accused without a leak, {missed:,} leaks missed", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
