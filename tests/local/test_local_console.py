"""What a function prints and answers, at the terminal of `truemem local run`."""

import json

import pytest
from truemem_workbench.commands.local_console import Console, Few
from truemem_workbench.local.lifecycle.journal import LogLine
from truemem_workbench.local.session import Invocation

HOSTILE = "\x1b[2J\x1b]52;c;eA==\x07\u202e\x9b\ud800"
SHOWN = "\\x1b[2J\\x1b]52;c;eA==\\x07\\u202e\\u009b\\ud800"


@pytest.fixture
def console() -> Console:
    return Console(as_json=False)


def test_a_log_line_is_shown_and_not_obeyed(console: Console, capsys: pytest.CaptureFixture[str]) -> None:
    console.log(LogLine("function", "stdout", f"{HOSTILE}\rsecond\tpart", 0.0))
    console.log(LogLine(f"extension:{HOSTILE}", "stdout", "x", 0.0))

    first, second, third = capsys.readouterr().out.splitlines()
    assert first.endswith(f" | {SHOWN}")
    assert second == "            second part"
    assert third.endswith(" | x")
    assert SHOWN in third


def test_an_answer_is_shown_line_by_line(console: Console, capsys: pytest.CaptureFixture[str]) -> None:
    raw = b'{"a":\n"\x1b[2J"}\n note: all is well'
    console.response(Invocation("1", None, raw, None, 200, "arn"))

    lines = capsys.readouterr().out.splitlines()
    assert [line.partition("| ")[2] or line for line in lines] == [
        '{"a":',
        '            "\\x1b[2J"}',
        "             note: all is well",
    ]


def responses(capsys: pytest.CaptureFixture[str], *said: bytes) -> list[str]:
    """What is printed of these responses; `!` begins one that failed."""
    console = Console(as_json=False, few=Few())
    for raw in said:
        console.response(Invocation("1", None, raw, "Unhandled" if raw.startswith(b"!") else None, 200, "arn"))
    console.last_responses()
    return [line.strip() for line in capsys.readouterr().out.splitlines()]


def test_of_many_responses_the_first_and_the_last_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    numbered = responses(capsys, *(str(number).encode() for number in range(1, 201)))
    assert numbered == [
        *(f"response | {number}" for number in (1, 2, 3)),
        "... | 195 more responses; --responses all prints each",
        *(f"response | {number}" for number in (199, 200)),
    ]
    assert responses(capsys, *[b"1"] * 200) == [
        *["response | 1"] * 3,
        "... | 197 more responses, each the same as one above; --responses all prints each",
    ]
    assert responses(capsys, *[b"1"] * 3) == ["response | 1"] * 3
    assert responses(capsys, b"1", b"2", b"3", b"4") == [f"response | {number}" for number in (1, 2, 3, 4)]


def test_a_failure_among_them_is_printed_and_all_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    printed = responses(capsys, *[b"1"] * 50, *[b"!no"] * 10, *[b"1"] * 50)
    assert printed == [
        *["response | 1"] * 3,
        *["failed | !no"] * 3,
        "... | 104 more responses, each the same as one above, 7 failed with Unhandled; --responses all prints each",
    ]


def test_a_line_of_the_sidecar_stays_json(console: Console, capsys: pytest.CaptureFixture[str]) -> None:
    document = {"schema": 1, "a": "ü \u202e \x7f \x85 \ufeff 日本"}
    console.log(LogLine("extension:truemem", "stdout", json.dumps(document, ensure_ascii=False), 0.0))

    assert json.loads(capsys.readouterr().out.partition("| ")[2]) == document
