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
    from .lambda_calls import LambdaCalls
    from .plan import Left
    from .records_file import RecordsFile
    from .selection import selected
    from .session import agreed, carry_out, code_of, planned, read_all, tell_outcomes

    form = chosen(form, as_json)
    records = RecordsFile(state)
    kept = records.read()
    chosen_otherwise = functions or pattern or tag or stack
    if recorded and chosen_otherwise:
        raise BadInput("--all is each function of the file. Leave the others out")
    if recorded and not kept:
        raise BadInput(f"{state} has no function. Name them, or try --state FILE")
    calls = LambdaCalls()
    states = read_all(calls, [*kept] if recorded else selected(Selection(functions, pattern, tag, stack)))
    plans = [each if isinstance(each, Left) else _plan(each, kept.get(each.arn)) for each in states]
    if not agreed(plans, form=form, dry_run=dry_run, yes=yes):
        outcomes = planned(plans)
        if form == "json":
            tell_outcomes(outcomes, form)
        return 0 if dry_run else code_of(outcomes)
    return carry_out(plans, calls, records, detach=True, form=form)


def _plan(state: FunctionState, record: Change | None) -> Plan | Left:
    from .change import taken_off, undone
    from .plan import Left, Plan

    if state.busy:
        return Left(state.name, f"{state.busy}. Try again later")
    if record is None:
        change, notes = (
            taken_off(state.layers, state.variables),
            ["there is no record of it: what is truemem's is removed"],
        )
        notes = [] if change.empty else notes
    else:
        change, notes = undone(record, state.layers, state.variables)
    if change.variables and state.unreadable:
        return Left(state.name, f"its variables cannot be read ({state.unreadable}). The caller needs kms:Decrypt")
    return Plan(state, change, tuple(notes))
