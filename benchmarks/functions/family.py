"""A function with children.

Event: {"how": a key of HOW, "count": of them, "mib": what each touches, "ms": how long they live, at least}; with
"spawn" and "fork" all hold their memory at the same moment. Answer: {"span": begin and end, CLOCK_MONOTONIC in ns}.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from typing import Any

PAGE = mmap.PAGESIZE
CHUNK = bytes(1 << 20)
PRIVATE = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
COUNTED_PAGES = 31
"""As many of one kind the kernel counts for one CPU alone."""
HELD_MS = 6
NO_CHILD_WAIT = 2
"""SA_NOCLDWAIT of sigaction(2)."""
IO_URING_SETUP = 425
RING_ENTRIES = 32768
RINGS = ((0, 64 * RING_ENTRIES), (0x10000000, 64 * RING_ENTRIES))
"""Offset (IORING_OFF_SQ_RING, IORING_OFF_SQES) and size of what is mapped of one."""

libc = ctypes.CDLL(None)  # without the interpreter's lock
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]

# Reads at standard input until it is told to end: everybody holds everything then.
SPAWNED = """
import mmap, os, sys
mib = int(sys.argv[1])
block = mmap.mmap(-1, mib << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
chunk = bytes(1 << 20)
for _ in range(mib):
    block.write(chunk)
os.write(1, b"x")
os.read(0, 1)
os._exit(0)  # an orderly end would take some more memory
"""

_kept: list[Any] = []
"""What lives on after an invocation."""


def touched(mib: int, advice: int = mmap.MADV_NOHUGEPAGE) -> mmap.mmap:
    block = mmap.mmap(-1, mib << 20, flags=PRIVATE)
    block.madvise(advice)
    for _ in range(mib):
        block.write(CHUNK)
    return block


def forked(work: Callable[[], object]) -> int:
    """The pid of a child that does this, and ends."""
    pid = os.fork()
    if not pid:
        try:
            work()
        finally:
            os.kill(os.getpid(), signal.SIGKILL)
    return pid


def together(start: Callable[[int, int, int], int], event: dict[str, Any]) -> None:
    """Children that are started with (MiB, the pipe where they say that they hold all, and the one that ends them)."""
    ready, tell = os.pipe()
    go, release = os.pipe()
    began = time.monotonic()
    pids = [start(event["mib"], tell, go) for _ in range(event["count"])]
    for _ in pids:
        os.read(ready, 1)
    time.sleep(max(0.0, event["ms"] / 1000 - (time.monotonic() - began)))
    os.write(release, b"x" * len(pids))  # a byte for each: a forked child has this end of the pipe as well
    for pid in pids:
        os.waitpid(pid, 0)
    for descriptor in ready, tell, go, release:
        os.close(descriptor)


def spawn(event: dict[str, Any]) -> None:
    """By posix_spawn or vfork, as subprocess does."""

    def start(mib: int, ready: int, go: int) -> int:
        command = [sys.executable, "-IS", "-c", SPAWNED, str(mib)]
        return subprocess.Popen(command, stdin=go, stdout=ready).pid

    together(start, event)


def fork(event: dict[str, Any]) -> None:
    """Copies of this process."""

    def start(mib: int, ready: int, go: int) -> int:
        def work() -> None:
            block = touched(mib)
            os.write(ready, b"x")
            os.read(go, 1)
            block.close()

        return forked(work)

    together(start, event)


def short(command: list[str]) -> Callable[[dict[str, Any]], None]:
    """One after the other."""

    def run(event: dict[str, Any]) -> None:
        for _ in range(event["count"]):
            subprocess.run(command, check=True)

    return run


def filled(mib: int) -> int:
    return len(CHUNK.replace(b"\0", b"x") * mib)


def pool(event: dict[str, Any]) -> None:
    """Forked workers that are made for one invocation, or the same ones for all of them ("kept")."""
    workers = _kept[0] if _kept else multiprocessing.get_context("fork").Pool(event["count"])
    if event.get("kept") and not _kept:
        _kept.append(workers)
    workers.map(filled, [event["mib"]] * 2 * event["count"])
    if not _kept:
        workers.close()
        workers.join()


def loop(event: dict[str, Any]) -> None:
    """A second thread starts children all the time, while much is held."""

    def starts() -> None:
        while True:
            subprocess.run(["/bin/true"], check=True)

    if not _kept:
        _kept.append(touched(event["mib"]))
        threading.Thread(target=starts, daemon=True).start()
    time.sleep(event["ms"] / 1000)


def held(event: dict[str, Any]) -> None:
    """The child of a second thread waits between vfork() and exec(), also when the answer is given."""
    if not _kept:
        _kept.append(touched(event["mib"]))
    fifo = tempfile.mktemp()
    os.mkfifo(fifo)
    actions = ctypes.create_string_buffer(256)
    libc.posix_spawn_file_actions_init(actions)
    libc.posix_spawn_file_actions_addopen(actions, 0, fifo.encode(), os.O_RDONLY, 0)  # waits for the other end
    words = (ctypes.c_char_p * 2)(b"true")

    def spawns() -> None:
        pid = ctypes.c_int()
        libc.posix_spawn(ctypes.byref(pid), b"/bin/true", actions, None, words, None)
        os.waitpid(pid.value, 0)

    def opens() -> None:
        time.sleep(HELD_MS / 1000)
        os.close(os.open(fifo, os.O_WRONLY))
        os.unlink(fifo)  # noqa: PTH108

    threading.Thread(target=spawns).start()
    threading.Thread(target=opens).start()
    time.sleep(event["ms"] / 1000)


class Action(ctypes.Structure):
    """struct sigaction of glibc."""

    _fields_ = (
        ("handler", ctypes.c_void_p),
        ("mask", ctypes.c_ubyte * 128),
        ("flags", ctypes.c_int),
        ("restorer", ctypes.c_void_p),
    )


def unwaited(handler: signal.Handlers, flags: int) -> Callable[[dict[str, Any]], None]:
    """A child that nothing waits for: SIGCHLD says so, for its life alone."""

    def run(event: dict[str, Any]) -> None:
        action, before = Action(handler=int(handler), flags=flags), Action()
        libc.sigaction(signal.SIGCHLD, ctypes.byref(action), ctypes.byref(before))
        pid = forked(lambda: touched(event["mib"]))
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)
        libc.sigaction(signal.SIGCHLD, ctypes.byref(before), None)

    return run


def huge(event: dict[str, Any]) -> None:
    """Pages of 2 MiB that were asked for, in a child or in this process."""
    if event["count"]:
        os.waitpid(forked(lambda: touched(event["mib"], mmap.MADV_HUGEPAGE)), 0)
    else:
        touched(event["mib"], mmap.MADV_HUGEPAGE).close()


def rings(event: dict[str, Any]) -> None:
    """A child that maps rings of io_uring: resident without a page fault."""

    def work() -> None:
        for _ in range(event["count"]):
            ring = libc.syscall(IO_URING_SETUP, RING_ENTRIES, ctypes.create_string_buffer(120))
            for offset, size in RINGS:
                libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED | mmap.MAP_POPULATE, ring, offset)
        time.sleep(event["ms"] / 1000)

    os.waitpid(forked(work), 0)


def counters(event: dict[str, Any]) -> None:
    """A few pages of each kind on each CPU, which the kernel counts for that CPU alone until they are more."""
    cpus = os.sched_getaffinity(0)
    size = COUNTED_PAGES * PAGE
    blocks = []
    with open(sys.executable, "rb") as file:  # noqa: PTH123
        for cpu in cpus:
            os.sched_setaffinity(0, {cpu})
            of_file = mmap.mmap(file.fileno(), size, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)
            of_file.madvise(mmap.MADV_RANDOM)  # a page for each fault
            for block in (mmap.mmap(-1, size, flags=PRIVATE), mmap.mmap(-1, size)):
                blocks.append(block)
                for at in range(0, size, PAGE):
                    block[at] = 1
            blocks.append(of_file)
            sum(of_file[at] for at in range(0, size, PAGE))
    os.sched_setaffinity(0, cpus)
    for block in blocks:
        block.close()


HOW: dict[str, Callable[[dict[str, Any]], None]] = {
    "spawn": spawn,
    "fork": fork,
    "true": short(["/bin/true"]),
    "python": short([sys.executable, "-ISc", "pass"]),
    "pool": pool,
    "loop": loop,
    "held": held,
    "ignored": unwaited(signal.SIG_IGN, 0),
    "nocldwait": unwaited(signal.SIG_DFL, NO_CHILD_WAIT),
    "huge": huge,
    "rings": rings,
    "counters": counters,
}


def handler(event: dict[str, Any], context: object) -> dict[str, list[int]]:
    """See the module."""
    began = time.monotonic_ns()
    HOW[event["how"]](event)
    return {"span": [began, time.monotonic_ns()]}
