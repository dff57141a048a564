"""The causes of what grows: evidence in, a finding out, None where the curves do not support it. Pure.

Each is a row of the table in `causes`, which says the order, the repair and the next command.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from truemem.verdict import GATE_KIB, LEAST_KIB

from ..support.terminal import counted, mib
from .curves import (
    BLOCKS,
    CLASSES,
    DESCRIPTORS,
    DIRECT,
    EXTENSION,
    EXTERNAL,
    FILES,
    GOROUTINES,
    HEAP,
    HELD,
    IN_USE,
    MALLOC,
    OF_THREADS,
    PROCESSES,
    SOFT,
    THREADS,
    TMP,
    UNREAD,
)
from .drift import Verdict
from .finding import Cause, Finding
from .resources import Resource
from .runtime_heap import LEAKS, CollectedHeap
from .settled import held_kib
from .thresholds import CACHE_KIB, HALF, JVM_KIB, LARGE_KIB, OF_OBJECTS, PER_BLOCK, TOLD
from .witnesses import Witnesses, span_of

OWN_KIB = 100.0
"""The step of RSS at a profile of the lines is told from here on."""
SIDECAR = "truemem"
"""Our own memory rises by some 0.3 MiB in 2,000 invocations, ever less, and by 0.6 MiB where a busy machine has it fall
behind (seen on each line: `holders.truemem`)."""
OBJECTS = "Python objects"
SOMEWHERE = "memory in use"
"""The holder where nothing more is known."""
_PARTS = {
    HEAP: "live objects",
    EXTERNAL: "buffers outside of the heap",
    CLASSES: "classes",
    MALLOC: "native memory",
}
_NATIVE = "Release what is allocated, or take a newer version of the library that keeps it."
RUN_IT_HERE = {
    "java": "Run it here to see who keeps it (truemem explain target/app.jar:com.example.App), and give that a bound.",
    "go": "Run it here to see who keeps it (truemem explain ./bootstrap), and give that a bound.",
}
"""Repair of a deployed function's heap that grows, where the finding has no line."""
BOUND = "Give what keeps it a bound."
"""The same where the line is named, or where the next command names it."""
_DUMPS = {
    **RUN_IT_HERE,
    "dotnet": "Compare two dumps (dotnet-gcdump) to see who keeps it, and give that a bound.",
}
_GOROUTINES = "Let each goroutine end: what it waits for must come, or have a timeout."
THRESHOLD = {"MALLOC_MMAP_THRESHOLD_": "32768"}
"""Blocks from 32 KiB on are mapped, and go back to the system when they are freed. It helped in the incident and in our
measurements (sample_function/README.md)."""
ENDS_HOLDING: dict[str, dict[str, str]] = {
    "malloc": THRESHOLD,
    "pyarrow's mimalloc": {"MIMALLOC_PURGE_DELAY": "0"},
    "pyarrow's jemalloc": {"ARROW_DEFAULT_MEMORY_POOL": "system"},
    "jemalloc": {"MALLOC_CONF": "dirty_decay_ms:0"},
    "tcmalloc": {"TCMALLOC_AGGRESSIVE_DECOMMIT": "true"},
}
"""The setting with which an allocator gives back at once what is freed. Measured, with 8 threads, MiB of RSS: pyarrow's
mimalloc 500 to 165, its jemalloc 290 to 190, jemalloc 33 to 16, tcmalloc 155 to 49 (and five times the time)."""
FEW_ARENAS = {"MALLOC_ARENA_MAX": "2"}
"""Threads share two arenas. Measured with 14 threads and blocks of 8 KB, MiB of RSS: 100 to 38; with THRESHOLD 100."""


def ends_holding(witnesses: Witnesses, allocator: str) -> dict[str, str]:
    """The variables with which this allocator gives back what is freed; empty if none are known."""
    parts = [each.kept[OF_THREADS] for each in witnesses.curves.settled if OF_THREADS in each.kept]
    if allocator == "malloc" and parts and median(parts) > HALF:
        return {**FEW_ARENAS, **THRESHOLD}
    return ENDS_HOLDING.get(allocator, {})


def holding_repair(setting: Mapping[str, str]) -> str:
    """What to do with these variables, as a sentence."""
    words = " ".join(f"{name}={value}" for name, value in setting.items())
    if FEW_ARENAS.items() <= setting.items():
        return f"Set {words}: threads share arenas, and large blocks go back when they are freed."
    return f"Set {words}: it gives back what is freed." if setting else "Choose another allocator."


@dataclass(frozen=True)
class LibraryCache:
    """A cache in a library: nothing tells how full it is, but it has a bound of its own."""

    what: str
    bound: str
    setting: Mapping[str, str]
    """With these variables it keeps one entry, or none."""
    repair: str


LIBRARY_CACHES = {
    "libtorch_cpu.so": LibraryCache(
        what="oneDNN in PyTorch keeps what it has made for each shape of its input",
        bound="1,024 shapes at most",
        setting={"ONEDNN_PRIMITIVE_CACHE_CAPACITY": "1", "LRU_CACHE_CAPACITY": "1"},
        repair="If inputs get few different sizes (padded, say), it stays small.",
    ),
    SOFT: LibraryCache(
        what="soft references keep it, which the JVM clears before its heap is full",
        bound="at most what the heap has room for",
        setting={"JAVA_TOOL_OPTIONS": "-XX:SoftRefLRUPolicyMSPerMB=0"},
        repair="Give the JVM a heap that leaves room for the rest (-Xmx), or keep them in a cache with a bound.",
    ),
    DIRECT: LibraryCache(
        what="the JDK keeps a direct buffer for each thread, as large as the largest that the thread has needed",
        bound="the largest times the threads at most",
        setting={"JAVA_TOOL_OPTIONS": "-Djdk.nio.maxCachedBufferSize=32768"},
        repair="Fewer threads, or -Djdk.nio.maxCachedBufferSize, keep it small.",
    ),
}
"""By the file that is mapped, or what a JVM says. The JDK's: sun.nio.ch.Util, getTemporaryDirectBuffer. oneDNN: its
developer guide, "Primitive Cache"; beside it PyTorch's own (ideep, lru_cache.hpp). Measured with PyTorch 1.12.1,
convolutions of 50 to 3,000 values, MiB after 1,200 invocations: 48; with the first alone 15, with the second 34, with
both none."""
_KILLS = "the memory size is reached, and Lambda ends the environment"


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
        reported = next((each for each in witnesses.curves.reported if each.name == self.name), None)
        is_known = witnesses.grows(self.name) or witnesses.rose_to_the_end(self.name)
        is_known |= self.name == PROCESSES and witnesses.rises_with_rss(self.name)
        if not is_known and (reported is None or not reported.runs_out):
            return None
        if is_known or reported is None:
            rate, left = witnesses.rate(self.name), witnesses.left(self.name, reported)
        else:
            rate, left = reported.per_invocation or 0.0, reported.invocations_left
        if self.name in (DESCRIPTORS, TMP) and witnesses.memory_ends_before(left):
            return None
        return self._found(witnesses, reported, rate, left)

    def _found(self, witnesses: Witnesses, reported: Resource | None, rate: float, left: int | None) -> Finding:
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
        evidence = [] if reported is None else [reported.amount]
        if reported is not None and reported.zombies:
            evidence.append(f"{reported.zombies:,} of them have ended and were never waited for")
        if of_memory and rate > 0:
            evidence.append(f"RSS grows with them, by {size_words((rss.per_invocation_kib or 0.0) / rate)} for each")
        children = witnesses.curves.children if self.name == PROCESSES else ""
        words = f"{size_words(rate)} more" if self.name == TMP else f"{rate:,.2g} more"
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


processes_stay = _Counted(
    PROCESSES,
    "Child processes stay{name}: {rate} in each invocation.",
    "child processes",
    "no process can be started (EAGAIN)",
    "Nearly as many processes run as Lambda permits.",
)

threads_stay = _Counted(
    THREADS,
    "Threads stay: {rate} in each invocation.",
    "threads",
    "no thread can be started",
    "Nearly as many threads run as Lambda permits.",
)

descriptors_stay = _Counted(
    DESCRIPTORS,
    "Descriptors stay open: {rate} in each invocation.",
    "descriptors",
    "opening a file or a socket fails (EMFILE)",
    "Nearly as many descriptors are open as Lambda permits.",
)

tmp_fills = _Counted(
    TMP,
    "/tmp fills: {rate} in each invocation.",
    "/tmp",
    "writing to /tmp fails (ENOSPC)",
    "/tmp is nearly full.",
)


def extensions_to_judge(witnesses: Witnesses) -> list[str]:
    """Names of the extensions: of the sidecar only where it has risen by more than it does as it warms up."""
    before, after = witnesses.span(f"{EXTENSION}{SIDECAR}")
    return [name for name in witnesses.curves.extensions if name != SIDECAR or after - before > 2 * LEAST_KIB]


def extension_grows(witnesses: Witnesses) -> Finding | None:
    """The extension that grows most, if the function does not grow by more."""
    growing = [name for name in extensions_to_judge(witnesses) if witnesses.grows(f"{EXTENSION}{name}")]
    if not growing:
        return None
    worst = max(growing, key=lambda name: witnesses.rate(f"{EXTENSION}{name}"))
    verdict = witnesses.of(f"{EXTENSION}{worst}")
    own = [witnesses.of(IN_USE), witnesses.rss]
    if any(each.name == "growing" and _rate_of(each) > _rate_of(verdict) for each in own):
        return None
    before, after = witnesses.span(f"{EXTENSION}{worst}")
    grows = (witnesses.rss.low_kib or 0.0) > GATE_KIB
    function = f"grows as well, by {size_words(witnesses.rss.per_invocation_kib)}" if grows else "does not"
    killed = witnesses.curves.killed
    evidence = [f"its own RSS {_span(before, after)}"]
    if killed:
        evidence.append(f"the environment was ended for it in invocation {killed[0]}")
    return _grown(
        witnesses,
        "extension",
        verdict,
        title=f"The extension {worst} keeps memory: {rate_words(verdict)}. The function {function}.",
        holder=worst,
        evidence=evidence,
        share=None,
        hidden=True,
        repair=""
        if worst != SIDECAR
        else "That is our own defect: please report it, and switch the sidecar off with TRUEMEM_ENABLED=false.",
    )


def leak_in_use(witnesses: Witnesses) -> Finding | None:
    """malloc's memory in use, or Python's objects, grow: in Python."""
    name = IN_USE
    if not witnesses.grows(IN_USE) and witnesses.part is not None and witnesses.grows(HEAP):
        name = HEAP  # what a runtime gave back of its own meanwhile hides it
    in_use, blocks = witnesses.of(name), witnesses.of(witnesses.objects)
    if "growing" not in (in_use.name, blocks.name):
        return None
    known = in_use if in_use.name == "growing" or (in_use.low_kib or 0.0) > 0 else blocks
    is_level = blocks.name != "insufficient" and witnesses.rate(BLOCKS) < PER_BLOCK
    holder = "large objects or native memory" if is_level else SOMEWHERE
    if witnesses.objects_kib >= OF_OBJECTS * (in_use.per_invocation_kib or 0.0):
        holder = OBJECTS
    if (part := witnesses.part) is not None:
        holder = _PARTS[part]
    evidence = [f"in use {_span(*witnesses.span(name))}"] if known is in_use else []
    if blocks.name != "insufficient":
        evidence.append(f"{counted(round(witnesses.rate(BLOCKS)), 'more small Python object')} after each invocation")
    stays = witnesses.grows(GOROUTINES)
    if stays:
        evidence.append(f"{witnesses.rate(GOROUTINES):,.2g} more goroutines after each invocation")
    if witnesses.rss_shows and (known is blocks or holder == OBJECTS) and witnesses.objects == BLOCKS:
        # small objects are in no figure of malloc; a settled RSS has all of them
        is_whole = witnesses.is_settled and witnesses.rss.name == "growing"
        known = max([in_use, witnesses.rss] if is_whole else [known, witnesses.rss], key=_rate_of)
    some = "some " if known is blocks else ""
    where = "" if holder == SOMEWHERE else f", in {holder}"
    hidden = "" if witnesses.rss_shows else " RSS hides it at first: memory that was free is used again."
    title = f"Leak: {some}{rate_words(known)}{where}.{hidden}"
    curves = witnesses.curves
    is_live, library = holder == _PARTS[HEAP], curves.library
    may_be_cache = holder != OBJECTS and (is_live or library != SOFT) and library != DIRECT
    cache = _library_cache(witnesses) if may_be_cache else None
    if cache is not None and curves.is_librarys:
        return _bounded(cache, witnesses, known, evidence)
    made = _grown(
        witnesses,
        "leak",
        known,
        title=title,
        holder=holder,
        evidence=[*evidence, rss_span(witnesses)],
        confidence=known.confidence or in_use.confidence,
        repair=f"It may be a cache: {cache.what}." if cache else _GOROUTINES if stays else "",
        setting=cache.setting if cache else {},
        settled=not _may_be_cache(witnesses, known),
    )
    return until_full(made, curves.heap, witnesses.span(HEAP)[1] / 1024) if is_live else made


def _library_cache(witnesses: Witnesses) -> LibraryCache | None:
    """The cache of a library that may be what grows; None if there is none, or growth goes on without it."""
    return None if witnesses.curves.is_librarys is False else LIBRARY_CACHES.get(witnesses.curves.library)


def _bounded(cache: LibraryCache, witnesses: Witnesses, growth: Verdict, evidence: Sequence[str]) -> Finding:
    """A library's cache is what grows: without it nothing does."""
    return Finding(
        cause="cache",
        title=f"No leak so far: {cache.what}, {cache.bound}. It was run without: then nothing grows.",
        holder=cache.what,
        per_invocation_kib=growth.per_invocation_kib,
        evidence=[f"now {rate_words(growth)}", *evidence, rss_span(witnesses)],
        repair=cache.repair,
        pattern="a-cache-that-fills",
        settled=False,
    )


def _may_be_cache(witnesses: Witnesses, verdict: Verdict) -> bool:
    before, after = witnesses.span(IN_USE)
    is_read = witnesses.is_settled or witnesses.is_outside
    return is_read and _rate_of(verdict) > LARGE_KIB and after - before < CACHE_KIB


def _rate_of(verdict: Verdict) -> float:
    return verdict.per_invocation_kib or 0.0


def leak_on_heap(witnesses: Witnesses) -> Finding | None:
    """What is live in a collected heap grows, or what its objects own outside of it."""
    heap = witnesses.curves.heap
    if (
        witnesses.is_whole
        or heap is None
        or (witnesses.is_settled and heap.kind != "native")
        or heap.kind not in LEAKS
        or (heap.kind == "native" and not _is_native(heap, witnesses))
    ):
        return None
    if heap.kind == "classes" and not heap.is_metaspace_kept:
        return None  # they may be garbage
    course = {"leak": heap.live, "classes": heap.metaspace, "external": heap.external, "native": heap.native}[heap.kind]
    holder = _PARTS[{"leak": HEAP, "native": MALLOC}.get(heap.kind, heap.kind)]
    if heap.kind == "classes" and heap.last.runtime == "nodejs":
        holder = "code"
    seen = f"{holder} {_span(course.before * 1024, course.after * 1024)}"
    after = f" after {counted(heap.collections, 'major collection')}" if heap.kind == "leak" else ""
    rss = witnesses.rss
    verdict = replace(
        rss, per_invocation_kib=course.per_invocation_kib, low_kib=course.low_kib, high_kib=course.high_kib
    )
    if heap.kind == "native" and 0 < _rate_of(rss) < _rate_of(verdict):  # RSS has all of it
        verdict = rss
    if (verdict.low_kib or 0.0) <= 0:
        return None  # an interval that holds zero is no leak
    made = _grown(
        witnesses,
        "native" if heap.kind == "native" else "leak",
        verdict,
        title=f"Leak: {rate_words(verdict)}, in {holder}.",
        holder=holder,
        evidence=[f"{seen}{after}", rss_span(witnesses)],
        repair=_NATIVE if heap.kind == "native" else _DUMPS.get(heap.last.runtime, ""),
        pattern={
            "leak": "a-cache-without-bound",
            "classes": "classes-that-are-never-unloaded",
        }.get(heap.kind, "buffers-outside-of-the-heap"),
    )
    return until_full(made, heap, heap.live.after) if heap.kind == "leak" else made


def until_full(made: Finding, heap: CollectedHeap | None, live_mib: float) -> Finding:
    """The same finding on live objects, if the runtime's own heap is full before the memory size is reached."""
    rate = made.per_invocation_kib or 0.0
    if heap is None or heap.last.limit is None or rate <= 0:
        return made
    left = int(max(0.0, heap.last.limit - live_mib) * 1024 / rate)
    if made.invocations_left is not None and made.invocations_left <= left:
        return made
    return replace(made, invocations_left=left, then="the runtime's own heap is full and its process ends")


def _is_native(heap: CollectedHeap, witnesses: Witnesses) -> bool:
    """True if RSS may grow, and native memory explains enough of what it has risen by. In Node.js, what zlib and others
    hold for garbage is freed only when V8 collects it, and seldom at first: there RSS must grow for certain."""
    certain = ("growing",) if heap.last.runtime == "nodejs" else ("warming", "growing")
    if witnesses.rss.name not in certain or heap.rss_before is None or heap.rss_after is None:
        return False
    grown = heap.native.per_invocation_kib * heap.invocations / 1024
    return grown >= TOLD * (heap.rss_after - heap.rss_before)


def hoarding_grows(witnesses: Witnesses) -> Finding | None:
    """RSS grows, what is in use does not, and malloc holds what grows."""
    held = witnesses.of(HELD)
    given_back = held_kib(witnesses.curves.settled)
    if given_back is not None:  # malloc's own figure has what it gave back in it as well
        if held.name != "growing" or given_back < HALF * witnesses.span(HELD)[1]:
            return None
    elif witnesses.rss.name not in ("growing", "warming") or not witnesses.knows(IN_USE, HELD):
        return None
    rate = (held if given_back is not None else witnesses.rss).per_invocation_kib or 0.0
    explains = (held.per_invocation_kib or 0.0) / rate if rate > 0 else 0.0
    certain = "growing" in (held.name, witnesses.rss.name) and held.name in ("growing", "warming")
    in_use = witnesses.of(IN_USE)
    may_grow = in_use.name == "growing" or (in_use.low_kib or 0.0) >= GATE_KIB
    if may_grow or not certain or explains < HALF:
        return None
    setting = ends_holding(witnesses, "malloc")
    return _grown(
        witnesses,
        "hoarding",
        held,
        title=(
            f"Hoarding, not a leak: malloc holds {rate_words(held)}, which the function has freed. What is in use does"
            " not grow."
        ),
        holder="malloc",
        evidence=[
            f"held {_span(*witnesses.span(HELD))}",
            f"in use {_span(*witnesses.span(IN_USE))}",
            rss_span(witnesses),
        ],
        repair="" if setting == THRESHOLD else holding_repair(setting),
        setting=setting,
    )


def native_in_jvm(witnesses: Witnesses) -> Finding | None:
    """What malloc has given out grows beside a JVM's heap: direct buffers, or a library's."""
    verdict = witnesses.of(MALLOC)
    before, after = witnesses.span(MALLOC)
    if not witnesses.has_jvm or after - before < JVM_KIB or verdict.name not in ("growing", "warming"):
        return None
    if verdict.name == "warming" and (verdict.per_invocation_kib or 0.0) < GATE_KIB:
        return None
    evidence = [f"malloc has given out {_span(before, after)}"]
    cache = _library_cache(witnesses) if witnesses.curves.library == DIRECT else None
    if cache is not None and witnesses.curves.is_librarys:
        return _bounded(cache, witnesses, verdict, evidence)
    where = "direct buffers or a library"
    if DIRECT in witnesses.curves.settled[-1].kept:
        begin, end = witnesses.span(DIRECT)
        where = "direct buffers" if end - begin > HALF * (after - before) else "a library"
    return _grown(
        witnesses,
        "native",
        verdict,
        title=f"Leak in native memory: {rate_words(verdict)}, in {where}.",
        holder="native memory",
        evidence=evidence,
        pattern="buffers-outside-of-the-heap",
        repair=f"It may be a cache: {cache.what}." if cache else _NATIVE,
        setting=cache.setting if cache else {},
        settled=verdict.name == "growing",
    )


def native_beside(witnesses: Witnesses) -> Finding | None:
    """RSS grows, and neither malloc nor Python's objects do: it is mapped."""
    if witnesses.rss.name != "growing" or not witnesses.knows(IN_USE):
        return None
    rate = witnesses.rss.per_invocation_kib or 0.0
    inside = sum(max(0.0, witnesses.of(name).per_invocation_kib or 0.0) for name in (IN_USE, HELD))
    blocks = witnesses.objects_kib
    inside += blocks if witnesses.objects == BLOCKS else 0.0
    is_level = witnesses.is_settled and witnesses.beside.name in ("stable", "warming")
    if blocks >= OF_OBJECTS * rate or inside > HALF * rate or is_level:
        return None
    files = (witnesses.of(FILES).per_invocation_kib or 0.0) > HALF * rate
    if files and (unread := _unread_kib(witnesses)) is not None:
        return Finding(
            cause="cache",
            title=f"No leak: files that are mapped are read into memory, {mib(unread / 1024)} MiB more at most.",
            holder="mapped files",
            per_invocation_kib=rate,
            evidence=[f"now {rate_words(witnesses.rss)}", rss_span(witnesses)],
            repair="The kernel takes these pages back where memory ends.",
            pattern="mapped-files",
        )
    holder = "mapped files" if files else "mapped memory"
    return _grown(
        witnesses,
        "native",
        witnesses.rss,
        title=f"Leak in native memory: {rate_words(witnesses.rss)}, in {holder}.",
        holder=holder,
        evidence=[f"malloc has given out {_span(*witnesses.span(IN_USE))}", rss_span(witnesses)],
        pattern="mapped-files" if files else "",
    )


def _unread_kib(witnesses: Witnesses) -> float | None:
    """What of the mapped files is left to be read, KiB, if what was read explains that files hold more memory; None
    where it does not: more of them are mapped."""
    known = [each.kept for each in witnesses.curves.settled if UNREAD in each.kept]
    if not known or known[0][UNREAD] - known[-1][UNREAD] < HALF * (known[-1][FILES] - known[0][FILES]):
        return None
    return known[-1][UNREAD]


def leak_by_rss(witnesses: Witnesses) -> Finding | None:
    """RSS grows, and no other witness knows more."""
    verdict = witnesses.rss
    if verdict.name != "growing":
        return None
    heap, in_use = witnesses.curves.heap, witnesses.of(IN_USE)
    # killed again and again it is settled too seldom for a verdict
    rises = bool(witnesses.curves.out_of_memory) and in_use.name == "warming" and (in_use.low_kib or 0.0) > 0
    if heap is not None or (witnesses.knows(IN_USE) and not rises):
        return None
    sure = f" with {verdict.confidence:.0%} confidence" if verdict.confidence else ""
    return _grown(
        witnesses,
        "leak",
        verdict,
        title=f"Leak{sure}, as far as RSS can tell: {rate_words(verdict)}.",
        holder="function",
        confidence=verdict.confidence,
        settled=verdict.settled,
        evidence=[rss_span(witnesses), _of_malloc(witnesses)],
    )


def _of_malloc(witnesses: Witnesses) -> str:
    """What is known of malloc where RSS alone decides."""
    if not witnesses.is_outside:
        return "RSS alone cannot tell a leak from memory that an allocator or a collector holds"
    return f"of that malloc has given out {_span(*witnesses.span(IN_USE))}, and holds {_span(*witnesses.span(HELD))}"


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


def rss_span(witnesses: Witnesses) -> str:
    """RSS at the begin and at the end; where malloc was asked to give back what is free, and that hides what it holds
    in Lambda, until then."""
    before, after = max(span_of(witnesses.untrimmed), span_of(witnesses.curves.rss), key=lambda span: span[1])
    own = witnesses.curves.own_kib
    without = f", without a step of {size_words(own)} where lines were profiled" if own >= OWN_KIB else ""
    return f"RSS {_span(before, after)}{without}"


def _span(before: float, after: float) -> str:
    """A change of KiB, in MiB: one figure where that is all that shows."""
    digits = 0 if abs(after - before) >= 8192 else 1
    first, last = (f"{each / 1024:,.{digits}f}" for each in (before, after))
    return f"{first} to {last} MiB" if first != last else f"{last} MiB"


def rate_words(verdict: Verdict) -> str:
    rate = f"{size_words(verdict.per_invocation_kib)} more in each invocation"
    if verdict.low_kib is None or verdict.high_kib is None:
        return rate
    low, high = size_words(verdict.low_kib), size_words(verdict.high_kib)
    low = low.partition(" ")[0] if low[-3:] == high[-3:] else low  # the unit once
    return f"{rate} (95 % interval {low} to {high})" if low != high.partition(" ")[0] else rate


def size_words(kib: float | None) -> str:
    if kib is None:
        return "?"
    return f"{kib / 1024:,.1f} MiB" if abs(kib) >= 1024 else f"{kib:,.1f} KiB"
