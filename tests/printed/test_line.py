"""One line, decoded: what it says, and nothing that it does not."""

import json
import math
from typing import Any

import pytest
from truemem_workbench.printed.line import NO_MEMBERS, Holders, Line, line_of, parse_event

LINE = {
    "_aws": {"Timestamp": 1766000000000, "CloudWatchMetrics": [{"Metrics": [{"Name": "PeakRSS"}]}]},
    "PeakRSS": 212.31,
    "environmentId": "e",
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
        ({"PeakRSS": 1, "heap": {"used": math.nan}, "holders": {"function": "x", "truemem": 5}}, {"peak_rss": 1.0}),
        ({"requestId": "\ud800", "invocation": 10**400, "raced": {"a": True}}, {"request_id": "?"}),
    ],
    ids=["what is absent", "without a measurement", "of another type", "a part of another type", "no UTF-8, no figure"],
)
def test_what_is_not_known_is_unknown_and_not_zero(members: dict[str, Any], known: dict[str, Any]) -> None:
    document = {"environmentId": "e", "schema": 1, **members}
    line = line_of(document)
    assert line.members == document
    assert line.sidecar_holds == (5 if isinstance(members.get("holders"), dict) else None)
    line.members, line.holders, line.heap = NO_MEMBERS, Holders(), None
    assert line == Line(environment="e", schema=1, **known)


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
    line = line_of({"environmentId": "e", "schema": 1, "PeakRSS": 10, **members})
    assert (line.bounds, line.wide) == (bounds, wide)


def test_other_lines_are_none_of_ours() -> None:
    function_emf = '{"_aws": {"CloudWatchMetrics": []}, "ModelLoads": [1.0]}'
    lines = ["", "truemem: no /proc", "[1, 2]", "null", '{"PeakRSS": 1}', function_emf, json.dumps(LINE)]
    assert [line.invocation for text in lines for line in parse_event(text)] == [7]
