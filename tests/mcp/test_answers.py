"""The tools that run code, and `lines`: the text of one answer has cause, line, size and the next command."""

from __future__ import annotations

import gzip
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from truemem_workbench.mcp.answer import of_run

from testing.incidents import INCIDENTS, Incident
from tests.mcp.conftest import Asked
from tests.report.written import life, line, log
from tests.triage.logged import life as logged_life
from tests.triage.logged import tail

KEEPS = str(Path(__file__).with_name("functions") / "keeps.py")
TARGET = f"{KEEPS}:handler"


def saved(incident: Incident, folder: Path) -> str:
    path = folder / "orders.log"
    path.write_bytes(gzip.decompress(incident.file.read_bytes()))
    return str(path)


def test_lines_without_a_profile_says_how_to_get_one(asked: Asked, tmp_path: Path) -> None:
    (sockets,) = [each for each in INCIDENTS if each.name == "sockets"]
    answer = asked("lines", {"files": [saved(sockets, tmp_path)]})
    assert answer.is_error
    assert "try truemem attach NAME --lines, and wait\n" in answer.text


ANSWERED = {"response": {"payload": 7}}
FAILED = {"response": {"payload": {"errorType": "KeyError"}, "functionError": "Unhandled"}}


@pytest.mark.parametrize(
    ("answers", "went"),
    [
        ([ANSWERED], "The invocation succeeded."),
        ([ANSWERED] * 3, "All 3 invocations succeeded."),
        ([ANSWERED, FAILED], "1 of 2 invocations failed."),
    ],
)
def test_run_begins_with_how_it_went(answers: Sequence[Mapping[str, Any]], went: str) -> None:
    summary = {"failed": answers.count(FAILED), "finding": {"cause": "undecided"}}
    assert of_run({"lines": answers, "summary": summary}).lines[0] == went


def test_size_says_first_that_memory_grows(asked: Asked) -> None:
    answer = asked("size", {"target": TARGET, "sizes": [128, 256], "invocations": 20, "event": {}})
    assert answer.document["sentences"][0] == "No size is suggested: memory grows, so none is safe for long."
    assert answer.next == "explain"


def test_an_event_is_data_whatever_it_looks_like(asked: Asked) -> None:
    event = {"--help": ["--json"], "large": "x" * 100_000}
    answer = asked("check", {"target": TARGET, "event": event, "invocations": 1, "max_peak": 1})
    assert answer.document["nextMissing"] == ["event"]  # it is not told again
    assert len(answer.text) < 8_000
    assert answer.document["outcome"] == "failed"
    assert "max-peak" in {each["name"] for each in answer.document["limits"]}


def test_report_of_many_functions_begins_with_the_most_urgent(asked: Asked, tmp_path: Path) -> None:
    """It has more than an assistant should read: the document says what is cut, and how to see all of it."""
    well = [line(f"e{number}", 1, FunctionName=f"well{number}") for number in range(100)]
    path = log(tmp_path, [*well, *life("a", grows=1.0, FunctionName="leaks")])
    answer = asked("report", {"files": [str(path)]})
    assert answer.text.startswith("leaks:$LATEST: Leak")
    assert "91 more" in answer.text
    assert "101 functions, 300 invocations: 1 growing (leaks)" in answer.text
    assert answer.next.startswith("truemem attach leaks")
    assert answer.document["actions"][0]["function"] == "leaks"
    assert answer.document["cut"]["functions"].endswith(" of 101")
    assert answer.document["cut"]["all"] == f"truemem report --json -- {path}"


def test_a_log_without_the_sidecar_has_an_answer_too(asked: Asked, tmp_path: Path) -> None:
    path = tmp_path / "orders.log"
    path.write_text(tail(logged_life([600.0])))
    answer = asked("report", {"files": [str(path)]})
    assert answer.text.startswith(f"{path}: out of memory: Memory ran out once")
    assert answer.next == "truemem attach NAME"


def test_without_tmp_it_is_not_said_that_nothing_grows(asked: Asked, tmp_path: Path) -> None:
    """Lines of the local Lambda do not tell of /tmp: files there may be what makes the mark rise."""
    rising = [f"  truemem | {each}" for each in life("a", MaxMemoryUsed=120)]
    rising += [f"  truemem | {line('a', n, MaxMemoryUsed=200)}" for n in range(201, 203)]
    answer = asked("report", {"files": [str(log(tmp_path, rising))]})
    assert "/tmp was not measured" in answer.text
    assert "settled well below" not in answer.text
    assert answer.document["nextCall"]["tool"] == "check"


def test_two_versions_are_compared(asked: Asked, tmp_path: Path) -> None:
    before = life("a", grows=1.0, functionVersion="41")
    path = log(tmp_path, [*before, *life("b", functionVersion="42")])
    answer = asked("report", {"files": [str(path)], "compare": "41:42"})
    assert answer.text.startswith("Version 42 ended the growth of 41.\norders:42: No leak")
    assert answer.next == "done"
