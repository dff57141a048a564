"""Recorded incidents: from the text of one answer an assistant knows cause, holder or line, and the next command."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from truemem_workbench.judge.finding import GROWS

from testing.incidents import INCIDENTS, Incident
from tests.mcp.conftest import Told, asked

ENDS = {*GROWS} - {"hoarding"}
"""Causes that end an environment."""
STREAM = "2026/11/28/[$LATEST]f839a4fc2a8b7266dd82bf72a2db5ca7"
TIME = "2026-11-28T12:00:00.123000+00:00"
FORMS: dict[str, Callable[[Sequence[str]], str]] = {
    "lines": "\n".join,
    "aws logs tail": lambda lines: "\n".join(f"{TIME} {STREAM} {each}" for each in lines),
    "docker": lambda lines: "\n".join(json.dumps({"log": f"{each}\n", "stream": "stdout"}) for each in lines),
    "filter-log-events": lambda lines: json.dumps({"events": [{"message": each, "timestamp": 1} for each in lines]}),
    "Datadog": lambda lines: json.dumps({"data": [{"attributes": {"message": each}} for each in lines]}),
}
"""The same log, as people save it."""


def lines_of(incident: Incident) -> list[str]:
    return gzip.decompress(incident.file.read_bytes()).decode().splitlines()


@pytest.fixture(params=INCIDENTS, ids=lambda incident: incident.name)
def incident(request: pytest.FixtureRequest) -> Incident:
    made: Incident = request.param
    return made


@pytest.fixture
def log(incident: Incident, tmp_path: Path) -> Path:
    """The log in a form that is drawn anew each time; the file's name says which."""
    form = random.choice([*FORMS])
    path = tmp_path / f"{form}.log"
    path.write_text(FORMS[form](lines_of(incident)))
    return path


def names_the_cause(answer: Told, incident: Incident) -> None:
    assert not answer.is_error, answer.text
    assert incident.said in answer.text, answer.text
    assert answer.next.startswith(incident.next), answer.text


def test_report_names_cause_and_next_command(incident: Incident, log: Path) -> None:
    answer = asked("report", {"files": [str(log)]})
    names_the_cause(answer, incident)
    findings = [each["finding"] for each in answer.document["functions"]]
    assert [each["cause"] for each in findings] == [incident.cause]
    if incident.cause in ENDS:
        first = answer.text.splitlines()[0].partition(": ")[2]
        assert findings[0]["sentence"].startswith(first)
        assert first


def test_doctor_says_the_same(incident: Incident, log: Path) -> None:
    answer = asked("doctor", {"files": [str(log)]})
    assert not answer.is_error, answer.text
    if incident.cause in ENDS:
        assert answer.text.startswith("problem: ")
        assert incident.said in answer.text
        assert answer.next.startswith(incident.next)
