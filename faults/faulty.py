#!/usr/bin/env python3
"""Runs the sidecar with failing system calls: FAULTS lists them as CALL:ERRNO:WHEN, separated by commas.

WHEN is `3` (the third call of that name), `3-12`, or `3+` (from the third on). ERRNO may be BUG: a RuntimeError, as
from a mistake of ours. Each failure is noted in TMPDIR/failed. There is no other way to produce errors that only
Lambda's own kernel may give.
"""

from __future__ import annotations

import _socket
import errno
import os
import posix
import select
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

sys.dont_write_bytecode = True

BUG = 0
STREAMS = {1: "stdout", 2: "stderr"}

noted = posix.open(os.environ["TMPDIR"] + "/failed", posix.O_WRONLY | posix.O_CREAT | posix.O_APPEND | posix.O_CLOEXEC)
real_write = posix.write
calls: Counter[str] = Counter()
opened: dict[int, str] = {}
"""What a descriptor was opened for."""


def spelled(when: str) -> tuple[int, int]:
    """First and last call."""
    if when.endswith("+"):
        return int(when[:-1]), sys.maxsize
    first, _, last = when.partition("-")
    return int(first), int(last or first)


planned = {}
for fault in os.environ["FAULTS"].split(","):
    call, name, when = fault.split(":")
    planned[call] = (getattr(errno, name, BUG), *spelled(when))


def perhaps(call: str) -> None:
    """Fail, if this call is to."""
    if call in planned:
        number, first, last = planned[call]
        calls[call] += 1
        if first <= calls[call] <= last:
            real_write(noted, b"INJECTED\n")
            if number == BUG:
                raise RuntimeError("injected")
            raise OSError(number, os.strerror(number))


def kind(path: str) -> str:
    """What is opened: `clear_refs`, `oom_score_adj`, `journal`, `cgroup`, `proc`; "" for what is not ours to fail."""
    if "/.truemem-" in path:
        return "journal"
    name = path.rpartition("/")[2]
    if name in ("clear_refs", "oom_score_adj"):
        return name
    return "proc" if path.startswith("/proc") else "cgroup" if path.startswith("/sys/") else ""


def failing(call: str, real: Callable[..., Any]) -> Callable[..., Any]:
    """A call whose arguments do not matter."""

    def failing_call(*arguments: Any) -> Any:
        perhaps(call)
        return real(*arguments)

    return failing_call


def opening(path: str, flags: int, *more: Any) -> int:
    """open."""
    what = kind(path)
    perhaps(f"open-{what}")
    descriptor = real_open(path, flags, *more)
    opened[descriptor] = what
    return descriptor


def writing(descriptor: int, data: bytes) -> int:
    """write."""
    perhaps(f"write-{STREAMS.get(descriptor) or opened.get(descriptor, '')}")
    return real_write(descriptor, data)


def reading(call: str, real: Callable[..., Any]) -> Callable[..., Any]:
    """read and pread."""

    def reading_call(descriptor: int, *more: Any) -> Any:
        perhaps(f"{call}-{opened.get(descriptor, '')}")
        return real(descriptor, *more)

    return reading_call


def listing(path: str) -> list[str]:
    """listdir; imports use it as well."""
    if path.startswith("/proc"):
        perhaps("listdir")
    return real_listdir(path)


def accessible(path: str, mode: int) -> bool:
    """access: it has no other word for a failure."""
    try:
        perhaps("access")
    except OSError:
        return False
    return real_access(path, mode)


def closing(descriptor: int) -> None:
    """close: it is closed, whatever it says (close(2))."""
    real_close(descriptor)
    opened.pop(descriptor, None)
    perhaps("close")


real_open, real_listdir, real_close, real_access = posix.open, posix.listdir, posix.close, posix.access
real_poll = select.poll
posix.access = accessible  # type: ignore[assignment]
posix.open = opening  # type: ignore[assignment]
posix.write = writing  # type: ignore[assignment]
posix.listdir = listing  # type: ignore[assignment]
posix.close = closing  # type: ignore[assignment]
posix.read = reading("read", posix.read)
posix.pread = reading("pread", posix.pread)
for name in ("readlink", "urandom", "dup", "pwrite", "posix_fallocate", "lockf", "fstat", "unlink"):
    setattr(posix, name, failing(name, getattr(posix, name)))


class Poll:
    """poll."""

    def __init__(self) -> None:
        self._poll = real_poll()
        self.register, self.unregister = self._poll.register, self._poll.unregister

    def poll(self, *timeout: float) -> list[tuple[int, int]]:
        """Wait."""
        perhaps("poll")
        return self._poll.poll(*timeout)


select.poll = Poll  # type: ignore[misc, assignment]


WHOSE = {
    "extensions_api": "api",
    "telemetry": "listener",
    "proxy": "upstream",
    "collector": "collector",
    "dogstatsd": "agent",
}
"""What a socket is for, by the module that makes it,"""
ACCEPTED = {"telemetry": "delivery", "proxy": "runtime"}
"""or where it was accepted before. The runtime's connection has `upstream` as its other half."""


def whose(accepted: bool) -> str:
    """See WHOSE and ACCEPTED: the caller of what `tcp` does for all. What the proxy listens with is `proxy`."""
    frame = sys._getframe(2)
    while (module := frame.f_globals["__name__"].rpartition(".")[2]) == "tcp" and frame.f_back is not None:
        frame = frame.f_back
    if module == "proxy" and frame.f_code.co_qualname.startswith("ProxyListener."):
        return "proxy"
    return (ACCEPTED if accepted else WHOSE)[module]


class Socket(_socket.socket):
    """See WHOSE and ACCEPTED."""

    def __init__(self, family: int = -1, kind: int = -1, protocol: int = -1, fileno: int | None = None) -> None:
        self.whose = whose(accepted=fileno is not None)
        if fileno is None:
            perhaps(f"{self.whose}-socket")
        super().__init__(family, kind, protocol, fileno)

    def connect(self, address: Any) -> None:
        """connect."""
        perhaps(f"{self.whose}-connect")
        super().connect(address)

    def bind(self, address: Any) -> None:
        """bind."""
        perhaps(f"{self.whose}-bind")
        super().bind(address)

    def listen(self, *backlog: int) -> None:
        """listen."""
        perhaps(f"{self.whose}-listen")
        super().listen(*backlog)

    def _accept(self) -> tuple[int, Any]:
        perhaps(f"{self.whose}-accept")
        accepted: tuple[int, Any] = super()._accept()  # type: ignore[misc]
        return accepted

    def getsockname(self) -> Any:
        """getsockname."""
        perhaps(f"{self.whose}-getsockname")
        return super().getsockname()

    def setblocking(self, *flag: bool) -> None:
        """ioctl, FIONBIO."""
        perhaps(f"{self.whose}-setblocking")
        super().setblocking(*flag)

    def close(self) -> None:
        """close: it is closed, whatever it says (close(2))."""
        super().close()
        perhaps(f"{self.whose}-close")

    def setsockopt(self, *arguments: Any) -> None:
        """setsockopt."""
        perhaps(f"{self.whose}-setsockopt")
        super().setsockopt(*arguments)

    def sendall(self, *arguments: Any) -> None:
        """sendall."""
        perhaps(f"{self.whose}-send")
        super().sendall(*arguments)

    def send(self, *arguments: Any) -> int:
        """send."""
        perhaps(f"{self.whose}-send")
        return super().send(*arguments)

    def getsockopt(self, *arguments: Any) -> Any:
        """getsockopt."""
        perhaps(f"{self.whose}-getsockopt")
        return super().getsockopt(*arguments)

    def shutdown(self, *arguments: Any) -> None:
        """shutdown."""
        perhaps(f"{self.whose}-shutdown")
        super().shutdown(*arguments)

    def recv_into(self, *arguments: Any) -> int:
        """recv into memory that is there."""
        perhaps(f"{self.whose}-recv")
        return super().recv_into(*arguments)

    def recv(self, *arguments: Any) -> bytes:
        """recv."""
        perhaps(f"{self.whose}-recv")
        return super().recv(*arguments)

    def recvmsg(self, *arguments: Any) -> Any:
        """recvmsg."""
        perhaps(f"{self.whose}-recv")
        return super().recvmsg(*arguments)


_socket.socket = Socket  # type: ignore[misc, assignment]

from truemem.__main__ import main  # noqa: E402
from truemem.measure.recorder import Recorder  # noqa: E402

Recorder.read_and_reset = failing("cut", Recorder.read_and_reset)  # type: ignore[method-assign]

main(sys.argv[0])
