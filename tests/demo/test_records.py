"""The sidecar's lines, read back."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from truemem_workbench.lines.record import Record, parse_line, parse_lines, record_of

LINE = {
    "_aws": {"Timestamp": 1766000000000, "CloudWatchMetrics": [{"Metrics": [{"Name": "PeakRSS"}]}]},
    "PeakRSS": 212.31,
    "requestId": "52fdfc07-2182-454f-963f-5f0f9a621d72",
    "invocation": 7,
    "peakLower": 200.0,
    "raced": True,
    "rss": {"anon": 100.0, "file": 40.07, "shmem": 0},
    "holders": {"function": 140.07, "truemem": 9.1, "extensions": {"vendor": 31.2}},
    "schema": 1,
}


@pytest.mark.parametrize(
    ("members", "known"),
    [
        ({"PeakRSS": 10}, {"peak_rss": 10.0}),
        ({"requestId": "r", "reportMissing": True, "schema": 1}, {"request_id": "r", "report_missing": True}),
        ({"PeakRSS": "12", "CurrentRSS": True, "requestId": 5, "holders": [], "method": None}, {}),
    ],
    ids=["what is absent", "a line without a measurement", "members of another type"],
)
def test_what_is_not_known_is_unknown_and_not_zero(members: dict[str, object], known: dict[str, Any]) -> None:
    line = {"_aws": {}, **members}
    assert parse_line(json.dumps(line)) == Record(**known, members=line)


@pytest.mark.parametrize(
    ("members", "bounds", "wide"),
    [
        ({"peakLower": 9.5, "peakUpper": 10.5}, (9.5, 10.5), False),
        ({"peakLower": 9.5, "peakUpper": 10.4, "raced": True}, (9.5, 10.4), True),
        ({"peakLower": 9, "peakUpper": 10.5}, (9, 10.5), True),
        ({"peakLower": 9, "memoryLimit": 128}, (9, 128), True),
        ({"peakLower": 9}, (9, math.inf), True),
        ({"peakUpper": 10}, (10, 10), False),
        ({"peakLower": 12, "peakUpper": 11}, (12, 12), False),
        ({"PeakRSS": None, "memoryLimit": 128}, (0, 128), True),
    ],
)
def test_a_peak_lies_between_its_bounds_or_below_the_memory_size(
    members: dict[str, object], bounds: tuple[float, float], wide: bool
) -> None:
    record = record_of({"PeakRSS": 10, **members})
    assert (record.bounds, record.wide) == (bounds, wide)


def test_other_lines_are_no_records() -> None:
    function_emf = '{"_aws": {"CloudWatchMetrics": []}, "ModelLoads": [1.0]}'
    lines = ["", "truemem: no /proc", "[1, 2]", "null", '{"PeakRSS": 1}', function_emf, json.dumps(LINE)]
    assert [record.invocation for record in parse_lines(lines)] == [7]


@given(
    st.dictionaries(
        st.sampled_from([*LINE, "OutOfMemory", "outOfMemory", "recovered"]),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
            lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2),
            max_leaves=4,
        ),
    )
)
def test_no_line_however_odd_raises(members: dict[str, object]) -> None:
    record = parse_line(json.dumps(members))
    assert (record is not None) == ("_aws" in members and bool(members.keys() & {"PeakRSS", "schema"}))
