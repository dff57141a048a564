"""The lifecycle of one execution environment as a state machine: its table. turn.py says which event comes next.

Data alone: it is not compiled, as C that builds it takes 70 kB.

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
    from typing import Final

# Roles
ON_DEMAND: Final = "on demand"
MANAGED: Final = "managed instances"

# States
INITIALISING: Final = "initialising"
WAITING: Final = "waiting"
HANDLING: Final = "handling"
SHUTTING_DOWN: Final = "shutting down"
OVER: Final = "over"

# Happenings
EVENT_READY: Final = "event ready"  # the answer to `next` can be read, or its rest does not come
NO_EVENT: Final = "no event"  # it was not whole, or the API failed
INVOKE: Final = "invoke"  # received, and the readings are there
INVOKE_LATER: Final = "invoke later"  # received; exact mode takes the readings, so its record can wait
SHUTDOWN: Final = "shutdown"
HOLD: Final = "hold"  # the runtime's bytes come first
LOOK: Final = "look"  # exact mode: at the threads of a runtime that has just got its event
NEXT_DUE: Final = "next due"  # the next event is to be asked for again
INVOKE_DUE: Final = "invoke due"  # there is time to open the record of INVOKE_LATER
MOMENT: Final = "moment"  # of exact mode: windows were measured while bytes passed
TICK: Final = "tick"
DELIVERY: Final = "delivery"  # of telemetry: received, and not yet read
LINE: Final = "line"  # a record may be complete
OUTPUT: Final = "output"  # records are to be sent somewhere, or an answer is there
IDLE: Final = "idle"
TIME_OVER: Final = "time over"  # the last report has come, or will not come in time

# Actions
ASK_NEXT: Final = "ask next"
RECEIVE: Final = "receive"
TAKE_DELIVERIES: Final = "take deliveries"
READ_AND_RESET: Final = "read and reset"
ADD_READINGS: Final = "add readings"  # no event came: they are a sample of the open window
READ_REASON: Final = "read reason"  # of SHUTDOWN, and how much time is left
LOOK_AT_THREADS: Final = "look at threads"
CLOSE_MOMENTS: Final = "close moments"
CLOSE_WINDOW: Final = "close window"
CLOSE_RECORD: Final = "close record"  # of the invocation before, if it is open
OPEN_RECORD: Final = "open record"
PLAN_TICK: Final = "plan tick"
SAMPLE_IN_INIT: Final = "sample in init"
SAMPLE: Final = "sample"
JOIN_TELEMETRY: Final = "join telemetry"
PRINT_LINE: Final = "print line"
SEND_RECORDS: Final = "send records"  # what can be sent without waiting
HURRY: Final = "hurry"  # send what is there, and wait a moment for the answer: a collector may end sooner than we
SEND_LAST: Final = "send last"
END_INIT: Final = "end init"
END_SEGMENT: Final = "end segment"
PRINT_ENDED: Final = "print ended"
END_REQUESTS: Final = "end requests"
FLUSH_ALL: Final = "flush all"
LEAVE_JOURNAL: Final = "leave journal"

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
