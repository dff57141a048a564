"""One execution environment in simulated time: a runtime, the platform, and the kernel's counts of bytes, each of
which can fail; around the sidecar's own loop, which is the real one.

Time passes only while the sidecar waits or works. Nothing here is random: `Plan` and `Faults` say what happens.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from truemem.inet_diag import Connection, DiagError
from truemem.procfs import Status
from truemem.window import Window

MS = 1_000_000
START_NS = 1_700_000_000_000 * MS
JIFFY_MS = 4

EVENT, RESPONSE, ACCEPTED, REQUEST = 358, 247, 166, 132
"""Bytes of the four messages of an invocation, as Python's client was seen to exchange them."""


@dataclass
class Plan:
    """One invocation. Times in ms."""

    handler_ms: float = 50
    delivered_ms: float = 0.1
    """From INVOKE at the sidecar to the event at the runtime; below 0 it was there before."""
    respond_ms: tuple[float, ...] = (0,)
    """The response is sent in pieces, so long after the handler's end each."""
    accept_ms: float = 0.2
    """From its last piece to the answer."""
    request_ms: float = 0.1
    """From there to the request for the next event: the runtime is done."""
    gap_ms: float = 10
    """Frozen after it,"""
    jump_ms: float = 0
    """by when the monotonic clock has gone on by so much more: less than 0 where it stands still, or goes back."""
    own_traffic: tuple[float, ...] = ()
    """The handler itself makes a request to the Runtime API's address, at these times."""
    own_connection: bool = False
    """On the runtime's connection, or else on another one."""
    telemetry_ms: float = 25
    """Buffering."""
    lost: frozenset[str] = frozenset()
    """Kinds of telemetry that do not come."""


@dataclass
class Faults:
    """What goes wrong with the looks, and since when."""

    kind: str = ""
    """`refused`, `wrong`, `frozen`, `frozen-received`, `frozen-sent`, `proxied`, or nothing."""
    since: int = 0
    """Number of the invocation,"""
    after_ms: float = 0
    """and so long after its beginning."""
    numbers: list[int] = field(default_factory=list)
    """For `wrong`."""


class World:
    """The clock, and what is going to happen."""

    def __init__(self, plans: list[Plan], faults: Faults, fresh: bool, deadline_ms: float) -> None:
        """`fresh`: the client makes a new connection for each request for an event."""
        self.now = START_NS
        self.jumped_ns = 0
        """What the monotonic clock has gone on by beyond time itself."""
        self.cpu_ns = 0
        """Of the sidecar."""
        self.plans, self.faults, self.fresh, self.deadline_ms = plans, faults, fresh, deadline_ms
        self.init = Plan(gap_ms=0)
        """Only its gap and its jump count: those before the first invocation (provisioned concurrency)."""
        self.agenda: list[tuple[int, int, Callable[[], None]]] = []
        self.order = 0
        self.looks = 0
        self.connections: dict[int, list[int]] = {1: [REQUEST, 0, START_NS]}
        """Port to sent, received, time of the last byte received."""
        self.asking = 1
        self.frozen: list[Connection] | None = None
        self.event: bytes | None = None
        """An event that waits for the sidecar."""
        self.deliveries: list[bytes] = []
        self.asked = False
        """Has the sidecar asked for its next event?"""
        self.asked_at: list[int] = []
        """For each invocation: when."""
        self.done_at: list[int] = []
        """For each invocation: when the runtime was done."""
        self.begun_at: list[int] = []
        self.done = True
        self.number = -1
        self.over = False

    # --- time ---------------------------------------------------------------------------------------------------------

    def at(self, ns: int, action: Callable[[], None]) -> None:
        self.order += 1
        self.agenda.append((ns, self.order, action))
        self.agenda.sort(key=lambda item: item[:2])

    def work(self, us: float) -> None:
        """The sidecar works for so long."""
        self.cpu_ns += round(us * 1000)
        until = self.now + round(us * 1000)
        while self.agenda and self.agenda[0][0] <= until:
            self._next()
        self.now = max(self.now, until)

    def wait(self, ns: int) -> set[int]:
        """The sidecar waits for its descriptors; those that are ready."""
        until = self.now + max(0, ns)
        while not self._ready():
            if self.done and self.asked and not self.over:
                self._freeze()
            elif self.agenda and self.agenda[0][0] <= until:
                self._next()
            else:
                self.now = until
                break
        self.work(20)
        return self._ready()

    def _next(self) -> None:
        when, _, action = self.agenda.pop(0)
        self.now = max(self.now, when)
        action()

    def _ready(self) -> set[int]:
        return ({API} if self.asked and self.event else set()) | ({TELEMETRY} if self.deliveries else set())

    # --- the platform -------------------------------------------------------------------------------------------------

    def _freeze(self) -> None:
        """Both are waiting: nothing passes but time, and then there is the next event."""
        before = self.plans[self.number] if self.number >= 0 else self.init
        gap = round(before.gap_ms * MS)
        self.agenda = [(when + gap, order, action) for when, order, action in self.agenda]
        self.now += gap
        self.jumped_ns += round(before.jump_ms * MS)
        if self.number >= 0:
            self._tell("platform.report", {"metrics": self._metrics() | {"maxMemoryUsedMB": 64}})
        self.number += 1
        if self.number == len(self.plans):
            self.over = True
            self._send({"eventType": "SHUTDOWN", "deadlineMs": self.now // MS + 2000})
            return
        plan = self.plans[self.number]
        self.begun_at.append(self.now)
        self.done = False
        self._send(
            {
                "eventType": "INVOKE",
                "deadlineMs": self.now // MS + self.deadline_ms,
                "requestId": str(self.number),
            }
        )
        self._tell("platform.start", {})
        self._schedule(plan)

    def _send(self, event: dict[str, Any]) -> None:
        self.event = json.dumps(event).encode()

    def _metrics(self) -> dict[str, float]:
        begun, done = self.begun_at[self.number], self.done_at[self.number]
        asked = max(self.asked_at[self.number], done)
        return {"durationMs": (asked - begun) / MS, "billedDurationMs": -(-(asked - begun) // MS)}

    def _tell(self, kind: str, members: dict[str, Any]) -> None:
        plan = self.plans[self.number]
        if kind in plan.lost:
            return
        stamp = datetime.fromtimestamp(self.now / 1e9, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
        record = {"requestId": str(self.number), "status": "success", **members}
        body = json.dumps([{"time": stamp, "type": kind, "record": record}]).encode()
        self.at(self.now + round(plan.telemetry_ms * MS), lambda: self.deliveries.append(body))

    # --- the runtime --------------------------------------------------------------------------------------------------

    def _schedule(self, plan: Plan) -> None:
        begun = self.now
        main = self.asking
        self._in(begun + round(plan.delivered_ms * MS), main, EVENT)
        for number, moment in enumerate(plan.own_traffic):
            port = main if plan.own_connection else 10_000 + 100 * self.number + number
            self._out(begun + round(moment * MS), port, 90)
            self._in(begun + round((moment + 0.3) * MS), port, 120)
        end = begun + round((max(plan.delivered_ms, 0) + plan.handler_ms) * MS)
        response = 2 if self.fresh else main
        moment = end
        for piece in plan.respond_ms:
            moment += round(piece * MS)
            self._out(moment, response, RESPONSE)
        moment += round(plan.accept_ms * MS)
        self._in(moment, response, ACCEPTED)
        moment += round(plan.request_ms * MS)
        self.asking = 100 + self.number if self.fresh else main
        self._out(moment, self.asking, REQUEST)
        self.at(moment, self._runtime_done)

    def _out(self, when: int, port: int, size: int) -> None:
        def send() -> None:
            self.connections.setdefault(port, [0, 0, self.now])[0] += size

        self.at(when, send)

    def _in(self, when: int, port: int, size: int) -> None:
        def receive() -> None:
            connection = self.connections[port]
            connection[1] += size
            connection[2] = self.now

        self.at(when, receive)

    def _runtime_done(self) -> None:
        self.done = True
        self.done_at.append(self.now)
        self._tell("platform.runtimeDone", {"metrics": {"durationMs": (self.now - self.begun_at[-1]) / MS}})

    # --- what the sidecar is given ------------------------------------------------------------------------------------

    def look(self) -> list[Connection]:
        """In place of RuntimeConnections.look."""
        self.work(30)
        self.looks += 1
        made = [
            Connection(bytes([port % 256, port // 256]), port, sent, received, 0, 0, self._ago(at))
            for port, (sent, received, at) in self.connections.items()
        ]
        age_ms = (self.now - self.begun_at[-1]) / MS
        broken = (self.number, age_ms) >= (self.faults.since, self.faults.after_ms)
        kind = self.faults.kind if broken else ""
        if kind == "refused":
            raise DiagError("errno 1")
        if kind == "proxied":
            return []
        if kind == "wrong":
            numbers = self.faults.numbers
            for index, connection in enumerate(made):
                connection.sent = numbers[(self.looks + index) % len(numbers)]
                connection.received = numbers[(self.looks + index + 1) % len(numbers)]
                connection.received_ago_ms = numbers[(self.looks + index + 2) % len(numbers)] % 1000
        if kind.startswith("frozen"):
            self.frozen = self.frozen or made
            if kind == "frozen":
                return self.frozen
            before = {connection.identity: connection for connection in self.frozen}
            for connection in made:
                if connection.identity in before and kind == "frozen-received":
                    connection.received = before[connection.identity].received
                elif connection.identity in before:
                    connection.sent = before[connection.identity].sent
        return made

    def _ago(self, at: int) -> int:
        return (self.now // MS // JIFFY_MS - at // MS // JIFFY_MS) * JIFFY_MS

    def ask(self) -> None:
        """The sidecar asks for its next event."""
        assert not self.asked, "asked twice"
        self.work(30)
        self.asked = True
        if self.number >= 0:
            self.asked_at.append(self.now)


API, TELEMETRY = 100, 200


class Api:
    """In place of LambdaApi."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.arrived_ns: int | None = None

    @property
    def waiting(self) -> bool:
        return self.world.asked

    def fileno(self) -> int:
        return API

    def send_next(self) -> None:
        self.world.ask()

    def receive_event(self, note: Callable[[bytes], None]) -> bytes:
        event = self.world.event
        assert event is not None
        note(event)
        self.world.event, self.world.asked = None, False
        self.arrived_ns = self.world.now
        return event


class Listener:
    """In place of the telemetry listener."""

    refused = 0

    def __init__(self, world: World) -> None:
        self.world = world

    def descriptors(self) -> set[int]:
        return {TELEMETRY}

    def ready(self, descriptor: int) -> list[bytes]:
        if descriptor != TELEMETRY:
            return []
        bodies, self.world.deliveries = self.world.deliveries, []
        return bodies


class Poll:
    """In place of select.poll()."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.wanted: set[int] = set()

    def register(self, descriptor: int, mask: int) -> None:
        self.wanted.add(descriptor)

    def unregister(self, descriptor: int) -> None:
        self.wanted.discard(descriptor)

    def poll(self, timeout_ms: int) -> list[tuple[int, int]]:
        return [(descriptor, 1) for descriptor in sorted(self.world.wait(timeout_ms * MS) & self.wanted)]


class Select:
    """In place of the module `select`."""

    POLLIN = 1

    def __init__(self, world: World) -> None:
        self.world = world

    def poll(self) -> Poll:
        return Poll(self.world)

    def select(self, wanted: list[int], _: object, __: object, timeout_s: float) -> tuple[list[int]]:
        return (sorted(self.world.wait(round(timeout_s * 1e9)) & set(wanted)),)


class Time:
    """In place of the module `time`."""

    def __init__(self, world: World) -> None:
        self.world = world

    def monotonic_ns(self) -> int:
        return self.world.now - START_NS + self.world.jumped_ns

    def time_ns(self) -> int:
        return self.world.now

    def process_time_ns(self) -> int:
        return self.world.cpu_ns

    def sleep(self, seconds: float) -> None:
        self.world.work(seconds * 1e6)


class Cut:
    """What the recorder's cut would be."""

    def __init__(self, done_ns: int) -> None:
        self.done_ns = done_ns

    def at_rest(self) -> bool:
        return True


class Recorder:
    """In place of the recorder: one process that never changes. Its memory is not what is looked at here."""

    refused = ""
    lost = 0
    last_sample = 20_000
    holder = None

    def __init__(self, world: World) -> None:
        self.world = world
        self.window = Window(20_000, 20_000, True)

    def find(self) -> None: ...

    def absorb(self, cut: Cut) -> None: ...

    def settle(self, window: Window) -> None: ...

    def rejoin(self, window: Window) -> None: ...

    def sample(self, late: bool, held: bool) -> int:
        self.world.work(30)
        return 0

    def cut(self) -> Cut:
        self.world.work(60)
        return Cut(self.world.now)

    def close(self, cut: Cut, arrived_ns: int | None, not_before_ns: int = 0, at_rest: bool = False) -> Window:
        closed = self.window
        closed.closing = [Status(20_000, 20_000, 20_000, 0, 0, 1)]
        self.window = Window(20_000, 20_000, True)
        return closed


class Table:
    """In place of the process table."""

    errors = 0
    api_address = "127.0.0.1:9001"

    def runtime_address(self) -> str:
        return self.api_address

    def oom_score_refused(self) -> str:
        return ""

    def function(self) -> list[object]:
        return [self]

    def others(self) -> list[object]:
        return [self]

    def changed(self) -> bool:
        return False


class Surroundings:
    """In place of the surroundings."""

    source = "meminfo"
    held_kib = 0
    extensions: dict[str, int] = {}  # noqa: RUF012 - never filled

    def look(self) -> None: ...

    def describe(self, record: object) -> None: ...
