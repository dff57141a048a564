"""The parts of benchmarks/results/drift.md about recorded programs and short series, and the drawn curves."""

from __future__ import annotations

from collections.abc import Sequence

from truemem.records.trend import median
from truemem_workbench.analysis.drift import judge
from truemem_workbench.testing.drift import recorded, synthetic

from benchmarks import drift_shares as shares
from benchmarks.drift_methods import METHODS
from benchmarks.drift_series import FORMS, SIDECAR, WORKBENCH, Real, Result, Short
from benchmarks.publish import markdown

BARS = "▁▂▃▄▅▆▇█"
WIDTH = 60
LEAST_KIB = 2048
"""What a curve is drawn over at least: less is flat."""
COSTS = (1024, 16_384)
"""Lengths whose CPU time is shown."""


def real_page(real: Sequence[Real]) -> str:
    """Recorded programs: one by one, and how many each method calls growing."""
    rows = []
    for each in sorted(real, key=lambda one: not one.leaks):
        told = each.heard.told
        large = told[WORKBENCH][each.end]
        names = [told[form][count].verdict for count in (each.half, each.end) for form in (WORKBENCH, SIDECAR)]
        first = "" if each.heard.first is None else f"{each.heard.first:,}"
        rows.append([each.name, "yes" if each.leaks else "no", *names, first, f"{large.low:.2f} to {large.high:.2f}"])
    halves = [f"{when}: {form}" for when in ("half", "end") for form in ("workbench", "sidecar")]
    headings = ["program", "leaks", *halves, "sidecar: growing from", "KiB per invocation, workbench"]
    totals = []
    for method in (*FORMS, *METHODS):
        row = [method]
        for leaks in (True, False):
            for half in (True, False):
                count, of = shares.called_real(real, method, leaks, half)
                row.append(f"{count} of {of}")
        totals.append(row)
    return (
        "\n## Real programs\n\nRecorded under the local Lambda with the sidecar attached, "
        f"{max((each.end for each in real), default=0):,} invocations each: "
        "`truemem_workbench.testing.drift.recorded`.\n\n"
        + markdown(["called growing", "leaks, half", "leaks, end", "others, half", "others, end"], totals)
        + "\n\nOne by one:\n\n"
        + markdown(headings, rows, 6)
    )


def short_page(short: Sequence[Short]) -> str:
    """Short series, of which all is promised but what is hard."""
    rows = []
    for title, kinds in (
        ("leak-free", synthetic.LEAK_FREE),
        ("leaks of 4 KiB or more, alone", synthetic.STEADY_LEAKS),
        ("leaks that are hard to see", synthetic.HARD),
    ):
        said = [each for each in short if each.kind in kinds]
        grew = [sum(each.growing[form] for each in said) for form in FORMS]
        rows.append([title, f"{len(said):,}", *(f"{count:,}" for count in grew)])
    hard = "*, *".join(synthetic.HARD)
    return (
        f"\n## Short series\n\n`truemem_workbench.testing.drift.synthetic`: {synthetic.INVOCATIONS} invocations with "
        "jitter of 4 to 96 KiB that remembers half of itself, and outliers of ten times that. Hard to see, and not "
        f"promised within so few, are *{hard}*.\n\n" + markdown(["called growing", "series", *FORMS], rows)
    )


def cost_page(results: Sequence[Result]) -> str:
    """CPU time of the verdict."""
    small = sum(each.heard.sidecar_us for each in results) / len(results)
    large = [
        f"{sum(each.heard.workbench_ms[count] for each in results) / len(results):.1f} ms of {count:,} invocations"
        for count in COSTS
    ]
    return (
        f"\n## CPU time\n\nThe sidecar: {small:.1f} µs for one invocation, verdicts included. The workbench: "
        f"{' and '.join(large)} for one verdict.\n"
    )


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
