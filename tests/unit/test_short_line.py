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
from truemem.records.record import InvocationRecord, ShortLines, line
from truemem_workbench.printed.document import completed
from truemem_workbench.printed.line import parse_event

from testing.emf_check import valid_emf
from tests.records import BEGUN_MS, PRODUCTION, fits, publisher_of, record

NOT_SAID = {"holders", "environment", "highWaterMark", "resetDelayUs"}
"""What only full lines say."""
STREAM = "2026/11/21/[$LATEST]82561ce053dd47d190e0c8f5e063e62e"
SLACK_MIB = 0.25
CAN_BE_DAMAGED = sorted(MEMBERS.keys() - {"environmentId", "schema", "aggregate"})

sizes = st.integers(0, 1_000_000).map(lambda kib: round(kib / 1024, 2))
counts = st.integers(1, 400)


@st.composite
def ordinary(draw: Any) -> InvocationRecord:
    """The record of any ordinary invocation, in either mode."""
    file, shmem, anon, above, below, over = (draw(sizes) for _ in range(6))
    held = round(anon + file + shmem, 2)
    lower = draw(st.sampled_from([held, round(held + below, 2)]))
    upper = draw(st.sampled_from([lower, round(lower + over, 2)]))
    is_exact, duration, cpu = draw(st.booleans()), draw(st.integers(1, 10**6)) / 1000, draw(st.integers(0, 10**6)) / 100
    processes = draw(counts)
    members: dict[str, Any] = {
        "requestId": "8476a536-e9f4-11e8-9739-2dfe598c3fcd",
        "environmentId": draw(st.sampled_from([STREAM, "2026/11/21/[7]8256", "1f0c8a72d3b44e6f"])),
        "invocation": draw(st.integers(1, 10**6)),
        "functionVersion": draw(st.sampled_from(["$LATEST", "7"])),
        "status": "success",
        "durationMs": duration,
        "cpuMs": cpu,
        "cpuShare": round(cpu / duration / (10240 / VCPU_MIB), 2),
        "method": draw(st.sampled_from(["vmhwm", "vmhwm-sum", "vmhwm-threads"])),
        "peakLower": lower,
        "peakUpper": upper,
        "closedBy": "next-request" if is_exact else "next-invoke",
        "resetDelayUs": draw(counts),
        "highWaterMark": round(upper + above, 2),
        "memoryLimit": 10240,
        "holders": {"function": held, "truemem": 4.75},
        "rss": {"anon": anon, "file": file, "shmem": draw(st.sampled_from([shmem]))},
        "processes": processes,
        "threads": draw(st.sampled_from([processes, processes + draw(counts)])),
        "environment": {"source": "meminfo", "used": draw(sizes)},
    }
    if draw(st.booleans()):
        members["heap"] = {"inUse": 1.5, "held": 4.25, "mapped": 0.5, "blocks": 38504, "gc": [189, 1, 2], "threads": 1}
    if is_exact:
        members["mode"] = "exact"
        members["baselineRSS"] = draw(st.sampled_from([held, draw(sizes)]))
        members |= {name: draw(st.integers(0, 2 * SMALL_BYTES)) for name in ("requestBytes", "responseBytes")}
    metrics = {"PeakRSS": draw(st.sampled_from([lower, upper])), "CurrentRSS": held}
    if draw(st.booleans()):
        metrics |= {"MaxMemoryUsed": 9876.0, "CpuTime": cpu}
    return InvocationRecord(BEGUN_MS, metrics, {name: members[name] for name in MEMBERS if name in members})


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


def usual(number: int = 21, **members: Any) -> InvocationRecord:
    """The record of an ordinary invocation. `members` replace its own; with None it has none."""
    known: dict[str, Any] = {
        "requestId": "a",
        "environmentId": STREAM,
        "invocation": number,
        "status": "success",
        "durationMs": 2.5,
        "method": "vmhwm",
        "peakLower": 90.5,
        "peakUpper": 90.5,
        "closedBy": "next-invoke",
        "memoryLimit": 512,
        "holders": {"function": 80.5, "truemem": 4.5},
        "rss": {"anon": 70.5, "file": 10.0, "shmem": 0.0},
        "processes": 1,
        "threads": 1,
        **members,
    }
    metrics = {"PeakRSS": 90.5, "CurrentRSS": 80.5}
    return InvocationRecord(BEGUN_MS, metrics, {name: value for name, value in known.items() if value is not None})


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
        return usual(holders={"function": 80.5, "truemem": truemem, "extensions": {"agent": agent}})

    assert takes(holding(4.5, 30), holding(4.5, 30.9), holding(5.0, 30.6), holding(4.5, 20), holding(4.5, 31)) == [
        *(False, True, False, True, True)
    ]


def test_the_environments_last_line_is_full(capfd: pytest.CaptureFixture[str]) -> None:
    publisher = publisher_of(PRODUCTION)
    for number in (20, 21, 22):
        publisher.open(record(number, 80.5))
    publisher.flush_all()
    assert [json.loads(text)["schema"] for text in capfd.readouterr().out.splitlines()] == [1, 2, 1]


EXACT: dict[str, Any] = {
    "mode": "exact",
    "closedBy": "next-request",
    "baselineRSS": 80.5,
    "requestBytes": 9,
    "responseBytes": 9,
}
OUT_OF_THE_ORDINARY: dict[str, dict[str, Any]] = {
    "an error": {"status": "error"},
    "no word from the platform": {"status": None, "durationMs": None},
    "a shutdown": {"closedBy": "shutdown"},
    "no exact beginning": {"closedBy": "next-request"},
    "no baseline in exact mode": {**EXACT, "baselineRSS": None},
    "no size of the answer": {**EXACT, "responseBytes": None},
    "no upper bound": {"peakUpper": None},
    "no lower bound": {"peakLower": None},
    "processes that had ended": {"rss": None, "processes": None, "threads": None},
    "a missing report": {"reportMissing": True},
    "a cold start": {"coldStart": True},
    "a shared window": {"sharedBy": 2},
    "a verdict": {"drift": {"verdict": "stable"}},
    "a loss": {"dropped": 1},
    "out of memory": {"outOfMemory": {"signals": ["kernel"]}},
    "a recovered record": {"recovered": True, "holders": {"truemem": "written by the function"}},
}


@pytest.mark.parametrize("members", OUT_OF_THE_ORDINARY.values(), ids=OUT_OF_THE_ORDINARY)
def test_out_of_the_ordinary_is_full(members: dict[str, Any]) -> None:
    assert takes(usual(**members), usual()) == [False, True]


def test_exact_mode_and_a_race_are_ordinary() -> None:
    assert takes(usual(**EXACT), usual(raced=True, peakLower=80.5), usual(billedDurationMs=90)) == [True] * 3


@pytest.mark.parametrize("name", ["PeakRSS", "CurrentRSS"])
def test_a_record_without_a_figure_is_full(name: str) -> None:
    made = usual()
    figures = {other: value for other, value in made.metrics.items() if other != name}
    assert takes(made._replace(metrics=figures)) == [False]


def test_under_a_log_level_it_keeps_level_and_time() -> None:
    _, short = both(usual(), {b"AWS_LAMBDA_LOG_LEVEL": b"WARN"})
    assert (short["level"], short["timestamp"]) == ("WARN", "2023-11-14T22:13:20.000Z")
    assert "level" not in both(usual())[1]
