"""Tries memory sizes of a function in AWS. However it ends, the function is then as it was.

A version has the memory size that its function has when it is published. So the function gets each size for a moment, a
temporary version is published, and before anything is invoked the function has its own size again.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from botocore.exceptions import ClientError

from ..attach.change import FunctionState, change_of_memory
from ..attach.lambda_calls import LambdaCalls
from ..attach.records_file import RecordsFile
from ..aws.clients import client
from ..judge.finding import Commands
from ..judge.prices import GB_SECOND, REQUEST, computing
from ..judge.sizing import HEADROOM, rounded_size
from ..runs.deployed import Remote
from ..support.bad_input import BadInput
from ..support.exit_codes import Ended
from ..support.platform_facts import LONGEST_ANSWER_S, MOST_MIB, NEW_ACCOUNT_MIB
from ..support.terminal import Progress
from .choice import Trial
from .local_sweep import LADDER, LOOKS_FOR_PEAK, Plan, Sweep

TEMPORARY = "temporary, made by truemem size"
"""Description of the versions that are published. A version with another one is never deleted."""
USUAL = [size for size in LADDER if size <= NEW_ACCOUNT_MIB]
INIT_S = 10
"""Longest init phase, in seconds, that is billed beside the timeout."""
TRIES = 3
"""Attempts to put the memory size back, where others change the function at the same time."""


class Budget:
    """What the invocations cost, in USD by the prices of us-east-1. It never gets above the most."""

    def __init__(self, most: float, state: FunctionState, concurrency: int) -> None:
        self.most, self.spent = most, 0.0
        self.at_a_time = concurrency
        self._gb_second = GB_SECOND[state.architecture]
        self._longest_ms = (state.timeout_s + INIT_S) * 1000

    def longest(self, memory: int) -> float:
        """An invocation that takes its whole timeout, after the longest init phase."""
        return computing(memory, self._longest_ms, self._gb_second) + REQUEST

    def permits(self, memory: int) -> bool:
        """True if one more may be invoked, also if all that run take as long as they can."""
        return self.spent + self.at_a_time * self.longest(memory) <= self.most

    def charge(self, memory: int, billed_ms: float | None) -> None:
        """Add an invocation. None: it is not known how long it took."""
        if billed_ms is None:
            self.spent += self.longest(memory)
        else:
            self.spent += computing(memory, billed_ms, self._gb_second) + REQUEST


class Deployed:
    """The function at one memory size, under the ARN of a version or its own."""

    def __init__(self, memory: int, remote: Remote, warm_up: int) -> None:
        self.remote = remote
        self.seen = Trial(memory=memory, warm_up=warm_up)

    def trial(self, commands: Commands) -> Trial:
        """What was seen. Without a line of the sidecar its peak is Lambda's mark, which is of the whole environment."""
        trial = self.seen.judged(replace(self.remote.so_far(self.seen.warm_up), commands=commands))
        return replace(trial, peak=float(max(trial.marks))) if trial.peak is None and trial.marks else trial


@dataclass(kw_only=True)
class RemoteSweep:
    """The sizes of a function, tried in AWS."""

    calls: LambdaCalls
    records: RecordsFile
    state: FunctionState
    events: Sequence[object]
    plan: Plan
    budget: Budget
    unpublished: bool
    """No versions are made, and the function has each size while that is tried."""
    commands: Commands
    progress: Progress
    tried: list[Deployed] = field(default_factory=list)
    notices: dict[str, None] = field(default_factory=dict)
    given: list[int] = field(default_factory=list)
    """The function's own size, and those that it was given."""
    is_over: bool = False
    is_in_flight: bool = False
    """True while Lambda is asked for a change: whether it makes it is not known if the command ends then."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        pool = {"read_timeout": LONGEST_ANSWER_S, "max_pool_connections": max(self.budget.at_a_time, 10)}
        self._client = client("lambda", region_name=self.state.region, unanswered=1, **pool)

    def run(self, asked: Sequence[int] | None) -> Sweep:
        """Try the sizes asked for, or those that make sense. Raises BadInput if nothing is known, or if the function
        could not be put back."""
        signal, failed = 0, False
        try:
            if sizes := asked or self._sensible():
                self._try(sizes)
        except Ended as ended:
            signal = ended.number
        except NotPutBack:
            raise
        except BadInput as error:
            if not any(each.seen.durations for each in self.tried):
                raise
            self.notices[f"it ended early: {error}"] = None
            failed = True
        with self.lock:
            tried = [each for each in self.tried if each.seen.invocations]
            trials = [each.trial(self.commands) for each in tried]
        if not any(each.remote.lines for each in tried):
            self.notices[
                "no line of the sidecar was seen: peaks are Lambda's Max Memory Used, with all that the environment"
                f" holds. For true peaks: truemem attach {self.state.name}"
            ] = None
        if tried and not any(each.seen.marks for each in tried):  # a system log level of WARN may drop it
            self.notices[
                f"no log tail had REPORT, so durations are not known. Try truemem doctor {self.state.name}"
            ] = None
        self.notices[f"its invocations have cost ${self.budget.spent:.4f}, by the prices of us-east-1"] = None
        log = next((e.remote.failures[-1].log for e in tried if e.remote.errors and all(e.remote.errors)), ())
        return Sweep(trials=trials, notices=list(self.notices), signal=signal, failed=failed, log=log)

    def _sensible(self) -> Sequence[int]:
        """The smallest size with enough headroom over what some invocations of the function as it is have needed, the
        usual ones above, and its own. If none of them went well there are none."""
        own = self._deployed(self.state.memory, self.state.arn)
        count = max(2, min(LOOKS_FOR_PEAK, len(self.events)))
        for done, event in enumerate(itertools.islice(itertools.cycle(self.events), count), 1):
            if own.seen.is_out or not self.budget.permits(self.state.memory):
                break
            self._invoke(own, event)
            self.progress("its peak", done, count)
        looked = own.trial(self.commands)
        if looked.held is None or looked.failures == looked.invocations or looked.killed:
            self.tried.append(own)
            return []
        least = rounded_size(looked.held * (1 + HEADROOM))
        return sorted({min(least, MOST_MIB), self.state.memory, *(size for size in USUAL if size > least)})

    def _try(self, sizes: Sequence[int]) -> None:
        arn = self.state.arn
        self._record, self.given = change_of_memory(self.state, *sizes), [self.state.memory]
        self.records.add(arn, self._record)
        try:
            for group in self._groups(sizes):
                self.tried += group
                self._invoke_all(group)
        finally:
            self.is_over = True
            put_back(self.calls, self.state, self.given, is_in_flight=self.is_in_flight)
            self.records.put_back(arn, self._record)

    def _groups(self, sizes: Sequence[int]) -> Iterator[list[Deployed]]:
        """The sizes that can be tried at the same time: all, if versions are made."""
        arn = self.state.arn
        made: list[Deployed] = []
        for number, size in enumerate(sizes, 1):
            self.progress("preparing", number, len(sizes))
            state = self._resized(size)
            if state is None:
                continue
            if self.unpublished:
                yield [self._deployed(size, arn)]
                continue
            self.is_in_flight = True
            try:
                version = self.calls.publish_version(state, TEMPORARY)
            except BadInput as error:
                raise BadInput(f"{error}. Where no version can be made: --unpublished") from error
            self.is_in_flight = False
            made.append(self._deployed(size, f"{arn}:{version}"))
        if made:
            restore_size(self.calls, arn, self.given)
            # From here on the size is no concern of this command, also if another sets one that was tried.
            self.records.put_back(arn, self._record)
            self._record, self.given = change_of_memory(self.state), [self.state.memory]
            self.records.add(arn, self._record)
            yield made

    def _resized(self, size: int) -> FunctionState | None:
        """The function with this size. None if Lambda does not permit the size. Raises BadInput."""
        state = self._read()
        if state.memory != size:
            self.is_in_flight = True
            self.given.append(size)
            try:
                self.calls.update(state, change_of_memory(state, size))
            except BadInput as error:
                cause = error.__cause__
                if not isinstance(cause, ClientError) or cause.response["Error"]["Code"] not in LIMIT:
                    raise
                self.is_in_flight = False
                self.given.pop()
                self.notices[f"Lambda does not permit {size:,} MB: {error}"] = None
                return None
            self.calls.wait_until_active(state)
            self.is_in_flight = False
            state = self._read()
        return state

    def _read(self) -> FunctionState:
        """The function, if it is as this command knows it. Raises BadInput."""
        state = self.calls.read(self.state.arn)
        if (state.memory, state.code) != (self.given[-1], self.state.code):
            raise BadInput(f"function {state.name} was changed by another while this command ran. Run it again")
        return state

    def _deployed(self, memory: int, arn: str) -> Deployed:
        return Deployed(memory, Remote(arn, self._client), self.plan.warm_up)

    def _invoke_all(self, group: Sequence[Deployed]) -> None:
        """Let these sizes take turns, with some invocations at a time."""
        turns = self._turns(group)
        errors: list[BaseException] = []

        def work() -> None:
            try:
                while (turn := self._next(turns)) is not None:
                    self._invoke(*turn)
            except BaseException as error:
                self.is_over = True
                errors.append(error)

        # Daemons: a signal need not wait for an invocation, which may take half an hour.
        workers = [threading.Thread(target=work, daemon=True) for _ in range(self.budget.at_a_time)]
        for each in workers:
            each.start()
        for each in workers:
            each.join()
        if errors:
            raise errors[0]

    def _next(self, turns: Iterator[tuple[Deployed, object]]) -> tuple[Deployed, object] | None:
        with self.lock:
            return next(turns, None)

    def _turns(self, group: Sequence[Deployed]) -> Iterator[tuple[Deployed, object]]:
        plan, began, largest = self.plan, time.monotonic(), max(each.seen.memory for each in group)
        rounds = plan.warm_up + plan.rounds
        for number, event in enumerate(itertools.islice(itertools.cycle(self.events), rounds)):
            if plan.is_over(number - plan.warm_up, time.monotonic() - began):
                self.notices[plan.cut(number - plan.warm_up)] = None
                return
            for place, each in enumerate(group):
                if not self.budget.permits(largest):
                    self.notices[f"it ended early: more could cost above ${self.budget.most:g} (--max-cost)"] = None
                    return
                if self.is_over:
                    return
                if not each.seen.is_out:
                    yield each, event
                self.progress(f"{each.seen.memory:,} MB", number * len(group) + place + 1, rounds * len(group))

    def _invoke(self, deployed: Deployed, event: object) -> None:
        answer = deployed.remote.ask(event)
        report = answer.report
        with self.lock:
            deployed.remote.keep(answer)
            deployed.seen.add(report, answer.error)
            self.budget.charge(deployed.seen.memory, report.billed_duration_ms if report else None)


LIMIT = ("InvalidParameterValueException", "ValidationException")
"""Lambda's answers to a memory size above the account's limit."""


class NotPutBack(BadInput):
    """Something of the function may still be as the sweep has set it."""


def put_back(calls: LambdaCalls, state: FunctionState, sizes: Sequence[int], *, is_in_flight: bool = False) -> None:
    """Give the function its own size, the first of `sizes`, if it has one of the others, and delete the temporary
    versions. Raises NotPutBack."""
    try:
        if sizes:
            restore_size(calls, state.arn, sizes, is_in_flight=is_in_flight)
        errors = []
        for version in calls.versions(state, TEMPORARY):
            try:
                calls.delete_version(state, version)
            except BadInput as error:
                errors.append(error)
        if errors:
            raise errors[0]
    except BadInput as error:
        again = f"truemem size {state.name} --undo"
        raise NotPutBack(f"{state.name} is not as it was: {error}. To put it back, type {again}") from error


def restore_size(calls: LambdaCalls, arn: str, sizes: Sequence[int], *, is_in_flight: bool = False) -> None:
    """Give the function the first size, if it has one of the others. One that is none of them is not ours: it stays.

    `is_in_flight`: a change that was asked for may still come. An update to the same size makes Lambda refuse it.
    Raises BadInput.
    """
    for attempt in range(1, TRIES + 1):
        state = calls.read(arn)
        with suppress(BadInput):  # one that has failed does not keep this one from being made
            calls.wait_until_active(state)
        state = calls.read(arn)
        if state.memory not in sizes or (state.memory == sizes[0] and not is_in_flight):
            return
        try:
            calls.update(state, change_of_memory(state, sizes[0]))
            calls.wait_until_active(state)
        except BadInput:
            if attempt == TRIES:
                raise
        else:
            return
