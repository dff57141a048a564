"""A record as a line: valid EMF, short, and silent about what is not known."""

import json

from hypothesis import given
from hypothesis import strategies as st
from truemem.line_schema import MEMBERS
from truemem.platform.telemetry import REPORT
from truemem.records.pending_record import PendingRecord
from truemem.records.record import rfc3339
from truemem.support.numbers import decimal, hundredths, mib, ms, rounded

from testing.emf_check import valid_emf
from tests.records import PRODUCTION, event, full, line_of


def test_a_full_line_is_below_1_5_KiB_and_a_usual_one_below_1() -> None:
    text = line_of(full(), PRODUCTION)
    document = valid_emf(text)
    assert set(document) <= set(MEMBERS)
    assert len(text) < 1536
    assert (document["PeakRSS"], document["MaxMemoryUsed"]) == (8886.72, 9876)
    record = full(event(REPORT, status="success", duration_ms=123456.789, mark_mib=9876))
    record.cold_start, record.init_peak = False, None
    assert len(line_of(record, PRODUCTION, dropped=0)) < 1024


AS_IT_WAS = (
    '{"_aws":{"Timestamp":1700000000123,"CloudWatchMetrics":[{"Namespace":"truemem","Dimensions":[["Funct'
    'ionName"],["FunctionName","Stage"]],"Metrics":[{"Name":"PeakRSS","Unit":"Megabytes"},{"Name":"Curren'
    'tRSS","Unit":"Megabytes"},{"Name":"MaxMemoryUsed","Unit":"Megabytes"}]}]},"Stage":"prod","FunctionNa'
    'me":"model-serving-function-production","PeakRSS":8886.72,"CurrentRSS":4980.47,"MaxMemoryUsed":9876,'
    '"requestId":"8476a536-e9f4-11e8-9739-2dfe598c3fcd","environmentId":"2026/11/21/[$LATEST]82561ce053dd'
    '47d190e0c8f5e063e62e","invocation":123456,"coldStart":true,"functionVersion":"$LATEST","status":"err'
    'or","errorType":"Runtime.ExitError","durationMs":123456.789,"method":"vmhwm","peakLower":8886.72,"pe'
    'akUpper":9667.97,"raced":true,"closedBy":"next-invoke","resetDelayUs":12345,"initPeakRSS":8886.72,"i'
    'nitRaced":true,"highWaterMark":8886.72,"memoryLimit":10240,"holders":{"function":4980.47,"truemem":5.86,"extensions":'
    '{"cloudwatch_lambda_agent":19.53}},"rss":{"anon":4882.81,"file":96.68,"shmem":0.98},"processes":1,"t'
    'hreads":64,"environment":{"source":"cgroup1","used":5859.38,"peak":8984.38},"dropped":3,"level":"INF'
    'O","schema":1}'
)
"""The line before there were other outputs."""


def test_no_member_changes_its_name_value_or_order() -> None:
    line, was = json.loads(line_of(full(), {**PRODUCTION, b"TRUEMEM_DIMENSIONS": b"Stage=prod"})), json.loads(AS_IT_WAS)
    assert [(name, line.get(name)) for name in line if name in was] == list(was.items())


def test_a_plain_line_has_no_metadata_but_its_time() -> None:
    texts = (line_of(full(), {**PRODUCTION, b"TRUEMEM_OUTPUT": name}) for name in (b"emf", b"json"))
    document, plain = map(json.loads, texts)
    assert plain.pop("timestamp") == rfc3339(document.pop("_aws")["Timestamp"])
    assert plain == document


def test_unknown_is_absent_and_a_missing_report_is_said() -> None:
    document = valid_emf(line_of(PendingRecord("1", 1, 1_700_000_000_123), {}, dropped=0))
    assert document["_aws"]["CloudWatchMetrics"][0]["Metrics"] == []
    for member in ("PeakRSS", "MaxMemoryUsed", "coldStart", "status", "rss", "environment", "raced", "dropped"):
        assert member not in document
    assert valid_emf(line_of(full(report=None), {}))["reportMissing"] is True


def test_the_users_dimensions_and_properties() -> None:
    chosen = {b"TRUEMEM_DIMENSIONS": b"Stage=prod", b"TRUEMEM_PROPERTIES": b"model=v7"}
    document = valid_emf(line_of(full(), PRODUCTION | chosen))
    assert document["_aws"]["CloudWatchMetrics"][0]["Dimensions"] == [["FunctionName"], ["FunctionName", "Stage"]]
    assert (document["Stage"], document["model"]) == ("prod", "v7")


def test_under_a_log_level_filter_it_has_level_and_timestamp() -> None:
    document = valid_emf(line_of(full(), {b"AWS_LAMBDA_LOG_LEVEL": b"ERROR"}))
    assert document["_aws"]["Timestamp"] == 1_700_000_000_123
    assert (document["level"], document["timestamp"]) == ("ERROR", "2023-11-14T22:13:20.123Z")
    assert rfc3339(0) == "1970-01-01T00:00:00.000Z"


@given(st.text(min_size=1), st.text(), st.integers(0, 2**40), st.floats(allow_nan=False, allow_infinity=False))
def test_whatever_the_platform_says_it_is_one_valid_line(
    request_id: str, error: str, mark: int, duration: float
) -> None:
    record = full(event(REPORT, status="error", errorType=error, mark_mib=mark, duration_ms=duration))
    record.request_id = request_id
    text = line_of(record, PRODUCTION)
    assert "\n" not in text
    valid_emf(text)


@given(st.integers(0, 1 << 40) | st.integers(0, 1 << 30).map(lambda steps: 128 * steps))
def test_whole_kib_become_mib_as_round_has_it(kib: int) -> None:
    assert mib(kib) == round(kib / 1024, 2)
    assert decimal(hundredths(kib)) == repr(mib(kib))


@given(st.floats(0, 1e12) | st.integers(0, 1 << 40).map(lambda steps: steps / 200))
def test_text_of_two_decimals_is_that_of_round(value: float) -> None:
    assert rounded(value) == repr(round(value, 2))


@given(st.integers(0, 1 << 50) | st.integers(0, 1 << 40).map(lambda steps: 5000 * steps))
def test_ns_become_ms_as_round_has_it(ns: int) -> None:
    assert ms(ns) == round(ns / 1e6, 2)
