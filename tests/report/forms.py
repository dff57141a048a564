"""One log in every form that people have: three lines of the sidecar, with other lines between."""

import csv
import io
import json
from collections.abc import Callable, Sequence
from typing import Any

from tests.report.written import BEGIN_MS, line

ENVIRONMENTS = [("2026/11/21/[$LATEST]a", 2), ("2026/11/21/[$LATEST]b", 1)]
"""Ids, and their invocations."""
STREAM = "2026/11/21/[$LATEST]8f73da1af051865902f94f95f6c5dbbf"
TIME = "2026-11-21T12:00:00.123000+00:00"
OTHERS = ["START RequestId: 52fdfc07 Version: $LATEST", '{"message":"hello","requestId":"x"}', "a { brace", ""]
MESSAGES = [OTHERS[0], line("a", 1), OTHERS[1], OTHERS[2], line("a", 2), line("b", 1), OTHERS[3]]
OURS = [each for each in MESSAGES if '"schema"' in each]


def spread(prefix: str) -> str:
    """JSON with its members on lines of their own, as `sam logs` and `aws logs tail --format json` print it."""
    texts = [json.dumps(json.loads(each), indent=2) if each.startswith("{") else each for each in MESSAGES]
    return "".join(f"{prefix}{text}\n" for text in texts)


def as_csv(header: Sequence[str]) -> str:
    file = io.StringIO()
    writer = csv.writer(file)
    writer.writerow(header)
    writer.writerows([*["x"] * (len(header) - 1), message] for message in MESSAGES)
    return file.getvalue()


def each_as(wrap: Callable[[str], object], end: str = "\n") -> str:
    """JSON for each message."""
    return "".join(json.dumps(wrap(message)) + end for message in MESSAGES)


def docker(text: str) -> dict[str, str]:
    return {"log": f"{text}\n", "stream": "stdout", "time": TIME}


def subscription(*messages: str) -> str:
    """What CloudWatch Logs sends to Firehose."""
    events = [{"id": "1", "timestamp": BEGIN_MS, "message": message} for message in messages]
    return json.dumps({"messageType": "DATA_MESSAGE", "logGroup": "g", "logStream": STREAM, "logEvents": events})


def telemetry(text: str) -> dict[str, Any]:
    """An event of Lambda's Telemetry API."""
    return {"time": TIME, "type": "extension", "record": text}


def parsed(text: str) -> Any:
    """The message as Lambda's JSON log format has it: an object, where it is one."""
    return json.loads(text) if text.startswith("{") else text


LOKI = {"resultType": "streams", "result": [{"stream": {"job": "x"}, "values": [["1795", each] for each in MESSAGES]}]}

FORMS = {
    "lines": "".join(f"{each}\n" for each in MESSAGES),
    "lines, no newline at the end": "\n".join(MESSAGES[:-1]),
    "lines of Windows": "".join(f"{each}\r\n" for each in MESSAGES),
    "aws logs tail": "".join(f"{TIME} {STREAM} {each}\n" for each in MESSAGES),
    "aws logs tail, short": "".join(f"2026-11-21T12:00:00 {each}\n" for each in MESSAGES),
    "aws logs tail, json": spread(f"{TIME} {STREAM} "),
    "sam logs": spread(f"{STREAM} {TIME} "),
    "truemem local run": "".join(f"  truemem | {each}\n" for each in MESSAGES),
    "truemem local run, json": each_as(lambda text: {"log": {"source": "extension:truemem", "text": text}}),
    "console, CSV": as_csv(["timestamp", "message"]),
    "Insights, CSV": as_csv(["@timestamp", "@message"]),
    "Insights, CSV with a mark": "\ufeff" + as_csv(["@timestamp", "@message"]),
    "Insights, JSON": json.dumps([{"@timestamp": "2026", "@message": each} for each in MESSAGES], indent=1),
    "filter-log-events": json.dumps({"events": [{"message": each, "timestamp": 1} for each in MESSAGES]}, indent=4),
    "get-query-results": json.dumps({"results": [[{"field": "@message", "value": each}] for each in MESSAGES]}),
    "records as a list": json.dumps([json.loads(each) for each in OURS]),
    "records without anything between": "".join(OURS),
    "records over many lines": "\n".join(json.dumps(json.loads(each), indent=4) for each in OURS),
    "Docker": each_as(docker),
    "docker compose logs": "".join(f"lambda-1  | {each}\n" for each in MESSAGES),
    "Telemetry API": each_as(telemetry),
    "Telemetry API, a list of objects": json.dumps([telemetry(parsed(each)) for each in MESSAGES]),
    "Datadog, CSV": as_csv(["Date", "Host", "Service", "Message"]),
    "Datadog, JSON": json.dumps({"data": [{"id": "x", "attributes": {"message": each}} for each in MESSAGES]}),
    "Datadog, JSON, parsed": json.dumps([{"attributes": parsed(each), "message": ""} for each in OURS]),
    "logcli": "".join(f'{TIME} {{job="x", region="{{y}}"}} {each}\n' for each in MESSAGES),
    "logcli, jsonl": each_as(lambda text: {"labels": {"job": "x"}, "line": text, "timestamp": TIME}),
    "Loki": json.dumps({"status": "success", "data": LOKI}),
    "Loki, over many lines": json.dumps({"status": "success", "data": LOKI}, indent=2),
    "subscription": subscription(*MESSAGES) + "\n",
    "Firehose": subscription(*MESSAGES[:4]) + subscription(*MESSAGES[4:]),
    "Firehose, with newlines": subscription(*MESSAGES[:4]) + "\n" + subscription(*MESSAGES[4:]) + "\n",
    "logfmt": "".join(f"time={TIME} level=info msg={json.dumps(each)}\n" for each in MESSAGES),
    "JSON strings": each_as(str),
    "Splunk": each_as(lambda text: {"preview": False, "result": {"_raw": text}}),
    "a member of the function's own line": each_as(lambda text: {"level": "INFO", "msg": text, "n": 1}),
    "Docker, of Telemetry API": each_as(lambda text: docker(json.dumps(telemetry(text)))),
    "wrapped and plain": "".join(f"{json.dumps(docker(each)) if n % 2 else each}\n" for n, each in enumerate(MESSAGES)),
    "plain and then wrapped": "\n".join([*OURS[:2], json.dumps(docker(OURS[2]))]),
    "lines and then over many lines": "\n".join([*OURS[:2], json.dumps(json.loads(OURS[2]), indent=2)]),
}
