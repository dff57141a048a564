"""`truemem size NAME`: says what it will do and what that costs, asks, and sweeps; --apply and --undo."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import click

from ..attach.change import Change, FunctionState, change_of_memory
from ..attach.lambda_calls import LambdaCalls
from ..attach.plan import AttachPlan as ChangePlan
from ..attach.records_file import RecordsFile
from ..attach.session import agreed, answered_yes, carry_out, not_carried_out
from ..aws.event_log import events_of
from ..aws.selection import Selection, selected
from ..judge.finding import commands_deployed
from ..judge.prices import dollars
from ..support.bad_input import BadInput
from ..support.terminal import counted, notify, steps
from ..support.untrusted_text import visible
from .local_sweep import LOOKS_FOR_PEAK, Plan, Sweep
from .remote_sweep import TEMPORARY, USUAL, Budget, RemoteSweep, put_back


class Asked(NamedTuple):
    """What the options say."""

    function: str
    form: str
    concurrency: int
    max_cost: float
    unpublished: bool
    applied: int | None
    undo: bool
    state: Path
    dry_run: bool
    yes: bool


class Account:
    """The function, the file of --apply's records, and beside it that of sweeps which have not ended."""

    def __init__(self, asked: Asked) -> None:
        """Raises BadInput."""
        (name,) = selected(Selection([asked.function], None, None, None))
        self.asked, self.calls = asked, LambdaCalls()
        self.records = RecordsFile(asked.state)
        self.sweeps = RecordsFile(asked.state.with_name(f"{asked.state.name}.sweep"))
        self.state = self.calls.read(name)

    def check(self) -> None:
        """Raises BadInput if the function cannot be changed now."""
        state = self.state
        if state.managed:
            raise BadInput(f"{state.name} is on Managed Instances: size it here, truemem size template.yaml:LOGICAL_ID")
        if why := state.busy or state.failed:
            raise BadInput(f"{state.name}: {why}. Try again later")
        if state.arn in self.sweeps.read() or self.calls.versions(state, TEMPORARY):
            undo = f"truemem size {state.name} --undo"
            raise BadInput(f"another sweep of {state.name} runs, or was killed. If none runs: {undo}")

    def agrees(self, question: str) -> bool:
        """Ask, unless nothing is to be done or nothing to be asked. Raises BadInput if it cannot ask."""
        return not self.asked.dry_run and (self.asked.yes or answered_yes(question, self.asked.form))


def run(
    asked: Asked, events: Sequence[object] | None, sizes: Sequence[int] | None, plan: Plan
) -> tuple[Sweep, str] | int:
    """Do what is asked for. Returns what a sweep has seen and the function's architecture; or the exit code, if there
    was none. `events`: None for those of its log. Raises BadInput."""
    account = Account(asked)
    if asked.undo:
        return _undo(account)
    account.check()
    if asked.applied is not None:
        return _apply(account, asked.applied)
    return _sweep(account, events or [event for _, event in events_of(asked.function)[0]], sizes, plan)


def _sweep(
    account: Account, events: Sequence[object], sizes: Sequence[int] | None, plan: Plan
) -> tuple[Sweep, str] | int:
    asked, state = account.asked, account.state
    budget = Budget(asked.max_cost, state, asked.concurrency)
    planned = sizes or sorted({*USUAL, state.memory})
    if not budget.permits(planned[-1]):
        least = asked.concurrency * budget.longest(planned[-1])
        raise BadInput(
            f"--max-cost {asked.max_cost:g}: with {planned[-1]:,} MB, a timeout of {state.timeout_s} s and"
            f" {asked.concurrency} at a time, {dollars(least)} may be spent before the first answer. Try --max-cost"
            f" {2 * least:.2g}"
        )
    if asked.form == "text":
        for line in _announced(account, planned, sizes is None, len(events), plan, budget):
            click.echo(visible(line))
    if not account.agrees("Begin?"):
        return int(not asked.dry_run)
    with steps() as progress:
        swept = RemoteSweep(
            calls=account.calls,
            records=account.sweeps,
            state=state,
            events=events,
            plan=plan,
            budget=budget,
            unpublished=asked.unpublished,
            commands=commands_deployed(state.name),
            progress=progress,
        ).run(sizes)
    return swept, state.architecture


def _announced(
    account: Account, sizes: Sequence[int], chosen: bool, events: int, plan: Plan, budget: Budget
) -> Iterator[str]:
    """What will be done, and what it costs."""
    state, unpublished = account.state, account.asked.unpublished
    each = plan.warm_up + plan.rounds
    most = min(budget.most, sum(each * budget.longest(size) for size in sizes))
    listed = ", ".join(f"{size:,}" for size in sizes)
    traffic = "for all who invoke it without a version or alias"
    yield f"{state.name} in {state.region}: {state.memory:,} MB, {state.architecture}, timeout {state.timeout_s} s"
    yield f"  sizes: {listed} MB"
    if chosen:
        yield f"    those above its peak: up to {LOOKS_FOR_PEAK} invocations of the function as it is come first"
    in_turn = f"with {counted(events, 'event')} in turn"
    yield f"  each is invoked {each} times, {in_turn}: whatever it writes is written as often"
    if unpublished:
        yield f"  ! while a size is tried, the function has it, {traffic}"
    else:
        yield f"  ! the function has each size for some seconds, {traffic}, while a temporary"
        yield "    version is published. Then it has its own again, and only those versions are invoked"
    if state.snapstart and not unpublished:
        yield "  ! SnapStart: a version takes minutes, and its snapshot is billed (Python, .NET)"
    yield "  however it ends: its own size, no temporary version. Aliases and provisioned concurrency stay as they are"
    most_said = f"at most {dollars(most)}, if each takes its whole timeout"
    yield f"  cost: {most_said}; it ends before ${budget.most:g} (--max-cost)"


def _apply(account: Account, size: int) -> int:
    """Give the function this size. Returns the exit code."""
    asked, state = account.asked, account.state
    plans = [ChangePlan(state, change_of_memory(state, size), tuple(account.calls.notes(state)))]
    if not agreed(plans, form=asked.form, dry_run=asked.dry_run, yes=asked.yes):
        return not_carried_out(plans, form=asked.form, dry_run=asked.dry_run)
    account.records.check()
    return carry_out(plans, account.calls, account.records, kept=None, form=asked.form)


def _undo(account: Account) -> int:
    """Put back what a killed sweep has left; if there is nothing, the size of before --apply. Returns the exit code."""
    asked, state, calls = account.asked, account.state, account.calls
    swept, left = account.sweeps.read().get(state.arn), calls.versions(state, TEMPORARY)
    if swept or left:
        sizes = swept.memory if swept else ()
        if asked.form == "text":
            size = f"{sizes[0]:,} MB again, " if state.memory in sizes[1:] else ""
            click.echo(f"{state.name}: {size}{counted(len(left), 'temporary version')} deleted")
        if not account.agrees("Put it back?"):
            return int(not asked.dry_run)
        put_back(calls, state, sizes)
        if swept is None:
            notify("truemem size", _size_unknown(account))
            return 1
        account.sweeps.put_back(state.arn, swept)
        notify("truemem size", f"{state.name} is as it was before the sweep")
        return 0
    kept = account.records.read()
    record = kept.get(state.arn)
    if record is None:
        raise BadInput(f"nothing to undo: {asked.state} has no record of {state.name}. Try --state FILE")
    plans = [_back(state, record)]
    if not agreed(plans, form=asked.form, dry_run=asked.dry_run, yes=asked.yes) and not plans[0].change.empty:
        return not_carried_out(plans, form=asked.form, dry_run=asked.dry_run)
    return carry_out(plans, calls, account.records, kept=kept, form=asked.form)


def _size_unknown(account: Account) -> str:
    """What is left to do where temporary versions were found without the record of their sweep."""
    name, command = account.state.name, f"truemem size {account.state.name}"
    return (
        f"{name} has {account.state.memory:,} MB now. Which size it had before the sweep is not known here: there is"
        f" no record in {account.sweeps.path}. Type {command} --undo --state FILE with the record of the machine that"
        f" swept (FILE.sweep), or {command} --apply MB"
    )


def _back(state: FunctionState, record: Change) -> ChangePlan:
    before, after = record.memory[0], record.memory[-1]
    if state.memory in (before, after):
        return ChangePlan(state, change_of_memory(state, before), ())
    note = f"its memory size was changed since --apply: it stays at {state.memory:,} MB"
    return ChangePlan(state, change_of_memory(state, state.memory), (note,))
