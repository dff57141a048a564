"""docs/dashboard.md: its commands as typed, its tables, its figures."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from truemem_workbench.dashboard.alarms import KINDS
from truemem_workbench.dashboard.deployment import INLINE_BYTES
from truemem_workbench.dashboard.template import MOST, PARAMETERS, template
from truemem_workbench.dashboard.watched import Watched
from truemem_workbench.dashboard.widgets import DRAWN_BY_QUERY

from tests.attach.pages import DOCS, blocks
from tests.dashboard.conftest import Account
from tests.report.conftest import Command, put_function

PAGE = "dashboard.md"
TEXT = (DOCS / PAGE).read_text()
COMMANDS = [line for made in blocks(PAGE) if made.name for line in made.text.splitlines()]
"""Of the blocks that have a name; the others are of other tools."""


@pytest.mark.filterwarnings("ignore:Tried to parse", "ignore:Unable to delete")
def test_the_commands_work_as_typed(
    truemem: Command, aws: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("my-function", "other-function", "orders", "payments", "search", "ranking"):
        put_function(aws, name)
    for command in COMMANDS:
        program, *arguments = shlex.split(command.partition(" > ")[0])
        assert (program, truemem(*arguments).code) == ("truemem", 0), command
    assert (tmp_path / "dashboard.json").is_file()
    stacks = {each["StackName"] for each in aws("cloudformation").describe_stacks()["Stacks"]}
    assert stacks == {"truemem-dashboard", "memory-shop", "memory-search"}


def first_cells(heading: str) -> dict[str, str]:
    """First and second cell of each row of the tables below a heading, without code marks."""
    section = TEXT.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    rows = (line.strip("|").split("|") for line in section.splitlines() if line.startswith("| `"))
    return {cells[0].strip(" `"): cells[1].strip(" `") for cells in rows}


def test_every_alarm_and_every_parameter_is_there_with_its_default() -> None:
    defaults = {name: str(each["Default"]) for name, each in PARAMETERS.items()}
    said = first_cells("The alarms")
    assert set(said) == {*KINDS, *defaults}
    assert {name: said[name] for name in defaults} == defaults


def size(count: int, name_length: int) -> int:
    names = [f"f{number:03}".ljust(name_length, "x") for number in range(count)]
    functions = [Watched(name, 1024, f"/aws/lambda/{name}") for name in names]
    return len(json.dumps(template(functions, "eu-central-1", {}), separators=(",", ":")))


def test_so_many_functions_fit() -> None:
    assert "**About 15 functions**" in TEXT
    assert size(15, 40) <= INLINE_BYTES < size(20, 8)
    assert f"**{MOST} functions**" in TEXT
    assert size(MOST, 64) <= 1_000_000  # the most of a template in a bucket
    assert f"takes {INLINE_BYTES:,} bytes" in TEXT
    assert f"more than {DRAWN_BY_QUERY} functions" in TEXT
