"""Which requests run, and how many at once, as telemetry tells it (Lambda Managed Instances). Pure."""

from __future__ import annotations

from ..measure.segments import RESOLUTION_NS
from ..platform.telemetry_events import REPORT, START
from .pending_record import PendingRecord

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..platform.exact_mode import Invocation
    from ..platform.telemetry_events import Event

MS = 1_000_000

RUNNING = 4096
"""Requests that may run, or have ended and wait for a cut, as far as we know them. Those beyond are counted, and get no
record."""

EARLY = 64
"""Reports that came before their start, in an earlier delivery: at most this number is kept."""

LONGEST_NS = 1_000_000 * MS
"""A request takes 900 s at most (developer guide, "Lambda quotas"): the report of an older one is lost."""


class Request:
    """One request's record, and what is kept of it until it is printed. Times are epoch ns, as telemetry gives them."""

    __slots__ = ("end_ns", "environment_kills", "kills", "passage", "record", "resolution_ns", "start_ns", "waited")

    def __init__(self, record: PendingRecord, start_ns: int) -> None:
        self.record = record
        self.start_ns = start_ns
        self.end_ns = start_ns
        self.resolution_ns = RESOLUTION_NS
        """How well the two times are known."""
        self.passage: Passage | None = None
        """What has passed through the sidecar, in exact mode."""
        self.kills = 0
        """OOM kills of the function's processes while it ran,"""
        self.environment_kills = 0
        """and of all others."""
        self.waited = False
        """Its end was not yet seen when its report had come."""

    def take_exact_times(self) -> bool:
        """Take the times at which its event and the request after it have passed, if both have; False if not."""
        passage = self.passage
        if passage is None or not passage.end_ns or passage.invocation.unsure:
            return False
        self.start_ns, self.end_ns, self.resolution_ns = passage.start_ns, passage.end_ns, 0
        self.record.answered(passage.invocation)
        return True


class Passage:
    """When a request's event passed through the sidecar, and the request for the next one. Epoch ns."""

    __slots__ = ("end_ns", "invocation", "start_ns")

    def __init__(self, invocation: Invocation, start_ns: int) -> None:
        self.invocation = invocation
        self.start_ns = start_ns
        self.end_ns = 0


class Requests:
    """Of one environment."""

    def __init__(self) -> None:
        self._running: dict[str, Request] = {}
        self._ended: list[Request] = []
        self._early: dict[str, Event] = {}
        """Reports whose start has not come, oldest first."""
        self._passages: dict[str, Passage] = {}
        """By request id: those whose request is not printed."""
        self._count = 0
        self.lost = 0
        """Events about requests that are not known here, and requests beyond RUNNING."""

    def any(self) -> bool:
        """Is there any whose record is not yet taken?"""
        return bool(self._running or self._ended)

    def running(self) -> int:
        """Requests whose report has not come."""
        return len(self._running)

    def hear(self, events: list[Event], now_ns: int) -> None:
        """What the platform says. Within a delivery the order is not certain (Telemetry API, developer guide)."""
        unknown = {START: 0}
        for event in sorted(events, key=lambda event: event.time_ns or unknown.get(event.kind, now_ns)):
            if event.kind == START:
                self._start(event, now_ns)
            elif event.kind == REPORT:
                self._report(event, now_ns)

    def began(self, invocation: Invocation, now_ns: int) -> None:
        """Its event has been handed on to the runtime."""
        self._passages[invocation.request_id] = Passage(invocation, now_ns)
        if len(self._passages) > RUNNING:
            del self._passages[next(iter(self._passages))]

    def ended_at(self, invocation: Invocation, now_ns: int) -> None:
        """Its worker has asked for another event."""
        passage = self._passages.get(invocation.request_id)
        if passage is not None:
            passage.end_ns = now_ns

    def ended(self, until_ns: int) -> list[Request]:
        """Take those whose report has come and that ended up to this time, or have been here before: the clock may have
        been set back."""
        due = [request for request in self._ended if request.end_ns <= until_ns or request.waited]
        self._ended = [request for request in self._ended if request.end_ns > until_ns and not request.waited]
        for request in self._ended:
            request.waited = True
        for request in due:
            self._passages.pop(request.record.request_id, None)
        return due

    def overdue(self, now_ns: int) -> list[Request]:
        """Take those whose report will not come any more."""
        overdue = [request for request in self._running.values() if request.start_ns < now_ns - LONGEST_NS]
        for request in overdue:
            request.end_ns = request.start_ns + LONGEST_NS
            del self._running[request.record.request_id]
        return overdue

    def killed(self, count: int, of_function: bool = True) -> None:
        """The kernel has killed `count` processes. Where they were the function's, whose request it was shows in how
        that ends."""
        for request in [*self._running.values(), *self._ended]:
            if of_function:
                request.kills += count
            else:
                request.environment_kills += count

    def rest(self, now_ns: int) -> list[Request]:
        """Take everything: the environment ends."""
        self.lost += len(self._early)
        self._early.clear()
        for request in self._running.values():
            request.end_ns = max(now_ns, request.start_ns)
        rest = self._ended + list(self._running.values())
        self._ended = []
        self._running.clear()
        return rest

    def _start(self, event: Event, now_ns: int) -> None:
        request_id = event.request_id
        if request_id is None or request_id in self._running or len(self._running) + len(self._ended) >= RUNNING:
            self.lost += 1
            return
        self._count += 1
        # Of one that does not say when, the peak is not bounded: it may have begun at any time.
        start_ns = event.time_ns if event.time_ns is not None else 0
        record = PendingRecord(request_id, self._count, (start_ns or now_ns) // MS)
        record.follows_init(cold_start=self._count == 1, suppressed=False)
        record.reported(event)
        self._running[request_id] = Request(record, start_ns)
        at_once = len(self._running)
        for request in self._running.values():
            request.record.shared(at_once)
        early = self._early.pop(request_id, None)
        if early is not None:
            self._report(early, now_ns)

    def _report(self, event: Event, now_ns: int) -> None:
        request_id = event.request_id
        request = self._running.pop(request_id or "", None)
        if request is None:
            self._keep(request_id, event)
            return
        request.end_ns = max(event.time_ns or now_ns, request.start_ns)
        request.passage = self._passages.get(request_id or "")
        request.record.reported(event)
        self._ended.append(request)

    def _keep(self, request_id: str | None, event: Event) -> None:
        """Its start may be in the next delivery."""
        if request_id is None or request_id in self._early:
            self.lost += 1
            return
        self._early[request_id] = event
        if len(self._early) > EARLY:
            del self._early[next(iter(self._early))]
            self.lost += 1
