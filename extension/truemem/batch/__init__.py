"""Ordinary invocations of a hot function, up to a hundred in one line (TRUEMEM_AGGREGATE). Pure.

The line is the record of the last of them, but its metrics are arrays, and `aggregate` has what else is known of each.
"""

from __future__ import annotations

from ..line_schema import PROPERTIES
from ..measure.window import VMHWM, VMHWM_THREADS
from ..records.record import VALUES, InvocationRecord, line
from ..verdict import GROWING
from ..wings import HEAP_NOTE, Lines, PrintedLine, Wing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ..config import Config
    from ..wings import Site

MS_PER_S = 1_000

EXTRAORDINARY = frozenset(
    (
        *("recovered", "coldStart", "suppressedInit", "initPeakRSS", "initDurationMs", "restoreDurationMs"),
        *("handlerError", "errorType", "outOfMemory", "environmentKills", "ending", "lastSamples", "dropped"),
        "growthProfile",
    )
)
"""Members of a record that needs attention: it has a line of its own."""

MEMBERS_KEPT = ("requestId", "invocation", "durationMs", "cpuMs", "peakUpper", "raced", "resources", "drift", "method")
"""Members that a common line has of each, or of the last that has it. A hundred whole records take 0.4 MiB."""


class BatchLines(Lines):
    """Invocations that wait for their common line."""

    def __init__(self, config: Config, text: Callable[[InvocationRecord], str]) -> None:
        super().__init__(text)
        self._config = config
        self._waiting: list[InvocationRecord] = []
        """Records that wait, each with the members in MEMBERS_KEPT alone."""
        self._last: InvocationRecord | None = None
        """The last record that waits, whole."""

    def add(self, record: InvocationRecord, dropped: int) -> list[PrintedLine]:
        if not _is_ordinary(record):
            return [*self.rest(), *super().add(record, dropped)]
        before = [] if self._fits(record) else self.rest()
        members = {name: record.properties[name] for name in MEMBERS_KEPT if name in record.properties}
        self._waiting.append(InvocationRecord(record.time_ms, record.metrics, members, record.slot))
        self._last = record
        return before

    def overdue(self, now_ms: int) -> list[PrintedLine]:
        return self.rest() if self._is_overdue(now_ms) else []

    def rest(self) -> list[PrintedLine]:
        records, last = self._waiting, self._last
        self._waiting, self._last = [], None
        if last is None:
            return []
        text = self._text(last) if len(records) == 1 else _common_line(records, last, self._config)
        return [PrintedLine(text, [record.slot for record in records if record.slot is not None], len(records) - 1)]

    def _fits(self, record: InvocationRecord) -> bool:
        """Can the record share a line with those that wait?"""
        if self._last is None or len(self._waiting) >= VALUES or self._is_overdue(record.time_ms):
            return False
        return _kind(self._last) == _kind(record)

    def _is_overdue(self, now_ms: int) -> bool:
        """Has the first waiting record waited for long enough, at epoch `now_ms`? Also if the clock was set back."""
        span_ms = self._config.aggregate_s * MS_PER_S
        return bool(self._waiting) and not 0 <= now_ms - self._waiting[0].time_ms < span_ms


def _is_ordinary(record: InvocationRecord) -> bool:
    """May this record share a line? One that needs attention has a line of its own, at once."""
    members = record.properties
    heap: Mapping[str, object] = members.get(HEAP_NOTE, {})
    is_read = "kept" in heap or heap.get("source") == "outside"  # once in a while, and the judge needs each of them
    return (
        not is_read
        and record.metrics.keys() >= {"PeakRSS", "CurrentRSS"}
        and members.get("status") in (None, "success")
        and members.get("closedBy") != "shutdown"
        and " " not in members["requestId"]
        and not (members.keys() & EXTRAORDINARY)
    )


def _common_line(records: Sequence[InvocationRecord], last: InvocationRecord, config: Config) -> str:
    """`last`: the last of them, whole."""
    ids = [record.properties["requestId"] for record in records]
    of_each = {name: [each.properties.get(name) for each in records] for name in MEMBERS_KEPT}
    peaks = [record.metrics["PeakRSS"] for record in records]
    about: dict[str, object] = {
        "invocations": len(records),
        "peakMax": max(peaks),
        "peakRequestId": ids[peaks.index(max(peaks))],
        "requestId": " ".join(ids),
        "invocation": of_each["invocation"],
        "startMs": [record.time_ms - records[0].time_ms for record in records],
    }
    about |= {name: of_each[name] for name in ("durationMs", "cpuMs", "peakUpper") if None not in of_each[name]}
    raced = [at for at, is_raced in enumerate(of_each["raced"]) if is_raced]
    if raced:
        about["raced"] = raced
    columns = {name: [record.metrics.get(name) for record in records] for name in last.metrics}
    columns = {name: values for name, values in columns.items() if None not in values}
    single = {name: value for each in records for name, value in each.metrics.items() if name not in columns}
    told = {name: value for name in ("resources", "drift") for value in of_each[name] if value is not None}
    if told.get("drift", {}).get("verdict") != GROWING:
        single.pop("MemoryGrowing", None)  # a line tells the last verdict alone
    members = {**last.properties, **told}
    if VMHWM_THREADS in of_each["method"]:  # the weaker claim stands for all; peakUpper says which are figures
        members["method"] = VMHWM_THREADS
    members.pop("traceId", None)  # that of the last one would be taken for all of them
    members = {name: members[name] for name in PROPERTIES if name in members}
    return line(InvocationRecord(records[0].time_ms, single, members), config, {"aggregate": about, **columns})


def _kind(record: InvocationRecord) -> tuple[object, ...]:
    """What is the same of all invocations of a line: who was served, how it was measured, and what is known of each."""
    members = record.properties
    values = (members.get(name) for name in ("status", "tenantId", "reportMissing", "closedBy"))
    method = members.get("method")
    known = (name in members for name in ("durationMs", "cpuMs", "peakUpper"))
    return (*values, VMHWM if method == VMHWM_THREADS else method, *known, "MaxMemoryUsed" in record.metrics)


class _Batch(Wing):
    def __init__(self, config: Config) -> None:
        self.lines = lambda text: BatchLines(config, text)


def door(site: Site) -> Wing | None:
    """The wing, if TRUEMEM_AGGREGATE is set and records have lines."""
    return _Batch(site.config) if site.config.aggregate_s and site.config.prints else None
