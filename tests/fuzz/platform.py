"""A Lambda platform that keeps to nothing: it answers the real sidecar's requests with a script."""

import json
import os
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from truemem.linux.procfs import Procfs

from testing.environment import SIDECAR

PATIENCE_S = 60
"""Longest wait for anything, on a machine that does other things as well."""


@dataclass(frozen=True)
class Answer:
    """What goes over the wire, and what becomes of the connection."""

    data: bytes
    then: str = "keep"
    """`keep`, `close` or `reset`."""
    piece: int = 1 << 20
    """Sent at once, in bytes."""
    when: threading.Event | None = None
    """Not sent before this."""


def response(status: int, body: bytes, headers: str = "") -> bytes:
    return f"HTTP/1.1 {status} X\r\n{headers}Content-Length: {len(body)}\r\n\r\n".encode() + body


def invoke(request_id: str) -> bytes:
    event = {"eventType": "INVOKE", "requestId": request_id, "deadlineMs": int(time.time() * 1000) + 60_000}
    return response(200, json.dumps(event).encode())


def shutdown() -> bytes:
    event = {"eventType": "SHUTDOWN", "shutdownReason": "spindown", "deadlineMs": int(time.time() * 1000) + 2000}
    return response(200, json.dumps(event).encode())


REGISTERED = Answer(response(200, b"{}", "Lambda-Extension-Identifier: 7\r\n"))
SUBSCRIBED = Answer(response(200, b'"OK"'))


class Platform:
    """Serves one sidecar. Each `next` gets the next of `events`, and SHUTDOWN when there are no more and `end` was
    called."""

    def __init__(
        self,
        events: Sequence[Answer],
        *,
        registers: Sequence[Answer] = (),
        subscribed: Answer = SUBSCRIBED,
        shutdown: bytes = b"",
        sidecar: Path = SIDECAR,
        variables: Mapping[bytes, bytes] | None = None,
        stderr: int = subprocess.PIPE,
    ) -> None:
        self._events = list(events)
        self._registers = [*registers, REGISTERED]
        self._subscribed = subscribed
        self._shutdown = shutdown
        self._ending = threading.Event()
        self.asked = threading.Semaphore(0)
        """Released at each request for the next event."""
        self.nexts = 0
        self.destination = ""
        """Where telemetry is to be delivered."""
        self.peak_kib = 0
        """Highest RSS of the sidecar, as of its end."""
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listening.getsockname()[1]}"
        self._serving = threading.Thread(target=self._serve, daemon=True)
        self._serving.start()
        # Of its own: another one, killed at the same port earlier, may have left its journal in /tmp.
        self._tmp = tempfile.TemporaryDirectory(dir="/tmp", ignore_cleanup_errors=True)
        environment = {
            b"PATH": os.environb[b"PATH"],
            b"TMPDIR": self._tmp.name.encode(),
            b"AWS_LAMBDA_RUNTIME_API": self.address.encode(),
            b"AWS_LAMBDA_FUNCTION_NAME": b"fuzzed",
            b"AWS_LAMBDA_FUNCTION_MEMORY_SIZE": b"512",
            b"TRUEMEM_LOG_LEVEL": b"info",
            **(variables or {}),
        }
        self.sidecar = subprocess.Popen([sidecar], env=environment, stdout=subprocess.PIPE, stderr=stderr, text=True)
        self._output: tuple[str, str | None] | None = None
        self._draining = threading.Thread(target=self._drain, daemon=True)
        self._draining.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.sidecar.poll() is None:
            os.kill(self.sidecar.pid, signal.SIGKILL)
        self._draining.join(PATIENCE_S)
        self._listening.close()
        self._tmp.cleanup()

    def wait_for_nexts(self, count: int) -> None:
        """Until so many more events were asked for."""
        for _ in range(count):
            assert self.asked.acquire(timeout=PATIENCE_S), self.told()

    def end(self) -> list[dict[str, Any]]:
        """Shut it down: its records. It must have gone without a word of its own failing."""
        self._ending.set()
        self._draining.join(PATIENCE_S)
        assert self._output is not None, "it does not end"
        stdout, stderr = self._output[0], self.told()
        assert self.sidecar.returncode == 0, stderr
        assert "Traceback" not in stderr, stderr
        assert "stopped measuring" not in stderr, stderr
        return [json.loads(line) for line in stdout.splitlines()]

    def serves(self, nexts: int) -> list[str]:
        """It asks so often for the next event, and is shut down: the request ids of its records."""
        self.wait_for_nexts(nexts)
        return [record["requestId"] for record in self.end()]

    def exit_code(self) -> int:
        """Of a sidecar that goes by itself."""
        self._draining.join(PATIENCE_S)
        return self.sidecar.wait(1)

    def told(self) -> str:
        """Its log so far, if it has ended."""
        return self._output[1] or "" if self._output is not None else "(it still runs)"

    def cpu_s(self) -> float:
        """CPU time that it has used."""
        fields = Path(f"/proc/{self.sidecar.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _drain(self) -> None:
        self._output = self.sidecar.communicate()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            with connection, suppress(OSError):
                while request := _request(connection):
                    answer = self._answer(request)
                    if answer.when is not None:
                        answer.when.wait(PATIENCE_S)
                    for start in range(0, len(answer.data), answer.piece):
                        connection.sendall(answer.data[start : start + answer.piece])
                    if answer.then == "reset":
                        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    if answer.then != "keep":
                        break

    def _answer(self, request: bytes) -> Answer:
        if b"/register " in request:
            return self._registers.pop(0)
        if b"/telemetry " in request:
            self.destination = json.loads(request.partition(b"\r\n\r\n")[2])["destination"]["URI"]
            return self._subscribed
        self.nexts += 1
        self.asked.release()
        if self._events:
            return self._events.pop(0)
        self._ending.wait(PATIENCE_S)
        self.peak_kib = Procfs().process(self.sidecar.pid).status().hwm
        return Answer(self._shutdown or shutdown())


def _request(connection: socket.socket) -> bytes:
    data = b""
    while True:
        head, end, body = data.partition(b"\r\n\r\n")
        if end:
            length = next((line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), b":0")
            if len(body) >= int(length.partition(b":")[2]):
                return data
        piece = connection.recv(65536)
        if not piece:
            return b""
        data += piece
