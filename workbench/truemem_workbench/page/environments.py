"""Turns the sidecar's lines into columns, one environment after the other. Page and PNG are drawn from them."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TypeVar

from ..judge.causes import find
from ..judge.curves import CurveBuilder
from ..judge.finding import Commands, Finding, commands_of, unmeasured, urgency
from ..judge.growth_lines import merged, named
from ..printed.document import figure
from ..printed.growth import GrowthProfile
from ..printed.line import Line

T = TypeVar("T")
NAN = math.nan

CURVE_NAMES = ("peak", "lower", "upper", "current", "mark", "inUse", "held")
"""Curves in MiB; NaN if unknown. `mark` is REPORT's Max Memory Used. The last two are the heap's; `inUse` includes the
blocks that have a mapping of their own."""
INVOCATION_COLUMNS = ("time", "number", *CURVE_NAMES, "duration", "flags", "outcome")
"""Columns of one invocation: ms since 1970, number in its environment, the curves, ms, Flags, index in `words`."""

LATEST_MS = 8.64e15
"""Latest time that a browser's calendar knows."""
MOST_OUTCOMES, OTHER_OUTCOME = 100, "failed"
"""Most different outcomes of an environment, and the name of all further ones."""


class Flag(IntEnum):
    """Marks on the curve, and facts about the figures."""

    COLD_START = 1
    RESET = 2
    """The init phase was repeated within this invocation."""
    OUT_OF_MEMORY = 4
    RACED = 8
    FAILED = 16
    RECOVERED = 32
    """A later process printed it, because the one that measured was killed."""
    NO_REPORT = 64
    ENDED = 128
    """Closed by shutdown. Its current would be a last sample, perhaps of a dying invocation, so it is left out."""
    SAMPLED = 256
    """The peak is a lower bound, because it is not the kernel's own watermark."""


@dataclass
class EnvironmentPage:
    """One execution environment with its invocations in order."""

    id: str
    """The environment's log stream, or the random id that the sidecar gave it."""
    function: str = ""
    version: str = ""
    limit: float | None = None
    """Memory size in MiB."""
    holders: dict[str, float] = field(default_factory=dict)
    """Memory of function and extensions at the last close, in MiB."""
    columns: dict[str, array[float]] = field(default_factory=lambda: {name: array("d") for name in INVOCATION_COLUMNS})
    request_ids: list[str] = field(default_factory=list)
    words: list[str] = field(default_factory=lambda: [""])
    """Outcomes other than `success`, in words."""
    curves: CurveBuilder = field(default_factory=CurveBuilder)
    """What the finding is made from."""
    finding: Finding = field(default_factory=lambda: unmeasured("No invocation was measured.", Commands(again="")))
    """The answer, set by `finish`."""

    def __len__(self) -> int:
        return len(self.request_ids)

    def add(self, line: Line) -> None:
        heap = line.members.get("heap")
        heap = heap if isinstance(heap, dict) else {}
        in_use = figure(heap.get("inUse"))
        last = self.columns["number"][-1] if self else 0
        flags = _flags(line)
        row: dict[str, float | None] = {
            "time": line.time_ms if line.time_ms is not None and 0 <= line.time_ms < LATEST_MS else None,
            "number": line.invocation if 0 < (line.invocation or 0) < 1 << 32 else last + 1,
            "peak": line.peak_rss,
            "lower": line.peak_lower,
            "upper": line.peak_upper,
            "current": None if flags & Flag.ENDED else line.current_rss,
            "mark": line.max_memory_used,
            "inUse": None if in_use is None else in_use + (figure(heap.get("mapped")) or 0),
            "held": figure(heap.get("held")),
            "duration": line.duration_ms,
            "flags": flags,
            "outcome": self._word(_outcome(line)),
        }
        self.curves.add(int(row["number"] or 0), line)
        for name, value in row.items():
            self.columns[name].append(NAN if value is None else value)
        self.request_ids.append(line.request_id or "")
        self.function = line.function or self.function
        self.version = line.function_version or self.version
        self.limit = line.memory_limit or self.limit
        if line.function_holds is not None and not flags & Flag.ENDED:
            held = {"function": line.function_holds, "truemem": line.sidecar_holds or 0, **line.extensions_hold}
            self.holders = held

    def _word(self, text: str) -> int:
        if text not in self.words:
            text = text if len(self.words) < MOST_OUTCOMES else OTHER_OUTCOME
            self.words += [text] if text not in self.words else []
        return self.words.index(text)

    def finish(self) -> None:
        """Sort the invocations by number (recovered ones come late), and judge them."""
        numbers = self.columns["number"]
        order = sorted(range(len(self)), key=numbers.__getitem__)
        if order != list(range(len(self))):
            self.columns = {name: array("d", (column[i] for i in order)) for name, column in self.columns.items()}
            self.request_ids = [self.request_ids[i] for i in order]
        self.finding = find(self.curves.curves(), commands_of(self.function, self.id))

    def count(self, flag: Flag) -> int:
        return sum(1 for flags in self.columns["flags"] if int(flags) & flag)

    def highest(self, name: str) -> float:
        """Highest value of a curve; 0 if nothing is known."""
        return max((value for value in self.columns[name] if not math.isnan(value)), default=0.0)


class Gathered:
    """Lines by environment, in few bytes for each."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], EnvironmentPage] = {}

    def add(self, line: Line) -> None:
        """Add a line."""
        if line.request_id is None and line.peak_rss is None:
            return
        key = (line.function or "", line.environment)
        if key not in self._found:
            self._found[key] = EnvironmentPage(line.environment)
        self._found[key].add(line)

    def environments(self) -> list[EnvironmentPage]:
        """All of them with their findings, the most urgent first (`judge.finding.urgency`)."""
        profiles: dict[tuple[str, str], list[GrowthProfile]] = {}
        for environment in self._found.values():
            environment.finish()
            profiles.setdefault((environment.function, environment.version), []).extend(environment.curves.profiles)
        growths = {key: merged(found) for key, found in profiles.items()}
        for environment in self._found.values():  # a line that one environment has named is that of all
            growth = growths[environment.function, environment.version]
            commands = commands_of(environment.function, environment.id)
            environment.finding = named(environment.finding, growth, commands)
        return sorted(self._found.values(), key=_urgency)


def gather(lines: Iterable[Line]) -> list[EnvironmentPage]:
    """Group lines by environment, as `Gathered` does."""
    gathered = Gathered()
    for line in lines:
        gathered.add(line)
    return gathered.environments()


def _urgency(environment: EnvironmentPage) -> tuple[tuple[float, ...], str]:
    died, peak = environment.count(Flag.OUT_OF_MEMORY), environment.highest("peak")
    return urgency(environment.finding, died, peak, environment.limit), environment.id


def most(environments: Sequence[T], invocations: int, count: Callable[[T], int]) -> list[T]:
    """Take whole environments from the first on while their invocations fit, at least one. `count`: of each."""
    kept: list[T] = []
    for environment in environments:
        if count(environment) <= invocations or not kept:
            kept.append(environment)
            invocations -= count(environment)
    return kept


def _flags(line: Line) -> int:
    members = line.members
    flags = Flag.COLD_START * line.cold_start
    flags += Flag.RESET * (members.get("suppressedInit") is True and not line.cold_start)
    flags += Flag.OUT_OF_MEMORY * line.out_of_memory
    flags += Flag.RACED * line.raced
    flags += Flag.FAILED * (line.status not in (None, "success"))
    flags += Flag.RECOVERED * line.recovered
    flags += Flag.NO_REPORT * line.report_missing
    flags += Flag.ENDED * (line.closed_by == "shutdown")
    flags += Flag.SAMPLED * (line.method == "sampled")
    return flags


def _outcome(line: Line) -> str:
    if line.status in (None, "success"):
        return ""
    return f"{line.status}, {line.error_type}" if line.error_type else str(line.status)
