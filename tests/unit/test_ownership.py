"""A record has one owner: no other module writes its members."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
import truemem
from truemem.records.out_of_memory import DeathReport
from truemem.records.pending_record import PendingRecord
from truemem.records.record import InvocationRecord

ROOT = Path(truemem.__file__).parent
MODULES = sorted([*ROOT.glob("records/*.py"), *ROOT.glob("lifecycle/*.py")])
MEMBERS = {*vars(PendingRecord("", 1, 0)), *InvocationRecord._fields, *DeathReport._fields}
OTHERS = {"window", "request", "self._history", "history"}
"""What is no record, and has members of the same names."""


def foreign_writes(source: str) -> Iterator[str]:
    """Assignments to a record's member that are not made by its own methods."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and node.attr in MEMBERS:
            owner = ast.unparse(node.value)
            if owner not in {"self", *OTHERS}:
                yield f"{owner}.{node.attr}"


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.name)
def test_no_module_writes_a_records_members(module: Path) -> None:
    assert list(foreign_writes(module.read_text())) == []


@pytest.mark.parametrize("line", ["record.peak = 1", "last.window, x = 1, 2", "self.record.environment_kills += 1"])
def test_such_a_write_is_found(line: str) -> None:
    assert len(list(foreign_writes(line))) == 1


def test_a_finished_record_does_not_change() -> None:
    record = InvocationRecord(1, {"PeakRSS": 1.0}, {"method": "vmhwm", "mode": "exact"})
    with pytest.raises(AttributeError):
        record.time_ms = 2  # type: ignore[misc]
    assert record.having(method="sampled").properties == {"method": "sampled", "mode": "exact"}
    assert record.properties["method"] == "vmhwm"
