"""The real sidecar's listener, found by the function: nothing that it sends stops, fills or misleads the sidecar."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from testing.environment import SIDECAR
from tests.fuzz.platform import PATIENCE_S, Answer, Platform, invoke, response

LARGEST_KIB = 64 * 1024
"""RSS of a sidecar under an ordinary python3 while it is flooded."""


def report(request_id: str, mib: int) -> dict[str, Any]:
    metrics = {"durationMs": 1.5, "billedDurationMs": 2, "memorySizeMB": 512, "maxMemoryUsedMB": mib}
    record = {"requestId": request_id, "status": "success", "metrics": metrics}
    return {"time": "2026-01-01T00:00:00.000Z", "type": "platform.report", "record": record}


class Attacked:
    """A sidecar with an invocation behind it and one running, and its listener's port."""

    def __init__(self, sidecar: Path = SIDECAR) -> None:
        self.platform = Platform([Answer(invoke("one")), Answer(invoke("two"))], sidecar=sidecar)
        self.platform.wait_for_nexts(3)
        self.port = urlsplit(self.platform.destination).port or 0

    def deliver(self, *events: dict[str, Any]) -> int:
        """As the platform does; the answer's status."""
        url = f"http://127.0.0.1:{self.port}{urlsplit(self.platform.destination).path}"
        return requests.post(url, json=events, timeout=PATIENCE_S).status_code

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S)

    def send(self, data: bytes) -> bytes:
        """Send all of it and take what comes, until the sidecar closes or has answered."""
        with self.connect() as peer, suppress(OSError):
            peer.sendall(data)
            peer.shutdown(socket.SHUT_WR)
            return peer.recv(1000)
        return b""

    def end(self) -> list[dict[str, Any]]:
        """It still serves: the records."""
        assert self.deliver(report("one", 77), report("two", 78)) == 200
        records = self.platform.end()
        assert self.platform.peak_kib < LARGEST_KIB
        assert [record["requestId"] for record in records] == ["one", "two"]
        return records


@pytest.fixture
def attacked() -> Iterator[Attacked]:
    made = Attacked()
    with made.platform:
        yield made


def post(body: bytes, path: str = "/", length: int | None = None) -> bytes:
    size = len(body) if length is None else length
    return b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (path.encode(), size, body)


def test_forged_reports_count_only_until_the_platform_was_heard(attacked: Attacked) -> None:
    assert attacked.deliver({"type": "platform.start", "record": {"requestId": "two"}}) == 200
    forged = post(json.dumps([report("one", 1), report("two", 2)]).encode())
    assert attacked.send(forged).startswith(b"HTTP/1.1 400")
    first, second = attacked.end()
    assert (first["MaxMemoryUsed"], second["MaxMemoryUsed"]) == (77, 78)
    assert first.get("dropped", 0) + second.get("dropped", 0) == 1


def test_what_is_forged_before_that_stays_small(attacked: Attacked) -> None:
    long = "x" * 300_000
    events = [
        {"type": "platform.initStart", "record": {"instanceId": long}},
        {"type": "platform.start", "record": {"requestId": "two", "tenantId": long}},
        {"type": "platform.runtimeDone", "record": {"requestId": "two", "status": long, "errorType": long}},
        {"type": "platform.logsDropped", "record": {"droppedRecords": 10**4000}},
        {"type": "platform.logsDropped", "record": {"droppedRecords": -5}},
    ]
    for event in events:
        attacked.send(post(json.dumps([event]).encode()))
    records = attacked.end()
    assert max(len(json.dumps(record)) for record in records) < 3000
    assert 0 < sum(record.get("dropped", 0) for record in records) < 10


FLOODS = [
    *(b"", b"GET / HTTP/1.1\r\n\r\n" * 300, b"\x16\x03\r\n\r\n", b"X: y\r\n" * 3000, post(b"[", length=100)),
    *(
        post(b"[" + b"[],{}," * 80_000 + b"0]"),
        post(b"[" * 500_000),
        post(b"", length=500_000),
        post(b"[]", length=1) * 3,
    ),
    b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\n[\r\n" * 60_000,
]
"""Each has a thread that sends nothing else, on a new connection each time."""


def test_an_event_is_answered_in_the_middle_of_a_flood() -> None:
    gate, over, sent = threading.Event(), threading.Event(), [0] * len(FLOODS)
    with Platform([Answer(invoke("one")), Answer(invoke("two"), when=gate)]) as platform:
        platform.wait_for_nexts(2)
        port = urlsplit(platform.destination).port

        def flood(number: int, data: bytes) -> None:
            while not over.is_set():
                with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as peer:
                    peer.sendall(data)
                    peer.shutdown(socket.SHUT_WR)
                    peer.recv(100)
                sent[number] += 1

        threads = [threading.Thread(target=flood, args=one, daemon=True) for one in enumerate(FLOODS)]
        for thread in threads:
            thread.start()
        while min(sent) < 5:
            over.wait(0.01)
        gate.set()
        platform.wait_for_nexts(1)
        before = list(sent)
        while any(now <= then for now, then in zip(sent, before, strict=True)):
            over.wait(0.01)  # they have been heard all the time
        over.set()
        for thread in threads:
            thread.join(PATIENCE_S)
        assert [record["requestId"] for record in platform.end()] == ["one", "two"]
        assert platform.peak_kib < LARGEST_KIB


SPECIAL = [None, True, False, 10**400, -1, 0, 1e300, "one", "two", "2026-01-01T00:00:00.000Z", "x" * 5000, "\ud800", ""]
INNER = st.sampled_from(["requestId", "status", "metrics", "durationMs", "x"])
values: st.SearchStrategy[Any] = st.recursive(
    st.integers() | st.sampled_from(SPECIAL) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(INNER, inner, max_size=4),
    max_leaves=10,
)
NAMES = ("initStart", "restoreStart", "start", "runtimeDone", "report", "logsDropped", "fault")
MEMBERS = ("requestId", "status", "metrics", "errorType", "tenantId", "instanceId", "droppedRecords", "phase")
events = st.fixed_dictionaries(
    {
        "type": st.sampled_from(NAMES).map("platform.".__add__),
        "record": st.dictionaries(st.sampled_from(MEMBERS), values, max_size=5) | values,
    },
    optional={"time": values},
)


@settings(max_examples=max(4, settings().max_examples // 25), suppress_health_check=list(HealthCheck))
@given(st.lists(st.lists(events | values, max_size=6) | values, max_size=12))
def test_no_telemetry_breaks_it(batches: list[Any]) -> None:
    attacked = Attacked()
    with attacked.platform:
        for batch in batches:
            attacked.send(post(json.dumps(batch).encode()))
        assert [record["requestId"] for record in attacked.platform.end()] == ["one", "two"]


def test_without_telemetry_there_is_no_listener() -> None:
    with Platform([Answer(invoke("one"))], subscribed=Answer(response(202, b"{}"))) as platform:
        platform.wait_for_nexts(2)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", urlsplit(platform.destination).port or 0), timeout=PATIENCE_S)
        assert len(platform.end()) == 1
