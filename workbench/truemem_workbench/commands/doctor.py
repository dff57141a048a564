"""`truemem doctor`: does the sidecar work there, how does it measure, what is missing, what is to be done?"""

from __future__ import annotations

import json
import re
import shlex
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..attach.platform_diagnosis import (
    command_to_invoke,
    diagnose_log_class,
    diagnose_records,
    diagnose_scaling,
    diagnose_settings,
    qualifier_of,
)
from ..aws.clients import client, configuration_of, log_group_in, log_group_named, name_of, refused
from ..aws.cloudwatch import Source, named, recent, source, source_options
from ..judge.finding import Finding, most_urgent
from ..judge.log_diagnosis import Log, diagnose_configuration, diagnose_first_line, diagnose_log, read_log
from ..support import docs_link
from ..support.bad_input import BadInput
from ..support.diagnosis import Diagnosis, Grade
from ..support.options import chosen, format_options, since_ms
from ..support.platform_facts import LONGEST_ANSWER_S
from ..support.terminal import counted, output, phase, progress, say

if TYPE_CHECKING:
    from ..page.environments import Gathered
    from ..printed.line import Line

SKEW_MS = 300_000
"""How far this machine's clock may be behind that of AWS."""
LATE_MS = 120_000
"""How much later than its time stamp a line may come into the log."""
MOST = 100_000
"""Events of one look at the log."""
POLL_S = 5.0
"""Pause between two looks at the log. A line is there some seconds after it was printed."""
COMMAND = r"(truemem|aws|pip) "
MARKS = {"ok": ("✓", "green"), "note": ("!", "yellow"), "problem": ("✗", "red")}
EPILOG = """
\b
Examples:
  truemem doctor my-function
  truemem doctor my-function --follow --invoke
  truemem doctor my-function.log
\b
Exit codes:
  0  it works
  1  there is a problem
  2  bad input or no access
"""


@click.command(epilog=EPILOG)
@source_options
@click.option("--follow", is_flag=True, help="Wait for the first record after the function was changed.")
@click.option("--invoke", is_flag=True, help="With --follow: invoke the function twice.")
@click.option("--event", metavar="JSON|@FILE", help="With --invoke: the event [default: {}].")
@click.option("--wait", type=click.IntRange(0, 86_400), default=600, show_default=True, metavar="SECONDS",
              help="With --follow: how long to wait.")  # fmt: skip
@format_options("text", "json")
def doctor(
    files: tuple[Path, ...],
    function_name: str | None,
    log_group: str | None,
    since: str | None,
    follow: bool,
    invoke: bool,
    event: str | None,
    wait: int,
    form: str | None,
    as_json: bool,
) -> int:
    """Look at a function in AWS (NAME: its configuration and its log), or at FILEs of log lines (`-` is standard
    input). JSON has an object for each finding.

    With --follow and the name of a function it waits for the first record since the function was changed, and shows
    the first peak beside the mark.

    For a function it needs lambda:GetFunctionConfiguration, logs:DescribeLogGroups and logs:FilterLogEvents; for
    --invoke lambda:InvokeFunction; on Managed Instances lambda:GetFunctionScalingConfig.
    """
    form = chosen(form, as_json)
    files, function_name = named(files, function_name, log_group)
    if follow or invoke or event is not None:
        name, payload = _followed(files, function_name, log_group or since, follow, invoke, event)
        found = list(_of_first(name, payload, wait))
    elif function_name is not None and not files and log_group is None:
        begin = since_ms("3h" if since is None else since, time.time() * 1000)
        with phase("reading its log"):
            found = list(_of_function(function_name, begin))
    else:
        with phase("reading the log"):
            found = list(_of_log(source(files, function_name, log_group, since)))
    console = output()
    for finding in found:
        if form == "json":
            click.echo(json.dumps(asdict(finding)))
        else:
            mark, colour = MARKS[finding.grade]
            console.print(mark, style=colour, end="")
            say(console, finding.text, begin=" ")
            if finding.evidence:
                say(console, finding.evidence, begin="  ", style="dim")
            if re.match(COMMAND, finding.fix):
                console.print(f"  → {finding.fix}", soft_wrap=True)  # it can be copied
            elif finding.fix:
                say(console, finding.fix, begin="  → ")
    return int(any(finding.grade == "problem" for finding in found))


def _followed(
    files: tuple[Path, ...], name: str | None, elsewhere: str | None, follow: bool, invoke: bool, event: str | None
) -> tuple[str, str | None]:
    """The one function of --follow, and the event to invoke it with. Raises BadInput for options that do not fit."""
    if not follow or (event is not None and not invoke):
        raise BadInput("--invoke is for --follow, and --event for --invoke. Try --follow --invoke")
    names = [*map(str, files), *([name] if name else [])]
    if len(names) != 1 or elsewhere:
        raise BadInput("--follow is for one function. Try truemem doctor my-function --follow")
    return names[0], (event or "{}") if invoke else None


def _of_first(name: str, event: str | None, wait_s: float) -> Iterator[Diagnosis]:
    """The first record; or, if none came, all that can be found out about the function."""
    from ..target.events import read_event

    first = follow(name, None if event is None else read_event(event), wait_s)
    if first is not None:
        yield from first
        return
    yield Diagnosis("problem", f"No record came within {wait_s:,.0f} s.")
    yield from _of_function(name, time.time() * 1000 - 3 * 3_600_000)


def _of_log(where: Source) -> Iterator[Diagnosis]:
    from ..page.environments import Gathered
    from ..printed.log_files import events, is_summary, size_of
    from ..printed.packed import on_disk

    with tempfile.TemporaryDirectory(prefix="truemem-doctor-") as folder:
        paths = on_disk(where.paths(Path(folder), "filter"), Path(folder))
        for path in paths:
            size_of(path)  # refuses what is no file
        gathered = Gathered()
        log = read_log((event for path in paths for event in events(path)), wants=where.wants, also=gathered.add)
        log.is_summary = not log.lines and any(map(is_summary, paths))
    if log.elsewhere and not log.lines:
        yield _of_others(log, where)
        return
    yield from diagnose_log(log, "truemem doctor NAME")
    yield from of_memory(gathered)


def _of_others(log: Log, where: Source) -> Diagnosis:
    """The finding where all lines are of another function, or time, than was asked for."""
    if whose := where.whose(log.elsewhere):
        text, left_out = f"{whose[0].upper()}{whose[1:]}.", "--function"
    else:
        text, left_out = f"{counted(log.elsewhere.total(), 'line')} of the sidecar, all from before --since.", "--since"
    place = f"--log-group {where.log_group}" if where.log_group else shlex.join(map(str, where.files))
    return Diagnosis("problem", text, f"truemem doctor {place}  # without {left_out}")


def _of_function(name: str, begin_ms: float) -> Iterator[Diagnosis]:
    """Look at the log first: what it proves, the configuration is not blamed for."""
    from ..page.environments import Gathered

    with refused(f"function {name}", "lambda:GetFunctionConfiguration"):
        configuration = configuration_of(name)
    group = log_group_in(configuration, name)
    with refused(f"log group {group}", "logs:DescribeLogGroups"):
        found = log_group_named(client("logs"), group)
    log_class = (found or {}).get("logGroupClass") or "STANDARD"
    gathered = Gathered()
    read = None if found is None else _log_of(group, log_class, int(begin_ms), gathered)
    log = read or Log()
    yield from diagnose_configuration(configuration, log)
    yield from diagnose_settings(configuration, date.today())
    yield from diagnose_records(configuration, is_exact=bool(log.exact))
    yield from _of_scaling(configuration)
    yield from of_lines(configuration, log)
    invoke = command_to_invoke(configuration)
    if found is None:
        text = "The log group is not there: the function was never invoked, or its role does not permit logs."
        yield Diagnosis("problem", text, f"{invoke}  # the role needs AWSLambdaBasicExecutionRole", group)
        return
    yield from diagnose_log_class(configuration, group, log_class)
    if read is not None:
        yield from diagnose_log(log, invoke, configuration["FunctionName"])
        yield from of_memory(gathered)


def _log_of(group: str, log_class: str, begin_ms: int, gathered: Gathered) -> Log | None:
    """What the log has since then; None if the group's class does not permit to read it so."""
    try:
        return read_log(recent(group, begin_ms, int(time.time() * 1000)), also=gathered.add)
    except BadInput:
        if log_class == "STANDARD":
            raise
        return None


def _of_scaling(configuration: Mapping[str, Any]) -> Iterator[Diagnosis]:
    """The finding on Managed Instances. Silent where the caller may not ask."""
    name = configuration["FunctionName"]
    if "CapacityProviderConfig" not in configuration:
        return
    with suppress(BadInput), refused(f"function {name}", "lambda:GetFunctionScalingConfig"):
        scaling = client("lambda").get_function_scaling_config(FunctionName=name, Qualifier=qualifier_of(configuration))
        yield from diagnose_scaling(configuration, scaling)


def of_lines(configuration: Mapping[str, Any], log: Log) -> Iterator[Diagnosis]:
    """The findings on TRUEMEM_LINES: whether the lines of code that keep memory will be named, and what is missing."""
    from ..attach.change import LINES, is_preloaded
    from ..attach.plan import WITHOUT_LINES, has_probe

    variables = configuration.get("Environment", {}).get("Variables", {})
    share = variables.get(LINES, "").strip()
    if share.lower() in ("", "off"):
        return
    evidence, runtime = f"{LINES}={share}", configuration.get("Runtime", "")
    name = shlex.quote(str(configuration.get("FunctionName", "NAME")))
    if runtime and not has_probe(runtime) and not log.probed:
        text = f"No line of code is named: {runtime} is not Python, nor Node.js 18 or newer."
        yield Diagnosis("note", text, f"{WITHOUT_LINES[0].upper()}{WITHOUT_LINES[1:]}", evidence)
    elif "CapacityProviderConfig" in configuration:
        yield Diagnosis("note", "No line of code is named: on Managed Instances none is profiled.", evidence=evidence)
    elif not log.probed and not is_preloaded(variables):
        text = "No line of code is named: nothing loads the heap probe."
        fix = (
            f"truemem attach {name} --lines"
            if runtime
            else f"In an image, its code can: {docs_link.command('heap#turn-it-on')}"
        )
        yield Diagnosis("problem", text, fix, evidence)
    else:
        where = "each environment" if share.lower() == "on" else f"{share} of the environments"
        text = f"Lines: {where} will name the lines of code that keep memory, once it grows."
        yield Diagnosis("ok", text, f"truemem lines {name}", evidence)


def of_memory(gathered: Gathered) -> Iterator[Diagnosis]:
    """The finding on each function's memory."""
    functions: dict[str, list[tuple[Finding, int]]] = {}
    for environment in gathered.environments():
        functions.setdefault(environment.function, []).append((environment.finding, len(environment)))
    for name, findings in functions.items():
        finding = most_urgent(findings)
        grade: Grade = "problem" if finding.grows else "note" if finding.cause in ("failing", "undecided") else "ok"
        yield Diagnosis(grade, f"{name}: {finding.paragraph()}" if len(functions) > 1 else finding.paragraph())


# --- --follow: the first record after the function was changed -------------------------------------------------------


def follow(function: str, event: object | None, wait_s: float) -> Iterator[Diagnosis] | None:
    """Wait for the first record since the function's last change. Returns the findings on it, None after `wait_s`.

    With an event the function is invoked with it, twice. Raises BadInput.
    """
    with refused(f"function {function}", "lambda:GetFunctionConfiguration"):
        configuration = configuration_of(function)
        begin_ms = since_ms(configuration["LastModified"], time.time() * 1000)
    if event is not None:
        _check_invocable(function, configuration)
        with refused(f"function {function}", "lambda:InvokeFunction"):
            _invoke_twice(client("lambda", attempts=1, read_timeout=LONGEST_ANSWER_S), function, event)
    else:
        click.echo(f"waiting for two invocations of {name_of(function)}, or try --invoke", err=True)
    group, look_from_ms = log_group_in(configuration, function), int(begin_ms)
    command = f"truemem report {shlex.quote(name_of(function))}"
    end = time.monotonic() + wait_s
    with progress("waiting for a record (seconds)", int(wait_s)) as count:
        while True:
            now_ms = int(time.time() * 1000)
            for line in _records(group, look_from_ms, now_ms + SKEW_MS):
                if line.time_ms is not None and line.time_ms >= begin_ms:  # not of an environment of before
                    return diagnose_first_line(line, command)
            look_from_ms = max(look_from_ms, now_ms - LATE_MS - SKEW_MS)
            left = end - time.monotonic()
            if left <= 0:
                return None
            time.sleep(min(POLL_S, left))
            count(int(min(POLL_S, left)))


def _check_invocable(function: str, configuration: Mapping[str, Any]) -> None:
    """Raise BadInput if Lambda would refuse to invoke it so."""
    if configuration.get("TenancyConfig"):
        text = "takes a tenant's id. Leave --invoke out, and invoke it twice yourself"
        raise BadInput(f"{function} {text}: {command_to_invoke(configuration)}")
    if configuration.get("DurableConfig") and ":" not in function:
        raise BadInput(
            f"{function} is durable: it is invoked by a version or alias. Try {command_to_invoke(configuration)}"
        )


def _invoke_twice(lambdas: Any, function: str, event: object) -> None:
    """The record of an invocation is printed when the next one begins."""
    for _ in range(2):
        answer = lambdas.invoke(FunctionName=function, Payload=json.dumps(event).encode())
        body = answer["Payload"].read()
        if "FunctionError" in answer:
            text = body.decode(errors="replace")[:200]
            click.echo(f"the function ended with an error, which is measured as well: {text}", err=True)


def _records(group: str, begin_ms: int, end_ms: int) -> Iterator[Line]:
    from ..printed.line import parse_event

    with refused(f"log group {group}", "logs:DescribeLogGroups"):
        if log_group_named(client("logs"), group) is None:
            return  # made by the first invocation
    for event in recent(group, begin_ms, end_ms, MOST):
        if "exec format error" in event and "/opt/extensions/truemem" in event:
            raise BadInput(f"the layer is for another architecture. Try truemem attach, then this again ({group})")
        yield from parse_event(event)
