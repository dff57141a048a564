"""`truemem detach`: take functions back to what they were before `truemem attach`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..support.bad_input import BadInput
from ..support.outputs import chosen, format_options
from .selection import Selection, selection_options
from .session import session_options

if TYPE_CHECKING:
    from .change import Change
    from .function_state import FunctionState
    from .plan import Left, Plan

EPILOG = """
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


@click.command(epilog=EPILOG)
@selection_options
@click.option("--all", "recorded", is_flag=True, help="Each function in the file of --state.")
@session_options
@format_options("text", "json")
def detach(
    functions: tuple[str, ...],
    pattern: str | None,
    tag: str | None,
    stack: str | None,
    recorded: bool,
    state: Path,
    dry_run: bool,
    yes: bool,
    form: str | None,
    as_json: bool,
) -> int:
    """Take the layer off, and restore layers and variables as they were. The plan is shown first.

    What was changed since then is left as it is and named. A function without a record loses truemem's layer, its
    wrapper, and each TRUEMEM_ variable.

    It needs lambda:GetFunctionConfiguration, UpdateFunctionConfiguration and GetLayerVersion.
    """
    from ..support.terminal import tell
    from .lambda_calls import LambdaCalls
    from .plan import Left, Plan
    from .records_file import RecordsFile
    from .selection import selected
    from .session import agreed, carry_out, not_carried_out, read_all

    form = chosen(form, as_json)
    records = RecordsFile(state)
    kept = records.read()
    chosen_otherwise = functions or pattern or tag or stack
    if recorded and chosen_otherwise:
        raise BadInput("--all is each function of the file. Leave the others out")
    if recorded and not kept:
        raise BadInput(f"{state} has no function. Name them, or try --state FILE")
    calls = LambdaCalls()
    names = [*kept] if recorded else selected(Selection(functions, pattern, tag, stack))
    states = read_all(calls, names, known=recorded)
    plans = [each if isinstance(each, Left) else _plan(each, kept.get(each.arn)) for each in states]
    unchanged = not any(isinstance(each, Plan) and not each.change.empty for each in plans)
    if not agreed(plans, form=form, dry_run=dry_run, yes=yes) and (dry_run or not unchanged):
        return not_carried_out(plans, form=form, dry_run=dry_run)
    gone = [each for each in plans if isinstance(each, Left) and each.gone and each.name in kept]
    for each in gone:
        records.put_back(each.name, kept[each.name])
        tell("truemem detach", f"{each.name} is gone: its record is removed")
    return carry_out([each for each in plans if each not in gone], calls, records, kept=kept, form=form)


def _plan(state: FunctionState, record: Change | None) -> Plan | Left:
    from .change import taken_off, undone
    from .plan import Left, Plan, unreadable

    if state.image and record is None:
        return Left(state.name, "a container image: what it has of truemem is in the image")
    if state.busy:
        return Left(state.name, f"{state.busy}. Try again later")
    if record is None:
        change = taken_off(state.layers, state.variables)
        notes = [] if change.empty else ["there is no record of it: what is truemem's is removed"]
    else:
        change, notes = undone(record, state.layers, state.variables)
    if state.unreadable and (record is not None or not change.empty):
        return Left(state.name, unreadable(state))
    if change.empty and state.failed:
        return Left(state.name, state.failed)
    return Plan(state, change, tuple(notes))
