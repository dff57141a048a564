"""`truemem doctor --follow`: wait for the first record after the function was changed."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from ..analysis.diagnosis import Diagnosis
from ..analysis.first_measurement import of_first
from ..support.bad_input import BadInput
from ..support.terminal import progress
from ..support.time_parsing import since_ms

if TYPE_CHECKING:
    from ..lines.line import Line

LONGEST_S = 930
"""Longest wait for an answer, in seconds: a function may run for 900. Asked again, it would do its work again."""
SKEW_MS = 300_000
"""How far this machine's clock may be behind that of AWS."""
LATE_MS = 120_000
"""How much later than its time stamp a line may come into the log."""
MOST = 100_000
"""Events of one look at the log."""
POLL_S = 5.0
"""Pause between two looks at the log. A line is there some seconds after it was printed."""


def follow(function: str, event: object | None, wait_s: float) -> Iterator[Diagnosis] | None:
    """The findings on the first record since the function's last change; None if none came within `wait_s`.

    With an event the function is invoked with it, twice. Raises BadInput.
    """
    from ..aws.clients import client, configuration_of, log_group_in, name_of, refused

    with refused(f"function {function}", "lambda:GetFunctionConfiguration"):
        configuration = configuration_of(function)
        begin_ms = since_ms(configuration["LastModified"], time.time() * 1000)
    if event is not None:
        with refused(f"function {function}", "lambda:InvokeFunction"):
            _invoke_twice(client("lambda", attempts=1, read_timeout=LONGEST_S), function, event)
    else:
        click.echo(f"waiting for two invocations of {name_of(function)}, or try --invoke", err=True)
    group, look_from_ms = log_group_in(configuration, function), int(begin_ms)
    command = f"truemem report --function {shlex.quote(name_of(function))}"
    end = time.monotonic() + wait_s
    with progress("waiting", int(wait_s)) as count:
        while True:
            now_ms = int(time.time() * 1000)
            for line in _records(group, look_from_ms, now_ms + SKEW_MS):
                if line.time_ms is not None and line.time_ms >= begin_ms:  # not of an environment of before
                    return of_first(line, command)
            look_from_ms = max(look_from_ms, now_ms - LATE_MS - SKEW_MS)
            left = end - time.monotonic()
            if left <= 0:
                return None
            time.sleep(min(POLL_S, left))
            count(int(min(POLL_S, left)))


def _invoke_twice(lambdas: Any, function: str, event: object) -> None:
    """The record of an invocation is printed when the next one begins."""
    for _ in range(2):
        answer = lambdas.invoke(FunctionName=function, Payload=json.dumps(event).encode())
        body = answer["Payload"].read()
        if "FunctionError" in answer:
            text = body.decode(errors="replace")[:200]
            click.echo(f"the function ended with an error, which is measured as well: {text}", err=True)


def _records(group: str, begin_ms: int, end_ms: int) -> Iterator[Line]:
    from ..aws.clients import client, log_group_named, refused
    from ..aws.cloudwatch import recent
    from ..lines.line import parse_event

    with refused(f"log group {group}", "logs:DescribeLogGroups"):
        if log_group_named(client("logs"), group) is None:
            return  # made by the first invocation
    for event in recent(group, begin_ms, end_ms, MOST):
        if "exec format error" in event and "/opt/extensions/truemem" in event:
            raise BadInput(f"the layer is for another architecture. Try truemem attach, then this again ({group})")
        yield from parse_event(event)
