"""What the sidecar imports, made up: `posix`, `_socket`, `select`, `time` and `fcntl`, by the kernel of this run.

`install` puts them into `sys.modules` before the sidecar is imported: interpreted and compiled code alike look up
`posix.read` there at each call.
"""

from __future__ import annotations

import _socket as real_socket
import fcntl as real_fcntl
import posix as real_posix
import select as real_select
import sys
import time as real_time

from . import kernel as k
from .kernel import (
    EADDRINUSE,
    EAGAIN,
    EBADF,
    ECONNREFUSED,
    EINPROGRESS,
    ENOENT,
    ENOTCONN,
    ESRCH,
    MS,
    NEVER,
    POLLERR,
    POLLHUP,
    POLLIN,
    POLLNVAL,
    POLLOUT,
    Datagrams,
    Listening,
    Opened,
    Output,
    PipeEnd,
    S,
    Wire,
    refuse,
    shown,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Socket:
    """_socket.socket. What it is to be, TCP or datagrams, a listener or a connection, shows by and by."""

    def __init__(self, family: int = 2, kind: int = 1, proto: int = 0, fileno: int | None = None) -> None:
        del proto
        self._linger = False
        self._port = 0
        self._at: Any = Datagrams() if kind == real_socket.SOCK_DGRAM else None
        if fileno is None:
            k.kernel.call("socket", f"{family} {kind}")
            self._fd = k.kernel.new(self._at)
        else:
            self._fd, self._at = fileno, k.kernel.descriptors[fileno]

    def fileno(self) -> int:
        return self._fd

    def setblocking(self, flag: bool) -> None:
        pass

    def setsockopt(self, level: int, option: int, value: Any) -> None:
        k.kernel.call("setsockopt", f"{self._fd} {level} {option} {value!r}")
        self._linger |= option == real_socket.SO_LINGER

    def getsockopt(self, level: int, option: int) -> int:
        k.kernel.call("getsockopt", f"{self._fd}")
        at = self._at
        if isinstance(at, Wire):
            return 0 if k.kernel.now < at.connected_at else at.broken
        return k.kernel.rolls.pick((0, 0, ECONNREFUSED))

    def bind(self, address: Any) -> None:
        k.kernel.call("bind", f"{self._fd} {address!r}")
        if isinstance(self._at, Datagrams):
            k.kernel.bound[address] = self._at
            return
        if not 0 <= address[1] < 65536:
            raise OverflowError("bind(): port must be 0-65535.")
        port = address[1] or k.kernel.free_port()
        if port in k.kernel.bound:
            refuse(EADDRINUSE)
        self._port, self._at = port, Listening()
        k.kernel.bound[port] = k.kernel.descriptors[self._fd] = self._at

    def listen(self, backlog: int) -> None:
        k.kernel.call("listen", f"{self._fd}")

    def getsockname(self) -> tuple[str, int]:
        return "127.0.0.1", self._port

    def getpeername(self) -> tuple[str, int]:
        if self._at.broken:
            refuse(ENOTCONN)
        return "127.0.0.1", self._at.peer.port if self._at.peer is not None else 1

    def connect(self, address: Any) -> None:
        k.kernel.call("connect", f"{self._fd} {address!r}")
        if isinstance(self._at, Datagrams):
            if not k.kernel.world.reachable(address):
                refuse(ECONNREFUSED)
            return
        wire = k.kernel.world.connect(address)
        self._at = k.kernel.descriptors[self._fd] = wire
        if k.kernel.now < wire.connected_at:
            refuse(EINPROGRESS)

    def _accept(self) -> tuple[int, tuple[str, int]]:
        k.kernel.call("accept", f"{self._fd}")
        if not self._at.backlog:
            refuse(EAGAIN)
        descriptor = k.kernel.new(self._at.backlog[0])
        wire = self._at.backlog.pop(0)
        return descriptor, ("127.0.0.1", wire.peer.port if wire.peer is not None else 1)

    def recv(self, size: int, flags: int = 0) -> bytes:
        k.kernel.call("recv", f"{self._fd} {size}")
        return self._wire().take(size)

    def recv_into(self, buffer: Any) -> int:
        k.kernel.call("recv", f"{self._fd} into {len(buffer)}")
        data = self._wire().take(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def recvmsg(
        self, size: int, control: int = 0, flags: int = 0
    ) -> tuple[bytes, list[tuple[int, int, bytes]], int, None]:
        k.kernel.call("recv", f"{self._fd} msg {size} {control} {flags}")
        at = self._at
        if isinstance(at, Datagrams):
            if not at.inbox:
                refuse(EAGAIN)
            data, about = at.inbox.pop(0)
            return data[:size], about, real_socket.MSG_TRUNC if len(data) > size else 0, None
        data = self._wire().take(size, bool(flags & real_socket.MSG_PEEK))
        stamp = at.arrived_ns
        about = [(1, 35, (stamp // S).to_bytes(8, "little") + (stamp % S).to_bytes(8, "little"))]
        return data, about if data and k.kernel.stamps else [], 0, None

    def send(self, data: Any, flags: int = 0) -> int:
        data = bytes(data)
        k.kernel.call("send", f"{self._fd} {shown(data)}")
        if isinstance(self._at, Datagrams):
            k.kernel.say("datagram", data)
            return len(data)
        return self._wire().give(data)

    def sendall(self, data: bytes) -> None:
        k.kernel.call("send", f"{self._fd} all {shown(data)}")
        self._wire().give(data, wait=True)

    def shutdown(self, how: int) -> None:
        k.kernel.call("shutdown", f"{self._fd}")
        wire = self._wire()
        if wire.broken:
            refuse(ENOTCONN)
        wire.shut = True
        wire.leave("shut")

    def close(self) -> None:
        if self._fd < 0:
            return
        k.kernel.close(self._fd)
        self._fd = -1
        if isinstance(self._at, Wire) and not self._at.closed:
            self._at.closed = True
            self._at.leave("reset" if self._linger else "closed")

    def _wire(self) -> Wire:
        if not isinstance(self._at, Wire):
            refuse(ENOTCONN)
        return self._at


MOST_IDLE_TURNS = 200
"""After so many the sidecar is a busy loop: it costs the function its CPU time."""


class Poll:
    """select.poll()."""

    def __init__(self) -> None:
        self._wanted: dict[int, int] = {}

    def register(self, descriptor: int, events: int = POLLIN | POLLOUT) -> None:
        if descriptor < 0:
            raise ValueError("file descriptor cannot be a negative integer (-1)")
        self._wanted[descriptor] = events

    def unregister(self, descriptor: int) -> None:
        del self._wanted[descriptor]

    def poll(self, timeout: float | None = None) -> list[tuple[int, int]]:
        k.kernel.call("poll", f"{self._wanted} {timeout!r}")
        until = NEVER if timeout is None or timeout < 0 else k.kernel.now + -(-int(timeout * 1000) // 1000) * MS
        while True:
            k.kernel.run_due()
            ready = []
            for descriptor, wanted in self._wanted.items():
                at = k.kernel.descriptors.get(descriptor)
                found = POLLNVAL if at is None else at.events() & (wanted | POLLERR | POLLHUP)
                if found:
                    ready.append((descriptor, found))
            if ready or k.kernel.now >= until:
                k.kernel.idle_turns = 0 if ready or timeout else k.kernel.idle_turns + 1
                if k.kernel.idle_turns > MOST_IDLE_TURNS:
                    raise k.Over("busy for nothing")
                return ready
            k.kernel.sleep_until(min(until, k.kernel.next_at))


# posix


def _open(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
    folder = f"{k.kernel.descriptors[dir_fd].path}/" if dir_fd is not None else ""
    k.kernel.call("open", f"{folder}{path} {flags} {mode}")
    return k.kernel.opened(folder + path, flags, mode)


def _at(descriptor: int, kind: type) -> Any:
    at = k.kernel.descriptors.get(descriptor)
    if not isinstance(at, kind):
        refuse(EBADF)
    return at


def _read(descriptor: int, size: int) -> bytes:
    k.kernel.call("read", f"{descriptor} {size}")
    at = k.kernel.descriptors.get(descriptor)
    if isinstance(at, PipeEnd):
        data = bytes(at.content[:size])
        del at.content[:size]
        return data
    at = _at(descriptor, Opened)
    data = at.content()[at.offset : at.offset + size]
    at.offset += len(data)
    return bytes(data)


def _pread(descriptor: int, size: int, offset: int) -> bytes:
    k.kernel.call("pread", f"{descriptor} {size} {offset}")
    return bytes(_at(descriptor, Opened).content()[offset : offset + size])


def _write(descriptor: int, data: bytes) -> int:
    k.kernel.call("write", f"{descriptor} {data!r}")
    at = k.kernel.descriptors.get(descriptor)
    if isinstance(at, Output):
        size = k.kernel.world.takes(at.name, len(data))
        k.kernel.say(at.name, bytes(data[:size]))
        return int(size)
    at = _at(descriptor, Opened)
    if at.file is None:
        k.kernel.world.write(at.path, bytes(data))
    else:
        at.file.content[at.offset : at.offset + len(data)] = data
        at.offset += len(data)
    return len(data)


def _pwrite(descriptor: int, data: bytes, offset: int) -> int:
    k.kernel.call("pwrite", f"{descriptor} {data!r} {offset}")
    file = _at(descriptor, Opened).file
    if k.kernel.rolls.below(4096) == 0:
        data = data[: len(data) // 2]
    file.content[offset : offset + len(data)] = data
    return len(data)


class Fields(tuple[int, ...]):
    """posix.stat_result, or posix.statvfs_result: those of the executable cannot be made by a program in Python."""

    __dict__: dict[str, int]

    if TYPE_CHECKING:

        def __setattr__(self, name: str, value: int) -> None: ...


def _stat_of(path: str) -> Any:
    file = k.kernel.disk.get(path)
    if file is not None:
        return _result(file.mode, file.owner, len(file.content), file.names)
    if path.endswith("/fd"):
        return _result(0o040500, 0, k.kernel.world.descriptors_of(path), 2)
    if path in ("/", "/tmp") or k.kernel.world.exists(path):
        return _result(0o040755, 0, 4096, 2, 1 + (path == "/tmp" and k.kernel.world.own_tmp))
    return refuse(ENOENT)


def _result(mode: int, owner: int, size: int, names: int, device: int = 1) -> Any:
    made = Fields((mode, 7, device, names, owner, owner, size, 0, 0, 0))
    made.st_mode, made.st_dev, made.st_nlink, made.st_uid, made.st_size = mode, device, names, owner, size
    return made


def _stat(path: str) -> Any:
    k.kernel.call("stat", path)
    return _stat_of(path)


def _fstat(descriptor: int) -> Any:
    k.kernel.call("fstat", f"{descriptor}")
    file = _at(descriptor, Opened).file
    return _result(file.mode, file.owner, len(file.content), file.names)


def _statvfs(path: str) -> Any:
    k.kernel.call("statvfs", path)
    free = k.kernel.world.free_disk()
    made = Fields((4096, 4096, 131_072, free, free, 32_768, 30_000, 30_000, 0, 255))
    made.f_frsize, made.f_blocks, made.f_bfree, made.f_bavail = made[1], made[2], free, free
    made.f_bsize, made.f_files, made.f_ffree, made.f_favail = made[0], made[5], made[6], made[7]
    return made


def _listdir(path: str) -> list[str]:
    k.kernel.call("listdir", path)
    names: list[str] = k.kernel.world.folder(path)
    return names


def _readlink(path: str) -> str:
    k.kernel.call("readlink", path)
    target: str = k.kernel.world.link(path)
    return target


def _access(path: str, mode: int) -> bool:
    k.kernel.call("access", f"{path} {mode}") if not k.kernel.fault_rate else _unfailing("access", path)
    return path in k.kernel.disk or k.kernel.world.exists(path) is True


def _unfailing(name: str, about: str) -> None:
    rate, k.kernel.fault_rate = k.kernel.fault_rate, 0
    try:
        k.kernel.call(name, about)
    finally:
        k.kernel.fault_rate = rate


def _unlink(path: str) -> None:
    k.kernel.call("unlink", path)
    if k.kernel.disk.pop(path, None) is None:
        refuse(ENOENT)


def _rename(source: str, target: str) -> None:
    k.kernel.call("rename", f"{source} {target}")
    if source not in k.kernel.disk:
        refuse(ENOENT)
    k.kernel.disk[target] = k.kernel.disk.pop(source)


def _posix_fallocate(descriptor: int, offset: int, size: int) -> None:
    k.kernel.call("fallocate", f"{descriptor} {size}")
    file = _at(descriptor, Opened).file
    file.content += bytes(max(0, offset + size - len(file.content)))


def _lockf(descriptor: int, command: int, size: int) -> None:
    k.kernel.call("lockf", f"{descriptor} {command} {size}")


def _dup(descriptor: int) -> int:
    k.kernel.call("dup", f"{descriptor}")
    return k.kernel.new(k.kernel.descriptors[descriptor])


def _pipe2(flags: int) -> tuple[int, int]:
    k.kernel.call("pipe", "")
    content = bytearray()
    reader = k.kernel.new(PipeEnd(content, True))
    try:
        return reader, k.kernel.new(PipeEnd(content, False))
    except OSError:
        del k.kernel.descriptors[reader]
        raise


def _splice(source: int, target: int, size: int, begin: None, end: None, flags: int) -> int:
    k.kernel.call("splice", f"{source} {target} {size}")
    one, other = k.kernel.descriptors[source], k.kernel.descriptors[target]
    if isinstance(one, PipeEnd):
        sent: int = other.give(bytes(one.content[:size]))
        del one.content[:sent]
        return sent
    data = one.take(min(size, 65_536 - len(other.content)))
    other.content += data
    return len(data)


def _close(descriptor: int) -> None:
    k.kernel.close(descriptor)


def _urandom(size: int) -> bytes:
    return k.kernel.rolls.bits().to_bytes(8, "little")[:size].ljust(size, b"\x05")


def _kill(pid: int, number: int) -> None:
    k.kernel.call("kill", f"{pid} {number}")
    k.kernel.world.exists(f"/proc/{pid}") or refuse(ESRCH)


POSIX: dict[str, Any] = {
    "open": _open,
    "read": _read,
    "pread": _pread,
    "write": _write,
    "pwrite": _pwrite,
    "stat": _stat,
    "lstat": _stat,
    "fstat": _fstat,
    "statvfs": _statvfs,
    "listdir": _listdir,
    "readlink": _readlink,
    "access": _access,
    "unlink": _unlink,
    "rename": _rename,
    "posix_fallocate": _posix_fallocate,
    "lockf": _lockf,
    "dup": _dup,
    "pipe2": _pipe2,
    "splice": _splice,
    "urandom": _urandom,
    "kill": _kill,
    "close": _close,
    "getpid": lambda: k.kernel.world.own_pid,
    "strerror": k.strerror,
    "geteuid": lambda: 0,
    "cpu_count": lambda: 2,
    "sched_yield": lambda: k.kernel.call("sched_yield", ""),
    "sysconf": {"SC_CLK_TCK": 100, "SC_PAGE_SIZE": 4096}.__getitem__,
}

# time


def _sleep(seconds: float) -> None:
    _unfailing("sleep", repr(seconds))
    k.kernel.now += int(seconds * S)
    k.kernel.run_due()


def _monotonic_ns() -> int:
    return k.kernel.look_at_clock()


def _process_time_ns() -> int:
    k.kernel.cpu += 301
    return k.kernel.cpu


def _clock_gettime_ns(clock: int) -> int:
    k.kernel.call("clock", f"{clock}")
    time: int = k.kernel.world.cpu_clock(~(clock >> 3))
    return time


TIME: dict[str, Any] = {
    "monotonic_ns": _monotonic_ns,
    "monotonic": lambda: k.kernel.look_at_clock() / 1e9,
    "time_ns": lambda: k.kernel.look_at_clock() - k.kernel.now + k.kernel.epoch(),
    "process_time_ns": _process_time_ns,
    "clock_gettime_ns": _clock_gettime_ns,
    "clock_gettime": lambda clock: k.kernel.world.since_boot(),
    "sleep": _sleep,
}


def _fcntl(descriptor: int, command: int, value: int = 0) -> int:
    k.kernel.call("fcntl", f"{descriptor} {command} {value}")
    return value


def install() -> None:
    """Put the stand-ins in the place of the modules."""
    for real, others in (
        (real_posix, POSIX),
        (real_time, TIME),
        (real_select, {"poll": Poll}),
        (real_socket, {"socket": Socket}),
        (real_fcntl, {"fcntl": _fcntl}),
    ):
        stand_in = type(sys)(real.__name__)
        stand_in.__dict__.update(vars(real))
        stand_in.__dict__.update(others)
        sys.modules[real.__name__] = stand_in
