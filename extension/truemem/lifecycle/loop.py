"""The loop of both lifecycles: waits, hands on the runtime's bytes, and performs what the machine says (machine.py)."""

from __future__ import annotations

import select

from ..measure.window import NEVER_NS
from ..platform import telemetry
from ..platform.exact_mode import ExactMode
from ..platform.extensions_api import FOREVER, ApiError
from ..platform.telemetry import TelemetryInbox
from ..support.log import log, reason
from ..support.named_tuple import NamedTuple
from ..wings import Wings
from . import machine
from .event import ReceivedEvent
from .turn import Machine, Pending

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Final

    from ..config import Config
    from ..linux.cgroup import OomKills
    from ..linux.process_table import ProcessTable
    from ..measure.environment_memory import EnvironmentMemory
    from ..measure.recorder import Recorder
    from ..platform.extensions_api import ExtensionsClient
    from ..platform.proxy import RuntimeProxy
    from ..platform.telemetry import TelemetryServer
    from ..support.clock import Clock
    from .performer import Performer


class LoopParts(NamedTuple):
    api: ExtensionsClient
    telemetry_server: TelemetryServer | None
    """Server of telemetry; None where telemetry is not subscribed to."""
    unsubscribed: str
    """Why telemetry is not subscribed to."""
    config: Config
    table: ProcessTable
    recorder: Recorder
    environment_memory: EnvironmentMemory
    kills: OomKills
    proxy: RuntimeProxy | None
    """Serves the runtime in exact mode; None where it cannot."""
    clock: Clock
    poll: select.poll | None = None
    """What waits for sockets: None for the system's."""
    wings: Wings = Wings()

    @property
    def exact(self) -> ExactMode:
        """What passes between the runtime and its API: never anything without a proxy."""
        return self.proxy.exact if self.proxy is not None else ExactMode()

    def lost(self) -> int:
        """What could not be read, by any of them."""
        refused = self.telemetry_server.refused if self.telemetry_server is not None else 0
        return self.exact.failures + refused + self.table.errors + self.recorder.reader.lost + self.wings.lost

    def hurry(self, limit_ns: float, last: bool = False, reset: bool = False) -> None:
        """The environment ends: send what is to be sent, for so long at most (Sender.hurry)."""
        if self.wings.sender is not None:
            self.wings.sender.hurry(limit_ns, last, reset)

    def know_runtime(self) -> None:
        """Find out which process is the runtime; needed at the first events only."""
        if self.table.is_settled():
            return
        self.table.scan()
        if self.proxy is None or not self.proxy.show_runtime(self.table):
            self.table.adopt_elsewhere()


MS = 1_000_000

PAUSE_NS = 10 * MS
"""Asking for the next event has failed by a fault of our own: it may fail again at once."""

LONGEST_MS = 1 << 30
"""What poll(2) takes, in whole numbers: a clock may have jumped."""

FAILURES = 10
"""A wait may fail once because the kernel has no memory (poll(2): ENOMEM)."""


BUSY_MS = 50.0
"""Longest time between two waits. What is done there takes some ms; a freeze that falls into it may last hours."""


READABLE: Final[int] = select.POLLIN


class RunningClock:
    """Time that the environment has run, without its freezes. A wait that takes longer than its timeout shows one, and
    so does work that takes longer than BUSY_MS."""

    def __init__(self, clock: Clock) -> None:
        self._now_ns = clock.monotonic_ns
        self.running_ms = 0.0
        self._timeout_ms = 0
        self._asked = self._woke = self._now_ns()

    def before_wait(self, timeout_ms: int) -> None:
        self._timeout_ms = timeout_ms
        self._asked = self._now_ns()

    def after_wait(self) -> None:
        busy_ms = (self._asked - self._woke) / 1e6
        self._woke = self._now_ns()
        waited_ms = min((self._woke - self._asked) / 1e6, self._timeout_ms + 1)
        # After a restore from a snapshot, even this clock may have gone back (clock_gettime(2) does not know of those).
        self.running_ms += max(0.0, min(busy_ms, BUSY_MS)) + max(0.0, waited_ms)


class Poller:
    """Keeps the poll's descriptors in step with the connections."""

    def __init__(
        self,
        api: ExtensionsClient,
        listener: TelemetryServer | None,
        clock: RunningClock,
        proxy: RuntimeProxy | None = None,
        poll: select.poll | None = None,
        outputs: Callable[[], dict[int, int]] | None = None,
    ) -> None:
        """`poll` is what waits; None for the system's. `outputs`: more descriptors, and the events of each."""
        self._outputs = outputs
        self._api = api
        self._listener = listener
        self._clock = clock
        self._proxy = proxy
        self._poll = poll or select.poll()
        self._polled: dict[int, int] = {}
        self._failures = 0
        """Failures in a row."""

    def wait(self, timeout_ns: int, is_held: bool = False) -> list[int]:
        """The descriptors that are ready, none after `timeout_ns`. `is_held`: of those for which the runtime's bytes do
        not wait alone. Raises OSError if that fails FAILURES times in a row."""
        self._refresh(is_held)
        if self._proxy is not None and timeout_ns > self._proxy.patience_s * 1e9:
            timeout_ns = round(self._proxy.patience_s * 1e9)
        timeout_ms = min(-(-timeout_ns // MS), LONGEST_MS) if timeout_ns > 0 else 0
        self._clock.before_wait(timeout_ms)
        try:
            ready = [descriptor for descriptor, _ in self._poll.poll(timeout_ms)]
            self._failures = 0
            return ready
        except OSError:
            self._failures += 1
            if self._failures >= FAILURES:
                raise
            return []
        finally:
            self._clock.after_wait()

    def _refresh(self, is_held: bool) -> None:
        wanted = dict(self._proxy.interests()) if self._proxy is not None else {}
        if self._api.waiting:
            wanted[self._api.descriptor] = READABLE
        if self._listener is not None and not is_held:
            for descriptor in self._listener.descriptors():
                wanted[descriptor] = READABLE
        if self._outputs is not None and not is_held:
            wanted.update(self._outputs())
        if wanted == self._polled:
            return
        for descriptor in self._polled.keys() - wanted.keys():
            try:
                self._poll.unregister(descriptor)
            except KeyError:
                pass
        for descriptor, events in wanted.items():
            if self._polled.get(descriptor) != events:
                self._poll.register(descriptor, events)
        self._polled = wanted


class Loop:
    """Waits and performs until the machine is OVER."""

    def __init__(self, role: str, performer: Performer, parts: LoopParts, lose: Callable[..., None]) -> None:
        """`role` is one of the machine's. `lose` counts what was lost: one thing, or as many as it is told."""
        self._performer = performer
        self._lose = lose
        self._api = parts.api
        self._clock = parts.clock
        self._proxy = parts.proxy
        self.inbox = TelemetryInbox(parts.telemetry_server, lose)
        self.running_clock = RunningClock(parts.clock)
        self._sender = sender = parts.wings.sender
        more = sender.interests if sender is not None else None
        self._poller = Poller(
            parts.api, parts.telemetry_server, self.running_clock, parts.proxy, parts.poll, outputs=more
        )
        self.now_ns = parts.clock.monotonic_ns()
        self.machine = Machine(role, self.now_ns)
        self.pending = Pending()
        self.cpu_at_wake = 0
        """CPU time before the last wait: waking up is part of what comes after it."""
        self.cpu_after_tick = 0
        """CPU time at the end of the last tick, if nothing was done since; else 0. What comes after it belongs to the
        next tick."""
        self._ready: list[int] = []
        """Descriptors that are ready, but for the runtime's."""
        self._did_nothing = False
        """True if the last turn did nothing: what could be done is then the same still."""
        self._own: dict[str, Callable[[], object]] = {
            machine.ASK_NEXT: self._ask_next,
            machine.TAKE_DELIVERIES: lambda: self.inbox.take(self._ready),
        }
        if sender is not None:
            self._own[machine.SEND_RECORDS] = sender.step
            sender.running_ms = lambda: self.running_clock.running_ms

    def run(self) -> None:
        """Serve until all is over. Raises OSError if the kernel cannot wait any more."""
        if not self._api.waiting:
            self.did(self._ask_next)
        while self.machine.state != machine.OVER:
            self.turn()

    def turn(self) -> None:
        """Wait, hand on the runtime's bytes, and do one thing."""
        clock, pending = self._clock, self.pending
        if not self._did_nothing:
            self._look()
        now_ns = clock.monotonic_ns()
        timeout_ns = self.machine.wait_ns(now_ns, pending)
        may_tick = now_ns + max(timeout_ns, MS) >= pending.tick_at_ns
        if may_tick:
            self.cpu_at_wake = self.cpu_after_tick or clock.cpu_ns()
        self.cpu_after_tick = 0
        try:
            ready = self._poller.wait(timeout_ns, bool(pending.held) or self.machine.has_held_work)
        except OSError:
            if self.machine.state != machine.SHUTTING_DOWN:
                raise
            self._perform(self.machine.step(machine.TIME_OVER))  # there is no waiting for the last report
            return
        others = self._hand_on(ready)
        has_passed = len(others) < len(ready)
        self._ready = pending.held + others
        self.now_ns = now_ns = clock.monotonic_ns()
        if has_passed or self._sender is not None:  # else all is as it was before the wait
            self._look()
        if not may_tick and now_ns >= pending.tick_at_ns:  # it woke up late
            self.cpu_at_wake = clock.cpu_ns()
        pending.event_ready = pending.asked and (self._api.descriptor in self._ready or now_ns >= pending.overdue_at_ns)
        actions = self.machine.react(now_ns, has_passed, pending)
        self._did_nothing = not actions
        # What is ready stays so: to wait for it while the bytes come first would be a busy loop.
        pending.held = [] if actions else self._ready
        self._perform(actions)

    def _look(self) -> None:
        pending = self.pending
        pending.asked = self._api.waiting
        overdue_at = self._api.overdue_at
        pending.overdue_at_ns = int(overdue_at * 1e9) if overdue_at < FOREVER else NEVER_NS
        pending.deliveries = bool(self.inbox.bodies)
        if self._sender is not None:
            pending.output_at_ns = self._sender.due_ns(self.now_ns)  # the time that `next` decides by
            pending.output_ready = any(descriptor in self._ready for descriptor in self._sender.interests())
        self._performer.look(pending)

    def _hand_on(self, ready: list[int]) -> list[int]:
        """Hand on the runtime's bytes: the descriptors that are ready for something else."""
        return [each for each in ready if not self._proxy.serve(each)] if self._proxy is not None else ready

    def _perform(self, actions: tuple[str, ...]) -> None:
        for action in actions:
            if action == machine.RECEIVE:
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

    def members(self, event: ReceivedEvent, only_id: bool = False) -> dict[str, Any]:
        """The members of an event's JSON object, or its request id at least. Empty if it is not understood, which is
        counted: the event has come all the same."""
        members = telemetry.members(event.body, only_id)
        if members is None:
            self._lose()
        return members or {}

    def shutdown(self, event: ReceivedEvent) -> tuple[str, float]:
        """The reason of a SHUTDOWN, and half the time that is left until its deadline, in ns."""
        members = self.members(event)
        remaining_ms = telemetry.remaining_ms(members, self._clock.epoch_ns() // MS)
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
            return machine.NO_EVENT
        if not body:
            return machine.NO_EVENT
        event = ReceivedEvent(body, self._api.arrived_ns, self._clock)
        measured = self._performer.take(event)
        if not event.invoke:
            return machine.SHUTDOWN
        return machine.INVOKE if measured else machine.INVOKE_LATER
