"""`truemem doctor`: does the sidecar work there, how does it measure, what is missing, what is to be done?"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from ..analysis.log_diagnosis import Finding, of_log, read
from ..support.bad_input import BadInput
from ..support.terminal import tell
from ..support.untrusted_text import visible

MARKS = {"ok": "✓", "note": "!", "problem": "✗"}
STYLES = {"ok": "green", "note": "yellow", "problem": "bold red"}
EPILOG = """
\b
Examples:
  truemem doctor my-function
  truemem doctor my-function.log
  aws logs tail /aws/lambda/my-function --since 3h | truemem doctor -
"""


@click.command(epilog=EPILOG)
@click.argument("target", metavar="FUNCTION|FILE|-")
@click.option("--since", default="3h", show_default=True, metavar="AGO|TIME", help="How far back to read.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object for each finding.")
def doctor(target: str, since: str, as_json: bool) -> int:
    """Look at a FUNCTION in AWS (its configuration and its log), or at a FILE of log lines (`-` is standard
    input). A FUNCTION is a name, NAME:QUALIFIER or an ARN.

    For a FUNCTION it needs lambda:GetFunctionConfiguration, logs:DescribeLogGroups and logs:FilterLogEvents.

    Exit codes: 0 it works, 1 there is a problem, 2 bad input or no access.
    """
    from ..support.time_parsing import since_ms

    now = time.time() * 1000
    try:
        begin = since_ms(since, now)
        there = target == "-" or Path(target).exists()
        found = list(_of_file(Path(target)) if there else _of_function(target, begin, now))
    except BadInput as error:
        tell("truemem doctor", error)
        return 2
    for finding in found:
        if as_json:
            click.echo(json.dumps(asdict(finding)))
        else:
            mark = click.style(MARKS[finding.grade], fg=STYLES[finding.grade].split()[-1])
            click.echo(f"{mark} {visible(finding.text)}")
            if finding.fix:
                click.echo(f"  → {visible(finding.fix)}")
    return int(any(finding.grade == "problem" for finding in found))


def _of_file(path: Path) -> Iterator[Finding]:
    from ..lines.log_files import events, on_disk

    if path.is_dir():
        raise BadInput(f"{path} is a folder. Try one of its files")
    with tempfile.TemporaryDirectory(prefix="truemem-doctor-") as folder:
        yield from of_log(
            read(events(on_disk(path, Path(folder)))), "Invoke the function twice, and take its whole log."
        )


def _of_function(name: str, begin_ms: float, end_ms: float) -> Iterator[Finding]:
    if "/" in name.removeprefix("/aws/lambda/") or name.endswith((".log", ".gz", ".csv", ".json", ".txt")):
        raise BadInput(f"there is no file {name}")
    from ..aws.clients import client, configuration_of, log_group_in, refused
    from ..aws.cloudwatch import recent

    with refused(f"function {name}", "lambda:GetFunctionConfiguration"):
        configuration = configuration_of(name)
    group = log_group_in(configuration, name)
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
    events = recent(group, int(begin_ms), int(end_ms))
    yield from of_log(read(events), "Invoke the function twice; try --since 7d.")


_ROLE = "Invoke it, and see that its role has AWSLambdaBasicExecutionRole."


def of_configuration(configuration: Any) -> Iterator[Finding]:
    """The findings on what Lambda's GetFunctionConfiguration returns."""
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
