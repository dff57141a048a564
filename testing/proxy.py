"""Runs the real proxy between real sockets: both sides follow a script, and what each has seen is recorded."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from truemem.platform.exact_mode import ExactMode
from truemem.platform.proxy import HANDSHAKE_NAME, ProxyListener, RuntimeProxy

PATIENCE_S = 30
"""Longest wait for anything, on a machine that does other things as well."""

FOREVER_S = 1e9
"""The sidecar waits like that when there is nothing to do."""

INVOCATION = "/2018-06-01/runtime/invocation"
NEXT = f"GET {INVOCATION}/next HTTP/1.1\r\nHost: x\r\n\r\n".encode()
ACCEPTED = b'HTTP/1.1 202 Accepted\r\nContent-Length: 16\r\n\r\n{"status":"OK"}\n'


def event(request_id: str, body: bytes = b"{}") -> bytes:
    head = f"HTTP/1.1 200 OK\r\nLambda-Runtime-Aws-Request-Id: {request_id}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def answer(request_id: str, body: bytes = b"null") -> bytes:
    head = f"POST {INVOCATION}/{request_id}/response HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def wait_for(condition: Callable[[], object]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < until, "it never came about"
        time.sleep(0.001)


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def listen(backlog: int = 512) -> socket.socket:
    listening = socket.create_server(("127.0.0.1", 0), backlog=backlog)
    listening.settimeout(PATIENCE_S)
    return listening


def port_of(listening: socket.socket) -> int:
    port: int = listening.getsockname()[1]
    return port


def address_of(listening: socket.socket) -> str:
    return f"127.0.0.1:{port_of(listening)}"


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), PATIENCE_S)


def accept(listening: socket.socket) -> socket.socket:
    connection, _ = listening.accept()
    connection.settimeout(PATIENCE_S)
    return connection


def reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def read(connection: socket.socket, size: int) -> bytes:
    """Read this number of bytes; fewer if the connection ends."""
    data = bytearray()
    while len(data) < size and (piece := connection.recv(size - len(data))):
        data += piece
    return bytes(data)


class Proxy:
    """The proxy for the API at `address`, served by a thread."""

    def __init__(self, address: str, cut: Callable[[], Any] | None = None) -> None:
        self.api = address
        self.listener = ProxyListener(address)
        self.exact = ExactMode(cut)
        self.proxy = RuntimeProxy(self.listener, address, self.exact)
        self.port = self.listener.port
        self.raised: list[BaseException] = []
        """Exceptions of the proxy, which must not raise any."""
        self._waking, self._wake = socket.socketpair()
        self._over = False
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over = True
        self._wake.send(b"x")
        self._thread.join(PATIENCE_S)
        close(self.proxy, self.listener)
        self._waking.close()
        self._wake.close()
        assert kind is not None or self.raised == []

    @property
    def pairs(self) -> int:
        """Connections of the runtime that are served."""
        return len(self.proxy._ends) // 2

    def write(self, handshake: bytes) -> None:
        with handshake_with(self.api, self.port) as wrapper:
            wrapper.send(handshake)

    def wait_until_idle(self) -> None:
        wait_for(lambda: (not self.pairs and not self.exact.asking) or self.raised)

    def _serve(self) -> None:
        try:
            while not self._over:
                self.proxy.serve_until(self._waking.fileno(), FOREVER_S)
        except BaseException as error:
            self.raised.append(error)


def close(proxy: RuntimeProxy, listener: ProxyListener) -> None:
    """Close everything, as the kernel does at the end of a process."""
    for end in list(proxy._ends.values()):
        end.socket.close()
    listener.use_spares()
    listener.socket.close()
    listener.handshake.close()


@contextlib.contextmanager
def handshake_with(api: str, port: int) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as wrapper:
        wrapper.settimeout(PATIENCE_S)
        wrapper.connect(f"{HANDSHAKE_NAME}{api}/{port}".encode())
        yield wrapper


class Turns:
    """The proxy for the API at `address`, served step by step: what it holds can be looked at in between."""

    def __init__(self, address: str) -> None:
        self.listener = ProxyListener(address)
        self.proxy = RuntimeProxy(self.listener, address, ExactMode())
        self.port = self.listener.port

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        close(self.proxy, self.listener)

    def turn(self, wait_ms: int = 0) -> bool:
        """Serve what is ready; False if nothing was."""
        poll = select.poll()
        for descriptor, events in self.proxy.interests().items():
            poll.register(descriptor, events)
        ready = poll.poll(wait_ms)
        for descriptor, _ in ready:
            assert self.proxy.serve(descriptor)
        return bool(ready)

    def turn_until(self, condition: Callable[[], object]) -> None:
        until = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < until, "it never came about"
            self.turn(1)

    def held(self) -> list[int]:
        """Bytes in each direction of each connection."""
        return [len(end.unsent) for end in self.proxy._ends.values()]


def fill_descriptors() -> list[int]:
    """Open all remaining descriptors."""
    taken = []
    with contextlib.suppress(OSError):
        while True:
            taken.append(os.dup(0))
    return taken


AT_ONCE = 1 << 20

WATCHED_S = 10
"""Longest watch. It ends before the other side gives up to meet."""


class Send(NamedTuple):
    """Send bytes in pieces. Stop if the other side takes no more."""

    data: bytes
    piece: int = AT_ONCE


class Read(NamedTuple):
    """Read this number of bytes in pieces; fewer if the connection ends."""

    size: int
    piece: int = AT_ONCE


class ReadRest(NamedTuple):
    """Read until the connection ends."""

    piece: int = AT_ONCE


class SendAndRead(NamedTuple):
    """Both at the same time."""

    data: bytes
    size: int


class Wait(NamedTuple):
    """Do nothing: bytes pile up."""

    seconds: float = 0.01


class Expect(NamedTuple):
    """Wait until there is something to read, but do not read it."""


class Watch(NamedTuple):
    """Wait until the kernel says that the connection is gone. Read nothing, send nothing."""


class Meet(NamedTuple):
    """Wait for the other side."""


class HalfClose(NamedTuple):
    """Send no more."""


class Close(NamedTuple):
    """Close the connection. Unread bytes turn that into a reset."""


class Reset(NamedTuple):
    """Reset the connection."""


Step = Send | Read | ReadRest | SendAndRead | Wait | Expect | Watch | Meet | HalfClose | Close | Reset


@dataclass
class Received:
    """What one side has seen of the other."""

    data: bytearray = field(default_factory=bytearray)
    ending: str = ""
    """`EOF`, `reset`, or none up to the end of its script."""
    gone: bool = False
    """Has it been told, while it watched, that the connection is gone?"""

    @property
    def all(self) -> tuple[bytes, str]:
        return bytes(self.data), self.ending

    def __repr__(self) -> str:
        return f"{len(self.data)} bytes, {self.ending or 'no end'}"


class Side(threading.Thread):
    def __init__(self, opened: Callable[[], socket.socket], script: list[Step], meeting: threading.Barrier) -> None:
        super().__init__(daemon=True)
        self._opened = opened
        self._script = script
        self._meeting = meeting
        self.seen = Received()
        self.failed: BaseException | None = None

    def run(self) -> None:
        try:
            with self._opened() as connection:
                for step in self._script:
                    self._do(connection, step)
        except BaseException as error:
            self.failed = error
            self._meeting.abort()

    def _do(self, connection: socket.socket, step: Step) -> None:
        match step:
            case Send(data, piece):
                self._send(connection, data, piece)
            case Read(size, piece):
                self._read(connection, size, piece)
            case ReadRest(piece):
                self._read(connection, 1 << 40, piece)
            case SendAndRead(data, size):
                sending = threading.Thread(target=self._send, args=(connection, data, AT_ONCE), daemon=True)
                sending.start()
                self._read(connection, size, AT_ONCE)
                sending.join(PATIENCE_S)
            case Wait(seconds):
                time.sleep(seconds)
            case Expect():
                connection.recv(1, socket.MSG_PEEK)
            case Watch():
                poll = select.poll()
                poll.register(connection, 0)
                self.seen.gone = bool(poll.poll(WATCHED_S * 1000))
            case Meet():
                self._meeting.wait()
            case HalfClose():
                connection.shutdown(socket.SHUT_WR)
            case Close():
                connection.close()
            case Reset():
                reset(connection)

    def _send(self, connection: socket.socket, data: bytes, piece: int) -> None:
        try:
            for at in range(0, len(data), piece):
                connection.sendall(data[at : at + piece])
        except (ConnectionResetError, BrokenPipeError):
            pass  # what the other side has sent before can be read still

    def _read(self, connection: socket.socket, size: int, piece: int) -> None:
        while size > 0 and not self.seen.ending:
            try:
                data = connection.recv(min(size, piece))
            except ConnectionResetError:
                self.seen.ending = "reset"
                return
            if not data:
                self.seen.ending = "EOF"
            self.seen.data += data
            size -= len(data)


def play(port: int, api: socket.socket, runtime: list[Step], server: list[Step]) -> tuple[Received, Received]:
    """Play both scripts over a connection to `port`, with the API at `api`. Returns what each side has seen."""
    meeting = threading.Barrier(2, timeout=PATIENCE_S)
    sides = [Side(lambda: connect(port), runtime, meeting), Side(lambda: accept(api), server, meeting)]
    for side in sides:
        side.start()
    for side in sides:
        side.join(2 * PATIENCE_S)
        assert not side.is_alive()
    for side in sides:
        if side.failed is not None:
            raise side.failed
    return sides[0].seen, sides[1].seen


def directly(api: socket.socket, runtime: list[Step], server: list[Step]) -> tuple[Received, Received]:
    return play(port_of(api), api, runtime, server)
