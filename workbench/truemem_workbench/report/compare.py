"""Compares two versions of a function: what a release has changed. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..support.bad_input import BadInput
from .summary import Function, Report

WORTH_SAYING_MIB = 1.0
WORTH_SAYING_SHARE = 0.05


@dataclass(frozen=True)
class Row:
    """One figure of both versions."""

    name: str
    before: float | None
    after: float | None

    @property
    def change(self) -> float | None:
        return None if self.before is None or self.after is None else self.after - self.before


@dataclass(frozen=True)
class Comparison:
    """The comparison of two versions."""

    before: str
    after: str
    rows: Sequence[Row]
    grew_before: int
    grow_after: int
    """Environments that are judged to be growing, before and after."""
    settled_before: int
    settled_after: int
    """Environments whose memory has settled. Without one it is not known that nothing grows."""

    def sentence(self) -> str:
        """The result as a sentence."""
        if self.grow_after and not self.grew_before:
            if not self.settled_before:
                return f"Version {self.after} grows; {self.before} has too few invocations to judge."
            return f"Version {self.after} brought growth that {self.before} did not have."
        if self.grew_before and not self.grow_after:
            if not self.settled_after:
                return f"Version {self.before} grew; {self.after} has too few invocations to judge."
            return f"Version {self.after} ended the growth of {self.before}."
        if self.grew_before:
            return "Both versions grow."
        peak = next(row for row in self.rows if row.name == "peak p50")
        if peak.change is None or not peak.before:
            return "There are too few figures to compare."
        if abs(peak.change) < max(WORTH_SAYING_MIB, WORTH_SAYING_SHARE * peak.before):
            return "The usual peak is the same."
        return f"The usual peak {'rose' if peak.change > 0 else 'fell'} by {abs(peak.change):,.1f} MiB."


def compare(report: Report, wanted: str) -> Comparison:
    """Compare two versions; `wanted` is `41:42`. Raises BadInput if the lines have none of a version."""
    before_name, separator, after_name = wanted.partition(":")
    if not separator or not before_name or not after_name:
        raise BadInput(f"--compare {wanted} is not two versions. Try --compare 41:42")
    names = {function.function for function in report.functions}
    if len(names) > 1:
        raise BadInput(
            f"--compare: the lines are of {len(names)} functions ({', '.join(sorted(names))}). Give one's alone"
        )
    before, after = _version(report, before_name), _version(report, after_name)
    rows = [Row(name, figure_of(before), figure_of(after)) for name, figure_of in _FIGURES]
    return Comparison(
        before_name,
        after_name,
        rows,
        grew_before=before.growing,
        grow_after=after.growing,
        settled_before=before.settled,
        settled_after=after.settled,
    )


def _version(report: Report, name: str) -> Function:
    for function in report.functions:
        if function.version == name:
            return function
    there = ", ".join(function.version for function in report.functions)
    raise BadInput(f"--compare: no line is of version {name}. There are: {there}")


_FIGURES = (
    ("invocations", lambda each: float(each.peaks.invocations)),
    ("peak p50", lambda each: each.peaks.p50),
    ("peak p99", lambda each: each.peaks.p99),
    ("peak max", lambda each: each.peaks.highest),
    ("current, median of environments", lambda each: each.current_median),
    ("mark", lambda each: each.mark),
    ("duration p50, ms", lambda each: each.durations.p50),
    ("duration p99, ms", lambda each: each.durations.p99),
    ("growth, KiB per invocation", lambda each: each.growth_kib),
    ("environments growing, %", lambda each: 100 * each.growing / each.environments),
    ("out of memory, per million", lambda each: 1e6 * each.peaks.out_of_memory / each.peaks.invocations),
)
