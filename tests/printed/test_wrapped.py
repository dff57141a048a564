"""Lines in other JSON: none is lost, and one that cannot be read is counted."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from truemem.line_schema import SCHEMA
from truemem_workbench.printed import log_files
from truemem_workbench.printed.line import read
from truemem_workbench.printed.parts import merged
from truemem_workbench.printed.reader import Job, Reader
from truemem_workbench.printed.wrapped import Unread

from tests.report.conftest import Command
from tests.report.forms import docker, subscription, telemetry
from tests.report.written import life, line, log, request

Wrap = Callable[[str], str]

WRAPS: dict[str, Wrap] = {
    "nothing": str,
    "Docker": lambda text: json.dumps(docker(text)),
    "Telemetry API": lambda text: json.dumps(telemetry(text)),
    "subscription": subscription,
    "logcli": lambda text: json.dumps({"labels": {"job": "x"}, "line": text, "timestamp": "1"}, indent=None),
    "Loki": lambda text: json.dumps({"data": {"result": [{"stream": {}, "values": [["1795", text]]}]}}),
    "Insights": lambda text: json.dumps([{"@timestamp": "1", "@message": text}]),
    "get-query-results": lambda text: json.dumps({"results": [[{"field": "@message", "value": text}]]}),
    "any other name": lambda text: json.dumps({"a": [{"b c": text}]}),
    "an object": lambda text: json.dumps({"message": json.loads(text)}) if text.startswith("{") else json.dumps([text]),
    "logfmt": lambda text: f"level=info msg={json.dumps(text)}",
    "a prefix": lambda text: f'2026-11-21T12:00:00Z {{job="x"}} {text}',
}
NOISE = ["START RequestId: 1", "", '{"level":"INFO","message":"a { b"}', "{", "}{", '{"a', "[INFO] x", '{"b": [1, 2]}']


@st.composite
def wrapped_logs(draw: st.DrawFn) -> tuple[int, str]:
    """The number of lines, and a log that has each of them in some wrappers, and other lines between them."""
    texts = [line("a", number) for number in range(1, draw(st.integers(1, 6)) + 1)]
    count = len(texts)
    together = draw(st.lists(st.sampled_from([*WRAPS]), max_size=3))
    content = ""
    for text in texts:
        wrapped = text
        for name in draw(st.lists(st.sampled_from([*WRAPS]), max_size=3)) or together:
            wrapped = WRAPS[name](wrapped)
        content += wrapped + draw(st.sampled_from(["\n", "\n", "\r\n", "", " "]))
        if content.endswith("\n"):
            content += "".join(f"{each}\n" for each in draw(st.lists(st.sampled_from(NOISE), max_size=2)))
    return count, content


def in_columns(path: Path, by: str | None = None) -> tuple[int, Unread]:
    reader = Reader(Job(by=by))
    merged(reader.read([path]))
    return reader.loaded.lines, reader.loaded.unread


def one_by_one(path: Path) -> tuple[int, Unread]:
    unread = Unread()
    return len(list(read([path], unread=unread))), unread


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(wrapped_logs())
def test_no_line_is_lost_in_any_wrappers(tmp_path: Path, made: tuple[int, str]) -> None:
    count, content = made
    path = tmp_path / "log"
    path.write_text(content, encoding="utf-8", newline="")

    assert one_by_one(path) == (count, {})
    assert in_columns(path) == (count, {})


DAMAGED: dict[str, tuple[str, str]] = {
    "cut off at its end": (line("a", 9)[:300], "cut_off"),
    "cut off at its beginning": (line("a", 9)[-300:], "cut_off"),
    "of a newer schema": (line("a", 9, schema=SCHEMA + 1), "newer_schema"),
    "without a schema": (line("a", 9, schema=None), "no_schema"),
    "without an environment id": (line("a", 9, environmentId=None), "no_environment_id"),
}


@pytest.mark.parametrize("wrap", ["nothing", "subscription", "a prefix"])
@pytest.mark.parametrize("damaged", DAMAGED)
def test_what_is_not_read_is_counted(damaged: str, wrap: str, tmp_path: Path) -> None:
    text, reason = DAMAGED[damaged]
    lines = [line("a", 1), text, line("a", 2)]
    path = log(tmp_path, map(WRAPS[wrap], lines))

    assert in_columns(path) == one_by_one(path) == (2, {reason: 1})


@pytest.mark.parametrize("end", ["\n", ""])
def test_a_wrapper_that_is_cut_off_is_counted(end: str, tmp_path: Path) -> None:
    path = tmp_path / "log"
    whole = subscription(line("a", 1), line("a", 2))
    path.write_text(whole[: len(whole) * 9 // 10] + end + whole)

    assert in_columns(path) == (3, {"cut_off": 1})  # the first line is there twice
    assert one_by_one(path) == (2, {"cut_off": 1})


def test_every_command_says_what_is_not_read(truemem: Command, tmp_path: Path) -> None:
    path = log(tmp_path, [*life("a", 3), *(text for text, _ in DAMAGED.values()), DAMAGED["of a newer schema"][0]])
    page = tmp_path / "page.html"
    said = "not read: 2 lines cut off or damaged, 2 of a newer schema, 1 without a schema, 1 without an environment id"

    assert said in truemem("report", path).out.splitlines()[0]
    assert truemem("report", path, "--json").document["unread"] == {
        "cut_off": 2,
        "left_out": 0,
        "newer_schema": 2,
        "no_schema": 1,
        "no_environment_id": 1,
    }
    assert said[1:] in truemem("doctor", path).out
    assert said in truemem("page", path, "--output", page).err
    assert said in page.read_text()


def test_what_journalctl_leaves_out_is_counted(truemem: Command, tmp_path: Path) -> None:
    path = log(tmp_path, ['{"__CURSOR":"s=1","MESSAGE":null,"_PID":"1"}', line("a", 1)])

    assert in_columns(path) == one_by_one(path) == (1, {"left_out": 1})
    assert "not read: 1 line left out by journalctl (try --all)" in truemem("report", path).out


@pytest.mark.parametrize("text", ['{"environmentId":"prod","FunctionName":"x"}', "PeakRSS", '{"schema":1}'])
def test_the_functions_own_lines_are_not_taken_for_ours(text: str, tmp_path: Path) -> None:
    assert in_columns(log(tmp_path, [text, line("a", 1)])) == (1, {})


@pytest.mark.parametrize("wrap", ["Docker", "subscription", "Insights", "a prefix"])
def test_by_reads_wrapped_lines_of_the_function(wrap: str, truemem: Command, tmp_path: Path) -> None:
    own = json.dumps({"модель": "large", "message": "scored", "requestId": request("a", 1)})
    text_format = f'2026-11-21T12:00:00Z {request("a", 2)} INFO {{"модель":"small"}}'
    path = log(tmp_path, map(WRAPS[wrap], [line("a", 1), own, line("a", 2), text_format]))

    parts = truemem("report", path, "--by", "модель", "--json").document["parts"]
    assert {part["value"]: part["peaks"]["invocations"] for part in parts} == {"large": 1, "small": 1}


def without_line_breaks(texts: Iterable[str]) -> str:
    return "".join(map(subscription, texts))


def a_list(texts: Iterable[str]) -> str:
    return json.dumps([{"@message": text} for text in texts])


def one_object(texts: Iterable[str]) -> str:
    return json.dumps({"events": [{"message": text, "timestamp": 1} for text in texts], "nextToken": "x"})


def plain_lines_and_a_long_one(texts: Iterable[str]) -> str:
    first, second, *others = texts
    return f"{first}\n{without_line_breaks(others)}\n{second}\n"


@pytest.mark.parametrize("form", [without_line_breaks, a_list, one_object, plain_lines_and_a_long_one])
def test_a_file_larger_than_what_is_read_at_once_is_read_whole(
    form: Callable[[Iterable[str]], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_files, "LONGEST", 1 << 20)
    monkeypatch.setattr(log_files, "LARGEST", 3 << 18)
    path = tmp_path / "log"
    path.write_text(form(life("a", 2300)))
    assert path.stat().st_size > 1 << 20

    assert one_by_one(path) == in_columns(path) == (2300, {})
