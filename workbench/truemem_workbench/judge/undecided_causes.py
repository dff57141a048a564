"""What is said where no witness decides: rows of `causes.TABLE`. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from truemem.verdict import GATE_KIB, GROWING_FROM, MINIMUM

from ..support.platform_facts import MOST_MIB
from ..support.terminal import counted
from .curves import BLOCKS, EXTENSION, HEAP_RAN_OUT, HELD, IN_USE, PROCESSES
from .drift import Curve, Verdict, lives, trusted_of
from .finding import TOO_FEW, Finding
from .growth_causes import extensions_to_judge, rate_words, rss_span, size_words
from .level_causes import is_known, with_limit
from .runtime_heap import LEAKS
from .thresholds import COMPARED, HABIT, HALF, LITTLE, MATTERS_KIB
from .witnesses import Witnesses


def heap_ran_out(witnesses: Witnesses) -> Finding | None:
    """The runtime's own heap was full, and nothing is known of what filled it."""
    failed = witnesses.curves.failed
    ran_out = [said for said in failed.said if any(words in said for words in HEAP_RAN_OUT)]
    if not ran_out or failed.count >= HALF * witnesses.curves.invocations:
        return None
    count = sum(failed.said[said] for said in ran_out)
    title = f"The runtime's heap ran out in {counted(count, 'invocation')}: {ran_out[0]}."
    return Finding(cause="undecided", title=title, holder="heap", evidence=[rss_span(witnesses)], settled=False)


def killed_at_once(witnesses: Witnesses) -> Finding | None:
    """It ran out of memory again and again, mostly in an environment that had kept little until then."""
    killed, way = _killed_lives(witnesses), witnesses.curves.limit_mib
    if killed is None or witnesses.is_go or not way:
        return None
    at_once = sum(_kept_little(life, way * 1024) for life in killed)
    if at_once < HALF * len(killed):
        return None
    title = f"{_ran_out(witnesses)}: one invocation needs more at once than the function has."
    repair = "Give it more memory, or stream the input."
    return Finding(cause="undecided", title=title, holder="function", repair=repair, settled=False)


def killed_early(witnesses: Witnesses) -> Finding | None:
    """It ran out of memory again and again, each time before growth could be judged: more of the same decides
    nothing."""
    curves, killed = witnesses.curves, _killed_lives(witnesses)
    if killed is None:
        return None
    title = _ran_out(witnesses)
    if not witnesses.is_go or not curves.limit_mib:
        title += f": an environment lasts for {counted(_length(killed), 'invocation')}, too few to be compared."
        repair = curves.limit_advice or "With more memory it shows whether it leaks."
        return Finding(cause="undecided", title=title, holder="function", repair=repair, settled=False)
    title += ", before growth could be judged: a heap in Go grows to twice what is live until its garbage is collected."
    return replace(with_limit(curves.limit_mib), title=title, evidence=[rss_span(witnesses)])


def enough_mib(witnesses: Witnesses) -> int:
    """The memory size, doubled as often as it takes, in which one environment lasts for enough invocations; 0 if no
    larger one is known, or Lambda has none."""
    killed, limit = _killed_lives(witnesses), int(witnesses.curves.limit_mib or 0)
    if killed is None or not 0 < limit < MOST_MIB:
        return 0
    length, enough = _length(killed), 2 * limit
    while length * enough < COMPARED * limit:
        enough *= 2
    return min(enough, MOST_MIB)


def _ran_out(witnesses: Witnesses) -> str:
    curves = witnesses.curves
    return f"Out of memory in {len(curves.out_of_memory)} of {counted(curves.invocations, 'invocation')}"


def _killed_lives(witnesses: Witnesses) -> list[Curve] | None:
    """The lives that ran out of memory; None if they are few, or growth was judged in one."""
    every = lives(witnesses.curves.rss)
    judged = max(len(trusted_of(life)) for life in every)
    is_level = judged >= MINIMUM and witnesses.rss.name in ("stable", "plateau", "spiky") and not witnesses.is_go
    if len(witnesses.curves.out_of_memory) < HABIT or judged >= GROWING_FROM or is_level:
        return None
    return [life for life in every if len(life) and life.died[-1]]


def _length(killed: Sequence[Curve]) -> int:
    """How many invocations such a life has."""
    return int(median([len(life) for life in killed])) if killed else 1


def _kept_little(life: Curve, limit_kib: float) -> bool:
    """True if it ended in its first invocation, or what it had kept is less than LITTLE of what was left to it."""
    held = life.current_kib[:-1]
    if len(held) < 2:
        return not len(held)
    needed = max(life.peak_kib[0], held[0]) if life.peak_kib[0] > 0 else held[0]
    return float(held[-1] - held[0]) < LITTLE * (limit_kib - float(needed))


def allocator_is_silent(witnesses: Witnesses) -> Finding | None:
    """Nothing grows that is known, and an allocator does not say what is in use: what it holds free hides a leak until
    that is used up."""
    name = next((each.unsaid for each in witnesses.curves.settled), "")
    if not name:
        return None
    title = f"Undecided: {name} does not say what is in use, and what it holds free can hide a leak."
    return Finding(
        cause="undecided",
        title=title,
        holder=name,
        evidence=[rss_span(witnesses)],
        repair=f"Run the function without {name}, to know.",
        setting={"LD_PRELOAD": ""},
        settled=False,
    )


def undecided(witnesses: Witnesses) -> Finding | None:
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
    found = [each for each in (_rising(witnesses), _rising_extension(witnesses)) if each is not None]
    if not found:
        return None
    rising, verdict, extension = max(found, key=lambda each: each[1].per_invocation_kib or 0.0)
    if not extension and heap is not None and heap.kind in ("filling", "lazy"):
        what, holder = "a leak, a cache that fills, or garbage", "heap"
        decides = "the next collections of the heap decide"
    else:
        what, holder, decides = "a leak or a cache that fills", extension, "more invocations decide"
    title = f"Undecided after {counted(judged, 'judged invocation')}: {rising}. It may be {what}: {decides}."
    return Finding(
        cause="undecided",
        title=title,
        holder=holder,
        per_invocation_kib=verdict.per_invocation_kib,
        low_kib=verdict.low_kib,
        high_kib=verdict.high_kib,
        evidence=[rss_span(witnesses)],
        settled=False,
    )


def _rising_extension(witnesses: Witnesses) -> tuple[str, Verdict, str] | None:
    """An extension that may still grow, in words, with its verdict and its name; None if none does."""
    for name in extensions_to_judge(witnesses):
        extension = witnesses.of(f"{EXTENSION}{name}")
        if extension.name in ("warming", "growing") and not _is_small(extension):
            return _may_rise(f"the extension {name}", extension), extension, name
    return None


def _rising(witnesses: Witnesses) -> tuple[str, Verdict, str] | None:
    """What of the function may still grow, in words, with its verdict, and no name; None if nothing does."""
    heap, rss = witnesses.curves.heap, witnesses.rss
    if witnesses.is_whole or (witnesses.is_settled and heap is not None and heap.kind != "native"):
        heap = None
    is_beside = (rss.low_kib or 0.0) > 0 and (rss.high_kib or 0.0) > MATTERS_KIB
    if heap is not None:
        if heap.kind in (*LEAKS, "filling") or (heap.kind == "lazy" and not is_known(heap)):
            what = "memory beside the heap" if heap.kind in LEAKS else "the heap"
            return f"{what} has risen, and it was collected {counted(heap.collections, 'time')}", rss, ""
        return (f"RSS rises beside the heap, {rate_words(rss)}", rss, "") if is_beside and heap.kind != "lazy" else None
    known = witnesses.of(IN_USE)
    if known.name == "warming" and not _is_small(known):
        return _may_rise("what is in use", known), known, ""
    blocks = witnesses.of(BLOCKS)
    if (blocks.low_kib or 0.0) > 0 and blocks.name in ("warming", "growing") and not _is_small(blocks):
        return f"Python has {witnesses.rate(BLOCKS):,.0f} more blocks after each invocation", blocks, ""
    before, after = witnesses.span(PROCESSES)  # what is in use is that of the runtime's own process
    is_open = known.name == "insufficient" or after > before or (is_beside and not _is_held(witnesses))
    if rss.name in ("warming", "growing") and is_open and not _is_small(rss):
        return _may_rise("RSS", rss), rss, ""
    return None


def _may_rise(what: str, verdict: Verdict) -> str:
    if verdict.low_kib is not None and verdict.low_kib > 0:
        return f"{what} rises, {rate_words(verdict)}"
    return f"{what} goes up and down, and may grow by up to {size_words(verdict.high_kib)} in each invocation"


def _is_held(witnesses: Witnesses) -> bool:
    """True if what malloc holds explains that RSS rises."""
    rate = witnesses.rss.per_invocation_kib or 0.0
    return (witnesses.of(HELD).per_invocation_kib or 0.0) > HALF * rate


def _is_small(verdict: Verdict) -> bool:
    """True if even the upper end of its interval does not matter."""
    return verdict.high_kib is not None and verdict.high_kib < GATE_KIB
