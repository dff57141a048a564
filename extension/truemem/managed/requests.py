"""Requests that run at the same time on Lambda Managed Instances: telemetry tells when each began and ended. Pure."""

from __future__ import annotations

from ..platform.telemetry import REPORT, START
from ..records.pending_record import PendingRecord
from .segments import RESOLUTION_NS, both

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..measure.window import Peak
    from ..platform.exact_mode import PassingInvocation
    from ..platform.telemetry import PlatformEvent
    from .segments import Segments

MS = 1_000_000

MOST_RUNNING = 2048
"""Requests that are kept while they run. 1,600 do at most (Lambda API, PerExecutionEnvironmentMaxConcurrency): if there
are more, the report of the oldest was lost. And so many are kept until the segment of their end is closed: others get
no record, and are counted as lost."""

MOST_EARLY = 64
"""Reports kept at most that came in an earlier delivery than the start of their request."""

LONGEST_NS = 5_500_000 * MS
"""A request takes 5,400 s at most (Lambda API, CreateFunction, Timeout): the report of an older one is lost."""

LATE_NS = 800 * MS
"""A report comes so late at most, mostly: a request without one has run until then."""
AGED_NS = 200 * MS
"""When a request has run for this time, and whenever that has doubled, its peak so far is taken from the segments:
those of its beginning are not merged with earlier ones yet."""


class Request:
    """One request until its line is printed. Times are epoch ns, as telemetry gives them."""

    __slots__ = (
        *("aged_ns", "end_ns", "environment_kills", "kills", "passage"),
        *("reached", "reached_ns", "record", "start_ns", "waited"),
    )

    def __init__(self, record: PendingRecord, start_ns: int, passage: Passage | None = None) -> None:
        self.record = record
        self.start_ns = start_ns
        self.end_ns = start_ns
        self.reached: Peak | None = None
        """The request's peak until `reached_ns`; None before that, or where the function was not seen."""
        self.reached_ns = 0
        self.aged_ns = record.time_ms * MS + AGED_NS
        """When the request's peak is to be taken next."""
        self.passage = passage
        """Exact mode: when the request passed through the sidecar."""
        self.kills = 0
        """OOM kills of the function's processes while the request ran."""
        self.environment_kills = 0
        """OOM kills of all other processes while the request ran."""
        self.waited = False
        """The request's report was here before, and the segment of its end was not closed by then."""

    def reach(self, segments: Segments, end_ns: int, resolution_ns: int) -> Peak | None:
        """Take the request's peak until `end_ns`; this and its start are known to `resolution_ns`."""
        since_ns = self.reached_ns if self.reached_ns <= end_ns else 0  # else it has ended before what is known
        more = segments.peak_between(self.start_ns, end_ns, resolution_ns, since_ns)
        self.reached = both(self.reached, more) if since_ns else more
        self.reached_ns, self.aged_ns = end_ns, 2 * end_ns - self.record.time_ms * MS
        return self.reached

    def begins_exactly(self) -> bool:
        """Replace its start by when its event passed through the sidecar. False where it did not."""
        passage = self.passage
        if passage is None or passage.invocation.unsure:
            return False
        self.start_ns = passage.start_ns
        return True

    def take_exact_times(self) -> bool:
        """Replace its start and end by when its event, and its worker's request for the next one, passed through the
        sidecar. False where one of them did not."""
        passage = self.passage
        if passage is None or not passage.end_ns or not self.begins_exactly():
            return False
        self.end_ns = passage.end_ns
        self.record.answered(passage.invocation)
        return True


class Passage:
    """When a request's event passed through the sidecar, and the request for the next one. Epoch ns."""

    __slots__ = ("end_ns", "invocation", "start_ns")

    def __init__(self, invocation: PassingInvocation, start_ns: int) -> None:
        self.invocation = invocation
        self.start_ns = start_ns
        self.end_ns = 0


class Requests:
    """The requests of one environment that run, or have ended and are not printed."""

    def __init__(self) -> None:
        self._running: dict[str, Request] = {}
        self._ended: list[Request] = []
        self._early: dict[str, PlatformEvent] = {}
        """Reports of requests whose start has not come, oldest first."""
        self._passages: dict[str, Passage] = {}
        """Exact mode: when requests passed through the sidecar, by request id, until they are printed."""
        self._count = 0
        self.lost = 0
        """Events about requests that are not known here, and requests beyond MOST_RUNNING."""

    def any(self) -> bool:
        """Is there a request that is not printed?"""
        return bool(self._running or self._ended)

    def running(self) -> int:
        """How many requests wait for their report."""
        return len(self._running)

    def join(self, events: list[PlatformEvent], now_ns: int) -> list[tuple[PendingRecord, PlatformEvent]]:
        """Join a delivery of telemetry. Its events are in no certain order (Telemetry API, developer guide). Returns
        the records of the requests that have begun, each with its event."""
        begun = []
        unknown = {START: 0}
        for event in sorted(events, key=lambda event: event.time_ns or unknown.get(event.kind, now_ns)):
            if event.kind == START and (record := self._start(event, now_ns)) is not None:
                begun.append((record, event))
            elif event.kind == REPORT:
                self._report(event, now_ns)
        return begun

    def began(self, invocation: PassingInvocation, now_ns: int) -> None:
        """Note that the request's event has been handed on to the runtime (exact mode)."""
        self._passages[invocation.request_id] = Passage(invocation, now_ns)
        if len(self._passages) > MOST_RUNNING:
            del self._passages[next(iter(self._passages))]

    def ended_at(self, invocation: PassingInvocation, now_ns: int) -> None:
        """Note that the request's worker has asked for its next event (exact mode)."""
        passage = self._passages.get(invocation.request_id)
        if passage is not None:
            passage.end_ns = now_ns

    def ended(self, until_ns: int) -> list[Request]:
        """Take the requests that ended up to this time, and those that were not taken the last time: the clock may have
        been set back."""
        due = [request for request in self._ended if request.end_ns <= until_ns or request.waited]
        self._ended = [request for request in self._ended if request.end_ns > until_ns and not request.waited]
        for request in self._ended:
            request.waited = True
        for request in due:
            self._passages.pop(request.record.request_id, None)
        return due

    def take_peaks(self, segments: Segments, seen_ns: int) -> None:
        """Take the peaks so far of requests that have run for long (AGED_NS). What ended up to `seen_ns` lies within
        segments."""
        until_ns = seen_ns - LATE_NS
        for request in self._running.values():
            if request.aged_ns <= until_ns:
                request.reach(segments, until_ns, 0 if request.begins_exactly() else RESOLUTION_NS)

    def end_overdue(self, now_ns: int) -> None:
        """End the requests that are so old that their report was lost."""
        oldest_ms = (now_ns - LONGEST_NS) // MS
        for request in [request for request in self._running.values() if request.record.time_ms < oldest_ms]:
            self._end(request, request.record.time_ms * MS + LONGEST_NS)

    def killed(self, count: int, of_function: bool = True) -> None:
        """The kernel has killed `count` processes: count them for all requests that run. Of the function's it shows
        later which request they were of: it does not end with success."""
        for request in [*self._running.values(), *self._ended]:
            if of_function:
                request.kills += count
            else:
                request.environment_kills += count

    def take_all(self, now_ns: int) -> list[Request]:
        """Take every request: the environment ends."""
        self.lost += len(self._early)
        self._early.clear()
        for request in list(self._running.values()):
            self._end(request, now_ns)
        remaining, self._ended = self._ended, []
        return remaining

    def _start(self, event: PlatformEvent, now_ns: int) -> PendingRecord | None:
        request_id = event.request_id
        if request_id is None or request_id in self._running or len(self._ended) >= MOST_RUNNING:
            self.lost += 1
            return None
        if len(self._running) >= MOST_RUNNING:
            self._end(next(iter(self._running.values())), now_ns)
        self._count += 1
        # Without a time it may have begun at any time: then its peak has no upper bound.
        start_ns = event.time_ns if event.time_ns is not None else 0
        record = PendingRecord(request_id, self._count, (start_ns or now_ns) // MS)
        record.follows_init(cold_start=self._count == 1, suppressed=False)
        record.join(event)
        self._running[request_id] = Request(record, start_ns, self._passages.get(request_id))
        at_once = len(self._running)
        for request in self._running.values():
            request.record.shared(at_once)
        early = self._early.pop(request_id, None)
        if early is not None:
            self._report(early, now_ns)
        return record

    def _report(self, event: PlatformEvent, now_ns: int) -> None:
        request = self._running.get(event.request_id or "")
        if request is None:
            self._keep(event.request_id, event)
            return
        request.record.join(event)
        self._end(request, event.time_ns or now_ns)

    def _end(self, request: Request, end_ns: int) -> None:
        del self._running[request.record.request_id]
        request.end_ns = max(end_ns, request.start_ns)
        request.passage = self._passages.get(request.record.request_id, request.passage)
        self._ended.append(request)

    def _keep(self, request_id: str | None, event: PlatformEvent) -> None:
        """Keep a report: the start of its request may be in the next delivery."""
        if request_id is None or request_id in self._early:
            self.lost += 1
            return
        self._early[request_id] = event
        if len(self._early) > MOST_EARLY:
            del self._early[next(iter(self._early))]
            self.lost += 1
