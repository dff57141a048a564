"""The line's schema: what is printed, read and documented is what it says."""

import json
from typing import Any

from msgspec.structs import fields
from truemem.config import Config
from truemem.line_schema import ANY_NAME, FLAG, MEMBERS, METRICS, PROPERTIES, TEXT
from truemem.measure.window import NEVER_NS, Boundary
from truemem.platform.telemetry import REPORT, START
from truemem.records.pending_record import NEXT_REQUEST, DeathReport, Exchange
from truemem.records.record import InvocationRecord, finished, line
from truemem_workbench.printed.line import Line
from truemem_workbench.printed.line import line_of as read_back

from tests.records import PRODUCTION, curve, event, fits, full, line_of

LOGGED = Config({**PRODUCTION, b"AWS_LAMBDA_LOG_LEVEL": b"WARN", b"TRUEMEM_CPU_METRIC": b"on"})


OF_WINGS = ("traceId", "heap", "resources", "growthLines", "growthProfile")
"""Members that a wing adds: its own tests say that they are of the schema's kind."""


def everything() -> InvocationRecord:
    """A record with every property that one can have, also those that exclude each other."""
    times = {"billedDurationMs": 4096, "initDurationMs": 3000.5, "restoreDurationMs": 95.5}
    made = full(event(REPORT, duration_ms=1000.5, mark_mib=9876, status="error", more=times), cpu_ns=987_654_321)
    samples = curve(*((made.time_ms + ms, ms + 1) for ms in range(3)))
    largest: dict[str, object] = {"process": "python3.13", "pid": 9, "rss": 1.5}
    made.follows_init(cold_start=True, suppressed=True, initialization_type="snap-start")
    made.join(event(START, tenantId="t"))
    made.answer = Exchange(5, 6, failed=True)
    made.died(DeathReport("failure", 1024, 12.5, largest, at_ms=made.time_ms), curve=samples)
    made.environment_kills = 1
    drift = {"verdict": "growing", "perInvocationKiB": 8.0, "low": 1.0, "high": 9.0, "perMinuteKiB": 2.0}
    drift["invocationsLeft"] = 12
    added = {name: example(MEMBERS[name]) for name in OF_WINGS}
    finished_one = finished(made, LOGGED, "environment", ["kernel"], drift, 3, added)
    return finished_one.having(recovered=True)


def lines() -> list[dict[str, Any]]:
    """That one's line, and those of others for what it cannot have."""
    exact = full(opening=Boundary(NEVER_NS))
    assert exact.measured is not None
    exact.measured.closed_by = NEXT_REQUEST
    texts = [line(everything(), LOGGED), line(everything().having(mayRepeat=True), LOGGED)]
    shared = full(report=None)
    shared.shared_by = 2
    return [json.loads(text) for text in [*texts, line_of(exact, PRODUCTION), line_of(shared, {})]]


def test_metrics_follow_the_names_then_members_in_schema_order() -> None:
    first, second, *others = PROPERTIES
    for made in lines():
        names = list(made)
        assert names == [name for name in (first, second, *METRICS, *others) if name in names]


def test_every_member_is_printed_and_none_beside_them() -> None:
    """A line of many has one more (tests/batch)."""
    seen = lines()
    assert {name for made in seen for name in made} == set(MEMBERS) - {"aggregate"}
    for made in seen:
        for name, value in made.items():
            assert fits(MEMBERS[name], value), (name, value)


def example(kind: Any) -> Any:
    """A value of that kind."""
    match kind:
        case dict():
            return {name if name != ANY_NAME else "agent": example(inner) for name, inner in kind.items()}
        case list():
            return [example(inner) for inner in kind]
        case _:
            return {TEXT: "x", FLAG: True}.get(kind, 3)


def test_every_field_of_a_read_line_is_a_member() -> None:
    """A line with every member fills every field."""
    filled = read_back({name: 1 if name == "schema" else example(kind) for name, kind in MEMBERS.items()})
    assert {each.encode_name for each in fields(Line)} - {"members"} <= MEMBERS.keys()
    assert [each.name for each in fields(Line) if getattr(filled, each.name) == each.default] == ["aggregate"]
