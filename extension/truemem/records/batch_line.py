"""Ordinary invocations of a hot function, up to a hundred in one line (TRUEMEM_AGGREGATE). Pure.

The line is the record of the last of them, but its metrics are arrays, and `aggregate` has what else is known of each.
"""

from __future__ import annotations

from ..measure.window import current
from ..support.units import mib
from .emf import VALUES, document, line
from .record import metrics, properties

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..config import Config
    from .record import InvocationRecord

MS = 1_000


class BatchLine:
    """Those that wait for their common line."""

    def __init__(self, seconds: int) -> None:
        """`seconds`: how long the first of them waits at most."""
        self._span_ms = seconds * MS
        self.slots: list[int] = []
        """Where the journal has each."""
        self._clear()

    def _clear(self) -> None:
        self._last: InvocationRecord | None = None
        self._kind: tuple[object, ...] = ()
        self._first_ms = 0
        self._drift: dict[str, object] = {}
        self._metrics: dict[str, list[float]] = {}
        self._ids: list[str] = []
        self._numbers: list[int] = []
        self._starts: list[int] = []
        self._durations: list[float] = []
        self._uppers: list[float] = []
        self._raced: list[int] = []
        self.slots = []

    def __len__(self) -> int:
        return len(self._ids)

    def wants(self, record: InvocationRecord) -> bool:
        """Is it an ordinary one? Whatever asks for somebody's attention has a line of its own, at once."""
        return (
            record.peak is not None
            and record.window is not None
            and current(record.window) > 0
            and record.status in (None, "success")
            and record.closed_by != "shutdown"
            and " " not in record.request_id
            and not (record.cold_start or record.suppressed_init or record.init_peak is not None)
            and not (
                record.handler_failed
                or record.signals
                or record.kernel_kills
                or record.environment_kills
                or record.ending
                or record.error_type
                or record.dropped
            )
        )

    def fits(self, record: InvocationRecord) -> bool:
        """Can it share a line with those that wait?"""
        return not self._ids or (
            len(self) < VALUES and self._kind == _kind(record) and not self.overdue(record.time_ms)
        )

    def overdue(self, now_ms: int) -> bool:
        """Has the first of them waited for long enough, at epoch `now_ms`? Also where the clock was set back."""
        return bool(self._ids) and not 0 <= now_ms - self._first_ms < self._span_ms

    def add(self, record: InvocationRecord) -> None:
        """One that is wanted, and fits."""
        if not self._ids:
            self._kind, self._first_ms = _kind(record), record.time_ms
        if record.peak is not None:
            if record.peak.raced:
                self._raced.append(len(self))
            if record.peak.upper:
                self._uppers.append(mib(record.peak.upper))
        for name, value in metrics(record).items():
            self._metrics.setdefault(name, []).append(value)
        if record.duration_ms is not None:
            self._durations.append(record.duration_ms)
        if record.slot is not None:
            self.slots.append(record.slot)
        self._ids.append(record.request_id)
        self._numbers.append(record.invocation)
        self._starts.append(record.time_ms - self._first_ms)
        self._drift = record.drift or self._drift
        self._last = record

    def take(self, config: Config) -> str:
        """Their line; from now on none waits. At least one does. One alone has the line that it always has."""
        last = self._last
        assert last is not None
        last.drift = self._drift
        text = line(last, config) if len(self) == 1 else self._line(last, config)
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
            "invocation": self._numbers,
            "startMs": self._starts,
        }
        if self._durations:
            about["durationMs"] = self._durations
        if self._uppers:
            about["peakUpper"] = self._uppers
        if self._raced:
            about["raced"] = self._raced
        single = {name: values[-1] for name, values in self._metrics.items() if len(values) != len(self)}
        columns = {name: values for name, values in self._metrics.items() if name not in single}
        members = properties(last, config.memory_mib, config.function_version)
        return document(self._first_ms, single, members, config, columns={"aggregate": about, **columns})


def _kind(record: InvocationRecord) -> tuple[object, ...]:
    """What is the same of all invocations of a line: who was served, how it was measured, and what is known of each."""
    return (
        record.status,
        record.tenant_id,
        record.report_came,
        record.closed_by,
        record.peak is not None and record.peak.method,
        record.peak is not None and bool(record.peak.upper),
        record.duration_ms is None,
        record.max_memory_used_mib is None,
    )
