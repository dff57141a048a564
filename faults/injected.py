"""Lets system calls of the executable fail, by strace(1)."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

from faults.calls import Outcome, row, under
from faults.result import NotHere, Row
from faults.subject import Subject

MOMENTS = ("20..24", "60", "200+3")
"""The calls that fail, after those that start the interpreter: some in a row, one, every third."""
FIRST = ("1",)
"""Of what the interpreter does not need for its start."""

CALLS = (
    ("openat,open", "EMFILE EACCES ENOSPC", MOMENTS),
    ("read", "EIO EINTR", ("20..24",)),
    ("pread64", "EIO EINTR", MOMENTS),
    ("pwrite64", "ENOSPC EIO", ("10", "20..24")),
    ("write,writev", "EPIPE EIO", ("12", "20..24", "10+3")),
    ("close", "EIO EINTR", MOMENTS),
    ("fcntl", "EIO", MOMENTS),
    ("getdents64", "EIO", ("1", "2+")),
    ("readlink,readlinkat", "EACCES", ("1", "2+")),
    ("access,faccessat", "EACCES", ("1+",)),
    ("unlink,unlinkat", "EACCES", FIRST),
    ("fallocate", "ENOSPC", FIRST),
    ("poll,ppoll", "EINTR ENOMEM", ("10+3", "20..24")),
    ("socket", "EMFILE", ("1", "2")),
    ("connect", "ECONNREFUSED EINTR", ("1", "1..3")),
    ("setsockopt", "EIO", ("1+",)),
    ("bind", "EADDRINUSE", FIRST),
    ("listen", "EADDRINUSE", FIRST),
    ("ioctl", "EIO", FIRST),
    ("accept4,accept", "EMFILE", FIRST),
    ("recvmsg", "EINTR EIO", ("4", "6..8")),
    ("recvfrom", "EINTR EIO", ("6..8",)),
    ("sendto", "EINTR EPIPE", ("5", "7..9")),
)
"""Names, error numbers, moments."""
EXACT = (
    ("accept4,accept", "EMFILE ENFILE ECONNABORTED", ("2", "2..4")),
    ("socket", "EMFILE", ("4", "4..6")),
    ("connect", "ECONNREFUSED ENOBUFS", ("2", "2..4")),
    ("fcntl", "EMFILE", ("1+",)),
    ("getsockopt", "EIO", ("1",)),
    ("setsockopt", "EIO", ("3", "5..7")),
    ("recvfrom", "ECONNRESET EINTR EAGAIN", ("5", "8..12", "10+7")),
    ("sendto", "EPIPE EINTR EAGAIN", ("6", "9..13", "10+7")),
    ("poll,ppoll", "EINTR ENOMEM", ("10+3", "20..24")),
    ("read", "EIO", ("20..40", "30+2")),
    ("pread64", "EIO", ("5+2",)),
    ("write,writev", "EIO", ("12", "10+2")),
)
"""The same in exact mode, where the runtime's connections pass through the sidecar."""


def faults(calls: Sequence[tuple[str, str, Sequence[str]]] = CALLS) -> list[str]:
    """As strace spells them."""
    return [
        f"{call}:error={number}:when={when}"
        for call, numbers, moments in calls
        for number in numbers.split()
        for when in moments
    ]


@cache
def permitted() -> str:
    """Why this cannot be done here, or ""."""
    if shutil.which("strace") is None:
        return "strace is not installed"
    tried = subprocess.run(
        ["strace", "-qq", "-o", "/dev/null", "-e", "inject=getpid:error=EIO", "true"], capture_output=True, check=False
    )
    return "" if tried.returncode == 0 else f"strace is not permitted: {tried.stderr.decode().strip()}"


def sweep(subject: Subject, planned: Sequence[str], advance: Callable[[], None], exact: bool = False) -> list[Row]:
    """One row for all. Raises NotHere."""
    if permitted():
        raise NotHere(permitted())
    outcomes: list[Outcome] = []
    for fault in planned:
        calls = fault.partition(":")[0]
        strace = f'exec strace -D -f -qq -o "$TMPDIR/failed" -e trace={calls} -e inject={fault} "$0"'
        launched = replace(subject, launcher=("/bin/sh", "-c", strace))
        outcomes.append(under(launched, fault, exact=exact, may_break=exact))
        advance()
    return [row(f"system calls of the executable fail (strace){', exact mode' if exact else ''}", outcomes)]
