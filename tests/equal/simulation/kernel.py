"""A kernel that is made up: descriptors, files, connections and clocks. What it answers follows from the seed, and each
call is noted.
"""

from __future__ import annotations

import posix as real_posix

from .rolls import Rolls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

US, MS, S = 1_000, 1_000_000, 1_000_000_000
NEVER = 1 << 100
POLLIN, POLLOUT, POLLERR, POLLHUP, POLLNVAL = 1, 4, 8, 16, 32
ENOENT, ESRCH, EINTR, EIO, EBADF, EAGAIN, ENOMEM, EACCES, EEXIST, ENOTDIR, EINVAL = (
    2,
    3,
    4,
    5,
    9,
    11,
    12,
    13,
    17,
    20,
    22,
)
ENFILE, EMFILE, ENOSPC, EPIPE, ELOOP, ENOTCONN, ECONNREFUSED, ECONNRESET, ECONNABORTED = (
    23,
    24,
    28,
    32,
    40,
    107,
    111,
    104,
    103,
)
EPERM, EROFS, EADDRINUSE, ENOBUFS, ETIMEDOUT, EINPROGRESS, ENOSYS, EISDIR = 1, 30, 98, 105, 110, 115, 38, 21

FAULTS: dict[str, tuple[int, ...]] = {
    "open": (ENOENT, EACCES, EMFILE, ENFILE, ENOMEM, ELOOP, EPERM, ENOSPC, EROFS),
    "pread": (ESRCH, EIO, ENOMEM, EACCES, EPERM),
    "read": (ESRCH, EIO, ENOMEM, EINTR),
    "write": (EAGAIN, EPIPE, ENOSPC, EIO, ESRCH, EACCES),
    "pwrite": (ENOSPC, EIO),
    "connect": (ECONNREFUSED, ETIMEDOUT, ENOMEM, EACCES),
    "accept": (EMFILE, ENFILE, ENOBUFS, ECONNABORTED, EAGAIN, EPERM),
    "socket": (EMFILE, ENFILE, ENOBUFS, ENOMEM),
    "send": (EAGAIN, EPIPE, ECONNRESET, ENOBUFS, EINTR),
    "recv": (EAGAIN, ECONNRESET, ETIMEDOUT, ENOMEM),
    "splice": (EAGAIN, EINVAL, ENOMEM, ENOSYS, ECONNRESET),
    "poll": (ENOMEM, EINTR),
    "setsockopt": (EINVAL, ENOSYS),
    "pipe": (EMFILE, ENFILE),
    "fcntl": (EPERM,),
    "bind": (EADDRINUSE, EACCES),
    "lockf": (EAGAIN, EACCES),
}
"""What each call may fail with (its page of the manual), where the seed wants that; others with one of OTHER_FAULTS."""
OTHER_FAULTS = (EIO, ENOMEM, EACCES, ENOENT)
NEVER_FAIL = {"close", "getsockopt", "dup"}
"""`dup` fails for itself where the descriptors are short."""


class Over(BaseException):
    """The run ends here, whatever the sidecar would do next: it is killed, or waits for what will never come."""


def refuse(number: int) -> NoReturn:
    raise OSError(number, strerror(number))


def strerror(number: int) -> str:
    """The same with each C library."""
    return f"no luck {number}"


def shown(data: bytes) -> str:
    """For the trace: what it is, or a number that tells it from others."""
    return f"{data!r}" if len(data) < 2000 else f"{len(data)} {digest(data):x}"


def digest(data: bytes) -> int:
    return int.from_bytes(data, "little") % ((1 << 61) - 1)


class Wire:
    """The sidecar's end of a connection. `peer` hears what it sends."""

    def __init__(self, peer: Any, room: int) -> None:
        self.peer = peer
        self.inbox = bytearray()
        self.eof = False
        """The peer sends no more."""
        self.broken = 0
        """The peer has broken off: errno."""
        self.room = room
        """Bytes that can be sent before the peer has read."""
        self.shut = False
        self.closed = False
        self.connected_at = 0
        self.arrived_ns = 0
        """Epoch ns at which the oldest byte that is not read has come."""
        self._in_order = 0

    def events(self) -> int:
        if kernel.now < self.connected_at:
            return 0
        if self.broken:
            return POLLIN | POLLOUT | POLLERR | POLLHUP
        ready = POLLIN if self.inbox or self.eof else 0
        if self.eof and self.shut:
            ready |= POLLHUP
        return ready | (POLLOUT if self.room > 0 else 0)

    # What the peer does, `delay` ns from now, in order

    def say(self, data: bytes, delay: int = 0) -> None:
        self._later(delay, lambda: self._arrive(data))

    def hang_up(self, delay: int = 0) -> None:
        self._later(delay, self._end)

    def reset(self, delay: int = 0) -> None:
        self._later(delay, self._break)

    def _later(self, delay: int, what: Callable[[], None]) -> None:
        self._in_order = max(self._in_order, kernel.now + delay)
        kernel.at(self._in_order, what)

    def _arrive(self, data: bytes) -> None:
        if not self.inbox:
            self.arrived_ns = kernel.epoch()
        self.inbox += data

    def _end(self) -> None:
        self.eof = True

    def _break(self) -> None:
        self.broken, self.eof = ECONNRESET, True
        self.inbox.clear()

    # What the sidecar does

    def take(self, most: int, peek: bool = False) -> bytes:
        if kernel.now < self.connected_at:
            refuse(EAGAIN)
        if self.broken:
            refuse(self.broken)
        if not self.inbox:
            if self.eof:
                return b""
            refuse(EAGAIN)
        data = bytes(self.inbox[:most])
        if not peek:
            del self.inbox[:most]
        return data

    def give(self, data: bytes, wait: bool = False) -> int:
        if kernel.now < self.connected_at:
            refuse(EAGAIN)
        if self.broken or self.shut or self.closed:
            refuse(EPIPE)
        size = len(data) if wait else min(len(data), self.room)
        if not size and data:
            refuse(EAGAIN)
        self.room -= size
        part = bytes(data[:size])
        kernel.at(kernel.now + kernel.rolls.between(5, 400) * US, lambda: self._heard(part))
        return size

    def _heard(self, part: bytes) -> None:
        self.room += len(part)
        if self.peer is not None:
            self.peer.heard(self, part)

    def leave(self, how: str) -> None:
        """The sidecar sends no more (`shut`), or is gone."""
        peer, self.peer = self.peer, self.peer if how == "shut" else None
        if peer is not None:
            kernel.at(kernel.now + 300 * US, lambda: peer.left(self, how))


class Listening:
    def __init__(self) -> None:
        self.backlog: list[Wire] = []

    def events(self) -> int:
        return POLLIN if self.backlog else 0


class Datagrams:
    def __init__(self) -> None:
        self.inbox: list[tuple[bytes, list[tuple[int, int, bytes]]]] = []

    def events(self) -> int:
        return (POLLIN if self.inbox else 0) | POLLOUT


class PipeEnd:
    def __init__(self, content: bytearray, can_read: bool) -> None:
        self.content, self._can_read = content, can_read

    def events(self) -> int:
        return (POLLIN if self.content else 0) if self._can_read else POLLOUT


class DiskFile:
    def __init__(self, mode: int = 0o100600, content: bytes = b"", owner: int = 0, names: int = 1) -> None:
        self.content, self.mode, self.owner, self.names = bytearray(content), mode, owner, names


class Opened:
    """A descriptor of a file: on the disk, or made at each read, as those of /proc are."""

    def __init__(self, path: str, file: DiskFile | None) -> None:
        self.path, self.file, self.offset = path, file, 0

    def events(self) -> int:
        return POLLIN | POLLOUT

    def content(self) -> bytes:
        return bytes(self.file.content) if self.file is not None else kernel.world.read(self.path)


class Output:
    """stdout or stderr."""

    def __init__(self, name: str) -> None:
        self.name = name

    def events(self) -> int:
        return POLLOUT if not kernel.blocked(self.name) else 0


class Kernel:
    """The kernel of one run. The world is what is outside of the sidecar (platform.Lambda)."""

    def __init__(self, rolls: Rolls, world: Any) -> None:
        self.rolls, self.world = rolls, world
        self.now = rolls.scale(10**16) + S
        self._epoch = 1_767_225_000 * S + rolls.scale(10**18)
        self.cpu = 5 * MS
        self.calls = 0
        self.most_calls = 12_000
        self.killed_at = NEVER
        """Number of the call in which the sidecar is killed."""
        self.fault_rate = 0
        """Calls that fail, of 65,536."""
        self.idle_turns = 0
        """Polls in a row that did not wait, and found nothing."""
        self.stamps = True
        self.is_slow = False
        self.trace: list[str] = []
        self.said: list[tuple[str, bytes]] = []
        """What others see: stdout, stderr, datagrams, requests."""
        self.descriptors: dict[int, Any] = {0: Opened("/dev/null", DiskFile()), 1: Output("out"), 2: Output("err")}
        self.most_descriptors = 1024
        self.bound: dict[Any, Any] = {}
        self.disk: dict[str, DiskFile] = {}
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._numbered = 0
        self.next_at = NEVER

    # Time

    def epoch(self) -> int:
        return self._epoch + self.now

    def set_back(self, ns: int) -> None:
        self._epoch -= ns

    def at(self, when: int, what: Callable[[], None]) -> None:
        """Do it then; what is due at the same time in the order in which it was asked for."""
        self._numbered += 1
        made = (when, self._numbered, what)
        events = self._events
        low, high = 0, len(events)
        while low < high:
            middle = (low + high) // 2
            if events[middle] < made:
                low = middle + 1
            else:
                high = middle
        events.insert(low, made)
        self.next_at = events[0][0]

    def run_due(self) -> None:
        while self._events and self._events[0][0] <= self.now:
            what = self._events.pop(0)[2]
            self.next_at = self._events[0][0] if self._events else NEVER
            what()

    def forget(self) -> None:
        """All that was to come: the environment begins anew."""
        self._events.clear()
        self.next_at = NEVER

    def sleep_until(self, when: int) -> None:
        if when >= NEVER:
            raise Over("waits for what will never come")
        self.now = max(self.now, when) + self.calls * 7919 % 50 * US

    def call(self, name: str, about: str) -> None:
        """A call of the sidecar: it takes its time, others go on meanwhile, and it may fail."""
        self.calls += 1
        self.trace.append(f"{name} {about}")
        spent = 1000 + self.calls * 7919 % (90_000 if self.is_slow else 9000)
        self.now += spent
        self.cpu += spent // 2
        if self.calls >= self.killed_at or self.calls >= self.most_calls:
            raise Over("killed" if self.calls < self.most_calls else "too many calls")
        if self.now >= self.next_at:
            self.run_due()
        if self.fault_rate and name not in NEVER_FAIL and self.rolls.bits() & 65535 < self.fault_rate:
            if self.rolls.chance(20):
                raise MemoryError
            refuse(self.rolls.pick(FAULTS.get(name, OTHER_FAULTS)))

    def look_at_clock(self) -> int:
        self.now += 211
        return self.now

    # Descriptors and files

    def new(self, at: Any) -> int:
        if len(self.descriptors) >= self.most_descriptors:
            refuse(EMFILE)
        descriptor = 3
        while descriptor in self.descriptors:
            descriptor += 1
        self.descriptors[descriptor] = at
        return descriptor

    def close(self, descriptor: int) -> None:
        self.call("close", f"{descriptor}")
        if descriptor not in self.descriptors:
            refuse(EBADF)
        del self.descriptors[descriptor]

    def say(self, where: str, data: bytes) -> None:
        self.said.append((where, data))

    def blocked(self, name: str) -> bool:
        return self.world.blocked(name) is True

    def free_port(self) -> int:
        port = 20_000 + len(self.bound) * 7
        while port in self.bound:
            port += 1
        return port

    def opened(self, path: str, flags: int, mode: int) -> int:
        if path.startswith(("/proc", "/sys")):
            self.world.exists(path) or refuse(ENOENT)
            return self.new(Opened(path, None))
        file = self.disk.get(path)
        if file is None:
            if not flags & real_posix.O_CREAT:
                refuse(ENOENT)
            file = DiskFile(0o100000 | mode)
            descriptor = self.new(Opened(path, file))
            self.disk[path] = file
            return descriptor
        if flags & real_posix.O_EXCL:
            refuse(EEXIST)
        if file.mode & 0o170000 == 0o120000 and flags & real_posix.O_NOFOLLOW:
            refuse(ELOOP)
        return self.new(Opened(path, file))


class _World:
    """Before a run there is none."""


kernel = Kernel(Rolls(0), _World())


def begin(made: Kernel) -> None:
    global kernel  # noqa: PLW0603
    kernel = made
