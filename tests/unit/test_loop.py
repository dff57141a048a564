"""The loop and its machine in a simulated environment: time, sockets and platform are ours, and anything may fail."""

import errno
import itertools
import json
import os
import select
import socket
from collections import deque
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from truemem.lifecycle import machine as m
from truemem.lifecycle.event import ReceivedEvent
from truemem.lifecycle.loop import BUSY_MS, FAILURES, Loop, LoopParts, Poller, RunningClock
from truemem.lifecycle.turn import CALM_NS, PASSING_NS, Pending
from truemem.platform.extensions_api import ApiError
from truemem.support.clock import Clock
from truemem.support.log import set_level
from truemem.wings import Wings

from testing.proxy import reset

MS = 1_000_000

API, TELEMETRY, RUNTIME = 3, 4, 5
"""Descriptors."""

EPOCH_NS = 1_700_000_000_000 * MS
WAIT_NS = 10_000
"""What a wait takes at least."""
TICK_NS = 20 * MS
PAUSE_MS = 10
"""Between two requests for an event while they fail."""
LAST_REPORT_NS = 250 * MS


@pytest.fixture(autouse=True, scope="module")
def quiet() -> Iterator[None]:
    """The log is that of the process: other tests read it."""
    set_level("off")
    yield
    set_level("info")


class Arrival(NamedTuple):
    """Something that comes from outside: so long after the one before."""

    after_ns: int
    what: str


class World:
    """The platform, the runtime and the clock. Work takes time here, and nothing else does."""

    def __init__(self, arrivals: list[Arrival], failures: list[bool], costs: list[int]) -> None:
        self.now_ns = -50 * MS
        """Monotonic. After a restore it may be anything."""
        self.failures = deque(failures)
        """Of each action in turn, and each request for an event: does it fail? No more of them do."""
        self.costs = deque(costs)
        """Of each action in turn, ns."""
        self.arrivals: deque[Arrival] = deque()
        at_ns = self.now_ns
        for arrival in [*arrivals, Arrival(30 * MS, "shutdown")]:
            at_ns += arrival.after_ns
            self.arrivals.append(Arrival(at_ns, arrival.what))
        self.events: deque[bytes] = deque()
        self.deliveries: deque[bytes] = deque()
        self.pieces: deque[str] = deque()
        self.delivered = self.invoked = 0
        self.broken = sum(arrival.what == "broken" for arrival in arrivals)
        self.waiting = False
        self.overdue_at = float("inf")
        self.pause_s = 0.005
        self.arrived_ns: int | None = None
        self.asked_in_vain = 0
        self.must_ask = False
        """An INVOKE was received: the next event must be asked for before anything else."""
        self.is_down = False
        self.is_deaf = self.is_deaf_when_down = False
        """The kernel cannot wait."""
        self.passed_ns: list[int] = []
        """When bytes of the runtime were handed on."""
        self.polled: set[int] = set()
        self.waits = 0
        self.used_ns = 0
        """CPU time: of actions alone."""
        self.frozen = False
        # Exact mode, as the bytes show it
        self.asking, self.answered, self.moments = 1, False, 0

    def fails(self) -> bool:
        return bool(self.failures) and self.failures.popleft()

    # The clock

    def monotonic_ns(self) -> int:
        return self.now_ns

    def epoch_ns(self) -> int:
        return EPOCH_NS + self.now_ns

    def cpu_ns(self) -> int:
        return self.used_ns

    # The poll

    def register(self, descriptor: int, _: int) -> None:
        self.polled.add(descriptor)

    def unregister(self, descriptor: int) -> None:
        self.polled.remove(descriptor)

    def poll(self, timeout_ms: int) -> list[tuple[int, int]]:
        if self.is_deaf or (self.is_down and self.is_deaf_when_down):
            raise OSError(errno.EIO, "Input/output error")
        assert self.waiting or self.is_down or timeout_ms <= PAUSE_MS, "next is not asked for"
        self.waits += 1
        self.now_ns += WAIT_NS
        until_ns = self.now_ns + timeout_ms * MS
        self._arrive()
        while not self._ready() and self.arrivals and self.arrivals[0].after_ns <= until_ns:
            self.now_ns = self.arrivals[0].after_ns
            self._arrive()
        if not self._ready():
            self.now_ns = until_ns
        if self.frozen:
            self.frozen = False
            self.now_ns = max(self.now_ns, until_ns) + 3_600_000 * MS
            self.arrivals = deque(Arrival(max(each.after_ns, self.now_ns), each.what) for each in self.arrivals)
        return [(descriptor, 1) for descriptor in self._ready()]

    def _arrive(self) -> None:
        while self.arrivals and self.arrivals[0].after_ns <= self.now_ns:
            what = self.arrivals.popleft().what
            if what in ("invoke", "shutdown"):
                event = {"eventType": what.upper(), "requestId": str(self.invoked + 1)}
                self.invoked += what == "invoke"
                self.events.append(json.dumps(event).encode())
            elif what == "broken":
                self.events.append(b"")
            elif what == "delivery":
                self.delivered += 1
                self.deliveries.append(b"[]")
            elif what == "freeze":
                self.frozen = True
            else:
                self.pieces.append(what)

    def _ready(self) -> list[int]:
        ready = [API] if self.events and self.waiting else []
        ready += [TELEMETRY] if self.deliveries else []
        ready += [RUNTIME] if self.pieces else []
        return [descriptor for descriptor in ready if descriptor in self.polled]

    # The Extensions API

    descriptor = API

    def send_next(self) -> None:
        self.must_ask = False
        if self.fails():
            self.asked_in_vain += 1
            raise ApiError("event/next: refused") if self.asked_in_vain % 2 else RuntimeError("a bug")
        self.waiting = True

    def receive_event(self, note: Any) -> bytes:
        body = self.events.popleft()
        if body:
            note(body)
        self.waiting = False
        self.is_down = b"SHUTDOWN" in body
        self.must_ask = b"INVOKE" in body
        if not body:
            raise ApiError("event/next: broken")
        return body

    # The telemetry server, and the runtime's proxy

    refused = 0
    patience_s = float("inf")

    def descriptors(self) -> list[int]:
        return [TELEMETRY]

    def ready(self, descriptor: int) -> list[bytes]:
        bodies = list(self.deliveries) if descriptor == TELEMETRY else []
        if bodies:
            self.deliveries.clear()
        return bodies

    def interests(self) -> dict[int, int]:
        return {RUNTIME: 1}

    def serve(self, descriptor: int) -> bool:
        if descriptor != RUNTIME:
            return False
        for piece in self.pieces:
            self.passed_ns.append(self.now_ns)
            self.answered = piece == "response"
            self.asking = int(piece == "request for the next")
            self.moments += piece in ("event", "request for the next")
        self.pieces.clear()
        return True


class Turn(NamedTuple):
    """One turn of the loop in which something was done."""

    woke_ns: int
    actions: list[str]
    state: str
    """After it."""
    bytes_first: bool
    since_bytes_ns: int
    """Since the last of the runtime's bytes passed, when the turn began."""


class Model:
    """Performs the actions of one environment, so far as they concern the loop: which record is open, what is due."""

    def __init__(self, world: World, role: str, exact: bool = False) -> None:
        self.world = world
        self.on_demand = role == m.ON_DEMAND
        self.exact = exact
        self.turns: dict[int, Turn] = {}
        """By the number of the wait before."""
        self.lost = 0
        self.event: ReceivedEvent | None = None
        self.open: str | None = None
        self.begun: list[str] = []
        self.closed: list[str] = []
        self.failed = self.joined = 0
        self.charged_ns: list[int] = []
        """CPU time that each tick is charged with when it begins."""
        self.printable = self.readings = False
        self.tick_at_ns = world.now_ns
        self.until_ns = 0
        names = {name for actions, _ in m.TRANSITIONS[role].values() for name in actions}
        own = m.ASK_NEXT, m.RECEIVE, m.TAKE_DELIVERIES, m.SEND_RECORDS
        self.actions = {name: lambda name=name: self.do(name) for name in names if name not in own}
        simulated: Any = world
        nothing: tuple[Any, Any, Any, Any, Any] = (None, None, None, None, None)
        parts = LoopParts(simulated, simulated, "", *nothing, simulated, simulated, simulated)
        self.loop = Loop(role, self, parts, self.lose)

    def lose(self, count: int = 1) -> None:
        self.lost += count

    @property
    def bytes_first(self) -> bool:
        return self.exact and not self.world.answered

    def look(self, pending: Pending) -> None:
        pending.tick_at_ns = self.tick_at_ns
        pending.last_report_until_ns = self.until_ns
        pending.report_missing = self.world.is_down
        if self.on_demand:
            pending.printable = self.printable
            pending.bytes_first = self.bytes_first
            pending.asking = self.exact and self.world.asking > 0
            pending.moments = self.exact and self.world.moments > 0

    def journal_invoke(self, body: bytes) -> None:
        assert self.world.waiting  # it is noted before it is taken

    def take(self, event: ReceivedEvent) -> bool:
        self.event = event
        return self.readings

    def do(self, name: str) -> None:
        assert not self.world.must_ask
        woke_ns = self.loop.now_ns
        last_ns = self.world.passed_ns[-1] if self.world.passed_ns else -EPOCH_NS
        turn = Turn(woke_ns, [], self.loop.machine.state, self.bytes_first, woke_ns - last_ns)
        self.turns.setdefault(self.world.waits, turn).actions.append(name)
        getattr(self, "_" + name.replace(" ", "_"), lambda: None)()
        cost_ns = self.world.costs.popleft() if self.world.costs else 0
        self.world.now_ns += cost_ns
        self.world.used_ns += cost_ns
        if self.world.fails():
            self.failed += 1
            raise RuntimeError("a bug")

    def _read_and_reset(self) -> None:
        self.readings = not self.exact

    def _open_record(self) -> None:
        assert self.event is not None
        assert self.open is None
        self.open = json.loads(self.event.body)["requestId"]
        self.begun.append(self.open)
        self.printable = True

    def _close_record(self) -> None:
        if self.open is not None:
            self.closed.append(self.open)
        self.open = None

    def _close_moments(self) -> None:
        self.world.moments = 0

    def _print_line(self) -> None:
        self.printable = False

    def _join_telemetry(self) -> None:
        self.loop.inbox.read()
        self.joined += 1
        self.printable = True

    def _sample(self) -> None:
        self.charged_ns.append(self.world.used_ns - self.loop.cpu_at_wake)
        self.tick_at_ns = self.world.now_ns + TICK_NS

    _sample_in_init = _end_segment = _sample

    def _read_reason(self) -> None:
        self.until_ns = self.world.now_ns + LAST_REPORT_NS


RUNTIME_PIECES = ("event", "piece", "response", "request for the next")

gaps = st.sampled_from([0, MS // 10, MS, 3 * MS, 40 * MS])
whats = st.sampled_from(["invoke", "broken", "delivery", "freeze", *RUNTIME_PIECES])
arrivals = st.lists(st.builds(Arrival, gaps, whats), max_size=40)
storms = st.lists(st.builds(Arrival, st.integers(1, MS), st.sampled_from(RUNTIME_PIECES)), max_size=60)
failures = st.lists(st.booleans(), max_size=60)
costs = st.lists(st.sampled_from([0, MS // 20, MS, 8 * MS]), max_size=60)


def ran(role: str, exact: bool, come: list[Arrival], fail: list[bool], cost: list[int]) -> Model:
    model = Model(World(come, fail, cost), role, exact)
    model.loop.run()
    return model


def models(
    role: str = m.ON_DEMAND, come: st.SearchStrategy[list[Arrival]] = arrivals, exact: bool | None = None
) -> st.SearchStrategy[Model]:
    """Those that have run to their end."""
    if role == m.MANAGED:
        come = come.map(lambda drawn: [arrival for arrival in drawn if arrival.what != "invoke"])
    return st.builds(ran, st.just(role), st.booleans() if exact is None else st.just(exact), come, failures, costs)


@given(models())
def test_each_invocation_opens_and_closes_once_in_order(model: Model) -> None:
    assert model.begun == model.closed == [str(number + 1) for number in range(model.world.invoked)]


@pytest.mark.parametrize("role", m.TRANSITIONS)
@given(data=st.data())
def test_a_failing_action_is_counted_and_all_is_printed(role: str, data: st.DataObject) -> None:
    model = data.draw(models(role))
    assert model.lost == model.failed + model.world.broken + model.world.asked_in_vain // 2
    assert model.loop.machine.state == m.OVER
    assert model.joined == model.world.delivered
    last, _ = m.TRANSITIONS[role][m.SHUTTING_DOWN, m.TIME_OVER]
    everything = [name for turn in model.turns.values() for name in turn.actions]
    assert tuple(everything[-len(last) :]) == last
    assert everything.count(m.FLUSH_ALL) == 1


@given(models(come=arrivals | storms, exact=True))
def test_while_bytes_pass_other_work_waits_5_ms(model: Model) -> None:
    busy_ns = model.world.passed_ns[:1]
    for turn in model.turns.values():
        is_event = m.READ_AND_RESET in turn.actions or turn.state in (m.SHUTTING_DOWN, m.OVER)
        if turn.bytes_first and turn.since_bytes_ns < CALM_NS and not is_event:
            assert turn.woke_ns - busy_ns[-1] >= PASSING_NS
            busy_ns.append(turn.woke_ns)


@pytest.mark.parametrize("since_ns", [0, MS])
def test_what_waits_for_a_pause_of_the_bytes_is_no_busy_loop(since_ns: int) -> None:
    waits = []
    for come in ["event"], ["event", "delivery"]:
        model = ran(m.ON_DEMAND, True, [Arrival(0, "event"), *(Arrival(since_ns, what) for what in come[1:])], [], [])
        waits.append(model.world.waits)
        assert model.joined == len(come) - 1
    assert waits[1] - waits[0] < 6


def test_while_bytes_keep_passing_telemetry_is_received() -> None:
    """A response of many pieces may take minutes, and the record before waits for its report."""
    pieces = [Arrival(MS, "piece")] * 200
    model = ran(m.ON_DEMAND, True, [Arrival(0, "event"), Arrival(MS, "delivery"), *pieces], [], [])
    joined_ns = [turn.woke_ns for turn in model.turns.values() if m.JOIN_TELEMETRY in turn.actions]
    assert joined_ns[0] - model.world.passed_ns[0] < 10 * PASSING_NS


def test_a_tick_is_charged_with_no_other_work() -> None:
    """Also where it is due because the loop has woken up late, while other work waited."""
    model = ran(m.ON_DEMAND, False, [Arrival(3 * MS, "invoke"), Arrival(MS // 10, "freeze")], [], [MS // 20] * 40)
    assert model.charged_ns == [0, 0]


@given(models(come=arrivals | storms))
def test_between_two_looks_at_bytes_one_thing_is_done(model: Model) -> None:
    rows = {
        key: [name for name in row if name in model.actions] for key, (row, _) in m.TRANSITIONS[m.ON_DEMAND].items()
    }
    alone = list(rows.values())
    events = [rows[key] for key in rows if key[1] == m.EVENT_READY]
    received = [rows[key] for key in rows if key[1] in (m.NO_EVENT, m.INVOKE, m.INVOKE_LATER, m.SHUTDOWN)]
    whole = alone + [event + after for event in events for after in received]
    assert all(turn.actions in whole for turn in model.turns.values())


def test_where_the_kernel_cannot_wait_the_caller_is_told() -> None:
    """It goes on answering, and measures nothing more (`truemem.__main__`)."""
    model = Model(World([], [], []), m.ON_DEMAND)
    model.world.is_deaf = True
    with pytest.raises(OSError, match="Input/output"):
        model.loop.run()


@pytest.mark.parametrize("role", m.TRANSITIONS)
def test_without_waiting_all_is_printed_without_a_report(role: str) -> None:
    model = Model(World([], [], []), role)
    model.world.is_deaf_when_down = True
    model.loop.run()
    assert [name for turn in model.turns.values() for name in turn.actions].count(m.FLUSH_ALL) == 1


def test_what_is_due_is_done_in_the_turn_after_its_wait() -> None:
    """Real time goes on within a turn. What was overdue seemed due a moment later, in each turn: the loop took
    all the CPU, and never gave the request up."""
    done: list[int] = []
    ticks = itertools.count(0, 1000)
    due_after_ns = 5_000
    wings = Wings()
    sender: Any = SimpleNamespace(
        interests=dict, due_ns=lambda now_ns: max(now_ns, due_after_ns), step=lambda: done.append(1)
    )
    wings.sender = sender
    api: Any = SimpleNamespace(waiting=True, descriptor=API, overdue_at=float("inf"))
    clock: Any = SimpleNamespace(monotonic_ns=lambda: next(ticks), epoch_ns=lambda: EPOCH_NS, cpu_ns=lambda: 0)
    poll: Any = SimpleNamespace(register=lambda *_: None, unregister=lambda *_: None, poll=lambda _: [])
    about: Any = {"config": None, "table": None, "recorder": None, "environment_memory": None, "kills": None}
    parts = LoopParts(api, None, "", **about, proxy=None, clock=clock, poll=poll, wings=wings)

    def look(pending: Pending) -> None:
        pending.tick_at_ns = 1 << 60

    performer: Any = SimpleNamespace(actions={}, look=look)
    loop = Loop(m.ON_DEMAND, performer, parts, lambda *_: None)
    for _ in range(5):
        loop.turn()
    assert done


# The poll


class Poll:
    """The kernel's. It fails so many times in a row."""

    def __init__(self, times: int = 0, number: int = 0) -> None:
        self.left, self.number = times, number
        self.asked: list[float] = []
        """Timeouts."""

    def register(self, *_: int) -> None: ...

    def poll(self, timeout_ms: float) -> list[tuple[int, int]]:
        self.asked.append(timeout_ms)
        if self.left:
            self.left -= 1
            raise OSError(self.number, os.strerror(self.number))
        return []


def poller(wanted: dict[int, int] | None = None, poll: Poll | None = None, api: Any = None) -> Poller:
    """`wanted`: those of the runtime's connections that the proxy wants to be waited for, now."""
    proxy = SimpleNamespace(patience_s=float("inf"), interests=lambda: dict(wanted or {}))
    api = api or SimpleNamespace(waiting=False, descriptor=-1)
    parts: Any = api, None, RunningClock(Clock()), proxy, poll
    return Poller(*parts)


@pytest.mark.parametrize("number", [errno.EINTR, errno.ENOMEM, errno.EIO])
def test_a_failed_wait_is_one_in_which_nothing_came(number: int) -> None:
    unwilling = Poll(FAILURES - 1, number)
    wait = poller(poll=unwilling)
    for _ in range(2):
        assert [wait.wait(MS // 2) for _ in range(FAILURES)] == [[]] * FAILURES
        unwilling.left = FAILURES - 1  # one that succeeds ends the row


def test_a_wait_that_goes_on_failing_raises() -> None:
    wait = poller(poll=Poll(FAILURES, errno.EIO))
    for _ in range(FAILURES - 1):
        assert wait.wait(MS // 2) == []
    with pytest.raises(OSError, match="Input/output"):
        wait.wait(MS // 2)


def test_connections_are_polled_as_the_proxy_wants_now() -> None:
    wanted: dict[int, int] = {}
    wait = poller(wanted)
    ours, theirs = socket.socketpair()
    number = ours.fileno()
    with ours, theirs:
        assert wait.wait(0) == []
        wanted[number] = select.POLLIN
        assert wait.wait(0) == []
        theirs.send(b"x")
        assert wait.wait(0) == [number]
        ours.recv(1)
        assert wait.wait(0) == []
        wanted[number] = select.POLLIN | select.POLLOUT
        assert wait.wait(0) == [number]
        wanted[number] = select.POLLIN
        assert wait.wait(0) == []
        theirs.send(b"x")
        wanted.clear()  # what the other side does not take is left where it is
        assert wait.wait(0) == []


def test_poll_without_events_tells_of_a_reset_alone() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.create_connection(listening.getsockname()) as ours:
        theirs, _ = listening.accept()
        wait = poller({ours.fileno(): 0})
        theirs.send(b"x")
        theirs.shutdown(socket.SHUT_WR)
        assert wait.wait(20 * MS) == []
        reset(theirs)
        assert wait.wait(10_000 * MS) == [ours.fileno()]


def test_the_next_event_is_polled_while_it_is_asked_for() -> None:
    (ours, theirs), (event, platform) = socket.socketpair(), socket.socketpair()
    with ours, theirs, event, platform:
        api = SimpleNamespace(waiting=True, descriptor=event.fileno())
        wait = poller({ours.fileno(): select.POLLIN}, api=api)
        platform.send(b"x")
        theirs.send(b"x")
        assert sorted(wait.wait(0)) == sorted([ours.fileno(), event.fileno()])
        api.waiting = False
        assert wait.wait(0) == [ours.fileno()]


@pytest.mark.parametrize("timeout_ns", [-(10**30), -1, 10**30])
def test_an_impossible_timeout_is_no_error(timeout_ns: int) -> None:
    poll = Poll()
    assert poller(poll=poll).wait(timeout_ns) == []
    assert 0 <= poll.asked[0] < 1 << 31  # what poll(2) takes


# Time without freezes


@pytest.mark.parametrize("frozen", ["at work", "waiting"])
@pytest.mark.parametrize("jump_ms", [0, 3_600_000, -3_600_000], ids=["no freeze", "an hour", "back by an hour"])
def test_a_freeze_is_left_out_wherever_it_falls(jump_ms: int, frozen: str) -> None:
    now = [5_000_000_000_000]
    simulated: Any = SimpleNamespace(monotonic_ns=lambda: now[0])
    clock = RunningClock(simulated)
    seen = [clock.running_ms]
    for _ in range(3):
        now[0] += (2 + jump_ms * (frozen == "at work")) * 1_000_000
        clock.before_wait(10)
        now[0] += (10 + jump_ms * (frozen == "waiting")) * 1_000_000
        clock.after_wait()
        seen.append(clock.running_ms)
    assert seen == sorted(seen)
    assert 6 <= seen[-1] <= 3 * (BUSY_MS + 10 + 1)
