"""The causes of memory that does not grow, and of functions that fail: a row of `causes.TABLE` asks each. Pure."""

from __future__ import annotations

import math
from dataclasses import replace

from truemem.verdict import GATE_KIB, MINIMUM

from ..support.terminal import counted, mib
from . import settled
from .curves import BLOCKS, DESCRIPTORS, ENVIRONMENT, EXTENSION, FILES, GOAL, HEAP, HELD, IN_USE, RSS, THREADS, TMP
from .drift import Curve, Verdict, median_of
from .finding import Finding
from .growth_causes import THRESHOLD, ends_holding, holding_repair, rss_span, size_words, until_full
from .runtime_heap import CollectedHeap
from .thresholds import (
    CACHED,
    FEWEST,
    GO_BESIDE,
    GO_SHARE,
    GREW_KIB,
    GREW_SHARE,
    HALF,
    HELD_MIB,
    HELD_SHARE,
    NEAR,
    SOON,
)
from .witnesses import Witnesses, span_of

COUNTED = {THREADS: "threads", DESCRIPTORS: "descriptors", TMP: "/tmp"}
"""What else must not grow, in words."""


def failing(witnesses: Witnesses) -> Finding | None:
    """Half of the invocations, or more, have failed: nothing can be said of memory."""
    curves, failed = witnesses.curves, witnesses.curves.failed
    if not failed.count or failed.count < HALF * curves.invocations:
        return None
    title = (
        f"Failing: {failed.count:,} of {counted(curves.invocations, 'invocation')} failed. Nothing is said of memory"
        " until they succeed."
    )
    return Finding(cause="failing", title=title, holder="function", evidence=failed.words())


def answers_with_errors(witnesses: Witnesses) -> Finding | None:
    """The handler raises in most invocations. Growth would be known all the same, so it is asked for before."""
    curves = witnesses.curves
    if not curves.failed.answered or curves.failed.in_all < HALF * curves.invocations or curves.out_of_memory:
        return None
    title = f"Failing: {curves.failed.in_all:,} of {counted(curves.invocations, 'invocation')} answered with an error."
    return Finding(cause="failing", title=title, holder="function", evidence=[rss_span(witnesses)])


def collected(witnesses: Witnesses) -> Finding | None:
    """Memory has grown, and what is live does not: it was garbage."""
    garbage = settled.garbage_kib(witnesses.curves.settled)
    is_level = "growing" not in (witnesses.of(IN_USE).name, witnesses.rss.name)
    if garbage > GREW_KIB and is_level and _has_grown(witnesses):
        title = (
            f"No leak: {mib(garbage / 1024)} MiB of garbage gather before the collector runs. What it leaves does not"
            " grow."
        )
        repair = "Size the function by its peaks."
        return Finding(cause="collector", title=title, holder="garbage", evidence=[rss_span(witnesses)], repair=repair)
    if witnesses.is_go and witnesses.rss.name in ("stable", "plateau") and _has_grown(witnesses):
        title = "No leak: what grew was garbage. The heap has grown and stopped, as a heap in Go does."
        return Finding(cause="collector", title=title, holder="garbage", evidence=[rss_span(witnesses)])
    heap = witnesses.curves.heap
    if heap is None or heap.kind != "lazy" or heap.live.name not in ("level", "filled") or not is_known(heap):
        return None
    live = f"live after collection {mib(heap.live_now)} MiB" if heap.live_now is not None else ""
    title = (
        "No leak: the garbage collector lets the heap grow before it runs. What is live after"
        f" {counted(heap.collections, 'major collection')} does not grow."
    )
    evidence = [each for each in (live, rss_span(witnesses)) if each]
    exceeds = witnesses.curves.limit_advice
    return Finding(
        cause="collector",
        title=title,
        holder="garbage",
        evidence=evidence,
        repair=exceeds,
        pattern="a-heap-limit-above-the-memory-size" if exceeds else "",
    )


def held_when_killed(witnesses: Witnesses) -> Finding | None:
    """It ran out of memory, an allocator beside glibc's held much of it free, and nothing else rose."""
    curves = witnesses.curves
    name, held = settled.holder(curves.every_life)
    is_much = held >= HELD_SHARE * 1024 * (curves.limit_mib or math.inf)
    if not curves.out_of_memory or not is_much or name == "malloc":  # malloc's is used again: a peak ends it
        return None
    for levels in ([each.kept[kind] for each in curves.every_life if kind in each.kept] for kind in (IN_USE, RSS)):
        if levels and max(levels) - min(levels) > max(GREW_KIB, GREW_SHARE * min(levels)):
            return None
    beside = max((each.kept.get(IN_USE, 0.0) for each in curves.every_life), default=0.0)
    title = (
        f"Out of memory in {counted(len(curves.out_of_memory), 'invocation')}: {name} held up to {mib(held / 1024)} MiB"
        f" that were freed, beside {mib(beside / 1024)} MiB in use."
    )
    return _hoarded(witnesses, name, title)


def garbage_outgrows_memory(witnesses: Witnesses) -> Finding | None:
    """The heap of a program in Go is collected when it has a size that the memory has not."""
    curves = witnesses.curves
    heaps = [each for each in curves.every_life if GOAL in each.kept]
    if not heaps or not curves.limit_mib:
        return None
    limit, levels = curves.limit_mib * 1024, [each.kept[HEAP] for each in heaps]
    live, goal = max(levels), heaps[-1].kept[GOAL]
    beside = heaps[-1].kept[FILES] + GO_BESIDE * goal + witnesses.extensions_kib
    passed = heaps[-1].invocation - heaps[-2].invocation if len(heaps) > 1 else 0
    garbage = settled.garbage_kib(curves.settled) / passed if passed else 0.0
    left = int((limit - beside - live) / garbage) if garbage > 0 else None
    is_soon = bool(curves.out_of_memory) or (left is not None and left < SOON)
    grows = live - min(levels) > max(GREW_KIB, GREW_SHARE * live)
    if goal + beside <= limit or live > GO_SHARE * limit or grows or not is_soon:
        return None
    title = (
        f"Garbage ends the environment: {mib(live / 1024)} MiB are live and do not grow, but a heap in Go grows to"
        f" {mib(goal / 1024)} MiB before its garbage is collected."
    )
    known = [f"at least {size_words(garbage)} of garbage in each invocation"] if garbage > 0 else []
    return replace(
        with_limit(curves.limit_mib),
        title=title,
        invocations_left=None if curves.out_of_memory else left,
        then="the memory size is reached, and Lambda ends the environment",
        evidence=[*known, rss_span(witnesses)],
        grows=True,
    )


def with_limit(memory_mib: float) -> Finding:
    """The finding on a heap in Go that needs a limit, without its title."""
    limit = f"{GO_SHARE * memory_mib:.0f}MiB"
    return Finding(
        cause="collector",
        title="",
        holder="garbage",
        repair=f"Set GOMEMLIMIT={limit}: then it is collected before memory ends.",
        setting={"GOMEMLIMIT": limit},
    )


def is_known(heap: CollectedHeap) -> bool:
    """True if enough major collections have shown what is live, and not long ago."""
    return heap.collections >= FEWEST and heap.is_recent and heap.live.name in ("level", "filled")


def page_cache(witnesses: Witnesses) -> Finding | None:
    """The environment's level is far above what processes hold, and near the limit."""
    curves = witnesses.curves
    used = Curve.of(curves.others.get(ENVIRONMENT, ())).current_kib
    if not len(used) or not curves.limit_mib or curves.killed or curves.out_of_memory:
        return None
    held = witnesses.environment_kib()
    cached = median_of(used[-MINIMUM:]) - held
    if cached < CACHED * curves.limit_mib * 1024 or used.max() < NEAR * curves.limit_mib * 1024:
        return None
    title = f"No leak: {mib(cached / 1024)} MiB of the environment are page cache, which the kernel takes back."
    return Finding(cause="page-cache", title=title, holder="page cache", evidence=[rss_span(witnesses)])


def hoarding(witnesses: Witnesses) -> Finding | None:
    """An allocator holds much, and nothing grows."""
    name, held = settled.holder(witnesses.curves.settled)
    in_use = witnesses.span(IN_USE)[1]
    if name in ("", "malloc"):
        if not witnesses.knows(HELD, IN_USE):
            return None
        given_back = settled.held_kib(witnesses.curves.settled)
        resident = span_of(witnesses.untrimmed)[1] if given_back is None else given_back
        name, held = "malloc", min(witnesses.span(HELD)[1], resident)
    setting = ends_holding(witnesses, name)
    is_set = bool(setting) and setting.items() <= witnesses.curves.variables.items()
    if held < max(HELD_MIB * 1024, HELD_SHARE * (held + in_use)) or is_set:
        return None  # with the setting it holds only what it needs to work
    title = (
        f"Hoarding, not a leak: {name} holds {mib(held / 1024)} MiB that the function has freed, beside"
        f" {mib(in_use / 1024)} MiB in use. Nothing grows."
    )
    return _hoarded(witnesses, name, title)


def _hoarded(witnesses: Witnesses, name: str, title: str) -> Finding:
    """The finding on what this allocator holds."""
    setting = ends_holding(witnesses, name)
    return Finding(
        cause="hoarding", title=title, holder=name, evidence=[rss_span(witnesses)],
        repair="" if setting == THRESHOLD else holding_repair(setting), setting=setting, settled=_is_settled(witnesses),
    )  # fmt: skip


def filling_cache(witnesses: Witnesses) -> Finding | None:
    """What is kept grows with the entries of a cache that has a bound of its own."""
    found = settled.filling(witnesses.curves.settled)
    known = [witnesses.of(IN_USE), witnesses.rss]
    rate = max(each.per_invocation_kib or 0.0 for each in known)
    if found is None:
        return None
    cache, left = found.cache, found.invocations_left
    if left and rate < GATE_KIB and not witnesses.grows(BLOCKS):
        return None
    more = mib(left * rate / 1024)
    full = f"{cache.name} has {cache.entries:,} of {cache.bound:,} {cache.unit}"
    if not cache.bound:  # of a line
        full = f"it has room for {-cache.entries:,} more entries"
    made = Finding(
        cause="leak",
        title=f"A cache is too large for the memory size: {full}. It needs {more} MiB more until it is full.",
        holder=cache.name or "a cache",
        per_invocation_kib=rate,
        invocations_left=witnesses.memory_left(rate),
        then="the memory size is reached, and Lambda ends the environment",
        evidence=[rss_span(witnesses)],
        repair="Give it a lower bound.",
        grows=True,
    )
    if (witnesses.of(HEAP).per_invocation_kib or 0.0) >= HALF * rate:
        made = until_full(made, witnesses.curves.heap, witnesses.span(HEAP)[1] / 1024)
    if made.invocations_left is not None and made.invocations_left < left:
        return made
    title = f"No leak so far: a cache with a bound of its own fills: {full}."
    evidence = [f"it needs {more} MiB more in the next {counted(left, 'invocation')}, then it is full"] if left else []
    return Finding(
        cause="cache",
        title=title,
        holder=cache.name or "a cache",
        evidence=[*evidence, rss_span(witnesses)],
        settled=False,
    )


def _has_grown(witnesses: Witnesses) -> bool:
    """True if RSS has grown since the first judged invocation."""
    before, after = span_of(witnesses.untrimmed)
    return witnesses.rss.name == "plateau" or after - before > max(GREW_KIB, GREW_SHARE * before)


def full_cache(witnesses: Witnesses) -> Finding | None:
    """Memory has grown, and stopped."""
    heap, known = witnesses.curves.heap, settled.filled(witnesses.curves.settled)
    title, holder = "No leak: memory has grown and stopped, as a full cache does.", "function"
    if known is not None and known.cache.bound and (kib := known.kib(IN_USE)) > GREW_KIB:
        holder = known.cache.name
        title = f"No leak: {holder} is full, with {known.cache.bound:,} {known.cache.unit} in {mib(kib / 1024)} MiB."
    elif not (heap.kind == "filled" if heap is not None else _has_grown(witnesses)):
        return None
    return Finding(
        cause="cache", title=title, holder=holder, evidence=[rss_span(witnesses)], settled=_is_settled(witnesses)
    )


def steady(witnesses: Witnesses) -> Finding | None:
    """Nothing grows."""
    killed = len(witnesses.curves.out_of_memory)
    if killed:
        title = "No leak: memory does not grow. An invocation needs more at once than the function has."
        repair = "Stream the input, or give the function more memory."
        return Finding(
            cause="none", title=title, evidence=[rss_span(witnesses)], repair=repair, pattern="out-of-memory-in-one-go"
        )
    spiky = " Single invocations need much more than they leave behind." if witnesses.rss.name == "spiky" else ""
    most = _of_kept(witnesses).high_kib
    bound = f" (less than {size_words(most)} in each invocation)" if most and most > 0.05 else ""
    title = f"No leak: memory does not grow{bound}.{spiky}"
    level = [word for name, word in COUNTED.items() if witnesses.of(name).name in ("stable", "plateau")]
    words = f"{', '.join(level[:-1])} and {level[-1]}" if level[1:] else "".join(level)
    do = "does" if level == [COUNTED[TMP]] else "do"
    evidence = [*([f"{words} {do} not grow either"] if level else []), rss_span(witnesses)]
    return Finding(cause="none", title=title, evidence=evidence, settled=_is_settled(witnesses))


def _of_kept(witnesses: Witnesses) -> Verdict:
    return witnesses.of(IN_USE) if witnesses.knows(IN_USE) else witnesses.rss


def _is_settled(witnesses: Witnesses) -> bool:
    """True if the witness that decides leaves no room for growth that matters."""
    heap = None if witnesses.is_settled else witnesses.curves.heap
    if not all(witnesses.of(f"{EXTENSION}{name}").name != "warming" for name in witnesses.curves.extensions):
        return False
    if heap is not None and is_known(heap):
        return True
    return _of_kept(witnesses).settled
