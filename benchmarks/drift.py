"""How often the verdict on drift is right, from RSS alone.

Curves composed at random (testing.drift.compositions), of seeds by which no threshold was chosen, and recorded
programs. With --seeds tuning of those that one may look at while thresholds change. Writes results/drift.md, and the
recorded curves into docs/patterns.md.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from truemem.verdict import CONFIDENCE, GATE_KIB, GROWING, OPEN_KIB, median
from truemem_workbench.judge.drift import INSUFFICIENT, Point, judge

from benchmarks.kit.bench import Bench, percent, share
from testing.drift import recorded
from testing.drift.compositions import (
    ALIKE,
    ALONE,
    BESIDE,
    BOUNDED,
    FILLING,
    GROUPS,
    LEAKS,
    LIFE,
    SEALED,
    TUNING,
    compose,
)
from testing.drift.judged import Told, points, sidecar_at
from testing.pages import Result, Table, markdown

TITLE = "Drift"
SETTINGS = {"seeds": "tuning: other seeds. Writes nothing."}
LENGTHS = (128, 256, 512, 1024, LIFE)
AT = 1024
"""The length that is promised."""
SIDECAR, WORKBENCH = "sidecar", "workbench"
FORMS = (SIDECAR, WORKBENCH)
SHOWN = (*GROUPS, ALIKE)
FALSE = {BOUNDED: 0.03, FILLING: 0.04}
FOUND = {ALONE: 0.75, BESIDE: 0.65}
COVERAGE = (0.90, 0.97)
LEAST_REAL, MOST_REAL = 0.85, 1 / 20
BARS, WIDTH = "▁▂▃▄▅▆▇█", 60
LEAST_KIB = 2048
"""What a curve is drawn over at least: less is flat."""


class JudgedCurve(NamedTuple):
    """A verdict on the first invocations of a composition."""

    group: str | None
    rate: float | None
    """What it truly grows by, KiB per invocation, if that is one number."""
    told: Told


class Measured(NamedTuple):
    """Of one composition."""

    by: dict[tuple[str, int], JudgedCurve]
    """By form and length."""
    ever: bool
    """Did the sidecar ever call it growing?"""
    cost: tuple[float, float]
    """CPU time: the sidecar's of an invocation, µs; the workbench's of a verdict on AT invocations, ms."""


class Promise(NamedTuple):
    """A line of the table."""

    what: str
    least: float
    most: float
    measured: dict[str, float | None]
    """By form."""

    def kept(self) -> bool:
        """Is all within the bounds? What is not measured is not kept."""
        return all(value is not None and self.least <= value <= self.most for value in self.measured.values())

    def aim(self) -> str:
        """The bounds, for the table."""
        if self.most == self.least:
            return f"{self.least:.0%}"
        if self.most == 1:
            return f"at least {self.least:.0%}"
        return f"at most {self.most:.0%}" if self.least == 0 else f"{self.least:.0%} to {self.most:.0%}"


def measure(seed: int) -> Measured:
    """All that is said of the composition of that seed."""
    made = compose(seed)
    begun = time.process_time()
    small, first = sidecar_at(made.current, made.peak, made.time_ms, LENGTHS)
    sidecar_us = (time.process_time() - begun) * 1e6 / LIFE
    by, workbench_ms = {}, 0.0
    for count in LENGTHS:
        group, rate, curve = made.group(count), made.true_rate(count), points(made, count)
        by[SIDECAR, count] = JudgedCurve(group, rate, small[count])
        begun = time.process_time()
        verdict = judge(curve)
        if count == AT:
            workbench_ms = (time.process_time() - begun) * 1e3
        told = Told(verdict.name, verdict.low_kib or 0.0, verdict.high_kib or 0.0, verdict.confidence)
        by[WORKBENCH, count] = JudgedCurve(group, rate, told)
    return Measured(by, first is not None, (sidecar_us, workbench_ms))


def of_group(results: Sequence[Measured], form: str, count: int, *groups: str) -> list[JudgedCurve]:
    return [each.by[form, count] for each in results if each.by[form, count].group in groups]


def called(results: Sequence[Measured], form: str, count: int, group: str) -> float | None:
    """The share of a group that a form calls growing."""
    return share(each.told.verdict == GROWING for each in of_group(results, form, count, group))


def covered(results: Sequence[Measured], form: str, count: int, groups: Sequence[str]) -> float | None:
    """The share of intervals that have the true rate."""
    return share(
        each.told.low <= each.rate <= each.told.high
        for each in of_group(results, form, count, *groups)
        if each.rate is not None and each.told.verdict != INSUFFICIENT.name
    )


def contradictions(results: Sequence[Measured], form: str) -> float | None:
    """The share of verdicts that their interval contradicts."""

    def is_wrong(told: Told) -> bool:
        ended = told.verdict in ("stable", "plateau", "spiky")
        return (told.verdict == GROWING and told.low <= 0) or (ended and (told.low > GATE_KIB or told.high > OPEN_KIB))

    return share(is_wrong(each.by[form, count].told) for each in results for count in LENGTHS)


def right(results: Sequence[Measured], form: str, confidence: float) -> tuple[str, str]:
    """How many verdicts `growing` have that confidence, at all lengths, and the share of them that were leaks. What no
    curve can tell from a leak counts as wrong, a leak that began late as right."""
    seen = [each.by[form, count] for each in results for count in LENGTHS]
    of = [each for each in seen if each.told.verdict == GROWING and each.told.confidence == confidence]
    return f"{len(of):,}", percent(share(each.group in (*LEAKS, None) for each in of))


def promises(results: Sequence[Measured], real: dict[bool, dict[str, float | None]]) -> list[Promise]:
    """All that is promised, as measured."""
    made = []
    bounds = [*((f"leak {group}", group, least, 1.0) for group, least in FOUND.items())]
    bounds += [(group, group, 0.0, most) for group, most in FALSE.items()]
    for words, group, least, most in bounds:
        measured = {form: called(results, form, AT, group) for form in FORMS}
        made.append(Promise(f"{words}: called growing at {AT:,}", least, most, measured))
    for count in LENGTHS[1:]:
        measured = {form: covered(results, form, count, GROUPS) for form in FORMS}
        made.append(Promise(f"95 % intervals that have the true rate at {count:,}", *COVERAGE, measured))
    measured = {form: contradictions(results, form) for form in FORMS}
    made.append(Promise("verdicts that contradict their interval", 0, 0, measured))
    made.append(Promise("recorded programs that leak: called growing at the end", LEAST_REAL, 1, real[True]))
    made.append(Promise("recorded programs that do not: called growing at the end", 0, MOST_REAL, real[False]))
    return made


def measure_real(name: str) -> list[str]:
    """Of a recorded program: whether it leaks, the verdict of each form at its end, and the interval."""
    curve = [point for point in recorded.stored(name) if point.certain]
    current, peak, time_ms = (np.array([_number(point, at) for point in curve]) for at in (2, 3, 1))
    small, first = sidecar_at(current, peak, time_ms, [len(curve)])
    large = judge(curve)
    rate = f"{large.low_kib or 0:.2f} to {large.high_kib or 0:.2f}"
    names = [small[len(curve)].verdict, large.name]
    return [name, "yes" if recorded.REAL[name] else "no", *names, "" if first is None else f"{first:,}", rate]


def _number(point: Point, at: int) -> float:
    value = point[at]
    return point.current_kib if value is None else float(value)


def drawn() -> str:
    """The recorded curves, small: for docs/patterns.md."""
    rows = []
    for name in recorded.LABELS:
        curve = recorded.stored(name)
        held = [point.current_kib for point in curve if point.certain]
        lowest, highest = min(held), max(held)
        span = max(highest - lowest, LEAST_KIB)
        parts = [held[len(held) * at // WIDTH : len(held) * (at + 1) // WIDTH] for at in range(WIDTH)]
        line = "".join(BARS[round((median(part) - lowest) / span * (len(BARS) - 1))] for part in parts)
        rows.append([name, f"`{line}`", f"{lowest / 1024:.1f}", f"{highest / 1024:.1f}", judge(curve).name])
    return markdown(["function", "current", "lowest, MiB", "highest", "verdict"], rows, 2)


def tables(results: Sequence[Measured], made: Sequence[Promise], real: Sequence[list[str]]) -> list[Table]:
    both = [(count, form) for count in LENGTHS for form in FORMS]
    kept = [
        [each.what, each.aim(), *(percent(each.measured[form]) for form in FORMS), "yes" if each.kept() else "**NO**"]
        for each in made
    ]
    growing = [[f"{at:,}", form, *(percent(called(results, form, at, group)) for group in SHOWN)] for at, form in both]
    growing.append([f"curves at {AT:,}", "", *(f"{len(of_group(results, WORKBENCH, AT, group))}" for group in SHOWN)])
    ever = {group: [each.ever for each in results if each.by[SIDECAR, LIFE].group == group] for group in FALSE}
    confident = [
        [f"{least or LENGTHS[0]:,}", f"{sure:.2f}", *right(results, SIDECAR, sure), *right(results, WORKBENCH, sure)]
        for least, sure in CONFIDENCE
    ]
    sides = [f"{form}: {what}" for form in FORMS for what in ("verdicts", "were leaks")]
    last = ("sidecar: growing from", "KiB per invocation")
    return [
        Table("Promised and measured", ("promised", "aim", *FORMS, "kept"), kept, PROMISED),
        Table("Called growing, by length", ("invocations", "form", *SHOWN), growing, CURVES, 2),
        Table(
            "Ever called growing",
            ("group", "ever called growing"),
            [[group, percent(share(said))] for group, said in ever.items()],
            f"By the sidecar, in a life of {LIFE:,}.",
        ),
        Table("Confidence", ("from", "confidence", *sides), confident, SURE),
        Table("Recorded programs", ("program", "leaks", *FORMS, *last), real, RECORDED, 5),
    ]


def run(bench: Bench) -> Result:
    seeds = TUNING if bench.settings.get("seeds") == "tuning" else SEALED
    results = bench.spread("compositions", measure, seeds[: bench.count(len(seeds))])
    rows = bench.spread("recorded programs", measure_real, list(recorded.REAL))
    real = {
        leaks: {
            form: share(row[2 + at] == GROWING for row in rows if (row[1] == "yes") is leaks)
            for at, form in enumerate(FORMS)
        }
        for leaks in (True, False)
    }
    made = promises(results, real)
    cost = np.mean([each.cost for each in results], axis=0)
    note = (
        f"{len(results):,} compositions. CPU time: the sidecar's {cost[0]:.1f} µs for one invocation, verdicts"
        f" included; the workbench's {cost[1]:.1f} ms for one verdict on {AT:,} invocations."
    )
    broken = [each.what for each in made if not each.kept()]
    found = tables(results, made, sorted(rows, key=lambda row: row[1] == "no"))
    return Result(found, broken, {("docs/patterns.md", "curves"): drawn()}, note=note)


PROMISED = """\
From RSS alone, with no memory limit known. The sidecar's verdict, and the workbench's."""
CURVES = f"""\
Compositions of {LIFE:,} invocations, of sealed seeds: `testing.drift.compositions` draws their parts from wide ranges
that were written before a verdict on them was seen. *alone*: a leak of 1 to 60 KiB per invocation with noise; *beside*:
with up to three collectors, waves, bursts, swaps, caches, pools and others; *bounded*: no leak, nothing fills any more;
*filling*: something still fills, at most half as fast as at first; *alike*: something fills faster than that, such as a
cache that is far from full, so that a curve hardly tells it from a leak: nothing is promised of it."""
SURE = """\
Of the verdicts `growing` from so many invocations on, at the lengths above: how many were leaks. Half of all
compositions leak; those that are *alike* are counted as wrong."""
RECORDED = f"""\
Recorded under the local Lambda with the sidecar attached, {recorded.REAL_INVOCATIONS:,} invocations each:
`testing.drift.recorded`."""
