"""A function that touches and frees a known number of MiB, and says what the truth was.

Event: {"do": KIND, "mib": N, "ms": hold time}. Answer: {"before": RSS at the handler's start, "truth": RSS at
its peak, "touched": what was added}, in KiB. The truth is arithmetic where only this process allocates
(before + touched), and this process's and its children's own reading at the peak where they do together.
"""

from __future__ import annotations

import json
import mmap
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

MIB = 1 << 20
CHUNK = memoryview(bytes(MIB))
PAGE_KIB = os.sysconf("SC_PAGE_SIZE") // 1024

_statm = os.open("/proc/self/statm", os.O_RDONLY)
_kept: list[mmap.mmap] = []


def rss(descriptor: int = _statm) -> int:
    """Resident set of the process whose statm is open at `descriptor`, KiB."""
    return int(os.pread(descriptor, 100, 0).split()[1]) * PAGE_KIB


def touch(size: int) -> mmap.mmap:
    """Map `size` bytes and write each page."""
    block = mmap.mmap(-1, max(size, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    whole, rest = divmod(size, MIB)
    for _ in range(whole):
        block.write(CHUNK)
    block.write(CHUNK[:rest])
    return block


def hold(size: int, seconds: float) -> int:
    """Touch, hold, free."""
    block = touch(size)
    time.sleep(seconds)
    block.close()
    return size


def spike(size: int, seconds: float) -> int:
    """Touch and free for about `seconds`, without sleeping; at the very start of the handler."""
    until = time.perf_counter() + seconds
    block = touch(size)
    while time.perf_counter() < until:
        pass
    block.close()
    return size


def keep(size: int, seconds: float) -> int:
    """Touch and keep for later invocations: memory that rises."""
    _kept.append(touch(size))
    time.sleep(seconds)
    return size


def release(size: int, seconds: float) -> int:
    """Free what was kept, `size` bytes of it at least: memory that falls."""
    freed = 0
    while _kept and freed < size:
        block = _kept.pop()
        freed += len(block)
        block.close()
    time.sleep(seconds)
    return 0


def threads(size: int, seconds: float) -> int:
    """32 threads, each touching its share, all at once."""
    count = 32
    ready = threading.Barrier(count + 1)
    done = threading.Event()
    before = rss()
    peak = 0

    def work() -> None:
        block = touch(size // count)
        ready.wait()
        done.wait()
        block.close()

    workers = [threading.Thread(target=work) for _ in range(count)]
    for worker in workers:
        worker.start()
    ready.wait()
    peak = rss()
    time.sleep(seconds)
    done.set()
    for worker in workers:
        worker.join()
    return (peak - before) * 1024


def child(size: int, seconds: float) -> int:
    """A child process that touches `size` bytes while this one holds as many."""
    before = rss()
    block = touch(size)
    program = (
        f"import mmap; m = mmap.mmap(-1, {size}, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS); chunk = bytes(65536)\n"
        f"for _ in range({size // 65536}): m.write(chunk)\n"
        "print('up', flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-IS", "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as held:
        assert held.stdout is not None
        held.stdout.readline()
        statm = os.open(f"/proc/{held.pid}/statm", os.O_RDONLY)
        together = rss() + rss(statm)
        time.sleep(seconds)
        os.close(statm)
        held.communicate(b"\n")
    block.close()
    return (together - before) * 1024


def file(size: int, seconds: float) -> int:
    """Map a file and read each page of it."""
    path = Path(f"/tmp/touch-{os.getpid()}-{size}")
    with path.open("w+b") as source:
        source.truncate(size)
        before = rss()
        view = mmap.mmap(source.fileno(), size, access=mmap.ACCESS_READ)
    for at in range(0, size, 4096):
        view[at]
    peak = rss()
    time.sleep(seconds)
    view.close()
    path.unlink()
    return (peak - before) * 1024


def crash(size: int, seconds: float) -> int:
    """Touch and hold, then end the process without an answer."""
    block = touch(size)
    time.sleep(seconds)
    os._exit(3 if block else 4)


def hog(size: int, seconds: float) -> int:
    """A child that touches `size` bytes, and ends if it is not killed. The function lives on."""
    program = (
        f"import mmap; m = mmap.mmap(-1, {size}, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS); chunk = bytes(65536)\n"
    )
    program += f"for _ in range({size // 65536}): m.write(chunk)"
    subprocess.run([sys.executable, "-IS", "-c", program], check=False)
    time.sleep(seconds)
    return 0


def leave(size: int, seconds: float) -> int:
    """Touch and hold, then exit with 0."""
    block = touch(size)
    time.sleep(seconds)
    os._exit(0 if block else 4)


KINDS: dict[str, Callable[[int, float], int]] = {
    made.__name__: made for made in (hold, spike, keep, release, threads, child, file, crash, hog, leave)
}


def handler(event: dict[str, Any], context: object) -> dict[str, int]:
    """See the module."""
    before = rss()
    touched = KINDS[event["do"]](round(event.get("mib", 0) * MIB), event.get("ms", 0) / 1000) // 1024
    return {"before": before, "touched": touched, "truth": before + touched}


def main(event: dict[str, Any]) -> None:
    """One event for a shell, which is the runtime: prints the answer. The truth is what the shell and this process hold
    together at the peak."""
    shell = os.open(f"/proc/{os.getppid()}/statm", os.O_RDONLY)
    before = rss() + rss(shell)
    touched = hold(round(event["mib"] * MIB), event["ms"] / 1000) // 1024
    print(json.dumps({"before": before, "touched": touched, "truth": before + touched}))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
