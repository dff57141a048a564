"""Makes the planned changes, one function after the other, and goes on after one that fails."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Literal, NamedTuple

from ..support.bad_input import BadInput
from .change import Change
from .lambda_calls import LambdaCalls, Unsettled
from .plan import Left, Plan
from .records_file import RecordsFile

Status = Literal["done", "as it was", "left", "failed", "not known", "not begun"]
GOOD: tuple[Status, ...] = ("done", "as it was")
IN_FLIGHT = 10
"""Updates that Lambda works on at a time. Each takes seconds, so waiting for one alone would take minutes."""


class Outcome(NamedTuple):
    """How it went with one function."""

    name: str
    status: Status
    reason: str = ""
    change: Change | None = None
    notes: tuple[str, ...] = ()


class Rollout:
    """Changes functions. `outcomes` is right at every moment, also when an exception ends the run."""

    def __init__(
        self,
        calls: LambdaCalls,
        records: RecordsFile,
        kept: Mapping[str, Change] | None,
        done: Callable[[int], None],
    ) -> None:
        """`kept` are the records that a plan to detach was made from: those that another command writes in the
        meantime stay. None attaches."""
        self._calls, self._records, self._kept, self._done = calls, records, kept, done
        self._pending: deque[Plan] = deque()
        self.sent = False
        """True from the first update on."""
        self.outcomes: dict[str, Outcome] = {}
        """By ARN, or by name for a function that was left as it is."""

    def run(self, plans: Iterable[Plan | Left]) -> None:
        """Make all changes. Raises BadInput if the record cannot be kept: then nothing more is changed."""
        plans = list(plans)
        for each in plans:
            if isinstance(each, Left):
                self.outcomes[each.name] = Outcome(each.name, "left", each.reason)
            else:
                self._say(each, "as it was" if each.change.empty else "not begun")
                if each.change.empty:
                    self._forget(each)
        for plan in plans:
            if isinstance(plan, Plan) and not plan.change.empty:
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

    def _forget(self, plan: Plan) -> None:
        record = (self._kept or {}).get(plan.state.arn)
        if record is not None:
            self._records.put_back(plan.state.arn, record)

    def _begin(self, plan: Plan) -> None:
        """Record the change first: if this program ends now, `truemem detach` still knows what was there."""
        arn, earlier, record = plan.state.arn, None, None
        if self._kept is None:
            earlier, record = self._records.add(arn, plan.change)
        self.sent = True
        self._say(plan, "not known", "the command ended while Lambda was asked")
        try:
            self._calls.update(plan.state, plan.change)
        except Unsettled as error:
            self._say(plan, "not known", str(error))
            self._done(1)
        except BadInput as error:
            self._say(plan, "failed", str(error))
            if record is not None:
                self._records.put_back(arn, record, earlier)
            self._done(1)
        else:
            self._say(plan, "not known", "the command ended before Lambda said that the update is in force")
            self._pending.append(plan)

    def _settle(self) -> None:
        plan = self._pending.popleft()
        try:
            self._calls.wait_until_active(plan.state)
        except Unsettled as error:
            self._say(plan, "not known", str(error))
        except BadInput as error:
            self._say(plan, "failed", str(error))
        else:
            self._say(plan, "done")
            self._forget(plan)
        self._done(1)

    def _say(self, plan: Plan, status: Status, reason: str = "") -> None:
        self.outcomes[plan.state.arn] = Outcome(plan.state.name, status, reason, plan.change, plan.notes)
