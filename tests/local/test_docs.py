"""docs/local-lambda.md and docs/layer.md: their options, their example, and every public name."""

import re
import shutil
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from _pytest.fixtures import FixtureFunctionDefinition
from truemem_workbench import local

from tests.attach.pages import DOCS, block

from .conftest import APP

API = (DOCS / "layer.md").read_text().partition("\n## Python API\n")[2]


def test_the_example_of_the_api_runs_beside_an_app(tmp_path: Path) -> None:
    shutil.copy(APP, tmp_path)
    command = [sys.executable, "-c", block("layer.md", "api")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"\{'event': \{'n': 1\}.*\} \d+\n", done.stdout)


INTERNAL = re.findall(r"`(\w+)`", re.findall(r"^(.*) are for the scenarios", API, re.MULTILINE)[0])
MEMBERS = {name for name in vars(local.LocalLambda) if not name.startswith("_")} - {*INTERNAL}
PLUGIN = entry_points(group="pytest11")["truemem"].load()
FIXTURES = {name for name, each in vars(PLUGIN).items() if isinstance(each, FixtureFunctionDefinition)}


@pytest.mark.parametrize(
    ("heading", "names"),
    [
        ("`truemem_workbench.local`", set(local.__all__)),
        ("Methods and attributes of `LocalLambda`", MEMBERS),
        ("The pytest plugin", {f"@pytest.mark.{PLUGIN.MARKER.partition('(')[0]}", *FIXTURES}),
    ],
)
def test_every_public_name_is_in_its_table_of_the_api_page(heading: str, names: set[str]) -> None:
    section = re.split(r"^#+ ", API.partition(f"# {heading}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]
    cells = " ".join(re.findall(r"^\| (`.*?) \|", section, re.MULTILINE))  # the first column
    assert set(re.findall(r"`(@?[\w.]+)[^`]*`", cells)) == names
