"""What HotSpot's performance counters say of the heap. Pure.

When a counter changes (sources: openjdk/jdk, src/hotspot/share/gc; JDK-8241678; seen with JDK 17, 21 and 25):

- Serial and Parallel before JDK 25: `used` of each space every 50 ms (PerfDataSamplingInterval), and at a collection.
- Serial and Parallel from JDK 25 on: only at the end of a collection. Sampling was removed, and with it the counter
  `sun.os.hrt.ticks`, by whose absence it is known.
- G1: `used` of eden whenever a region is full, of the old generation when a large object is made; all at a collection.
- `metaspace.used`: at a collection alone (G1: also when a large object is made). It is 0 before the first.
- ZGC: at each cycle. Shenandoah, Epsilon: as they allocate.
"""

from __future__ import annotations

from .runtime_heap import RuntimeHeap

CAPACITY = [b"sun.gc.generation.0.capacity", b"sun.gc.generation.1.capacity"]
MAX_CAPACITY = [b"sun.gc.generation.0.maxCapacity", b"sun.gc.generation.1.maxCapacity"]
EDEN = b"sun.gc.generation.0.space.0.used"
SURVIVORS = [b"sun.gc.generation.0.space.1.used", b"sun.gc.generation.0.space.2.used"]
OLD = b"sun.gc.generation.1.space.0.used"
METASPACE = b"sun.gc.metaspace.used"
MAJOR = b"sun.gc.collector.1.invocations"
TIMES = [b"sun.gc.collector.%d.time" % number for number in range(3)]
ENTRIES = [b"sun.gc.collector.%d.lastEntryTime" % number for number in range(2)]
EXITS = [b"sun.gc.collector.%d.lastExitTime" % number for number in range(2)]
FREQUENCY = b"sun.os.hrt.frequency"
TICKS = b"sun.os.hrt.ticks"
POLICY = b"sun.gc.policy.name"

NUMBERS = frozenset(
    [*CAPACITY, *MAX_CAPACITY, EDEN, *SURVIVORS, OLD, METASPACE, MAJOR, *TIMES, *ENTRIES, *EXITS, FREQUENCY, TICKS]
)
TEXTS = frozenset([POLICY])

SERIAL, PARALLEL, G1 = b"Copy:MSC", b"ParScav:MSC", b"GarbageFirst"
"""Values of POLICY. Other collectors do not have it."""

MOST = 1 << 50
"""No heap has a PiB: the function has written this."""
MOST_TICKS = 1 << 60
"""36 years of nanoseconds."""


class JavaHeap:
    """The heap of one JVM, from one reading of its counters to the next."""

    def __init__(self, policy: bytes) -> None:
        """`policy`: the value of POLICY, or nothing."""
        self._policy = policy
        self._majors = 0
        self._live: int | None = None
        """Of that major collection, in bytes; None where another collection came before we looked."""

    def read(self, counters: dict[bytes, int]) -> RuntimeHeap | None:
        """What the heap is now; None if that is not told, or cannot be."""
        if any(not 0 <= counters.get(name, 0) < MOST for name in (*CAPACITY, *MAX_CAPACITY, EDEN, *SURVIVORS, OLD)):
            return None
        if OLD not in counters or CAPACITY[1] not in counters:
            return None
        used = counters.get(EDEN, 0) + sum(counters.get(name, 0) for name in SURVIVORS) + counters[OLD]
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
            metaspace=metaspace >> 10 if 0 < metaspace < MOST else None,
            collections=collections,
            gc_ms=gc_ms,
        )

    def _collected(self, counters: dict[bytes, int]) -> tuple[int | None, int | None, int | None]:
        """Major collections, what was live after the last one (bytes), and the time of all pauses (ms)."""
        majors = counters.get(MAJOR, -1)
        if not 0 <= majors < MOST:
            return None, None, None
        entries, exits = ([counters.get(name, 0) for name in names] for names in (ENTRIES, EXITS))
        is_running = any(entered > left for entered, left in zip(entries, exits, strict=True))
        if majors != self._majors and not is_running:
            self._majors = majors
            # After a collection of the young generation, the old one has what that has moved there as well.
            self._live = self._after_collection(counters) if majors and exits[1] >= exits[0] else None
        frequency, ticks = counters.get(FREQUENCY, 0), sum(counters.get(name, 0) for name in TIMES)
        is_timed = 1000 <= frequency < MOST and 0 <= ticks < MOST_TICKS
        return majors, self._live if majors == self._majors else None, ticks * 1000 // frequency if is_timed else None

    def _after_collection(self, counters: dict[bytes, int]) -> int:
        """What the spaces held when the last collection ended. Eden is in it only where its counter has not moved since
        (JDK 25: Serial, Parallel). Elsewhere this is a lower bound: a major collection moves what is live out of eden
        as long as the old generation has room, which is made larger afterwards."""
        since = TICKS in counters or self._policy == G1
        eden = 0 if since else counters.get(EDEN, 0)
        return eden + sum(counters.get(name, 0) for name in SURVIVORS) + counters[OLD]
