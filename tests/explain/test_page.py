"""docs/alarm-to-line.md: its commands are ones that can be typed, and its leak is found."""

from __future__ import annotations

import json
import shlex
import tempfile
from pathlib import Path

import pytest
from truemem_workbench.cli.__main__ import cli

from tests.attach.pages import DOCS, blocks
from tests.check.conftest import FUNCTIONS, Check

PAGE = "alarm-to-line.md"
COMMANDS = [line for made in blocks(PAGE) if made.language == "bash" for line in made.text.splitlines()]


def test_it_has_four_steps() -> None:
    assert len(COMMANDS) == 4


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_one_that_can_be_typed(command: str) -> None:
    _, name, *arguments = shlex.split(command)
    found = cli.get_command(cli.make_context("truemem", [name]), name)
    assert found is not None
    found.make_context(name, arguments)


def test_the_leak_of_the_sample_is_found_at_the_line_of_the_page(invoke_check: Check, tmp_path: Path) -> None:
    events = tmp_path / "events.jsonl"
    events.write_text("".join(json.dumps({"model": model}) + "\n" for model in range(4)))
    with tempfile.TemporaryDirectory(prefix="truemem-test-") as models:
        Path(models).chmod(0o777)
        small = {"MODEL_DIR": models, "MODEL_COUNT": 4, "CACHE_SIZE": 4, "MODEL_LAYERS": 2, "INTRA_OP_THREADS": 1}
        variables = [option for name, value in small.items() for option in ("--env", f"{name}={value}")]
        options = ("--events", events, "--invocations", 400, "--max-drift", 4, "--explain", "--json")
        done = invoke_check(f"{FUNCTIONS / 'leaky_sample.py'}:handler", *options, *variables)
    first = json.loads(done.stdout)["explanation"]["lines"][0]
    assert done.exit_code == 1
    assert first["source"] in (DOCS / PAGE).read_text()
    assert f"leaky_sample.py:{first['line']} " in (DOCS / PAGE).read_text()
    assert first["perInvocationKiB"] == pytest.approx(8, rel=0.1)
