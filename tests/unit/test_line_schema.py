"""The line's schema: what is printed, read and documented is what it says."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from truemem.config import Config
from truemem.line_schema import ANY, CLOUDWATCH, FLAG, MEMBERS, METRICS, PROPERTIES, TEXT
from truemem.linux.heap_page import Heap
from truemem.measure.race import NEVER, Boundary
from truemem.measure.resources import Usage
from truemem.records.emf import line
from truemem.records.out_of_memory import DeathReport
from truemem.records.pending_record import NEXT_REQUEST
from truemem.records.record import InvocationRecord, finished
from truemem.records.resource_drift import ResourceDrift
from truemem.records.trace_context import Trace
from truemem_workbench.lines.line_table import with_tables
from truemem_workbench.lines.record import Record, record_of

from tests.printed import printed
from tests.printed import record as ordinary
from tests.unit.test_emf import ENVIRON, full
from tests.unit.test_emf import printed as printed_line

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"


def test_the_page_has_the_tables_that_the_schema_makes_and_metrics_have_units_of_cloudwatch() -> None:
    """If not: make line-table."""
    page = PAGE.read_text()
    assert with_tables(page) == page
    assert set(METRICS.values()) <= CLOUDWATCH.keys()


LOGGED = Config({**ENVIRON, b"AWS_LAMBDA_LOG_LEVEL": b"WARN"})


def everything() -> InvocationRecord:
    """A record with every property that one can have, also those that exclude each other."""
    record = full()
    assert record.window is not None
    record.suppressed_init, record.initialization_type, record.tenant_id, record.shared_by = True, "snap-start", "t", 2
    record.traced(Trace("5759e988bd862e3fe1be46a994272793", "53995c3f42cd8ad8"))
    record.request_bytes, record.response_bytes, record.handler_failed = 5, 6, True
    record.heap = Heap(1, 2, 3, [700, 10, 10], 4, "mallinfo", blocks=5)
    record.environment_kills = 1
    for ms in range(3):
        record.window.curve.see((record.time_ms + ms) * 1_000_000, 1000 * (ms + 1))
    largest: dict[str, object] = {"process": "python3.13", "pid": 9, "rss": 1.5}
    record.died(DeathReport("failure", 1024, 12.5, largest, at_ms=record.time_ms))
    record.report_came = False
    drift = {"verdict": "growing", "perInvocationKiB": 8.0, "low": 1.0, "high": 9.0, "perMinuteKiB": 2.0}
    drift["invocationsLeft"] = 12
    usage = Usage((400, 500), 5, 6, {"function": 5, "agent": 1}, 7, 2, 1, 8)
    resources = ResourceDrift().members(usage, always=True)
    made = finished(record, LOGGED, "environment", ["kernel"], drift, 3, resources)
    return made.having(recovered=True)


def lines() -> list[dict[str, Any]]:
    """That one's line, and those of others for what it cannot have."""
    exact = full()
    assert exact.window is not None
    exact.window.opening, exact.closed_by = Boundary(NEVER), NEXT_REQUEST
    texts = [line(everything(), LOGGED), line(everything().having(mayRepeat=True), LOGGED)]
    return [json.loads(text) for text in [*texts, printed_line(exact, ENVIRON)]]


def test_the_metrics_stand_after_the_names_and_all_other_members_in_the_schemas_order() -> None:
    first, second, *others = PROPERTIES
    for made in lines():
        names = list(made)
        assert names == [name for name in (first, second, *METRICS, *others) if name in names]


def test_every_member_is_printed_and_none_beside_them(capfd: pytest.CaptureFixture[str]) -> None:
    (together,) = printed(capfd, [ordinary(1, 90, raced=True), ordinary(2, 90)], {b"TRUEMEM_AGGREGATE": b"60"})
    seen = [*lines(), json.loads(together)]
    assert {name for made in seen for name in made} == set(MEMBERS)
    for made in seen:
        for name, value in made.items():
            several = "aggregate" in made and name in METRICS
            assert fits([MEMBERS[name]] if several else MEMBERS[name], value), (name, value)


def fits(kind: Any, value: Any) -> bool:
    """Is the value of that kind? Of an object any member may be absent."""
    match kind:
        case dict():
            return all(fits(kind[name] if name in kind else kind[ANY], inner) for name, inner in value.items())
        case [[*pair]]:
            return all(fits(one, inner) for each in value for one, inner in zip(pair, each, strict=True))
        case [one]:
            return all(fits(one, inner) for inner in value)
        case _:
            return isinstance(value, {TEXT: str, FLAG: bool}.get(kind, int | float))


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
    record, empty = record_of({name: example(kind) for name, kind in MEMBERS.items()}), Record()
    assert [each.name for each in fields(Record) if getattr(record, each.name) == getattr(empty, each.name)] == []
