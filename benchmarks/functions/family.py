"""A function with children of known size, which all hold their memory at the same moment.

Event: {"how": "spawn" or "fork", "count": N, "mib": of each, "ms": how long they live, at least}. Answer: {"truth": RSS
of all together at that moment, KiB, "ms": how long the first one lived}.
"""

from __future__ import annotations

import mmap
import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

PAGE_KIB = os.sysconf("SC_PAGE_SIZE") // 1024
CHUNK = bytes(1 << 20)

# Reads at standard input until it is told to end: everybody holds everything then.
SPAWNED = """
import mmap, os, struct, sys
mib = int(sys.argv[1])
block = mmap.mmap(-1, mib << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
chunk = bytes(1 << 20)
for _ in range(mib):
    block.write(chunk)
for last in False, True:  # what is done for the first time takes memory as well
    with open("/proc/self/statm") as statm:
        rss = struct.pack("q", int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024)
    os.write(1, rss if last else b"")
    os.read(0, int(last))
os._exit(0)  # an orderly end would take some more memory
"""


def rss() -> int:
    """Of this process, KiB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_KIB


def spawn(mib: int, ready: int, go: int) -> int:
    """By posix_spawn or vfork, as subprocess does."""
    command = [sys.executable, "-IS", "-c", SPAWNED, str(mib)]
    return subprocess.Popen(command, stdin=go, stdout=ready).pid


def fork(mib: int, ready: int, go: int) -> int:
    """A copy of this process."""
    pid = os.fork()
    if pid == 0:
        try:
            block = mmap.mmap(-1, mib << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            for _ in range(mib):
                block.write(CHUNK)
            for last in False, True:
                held = struct.pack("q", rss())
                os.write(ready, held if last else b"")
                os.read(go, int(last))
        finally:
            os.kill(os.getpid(), signal.SIGKILL)
    return pid


HOW: dict[str, Callable[[int, int, int], int]] = {"spawn": spawn, "fork": fork}


def handler(event: dict[str, Any], context: object) -> dict[str, float]:
    """See the module."""
    count = event["count"]
    ready, tell = os.pipe()
    go, release = os.pipe()
    began = time.perf_counter()
    pids = [HOW[event["how"]](event["mib"], tell, go) for _ in range(count)]
    truth = rss() + sum(struct.unpack("q", os.read(ready, 8))[0] for _ in pids)
    time.sleep(max(0.0, event["ms"] / 1000 - (time.perf_counter() - began)))
    os.write(release, b"x" * count)  # a byte for each: a forked child has this end of the pipe as well
    for pid in pids:
        os.waitpid(pid, 0)
    lived = time.perf_counter() - began
    for descriptor in ready, tell, go, release:
        os.close(descriptor)
    return {"truth": truth, "ms": lived * 1000}
