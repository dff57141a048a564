"""Columns of many lines say what each line says, however it was read."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from truemem_workbench.printed.line import Line, parse_event
from truemem_workbench.printed.parts import COLUMNS, Part, merged
from truemem_workbench.printed.reader import Job, Reader

from tests.fuzz.test_outside import hostile_lines
from tests.report.written import line, log, request

NUMBERS = st.sampled_from([None, 0, 1, 2.5, 80.25])
MEMBERS = st.fixed_dictionaries(
    {"schema": st.sampled_from([1, 2])},
    optional={
        **dict.fromkeys(("PeakRSS", "CurrentRSS", "peakLower", "peakUpper", "baselineRSS", "memoryLimit"), NUMBERS),
        **dict.fromkeys(("processes", "threads", "requestBytes", "responseBytes", "durationMs", "cpuMs"), NUMBERS),
        "OutOfMemory": st.sampled_from([0, 1]),
        "status": st.sampled_from([None, "success", "error"]),
        "functionVersion": st.none(),
        "mode": st.sampled_from([None, "exact"]),
        "closedBy": st.sampled_from([None, "shutdown"]),
        "_aws": st.sampled_from([None, {}, {"Timestamp": 7}]),
        "timestamp": st.sampled_from(["2026-11-21T12:00:00.5Z", "never"]),
        "holders": st.sampled_from([None, {"truemem": 5}, {"function": 9, "extensions": {"a": 1, "b": 2}}]),
        "heap": st.sampled_from([None, {"held": 5, "kept": 7}, {"runtime": "java"}, "x"]),
        "environment": st.sampled_from([None, {"used": 50}]),
        **dict.fromkeys(("raced", "recovered", "mayRepeat", "coldStart", "suppressedInit"), st.just(True)),
        **dict.fromkeys(("handlerError", "reportMissing"), st.booleans()),
    },
)
LINES = MEMBERS.map(lambda members: {**json.loads(line("a", 1)), **members}).map(
    lambda members: json.dumps({name: value for name, value in members.items() if value is not None})
)
LOGS = st.lists(LINES | hostile_lines(), max_size=8)
FIGURES = [
    *("peak_rss", "current_rss", "max_memory_used", "peak_lower", "peak_upper", "opening_rss", "memory_limit"),
    *("duration_ms", "cpu_ms", "request_bytes", "processes", "threads", "shared_by", "time_ms", "invocation"),
    *("sidecar_holds", "function_holds", "out_of_memory", "begins", "raced", "recovered", "may_repeat"),
]


def in_columns(path: Path) -> Part:
    return merged(Reader(Job()).read([path]))


def alike(values: object, others: object) -> bool:
    return bool(np.array_equal(np.asarray(values, float), np.asarray(others, float), equal_nan=True))


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(LOGS)
def test_plain_and_wrapped_lines_have_the_same_columns(tmp_path: Path, texts: Sequence[str]) -> None:
    """The plain ones are decoded as they stand, the others are unwrapped, completed and split before."""
    texts = ["a first line that is none", *texts]
    plain = in_columns(log(tmp_path, texts, "plain"))
    wrapped = in_columns(log(tmp_path, (json.dumps({"log": text}) for text in texts), "wrapped"))

    assert len(plain.rows) == len(wrapped.rows)
    for name, kind in COLUMNS.items():
        if name != "line_bytes":
            compare = alike if kind in (np.float32, np.float64) else np.array_equal
            assert compare(plain.rows[name], wrapped.rows[name]), name
    assert plain.names == wrapped.names
    assert plain.words == wrapped.words


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(LOGS)
def test_a_row_says_what_the_line_says(tmp_path: Path, texts: Sequence[str]) -> None:
    rows = in_columns(log(tmp_path, texts)).rows
    lines: list[Line] = [each for text in texts for each in parse_event(text)]

    assert len(rows) == len(lines)
    for name in FIGURES:
        said = np.array([getattr(each, name) for each in lines], float).astype(COLUMNS[name])
        assert alike(rows[name], said), name
    assert [each.decode().strip() or None for each in rows["request"].tolist()] == [
        each.request_id if each.request_id == request("a", 1) else None for each in lines
    ]
