"""One log in every form that people have: a table of writers, each from the events of a log to the bytes of a file.

The log is that of 300 invocations: full lines, short ones, and shared ones; between them the platform's own lines, as
text and as JSON, and the function's.
"""

import base64
import csv
import gzip
import io
import json
import subprocess
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from truemem_workbench.printed.wrapped import compact

from tests.report.profiled import growth_line, with_profile
from tests.report.written import BEGIN_MS, life, line, request

GROUP = "/aws/lambda/orders"
TIME = "2026-11-21T12:00:00.123000+00:00"
DATE = "2026/11/21/[$LATEST]"


class Message(NamedTuple):
    """An event of a log, and the log stream that it is in."""

    text: str
    stream: str


Writer = Callable[[Sequence[Message]], bytes]
Wrap = Callable[[Message], object]


def mark(number: int, text: str) -> list[str]:
    """The platform's lines of an invocation, with an even number as text, else in JSON."""
    if number % 2 == 0:
        report = "Duration: 99.50 ms\tBilled Duration: 100 ms\tMemory Size: 1024 MB\tMax Memory Used: 200 MB\t"
        return [
            f"START RequestId: {text} Version: $LATEST",
            f"END RequestId: {text}",
            f"REPORT RequestId: {text}\t{report}",
        ]
    record = {"requestId": text, "metrics": {"durationMs": 99.5, "memorySizeMB": 1024, "maxMemoryUsedMB": 200}}
    return [
        json.dumps({"time": TIME, "type": f"platform.{name}", "record": {"status": "success", **record}})
        for name in ("initReport", "runtimeDone", "report")
    ]


def together(name: str, first: int, count: int) -> str:
    """A line of many invocations."""
    numbers = range(first, first + count)
    aggregate = {
        "invocations": count,
        "peakMax": 100.0 + count,
        "peakRequestId": request(name, numbers[-1]),
        "requestId": " ".join(request(name, each) for each in numbers),
        "invocation": list(numbers),
        "startMs": [each * 1000 for each in range(count)],
        "durationMs": [20.5 + each for each in numbers],
    }
    sizes = {"PeakRSS": [101.0 + each for each in range(count)], "CurrentRSS": [90.0] * count}
    return line(name, numbers[-1], aggregate=aggregate, peakLower=None, peakUpper=None, durationMs=None, **sizes)


def ours() -> Iterator[tuple[str, str]]:
    """The sidecar's lines, by environment."""
    heap = {"inUse": 40.5, "held": 2.0, "mapped": 1.0, "blocks": 9000, "gc": [7, 1, 2], "threads": 1}
    holders = {"function": 90.0, "truemem": 5.0, "extensions": {"vendor.agent": 20.5, "0": 1.0}}
    others: dict[str, Any] = {
        "heap": heap,
        "holders": holders,
        "processes": 1,
        "rss": {"anon": 80.0, "file": 10.0, "shmem": 0.0},
    }
    growing = life("a", 200, grows=0.1, errorType='a "quoted"; text, \\ | \u00fc\t{', tenantId="42", **others)
    profiled = with_profile(
        growing, growth_line(100.0, file='lib/"a" b.py', stack=["app.py:1 f, g", "x;y|z"]), gaveUp="cpu"
    )
    yield from (("a", text) for text in profiled)
    short: dict[str, Any] = dict.fromkeys(
        ("functionVersion", "status", "peakLower", "peakUpper", "closedBy", "holders", "level")
    )
    yield from (("b", text) for text in life("b", 60, schema=2, mode="exact", coldStart=True, heap=heap, **short))
    yield from (("c", together("c", first, 10)) for first in range(1, 41, 10))


def messages() -> Iterator[Message]:
    others = [
        '{"message":"hello","requestId":"x","n":[1,2]}',
        "a { brace",
        "",
        "truemem INFO method=vmhwm",
        '"[',
        "x;y\tz",
    ]
    for number, (name, text) in enumerate(ours()):
        around = mark(number, request(name, number)) if number % 3 == 0 else []
        for each in (*around[:2], text, others[number % len(others)], *around[2:]):
            yield Message(compact(json.loads(each)) if each is text else each, DATE + name * 32)


MESSAGES = list(messages())


# --- parts of forms ---------------------------------------------------------------------------------------------------


def each_as(wrap: Wrap, end: str = "\n") -> Writer:
    """JSON for each event."""
    return lambda events: "".join(json.dumps(wrap(each)) + end for each in events).encode()


def one(wrap: Callable[[list[Any]], object], each_in: Wrap, indent: int | None = None) -> Writer:
    """One document for all events."""
    return lambda events: json.dumps(wrap([each_in(each) for each in events]), indent=indent).encode()


def before(prefix: Callable[[Message], str]) -> Writer:
    """A prefix before each event."""
    return lambda events: "".join(f"{prefix(each)}{each.text}\n" for each in events).encode()


def spread(prefix: Callable[[Message], str]) -> Writer:
    """JSON with its members on lines of their own, as `sam logs` and `aws logs tail --format json` print it."""

    def write(events: Sequence[Message]) -> bytes:
        texts = ((prefix(each), parsed(each.text)) for each in events)
        return "".join(f"{a}{b if isinstance(b, str) else json.dumps(b, indent=2)}\n" for a, b in texts).encode()

    return write


def table(header: Sequence[str], row: Callable[[Message], Sequence[str]], **dialect: Any) -> Writer:
    def write(events: Sequence[Message]) -> bytes:
        file = io.StringIO()
        writer = csv.writer(file, **dialect)
        writer.writerows([header, *map(row, events)])
        return file.getvalue().encode()

    return write


def parsed(text: str) -> Any:
    """The message as Lambda's JSON log format has it: an object, where it is one."""
    return json.loads(text) if text.startswith("{") else text


def docker(text: str) -> dict[str, str]:
    return {"log": f"{text}\n", "stream": "stdout", "time": TIME}


def subscription(*messages: str, stream: str = f"{DATE}a") -> str:
    """What CloudWatch Logs sends to Firehose."""
    events = [{"id": "1", "timestamp": BEGIN_MS, "message": message} for message in messages]
    return json.dumps({"messageType": "DATA_MESSAGE", "logGroup": GROUP, "logStream": stream, "logEvents": events})


def telemetry(text: str) -> dict[str, Any]:
    """An event of Lambda's Telemetry API."""
    return {"time": TIME, "type": "extension", "record": text}


def batches(events: Sequence[Message], most: int = 40) -> list[str]:
    """The same events as subscriptions send them: each batch has those of one stream."""
    made: list[list[Message]] = []
    for each in events:
        if not made or len(made[-1]) == most or made[-1][0].stream != each.stream:
            made.append([])
        made[-1].append(each)
    return [subscription(*(each.text for each in batch), stream=batch[0].stream) for batch in made]


def base64_of(data: str | bytes) -> str:
    return base64.b64encode(data.encode() if isinstance(data, str) else data).decode()


def payload(batch: str) -> str:
    return base64_of(gzip.compress(batch.encode()))


def of_batches(wrap: Callable[[list[str]], object], end: str = "\n", together: int = 3) -> Writer:
    """A document for so many batches."""

    def write(events: Sequence[Message]) -> bytes:
        found = batches(events)
        parts = (found[at : at + together] for at in range(0, len(found), together))
        return "".join(json.dumps(wrap(part)) + end for part in parts).encode()

    return write


def kinesis(data: list[str]) -> object:
    """What a function gets that reads a Kinesis stream."""
    records = [{"kinesis": {"partitionKey": "1", "sequenceNumber": "4", "data": each}} for each in data]
    return {"Records": [{"eventSource": "aws:kinesis", "awsRegion": "eu-west-1", **each} for each in records]}


def firehose(data: list[str]) -> object:
    """What a function gets that transforms for Firehose."""
    records = [{"recordId": "4", "approximateArrivalTimestamp": BEGIN_MS, "data": each} for each in data]
    return {"invocationId": "i", "deliveryStreamArn": "arn:aws:firehose:x", "records": records}


def journald(event: Message, *, as_bytes: bool) -> dict[str, Any]:
    """`journalctl -o json`: a text with a character that is not printed is a list of bytes."""
    is_list = as_bytes and event.text.startswith("{")
    message = list(event.text.encode()) if is_list else event.text
    return {"__CURSOR": "s=1", "PRIORITY": "6", "SYSLOG_IDENTIFIER": "lambda", "MESSAGE": message, "_PID": "1"}


def flat(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """The fields that Logs Insights discovers in JSON."""
    if isinstance(value, dict | list) and value:
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        for key, each in pairs:
            yield from flat(each, f"{name}.{key}" if name else str(key))
    else:
        yield name, int(value) if isinstance(value, bool) else value


def discovered(event: Message, kind: Callable[[Any], Any] = str) -> dict[str, Any]:
    fields = dict(flat(document)) if isinstance(document := parsed(event.text), dict) else {}
    return {"@timestamp": TIME, "@logStream": event.stream, **{name: kind(each) for name, each in fields.items()}}


def discovered_table(events: Sequence[Message]) -> bytes:
    rows = list(map(discovered, events))
    file = io.StringIO()
    writer = csv.DictWriter(file, list(dict.fromkeys(name for row in rows for name in row)), restval="")
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue().encode()


def athena(events: Sequence[Message]) -> bytes:
    """The answer to SELECT text, day FROM truemem_log, as Athena leaves it in S3: each cell in quotes."""
    return table(["text", "day"], lambda each: [each.text, "2026/11/21"], quoting=csv.QUOTE_ALL)(events)


def athena_rows(cells: list[Any]) -> object:
    """`aws athena get-query-results`."""
    rows = [{"Data": [{"VarCharValue": each}]} for each in ["text", *cells]]
    return {"ResultSet": {"Rows": rows, "ResultSetMetadata": {"ColumnInfo": [{"Name": "text"}]}}}


def loki(rows: list[Any], **more: str) -> object:
    result = [{"stream": {"job": "x"}, "values": rows}]
    return {**more, "data": {"resultType": "streams", "result": result}}


def yaml(events: Sequence[Message]) -> bytes:
    """`aws logs filter-log-events --output yaml`, whose texts are between single quotes."""
    quoted = ("'" + each.text.replace("'", "''") + "'" for each in events)
    return ("events:\n" + "".join(f"- message: {each}\n  timestamp: 1\n" for each in quoted)).encode()


def in_zip(events: Sequence[Message]) -> bytes:
    """Two files, and what macOS puts beside them."""
    half, file = len(events) // 2, io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("logs/one.log", plain(events[:half]))
        archive.writestr("__MACOSX/logs/._one.log", b"\0\5\x16\7" * 20)
        archive.writestr("logs/one.json", in_a_list(events[half:]))
    return file.getvalue()


def in_tar(events: Sequence[Message]) -> bytes:
    half, file = len(events) // 2, io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as archive:
        for name, content in (("a.log", plain(events[:half])), ("b.log.gz", gzip.compress(plain(events[half:])))):
            member = tarfile.TarInfo(f"./logs/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return file.getvalue()


def zstd(events: Sequence[Message]) -> bytes:
    return subprocess.run(["zstd", "-q"], input=plain(events), capture_output=True, check=True).stdout


def packed(write: Writer) -> Writer:
    return lambda events: gzip.compress(write(events))


def encoded(write: Writer, encoding: str, mark: str = "") -> Writer:
    """In another encoding, as PowerShell's `>` writes it."""
    return lambda events: (mark + write(events).decode()).encode(encoding)


def text_of(event: Message) -> object:
    return event.text


plain = before(lambda _: "")
in_a_list = one(list, lambda each: {"@timestamp": "2026", "@message": each.text})
console = table(["timestamp", "message"], lambda each: ["1795", each.text])
console_streams = table(["@timestamp", "@message", "@logStream"], lambda each: ["1795", each.text, each.stream])
of_firehose = lambda events: "".join(batches(events)).encode()  # noqa: E731
insights = [
    lambda each: [{"field": "@message", "value": each.text}, {"field": "@logStream", "value": each.stream}],
    lambda each: [{"field": name, "value": value} for name, value in discovered(each).items()],
]

WITH_STREAM: dict[str, Writer] = {
    "aws logs tail": before(lambda each: f"{TIME} {each.stream} "),
    "aws logs tail, json": spread(lambda each: f"{TIME} {each.stream} "),
    "sam logs": spread(lambda each: f"{each.stream} {TIME} "),
    "sam logs, json": each_as(lambda each: {"message": each.text, "timestamp": 1, "logStreamName": each.stream}),
    "filter-log-events": one(
        lambda each: {"events": each, "searchedLogStreams": []},
        lambda each: {"logStreamName": each.stream, "timestamp": 1, "message": each.text, "eventId": "3"},
        indent=4,
    ),
    "filter-log-events, text": before(lambda each: f"EVENTS\t39\t1795\t{each.stream}\t"),
    "get-query-results": one(lambda each: {"results": each, "status": "Complete"}, insights[0]),
    "Insights, CSV": console_streams,
    "Insights, JSON": one(list, lambda each: {"@message": parsed(each.text), "@logStream": each.stream}, indent=1),
    "subscription": lambda events: "\n".join(batches(events)).encode(),
    "subscription, as the function gets it": of_batches(lambda one: {"awslogs": {"data": payload(one[0])}}, together=1),
    "subscriptions, over many lines": lambda events: json.dumps(
        [{"awslogs": {"data": payload(each)}} for each in batches(events)], indent=2
    ).encode(),
    "subscription, base64 alone": lambda events: "\n".join(map(payload, batches(events))).encode(),
    "Kinesis event": of_batches(lambda some: kinesis(list(map(payload, some)))),
    "Firehose event": of_batches(lambda some: firehose(list(map(payload, some)))),
    "Firehose event, decoded": of_batches(lambda some: {"records": [json.loads(each) for each in some]}),
    "Firehose": of_firehose,
    "Firehose, packed": packed(of_firehose),
    "Firehose, packed twice": packed(packed(of_firehose)),
    "Firehose, each record packed": lambda events: b"".join(gzip.compress(each.encode()) for each in batches(events)),
    "Firehose, failed": of_batches(lambda one: {"errorCode": "Lambda.X", "rawData": payload(one[0])}, "", together=1),
}
"""Those that have the log stream beside each event."""

DISCOVERED: dict[str, Writer] = {
    "Insights, discovered fields": one(list, lambda each: discovered(each, lambda value: value), indent=1),
    "Insights, discovered fields, a line each": each_as(lambda each: discovered(each, lambda value: value)),
    "Insights, discovered fields, CSV": discovered_table,
    "get-query-results, discovered fields": one(lambda each: {"results": each}, insights[1]),
    "records as a list": one(
        lambda each: [one for one in each if isinstance(one, dict)], lambda each: parsed(each.text)
    ),
    "records without anything between": lambda events: "".join(
        each.text for each in events if each.text.startswith("{")
    ).encode(),
}
"""Those that have JSON only."""

FORMS: dict[str, Writer] = {
    **WITH_STREAM,
    **DISCOVERED,
    "lines": plain,
    "lines, no newline at the end": lambda events: plain(events)[:-1],
    "lines of Windows": lambda events: plain(events).replace(b"\n", b"\r\n"),
    "lines with a mark": encoded(plain, "utf-8-sig"),
    "lines of PowerShell": encoded(plain, "utf-16"),
    "lines of PowerShell, big-endian": encoded(plain, "utf-16-be", "\ufeff"),
    "gzip": packed(plain),
    "zip": in_zip,
    "tar": lambda events: gzip.decompress(in_tar(events)),
    "tar.gz": in_tar,
    "zst": zstd,
    "aws logs tail, short": before(lambda _: "2026-11-21T12:00:00 "),
    "filter-log-events, YAML": yaml,
    "get-log-events": one(
        lambda each: {"events": each, "nextForwardToken": "f/3"}, lambda each: {"timestamp": 1, "message": each.text}
    ),
    "export task": packed(before(lambda _: "2026-11-21T12:00:00.123Z ")),
    "truemem local run --raw": before(lambda _: "  truemem | "),
    "truemem local run, json": each_as(lambda each: {"log": {"source": "extension:truemem", "text": each.text}}),
    "console, CSV": console,
    "console, CSV, UTF-16": encoded(console, "utf-16"),
    "console, CSV with a mark": encoded(console, "utf-8-sig"),
    "console, CSV, semicolons": table(["timestamp", "message"], lambda each: ["1", each.text], delimiter=";"),
    "console, CSV, tabs": table(["timestamp", "message"], lambda each: ["1", each.text], delimiter="\t"),
    "console, CSV, in one column": table(
        ["timestamp,message"], lambda each: [console([each]).decode().split("\n", 1)[1].rstrip("\r\n")], delimiter=";"
    ),
    "console, CSV, its second half": lambda events: console(events).split(b"\n", 1)[1],
    "console, CSV, told how it is": lambda events: b"sep=;\n" + FORMS["console, CSV, semicolons"](events),
    "console, CSV, no column is known": table(["time", "what"], lambda each: ["1795", each.text]),
    "Insights, JSON, text": in_a_list,
    "Athena, CSV": athena,
    "Athena, get-query-results": one(athena_rows, text_of, indent=4),
    "Docker": each_as(lambda each: docker(each.text)),
    "docker compose logs": before(lambda _: "lambda-1  | "),
    "Kubernetes": before(lambda _: "2026-11-21T12:00:00.1Z stdout F "),
    "kubectl logs --prefix": before(lambda _: "[pod/orders-1/lambda] "),
    "Fluent Bit": each_as(lambda each: {"log": each.text, "kubernetes": {"pod_name": "x", "labels": {"a.b/c": "d"}}}),
    "Fluent Bit, standard output": lambda events: "".join(
        f'[0] x: [1795.4, {{"log"=>{json.dumps(each.text)}}}]\n' for each in events
    ).encode(),
    "Fluentd": lambda events: "".join(f"{TIME}\tx\t{json.dumps({'log': each.text})}\n" for each in events).encode(),
    "syslog": before(lambda _: "Nov 21 12:00:00 host lambda[1]: "),
    "syslog, RFC 5424": before(lambda _: '<14>1 2026-11-21T12:00:00Z host lambda 1 - [a@1 b="c"] '),
    "journalctl -o json": each_as(lambda each: journald(each, as_bytes=False)),
    "journalctl -o json, bytes": each_as(lambda each: journald(each, as_bytes=True)),
    "journalctl -o json, bytes, compact": lambda events: each_as(lambda each: journald(each, as_bytes=True))(
        events
    ).replace(b", ", b","),
    "journalctl -o json-pretty": lambda events: "".join(
        json.dumps(journald(each, as_bytes=True), indent=8) + "\n" for each in events
    ).encode(),
    "journalctl -o export": lambda events: "".join(
        f"__CURSOR=s=1\nMESSAGE={each.text}\n\n" for each in events
    ).encode(),
    "Telemetry API": each_as(lambda each: telemetry(each.text)),
    "Telemetry API, a list of objects": one(list, lambda each: telemetry(parsed(each.text))),
    "Datadog, CSV": table(["Date", "Host", "Service", "Message"], lambda each: ["x", "x", "x", each.text]),
    "Datadog, JSON": one(lambda each: {"data": each}, lambda each: {"id": "x", "attributes": {"message": each.text}}),
    "Datadog, JSON, parsed": one(list, lambda each: {"attributes": {"attributes": parsed(each.text), "message": ""}}),
    "logcli": before(lambda _: f'{TIME} {{job="x", region="{{y}}"}} '),
    "logcli, jsonl": each_as(lambda each: {"labels": {"job": "x"}, "line": each.text, "timestamp": TIME}),
    "Loki": one(lambda each: loki(each, status="success"), lambda each: ["1795", each.text]),
    "Loki, over many lines": one(loki, lambda each: ["1795", each.text], indent=2),
    "Grafana, CSV": table(["labels", "Time", "Line", "tsNs"], lambda each: ['{"job":"x"}', "1", each.text, "1"]),
    "Elasticsearch": one(
        lambda each: {"hits": {"hits": each}}, lambda each: {"_id": "1", "_source": {"message": each.text}}
    ),
    "OpenSearch, CSV": table(["_id", "_index", "message"], lambda each: ["1", "x", each.text]),
    "Splunk": each_as(lambda each: {"preview": False, "result": {"_raw": each.text}}),
    "Splunk, CSV": table(["_raw", "_time"], lambda each: [each.text, "1"]),
    "logfmt": lambda events: "".join(
        f"time={TIME} level=info msg={json.dumps(each.text)}\n" for each in events
    ).encode(),
    "JSON strings": each_as(text_of),
    "a member of the function's own line": each_as(lambda each: {"level": "INFO", "msg": each.text, "n": 1}),
    "Docker, of Telemetry API": each_as(lambda each: docker(json.dumps(telemetry(each.text)))),
    "Kinesis event, of Fluent Bit": of_batches(
        lambda some: kinesis([base64_of(json.dumps({"log": one})) for one in some])
    ),
    "wrapped and plain": lambda events: "".join(
        f"{json.dumps(docker(each.text)) if n % 2 else each.text}\n" for n, each in enumerate(events)
    ).encode(),
    "lines and then over many lines": lambda events: plain(events[:400]) + spread(lambda _: "")(events[400:]),
}
