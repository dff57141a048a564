"""A function that ends in the ways of faults/deaths.py. Event: {"code": Python}, run with the names below; "" does
nothing."""

from __future__ import annotations

import ctypes
import mmap
import os
import resource
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

MIB = 1 << 20
CHUNK = memoryview(bytes(MIB))
LIMIT = int(os.environ["AWS_LAMBDA_FUNCTION_MEMORY_SIZE"])
"""MiB."""
held: list[object] = []


def grow(mib: float = float("inf"), pause_s: float = 0.0) -> None:
    """Touch so many MiB of anonymous memory, and keep them."""
    until = len(held) + mib
    while len(held) < until:
        block = mmap.mmap(-1, MIB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        block.write(CHUNK)  # allocates
        held.append(block)
        if pause_s:
            time.sleep(pause_s)


def hold(mib: int) -> None:
    """Touch so many, and keep them for a second."""
    grow(mib)
    time.sleep(1)


def fork(work: Callable[[], object]) -> int:
    """A child that does this, and ends; its pid."""
    pid = os.fork()
    if not pid:
        try:
            work()
        finally:
            os._exit(0)
    return pid


def wait(pid: int) -> str:
    """For the end of a child."""
    return f"a child ended: {os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])}"


def orphan(work: Callable[[], object], *, daemon: bool = False) -> int:
    """A process that does this and whose parent has ended, in a session of its own if it is a `daemon`; a descriptor
    that can be read when it has ended."""
    read, write = os.pipe()

    def between() -> None:
        if daemon:
            os.setsid()
        fork(work)

    wait(fork(between))
    os.close(write)
    return read


def ended(descriptor: int) -> str:
    """Wait for the end of an orphan."""
    os.read(descriptor, 1)
    os.close(descriptor)
    return "it has ended"


def read_files(share: float = 1.3) -> None:
    """Read files of so many times the limit: they stay in the page cache, as far as there is room."""
    with tempfile.NamedTemporaryFile() as file:
        file.truncate(round(LIMIT * share) * MIB)
        while file.read(MIB):
            pass


def write_files(share: float = 1.3) -> None:
    """Write them."""
    with tempfile.NamedTemporaryFile() as file:
        for _ in range(round(LIMIT * share)):
            file.write(CHUNK)
            file.flush()


def map_file(share: float) -> None:
    """Map one, and touch each page."""
    with tempfile.TemporaryFile() as file:
        file.truncate(round(LIMIT * share) * MIB)
        view = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    for at in range(0, len(view), 4096):
        view[at]  # allocates
    held.append(view)


def fill(descriptor: int) -> None:
    """Write to it for ever."""
    while True:
        os.write(descriptor, CHUNK)


def stacks() -> None:
    """Threads that touch all of their stacks, of 32 MiB."""
    libc = ctypes.CDLL(None)
    libc.pthread_self.restype = ctypes.c_ulong
    threading.stack_size(32 * MIB)

    def deep() -> None:
        attributes = ctypes.create_string_buffer(64)
        lowest, size = ctypes.c_void_p(), ctypes.c_size_t()
        libc.pthread_getattr_np(ctypes.c_ulong(libc.pthread_self()), attributes)
        libc.pthread_attr_getstack(attributes, ctypes.byref(lowest), ctypes.byref(size))
        ctypes.memset(lowest.value or 0, 1, size.value - MIB)  # allocates
        time.sleep(60)

    while True:
        threading.Thread(target=deep, daemon=True).start()


def limited(mib: int, work: Callable[[], object]) -> None:
    """Do it with so little more address space (RLIMIT_AS)."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * 4096 + mib * MIB, hard))
    try:
        work()
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def usage() -> int:
    """What the cgroup holds, MiB."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        folder = "/sys/fs/cgroup/memory" if "memory" in controllers.split(",") else "/sys/fs/cgroup"
        for name in ("memory.usage_in_bytes", "memory.current"):
            if (file := Path(f"{folder}{path}/{name}")).exists():
                return int(file.read_text()) // MIB
    raise OSError("no memory cgroup")


def to_the_limit() -> None:
    """Hold all but a MiB and a half, and for long enough to be seen."""
    while usage() < LIMIT - 1.5:
        grow(0.25)
    time.sleep(1.5)


def end(number: int) -> NoReturn:
    """As a signal that this process gives itself."""
    os.kill(os.getpid(), number)
    while True:
        time.sleep(60)


def bus_error() -> None:
    """Read a page of a file that has been cut off."""
    with tempfile.TemporaryFile() as file:
        file.truncate(4096)
        view = mmap.mmap(file.fileno(), 4096)
        file.truncate(0)
        view[0]


def handler(event: dict[str, Any], context: object) -> object:
    """See the module. What the code calls `answer` is the answer."""
    names = {**globals(), "os": os, "signal": signal, "sys": sys, "answer": None}
    exec(event["code"], names)  # allocates
    return names["answer"]
