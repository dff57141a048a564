"""Events from a file, and those that functions log, in the forms of their loggers (`truemem events`)."""

import json
import re
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from truemem_workbench.aws.event_log import LeftOut, Logged, event_in, is_event, recorded_events
from truemem_workbench.local import BadInput
from truemem_workbench.target.events import read_events

from tests.report.conftest import Command, put_events
from tests.template import sam

EVENT = {"order": 7, "items": ["a"]}
JSON = json.dumps(EVENT)
START = "START RequestId: 4f6c2c3e-0c4f-4c5b-8ee6-8b1f2f5a8d11 Version: $LATEST\n"


@pytest.mark.parametrize(
    "line",
    [
        f"{JSON}\n",
        f"RECEIVED {JSON}",
        f"[INFO]\t2026-11-24T10:00:00.000Z\t4f6c2c3e\tevent: {JSON}",
        f"2026-11-24T10:00:00.000Z\t4f6c2c3e\tINFO\t{JSON}",
        json.dumps({"level": "INFO", "message": EVENT, "function_request_id": "4f6c2c3e", "cold_start": False}),
        json.dumps({"timestamp": "2026-11-24T10:00:00Z", "level": "INFO", "message": JSON, "requestId": "4f6c2c3e"}),
    ],
    ids=["print", "with a word", "Python's logging", "console.log", "Powertools", "Lambda's JSON format"],
)
def test_an_event_is_found_in_what_a_logger_writes(line: str) -> None:
    assert event_in(line) == EVENT


@pytest.mark.parametrize(
    "line",
    [
        "done",
        "{not json}",
        json.dumps({"_aws": {}, "schema": 1}),
        json.dumps(
            {"FunctionName": "orders", "requestId": "4f6c2c3e", "environmentId": "e", "schema": 1, "timestamp": "t"}
        ),
        json.dumps({"type": "platform.report", "record": {}}),
        json.dumps({"level": "INFO", "message": "done", "requestId": "4f6c2c3e"}),
        json.dumps({"level": "INFO", "message": 7, "requestId": "4f6c2c3e"}),
    ],
)
def test_other_lines_have_none(line: str) -> None:
    assert event_in(line) is None


@given(st.text())
def test_any_line_can_be_read(line: str) -> None:
    assert event_in(line) is None or isinstance(event_in(line), dict)


def test_of_each_invocation_it_is_the_first_event() -> None:
    lines = [
        Logged("one", 1, START),
        Logged("two", 2, START),
        Logged("two", 3, '{"n": 2}'),
        Logged("one", 4, '{"n": 1}'),
        Logged("one", 5, '{"answer": 1}'),
        Logged("one", 6, '{"time": "2026-11-24T10:00:00Z", "type": "platform.start", "record": {}}'),
        Logged("one", 7, '{"n": 3}'),
    ]
    taken = recorded_events(lines, containing='n"')
    assert [(at, event["n"]) for at, event in taken] == [(3, 2), (4, 1), (7, 3)]
    assert list(recorded_events(lines, containing="answer")) == [(5, {"answer": 1})]


SQS = {"Records": [{"messageId": "1", "body": "a", "eventSource": "aws:sqs"}]}


def test_without_a_text_it_is_what_a_source_sends() -> None:
    lines = [
        Logged("one", 1, START),
        Logged("one", 2, '{"level": "INFO", "orders": 3}'),
        Logged("one", 3, json.dumps(SQS)),
        Logged("one", 4, json.dumps({"source": "a", "detail-type": "b", "detail": {}})),
    ]
    left_out = LeftOut()
    assert list(recorded_events(lines, left_out=left_out)) == [(3, SQS)]
    assert left_out == LeftOut(1, {"level": "INFO", "orders": 3})


@pytest.mark.nightly  # installs sam
def test_what_sam_generates_are_events() -> None:
    """Its templates, each value that it would fill in with a word."""
    folder = sam.program().parent.parent
    made = {}
    for path in folder.glob("lib/*/site-packages/samcli/lib/generated_sample_events/events/*/*.json"):
        made[f"{path.parent.name}/{path.name}"] = json.loads(re.sub(r"{{{[^}]*}}}|{{[^}]*}}", "0", path.read_text()))
    assert len(made) > 30
    others = {name.partition("/")[0] for name, event in made.items() if not is_event(event)}
    assert others == {"alexa-smart-home", "batch", "stepfunctions"}  # of two members that anything may have


@pytest.mark.parametrize("text", ['{"level": "INFO"}', '{"Records": []}', '{"Records": [{"id": 1}]}', "{}"])
def test_another_object_is_no_event(text: str) -> None:
    assert not is_event(json.loads(text))


@pytest.fixture
def logged(aws: Callable[[str], Any]) -> str:
    now = int(time.time() * 1000)
    lines = [START, f"RECEIVED {JSON}", "END RequestId: 4f6c2c3e", START, 'RECEIVED {"order": 8}']
    group = "/aws/lambda/orders"
    put_events(aws("logs"), group, "one", [(now - 1000 + number, line) for number, line in enumerate(lines)])
    return group


def test_the_command_writes_what_check_reads(truemem: Command, logged: str, tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    done = truemem("events", "orders", "--containing", "RECEIVED", "--output", path)
    assert (done.code, done.out) == (0, "")
    assert f"2 events of {logged} in {path}" in done.err
    assert read_events(path) == [EVENT, {"order": 8}]
    assert path.stat().st_mode & 0o777 == 0o600  # events may have what only a few should read
    printed = truemem("events", "orders", "--containing", "RECEIVED", "--log-group", logged, "--most", "1")
    assert json.loads(printed.out) == EVENT


def test_events_with_their_times(truemem: Command, logged: str, tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    truemem("events", "orders", "--containing", "RECEIVED", "--times", "--output", path)

    first, second = map(json.loads, path.read_text().splitlines())

    assert first["event"] == EVENT
    begin, end = (datetime.fromisoformat(each["timestamp"]) for each in (first, second))
    assert (end - begin).total_seconds() == pytest.approx(0.003)
    assert abs(begin.timestamp() - time.time()) < 600
    assert read_events(path) == [EVENT, {"order": 8}]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["orders", "--containing", "nothing"], "no event in /aws/lambda/orders since then. Let the function log"),
        (["orders"], '2 JSON objects, which have the shape of no known source. The first: {"order": 7'),
        (["other"], "there is no log group /aws/lambda/other"),
        (["orders", "--since", "soon"], "--since soon is no time"),
        (
            ["orders", "--containing", "order", "--output", "/nowhere/events.jsonl"],
            "cannot write /nowhere/events.jsonl: No such file",
        ),
    ],
)
@pytest.mark.usefixtures("logged")
def test_what_cannot_be_done_is_refused_in_one_line(truemem: Command, arguments: list[str], said: str) -> None:
    assert said in truemem("events", *arguments).refusal


# --- a file -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "events"),
    [
        ('[{"id": 1}, {"id": 2}]', [{"id": 1}, {"id": 2}]),
        ('{"id": 1}\n\n{"id": 2}\n', [{"id": 1}, {"id": 2}]),
        ('{\n  "id": 1\n}', [{"id": 1}]),
        ('"text"', ["text"]),
        ('{"id": 1}', [{"id": 1}]),
    ],
)
def test_an_array_lines_or_a_single_one(tmp_path: Path, text: str, events: list[object]) -> None:
    (tmp_path / "events").write_text(text)
    assert read_events(tmp_path / "events") == events


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"[]", "the array is empty"),
        (b"\n\n", "it is empty"),
        (b'{"id": 1}\n{"id"', "events line 2 is not JSON"),
        (b"\xff\xfe", "it is not text"),
        (None, "No such file or directory"),
    ],
)
def test_a_file_without_events_is_refused_in_one_line(tmp_path: Path, content: bytes | None, said: str) -> None:
    if content is not None:
        (tmp_path / "events").write_bytes(content)
    with pytest.raises(BadInput, match=said) as refused:
        read_events(tmp_path / "events")
    assert "Try " in str(refused.value)
