"""The baseline file: what functions needed when it was written. Later runs may exceed it by a limited amount."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..judge.latency import PERCENTS, Latency, Percentile
from ..support.bad_input import BadInput
from ..support.untrusted_text import loads, read_text

if TYPE_CHECKING:
    from ..runs.measurement import Measurement

SCHEMA = 1
SENT = "sent"
"""Condition of a run: how many different events were sent. A run ends when its limits are decided."""


@dataclass(frozen=True)
class AllowedGrowth:
    """The allowed growth over a baseline: a share of it, or MiB."""

    amount: float = 10
    percent: bool = True

    @classmethod
    def parse(cls, text: str) -> AllowedGrowth:
        """Parse `10%`, or `8` for MiB. Raises ValueError."""
        amount = float(text.removesuffix("%"))
        if not 0 <= amount < float("inf"):
            raise ValueError(text)
        return cls(amount, text.endswith("%"))

    def mib(self, was: float) -> float:
        return was * self.amount / 100 if self.percent else self.amount

    def __str__(self) -> str:
        return f"{self.amount:g} %" if self.percent else f"{self.amount:g} MiB"


@dataclass(frozen=True)
class Baseline:
    """One function's entry in the file, in MiB."""

    peak: float
    """Highest peak, warm-up and init phase included."""
    current: float
    """Median of what the invocations after the warm-up left behind."""
    about: Mapping[str, object] = field(default_factory=dict)
    """Conditions of the run; `events` is a hash of all that were given. With other events, another memory size or
    runtime, figures cannot be compared."""
    latency: Latency | None = None
    """None if it was not known, or in a file of an earlier version."""
    errors: float | None = None
    """Share of invocations that failed."""

    @classmethod
    def of(cls, measurement: Measurement) -> Baseline | None:
        """Make the entry of a measurement. None if nothing was measured."""
        if measurement.peak is None or measurement.usual_current is None:
            return None
        peak, current = round(measurement.peak[1], 2), round(measurement.usual_current, 2)
        failed = len(measurement.failures) / measurement.invocations
        return cls(peak, current, measurement.about, measurement.latency, round(failed, 4))

    def differs(self, about: Mapping[str, object]) -> list[str]:
        """Describe each condition that is not the same as in the baseline."""
        changed = [name for name, value in self.about.items() if about.get(name) != value and name != SENT]
        found = [f"not as in the baseline: {name} (was {self.about[name]}, is {about.get(name)})" for name in changed]
        was, now = self.about.get(SENT), about.get(SENT)
        if "events" not in changed and isinstance(was, int) and isinstance(now, int) and now < was:
            found.append(
                f"{now:,} different events were sent, for the baseline {was:,}: try --invocations {was} or more"
            )
        return found


def read_baseline(path: Path, spec: str) -> Baseline:
    """Read the entry of a function. Raises BadInput."""
    fix = f"Try --write-baseline {path}"
    entry = _functions(path, fix).get(spec)
    if entry is None:
        raise BadInput(f"no baseline of {spec} in {path}. {fix}")
    try:
        return Baseline(
            peak=_figure(entry["peak"]),
            current=_figure(entry["current"]),
            about=dict(entry.get("about", {})),
            latency=_latency(entry["latency"]) if "latency" in entry else None,
            errors=_figure(entry["errors"]) if "errors" in entry else None,
        )
    except (KeyError, TypeError, ValueError, OverflowError):
        raise BadInput(
            f"the baseline of {spec} in {path} has no peak and current, in MiB, or another figure is none. {fix}"
        ) from None


def check_place(path: Path) -> None:
    """Raise BadInput if the path exists and is not a baseline file."""
    if path.exists():
        _functions(path, "Try another name")


def write_baseline(path: Path, spec: str, baseline: Baseline) -> None:
    """Add or replace the entry of a function; the others stay. Raises BadInput."""
    functions = dict(_functions(path, "Try another name")) if path.exists() else {}
    functions[spec] = {name: value for name, value in asdict(baseline).items() if value is not None}
    document = {"schema": SCHEMA, "functions": dict(sorted(functions.items()))}
    try:
        path.write_text(json.dumps(document, indent=2) + "\n")
    except OSError as error:
        raise BadInput(f"cannot write {path}: {error.strerror}. Try --write-baseline PATH") from None


def _figure(value: Any) -> float:
    """Parse a figure. Raises ValueError or TypeError, also for NaN."""
    figure = float(value)
    if not 0 <= figure < math.inf:
        raise ValueError(value)
    return figure


def _latency(entry: Any) -> Latency:
    percentiles = [entry[f"p{percent}"] for percent in PERCENTS]
    figures = [[_figure(each[name]) for name in ("value", "low", "high")] for each in percentiles]
    return Latency(int(entry["invocations"]), *(Percentile(*each) for each in figures))


def _functions(path: Path, fix: str) -> dict[str, Any]:
    try:
        document = loads(read_text(path), lenient=True)
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror}. {fix}") from None
    except ValueError:
        document = None
    if (
        not isinstance(document, dict)
        or document.get("schema") != SCHEMA
        or not isinstance(document.get("functions"), dict)
    ):
        raise BadInput(f"{path} is no baseline of truemem check. {fix}")
    functions: dict[str, Any] = document["functions"]
    return functions
