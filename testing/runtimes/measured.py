"""The handler that is measured: calls that of app.py, and tells what is in use of malloc and of Python's own blocks.

Each CASE_STEP invocations it writes a line of JSON to CASE_FIGURES, sizes in KiB. With CASE_COLLECT, Python's collector
runs before.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import re
import sys
import tempfile

from app import handler as measured_handler  # the case's

MEMBERS = ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")
STEP = int(os.environ["CASE_STEP"])
FIGURES = open(os.environ["CASE_FIGURES"], "a")  # noqa: PTH123, SIM115 - for as long as the process lives
COLLECT = "CASE_COLLECT" in os.environ


class Mallinfo2(ctypes.Structure):
    """struct mallinfo2 of mallinfo(3), glibc 2.33 and later."""

    _fields_ = [(name, ctypes.c_size_t) for name in MEMBERS]


libc = ctypes.CDLL(None)
libc.mallinfo2.restype = Mallinfo2
seen = {"count": 0, "failed": 0}


def pymalloc() -> int:
    """Bytes in blocks of Python's own allocator: its arenas are not malloc's."""
    with tempfile.TemporaryFile() as file:
        kept = os.dup(2)
        os.dup2(file.fileno(), 2)
        sys._debugmallocstats()
        os.dup2(kept, 2)
        os.close(kept)
        file.seek(0)
        found = re.search(rb"# bytes in allocated blocks\s*=\s*([\d,]+)", file.read())
    return int(found[1].replace(b",", b"")) if found else 0


def handler(event: object, context: object) -> object:
    try:
        return measured_handler(event, context)
    except Exception:
        seen["failed"] += 1
        raise
    finally:
        seen["count"] += 1
        if seen["count"] % STEP == 0:
            tell()


def tell() -> None:
    if COLLECT:
        gc.collect()
    info, blocks = libc.mallinfo2(), pymalloc()
    in_use = info.uordblks + info.hblkhd + blocks
    told = {"used": in_use // 1024, "held": info.fordblks // 1024, "pymalloc": blocks // 1024, "failed": seen["failed"]}
    print(json.dumps(told), file=FIGURES, flush=True)
