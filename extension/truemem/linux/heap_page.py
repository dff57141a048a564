"""What the function's own allocator says of an invocation, where it imports the probe (layer/python/truemem_heap.py).

The probe leaves a page below /tmp, named by its pid, with its last readings in it. The function's code can write
there too: a reading is of this invocation, whole, and numbers within bounds, or there is none.
"""

from __future__ import annotations

import posix

from ..support.named_tuple import NamedTuple
from ..support.private_file import PAGE, is_private, path_in
from ..support.units import mib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

SLOT = 256
"""Of the page, for each reading by turns: those of invocations that end meanwhile leave this one alone."""

NAME = "/.truemem-heap-"
MAGIC = b"truemem-heap-2"
FIELDS = 14
DIGITS = 15
"""Of the largest number that is believed."""
EARLY_MS = 1000
"""A function may be done before we have looked at the clock. Lambda's own retry of a request comes much later."""


class Heap(NamedTuple):
    """malloc's figures of one process when its handler had returned (mallinfo(3)), in KiB, and Python's own."""

    in_use: int
    """`uordblks`: allocated, in the heaps of all arenas."""
    held: int
    """`fordblks`: freed, and kept by the allocator."""
    mapped: int
    """`hblkhd`: allocated, each block with a mapping of its own."""
    gc: list[int]
    """gc.get_count(): objects since the last collection of each generation."""
    threads: int
    """Those that Python knows of."""
    source: str
    """`mallinfo2`, or `mallinfo`: 32 bits, so that a figure of 4 GiB begins at 0 again. `none`: not read."""
    children_kib: int = 0
    """RUSAGE_CHILDREN's ru_maxrss (getrusage(2)), KiB: highest RSS of any descendant that ended and was waited for,
    since the process began; it never falls. None of them was larger.

    It is the peak of one of them only where it is above the process's own peak at that time: the kernel counts
    for a child the memory that it had before exec() as well, which is its parent's.
    """

    def document(self) -> dict[str, object]:
        """The record's member, in MiB."""
        members: dict[str, object] = {"inUse": mib(self.in_use), "held": mib(self.held), "mapped": mib(self.mapped)}
        members["gc"] = self.gc
        members["threads"] = self.threads
        if self.source != "mallinfo2":
            members["source"] = self.source
        return members


def parse(page: bytes, request_id: str, since_ms: int) -> Heap | None:
    """The reading of this request, taken since that time (epoch ms); None if it is not there, or not whole. Where its
    `source` is `none`, the children's figure is the only one in it."""
    wanted = request_id.encode("utf-8", "replace")
    for start in range(0, len(page), SLOT):
        slot = page[start : start + SLOT]
        if slot.startswith(MAGIC) and wanted in slot:
            heap = _reading(slot, wanted, since_ms - EARLY_MS)
            if heap is not None:
                return heap
    return None


def _reading(slot: bytes, wanted: bytes, since_ms: int) -> Heap | None:
    text, newline, _ = slot.partition(b"\n")
    fields = text.split(b" ")
    if not newline or len(fields) != FIELDS:
        return None
    number, request, *figures, source, same = fields[1:]
    # Begun and ended by the same number: not read while it was written.
    if number != same or request != wanted or source not in (b"mallinfo2", b"mallinfo", b"none"):
        return None
    if not all(figure.isdigit() and len(figure) <= DIGITS for figure in figures):
        return None
    time_ms, children, in_use, held, mapped, *gc, threads = map(int, figures)
    return Heap(in_use, held, mapped, gc, threads, source.decode(), children) if time_ms >= since_ms else None


class HeapPages:
    """The pages of one environment's probes."""

    def __init__(self, environ: Mapping[bytes, bytes]) -> None:
        self._prefix = path_in(environ, "").rpartition("/")[0] + NAME

    def find(self, pids: Iterable[int], request_id: str, since_ms: int) -> Heap | None:
        """What one of these processes has noted for the request, if any."""
        for pid in pids:
            page = _read(f"{self._prefix}{pid}")
            heap = parse(page, request_id, since_ms) if page else None
            if heap is not None:
                return heap
        return None


def _read(path: str) -> bytes:
    """The page, or nothing: no link is followed, nothing is waited for, and what is not a private file is not read."""
    try:
        # O_NONBLOCK: neither a FIFO nor a lease (fcntl(2)) keeps us waiting.
        descriptor = posix.open(path, posix.O_RDONLY | posix.O_CLOEXEC | posix.O_NOFOLLOW | posix.O_NONBLOCK)
    except OSError:
        return b""
    try:
        return posix.pread(descriptor, PAGE, 0) if is_private(descriptor, PAGE) else b""
    except OSError:
        return b""
    finally:
        posix.close(descriptor)
