"""Telemetry events: those we use, out of whatever comes."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from truemem.platform.telemetry_events import epoch_ns, parse_batch
from truemem.platform.telemetry_server import BODY_LIMIT
from truemem.support import minijson

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
    assert events[0].time_ns == 1_666_361_105_766_000_000


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


@pytest.mark.parametrize("body", [b"", b"{}", b"[", b"nonsense", b"\xff\xfe", b"[1] [2]", b"[" * 30_000, b'"x"'])
def test_what_is_not_an_array_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"not JSON|not an array"):
        parse_batch(body)


@pytest.mark.parametrize(
    "dense", [b"[]", b'{"":0}', b"[" * 400 + b"]" * 400, b"1", b'{"type":"platform.start","record":{}}']
)
def test_what_takes_many_times_its_size_to_parse_is_refused(dense: bytes) -> None:
    count = BODY_LIMIT // (len(dense) + 1)
    with pytest.raises(ValueError, match="too many parts"):
        parse_batch(b"[" + b",".join([dense] * count) + b"]")


def test_the_densest_delivery_of_the_platform_is_taken() -> None:
    """`platform.start` is its shortest event (facts of the service's schema), here without all that it may lack."""
    start = b'{"time":"2022-10-21T14:05:03.165Z","type":"platform.start","record":{"requestId":"%s"}}' % (b"4" * 36)
    count = BODY_LIMIT // (len(start) + 1)
    events, bad = parse_batch(b"[" + b",".join([start] * count) + b"]")
    assert (len(events), bad) == (count, 0)


@pytest.mark.parametrize(
    "number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999", "1e15", "9" * 400, "true", '"5"']
)
def test_what_is_no_number_that_there_can_be_is_absent(number: str) -> None:
    body = f'[{{"type":"platform.report","record":{{"metrics":{{"durationMs":{number}}}}}}}]'
    (event,), bad = parse_batch(body.encode())
    assert (event.metric("durationMs"), bad) == (None, 0)


READ = {
    "twice: the last one": ('{"requestId":"a","requestId":"b"}', "b"),
    "half a surrogate and a NUL": ('{"requestId":"\\ud800\\u0000\\n"}', "\ud800\0\n"),
    "no more than the platform may send": ('{"requestId":"%s"}' % ("x" * 9999), "x" * 256),
    "wrong types": ('{"requestId":5,"metrics":[1],"status":null}', None),
}


@pytest.mark.parametrize(("record", "read"), READ.values(), ids=READ)
def test_a_member_is_what_the_platform_may_send_or_absent(record: str, read: str | None) -> None:
    (event,), _ = parse_batch(f'[{{"type":"platform.report","time":5,"record":{record}}}]'.encode())
    assert event.request_id == event.text("requestId") == read
    assert (event.text("status"), event.metric("durationMs"), event.time_ns) == (None, None, None)
    assert json.loads(minijson.dumps(event.request_id)) == read


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


# Times

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
moments = st.datetimes(min_value=datetime(1, 1, 1), max_value=datetime(9999, 12, 31), timezones=st.just(UTC))


@given(moments, st.integers(0, 9))
def test_a_time_is_that_of_datetime(moment: datetime, digits: int) -> None:
    """With as many digits of the second's fraction as there may be: ms as the platform prints them, or others."""
    fraction = f"{moment.microsecond * 1000:09}"[:digits]
    text = f"{moment:%Y-%m-%dT%H:%M:%S}".rjust(19, "0") + ("." + fraction if fraction else "") + "Z"
    whole = (moment.replace(microsecond=0) - EPOCH) // timedelta(seconds=1)
    assert epoch_ns(text) == whole * 1_000_000_000 + int(fraction.ljust(9, "0"))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1969-12-31T23:59:59Z", -1),
        ("2024-02-29T12:00:00.000Z", 1_709_208_000),
        ("2100-03-01T00:00:00.000Z", 4_107_542_400),  # no leap year
        ("2000-02-29T23:59:59.000Z", 951_868_799),
        ("2016-12-31T23:59:60.000Z", 1_483_228_800),  # a leap second is the next one
        ("1970-01-01T00:00:00.1234567899Z", 0.123456789),  # no more than nanoseconds
    ],
)
def test_leap_years_the_epoch_and_nanoseconds(text: str, seconds: float) -> None:
    assert epoch_ns(text) == round(seconds * 1_000_000_000)


@pytest.mark.parametrize(
    "value",
    [
        *(None, 5, True, ["2022-10-12T00:03:50.000Z"], "", "Z", "2022-10-12", "2022-10-12T00:03:50.000"),
        *("2022-10-12T00:03:50+00:00", "2022-10-12T00:03:50.000+02:00", "2022-10-12 00:03:50.000Z"),
        *("2022-10-12T00:03:5x.000Z", "2022-10-12T00:03:50?000Z", "2022-10-12T00:03:50.0.0Z"),
        *("22-10-12T00:03:50.000000Z", "-022-10-12T00:03:50.000Z"),
        "2022-10-12T00:03:50.\u0661Z",  # a digit, but not one of ours
    ],
)
def test_anything_else_is_no_time(value: object) -> None:
    assert epoch_ns(value) is None


@given(st.text(max_size=40) | st.text("0123456789-T:.Z", min_size=18, max_size=30) | json_values)
def test_no_value_breaks_it(value: object) -> None:
    assert isinstance(epoch_ns(value), int | None)


@given(moments, st.timedeltas(timedelta(hours=-12), timedelta(hours=12)))
def test_times_are_told_in_utc_alone(moment: datetime, offset: timedelta) -> None:
    text = moment.replace(tzinfo=timezone(offset)).isoformat()
    assert epoch_ns(text) is None
