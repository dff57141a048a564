"""On Managed Instances nothing that happens keeps the sidecar from answering SHUTDOWN, or ends it before."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
import requests
from truemem.config import Config
from truemem.lifecycle import machine
from truemem.lifecycle.loop import LoopParts
from truemem.lifecycle.window_closer import KillPlacement
from truemem.linux.cgroup import MemorySource, OomKills
from truemem.linux.process_table import FUNCTION, Process
from truemem.linux.procfs import Procfs
from truemem.managed import ManagedInstances
from truemem.managed.requests import Request, Requests
from truemem.managed.segments import RESOLUTION_NS
from truemem.measure.environment_memory import EnvironmentMemory
from truemem.measure.recorder import Recorder
from truemem.measure.watermark import ProcessReadings
from truemem.measure.window import Window, current
from truemem.platform.exact_mode import PassingInvocation
from truemem.platform.extensions_api import ApiError
from truemem.platform.telemetry import TelemetryServer
from truemem.records.pending_record import PendingRecord
from truemem.support.clock import Clock
from truemem.support.log import set_level

from tests.records import wings_of
from tests.unit.stand_ins import FunctionTable

PATIENCE_S = 30

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def fresh_log() -> None:
    """One process, one log: other tests have their own settings of it, and use it up."""
    set_level("info")


class Api:
    """The Extensions API, in this process."""

    def __init__(self) -> None:
        self._ours, self._theirs = socket.socketpair()
        self._ours.setblocking(False)
        self.waiting = self.is_down = False
        self.asked_at: list[float] = []
        """Monotonic seconds of each request for an event."""
        self.failing = 0
        """So many of the next events cannot be received."""
        self.refusing = 0
        """So many of the next requests for an event cannot be sent."""
        self.pause_s = 0.0
        self.overdue_at = float("inf")
        self.arrived_ns: int | None = None

    @property
    def asked(self) -> int:
        return len(self.asked_at)

    @property
    def descriptor(self) -> int:
        return self._ours.fileno()

    def send_next(self) -> None:
        self.asked_at.append(time.monotonic())
        if self.refusing:
            self.refusing -= 1
            raise ApiError("event/next: refused")
        self.waiting = True

    def receive_event(self, note: Callable[[bytes], None]) -> bytes:
        if time.monotonic() >= self.overdue_at:
            self.waiting, self.overdue_at = False, float("inf")
            raise ApiError("event/next: the rest of the answer does not come")
        try:
            body = self._ours.recv(4096)
        except BlockingIOError:
            return b""
        note(body)
        self.waiting = False
        if self.failing:
            self.failing -= 1
            raise ApiError("event/next: broken")
        return body

    def send(self, event: bytes) -> None:
        self._theirs.sendall(event)

    def shut_down(self, reason: str = "spindown", within_ms: int = 2000) -> None:
        self.is_down = True
        deadline = round(time.time() * 1000) + within_ms
        event = {"eventType": "SHUTDOWN", "shutdownReason": reason, "deadlineMs": deadline}
        self.send(json.dumps(event).encode())

    def close(self) -> None:
        self._ours.close()
        self._theirs.close()


class Table(FunctionTable):
    @property
    def last_pid(self) -> int:
        return Procfs().last_pid()


class HeldClock(Clock):
    """Stands still until `go`: the sidecar waits for as long as a busy machine needs."""

    def __init__(self) -> None:
        self._held_ns = time.monotonic_ns()
        self.monotonic_ns = lambda: self._held_ns

    def go(self) -> None:
        self.monotonic_ns = time.monotonic_ns


class FailingRecorder(Recorder):
    """Cannot read."""

    def read_and_reset(self, at_rest: bool = False, most: int = 0) -> ProcessReadings:
        raise RuntimeError("a bug")


class Running:
    """A sidecar in a thread, and the platform's side of it."""

    def __init__(
        self,
        listener: TelemetryServer | None,
        clock: Clock | None = None,
        kills: object = None,
        recorder: type[Recorder] = Recorder,
        **settings: str,
    ) -> None:
        self.api = Api()
        self.listener = listener
        proc = Procfs()
        self.table = Table(Process(os.getpid(), 1, 1, FUNCTION, proc.process(os.getpid())))
        table: Any = self.table
        level = MemorySource(proc)
        chosen = {f"TRUEMEM_{name}".encode(): value.encode() for name, value in settings.items()}
        environ = {b"AWS_LAMBDA_FUNCTION_NAME": b"f", b"TRUEMEM_CPU_BUDGET": b"50", **chosen}
        config = Config(environ)
        api: Any = self.api
        counted: Any = kills or OomKills(level)
        about = config, table, recorder(table, proc), EnvironmentMemory(table, level), counted
        self.sidecar = ManagedInstances(
            LoopParts(api, listener, "not here", *about, None, clock or Clock(), wings=wings_of(environ))
        )
        self._thread = threading.Thread(target=self.sidecar.run, daemon=True)

    def __enter__(self) -> Running:
        self._thread.start()
        wait_until(lambda: self.api.waiting)
        known_from = time.time_ns() + 2 * RESOLUTION_NS
        wait_until(lambda: time.time_ns() > known_from)
        return self

    def __exit__(self, *_: object) -> None:
        """Shut down, if the test has not done so."""
        if not self.api.is_down:
            self.api.shut_down()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()
        self.api.close()

    def deliver(self, body: bytes) -> int:
        """As the platform does; the status of the answer."""
        assert self.listener is not None
        url = f"http://127.0.0.1:{self.listener.port}{self.listener.path}"
        return requests.post(url, body, timeout=PATIENCE_S).status_code

    def tell(self, kind: str, request_id: str, **record: Any) -> None:
        stamp = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        event = {"time": stamp, "type": kind, "record": {"requestId": request_id, **record}}
        assert self.deliver(json.dumps([event]).encode()) == 200

    def ends(self, request_id: str, **record: Any) -> None:
        """It has begun and ended: status and the rest of its report."""
        self.tell("platform.start", request_id)
        self.tell("platform.report", request_id, **record)


def wait_until(what: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not what():
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.005)


def lines(capfd: Capture) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capfd.readouterr().out.splitlines()]


def test_a_request_that_runs_at_shutdown_has_no_report(capfd: Capture) -> None:
    with Running(TelemetryServer()) as running:
        running.ends("a", status="success", metrics={"durationMs": 1.5})
        wait_until(lambda: running.sidecar._requests.running() == 0)
        running.tell("platform.start", "b")
    first, second = lines(capfd)
    assert (first["requestId"], first["status"], first["durationMs"], first["sharedBy"]) == ("a", "success", 1.5, 1)
    assert (second["requestId"], second["reportMissing"]) == ("b", True)
    assert first["peakUpper"] >= first["PeakRSS"] >= 10
    assert second["PeakRSS"] >= 10


@pytest.mark.parametrize("gone", [False, True])
def test_what_is_held_after_the_functions_end_is_not_printed(capfd: Capture, gone: bool) -> None:
    with Running(TelemetryServer()) as running:
        running.tell("platform.start", "a")
        wait_until(lambda: running.sidecar._requests.running() == 1)
        if gone:
            running.table.processes.clear()
    (line,) = lines(capfd)
    assert ("used" in line["environment"]) == (not gone)
    assert line["environment"]["source"]


def test_what_was_read_before_the_request_is_not_its_own(capfd: Capture) -> None:
    """An environment of some ms: nothing was read between its init phase and its end."""
    with Running(TelemetryServer()) as running:
        wait_until(lambda: running.sidecar._segments.recorder.whole is not None)
        running.table.processes.clear()
        made = running.sidecar._segments.segments
        wait_until(lambda: (last := made.at(time.time_ns())) is not None and not (last.window and last.window.closing))
        running.ends("a", status="success", metrics={"durationMs": 1.5})
    (line,) = lines(capfd)
    assert (line["requestId"], line["status"]) == ("a", "success")
    assert not {"PeakRSS", "CurrentRSS", "peakUpper"} & set(line)


def test_a_report_that_comes_after_shutdown_is_waited_for(capfd: Capture) -> None:
    clock = HeldClock()
    with Running(TelemetryServer(), clock) as running:
        running.tell("platform.start", "a")
        running.api.shut_down(within_ms=10 * PATIENCE_S * 1000)
        wait_until(lambda: not running.api.waiting)  # SHUTDOWN is read
        running.tell("platform.report", "a", status="success", metrics={"durationMs": 1.5})
        clock.go()
    (line,) = lines(capfd)
    assert (line["requestId"], line["status"], line.get("reportMissing")) == ("a", "success", None)


def test_what_has_not_ended_in_exact_mode_ends_with_its_report(capfd: Capture) -> None:
    """Its worker has died, and asks for no other event. An instance lives for 14 days."""
    connection: Any = None
    invocation = PassingInvocation(connection)
    invocation.request_id = "a"
    running = Running(TelemetryServer())
    exact = running.sidecar._exact
    exact.running = [invocation]
    running.sidecar._requests.began(invocation, time.time_ns())
    with running:
        running.ends("a", status="error")
        wait_until(lambda: "requestId" in capfd.readouterr().out)
        assert exact.running == []


def test_what_waits_to_share_a_line_is_printed_at_shutdown(capfd: Capture) -> None:
    with Running(TelemetryServer(), AGGREGATE="300") as running:
        for name in ("a", "b", "c"):
            running.ends(name, status="success", metrics={"durationMs": 1.5})
    first, rest = lines(capfd)  # a cold start is of interest
    assert (first["requestId"], rest["aggregate"]["requestId"]) == ("a", "b c")


def test_only_what_lies_within_segments_has_been_seen() -> None:
    """Else a request would be printed before its own last moments are known."""
    asked: list[tuple[int, int]] = []
    running = Running(TelemetryServer())
    requests, segments = running.sidecar._requests, running.sidecar._segments.segments
    take = requests.ended

    def ended(until_ns: int) -> list[Request]:
        last = segments.at(time.time_ns())
        assert last is not None
        asked.append((until_ns, last.end_ns))
        return take(until_ns)

    requests.ended = ended  # type: ignore[method-assign]
    with running:
        running.ends("a", status="success")
        wait_until(lambda: len(asked) > 3)
    assert all(until_ns + RESOLUTION_NS <= end_ns for until_ns, end_ns in asked)


@pytest.mark.parametrize(("status", "signals"), [("timeout", ["kernel"]), ("success", None)])
def test_a_kill_is_that_of_a_request_that_failed(capfd: Capture, status: str, signals: Any) -> None:
    running = Running(TelemetryServer(), kills=SimpleNamespace(seen=0, more=lambda: 1))  # one more each time
    worker = subprocess.Popen(["sleep", "600"])
    running.table.processes.append(Process(worker.pid, 1, 1, FUNCTION, Procfs().process(worker.pid)))
    with running:
        running.tell("platform.start", "a")
        request = running.sidecar._requests._running
        wait_until(lambda: bool(request))
        worker.kill()
        worker.wait()
        wait_until(lambda: request["a"].kills > 0)
        running.tell("platform.report", "a", status=status)
    (line,) = lines(capfd)
    assert line.get("outOfMemory", {}).get("signals") == signals


KILLED = (1, False, 0, 0)
PLACED: dict[str, tuple[list[tuple[int | None, bool, int, int]], tuple[int, int]]] = {
    "it has ended": ([(1, True, 0, 0)], (1, 0)),
    "it ends in the next segment": ([KILLED, (0, True, 0, 20)], (1, 0)),
    "one may have come and gone": ([KILLED, (0, False, 3, 20)], (1, 0)),
    "it may still end": ([KILLED, (0, False, 0, 400)], (0, 0)),
    "none has": ([KILLED, (0, False, 0, 501)], (0, 1)),
    "and who ends later was not it": ([KILLED, (0, False, 0, 501), (0, True, 0, 20)], (0, 1)),
    "nothing counts": ([(None, True, 0, 0)], (0, 0)),
}
"""Of each segment: kills that were counted, whether a process ended, pids given out, ms after the one before. And the
kills that are told: of the function, of the environment."""


@pytest.mark.parametrize("name", PLACED)
def test_a_kill_is_the_functions_if_its_process_ends_soon(name: str) -> None:
    segments, told = PLACED[name]
    now_ns = 0
    counts = iter([killed for killed, *_ in segments])
    kernel: Any = SimpleNamespace(more=lambda: next(counts))
    placement = KillPlacement(kernel)
    requests = Requests()
    request = requests._running["a"] = Request(PendingRecord("a", 1, 0), 0)
    for _, ended, born, after_ms in segments:
        now_ns += after_ms * 1_000_000
        window = Window(process_exited=ended, born=born, births=born)
        requests.killed(*placement.settled(window, now_ns, is_last=False))
    assert (request.kills, request.environment_kills) == told


def test_an_ended_function_leaves_its_last_level() -> None:
    running = Running(None)
    cutter, table = running.sidecar._segments.recorder, running.table
    alive = cutter.end_segment().window
    assert alive is not None
    table.processes.clear()
    for _ in range(3):
        window = cutter.end_segment().window
        assert window is not None
        assert not window.closing
        assert current(window) == current(alive) > 0
    running.api.close()


def test_what_cannot_be_understood_is_counted(capfd: Capture) -> None:
    with Running(TelemetryServer()) as running:
        for garbage in (b"{", b'{"a":1}', b'[1,{"type":2}]'):
            assert running.deliver(garbage) == 200
        running.ends("a")
    (line,) = lines(capfd)
    assert line["dropped"] == 4


@pytest.mark.parametrize(
    ("arrival", "said"),
    [({"failing": 1}, "event/next: broken"), ({"overdue_at": 0.0}, "the rest of the answer does not come")],
    ids=["it cannot be received", "its rest does not come"],
)
def test_an_event_that_is_not_received_is_asked_for_again(capfd: Capture, arrival: dict[str, Any], said: str) -> None:
    with Running(TelemetryServer()) as running:
        vars(running.api).update(arrival)
        running.api.send(b"broken")
        wait_until(lambda: running.api.asked == 2)
    assert said in capfd.readouterr().err


@pytest.mark.parametrize("listener", [None, TelemetryServer])
def test_next_that_cannot_be_sent_is_tried_again_after_a_pause(listener: type[TelemetryServer] | None) -> None:
    running = Running(listener() if listener else None)
    running.api.refusing, running.api.pause_s = 2, 0.3
    with running:
        first, second, third = running.api.asked_at
    assert min(second - first, third - second) >= 0.29


def test_in_the_pause_all_else_goes_on(capfd: Capture) -> None:
    running = Running(TelemetryServer())
    running.api.failing = 1
    with running:
        running.api.pause_s = PATIENCE_S
        running.api.send(b"broken")
        wait_until(lambda: not running.api.waiting)
        running.ends("a", status="success")
        wait_until(lambda: "requestId" in capfd.readouterr().out)
        assert running.api.asked == 1
        running.api.pause_s = 0.0
        running.sidecar._loop.pending.ask_at_ns = time.monotonic_ns()
        wait_until(lambda: running.api.waiting)


def test_a_fault_of_our_own_is_said_and_the_loop_goes_on(capfd: Capture) -> None:
    with Running(TelemetryServer(), recorder=FailingRecorder) as running:
        running.ends("a")
    captured = capfd.readouterr()
    assert "truemem ERROR RuntimeError in tests.managed.test_managed.read_and_reset" in captured.err
    line = json.loads(captured.out)
    assert line["requestId"] == "a"
    assert "PeakRSS" not in line
    assert line["dropped"] >= 1


def test_an_event_that_is_no_json_ends_it_all_the_same() -> None:
    with Running(TelemetryServer()) as running:
        running.api.send(b'"SHUTDOWN"')
        running.api.is_down = True


def test_without_telemetry_it_only_waits(capfd: Capture) -> None:
    with Running(None) as running:
        running.api.shut_down("failure")
    captured = capfd.readouterr()
    assert captured.out == ""
    assert "telemetry=not here: on Managed Instances" in captured.err


def test_without_telemetry_no_segment_is_ever_due() -> None:
    """However long it runs: a tick that stays due would keep the loop busy."""
    running = Running(None)
    segments = running.sidecar._segments
    segments.end_if_affordable()
    assert segments.segments.at(time.time_ns()) is None
    assert segments.due_ns() > time.monotonic_ns() + 365 * 86_400 * 1_000_000_000
    running.api.close()


def test_it_can_do_all_that_the_machine_says() -> None:
    running = Running(None)
    own = {machine.ASK_NEXT, machine.RECEIVE, machine.TAKE_DELIVERIES, machine.SEND_RECORDS}
    says = {name for actions, _ in machine.TRANSITIONS[machine.MANAGED].values() for name in actions}
    assert set(running.sidecar.actions) == says - own
    running.api.close()
