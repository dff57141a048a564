"""docs/local-lambda.md: what it tells to type can be typed."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
from truemem_workbench.cli import local_run
from truemem_workbench.local.running.scenarios import SCENARIOS

from tests.local.conftest import APP

PAGE = (Path(__file__).parents[2] / "docs" / "local-lambda.md").read_text()
COMMANDS = re.findall(r"^truemem local run ([^#\n]*)", PAGE, re.MULTILINE)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_has_options_that_there_are(command: str) -> None:
    function, *options = shlex.split(command)
    context = local_run.run.make_context("run", [function, *options], resilient_parsing=False)
    assert context.params["function"] in ("app.py:handler", "./bootstrap")


def test_the_page_has_commands() -> None:
    assert len(COMMANDS) == 8


def test_every_scenario_is_in_the_table() -> None:
    cells = re.findall(r"^\| (`.*?) \|", PAGE.partition("## Scenarios")[2].partition("\n## ")[0], re.MULTILINE)
    assert [name for cell in cells for name in re.findall(r"`([^`]+)`", cell)] == list(SCENARIOS)


def test_every_option_on_the_page_is_one() -> None:
    options = {option for each in local_run.run.params if isinstance(each, click.Option) for option in each.opts}
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", PAGE)) <= {*options, "--help"}


def test_the_example_without_a_command_line_runs(tmp_path: Path) -> None:
    (example,) = (each for each in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "LocalLambda(" in each)
    shutil.copy(APP, tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", example], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"\{'event': \{'n': 1\}.*\} \d+\n", done.stdout)
