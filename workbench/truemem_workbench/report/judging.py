"""Judges the environments of a part: their figures by numpy, the answer by `judge.finding`.

`truemem report` does so on all cores of one machine (`collect`), and on many (`spark`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from truemem.line_schema import FULL

from ..judge.causes import find
from ..judge.curves import (
    BLOCKS,
    ENVIRONMENT,
    EXTENSION,
    FILES,
    HELD,
    IN_USE,
    PROCESSES,
    SMALL,
    THREADS,
    Curves,
    Failed,
    profiled_in,
    settled_on,
    without_profiles,
)
from ..judge.drift import Curve
from ..judge.finding import Finding, commands_of
from ..judge.resources import resources
from ..judge.runtime_heap import HEAP_RUNTIMES, HeapReading
from ..judge.settled import Reading, last_life
from ..printed.document import completed
from ..printed.growth import profile_in
from ..printed.heap_columns import COLLECTED
from ..printed.line import Line
from ..printed.parts import NO_REQUEST, Name, Part, Rows
from ..support.untrusted_text import parsed
from . import fleet
from .summary import EnvironmentSummary, Peaks

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

SAMPLED, HEAPS = 1000, 400
"""Most lines of an environment of which malloc's heap and extensions are looked at, and a collected heap: of all its
life, at random. What is live shows at major collections, which may be far apart."""
REPORTED = 64
"""Most lines of which `resources` is looked at: the last ones."""
MOST_KILLED = 10

_OTHERS = {
    PROCESSES: ("processes", 1.0),
    THREADS: ("threads", 1.0),
    f"{EXTENSION}truemem": ("sidecar_holds", 1024.0),
    ENVIRONMENT: ("environment_used", 1024.0),
}
"""Witnesses that are on each line: the column, and what one of its unit is in the curve's."""
_OF_MALLOC = {
    IN_USE: ("malloc_used", 1024.0),
    HELD: ("malloc_held", 1024.0),
    BLOCKS: ("blocks", 1.0),
    SMALL: ("small", 1024.0),
    FILES: ("files", 1024.0),
}
"""The same of those that lines with malloc's figures have."""


class Judged(NamedTuple):
    """One environment."""

    environment: EnvironmentSummary
    evidence: fleet.Evidence
    """For the verdict on all environments of its function."""


class Sorted(NamedTuple):
    """The rows of whole environments, one per invocation, those of a function beside each other."""

    rows: Rows
    starts: list[int]
    """Where each environment begins; last, the number of rows."""
    keys: list[int]
    """The environments' hashes."""
    names: list[Name]
    part: Part


def ordered(part: Part) -> Sorted:
    """The rows in order. Lines that repeat another are left out."""
    keys = sorted(part.names, key=lambda key: (part.names[key], key))
    by_hash = np.argsort(np.array(keys, np.uint64))
    place = by_hash[np.searchsorted(np.array(keys, np.uint64)[by_hash], part.rows["environment"])]
    order = np.lexsort((part.rows["invocation"], place))
    rows, place = part.rows.take(order), place[order]
    if _alike(place, rows["invocation"]).any():
        names = ("time_ms", "recovered", "may_repeat", "request_key", "invocation")
        order = np.lexsort((*(rows[name] for name in names), place))
        rows, place = rows.take(order), place[order]
        is_repeat = _alike(place, rows["invocation"]) & _alike(place, rows["request_key"])
        kept = np.flatnonzero(np.append(True, ~is_repeat))
        rows, place = rows.take(kept), place[kept]
    starts = np.searchsorted(place, np.arange(len(keys) + 1)).tolist()
    return Sorted(rows, starts, keys, [part.names[key] for key in keys], part)


def _alike(place: NDArray[Any], values: NDArray[Any]) -> Flags:
    """Is a row the same as the one before, by both?"""
    same = (values[1:] == values[:-1]) | ((values[1:] != values[1:]) & (values[:-1] != values[:-1]))  # NaN too
    alike: Flags = same & (place[1:] == place[:-1])
    return alike


def judged(found: Sorted) -> Iterator[Judged]:
    """Judge the environments."""
    if not len(found.rows):
        return
    figures, columns = _Figures(found), _Columns(found)
    for place, name in enumerate(found.names):
        curves = columns.curves(place)
        finding = find(curves, commands_of(name.function, name.environment_id))
        yield Judged(figures.summary(place, curves, finding), fleet.evidence(curves.rss))


class _Figures:
    """What a report says of each environment, without its finding."""

    def __init__(self, found: Sorted) -> None:
        self._found = found
        rows, self._starts = found.rows, np.array(found.starts[:-1])
        self._of = np.repeat(np.arange(len(found.keys)), np.diff(found.starts))
        """The environment of each row."""
        peak, upper, size, duration = (rows[name] for name in ("peak_rss", "peak_upper", "memory_limit", "duration_ms"))
        is_numbered, is_killed = ~np.isnan(rows["invocation"]), rows["out_of_memory"]
        is_certain = ~(rows["raced"] | rows["recovered"] | rows["is_last"])
        beyond = np.isnan(upper) | (
            (upper >= size) & (np.where(np.isnan(rows["peak_lower"]), peak, rows["peak_lower"]) < size)
        )
        rounded = np.ceil(duration.astype(float))
        billed = np.where(np.isnan(rows["billed_duration_ms"]), rounded, rows["billed_duration_ms"])
        held = rows["sidecar_holds"] + np.nan_to_num(rows["held_by_extensions"])
        has_request = rows["request"] != NO_REQUEST
        highest = self._most(np.where(has_request, peak, np.nan))
        current, mark, time_ms = (rows[name] for name in ("current_rss", "max_memory_used", "time_ms"))
        p50, p99 = self._quantiles(peak, 0.5, 0.99)
        self._peaks: dict[str, list[Any]] = {
            "invocations": np.diff(found.starts).tolist(),
            "p50": p50,
            "p99": p99,
            "highest": _values(self._most(peak)),
            "out_of_memory": self._count(is_killed),
        }
        """Fields of `Peaks`."""
        self._figures: dict[str, list[Any]] = {
            "current_first": self._end(is_certain & is_numbered, current),
            "current_last": self._end(is_certain & is_numbered, current, last=True),
            "mark_first": self._end(is_numbered, mark),
            "mark": _values(self._most(mark)),
            "size": _values(self._most(size)),
            "first_ms": [each if each is None else int(each) for each in _values(-self._most(-time_ms))],
            "last_ms": [each if each is None else int(each) for each in _values(self._most(time_ms))],
            "need": _values(
                self._most(np.fmax(np.fmax(np.where(np.isnan(upper), peak, upper), peak), rows["init_peak_rss"]))
            ),
            "unbounded": self._count(~np.isnan(peak) & beyond & (~rows["is_last"] | is_killed)),
            "others": _values(self._most(held)),
            "billed": self._count(~np.isnan(duration)),
            "billed_ms": self._sum(np.where(np.isnan(duration), 0.0, billed)),
            "init_ms": self._sum(np.nan_to_num(np.fmax(rows["billed_duration_ms"] - rounded, 0.0))),
            "line_bytes": self._sum(rows["line_bytes"].astype(int)),
            "managed": [each > 0 for each in self._count(~np.isnan(rows["shared_by"]))],
            "lost": self._count(rows["lost"]),
        }
        """Fields of `EnvironmentSummary`."""
        self._latest = self._place(is_numbered & ~np.isnan(rows["sidecar_holds"]) & ~rows["is_last"], last=True)
        """The row that says who holds the memory at the end."""
        self._highest = self._place(has_request & (peak == highest[self._of]))

    def summary(self, place: int, curves: Curves, finding: Finding) -> EnvironmentSummary:
        name, rows = self._found.names[place], self._found.rows
        own = slice(self._found.starts[place], self._found.starts[place + 1])
        held: dict[str, float | None] = {}
        if (latest := self._latest[place]) is not None:
            columns = {"function": "function_holds", "truemem": "sidecar_holds"}
            held = {holder: _value(rows[column][latest]) for holder, column in columns.items()}
            if rows["text"][latest] >= 0:
                held |= _extensions(_read(self._found.part.texts[rows["text"][latest]]))
        methods = Counter(rows["method"][own].tolist())
        words = self._found.part.words
        killed: list[bytes] = []
        if self._peaks["out_of_memory"][place]:
            requests = rows["request"][own][rows["out_of_memory"][own]]
            killed = requests[requests != NO_REQUEST][:MOST_KILLED].tolist()
        highest = self._highest[place]
        return EnvironmentSummary(
            function=name.function,
            version=name.version,
            environment_id=name.environment_id,
            peaks=Peaks(**{field: column[place] for field, column in self._peaks.items()}),
            **{field: column[place] for field, column in self._figures.items()},
            holders={each: round(value, 2) for each, value in held.items() if value is not None},
            methods=dict(sorted((words[each], count) for each, count in methods.items())),
            peak_request=None if highest is None else rows["request"][highest].decode(),
            out_of_memory_requests=[each.decode() for each in killed],
            finding=finding,
            ended=len(curves.killed),
            resources=curves.reported,
        )

    def _most(self, values: NDArray[Any]) -> NDArray[Any]:
        """The highest of each environment; NaN if there is none."""
        return np.fmax.reduceat(values, self._starts)

    def _sum(self, values: NDArray[Any]) -> list[Any]:
        sums: list[Any] = np.add.reduceat(values, self._starts).tolist()
        return sums

    def _count(self, flags: Flags) -> list[int]:
        return self._sum(flags.astype(int))

    def _place(self, flags: Flags, *, last: bool = False) -> list[int | None]:
        """The first row of each environment that has the flag, or the last; None if there is none."""
        places = np.flatnonzero(flags)
        edges = np.searchsorted(places, self._found.starts).tolist()
        return [int(places[end - 1 if last else begin]) if begin < end else None for begin, end in pairwise(edges)]

    def _end(self, flags: Flags, values: NDArray[Any], *, last: bool = False) -> list[float | None]:
        """The first known value of those with the flag, or the last."""
        places = self._place(flags & ~np.isnan(values), last=last)
        return [None if place is None else round(float(values[place]), 2) for place in places]

    def _quantiles(self, values: NDArray[Any], *shares: float) -> Iterator[list[float | None]]:
        """Nearest ranks."""
        ranked = values[np.lexsort((values, self._of))]
        counts = self._count(~np.isnan(values))
        for share in shares:
            yield [
                round(float(ranked[start + rank(share, count)]), 2) if count else None
                for start, count in zip(self._found.starts, counts, strict=False)
            ]


def rank(share: float, count: int) -> int:
    """The place of a quantile that occurred."""
    return max(1, count - int(np.floor(count - share * count))) - 1


class _Told(NamedTuple):
    """An invocation with a text."""

    text: bytes
    number: int

    def line(self) -> Line:
        """A line that has these members alone."""
        return Line(environment="", schema=FULL, members=_read(self.text))


class _Places:
    """Which rows have a flag, by environment."""

    def __init__(self, flags: Flags, starts: Sequence[int]) -> None:
        self._at = np.flatnonzero(flags)
        self._edges = np.searchsorted(self._at, starts).tolist()

    def of(self, place: int) -> NDArray[np.intp]:
        return self._at[slice(*self._edges[place : place + 2])]


class _Columns:
    """The curves of each environment."""

    def __init__(self, found: Sorted) -> None:
        self._found, rows, starts = found, found.rows, found.starts
        current = np.where(np.isnan(rows["current_rss"]) & rows["out_of_memory"], rows["peak_rss"], rows["current_rss"])
        is_point = ~(np.isnan(rows["invocation"]) | np.isnan(current))
        self._edges = np.append(0, np.cumsum(is_point))[starts].tolist()
        at = np.flatnonzero(is_point)
        points = rows.take(at)
        self._rss = Curve(
            points["invocation"],
            np.nan_to_num(points["time_ms"]),
            current[at] * 1024.0,
            points["peak_rss"] * 1024.0,
            ~(points["raced"] | points["recovered"] | points["is_last"]),
            points["begins"],
            points["out_of_memory"],
        )
        self._points = {name: points[name].astype(float) for name, _ in _OTHERS.values()}
        self._words = found.part.words
        self._numbers = np.nan_to_num(rows["invocation"]).astype(np.int64)
        """Number of each row's invocation."""
        self._told = _Places((rows["text"] >= 0) & bool(found.part.texts), starts)
        self._sampled = _Places(rows["has_malloc"] | ~np.isnan(rows["held_by_extensions"]), starts)
        self._of_runtime = _Places(rows["has_runtime"], starts)
        self._killed, self._ended = (_Places(rows[name], starts) for name in ("out_of_memory", "ended"))
        self._failed = _Places(rows["failed"] > 0, starts)
        self._answered = _Places(rows["handler_error"] & (rows["failed"] == 0) & ~rows["out_of_memory"], starts)
        self._size, self._latest = (
            np.fmax.reduceat(rows[name], starts[:-1]) for name in ("memory_limit", "invocation")
        )

    def curves(self, place: int) -> Curves:
        at = slice(*self._edges[place : place + 2])
        rss = self._rss[at]
        others: dict[str, Curve] = {}
        for name, (column, unit) in _OTHERS.items():
            values_of = self._points[column][at]
            known = np.flatnonzero(~np.isnan(values_of))
            if len(known) and values_of[known].min() == values_of[known].max():
                known = known[-1:]  # it says all of a curve that is level, and is judged in no time
            of_those = (values_of[known] * unit, np.full(len(known), np.nan), np.ones(len(known), bool))
            nothing = np.zeros(len(known))
            others[name] = Curve(rss.invocation[known], nothing, *of_those, rss.begins[known], nothing > 0)
        texts, rows = self._found.part.texts, self._found.rows
        with_text = self._told.of(place)
        numbered = zip(rows["text"][with_text].tolist(), self._numbers[with_text].tolist(), strict=True)
        told = [_Told(texts[text], number) for text, number in numbered]
        sampled, of_runtime = self._drawn(self._sampled.of(place), SAMPLED), self._of_runtime.of(place)
        sampled = sampled[np.argsort(self._numbers[sampled], kind="stable")]
        heaps = np.append(self._drawn(of_runtime, HEAPS), of_runtime[-1:])
        reported = [each for each in told if _RESOURCES in each.text][-REPORTED:]
        profiles = ((each.number, profile_in(_read(each.text))) for each in told if PROFILED in each.text)
        said = Counter(rows["failed"][self._failed.of(place)].tolist())
        failed = dict(sorted((self._words[each], count) for each, count in said.items()))
        size, latest = self._size[place], self._latest[place]
        curves = Curves(
            invocations=len(rss),
            rss=rss,
            others={**others, **self._sampled_curves(sampled, rss)},
            readings=self._readings(heaps),
            reported=resources(
                [(each.number, _read(each.text).get("resources")) for each in reported],
                0 if math.isnan(latest) else int(latest),
            ),
            settled=_last_life([each for each in told if _KEPT in each.text or _OUTSIDE in each.text], rss),
            runtime=self._runtime((*sampled[:1].tolist(), *heaps[:1].tolist())),
            limit_mib=_value(size),
            failed=Failed(failed, len(self._answered.of(place))),
            out_of_memory=self._numbers[self._killed.of(place)].tolist(),
            killed=self._numbers[self._ended.of(place)].tolist(),
        )
        return without_profiles(curves, [profiled_in(number, each) for number, each in profiles if each is not None])

    def _drawn(self, at: NDArray[np.intp], most: int) -> NDArray[np.intp]:
        """At most so many of these rows, at random by the invocation's number."""
        if len(at) <= most:
            return at
        numbers = self._numbers[at].astype(np.uint64)
        for _ in range(2):  # murmur's finalizer
            numbers = (numbers ^ (numbers >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
        return at[np.argsort(numbers ^ (numbers >> np.uint64(32)), kind="stable")[-most:]]

    def _sampled_curves(self, at: NDArray[np.intp], rss: Curve) -> dict[str, Curve]:
        """What these rows say of malloc and of extensions, with the begin of each life: the line that says so may not
        be among them."""
        rows, begins = self._found.rows, rss.invocation[rss.begins]
        found: dict[str, Curve] = {}

        def put(name: str, of: NDArray[np.intp], kib: Floats, died: Flags | bool = False) -> None:
            lives = np.searchsorted(begins, self._numbers[of], side="right")
            begun = np.diff(lives, prepend=0) > 0
            found[name] = Curve.made(self._numbers[of], 0.0, kib, begins=begun, died=died)

        of_malloc = at[rows["has_malloc"][at]]
        for name, (column, unit) in _OF_MALLOC.items():
            values = rows[column][of_malloc]
            known = ~np.isnan(values)
            if known.any():
                put(name, of_malloc[known], values[known] * unit)
        held: dict[str, dict[int, float]] = {}
        for row in at[~np.isnan(rows["held_by_extensions"][at])].tolist():
            for name, mib in _extensions(_read(self._found.part.texts[rows["text"][row]])).items():
                held.setdefault(f"{EXTENSION}{name}", {})[row] = mib * 1024
        for name, kib in held.items():
            of = np.array([*kib])
            put(name, of, np.array([*kib.values()]), rows["ended"][of])
        return found

    def _readings(self, at: NDArray[np.intp]) -> list[HeapReading]:
        """What these rows say of a collected heap."""
        if not len(at):
            return []
        rows = self._found.rows
        known = {name: rows[f"heap_{name}"][at] for name in COLLECTED}
        known["number"] = np.where(np.isnan(rows["invocation"][at]), np.arange(1, len(at) + 1), self._numbers[at])
        known["rss"] = np.where(rows["processes"][at] == 1, np.round(rows["current_rss"][at].astype(float), 2), np.nan)
        known["memory"] = rows["memory_limit"][at].astype(float)
        given = {name: _or_none(values) for name, values in known.items()}
        given["collections"] = [None if each is None else int(each) for each in given["collections"]]
        given["runtime"] = [self._words[each] for each in rows["runtime"][at].tolist()]
        given["begins"], given["overlaps"] = rows["begins"][at].tolist(), (~np.isnan(rows["shared_by"][at])).tolist()
        columns = [given[name] for name in HeapReading._fields]
        made = map(HeapReading._make, zip(*columns, strict=True))
        kept = (each for each in made if each.runtime in HEAP_RUNTIMES and each.committed is not None)
        return sorted(kept, key=lambda each: each.number)

    def _runtime(self, at: Iterable[int]) -> str:
        """The runtime of the first of these rows whose heap tells it; else empty."""
        hashes = (int(self._found.rows["runtime"][each]) for each in at)
        return next((self._words[each] for each in hashes if each), "")


_KEPT, _OUTSIDE = b'"kept":', b'"outside"'
"""In the heap of a process that was settled, and of one without a probe."""
_RESOURCES = b'"resources":'
PROFILED = b'"growthProfile":'
"""In the text of a line that has a profile of what keeps memory."""


def _last_life(told: list[_Told], rss: Curve) -> list[Reading]:
    """What was kept by the processes that live, as far as these lines tell."""
    begins = rss.invocation[rss.begins]
    lives = (int(np.searchsorted(begins, each.number, side="right")) for each in told)
    made = (settled_on(each.line(), each.number, life) for each, life in zip(told, lives, strict=True))
    return last_life([each for each in made if each is not None])


def _read(text: bytes) -> Mapping[str, Any]:
    """The members of the line that is kept as this text (`parts.Part.texts`)."""
    return completed(parsed(text) or {})


def _extensions(members: Mapping[str, Any]) -> dict[str, float]:
    """What each extension holds; the decoder has read it before."""
    found: dict[str, float] = members.get("holders", {}).get("extensions") or {}
    return found


def _or_none(values: NDArray[Any]) -> list[Any]:
    """None for NaN."""
    made = values.astype(object)
    made[np.isnan(values)] = None
    return [*made]


def _value(value: Any) -> float | None:
    return None if np.isnan(value) else float(value)


def _values(values: NDArray[Any]) -> list[Any]:
    """The same as a list, to hundredths as in the lines (rows have 4-byte floats), None for NaN."""
    return [None if math.isnan(one) else round(one, 2) for one in values.tolist()]
