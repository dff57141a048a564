"""Measures how often the verdict is right, on labelled curves (truemem_workbench.testing.drift): precision, recall,
false alarms, missed leaks.

Also on two held-out sets, for which nothing is promised. Writes results/drift.md, and the recorded curves into
docs/patterns.md. Exit codes: 0 as promised, 1 not.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from multiprocessing import Pool
from pathlib import Path
from typing import NamedTuple

import click
from truemem.records.drift import GROWING, NOISE, SMALL_KIB, median, noise_of
from truemem_workbench.analysis.block_medians import medians, usual_edges
from truemem_workbench.analysis.drift import Point, Verdict, judge
from truemem_workbench.testing.drift import held_out, recorded
from truemem_workbench.testing.drift.judged import Tally, on_the_way, points
from truemem_workbench.testing.drift.synthetic import (
    HARD,
    INVOCATIONS,
    KINDS,
    LEAK_FREE,
    LEAKS,
    STEADY_LEAKS,
    Kind,
    make,
)

from benchmarks.publish import ROOT, machine, markdown, replace

RESULTS = Path(__file__).with_name("results") / "drift.md"
BARS = "▁▂▃▄▅▆▇█"
WIDTH = 60
LEAST_KIB = 2048
"""What a curve is drawn over at least: less is flat."""
VERDICTS = ("stable", "warming", "plateau", "growing", "spiky")
LENGTHS = (300, 1000)
"""Of the held-out series."""


class Told(NamedTuple):
    """Of one series."""

    kind: str
    workbench: str
    sidecar: str
    alarmed: bool
    """The sidecar called it growing at some time, if not at the end."""
    calm: bool
    """The workbench called it stable or full, beside an interval that is above 0 by more than noise."""
    workbench_ms: float
    sidecar_us: float
    """CPU time: of one verdict; of the sidecar's for one invocation."""


def tell(which: tuple[str, int]) -> Told:
    """The verdicts on that kind and seed."""
    return told_of(which[0], points(make(*which)))


def tell_held_out(which: tuple[str, int, int]) -> Told:
    """The verdicts on that kind, seed and length."""
    return told_of(which[0], held_out.make(*which))


def told_of(kind: str, curve: Sequence[Point]) -> Told:
    """Both verdicts."""
    begun = time.process_time()
    verdict = judge(curve)
    judged = time.process_time()
    small = list(on_the_way(curve))
    ended = time.process_time()
    spent = (judged - begun) * 1e3, (ended - judged) * 1e6 / len(curve)
    return Told(kind, verdict.name, small[-1], GROWING in small, is_calm(verdict, curve), *spent)


def is_calm(verdict: Verdict, curve: Sequence[Point]) -> bool:
    """Does it say that nothing grows, beside an interval that says it does?"""
    if verdict.name not in ("stable", "plateau"):
        return False
    noise = noise_of(medians([point.current_kib for point in curve], usual_edges(len(curve))))
    return (verdict.low_kib or 0) * len(curve) > NOISE * noise + SMALL_KIB


def of(kinds: Iterable[str], count: int) -> list[tuple[str, int]]:
    """So many series of these kinds by turns."""
    names = list(kinds)
    return [(names[at % len(names)], 10_000 + at) for at in range(count)]


def tally(kinds: dict[str, Kind], told: Sequence[Told], which: int) -> Tally:
    """Of the workbench (1) or the sidecar (2)."""
    made = Tally()
    for each in told:
        made.add(kinds[each.kind].label, str(each[which]))
    return made


def percent(share: float | None) -> str:
    """For a table."""
    return "" if share is None else f"{share * 100:.1f} %"


def page(free: Sequence[Told], leaks: Sequence[Told]) -> str:
    """The results."""
    every = [*free, *leaks]
    parts = [f"# Drift\n\n`python -m benchmarks.drift`, on {machine()}.\n"]
    steady = [each for each in leaks if each.kind in STEADY_LEAKS]
    agree = sum(each.workbench == each.sidecar for each in every) / len(every)
    rows = [
        ["false alarms, of all leak-free series", "0", *(f"{tally(KINDS, free, at).false_alarms()}" for at in (1, 2))],
        [
            f"leaks found, of {len(steady)} alone",
            "all",
            *(percent(1 - tally(KINDS, steady, at).missed() / len(steady)) for at in (1, 2)),
        ],
        [
            f"leaks found, of all {len(leaks)}",
            "",
            *(percent(1 - tally(KINDS, leaks, at).missed() / len(leaks)) for at in (1, 2)),
        ],
    ]
    parts.append(
        f"{len(free):,} leak-free series and {len(leaks):,} with a leak of 4 KiB per invocation or more, of "
        f"{INVOCATIONS} invocations each, with jitter of 4 to 96 KiB that remembers half of itself and outliers of ten "
        f"times that. {len(steady)} of the leaks are alone. The other {len(leaks) - len(steady)} are those that are "
        f"hard to see, and not promised to be found within {INVOCATIONS}: *{'*, *'.join(HARD)}*. The sidecar agrees "
        f"with the workbench on {percent(agree)} of all.\n"
    )
    parts.append(markdown(["at the end of the series", "aim", "workbench", "sidecar"], rows))
    rows = []
    for name in VERDICTS:
        shares = [(made.precision(name), made.recall(name)) for made in (tally(KINDS, every, at) for at in (1, 2))]
        rows.append([name, *(percent(share) for pair in shares for share in pair)])
    headings = ["verdict", "workbench: precision", "recall", "sidecar: precision", "recall"]
    parts += ["\n## By verdict\n", markdown(headings, rows)]
    rows = []
    for kind, about in KINDS.items():
        told = [each for each in every if each.kind == kind]
        right = [sum(each[at] == about.label for each in told) / len(told) for at in (1, 2)]
        grew = [sum(each[at] == GROWING for each in told) for at in (1, 2)]
        early = sum(each.alarmed for each in told) if kind in LEAK_FREE else None
        rows.append(
            [
                kind,
                about.label,
                f"{len(told)}",
                *map(percent, right),
                *map(str, grew),
                "" if early is None else str(early),
            ]
        )
    headings = [
        "kind",
        "label",
        "series",
        "workbench right",
        "sidecar right",
        "workbench: growing",
        "sidecar",
        "on the way",
    ]
    parts += ["\n## By kind\n", markdown(headings, rows, 2)]
    parts.append(
        "\n*On the way*: the sidecar called it growing at some time before the end. A cache that is far from full has "
        "the same curve as a leak: until it bends, memory alone cannot tell them apart.\n\n"
        "A leak that comes with the load of a model, with a collector's teeth as large as itself, or in one invocation "
        "of ten, may take more than 300 of them to be told.\n"
    )
    rows = []
    for name, labels in recorded.LABELS.items():
        curve = recorded.stored(name)
        rows.append([name, " or ".join(labels), judge(curve).name, list(on_the_way(curve))[-1]])
    parts += ["\n## Recorded from real functions\n", markdown(["function", "label", "workbench", "sidecar"], rows, 4)]
    large = sum(each.workbench_ms for each in every) / len(every)
    small = sum(each.sidecar_us for each in every) / len(every)
    parts.append(
        f"\nCPU time: {large:.1f} ms for a verdict of the workbench; {small:.0f} µs an invocation of the sidecar's, "
        f"over the first {INVOCATIONS} of them.\n"
    )
    return "\n".join(parts)


CHOICES = """
## Which choices were made with what

All thresholds but those named here were chosen by the corpus above. On the first held-out set, and on a reviewer's
series (waves and collector's teeth longer than the window, jitter of 256 KiB and 1 MiB, memory of 0.9, swaps, three
loads), which are therefore no longer held out, these were chosen:

- growth has slowed if its second half is below 0.7 of the first by more than noise (it was 0.58, noise or not);
- a step is left out only if it stays, and the interval is wider by what was left out;
- nothing is stable while the interval's low end is above 0 by more than noise and 128 KiB in all (of the first 128
  invocations, 1 KiB each), and nothing is full while that is so in its last third;
- a rise does not count until it is above where memory has been before.

Tried and left: a straight second half in spite of an early bend, from 512 invocations on. It found leaks behind a large
warm-up, and called 2 of 720 leak-free series of 1,000 invocations growing.

The second held-out set was written before any of this was tried on it. Then *leak, killed early* was looked at: that
several killed lives tell together what each leaves open was made after that, with series of its own. So that one kind
is held out no longer. It was
looked at once more before 0.58 was dropped, which was not chosen by it.
"""


def held_out_page(told: dict[int, list[Told]]) -> str:
    """What becomes of it outside the corpus; `told` by length."""
    each = len([one for one in told[LENGTHS[0]] if one.kind in held_out.KINDS]) // len(held_out.KINDS)
    parts = [
        CHOICES,
        f"\n## Held out\n\n{len(held_out.KINDS)} kinds of "
        "`workbench/truemem_workbench/testing/drift/held_out.py`, written before anybody looked at "
        f"what the first verdict said of them; {each} series of each length, with log-normal noise, heavy tails, "
        "irregular times. Nothing is promised of them. A leak may be too small beside what else moves for anybody to "
        "see it: here it is missed all the same. Each kind counts alike: the shares say which kinds were thought of, "
        "not how often they occur.\n",
        *set_page(told, held_out.KINDS, held_out.GROUPS, each),
        f"\n## Held out again\n\n{len(held_out.AGAIN)} more kinds, written before the present verdict was tried on "
        "them. Where an environment is killed again and again the workbench looks at all of its lives, the sidecar at "
        "the present one: it starts again with each.\n",
        *set_page(told, held_out.AGAIN, held_out.GROUPS_AGAIN, each),
    ]
    rows = []
    for name, leaks in recorded.REAL.items():
        curve = recorded.stored(name)
        verdict = judge(curve)
        rate = "" if verdict.per_invocation_kib is None else f"{verdict.per_invocation_kib:.1f}"
        truth = GROWING if leaks else "not growing"
        half = judge(curve[: len(curve) // 2]).name
        rows.append([name, truth, half, verdict.name, list(on_the_way(curve))[-1], rate])
    headings = ["function", "truth", "workbench, half", "workbench", "sidecar", "KiB per invocation"]
    parts.append(f"\n## Real programs: recorded, {recorded.REAL_INVOCATIONS:,} invocations each\n")
    parts.append(markdown(headings, rows, 5))
    parts.append(
        "\n*Zipf cache*, and *cache, Zipf keys* above, are caches "
        "whose rare keys go on coming: for a while the growth of their second half is that of the first. A load that "
        "rises, or a collector that has not run yet, for as long as it has been watched, is a leak as far as its curve "
        "tells.\n"
    )
    return "\n".join(parts)


def set_page(
    told: dict[int, list[Told]], kinds: dict[str, held_out.Kind], groups: dict[str, list[str]], each: int
) -> list[str]:
    """Of one of the two sets."""
    forms = [f"{count:,}: {form}" for count in LENGTHS for form in ("workbench", "sidecar")]
    rows = [
        [title, *(percent(grew(told[count], names, form)) for count in LENGTHS for form in (1, 2))]
        for title, names in groups.items()
    ]
    parts = [markdown(["called growing", *forms], rows)]
    ours = {count: [one for one in told[count] if one.kind in kinds] for count in LENGTHS}
    same = [percent(sum(one.workbench == one.sidecar for one in ours[count]) / len(ours[count])) for count in LENGTHS]
    missed = {
        count: [one for one in ours[count] if kinds[one.kind].truth == held_out.LEAK and one.workbench != GROWING]
        for count in LENGTHS
    }
    calm = [f"{sum(one.calm for one in missed[count])} of {len(missed[count])}" for count in LENGTHS]
    parts.append(
        f"\nThe two agree on {same[0]} of those of {LENGTHS[0]}, and {same[1]} of those of {LENGTHS[1]:,}. Of the "
        f"leaks that the workbench misses, {calm[0]} at {LENGTHS[0]} and {calm[1]} at {LENGTHS[1]:,} are called stable "
        f"or full although the interval's low end is above 0 by more than noise and {SMALL_KIB} KiB; the others are "
        "warming, or the interval says that it may be nothing.\n"
    )
    rows = []
    for name, kind in kinds.items():
        longest = [one for one in told[LENGTHS[-1]] if one.kind == name]
        early = "" if kind.truth == held_out.LEAK else percent(sum(one.alarmed for one in longest) / each)
        shares = [percent(grew(told[count], [name], form)) for count in LENGTHS for form in (1, 2)]
        rates = f", {kind.kib[0]:g} to {kind.kib[1]:g} KiB" if kind.kib else ""
        counts = Counter(one.workbench for one in longest).most_common()
        rows.append([name, kind.truth + rates, ", ".join(f"{n} {verdict}" for verdict, n in counts), *shares, early])
    headings = ["kind", "truth", f"workbench, {LENGTHS[-1]:,}", *forms, "on the way"]
    return [*parts, "\n### Called growing, by kind\n" if kinds is held_out.KINDS else "", markdown(headings, rows, 3)]


def grew(told: Iterable[Told], kinds: Iterable[str], form: int) -> float:
    """The share that the workbench (1) or the sidecar (2) calls growing."""
    names = set(kinds)
    verdicts = [one[form] for one in told if one.kind in names]
    return verdicts.count(GROWING) / len(verdicts)


def drawn() -> str:
    """The recorded curves, small."""
    rows = []
    for name in recorded.LABELS:
        held = [point.current_kib for point in recorded.stored(name) if point.certain]
        lowest, highest = min(held), max(held)
        span = max(highest - lowest, LEAST_KIB)
        parts = [held[len(held) * at // WIDTH : len(held) * (at + 1) // WIDTH] for at in range(WIDTH)]
        line = "".join(BARS[round((median(part) - lowest) / span * (len(BARS) - 1))] for part in parts)
        verdict = judge(recorded.stored(name)).name
        rows.append([name, f"`{line}`", f"{lowest / 1024:.1f}", f"{highest / 1024:.1f}", verdict])
    return markdown(["function", "current", "lowest, MiB", "highest", "verdict"], rows, 2)


@click.command(help=__doc__)
@click.option("--series", default=1000, show_default=True, help="Leak-free ones; and half as many with a leak.")
@click.option("--held-out", "each", default=100, show_default=True, help="Held-out ones of each kind and length.")
@click.option("--write/--no-write", default=True, help="Write the results page.")
def main(series: int, each: int, write: bool) -> None:
    """See the module."""
    with Pool() as pool:
        free = pool.map(tell, of(LEAK_FREE, series), chunksize=20)
        leaks = pool.map(tell, of(LEAKS, series // 2), chunksize=20)
        unseen = {
            count: pool.map(
                tell_held_out,
                [(kind, seed, count) for kind in (*held_out.KINDS, *held_out.AGAIN) for seed in range(each)],
                20,
            )
            for count in LENGTHS
        }
    text = page(free, leaks) + held_out_page(unseen)
    click.echo(text)
    if write:
        RESULTS.write_text(text)
        replace(ROOT / "docs" / "patterns.md", "curves", drawn(), "python -m benchmarks.drift")
    steady = [each for each in leaks if each.kind in STEADY_LEAKS]
    broken = [
        f"{tally(KINDS, told, 1).false_alarms()} false alarms, {tally(KINDS, told, 1).missed()} leaks missed"
        for told in ([*free, *steady],)
        if tally(KINDS, told, 1).false_alarms() or tally(KINDS, told, 1).missed()
    ]
    if broken:
        click.echo(f"not as promised: {'; '.join(broken)}", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
