"""The smallest possible APIs for one extension, and in exact mode a runtime, so that only the extension is measured.

One thread with blocking sockets answers each request at once, and notes its time. The local Lambda would be slower than
what it is to measure.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from urllib.parse import urlsplit

from truemem.config import VCPU_MIB

TELL_S = 2.0
"""Telemetry that is not taken after this time is dropped, as the platform does."""

WAIT_S = 20.0
"""Longest wait in seconds. Then TimeoutError is raised."""

LOOK_S = 0.02
"""So often is looked whether the extension lives, where that is asked for."""

IDENTIFIER = b"Lambda-Extension-Identifier: 00000000-0000-0000-0000-000000000001\r\n"


class BareApi:
    """One environment's APIs, for one extension."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._server = socket.create_server(("127.0.0.1", 0), backlog=64)
        self._selector.register(self._server, selectors.EVENT_READ)
        self._received: dict[socket.socket, bytes] = {}
        self._next: socket.socket | None = None
        self._telemetry: socket.socket | None = None
        self.registering: Callable[[], None] = lambda: None
        """Called when `register` has come, before it is answered: the extension waits."""
        self.at_ns: dict[str, int] = {}
        """When the last request of each kind had come: `register`, `telemetry`, `next`. Monotonic ns."""
        self.listener: tuple[str, int] | None = None
        """Where the extension takes telemetry."""
        self._path = "/"
        self._asking: socket.socket | None = None
        """The runtime's connection that waits for an event."""
        self._event: tuple[str, bytes] | None = None
        """Request id and body, until it is answered: a runtime that asks again gets it again, as in Lambda."""
        self._answered: dict[str, bytes] = {}
        self.address = f"127.0.0.1:{self._server.getsockname()[1]}"

    def wait_for_next(self, alive: Callable[[], bool] | None = None) -> int:
        """Serve until the extension asks for its next event; when it did. Raises ConnectionError once it is not
        `alive` any more."""
        self._serve_until(lambda: self._next is not None, "the extension has not asked for an event", alive)
        return self.at_ns["next"]

    def wait_for_runtime(self, alive: Callable[[], bool] | None = None) -> None:
        """Serve until the runtime asks for its event. Raises as `wait_for_next` does."""
        self._serve_until(lambda: self._asking is not None, "the runtime has not asked for an event", alive)

    def wait_for_answer(self, request_id: str, alive: Callable[[], bool] | None = None) -> bytes:
        """Serve until the runtime has answered that event; its answer. Raises as `wait_for_next` does."""
        self._serve_until(lambda: request_id in self._answered, "the runtime has not answered", alive)
        return self._answered.pop(request_id)

    def _serve_until(self, condition: Callable[[], bool], otherwise: str, alive: Callable[[], bool] | None) -> None:
        deadline = time.monotonic() + WAIT_S
        while not condition():
            left = deadline - time.monotonic()
            ready = self._selector.select(min(left, LOOK_S) if alive is not None else left)
            if alive is not None and not alive():
                raise ConnectionError("the extension has ended")
            if not ready and time.monotonic() >= deadline:
                raise TimeoutError(f"{otherwise} in {WAIT_S:g} s; so far {self.at_ns}")
            for key, _ in ready:
                assert isinstance(key.fileobj, socket.socket)
                self._serve(key.fileobj)

    def invoke(self, request_id: str, timeout_ms: int = 60_000) -> int:
        """Send INVOKE to the extension that waits; when it was sent."""
        return self._send(
            {
                "eventType": "INVOKE",
                "deadlineMs": time.time_ns() // 1_000_000 + timeout_ms,
                "requestId": request_id,
                "invokedFunctionArn": "arn:aws:lambda:eu-central-1:123456789012:function:bare",
                "tracing": {"type": "X-Amzn-Trace-Id", "value": ""},
            }
        )

    def hand(self, request_id: str, body: bytes) -> None:
        """An event for the runtime, as soon as it asks for one."""
        self._event = request_id, body
        self._deliver()

    def shut_down(self) -> int:
        """Send SHUTDOWN; when it was sent."""
        event = {"eventType": "SHUTDOWN", "shutdownReason": "spindown"}
        return self._send({**event, "deadlineMs": time.time_ns() // 1_000_000 + 2000})

    def tell(self, *events: Mapping[str, object]) -> None:
        """Deliver telemetry, over a kept connection. Raises OSError if it is not taken."""
        if self.listener is None:
            return
        if self._telemetry is None:
            self._telemetry = socket.create_connection(self.listener, TELL_S)
        answer = b""
        try:
            self._telemetry.sendall(_post(self._path, json.dumps(events).encode()))
            answer = self._telemetry.recv(4096)
        finally:
            if not answer:  # broken, or hangs up after each answer
                self._telemetry.close()
                self._telemetry = None

    def begin_again(self) -> None:
        """The extension has ended, and another process of it is to come: at the same address, as after a reset."""
        for connection in list(self._received):
            self._forget(connection)
        if self._telemetry is not None:
            self._telemetry.close()
        self._next = self._telemetry = self.listener = self._event = None
        self.at_ns.clear()

    def close(self) -> None:
        """Give the sockets back."""
        for made in (self._server, *self._received, *([self._telemetry] if self._telemetry else [])):
            made.close()
        self._selector.close()

    def _send(self, event: Mapping[str, object]) -> int:
        assert self._next is not None, "the extension is not waiting"
        asking, self._next = self._next, None
        body = json.dumps(event).encode()
        sent_ns = time.monotonic_ns()
        asking.sendall(_answer(body, b"Lambda-Extension-Event-Identifier: 1\r\n"))
        return sent_ns

    def _serve(self, ready: socket.socket) -> None:
        if ready is self._server:
            made, _ = ready.accept()
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._received[made] = b""
            self._selector.register(made, selectors.EVENT_READ)
            return
        try:
            data = ready.recv(65536)
        except ConnectionResetError:  # killed with something unread
            data = b""
        at_ns = time.monotonic_ns()
        if not data:
            self._forget(ready)
            return
        text = self._received[ready] + data
        head, ended, body = text.partition(b"\r\n\r\n")
        length = next(
            (int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0
        )
        if not ended or len(body) < length:
            self._received[ready] = text
            return
        self._received[ready] = b""
        path = head.split(b" ", 2)[1]
        if path.endswith(b"/register"):
            self.at_ns["register"] = at_ns
            self.registering()
            ready.sendall(_answer(b'{"functionName":"bare"}', IDENTIFIER))
        elif path.endswith(b"/telemetry"):
            self.at_ns["telemetry"] = at_ns
            uri = urlsplit(json.loads(body)["destination"]["URI"])
            self.listener = ("127.0.0.1", uri.port or 80)
            self._path = uri.path or "/"
            ready.sendall(_answer(b"OK", b""))
        elif path.endswith(b"/runtime/invocation/next"):
            self._asking = ready
            self._deliver()
        elif path.endswith(b"/response"):
            request_id = path.split(b"/")[-2].decode()
            self._answered[request_id] = body[:length]
            if self._event is not None and self._event[0] == request_id:
                self._event = None
            self._tell_runtime(ready, _answer(b'{"status":"OK"}', b""))
        else:
            self.at_ns["next"] = at_ns
            self._next = ready

    def _deliver(self) -> None:
        if self._asking is not None and self._event is not None:
            request_id, body = self._event
            asking, self._asking = self._asking, None
            headers = f"Lambda-Runtime-Aws-Request-Id: {request_id}\r\nLambda-Runtime-Deadline-Ms: 0\r\n"
            self._tell_runtime(asking, _answer(body, headers.encode()))

    def _tell_runtime(self, connection: socket.socket, answer: bytes) -> None:
        """Should it be gone, it asks again."""
        try:
            connection.sendall(answer)
        except OSError:
            self._forget(connection)

    def _forget(self, connection: socket.socket) -> None:
        self._selector.unregister(connection)
        del self._received[connection]
        connection.close()
        if self._next is connection:
            self._next = None
        if self._asking is connection:
            self._asking = None


def _post(path: str, body: bytes) -> bytes:
    return b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (path.encode(), len(body), body)


def _answer(body: bytes, headers: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n\r\n%s" % (
        headers,
        len(body),
        body,
    )


class Extension:
    """One extension under a BareApi, from exec to its end."""

    def __init__(
        self,
        command: Sequence[str | Path],
        variables: Mapping[str, str] | None = None,
        stdin: str | Path = os.devnull,
        errors: bool = True,
    ) -> None:
        """`stdin` is a file's path. Without `errors` what it says on stderr is dropped."""
        self.api = BareApi()
        environment = {
            "PATH": os.defpath,
            "AWS_LAMBDA_RUNTIME_API": self.api.address,
            "AWS_LAMBDA_FUNCTION_NAME": "bare",
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "1769",
            **(variables or {}),
        }
        arguments = [str(part) for part in command]
        quiet = [
            (os.POSIX_SPAWN_OPEN, 0, str(stdin), os.O_RDONLY, 0),
            *(
                (os.POSIX_SPAWN_OPEN, descriptor, os.devnull, os.O_WRONLY, 0)
                for descriptor in ((1,) if errors else (1, 2))
            ),
        ]
        self.began_ns = time.monotonic_ns()
        self.pid = os.posix_spawn(arguments[0], arguments, environment, file_actions=quiet)

    def __enter__(self) -> Extension:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        self.api.close()

    def ms_since_exec(self, kind: str) -> float:
        """When its last request of that kind came."""
        return (self.api.at_ns[kind] - self.began_ns) / 1e6

    def memory_kib(self) -> dict[str, int]:
        """The sums of /proc/PID/smaps_rollup (proc_pid_smaps(5)) in KiB."""
        lines = Path(f"/proc/{self.pid}/smaps_rollup").read_text().splitlines()[1:]
        return {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines)}

    def read_kib(self) -> int:
        """What was read from disk for it, in KiB (read_bytes of /proc/PID/io, proc_pid_io(5))."""
        lines = Path(f"/proc/{self.pid}/io").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("read_bytes:")) // 1024

    def cpu_ns(self) -> int:
        """See the function."""
        return cpu_ns(self.pid)


def cpu_ns(pid: int) -> int:
    """CPU time of a process so far, of all its threads (clock_getcpuclockid(3))."""
    return time.clock_gettime_ns(~pid << 3 | 2)


FUNCTION = """
import json, os, sys, threading, time
settings = json.loads(sys.argv[1])
held = bytearray(settings["mib"] << 20)
for at in range(0, len(held), 4096):
    held[at] = 1
for _ in range(settings["threads"] - 1):
    threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()
children = []
for _ in range(settings["processes"] - 1):
    children.append(os.fork())
    if not children[-1]:
        time.sleep(3600)
print("ready", flush=True)
sys.stdin.read()
for child in children:
    os.kill(child, 9)
    os.waitpid(child, 0)
os._exit(0)
"""


class FunctionProcesses:
    """What stands for a function: processes with a runtime's environment, which hold memory and sleep."""

    def __init__(self, address: str, mib: int = 1, threads: int = 1, processes: int = 1) -> None:
        environment = {"AWS_LAMBDA_RUNTIME_API": address, "_HANDLER": "bare.handler", "LAMBDA_TASK_ROOT": "/var/task"}
        settings = json.dumps({"mib": mib, "threads": threads, "processes": processes})
        self._process = subprocess.Popen(
            [sys.executable, "-IS", "-c", FUNCTION, settings],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout is not None
        if self._process.stdout.readline() != b"ready\n":
            raise RuntimeError("the function's processes do not start")

    def __enter__(self) -> FunctionProcesses:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate(b"")


RUNTIME = """
import http.client, os
from concurrent.futures import ThreadPoolExecutor
host, _, port = os.environ["AWS_LAMBDA_RUNTIME_API"].rpartition(":")
api = http.client.HTTPConnection(host, int(port))
def ask(method, path, body=None):
    api.request(method, "/2018-06-01/runtime/invocation/" + path, body)
    answer = api.getresponse()
    return answer.headers.get("Lambda-Runtime-Aws-Request-Id"), answer.read()
while True:
    with ThreadPoolExecutor(max_workers=1) as poll:
        asked = poll.submit(ask, "GET", "next")
    name, event = asked.result()
    ask("POST", name + "/response", event)
"""


class Runtime:
    """A runtime that answers each event with itself, started by the wrapper of exact mode. It asks for each event from
    a thread made for that, as AWS's client does from Python 3.12 on."""

    def __init__(self, address: str, wrapper: Path) -> None:
        environment = {"AWS_LAMBDA_RUNTIME_API": address, "_HANDLER": "bare.handler", "LAMBDA_TASK_ROOT": "/var/task"}
        command = [str(wrapper), sys.executable, "-IS", "-c", RUNTIME]
        self._process = subprocess.Popen(command, env=environment)

    def __enter__(self) -> Runtime:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()


def telemetry(request_id: str) -> list[dict[str, object]]:
    """What the platform says about one invocation."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    metrics = {"durationMs": 1.5, "billedDurationMs": 2, "memorySizeMB": VCPU_MIB, "maxMemoryUsedMB": 60}
    known: dict[str, object] = {"requestId": request_id}
    return [
        {"time": now, "type": "platform.start", "record": {**known, "version": "$LATEST"}},
        {"time": now, "type": "platform.runtimeDone", "record": {**known, "status": "success", "metrics": metrics}},
        {"time": now, "type": "platform.report", "record": {**known, "status": "success", "metrics": metrics}},
    ]


def descriptors(pid: int) -> int:
    """Open file descriptors."""
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


CPU_PERIOD_US = 20_000
"""Of the cpu cgroup: the granularity in which a share of a CPU is dealt out. A share of it must be 1 ms at least."""


@contextmanager
def confined(pids: Sequence[int], share: float, name: str = "") -> Iterator[bool]:
    """Confine processes to a share of one CPU (cgroup v1, cpu.cfs_quota_us); False if that is not permitted."""
    group = Path(f"/sys/fs/cgroup/cpu/truemem-bench-{os.getpid()}{name}")
    try:
        group.mkdir()
        (group / "cpu.cfs_period_us").write_text(str(CPU_PERIOD_US))
        (group / "cpu.cfs_quota_us").write_text(str(round(CPU_PERIOD_US * share)))
        for pid in pids:
            (group / "cgroup.procs").write_text(str(pid))
    except OSError:
        yield False
        return
    try:
        yield True
    finally:
        for member in group.joinpath("cgroup.procs").read_text().split():
            (group.parent / "cgroup.procs").write_text(member)
        group.rmdir()
