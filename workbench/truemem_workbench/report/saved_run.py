"""Compares two versions of a function, and a report with one that was saved. Pure but for reading it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec import to_builtins

from ..support.bad_input import BadInput
from ..support.untrusted_text import loads
from .summary import Function, Report

GROWTH = "growth, KiB per invocation"
WORTH_SAYING_MIB = 1.0
WORTH_SAYING_SHARE = 0.05


@dataclass(frozen=True)
class ComparedFigure:
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
    rows: Sequence[ComparedFigure]
    grew_before: int
    grow_after: int
    """Environments that are judged to be growing, before and after."""
    settled_before: int
    settled_after: int
    """Environments whose memory has settled. Without one it is not known that nothing grows."""
    after_fails: bool = False
    """True if most invocations of the version after fail."""

    def sentence(self) -> str:
        """The result as a sentence."""
        if self.after_fails:
            return f"Version {self.after} fails, so nothing is said of its memory."
        if self.grow_after and not self.grew_before:
            if not self.settled_before:
                return f"Version {self.after} grows; {self.before} has too few invocations to judge."
            return f"Version {self.after} brought growth that {self.before} did not have."
        if self.grew_before and not self.grow_after:
            if not self.settled_after:
                return f"Version {self.before} grew; {self.after} has too few invocations to judge."
            return f"Version {self.after} ended the growth of {self.before}."
        if self.grew_before:
            growth = next(row for row in self.rows if row.name == GROWTH)
            rates = f": {growth.after:,.1f} KiB, not {growth.before:,.1f}" if growth.before and growth.after else ""
            return f"Version {self.after} still grows with each invocation{rates}."
        peak = next(row for row in self.rows if row.name == "peak p50")
        if peak.change is None or not peak.before:
            return "There are too few figures to compare."
        if abs(peak.change) < max(WORTH_SAYING_MIB, WORTH_SAYING_SHARE * peak.before):
            return "The usual peak is the same."
        return f"The usual peak {'rose' if peak.change > 0 else 'fell'} by {abs(peak.change):,.1f} MiB."


def compare_versions(report: Report, wanted: str) -> Comparison:
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
    rows = [ComparedFigure(name, figure_of(before), figure_of(after)) for name, figure_of in _COMPARED_FIGURES]
    return Comparison(
        before_name,
        after_name,
        rows,
        grew_before=before.growing,
        grow_after=after.growing,
        settled_before=before.settled,
        settled_after=after.settled,
        after_fails=after.finding.cause == "failing",
    )


def _version(report: Report, name: str) -> Function:
    for function in report.functions:
        if function.version == name:
            return function
    there = ", ".join(function.version for function in report.functions)
    raise BadInput(f"--compare: no line is of version {name}. There are: {there}")


_COMPARED_FIGURES = (
    ("invocations", lambda each: float(each.peaks.invocations)),
    ("peak p50", lambda each: each.peaks.p50),
    ("peak p99", lambda each: each.peaks.p99),
    ("peak max", lambda each: each.peaks.highest),
    ("current, median of environments", lambda each: each.current_median),
    ("mark", lambda each: each.mark),
    ("duration p50, ms", lambda each: each.durations.p50),
    ("duration p99, ms", lambda each: each.durations.p99),
    (GROWTH, lambda each: each.growth_kib),
    ("environments growing, %", lambda each: 100 * each.growing / each.environments),
    ("out of memory, per million", lambda each: 1e6 * each.peaks.out_of_memory / each.peaks.invocations),
)

LEAST_MIB, LEAST_MS = 1.0, 1.0
"""A smaller difference is no rise, whatever its share."""
ENOUGH = 100
"""Least number of invocations on both sides for a rise that counts."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """One function before and now. None if unknown."""

    function: str
    before_version: str
    version: str
    peak_p50: tuple[float | None, float | None]
    peak_p99: tuple[float | None, float | None]
    """Before and now, in MiB."""
    duration_p50: tuple[float | None, float | None]
    duration_p99: tuple[float | None, float | None]
    """In ms."""
    invocations: tuple[int, int]
    peak_rose: bool
    """p50 or p99 by more than the share that is allowed."""
    duration_rose: bool


@dataclass(frozen=True, kw_only=True)
class Changes:
    """All functions that are in both reports, and the names of those that are in one."""

    changes: Sequence[Change]
    new: Sequence[str]
    gone: Sequence[str]
    too_few: int
    """Functions with too few invocations on one side to say that anything rose."""


def changes(report: Report, path: Path, share: float, only: str | None = None) -> Changes:
    """Compare with the report that `truemem report --output FILE.json` wrote. A rise is more than `share` of the figure
    before. Of a function with several versions, the one with the most invocations counts. `only` is the one function
    that was read. Raises BadInput."""
    before, now = _saved(path), _by_name(_figures(to_builtins(each, enc_hook=str)) for each in report.functions)
    both = [name for name in now if name in before]
    made = [_change(name, before[name], now[name], share) for name in both]
    return Changes(
        changes=made,
        new=[name for name in now if name not in before],
        gone=[name for name in before if name not in now and only in (None, name)],
        too_few=sum(min(each.invocations) < ENOUGH for each in made),
    )


def _change(name: str, before: Mapping[str, Any], now: Mapping[str, Any], share: float) -> Change:
    pairs = {figure: (before[figure], now[figure]) for figure in _FIGURES}
    enough = min(before["invocations"], now["invocations"]) >= ENOUGH

    def rose(what: str, least: float) -> bool:
        return enough and any(_rose(*pairs[f"{what}_{rank}"], share, least) for rank in ("p50", "p99"))

    return Change(
        function=name,
        before_version=before["version"],
        version=now["version"],
        invocations=(before["invocations"], now["invocations"]),
        peak_rose=rose("peak", LEAST_MIB),
        duration_rose=rose("duration", LEAST_MS),
        **pairs,
    )


def _rose(before: float | None, now: float | None, share: float, least: float) -> bool:
    return before is not None and now is not None and now - before > max(share * before, least)


_FIGURES = ("peak_p50", "peak_p99", "duration_p50", "duration_p99")


def _figures(document: Mapping[str, Any]) -> dict[str, Any]:
    """The figures of a function in the report's JSON. Raises KeyError, TypeError or ValueError if it is none."""
    peaks, durations = document["peaks"], document["durations"]
    return {
        "function": str(document["function"]),
        "version": str(document["version"]),
        "invocations": int(peaks["invocations"]),
        **{f"peak_{rank}": _number(peaks[rank]) for rank in ("p50", "p99")},
        **{f"duration_{rank}": _number(durations[rank]) for rank in ("p50", "p99")},
    }


def _saved(path: Path) -> dict[str, dict[str, Any]]:
    try:
        return _by_name(map(_figures, loads(path.read_text(encoding="utf-8"))["functions"]))
    except OSError as error:
        raise BadInput(f"--baseline {path} cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise BadInput(
            f"--baseline {path} is no saved report. Make one with truemem report ... --output {path.stem}.json"
        ) from error


def _number(value: object) -> float | None:
    if value is not None and not isinstance(value, int | float):
        raise TypeError(f"{json.dumps(value)[:40]} is no number")
    return value


def _by_name(figures: Iterable[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The version with the most invocations of each function."""
    made: dict[str, dict[str, Any]] = {}
    for each in sorted(figures, key=lambda each: each["invocations"]):
        made[each["function"]] = each
    return dict(sorted(made.items()))
