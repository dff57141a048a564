"""The skill names only commands and options that there are, and is short enough to be read whole."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import get_args

import click
import pytest
import yaml
from truemem_workbench.commands.__main__ import cli
from truemem_workbench.judge.finding import Cause

TEXT = (Path(__file__).parents[2] / "skills" / "truemem" / "SKILL.md").read_text()
BLOCKS = re.findall(r"^```bash\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
COMMANDS = [
    *(line for block in BLOCKS for line in block.splitlines()),
    *re.findall(r"`(truemem [^`]+)`", TEXT),
]


@pytest.mark.parametrize("line", COMMANDS)
def test_each_command_exists_with_these_options(line: str) -> None:
    program, *words = shlex.split(line)
    assert program == "truemem"
    with click.Context(cli, info_name=program) as context:
        name, command, rest = cli.resolve_command(context, words)
        assert name is not None and command is not None
        command.make_context(name, rest, parent=context)


def test_front_matter_says_what_it_is_for() -> None:
    _, front, body = TEXT.split("---\n", 2)
    said = yaml.safe_load(front)
    assert set(said) == {"name", "description"}
    assert said["name"] == "truemem"
    assert len(said["description"]) <= 1024
    assert len(body.splitlines()) <= 120


def test_every_cause_has_its_row() -> None:
    rows = "".join(re.findall(r"^\| (`.*?) \|", TEXT, re.MULTILINE))
    assert set(re.findall(r"`([\w-]+)`", rows)) == set(get_args(Cause))


def test_the_way_has_every_step() -> None:
    named = {line.split()[1] for line in COMMANDS}
    assert named == {"doctor", "attach", "detach", "report", "lines", "events", "check", "explain", "size"}
