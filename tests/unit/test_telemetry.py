"""Telemetry events: those we use, out of whatever comes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from truemem import minijson
from truemem.telemetry import parse_batch

REPORT: dict[str, Any] = {
    "time": "2022-10-21T14:05:05.766Z",
    "type": "platform.report",
    "record": {
        "requestId": "459921b5",
        "status": "success",
        "metrics": {"durationMs": 2599.4, "billedDurationMs": 2600, "memorySizeMB": 128, "maxMemoryUsedMB": 94},
    },
}


def test_a_report() -> None:
    events, bad = parse_batch(json.dumps([REPORT]).encode())
    assert bad == 0
    assert (events[0].request_id, events[0].text("status")) == ("459921b5", "success")
    assert (events[0].metric("maxMemoryUsedMB"), events[0].metric("absent")) == (94, None)


def test_unknown_types_are_passed_over_and_bad_elements_counted() -> None:
    batch = [
        {"type": "platform.somethingNew", "record": {}},
        {"type": "function", "record": "a line"},
        {"type": "platform.report", "record": "a string, as platform.fault has"},
        {"type": 5},
        "not an event",
        None,
        REPORT,
    ]
    events, bad = parse_batch(json.dumps(batch).encode())
    assert len(events) == 1
    assert bad == 4


@pytest.mark.parametrize("body", [b"", b"{}", b"[", b"nonsense", b"\xff\xfe", b"[1] [2]", b"[" * 100_000, b'"x"'])
def test_what_is_not_an_array_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"not JSON|not an array"):
        parse_batch(body)


def test_members_of_the_wrong_type_are_absent() -> None:
    record = {"requestId": 5, "status": None, "metrics": [1]}
    (event,), _ = parse_batch(json.dumps([{"type": "platform.report", "record": record}]).encode())
    assert (event.request_id, event.text("status"), event.metric("durationMs")) == (None, None, None)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(json_values)
def test_our_json_is_json(value: object) -> None:
    assert minijson.loads(json.dumps(value).encode()) == value
    assert json.loads(minijson.dumps(value)) == value


@given(st.lists(json_values | st.fixed_dictionaries({"type": st.just("platform.report"), "record": json_values})))
def test_no_batch_breaks_the_parser(batch: list[object]) -> None:
    events, bad = parse_batch(json.dumps(batch).encode())
    assert len(events) + bad <= len(batch)
    for event in events:
        event.request_id, event.text("status"), event.metric("durationMs")


@given(st.binary(max_size=200))
def test_anything_is_json_or_a_value_error(body: bytes) -> None:
    try:
        minijson.loads(body)
    except ValueError:
        return
