"""docs/dashboard.md: its commands as typed, and how many functions fit."""

import json
import shlex
from pathlib import Path

import pytest
from truemem_workbench.dashboard.deployment import INLINE_BYTES
from truemem_workbench.dashboard.template import MOST_FUNCTIONS, Watched, template

from tests.attach.pages import blocks
from tests.dashboard.conftest import Account
from tests.report.conftest import Command, put_function

COMMANDS = [line for made in blocks("dashboard.md") if made.name for line in made.text.splitlines()]
"""Of the blocks that have a name; the others are of other tools."""


@pytest.mark.filterwarnings("ignore:Tried to parse", "ignore:Unable to delete")
def test_the_commands_work_as_typed(
    truemem: Command, aws: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("my-function", "other-function", "orders", "payments"):
        put_function(aws, name)
    for command in COMMANDS:
        program, *arguments = shlex.split(command.partition(" > ")[0])
        assert (program, truemem(*arguments).code) == ("truemem", 0), command
    assert (tmp_path / "dashboard.json").is_file()
    stacks = {each["StackName"] for each in aws("cloudformation").describe_stacks()["Stacks"]}
    assert stacks == {"truemem-dashboard", "memory-shop"}


def size(count: int, name_length: int) -> int:
    names = [f"f{number:03}".ljust(name_length, "x") for number in range(count)]
    functions = [Watched(name, 1024, f"/aws/lambda/{name}") for name in names]
    return len(json.dumps(template(functions, "eu-central-1", {}), separators=(",", ":")))


def test_so_many_functions_fit() -> None:
    assert size(15, 40) <= INLINE_BYTES < size(20, 8)
    assert size(MOST_FUNCTIONS, 64) <= 1_000_000  # the most of a template in a bucket
