"""The lifecycle of one execution environment as a state machine. Pure: no clock, no socket, no file in here.

Theory of operation
===================

There is one thread and one loop (loop.py). A turn of the loop waits (`wait_ns`), hands on the bytes of the runtime
(`woke`), and asks this machine for one happening, the most urgent one (`next`), and its actions (`step`). It performs
them in their order. One that fails is counted, and the next one is performed. RECEIVE is the only action that has a
result: it is the next happening (INVOKE, INVOKE_LATER, SHUTDOWN, NO_EVENT). `Pending` says what could be done.

The order of happenings
-----------------------

1. EVENT_READY: INVOKE or SHUTDOWN has arrived, it is not known which. Both end the window that is open. In the default
   mode the runtime may run already, so the first act is to read and reset the watermarks. Then the event is received,
   and the next one asked for: Lambda takes the invocation for finished only when we have asked.
2. NEXT_DUE: the next event has not been asked for, because that failed. The function would wait for us.
3. LOOK: an event was handed on to a runtime with several threads. The thread that has asked for it ends, mostly, before
   the handler runs: a look between the two tells what each of them can have held.
4. INVOKE_DUE, MOMENT, TICK, DELIVERY, LINE, OUTPUT, in this order. What is done for an event (open its record) and for
   a moment of exact mode (close the windows that were measured) comes before a tick, so that what the tick reads
   belongs to the window that is open.
5. IDLE: receive telemetry. Last, so that a flood of deliveries does not pile up in our memory.

Exact mode: when there is time
------------------------------

In exact mode the runtime's bytes pass through this process: other work would hold them up. After an event a short
invocation's response may come at once, and after that the request for the next event. So all but EVENT_READY and LOOK
waits:

- until no bytes have passed for CALM_NS,
- or for PASSING_NS, while bytes keep passing,
- or until the responses of all invocations have passed. Others wait for the response alone, and now it is out.

One turn does one thing, and then bytes are handed on again.

Between invocations the environment is frozen. After a freeze an event is on its way to the runtime, and will pass here.
A freeze shows: the loop wakes up more than AWAY_NS later than planned, while the runtime waits for an event. This
counts as bytes that have just passed, so the event comes first.

An INVOKE that arrives in exact mode is received, the next event is asked for, and no more: INVOKE_LATER. Its record is
opened when there is time (INVOKE_DUE), or at the next event at the latest.

States
------

    INITIALISING   before the first INVOKE
    WAITING        all that has come is worked out
    HANDLING       an INVOKE was received in exact mode, and its record is not yet opened
    SHUTTING_DOWN  SHUTDOWN has come. Only telemetry is worked on, until the last report or the end of the time for it
    OVER           all lines are printed

Two roles share the machine. On demand there is INVOKE, and a window is one invocation. On Managed Instances there is no
INVOKE: each tick ends a segment, and telemetry tells which requests overlap it.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

MS = 1_000_000

CALM_NS = 2 * MS
"""Exact mode: other work waits until no bytes have passed for this time."""
PASSING_NS = 5 * MS
"""Exact mode: longest time that other work waits while bytes keep passing."""
AWAY_NS = 5 * MS
"""The environment was frozen if the loop wakes up this much too late."""

# Roles
ON_DEMAND = "on demand"
MANAGED = "managed instances"

# States
INITIALISING = "initialising"
WAITING = "waiting"
HANDLING = "handling"
SHUTTING_DOWN = "shutting down"
OVER = "over"

# Happenings
EVENT_READY = "event ready"  # the answer to `next` can be read, or its rest does not come
NO_EVENT = "no event"  # it was not whole, or the API failed
INVOKE = "invoke"  # received, and the readings are there
INVOKE_LATER = "invoke later"  # received; exact mode takes the readings, so its record can wait
SHUTDOWN = "shutdown"
HOLD = "hold"  # the runtime's bytes come first
LOOK = "look"  # exact mode: at the threads of a runtime that has just got its event
NEXT_DUE = "next due"  # the next event is to be asked for again
INVOKE_DUE = "invoke due"  # there is time to open the record of INVOKE_LATER
MOMENT = "moment"  # of exact mode: windows were measured while bytes passed
TICK = "tick"
DELIVERY = "delivery"  # of telemetry: received, and not yet read
LINE = "line"  # a record may be complete
OUTPUT = "output"  # records are to be sent somewhere, or an answer is there
IDLE = "idle"
TIME_OVER = "time over"  # the last report has come, or will not come in time

# Actions
ASK_NEXT = "ask next"
RECEIVE = "receive"
TAKE_DELIVERIES = "take deliveries"
READ_AND_RESET = "read and reset"
ADD_READINGS = "add readings"  # no event came: they are a sample of the open window
READ_REASON = "read reason"  # of SHUTDOWN, and how much time is left
LOOK_AT_THREADS = "look at threads"
CLOSE_MOMENTS = "close moments"
CLOSE_WINDOW = "close window"
CLOSE_RECORD = "close record"  # of the invocation before, if it is open
OPEN_RECORD = "open record"
PLAN_TICK = "plan tick"
SAMPLE_IN_INIT = "sample in init"
SAMPLE = "sample"
JOIN_TELEMETRY = "join telemetry"
PRINT_LINE = "print line"
SEND_RECORDS = "send records"  # what can be sent without waiting
HURRY = "hurry"  # send what is there, and wait a moment for the answer: a collector may end sooner than we
SEND_LAST = "send last"
END_INIT = "end init"
END_SEGMENT = "end segment"
PRINT_ENDED = "print ended"
END_REQUESTS = "end requests"
FLUSH_ALL = "flush all"
LEAVE_JOURNAL = "leave journal"

_OPEN = CLOSE_MOMENTS, CLOSE_WINDOW, CLOSE_RECORD, OPEN_RECORD, PLAN_TICK

_Table = dict[tuple[str, str], tuple[tuple[str, ...], str]]


def _serving(state: str, tick: str, end: str) -> _Table:
    """The rows of `state`, which are the same before the first INVOKE and after it, but for `tick` and `end` (which
    closes what is open at SHUTDOWN)."""
    return {
        (state, EVENT_READY): ((READ_AND_RESET, RECEIVE), state),
        (state, NO_EVENT): ((ADD_READINGS,), state),
        (state, INVOKE): ((ASK_NEXT, *_OPEN), WAITING),
        (state, INVOKE_LATER): ((ASK_NEXT,), HANDLING),
        (state, SHUTDOWN): ((READ_REASON, CLOSE_MOMENTS, CLOSE_WINDOW, end, HURRY), SHUTTING_DOWN),
        (state, HOLD): ((), state),
        (state, LOOK): ((LOOK_AT_THREADS,), state),
        (state, NEXT_DUE): ((ASK_NEXT,), state),
        (state, MOMENT): ((CLOSE_MOMENTS,), state),
        (state, TICK): ((tick,), state),
        (state, DELIVERY): ((JOIN_TELEMETRY,), state),
        (state, LINE): ((PRINT_LINE,), state),
        (state, OUTPUT): ((SEND_RECORDS,), state),
        (state, IDLE): ((TAKE_DELIVERIES,), state),
    }


_ON_DEMAND: _Table = {
    **_serving(INITIALISING, SAMPLE_IN_INIT, END_INIT),
    **_serving(WAITING, SAMPLE, CLOSE_RECORD),
    # Exact mode: the record of an INVOKE is still to be opened
    (HANDLING, EVENT_READY): ((*_OPEN, READ_AND_RESET, RECEIVE), WAITING),
    (HANDLING, HOLD): ((), HANDLING),
    (HANDLING, LOOK): ((LOOK_AT_THREADS,), HANDLING),
    (HANDLING, NEXT_DUE): ((ASK_NEXT,), HANDLING),
    (HANDLING, INVOKE_DUE): (_OPEN, WAITING),
    # The last reports
    (SHUTTING_DOWN, DELIVERY): ((JOIN_TELEMETRY,), SHUTTING_DOWN),
    (SHUTTING_DOWN, IDLE): ((TAKE_DELIVERIES,), SHUTTING_DOWN),
    (SHUTTING_DOWN, TIME_OVER): ((FLUSH_ALL, LEAVE_JOURNAL, SEND_LAST), OVER),
}

_MANAGED: _Table = {
    (WAITING, EVENT_READY): ((RECEIVE,), WAITING),
    (WAITING, NO_EVENT): ((), WAITING),
    (WAITING, INVOKE): ((ASK_NEXT,), WAITING),  # not registered for
    (WAITING, INVOKE_LATER): ((ASK_NEXT,), WAITING),
    (WAITING, SHUTDOWN): ((READ_REASON, CLOSE_MOMENTS, END_SEGMENT, HURRY), SHUTTING_DOWN),
    (WAITING, NEXT_DUE): ((ASK_NEXT,), WAITING),
    # Many requests at once: moments come all the time, and noting them is cheap
    (WAITING, TICK): ((CLOSE_MOMENTS, END_SEGMENT, PRINT_ENDED), WAITING),
    (WAITING, DELIVERY): ((CLOSE_MOMENTS, JOIN_TELEMETRY), WAITING),
    (WAITING, OUTPUT): ((CLOSE_MOMENTS, SEND_RECORDS), WAITING),
    (WAITING, IDLE): ((CLOSE_MOMENTS, TAKE_DELIVERIES), WAITING),
    # The last reports
    (SHUTTING_DOWN, DELIVERY): ((CLOSE_MOMENTS, JOIN_TELEMETRY), SHUTTING_DOWN),
    (SHUTTING_DOWN, IDLE): ((TAKE_DELIVERIES,), SHUTTING_DOWN),
    (SHUTTING_DOWN, TIME_OVER): ((END_SEGMENT, END_REQUESTS, FLUSH_ALL, SEND_LAST), OVER),
}

TRANSITIONS = {ON_DEMAND: _ON_DEMAND, MANAGED: _MANAGED}
"""By role: for each state and happening the actions, and the state after them."""

FIRST_STATE: Mapping[str, str] = {ON_DEMAND: INITIALISING, MANAGED: WAITING}


NEVER_NS = (1 << 62) - 1
"""Later than any time of a clock in ns."""


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
        """True if, after SHUTDOWN, telemetry may still come that a record waits for."""
        self.last_report_until_ns = 0


class Machine:
    """The state of one environment, and what follows from it. Times are monotonic ns."""

    def __init__(self, role: str, now_ns: int) -> None:
        self.state = FIRST_STATE[role]
        self._table = TRANSITIONS[role]
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
        if self.state == SHUTTING_DOWN:
            return pending.last_report_until_ns if pending.report_missing and not pending.deliveries else now_ns
        wake_at_ns = pending.tick_at_ns
        wake_at_ns = min(wake_at_ns, pending.output_at_ns)
        if not pending.asked and pending.ask_at_ns < wake_at_ns:
            wake_at_ns = pending.ask_at_ns
        if pending.deliveries or pending.printable or pending.moments or pending.held or self.state == HANDLING:
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
        if self.state == SHUTTING_DOWN:
            if pending.deliveries:
                return DELIVERY
            return IDLE if pending.report_missing and now_ns < pending.last_report_until_ns else TIME_OVER
        if pending.event_ready:
            return EVENT_READY
        if now_ns >= pending.look_at_ns:
            return LOOK
        if pending.bytes_first and now_ns < self._calm_at_ns():
            return HOLD
        self._passing_ns = now_ns
        return self._work(now_ns, pending)

    def _work(self, now_ns: int, pending: Pending) -> str:
        if not pending.asked and now_ns >= pending.ask_at_ns:
            return NEXT_DUE
        if self.state == HANDLING:
            return INVOKE_DUE
        if pending.moments:
            return MOMENT
        if now_ns >= pending.tick_at_ns:
            return TICK
        if pending.deliveries:
            return DELIVERY
        if pending.printable:
            return LINE
        return OUTPUT if pending.output_ready or now_ns >= pending.output_at_ns else IDLE

    def react(self, now_ns: int, bytes_passed: bool, pending: Pending) -> tuple[str, ...]:
        """The wait is over: `woke`, `next` and `step` in one."""
        self.woke(now_ns, bytes_passed, pending.asking)
        return self.step(self.next(now_ns, pending))

    def step(self, happening: str) -> tuple[str, ...]:
        """The actions for it, in their order. The machine is in the next state then."""
        actions, self.state = self._table[self.state, happening]
        return actions
