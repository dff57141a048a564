"""Ordinary invocations of a hot function, up to a hundred in one line (TRUEMEM_AGGREGATE). Pure.

The line is the record of the last of them, but its metrics are arrays, and `aggregate` has what else is known of each.
"""

from __future__ import annotations

from ..lifecycle.publisher import SingleLines
from ..line_schema import PROPERTIES
from ..records.record import VALUES, InvocationRecord, line
from ..wings import Line, Wing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..config import Config
    from ..wings import Site

MS = 1_000

EXTRAORDINARY = {
    "recovered",
    *("coldStart", "suppressedInit", "initPeakRSS", "handlerError", "errorType"),
    *("outOfMemory", "environmentKills", "ending", "lastSamples", "dropped"),
}
"""Members of a record that has a line of its own."""


class BatchLines(SingleLines):
    """Invocations that wait for their common line."""

    def __init__(self, config: Config, text: Callable[[InvocationRecord], str]) -> None:
        super().__init__(text)
        self._config = config
        self._span_ms = config.aggregate_s * MS
        self._clear()

    def _clear(self) -> None:
        self._last: InvocationRecord | None = None
        self._kind: tuple[object, ...] = ()
        self._first_ms = 0
        self._told: dict[str, object] = {}
        """Of members that only some lines have, the last one."""
        self._metrics: dict[str, list[float]] = {}
        self._ids: list[str] = []
        self._starts: list[int] = []
        self._columns: dict[str, list[object]] = {"invocation": [], "durationMs": [], "peakUpper": []}
        self._raced: list[int] = []
        self._slots: list[int] = []
        """Where the journal has each."""

    def __len__(self) -> int:
        return len(self._ids)

    def add(self, record: InvocationRecord, dropped: int) -> list[Line]:
        if not self._is_ordinary(record):
            return [*self.rest(), *super().add(record, dropped)]
        before = [] if self._fits(record) else self.rest()
        self._append(record)
        return before

    def overdue(self, now_ms: int) -> list[Line]:
        return self.rest() if self._is_overdue(now_ms) else []

    def rest(self) -> list[Line]:
        if self._last is None:
            return []
        count, slots = len(self), self._slots
        return [Line(self._take(self._last), slots, count - 1)]

    def _is_ordinary(self, record: InvocationRecord) -> bool:
        """One that needs attention has a line of its own, at once."""
        members = record.properties
        return (
            record.metrics.keys() >= {"PeakRSS", "CurrentRSS"}
            and members.get("status") in (None, "success")
            and members.get("closedBy") != "shutdown"
            and " " not in members["requestId"]
            and not (members.keys() & EXTRAORDINARY)
        )

    def _fits(self, record: InvocationRecord) -> bool:
        """Can it share a line with those that wait?"""
        return not self._ids or (
            len(self) < VALUES and self._kind == _kind(record) and not self._is_overdue(record.time_ms)
        )

    def _is_overdue(self, now_ms: int) -> bool:
        """Has the first of them waited for long enough, at epoch `now_ms`? Also where the clock was set back."""
        return bool(self._ids) and not 0 <= now_ms - self._first_ms < self._span_ms

    def _append(self, record: InvocationRecord) -> None:
        if not self._ids:
            self._kind, self._first_ms = _kind(record), record.time_ms
        members = record.properties
        self._told.update((name, members[name]) for name in ("resources", "drift") if name in members)
        if "drift" in members:
            self._metrics.pop("MemoryGrowing", None)  # a line tells the last verdict alone
        if "raced" in members:
            self._raced.append(len(self))
        for name, value in record.metrics.items():
            self._metrics.setdefault(name, []).append(value)
        for name, values in self._columns.items():
            if name in members:
                values.append(members[name])
        if record.slot is not None:
            self._slots.append(record.slot)
        self._ids.append(members["requestId"])
        self._starts.append(record.time_ms - self._first_ms)
        self._last = record

    def _take(self, last: InvocationRecord) -> str:
        """Their line; from now on none waits. One alone has the line that it always has."""
        text = line(last, self._config) if len(self) == 1 else self._line(last, self._config)
        self._clear()
        return text

    def _line(self, last: InvocationRecord, config: Config) -> str:
        peaks = self._metrics["PeakRSS"]
        highest = peaks.index(max(peaks))
        about: dict[str, object] = {
            "invocations": len(self),
            "peakMax": peaks[highest],
            "peakRequestId": self._ids[highest],
            "requestId": " ".join(self._ids),
            "invocation": self._columns["invocation"],
            "startMs": self._starts,
        }
        about.update({name: values for name, values in self._columns.items() if values})
        if self._raced:
            about["raced"] = self._raced
        single = {name: values[-1] for name, values in self._metrics.items() if len(values) != len(self)}
        columns = {name: values for name, values in self._metrics.items() if name not in single}
        members = {**last.properties, **self._told}
        order = list(PROPERTIES)
        members.pop("traceId", None)  # that of the last one would be taken for all of them
        members = {name: members[name] for name in sorted(members, key=order.index)}
        return line(InvocationRecord(self._first_ms, single, members), config, {"aggregate": about, **columns})


def _kind(record: InvocationRecord) -> tuple[object, ...]:
    """What is the same of all invocations of a line: who was served, how it was measured, and what is known of each."""
    members = record.properties
    values = (members.get(name) for name in ("status", "tenantId", "reportMissing", "closedBy", "method"))
    return (*values, "peakUpper" in members, "durationMs" in members, "MaxMemoryUsed" in record.metrics)


class _Batch(Wing):
    def __init__(self, config: Config) -> None:
        self.lines = lambda text: BatchLines(config, text)


def door(site: Site) -> Wing | None:
    """Where TRUEMEM_AGGREGATE wants them, and records have lines."""
    return _Batch(site.config) if site.config.aggregate_s and site.config.prints else None
