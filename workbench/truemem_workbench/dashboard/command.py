"""`truemem dashboard`: a dashboard and alarms for functions of the user, as a CloudFormation template or deployed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..support.bad_input import BadInput
from ..support.options import check_outputs, chosen, format_options, output_option
from ..support.terminal import notify, progress, some

if TYPE_CHECKING:
    from .template import Watched

ENDINGS = (".json",)
STACK = "truemem-dashboard"
EPILOG = """
\b
Examples:
  truemem dashboard my-function other-function --deploy
  truemem dashboard my-function --topic arn:aws:sns:eu-west-1:123456789012:alarms --deploy
  truemem dashboard my-function --set PeakPercent=80 --output dashboard.json
\b
Exit codes:
  0  printed, written or deployed
  2  bad input, no access, or CloudFormation refused it
"""


@click.command(epilog=EPILOG)
@click.argument("functions", metavar="FUNCTION...", nargs=-1, required=True)
@click.option("--deploy", is_flag=True, help="Create or update a stack, wait, and print the dashboard's address.")
@click.option("--stack-name", metavar="NAME", help=f"The stack of --deploy [default: {STACK}].")
@click.option("--topic", metavar="ARN", help="SNS topic that the alarms notify (parameter AlarmTopic).")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Set a parameter's default. Repeatable.")
@click.option("--bucket", metavar="NAME", help="S3 bucket for the template of --deploy, if it is above 51,200 bytes.")
@click.option("--replace", is_flag=True, help="With --deploy, remove functions of the stack that are not named.")
@output_option(*ENDINGS, default="standard output")
@format_options("text", "json")
def dashboard(
    functions: tuple[str, ...],
    deploy: bool,
    stack_name: str | None,
    topic: str | None,
    settings: tuple[str, ...],
    bucket: str | None,
    replace: bool,
    outputs: tuple[Path, ...],
    form: str | None,
    as_json: bool,
) -> int:
    """Make a CloudFormation template with one dashboard for FUNCTIONs (names or ARNs, of one region), and three alarms
    for each: out of memory, peak near the limit, memory that grows. The template is printed, written, or deployed.
    JSON has the stack, the dashboard's address and the functions.

    It needs lambda:GetFunctionConfiguration, and --deploy what CloudFormation needs for the stack.
    """
    form = chosen(form, as_json)
    check_outputs(outputs, *ENDINGS)
    if not deploy and (stack_name or bucket or replace):
        raise BadInput("--stack-name, --bucket and --replace are for --deploy. Try --deploy as well")
    given = _given(settings, topic)
    found, document = _made(functions, given)
    for path in outputs:
        _write(path, document)
    if deploy:
        from .deployment import deploy as deployed

        name = stack_name or STACK
        url = deployed(name, document, given, bucket=bucket, replace=replace)
        made = {"stack": name, "dashboard": url, "functions": [function.name for function in found]}
        click.echo(json.dumps(made) if form == "json" else url)
    elif not outputs:
        click.echo(json.dumps(document, indent=1))
    bare = [function.name for function in found if not function.layered]
    if bare:
        fix = f"Try truemem attach {bare[0] if len(bare) == 1 else 'FUNCTION...'}"
        notify("truemem dashboard", f"{some(bare)}: no layer of truemem, so the graphs stay empty. {fix}")
    return 0


def _given(settings: Sequence[str], topic: str | None) -> dict[str, str]:
    """The parameters that the user sets. Raises BadInput."""
    from .template import PARAMETERS, TOPIC

    given: dict[str, str] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or name not in PARAMETERS or name == TOPIC:
            names = ", ".join(each for each in PARAMETERS if each != TOPIC)
            raise BadInput(f"--set {setting} is not NAME=VALUE with one of {names}. Try --set PeakPercent=80")
        given[name] = value
    if topic is not None:
        if topic.split(":")[::2][:2] != ["arn", "sns"]:
            raise BadInput(f"--topic {topic} is not the ARN of an SNS topic. Try arn:aws:sns:REGION:ACCOUNT:NAME")
        given[TOPIC] = topic
    return given


def _made(functions: Sequence[str], given: Mapping[str, str]) -> tuple[list[Watched], dict[str, Any]]:
    from .template import look_up, template

    with progress("functions", len(functions)) as done:
        region, found = look_up(functions, done)
    return found, template(found, region, given)


def _write(path: Path, document: Mapping[str, Any]) -> None:
    """Raises BadInput."""
    try:
        path.write_text(f"{json.dumps(document, indent=1)}\n", encoding="utf-8")
    except OSError as error:
        raise BadInput(f"cannot write {path}: {error.strerror}. Try --output PATH/{path.name}") from None
