"""Plays both sides of a connection, each with a script, and records what each has seen of the other."""

from __future__ import annotations

import select
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from .running import PATIENCE_S, accept, connect, port_of, reset

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
class Seen:
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
        self.seen = Seen()
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


def play(port: int, api: socket.socket, runtime: list[Step], server: list[Step]) -> tuple[Seen, Seen]:
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


def directly(api: socket.socket, runtime: list[Step], server: list[Step]) -> tuple[Seen, Seen]:
    return play(port_of(api), api, runtime, server)
