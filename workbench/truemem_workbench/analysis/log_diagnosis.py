"""Finds out from a log how well the sidecar works, for `truemem doctor`."""

from __future__ import annotations

import math
import re
import shlex
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..lines.unread import not_read
from ..support.plural import counted
from .diagnosis import Diagnosis
from .output_diagnosis import is_about, of_said, of_start

if TYPE_CHECKING:
    from ..lines.line import Line
    from ..lines.unread import Unread
    from ..lines.wrapped import Event

MANY = 0.1
"""Share of the invocations from which a problem is reported."""
NEARLY_ALL = 0.9
ENOUGH_REPORTS = 2
"""Number of REPORT lines from which a line must be there: it is printed when the next invocation begins."""
EVIDENCE = 300
"""Most characters of a function's own line that are shown."""
METHODS = {
    "vmhwm": "of one process, kept by the kernel",
    "vmhwm-threads": "of one process, whose threads may hide some of it: between two bounds",
    "vmhwm-sum": "of several processes, between two bounds",
    "vmhwm-segments": "of all requests that ran at once (Managed Instances)",
    "sampled": "a lower bound",
}

_PATTERNS = "docs/patterns.md"
DESCRIPTORS_FIX = (
    f"Close files, sockets and clients; make clients once, outside the handler: {_PATTERNS}#descriptors-that-leak"
)
TMP_FIX = f"Remove files when they are not needed, or buy more ephemeral storage: {_PATTERNS}#tmp-that-fills"
TASKS_FIX = f"Use one pool of threads, and wait for each process: {_PATTERNS}#threads-and-processes-that-stay"

RAN_OUT = {
    "descriptors": ("The function ran out of descriptors", DESCRIPTORS_FIX),
    "tmp": ("/tmp is full", TMP_FIX),
    "tasks": ("The function could not start a thread or a process", TASKS_FIX),
}
"""What a function ran out of beside memory: what its line means, and the repair."""
_SAYS = {
    "EMFILE": "descriptors",
    "ENFILE": "descriptors",
    "oo many open files": "descriptors",
    "ENOSPC": "tmp",
    "o space left on device": "tmp",
    "can't start new thread": "tasks",
    "unable to create native thread": "tasks",
    "unable to create new native thread": "tasks",
    "newosproc": "tasks",
}
"""Words of an error that say what ran out: of Python, Node.js, Java, Go, .NET and the C library."""
_AGAIN = ("EAGAIN", "Resource temporarily unavailable")
"""These are also said of a socket that has nothing to read: only where a word of _STARTS is in the line."""
_STARTS = re.compile(r"fork|spawn|thread|clone|Popen", re.IGNORECASE)
HEAP_LIMIT = "docs/patterns.md#a-heap-limit-above-the-memory-size"
SAID_OF_HEAP = "the heap may grow to "
"""Begin of the sidecar's own line about that."""

_REPORT = re.compile(r'REPORT RequestId: (\S+)|"platform\.report".*?"requestId":\s*"([^"]+)"')
"""REPORT in Lambda's text format, and in its JSON format."""


def ran_out(text: str) -> str:
    """Which of RAN_OUT a line of a function's log tells of; empty for none."""
    found = next((name for words, name in _SAYS.items() if words in text), "")
    if not found and any(words in text for words in _AGAIN) and _STARTS.search(text):
        return "tasks"
    return found


@dataclass
class Log:
    """What was read from a log."""

    lines: int = 0
    invocations: int = 0
    """Invocations in these lines: a line can have many."""
    methods: Counter[str] = field(default_factory=Counter)
    exact: int = 0
    """Invocations that were measured in exact mode."""
    raced: list[float] = field(default_factory=list)
    """Widths of the intervals of raced peaks in MiB; infinite if there is no upper bound."""
    threads: list[float] = field(default_factory=list)
    """Widths for peaks of which threads may hide some."""
    children: list[float] = field(default_factory=list)
    """Widths for peaks that were not raced, of several processes of which one may have ended unread."""
    without_report: int = 0
    lost: int = 0
    out_of_memory: int = 0
    heap_limit: str = ""
    """What to set where the heap of the function's runtime may outgrow its memory size."""
    reports: set[str] = field(default_factory=set)
    """Request ids of REPORT lines."""
    told: set[str] = field(default_factory=set)
    """Request ids of the sidecar's lines."""
    attached: bool = False
    """True if the platform names the extension."""
    start: str = ""
    """The sidecar's own line about what it can measure."""
    complaints: Counter[str] = field(default_factory=Counter)
    outputs: list[str] = field(default_factory=list)
    """What it says about outputs, in order."""
    foreign: str = ""
    """The event that says that the executable is for another architecture."""
    ran_out: dict[str, tuple[int, str]] = field(default_factory=dict)
    """By a name of RAN_OUT: how many lines tell of it, and the first of them."""
    first: dict[str, str] = field(default_factory=dict)
    """Request id of the first invocation of each kind."""
    functions: Counter[str] = field(default_factory=Counter)
    """Names of the functions."""
    unread: Unread = field(default_factory=Counter)

    def evidence(self, kind: str) -> str:
        """The first of its kind, in words; empty if it has no request id."""
        return f"first: request {self.first[kind]}" if self.first.get(kind) else ""


def read(
    events: Iterable[Event],
    wants: Callable[[str | None, float | None], bool] = lambda *_: True,
    also: Callable[[Line], None] = lambda _: None,
) -> Log:
    """Read log events in one pass. `wants` chooses lines by function and time (epoch ms); `also` gets each of them."""
    from ..lines.line import lines_in
    from ..lines.wrapped import inside

    log = Log()
    for event in events:
        for found in inside(event):
            if isinstance(found, str):
                _look(log, found)
                continue
            lines = [line for line in lines_in(found, log.unread) if wants(line.function, line.time_ms)]
            log.lines += bool(lines)
            for line in lines:
                _count(log, line)
                also(line)
    return log


def _look(log: Log, text: str) -> None:
    """Look at what is no line of the sidecar."""
    if report := _REPORT.search(text):
        log.reports.add(next(filter(None, report.groups())))
    elif re.search(r"EXTENSION\s+Name: truemem\b", text) or ('"platform.extension"' in text and '"truemem"' in text):
        log.attached = True
    elif start := re.search(r"truemem INFO (method=.*)", text):
        log.start = start[1].strip()
    elif "exec format error" in text:
        log.foreign = text.strip()
    elif (said := re.search(r"truemem (?:INFO|WARN) (.*)", text)) and is_about(said[1]):
        log.outputs.append(said[1].strip())
    elif complaint := re.search(r"truemem (?:WARN|ERROR) (.*)", text):
        log.complaints[complaint[1].strip()] += 1
    elif name := ran_out(text):
        count, line = log.ran_out.get(name, (0, text.strip()[:EVIDENCE]))
        log.ran_out[name] = count + 1, line


def _count(log: Log, line: Line) -> None:
    from .runtime_reading import limit_advice, reading

    log.invocations += 1
    log.methods[line.method or "none"] += 1
    log.exact += line.mode == "exact"
    lower, upper = line.bounds
    of_children = line.wide and not line.raced and line.method == "vmhwm-sum"
    of_threads = line.wide and not line.raced and line.method == "vmhwm-threads"
    if line.raced:
        log.raced.append(upper - lower)
    elif of_children:
        log.children.append(upper - lower)
    elif of_threads:
        log.threads.append(upper - lower)
    log.without_report += line.report_missing
    log.lost += "dropped" in line.members
    log.out_of_memory += line.out_of_memory
    log.functions[line.function or ""] += 1
    if not log.heap_limit and (heap := reading(line.members)) is not None and (said := limit_advice(heap)):
        log.heap_limit = said
        log.first["heap limit"] = line.request_id or ""
    if line.request_id:
        log.told.add(line.request_id)
        kinds = {
            line.method or "none": True,
            "raced": line.raced,
            "children": of_children,
            "threads": of_threads,
            "without report": line.report_missing,
            "lost": "dropped" in line.members,
            "out of memory": line.out_of_memory,
        }
        for kind in (kind for kind, found in kinds.items() if found):
            log.first.setdefault(kind, line.request_id)


def of_log(log: Log, fix: str, function: str = "") -> Iterator[Diagnosis]:
    """The findings on a log. `fix`: what to do if the log is empty. `function` is the name for commands; without one,
    it is that of the lines."""
    function = function or next((name for name, _ in log.functions.most_common(1)), "") or "NAME"
    for complaint, times in log.complaints.most_common():
        if log.heap_limit and complaint.startswith(SAID_OF_HEAP):
            continue
        yield Diagnosis(
            "note", f"It says{f', {times} times' if times > 1 else ''}: {complaint}", "docs/configuration.md"
        )
    if log.foreign:
        text = "`exec format error`: an extension is for another architecture, and the function fails at its start."
        yield Diagnosis("problem", text, "Attach the layer of the function's architecture: docs/attach.md", log.foreign)
    for name, (count, line) in log.ran_out.items():
        text, repair = RAN_OUT[name]
        yield Diagnosis("note", f"{text}: {counted(count, 'line says', 'lines say')} so.", repair, line)
    if log.start:
        yield Diagnosis("ok", f"It has started: {log.start}")
    yield from of_start(log.start)
    yield from of_said(log.outputs)
    if unread := not_read(log.unread):
        yield Diagnosis("note", f"{unread[0].upper()}{unread[1:]}.", "docs/report.md#what-it-does-not-read")
    if not log.lines:
        yield _silent(log, fix)
        return
    shared = f", of {counted(log.invocations, 'invocation')}" if log.invocations > log.lines else ""
    yield Diagnosis("ok", f"{counted(log.lines, 'line')} of the sidecar{shared}.")
    measured = sum(log.methods.values()) - log.methods["none"]
    for method, count in log.methods.most_common():
        if method in METHODS:
            yield _of_method(method, count, measured, log.evidence(method))
    if log.methods["none"]:
        none = log.methods["none"]
        text = f"{counted(none, 'invocation has', 'invocations have')} no peak: the function's processes were not seen."
        if none > NEARLY_ALL * log.invocations:
            yield Diagnosis(
                "problem",
                text,
                "docs/how-it-measures.md says what it needs of /proc; its first line says more.",
                log.evidence("none"),
            )
        else:
            yield Diagnosis("note", text, evidence=log.evidence("none"))
    yield from _of_intervals(log, function)
    if log.without_report > MANY * log.invocations:
        without = counted(log.without_report, "invocation has", "invocations have")
        yield Diagnosis(
            "note",
            f"{without} no mark and no status: no telemetry came.",
            "An emulator has none; in Lambda it may be late at an environment's end.",
            log.evidence("without report"),
        )
    if log.lost:
        text = f"{counted(log.lost, 'line says', 'lines say')} that something was lost before them (`dropped`)."
        yield Diagnosis("note", text, evidence=log.evidence("lost"))
    missing = len(log.reports - log.told)
    if log.reports and missing > max(ENOUGH_REPORTS, MANY * len(log.reports)):
        yield Diagnosis(
            "note",
            f"{missing:,} of {len(log.reports):,} invocations with a REPORT have no line: the latest of each"
            " environment has none yet; the others were lost, or are not in this log.",
            evidence=f"one of them: request {min(log.reports - log.told)}",
        )
    if log.heap_limit:
        yield Diagnosis("note", log.heap_limit, HEAP_LIMIT, log.evidence("heap limit"))


def _of_intervals(log: Log, function: str) -> Iterator[Diagnosis]:
    """The findings on intervals: how wide they are, and how to get exact figures."""
    if log.exact:
        yield Diagnosis("ok", f"{counted(log.exact, 'invocation')} measured in exact mode.")
    if len(log.raced) > MANY * log.invocations:
        yield Diagnosis(
            "note",
            f"{_intervals(log.raced)}: the function may have run before the window was open."
            " Exact mode makes them figures.",
            f"truemem attach {shlex.quote(function or 'NAME')} --exact",
            log.evidence("raced"),
        )
    if len(log.threads) > MANY * log.invocations:
        yield Diagnosis(
            "note",
            f"{_intervals(log.threads)}, of threads: what one touches while another gives memory back may be missing."
            " PeakRSS is the best estimate (docs/how-it-measures.md#threads).",
            evidence=log.evidence("threads"),
        )
    if len(log.children) > MANY * log.invocations:
        yield Diagnosis(
            "note",
            f"{_intervals(log.children)}, of several processes: one may have ended before it was read.",
            "In a Python function the heap probe tells how large its children were:"
            f" truemem attach {shlex.quote(function or 'NAME')} --heap",
            log.evidence("children"),
        )


def _intervals(widths: list[float]) -> str:
    """Number and usual width of intervals, in words."""
    width = statistics.median(widths)
    wide = f", {width:,.1f} MiB wide at the median" if math.isfinite(width) else ""
    return f"{counted(len(widths), 'peak is an interval', 'peaks are intervals')}{wide}"


def _silent(log: Log, fix: str) -> Diagnosis:
    """The finding on a log without any line of the sidecar."""
    if len(log.reports) >= ENOUGH_REPORTS and (log.attached or log.start):
        return Diagnosis(
            "problem",
            f"The extension is there, {len(log.reports):,} invocations ended, and none has a line.",
            "See that TRUEMEM_ENABLED is not false; invoke one environment twice.",
        )
    if log.attached or log.start:
        return Diagnosis(
            "note",
            "The extension is there, and has not printed a line yet: one comes when the next invocation begins.",
            "Invoke the function twice.",
        )
    if log.reports:
        return Diagnosis("problem", "The function runs without the sidecar.", "truemem attach NAME")
    return Diagnosis("problem", "No invocation and no line of the sidecar is in this log.", fix)


def _of_method(method: str, count: int, of: int, evidence: str) -> Diagnosis:
    exact = method != "sampled"
    text = f"{count:,} of {counted(of, 'peak')}: {method}, {METHODS[method]}."
    if exact or count <= MANY * of:
        return Diagnosis("ok", text)
    return Diagnosis(
        "note",
        text,
        "The kernel does not let it reset the watermark there, or the processes ended: docs/how-it-measures.md",
        evidence,
    )
