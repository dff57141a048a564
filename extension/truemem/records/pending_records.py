"""Which records are open, which wait for their report, which are due. Pure.

`platform.report` N, with the mark, comes with invocation N+1 or at shutdown. A record is due when it is
closed and has its report, or when the next one is closed as well and telemetry has had its chance: it is
buffered for 25 ms and delivered only while the environment runs, so that several short invocations pass first,
and little memory buys little CPU time to deliver and to read it with.
"""

from __future__ import annotations

from ..platform.telemetry_events import RUNTIME_DONE, START, Event

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .pending_record import PendingRecord


CHANCE_MS = 1000
"""Running time after a record's close in which its report arrives, if it does: forty times the buffering."""

START_MS = 100
"""Running time in which the next invocation's platform.start arrives where it would make a record exact: four times the
buffering."""

WAITING = 16
"""Closed records that may wait at once."""


class PendingRecords:
    """Those of one environment, in the order of their invocations."""

    def __init__(self, reports: bool = True) -> None:
        """`reports` says whether any will come: without telemetry nothing is waited for."""
        self._reports = reports
        self._waiting: list[PendingRecord] = []

    def open(self, record: PendingRecord) -> None:
        """An invocation begins."""
        self._waiting.append(record)

    def over_capacity(self) -> bool:
        """Do more wait than should? Invocations may follow each other so closely that there is no time to print."""
        return len(self._waiting) > 2 * WAITING

    def current(self) -> PendingRecord | None:
        """The invocation whose window is open, or None."""
        return self._waiting[-1] if self._waiting and not self._waiting[-1].closed else None

    def unreported(self) -> PendingRecord | None:
        """The last invocation, if the platform has not reported its end."""
        last = self._waiting[-1] if self._waiting else None
        return last if last is not None and not last.report_came else None

    def first(self) -> PendingRecord | None:
        """The oldest invocation that is still here."""
        return self._waiting[0] if self._waiting else None

    def for_request(self, request_id: str | None, kind: str = RUNTIME_DONE) -> PendingRecord | None:
        """The invocation that such an event is about, if it is still here. A retry has the request id of the one before
        it, which may still wait for its report: it is the first that has not had such an event."""
        same = [record for record in self._waiting if record.request_id == request_id]
        for record in same:
            heard = {START: record.started, RUNTIME_DONE: record.done_ns is not None}.get(kind, False)
            if not record.report_came and not heard:
                return record
        return same[-1] if same else None

    def join(self, event: Event) -> bool:
        """Add what the platform says; False where it is about an invocation that does not wait."""
        record = self.for_request(event.request_id, event.kind)
        if record is None:
            return False
        record.reported(event)
        return True

    def due(self, running_ms: float) -> PendingRecord | None:
        """Take the first record if it can be printed now, else None.

        `running_ms` is the time that the environment has run, freezes left out, on the scale of `closed_at_ms`.
        """
        closed = [record for record in self._waiting if record.closed]
        if not closed or not self._is_due(closed, running_ms):
            return None
        return self._take()

    def _is_due(self, closed: list[PendingRecord], running_ms: float) -> bool:
        first = closed[0]
        if len(closed) > WAITING or not self._reports:
            return True
        waited_ms = running_ms - first.closed_at_ms
        if not first.report_came:
            return len(closed) > 1 and waited_ms >= CHANCE_MS
        # The start of the next one tells which samples were taken before it.
        after = self._waiting[self._waiting.index(first) + 1 :]
        if waited_ms >= START_MS or (after and after[0].started):
            return True
        first.update_peak()
        return first.peak is None or not first.peak.raced

    def complete(self) -> bool:
        """True when no record waits for a report."""
        return not self._reports or all(record.report_came for record in self._waiting)

    def take_all(self) -> list[PendingRecord]:
        """Take everything: the environment ends."""
        return [self._take() for _ in range(len(self._waiting))]

    def _take(self) -> PendingRecord:
        record = self._waiting.pop(0)
        record.update_peak()
        return record
