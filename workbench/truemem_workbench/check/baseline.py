"""The baseline file: what functions needed when it was written. Later runs may exceed it by a limited amount."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..support.bad_input import BadInput
from ..support.untrusted_text import loads, read_text

if TYPE_CHECKING:
    from .measurement import Measurement

SCHEMA = 1


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
    """Conditions of the run. With other events, another memory size or runtime, figures cannot be compared."""

    @classmethod
    def of(cls, measurement: Measurement) -> Baseline | None:
        """Make the entry of a measurement. None if nothing was measured."""
        if measurement.peak is None or measurement.usual_current is None:
            return None
        return cls(round(measurement.peak[1], 2), round(measurement.usual_current, 2), measurement.about)

    def differs(self, about: Mapping[str, object]) -> list[str]:
        """Describe each condition that is not the same as in the baseline."""
        changed = [name for name, value in self.about.items() if about.get(name) != value]
        return [f"not as in the baseline: {name} (was {self.about[name]}, is {about.get(name)})" for name in changed]


def read_baseline(path: Path, spec: str) -> Baseline:
    """Read the entry of a function. Raises BadInput."""
    fix = f"Try --write-baseline {path}"
    entry = _functions(path, fix).get(spec)
    if entry is None:
        raise BadInput(f"no baseline of {spec} in {path}. {fix}")
    try:
        return Baseline(_size(entry["peak"]), _size(entry["current"]), dict(entry.get("about", {})))
    except (KeyError, TypeError, ValueError, OverflowError):
        raise BadInput(f"the baseline of {spec} in {path} has no peak and current, in MiB. {fix}") from None


def check_place(path: Path) -> None:
    """Raise BadInput if the path exists and is not a baseline file."""
    if path.exists():
        _functions(path, "Try another name")


def write_baseline(path: Path, spec: str, baseline: Baseline) -> None:
    """Add or replace the entry of a function; the others stay. Raises BadInput."""
    functions = dict(_functions(path, "Try another name")) if path.exists() else {}
    functions[spec] = asdict(baseline)
    document = {"schema": SCHEMA, "functions": dict(sorted(functions.items()))}
    try:
        path.write_text(json.dumps(document, indent=2) + "\n")
    except OSError as error:
        raise BadInput(f"cannot write {path}: {error.strerror}. Try --write-baseline PATH") from None


def _size(value: Any) -> float:
    """Parse a size in MiB. Raises ValueError or TypeError, also for NaN."""
    size = float(value)
    if not 0 <= size < math.inf:
        raise ValueError(value)
    return size


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
