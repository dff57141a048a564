"""What attach and detach share: read the functions, show the plan, ask, change, and say how it went."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import click

from ..support.bad_input import BadInput
from ..support.outputs import option_group
from ..support.plural import counted
from ..support.terminal import output, progress, tell
from ..support.untrusted_text import visible
from .change import Change
from .describe import described, document
from .function_state import FunctionState
from .lambda_calls import Gone, LambdaCalls
from .plan import Left, Plan
from .records_file import RecordsFile, default_path
from .rollout import GOOD, Outcome, Rollout

session_options = option_group(
    click.option("--state", type=click.Path(path_type=Path, dir_okay=False), default=default_path, metavar="FILE",
                 help="Where the state before is kept [default: ~/.local/state/truemem/attached.json]."),
    click.option("--dry-run", is_flag=True, help="Print the plan, and change nothing."),
    click.option("--yes", is_flag=True, help="Do not ask."),
)  # fmt: skip
"""Adds --state, --dry-run and --yes to a command."""


def read_all(calls: LambdaCalls, functions: Sequence[str], *, known: bool = False) -> list[FunctionState | Left]:
    """The state of each function; or why it cannot be read. Raises BadInput if none of them can.

    `known`: they have a record, so one that is gone is no error of the user's.
    """
    found: list[FunctionState | Left] = []
    first: BadInput | None = None
    with progress("reading", len(functions)) as count:
        for function in functions:
            try:
                found.append(calls.read(function))
            except Gone as error:
                found.append(Left(function, str(error), gone=True))
                first = first or error
            except BadInput as error:
                found.append(Left(function, str(error)))
                first = first or error
            count(1)
    if first is not None and len(functions) == 1 and not known:
        raise first
    if first is not None and all(isinstance(each, Left) and not each.gone for each in found):
        raise first
    return found


def agreed(plans: Sequence[Plan | Left], *, form: str, dry_run: bool, yes: bool, first: Sequence[str] = ()) -> bool:
    """Print the plan, and ask. `first` are lines about what is done before the first function.

    False: nothing is to be done. Raises BadInput if it cannot ask.
    """
    changes = sum(isinstance(each, Plan) and not each.change.empty for each in plans)
    if form == "text":
        for line in (*first, *described(plans)):
            click.echo(visible(line))
    if dry_run or not changes:
        return False
    if yes:
        return True
    if form != "text" or not sys.stdin.isatty():
        raise BadInput("it cannot ask here. Look at the plan with --dry-run, then try --yes")
    return click.confirm(f"Change {counted(changes, 'function')}?", default=False)


def not_carried_out(plans: Iterable[Plan | Left], *, form: str, dry_run: bool) -> int:
    """Say how it is, as JSON, where the plan ends it. Returns the exit code."""
    outcomes = [
        Outcome(each.name, "left", each.reason)
        if isinstance(each, Left)
        else Outcome(each.state.name, "as it was" if each.change.empty else "not begun", "", each.change, each.notes)
        for each in plans
    ]
    if form == "json":
        tell_outcomes(outcomes, form)
    return 0 if dry_run else code_of(outcomes)


def carry_out(
    plans: Sequence[Plan | Left],
    calls: LambdaCalls,
    records: RecordsFile,
    *,
    kept: Mapping[str, Change] | None,
    form: str,
) -> int:
    """Make the changes and print how it went, also if the command is ended. Returns the exit code.

    `kept` are the records that a plan to detach was made from; None attaches.
    """
    with progress("attaching" if kept is None else "detaching", len(plans)) as count:
        rollout = Rollout(calls, records, kept, count)
        try:
            rollout.run(plans)
        except BadInput as error:  # of the file of records: no function may change without one
            rollout.settle()
            if not rollout.sent:
                raise
            tell("truemem", error)
        except BaseException:
            tell_outcomes([*rollout.outcomes.values()], form)
            raise
    tell_outcomes([*rollout.outcomes.values()], form)
    return code_of([*rollout.outcomes.values()])


def code_of(outcomes: Iterable[Outcome]) -> int:
    """0 if each function is as it was asked for, otherwise 1."""
    return int(any(each.status not in GOOD for each in outcomes))


def tell_outcomes(outcomes: Sequence[Outcome], form: str) -> None:
    """A table, or an object for each function."""
    if form == "json":
        for each in outcomes:
            click.echo(json.dumps(document(each)))
        return
    from ..support.tables import fitted, table

    console = output()
    made = table("", ["function", "result"], [], ["why"])
    for each in sorted(outcomes, key=lambda each: (each.status in GOOD, each.status, each.name)):
        made.add_row(visible(each.name), each.status, visible(each.reason))
    console.print(fitted(made, console))
    done = sum(each.status in GOOD for each in outcomes)
    click.echo(f"{done} of {counted(len(outcomes), 'function')}: as asked")
