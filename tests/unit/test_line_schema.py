"""The line's schema: what is read, printed and documented is what it says."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

from truemem.line_schema import ANY, CLOUDWATCH, FLAG, MEMBERS, METRICS, PROPERTIES, TEXT
from truemem_workbench.line_table import with_tables
from truemem_workbench.records import Record, record_of

from tests.unit.test_emf import ENVIRON, full, printed

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"


def test_the_page_has_the_tables_that_the_schema_makes() -> None:
    """If not: make line-table."""
    page = PAGE.read_text()
    assert with_tables(page) == page


def test_each_metric_has_a_unit_of_cloudwatch() -> None:
    assert set(METRICS.values()) <= CLOUDWATCH.keys()


def test_metrics_stand_after_the_names_and_all_other_members_in_the_schemas_order() -> None:
    names = list(json.loads(printed(full(), ENVIRON)))
    first, second, *others = PROPERTIES
    assert names == [name for name in (first, second, *METRICS, *others) if name in names]
    assert len(names) > 25


def example(kind: Any) -> Any:
    """A value of that kind."""
    match kind:
        case dict():
            return {name if name != ANY else "agent": example(inner) for name, inner in kind.items()}
        case list():
            return [example(inner) for inner in kind]
        case _:
            return {TEXT: "x", FLAG: True}.get(kind, 3)


def test_every_field_of_a_record_is_read_from_a_member_of_the_schema() -> None:
    """A line with every member fills every field."""
    everything = {name: example(kind) for name, kind in MEMBERS.items()}
    record, empty = record_of(everything), Record()
    assert [each.name for each in fields(Record) if getattr(record, each.name) == getattr(empty, each.name)] == []
