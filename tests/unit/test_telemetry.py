"""Telemetry: what comes over real sockets, from the platform and from others that find the port; and the events that we
use, out of whatever comes."""

from __future__ import annotations

import json
import os
import resource
import select
import socket
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from truemem.platform.http1 import HEAD_LIMIT
from truemem.platform.telemetry import (
    BODY_LIMIT,
    CONNECTIONS,
    DELIVERIES,
    MOST_PIPELINED,
    TelemetryInbox,
    TelemetryServer,
    epoch_ns,
    members,
    parse_batch,
)
from truemem.support import minijson


class Ear:
    """A listener that always has more."""

    refused = 3

    def __init__(self, *bodies: bytes) -> None:
        self.bodies = list(bodies)

    def ready(self, _descriptor: int) -> list[bytes]:
        """One delivery."""
        return [self.bodies.pop(0)] if self.bodies else []


def inbox(ear: Ear | None, lost: list[int]) -> TelemetryInbox:
    return TelemetryInbox(cast(TelemetryServer, ear), lost.append)


def test_deliveries_are_read_in_their_order() -> None:
    lost: list[int] = []
    made = inbox(Ear(b'[{"type":"platform.start","record":{"requestId":"a"}},5]', b"x", b"[]"), lost)
    made.take([7, 8, 9])
    read = []
    while made.bodies:
        read.append([event.request_id for event in made.read()])
    assert read == [["a"], [], []]
    assert lost == [1, 1, 0]


def test_what_there_is_no_room_for_stays_where_it_is() -> None:
    ear = Ear(*[b"[]"] * (2 * DELIVERIES))
    made = inbox(ear, [])
    made.take([7] * 2 * DELIVERIES)
    assert len(ear.bodies) == DELIVERIES
    made.read()
    made.take([7, 7])
    assert len(ear.bodies) == DELIVERIES - 1


def ready_of(descriptors: list[int], wait_s: float, events: int = select.POLLIN) -> list[int]:
    """By poll(2): in a run of all tests, descriptors are beyond what select(2) takes."""
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, events)
    return [descriptor for descriptor, _ in poll.poll(1000 * wait_s)]


def pump(listener: TelemetryServer, wait_s: float = 0.2) -> list[bytes]:
    """Let the listener do whatever is to do now."""
    bodies = []
    while ready := ready_of(listener.descriptors(), wait_s):
        for descriptor in ready:
            bodies += listener.ready(descriptor)
    return bodies


def connect(listener: TelemetryServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", listener.port), timeout=5)


def post(body: bytes, path: str = "/") -> bytes:
    return b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (path.encode(), len(body), body)


def deliver(listener: TelemetryServer, peer: Peer, body: bytes = b"[1]", path: str = "") -> None:
    """As the platform does."""
    peer.sendall(post(body, path or listener.path))
    assert pump(listener) == [body]
    assert peer.recv(100).startswith(b"HTTP/1.1 200")


Peer = socket.socket
Peers = list[socket.socket]


@pytest.fixture
def listener() -> TelemetryServer:
    return TelemetryServer()


@pytest.fixture
def peer(listener: TelemetryServer) -> Iterator[socket.socket]:
    with connect(listener) as connection:
        yield connection


@pytest.fixture
def flood() -> Iterator[Peers]:
    """Connections of a test, which are closed after it."""
    peers: Peers = []
    yield peers
    for each in peers:
        each.close()


def closed(peer: socket.socket) -> bool:
    """Did the listener close it?"""
    peer.settimeout(0.2)
    try:
        while peer.recv(1000):
            pass
    except TimeoutError:
        return False
    except ConnectionResetError:
        pass
    return True


def test_deliveries_are_answered_in_any_pieces(listener: TelemetryServer, peer: Peer) -> None:
    for body in (b"[1]", b"[2]"):
        deliver(listener, peer, body, path="/")
    data = post(b"[1]") + post(b"[22]")
    peer.sendall(data[:10])
    assert pump(listener) == []
    peer.sendall(data[10:])
    assert pump(listener) == [b"[1]", b"[22]"]


NO_DELIVERY = {
    "garbage": b"\x16\x03\x01 not HTTP" * 2000,
    "2 MiB": post(b"x" * (2 << 20))[: 1 << 16],
    "endless head": b"POST / HTTP/1.1\r\n" + b"X: y\r\n" * (HEAD_LIMIT // 5),
}


@pytest.mark.parametrize("data", NO_DELIVERY.values(), ids=NO_DELIVERY)
def test_what_is_no_delivery_is_refused_and_counted(listener: TelemetryServer, peer: Peer, data: bytes) -> None:
    peer.sendall(data)
    assert pump(listener) == []
    assert peer.recv(100).startswith(b"HTTP/1.1 400")
    assert listener.refused == 1
    assert len(listener.descriptors()) == 1


@pytest.mark.parametrize("missing", [1, 3], ids=["in its body", "after its head"])
def test_a_delivery_cut_off_is_counted(listener: TelemetryServer, peer: Peer, missing: int) -> None:
    peer.sendall(post(b"[1]")[:-missing])
    pump(listener)
    peer.close()
    assert pump(listener) == []
    assert listener.refused == 1


def test_what_is_pushed_out_within_a_delivery_is_counted(listener: TelemetryServer, flood: Peers) -> None:
    for number in range(2 * CONNECTIONS):
        flood.append(connect(listener))
        if number < 3:
            flood[-1].sendall(post(b"[1]")[: -1 - number])
        pump(listener, 0.05)
    assert listener.refused == 3  # who had said nothing has lost nothing


def test_each_listener_has_a_path_of_its_own_of_64_random_bits() -> None:
    paths = {TelemetryServer().path for _ in range(10)}
    assert len(paths) == 10
    assert {(len(path) - 1) * 4 for path in paths} == {64}


def test_the_largest_delivery_of_the_platform_is_taken(listener: TelemetryServer, peer: Peer) -> None:
    body = b"x" * (BODY_LIMIT - 1)
    bodies: list[bytes] = []
    peer.setblocking(False)
    data = memoryview(post(body))
    while data:
        data = data[peer.send(data) :]
        bodies += pump(listener)
    assert bodies == [body]


def test_a_flood_is_bounded_and_the_newest_is_served(listener: TelemetryServer, flood: Peers) -> None:
    for _ in range(CONNECTIONS * 3):
        flood.append(connect(listener))
        pump(listener, 0)
    assert len(listener.descriptors()) == 1 + CONNECTIONS
    flood[-1].sendall(post(b"[1]"))
    assert pump(listener) == [b"[1]"]


def test_once_our_path_is_used_others_are_refused(listener: TelemetryServer) -> None:
    with connect(listener) as stranger, connect(listener) as platform, connect(listener) as late:
        stranger.sendall(post(b"[0]"))
        assert pump(listener) == [b"[0]"]  # AWS's emulator for Managed Instances drops the path
        deliver(listener, platform)
        for peer in stranger, late:
            peer.sendall(post(b"[2]"))
            assert pump(listener) == []
            assert closed(peer)
        deliver(listener, platform)
    assert listener.refused == 2


def test_a_stranger_is_refused_before_his_body_has_come(listener: TelemetryServer, peer: Peer) -> None:
    with connect(listener) as stranger:
        deliver(listener, peer)
        stranger.sendall(b"POST / HTTP/1.1\r\nContent-Length: 500000\r\n\r\n")
        assert pump(listener) == []
        assert closed(stranger)


@pytest.mark.parametrize("how", ["silent", "unfinished", "delivering"])
def test_a_flood_does_not_push_the_platform_out(listener: TelemetryServer, peer: Peer, flood: Peers, how: str) -> None:
    peer.sendall(post(b"[1]", listener.path if how == "delivering" else "/"))
    assert pump(listener) == [b"[1]"]
    for _ in range(CONNECTIONS * 3):
        flood.append(connect(listener))
        if how != "silent":
            flood[-1].sendall(post(b"[9]")[: None if how == "delivering" else -1])
        pump(listener, 0)
    assert pump(listener) == []
    assert not closed(peer)
    peer.sendall(post(b"[1]", listener.path))
    assert pump(listener) == [b"[1]"]


def test_the_platform_goes_last_of_those_that_delivered(listener: TelemetryServer, peer: Peer, flood: Peers) -> None:
    pump(listener, 0.05)
    flood += [connect(listener) for _ in range(CONNECTIONS - 1)]
    for stranger in flood:
        stranger.sendall(post(b"[0]"))
        assert pump(listener, 0.05) == [b"[0]"]
    deliver(listener, peer)
    with connect(listener):
        pump(listener)
        assert closed(flood[0])
        deliver(listener, peer)


def test_what_strangers_leave_unfinished_is_bounded_as_a_whole(listener: TelemetryServer, flood: Peers) -> None:
    flood += [connect(listener) for _ in range(CONNECTIONS)]
    start = b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % BODY_LIMIT
    for peer in flood:
        peer.setblocking(False)
        data = memoryview(start + b"x" * (BODY_LIMIT - 1))
        while data:
            try:
                data = data[peer.send(data) :]
            except BlockingIOError:
                assert pump(listener, 0) == []
            except OSError:  # refused meanwhile
                break
    assert pump(listener) == []
    held = sum(made.reader.held for made in listener._connections.values())
    assert held < 2 * BODY_LIMIT
    assert listener.refused >= CONNECTIONS - 2


def test_who_does_not_wait_for_answers_is_refused(listener: TelemetryServer, peer: Peer) -> None:
    peer.sendall(b"GET / HTTP/1.1\r\n\r\n" * 500)
    assert len(pump(listener)) <= MOST_PIPELINED
    assert closed(peer)
    assert listener.refused == 1


def test_who_does_not_read_his_answers_is_refused(listener: TelemetryServer, peer: Peer) -> None:
    pump(listener)
    (connection,) = listener._connections.values()
    while ready_of([connection.socket.fileno()], 0.5, select.POLLOUT):  # as thousands of answers would, in the end
        connection.socket.send(bytes(1 << 16))
    with pytest.raises(BlockingIOError):
        while True:
            connection.socket.send(b"x")
    peer.sendall(post(b"[1]"))
    assert pump(listener) == []
    assert len(listener.descriptors()) == 1
    assert listener.refused == 1


@pytest.mark.usefixtures("peer")
def test_without_descriptors_it_pauses(listener: TelemetryServer) -> None:
    """An ear that stays readable would make the sidecar's loop a busy one."""
    (ear,) = listener.descriptors()
    assert ready_of([ear], 5)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (ear + 1, limits[1]))
    taken: list[int] = []
    try:
        while True:
            taken.append(os.open("/dev/null", os.O_RDONLY))
    except OSError:
        listener.ready(ear)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        for descriptor in taken:
            os.close(descriptor)
    assert listener.descriptors() == []
    deadline = time.monotonic() + 30
    while not listener.descriptors() and time.monotonic() < deadline:
        time.sleep(0.05)
    listener.ready(ear)
    assert len(listener.descriptors()) == 2


# Events


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


@given(st.dictionaries(st.sampled_from(["requestId", "tracing", "deadlineMs"]), json_values), st.booleans())
def test_the_request_id_of_an_event_can_be_read_alone(event: dict[str, object], compact: bool) -> None:
    body = json.dumps(event, separators=(",", ":") if compact else None).encode()
    alone = members(body, only_id=True)
    assert alone is not None
    assert alone.get("requestId") == event.get("requestId")


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
