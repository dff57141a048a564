"""The events that a function is invoked with: from the command line, a file, or its own log (`truemem events`)."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

import click

from ..support.bad_input import BadInput
from ..support.terminal import counted, notify
from ..support.untrusted_text import loads, read_text, visible

FILE = click.Path(dir_okay=False, path_type=Path)
RECORD = ("level", "timestamp", "time", "requestId", "function_request_id")
"""A JSON object with `message` and one of these is a record of a logger: the event is its message."""
SHOWN = 120
"""Characters of an object that are shown."""
_START = re.compile(r"START RequestId: |\{.*\"platform\.start\"")


# --- from the command line, or a file ---------------------------------------------------------------------------------


def read_event(given: str) -> object:
    """Read the value of `--event`: JSON, `@FILE`, or `-` for standard input. Raises BadInput."""
    source, text = "--event", given
    if given == "-":
        source, text = "standard input", sys.stdin.read()
    elif given.startswith("@"):
        source, text = given[1:], _text(Path(given[1:]), "the event", "--event @PATH/event.json")
    try:
        event: object = loads(text)
    except ValueError as error:
        start = text if len(text) <= 40 else text[:40] + "..."
        raise BadInput(
            f"the event of {source} is not JSON: {start!r} ({error}). Try --event '{{\"key\": 1}}'"
        ) from None
    return event


def read_events(path: Path) -> list[object]:
    """Read a file with a JSON array of events, JSON lines with one event each, or one event, with times or without
    (`truemem events --times`). Raises BadInput."""
    text = _text(path, "events", "--events PATH/events.jsonl")
    try:
        whole = loads(text)
    except ValueError:
        events, empty = _of_lines(path, text), "it is empty"
    else:
        events, empty = whole if isinstance(whole, list) else [whole], "the array is empty"
    if not events:
        raise BadInput(f"no event in {path}: {empty}. Try --event '{{}}'")
    return [each["event"] if is_timed(each) else each for each in events]


def is_timed(document: object) -> TypeGuard[Mapping[str, Any]]:
    """True for an event with its time, as `truemem events --times` writes it."""
    return isinstance(document, Mapping) and document.keys() == {"timestamp", "event"}


def _of_lines(path: Path, text: str) -> list[object]:
    events = []
    for number, line in enumerate(text.splitlines(), 1):
        try:
            events += [loads(line)] if line.strip() else []
        except ValueError as error:
            raise BadInput(
                f"{path} line {number} is not JSON ({error}). Try one event a line, or a JSON array of events"
            ) from None
    return events


def _text(path: Path, what: str, example: str) -> str:
    try:
        return read_text(path)
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise BadInput(f"cannot read {what} from {path}: {why}. Try {example}") from None


def text_of(event: object) -> str:
    """The event as JSON: equal events have one text, which is kept once."""
    return sys.intern(json.dumps(event, sort_keys=True))


# --- from a log -------------------------------------------------------------------------------------------------------


class Logged(NamedTuple):
    """A line of a log."""

    stream: str
    time_ms: float
    """Epoch ms."""
    text: str


@dataclass
class LeftOut:
    """JSON objects that were no events: a log may have millions."""

    count: int = 0
    first: object = None

    def add(self, found: object) -> None:
        self.first = self.first if self.count else found
        self.count += 1


def recorded_events(
    lines: Iterable[Logged], containing: str = "", left_out: LeftOut | None = None
) -> Iterator[tuple[float, Any]]:
    """The first event that each invocation has logged, and when in epoch ms, of lines oldest first: the first JSON
    object of a known source's shape, or with `containing` of a line with that text. What is no event goes to
    `left_out`.

    A stream is one environment, whose invocations follow each other: one begins at its START line.
    """
    done: set[str] = set()
    for stream, time_ms, text in lines:
        if _START.match(text):
            done.discard(stream)
        elif stream not in done and containing in text and (event := event_in(text)) is not None:
            if containing or is_event(event):
                done.add(stream)
                yield time_ms, event
            elif left_out is not None:
                left_out.add(event)


def event_in(text: str) -> Any:
    """The JSON object that a line ends with, or that a logger's record has as its message. None if there is none."""
    begin = text.find("{")
    try:
        found = loads(text[begin:].strip()) if begin >= 0 else None
    except ValueError:
        return None
    if not isinstance(found, dict) or _is_telemetry(found):
        return None
    if "message" not in found or not any(name in found for name in RECORD):
        return found
    message = found["message"]
    if isinstance(message, str):
        return event_in(message)
    return message if isinstance(message, dict) else None


def _is_telemetry(found: dict[str, Any]) -> bool:
    """Is it a line of the sidecar, with metadata or without (TRUEMEM_OUTPUT=json), or the platform's?"""
    ours = "_aws" in found or found.keys() >= {"environmentId", "FunctionName", "schema"}
    return ours or str(found.get("type", "")).startswith("platform.")


# From AWS's page of each source, as `sam local generate-event` has them too
# (https://docs.aws.amazon.com/lambda/latest/dg/lambda-services.html).
SHAPES: dict[str, frozenset[str]] = {
    name: frozenset(members.split())
    for name, members in {
        "API Gateway, or a load balancer": "httpMethod path requestContext",
        "HTTP API, or a function URL": "version rawPath headers requestContext",
        "WebSocket API": "requestContext isBase64Encoded",
        "Authorizer of an API": "type methodArn",
        "Authorizer of an HTTP API": "type routeArn",
        "VPC Lattice": "method path headers requestContext",
        "VPC Lattice, first version": "method raw_path headers",
        "EventBridge, or a schedule": "source detail-type detail",
        "CloudWatch Logs": "awslogs",
        "CloudWatch alarm": "source alarmArn alarmData",
        "Kafka": "eventSource records",
        "Amazon MQ": "eventSource eventSourceArn messages",
        "RabbitMQ": "eventSource rmqMessagesByQueue",
        "DocumentDB": "eventSourceArn events",
        "Firehose, or Kinesis analytics": "invocationId records",
        "S3 Batch Operations": "invocationSchemaVersion tasks job",
        "S3 Object Lambda": "getObjectContext userRequest",
        "Cognito": "triggerSource userPoolId request",
        "Cognito Sync": "eventType identityPoolId",
        "CloudFormation": "RequestType ResponseURL StackId",
        "CodePipeline": "CodePipeline.job",
        "Config": "invokingEvent configRuleName",
        "Connect": "Name Details",
        "Lex": "sessionState bot",
        "Lex, first version": "currentIntent bot",
        "Bedrock": "messageVersion agent",
        "AppSync": "info arguments identity",
        "AppSync, by an authorizer": "authorizationToken requestContext",
        "Amplify": "typeName fieldName arguments",
        "CodeDeploy": "DeploymentId LifecycleEventHookExecutionId",
        "CloudWatch dashboard": "widgetContext",
        "IoT button": "serialNumber clickType",
        "Alexa": "version session request",
        "Secrets Manager": "Step SecretId ClientRequestToken",
        "Transfer Family": "token workflowId executionDetails",
        "SageMaker": "version labelingJobArn",
        "WorkMail": "summaryVersion envelope",
        "A destination": "version requestContext requestPayload",
    }.items()
}
"""Names of sources, with members of the event. SQS, SNS, S3, Kinesis, DynamoDB, SES, CodeCommit and CloudFront have
`Records`, each of its source."""


def is_event(found: Mapping[str, object]) -> bool:
    """Does it have the shape of a known source's event?"""
    match found.get("Records"):
        case [{"eventSource": str()} | {"EventSource": str()} | {"cf": {}}, *_]:
            return True
    return any(members <= found.keys() for members in SHAPES.values())


EPILOG = """
\b
Examples:
  truemem events my-function --since 1h --output events.jsonl
  truemem events my-function --containing RECEIVED
  truemem explain app.py:handler --events events.jsonl
\b
Exit codes:
  0  printed or written
  2  bad input, no access, or no event in the log
"""


@click.command(epilog=EPILOG)
@click.argument("function", metavar="NAME")
@click.option("--since", default="1h", show_default=True, metavar="AGO|TIME", help="`90m`, `3h`, `2d`, or ISO 8601.")
@click.option("--log-group", metavar="NAME", help="Its log group [default: as Lambda says].")
@click.option("--containing", default="", metavar="TEXT", help="Take only lines of the log with this text.")
@click.option("--most", type=click.IntRange(1), default=1000, show_default=True, metavar="N", help="Most events.")
@click.option("--times", is_flag=True, help="With the time of each, for `truemem soak --like`.")
@click.option("--output", type=FILE, help="Write them there, readable by you alone, and not to standard output.")
def events(
    function: str, since: str, log_group: str | None, containing: str, most: int, times: bool, output: Path | None
) -> int:
    """The events that a function has logged, one on each line, for `truemem check --events`.

    The function must log its event: of each invocation the first JSON object is taken that has the shape of an AWS
    source's event (API Gateway, SQS, S3 ...), or the first in a line with TEXT. Needs logs:FilterLogEvents.
    """
    found, group, left_out = events_of(function, since, log_group, containing, most)
    documents = [{"timestamp": _iso(time_ms), "event": event} if times else event for time_ms, event in found]
    lines = [f"{json.dumps(each)}\n" for each in documents]
    if output is None:
        click.echo("".join(lines), nl=False)
    else:
        _write(output, "".join(lines))
    notify("truemem events", f"{len(lines)} events of {group}{f' in {output}' if output else ''}")
    if left_out:
        others = counted(left_out, "JSON object of no known source is", "JSON objects of no known source are")
        notify("truemem events", f"{others} left out. --containing TEXT takes an event of any shape")
    return 0


def _iso(epoch_ms: float) -> str:
    return datetime.fromtimestamp(epoch_ms / 1000, UTC).isoformat(timespec="milliseconds")


def events_of(
    function: str, since: str = "1h", log_group: str | None = None, containing: str = "", most: int = 1000
) -> tuple[list[tuple[float, Any]], str, int]:
    """The events in a function's log, each after its time in epoch ms; the log group; and how many JSON objects were
    no event. Raises BadInput if there are none."""
    from ..aws.clients import log_group_of
    from ..support.options import since_ms

    begin = since_ms(since, time.time() * 1000)
    group = log_group or log_group_of(function)
    left_out = LeftOut()
    found = [*islice(recorded_events(_log_lines(group, begin), containing, left_out), most)]
    if not found and left_out.count:
        others = counted(left_out.count, "JSON object, which has", "JSON objects, which have")
        raise BadInput(
            f"no event in {group} since then, but {others} the shape of no known source. The first:"
            f" {visible(json.dumps(left_out.first))[:SHOWN]}. If it is an event, try"
            f" truemem events {function} --containing TEXT"
        )
    if not found:
        raise BadInput(
            f"no event in {group} since then. Let the function log its event (Powertools:"
            " @logger.inject_lambda_context(log_event=True)), or write events.jsonl yourself, an event on each line:"
            " sam local generate-event prints examples"
        )
    return found, group, left_out.count


def _log_lines(group: str, begin_ms: float) -> Iterator[Logged]:
    """The lines since then, in the order of time. Raises BadInput."""
    from ..aws.clients import client, refused

    with refused(f"log group {group}", "logs:FilterLogEvents"):
        pages = client("logs").get_paginator("filter_log_events")
        for page in pages.paginate(logGroupName=group, startTime=int(begin_ms)):
            for event in page["events"]:
                yield Logged(event["logStreamName"], event["timestamp"], event["message"])


def _write(path: Path, text: str) -> None:
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise BadInput(f"cannot write {path}: {error.strerror}. Try --output FOLDER/{path.name}") from None
