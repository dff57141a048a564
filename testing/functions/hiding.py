"""A function whose memory is easy to miss: children that nothing waits for, daemons, threads that unmap.

Event, {"do": "child"}: "how" it ends, "exit" or "kill"; "mib"; "end_ms", after the answer if above 0; "spawned", by
exec; "depth", 2 for a grandchild; "daemon": the one in between is waited for. {"do": "threads"}: "count"; "mib" of each
mapping; "rounds"; "apart": one thread touches, another one unmaps; "file": they map a file. Answer: {"truth": the most
that was read of all together, KiB}.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

MIB = 1 << 20
CHUNK = bytes(MIB)
PAGE_KIB = os.sysconf("SC_PAGE_SIZE") // 1024
ANSWER_S = 0.004
"""From the time that a child holds all until the answer."""
PRIVATE_ANONYMOUS = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS

libc = ctypes.CDLL(None)  # lets go of the interpreter's lock while it works
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
libc.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
libc.memcpy.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]

_statm = os.open("/proc/self/statm", os.O_RDONLY)
_sink = ctypes.create_string_buffer(MIB)

SPAWNED = """
import mmap, os, sys, time
mib, tell, go, until = int(sys.argv[1]), 1, 0, None
block = mmap.mmap(-1, max(mib, 1) << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
chunk = bytes(1 << 20)
for _ in range(mib):
    block.write(chunk)
for last in False, True:  # what is done for the first time takes memory as well
    with open("/proc/self/statm") as statm:
        held = b"%d %d" % (os.getpid(), int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024)
    os.write(1, held if last else b"")
    time.sleep(max(0.0, float(os.read(0, 32 * last) or 0) - time.monotonic()))
os._exit(0)
"""


def rss(descriptor: int = _statm) -> int:
    """Of the process whose statm it is: this one's, KiB."""
    return int(os.pread(descriptor, 100, 0).split()[1]) * PAGE_KIB


def level(pid: int) -> int:
    """RSS of any process, KiB; 0 if it has ended, or is about to."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_KIB
    except OSError:
        return 0


class Child:
    """One that touches memory, says so, and ends when it is told to."""

    def __init__(self, event: dict[str, Any]) -> None:
        self._hear, tell = os.pipe()
        go, self._go = os.pipe()
        make = self._spawn if event.get("spawned") else self._fork
        make(event, tell, go)
        os.close(tell)
        os.close(go)
        pid, held = os.read(self._hear, 64).split()
        self.pid = int(pid)
        self.held = int(held)
        """RSS with all of it, KiB, but for what fork() has handed on."""

    @property
    def ended(self) -> bool:
        try:
            text = Path(f"/proc/{self.pid}/stat").read_text()
        except OSError:
            return True
        return text.rpartition(")")[2].split()[0] in "ZX"

    def end_at(self, monotonic_s: float) -> None:
        os.write(self._go, str(monotonic_s).encode())
        os.close(self._go)
        os.close(self._hear)

    @staticmethod
    def _spawn(event: dict[str, Any], tell: int, go: int) -> None:
        command = [sys.executable, "-IS", "-c", SPAWNED, str(event["mib"])]
        child = subprocess.Popen(command, stdin=go, stdout=tell)
        child.returncode = 0  # nothing is to wait for it

    @staticmethod
    def _fork(event: dict[str, Any], tell: int, go: int) -> None:
        pid = os.fork()
        if pid:
            if event.get("daemon"):
                os.waitpid(pid, 0)
            return
        try:
            handed_on = level(os.getpid())  # by fork(): counts once, in the parent
            if event.get("depth", 1) > 1:
                if event.get("daemon"):
                    os.setsid()
                if os.fork():
                    if not event.get("daemon"):
                        os.wait()
                    os._exit(0)
                handed_on = level(os.getpid()) + (0 if event.get("daemon") else handed_on)
            block = mmap.mmap(-1, max(event["mib"], 1) * MIB, flags=PRIVATE_ANONYMOUS)
            for _ in range(event["mib"]):
                block.write(CHUNK)
            for last in False, True:  # what is done for the first time takes memory as well
                held = level(os.getpid())
                if event.get("depth", 1) > 1 and not event.get("daemon"):
                    held += level(os.getppid())
                os.write(tell, b"%d %d" % (os.getpid(), held - handed_on) if last else b"")
                time.sleep(max(0.0, float(os.read(go, 32 * last) or 0) - time.monotonic()))
        finally:
            os._exit(0)


_children: list[Child] = []


def child(event: dict[str, Any]) -> int:
    """Nothing waits for it."""
    made = Child(event)
    _children.append(made)
    truth = rss() + made.held
    answer_at = time.monotonic() + ANSWER_S
    kills = event["how"] == "kill"
    end_at = answer_at + event["end_ms"] / 1000
    made.end_at(end_at + 60 if kills else end_at)
    if kills:
        answer_at = max(answer_at, end_at)
        time.sleep(max(0.0, end_at - time.monotonic()))
        os.kill(made.pid, signal.SIGKILL)
    while time.monotonic() < answer_at:
        pass
    return truth


class Watch(threading.Thread):
    """Reads the level as often as it can."""

    def __init__(self) -> None:
        super().__init__()
        self.highest = rss()
        self.over = False

    def run(self) -> None:
        descriptor = os.open("/proc/self/statm", os.O_RDONLY)
        while not self.over:
            self.highest = max(self.highest, rss(descriptor))
        os.close(descriptor)


def mapped(size: int, descriptor: int) -> int:
    """A mapping, each page of which is resident."""
    if descriptor >= 0:
        address = int(libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_PRIVATE, descriptor, 0))
        for at in range(0, size, MIB):
            libc.memcpy(_sink, address + at, MIB)
        return address
    address = int(libc.mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, PRIVATE_ANONYMOUS, -1, 0))
    libc.madvise(address, size, mmap.MADV_NOHUGEPAGE)
    libc.memset(address, 1, size)
    return address


def threads(event: dict[str, Any]) -> int:
    """They map, touch and unmap at the same time."""
    size, rounds = event["mib"] * MIB, event["rounds"]
    descriptor = -1
    if event.get("file"):
        with tempfile.TemporaryFile() as file:
            for _ in range(event["mib"]):
                file.write(CHUNK)
            file.flush()
            descriptor = os.dup(file.fileno())
    waiting: queue.Queue[int] = queue.Queue(2)

    def both() -> None:
        for _ in range(rounds):
            libc.munmap(mapped(size, descriptor), size)

    def touches() -> None:
        for _ in range(rounds):
            waiting.put(mapped(size, descriptor))

    def unmaps() -> None:
        for _ in range(rounds):
            libc.munmap(waiting.get(), size)

    watch = Watch()
    work = [touches, unmaps] if event.get("apart") else [both]
    made = [threading.Thread(target=target) for target in work * event["count"]]
    for thread in [watch, *made]:
        thread.start()
    for thread in made:
        thread.join()
    watch.over = True
    watch.join()
    if descriptor >= 0:
        os.close(descriptor)
    return watch.highest


def handler(event: dict[str, Any], context: object) -> dict[str, int]:
    """See the module."""
    truth = rss() + sum(level(made.pid) for made in _children)
    while not all(made.ended for made in _children):
        time.sleep(0.001)
    _children.clear()
    return {"truth": max(truth, {"child": child, "threads": threads}[event["do"]](event))}
