"""Measures a deployed function, through Lambda's API. The lines come from log tails and CloudWatch Logs."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import botocore.exceptions

from ..aws.clients import client, log_group_of, name_of, refused
from ..local.lifecycle.events import Report, parse_report
from ..printed.line import Line, parse_event
from ..support.bad_input import BadInput
from ..support.exit_codes import Ended
from ..support.failed_answer import error_of
from ..support.platform_facts import LONGEST_ANSWER_S
from ..support.terminal import Progress
from ..support.untrusted_text import parsed
from .measurement import FailedInvocation, Measurement, Recorded, end_of_log, settled
from .passes import Decision, Plan, invoke_until_decided

if TYPE_CHECKING:
    from mypy_boto3_lambda import LambdaClient
    from mypy_boto3_logs import CloudWatchLogsClient

PATIENCE_S = 60.0  # longest wait for lines in CloudWatch Logs, in seconds
LOOK_S = 5.0  # pause between two reads of CloudWatch Logs, in seconds
ENOUGH = 0.95
"""Share of the records that is enough. The last one of an environment comes at its shutdown, perhaps minutes from now.

With a limit on peaks or p99 all records are needed, because each may break it.
"""
FLUSHING = 5
"""Most extra invocations that make earlier lines come: a line comes with its report, 25 ms into the next one."""
PATTERN = '{ $.schema = 1 && $.requestId = "*" }'  # filter of CloudWatch Logs for our lines


class Answer(NamedTuple):
    """The answer to one invocation."""

    request: str
    error: str
    """Empty if it did not fail."""
    tail: Sequence[str]
    """The last 4 KB of its log, in lines."""

    @property
    def report(self) -> Report | None:
        """Its REPORT, from Lambda's text format or from its JSON format. None if the tail has none."""
        reports = map(parse_report, reversed(self.tail))
        return next((each for each in reports if each and each.request_id == self.request), None)


@dataclass
class Remote:
    """The invocations of one run."""

    function: str
    client: LambdaClient
    started: float = field(default_factory=time.time)
    requests: list[str] = field(default_factory=list)
    failures: list[FailedInvocation] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    """What each request has said; empty where it succeeded."""
    reported_ms: dict[int, float] = field(default_factory=dict)
    """Durations by number of the request, as far as log tails have them."""
    lines: dict[str, Line] = field(default_factory=dict)
    """Lines by request id."""
    decision: Decision = field(default_factory=Decision)
    """What is asked of the run."""

    def invoke(self, event: object) -> Answer:
        """Invoke once, and take the lines in the log tail."""
        answer = self.ask(event)
        self.keep(answer)
        return answer

    def ask(self, event: object) -> Answer:
        """Invoke once, and keep nothing of it: several threads may do so at a time. Raises BadInput."""
        with_tail: dict[str, Any] = {"LogType": "Tail"}
        name = name_of(self.function)
        with refused(f"function {name}", "lambda:InvokeFunction"):
            try:
                answer = self.client.invoke(FunctionName=self.function, Payload=json.dumps(event).encode(), **with_tail)
            except botocore.exceptions.ClientError as problem:
                if "InvalidParameter" not in problem.response["Error"]["Code"]:
                    raise
                # it takes a tenant's id, or is durable and needs a version
                fix = f"Invoke it as its callers do, and try truemem report {name}"
                raise BadInput(f"function {name}: {problem.response['Error']['Message']}. {fix}") from problem
            body = answer["Payload"].read()
        tail = base64.b64decode(answer.get("LogResult", "")).decode(errors="replace").split("\n")
        error = error_of(parsed(body), answer["FunctionError"]) if "FunctionError" in answer else ""
        return Answer(answer["ResponseMetadata"]["RequestId"], error, tail)

    def keep(self, answer: Answer) -> None:
        """Take the answer, with the lines in its log tail: that has the line of the invocation before."""
        self.requests.append(answer.request)
        self.errors.append(answer.error)
        if (report := answer.report) is not None:
            self.reported_ms[len(self.requests)] = report.duration_ms
        if answer.error:
            log = end_of_log(text for text in answer.tail if not parse_event(text))
            self.failures.append(FailedInvocation(len(self.requests), answer.error, log))
        self.take(answer.tail)

    def take(self, texts: Sequence[str]) -> None:
        """Take the sidecar's lines among these texts."""
        for text in texts:
            for line in parse_event(text):
                if line.request_id is not None:
                    self.lines.setdefault(line.request_id, line)

    def seen(self) -> list[Recorded]:
        numbered = enumerate(self.requests, 1)
        return [Recorded(number, self.lines[request]) for number, request in numbered if request in self.lines]

    def so_far(self, warm_up: int, counted: int | None = None) -> Measurement:
        """The measurement of the first `counted` invocations, or of all."""
        counted = len(self.requests) if counted is None else counted
        lines = [seen for seen in self.seen() if seen.number <= counted]
        return Measurement(
            spec=f"remote:{self.function}",
            seen=lines,
            reported_ms={number: took for number, took in self.reported_ms.items() if number <= counted},
            invocations=counted,
            warm_up=warm_up,
            memory_mib=next((int(seen.line.memory_limit) for seen in lines if seen.line.memory_limit), None),
            seconds=time.time() - self.started,
            errors_percent=self.decision.errors_percent,
            allowed=self.decision.allowed,
            failures=[failure for failure in self.failures if failure.number <= counted],
            last_words=f"nothing that could be read. Does {self.function} have truemem's layer?",
        )

    def begin_passes(self, invocations: int) -> None:
        """Nothing: a deployed function's processes are not ours to settle."""

    def settled(self) -> bool:
        return settled([seen.line for seen in self.seen()])

    def enough(self, of: int) -> bool:
        """True if enough records of the first `of` invocations have come."""
        needed = 1.0 if self.decision.needs_all else ENOUGH
        return sum(each.number <= of for each in self.seen()) >= needed * of


def measure(
    function: str,
    events: Sequence[object],
    plan: Plan,
    decision: Decision,
    progress: Progress,
    log_group: str | None = None,
) -> Measurement:
    """Make a whole run. A few more invocations are made so that the last line is printed. A signal ends it with what
    is known. Raises BadInput."""
    run = Remote(function, client("lambda", read_timeout=LONGEST_ANSWER_S), decision=decision)
    notices: list[str] = []
    try:
        taken = invoke_until_decided(run, events, plan, decision, progress)
        counted = len(run.requests)
        for _ in range(FLUSHING):
            if run.requests[counted - 1] not in run.lines:
                run.invoke(events[0])
        if not run.enough(counted):
            log_group = log_group or log_group_of(function)
            try:
                from_logs(run, client("logs"), log_group, of=counted)
            except (botocore.exceptions.ClientError, botocore.exceptions.BotoCoreError) as error:
                notices.append(f"log tails had too few lines, and {log_group} could not be read: {error}")
    except Ended as ended:
        if not run.requests:
            raise
        warm_up = min(plan.warm_up, len(run.requests) // 2)
        return replace(run.so_far(warm_up), notices=notices).ended_by(ended.number)
    measured = replace(run.so_far(taken, counted), asked=plan.invocations, notices=notices)
    return measured.stopped(decision.given_up) if decision.given_up else measured


def from_logs(
    run: Remote,
    client: CloudWatchLogsClient,
    log_group: str,
    *,
    of: int,
    patience_s: float = PATIENCE_S,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Take lines from CloudWatch Logs until there are enough of the first `of` invocations, or `patience_s` is over."""
    waited = 0.0
    while True:
        for texts in _pages(client, log_group, run.started):
            run.take(texts)
        if run.enough(of) or waited >= patience_s:
            return
        sleep(LOOK_S)
        waited += LOOK_S


def _pages(client: CloudWatchLogsClient, log_group: str, since: float) -> Iterator[list[str]]:
    paginator = client.get_paginator("filter_log_events")
    for page in paginator.paginate(logGroupName=log_group, filterPattern=PATTERN, startTime=int(since * 1000) - 1000):
        yield [event.get("message", "") for event in page["events"]]
