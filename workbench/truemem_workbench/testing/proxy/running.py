"""Runs the real proxy between real sockets."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from truemem.platform.exact_mode import ExactMode
from truemem.platform.proxy_sockets import NAME, Door
from truemem.platform.runtime_proxy import RuntimeProxy

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
        self.door = Door(address)
        self.exact = ExactMode(cut)
        self.proxy = RuntimeProxy(self.door, address, self.exact)
        self.port = self.door.port
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
        close(self.proxy, self.door)
        self._waking.close()
        self._wake.close()
        assert kind is not None or self.raised == []

    @property
    def pairs(self) -> int:
        """Connections of the runtime that are served."""
        return len(self.proxy._ends) // 2

    def write(self, letter: bytes) -> None:
        with letter_to(self.api, self.port) as letters:
            letters.send(letter)

    def wait_until_idle(self) -> None:
        wait_for(lambda: (not self.pairs and not self.exact.asking) or self.raised)

    def _serve(self) -> None:
        try:
            while not self._over:
                self.proxy.serve_until(self._waking.fileno(), FOREVER_S)
        except BaseException as error:
            self.raised.append(error)


def close(proxy: RuntimeProxy, door: Door) -> None:
    """Close everything, as the kernel does at the end of a process."""
    for end in list(proxy._ends.values()):
        end.socket.close()
    door.use_spare()
    door.listening.close()
    door.letters.close()


@contextlib.contextmanager
def letter_to(api: str, port: int) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as letters:
        letters.settimeout(PATIENCE_S)
        letters.connect(f"{NAME}{api}/{port}".encode())
        yield letters


class Turns:
    """The proxy for the API at `address`, served step by step: what it holds can be looked at in between."""

    def __init__(self, address: str) -> None:
        self.door = Door(address)
        self.proxy = RuntimeProxy(self.door, address, ExactMode())
        self.port = self.door.port

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        close(self.proxy, self.door)

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
