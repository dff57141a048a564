"""Finds out from a log how well the sidecar works, for `truemem doctor`."""

from __future__ import annotations

import math
import re
import shlex
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from truemem import output_settings
from truemem.config import DOGSTATSD, EMF, OTLP, PPROF, Config

from ..printed.log_files import SUMMARY, WITH_LINES
from ..printed.wrapped import not_read
from ..support import docs_link
from ..support.diagnosis import Diagnosis
from ..support.terminal import counted, mib, whole
from .runtime_heap import heap_limits

if TYPE_CHECKING:
    from ..printed.line import Line
    from ..printed.wrapped import Event, Unread


MANY_SHARE = 0.1
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

DESCRIPTORS_FIX = (
    "Close files, sockets and clients; make clients once, outside the handler:"
    f" {docs_link.command('patterns#descriptors-that-leak')}"
)
TMP_PAGE = docs_link.command("patterns#tmp-that-fills")
TMP_FIX = f"Remove files when they are not needed, or buy more ephemeral storage: {TMP_PAGE}"
TMP_UNKNOWN = "/tmp was not measured: under the local Lambda no line tells of it. truemem check does."
TASKS_PAGE = docs_link.command("patterns#threads-and-processes-that-stay")
TASKS_FIX = f"Use one pool of threads, and wait for each process: {TASKS_PAGE}"

RAN_OUT = {
    "descriptors": ("The function ran out of descriptors", DESCRIPTORS_FIX),
    "tmp": ("/tmp is full", TMP_FIX),
    "tasks": ("The function could not start a thread or a process", TASKS_FIX),
    "error": ("Invocations failed with an error", ""),
}
"""What a function ran out of beside memory, or threw: what its line means, and the repair."""
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
ERROR = "error"
_ERROR = re.compile(r'\[ERROR\] [\w.]+: |\tERROR\t(?:Invoke Error|Uncaught Exception)\b|"level": ?"ERROR".*"errorType"')
"""How the runtime clients of Python and Node.js log what an invocation has thrown, as text or as JSON."""
_AGAIN = ("EAGAIN", "Resource temporarily unavailable")
"""Words that count only if a word of _STARTS is in the line: they are also said of a socket that has nothing to
read."""
_STARTS = re.compile(r"fork|spawn|thread|clone|Popen", re.IGNORECASE)
HEAP_LIMIT_FIX = docs_link.command("patterns#a-heap-limit-above-the-memory-size")
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

    is_empty: bool = True
    """True if it has no event at all."""
    is_summary: bool = False
    """True if it is what a local run prints in place of lines."""
    lines: int = 0
    last_ms: float | None = None
    """When the latest of them was printed, epoch ms."""
    invocations: int = 0
    """Invocations in these lines: a line can have many."""
    methods: Counter[str] = field(default_factory=Counter)
    exact: int = 0
    """Invocations that were measured in exact mode."""
    widths: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """Widths of the intervals of peaks in MiB, infinite without an upper bound, by the kind: a name of INTERVALS."""
    without_report: int = 0
    lost: int = 0
    heap_limit: str = ""
    """What to set where the heap of the function's runtime may outgrow its memory size."""
    probed: bool = False
    """True if lines have a heap that only the probe in Python or Node.js tells."""
    reports: set[str] = field(default_factory=set)
    """Request ids of REPORT lines."""
    with_line: set[str] = field(default_factory=set)
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
    """How many lines tell that something ran out, and the first of them, by a name of RAN_OUT."""
    first: dict[str, str] = field(default_factory=dict)
    """Request id of the first invocation of each kind."""
    functions: Counter[str] = field(default_factory=Counter)
    """Names of the functions."""
    elsewhere: Counter[str] = field(default_factory=Counter)
    """Functions of the lines that were not asked for."""
    local: bool = False
    """True if lines are of the local Lambda, which does not measure /tmp."""
    unread: Unread = field(default_factory=Counter)

    def evidence(self, kind: str) -> str:
        """The first of its kind, in words; empty if it has no request id."""
        return f"first: request {self.first[kind]}" if self.first.get(kind) else ""


def read_log(
    events: Iterable[Event],
    wants: Callable[[str | None, float | None], bool] = lambda *_: True,
    also: Callable[[Line], None] = lambda _: None,
) -> Log:
    """Read log events in one pass. `wants` chooses lines by function and time (epoch ms); `also` gets each of them."""
    from ..printed.line import lines_in
    from ..printed.wrapped import inside, is_local

    log = Log()
    for event in events:
        log.is_empty = False
        for found in inside(event):
            if isinstance(found, str):
                _look(log, found)
                continue
            lines = []
            for line in lines_in(found, log.unread):
                if not wants(line.function, line.time_ms):
                    log.elsewhere[line.function or ""] += 1
                    continue
                lines.append(line)
            log.lines += bool(lines)
            log.local |= bool(lines) and is_local(event)
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
    elif (said := re.search(r"truemem (?:INFO|WARN) (.*)", text)) and _ABOUT_OUTPUT.match(said[1]):
        log.outputs.append(said[1].strip())
    elif complaint := re.search(r"truemem (?:WARN|ERROR) (.*)", text):
        log.complaints[complaint[1].strip()] += 1
    elif name := ran_out(text) or (ERROR if _ERROR.search(text) else ""):
        count, line = log.ran_out.get(name, (0, " ".join(text.split())[:EVIDENCE]))
        log.ran_out[name] = count + 1, line


def _count(log: Log, line: Line) -> None:
    from .heap import is_outside
    from .runtime_heap import limit_advice, reading

    log.invocations += 1
    if line.time_ms is not None:
        log.last_ms = max(log.last_ms or 0.0, line.time_ms)
    log.methods[line.method or "none"] += 1
    log.exact += line.mode == "exact"
    if wide := "raced" if line.raced else line.method if line.wide else None:
        lower, upper = line.bounds
        log.widths[wide].append(upper - lower)
    log.without_report += line.report_missing
    log.lost += "dropped" in line.members
    log.functions[line.function or ""] += 1
    probed = line.members.get("heap")
    if isinstance(probed, Mapping) and not is_outside(probed):
        log.probed |= probed.get("runtime", "python") in ("python", "nodejs")
    if not log.heap_limit and (heap := reading(line.members)) is not None and (said := limit_advice(heap)):
        log.heap_limit = said
        log.first["heap limit"] = line.request_id or ""
    if line.request_id:
        log.with_line.add(line.request_id)
        kinds = {
            line.method or "none": True,
            f"interval {wide}": wide,
            "without report": line.report_missing,
            "lost": "dropped" in line.members,
        }
        for kind in (kind for kind, found in kinds.items() if found):
            log.first.setdefault(kind, line.request_id)


def diagnose_log(log: Log, fix: str, function: str = "") -> Iterator[Diagnosis]:
    """The findings on a log. `fix`: what to do if the log is empty. `function` is the name for commands; without one,
    it is that of the lines."""
    function = function or next((name for name, _ in log.functions.most_common(1)), "") or "NAME"
    for complaint, times in log.complaints.most_common():
        if log.heap_limit and complaint.startswith(SAID_OF_HEAP):
            continue
        yield Diagnosis(
            "note",
            f"It says{f', {times} times' if times > 1 else ''}: {complaint}",
            docs_link.command("configuration"),
        )
    if log.foreign:
        text = "`exec format error`: an extension is for another architecture, and the function fails at its start."
        yield Diagnosis(
            "problem",
            text,
            f"Attach the layer of the function's architecture: {docs_link.command('attach')}",
            log.foreign,
        )
    for name, (count, line) in log.ran_out.items():
        text, repair = RAN_OUT[name]
        yield Diagnosis("note", f"{text}: {counted(count, 'line says', 'lines say')} so.", repair, line)
    if log.start:
        yield Diagnosis("ok", f"It has started: {log.start}")
    yield from _of_first_line(log.start)
    yield from _of_output_lines(log.outputs)
    if unread := not_read(log.unread):
        yield Diagnosis("note", f"{unread[0].upper()}{unread[1:]}.", docs_link.command("report#what-it-does-not-read"))
    if not log.lines:
        yield _silent(log, fix, function)
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
                f"{docs_link.command('how-it-measures')} says what it needs of /proc; its first line says more.",
                log.evidence("none"),
            )
        else:
            yield Diagnosis("note", text, evidence=log.evidence("none"))
    yield from _of_intervals(log, function)
    if log.without_report > MANY_SHARE * log.invocations:
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
    missing = len(log.reports - log.with_line)
    if log.reports and missing > max(ENOUGH_REPORTS, MANY_SHARE * len(log.reports)):
        yield Diagnosis(
            "note",
            f"{missing:,} of {len(log.reports):,} invocations with a REPORT have no line: the latest of each"
            " environment has none yet; the others were lost, or are not in this log.",
            evidence=f"one of them: request {min(log.reports - log.with_line)}",
        )
    if log.local:
        yield Diagnosis("note", TMP_UNKNOWN, "truemem check FILE:HANDLER")
    if log.heap_limit:
        yield Diagnosis("note", log.heap_limit, HEAP_LIMIT_FIX, log.evidence("heap limit"))


INTERVALS = {
    "raced": (
        ": the function may have run before the window was open. Exact mode makes them figures.",
        "truemem attach {name} --exact",
    ),
    "vmhwm-threads": (
        ", of threads: what one touches while another gives memory back may be missing. PeakRSS is the best estimate"
        f" ({docs_link.command('how-it-measures#threads')}).",
        "",
    ),
    "vmhwm-sum": (
        ", of several processes: one may have ended before it was read.",
        "In a Python function the heap probe tells how large its children were: truemem attach {name} --heap",
    ),
}
"""Why peaks are intervals, and what makes them figures: of raced ones, and by the method of others."""


def _of_intervals(log: Log, function: str) -> Iterator[Diagnosis]:
    """The findings on intervals: how wide they are, and how to get exact figures."""
    if log.exact:
        yield Diagnosis("ok", f"{counted(log.exact, 'invocation')} measured in exact mode.")
    for kind, (text, fix) in INTERVALS.items():
        widths = log.widths.get(kind, ())
        if len(widths) > MANY_SHARE * log.invocations:
            told = fix.format(name=shlex.quote(function or "NAME"))
            yield Diagnosis("note", f"{_intervals(widths)}{text}", told, log.evidence(f"interval {kind}"))


def _intervals(widths: Sequence[float]) -> str:
    """Number and usual width of intervals, in words."""
    width = statistics.median(widths)
    wide = f", {width:,.1f} MiB wide at the median" if math.isfinite(width) else ""
    return f"{counted(len(widths), 'peak is an interval', 'peaks are intervals')}{wide}"


def _silent(log: Log, fix: str, function: str) -> Diagnosis:
    """The finding on a log without any line of the sidecar."""
    name = shlex.quote(function)
    if log.is_summary:
        return Diagnosis("problem", f"{SUMMARY[0].upper()}{SUMMARY[1:]}.", WITH_LINES)
    if len(log.reports) >= ENOUGH_REPORTS and (log.attached or log.start):
        return Diagnosis(
            "problem",
            f"The extension is there, {len(log.reports):,} invocations ended, and none has a line.",
            f"truemem doctor {name} --follow --invoke",
        )
    if log.attached or log.start:
        return Diagnosis(
            "note",
            "The extension is there, and has not printed a line yet: one comes when the next invocation begins.",
            f"truemem doctor {name} --follow --invoke",
        )
    if log.reports:
        text = "The function runs without the sidecar. `truemem report` says what its REPORT lines prove."
        return Diagnosis("problem", text, f"truemem attach {name}")
    nothing = "This log is empty." if log.is_empty else "No invocation and no line of the sidecar is in this log."
    return Diagnosis("problem", nothing, fix)


def _of_method(method: str, count: int, of: int, evidence: str) -> Diagnosis:
    exact = method != "sampled"
    text = f"{count:,} of {counted(of, 'peak')}: {method}, {METHODS[method]}."
    if exact or count <= MANY_SHARE * of:
        return Diagnosis("ok", text)
    return Diagnosis(
        "note",
        text,
        "The kernel does not let it reset the watermark there, or the processes ended:"
        f" {docs_link.command('how-it-measures')}",
        evidence,
    )


OUTPUTS_PAGE = docs_link.command("outputs#when-it-does-not-arrive")
OUTPUT_NAMES = {OTLP: "OpenTelemetry", DOGSTATSD: "DogStatsD", PPROF: "pprof"}
_SENDS = re.compile(r" line=(yes|no) sends to (\S+)")
"""Part of the sidecar's first line that says where records go, if it does not only print."""
_ABOUT_OUTPUT = re.compile(r"(otlp|dogstatsd|pprof)(?: is off| has nothing to send| to \S+)?: ")
"""How its other lines about an output begin."""
_WORKS = re.compile(r"(?:otlp|pprof) to \S+: works")
"""Begin of a line that says that a collector works. What it says of a refusal is in such a line, too."""


def _of_first_line(start: str) -> Iterator[Diagnosis]:
    """The finding on the sidecar's first line: where its records go."""
    found = _SENDS.search(start)
    if found is None:
        return
    if found[2] == "none":
        yield Diagnosis("problem", "It can send to no output: its log says why.", OUTPUTS_PAGE)
    else:
        yield Diagnosis("ok", f"It sends to {found[2].replace(',', ' and ')}.")
    if found[1] == "no":
        yield _without_lines()


def _of_output_lines(said: Iterable[str]) -> Iterator[Diagnosis]:
    """The findings on what the log says of each output, in the order of the log: the last word counts."""
    last: dict[str, str] = {}
    for text in said:
        found = _ABOUT_OUTPUT.match(text)
        if found is not None:
            last[found[1]] = text
    for name, text in last.items():
        if _WORKS.match(text):
            yield Diagnosis("ok", f"{OUTPUT_NAMES[name]}: what is sent is taken.", evidence=text)
        else:
            yield Diagnosis("problem" if " is off: " in text else "note", f"{OUTPUT_NAMES[name]}: {text}", OUTPUTS_PAGE)


def _of_output_variables(variables: Mapping[str, str]) -> Iterator[Diagnosis]:
    """The findings on a function's variables, judged by the sidecar's own reading of them."""
    environ = {name.encode(): value.encode("utf-8", "replace") for name, value in variables.items()}
    config = Config(environ)
    evidence = f"TRUEMEM_OUTPUT={variables.get('TRUEMEM_OUTPUT', '')}"
    for problem in config.problems:
        if problem.startswith("TRUEMEM_OUTPUT "):
            yield Diagnosis("problem", problem, docs_link.command("outputs"), evidence)
    known: Sequence[tuple[str, Callable[..., Any]]] = (
        (OTLP, output_settings.otlp),
        (DOGSTATSD, output_settings.dogstatsd),
        (PPROF, output_settings.pprof),
    )
    for name, settings in known:
        if name in config.outputs:
            output = OUTPUT_NAMES[name]
            where, problems = settings(environ)
            for problem in problems:
                yield Diagnosis("problem" if where is None else "note", f"{output}: {problem}", OUTPUTS_PAGE, evidence)
            if where is not None:
                text = f"{output}: it sends to {where.address}, where something in the environment has to listen."
                yield Diagnosis("ok", text, evidence=evidence)
    if not config.prints:
        yield _without_lines(evidence)
    elif EMF not in config.outputs:
        text = "Its lines make no metrics in CloudWatch: `truemem dashboard` and `truemem metrics` find none."
        yield Diagnosis("note", text, "Add emf to TRUEMEM_OUTPUT if you want them.", evidence)


def _without_lines(evidence: str = "") -> Diagnosis:
    text = "It prints no lines: `truemem report`, `page` and `metrics` find nothing."
    return Diagnosis("note", text, "Add emf or json to TRUEMEM_OUTPUT if you want them.", evidence)


def diagnose_first_line(line: Line, command: str) -> Iterator[Diagnosis]:
    """Whether it measures, how, and the first peak beside the mark. `command` is what shows more."""
    method = line.method or "none"
    evidence = f"request {line.request_id}" if line.request_id else ""
    if line.peak_rss is None:
        yield Diagnosis("problem", "The sidecar runs, and could not measure the first invocation.", command, evidence)
        return
    yield Diagnosis("ok", "The sidecar measures this function.", evidence=evidence)
    yield Diagnosis(
        "note" if method == "sampled" else "ok", f"Method: {method}, {METHODS.get(method, 'not known here')}."
    )
    yield _mode(line)
    limit = f" of {whole(line.memory_limit)} MiB" if line.memory_limit else ""
    left = "" if line.current_rss is None else f", {mib(line.current_rss)} MiB left behind"
    yield Diagnosis("ok", f"First peak: {mib(line.peak_rss)} MiB{limit}{left}.")
    if line.max_memory_used is None:
        yield Diagnosis("note", "No Max Memory Used beside it: no REPORT came for this invocation.", command)
    else:
        mark = f"Max Memory Used beside it: {whole(line.max_memory_used)} MB"
        yield Diagnosis("ok", f"{mark}, the environment's high-water mark, which never falls.", command)


def _mode(line: Line) -> Diagnosis:
    if line.mode == "exact":
        return Diagnosis("ok", "Exact mode: both ends of each invocation are seen.")
    lower, upper = line.bounds
    if line.wide and upper < float("inf"):
        return Diagnosis("note", f"Default mode: this peak is known to lie between {mib(lower)} and {mib(upper)} MiB.")
    return Diagnosis(
        "note" if line.wide else "ok", "Default mode: a peak can be an interval. --exact makes it a figure."
    )


_OTHER_ARCHITECTURE = {"x86_64": "arm64", "arm64": "x86_64"}


def diagnose_configuration(configuration: Mapping[str, Any], log: Log) -> Iterator[Diagnosis]:
    """The findings on what Lambda's GetFunctionConfiguration returns. Where the log has the sidecar's lines, it is
    attached, whatever its layer is called."""
    attach = f"truemem attach {shlex.quote(str(configuration.get('FunctionName', 'NAME')))}"
    variables = configuration.get("Environment", {}).get("Variables", {})
    if "TRUEMEM_ENABLED" in variables and variables["TRUEMEM_ENABLED"].lower() == "false":
        fix, evidence = f"{attach} --set enabled=true", f"TRUEMEM_ENABLED={variables['TRUEMEM_ENABLED']}"
        yield Diagnosis("problem", "The sidecar is switched off: it measures nothing.", fix, evidence)
    yield from _attached(attach, configuration, log)
    if not log.heap_limit:  # which is of the heap itself: a command may set another limit than a variable
        memory_mib = configuration.get("MemorySize", 0)
        for limit in heap_limits(variables, memory_mib):
            if said := limit.advice(memory_mib):
                yield Diagnosis("note", said, HEAP_LIMIT_FIX, limit.evidence)
    if "TRUEMEM_OUTPUT" in variables:
        yield from _of_output_variables(variables)


def _attached(attach: str, configuration: Mapping[str, Any], log: Log) -> Iterator[Diagnosis]:
    architecture = (configuration.get("Architectures") or ["x86_64"])[0]
    layers = [layer["Arn"] for layer in configuration.get("Layers", ())]
    own = next((arn for arn in layers if "truemem" in arn), None)
    if own is not None and (other := _OTHER_ARCHITECTURE.get(architecture, "")) and other in own:
        yield Diagnosis("problem", f"The function is {architecture}, the layer's name says {other}.", attach, own)
    elif own is not None:
        yield Diagnosis("ok", "The layer is attached.", evidence=own)
    elif changed := _changed_since(configuration, log):
        yield Diagnosis("problem", f"It is not attached now: no layer has truemem in its name. {changed}.", attach)
    elif log.lines or log.attached:
        yield Diagnosis("ok", "The sidecar is attached: its log says so. No layer has truemem in its name.")
    elif configuration.get("PackageType") == "Image":
        text = "A container image without a line of the sidecar in this log: it may not be in the image."
        yield Diagnosis("note", text, "truemem layer-files DIR", "PackageType: Image")
    else:
        text = "No layer with truemem in its name is attached, and no line is in the log."
        yield Diagnosis("problem", text, attach, f"Layers: {', '.join(layers) or 'none'}")


def _changed_since(configuration: Mapping[str, Any], log: Log) -> str:
    """Whether the function was changed after the latest line of the sidecar, and runs without an image: empty if not,
    or if that is not known."""
    changed = configuration.get("LastModified")
    if log.last_ms is None or not isinstance(changed, str) or configuration.get("PackageType") == "Image":
        return ""
    at = datetime.fromisoformat(changed.replace("+0000", "+00:00"))
    if at.timestamp() * 1000 <= log.last_ms:
        return ""
    last = datetime.fromtimestamp(log.last_ms / 1000, UTC)
    return f"The lines in its log end at {last:%H:%M:%S}, before it was changed at {at:%H:%M:%S} ({at:%Y-%m-%d}, UTC)"
