"""Recorded incidents: one answer says cause, holder or line, and what follows. Ten are solved by a literal reader."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from truemem_workbench.judge.finding import GROWS

from testing.cases import ready
from testing.incidents import INCIDENTS, Incident
from testing.installs import Missing
from testing.literal_reader import STORIES, Lost, Story, read
from tests.mcp.conftest import Asked, asking, serving

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


@pytest.mark.parametrize("incident", INCIDENTS, ids=lambda incident: incident.name)
def test_report_and_doctor_name_cause_and_next_command(asked: Asked, incident: Incident, tmp_path: Path) -> None:
    """The log is in a form that is drawn anew each time; the file's name says which."""
    form = random.choice([*FORMS])
    path = tmp_path / f"{form}.log"
    path.write_text(FORMS[form](gzip.decompress(incident.file.read_bytes()).decode().splitlines()))

    report, doctor = (asked(tool, {"files": [str(path)]}) for tool in ("report", "doctor"))
    assert not report.is_error, report.text
    assert incident.said in report.text
    assert report.next.startswith(incident.next), report.text
    findings = [each["finding"] for each in report.document["functions"]]
    assert [each["cause"] for each in findings] == [incident.cause]
    assert not doctor.is_error, doctor.text
    if incident.cause in ENDS:
        first = report.text.splitlines()[0].partition(": ")[2]
        assert first
        assert findings[0]["sentence"].startswith(first)
        assert doctor.text.startswith("problem: ")
        assert incident.said in doctor.text
        assert doctor.next.startswith((incident.next, "report"))


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    "story",
    [pytest.param(each, id=each.case, marks=[pytest.mark.nightly] * each.nightly) for each in STORIES],
)
def test_literal_reader_gets_from_an_incident_to_its_end(story: Story) -> None:
    assert len(STORIES) == 10
    try:
        program = ready(story.of)
    except Missing as missing:
        pytest.skip(str(missing))
    with asking(serving(folder=program.folder)) as ask:
        assert read(story, program, ask).done


def test_literal_reader_is_lost_where_the_line_is_another() -> None:
    (story,) = [each for each in STORIES if each.case == "all_fail"]
    program = ready(story.of)
    with (
        asking(serving(folder=program.folder)) as ask,
        pytest.raises(Lost, match=r"the line is app\.py:1, and not app"),
    ):
        read(replace(story, line="Expects records"), program, ask)
