"""The events that a function has logged (`truemem events`)."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

from ..support.bad_input import BadInput
from ..support.options import since_ms
from ..support.terminal import counted
from ..support.untrusted_text import loads, visible
from .clients import client, log_group_of, refused

RECORD = ("level", "timestamp", "time", "requestId", "function_request_id")
"""A JSON object with `message` and one of these is a record of a logger: the event is its message."""
SHOWN = 120
"""Characters of an object that are shown."""
_START = re.compile(r"START RequestId: |\{.*\"platform\.start\"")


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


def events_of(
    function: str, since: str = "1h", log_group: str | None = None, containing: str = "", most: int = 1000
) -> tuple[list[tuple[float, Any]], str, int]:
    """The events in a function's log, each after its time in epoch ms; the log group; and how many JSON objects were
    no event. Raises BadInput if there are none."""
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
    with refused(f"log group {group}", "logs:FilterLogEvents"):
        pages = client("logs").get_paginator("filter_log_events")
        for page in pages.paginate(logGroupName=group, startTime=int(begin_ms)):
            for event in page["events"]:
                yield Logged(event["logStreamName"], event["timestamp"], event["message"])
