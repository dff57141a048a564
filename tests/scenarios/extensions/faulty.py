#!/usr/bin/env python3
"""The sidecar itself, with system calls going wrong underneath it: FAULT says which.

A double at the edge of the kernel: what Lambda's own kernel might refuse cannot be made to happen otherwise.
"""

from __future__ import annotations

import errno
import itertools
import os
import posix
import sys
from typing import Any

sys.path.insert(0, os.environ["FAULT_SOURCE"])

real_open, real_pread, real_listdir, real_write = posix.open, posix.pread, posix.listdir, posix.write
calls = itertools.count(1)


def fail(number: int) -> OSError:
    """The exception that the kernel's answer `number` becomes."""
    return OSError(number, os.strerror(number))


def open_without_clear_refs(path: str, flags: int, *more: Any) -> int:
    """clear_refs cannot be opened."""
    if path.endswith("/clear_refs"):
        raise fail(errno.EACCES)
    return real_open(path, flags, *more)


def pread_of_a_vanishing_proc(descriptor: int, size: int, offset: int) -> bytes:
    """Every fifth read: the process has gone, the file is empty, or the text ends in the middle."""
    turn = next(calls)
    if turn % 15 == 5:
        raise fail(errno.ESRCH)
    text = real_pread(descriptor, size, offset)
    return b"" if turn % 15 == 10 else text[: len(text) // 2] if turn % 15 == 0 else text


def listdir_without_proc(path: str) -> list[str]:
    """/proc cannot be listed."""
    if path == "/proc":
        raise fail(errno.EACCES)
    return real_listdir(path)


def write_that_does_nothing(descriptor: int, data: bytes) -> int:
    """clear_refs accepts everything and resets nothing."""
    return 1 if data == b"5" else real_write(descriptor, data)


fault = os.environ["FAULT"]
if fault == "eacces":
    posix.open = open_without_clear_refs  # type: ignore[assignment]
elif fault == "vanishing":
    posix.pread = pread_of_a_vanishing_proc
elif fault == "no-proc":
    posix.listdir = listdir_without_proc  # type: ignore[assignment]
elif fault == "no-effect":
    posix.write = write_that_does_nothing  # type: ignore[assignment]
elif fault == "bug":
    from truemem.measure import recorder

    def broken(self: object, **_: object) -> Any:
        """A bug of ours, at the worst of places."""
        raise ZeroDivisionError

    recorder.Recorder.read_and_reset = broken  # type: ignore[method-assign, assignment]
else:
    raise SystemExit(f"no fault {fault!r}")

from truemem.__main__ import main  # noqa: E402

main(sys.argv[0])
