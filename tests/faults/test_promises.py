"""`make faults`, a few of each: nothing harms the function, and nothing is lost in silence."""

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from faults import page
from faults.__main__ import NAMES, main
from faults.experiments import experiments
from faults.page import HEADINGS, PAGE, RESULTS
from faults.result import NotHere, Row
from faults.subject import chosen

QUICK = ("calls", "exact-mode", "injected", "journal")
"""And `stdout` by its command. Each night all of them run, and in full."""


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.nightly) for name in NAMES]
)
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


def test_a_quick_run_is_as_promised_and_writes_nothing() -> None:
    before = RESULTS.read_text(), PAGE.read_text()
    done = CliRunner().invoke(main, ["--quick", "--only", "stdout"])
    assert done.exit_code == 0, done.output
    assert "standard output is hung up" in done.stdout
    assert (RESULTS.read_text(), PAGE.read_text()) == before


def test_no_published_fault_broke_a_promise() -> None:
    assert "not as promised**" not in RESULTS.read_text()
    assert PAGE.read_text().count("tried, all as promised") == len(HEADINGS)


@pytest.mark.parametrize("name", HEADINGS)
def test_a_broken_promise_is_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    files = [Path(shutil.copy(file, tmp_path)) for file in (page.RESULTS, page.PAGE)]
    for attribute, file in zip(("RESULTS", "PAGE"), files, strict=True):
        monkeypatch.setattr(page, attribute, file)
    page.write([Row("it rains", "once", "nothing", "all", ["harm"]), Row("wind", "once", "", "")], chosen(), name)
    results, summed = (file.read_text() for file in files)
    assert "| it rains | once | nothing | all; **1 not as promised** |" in results
    assert "2 kinds tried, 1 not as promised (" in summed
