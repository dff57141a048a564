"""The sidecar's lines, read back."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from truemem_workbench.lines.record import Record, parse_line, parse_lines, record_of

LINE = {
    "_aws": {
        "Timestamp": 1766000000000,
        "CloudWatchMetrics": [
            {
                "Namespace": "truemem",
                "Dimensions": [["FunctionName"]],
                "Metrics": [{"Name": "PeakRSS", "Unit": "Megabytes"}],
            }
        ],
    },
    "FunctionName": "onnx-incident",
    "PeakRSS": 212.31,
    "CurrentRSS": 140.07,
    "MaxMemoryUsed": 391,
    "requestId": "52fdfc07-2182-454f-963f-5f0f9a621d72",
    "environmentId": "2026/11/21/[$LATEST]1",
    "invocation": 7,
    "coldStart": True,
    "status": "success",
    "durationMs": 12.5,
    "baselineRSS": 139.5,
    "peakLower": 200.0,
    "peakUpper": 220.5,
    "method": "vmhwm",
    "closedBy": "next-invoke",
    "mode": "exact",
    "requestBytes": 6291456,
    "responseBytes": 17,
    "raced": True,
    "resetDelayUs": 105,
    "initPeakRSS": 48.0,
    "highWaterMark": 380.1,
    "memoryLimit": 1024,
    "rss": {"anon": 100.0, "file": 40.07, "shmem": 0},
    "holders": {"function": 140.07, "truemem": 9.1, "extensions": {"vendor": 31.2}},
    "level": "INFO",
    "schema": 1,
}


def test_a_full_line_gives_every_field() -> None:
    record = parse_line(json.dumps(LINE))

    assert record == Record(
        request_id="52fdfc07-2182-454f-963f-5f0f9a621d72",
        environment_id="2026/11/21/[$LATEST]1",
        invocation=7,
        cold_start=True,
        status="success",
        duration_ms=12.5,
        peak_rss=212.31,
        peak_lower=200.0,
        peak_upper=220.5,
        current_rss=140.07,
        baseline_rss=139.5,
        max_memory_used=391.0,
        init_peak_rss=48.0,
        high_water_mark=380.1,
        memory_limit=1024.0,
        method="vmhwm",
        closed_by="next-invoke",
        mode="exact",
        request_bytes=6291456.0,
        response_bytes=17.0,
        raced=True,
        reset_delay_us=105.0,
        function_holds=140.07,
        sidecar_holds=9.1,
        extensions_hold={"vendor": 31.2},
        members=LINE,
    )


def test_what_is_absent_is_unknown_and_not_zero() -> None:
    record = parse_line('{"_aws": {}, "PeakRSS": 10}')
    assert record is not None
    assert record.peak_rss == 10.0
    unknown = (record.current_rss, record.max_memory_used, record.method, record.request_id)
    assert unknown == (None, None, None, None)
    assert (record.raced, record.cold_start, record.out_of_memory) == (False, False, False)


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


def test_a_line_without_a_measurement_is_still_a_record() -> None:
    record = parse_line('{"_aws": {}, "requestId": "r", "reportMissing": true, "schema": 1}')
    assert record is not None
    assert record.peak_rss is None
    assert record.report_missing


def test_members_of_another_type_are_unknown() -> None:
    record = parse_line(
        '{"_aws": {}, "PeakRSS": "12", "CurrentRSS": true, "requestId": 5, "holders": [], "method": null}'
    )
    assert record is not None
    unknown = (record.peak_rss, record.current_rss, record.request_id, record.method)
    assert unknown == (None, None, None, None)
    assert record.extensions_hold == {}


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
