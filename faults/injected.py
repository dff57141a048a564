"""The same for the executable as it is: strace(1) lets its system calls fail underneath it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

from faults.calls import Outcome, row, under
from faults.result import NotHere, Row
from faults.subject import Subject

CALLS = (
    ("openat,open", "EMFILE EACCES ENOSPC"),
    ("pread64", "EIO EINTR"),
    ("pwrite64", "ENOSPC EIO"),
    ("write,writev", "EPIPE EIO"),
    ("getdents64", "EIO"),
    ("readlink,readlinkat", "EACCES"),
    ("poll,ppoll", "EINTR ENOMEM"),
    ("accept4,accept", "EMFILE"),
    ("recvmsg", "EINTR EIO"),
    ("sendto", "EINTR EPIPE"),
)
MOMENTS = ("20..24", "60", "200+3")
"""The calls that fail, after those that start the interpreter: some in a row, one, every third."""
CONNECTION = ("recvmsg", "sendto")
"""Of the API: not for good."""


def faults() -> list[str]:
    """As strace spells them."""
    return [
        f"{call}:error={number}:when={when}"
        for call, numbers in CALLS
        for number in numbers.split()
        for when in MOMENTS
        if not (call in CONNECTION and "+" in when)
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


def sweep(subject: Subject, planned: Sequence[str], advance: Callable[[], None]) -> list[Row]:
    """One row for all. Raises NotHere."""
    if permitted():
        raise NotHere(permitted())
    outcomes: list[Outcome] = []
    for fault in planned:
        calls = fault.partition(":")[0]
        strace = f'exec strace -D -f -qq -o "$TMPDIR/failed" -e trace={calls} -e inject={fault} "$0"'
        outcomes.append(under(replace(subject, launcher=("/bin/sh", "-c", strace)), fault))
        advance()
    return [row("system calls of the executable fail (strace)", outcomes)]
