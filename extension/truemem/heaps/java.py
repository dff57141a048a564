"""The heap of the function's JVMs, by the performance counters in /tmp/hsperfdata_USER/PID.

HotSpot keeps them in a mapped file, made to be read by other processes. It is always below /tmp, whatever TMPDIR says;
USER is the name that the JVM's effective uid has in /etc/passwd, and PID the innermost of its pids
(src/hotspot/os/posix/perfMemory_posix.cpp). A user without a name has no file. The function can write there: a file
is read if it is regular, of the process's own user, writable for no other, and small. Only our own root is looked in,
which the function's processes share: one that a process makes for itself could keep us waiting.
"""

from __future__ import annotations

import posix

from ..linux.procfs import DIGITS, Gone
from ..support.files import SAFE_FLAGS, is_private, read
from ..support.named_tuple import NamedTuple
from ..support.numbers import whole
from .page import RuntimeHeap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Literal

    from ..linux.process_table import Process

LOOKS_PER_PROCESS = 3
"""How often a process without a file is looked at, each time when an invocation ends: it may yet become a JVM, by
exec()."""
MOST_NEW = 8
"""Processes that are looked at in one invocation. The others are, in the next one."""
MOST_OPEN = 8
"""Files that are held open: a function may start many JVMs."""
_PASSWD_MAX = 65536
_NAME_MAX = 128

MAGIC = b"\xca\xfe\xc0\xc0"
"""First bytes of the file, in this order whatever that of the machine is."""
FORMAT_VERSION = b"\x02\x00"
PROLOGUE_BYTES = 32
ENTRY_HEADER_BYTES = 20
MOST_FILE_BYTES = 256 * 1024
"""Most bytes of the file that are read: HotSpot makes it PerfDataMemorySize large, 32 KiB."""
MOST_ENTRIES = 4096
"""128 to 214 were seen."""
LONG_TYPE = ord("J")
"""Type of a counter that is a number of 8 bytes."""
TEXT_TYPE = ord("B")
"""Type of a counter that is text: a vector of a fixed length, which NUL ends."""
NAME_MAX = 64
TEXT_MAX = 64

CAPACITY = [b"sun.gc.generation.0.capacity", b"sun.gc.generation.1.capacity"]
MAX_CAPACITY = [b"sun.gc.generation.0.maxCapacity", b"sun.gc.generation.1.maxCapacity"]
EDEN = b"sun.gc.generation.0.space.0.used"
SURVIVORS = [b"sun.gc.generation.0.space.1.used", b"sun.gc.generation.0.space.2.used"]
OLD_USED = b"sun.gc.generation.1.space.0.used"
METASPACE = b"sun.gc.metaspace.used"
MAJOR = b"sun.gc.collector.1.invocations"
COLLECTOR_TIMES = [b"sun.gc.collector.%d.time" % number for number in range(3)]
ENTRIES = [b"sun.gc.collector.%d.lastEntryTime" % number for number in range(2)]
EXITS = [b"sun.gc.collector.%d.lastExitTime" % number for number in range(2)]
FREQUENCY = b"sun.os.hrt.frequency"
TICKS = b"sun.os.hrt.ticks"
POLICY = b"sun.gc.policy.name"

NUMBERS = frozenset(
    [
        *CAPACITY,
        *MAX_CAPACITY,
        EDEN,
        *SURVIVORS,
        OLD_USED,
        METASPACE,
        MAJOR,
        *COLLECTOR_TIMES,
        *ENTRIES,
        *EXITS,
        FREQUENCY,
        TICKS,
    ]
)
SERIAL, PARALLEL, G1 = b"Copy:MSC", b"ParScav:MSC", b"GarbageFirst"
"""Values of POLICY. Other collectors do not have it."""

COUNTER_LIMIT = 1 << 50
"""No heap has a PiB: the function has written this."""
MOST_TICKS = 1 << 60
"""36 years of nanoseconds."""


class Layout(NamedTuple):
    """Where the wanted counters lie in one file. They stay there: HotSpot only adds entries, at the end."""

    order: Literal["little", "big"]
    start: int
    end: int
    """Bytes of the file that hold all of them."""
    heads: list[tuple[bytes, int, int, bytes]]
    """For each number: its name, the places from `start` where its entry and its value begin, and the bytes between."""
    policy: bytes
    """Value of POLICY, a constant; or nothing."""


def locate(data: bytes) -> Layout | None:
    """Where NUMBERS lie, those that are there. None if `data` is not a whole file of this version, or has none of them.

    The format is that of src/hotspot/share/runtime/perfMemory.hpp, version 2.0 (JDK 8 to 25): a prologue of 32 bytes,
    then entries, each with a header of 20 bytes, a name that ends with NUL, and a value. The JVM writes it through a
    mapping while we read, and the function can write to it as well: nothing is believed that does not lie within."""
    if len(data) < PROLOGUE_BYTES or data[:4] != MAGIC or data[4] > 1 or data[5:7] != FORMAT_VERSION or data[7] != 1:
        return None  # another format, or not ready to access
    order: Literal["little", "big"] = "little" if data[4] else "big"
    used, at, count = (int.from_bytes(data[place : place + 4], order, signed=True) for place in (8, 24, 28))
    if not PROLOGUE_BYTES <= at <= used <= len(data) or not 0 < count <= MOST_ENTRIES:
        return None
    heads: list[tuple[bytes, int, int, bytes]] = []
    policy = b""
    for _ in range(count):
        if at + ENTRY_HEADER_BYTES > used:
            return None
        length, name_at, vector = (int.from_bytes(data[place : place + 4], order) for place in (at, at + 4, at + 8))
        value_at = int.from_bytes(data[at + 16 : at + 20], order)
        if length < ENTRY_HEADER_BYTES or at + length > used or not ENTRY_HEADER_BYTES <= name_at < value_at <= length:
            return None
        name = data[at + name_at : at + min(value_at, name_at + NAME_MAX)].partition(b"\0")[0]
        kind = data[at + 12]
        if name in NUMBERS and kind == LONG_TYPE and not vector and value_at + 8 <= length:
            heads.append((name, at, at + value_at, data[at : at + value_at]))
        elif name == POLICY and kind == TEXT_TYPE and value_at + vector <= length:
            policy = data[at + value_at : at + value_at + min(vector, TEXT_MAX)].partition(b"\0")[0]
        at += length
    if not heads:
        return None
    start, end = min(head[1] for head in heads), max(head[2] for head in heads) + 8
    placed = [(name, entry - start, value - start, head) for name, entry, value, head in heads]
    return Layout(order, start, end, placed, policy)


def values(layout: Layout, part: bytes) -> dict[bytes, int] | None:
    """The numbers in `part`, the file's bytes from `layout.start` to `layout.end`. None if they lie there no longer."""
    if len(part) != layout.end - layout.start:
        return None
    read = {}
    for name, entry, value, head in layout.heads:
        if part[entry:value] != head:
            return None
        read[name] = int.from_bytes(part[value : value + 8], layout.order, signed=True)
    return read


class JavaHeap:
    """The heap of one JVM, from one reading of its counters to the next.

    When a counter changes (sources: openjdk/jdk, src/hotspot/share/gc; JDK-8241678; seen with JDK 17, 21 and 25):
    - Serial and Parallel before JDK 25: `used` of each space every 50 ms (PerfDataSamplingInterval), and at a
      collection.
    - Serial and Parallel from JDK 25 on: only at the end of a collection. Sampling was removed, and with it the counter
      `sun.os.hrt.ticks`, by whose absence it is known.
    - G1: `used` of eden whenever a region is full, of the old generation when a large object is made; all at a
      collection.
    - `metaspace.used`: at a collection alone (G1: also when a large object is made). It is 0 before the first.
    - ZGC: at each cycle. Shenandoah, Epsilon: as they allocate."""

    def __init__(self, policy: bytes) -> None:
        """`policy`: the value of POLICY, or nothing."""
        self._policy = policy
        self._majors = 0
        self._live: int | None = None
        """Live bytes after that major collection; None where another collection came before we looked."""

    def read(self, counters: dict[bytes, int]) -> RuntimeHeap | None:
        """What the heap is now; None if that is not known, or cannot be."""
        if any(
            not 0 <= counters.get(name, 0) < COUNTER_LIMIT
            for name in (*CAPACITY, *MAX_CAPACITY, EDEN, *SURVIVORS, OLD_USED)
        ):
            return None
        if OLD_USED not in counters or CAPACITY[1] not in counters:
            return None
        used = sum(counters.get(name, 0) for name in (EDEN, *SURVIVORS, OLD_USED))
        committed = sum(counters.get(name, 0) for name in CAPACITY)
        if used > committed:
            return None
        sizes = [counters.get(name, 0) for name in MAX_CAPACITY]
        # Where a generation has its own share of the heap, they add up. Elsewhere each may become all of it.
        limit = sum(sizes) if self._policy in (SERIAL, PARALLEL) else max(sizes)
        metaspace = counters.get(METASPACE, 0)
        collections = live = gc_ms = None
        if self._policy in (SERIAL, PARALLEL, G1):
            collections, live, gc_ms = self._collected(counters)
        return RuntimeHeap(
            "java",
            # 0: no counter has been written yet, for a JVM that runs has objects.
            used >> 10 if used else None,
            committed >> 10,
            live=live >> 10 if live is not None else None,
            limit=limit >> 10 if limit else None,
            metaspace=metaspace >> 10 if 0 < metaspace < COUNTER_LIMIT else None,
            collections=collections,
            gc_ms=gc_ms,
        )

    def _collected(self, counters: dict[bytes, int]) -> tuple[int | None, int | None, int | None]:
        """Major collections, what was live after the last one (bytes), and the time of all pauses (ms)."""
        majors = counters.get(MAJOR, -1)
        if not 0 <= majors < COUNTER_LIMIT:
            return None, None, None
        entries, exits = ([counters.get(name, 0) for name in names] for names in (ENTRIES, EXITS))
        is_running = any(entered > left for entered, left in zip(entries, exits, strict=True))
        if majors != self._majors and not is_running:
            self._majors = majors
            # After a collection of the young generation, the old one has what that has moved there as well.
            self._live = self._after_collection(counters) if majors and exits[1] >= exits[0] else None
        frequency, ticks = counters.get(FREQUENCY, 0), sum(counters.get(name, 0) for name in COLLECTOR_TIMES)
        is_timed = 1000 <= frequency < COUNTER_LIMIT and 0 <= ticks < MOST_TICKS
        return majors, self._live if majors == self._majors else None, ticks * 1000 // frequency if is_timed else None

    def _after_collection(self, counters: dict[bytes, int]) -> int:
        """What the spaces held when the last collection ended. Eden is in it only where its counter has not moved since
        (JDK 25: Serial, Parallel). Elsewhere this is a lower bound: a major collection moves what is live out of eden
        as long as the old generation has room, which is made larger afterwards."""
        since = TICKS in counters or self._policy == G1
        eden = 0 if since else counters.get(EDEN, 0)
        return eden + sum(counters.get(name, 0) for name in SURVIVORS) + counters[OLD_USED]


class _Counters:
    """One JVM's file. The descriptor stays open: the JVM writes to this file for as long as it lives."""

    def __init__(self, descriptor: int, layout: Layout) -> None:
        self.descriptor = descriptor
        self._layout = layout
        self._heap = JavaHeap(layout.policy)

    def read(self) -> bytes:
        """The part of the file that has the counters. Not parsed: this is all that is urgent."""
        return posix.pread(self.descriptor, self._layout.end - self._layout.start, self._layout.start)

    def parse(self, part: bytes) -> RuntimeHeap | None:
        counters = values(self._layout, part)
        return self._heap.read(counters) if counters is not None else None


class Shown(NamedTuple):
    """What was read of one JVM's counters at one moment."""

    process: tuple[int, int]
    """Pid and start time of the process."""
    part: bytes


class HsperfFiles:
    """The counters of one environment's JVMs."""

    def __init__(self, root: str = "") -> None:
        """`root`: the folder with `tmp` and `etc/passwd`; "" for the real ones."""
        self._root = root
        self._looks: dict[tuple[int, int], int] = {}
        """How often a process was looked at that has no file, by (pid, start time)."""
        self._open: dict[tuple[int, int], _Counters] = {}
        self._users: dict[int, str] = {}
        self._first = 0, 0
        """Pid and start time of the process whose counters were read last."""

    @property
    def pid(self) -> int:
        """Pid of the JVM whose heap was read last."""
        return self._first[0]

    def take(self) -> Shown | None:
        """Read the counters that were read last once more; None where none were. 2 µs."""
        counters = self._open.get(self._first)
        return Shown(self._first, counters.read()) if counters is not None else None

    def heap(self, processes: Sequence[Process], shown: Shown | None = None) -> RuntimeHeap | None:
        """The heap of the first of these processes that is a JVM and says so: as it was when `shown` was taken, if that
        is of this one."""
        new = MOST_NEW
        heap = None
        for process in processes:
            key = process.pid, process.start_time
            counters = self._open.get(key)
            if counters is None and new and len(self._open) < MOST_OPEN and self._looks.get(key, 0) < LOOKS_PER_PROCESS:
                new -= 1
                counters = self._find(process)
                if counters is None:
                    self._looks[key] = self._looks.get(key, 0) + 1
                else:
                    self._open[key] = counters
            if counters is None:
                continue
            heap = counters.parse(shown.part if shown is not None and shown.process == key else counters.read())
            if heap is not None:
                self._first = key
                break
        if len(self._looks) + len(self._open) > len(processes):
            self._forget({(process.pid, process.start_time) for process in processes})
        return heap

    def _forget(self, living: set[tuple[int, int]]) -> None:
        """What is kept of processes that have ended."""
        for key in self._looks.keys() - living:
            del self._looks[key]
        for key in self._open.keys() - living:
            posix.close(self._open.pop(key).descriptor)

    def _find(self, process: Process) -> _Counters | None:
        try:
            uid, pid = parse_identity(process.files.read("status"))
            user = self._user(uid)
            if not user:
                return None
            folder = posix.open(f"{self._root}/tmp/hsperfdata_{user}", SAFE_FLAGS | posix.O_DIRECTORY)
            try:
                return _counters(posix.open(str(pid or process.pid), SAFE_FLAGS, dir_fd=folder), uid)
            finally:
                posix.close(folder)
        except (OSError, Gone):
            return None

    def _user(self, uid: int) -> str:
        """The name of a user; "" without one. Raises OSError."""
        if uid not in self._users:
            self._users[uid] = parse_user(read(f"{self._root}/etc/passwd", _PASSWD_MAX), uid)
        return self._users[uid]


def parse_identity(text: bytes) -> tuple[int, int]:
    """(effective uid, innermost pid) of a `status`. The pid is that in the process's own pid namespace (NSpid, since
    Linux 4.1), 0 where the kernel does not say. Raises Gone if the text is cut off."""
    uids, pids = (text.partition(label)[2].partition(b"\n")[0].split() for label in (b"\nUid:", b"\nNSpid:"))
    uid, pid = (whole(words[0], DIGITS) if words else None for words in (uids[1:2], pids[-1:] or [b"0"]))
    if uid is None or pid is None:
        raise Gone("status is cut off")
    return uid, pid


def parse_user(passwd: bytes, uid: int) -> str:
    """The first name that this uid has (passwd(5)); "" if it has none, or one that names no folder."""
    for line in passwd.split(b"\n"):
        fields = line.split(b":", 4)
        if len(fields) > 3 and fields[2] == b"%d" % uid:
            name = fields[0]
            return name.decode("utf-8", "surrogateescape") if len(name) <= _NAME_MAX and b"/" not in name else ""
    return ""


def _counters(descriptor: int, owner: int) -> _Counters | None:
    """The counters of the file, if it is one of a JVM. Closes the descriptor if not. Raises OSError."""
    kept = None
    try:
        if is_private(descriptor, PROLOGUE_BYTES, most=MOST_FILE_BYTES, owner=owner, denied=0o022):
            layout = locate(posix.pread(descriptor, MOST_FILE_BYTES, 0))
            kept = _Counters(descriptor, layout) if layout is not None else None
        return kept
    finally:
        if kept is None:
            posix.close(descriptor)
