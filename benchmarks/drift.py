"""Measures how often the verdict on drift is right, beside an oracle and published methods on the same curves.

Curves composed at random (testing.drift.compositions), of seeds by which no threshold was chosen, and
recorded programs. Writes results/drift.md, and the recorded curves into docs/patterns.md. Exit codes: 0 as promised,
1 not.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Sequence
from multiprocessing import Pool
from multiprocessing.pool import Pool as Workers
from pathlib import Path
from typing import NamedTuple, TypeVar

import click
import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from truemem.verdict import CONFIDENCE, GATE_KIB, GROWING, OPEN_KIB, median
from truemem_workbench.analysis.drift import INSUFFICIENT, Point, judge
from truemem_workbench.analysis.thresholds import MATTERS_KIB

from benchmarks import drift_methods, drift_oracle
from benchmarks.publish import ROOT, machine, markdown, replace
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

RESULTS = Path(__file__).with_name("results") / "drift.md"
PATTERNS = ROOT / "docs" / "patterns.md"
BY = "python -m benchmarks.drift"

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
METHODS_OF = 400
"""Curves that the published methods get: some take long."""

BARS = "▁▂▃▄▅▆▇█"
WIDTH = 60
LEAST_KIB = 2048
"""What a curve is drawn over at least: less is flat."""

Which = TypeVar("Which")
Said = TypeVar("Said")


class JudgedCurve(NamedTuple):
    """A verdict on the first invocations of a composition."""

    group: str | None
    rate: float | None
    """What it truly grows by, KiB per invocation, if that is one number."""
    told: Told
    settled: bool | None
    """Of the workbench."""


class Result(NamedTuple):
    """Of one composition."""

    by: dict[tuple[str, int], JudgedCurve]
    """By form and length."""
    ever: bool
    """Did the sidecar ever call it growing?"""
    features: list[float]
    """At AT."""
    methods: dict[str, bool]
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


def measure(seed: int) -> Result:
    """All that is said of the composition of that seed."""
    made = compose(seed)
    begun = time.process_time()
    small, first = sidecar_at(made.current, made.peak, made.time_ms, LENGTHS)
    sidecar_us = (time.process_time() - begun) * 1e6 / LIFE
    by, workbench_ms = {}, 0.0
    for count in LENGTHS:
        group, rate, curve = made.group(count), made.true_rate(count), points(made, count)
        by[SIDECAR, count] = JudgedCurve(group, rate, small[count], None)
        begun = time.process_time()
        verdict = judge(curve)
        if count == AT:
            workbench_ms = (time.process_time() - begun) * 1e3
        told = Told(verdict.name, verdict.low_kib or 0.0, verdict.high_kib or 0.0, verdict.confidence)
        by[WORKBENCH, count] = JudgedCurve(group, rate, told, verdict.settled)
    current = np.asarray(made.current[:AT], np.float64)
    asked = SEALED.start <= seed < SEALED.start + METHODS_OF
    methods = drift_methods.judged(drift_methods.reduced(current, float("inf"))) if asked else {}
    features = drift_oracle.features(current)
    return Result(by, first is not None, features, methods, (sidecar_us, workbench_ms))


def learn(seed: int) -> tuple[list[float], str | None]:
    """What the oracle learns from: features and label."""
    made = compose(seed)
    return drift_oracle.features(made.current[:AT]), made.group(AT)


def share(said: Iterable[bool]) -> float | None:
    """Part of those that are true; None of nothing."""
    every = list(said)
    return sum(every) / len(every) if every else None


def percent(part: float | None) -> str:
    """For a table."""
    return "" if part is None else f"{part:.1%}"


def called(results: Sequence[Result], form: str, count: int, group: str) -> float | None:
    """The share of a group that a form calls growing."""
    seen = (each.by[form, count] for each in results)
    return share(each.told.verdict == GROWING for each in seen if each.group == group)


def covered(results: Sequence[Result], form: str, count: int, groups: Sequence[str]) -> float | None:
    """The share of intervals that have the true rate."""
    seen = (each.by[form, count] for each in results)
    return share(
        each.told.low <= each.rate <= each.told.high
        for each in seen
        if each.rate is not None and each.group in groups and each.told.verdict != INSUFFICIENT.name
    )


def contradictions(results: Sequence[Result], form: str) -> float:
    """The share of verdicts that their interval contradicts."""
    wrong = []
    for each in results:
        for count in LENGTHS:
            name, low, high, _ = each.by[form, count].told
            ended = name in ("stable", "plateau", "spiky")
            wrong.append((name == GROWING and low <= 0) or (ended and (low > GATE_KIB or high > OPEN_KIB)))
    return sum(wrong) / len(wrong)


def right(results: Sequence[Result], form: str, confidence: float) -> tuple[int, float | None]:
    """How many verdicts `growing` have that confidence, at all lengths, and the share of them that were leaks. What no
    curve can tell from a leak counts as wrong, a leak that began late as right."""
    leaks = [
        each.by[form, count].group in (*LEAKS, None)
        for each in results
        for count in LENGTHS
        if each.by[form, count].told.verdict == GROWING and each.by[form, count].told.confidence == confidence
    ]
    return len(leaks), share(leaks)


def promises(results: Sequence[Result], real: dict[bool, dict[str, float | None]]) -> list[Promise]:
    """All that is promised, as measured."""
    made = []
    for group, least in FOUND.items():
        measured = {form: called(results, form, AT, group) for form in FORMS}
        made.append(Promise(f"leak {group}: called growing at {AT:,}", least, 1, measured))
    for group, most in FALSE.items():
        measured = {form: called(results, form, AT, group) for form in FORMS}
        made.append(Promise(f"{group}: called growing at {AT:,}", 0, most, measured))
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


def by_length(results: Sequence[Result]) -> str:
    """What is called growing."""
    rows = [
        [f"{count:,}", form, *(percent(called(results, form, count, group)) for group in SHOWN)]
        for count in LENGTHS
        for form in FORMS
    ]
    sizes = [f"{sum(each.by[WORKBENCH, AT].group == group for each in results)}" for group in SHOWN]
    rows.append([f"curves at {AT:,}", "", *sizes])
    return markdown(["invocations", "form", *SHOWN], rows, 2)


def oracle(results: Sequence[Result], taught: Sequence[tuple[list[float], str | None]]) -> str:
    """What the oracle finds at the same false alarms."""
    pairs = [(features, group) for features, group in taught if group in drift_oracle.CLASSES]
    trees = drift_oracle.Trees(
        np.array([features for features, _ in pairs]), np.array([drift_oracle.CLASSES[group] for _, group in pairs])
    )
    groups = [each.by[WORKBENCH, AT].group or "" for each in results]
    likely = trees.likely(np.array([each.features for each in results]))
    rows = []
    for form in FORMS:
        said = {group: called(results, form, AT, group) or 0.0 for group in GROUPS}
        rows.append([form, *map(percent, said.values())])
        same = drift_oracle.found(likely, groups, said[BOUNDED], said[FILLING])
        rows.append([f"oracle, as many false alarms as {form}", *map(percent, same.values())])
    aimed = drift_oracle.found(likely, groups, FALSE[BOUNDED], FALSE[FILLING])
    rows.append(["oracle, as many false alarms as promised", *map(percent, aimed.values())])
    return (
        f"It has learned from {len(pairs):,} curves of other seeds. What it finds is a lower bound of the best "
        "possible: the likelihood ratio, estimated by boosted trees that know the mix "
        "(`benchmarks/drift_oracle.py`). Its limits are set on the sealed curves themselves, which favours it a "
        f"little. At {AT:,} invocations:\n\n" + markdown(["", *GROUPS], rows)
    )


def page(
    made: Sequence[Promise],
    results: Sequence[Result],
    taught: Sequence[tuple[list[float], str | None]],
    real: Sequence[list[str]],
) -> str:
    """The results."""
    broken = sum(not each.kept() for each in made)
    kept = f"**{broken} of {len(made)} are not kept.**" if broken else f"All {len(made)} are kept."
    table = [
        [
            each.what,
            each.aim(),
            *(percent(each.measured.get(form)) for form in FORMS),
            "yes" if each.kept() else "**NO**",
        ]
        for each in made
    ]
    intervals = [
        [f"{count:,}", form, *(percent(covered(results, form, count, [group])) for group in (ALONE, BESIDE, BOUNDED))]
        for count in LENGTHS
        for form in FORMS
    ]
    confidences = []
    for least, confidence in CONFIDENCE:
        row = [f"{least or LENGTHS[0]:,}", f"{confidence:.2f}"]
        for form in FORMS:
            number, share_right = right(results, form, confidence)
            row += [f"{number:,}", percent(share_right)]
        confidences.append(row)
    settled = [[f"{count:,}", *(percent(_settled(results, count, group)) for group in SHOWN)] for count in LENGTHS]
    asked = [each for each in results if each.methods]
    methods = []
    for method in asked[0].methods if asked else ():
        told = {
            group: share(each.methods[method] for each in asked if each.by[WORKBENCH, AT].group == group)
            for group in GROUPS
        }
        methods.append([method, *map(percent, told.values())])
    ever = [
        [group, percent(share(each.ever for each in results if each.by[SIDECAR, LIFE].group == group))]
        for group in (BOUNDED, FILLING)
    ]
    cost = np.mean([each.cost for each in results], axis=0)
    return "\n".join(
        [
            f"# Drift\n\n`{BY}`, on {machine()}.\n\n## Promised and measured\n\nFrom RSS alone, with no memory limit "
            f"known. The sidecar's verdict, and the workbench's. {kept}\n",
            markdown(["promised", "aim", *FORMS, "kept"], table),
            f"\n## The curves\n\n{len(results):,} compositions of {LIFE:,} invocations, of sealed seeds: "
            "`testing.drift.compositions` draws their parts from wide ranges that were written "
            "before a verdict on them was seen. *alone*: a leak of 1 to 60 KiB per invocation with noise; *beside*: "
            "with up to three collectors, waves, bursts, swaps, caches, pools and others; *bounded*: no leak, nothing "
            "fills any more; *filling*: something still fills, at most half as fast as at first; *alike*: something "
            "fills faster than that, such as a cache that is far from full, so that a curve hardly tells it from a "
            "leak: nothing is promised of it.\n\n### Called growing, by length\n",
            by_length(results),
            "\n## The oracle\n\n" + oracle(results, taught),
            f"\n## Ever called growing\n\nBy the sidecar, in a life of {LIFE:,}:\n\n"
            + markdown(["group", "ever called growing"], ever),
            "\n## The interval\n\nThe share of 95 % intervals that have the true rate, whatever the verdict is, where "
            "there is one rate.\n\n" + markdown(["invocations", "form", ALONE, BESIDE, BOUNDED], intervals, 2),
            "\n## Confidence\n\nOf the verdicts `growing` from so many invocations on, at the lengths above: how many "
            "were leaks. Half of all compositions leak; those that are *alike* are counted as wrong.\n\n"
            + markdown(
                ["from", "confidence"] + [text for form in FORMS for text in (f"{form}: verdicts", "were leaks")],
                confidences,
            ),
            "\n## Settled\n\nThe share of its verdicts that are `settled`: a leak with enough confidence, or no"
            f" growth of {MATTERS_KIB:g} KiB within the interval.\n\n" + markdown(["invocations", *SHOWN], settled),
            "\n## Recorded programs\n\nRecorded under the local Lambda with the sidecar attached, "
            f"{recorded.REAL_INVOCATIONS:,} invocations each: `testing.drift.recorded`.\n\n"
            + markdown(["program", "leaks", *FORMS, "sidecar: growing from", "KiB per invocation"], real, 5),
            f"\n## The published methods\n\nOn the first {len(asked)} curves, at {AT:,} invocations.\n\n"
            + markdown(["method", *GROUPS], methods)
            + "\n\n"
            + drift_methods.ABOUT.rstrip(),
            f"\n## CPU time\n\nThe sidecar: {cost[0]:.1f} µs for one invocation, verdicts included. The workbench: "
            f"{cost[1]:.1f} ms for one verdict on {AT:,} invocations.\n",
        ]
    )


def _settled(results: Sequence[Result], count: int, group: str) -> float | None:
    seen = (each.by[WORKBENCH, count] for each in results)
    return share(bool(each.settled) for each in seen if each.group == group)


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


def measured(
    pool: Workers, progress: Progress, title: str, measure: Callable[[Which], Said], every: Sequence[Which]
) -> list[Said]:
    """What `measure` says of each, in order."""
    task = progress.add_task(title, total=len(every))
    told = []
    for each in pool.imap(measure, every, chunksize=8):
        told.append(each)
        progress.advance(task)
    return told


@click.command(help=__doc__)
@click.option("--seeds", default=len(SEALED), show_default=True, help="Compositions; fewer write nothing.")
@click.option(
    "--tuning", is_flag=True, help="Of tuning seeds, to look at while the verdict is changed. Writes nothing."
)
def main(seeds: int, tuning: bool) -> None:
    """See the module."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    judging, teaching = (TUNING[:seeds], TUNING[len(TUNING) // 2 :]) if tuning else (SEALED[:seeds], TUNING)
    with Pool() as pool, Progress(*columns, console=Console(stderr=True)) as progress:
        results = measured(pool, progress, "compositions", measure, judging)
        taught = measured(pool, progress, "the oracle's", learn, teaching)
        rows = measured(pool, progress, "recorded programs", measure_real, list(recorded.REAL))
    real = {
        leaks: {
            form: share(row[2 + at] == GROWING for row in rows if (row[1] == "yes") is leaks)
            for at, form in enumerate(FORMS)
        }
        for leaks in (True, False)
    }
    made = promises(results, real)
    text = page(made, results, taught, sorted(rows, key=lambda row: row[1] == "no"))
    click.echo(text)
    if tuning or seeds < len(SEALED):
        return
    RESULTS.write_text(text)
    replace(PATTERNS, "curves", drawn(), BY)
    if broken := [each.what for each in made if not each.kept()]:
        click.echo(f"not as promised: {'; '.join(broken)}", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
