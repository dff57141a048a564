"""Turns the sidecar's lines into columns, one environment after the other. Page and PNG are drawn from them."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from ..analysis import covariates
from ..analysis.causes import find
from ..analysis.commands import Commands, of_deployed
from ..analysis.curves import Curves, Others, failed_of, runtime_of, was_killed
from ..analysis.drift import Point
from ..analysis.finding import Finding, of_none, urgency
from ..analysis.resources import Told
from ..analysis.runtime_reading import Reading, reading
from ..lines.line import Line
from ..lines.record import figure

NAN = math.nan

FIGURES = ("peak", "lower", "upper", "current", "mark", "inUse", "held")
"""Curves in MiB; NaN if unknown. `mark` is REPORT's Max Memory Used. The last two are the heap's; `inUse` includes the
blocks that have a mapping of their own."""
COLUMNS = ("time", "number", *FIGURES, "duration", "flags", "outcome")
"""Columns of one invocation: ms since 1970, number in its environment, the curves, ms, Flags, index in `words`."""

KIB = 1024
LATEST_MS = 8.64e15
"""Latest time that a browser's calendar knows."""
WORDS, OTHER = 100, "failed"
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


DIED = int(Flag.OUT_OF_MEMORY)


@dataclass
class Environment:
    """One execution environment with its invocations in order."""

    id: str
    """Its log stream, or the random id that the sidecar gave it."""
    function: str = ""
    version: str = ""
    limit: float | None = None
    """Memory size in MiB."""
    holders: dict[str, float] = field(default_factory=dict)
    """Memory of function and extensions at the last close, in MiB."""
    columns: dict[str, array[float]] = field(default_factory=lambda: {name: array("d") for name in COLUMNS})
    beside: dict[str, array[float]] = field(default_factory=lambda: {name: array("d") for name in covariates.MEMBERS})
    """What may move with the memory: for the verdict."""
    request_ids: list[str] = field(default_factory=list)
    last_samples: dict[float, float] = field(default_factory=dict)
    """Last samples of invocations that shutdown closed, by number: not on the curve, and uncertain in the verdict."""
    words: list[str] = field(default_factory=lambda: [""])
    """Outcomes other than `success`, in words."""
    told: Told = field(default_factory=Told)
    """What else may run out."""
    readings: list[Reading] = field(default_factory=list)
    """What the heap of a garbage-collected runtime was."""
    others: Others = field(default_factory=Others)
    """The curves of the other witnesses."""
    outcomes: list[tuple[str | None, str | None]] = field(default_factory=list)
    """Status and error of the invocations that failed, but not for memory."""
    runtime: str = ""
    killed: list[int] = field(default_factory=list)
    """Invocations in which something beside the function was killed, or an extension ended."""
    finding: Finding = field(default_factory=lambda: of_none("No invocation was measured.", Commands(again="")))
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
        if "resources" in line.members:
            self.told.add(row["number"] or 0, line.members["resources"])
        if (found_heap := reading(line.members, len(self) + 1)) is not None:
            self.readings.append(found_heap)
        self.runtime = self.runtime or runtime_of([line])
        self.others.add(int(row["number"] or 0), line)
        if line.status not in (None, "success") and not line.out_of_memory:
            self.outcomes.append((line.status, line.error_type))
        if was_killed(line):
            self.killed.append(int(row["number"] or 0))
        if flags & Flag.ENDED and line.current_rss is not None:
            self.last_samples[row["number"] or 0] = line.current_rss
        for name, value in row.items():
            self.columns[name].append(NAN if value is None else value)
        for name, column in self.beside.items():
            found = covariates.member(line, name)
            column.append(NAN if found is None else found)
        self.request_ids.append(line.request_id or "")
        self.function = line.function or self.function
        self.version = line.function_version or self.version
        self.limit = line.memory_limit or self.limit
        if line.function_holds is not None and not flags & Flag.ENDED:
            held = {"function": line.function_holds, "truemem": line.sidecar_holds or 0, **line.extensions_hold}
            self.holders = held

    def _word(self, text: str) -> int:
        if text not in self.words:
            text = text if len(self.words) < WORDS else OTHER
            self.words += [text] if text not in self.words else []
        return self.words.index(text)

    def finish(self, commands: Callable[[str], Commands]) -> None:
        """Sort the invocations by number (recovered ones come late), and judge them."""
        numbers = self.columns["number"]
        order = sorted(range(len(self)), key=numbers.__getitem__)
        if order != list(range(len(self))):
            self.columns, self.beside = (
                {name: array("d", (column[i] for i in order)) for name, column in columns.items()}
                for columns in (self.columns, self.beside)
            )
            self.request_ids = [self.request_ids[i] for i in order]
        beside = {
            name: dict(zip(map(int, self.columns["number"]), column, strict=True))
            for name, column in self.beside.items()
        }
        self.readings.sort(key=lambda each: each.number)
        points, numbers = self._points(), self.columns["number"]
        died = (number for number, flags in zip(numbers, self.columns["flags"], strict=True) if int(flags) & DIED)
        curves = Curves(
            function=self.function,
            invocations=len(self),
            rss=points,
            beside=beside,
            others=self.others.curves(),
            readings=self.readings,
            told=self.told.found(numbers[-1] if self else 0),
            runtime=self.runtime,
            limit_mib=self.limit,
            failed=failed_of(self.outcomes),
            out_of_memory=[int(number) for number in died],
            killed=self.killed,
        )
        self.finding = find(curves, commands(self.function))

    def _points(self) -> list[Point]:
        made = []
        for number, time, left, peak, flags in zip(
            *(self.columns[name] for name in ("number", "time", "current", "peak", "flags")), strict=True
        ):
            current = self.last_samples.get(number, left)
            if math.isnan(current) and int(flags) & Flag.OUT_OF_MEMORY:
                current = peak
            if not math.isnan(current):
                made.append(
                    Point(
                        invocation=int(number),
                        time_ms=0.0 if math.isnan(time) else time,
                        current_kib=current * KIB,
                        peak_kib=None if math.isnan(peak) else peak * KIB,
                        certain=not int(flags) & (Flag.RACED | Flag.RECOVERED | Flag.ENDED),
                        begins=bool(int(flags) & (Flag.COLD_START | Flag.RESET)),
                        died=bool(int(flags) & Flag.OUT_OF_MEMORY),
                    )
                )
        return made

    def count(self, flag: Flag) -> int:
        return sum(1 for flags in self.columns["flags"] if int(flags) & flag)

    def highest(self, name: str) -> float:
        """Highest value of a curve; 0 if nothing is known."""
        return max((value for value in self.columns[name] if not math.isnan(value)), default=0.0)


class Gathered:
    """Lines by environment, in few bytes for each."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], Environment] = {}

    def add(self, line: Line) -> None:
        """Add a line."""
        if line.request_id is None and line.peak_rss is None:
            return
        key = (line.function or "", line.environment)
        if key not in self._found:
            self._found[key] = Environment(line.environment)
        self._found[key].add(line)

    def environments(self, commands: Callable[[str], Commands] = of_deployed) -> list[Environment]:
        """All of them with their findings, the most urgent first (`analysis.finding.urgency`). `commands`: what can be
        typed next, of a function by its name."""
        for environment in self._found.values():
            environment.finish(commands)
        return sorted(self._found.values(), key=_urgency)


def gather(lines: Iterable[Line], commands: Callable[[str], Commands] = of_deployed) -> list[Environment]:
    """Group lines by environment, as `Gathered` does."""
    gathered = Gathered()
    for line in lines:
        gathered.add(line)
    return gathered.environments(commands)


def _urgency(environment: Environment) -> tuple[tuple[float, ...], str]:
    died, peak = environment.count(Flag.OUT_OF_MEMORY), environment.highest("peak")
    return urgency(environment.finding, died, peak, environment.limit), environment.id


def most(environments: Sequence[Environment], invocations: int) -> list[Environment]:
    """Take whole environments from the first on while their invocations fit, at least one."""
    kept: list[Environment] = []
    room = invocations
    for environment in environments:
        if len(environment) <= room or not kept:
            kept.append(environment)
            room -= len(environment)
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
