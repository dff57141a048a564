"""What growth that no line of code explains is likely to be, by the lines of the plain run. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from scipy import stats

from ..lines.line import Line
from ..lines.record import figure

ENOUGH = 0.5
"""Share of the rest that a figure of the line must grow by to be named."""
STACK_KIB = 8
"""Of a thread's stack and arena so much is touched at least: its stack, its control block, its arena's header."""


class Cause(NamedTuple):
    pattern: str
    """Its heading in docs/patterns.md, as a link writes it."""
    sentence: str
    """What the lines say, without the full stop."""


UNKNOWN = Cause("fragmentation", "Likely fragmentation, or native code")
UNCOLLECTED = Cause("too-few-invocations", "Likely garbage that V8 has not collected yet, or native code")


def likely(lines: Sequence[Line], rest_kib: float, unknown: Cause = UNKNOWN) -> Cause:
    """The likeliest cause of a growth of `rest_kib` per invocation, by the invocations that were judged.

    `unknown` is that of a growth that no figure explains: in Node.js it is UNCOLLECTED.
    """
    threads, processes = _slope(lines, _whole("threads")), _slope(lines, _whole("processes"))
    if processes * _largest_process_kib(lines) >= ENOUGH * rest_kib:
        return Cause("child-processes", f"Child processes are left behind: {processes:.2f} more per invocation")
    if threads * STACK_KIB >= ENOUGH * rest_kib:
        return Cause("arenas-for-each-thread", f"Thread stacks and arenas: {threads:.2f} threads more per invocation")
    found = (
        (_size("rss", "file"), Cause("mapped-files", "Mapped files grow as much (`rss.file`)")),
        (_size("rss", "shmem"), Cause("mapped-files", "Shared memory grows as much (`rss.shmem`)")),
        (_size("heap", "held"), Cause("arenas", "It was freed, and malloc keeps it (`heap.held`)")),
        (_size("heap", "inUse"), Cause("a-cache-without-bound", "Native code has not freed it (`heap.inUse`)")),
        (_size("heap", "mapped"), Cause("a-cache-without-bound", "Native code has not freed it (`heap.mapped`)")),
    )
    return next((cause for kib, cause in found if _slope(lines, kib) >= ENOUGH * rest_kib), unknown)


def _largest_process_kib(lines: Sequence[Line]) -> float:
    """So much a child may have, KiB: what all held before it came. After fork() it has its parent's memory."""
    return max((line.current_rss * 1024 for line in lines[:1] if line.current_rss is not None), default=0.0)


def _slope(lines: Sequence[Line], read: Callable[[Line], float | None]) -> float:
    """Growth of this figure per invocation; 0 where lines do not have it."""
    known = [(place, value) for place, line in enumerate(lines) if (value := read(line)) is not None]
    if len(known) < 2 or len({value for _, value in known}) == 1:
        return 0.0
    return float(stats.theilslopes([value for _, value in known], [place for place, _ in known]).slope)


def _whole(name: str) -> Callable[[Line], float | None]:
    return lambda line: figure(line.members.get(name))


def _size(name: str, part: str) -> Callable[[Line], float | None]:
    """A size of the line, in KiB."""

    def kib(line: Line) -> float | None:
        parts = line.members.get(name)
        mib = figure(parts.get(part)) if isinstance(parts, dict) else None
        return None if mib is None else mib * 1024

    return kib
