"""Lambda, the function and what is beside it, as the seed wants them: mostly as documented, and now and then not."""

from __future__ import annotations

from . import http
from . import kernel as k
from .processes import Process, Processes
from .rolls import Rolls, integer, mangled, real, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

API_PORT, ELSEWHERE_PORT = 9001, 9999
PROXY_NAME = b"\0truemem/exact/"
RUNTIME_PATH = b"/2018-06-01/runtime/invocation/"


class Client:
    """One side of a connection that hears whole messages."""

    def __init__(self, world: Lambda, port: int) -> None:
        self.world, self.port = world, port
        self.buffer = bytearray()
        self.is_gone = False

    def heard(self, wire: k.Wire, data: bytes) -> None:
        k.kernel.trace.append(f"heard {self.port} {k.shown(data)}")
        self.buffer += data
        while not self.is_gone and (message := http.taken(self.buffer)) is not None:
            self.got(wire, message)

    def got(self, wire: k.Wire, message: http.Message) -> None:
        """A message is whole."""

    def left(self, wire: k.Wire, how: str) -> None:
        k.kernel.trace.append(f"left {self.port} {how}")
        self.is_gone |= how != "shut"
        if how == "shut":
            wire.hang_up()


class ApiConnection(Client):
    def got(self, wire: k.Wire, message: http.Message) -> None:
        self.world.asked(wire, message)


class Collector(Client):
    def got(self, wire: k.Wire, message: http.Message) -> None:
        rolls = self.world.rolls
        k.kernel.say("collector", message.start + message.body)
        bodies = (b"{}", b"", b'{"partialSuccess":{"rejectedDataPoints":"3","errorMessage":"no"}}', b"[1]", b"nothing")
        status, body = rolls.pick((200, 200, 200, 202, 400, 429, 503, 500)), rolls.pick(bodies)
        headers = rolls.pick((b"", b"", b"Retry-After: 2\r\n", b"Retry-After: x\r\n", b"Retry-After: 99999999\r\n"))
        if rolls.chance(900):
            http.answer(rolls, wire, status, body, headers, rolls.scale(20) * k.MS, self.world.api_mangles)


class TelemetrySender(Client):
    """The platform's connection to the sidecar's listener."""


class Worker(Client):
    """A connection of the function's runtime, through the proxy."""

    wire: k.Wire

    def ask(self) -> None:
        request = b"GET %snext HTTP/1.1\r\nHost: x\r\nUser-Agent: aws-lambda\r\n\r\n" % RUNTIME_PATH
        http.send(self.world.rolls, self.wire, self._perhaps_mangled(request))

    def respond(self, request_id: bytes, failed: bool) -> None:
        rolls = self.world.rolls
        size = rolls.pick((0, 20, 300, 5000, 70_000, 200_000)) if rolls.chance(200) else rolls.scale(400)
        body = (b"%08d" % rolls.below(10**8)) * (size // 8)
        path = b"POST %s%s/%s HTTP/1.1" % (RUNTIME_PATH, request_id, b"error" if failed else b"response")
        http.send(rolls, self.wire, self._perhaps_mangled(http.framed(rolls, path, body, b"Host: x\r\n")))

    def _perhaps_mangled(self, data: bytes) -> bytes:
        return mangled(self.world.rolls, data) if self.world.rolls.chance(self.world.runtime_mangles) else data

    def got(self, wire: k.Wire, message: http.Message) -> None:
        request_id = message.headers.get(b"lambda-runtime-aws-request-id")
        if request_id is not None and b" 200" in message.start:
            self.world.event_came(self, request_id)
        else:
            k.kernel.at(k.kernel.now + 20 * k.US, self.ask)


class Lambda(Processes):
    """The world of one run."""

    def __init__(self, rolls: Rolls, memory_mib: int, is_managed: bool, wants_exact: bool) -> None:
        super().__init__(rolls, b"127.0.0.1:9001", memory_mib * 1024)
        self.rolls = rolls
        self.is_managed, self.wants_exact = is_managed, wants_exact
        self.api_mangles = rolls.pick((0, 0, 0, 0, 5, 60))
        self.runtime_mangles = rolls.pick((0, 0, 0, 0, 5, 40))
        self.telemetry_mangles = rolls.pick((0, 0, 0, 10, 100, 400))
        self.odd = rolls.pick((0, 0, 20, 200))
        """Members and orders that are not as documented, of 1,000."""
        self.collects = rolls.chance(800)
        self.invocations = rolls.between(1, 16)
        self.pace = rolls.pick((k.MS, 20 * k.MS, 200 * k.MS, 2 * k.S))
        self.registers = rolls.pick((0, 0, 0, 0, 0, 1, 2))
        """Registrations that fail first."""
        self.telemetry_status = rolls.pick((200,) * 12 + (202, 400, 500))
        self.begin_life()

    def begin_life(self) -> None:
        """The sidecar is started, for the first time or anew."""
        for each in self.of_function():
            self.all.pop(each.pid, None)
        self.next_wires: list[k.Wire] = []
        self.waiting: list[Worker] = []
        self.next_asked: list[tuple[k.Wire, Worker | None]] = []
        self.telemetry_at: tuple[int, bytes] | None = None
        self.telemetry_wire: k.Wire | None = None
        self.runtime: Process | None = None
        self.workers: list[Worker] = []
        self.running: dict[bytes, int] = {}
        self.is_ready = self.is_planned = self.is_ending = self.is_registered = False
        self.unsaid: list[Any] = []
        self.done = 0
        self.last_event: dict[str, Any] = {}

    # What the kernel asks

    def connect(self, address: tuple[str, int]) -> k.Wire:
        if address[1] in (API_PORT, ELSEWHERE_PORT):
            peer: Client = ApiConnection(self, 9001)
        elif self.collects and address[1] in (4318, 4040):
            peer = Collector(self, address[1])
        else:
            k.refuse(k.ECONNREFUSED)
        wire = k.Wire(peer, self.rolls.pick((200_000, 200_000, 5000, 700)))
        if address[1] != 9001 or self.rolls.chance(100) or k.kernel.calls > 2000:
            wire.connected_at = k.kernel.now + self.rolls.pick((0, 50 * k.US, 500 * k.US))
            k.kernel.at(wire.connected_at, lambda: None)
        return wire

    def reachable(self, address: Any) -> bool:
        return self.collects

    def blocked(self, name: str) -> bool:
        return self.odd > 0 and self.rolls.chance(5)

    def takes(self, name: str, size: int) -> int:
        if self.odd and self.rolls.chance(10):
            k.refuse(k.EAGAIN)
        return size // 2 if self.odd and self.rolls.chance(10) else size

    # The Extensions API

    def asked(self, wire: k.Wire, message: http.Message) -> None:
        rolls, kernel = self.rolls, k.kernel
        path = message.start.split(b" ")[1] if message.start.count(b" ") > 1 else b""
        delay = rolls.scale(3000) * k.US
        if path.endswith(b"/register"):
            self._register(wire, message, delay)
        elif path.endswith(b"/telemetry"):
            self._subscribe(wire, message, delay)
        elif path.endswith(b"/event/next"):
            self.next_wires = [wire]
            kernel.at(kernel.now + delay, self.go_on)
        elif path == RUNTIME_PATH + b"next":
            self.next_asked.append((wire, None))
            kernel.at(kernel.now + delay, self.go_on)
        elif path.startswith(RUNTIME_PATH):
            request_id, _, what = path[len(RUNTIME_PATH) :].partition(b"/")
            http.answer(rolls, wire, 202, b'{"status":"OK"}\n', delay=delay, mangles=self.runtime_mangles)
            self._finished(request_id, "error" if what == b"error" else "success")
        else:
            http.answer(rolls, wire, 404, b"", delay=delay)

    def _register(self, wire: k.Wire, message: http.Message, delay: int) -> None:
        rolls = self.rolls
        if self.registers:
            self.registers -= 1
            status, body = rolls.pick(
                ((500, b"{}"), (0, b""), (403, b'{"errorType":"Extension.InvalidEventType"}'), (403, b"x"))
            )
            if status:
                http.answer(rolls, wire, status, body, delay=delay)
            else:
                wire.reset(delay)
            return
        headers = b"" if rolls.chance(self.api_mangles) else b"Lambda-Extension-Identifier: 1-2-3\r\n"
        http.answer(rolls, wire, 200, b"{}", headers, delay, self.api_mangles)
        if not self.is_registered:
            self.is_registered = True
            k.kernel.at(k.kernel.now + rolls.scale(60) * k.MS + 200 * k.US, self._start_runtime)
            self._end_if_stuck(-1)

    def _end_if_stuck(self, done: int) -> None:
        """Where nothing goes on any more, the environment ends."""
        if self.done == done:
            self.end()
        else:
            done = self.done
            k.kernel.at(k.kernel.now + k.S + 2 * self.pace, lambda: self._end_if_stuck(done))

    def _subscribe(self, wire: k.Wire, message: http.Message, delay: int) -> None:
        where = message.body.partition(b"sandbox.localdomain:")[2].partition(b'"')[0]
        port, _, path = where.partition(b"/")
        if self.telemetry_status == 200:
            self.telemetry_at = int(port), b"/" + path
            self.tell("platform.initStart", initializationType=self._kind(), phase="init", functionName="f")
        http.answer(self.rolls, wire, self.telemetry_status, b'"OK"', delay=delay, mangles=self.api_mangles)

    def _kind(self) -> str:
        return self.rolls.pick(("on-demand", "on-demand", "provisioned-concurrency", "snap-start"))

    # Invocations

    def _start_runtime(self) -> None:
        proxies = [name for name in k.kernel.bound if isinstance(name, bytes) and name.startswith(PROXY_NAME)]
        port = int(proxies[-1].rpartition(b"/")[2]) if proxies and self.wants_exact else 0
        self.runtime = runtime = self.start_runtime(port if self.rolls.chance(500) else 0)
        runtime.touch(self.rolls.scale(60_000))
        if port and self.rolls.chance(900):
            about = [(1, 2, runtime.pid.to_bytes(4, "little") + bytes(8))] if self.rolls.chance(900) else []
            k.kernel.bound[proxies[-1]].inbox.append(
                (self.rolls.pick((b"127.0.0.1:9001",) * 9 + (b"\xff:x", b"localhost:9999")), about)
            )
        if port:
            for _ in range(self.rolls.between(1, 4) if self.is_managed else 1):
                k.kernel.at(k.kernel.now + self.rolls.scale(40) * k.MS, lambda: self._connect_worker(port))
        self.is_ready = not port
        self.act()
        if self.rolls.chance(300):
            self.tell("platform.initRuntimeDone", status="success")
        k.kernel.at(k.kernel.now + self.rolls.scale(30) * k.MS, self.go_on)

    def _connect_worker(self, port: int) -> None:
        listening = k.kernel.bound.get(port)
        if listening is None or self.runtime is None:
            return
        worker = Worker(self, 40_000 + len(self.workers))
        worker.wire = k.Wire(worker, self.rolls.pick((300_000, 300_000, 9000, 600)))
        self.workers.append(worker)
        self.runtime.sockets.append((worker.port << 20) + port)
        listening.backlog.append(worker.wire)
        worker.ask()

    def go_on(self) -> None:
        """Is it time for an event, where one is waited for?"""
        kernel, rolls = k.kernel, self.rolls
        if self.is_ending:
            self._say_shutdown()
        elif self.is_managed:
            if self.runtime is not None and not self.is_planned:
                self.is_planned = True
                kernel.at(kernel.now + rolls.scale(self.pace), self._invoke)
        elif self.next_wires and (self.is_ready or self.next_asked) and not self.is_planned and not self.running:
            self.is_planned = True
            pause = rolls.scale(self.pace)
            if rolls.chance(300):  # the environment is frozen until the next event
                kernel.at(kernel.now + 2 * k.MS, self._freeze)
            kernel.at(kernel.now + pause + 3 * k.MS, self._invoke)

    def _freeze(self) -> None:
        k.kernel.now += self.rolls.scale(100 * k.S)
        if self.rolls.chance(50):
            k.kernel.set_back(self.rolls.scale(3600 * k.S))

    def _event(self, kind: str, **members: Any) -> bytes:
        rolls = self.rolls
        event: dict[str, Any] = {
            "eventType": kind,
            "deadlineMs": k.kernel.epoch() // k.MS + rolls.pick((3000, 900_000, 2)),
            **members,
        }
        for name in [*event]:
            if rolls.chance(self.odd // 4):
                event[name] = self.value()
        body = http.dumps(event)
        return mangled(rolls, body) if rolls.chance(self.odd // 8) else body

    def value(self, depth: int = 0) -> Any:
        """A random value of any type that JSON has."""
        rolls = self.rolls
        kind = rolls.below(9 if depth < 2 else 6)
        if kind < 6:
            return (
                None,
                True,
                integer(rolls),
                real(rolls),
                text(rolls),
                rolls.pick(("success", "timeout", "INVOKE", "")),
            )[kind]
        if kind == 6:
            return [self.value(depth + 1) for _ in range(rolls.below(4))]
        return {text(rolls, 4): self.value(depth + 1) for _ in range(rolls.below(4))}

    def _invoke(self) -> None:
        self.is_planned = False
        if self.is_ending or self.runtime is None:
            return
        if self.done >= self.invocations:
            self.end()
            return
        self.done += 1
        rolls, number = self.rolls, self.done
        request_id = b"%08x-0000-4000-8000-%012d" % (rolls.below(1 << 32), number)
        if rolls.chance(self.odd // 2) and self.last_event:
            request_id = self.last_event["requestId"].encode()
        trace = {
            "type": "X-Amzn-Trace-Id",
            "value": "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1",
        }
        self.last_event = members = {
            "requestId": request_id.decode(),
            "tracing": trace,
            "invokedFunctionArn": "arn:aws:lambda:eu-west-1:123456789012:function:f",
        }
        self.running[request_id] = k.kernel.epoch()
        if not self.is_managed:
            wire = self.next_wires.pop() if self.next_wires else None
            if wire is not None:
                delay = rolls.scale(2000) * k.US
                http.answer(rolls, wire, 200, self._event("INVOKE", **members), b"", delay, self.api_mangles)
        self.tell("platform.start", requestId=request_id.decode(), version="$LATEST", tracing=trace)
        if self.next_asked:
            wire, _ = self.next_asked.pop(0)
            body = b'{"a":"%s"}' % (b"x" * rolls.pick((0, 0, 10, 10, 100, 100, 3000, 70_000, 150_000)))
            headers = b"Lambda-Runtime-Aws-Request-Id: %s\r\nLambda-Runtime-Deadline-Ms: 1\r\n" % request_id
            http.answer(rolls, wire, 200, body, headers, rolls.scale(800) * k.US, self.runtime_mangles)
        elif self.is_ready or self.is_managed:
            k.kernel.at(k.kernel.now + rolls.scale(900) * k.US, lambda: self.event_came(None, request_id))
        if self.is_managed:
            self.go_on()

    def event_came(self, worker: Worker | None, request_id: bytes) -> None:
        """The function begins, and ends some time later."""
        rolls, kernel = self.rolls, k.kernel
        lasts = rolls.scale(self.pace) + 100 * k.US
        for _ in range(rolls.below(5)):
            kernel.at(kernel.now + rolls.below(lasts), self.act)
        fate = rolls.below(60)
        if fate == 0:
            kernel.at(kernel.now + lasts, lambda: self._die("failure"))
        elif fate == 1:
            kernel.at(kernel.now + lasts, lambda: self._die("timeout"))
        elif worker is not None:
            kernel.at(kernel.now + lasts, lambda: worker.respond(request_id, fate == 2))
            kernel.at(kernel.now + lasts + 5 * k.S, lambda: self._finished(request_id, "timeout"))
        else:
            kernel.at(kernel.now + lasts, lambda: self._finished(request_id, "error" if fate == 2 else "success"))

    def act(self) -> None:
        """The function does something with memory, threads, or processes."""
        rolls, processes = self.rolls, self.of_function()
        if self.runtime is None or not processes:
            return
        process = rolls.pick(processes)
        kind = rolls.below(20)
        if kind < 9:
            process.touch(rolls.scale(40_000))
        elif kind < 12:
            process.touch(-rolls.scale(40_000))
        elif kind == 12:
            self._fork(process)
        elif kind == 13 and process is not self.runtime:
            self.end_process(process)
        elif kind == 14:
            self.last_pid += 1
            process.threads.append(self.last_pid)
            process.cpu += rolls.scale(5 * k.MS)
        elif kind == 15 and len(process.threads) > 1:
            process.threads.pop()
        elif kind == 16:
            process.start_code += 4096
            process.hwm = process.rss
        elif kind == 17:
            self.thp += 1
            process.touch(2048)
        elif kind == 18:
            process.files += rolls.scale(40)
            process.shmem += rolls.scale(2000)
        elif self.extensions:
            extension = self.all.get(rolls.pick(self.extensions))
            if extension is not None and rolls.chance(900):
                extension.touch(rolls.scale(30_000))
            elif extension is not None:
                self.kills += 1
                extension.pending = 1 << 8
                self.end_process(extension)

    def _fork(self, parent: Process) -> None:
        for _ in range(self.rolls.pick((1, 1, 1, 3, 20))):
            child = self.fork(parent)
            if child is not None:
                child.touch(self.rolls.scale(20_000))
                k.kernel.at(k.kernel.now + self.rolls.scale(self.pace), lambda child=child: self.end_process(child))  # type: ignore[misc]

    def end_process(self, process: Process) -> None:
        if process.pid in self.all:
            self.end_of(process, self.rolls.chance(800))

    def end_of(self, process: Process, waited: bool) -> None:
        Processes.end(self, process, waited)

    def _die(self, reason: str) -> None:
        """The function is killed, or takes too long."""
        if self.runtime is None:
            return
        if reason == "failure":
            if self.rolls.chance(600):
                self.runtime.touch(self.limit_kib)
                self.kills += self.rolls.chance(700)
            self.end_of(self.runtime, self.rolls.chance(700))
        status = "timeout" if reason == "timeout" else "failure"
        for request_id in [*self.running]:
            self._finished(request_id, status)
        self.last_reason = reason
        self.end(reason)

    def _finished(self, request_id: bytes, status: str) -> None:
        began = self.running.pop(request_id, None)
        if began is None:
            return
        rolls, name = self.rolls, request_id.decode("latin-1")
        took = (k.kernel.epoch() - began) / 1e6
        spans = [{"name": "responseLatency", "start": "x", "durationMs": 1.5}]
        more = {"errorType": rolls.pick(("Runtime.OutOfMemory", "Runtime.ExitError"))} if status == "failure" else {}
        metrics = {"durationMs": took, "producedBytes": 5}
        self.tell("platform.runtimeDone", requestId=name, status=status, metrics=metrics, spans=spans, **more)
        used = self.used() // 1024
        metrics = {
            "durationMs": took,
            "billedDurationMs": int(took) + 1,
            "memorySizeMB": self.limit_kib // 1024,
            **({"maxMemoryUsedMB": used, "initDurationMs": 120.25} if self.done == 1 else {"maxMemoryUsedMB": used}),
        }
        self.tell("platform.report", requestId=name, status=status, metrics=metrics, **more)
        if rolls.chance(30):
            self.tell("platform.logsDropped", droppedRecords=rolls.scale(100), droppedBytes=5, reason="slow")
        k.kernel.at(k.kernel.now + rolls.scale(500) * k.US, self.go_on)

    def end(self, reason: str = "") -> None:  # type: ignore[override]
        """SHUTDOWN, as soon as the extension asks."""
        if not self.is_ending:
            self.is_ending = True
            self.last_reason = reason or self.rolls.pick(
                ("spindown", "spindown", "timeout", "failure", "SandboxTerminated")
            )
            k.kernel.at(k.kernel.now + self.rolls.scale(20) * k.MS, self._say_shutdown)

    def _say_shutdown(self) -> None:
        if self.next_wires:
            event = self._event("SHUTDOWN", shutdownReason=self.last_reason)
            if self.rolls.chance(700):
                event = event.replace(b'"eventType":null', b'"eventType":"SHUTDOWN"')
            http.answer(self.rolls, self.next_wires.pop(), 200, event, mangles=self.api_mangles // 2)

    # Telemetry

    def tell(self, kind: str, **record: Any) -> None:
        rolls = self.rolls
        if self.telemetry_at is None:
            return
        if rolls.chance(self.odd // 2):
            return
        for name in [*record]:
            if rolls.chance(self.odd // 6):
                record[name] = self.value()
        self.unsaid.append({"time": self._time(), "type": kind, "record": record})
        if rolls.chance(self.odd // 4):
            self.unsaid.insert(rolls.below(len(self.unsaid)), self.unsaid[-1])
        delay = rolls.pick((k.MS, 25 * k.MS, 25 * k.MS, 300 * k.MS, 3 * k.S if self.odd else k.MS))
        k.kernel.at(k.kernel.now + delay, self._deliver)

    def _time(self) -> str:
        ns = k.kernel.epoch()
        if self.rolls.chance(self.odd // 8):
            return text(self.rolls)
        days, ms = divmod(ns // k.MS, 86_400_000)
        year, day = divmod(days - 20_454, 365)  # days of 2026, without leap years
        month = (day % 365) // 31 % 12
        clock = b"%04d-%02d-%02dT%02d:%02d:%02d.%03dZ" % (
            *((2026 + year) % 10_000, month + 1, day % 28 + 1),
            *(ms // 3_600_000, ms // 60_000 % 60, ms // 1000 % 60, ms % 1000),
        )
        return clock.decode()

    def _deliver(self) -> None:
        if not self.unsaid or self.telemetry_at is None:
            return
        rolls = self.rolls
        port, path = self.telemetry_at
        listening = k.kernel.bound.get(port)
        if listening is None:
            return
        events, self.unsaid = self.unsaid, []
        if rolls.chance(self.odd // 2):
            events.reverse()
        if rolls.chance(self.odd // 4):
            events.append(self.value())
        body = http.dumps(events)
        if rolls.chance(self.telemetry_mangles):
            body = mangled(rolls, body)
        start = b"POST %s HTTP/1.1" % (b"/other" if rolls.chance(self.odd // 4) else path)
        data = http.framed(rolls, start, body, b"Host: x\r\nContent-Type: application/json\r\n")
        if rolls.chance(self.telemetry_mangles // 8):
            data = mangled(rolls, data)
        wire = self.telemetry_wire
        if wire is None or wire.closed or wire.broken or wire.eof or rolls.chance(30):
            wire = self.telemetry_wire = k.Wire(TelemetrySender(self, 5000), 10_000)
            listening.backlog.append(wire)
        http.send(rolls, wire, data)
        if rolls.chance(10):
            wire.hang_up(k.MS)
