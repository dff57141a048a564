"""`truemem dashboard`: dashboards and alarms for functions of the user, as CloudFormation templates or deployed."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..aws.selection import Selection, selected, selection_options
from ..support.bad_input import BadInput
from ..support.options import check_outputs, chosen, format_options, output_option
from ..support.terminal import notify, progress, some, steps

if TYPE_CHECKING:
    from ..dashboard.template import Watched

ENDINGS = (".json",)
STACK = "truemem-dashboard"
EPILOG = """
\b
Examples:
  truemem dashboard my-function other-function --deploy
  truemem dashboard --match 'api-*' --topic TOPIC-ARN --deploy
  truemem dashboard my-function --set PeakPercent=80 --output dashboard.json
\b
Exit codes:
  0  printed, written or deployed
  2  bad input, no access, or CloudFormation refused it
"""


@click.command(epilog=EPILOG)
@selection_options
@click.option("--deploy", is_flag=True, help="Create or update a stack, wait, and print the dashboard's address.")
@click.option("--stack-name", metavar="NAME", help=f"The stack of --deploy [default: {STACK}].")
@click.option("--topic", metavar="ARN", help="SNS topic that the alarms notify (parameter AlarmTopic).")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Set a parameter's default. Repeatable.")
@click.option("--bucket", metavar="NAME", help="S3 bucket for the template of --deploy, if it is above 51,200 bytes.")
@click.option("--replace", is_flag=True, help="With --deploy, remove functions of the stack that are not named.")
@output_option(*ENDINGS, default="standard output")
@format_options("text", "json")
def dashboard(
    deploy: bool,
    stack_name: str | None,
    topic: str | None,
    settings: tuple[str, ...],
    bucket: str | None,
    replace: bool,
    outputs: tuple[Path, ...],
    form: str | None,
    as_json: bool,
    **selection: Any,
) -> int:
    """Make a CloudFormation template with one dashboard for functions (NAMEs or ARNs, of one region), and three alarms
    for each: out of memory, peak near the limit, memory that grows. The template is printed, written, or deployed.
    JSON has an object for each stack: its name, the dashboard's address and the functions.

    One template has room for 166 functions. More get several: files NAME.json, NAME-2.json, and stacks NAME, NAME-2.

    It needs lambda:GetFunctionConfiguration, and --deploy what CloudFormation needs for the stack. To choose functions:
    lambda:ListFunctions, tag:GetResources, cloudformation:ListStackResources.
    """
    from ..dashboard.template import look_up

    form = chosen(form, as_json)
    check_outputs(outputs, *ENDINGS)
    if not deploy and (stack_name or bucket or replace):
        raise BadInput("--stack-name, --bucket and --replace are for --deploy. Try --deploy as well")
    given = _given(settings, topic)
    functions, *chosen_by = Selection(**selection)
    names = functions if functions and not any(chosen_by) else selected(Selection(functions, *chosen_by))
    with progress("reading functions", len(names)) as done:
        region, found = look_up(names, done)
    name = stack_name or STACK
    if deploy:
        _deployed(name, region, found, given, outputs, bucket=bucket, replace=replace, form=form)
    else:
        _written(name, region, found, given, outputs, form)
    bare = [function.name for function in found if not function.layered]
    if bare:
        options = zip(("--match", "--tag", "--stack"), chosen_by, strict=True)
        asked = " ".join(f"{option} {shlex.quote(value)}" for option, value in options if value)
        fix = f"Try truemem attach {asked or (bare[0] if len(bare) == 1 else 'NAME...')}"
        notify("truemem dashboard", f"{some(bare)}: no layer of truemem, so the graphs stay empty. {fix}")
    return 0


def _given(settings: Sequence[str], topic: str | None) -> dict[str, str]:
    """The parameters that the user sets. Raises BadInput."""
    from ..dashboard.template import PARAMETERS, TOPIC

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


def _written(
    name: str, region: str, found: Sequence[Watched], given: Mapping[str, str], outputs: Sequence[Path], form: str
) -> None:
    """Print the template, or write them all and print the commands that deploy them. Raises BadInput."""
    from ..dashboard.deployment import deploy_command, stack_name
    from ..dashboard.template import arranged, template

    parts = arranged(found)
    if not outputs and len(parts) > 1:
        fix = "Try --output dashboard.json, or --deploy --bucket NAME"
        raise BadInput(f"{len(found)} functions need {len(parts)} templates, and standard output takes one. {fix}")
    for number, part in enumerate(parts, 1):
        document = template(part, region, given, number)
        if not outputs:
            click.echo(json.dumps(document, indent=1))
        for path in outputs:
            written = _write(path, number, document)
            if form == "text":
                click.echo(deploy_command(stack_name(name, number), written))


def _deployed(
    name: str,
    region: str,
    found: Sequence[Watched],
    given: Mapping[str, str],
    outputs: Sequence[Path],
    *,
    bucket: str | None,
    replace: bool,
    form: str,
) -> None:
    """Deploy a stack for each template, one after the other, and say each one's address. Raises BadInput."""
    from ..dashboard.deployment import check_kept, existing, stack_name
    from ..dashboard.deployment import deploy as deploy_one
    from ..dashboard.template import arranged, template

    before = existing(name, len(arranged(found)))
    if not replace:
        check_kept(name, before, [function.name for function in found])
    parts = arranged(found, [stack.functions if stack else () for stack in before])
    for number, part in enumerate(parts, 1):
        one = stack_name(name, number)
        if not part:
            if before[number - 1] is not None:
                fix = f"Try aws cloudformation delete-stack --stack-name {one}"
                notify("truemem dashboard", f"stack {one} is not needed. {fix}")
            continue
        document = template(part, region, given, number)
        for path in outputs:
            _write(path, number, document)
        earlier = before[number - 1] if number <= len(before) else None
        with steps() as show:
            show("waiting for CloudFormation, stack", number, len(parts))
            url = deploy_one(one, document, given, bucket=bucket, before=earlier)
        made = {"stack": one, "dashboard": url, "functions": [function.name for function in part]}
        click.echo(json.dumps(made) if form == "json" else url)


def _write(path: Path, number: int, document: Mapping[str, Any]) -> Path:
    """Write the template of a part, counted from 1, and return its path: PATH, PATH-2, ... Raises BadInput."""
    path = path if number == 1 else path.with_stem(f"{path.stem}-{number}")
    try:
        path.write_text(f"{json.dumps(document, indent=1)}\n", encoding="utf-8")
    except OSError as error:
        raise BadInput(f"cannot write {path}: {error.strerror}. Try --output PATH/{path.name}") from None
    return path
