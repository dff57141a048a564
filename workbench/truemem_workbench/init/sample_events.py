"""Events as AWS's services send them, each with an id of its own. Pure.

Shapes: the examples of AWS's documentation (docs.aws.amazon.com/lambda/latest/dg, "Invoking Lambda with events from
other AWS services"), shortened to the members that handlers read.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .found import Source

COUNT = 36
"""Events of a source. From so many on `truemem check` holds some back, and learns whether new ids are kept."""
ACCOUNT, REGION = "123456789012", "us-east-1"
_TIME, _EPOCH_S = "2026-01-02T03:04:05Z", 1_767_323_045
_PARAMETER = re.compile(r"\{(\w+)\+?\}|:(\w+)|\*")
_WITH_BODY = ("POST", "PUT", "PATCH", "ANY", "*")

_DETAILS: Mapping[str, Mapping[str, Any]] = {
    "EC2 Instance State-change Notification": {"instance-id": "i-0123456789abcdef0", "state": "running"},
    "Object Created": {"bucket": {"name": "example-bucket"}, "object": {"key": "folder/object.json", "size": 1024}},
}
"""By the detail-type of AWS's own events."""
_OF_ITS_OWN = {"messageId", "MessageId", "requestId", "eventID", "id", "SequenceNumber", "sequenceNumber"}
"""Members whose value no two events share."""

Event = dict[str, Any]


def events_for(sources: Sequence[Source]) -> list[object]:
    """COUNT events, of each source in turn; `{}` alone where no source is known."""
    known = [each for each in sources if each.kind in SAMPLES]
    if not known:
        return [{}]
    events = [SAMPLES[known[n % len(known)].kind](n + 1, known[n % len(known)].details) for n in range(COUNT)]
    return list({json.dumps(each): each for each in events}.values())


def kind_of(event: object) -> str:
    """The kind of source that sends an event of this shape; empty if it is none of AWS's."""
    if not isinstance(event, Mapping):
        return ""
    records = event.get("Records")
    if isinstance(records, list) and records and isinstance(records[0], Mapping):
        name = str(records[0].get("eventSource", records[0].get("EventSource", ""))).removeprefix("aws:")
        return next((kind for kind in SAMPLES if kind.lower() == name), "")
    if "detail-type" in event:
        return "Schedule" if event["detail-type"] == "Scheduled Event" else "EventBridgeRule"
    context = event.get("requestContext")
    if isinstance(context, Mapping):
        return "ALB" if "elb" in context else "HttpApi" if "routeKey" in event else "Api"
    return ""


FAMILY = {"FunctionUrl": "HttpApi", "CloudWatchEvent": "EventBridgeRule", "ScheduleV2": "Schedule"}
"""Kinds whose events have the shape of another's."""


def fits(event: object, sources: Sequence[Source]) -> bool:
    """True if one of these sources sends events of this shape, or none is known."""
    kinds = {FAMILY.get(each.kind, each.kind) for each in sources if each.kind in SAMPLES}
    return not kinds or kind_of(event) in kinds


def varied(events: Sequence[object]) -> list[object]:
    """COUNT events that are these in turn, each with ids of its own."""
    made = [_with_ids(events[n % len(events)], n) for n in range(COUNT)]
    return [json.loads(text) for text in dict.fromkeys(json.dumps(each) for each in made)]


def _with_ids(value: Any, n: int) -> Any:
    if isinstance(value, Mapping):
        return {
            name: f"{each}-{n}" if name in _OF_ITS_OWN and isinstance(each, str) and n else _with_ids(each, n)
            for name, each in value.items()
        }
    return [_with_ids(each, n) for each in value] if isinstance(value, list) else value


def as_lines(events: Sequence[object]) -> str:
    """The file of these events: JSON, one on each line."""
    return "".join(f"{json.dumps(each, ensure_ascii=False)}\n" for each in events)


def _uuid(n: int) -> str:
    return f"00000000-0000-4000-8000-{n:012d}"


def _item(n: int) -> Event:
    """What a message carries: nothing says what the function wants."""
    return {"id": f"id-{n}", "name": f"name {n}", "quantity": n}


def _request(n: int, details: Mapping[str, str]) -> tuple[str, str, str, dict[str, str], str | None]:
    """Method, the path with and without its parameters, those, and the body."""
    asked, resource = details.get("method", "get").upper(), details.get("path", "/")
    method = "POST" if asked in ("ANY", "*", "$DEFAULT") else asked
    names = [found[1] or found[2] or "proxy" for found in _PARAMETER.finditer(resource)]
    parameters = dict.fromkeys(names, f"id-{n}")
    path = _PARAMETER.sub(f"id-{n}", resource)
    return method, resource, path, parameters, json.dumps(_item(n)) if asked in _WITH_BODY else None


def _headers(body: str | None) -> dict[str, str]:
    kind = {"content-type": "application/json"} if body else {}
    return {"accept": "*/*", **kind, "host": "example.com", "user-agent": "curl/8", "x-forwarded-for": "192.0.2.1"}


def _rest(n: int, details: Mapping[str, str]) -> Event:
    method, resource, path, parameters, body = _request(n, details)
    headers = _headers(body)
    return {
        "resource": resource,
        "path": path,
        "httpMethod": method,
        "headers": headers,
        "multiValueHeaders": {name: [value] for name, value in headers.items()},
        "queryStringParameters": None,
        "multiValueQueryStringParameters": None,
        "pathParameters": parameters or None,
        "stageVariables": None,
        "requestContext": {
            "accountId": ACCOUNT,
            "apiId": "1234567890",
            "httpMethod": method,
            "identity": {"sourceIp": "192.0.2.1", "userAgent": "curl/8"},
            "path": f"/prod{path}",
            "protocol": "HTTP/1.1",
            "requestId": _uuid(n),
            "requestTimeEpoch": _EPOCH_S * 1000 + n,
            "resourcePath": resource,
            "stage": "prod",
        },
        "body": body,
        "isBase64Encoded": False,
    }


def _http(n: int, details: Mapping[str, str]) -> Event:
    method, resource, path, parameters, body = _request(n, details)
    event = {
        "version": "2.0",
        "routeKey": details.get("route", f"{method} {resource}"),
        "rawPath": path,
        "rawQueryString": "",
        "headers": _headers(body),
        "requestContext": {
            "accountId": ACCOUNT,
            "apiId": "1234567890",
            "domainName": "example.com",
            "http": {
                "method": method, "path": path, "protocol": "HTTP/1.1", "sourceIp": "192.0.2.1", "userAgent": "curl/8",
            },
            "requestId": _uuid(n),
            "routeKey": details.get("route", f"{method} {resource}"),
            "stage": "$default",
            "time": "02/Jan/2026:03:04:05 +0000",
            "timeEpoch": _EPOCH_S * 1000 + n,
        },
        "isBase64Encoded": False,
    }  # fmt: skip
    return event | ({"pathParameters": parameters} if parameters else {}) | ({"body": body} if body else {})


def _url(n: int, details: Mapping[str, str]) -> Event:
    return _http(n, {"method": "any", "path": "/", **details, "route": "$default"})


def _alb(n: int, details: Mapping[str, str]) -> Event:
    method, _, path, _, body = _request(n, details)
    group = f"arn:aws:elasticloadbalancing:{REGION}:{ACCOUNT}:targetgroup/example/0123456789abcdef"
    headers = {**_headers(body), "x-amzn-trace-id": f"Root=1-695736e5-{n:024x}"}
    return {
        "requestContext": {"elb": {"targetGroupArn": group}},
        "httpMethod": method,
        "path": path,
        "queryStringParameters": {},
        "headers": headers,
        "body": body or "",
        "isBase64Encoded": False,
    }


def _sqs(n: int, _: Mapping[str, str]) -> Event:
    record = {
        "messageId": _uuid(n),
        "receiptHandle": f"handle-{n}",
        "body": json.dumps(_item(n)),
        "attributes": {
            "ApproximateReceiveCount": "1",
            "SentTimestamp": str(_EPOCH_S * 1000 + n),
            "SenderId": "AIDAEXAMPLE",
            "ApproximateFirstReceiveTimestamp": str(_EPOCH_S * 1000 + n),
        },
        "messageAttributes": {},
        "md5OfBody": f"{n:032x}",
        "eventSource": "aws:sqs",
        "eventSourceARN": f"arn:aws:sqs:{REGION}:{ACCOUNT}:queue",
        "awsRegion": REGION,
    }
    return {"Records": [record]}


def _sns(n: int, _: Mapping[str, str]) -> Event:
    topic = f"arn:aws:sns:{REGION}:{ACCOUNT}:topic"
    message = {
        "Type": "Notification",
        "MessageId": _uuid(n),
        "TopicArn": topic,
        "Subject": f"subject {n}",
        "Message": json.dumps(_item(n)),
        "Timestamp": _TIME,
        "MessageAttributes": {},
    }
    subscription = f"{topic}:{_uuid(0)}"
    return {
        "Records": [
            {"EventVersion": "1.0", "EventSubscriptionArn": subscription, "EventSource": "aws:sns", "Sns": message}
        ]
    }


def _s3(n: int, details: Mapping[str, str]) -> Event:
    bucket = details.get("bucket", "example-bucket")
    record = {
        "eventVersion": "2.1",
        "eventSource": "aws:s3",
        "awsRegion": REGION,
        "eventTime": _TIME,
        "eventName": "ObjectCreated:Put",
        "userIdentity": {"principalId": "EXAMPLE"},
        "requestParameters": {"sourceIPAddress": "192.0.2.1"},
        "responseElements": {"x-amz-request-id": f"{n:016X}"},
        "s3": {
            "s3SchemaVersion": "1.0",
            "bucket": {"name": bucket, "arn": f"arn:aws:s3:::{bucket}"},
            "object": {"key": f"folder/object-{n}.json", "size": 1024, "eTag": f"{n:032x}", "sequencer": f"{n:018X}"},
        },
    }
    return {"Records": [record]}


def _dynamodb(n: int, _: Mapping[str, str]) -> Event:
    record = {
        "eventID": f"{n:032x}",
        "eventName": "INSERT",
        "eventVersion": "1.1",
        "eventSource": "aws:dynamodb",
        "awsRegion": REGION,
        "dynamodb": {
            "ApproximateCreationDateTime": _EPOCH_S,
            "Keys": {"id": {"S": f"id-{n}"}},
            "NewImage": {"id": {"S": f"id-{n}"}, "name": {"S": f"name {n}"}, "quantity": {"N": str(n)}},
            "SequenceNumber": f"{n:021d}",
            "SizeBytes": 64,
            "StreamViewType": "NEW_AND_OLD_IMAGES",
        },
        "eventSourceARN": f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/table/stream/2026-01-02T03:04:05.000",
    }
    return {"Records": [record]}


def _kinesis(n: int, _: Mapping[str, str]) -> Event:
    record = {
        "kinesis": {
            "kinesisSchemaVersion": "1.0",
            "partitionKey": f"id-{n}",
            "sequenceNumber": f"{n:056d}",
            "data": base64.b64encode(json.dumps(_item(n)).encode()).decode(),
            "approximateArrivalTimestamp": float(_EPOCH_S),
        },
        "eventSource": "aws:kinesis",
        "eventVersion": "1.0",
        "eventID": f"shardId-000000000000:{n:056d}",
        "eventName": "aws:kinesis:record",
        "invokeIdentityArn": f"arn:aws:iam::{ACCOUNT}:role/role",
        "awsRegion": REGION,
        "eventSourceARN": f"arn:aws:kinesis:{REGION}:{ACCOUNT}:stream/stream",
    }
    return {"Records": [record]}


def _eventbridge(n: int, details: Mapping[str, str]) -> Event:
    return {
        "version": "0",
        "id": _uuid(n),
        "detail-type": details.get("detail-type", "Example"),
        "source": details.get("source", "example"),
        "account": ACCOUNT,
        "time": _TIME,
        "region": REGION,
        "resources": [],
        "detail": dict(_DETAILS.get(details.get("detail-type", ""), _item(n))),
    }


def _schedule(n: int, _: Mapping[str, str]) -> Event:
    event = _eventbridge(n, {"detail-type": "Scheduled Event", "source": "aws.events"})
    rule = f"arn:aws:events:{REGION}:{ACCOUNT}:rule/rule"
    return {**event, "resources": [rule], "detail": {}}


SAMPLES: Mapping[str, Callable[[int, Mapping[str, str]], Event]] = {
    "Api": _rest,
    "HttpApi": _http,
    "FunctionUrl": _url,
    "ALB": _alb,
    "SQS": _sqs,
    "SNS": _sns,
    "S3": _s3,
    "DynamoDB": _dynamodb,
    "Kinesis": _kinesis,
    "EventBridgeRule": _eventbridge,
    "CloudWatchEvent": _eventbridge,
    "Schedule": _schedule,
    "ScheduleV2": _schedule,
}
"""By SAM's name of an event source."""
