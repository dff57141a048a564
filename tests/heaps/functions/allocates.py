"""Allocates with malloc() in the ways that RSS cannot tell apart, and treats the probe badly."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

if "UNKNOWN_CLIENT" in os.environ:
    known = sys.modules.pop("awslambdaric.lambda_runtime_client")
    import truemem_heap  # type: ignore[import-not-found]

    sys.modules["awslambdaric.lambda_runtime_client"] = known
else:
    import truemem_heap

BLOCK = 1000
"""Bytes: far below any threshold, so that it comes from a heap."""

library = ctypes.CDLL(None)
library.malloc.restype = ctypes.c_void_p
library.free.argtypes = [ctypes.c_void_p]
kept: list[int] = []
kept_objects: list[list[bytes]] = []


def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """`{"do": what, "mib": how much}`."""
    what: str = event["do"]
    return {"answer": getattr(sys.modules[__name__], f"do_{what}")(event.get("mib", 0))}


if "UNKNOWN_CLIENT" in os.environ:
    handler = truemem_heap.watch(handler)


def blocks(mib: float) -> list[int]:
    made = [library.malloc(BLOCK) for _ in range(int(mib * 2**20) // BLOCK)]
    for block in made:
        ctypes.memset(block, 1, BLOCK)
    return made


def do_nothing(_: float) -> None: ...


def do_leak(mib: float) -> None:
    """In use from now on."""
    kept.extend(blocks(mib))


def do_objects(mib: float) -> None:
    """Python's own blocks, of 64 bytes each, in use from now on. The list itself is malloc's."""
    kept_objects.append([bytes(31) for _ in range(int(mib * 2**20) // 64)])


def do_hoard(mib: float) -> None:
    """All freed but the last, which keeps the heap from being cut."""
    *freed, last = blocks(mib)
    kept.append(last)
    for block in freed:
        library.free(block)


def do_fail(_: float) -> None:
    raise ValueError("as asked")


def do_leave(_: float) -> list[str]:
    """To another folder, with a child of each kind; what a child of ours has open."""
    os.chdir("/")
    pid = os.fork()
    if not pid:
        os._exit(0)
    os.waitpid(pid, 0)
    listed = subprocess.run(["ls", "-l", "/proc/self/fd"], capture_output=True, text=True, check=True)
    return listed.stdout.splitlines()


workers: list[subprocess.Popen[bytes]] = []


def do_work(mib: float) -> None:
    """A child of so much memory ends, and is not waited for."""
    code = f"held = bytearray({int(mib)} << 20)"
    workers.append(subprocess.Popen([sys.executable, "-ISc", code]))
    os.waitid(os.P_PID, workers[-1].pid, os.WEXITED | os.WNOWAIT)


def do_reap(_: float) -> None:
    """Wait for the children that have ended before."""
    while workers:
        workers.pop().wait()


def do_empty(_: float) -> int:
    """Remove all that is in /tmp, as some functions do."""
    pages = list(Path(os.environ["TMPDIR"]).glob(".truemem-heap-*"))
    for page in pages:
        page.unlink()
    return len(pages)


def do_close(_: float) -> None:
    """Close each descriptor of a page, and open something else in its place."""
    for link in Path("/proc/self/fd").iterdir():
        if link.is_symlink() and ".truemem-heap-" in str(link.readlink()):
            os.close(int(link.name))
            victim = os.open(f"{os.environ['TMPDIR']}/victim", os.O_RDWR | os.O_CREAT)
            assert victim == int(link.name)


def do_victim(_: float) -> int:
    """Bytes in what was opened in the page's place."""
    return Path(os.environ["TMPDIR"], "victim").stat().st_size
