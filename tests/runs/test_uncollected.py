"""Passes collect garbage, which Lambda does not: a limit on peaks is held against a run without them as well."""

from dataclasses import replace
from pathlib import Path

import pytest
from truemem_workbench.answer.limits import Limits, find
from truemem_workbench.runs.here import measure
from truemem_workbench.runs.passes import Decision, Plan
from truemem_workbench.target.resolve import resolve

from tests.check.conftest import LEVEL, recorded, run_of


@pytest.mark.parametrize(
    ("name", "code", "has_heap"),
    [("app.js", "exports.h = async () => 1", True), ("app.py", "def h(event, context): return 1", False)],
)
def test_garbage_of_a_heap_is_left_alone_once_more(tmp_path: Path, name: str, code: str, has_heap: bool) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / name).write_text(code)
    asked = Decision()
    asked.asks_peaks = True
    measured = measure(resolve(f"{tmp_path / name}:h"), [{}], Plan(invocations=60, warm_up=0), asked)
    assert len(measured.seen) == 60
    assert len(measured.uncollected) == (60 if has_heap else 0)


def test_a_peak_without_collections_counts() -> None:
    measured = replace(run_of(LEVEL), uncollected=[recorded(7, 50.0, 90.0)])
    checks = {each.name: each for each in find(measured, Limits(peak_mib=80, current_mib=60))}
    assert checks["max-peak"].outcome == "broken"
    assert "in invocation 7 without settling" in checks["max-peak"].sentence
    assert checks["max-current"].outcome == "kept"
