"""A record as a line: valid EMF, short, and silent about what is not known."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st
from truemem.config import Config
from truemem.line_schema import MEMBERS
from truemem.linux.cgroup import MemoryUsage
from truemem.linux.proc_text import Status
from truemem.measure.environment_memory import HeldMemory
from truemem.measure.race import Boundary, Sample
from truemem.measure.window import Window, peak
from truemem.records.emf import line, rfc3339
from truemem.records.pending_record import PendingRecord
from truemem.records.record import finished
from truemem_workbench.testing.emf_check import valid_emf

ENVIRON = {
    b"AWS_LAMBDA_FUNCTION_NAME": b"model-serving-function-production",
    b"AWS_LAMBDA_FUNCTION_VERSION": b"$LATEST",
    b"AWS_LAMBDA_FUNCTION_MEMORY_SIZE": b"10240",
}


def full() -> PendingRecord:
    record = PendingRecord("8476a536-e9f4-11e8-9739-2dfe598c3fcd", 123456, 1_700_000_000_123)
    opening = Boundary()
    opening.samples = [[Sample(1, 9_900_000, 9_900_000, 0, 5_000_000)]]
    window = Window(baseline=5_000_000, before=9_000_000, resets=True, opening=opening)
    window.closing = [Status(9_100_000, 5_100_000, 5_000_000, 99_000, 1_000, 64)]
    record.window, record.peak = window, peak(window)
    record.closed, record.closed_by, window.reset_delay_us = True, "next-invoke", 12345
    record.cold_start, record.init_peak, record.high_water_mark = True, peak(window), 9_100_000
    usage = MemoryUsage("cgroup1", 6_000_000, 9_200_000)
    record.memory = HeldMemory(usage, 6_000, {"cloudwatch_lambda_agent": 20_000})
    record.status, record.error_type, record.duration_ms = "error", "Runtime.ExitError", 123456.789
    record.max_memory_used_mib, record.report_came = 9876, True
    return record


def printed(record: PendingRecord, environ: dict[bytes, bytes], dropped: int = 3) -> str:
    """Its line."""
    config = Config(environ)
    environment = "2026/11/21/[$LATEST]82561ce053dd47d190e0c8f5e063e62e"
    return line(finished(record, config, environment, dropped=dropped), config)


def test_a_full_line_is_valid_emf_below_a_kilobyte_and_a_half_and_a_usual_one_below_one() -> None:
    text = printed(full(), ENVIRON)
    document = valid_emf(text)
    assert set(document) <= set(MEMBERS)
    assert len(text) < 1536
    assert (document["PeakRSS"], document["MaxMemoryUsed"]) == (8886.72, 9876)
    record = full()
    record.cold_start, record.init_peak, record.error_type, record.status = False, None, None, "success"
    assert len(printed(record, ENVIRON, dropped=0)) < 1024


AS_IT_WAS = (
    '{"_aws":{"Timestamp":1700000000123,"CloudWatchMetrics":[{"Namespace":"truemem","Dimensions":[["Funct'
    'ionName"],["FunctionName","Stage"]],"Metrics":[{"Name":"PeakRSS","Unit":"Megabytes"},{"Name":"Curren'
    'tRSS","Unit":"Megabytes"},{"Name":"MaxMemoryUsed","Unit":"Megabytes"}]}]},"Stage":"prod","FunctionNa'
    'me":"model-serving-function-production","PeakRSS":8886.72,"CurrentRSS":4980.47,"MaxMemoryUsed":9876,'
    '"requestId":"8476a536-e9f4-11e8-9739-2dfe598c3fcd","environmentId":"2026/11/21/[$LATEST]82561ce053dd'
    '47d190e0c8f5e063e62e","invocation":123456,"coldStart":true,"functionVersion":"$LATEST","status":"err'
    'or","errorType":"Runtime.ExitError","durationMs":123456.789,"method":"vmhwm","peakLower":8886.72,"pe'
    'akUpper":9667.97,"raced":true,"closedBy":"next-invoke","resetDelayUs":12345,"initPeakRSS":8886.72,"h'
    'ighWaterMark":8886.72,"memoryLimit":10240,"holders":{"function":4980.47,"truemem":5.86,"extensions":'
    '{"cloudwatch_lambda_agent":19.53}},"rss":{"anon":4882.81,"file":96.68,"shmem":0.98},"processes":1,"t'
    'hreads":64,"environment":{"source":"cgroup1","used":5859.38,"peak":8984.38},"dropped":3,"level":"INF'
    'O","schema":1}'
)
"""The line before there were other outputs."""


def test_without_another_output_the_line_is_as_it_was() -> None:
    assert printed(full(), {**ENVIRON, b"TRUEMEM_DIMENSIONS": b"Stage=prod"}) == AS_IT_WAS


def test_a_plain_line_is_the_same_without_metadata_and_with_its_time() -> None:
    document, plain = (json.loads(printed(full(), {**ENVIRON, b"TRUEMEM_OUTPUT": name})) for name in (b"emf", b"json"))
    assert plain.pop("timestamp") == rfc3339(document.pop("_aws")["Timestamp"])
    assert plain == document


def test_unknown_is_absent_and_a_missing_report_is_said() -> None:
    document = valid_emf(printed(PendingRecord("1", 1, 1_700_000_000_123), {}, dropped=0))
    assert document["_aws"]["CloudWatchMetrics"][0]["Metrics"] == []
    for member in ("PeakRSS", "MaxMemoryUsed", "coldStart", "status", "rss", "environment", "raced", "dropped"):
        assert member not in document
    record = full()
    record.report_came = False
    assert valid_emf(printed(record, {}))["reportMissing"] is True


def test_the_users_dimensions_and_properties() -> None:
    chosen = {b"TRUEMEM_DIMENSIONS": b"Stage=prod", b"TRUEMEM_PROPERTIES": b"model=v7"}
    document = valid_emf(printed(full(), ENVIRON | chosen))
    assert document["_aws"]["CloudWatchMetrics"][0]["Dimensions"] == [["FunctionName"], ["FunctionName", "Stage"]]
    assert (document["Stage"], document["model"]) == ("prod", "v7")


def test_the_line_has_its_invocations_time_and_under_a_log_level_filter_level_and_timestamp() -> None:
    document = valid_emf(printed(full(), {b"AWS_LAMBDA_LOG_LEVEL": b"ERROR"}))
    assert document["_aws"]["Timestamp"] == 1_700_000_000_123
    assert (document["level"], document["timestamp"]) == ("ERROR", "2023-11-14T22:13:20.123Z")
    assert rfc3339(0) == "1970-01-01T00:00:00.000Z"


@given(st.text(min_size=1), st.text(), st.integers(0, 2**40), st.floats(allow_nan=False, allow_infinity=False))
def test_whatever_the_platform_says_the_line_is_one_valid_line(
    request_id: str, error: str, mark: int, duration: float
) -> None:
    record = full()
    record.request_id, record.error_type = request_id, error
    record.max_memory_used_mib, record.duration_ms = mark, duration
    text = printed(record, ENVIRON)
    assert "\n" not in text
    valid_emf(text)
