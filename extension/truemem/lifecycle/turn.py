"""What the loop does next: the machine of machine.py, at its state and its time. Pure."""

from __future__ import annotations

from ..measure.window import NEVER_NS
from . import machine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

MS: Final = 1_000_000

CALM_NS: Final = 2 * MS
"""Exact mode: other work waits until no bytes have passed for this time."""
PASSING_NS: Final = 5 * MS
"""Exact mode: longest time that other work waits while bytes keep passing."""
AWAY_NS: Final = 5 * MS
"""The environment was frozen if the loop wakes up this much too late."""


class Pending:
    """What could be done now. The loop and the performer of its actions fill it in before each decision."""

    def __init__(self) -> None:
        self.event_ready = False
        self.overdue_at_ns = NEVER_NS
        """When to give up an answer that has begun, monotonic ns."""
        self.asked = False
        """A request for the next event is on its way."""
        self.ask_at_ns = 0
        """When to ask for the next event, if that is not done."""
        self.look_at_ns = NEVER_NS
        """When to look at the threads of a runtime that has just got its event."""
        self.bytes_first = False
        """Exact mode, and not all responses have passed: other work waits for a pause."""
        self.asking = False
        """The runtime waits for an event, in exact mode."""
        self.moments = False
        """Windows were measured while bytes passed, and are to be closed."""
        self.held: list[int] = []
        """Descriptors where telemetry, or an answer to what was sent, is ready and waits for such a pause."""
        self.tick_at_ns = 0
        self.deliveries = False
        self.printable = False
        self.output_ready = False
        self.output_at_ns = NEVER_NS
        """When records are to be sent in any case."""
        self.report_missing = False
        """True if, after machine.SHUTDOWN, telemetry may still come that a record waits for."""
        self.last_report_until_ns = 0


class Machine:
    """The state of one environment, and what follows from it. Times are monotonic ns."""

    def __init__(self, role: str, now_ns: int) -> None:
        self.state = machine.FIRST_STATE[role]
        self._table = machine.TRANSITIONS[role]
        self.has_held_work = False
        """Is there work that waits for a pause of the runtime's bytes? It comes before telemetry, which can wait."""
        self._woke_ns = now_ns
        self._planned_ns = 0
        self._passed_ns = self._passing_ns = now_ns - CALM_NS
        """When the last of the runtime's bytes passed, and the first of those that came without a pause."""

    def wait_ns(self, now_ns: int, pending: Pending) -> int:
        """How long the loop may wait for sockets, in ns: 0 where there is something to do at once."""
        self._planned_ns = max(0, self._wake_at_ns(now_ns, pending) - now_ns)
        return self._planned_ns

    def _wake_at_ns(self, now_ns: int, pending: Pending) -> int:
        self.has_held_work = False
        if self.state == machine.SHUTTING_DOWN:
            return pending.last_report_until_ns if pending.report_missing and not pending.deliveries else now_ns
        wake_at_ns = pending.tick_at_ns
        wake_at_ns = min(wake_at_ns, pending.output_at_ns)
        if not pending.asked and pending.ask_at_ns < wake_at_ns:
            wake_at_ns = pending.ask_at_ns
        if pending.deliveries or pending.printable or pending.moments or pending.held or self.state == machine.HANDLING:
            wake_at_ns = now_ns
        if pending.bytes_first:
            wake_at_ns, has_work = max(wake_at_ns, self._calm_at_ns()), wake_at_ns <= now_ns
            self.has_held_work = has_work and wake_at_ns > now_ns
        wake_at_ns = min(wake_at_ns, pending.look_at_ns)
        return min(pending.overdue_at_ns, wake_at_ns)

    def _calm_at_ns(self) -> int:
        return min(self._passed_ns + CALM_NS, self._passing_ns + PASSING_NS)

    def woke(self, now_ns: int, bytes_passed: bool, asking: bool) -> None:
        """The wait is over. `bytes_passed`: some of the runtime's were handed on; `asking`: it waits for an event."""
        was_frozen = now_ns - self._woke_ns > self._planned_ns + AWAY_NS
        if bytes_passed or (was_frozen and asking):
            if now_ns - self._passed_ns >= CALM_NS:
                self._passing_ns = now_ns
            self._passed_ns = now_ns
        self._woke_ns = now_ns

    def next(self, now_ns: int, pending: Pending) -> str:
        if self.state == machine.SHUTTING_DOWN:
            if pending.deliveries:
                return machine.DELIVERY
            is_waiting = pending.report_missing and now_ns < pending.last_report_until_ns
            return machine.IDLE if is_waiting else machine.TIME_OVER
        if pending.event_ready:
            return machine.EVENT_READY
        if now_ns >= pending.look_at_ns:
            return machine.LOOK
        if pending.bytes_first and now_ns < self._calm_at_ns():
            return machine.HOLD
        self._passing_ns = now_ns
        return self._work(now_ns, pending)

    def _work(self, now_ns: int, pending: Pending) -> str:
        if not pending.asked and now_ns >= pending.ask_at_ns:
            return machine.NEXT_DUE
        if self.state == machine.HANDLING:
            return machine.INVOKE_DUE
        if pending.moments:
            return machine.MOMENT
        if now_ns >= pending.tick_at_ns:
            return machine.TICK
        if pending.deliveries:
            return machine.DELIVERY
        if pending.printable:
            return machine.LINE
        return machine.OUTPUT if pending.output_ready or now_ns >= pending.output_at_ns else machine.IDLE

    def react(self, now_ns: int, bytes_passed: bool, pending: Pending) -> tuple[str, ...]:
        """The wait is over: `woke`, `next` and `step` in one."""
        self.woke(now_ns, bytes_passed, pending.asking)
        return self.step(self.next(now_ns, pending))

    def step(self, happening: str) -> tuple[str, ...]:
        """The actions for it, in their order. The machine is in the next state then."""
        actions, self.state = self._table[self.state, happening]
        return actions
