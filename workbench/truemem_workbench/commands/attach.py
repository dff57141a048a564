"""`truemem attach` puts the layer on functions of an AWS account; `truemem detach` takes it off again."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from ..attach.change import LINES, Change, FunctionState, change_back, taken_off
from ..attach.lambda_calls import LambdaCalls
from ..attach.plan import AttachPlan, AttachRequest, LayerChoice, Left, plan, unreadable
from ..attach.records_file import RecordsFile
from ..attach.session import agreed, carry_out, not_carried_out, read_all, session_options
from ..aws.selection import Selection, selected, selection_options
from ..support.bad_input import BadInput
from ..support.options import chosen, format_options
from ..support.terminal import notify, progress

LINES_SHARE = "10%"
ATTACH_EPILOG = """
\b
Examples:
  truemem attach my-function
  truemem attach --match 'api-*' --exact --yes
  truemem attach --tag team=ml --set aggregate=60 --dry-run
  truemem attach my-function --lines --lines-share 25%
\b
Exit codes:
  0  each function has the layer and the settings
  1  one was left as it is or failed: the table says why; or the answer was no
  2  bad input or no access: nothing was changed
"""


@click.command(epilog=ATTACH_EPILOG)
@selection_options
@click.option(
    "--exact/--no-exact",
    default=None,
    help="Exact mode: our wrapper, chained if the function has another one; a port for the Lambda Web Adapter.",
)
@click.option("--heap", is_flag=True, help="Load the heap probe (Python, Node.js).")
@click.option("--lines", is_flag=True, help="When memory grows, name the lines of code that keep it. Implies --heap.")
@click.option(
    "--lines-share", metavar="%", help=f"With --lines: the share of environments that do it [default: {LINES_SHARE}]."
)
@click.option("--lines-java", is_flag=True, help="With --lines: also name a JVM's classes, by two full collections.")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="A TRUEMEM_ variable: aggregate=60.")
@click.option(
    "--layer",
    "layers",
    multiple=True,
    metavar="ARN",
    help="A layer that was published elsewhere; one for each architecture.",
)
@click.option(
    "--collector", default="", metavar="ARN", help="Also attach a collector's layer: metrics to CloudWatch by OTLP."
)
@session_options()
@format_options("text", "json")
def attach(
    exact: bool | None,
    heap: bool,
    lines: bool,
    lines_share: str | None,
    lines_java: bool,
    settings: tuple[str, ...],
    layers: tuple[str, ...],
    collector: str,
    state: Path,
    dry_run: bool,
    yes: bool,
    form: str | None,
    as_json: bool,
    **selection: Any,
) -> int:
    """Attach the layer to functions, by one update each. The plan is shown first.

    A layer that the account does not have in this version is published. A function that has an older one is upgraded.
    What was there before is kept in a file, for `truemem detach`.

    It needs lambda:GetFunctionConfiguration, UpdateFunctionConfiguration, ListLayerVersions, GetLayerVersion and
    PublishLayerVersion. For its notes: lambda:ListAliases, logs:DescribeLogGroups. To choose functions:
    lambda:ListFunctions, tag:GetResources, cloudformation:ListStackResources.
    """
    form = chosen(form, as_json)
    variables = {**_variables(settings), **_of_lines(lines, lines_share, lines_java)}
    if collector and not re.fullmatch(r"arn:[^:]+:lambda:[^:]+:\d{12}:layer:[^:]+:\d+", collector):
        raise BadInput(
            f"--collector {collector}: not the ARN of a layer version. Try the one that AWS's page of its collector has"
        )
    wanted = AttachRequest(
        variables, exact=exact, heap=heap or lines, lines=lines, java=lines_java, collector=collector
    )
    records = RecordsFile(state)
    records.read()
    names = selected(Selection(**selection))
    calls = LambdaCalls()
    choice = LayerChoice(calls, layers)
    states = read_all(calls, names)

    notes = {}
    with progress("checking functions", len(states)) as count:
        for each in states:
            if isinstance(each, FunctionState):
                notes[each.arn] = calls.notes(each)
            count(1)

    def plans() -> list[AttachPlan | Left]:
        return [
            each if isinstance(each, Left) else plan(each, wanted, choice.arn(each), notes[each.arn]) for each in states
        ]

    shown = plans()
    if not agreed(shown, form=form, dry_run=dry_run, yes=yes, first=choice.announced(shown)):
        return not_carried_out(shown, form=form, dry_run=dry_run)
    records.check()
    choice.publish(shown)
    code = carry_out(plans(), calls, records, kept=None, form=form)
    if form == "text":
        name = next((each.state.name for each in shown if isinstance(each, AttachPlan)), "NAME")
        click.echo(f"What was there before: {state}")
        click.echo(f"Does it measure? truemem doctor {name} --follow")
    return code


def _variables(settings: Sequence[str]) -> Mapping[str, str]:
    """TRUEMEM_ variables by name. Raises BadInput for a name or value that the sidecar would not take."""
    from truemem.config import PREFIX, SETTING_NAMES, Config

    prefix = PREFIX.decode()
    found: dict[str, str] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        name = re.sub(r"[^A-Z_]", "_", name.strip().upper().removeprefix(prefix))
        if not equals or name not in SETTING_NAMES:
            known = ", ".join(each.lower() for each in SETTING_NAMES)
            raise BadInput(f"--set {setting}: not NAME=VALUE with one of {known}")
        problems = Config({f"{prefix}{name}".encode(): value.encode()}).problems
        if problems or not value.strip():
            said = problems[0].partition("; using")[0] if problems else f"{prefix}{name} has no value"
            raise BadInput(f"--set {setting}: {said}")
        found[f"{prefix}{name}"] = value
    return found


def _of_lines(lines: bool, share: str | None, java: bool) -> Mapping[str, str]:
    """The variable of --lines. Raises BadInput for a share that is none."""
    if not lines:
        if share is not None or java:
            raise BadInput(f"--lines-{'java' if java else 'share'} is for --lines. Try both")
        return {}
    text = (LINES_SHARE if share is None else share).strip().removesuffix("%").strip()
    if not re.fullmatch(r"\d{1,3}(\.\d{1,2})?", text) or not 0 < float(text) <= 100:
        raise BadInput(f"--lines-share {share}: not a share above 0 and up to 100 percent. Try --lines-share 25%")
    return {LINES: ("on" if float(text) == 100 else f"{float(text):g}%") + (",java" if java else "")}


DETACH_EPILOG = """
\b
Examples:
  truemem detach my-function
  truemem detach --all --yes
\b
Exit codes:
  0  each function is as it was before it was attached
  1  one was left as it is or failed: the table says why; or the answer was no
  2  bad input or no access: nothing was changed
"""


@click.command(epilog=DETACH_EPILOG)
@selection_options
@click.option("--all", "recorded", is_flag=True, help="All functions that were attached from here (--state).")
@session_options()
@format_options("text", "json")
def detach(
    recorded: bool, state: Path, dry_run: bool, yes: bool, form: str | None, as_json: bool, **selection: Any
) -> int:
    """Take the layer off, and restore layers and variables as they were. The plan is shown first.

    What was changed since then is left as it is and named. A function without a record loses truemem's layer, its
    wrapper, and each TRUEMEM_ variable.

    It needs lambda:GetFunctionConfiguration, UpdateFunctionConfiguration and GetLayerVersion.
    """
    form = chosen(form, as_json)
    records = RecordsFile(state)
    kept = records.read()
    if recorded and any(selection.values()):
        raise BadInput("--all is each function of the file. Leave the others out")
    if recorded and not kept:
        raise BadInput(f"{state} has no function. Name them, or try --state FILE")
    calls = LambdaCalls()
    names = [*kept] if recorded else selected(Selection(**selection))
    states = read_all(calls, names, known=recorded)
    plans = [each if isinstance(each, Left) else _detach_plan(each, kept.get(each.arn)) for each in states]
    unchanged = not any(isinstance(each, AttachPlan) and not each.change.empty for each in plans)
    if not agreed(plans, form=form, dry_run=dry_run, yes=yes) and (dry_run or not unchanged):
        return not_carried_out(plans, form=form, dry_run=dry_run)
    gone = [each for each in plans if isinstance(each, Left) and each.gone and each.name in kept]
    for each in gone:
        records.put_back(each.name, kept[each.name])
        notify("truemem detach", f"{each.name} is gone: its record is removed")
    return carry_out([each for each in plans if each not in gone], calls, records, kept=kept, form=form)


def _detach_plan(state: FunctionState, record: Change | None) -> AttachPlan | Left:
    if state.image and record is None:
        return Left(state.name, "a container image: what it has of truemem is in the image")
    if state.busy:
        return Left(state.name, f"{state.busy}. Try again later")
    if record is None:
        change = taken_off(state.layers, state.variables)
        notes = [] if change.empty else ["there is no record of it: what is truemem's is removed"]
    else:
        change, notes = change_back(record, state.layers, state.variables)
    if state.unreadable and (record is not None or not change.empty):
        return Left(state.name, unreadable(state))
    if change.empty and state.failed:
        return Left(state.name, state.failed)
    return AttachPlan(state, change, tuple(notes))
