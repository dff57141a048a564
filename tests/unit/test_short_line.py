"""The short line of an ordinary invocation: the same metrics, and nothing that is known is lost but what it does not
say."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from truemem.config import VCPU_MIB, Config
from truemem.line_schema import MEMBERS, SMALL_BYTES
from truemem.linux.cgroup import MemoryUsage
from truemem.linux.procfs import Status
from truemem.measure.environment_memory import HeldMemory
from truemem.measure.window import NEVER_NS, VMHWM, VMHWM_SUM, VMHWM_THREADS, Boundary, Peak, Window
from truemem.platform.telemetry import REPORT, RUNTIME_DONE, PlatformEvent
from truemem.records.pending_record import NEXT_INVOKE, NEXT_REQUEST, Exchange
from truemem.records.record import InvocationRecord, ShortLines, finished, line
from truemem_workbench.printed.document import completed
from truemem_workbench.printed.line import parse_event

from testing.emf_check import valid_emf
from tests.records import MIB, PRODUCTION, SUCCEEDED, around, event, fits, publisher_of, record, status, succeeded

NOT_SAID = {"holders", "environment", "highWaterMark", "resetDelayUs"}
"""What only full lines say."""
STREAM = "2026/11/21/[$LATEST]82561ce053dd47d190e0c8f5e063e62e"
SLACK_MIB = 0.25
BILLED_MORE = event(REPORT, status="success", duration_ms=2.5, more={"billedDurationMs": 90})
CAN_BE_DAMAGED = sorted(MEMBERS.keys() - {"environmentId", "schema", "aggregate"})

sizes = st.integers(0, 1_000_000)
"""KiB."""
counts = st.integers(1, 400)


@st.composite
def ordinary(draw: Any) -> InvocationRecord:
    """The record of any ordinary invocation, in either mode."""
    anon, file, shmem, over = draw(sizes) + 10, draw(sizes), draw(st.just(0) | sizes), draw(st.just(0) | sizes)
    rest = draw(st.integers(0, 9))
    closing = [Status(0, anon + file + shmem, anon, file, shmem, draw(counts)), *[Status(0, 0, 0, 0, 0, 1)] * rest]
    held = anon + file + shmem
    lower = held + draw(st.just(0) | sizes)
    is_exact = draw(st.booleans())
    opening = Boundary(NEVER_NS) if is_exact else draw(st.sampled_from([Boundary(), around(2 * held)]))
    baseline, cpu_ns, delay_us = draw(st.just(held) | sizes), draw(st.integers(1, 10**12)), draw(counts)
    closed = Window(baseline, opening=opening, closing=closing, reset_delay_us=delay_us, cpu_ns=cpu_ns)
    method = draw(st.sampled_from([VMHWM, VMHWM_SUM, VMHWM_THREADS]))
    made = Peak(draw(st.sampled_from([lower, lower + over])), lower, lower + over, method, draw(st.booleans()))
    memory = HeldMemory(MemoryUsage("meminfo", draw(sizes), None), 4864, {})
    report = succeeded(draw(st.integers(1, 10**6)) / 1000)
    number, closed_by = 17 + 2 * draw(st.integers(0, 10**6)), NEXT_REQUEST if is_exact else NEXT_INVOKE
    pending = record(number, 0, report=report, window=closed, closed_by=closed_by, peak=made, memory=memory)
    pending.mark_reached(lower + over)
    if is_exact:
        request, response = (draw(st.integers(0, 2 * SMALL_BYTES)) for _ in range(2))
        pending.answer = Exchange(request, response, failed=False)
    version, of_cpu = draw(st.sampled_from([b"$LATEST", b"7"])), draw(st.sampled_from([b"on", b"off"]))
    config = Config({**PRODUCTION, b"AWS_LAMBDA_FUNCTION_VERSION": version, b"TRUEMEM_CPU_METRIC": of_cpu})
    environment_id = draw(st.sampled_from([STREAM, "2026/11/21/[7]8256", "1f0c8a72d3b44e6f"]))
    heap = {"inUse": 1.5, "held": 4.25, "mapped": 0.5, "blocks": 38504, "gc": [189, 1, 2], "threads": 1}
    return finished(pending, config, environment_id, added=draw(st.sampled_from([{}, {"heap": heap}])))


def metrics_of(document: Mapping[str, Any]) -> Any:
    """What CloudWatch makes of a line: namespace, time, and of each metric its unit, value and sets of dimensions."""
    (directive,) = document["_aws"]["CloudWatchMetrics"]
    sets = [{name: document[name] for name in names} for names in directive["Dimensions"]]
    made = {each["Name"]: (each["Unit"], document[each["Name"]]) for each in directive["Metrics"]}
    return directive["Namespace"], document["_aws"]["Timestamp"], sets, made


def both(record: InvocationRecord, environ: Mapping[bytes, bytes] = PRODUCTION) -> tuple[Any, Any]:
    """Its full line and its short one."""
    config = Config(environ)
    return valid_emf(line(record, config)), valid_emf(line(record, config, is_short=True))


@given(ordinary(), st.sampled_from([{}, {b"TRUEMEM_DIMENSIONS": b"Stage=prod", b"TRUEMEM_PROPERTIES": b"model=7"}]))
def test_metrics_are_those_of_the_full_line(record: InvocationRecord, chosen: dict[bytes, bytes]) -> None:
    full, short = both(record, PRODUCTION | chosen)
    assert metrics_of(short) == metrics_of(full)
    assert (short.get("Stage"), short.get("model")) == (full.get("Stage"), full.get("model"))


@given(ordinary())
def test_what_it_leaves_out_follows_from_the_rest(record: InvocationRecord) -> None:
    full, short = both(record)
    assert (full.pop("schema"), short["schema"]) == (1, 2)
    found = dict(completed(short))
    found["cpuShare"] = round(found["cpuMs"] / found["durationMs"] / (found["memoryLimit"] / VCPU_MIB), 2)
    assert not NOT_SAID & found.keys()
    assert found.keys() - {"schema"} == full.keys() - NOT_SAID
    for name, kind in MEMBERS.items():
        assert name not in short or fits(kind, short[name]), name
    if "heap" in full:  # its other members are as they were
        found["heap"] |= {name: full["heap"][name] for name in ("gc", "threads")}
    anon = found["rss"].pop("anon")
    assert anon == pytest.approx(full["rss"].pop("anon"), abs=0.021)  # of three rounded figures
    for name in ("peakLower", "peakUpper"):
        assert found.pop(name) == pytest.approx(full.pop(name), abs=SLACK_MIB)
    read, true = ([each.pop(name, 0) for name in ("requestBytes", "responseBytes")] for each in (found, full))
    assert read == ([0, 0] if max(true) < SMALL_BYTES else true)
    assert {name: found[name] for name in full.keys() - NOT_SAID} == {
        name: full[name] for name in full.keys() - NOT_SAID
    }


@given(ordinary())
def test_bounds_that_are_apart_are_on_it(record: InvocationRecord) -> None:
    full, short = both(record)
    if full["peakUpper"] - full["peakLower"] > SLACK_MIB:
        assert (short["peakLower"], short["peakUpper"]) == (full["peakLower"], full["peakUpper"])


@given(ordinary(), st.lists(st.sampled_from(CAN_BE_DAMAGED), max_size=3), st.data())
def test_no_damaged_line_ends_its_reader(record: InvocationRecord, names: list[str], data: st.DataObject) -> None:
    _, short = both(record)
    values = st.none() | st.text() | st.floats() | st.lists(st.integers()) | st.dictionaries(st.text(), st.none())
    for name in names:
        short[name] = data.draw(values)
    assert parse_event(json.dumps(short))


EXACT: dict[str, Any] = {"closed_by": NEXT_REQUEST, "window": {"opening": Boundary(NEVER_NS)}}


def usual(
    number: int = 21,
    *,
    window: Mapping[str, Any] | None = None,
    answer: Exchange | None = None,
    report: PlatformEvent | None = SUCCEEDED,
    concluded: Mapping[str, Any] | None = None,
    first: bool = False,
    **measured: Any,
) -> InvocationRecord:
    """The record of an ordinary invocation. For what else is known of its `window`, was `measured`, or was `concluded`
    see Window, Measured, and `finished`."""
    closed = Window(80_000, **{"closing": [status(90.5, 80.5)], **(window or {})})
    pending = record(number, 0, report=report, **{"window": closed, **measured})
    pending.answer = answer
    if first:
        pending.follows_init(cold_start=True, suppressed=False)
    return finished(pending, Config(PRODUCTION), STREAM, **(concluded or {}))


def takes(*records: InvocationRecord, **settings: bytes) -> list[bool]:
    """Which of them have short lines, after a first one that is full."""
    lines = ShortLines(Config({f"TRUEMEM_{name}".encode(): value for name, value in settings.items()}))
    assert not lines.take(usual(1))
    return [lines.take(each) for each in records]


def test_full_lines_stand_between_the_short_ones() -> None:
    numbers = range(2, 50)
    short = dict(zip(numbers, takes(*map(usual, numbers)), strict=True))
    assert [number for number, is_short in short.items() if not is_short] == [2, 4, 8, 16, 32, 48]
    assert not any(takes(*map(usual, numbers), DETAIL=b"always"))


def test_a_rise_of_what_others_hold_has_a_full_line() -> None:
    def holding(truemem: float, agent: float) -> InvocationRecord:
        return usual(memory=HeldMemory(None, round(truemem * MIB), {"agent": round(agent * MIB)}))

    assert takes(holding(4.5, 30), holding(4.5, 30.9), holding(5.0, 30.6), holding(4.5, 20), holding(4.5, 31)) == [
        *(False, True, False, True, True)
    ]


def test_the_environments_last_line_is_full(capfd: pytest.CaptureFixture[str]) -> None:
    publisher = publisher_of(PRODUCTION)
    for number in (20, 21, 22):
        publisher.open(record(number, 80.5))
    publisher.flush_all()
    assert [json.loads(text)["schema"] for text in capfd.readouterr().out.splitlines()] == [1, 2, 1]


SIZES = Exchange(9, 9, failed=False)
UNSETTLED = Boundary(NEVER_NS)
UNSETTLED.found_late_kib = 9
OUT_OF_THE_ORDINARY: dict[str, dict[str, Any]] = {
    "an error": {"report": event(REPORT, status="error", duration_ms=2.5)},
    "no word from the platform": {"report": None},
    "no duration": {"report": event(REPORT, status="success")},
    "a missing report": {"report": event(RUNTIME_DONE, status="success", duration_ms=2.5)},
    "a shutdown": {"closed_by": "shutdown"},
    "no exact beginning": {"closed_by": NEXT_REQUEST},
    "no baseline in exact mode": {**EXACT, "answer": SIZES, "window": {"opening": UNSETTLED}},
    "no size of the answer": {**EXACT, "answer": Exchange(9, None, failed=False)},
    "an error that the handler tells of": {**EXACT, "answer": Exchange(9, 9, failed=True)},
    "no upper bound": {"window": {"lost": True}},
    "no lower bound": {"peak": Peak(9, 0, 9, VMHWM, raced=False)},
    "no level": {"window": {"closing": [status(90.5, 0)]}},
    "no peak": {"window": {"closing": ()}},
    "processes that had ended": {"window": {"closing": (), "last": 9, "sampled": 9}},
    "a cold start": {"first": True},
    "a verdict": {"concluded": {"drift": {"verdict": "stable"}}},
    "a loss": {"concluded": {"dropped": 1}},
    "out of memory": {"concluded": {"signals": ["kernel"]}},
    "a profile": {"concluded": {"added": {"growthProfile": {"runtime": "java"}}}},
}


@pytest.mark.parametrize("known", OUT_OF_THE_ORDINARY.values(), ids=OUT_OF_THE_ORDINARY)
def test_out_of_the_ordinary_is_full(known: dict[str, Any]) -> None:
    assert takes(usual(**known), usual()) == [False, True]


def test_a_recovered_record_is_full_and_says_nothing_of_others() -> None:
    assert takes(usual().having(recovered=True, holders={"truemem": "written by the function"}), usual()) == [
        False,
        True,
    ]


def test_exact_mode_and_a_race_are_ordinary() -> None:
    raced = Peak(92_000, 82_000, 99_000, VMHWM, raced=True)
    assert takes(usual(**EXACT, answer=SIZES), usual(peak=raced), usual(report=BILLED_MORE)) == [True] * 3


def test_under_a_log_level_it_keeps_level_and_time() -> None:
    _, short = both(usual(), {b"AWS_LAMBDA_LOG_LEVEL": b"WARN"})
    assert (short["level"], short["timestamp"]) == ("WARN", "2023-11-14T22:13:22.100Z")
    assert "level" not in both(usual())[1]
