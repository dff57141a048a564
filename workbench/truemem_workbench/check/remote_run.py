"""A run of a deployed function: invoked through Lambda's API, its lines read from log tails and CloudWatch Logs."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import boto3
import botocore.exceptions
from botocore.config import Config

from truemem_workbench.lines import Line, parse_event
from truemem_workbench.local import BadInput

from .drive import Progress, drive
from .measurement import Failure, Measurement, Seen, settled, told

if TYPE_CHECKING:
    from mypy_boto3_lambda import LambdaClient
    from mypy_boto3_logs import CloudWatchLogsClient

READ_S = 910
"""Longer than the longest function."""
PATIENCE_S = 60.0
"""How long lines may take to arrive in CloudWatch Logs; not all of them need to."""
LOOK_S = 5.0
"""Between two looks there."""
ENOUGH = 0.95
"""Share of the records that need not be waited for: the last one of an environment comes at its shutdown, perhaps
minutes from now."""
FLUSHING = 5
"""Most invocations that only make the lines of others come: a line follows its report, which comes 25 ms into those."""
PATTERN = '{ $.schema = 1 && $.requestId = "*" }'
"""Of our lines, as CloudWatch Logs filters JSON events."""


@dataclass
class Remote:
    """The invocations of one run."""

    function: str
    client: LambdaClient
    started: float = field(default_factory=time.time)
    requests: list[str] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    lines: dict[str, Line] = field(default_factory=dict)
    """By request id."""

    def invoke(self, event: object) -> None:
        """Raises BadInput for what the API refuses."""
        with_tail: dict[str, Any] = {"LogType": "Tail"}
        answer = self.client.invoke(FunctionName=self.function, Payload=json.dumps(event).encode(), **with_tail)
        self.requests.append(answer["ResponseMetadata"]["RequestId"])
        body = answer["Payload"].read()
        if "FunctionError" in answer:
            self.failures.append(Failure(len(self.requests), told(_parsed(body), answer["FunctionError"])))
        # the tail of one invocation has the line of the one before
        tail = base64.b64decode(answer.get("LogResult", "")).decode(errors="replace")
        self.take(tail.splitlines())

    def take(self, texts: Sequence[str]) -> None:
        """The lines among `texts`."""
        for text in texts:
            for line in parse_event(text):
                if line.request_id is not None:
                    self.lines.setdefault(line.request_id, line)

    def seen(self) -> list[Seen]:
        numbered = enumerate(self.requests, 1)
        return [Seen(number, self.lines[request]) for number, request in numbered if request in self.lines]

    def settled(self) -> bool:
        return settled([seen.line for seen in self.seen()])

    @property
    def failing(self) -> int:
        return len(self.requests) if len(self.failures) == len(self.requests) else 0

    def enough(self, of: int) -> bool:
        """Have the records come, of the first so many invocations?"""
        return sum(each.number <= of for each in self.seen()) >= ENOUGH * of


def measure(
    function: str,
    events: Sequence[object],
    *,
    invocations: int,
    warm_up: int,
    log_group: str | None,
    progress: Progress,
) -> Measurement:
    """As under the local Lambda; a few more invocations make the last line come. Raises BadInput."""
    try:
        return _measure(function, events, invocations, warm_up, log_group or _group(function), progress)
    except botocore.exceptions.ClientError as error:
        code, message = error.response["Error"]["Code"], error.response["Error"]["Message"]
        raise BadInput(f"{error.operation_name} of {function}: {code} ({message}). {_mend(code)}") from None
    except botocore.exceptions.BotoCoreError as error:
        raise BadInput(f"{function}: {error} Try aws sts get-caller-identity, and AWS_REGION") from None


def _measure(
    function: str, events: Sequence[object], invocations: int, warm_up: int, log_group: str, progress: Progress
) -> Measurement:
    begun = time.monotonic()
    run = Remote(function, boto3.client("lambda", config=Config(read_timeout=READ_S, retries={"mode": "standard"})))
    taken = drive(run, events, invocations=invocations, warm_up=warm_up, progress=progress)
    counted = len(run.requests)
    for _ in range(FLUSHING):
        if run.requests[counted - 1] not in run.lines:
            run.invoke(events[0])
    notices = []
    if not run.enough(counted):
        try:
            from_logs(run, boto3.client("logs"), log_group, of=counted)
        except (botocore.exceptions.ClientError, botocore.exceptions.BotoCoreError) as error:
            notices.append(f"log tails had too few lines, and {log_group} could not be read: {error}")
    lines = [seen for seen in run.seen() if seen.number <= counted]
    return Measurement(
        spec=f"remote:{function}",
        seen=lines,
        invocations=counted,
        warm_up=taken,
        memory_mib=next((int(seen.line.memory_limit) for seen in lines if seen.line.memory_limit), None),
        seconds=time.monotonic() - begun,
        failures=[failure for failure in run.failures if failure.number <= counted],
        notices=notices,
        last_words=f"nothing that could be read. Does {function} have truemem's layer?",
    )


def from_logs(
    run: Remote,
    client: CloudWatchLogsClient,
    log_group: str,
    *,
    of: int,
    patience_s: float = PATIENCE_S,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Add what CloudWatch Logs has of the run, as it arrives, until there is enough `of` them or patience ends."""
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


def _group(function: str) -> str:
    """Of a name, a name with a qualifier, or an ARN."""
    parts = function.split(":")
    return f"/aws/lambda/{parts[6] if function.startswith('arn:') and len(parts) > 6 else parts[0]}"


def _parsed(body: bytes) -> object:
    try:
        parsed: object = json.loads(body)
    except ValueError:
        return None
    return parsed


def _mend(code: str) -> str:
    if "AccessDenied" in code:
        return "The caller needs lambda:InvokeFunction and logs:FilterLogEvents"
    if "NotFound" in code:
        return "Try another name, or AWS_REGION"
    if "Token" in code or "Credential" in code:
        return "Sign in anew: aws sso login"
    return "Try again later"
