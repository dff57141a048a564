"""What the function's own runtime says of its heap, where a probe in it leaves a page (docs/heap.md).

A probe writes its last readings into a page below /tmp, named by its pid. The function's code can write there too: a
reading is of this invocation, whole, and numbers within bounds, or there is none. Where a heap may grow beyond the
memory size, one line of the log says so.
"""

from __future__ import annotations

import posix

from ..support.files import PAGE_BYTES, SAFE_FLAGS, is_private, path_in
from ..support.log import log
from ..support.named_tuple import NamedTuple
from ..support.numbers import mib, whole
from ..verdict import heap_limit_advice

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


SLOT = 256
"""Bytes of a slot of the page. Readings take slots by turns: those of invocations that end meanwhile leave this one
alone."""

MANAGED_PAGE_BYTES = 16 * PAGE_BYTES
"""Size of a page on Managed Instances, where many requests end before one is looked for."""
PATH_PREFIX = "/.truemem-heap-"
MAGIC = b"truemem-heap-3"
DIGITS = 15
"""Digits of the largest number that is believed."""
EARLY_MS = 1000
"""A function may be done before we have looked at the clock. Lambda's own retry of a request comes much later."""

HEAP_RUNTIMES = (b"nodejs", b"go", b"dotnet", b"ruby", b"php")
"""Runtimes whose figures are a RuntimeHeap. `python` has figures of its own, a PythonHeap."""
_SAME_NAMES = ("used", "committed", "live", "limit", "external", "metaspace", "collections")
RUNTIME_FIELDS = {**{name.encode(): name for name in _SAME_NAMES}, b"gcMs": "gc_ms"}
"""Names in the page, and in the line, of a RuntimeHeap's fields."""
BLOCK_BYTES = 64
"""What one of Python's blocks is taken for: they have 16 to 512 bytes, most of them few."""
MALLOC_NAMES = (b"inUse", b"held", b"mapped")
PYTHON_NAMES = (b"gc0", b"gc1", b"gc2", b"threads")
SETTLED_NAMES = (b"kept", b"garbage", b"room")
"""Names that are there only where the probe has settled the process."""
KNOWN_NAMES = {*RUNTIME_FIELDS, *MALLOC_NAMES, *PYTHON_NAMES, *SETTLED_NAMES, b"blocks", b"small", b"children", b"bits"}
"""All names that are read. Others are for later versions, and are passed over."""


class Settled(NamedTuple):
    """What a process kept that the probe had settled: garbage was collected. KiB."""

    kept: int
    """KiB in use by malloc and small objects (Python), or by V8's heap and what its objects own outside of it."""
    garbage: int
    """KiB that collections of garbage freed when the process was settled."""
    room: int | None
    """Entries until the cache is full that fills most, of those with a bound of their own; None: there is none."""

    def document(self) -> dict[str, object]:
        """Members of `heap`: sizes in MiB, to one KiB."""
        members: dict[str, object] = {"kept": round(self.kept / 1024, 3), "garbage": round(self.garbage / 1024, 3)}
        if self.room is not None:
            members["room"] = self.room
        return members


class RuntimeHeap(NamedTuple):
    """What one runtime says of its heap when an invocation had ended. Sizes in KiB; None: it does not say."""

    runtime: str
    """`java`, or one of HEAP_RUNTIMES."""
    used: int | None
    """KiB used by objects, those that nothing refers to any more included: the collector has not taken them yet. With
    Java 25's Serial and Parallel collectors as of the end of the last collection: None before the first."""
    committed: int
    """Taken from the system for the heap, used or not."""
    live: int | None = None
    """Used just after the last major collection, or the last one that looked at all objects; None before the first, and
    where another collection came before it could be read. Java before 25: without what that collection has left in
    eden."""
    limit: int | None = None
    """The heap does not grow beyond it (`-Xmx`, `--max-old-space-size`, `GOMEMLIMIT`, `DOTNET_GCHeapHardLimit`)."""
    external: int | None = None
    """Memory outside of the heap that its objects own (Node.js: `external`, buffers included)."""
    metaspace: int | None = None
    """Classes and their code (Java: metaspace used; Node.js: compiled code, which is part of `used`)."""
    collections: int | None = None
    """Major collections since the process began."""
    gc_ms: int | None = None
    """Time that all collections took since the process began, ms."""
    settled: Settled | None = None
    """What settling found; None of a process that was not settled."""

    @property
    def in_use_kib(self) -> int | None:
        """What objects hold for certain: `used` also rises by garbage."""
        return self.live

    def document(self) -> dict[str, object]:
        """The record's member `heap`, in MiB."""
        members: dict[str, object] = {"runtime": self.runtime}
        for member, name in RUNTIME_FIELDS.items():
            figure = getattr(self, name)
            if figure is not None:
                members[member.decode()] = figure if name in ("collections", "gc_ms") else mib(figure)
        return members if self.settled is None else {**members, **self.settled.document()}


class PythonHeap(NamedTuple):
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
    """Threads that Python knows of."""
    source: str
    """`mallinfo2`, or `mallinfo`: 32 bits, so that a figure of 4 GiB begins at 0 again. `none`: not read."""
    children_kib: int = 0
    """RUSAGE_CHILDREN's ru_maxrss (getrusage(2)), KiB: highest RSS of any descendant that ended and was waited for,
    since the process began; it never falls. None of them was larger. Perhaps none was so large: the kernel counts for a
    child the memory that it had before exec() as well, which is its parent's.
    """
    blocks: int | None = None
    """sys.getallocatedblocks(): blocks in use of Python's own allocator, whose arenas are not malloc's. None: of a
    probe that did not tell."""
    small: int | None = None
    """What these blocks hold, KiB; None where Python does not tell."""
    settled: Settled | None = None
    """What settling found; None of a process that was not settled."""

    @property
    def in_use_kib(self) -> int | None:
        """KiB in use by malloc and by Python's own allocator; None where that was not read."""
        if self.source == "none":
            return None
        small = (self.blocks or 0) * BLOCK_BYTES // 1024 if self.small is None else self.small
        return self.in_use + self.mapped + small

    def document(self) -> dict[str, object]:
        """The record's member `heap`, in MiB."""
        members: dict[str, object] = {"inUse": mib(self.in_use), "held": mib(self.held), "mapped": mib(self.mapped)}
        if self.blocks is not None:
            members["blocks"] = self.blocks
        if self.small is not None:
            members["small"] = mib(self.small)
        members["gc"] = self.gc
        members["threads"] = self.threads
        if self.source != "mallinfo2":
            members["source"] = self.source
        return members if self.settled is None else {**members, **self.settled.document()}


def parse(page: bytes, request_id: str, since_ms: int) -> PythonHeap | RuntimeHeap | None:
    """The reading of this request, taken since that time (epoch ms); None if it is not there, or not whole. Where the
    `source` of a PythonHeap is `none`, the children's figure is the only one in it."""
    wanted = request_id.encode("utf-8", "replace")
    at = page.find(wanted) if wanted else -1
    while at >= 0:
        start = at - at % SLOT
        heap = _reading(page[start : start + SLOT], wanted, since_ms - EARLY_MS)
        if heap is not None:
            return heap
        at = page.find(wanted, start + SLOT)
    return None


def _reading(slot: bytes, wanted: bytes, since_ms: int) -> PythonHeap | RuntimeHeap | None:
    text, newline, _ = slot.partition(b"\n")
    fields = text.split(b" ")
    if not newline or len(fields) < 6:
        return None
    magic, number, request, time_ms, runtime, *members, same = fields
    # Begun and ended by the same number: not read while it was written.
    taken_ms = whole(time_ms, DIGITS)
    if magic != MAGIC or number != same or request != wanted or taken_ms is None or taken_ms < since_ms:
        return None
    figures: dict[bytes, int] = {}
    for member in members:
        name, equals, value = member.partition(b"=")
        figure = whole(value, DIGITS)
        if not equals or (figure is None and name in KNOWN_NAMES):
            return None
        figures[name] = figure or 0
    if runtime == b"python":
        return _python(figures)
    if runtime not in HEAP_RUNTIMES or b"used" not in figures or b"committed" not in figures:
        return None
    known = {RUNTIME_FIELDS[name]: figures[name] for name in figures if name in RUNTIME_FIELDS}
    return RuntimeHeap(runtime.decode(), settled=_settled(figures), **known)


def _python(figures: dict[bytes, int]) -> PythonHeap | None:
    """Python's figures as a PythonHeap. malloc's are all there, or none are: the budget allowed no reading, or there is
    no mallinfo. None if some are missing."""
    children = figures.get(b"children", 0)
    known = sum(name in figures for name in (*MALLOC_NAMES, *PYTHON_NAMES))
    if not known:
        return PythonHeap(0, 0, 0, [], 0, "none", children)
    if known < len(MALLOC_NAMES) + len(PYTHON_NAMES):
        return None
    in_use, held, mapped = (figures[name] for name in MALLOC_NAMES)
    *gc, threads = (figures[name] for name in PYTHON_NAMES)
    source = "mallinfo" if figures.get(b"bits") == 32 else "mallinfo2"
    blocks, small = figures.get(b"blocks"), figures.get(b"small")
    return PythonHeap(in_use, held, mapped, gc, threads, source, children, blocks, small, _settled(figures))


def _settled(figures: dict[bytes, int]) -> Settled | None:
    kept, garbage = figures.get(b"kept"), figures.get(b"garbage")
    return None if kept is None or garbage is None else Settled(kept, garbage, figures.get(b"room"))


class HeapPages:
    """The pages of one environment's probes."""

    def __init__(self, environ: Mapping[bytes, bytes]) -> None:
        self._prefix = path_in(environ, "").rpartition("/")[0] + PATH_PREFIX
        self.pid = 0
        """Pid of the process whose page was found last."""

    def read(self, pids: Iterable[int]) -> dict[int, bytes]:
        """The pages that are there, by pid."""
        pages = {pid: _read(f"{self._prefix}{pid}") for pid in pids}
        return {pid: page for pid, page in pages.items() if page}

    def find(self, pages: Mapping[int, bytes], request_id: str, since_ms: int) -> PythonHeap | RuntimeHeap | None:
        """What one of these processes has noted for the request, if any."""
        for pid, page in pages.items():
            heap = parse(page, request_id, since_ms)
            if heap is not None:
                self.pid = pid
                return heap
        return None


def _read(path: str) -> bytes:
    """The page, or nothing: no link is followed, nothing is waited for, and what is not a private file is not read."""
    if not posix.access(path, posix.F_OK):  # mostly, and an exception takes longer
        return b""
    try:
        descriptor = posix.open(path, SAFE_FLAGS)
    except OSError:
        return b""
    try:
        return (
            posix.pread(descriptor, MANAGED_PAGE_BYTES, 0)
            if is_private(descriptor, PAGE_BYTES, most=MANAGED_PAGE_BYTES)
            else b""
        )
    finally:
        posix.close(descriptor)


class HeapLimitNotice:
    """Logs advice on the runtime's heap limit, once in an environment, about the first heap that has one."""

    def __init__(self, memory_mib: int) -> None:
        """`memory_mib`: the function's memory size; 0 where that is not known."""
        self._memory_kib = memory_mib * 1024
        self._looked = False

    def look(self, heap: PythonHeap | RuntimeHeap | None) -> None:
        """Log the advice on the first heap that has a limit, if there is any; called at the close of each
        invocation."""
        if self._looked or not isinstance(heap, RuntimeHeap) or heap.limit is None:
            return
        self._looked = True
        outside_kib = (heap.metaspace or 0) + (heap.external or 0)
        advice = heap_limit_advice(heap.runtime, heap.limit, self._memory_kib, outside_kib)
        if advice:
            log("warn", advice)
