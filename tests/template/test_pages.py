"""docs/deploy.md says what template.yaml has: no more, no less."""

from __future__ import annotations

import re
from pathlib import Path

from deploy import application

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "deploy.md").read_text()


def rows(heading: str) -> list[list[str]]:
    """Cells of the table below a heading."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_every_parameter_is_there_with_its_default(template: application.Template) -> None:
    said = {name.strip("`"): default.strip("`") for name, default, _ in rows("Parameters")}
    assert said == {name: str(each["Default"]) for name, each in template["Parameters"].items()}


def test_every_alarm_is_there(template: application.Template) -> None:
    alarms = {name for name, each in template["Resources"].items() if each["Type"] == "AWS::CloudWatch::Alarm"}
    said = {cells[0].strip("`") for cells in rows("The alarms")}
    assert said == {re.sub("^(Incident|Repaired)(X86|Arm)", "", name) for name in alarms}


def test_every_output_that_it_names_is_one(template: application.Template) -> None:
    named = set(re.findall(r"`(DashboardUrl|ModelBucket|TruememLayer\w+)`", PAGE))
    assert len(named) == 4
    assert named <= set(template["Outputs"])
