"""The table from evidence to cause: all witnesses of an environment in, one finding out. Pure.

`find` asks the rows of TABLE in their order; the first one that the curves support is the answer. A witness that
knows decides before one that guesses: growth of what is in use is a leak also where RSS is level; growth of what the
allocator holds is hoarding also where RSS rises; RSS alone decides only where nothing else is known.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from truemem.verdict import GATE_KIB, GROWING_FROM, MINIMUM

from ..support.failed_answer import MISSING_MEMBER, MISSING_MODULE, UNSET_VARIABLE
from ..support.terminal import counted, mib
from . import settled
from .curves import (
    BLOCKS,
    ENVIRONMENT,
    EXTENSION,
    FILES,
    GOAL,
    HEAP,
    HEAP_RAN_OUT,
    HELD,
    IN_USE,
    PROCESSES,
    RSS,
    Curves,
)
from .drift import Curve, Verdict, lives, median_of, trusted_of
from .finding import COUNTED, TOO_FEW, Cause, Commands, Finding
from .growth_causes import (
    ENDS_HOLDING,
    descriptors_stay,
    extension_grows,
    extensions_to_judge,
    hoarding_grows,
    leak_by_rss,
    leak_in_use,
    leak_on_heap,
    native_beside,
    native_in_jvm,
    processes_stay,
    rate_words,
    rss_span,
    size_words,
    threads_stay,
    tmp_fills,
)
from .growth_lines import merged, named
from .runtime_heap import LEAKS, CollectedHeap
from .thresholds import (
    CACHED,
    FEWEST,
    GO_BESIDE,
    GO_SHARE,
    GREW_KIB,
    GREW_SHARE,
    HABIT,
    HALF,
    HELD_MIB,
    HELD_SHARE,
    MATTERS_KIB,
    NEAR,
    SOON,
)
from .witnesses import Witnesses, span_of

NEW = "for each event that is new"
SMALLER_HEAP = {
    "java": "JAVA_TOOL_OPTIONS=-Xmx128m",
    "nodejs": "NODE_OPTIONS=--max-old-space-size=64",
    "go": "GOMEMLIMIT=64MiB",
    "dotnet": "DOTNET_GCHeapHardLimit=0x4000000",
}
"""A heap in which the collector has to run soon."""


ENDS_SOONEST: tuple[Cause, ...] = ("threads", "descriptors", "tmp")
"""Causes of which the nearest to its limit is the answer."""

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


def find(curves: Curves, commands: Commands, allowed: Collection[str] = ()) -> Finding:
    """The answer on one environment. `allowed`: causes that may grow; one of them is the answer only if no other is."""
    return find_by(Witnesses(curves), commands, allowed)


def find_by(witnesses: Witnesses, commands: Commands, allowed: Collection[str] = ()) -> Finding:
    """The answer by these witnesses, which go on knowing what they were asked. If nothing grows with the same events
    again, it is asked whether something is kept of each that is new."""
    found = _first(witnesses, commands, allowed)
    curves = witnesses.curves
    if not curves.new or found.grows or found.cause in ("undecided", "failing"):
        return found
    of_new = _first(Witnesses(replace(curves, settled=curves.new, new=(), profiles=())), commands, allowed)
    if not of_new.grows and settled.filling(curves.new) is None:
        return found
    title = of_new.title.replace("in each invocation", NEW)
    if of_new.cause in ("leak", "native") and of_new.per_invocation_kib is not None:
        rate = rate_words(Verdict("growing", of_new.per_invocation_kib, of_new.low_kib, of_new.high_kib))
        title = f"Leak if new keys never end: {rate.replace('in each invocation', NEW)}, in {of_new.holder}."
    evidence = [*of_new.evidence, "the same events again keep nothing"]
    return replace(of_new, title=title, hidden=False, evidence=evidence)


def _first(witnesses: Witnesses, commands: Commands, allowed: Collection[str]) -> Finding:
    """What the first row says that these witnesses support."""
    one_allowed = None
    for each in TABLE:
        row, found = each, each.look(witnesses)
        if found is None:
            continue
        if row.cause in ENDS_SOONEST:
            row, found = _nearest(witnesses, row, found, allowed)
        if found.grows and found.cause in allowed:
            one_allowed = one_allowed or _completed(found, row, commands, witnesses)
        elif found.grows or one_allowed is None:
            return _completed(found, row, commands, witnesses)
        else:
            return one_allowed
    raise AssertionError("the last row always answers")


def _nearest(witnesses: Witnesses, row: Row, found: Finding, allowed: Collection[str]) -> tuple[Row, Finding]:
    """What reaches its limit first, of what is counted and grows: a client may keep a thread and three sockets."""
    rows = [each for each in TABLE if each.cause in ENDS_SOONEST and each is not row and each.cause not in allowed]
    known = [(row, found), *((each, other) for each in rows if (other := each.look(witnesses)) is not None)]
    return min(known, key=lambda pair: math.inf if pair[1].invocations_left is None else pair[1].invocations_left)


def _completed(found: Finding, row: Row, commands: Commands, witnesses: Witnesses) -> Finding:
    evidence = list(found.evidence)
    by_event, rest = _by_event(found, witnesses)
    if by_event:
        evidence = [_kinds(found.cause, by_event, rest), *evidence]
    evidence += [witnesses.curves.ended] if witnesses.curves.ended else _ends(found, witnesses.curves)
    if (failed := witnesses.curves.failed.in_all) and found.cause != "failing":
        evidence.append(f"{failed:,} of {counted(witnesses.curves.invocations, 'invocation')} failed")
    following = _next(row, commands, witnesses, found)
    if found.pattern == TOO_FEW:
        following = commands.longer or commands.again
    repair = found.repair or row.repair
    if found.cause == "failing":
        repair, following = _known_repair(witnesses.curves, commands) or (repair, following)
    completed = replace(
        found,
        by_event=by_event,
        evidence=evidence,
        repair=repair,
        next=following,
        pattern=found.pattern or row.pattern,
    )
    return named(completed, merged(witnesses.curves.profiles), commands)


MOST_KINDS = 3
"""Kinds of events that a sentence names."""


def _by_event(found: Finding, witnesses: Witnesses) -> tuple[dict[str, float], float]:
    """See `settled.keepers`, of what this finding is about."""
    curves, is_counted = witnesses.curves, found.cause in COUNTED
    if not curves.kinds or not found.grows:
        return {}, 0.0
    name = found.cause if is_counted else IN_USE if IN_USE in curves.kinds[0].after.kept else RSS
    rate = witnesses.rate(name) if is_counted else found.per_invocation_kib or 0.0
    return settled.keepers(curves.kinds, name, rate)


def _kinds(cause: Cause, by_event: Mapping[str, float], rest: float) -> str:
    """Of which events something is kept, as a short text."""

    def words(kept: float) -> str:
        return f"{kept:,.2g}" if cause in COUNTED and cause != "tmp" else size_words(kept)

    named = [f"{words(kept)} of {kind}" for kind, kept in by_event.items()][:MOST_KINDS]
    return f"kept each time: {', '.join(named)}, {words(rest)} at most of the others"


def _ends(found: Finding, curves: Curves) -> list[str]:
    """What ran out of memory in this environment, as short texts."""
    killed, ended, ends = curves.out_of_memory, curves.killed, []
    if killed and found.cause != "failing":
        where = f"invocation {killed[0]}" + (f" and {len(killed) - 1} more" if len(killed) > 1 else "")
        ends.append(f"out of memory in {where}")
    if ended and found.cause != "extension":
        ends.append(f"the environment ended in invocation {ended[0]}, for something beside the function")
    return ends


def _next(row: Row, commands: Commands, witnesses: Witnesses, found: Finding) -> str:
    """The first of the row's commands that is there, and has a use."""
    runtime = witnesses.curves.runtime
    for name in row.next:
        command: str = getattr(commands, name)
        if (
            not command
            or (name == "heap" and runtime)
            or (name == "repair" and not found.setting)
            or (name in ("profile", "explain") and runtime in ("java", "go", "dotnet"))
        ):
            continue
        if name == "with_variable":
            variable = SMALLER_HEAP.get(runtime) or " ".join(f"{key}={value}" for key, value in found.setting.items())
            if not variable or variable in command.split():
                continue
            return f"{command} {variable}"
        return command
    return commands.again


def _failing(witnesses: Witnesses) -> Finding | None:
    curves, failed = witnesses.curves, witnesses.curves.failed
    if not failed.count or failed.count < HALF * curves.invocations:
        return None
    title = (
        f"Failing: {failed.count:,} of {counted(curves.invocations, 'invocation')} failed. Nothing is said of memory"
        " until they succeed."
    )
    return Finding(cause="failing", title=title, holder="function", evidence=failed.words())


def _answers_with_errors(witnesses: Witnesses) -> Finding | None:
    """The handler raises in most invocations. Growth would be known all the same, so it is asked for before."""
    curves = witnesses.curves
    if not curves.failed.answered or curves.failed.in_all < HALF * curves.invocations or curves.out_of_memory:
        return None
    title = f"Failing: {curves.failed.in_all:,} of {counted(curves.invocations, 'invocation')} answered with an error."
    return Finding(cause="failing", title=title, holder="function", evidence=[rss_span(witnesses)])


def _known_repair(curves: Curves, commands: Commands) -> tuple[str, str] | None:
    """What repairs the usual errors of a first run, and its command. None for other errors."""
    said = curves.failed.first
    if commands.install and (module := MISSING_MODULE.search(said)):
        name = module[1].partition(".")[0]
        if (folder := commands.above.get(name)) is not None:
            path = shlex.quote(str(folder))
            return f"It is in {folder}, above the handler's folder.", f"{commands.with_variable} PYTHONPATH={path}"
        return f"Its interpreter has no module {module[1]!r}.", f"{commands.install} {name}"
    if commands.with_variable and (variable := UNSET_VARIABLE.search(said)):
        return f"Give it {variable[1]}.", f"{commands.with_variable} {variable[1]}=VALUE"
    if commands.sweep and curves.failed.in_init and "Runtime.OutOfMemory" in said:
        return "It needs more memory to begin.", commands.sweep
    if commands.with_event and not curves.failed.in_init and MISSING_MEMBER.match(said):
        return "Its event was {}: give it one of its own.", commands.with_event
    return None


def _heap_ran_out(witnesses: Witnesses) -> Finding | None:
    """The runtime's own heap was full, and nothing is known of what filled it."""
    failed = witnesses.curves.failed
    ran_out = [said for said in failed.said if any(words in said for words in HEAP_RAN_OUT)]
    if not ran_out or failed.count >= HALF * witnesses.curves.invocations:
        return None
    count = sum(failed.said[said] for said in ran_out)
    title = f"The runtime's heap ran out in {counted(count, 'invocation')}: {ran_out[0]}."
    return Finding(cause="undecided", title=title, holder="heap", evidence=[rss_span(witnesses)], settled=False)


def _collector(witnesses: Witnesses) -> Finding | None:
    garbage = settled.garbage_kib(witnesses.curves.settled)
    is_level = "growing" not in (witnesses.of(IN_USE).name, witnesses.rss.name)
    if garbage > GREW_KIB and is_level and _has_grown(witnesses):
        title = (
            f"No leak: {mib(garbage / 1024)} MiB of garbage come together until the collector runs. What is left then"
            " does not grow."
        )
        repair = "Size the function by its peaks."
        return Finding(cause="collector", title=title, holder="garbage", evidence=[rss_span(witnesses)], repair=repair)
    if witnesses.is_go and witnesses.rss.name in ("stable", "plateau") and _has_grown(witnesses):
        title = "No leak: it was garbage. The heap has grown and stopped, as one does until it is collected."
        return Finding(cause="collector", title=title, holder="garbage", evidence=[rss_span(witnesses)])
    heap = witnesses.curves.heap
    if heap is None or heap.kind != "lazy" or heap.live.name not in ("level", "filled") or not _is_known(heap):
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


def _held_when_killed(witnesses: Witnesses) -> Finding | None:
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


def _killed(witnesses: Witnesses) -> Finding | None:
    """It ran out of memory again and again, each time before growth could be judged: more of the same decides
    nothing."""
    curves, killed = witnesses.curves, len(witnesses.curves.out_of_memory)
    judged = max(len(trusted_of(life)) for life in lives(curves.rss))
    is_level = judged >= MINIMUM and witnesses.rss.name in ("stable", "plateau", "spiky") and not witnesses.is_go
    if killed < HABIT or judged >= GROWING_FROM or is_level:
        return None
    title = f"Out of memory in {killed} of {counted(curves.invocations, 'invocation')}, before growth could be judged"
    if not witnesses.is_go or not curves.limit_mib:
        title, repair = f"{title}.", curves.limit_advice or "It needs more memory, or it leaks: more memory tells."
        return Finding(cause="undecided", title=title, holder="function", repair=repair, settled=False)
    title = f"{title}: a heap in Go grows to twice what is live until its garbage is collected."
    return replace(_with_limit(curves.limit_mib), title=title, evidence=[rss_span(witnesses)])


def _outgrows(witnesses: Witnesses) -> Finding | None:
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
        f"Garbage ends the environment: {mib(live / 1024)} MiB are live, and do not grow; but a heap in Go has"
        f" {mib(goal / 1024)} MiB before its garbage is collected."
    )
    known = [f"at least {size_words(garbage)} of garbage in each invocation"] if garbage > 0 else []
    return replace(
        _with_limit(curves.limit_mib),
        title=title,
        invocations_left=None if curves.out_of_memory else left,
        then="the memory size is reached, and Lambda ends the environment",
        evidence=[*known, rss_span(witnesses)],
        grows=True,
    )


def _with_limit(memory_mib: float) -> Finding:
    """The finding on a heap in Go that needs a limit, without its title."""
    limit = f"{GO_SHARE * memory_mib:.0f}MiB"
    return Finding(
        cause="collector",
        title="",
        holder="garbage",
        repair=f"Set GOMEMLIMIT={limit}: then it is collected before memory ends.",
        setting={"GOMEMLIMIT": limit},
    )


def _unsaid(witnesses: Witnesses) -> Finding | None:
    """Nothing grows that is known, and an allocator does not say what is in use: what it holds free hides a leak until
    that is used up."""
    name = next((each.unsaid for each in witnesses.curves.settled), "")
    if not name:
        return None
    title = f"Undecided: {name} does not say what is in use, and what it holds free can hide a leak."
    return Finding(
        cause="undecided", title=title, holder=name, evidence=[rss_span(witnesses)], repair="Run it without, to know.",
        setting={"LD_PRELOAD": ""}, settled=False,
    )  # fmt: skip


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
    found = [each for each in (_rising(witnesses), _rising_extension(witnesses)) if each is not None]
    if not found:
        return None
    rising, verdict, extension = max(found, key=lambda each: each[1].per_invocation_kib or 0.0)
    if not extension and heap is not None and heap.kind in ("filling", "lazy"):
        what, holder = "a leak, a cache that fills, or garbage", "heap"
        decides = "the next collections of the heap decide it"
    else:
        what, holder, decides = "a leak, or a cache that fills", extension, "more invocations decide it"
    title = f"Undecided after {counted(judged, 'invocation')}: {rising}. It is {what}; {decides}."
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


def _is_known(heap: CollectedHeap) -> bool:
    """True if enough major collections have shown what is live, and not long ago."""
    return heap.collections >= FEWEST and heap.is_recent and heap.live.name in ("level", "filled")


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
        if heap.kind in (*LEAKS, "filling") or (heap.kind == "lazy" and not _is_known(heap)):
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


def _page_cache(witnesses: Witnesses) -> Finding | None:
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


def _hoarding(witnesses: Witnesses) -> Finding | None:
    """An allocator holds much, and nothing grows."""
    name, held = settled.holder(witnesses.curves.settled)
    in_use = witnesses.span(IN_USE)[1]
    if name in ("", "malloc"):
        if not witnesses.knows(HELD, IN_USE):
            return None
        given_back = settled.held_kib(witnesses.curves.settled)
        resident = span_of(witnesses.untrimmed)[1] if given_back is None else given_back
        name, held = "malloc", min(witnesses.span(HELD)[1], resident)
    setting = ENDS_HOLDING.get(name)
    is_set = setting is not None and setting.items() <= witnesses.curves.variables.items()
    if held < max(HELD_MIB * 1024, HELD_SHARE * (held + in_use)) or is_set:
        return None  # with the setting it holds only what it needs to work
    title = (
        f"Hoarding, not a leak: {mib(held / 1024)} MiB are freed and held by {name}, beside {mib(in_use / 1024)} MiB in"
        " use. Nothing grows."
    )
    return _hoarded(witnesses, name, title)


def _hoarded(witnesses: Witnesses, name: str, title: str) -> Finding:
    """The finding on what this allocator holds."""
    setting = ENDS_HOLDING.get(name, {})
    words = " ".join(f"{each}={value}" for each, value in setting.items())
    repair = f"Set {words}: it gives back what is freed." if setting else "Choose another allocator."
    return Finding(
        cause="hoarding", title=title, holder=name, evidence=[rss_span(witnesses)],
        repair="" if name == "malloc" else repair, setting=setting, settled=_is_settled(witnesses),
    )  # fmt: skip


def _filling(witnesses: Witnesses) -> Finding | None:
    """What is kept grows with the entries of a cache that has a bound of its own."""
    found = settled.filling(witnesses.curves.settled)
    known = [witnesses.of(IN_USE), witnesses.rss]
    rate = max(each.per_invocation_kib or 0.0 for each in known)
    if found is None:
        return None
    cache, left = found.cache, found.invocations_left
    if left and rate < GATE_KIB and not witnesses.grows(BLOCKS):
        return None
    room = witnesses.memory_left(rate)
    more = mib(left * rate / 1024)
    full = f"{cache.name} has {cache.entries:,} of {cache.bound:,} entries"
    if not cache.bound:  # of a line
        full = f"It has room for {-cache.entries:,} more entries"
    if room is not None and room < left:
        return Finding(
            cause="leak",
            title=f"A cache fills that is too large. {full}. Full, it needs {more} MiB more.",
            holder=cache.name or "a cache",
            per_invocation_kib=rate,
            invocations_left=room,
            then="the memory size is reached, and Lambda ends the environment",
            evidence=[rss_span(witnesses)],
            repair="Give it a lower bound.",
            grows=True,
        )
    title = f"No leak so far: a cache with a bound of its own fills. {full}."
    evidence = [f"if that is all that grows, {more} MiB more come, in {counted(left, 'invocation')}"] if left else []
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


def _cache(witnesses: Witnesses) -> Finding | None:
    heap = witnesses.curves.heap
    filled = heap is not None and heap.kind == "filled"
    if not filled and (heap is not None or not _has_grown(witnesses)):
        return None
    title = "No leak: memory has grown and stopped, as a full cache does."
    return Finding(
        cause="cache", title=title, holder="function", evidence=[rss_span(witnesses)], settled=_is_settled(witnesses)
    )


def _none(witnesses: Witnesses) -> Finding | None:
    killed = len(witnesses.curves.out_of_memory)
    if killed:
        title = "No leak: memory does not grow. An invocation needs more at once than the function has."
        repair = "Stream the input, or give the function more memory."
        return Finding(
            cause="none", title=title, evidence=[rss_span(witnesses)], repair=repair, pattern="out-of-memory-in-one-go"
        )
    spiky = " Single invocations need much more than they leave behind." if witnesses.rss.name == "spiky" else ""
    title = f"No leak: memory does not grow.{spiky}"
    most = _of_kept(witnesses).high_kib
    bound = [f"growth is {size_words(most)} in each invocation at most"] if most and most > 0.05 else []
    evidence = [*bound, rss_span(witnesses)]
    return Finding(cause="none", title=title, evidence=evidence, settled=_is_settled(witnesses))


def _of_kept(witnesses: Witnesses) -> Verdict:
    return witnesses.of(IN_USE) if witnesses.knows(IN_USE) else witnesses.rss


def _is_settled(witnesses: Witnesses) -> bool:
    """True if the witness that decides leaves no room for growth that matters."""
    heap = None if witnesses.is_settled else witnesses.curves.heap
    if not all(witnesses.of(f"{EXTENSION}{name}").name != "warming" for name in witnesses.curves.extensions):
        return False
    if heap is not None and _is_known(heap):
        return True
    return _of_kept(witnesses).settled


OF_EXTENSION = "Take a newer version of that extension, or a smaller buffer in it, and tell its vendor."
_OBJECTS = "Give what is kept a bound, or make it once, outside of the handler."
TABLE: tuple[Row, ...] = (
    Row(
        cause="processes",
        look=processes_stay,
        needs="the number of processes grows",
        repair="Wait for each child, with a time limit, and end its process group.",
        pattern="threads-and-processes-that-stay",
    ),
    Row(
        cause="threads",
        look=threads_stay,
        needs="the number of threads grows, that of processes does not",
        repair="Use one pool of threads, made outside of the handler.",
        pattern="threads-and-processes-that-stay",
    ),
    Row(
        cause="descriptors",
        look=descriptors_stay,
        needs="open descriptors grow, and end before memory does",
        repair="Close files, sockets and clients; make clients once, outside of the handler.",
        next=("explain", "again"),
        pattern="descriptors-that-leak",
    ),
    Row(
        cause="tmp",
        look=tmp_fills,
        needs="what is in /tmp grows, and ends before memory does",
        repair="Remove files when they are not needed any more.",
        pattern="tmp-that-fills",
    ),
    Row(
        cause="extension",
        look=extension_grows,
        needs="an extension's RSS grows, by more than the function's",
        repair=OF_EXTENSION,
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
        cause="cache",
        look=_filling,
        needs="what is in use grows, and so do the entries of a cache that has a bound and is not full",
        next=("longer", "again"),
        pattern="a-cache-that-fills",
    ),
    Row(
        cause="leak",
        look=leak_in_use,
        needs="malloc's memory in use grows, or Python's objects do",
        repair=_OBJECTS,
        next=("profile", "explain", "longer", "again"),
        pattern="a-cache-without-bound",
    ),
    Row(
        cause="leak",
        look=leak_on_heap,
        needs="what is live after major collections grows; classes or code; buffers; `native`: RSS beside the heap",
        repair=_OBJECTS,
        next=("profile", "explain", "longer", "again"),
        pattern="a-cache-without-bound",
    ),
    Row(
        cause="hoarding",
        look=hoarding_grows,
        needs="RSS grows, memory in use does not, what malloc holds explains at least half",
        repair="Set MALLOC_MMAP_THRESHOLD_=32768: large blocks go back to the system when they are freed.",
        next=("repair", "again"),
        pattern="arenas",
    ),
    Row(
        cause="hoarding",
        look=_held_when_killed,
        needs="it ran out of memory, an allocator that is not glibc's held a fifth of the memory size free, and nothing"
        " else rose",
        repair="Set MIMALLOC_PURGE_DELAY=0 (pyarrow): it gives back what is freed.",
        next=("repair", "sweep", "again"),
        pattern="arenas",
    ),
    Row(
        cause="native",
        look=native_in_jvm,
        needs="a JVM: what malloc has given out grows, by 4 MiB or more",
        next=("longer", "again"),
        pattern="buffers-outside-of-the-heap",
    ),
    Row(
        cause="native",
        look=native_beside,
        needs="RSS grows, and malloc's memory and Python's objects explain less than half",
        repair="Close what is mapped, or take a newer version of the library that maps it.",
        next=("profile", "explain", "longer", "again"),
        pattern="fragmentation",
    ),
    Row(
        cause="collector",
        look=_outgrows,
        needs="Go: what is live does not grow, and garbage is collected when the heap is larger than the memory size",
        next=("repair", "again"),
        pattern="a-heap-limit-above-the-memory-size",
    ),
    Row(
        cause="leak",
        look=leak_by_rss,
        needs="RSS grows, and nothing else is known",
        next=("profile", "heap", "explain", "longer", "again"),
        pattern="a-cache-without-bound",
    ),
    Row(
        cause="failing",
        look=_answers_with_errors,
        needs="nothing grows, and half of all invocations answered with an error (exact mode)",
        repair="Fix that first.",
        next=("log", "again"),
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
        look=_killed,
        needs="it ran out of memory twice or more, each time within 128 invocations, and nothing above explains it",
        next=("repair", "sweep", "again"),
        pattern="out-of-memory-in-one-go",
    ),
    Row(
        cause="undecided",
        look=_unsaid,
        needs="nothing grows that is known, and a preloaded allocator (mimalloc) does not say what is in use",
        next=("with_variable", "again"),
        pattern="a-cache-that-fills",
    ),
    Row(
        cause="undecided",
        look=_undecided,
        needs="memory rises, and no witness decides",
        next=("heap", "with_variable", "longer", "again"),
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
        needs="nothing grows, an allocator holds 16 MiB or more, and a fifth of all that it has",
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
