"""`truemem doctor`: does the sidecar work there, how does it measure, what is missing, what to do."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from .local.errors import BadInput

if TYPE_CHECKING:
    from .lines import Line

Grade = Literal["ok", "note", "problem"]
MARKS = {"ok": "✓", "note": "!", "problem": "✗"}
STYLES = {"ok": "green", "note": "yellow", "problem": "bold red"}
MANY = 0.1
"""Share of the invocations from which something is worth a word."""
ENOUGH_REPORTS = 2
"""The line of an invocation is printed when the next one begins."""
METHODS = {
    "vmhwm": "kept by the kernel, exact",
    "vmhwm-sum": "of several processes, between two bounds",
    "vmhwm-segments": "of all requests that ran at once (Managed Instances)",
    "sampled": "sampled, a lower bound",
}


_REPORT = re.compile(r'REPORT RequestId: (\S+)|"platform\.report".*?"requestId":\s*"([^"]+)"')
"""In Lambda's text format, and in its JSON format."""


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    grade: Grade
    text: str
    mend: str = ""
    """What to do."""


@dataclass
class Log:
    """What a log says of the sidecar."""

    lines: int = 0
    invocations: int = 0
    """That they tell of: one can be that of many."""
    methods: Counter[str] = field(default_factory=Counter)
    raced: int = 0
    without_report: int = 0
    lost: int = 0
    out_of_memory: int = 0
    reports: set[str] = field(default_factory=set)
    """Request ids of REPORT lines."""
    told: set[str] = field(default_factory=set)
    """Request ids of the sidecar's lines."""
    attached: bool = False
    """The platform names the extension."""
    start: str = ""
    """The sidecar's own line of what it can measure."""
    complaints: Counter[str] = field(default_factory=Counter)
    foreign: bool = False
    """The executable is another architecture's."""


@click.command(short_help="Does the sidecar work there, and if not, what to do.")
@click.argument("target", metavar="FUNCTION|FILE")
@click.option("--since", default="3h", show_default=True, metavar="AGO|TIME", help="Of a FUNCTION's log.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object for each finding.")
def doctor(target: str, since: str, as_json: bool) -> int:
    """Look at a FUNCTION in AWS (its configuration and its log), or at a FILE of log lines.

    For a FUNCTION it needs lambda:GetFunctionConfiguration, logs:DescribeLogGroups and logs:FilterLogEvents.

    Exit codes: 0 it works, 1 there is a problem, 2 bad input or no access.
    """
    try:
        found = list(_of_file(Path(target)) if Path(target).exists() else _of_function(target, since))
    except BadInput as error:
        click.echo(f"truemem doctor: {error}", err=True)
        return 2
    for finding in found:
        if as_json:
            click.echo(json.dumps(asdict(finding)))
        else:
            click.echo(f"{click.style(MARKS[finding.grade], fg=STYLES[finding.grade].split()[-1])} {finding.text}")
            if finding.mend:
                click.echo(f"  → {finding.mend}")
    return int(any(finding.grade == "problem" for finding in found))


def _of_file(path: Path) -> Iterator[Finding]:
    from .report.sources import events

    if path.is_dir():
        raise BadInput(f"{path} is a folder. Try one of its files")
    return of_log(read(events(path)))


def _of_function(name: str, since: str) -> Iterator[Finding]:
    if "/" in name or name.endswith((".log", ".gz", ".csv", ".json", ".txt")):
        raise BadInput(f"there is no file {name}")
    from .report.aws import client, refused
    from .report.cloudwatch import recent
    from .report.moments import since_ms

    with refused(f"function {name}", "lambda:GetFunctionConfiguration"):
        configuration = client("lambda").get_function_configuration(FunctionName=name)
    group = configuration.get("LoggingConfig", {}).get("LogGroup") or f"/aws/lambda/{name}"
    with refused(f"log group {group}", "logs:DescribeLogGroups"):
        groups = client("logs").describe_log_groups(logGroupNamePrefix=group)["logGroups"]
    found = next((each for each in groups if each["logGroupName"] == group), None)
    yield from of_configuration(configuration)
    if found is None:
        yield Finding("problem", f"There is no log group {group}: it was never invoked, or may not write logs.", _ROLE)
        return
    if found.get("logGroupClass") == "INFREQUENT_ACCESS":
        yield Finding(
            "problem",
            f"{group} is of the class Infrequent Access, which makes no metrics of the lines.",
            "Use a log group of the class Standard.",
        )
    now = time.time() * 1000
    yield from of_log(read(recent(group, int(since_ms(since, now)), int(now))))


_ROLE = "Invoke it, and see that its role has AWSLambdaBasicExecutionRole."


def of_configuration(configuration: Any) -> Iterator[Finding]:
    """What Lambda's GetFunctionConfiguration tells."""
    variables = configuration.get("Environment", {}).get("Variables", {})
    architecture = (configuration.get("Architectures") or ["x86_64"])[0]
    layers = [layer["Arn"] for layer in configuration.get("Layers", ())]
    own = [arn for arn in layers if "truemem" in arn]
    if configuration.get("PackageType") == "Image":
        yield Finding("note", "A container image: whether the sidecar is in it, only its log can tell.")
    elif not own:
        yield Finding("problem", "No layer with truemem in its name is attached.", "Attach it: docs/attach.md")
    else:
        yield Finding("ok", f"The layer is attached: {own[0]}")
        other = {"x86_64": "arm64", "arm64": "x86_64"}.get(architecture, "")
        if other and other in own[0]:
            yield Finding(
                "problem",
                f"The function is {architecture}, the layer's name says {other}.",
                f"Attach the one of {architecture}: docs/attach.md",
            )
    if variables.get("TRUEMEM_ENABLED", "").lower() == "false":
        yield Finding("problem", "TRUEMEM_ENABLED is false: it measures nothing.", "Take that variable away.")
    level = configuration.get("LoggingConfig", {}).get("ApplicationLogLevel")
    if level in ("WARN", "ERROR", "FATAL"):
        yield Finding(
            "note",
            f"The application log level is {level}: the sidecar's lines pass it, its first one, of INFO, does not.",
        )


def read(events: Iterable[str]) -> Log:
    """One pass over log events."""
    from .lines import parse_event

    log = Log()
    for event in events:
        lines = parse_event(event)
        for line in lines:
            _count(log, line)
        if lines:
            log.lines += 1
        elif report := _REPORT.search(event):
            log.reports.add(next(filter(None, report.groups())))
        elif re.search(r"EXTENSION\s+Name: truemem\b", event) or (
            '"platform.extension"' in event and '"truemem"' in event
        ):
            log.attached = True
        elif start := re.search(r"truemem INFO (method=.*)", event):
            log.start = start[1].strip()
        elif "exec format error" in event:
            log.foreign = True
        elif complaint := re.search(r"truemem (?:WARN|ERROR) (.*)", event):
            log.complaints[complaint[1].strip()] += 1
    return log


def _count(log: Log, line: Line) -> None:
    log.invocations += 1
    log.methods[line.method or "none"] += 1
    log.raced += line.raced
    log.without_report += line.report_missing
    log.lost += "dropped" in line.members
    log.out_of_memory += line.out_of_memory
    if line.request_id:
        log.told.add(line.request_id)


def of_log(log: Log) -> Iterator[Finding]:
    """What it comes to."""
    for complaint, times in log.complaints.most_common():
        yield Finding("note", f"It says{f', {times} times' if times > 1 else ''}: {complaint}", "docs/configuration.md")
    if log.foreign:
        text = "`exec format error`: an extension is another architecture's, and the function fails at its start."
        yield Finding("problem", text, "Attach the layer of the function's architecture: docs/attach.md")
    if log.start:
        yield Finding("ok", f"It has started: {log.start}")
    if not log.lines:
        yield _silent(log)
        return
    shared = f", of {log.invocations:,} invocations" if log.invocations > log.lines else ""
    yield Finding("ok", f"{log.lines:,} lines of the sidecar{shared}.")
    measured = sum(log.methods.values()) - log.methods["none"]
    for method, count in log.methods.most_common():
        if method in METHODS:
            yield _of_method(method, count, measured)
    if log.methods["none"]:
        yield Finding("note", f"{log.methods['none']:,} lines have no peak: the function's processes were not seen.")
    if log.raced > MANY * log.invocations:
        yield Finding(
            "note",
            f"{log.raced:,} peaks are intervals: the function ran before the window was open.",
            "TRUEMEM_HOLD=auto makes them exact, for 1 % of the billed time at most (docs/how-it-measures.md).",
        )
    if log.without_report > MANY * log.invocations:
        yield Finding(
            "note",
            f"{log.without_report:,} lines have no mark and no status: telemetry did not come.",
            "An emulator has none; in Lambda it may be late at an environment's end.",
        )
    if log.lost:
        yield Finding("note", f"{log.lost:,} lines say that something was lost before them (`dropped`).")
    missing = len(log.reports - log.told)
    if log.reports and missing > max(ENOUGH_REPORTS, MANY * len(log.reports)):
        yield Finding(
            "note",
            f"{missing:,} of {len(log.reports):,} invocations with a REPORT have no line: the latest of each"
            " environment has none yet; the others were lost, or are not in this log.",
        )
    if log.out_of_memory:
        yield Finding("note", f"{log.out_of_memory:,} invocations ran out of memory.", "truemem report tells which.")


def _silent(log: Log) -> Finding:
    """There is no line of it."""
    if len(log.reports) >= ENOUGH_REPORTS and (log.attached or log.start):
        return Finding(
            "problem",
            f"The extension is there, {len(log.reports):,} invocations ended, and none has a line.",
            "See that TRUEMEM_ENABLED is not false; invoke one environment twice.",
        )
    if log.attached or log.start:
        return Finding(
            "note",
            "The extension is there, and has not printed a line yet: one comes when the next invocation begins.",
            "Invoke the function twice.",
        )
    if log.reports:
        return Finding("problem", "The function runs without the sidecar.", "Attach the layer: docs/attach.md")
    return Finding(
        "problem",
        "No invocation and no line of the sidecar is in this log.",
        "Invoke the function twice; try --since 7d.",
    )


def _of_method(method: str, count: int, of: int) -> Finding:
    exact = method != "sampled"
    text = f"{count:,} of {of:,} peaks: {method}, {METHODS[method]}."
    if exact or count <= MANY * of:
        return Finding("ok", text)
    return Finding(
        "note",
        text,
        "The kernel does not let it reset the watermark there, or the processes ended: docs/how-it-measures.md",
    )
