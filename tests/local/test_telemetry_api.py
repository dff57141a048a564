"""The Telemetry API: who may subscribe to what, and what a subscriber gets."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from typing import Any

import pytest
from truemem_workbench.local.errors import ApiError
from truemem_workbench.local.telemetry_api import parse

from .conftest import BOUND_S, HERE, Api, Start, error_of, identified

PATH = "/2022-07-01/telemetry"
IDLE = {"idle": HERE / "extensions" / "idle"}


def subscription(**changes: Any) -> dict[str, Any]:
    valid = {
        "schemaVersion": "2022-12-13",
        "types": ["platform"],
        "destination": {"protocol": "HTTP", "URI": "http://sandbox.localdomain:8080"},
        "buffering": {"maxItems": 1000, "maxBytes": 262144, "timeoutMs": 25},
    }
    return {name: value for name, value in (valid | changes).items() if value is not None}


def http(uri: str) -> dict[str, str]:
    return {"protocol": "HTTP", "URI": uri}


VALID = [
    {},
    {"buffering": None},
    {"buffering": {}},
    {"schemaVersion": "2022-07-01"},
    {"schemaVersion": "2025-01-29"},
    {"types": ["platform", "function", "extension"]},
    {"destination": {"protocol": "TCP", "port": 9999}},
    {"destination": http("http://sandbox:8999/path")},
    {"buffering": {"maxItems": 10000, "maxBytes": 1048576, "timeoutMs": 30000}},
]
INVALID = [
    ({"schemaVersion": "2021-01-01"}, "schemaVersion"),
    ({"schemaVersion": None}, "schemaVersion"),
    ({"types": []}, "types"),
    ({"types": ["platfrom"]}, "types.0"),
    ({"types": None}, "types"),
    ({"destination": None}, "destination"),
    ({"destination": {"protocol": "UDP", "port": 1}}, "destination"),
    ({"destination": {"protocol": "TCP", "port": 0}}, "destination"),
    ({"destination": {"protocol": "TCP"}}, "destination"),
    ({"destination": http("http://sandbox.localdomain")}, "URI port is not provided"),
    ({"destination": http("https://sandbox.localdomain:8080")}, "URI scheme"),
    ({"destination": http("http://example.com:8080")}, "URI host"),
    ({"destination": http("http://sandbox.localdomain:port")}, "URI"),
    ({"buffering": {"maxItems": 999}}, "buffering.maxItems"),
    ({"buffering": {"maxBytes": 2**20 + 1}}, "buffering.maxBytes"),
    ({"buffering": {"timeoutMs": 24}}, "buffering.timeoutMs"),
]


@pytest.mark.parametrize("changes", VALID, ids=str)
def test_a_valid_subscription(changes: dict[str, Any]) -> None:
    assert parse(json.dumps(subscription(**changes)).encode()) == subscription(**changes)


@pytest.mark.parametrize(("changes", "named"), INVALID, ids=str)
def test_an_invalid_subscription_is_told_what_is_wrong(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(ApiError, match=named) as refusal:
        parse(json.dumps(subscription(**changes)).encode())
    assert (refusal.value.status, refusal.value.error_type) == (400, "ValidationError")


def test_a_body_that_is_not_json() -> None:
    with pytest.raises(ApiError, match="not JSON"):
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
def test_a_refusal_can_be_asked_for(start: Start, status: int, error_type: str) -> None:
    """As AWS's own emulator does with 202: for every PUT, whoever asks."""
    local = start(HERE / "functions" / "idle", extensions=IDLE, telemetry=status, init_timeout_s=60)
    answer = Api(local.runtime_api()).call("PUT", PATH, data="{}")
    assert error_of(answer)[:2] == (status, error_type)
    if status == 202:
        assert error_of(answer)[2] == "Telemetry API is not supported"


def test_over_http_it_is_ok_then_refused_then_closed(start: Start) -> None:
    local = start(HERE / "functions" / "idle", extensions=IDLE, init_timeout_s=60)
    api = Api(local.runtime_api())
    own = identified(api.register().headers["Lambda-Extension-Identifier"])
    accepted = api.call("PUT", PATH, headers=own, json=subscription())
    assert (accepted.status_code, accepted.json()) == (200, "OK")
    assert error_of(api.call("PUT", PATH, headers=own, json=subscription(types=[])))[:2] == (400, "ValidationError")
    assert error_of(api.call("PUT", "/2020-08-15/logs"))[:2] == (202, "Logs.NotSupported")

    api.next_event(own["Lambda-Extension-Identifier"])
    api.next_invocation()
    local.settle(timeout=BOUND_S)
    refusal = (403, "Telemetry.SubscriptionClosed", "Telemetry API subscription is closed")
    assert error_of(api.call("PUT", PATH, headers=own, json=subscription())) == refusal


def test_what_init_did_before_the_subscription_is_told_again(start: Start) -> None:
    local = start(behaviour={})
    local.wait_for_telemetry("platform.initStart")
    first = local.telemetry()[0]
    assert first["type"] == "platform.initStart"
    assert first["record"]["instanceId"].endswith(local.environment_id)
    assert first["record"]["instanceMaxMemory"] == 512 * 1024 * 1024
    path = next(entry["path"] for entry in local.recorded() if "telemetry" in entry)
    assert path == "/here"


def test_only_the_types_that_were_asked_for(start: Start) -> None:
    local = start(behaviour={"types": ["function"]})
    local.invoke({"print": "a line"})
    local.invoke({})  # delivery happens while the environment runs
    local.stop()
    assert {event["type"] for event in local.telemetry()} == {"function"}
    assert "a line" in [event["record"] for event in local.telemetry()]


@pytest.mark.parametrize(("log_format", "shown"), [("Text", "a line"), ("JSON", {"message": "a line"})])
def test_with_json_logging_a_line_is_an_object(start: Start, log_format: str, shown: object) -> None:
    local = start(behaviour={"types": ["function"]}, log_format=log_format)
    local.invoke({"print": "a line"})
    local.stop()
    record = next(event["record"] for event in local.telemetry())
    if isinstance(shown, dict):
        assert record["message"] == "a line"
        assert record["level"] == "INFO"
    else:
        assert record == shown


def test_a_failed_post_is_tried_again(start: Start) -> None:
    local = start(behaviour={"refuse": 1, "linger_s": 0.5})
    local.wait_for_telemetry("platform.initStart")
    local.invoke({})  # not while the environment is frozen
    local.lines.wait(lambda line: '"status": "200 OK"' in line.text)
    refused, taken = [entry for entry in local.recorded() if "telemetry" in entry][:2]
    assert (refused["status"], taken["status"]) == ("500 No", "200 OK")
    assert refused["telemetry"] == taken["telemetry"]


def test_what_cannot_be_delivered_is_dropped_and_told(start: Start) -> None:
    local = start(behaviour={"refuse": 3, "linger_s": 1})
    local.invoke({})
    local.wait_for_telemetry("platform.logsDropped")
    dropped = next(event for event in local.telemetry() if event["type"] == "platform.logsDropped")["record"]
    assert dropped["droppedRecords"] > 0
    assert dropped["droppedBytes"] > 0
    assert dropped["reason"].startswith("could not send events: ")


def test_over_tcp_it_is_one_event_a_line(start: Start, tcp_lines: Callable[[], str]) -> None:
    local = start(HERE / "functions" / "idle", extensions=IDLE, init_timeout_s=60)
    api = Api(local.runtime_api())
    own = identified(api.register().headers["Lambda-Extension-Identifier"])
    destination = {"protocol": "TCP", "port": tcp_lines.port}  # type: ignore[attr-defined]
    assert api.call("PUT", PATH, headers=own, json=subscription(destination=destination)).status_code == 200
    event = json.loads(tcp_lines())
    assert event["type"] == "platform.initStart"


class TcpLines:
    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]

    def __call__(self) -> str:
        """The first line that comes."""
        self._server.settimeout(BOUND_S)
        connection, _ = self._server.accept()
        with connection, connection.makefile() as file:
            return file.readline()

    def close(self) -> None:
        self._server.close()


@pytest.fixture
def tcp_lines() -> Any:
    lines = TcpLines()
    yield lines
    lines.close()
