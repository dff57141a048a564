"""The table from evidence to cause: all witnesses of an environment in, one finding out. Pure.

`find` asks the rows of TABLE in their order; the first one that the curves support is the answer. A witness that
knows decides before one that guesses: growth of what is in use is a leak also where RSS is level; growth of what the
allocator holds is hoarding also where RSS rises; RSS alone decides only where nothing else is known.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from truemem.records.drift import MINIMUM
from truemem.records.leak_verdict import GATE_KIB, GROWING_FROM

from ..support.amounts import mib
from ..support.plural import counted
from .commands import Commands
from .curves import (
    BLOCKS,
    DESCRIPTORS,
    ENVIRONMENT,
    EXTENSION,
    FILES,
    HEAP_RAN_OUT,
    HELD,
    IN_USE,
    PROCESSES,
    THREADS,
    TMP,
    Curves,
)
from .drift import INSUFFICIENT, MATTERS_KIB, Verdict, lives, trusted_of
from .finding import TOO_FEW, Cause, Finding
from .resources import Resource
from .runtime_heap import LEAKS, CollectedHeap
from .witnesses import BLOCK_KIB, Witnesses

PER_BLOCK = 1.5
"""Python's blocks per invocation below which they do not grow: AWS's client keeps one (its trace id)."""
OF_OBJECTS = 0.25
"""Python's objects hold what grows if their blocks explain this part of it."""
OF_NATIVE = 0.2
"""Native memory beside a collected heap grows if it explains this part of what RSS has risen by: the heap touches what
it has for the first time as well."""
MOST_HELD = 0.5
"""What malloc holds explains growth if it grows by this part of it."""
HELD_MIB, HELD_SHARE = 16.0, 0.2
"""Hoarding without growth: so much is held, and this share of all that malloc has. Every heap keeps some for reuse."""
OBJECTS = "Python objects"
GREW_KIB, GREW_SHARE = 4096, 0.05
"""Memory that has stopped has grown before if it has by both."""
COLLECTIONS = 4
"""Major collections that show what is live."""
GARBAGE = 0.5
"""What has grown is garbage if a collection frees this part of it."""
ALIKE = 0.5
"""If this part of all invocations failed, nothing is said of memory."""
NEAR = 0.9
"""A limit is near from this part on."""
CACHED = 0.25
"""Page cache is told of if it is this part of the memory size."""
THRESHOLD = {"MALLOC_MMAP_THRESHOLD_": "32768"}
"""Blocks from 32 KiB on are mapped, and go back to the system when they are freed. It helped in the incident and in our
measurements (sample_function/README.md)."""
SMALLER_HEAP = {
    "java": "JAVA_TOOL_OPTIONS=-Xmx128m",
    "nodejs": "NODE_OPTIONS=--max-old-space-size=64",
    "go": "GOMEMLIMIT=64MiB",
    "dotnet": "DOTNET_GCHeapHardLimit=0x4000000",
}
"""A heap in which the collector has to run soon."""


Look = Callable[[Witnesses], Finding | None]


@dataclass(frozen=True, kw_only=True)
class Row:
    """One row of the table."""

    cause: Cause
    look: Look
    """Makes the finding, without what the row has; None if the curves do not support it."""
    needs: str
    """Which evidence, how much: for the table in docs/patterns.md."""
    repair: str = ""
    next: Sequence[str] = ("again",)
    """Names of Commands, the best first."""
    pattern: str = ""


def find(curves: Curves, commands: Commands, *, is_patient: bool = True, allowed: Collection[str] = ()) -> Finding:
    """The answer on one environment. `is_patient`: see LeakVerdict; a gate is not. `allowed`: causes that may grow; one
    of them is the answer only if no other is."""
    witnesses = Witnesses(curves, is_patient=is_patient)
    one_allowed = None
    for row in TABLE:
        found = row.look(witnesses)
        if found is not None and found.grows and found.cause in allowed:
            one_allowed = one_allowed or _completed(found, row, commands, witnesses)
            continue
        if found is not None and one_allowed is not None and not found.grows:
            return one_allowed
        if found is not None:
            return _completed(found, row, commands, witnesses)
    raise AssertionError("the last row always answers")


def _completed(found: Finding, row: Row, commands: Commands, witnesses: Witnesses) -> Finding:
    evidence = list(found.evidence)
    if found.grows and (moves := witnesses.rss.explained):
        evidence.append(f"seen when what moves with {moves} is taken away")
    killed = witnesses.curves.out_of_memory
    if killed and found.cause != "failing":
        where = f"invocation {killed[0]}" + (f" and {len(killed) - 1} more" if len(killed) > 1 else "")
        evidence.append(f"out of memory in {where}")
    ended = witnesses.curves.killed
    if ended and found.cause != "extension":
        evidence.append(f"the environment ended in invocation {ended[0]}, for something beside the function")
    failed = witnesses.curves.failed
    if failed.count and found.cause != "failing":
        evidence.append(f"{failed.count:,} of {counted(witnesses.curves.invocations, 'invocation')} failed")
    return replace(
        found,
        evidence=evidence,
        repair=found.repair or row.repair,
        next=_next(row, commands, witnesses),
        pattern=found.pattern or row.pattern,
    )


def _next(row: Row, commands: Commands, witnesses: Witnesses) -> str:
    """The first of the row's commands that is there, and has a use."""
    runtime = witnesses.curves.runtime
    for name in row.next:
        command: str = getattr(commands, name)
        if not command or (name == "heap" and runtime) or (name == "explain" and runtime in ("java", "go", "dotnet")):
            continue
        if name == "smaller_heap":
            if runtime in SMALLER_HEAP:
                return f"{command} {SMALLER_HEAP[runtime]}"
            continue
        return command
    return commands.again


# --- the rows ---------------------------------------------------------------------------------------------------------


def _failing(witnesses: Witnesses) -> Finding | None:
    curves, failed = witnesses.curves, witnesses.curves.failed
    if not failed.count or failed.count < ALIKE * curves.invocations:
        return None
    title = (
        f"Failing: {failed.count:,} of {counted(curves.invocations, 'invocation')} failed. Nothing is said of memory"
        " until they succeed."
    )
    evidence = [f"{failed.alike:,} of them said: {failed.said}"]
    return Finding(cause="failing", title=title, holder="function", evidence=evidence)


@dataclass(frozen=True)
class _Counted:
    """One of what is counted, and ends at a limit of its own, or with memory."""

    name: str
    title: str
    """`{rate}` is a figure, `{name}` that of child processes, in brackets."""
    holder: str
    ends: str
    """What happens at its limit."""
    full: str
    """What is said where it is near its limit, and does not grow."""

    def __call__(self, witnesses: Witnesses) -> Finding | None:
        told = next((each for each in witnesses.curves.told if each.name == self.name), None)
        is_known = witnesses.grows(self.name) or witnesses.rose_to_the_end(self.name)
        if not is_known and (told is None or not told.runs_out):
            return None
        if is_known or told is None:
            rate, left = witnesses.rate(self.name), witnesses.left(self.name, told)
        else:
            rate, left = told.per_invocation or 0.0, told.invocations_left
        if self.name in (DESCRIPTORS, TMP) and witnesses.memory_ends_before(left):
            return None
        return self._found(witnesses, told, rate, left)

    def _found(self, witnesses: Witnesses, told: Resource | None, rate: float, left: int | None) -> Finding:
        rss = witnesses.rss
        of_memory = self.name != TMP and rss.name == "growing"
        then = self.ends
        if of_memory:
            memory_left = witnesses.memory_left(rss.per_invocation_kib or 0.0)
            if self.name == PROCESSES:  # their RSS has what they share many times
                memory_left = witnesses.environment_left()
            if memory_left is not None and (left is None or memory_left < left):
                left, then = memory_left, _KILLS
        if witnesses.curves.out_of_memory:  # which came first
            left = None
        evidence = [] if told is None else [told.amount]
        if told is not None and told.zombies:
            evidence.append(f"{told.zombies:,} of them have ended and were never waited for")
        if of_memory and rate > 0:
            evidence.append(f"RSS grows with them, by {_size((rss.per_invocation_kib or 0.0) / rate)} for each")
        children = witnesses.curves.children if self.name == PROCESSES else ""
        words = f"{_size(rate)} more" if self.name == TMP else f"{rate:,.2g} more"
        return Finding(
            cause=self.name,  # type: ignore[arg-type]
            title=self.title.format(rate=words, name=f" ({children})" if children else "") if rate > 0 else self.full,
            holder=f"{self.holder} ({children})" if children else self.holder,
            per_invocation_kib=rss.per_invocation_kib if of_memory else rate if self.name == TMP else None,
            hidden=not witnesses.rss_shows,
            invocations_left=left,
            then=then,
            evidence=evidence,
            grows=True,
        )


_processes = _Counted(
    PROCESSES,
    "Child processes stay{name}: {rate} in each invocation.",
    "child processes",
    "no process can be started (EAGAIN)",
    "Nearly as many processes run as may.",
)
_threads = _Counted(
    THREADS,
    "Threads stay: {rate} in each invocation.",
    "threads",
    "no thread can be started",
    "Nearly as many threads run as may.",
)
_descriptors = _Counted(
    DESCRIPTORS,
    "Descriptors stay open: {rate} in each invocation.",
    "descriptors",
    "opening a file or a socket fails (EMFILE)",
    "Nearly as many descriptors are open as may be.",
)
_tmp = _Counted(
    TMP,
    "/tmp fills: {rate} in each invocation.",
    "/tmp",
    "writing to /tmp fails (ENOSPC)",
    "/tmp is nearly full.",
)


def _extension(witnesses: Witnesses) -> Finding | None:
    """The extension that grows most, if the function does not grow by more."""
    growing = [name for name in witnesses.curves.extensions if witnesses.grows(f"{EXTENSION}{name}")]
    if not growing:
        return None
    worst = max(growing, key=lambda name: witnesses.rate(f"{EXTENSION}{name}"))
    verdict = witnesses.of(f"{EXTENSION}{worst}")
    if witnesses.rss.name == "growing" and (witnesses.rss.per_invocation_kib or 0) > (verdict.per_invocation_kib or 0):
        return None
    before, after = witnesses.span(f"{EXTENSION}{worst}")
    grows = (witnesses.rss.low_kib or 0.0) > GATE_KIB
    function = f"grows as well, by {_size(witnesses.rss.per_invocation_kib)}" if grows else "does not"
    killed = witnesses.curves.killed
    evidence = [_span(before, after)]
    if killed:
        evidence.append(f"the environment was ended for it in invocation {killed[0]}")
    return _grown(
        witnesses,
        "extension",
        verdict,
        title=f"The extension {worst} keeps memory: {_rate(verdict)}. The function {function}.",
        holder=worst,
        evidence=evidence,
        share=None,
        hidden=True,
        repair=""
        if worst != "truemem"
        else "That is our own defect: please report it, and switch the sidecar off with TRUEMEM_ENABLED=false.",
    )


def _is_garbage(witnesses: Witnesses) -> bool:
    """True if a collection of garbage has freed most of what had grown."""
    freed = witnesses.curves.freed
    return freed is not None and freed >= GARBAGE


def _leak_in_use(witnesses: Witnesses) -> Finding | None:
    """malloc's memory in use, or Python's objects, grow: in Python."""
    in_use, blocks = witnesses.of(IN_USE), witnesses.of(BLOCKS)
    if "growing" not in (in_use.name, blocks.name):
        return None
    if _is_garbage(witnesses) and not witnesses.curves.is_collected:
        return None
    known = in_use if in_use.name == "growing" or (in_use.low_kib or 0.0) > 0 else blocks
    of_blocks = witnesses.rate(BLOCKS) * BLOCK_KIB
    is_native = blocks.name != "insufficient" and witnesses.rate(BLOCKS) < PER_BLOCK
    holder = "native memory" if is_native else "memory in use"
    if of_blocks >= OF_OBJECTS * (in_use.per_invocation_kib or 0.0):
        holder = OBJECTS
    if witnesses.curves.runtime == "nodejs":
        holder, is_native = "live objects", False
    evidence = [f"in use {_span(*witnesses.span(IN_USE))}"] if known is in_use else []
    if blocks.name != "insufficient":
        evidence.append(f"{witnesses.rate(BLOCKS):,.0f} more blocks of Python's allocator after each invocation")
    if witnesses.rss_shows and (known is blocks or holder == OBJECTS):
        known = max(known, witnesses.rss, key=_rate_of)  # small objects are in no figure of malloc
    if witnesses.curves.freed is not None and not witnesses.curves.is_collected:
        evidence.append(f"collecting garbage frees {max(0.0, witnesses.curves.freed):.0%} of what has grown")
    about = "some " if known is blocks else ""
    hidden = "" if witnesses.rss_shows else ", and RSS does not show it: the memory was freed before, and is used again"
    confidence = known.confidence or in_use.confidence
    sure = f" with {confidence:.0%} confidence" if confidence else ""
    title = f"Leak{sure}: {about}{_rate(known)} kept in {holder}{hidden}."
    return _grown(
        witnesses,
        "native" if is_native else "leak",
        known,
        title=title,
        holder=holder,
        evidence=[*evidence, _rss(witnesses)],
        confidence=confidence,
        repair=_NATIVE if is_native else "",
    )


def _rate_of(verdict: Verdict) -> float:
    return verdict.per_invocation_kib or 0.0


def _leak_on_heap(witnesses: Witnesses) -> Finding | None:
    """What is live in a collected heap grows, or what its objects own outside of it."""
    heap = witnesses.curves.heap
    if heap is None or heap.kind not in LEAKS or (heap.kind == "native" and not _is_native(heap, witnesses)):
        return None
    if heap.kind == "classes" and not heap.is_metaspace_kept:
        return None  # they may be garbage
    course = {"leak": heap.live, "classes": heap.metaspace, "external": heap.external, "native": heap.native}[heap.kind]
    code = "code" if heap.last.runtime == "nodejs" else "classes"
    holder = {
        "leak": "live objects",
        "classes": code,
        "external": "buffers outside of the heap",
        "native": "native memory",
    }[heap.kind]
    seen = f"{holder} {_span(course.before * 1024, course.after * 1024)}"
    after = f" after {counted(heap.collections, 'major collection')}" if heap.kind == "leak" else ""
    rate = course.per_invocation_kib
    if heap.kind == "native":  # RSS has all of it
        rate = min(rate, witnesses.rss.per_invocation_kib or rate)
    verdict = replace(
        witnesses.rss if witnesses.rss.name != "insufficient" else INSUFFICIENT,
        per_invocation_kib=rate,
        low_kib=None,
        high_kib=None,
    )
    left = None
    if heap.kind == "leak" and heap.last.limit is not None and rate > 0:
        left = int(max(0.0, heap.last.limit - heap.live.after) * 1024 / rate)
    made = _grown(
        witnesses,
        "native" if heap.kind == "native" else "leak",
        verdict,
        title=f"Leak: {_size(rate)} more in each invocation, in {holder}.",
        holder=holder,
        evidence=[f"{seen}{after}", _rss(witnesses)],
        repair=_NATIVE if heap.kind == "native" else _DUMPS.get(heap.last.runtime, ""),
        pattern={
            "leak": "a-cache-without-bound",
            "classes": "classes-that-are-never-unloaded",
        }.get(heap.kind, "buffers-outside-of-the-heap"),
    )
    if left is not None and (made.invocations_left is None or left < made.invocations_left):
        made = replace(made, invocations_left=left, then="the runtime's own heap is full and its process ends")
    return made


def _is_native(heap: CollectedHeap, witnesses: Witnesses) -> bool:
    """True if RSS may grow, and native memory explains enough of what it has risen by."""
    if witnesses.rss.name not in ("warming", "growing") or heap.rss_before is None or heap.rss_after is None:
        return False
    return heap.native.after - heap.native.before >= OF_NATIVE * (heap.rss_after - heap.rss_before)


def _heap_ran_out(witnesses: Witnesses) -> Finding | None:
    """The runtime's own heap was full, and nothing is known of what filled it."""
    failed = witnesses.curves.failed
    if not any(words in failed.said for words in HEAP_RAN_OUT) or failed.count >= ALIKE * witnesses.curves.invocations:
        return None
    title = f"The runtime's heap ran out in {counted(failed.count, 'invocation')}: {failed.said}."
    return Finding(cause="undecided", title=title, holder="heap", evidence=[_rss(witnesses)], settled=False)


def _hoarding_grows(witnesses: Witnesses) -> Finding | None:
    """RSS grows, what is in use does not, and malloc holds what grows."""
    if witnesses.rss.name not in ("growing", "warming") or not witnesses.knows(IN_USE, HELD):
        return None
    rate = witnesses.rss.per_invocation_kib or 0.0
    held = witnesses.of(HELD)
    explains = (held.per_invocation_kib or 0.0) / rate if rate > 0 else 0.0
    certain = "growing" in (held.name, witnesses.rss.name) and held.name in ("growing", "warming")
    if witnesses.of(IN_USE).name == "growing" or not certain or explains < MOST_HELD:
        return None
    return _grown(
        witnesses,
        "hoarding",
        held,
        title=(
            f"Hoarding, not a leak: {_rate(held)} freed by the function and held by malloc. What is in use does not"
            " grow."
        ),
        holder="malloc",
        evidence=[
            f"held {_span(*witnesses.span(HELD))}",
            f"in use {_span(*witnesses.span(IN_USE))}",
            _rss(witnesses),
        ],
        setting=THRESHOLD,
    )


def _native_beside(witnesses: Witnesses) -> Finding | None:
    """RSS grows, and neither malloc nor Python's objects do: it is mapped."""
    if witnesses.rss.name != "growing" or not witnesses.knows(IN_USE):
        return None
    rate = witnesses.rss.per_invocation_kib or 0.0
    inside = sum(max(0.0, witnesses.of(name).per_invocation_kib or 0.0) for name in (IN_USE, HELD))
    blocks = witnesses.rate(BLOCKS) * BLOCK_KIB
    if inside + blocks > MOST_HELD * rate:
        return None
    files = (witnesses.of(FILES).per_invocation_kib or 0.0) > MOST_HELD * rate
    holder = "mapped files" if files else "mapped memory"
    return _grown(
        witnesses,
        "native",
        witnesses.rss,
        title=f"Leak in native memory: {_rate(witnesses.rss)}, in {holder}.",
        holder=holder,
        evidence=[f"in use by malloc {_span(*witnesses.span(IN_USE))}", _rss(witnesses)],
        pattern="mapped-files" if files else "",
    )


def _leak_by_rss(witnesses: Witnesses) -> Finding | None:
    """RSS grows, and no other witness knows more."""
    verdict = witnesses.rss
    if verdict.name != "growing":
        return None
    heap = witnesses.curves.heap
    if heap is not None or witnesses.knows(IN_USE):
        return None
    sure = f" with {verdict.confidence:.0%} confidence" if verdict.confidence else ""
    return _grown(
        witnesses,
        "leak",
        verdict,
        title=f"Leak{sure}, as far as RSS can tell: {_rate(verdict)}.",
        holder="function",
        confidence=verdict.confidence,
        settled=verdict.settled,
        evidence=[_rss(witnesses), "RSS does not tell what is in use from what an allocator or a collector holds"],
    )


def _collector(witnesses: Witnesses) -> Finding | None:
    if _is_garbage(witnesses) and witnesses.knows(IN_USE) and not witnesses.grows(IN_USE):
        title = "No leak: it was garbage that was not collected yet. What is in use after a collection does not grow."
        repair = "Until the collector runs by itself, memory rises: size the function by a run with --no-probe."
        return Finding(cause="collector", title=title, holder="garbage", evidence=[_rss(witnesses)], repair=repair)
    heap = witnesses.curves.heap
    if heap is None or heap.kind != "lazy" or heap.live.name not in ("level", "filled") or not _is_known(heap):
        return None
    live = f"live after collection {mib(heap.live_now)} MiB" if heap.live_now is not None else ""
    title = (
        "No leak: the garbage collector lets the heap grow before it runs. What is live after"
        f" {counted(heap.collections, 'major collection')} does not grow."
    )
    evidence = [each for each in (live, _rss(witnesses)) if each]
    exceeds = witnesses.curves.limit_advice
    return Finding(
        cause="collector",
        title=title,
        holder="garbage",
        evidence=evidence,
        repair=exceeds,
        pattern="a-heap-limit-above-the-memory-size" if exceeds else "",
    )


def _undecided(witnesses: Witnesses) -> Finding | None:
    """Something rises, and more invocations decide what it is."""
    curves, rss, heap = witnesses.curves, witnesses.rss, witnesses.curves.heap
    judged = max((len(trusted_of(life)) for life in lives(curves.rss)), default=0)
    if curves.out_of_memory and judged >= MINIMUM and rss.name in ("stable", "plateau", "spiky"):
        return None
    if judged < GROWING_FROM:
        if curves.out_of_memory:
            title = "Out of memory before growth could be judged."
        else:
            title = f"Undecided: {counted(judged, 'invocation')} can be judged, {GROWING_FROM} are needed."
        return Finding(cause="undecided", title=title, settled=False, pattern=TOO_FEW)
    rising, verdict = _rising(witnesses)
    if not rising:
        return None
    if heap is not None and heap.kind in ("filling", "lazy"):
        what, holder = "a leak, a cache that fills, or garbage", "heap"
        decides = "the next collections of the heap decide it"
    else:
        what, holder, decides = "a leak, or a cache that fills", "", "more invocations decide it"
    title = f"Undecided after {counted(judged, 'invocation')}: {rising}. It is {what}; {decides}."
    return Finding(
        cause="undecided",
        title=title,
        holder=holder,
        per_invocation_kib=verdict.per_invocation_kib,
        low_kib=verdict.low_kib,
        high_kib=verdict.high_kib,
        evidence=[_rss(witnesses)],
        settled=False,
    )


def _is_known(heap: CollectedHeap) -> bool:
    """True if enough major collections have shown what is live, and not long ago."""
    return heap.collections >= COLLECTIONS and heap.is_recent and heap.live.name in ("level", "filled")


def _rising(witnesses: Witnesses) -> tuple[str, Verdict]:
    """What may still grow, in words, with its verdict; empty if nothing does."""
    heap, rss = witnesses.curves.heap, witnesses.rss
    for name in witnesses.curves.extensions:
        extension = witnesses.of(f"{EXTENSION}{name}")
        if extension.name in ("warming", "growing") and not _is_small(extension):
            return _may_rise(f"the extension {name}", extension), extension
    is_beside = (rss.low_kib or 0.0) > 0 and (rss.high_kib or 0.0) > MATTERS_KIB
    if heap is not None:
        if heap.kind == "filling" or (heap.kind == "lazy" and not _is_known(heap)):
            return f"the heap has risen, and it was collected {counted(heap.collections, 'time')}", rss
        if heap.kind in LEAKS:
            return f"memory beside the heap has risen, and it was collected {counted(heap.collections, 'time')}", rss
        return f"RSS rises beside the heap, {_rate(rss)}" if is_beside and heap.kind != "lazy" else "", rss
    known = witnesses.of(IN_USE)
    if _is_garbage(witnesses) and not witnesses.curves.is_collected:
        return "most of what has grown was garbage", known
    if known.name == "warming" and not _is_small(known):
        return _may_rise("what is in use", known), known
    blocks = witnesses.of(BLOCKS)
    if (blocks.low_kib or 0.0) > 0 and blocks.name in ("warming", "growing") and not _is_small(blocks):
        return f"Python has {witnesses.rate(BLOCKS):,.0f} more blocks after each invocation", blocks
    is_open = known.name == "insufficient" or (is_beside and not _is_held(witnesses))
    if rss.name in ("warming", "growing") and is_open and not _is_small(rss):
        return _may_rise("RSS", rss), rss
    return "", rss


def _may_rise(what: str, verdict: Verdict) -> str:
    if verdict.low_kib is not None and verdict.low_kib > 0:
        return f"{what} rises, {_rate(verdict)}"
    return f"{what} goes up and down, and may grow by up to {_size(verdict.high_kib)} in each invocation"


def _is_held(witnesses: Witnesses) -> bool:
    """True if what malloc holds explains that RSS rises."""
    rate = witnesses.rss.per_invocation_kib or 0.0
    return (witnesses.of(HELD).per_invocation_kib or 0.0) > MOST_HELD * rate


def _is_small(verdict: Verdict) -> bool:
    """True if even the upper end of its interval does not matter."""
    return verdict.high_kib is not None and verdict.high_kib < GATE_KIB


def _page_cache(witnesses: Witnesses) -> Finding | None:
    """The environment's level is far above what processes hold, and near the limit."""
    curves = witnesses.curves
    used = [point.current_kib for point in curves.others.get(ENVIRONMENT, ())]
    if not used or not curves.limit_mib or curves.killed or curves.out_of_memory:
        return None
    held = witnesses.environment_kib()
    cached = statistics.median(used[-MINIMUM:]) - held
    if cached < CACHED * curves.limit_mib * 1024 or max(used) < NEAR * curves.limit_mib * 1024:
        return None
    title = f"No leak: {mib(cached / 1024)} MiB of the environment are page cache, which the kernel takes back."
    return Finding(cause="page-cache", title=title, holder="page cache", evidence=[_rss(witnesses)])


def _hoarding(witnesses: Witnesses) -> Finding | None:
    """malloc holds much, and nothing grows."""
    held = [point.current_kib for point in witnesses.curves.others.get(HELD, ())][-MINIMUM:]
    used = [point.current_kib for point in witnesses.curves.others.get(IN_USE, ())][-MINIMUM:]
    if not held or not used:
        return None
    kept, in_use = statistics.median(held), statistics.median(used)
    if kept < max(HELD_MIB * 1024, HELD_SHARE * (kept + in_use)):
        return None
    title = (
        f"Hoarding, not a leak: {mib(kept / 1024)} MiB are freed and held by malloc, beside {mib(in_use / 1024)} MiB in"
        " use. Nothing grows."
    )
    return Finding(
        cause="hoarding", title=title, holder="malloc", evidence=[_rss(witnesses)], setting=THRESHOLD,
        settled=_is_settled(witnesses),
    )  # fmt: skip


def _cache(witnesses: Witnesses) -> Finding | None:
    heap = witnesses.curves.heap
    filled = heap is not None and heap.kind == "filled"
    before, after = witnesses.span("rss")
    has_grown = witnesses.rss.name == "plateau" or after - before > max(GREW_KIB, GREW_SHARE * before)
    if not filled and (heap is not None or not has_grown):
        return None
    title = "No leak: memory has grown and stopped, as a full cache does."
    return Finding(
        cause="cache", title=title, holder="function", evidence=[_rss(witnesses)], settled=_is_settled(witnesses)
    )


def _none(witnesses: Witnesses) -> Finding | None:
    killed = len(witnesses.curves.out_of_memory)
    if killed:
        title = "No leak: memory does not grow. An invocation needs more at once than the function has."
        repair = "Stream the input, or give the function more memory."
        return Finding(
            cause="none", title=title, evidence=[_rss(witnesses)], repair=repair, pattern="out-of-memory-in-one-go"
        )
    spiky = " Single invocations need much more than they leave behind." if witnesses.rss.name == "spiky" else ""
    title = f"No leak: memory does not grow.{spiky}"
    return Finding(cause="none", title=title, evidence=[_rss(witnesses)], settled=_is_settled(witnesses))


def _is_settled(witnesses: Witnesses) -> bool:
    """True if the witness that decides leaves no room for growth that matters."""
    heap = witnesses.curves.heap
    if not all(witnesses.of(f"{EXTENSION}{name}").name != "warming" for name in witnesses.curves.extensions):
        return False
    if heap is not None and _is_known(heap):
        return True
    return (witnesses.of(IN_USE) if witnesses.knows(IN_USE) else witnesses.rss).settled


_NATIVE = "Release what is allocated, or take a newer version of the library that keeps it."
_DUMPS = {
    "java": "Compare two heap dumps (jcmd PID GC.heap_dump FILE) to see who keeps it, and give that a bound.",
    "go": "Compare two heap profiles (runtime/pprof) to see who keeps it, and give that a bound.",
    "dotnet": "Compare two dumps (dotnet-gcdump) to see who keeps it, and give that a bound.",
}
"""Repair where --explain cannot name the line."""
_OBJECTS = "Give what is kept a bound, or make it once, outside of the handler."
TABLE: tuple[Row, ...] = (
    Row(
        cause="processes",
        look=_processes,
        needs="the number of processes grows",
        repair="Wait for each child, with a time limit, and end its process group.",
        pattern="threads-and-processes-that-stay",
    ),
    Row(
        cause="threads",
        look=_threads,
        needs="the number of threads grows, that of processes does not",
        repair="Use one pool of threads, made outside of the handler.",
        pattern="threads-and-processes-that-stay",
    ),
    Row(
        cause="descriptors",
        look=_descriptors,
        needs="open descriptors grow, and end before memory does",
        repair="Close files, sockets and clients; make clients once, outside of the handler.",
        next=("explain", "again"),
        pattern="descriptors-that-leak",
    ),
    Row(
        cause="tmp",
        look=_tmp,
        needs="what is in /tmp grows, and ends before memory does",
        repair="Remove files when they are not needed any more.",
        pattern="tmp-that-fills",
    ),
    Row(
        cause="extension",
        look=_extension,
        needs="an extension's RSS grows, by more than the function's",
        repair="Take a newer version of that extension, or a smaller buffer in it, and tell its vendor.",
        next=("extensions", "again"),
        pattern="an-extensions-own-leak",
    ),
    Row(
        cause="failing",
        look=_failing,
        needs="half of all invocations failed, or more",
        repair="Fix that first.",
        next=("log", "again"),
        pattern="",
    ),
    Row(
        cause="leak",
        look=_leak_in_use,
        needs="malloc's memory in use grows, or Python's objects do; `native` where Python's objects do not",
        repair=_OBJECTS,
        next=("explain", "again"),
        pattern="a-cache-without-bound",
    ),
    Row(
        cause="leak",
        look=_leak_on_heap,
        needs="what is live after major collections grows; classes or code; buffers; `native`: RSS beside the heap",
        repair=_OBJECTS,
        next=("explain", "again"),
        pattern="a-cache-without-bound",
    ),
    Row(
        cause="hoarding",
        look=_hoarding_grows,
        needs="RSS grows, memory in use does not, what malloc holds explains at least half",
        repair="Set MALLOC_MMAP_THRESHOLD_=32768: large blocks go back to the system when they are freed.",
        next=("repair", "again"),
        pattern="arenas",
    ),
    Row(
        cause="native",
        look=_native_beside,
        needs="RSS grows, and malloc's memory and Python's objects explain less than half",
        repair="Close what is mapped, or take a newer version of the library that maps it.",
        next=("explain", "again"),
        pattern="fragmentation",
    ),
    Row(
        cause="leak",
        look=_leak_by_rss,
        needs="RSS grows, and nothing else is known",
        next=("heap", "explain", "again"),
        pattern="a-cache-without-bound",
    ),
    Row(
        cause="undecided",
        look=_heap_ran_out,
        needs="the runtime's own heap was full",
        repair="Find what fills it.",
        next=("heap", "explain", "again"),
        pattern="a-cache-without-bound",
    ),
    Row(
        cause="undecided",
        look=_undecided,
        needs="memory rises, and no witness decides",
        next=("heap", "smaller_heap", "longer", "again"),
        pattern="a-cache-that-fills",
    ),
    Row(
        cause="collector",
        look=_collector,
        needs="RSS rises, what is live after major collections does not",
        next=("size", "again"),
        pattern="a-collector-that-has-not-run",
    ),
    Row(
        cause="page-cache",
        look=_page_cache,
        needs="the environment is at its limit, a quarter of it is in no process, and nothing was killed",
        next=("size", "again"),
        pattern="page-cache",
    ),
    Row(
        cause="hoarding",
        look=_hoarding,
        needs="nothing grows, malloc holds 16 MiB or more, and a fifth of all that it has",
        repair="Set MALLOC_MMAP_THRESHOLD_=32768 if that memory is wanted back.",
        next=("repair", "size", "again"),
        pattern="arenas",
    ),
    Row(
        cause="cache",
        look=_cache,
        needs="memory has grown and stopped",
        next=("size", "again"),
        pattern="a-cache-that-fills",
    ),
    Row(cause="none", look=_none, needs="nothing grows", next=("size", "again"), pattern="steady"),
)
"""Asked in this order: what ends sooner, and what is known for certain, comes first."""


# --- figures ----------------------------------------------------------------------------------------------------------

_KILLS = "the memory size is reached, and Lambda ends the environment"


def _grown(witnesses: Witnesses, cause: Cause, verdict: Verdict, **words: object) -> Finding:
    """A finding on memory that grows."""
    rss, rate = witnesses.rss, verdict.per_invocation_kib or 0.0
    rss_rate = (rss.per_invocation_kib or 0.0) if witnesses.rss_shows else 0.0
    made = Finding(
        cause=cause,
        title="",
        per_invocation_kib=rate,
        low_kib=verdict.low_kib,
        high_kib=verdict.high_kib,
        share=min(1.0, rate / rss_rate) if rss_rate > 0 else None,
        hidden=not rss_rate,
        invocations_left=witnesses.memory_left(max(rate, rss_rate)),
        then=_KILLS,
        grows=True,
    )
    return replace(made, **words)  # type: ignore[arg-type]


def _rss(witnesses: Witnesses) -> str:
    before, after = witnesses.span("rss")
    return f"RSS {_span(before, after)}"


def _span(before: float, after: float) -> str:
    """A change of KiB, in MiB."""
    digits = 0 if abs(after - before) >= 8192 else 1
    return f"{before / 1024:,.{digits}f} to {after / 1024:,.{digits}f} MiB"


def _rate(verdict: Verdict) -> str:
    rate = f"{_size(verdict.per_invocation_kib)} more in each invocation"
    if verdict.low_kib is None or verdict.high_kib is None:
        return rate
    return f"{rate} (95 % interval {_size(verdict.low_kib)} to {_size(verdict.high_kib)})"


def _size(kib: float | None) -> str:
    if kib is None:
        return "?"
    return f"{kib / 1024:,.1f} MiB" if abs(kib) >= 1024 else f"{kib:,.1f} KiB"
