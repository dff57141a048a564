"""The loop of both lifecycles: waits, hands on the runtime's bytes, and performs what the machine says (machine.py)."""

from __future__ import annotations

from ..platform import telemetry_events
from ..platform.extensions_api import ApiError
from ..platform.poller import Poller
from ..platform.telemetry_inbox import TelemetryInbox
from ..support.clock import RunningClock
from ..support.log import log, reason
from .machine import (
    ASK_NEXT,
    INVOKE,
    INVOKE_LATER,
    NO_EVENT,
    OVER,
    RECEIVE,
    SEND_RECORDS,
    SHUTDOWN,
    SHUTTING_DOWN,
    TAKE_DELIVERIES,
    TIME_OVER,
    Machine,
    Pending,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, Protocol

    from ..support.clock import Clock
    from .parts import Parts

    class Performer(Protocol):
        """Does what the machine says."""

        @property
        def actions(self) -> Mapping[str, Callable[[], object]]:
            """All actions of the role's table but those of the loop."""

        def look(self, pending: Pending) -> None:
            """Fill in what could be done now. Called twice in each turn."""

        def journal_invoke(self, body: bytes) -> None:
            """An event has come whole: before it is taken out of the socket."""

        def take(self, event: Event) -> bool:
            """The event that was received; False if the window that it ends was not read at its arrival."""


MS = 1_000_000

PAUSE_NS = 10 * MS
"""Asking for the next event has failed by a fault of our own: it may fail again at once."""


class Event:
    """INVOKE or SHUTDOWN, as it was received."""

    def __init__(self, body: bytes, arrived_ns: int | None, clock: Clock) -> None:
        self.body = body
        self.invoke = b'"INVOKE"' in body
        self.arrived_ns = arrived_ns
        """When it arrived, as the kernel says: epoch ns; None if it does not say."""
        self.now_ns = clock.monotonic_ns()
        self.time_ms = clock.epoch_ns() // MS


class Loop:
    """Waits and performs until the machine is OVER."""

    def __init__(self, role: str, performer: Performer, parts: Parts, lose: Callable[..., None]) -> None:
        """`role` is one of the machine's. `lose` counts what was lost: one thing, or as many as it is told."""
        self._performer = performer
        self._lose = lose
        self._api = parts.api
        self._clock = parts.clock
        self._proxy = parts.proxy
        self.inbox = TelemetryInbox(parts.telemetry_server, lose)
        self.running_clock = RunningClock(parts.clock)
        self._outputs = outputs = parts.outputs
        about = parts.api, parts.telemetry_server, self.running_clock, parts.proxy, parts.poll
        self._poller = Poller(*about, outputs.interests if outputs is not None else None)
        if outputs is not None:
            outputs.running_clock = self.running_clock
        self.now_ns = parts.clock.monotonic_ns()
        """When the last wait ended."""
        self.machine = Machine(role, self.now_ns)
        self.pending = Pending()
        self.cpu_at_wake = 0
        """CPU time before the last wait: waking up is part of what comes after it."""
        self.cpu_after_tick = 0
        """CPU time at the end of the last tick, if nothing was done since; else 0. What comes after it belongs to the
        next tick."""
        self._ready: list[int] = []
        self._own = {
            ASK_NEXT: self._ask_next,
            TAKE_DELIVERIES: self._take_deliveries,
            SEND_RECORDS: self._send_records,
        }

    def run(self) -> None:
        """Serve until all is over. Raises OSError if the kernel cannot wait any more."""
        if not self._api.waiting:
            self.did(self._ask_next)
        while self.machine.state != OVER:
            self.turn()

    def turn(self) -> None:
        """Wait, hand on the runtime's bytes, and do one thing."""
        clock, machine, pending = self._clock, self.machine, self.pending
        self.cpu_at_wake, self.cpu_after_tick = self.cpu_after_tick or clock.cpu_ns(), 0
        self._look()
        try:
            self._ready = self._poller.wait(machine.wait_ns(clock.monotonic_ns(), pending))
        except OSError:
            if machine.state != SHUTTING_DOWN:
                raise
            self._perform(machine.step(TIME_OVER))  # there is no waiting for the last report
            return
        passed = self._hand_on()
        self.now_ns = now_ns = clock.monotonic_ns()
        self._look()
        pending.event_ready = pending.asked and (self._api.fileno() in self._ready or now_ns >= pending.overdue_at_ns)
        machine.woke(now_ns, passed, pending.asking)
        self._perform(machine.step(machine.next(now_ns, pending)))

    def _look(self) -> None:
        pending = self.pending
        pending.asked = self._api.waiting
        pending.overdue_at_ns = self._api.overdue_at * 1e9
        pending.deliveries = bool(self.inbox)
        if self._outputs is not None:
            pending.output_at_ns = self._outputs.due_ns(self.now_ns)  # the time that `next` decides by
            pending.output_ready = any(descriptor in self._ready for descriptor in self._outputs.interests())
        self._performer.look(pending)

    def _hand_on(self) -> bool:
        """Hand on the runtime's bytes; True if there were any."""
        passed = False
        if self._proxy is not None:
            for descriptor in self._ready:
                passed |= self._proxy.serve(descriptor)
        return passed

    def _perform(self, actions: tuple[str, ...]) -> None:
        for action in actions:
            if action == RECEIVE:
                self._perform(self.machine.step(self._receive()))
            else:
                self.did(self._own.get(action) or self._performer.actions[action])

    def did(self, what: Callable[[], object]) -> None:
        """Do it. If it fails, that is counted, and the loop goes on."""
        try:
            what()
        except Exception as error:
            self._lose()
            log("error", reason(error))

    def members(self, event: Event) -> dict[str, Any]:
        """Of an event's JSON object: none, which is counted, where it is not understood. It has come all the same."""
        members = telemetry_events.members(event.body)
        if members is None:
            self._lose()
        return members or {}

    def shutdown(self, event: Event) -> tuple[str, float]:
        """The reason of a SHUTDOWN, and half the time that is left until its deadline, in ns."""
        members = self.members(event)
        remaining_ms = telemetry_events.remaining_ms(members, self._clock.epoch_ns() // MS)
        return str(members.get("shutdownReason", "")).lower(), max(0.0, remaining_ms) / 2 * MS

    def _ask_next(self) -> None:
        """Ask for the next event. If that fails, it is due again: at once, then ever more slowly."""
        now_ns = self._clock.monotonic_ns()
        self.pending.ask_at_ns = now_ns + PAUSE_NS  # should this fail by a fault of our own: not at once again
        try:
            self._api.send_next()
        except ApiError as error:
            log("warn", reason(error))
            self._ask_later()

    def _ask_later(self) -> None:
        self.pending.ask_at_ns = self._clock.monotonic_ns() + round(self._api.pause_s * 1000) * MS

    def _receive(self) -> str:
        """The event, if it is whole: which happening is it? Not guarded: a socket that cannot be read would stay ready,
        and keep the loop busy."""
        try:
            body = self._api.receive_event(self._performer.journal_invoke)
        except ApiError as error:
            self._lose()
            log("warn", reason(error))
            self._ask_later()
            return NO_EVENT
        if not body:
            return NO_EVENT
        event = Event(body, self._api.arrived_ns, self._clock)
        measured = self._performer.take(event)
        if not event.invoke:
            return SHUTDOWN
        return INVOKE if measured else INVOKE_LATER

    def _send_records(self) -> None:
        if self._outputs is not None:
            self._outputs.step()

    def _take_deliveries(self) -> None:
        self.inbox.take(self._ready)
