"""Compares a report with one that was saved: what has risen since, function by function. Pure but for reading it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..support.bad_input import BadInput
from ..support.untrusted_text import loads
from .summary import Function, Report

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
    before, now = _saved(path), _by_name([_figures(each) for each in report.functions])
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


def _figures(function: Function) -> dict[str, Any]:
    return {
        "function": function.function,
        "version": function.version,
        "invocations": function.peaks.invocations,
        "peak_p50": function.peaks.p50,
        "peak_p99": function.peaks.p99,
        "duration_p50": function.durations.p50,
        "duration_p99": function.durations.p99,
    }


def _saved(path: Path) -> dict[str, dict[str, Any]]:
    try:
        document = loads(path.read_text(encoding="utf-8"))
        found = [
            {
                "function": str(each["function"]),
                "version": str(each["version"]),
                "invocations": int(each["peaks"]["invocations"]),
                **{f"peak_{rank}": _number(each["peaks"][rank]) for rank in ("p50", "p99")},
                **{f"duration_{rank}": _number(each["durations"][rank]) for rank in ("p50", "p99")},
            }
            for each in document["functions"]
        ]
    except OSError as error:
        raise BadInput(f"--baseline {path} cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise BadInput(
            f"--baseline {path} is no saved report. Make one with truemem report ... --output {path.stem}.json"
        ) from error
    return _by_name(found)


def _number(value: object) -> float | None:
    if value is not None and not isinstance(value, int | float):
        raise TypeError(f"{json.dumps(value)[:40]} is no number")
    return value


def _by_name(figures: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The version with the most invocations of each function."""
    made: dict[str, dict[str, Any]] = {}
    for each in sorted(figures, key=lambda each: each["invocations"]):
        made[each["function"]] = each
    return dict(sorted(made.items()))
