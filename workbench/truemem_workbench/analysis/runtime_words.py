"""Says in words what was found about the heap of a runtime, with figures and what to do. Pure."""

from __future__ import annotations

from truemem.lifecycle.heap_limit import advice

from ..support.plural import counted
from .heap_course import FILLED_MIB, Course
from .runtime_finding import Finding, Kind, Seen
from .runtime_reading import Reading

_HOLDER = {
    "java": "Compare two heap dumps (jcmd PID GC.heap_dump FILE)",
    "nodejs": "`truemem check --explain` names the line",
    "go": "Compare two heap profiles (runtime/pprof)",
    "dotnet": "Compare two dumps (dotnet-gcdump)",
}
"""How to find what holds it."""
_SMALLER = {
    "java": "a smaller -Xmx",
    "nodejs": "a smaller --max-old-space-size",
    "go": "a smaller GOMEMLIMIT",
    "dotnet": "a smaller DOTNET_GCHeapHardLimit",
}
_NATIVE = {
    "java": "direct buffers, threads, native libraries: jcmd PID VM.native_memory tells, with"
    " -XX:NativeMemoryTracking=summary",
    "nodejs": "native modules, worker threads",
    "go": "cgo, memory that is mapped",
    "dotnet": "native libraries, Marshal.AllocHGlobal, threads",
}
MOVES = 0.5
"""What is live does not stay where it was if it has moved by more than this part."""


def finding(kind: Kind, seen: Seen) -> Finding:
    """The finding in words, and the heap's limit if it does not fit the function."""
    said, limit = _SENTENCES[kind](seen), limit_advice(seen.first)
    if limit:
        said += f" {limit}"
    return Finding(kind=kind, sentence=said, exceeds=bool(limit))


def limit_advice(reading: Reading) -> str:
    """A sentence on a heap that may outgrow the function. Empty if it cannot, or if that is not known."""
    sizes = (reading.limit or 0.0, reading.memory or 0.0, reading.outside)
    said = advice(reading.runtime, *(round(size * 1024) for size in sizes))
    return f"{said[0].upper()}{said[1:]}." if said else ""


def _leak(seen: Seen) -> str:
    left = ""
    if seen.last.limit is not None and seen.live.per_invocation_kib > 0:
        many = max(0.0, seen.last.limit - seen.live.after) * 1024 / seen.live.per_invocation_kib
        left = f" Its limit of {seen.last.limit:,.0f} MiB is about {many:,.0f} invocations away."
    return (
        f"What is live after collection grows by {_grows(seen.live)}, over {_collections(seen)}: a leak on the heap,"
        f" else a cache that is far from full.{left} {_HOLDER[seen.last.runtime]}."
    )


def _classes(seen: Seen) -> str:
    beside = f" What is live grows with them, {_span(seen.live)}." if seen.live.has_grown else ""
    yet = "" if seen.is_metaspace_kept else ", or not collected yet"
    never = "never unloaded" if seen.is_metaspace_kept else "kept, or that no major collection has come for yet"
    if seen.last.runtime == "nodejs":
        return (
            f"Code grows by {_grows(seen.metaspace)}: functions that are compiled anew in each invocation, and"
            f" kept{yet} (eval, new Function, vm, modules that are loaded again).{beside}"
        )
    return (
        f"Metaspace grows by {_grows(seen.metaspace)}: classes (class loaders) that are {never}.{beside} Look"
        " for what makes a class loader, a proxy or a script engine in each invocation (-Xlog:class+load names them)."
    )


def _external(seen: Seen) -> str:
    what = "Buffers that are kept" if seen.last.runtime == "nodejs" else "memory that its objects own"
    return f"{_flat(seen)}and memory outside of the heap grows by {_grows(seen.external)}: {what}, a leak."


def _native(seen: Seen) -> str:
    return (
        f"{_flat(seen)}and RSS grows beside the heap by {_grows(seen.native)}: a leak in native memory"
        f" ({_NATIVE[seen.last.runtime]})."
    )


def _flat(seen: Seen) -> str:
    """The begin of a sentence on what is no heap."""
    if seen.live.name == "level" and seen.live_now is not None:
        return f"What is live after collection {_stays(seen)}, "
    if seen.live.name == "filled":
        return f"What is live has levelled off at {_mib(seen.live.after)}, "
    return f"The heap has {_mib(seen.last.committed)}, "


def _stays(seen: Seen) -> str:
    """What is live, where it does not grow: load may move it."""
    low, high = seen.live.before, seen.live.after
    if high - low > max(FILLED_MIB, MOVES * low):
        return f"goes up and down between {low:,.0f} and {_mib(high)}"
    return f"stays at {_mib(seen.live_now)}"


def _filling(seen: Seen) -> str:
    if seen.live.name == "filling":
        return (
            f"What is live after collection has grown {_span(seen.live)}, over {_collections(seen)}: a leak, or a cache"
            f" that fills. More invocations can tell; {_SMALLER[seen.last.runtime]} makes the collector run more often."
        )
    names = (("metaspace", seen.metaspace), ("memory that objects own", seen.external), ("RSS", seen.native))
    name, course = next((name, course) for name, course in names if course.name == "filling")
    if name == "metaspace" and seen.last.runtime == "nodejs":
        name = "code"
    if course is seen.external and not seen.is_external_kept:
        return f"Outside of the heap, {name} has grown {_span(course)}: a leak, or garbage; a major collection tells."
    return f"Outside of the heap, {name} has grown {_span(course)}: more invocations can tell whether it goes on."


def _filled(seen: Seen) -> str:
    return f"What is live after collection grew {_span(seen.live)}, and has levelled off: a cache that filled."


def _lazy(seen: Seen) -> str:
    rises = f" RSS has risen from {seen.rss_before:,.0f} to {_mib(seen.rss_after)}" if seen.rss_before else ""
    if seen.live.name == "level" and seen.is_recent and seen.live_now is not None and seen.collections > 1:
        garbage = (
            f"; {_mib(seen.garbage)} of what it has are garbage now" if seen.garbage and not seen.is_used_old else ""
        )
        return (
            f"What is live after collection {_stays(seen)}, over {_collections(seen)}: no leak on the"
            f" heap.{rises}{_cause(seen)}{garbage}.{_until(seen)}"
        )
    tells = "; whether something leaks, the next collection tells"
    if seen.live_now is not None and seen.garbage is not None:
        since = f"since invocation {seen.last.number - seen.since_live:,}, which left {_mib(seen.live_now)} live"
        said = f"up to {_mib(seen.garbage)} of the {_mib(seen.used_now)} that objects use are garbage"
        if seen.is_used_old:
            said = "how much has become garbage since is not known"
        return f"The collector has not needed to run {since}: {said}.{rises}{tells}.{_until(seen)}"
    seldom = "has run too seldom to tell what is live"
    if seen.used_now is not None and not seen.is_used_old:
        ran = seldom if seen.last.collections else "has not needed to run"
        return (
            f"The collector {ran}: up to {_mib(seen.used_now)} that objects use may be garbage.{rises}{tells}."
            f"{_until(seen)}"
        )
    ran = "has not run" if seen.used_now is None else seldom if seen.last.collections else "made no major collection"
    return (
        f"The collector {ran}: of {_mib(seen.last.committed)} that the heap has taken, all that is used may be"
        f" garbage.{rises}{tells}.{_until(seen)}"
    )


def _cause(seen: Seen) -> str:
    """Why RSS has risen, if the heap can have done it."""
    room = max(0.0, seen.last.committed - (seen.first.used or 0.0))
    if seen.rss_before and seen.rss_after is not None and seen.rss_after - seen.rss_before > room:
        return f", by more than the {_mib(room)} that the heap can have touched since"
    return f", for the collector lets the heap grow to {_mib(seen.last.committed)} before it runs"


def _until(seen: Seen) -> str:
    """By when it will run, if it can."""
    limit = seen.last.limit
    early = f" In a test, {_SMALLER[seen.last.runtime]} makes it run earlier."
    if limit is None or limit < seen.last.committed or limit_advice(seen.first):  # Go's limit is a wish
        return early
    return f" It collects before the heap's limit of {_mib(limit)}.{early}"


def _level(seen: Seen) -> str:
    parts = [
        f"{_mib(size)} {what}"
        for size, what in (
            (seen.live_now, "live after collection"),
            (seen.used_now, "in use"),
            (seen.last.committed, "taken from the system"),
        )
        if size is not None
    ]
    grows = ": it hardly grows" if seen.live.name == "level" or seen.used.name == "level" else ""
    return f"The heap has {', '.join(parts)}{grows}."


_SENTENCES = {
    "leak": _leak,
    "classes": _classes,
    "external": _external,
    "native": _native,
    "filling": _filling,
    "filled": _filled,
    "lazy": _lazy,
    "level": _level,
}


def _collections(seen: Seen) -> str:
    return counted(seen.collections, "major collection")


def _grows(course: Course) -> str:
    return f"{_rate(course.per_invocation_kib)} per invocation, {_span(course)}"


def _span(course: Course) -> str:
    digits = 0 if course.after - course.before >= 2 else 1
    return f"from {course.before:,.{digits}f} to {course.after:,.{digits}f} MiB"


def _rate(kib: float) -> str:
    return f"{kib / 1024:,.1f} MiB" if kib >= 1024 else f"{kib:,.0f} KiB" if kib >= 10 else f"{kib:,.1f} KiB"


def _mib(size: float | None) -> str:
    return "?" if size is None else f"{size:,.0f} MiB" if size >= 10 else f"{size:,.1f} MiB"
