"""`truemem doctor`: does the sidecar work there, how does it measure, what is missing, what is to be done?"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import click

from ..analysis.aws_commands import invoke_twice
from ..analysis.function_diagnosis import of_configuration
from ..analysis.log_diagnosis import Finding, Log, of_log, read
from ..aws.log_source import Source, source, source_options
from ..support.bad_input import BadInput
from ..support.outputs import chosen, format_options
from ..support.terminal import tell
from ..support.time_parsing import since_ms
from ..support.untrusted_text import visible

MARKS = {"ok": "✓", "note": "!", "problem": "✗"}
STYLES = {"ok": "green", "note": "yellow", "problem": "bold red"}
EPILOG = """
\b
Examples:
  truemem doctor --function my-function
  truemem doctor my-function.log
\b
Exit codes:
  0  it works
  1  there is a problem
  2  bad input or no access
"""


@click.command(epilog=EPILOG)
@source_options
@format_options("text", "json")
def doctor(
    files: tuple[Path, ...],
    function_name: str | None,
    log_group: str | None,
    since: str | None,
    form: str | None,
    as_json: bool,
) -> int:
    """Look at a function in AWS (--function: its configuration and its log), or at FILEs of log lines (`-` is standard
    input). JSON has an object for each finding.

    For a function it needs lambda:GetFunctionConfiguration, logs:DescribeLogGroups and logs:FilterLogEvents.
    """
    try:
        form = chosen(form, as_json)
        if function_name is not None and not files and log_group is None:
            begin = since_ms("3h" if since is None else since, time.time() * 1000)
            found = list(_of_function(function_name, begin))
        else:
            found = list(_of_log(source(files, function_name, log_group, since)))
    except BadInput as error:
        tell("truemem doctor", error)
        return 2
    for finding in found:
        if form == "json":
            click.echo(json.dumps(asdict(finding)))
        else:
            mark = click.style(MARKS[finding.grade], fg=STYLES[finding.grade].split()[-1])
            click.echo(f"{mark} {visible(finding.text)}")
            if finding.evidence:
                click.echo(click.style(f"  {visible(finding.evidence)}", dim=True))
            if finding.fix:
                click.echo(f"  → {visible(finding.fix)}")
    return int(any(finding.grade == "problem" for finding in found))


def _of_log(where: Source) -> Iterator[Finding]:
    from ..lines.log_files import events, on_disk, size_of

    with tempfile.TemporaryDirectory(prefix="truemem-doctor-") as folder:
        paths = [on_disk(path, Path(folder)) for path in where.paths(Path(folder), "filter")]
        for path in paths:
            size_of(path)  # refuses what is no file
        log = read((event for path in paths for event in events(path)), wants=where.wants)
    yield from of_log(log, "Invoke the function twice, and take its whole log.")


def _of_function(name: str, begin_ms: float) -> Iterator[Finding]:
    """Look at the log first: what it proves, the configuration is not blamed for."""
    from ..aws.clients import client, configuration_of, log_group_in, log_group_named, refused
    from ..aws.cloudwatch import recent

    with refused(f"function {name}", "lambda:GetFunctionConfiguration"):
        configuration = configuration_of(name)
    group = log_group_in(configuration, name)
    with refused(f"log group {group}", "logs:DescribeLogGroups"):
        found = log_group_named(client("logs"), group)
    log = Log() if found is None else read(recent(group, int(begin_ms), int(time.time() * 1000)))
    yield from of_configuration(configuration, log)
    invoke = invoke_twice(configuration["FunctionName"])
    if found is None:
        text = "The log group is not there: the function was never invoked, or its role does not permit logs."
        yield Finding("problem", text, f"{invoke}  # the role needs AWSLambdaBasicExecutionRole", group)
        return
    if found.get("logGroupClass") == "INFREQUENT_ACCESS":
        yield Finding(
            "problem",
            "The log group is of the class Infrequent Access: CloudWatch makes no metrics of its lines.",
            "Use a log group of the class Standard: a class cannot be changed later.",
            group,
        )
    yield from of_log(log, invoke, configuration["FunctionName"])
