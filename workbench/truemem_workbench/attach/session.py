"""What attach and detach share: read the functions, show the plan, ask, change, and say how it went."""

from __future__ import annotations

import json
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, Literal, NamedTuple

import click

from ..support.bad_input import BadInput
from ..support.options import F, option_group
from ..support.terminal import counted, notify, output, progress, say, some
from ..support.untrusted_text import visible
from .change import Change, FunctionState
from .lambda_calls import LambdaCalls, NoSuchFunction, Unsettled
from .plan import AttachPlan, Left
from .records_file import RecordsFile, default_path

Status = Literal["done", "as it was", "left", "failed", "not known", "not begun"]
GOOD: tuple[Status, ...] = ("done", "as it was")
IN_FLIGHT = 10
"""Updates that Lambda works on at a time. Each takes seconds, so waiting for one alone would take minutes."""


class AttachOutcome(NamedTuple):
    """How it went with one function."""

    name: str
    status: Status
    reason: str = ""
    change: Change | None = None
    notes: tuple[str, ...] = ()
    mode: str = ""
    """`exact` or `default`; empty where it was not attached."""


class Rollout:
    """Changes functions. `outcomes` is right at every moment, also when an exception ends the run."""

    def __init__(
        self, calls: LambdaCalls, records: RecordsFile, kept: Mapping[str, Change] | None, done: Callable[[int], None]
    ) -> None:
        """`kept` are the records that a plan to detach was made from: those that another command writes in the
        meantime stay. None attaches."""
        self._calls, self._records, self._kept, self._done = calls, records, kept, done
        self._pending: deque[AttachPlan] = deque()
        self.sent = False
        """True from the first update on."""
        self.outcomes: dict[str, AttachOutcome] = {}
        """Outcomes by ARN, or by name for a function that was left as it is."""

    def run(self, plans: Iterable[AttachPlan | Left]) -> None:
        """Make all changes. Raises BadInput if the record cannot be kept: then nothing more is changed."""
        plans = list(plans)
        for each in plans:
            self.outcomes[each.name if isinstance(each, Left) else each.state.arn] = _untouched(each)
            if isinstance(each, AttachPlan) and each.change.empty:
                self._forget(each)
        for plan in plans:
            if isinstance(plan, AttachPlan) and not plan.change.empty:
                self._begin(plan)
                while len(self._pending) >= IN_FLIGHT:
                    self._settle()
            else:
                self._done(1)
        self.settle()

    def settle(self) -> None:
        """Wait for the updates that Lambda works on."""
        while self._pending:
            self._settle()

    def _forget(self, plan: AttachPlan) -> None:
        record = (self._kept or {}).get(plan.state.arn)
        if record is not None:
            self._records.put_back(plan.state.arn, record)

    def _begin(self, plan: AttachPlan) -> None:
        """Record the change first: if this program ends now, `truemem detach` still knows what was there."""
        arn, earlier, record = plan.state.arn, None, None
        if self._kept is None:
            earlier, record = self._records.add(arn, plan.change)
        self.sent = True
        self._say(plan, "not known", "the command ended while Lambda was asked")
        try:
            self._calls.update(plan.state, plan.change)
        except BadInput as error:
            status = self._say_error(plan, error)
            if status == "failed" and record is not None:
                self._records.put_back(arn, record, earlier)
            self._done(1)
        else:
            self._say(plan, "not known", "the command ended before Lambda said that the update is in force")
            self._pending.append(plan)

    def _settle(self) -> None:
        plan = self._pending.popleft()
        try:
            self._calls.wait_until_active(plan.state)
        except BadInput as error:
            self._say_error(plan, error)
        else:
            self._say(plan, "done")
            self._forget(plan)
        self._done(1)

    def _say_error(self, plan: AttachPlan, error: BadInput) -> Status:
        status: Status = "not known" if isinstance(error, Unsettled) else "failed"
        self._say(plan, status, str(error))
        return status

    def _say(self, plan: AttachPlan, status: Status, reason: str = "") -> None:
        self.outcomes[plan.state.arn] = _outcome(plan, status, reason)


def _outcome(plan: AttachPlan, status: Status, reason: str = "") -> AttachOutcome:
    return AttachOutcome(plan.state.name, status, reason, plan.change, plan.notes, plan.mode)


def _untouched(plan: AttachPlan | Left) -> AttachOutcome:
    """The outcome before anything is changed."""
    if isinstance(plan, Left):
        return AttachOutcome(plan.name, "left", plan.reason)
    return _outcome(plan, "as it was" if plan.change.empty else "not begun")


MOST_NAMES_LISTED = 12
"""Names of one group that are listed; a pattern can have hundreds."""


def _plan_lines(plans: Iterable[AttachPlan | Left]) -> Iterator[str]:
    """Lines of the plan, like a diff: functions with the same change together, then those that are left as they are."""
    plans = list(plans)
    made = [(tuple(_differences(each.change)), each) for each in plans if isinstance(each, AttachPlan)]
    made.sort(key=lambda pair: (pair[0], pair[1].state.name))
    for differences, group in groupby(made, lambda each: each[0]):
        states = [(plan.state.name, plan.notes) for _, plan in group]
        yield _named([name for name, _ in states])
        yield from (f"  {line}" for line in differences or ("nothing to do: it is so already",))
        yield from _noted(states)
    for each in plans:
        if isinstance(each, Left):
            yield each.name
            yield f"  left as it is: {each.reason}"


def _differences(change: Change) -> Iterator[str]:
    before, after = change.layers
    for arn in before:
        if arn not in after:
            yield f"- layer {arn}"
    for arn in after:
        if arn not in before:
            yield f"+ layer {arn}"
    if {*before} == {*after} and before != after:
        yield f"~ order of layers: {', '.join(after)}"
    if change.memory:
        yield f"~ memory size {change.memory[-1]:,} MB (was {change.memory[0]:,})"
    for name, (old, new) in sorted(change.variables.items()):
        if new is None:
            yield f"- {name}={old}"
        else:
            yield f"+ {name}={new}" if old is None else f"~ {name}={new} (was {old})"


def _named(names: list[str]) -> str:
    listed = some(names, MOST_NAMES_LISTED)
    return f"{counted(len(names), 'function')}: {listed}" if len(names) > 1 else listed


def _noted(states: list[tuple[str, tuple[str, ...]]]) -> Iterator[str]:
    """Each note once, with the functions that it is about if it is not about all of them."""
    notes: dict[str, list[str]] = {}
    for name, texts in states:
        for text in texts:
            notes.setdefault(text, []).append(name)
    for text, names in notes.items():
        yield f"  ! {text}" if len(names) == len(states) else f"  ! {_named(names)}: {text}"


def _as_json(outcome: AttachOutcome) -> dict[str, Any]:
    """One function for machines."""
    reason: dict[str, Any] = {"reason": outcome.reason} if outcome.reason else {}
    if outcome.notes:
        reason["notes"] = [*outcome.notes]
    mode = {"mode": outcome.mode} if outcome.mode else {}
    change = outcome.change.document() if outcome.change else {}
    return {"function": outcome.name, "status": outcome.status, **mode, **reason, **change}


def session_options(records: str = "attached.json") -> Callable[[F], F]:
    """Add --state, by default the file of this name, --dry-run and --yes to a command."""
    text = f"Where the state before is kept [default: ~/.local/state/truemem/{records}]."
    path, default = click.Path(path_type=Path, dir_okay=False), partial(default_path, records)
    return option_group(
        click.option("--state", type=path, default=default, metavar="FILE", help=text),
        click.option("--dry-run", is_flag=True, help="Print the plan, and change nothing."),
        click.option("--yes", is_flag=True, help="Do not ask."),
    )


def read_all(calls: LambdaCalls, functions: Sequence[str], *, known: bool = False) -> list[FunctionState | Left]:
    """The state of each function; or why it cannot be read. Raises BadInput if none of them can.

    `known`: they have a record, so one that is gone is no error of the user's.
    """
    found: list[FunctionState | Left] = []
    first: BadInput | None = None
    with progress("reading functions", len(functions)) as count:
        for function in functions:
            try:
                found.append(calls.read(function))
            except BadInput as error:
                found.append(Left(function, str(error), gone=isinstance(error, NoSuchFunction)))
                first = first or error
            count(1)
    if first is not None and len(functions) == 1 and not known:
        raise first
    if first is not None and all(isinstance(each, Left) and not each.gone for each in found):
        raise first
    return found


def agreed(
    plans: Sequence[AttachPlan | Left], *, form: str, dry_run: bool, yes: bool, first: Sequence[str] = ()
) -> bool:
    """Print the plan, and ask. `first` are lines about what is done before the first function.

    False: nothing is to be done. Raises BadInput if it cannot ask.
    """
    changes = sum(isinstance(each, AttachPlan) and not each.change.empty for each in plans)
    if form == "text":
        console = output()
        for line in (*first, *_plan_lines(plans)):
            say(console, line.lstrip(), begin="  " if line.startswith("  ") else "")
    if dry_run or not changes:
        return False
    return yes or answered_yes(f"Change {counted(changes, 'function')}?", form)


def answered_yes(question: str, form: str) -> bool:
    """Ask. Raises BadInput if it cannot ask."""
    if form != "text" or not sys.stdin.isatty():
        raise BadInput("it cannot ask here. Look at the plan with --dry-run, then try --yes")
    return click.confirm(question, default=False)


def not_carried_out(plans: Iterable[AttachPlan | Left], *, form: str, dry_run: bool) -> int:
    """Say how it is, as JSON, where the plan ends it. Returns the exit code."""
    outcomes = [*map(_untouched, plans)]
    if form == "json":
        print_outcomes(outcomes, form)
    return 0 if dry_run else code_of(outcomes)


def carry_out(
    plans: Sequence[AttachPlan | Left],
    calls: LambdaCalls,
    records: RecordsFile,
    *,
    kept: Mapping[str, Change] | None,
    form: str,
) -> int:
    """Make the changes and print how it went, also if the command is ended. Returns the exit code.

    `kept` are the records that a plan to put back was made from; None: these are new changes.
    """
    with progress("changing functions", len(plans)) as count:
        rollout = Rollout(calls, records, kept, count)
        try:
            rollout.run(plans)
        except BadInput as error:  # of the file of records: no function may change without one
            rollout.settle()
            if not rollout.sent:
                raise
            notify("truemem", error)
        except BaseException:
            print_outcomes([*rollout.outcomes.values()], form)
            raise
    outcomes = [*rollout.outcomes.values()]
    print_outcomes(outcomes, form)
    return code_of(outcomes)


def code_of(outcomes: Iterable[AttachOutcome]) -> int:
    """0 if each function is as it was asked for, otherwise 1."""
    return int(any(each.status not in GOOD for each in outcomes))


def print_outcomes(outcomes: Sequence[AttachOutcome], form: str) -> None:
    """A table, or an object for each function."""
    if form == "json":
        for each in outcomes:
            click.echo(json.dumps(_as_json(each)))
        return
    from ..support.terminal import fitted, table

    console = output()
    modes = ["mode"] if any(each.mode for each in outcomes) else []
    made = table("", ["function", "result", *modes], [], ["why"])
    for each in sorted(outcomes, key=lambda each: (each.status in GOOD, each.status, each.name)):
        mode = each.mode if each.status in GOOD else ""
        made.add_row(visible(each.name), each.status, *(mode for _ in modes), visible(each.reason))
    console.print(fitted(made, console))
    done = sum(each.status in GOOD for each in outcomes)
    click.echo(f"{done} of {counted(len(outcomes), 'function')}: as asked")
