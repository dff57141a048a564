"""`make faults`, a few of each: nothing harms the function, and nothing is lost in silence."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from faults.__main__ import NAMES, main
from faults.experiments import experiments
from faults.page import PAGE
from faults.result import NotHere
from faults.subject import chosen


@pytest.mark.parametrize("name", NAMES)
def test_as_promised(name: str) -> None:
    (experiment,) = (made for made in experiments(chosen(), quick=True) if made.name == name)
    rows = []
    skipped = []
    for step in experiment.steps:
        try:
            rows += step(lambda: None)
        except NotHere as reason:
            skipped.append(str(reason))
    if not rows:
        pytest.skip("; ".join(skipped))
    assert [broken for row in rows for broken in row.broken] == []


def test_the_command_tells_its_rows_and_leaves_the_page_alone() -> None:
    before = PAGE.read_text()
    done = CliRunner().invoke(main, ["--quick", "--only", "stdout", "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["rows"][0]["fault"] == "standard output is hung up"
    assert PAGE.read_text() == before


def test_the_page_has_a_row_for_each_experiment() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")][2:]
    assert len(rows) >= len(NAMES)
    assert not [row for row in rows if "not as promised" in row]
