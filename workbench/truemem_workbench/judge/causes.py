"""The table from evidence to cause: all witnesses of an environment in, one finding out. Pure.

`find` asks the rows of TABLE in their order; the first one that the curves support is the answer. A witness that
knows decides before one that guesses: growth of what is in use is a leak also where RSS is level; growth of what the
allocator holds is hoarding also where RSS rises; RSS alone decides only where nothing else is known.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from ..support import web_adapter
from ..support.failed_answer import MISSING_MEMBER, MISSING_MODULE, MISSING_PACKAGE, TIMED_OUT, UNSET_VARIABLE
from ..support.platform_facts import MOST_TIMEOUT_S
from ..support.terminal import counted
from . import settled
from .curves import IN_USE, RSS, Curves
from .drift import Verdict
from .finding import AFTER_REPAIR, COUNTED, TOO_FEW, Cause, Commands, Finding
from .growth_causes import (
    BOUND,
    RUN_IT_HERE,
    descriptors_stay,
    extension_grows,
    hoarding_grows,
    leak_by_rss,
    leak_in_use,
    leak_on_heap,
    native_beside,
    native_in_jvm,
    processes_stay,
    rate_words,
    size_words,
    threads_stay,
    tmp_fills,
)
from .growth_lines import merged, named
from .level_causes import (
    answers_with_errors,
    collected,
    failing,
    filling_cache,
    full_cache,
    garbage_outgrows_memory,
    held_when_killed,
    hoarding,
    page_cache,
    steady,
)
from .undecided_causes import allocator_is_silent, enough_mib, heap_ran_out, killed_at_once, killed_early, undecided
from .witnesses import Witnesses

NEW = "for each event that is new"
WITHOUT_LINES = ("dotnet", "ruby", "php")
"""Runtimes whose lines of code nothing here names."""
SMALLER_HEAP = {
    "java": "JAVA_TOOL_OPTIONS=-Xmx128m",
    "nodejs": "NODE_OPTIONS=--max-old-space-size=64",
    "go": "GOMEMLIMIT=64MiB",
    "dotnet": "DOTNET_GCHeapHardLimit=0x4000000",
}
"""A heap in which the collector has to run soon."""


OF_RUNTIME = re.compile(r"^Runtime\.|Cannot find (module|package)")
"""Errors that no event repairs."""

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
    next: Sequence[str] = ()
    """Names of Commands that tell more, the best first. Without any, the next is what measures again: after the repair
    where there is one."""
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
    failed = witnesses.curves.failed
    if failed.in_all and found.cause != "failing":
        evidence.append(f"{failed.in_all:,} of {counted(witnesses.curves.invocations, 'invocation')} failed")
    repair = found.repair or row.repair
    following = _next(row, commands, witnesses, found)
    if found.pattern == TOO_FEW:
        following = commands.longer or commands.again
    is_hopeless = found.cause == "undecided" and failed.is_hopeless and (failed.in_init or not found.repair)
    if is_hopeless:
        repair, following = "Fix that first.", ""
    if found.cause == "failing" or is_hopeless:
        repair, following = _known_repair(witnesses.curves, commands) or (repair, following)
    when = ""
    if not following:
        following = commands.proof or commands.again if found.grows or repair else commands.again
        when = AFTER_REPAIR if found.grows or repair else ""
    completed = replace(
        found,
        by_event=by_event,
        evidence=evidence,
        repair=repair,
        next=following,
        next_when=when,
        pattern=found.pattern or row.pattern,
    )
    made = named(completed, merged(witnesses.curves.profiles), commands)
    runs_here = bool(commands.repair)  # a setting is tried on this machine alone
    return replace(made, repair=BOUND) if (made.line or runs_here) and repair in RUN_IT_HERE.values() else made


MOST_KINDS = 3
"""Kinds of events that a sentence names."""


def _by_event(found: Finding, witnesses: Witnesses) -> tuple[dict[str, float], float]:
    """What `settled.keepers` says of what this finding is about."""
    curves, is_counted = witnesses.curves, found.cause in COUNTED
    if not curves.kinds or not found.grows:
        return {}, 0.0
    name = found.cause if is_counted else IN_USE if IN_USE in curves.kinds[0].after.kept else RSS
    rate = witnesses.rate(name) if is_counted else found.per_invocation_kib or 0.0
    return settled.keepers(curves.kinds, name, rate)


def _kinds(cause: Cause, by_event: Mapping[str, float], rest: float) -> str:
    """The events of which something is kept, as a short text."""

    def words(kept: float) -> str:
        return f"{kept:,.2g}" if cause in COUNTED and cause != "tmp" else size_words(kept)

    named = [f"{words(kept)} with {kind}" for kind, kept in by_event.items()][:MOST_KINDS]
    return f"each invocation keeps {', '.join(named)}, {words(rest)} at most with the others"


def _ends(found: Finding, curves: Curves) -> list[str]:
    """What ran out of memory in this environment, as short texts."""
    killed, ended, ends = curves.out_of_memory, curves.killed, []
    if killed and found.cause != "failing" and not found.title.startswith("Out of memory"):
        where = f"invocation {killed[0]}" + (f" and {len(killed) - 1} more" if len(killed) > 1 else "")
        ends.append(f"out of memory in {where}")
    if ended and found.cause != "extension":
        ends.append(f"something beside the function ended the environment in invocation {ended[0]}")
    return ends


def _next(row: Row, commands: Commands, witnesses: Witnesses, found: Finding) -> str:
    """The first of the row's commands that is there, and tells more as long as nothing is repaired. Empty: none."""
    runtime = witnesses.curves.runtime
    for name in row.next:
        command: str = getattr(commands, name)
        if name == "profile" and runtime == "java":
            command = commands.classes
        if name == "size" and witnesses.curves.out_of_memory:
            command = commands.sweep
        if (
            not command
            or (name == "longer" and found.grows and found.settled)
            or (name == "heap" and runtime)
            or (name == "repair" and not found.setting)
            or (name == "profile" and runtime in ("go", *WITHOUT_LINES))
            or (name == "explain" and runtime in WITHOUT_LINES)
        ):
            continue
        if name == "with_memory":
            if not (enough := enough_mib(witnesses)):
                continue
            return f"{command} {enough}"
        if name == "with_variable":
            variable = SMALLER_HEAP.get(runtime) or " ".join(f"{key}={value}" for key, value in found.setting.items())
            if not variable or variable in command.split():
                continue
            return f"{command} {variable}"
        return command
    return ""


def _known_repair(curves: Curves, commands: Commands) -> tuple[str, str] | None:
    """What repairs the usual errors of a first run, and its command. None for other errors."""
    said = curves.failed.first
    if commands.install and (module := MISSING_MODULE.search(said)):
        name = module[1].partition(".")[0]
        if (folder := commands.above.get(name)) is not None:
            path = shlex.quote(str(folder))
            return f"It is in {folder}, above the handler's folder.", f"{commands.with_variable} PYTHONPATH={path}"
        also = f": list it in {commands.requirements} as well" if commands.requirements else ""
        return f"Its interpreter has no module {module[1]!r}{also}.", commands.installs(name)
    if commands.install and (package := MISSING_PACKAGE.search(said)):
        return f"It has no package {package[1]!r}.", commands.installs(package[1])
    if commands.with_variable and (variable := UNSET_VARIABLE.search(said)):
        return f"Give it {variable[1]}.", f"{commands.with_variable} {variable[1]}=VALUE"
    if commands.with_timeout and (after := TIMED_OUT.search(said)) and (seconds := float(after[1])) < MOST_TIMEOUT_S:
        longer = f"{commands.with_timeout} {min(MOST_TIMEOUT_S, 2 * seconds):g}"
        return "It waits for what does not come, or needs more time.", longer
    if commands.sweep and curves.failed.in_init and "Runtime.OutOfMemory" in said:
        return "It needs more memory to begin.", commands.sweep
    if commands.with_path and said.startswith(web_adapter.HTTP):
        return "Fix that, or name a path that it has.", commands.with_path
    if commands.with_event and not curves.failed.in_init and MISSING_MEMBER.match(said):
        return "Its event was {}: give it one of its own, or --events with a file of them.", commands.with_event
    if commands.events and not curves.failed.in_init and not OF_RUNTIME.search(said):
        return f"Fix that, or put true events into {commands.events}, one on each line (one is enough).", ""
    return None


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
        next=("explain",),
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
        next=("extensions",),
        pattern="an-extensions-own-leak",
    ),
    Row(
        cause="failing",
        look=failing,
        needs="half of all invocations failed, or more",
        repair="Fix that first.",
        next=("log",),
        pattern="",
    ),
    Row(
        cause="cache",
        look=filling_cache,
        needs="what is in use grows, and so do the entries of a cache that has a bound and is not full",
        next=("longer",),
        pattern="a-cache-that-fills",
    ),
    Row(
        cause="leak",
        look=leak_in_use,
        needs="malloc's memory in use grows, or Python's objects do",
        repair=_OBJECTS,
        next=("profile", "explain", "longer"),
        pattern="a-cache-without-bound",
    ),
    Row(
        cause="leak",
        look=leak_on_heap,
        needs="what is live after major collections grows; classes or code; buffers; `native`: RSS beside the heap",
        repair=_OBJECTS,
        next=("profile", "explain", "longer"),
        pattern="a-cache-without-bound",
    ),
    Row(
        cause="hoarding",
        look=hoarding_grows,
        needs="RSS grows, memory in use does not, what malloc holds explains at least half",
        repair="Set MALLOC_MMAP_THRESHOLD_=32768: large blocks go back to the system when they are freed.",
        next=("repair",),
        pattern="arenas",
    ),
    Row(
        cause="hoarding",
        look=held_when_killed,
        needs="it ran out of memory, an allocator that is not glibc's held a fifth of the memory size free, and nothing"
        " else rose",
        repair="Set MIMALLOC_PURGE_DELAY=0 (pyarrow): it gives back what is freed.",
        next=("repair", "sweep"),
        pattern="arenas",
    ),
    Row(
        cause="native",
        look=native_in_jvm,
        needs="a JVM: what malloc has given out grows, by 1 MiB or more",
        next=("longer",),
        pattern="buffers-outside-of-the-heap",
    ),
    Row(
        cause="native",
        look=native_beside,
        needs="RSS grows, and malloc's memory and Python's objects explain less than half",
        repair="Close what is mapped, or take a newer version of the library that maps it.",
        next=("profile", "explain", "longer"),
        pattern="fragmentation",
    ),
    Row(
        cause="collector",
        look=garbage_outgrows_memory,
        needs="Go: what is live does not grow, and garbage is collected when the heap is larger than the memory size",
        next=("repair",),
        pattern="a-heap-limit-above-the-memory-size",
    ),
    Row(
        cause="leak",
        look=leak_by_rss,
        needs="RSS grows, and nothing else is known",
        next=("profile", "heap", "explain", "longer"),
        pattern="a-cache-without-bound",
    ),
    Row(
        cause="failing",
        look=answers_with_errors,
        needs="nothing grows, and half of all invocations answered with an error (exact mode)",
        repair="Fix that first.",
        next=("log",),
    ),
    Row(
        cause="undecided",
        look=heap_ran_out,
        needs="the runtime's own heap was full",
        repair="Find what fills it.",
        next=("heap", "explain"),
        pattern="a-cache-without-bound",
    ),
    Row(
        cause="undecided",
        look=killed_at_once,
        needs="it ran out of memory twice or more, in environments that had kept little until then",
        next=("sweep",),
        pattern="out-of-memory-in-one-go",
    ),
    Row(
        cause="undecided",
        look=killed_early,
        needs="it ran out of memory twice or more, each time within 128 invocations, and nothing above explains it",
        next=("repair", "with_memory", "sweep"),
        pattern="out-of-memory-in-one-go",
    ),
    Row(
        cause="undecided",
        look=allocator_is_silent,
        needs="nothing grows that is known, and a preloaded allocator (mimalloc) does not say what is in use",
        next=("with_variable",),
        pattern="a-cache-that-fills",
    ),
    Row(
        cause="undecided",
        look=undecided,
        needs="memory rises, and no witness decides",
        next=("heap", "with_variable", "longer"),
        pattern="a-cache-that-fills",
    ),
    Row(
        cause="collector",
        look=collected,
        needs="RSS rises, what is live after major collections does not",
        next=("size",),
        pattern="a-collector-that-has-not-run",
    ),
    Row(
        cause="page-cache",
        look=page_cache,
        needs="the environment is at its limit, a quarter of it is in no process, and nothing was killed",
        next=("size",),
        pattern="page-cache",
    ),
    Row(
        cause="hoarding",
        look=hoarding,
        needs="nothing grows, an allocator holds 16 MiB or more, and a fifth of all that it has",
        repair="Set MALLOC_MMAP_THRESHOLD_=32768 if that memory is wanted back.",
        next=("repair", "size"),
        pattern="arenas",
    ),
    Row(
        cause="cache",
        look=full_cache,
        needs="memory has grown and stopped",
        next=("size",),
        pattern="a-cache-that-fills",
    ),
    Row(cause="none", look=steady, needs="nothing grows", next=("size",), pattern="steady"),
)
"""Asked in this order: what ends sooner, and what is known for certain, comes first."""
