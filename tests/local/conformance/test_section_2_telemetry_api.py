"""The Telemetry API, row by row: who may subscribe to what and when, and what a subscriber gets.

When a batch goes is in `test_delivery`; that a report comes after the thaw, in `test_environment`.
"""

import asyncio
import contextlib
import json
import socket
from collections.abc import Iterator
from queue import Empty, Queue
from typing import Any

import pytest
import requests
from truemem_workbench.local.apis.telemetry_api import parse
from truemem_workbench.local.errors import ApiRefusal
from truemem_workbench.local.lifecycle.delivery import Buffering, Relay, Subscriber
from truemem_workbench.local.lifecycle.events import Event

from tests.local.conftest import BOUND_S, REQUEST_ID, Local, Start, error_of, in_background, kinds

PATH = "/2022-07-01/telemetry"


def subscription(**changes: Any) -> dict[str, Any]:
    valid = {
        "schemaVersion": "2022-12-13",
        "types": ["platform"],
        "destination": {"protocol": "HTTP", "URI": "http://sandbox.localdomain:8080"},
        "buffering": {"maxItems": 1000, "maxBytes": 262144, "timeoutMs": 25},
    }
    return {name: value for name, value in (valid | changes).items() if value is not None}


def subscribe(local: Local, own: dict[str, str], **changes: Any) -> requests.Response:
    return local.api.call("PUT", PATH, headers=own, json=subscription(**changes))


def http(uri: str) -> dict[str, str]:
    return {"protocol": "HTTP", "URI": uri}


VALID: list[dict[str, Any]] = [
    {},
    {"buffering": None},
    {"buffering": {}},
    {"schemaVersion": "2022-07-01"},
    {"schemaVersion": "2025-01-29"},
    {"types": ["platform", "function", "extension"]},
    {"destination": {"protocol": "TCP", "port": 65535}},
    {"destination": http("http://sandbox:8999/path")},
    {"buffering": {"maxItems": 10000, "maxBytes": 1048576, "timeoutMs": 30000}},
]
INVALID: list[tuple[dict[str, Any], str]] = [
    ({"schemaVersion": "2021-01-01"}, "schemaVersion"),
    ({"schemaVersion": None}, "schemaVersion"),
    ({"types": ["platfrom"]}, "types.0"),
    ({"types": None}, "types"),
    ({"destination": None}, "destination"),
    ({"destination": {"protocol": "UDP", "port": 1}}, "destination"),
    ({"destination": {"protocol": "TCP", "port": 0}}, "destination"),
    ({"destination": {"protocol": "TCP", "port": 65536}}, "destination"),
    ({"destination": {"protocol": "HTTP"}}, "destination"),
    ({"destination": http("https://sandbox.localdomain:8080")}, "URI scheme"),
    ({"destination": http("http://example.com:8080")}, "URI host"),
    ({"destination": http("http://sandbox.localdomain:port")}, "URI"),
    ({"buffering": {"maxItems": 999}}, "buffering.maxItems"),
    ({"buffering": {"maxItems": 10_001}}, "buffering.maxItems"),
    ({"buffering": {"maxBytes": 2**18 - 1}}, "buffering.maxBytes"),
    ({"buffering": {"maxBytes": 2**20 + 1}}, "buffering.maxBytes"),
    ({"buffering": {"timeoutMs": 24}}, "buffering.timeoutMs"),
    ({"buffering": {"timeoutMs": 30_001}}, "buffering.timeoutMs"),
]


def test_valid_subscriptions() -> None:
    for changes in VALID:
        assert parse(json.dumps(subscription(**changes)).encode()) == subscription(**changes)
    # of maxItems the documentation says two things: this is AWS's code's
    assert Buffering() == Buffering(max_items=10_000, max_bytes=262_144, timeout_ms=1_000)


@pytest.mark.parametrize(("changes", "named"), INVALID, ids=str)
def test_an_invalid_subscription_names_the_fault(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(ApiRefusal, match=named) as refusal:
        parse(json.dumps(subscription(**changes)).encode())
    assert (refusal.value.status, refusal.value.error_type) == (400, "ValidationError")


def test_every_fault_is_named_as_in_the_documentation() -> None:
    body = subscription(types=[], destination=http("http://sandbox.localdomain"))
    with pytest.raises(ApiRefusal) as refusal:
        parse(json.dumps(body).encode())
    said = {"errorType": "ValidationError", "errorMessage": "URI port is not provided; types should not be empty"}
    assert (refusal.value.status, refusal.value.body()) == (400, said)
    with pytest.raises(ApiRefusal, match="not JSON"):
        parse(b"{")


@pytest.mark.parametrize(
    ("status", "error_type"),
    [
        (202, "Telemetry.NotSupported"),
        (400, "ValidationError"),
        (403, "Telemetry.SubscriptionClosed"),
        (500, "InternalServerError"),
    ],
)
def test_a_refusal_can_be_asked_for(start_idle: Start, status: int, error_type: str) -> None:
    """As AWS's own emulator does with 202: for every PUT, even without a name."""
    answer = start_idle(telemetry=status).api.call("PUT", PATH, data="{}")
    assert error_of(answer)[:2] == (status, error_type)
    if status == 202:
        assert error_of(answer)[2] == "Telemetry API is not supported"


def test_a_subscription_is_taken_until_init_is_over(start_idle: Start) -> None:
    local = start_idle()
    own = local.api.registered("INVOKE")
    accepted = subscribe(local, own)
    assert (accepted.status_code, accepted.json()) == (200, "OK")
    assert error_of(subscribe(local, own, types=[]))[:2] == (400, "ValidationError")
    assert error_of(local.api.call("PUT", "/2020-08-15/logs"))[:2] == (202, "Logs.NotSupported")

    local.api.next_event(own)
    assert subscribe(local, own).status_code == 200  # the runtime's is missing
    local.api.next_invocation()
    local.settle()
    refusal = (403, "Telemetry.SubscriptionClosed", "Telemetry API subscription is closed")
    assert error_of(subscribe(local, own)) == refusal


def test_a_subscriber_gets_init_from_its_beginning(start: Start) -> None:
    """And the runtime's end while the extension still works, which the success of this invocation waits for."""
    local = start(behaviour={"linger_until": "platform.runtimeDone"})
    local.finish({})  # init may have ended before its first batch was due
    assert [report.status for report in local.reports] == ["success"]
    first = local.telemetry()[0]
    assert first["type"] == "platform.initStart"
    assert first["record"]["instanceId"].endswith(local.environment_id)
    assert first["record"]["instanceMaxMemory"] == 512 * 1024 * 1024
    post = next(entry for entry in local.recorded() if "telemetry" in entry)
    assert (post["method"], post["path"], post["content"]) == ("POST", "/here", "application/json")


@pytest.mark.parametrize(
    ("log_format", "schema", "as_object"),
    [
        ("Text", "2025-01-29", False),
        ("JSON", "2022-07-01", False),
        ("JSON", "2022-12-13", True),
    ],
)
def test_a_line_is_an_object_with_json_and_a_late_schema(
    start: Start, log_format: str, schema: str, as_object: bool
) -> None:
    local = start(behaviour={"types": ["platform", "function"], "schema": schema}, log_format=log_format)
    local.invoke({"print": 'a line\n{"a": 1}\n[1]'})
    local.stop()
    received = local.telemetry()
    plain, structured, no_object = (event["record"] for event in received if event["type"] == "function")
    events = [event for event in received if event["type"] != "function"]
    assert events == local.events  # of all levels, whatever the format of the log
    if as_object:
        assert no_object["message"] == "[1]"
        assert plain.keys() == {"timestamp", "level", "message"}
        assert plain["message"] == "a line"
        assert structured == {"a": 1}
    else:
        assert (plain, structured) == ("a line", '{"a": 1}')


def test_a_crash_flushes_what_is_held(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("truemem_workbench.local.apis.telemetry_api.SLOW_MS", 600_000)
    local = start(behaviour={}, telemetry_fault="slow")
    local.finish({"exit": 3})
    received = kinds(local.telemetry())
    assert (received[0], received[-1]) == ("initStart", "runtimeDone")  # the report is made when all is over


def test_a_failed_post_is_tried_again(start: Start) -> None:
    local = start(behaviour={"refuse": 1, "linger_until": "platform.runtimeDone"})
    local.invoke({})  # not while the environment is frozen
    local.wait_for_line(lambda line: '"status": "200 OK"' in line.text)
    refused, taken = [entry for entry in local.recorded() if "telemetry" in entry][:2]
    assert (refused["status"], taken["status"]) == ("500 No", "200 OK")
    assert refused["telemetry"] == taken["telemetry"]


def test_what_cannot_be_delivered_is_dropped_and_reported(start: Start) -> None:
    local = start(behaviour={"refuse": 3, "linger_s": 1})
    local.invoke({})
    local.wait_for_telemetry("platform.logsDropped")
    dropped = next(event for event in local.telemetry() if event["type"] == "platform.logsDropped")["record"]
    assert dropped["droppedRecords"] > 0
    assert dropped["droppedBytes"] > 0
    assert dropped["reason"].startswith("could not send events: ")


class Slow:
    """A listener that takes nothing until it may."""

    def __init__(self) -> None:
        self.taken: list[dict[str, Any]] = []
        self.open = asyncio.Event()

    async def send(self, items: list[bytes]) -> None:
        await self.open.wait()
        self.taken += [json.loads(item) for item in items]

    def close(self) -> None: ...


def an_event(kind: str, text: str = "") -> Event:
    return {"time": "2026-01-01T00:00:00.000Z", "type": kind, "record": text}


def subscriber(destination: Slow, dropped: list[Event], *types: str) -> Subscriber:
    buffering = Buffering(max_items=1000, max_bytes=1000, timeout_ms=1)
    return Subscriber(types, buffering, destination, parse_json=False, on_dropped=dropped.append)


def test_a_slow_listener_loses_events_and_holds_up_nothing() -> None:
    async def scene() -> list[Event]:
        slow, dropped = Slow(), list[Event]()
        subscribed = subscriber(slow, dropped, "function")
        for _ in range(100):
            subscribed.offer(an_event("function", "x" * 1000), flow=True)  # returns at once, whatever the listener does
        slow.open.set()
        async with asyncio.timeout(BOUND_S):
            while not dropped:
                await asyncio.sleep(0)
        subscribed.close()
        return dropped

    (said,) = asyncio.run(scene())
    assert said["type"] == "platform.logsDropped"
    assert said["record"]["droppedRecords"] > 50
    reason = "Some logs were dropped because the downstream consumer is slower than the logs production rate"
    assert said["record"]["reason"] == reason


def test_each_subscriber_has_its_own_types_and_all_of_init() -> None:
    async def scene() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        relay, early, late = Relay(), Slow(), Slow()
        for each in (early, late):
            each.open.set()
        relay.subscribe("early", subscriber(early, [], "platform"))
        relay.offer(an_event("platform.initStart"))
        relay.offer(an_event("function", "a line"))
        relay.subscribe("late", subscriber(late, [], "platform", "function"))
        async with asyncio.timeout(BOUND_S):
            while len(early.taken) + len(late.taken) < 3:
                await asyncio.sleep(0)
        relay.close()
        return early.taken, late.taken

    early, late = asyncio.run(scene())
    assert [event["type"] for event in early] == ["platform.initStart"]
    assert [event["type"] for event in late] == ["platform.initStart", "function"]


# --- over TCP ---------------------------------------------------------------------------------------------------------


class TcpListener:
    """Takes one connection, and the events that come over it, one a line."""

    def __init__(self) -> None:
        self.server = socket.create_server(("127.0.0.1", 0))
        self.destination = {"protocol": "TCP", "port": self.server.getsockname()[1]}
        self._events: Queue[dict[str, Any]] = Queue()
        in_background(self._read)

    def _read(self) -> None:
        connection, _ = self.server.accept()
        with connection, connection.makefile() as lines:
            for line in lines:
                self._events.put(json.loads(line))

    def next(self, within_s: float = BOUND_S) -> dict[str, Any]:
        return self._events.get(timeout=within_s)

    def types_for(self, seconds: float) -> list[str]:
        """Of the events that come until nothing has come for so long."""
        found = []
        with contextlib.suppress(Empty):
            while True:
                found.append(self.next(seconds)["type"])
        return found


@pytest.fixture
def tcp() -> Iterator[TcpListener]:
    listener = TcpListener()
    yield listener
    listener.server.shutdown(socket.SHUT_RDWR)  # ends a wait for a connection
    listener.server.close()


def test_over_tcp_it_is_one_event_a_line(start_idle: Start, tcp: TcpListener) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        refusing = {"protocol": "TCP", "port": server.getsockname()[1]}
    local = start_idle()
    own, both = local.api.registered("INVOKE"), ["platform", "extension"]
    assert error_of(subscribe(local, own, destination=refusing))[:2] == (400, "ValidationError")
    assert subscribe(local, own, types=both, destination=tcp.destination).status_code == 200
    assert tcp.next()["type"] == "platform.initStart"
    printed = tcp.next()  # what an extension prints as well: the address, by `idle`
    assert (printed["type"], printed["record"]) == ("extension", local.api.base.removeprefix("http://"))


def test_nothing_is_delivered_to_a_frozen_environment(start_idle: Start, tcp: TcpListener) -> None:
    """Its listener is this test's: it would take a report at once, and none comes before the next invocation."""
    local = start_idle()
    own = local.api.registered("INVOKE")
    assert subscribe(local, own, destination=tcp.destination).status_code == 200
    event, invocation = local.api.next_event(own), local.api.next_invocation()
    local.settle()

    local.invoke_in_background()
    event.result(BOUND_S)
    local.api.respond(invocation.result(BOUND_S).headers[REQUEST_ID])
    event, invocation = local.api.next_event(own), local.api.next_invocation()
    local.settle()
    assert local.of_type("report")  # it is made
    assert "platform.report" not in tcp.types_for(0.2)

    local.invoke_in_background()
    event.result(BOUND_S)
    while tcp.next()["type"] != "platform.report":
        pass
    local.api.respond(invocation.result(BOUND_S).headers[REQUEST_ID])
