"""Subscription to the Telemetry API, `PUT /2022-07-01/telemetry`, and a stub of the older Logs API."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import jsonschema
from aiohttp import web

from ...support.untrusted_text import loads
from .. import errors
from ..errors import ApiRefusal
from ..lifecycle import events
from ..lifecycle.delivery import Buffering, Destination, HttpDestination, Subscriber, TcpDestination
from ..lifecycle.environment import ExecutionEnvironment
from .extensions_api import IDENTIFIER, MAX_BODY
from .http import read, reply

SLOW_MS = 5_000
"""Extra delay of each batch with the telemetry fault `slow`. The end of the environment delivers earlier."""
HOSTS = ("sandbox.localdomain", "sandbox")  # host names of the environment's own listener. Here they mean 127.0.0.1.

# AWS's own schema (Managed Instances edition of its emulator), with all versions that an ordinary function may ask for.
SUBSCRIPTION_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["schemaVersion", "types", "destination"],
    "properties": {
        "schemaVersion": {"type": "string", "enum": ["2022-07-01", "2022-12-13", "2025-01-29"]},
        "types": {
            "type": "array",
            "minItems": 1,
            "items": {"type": "string", "enum": ["platform", "function", "extension"]},
        },
        "destination": {
            "oneOf": [
                {
                    "type": "object",
                    "required": ["protocol", "URI"],
                    "properties": {
                        "protocol": {"type": "string", "enum": ["HTTP"]},
                        "URI": {"type": "string", "minLength": 1},
                    },
                },
                {
                    "type": "object",
                    "required": ["protocol", "port"],
                    "properties": {
                        "protocol": {"type": "string", "enum": ["TCP"]},
                        "port": {"type": "integer", "minimum": 1, "maximum": 65535},
                    },
                },
            ]
        },
        "buffering": {
            "type": "object",
            "properties": {
                "maxItems": {"type": "integer", "minimum": 1000, "maximum": 10000},
                "maxBytes": {"type": "integer", "minimum": 262144, "maximum": 1048576},
                "timeoutMs": {"type": "integer", "minimum": 25, "maximum": 30000},
            },
        },
    },
}
MANAGED_SCHEMA = SUBSCRIPTION_SCHEMA | {
    "properties": SUBSCRIPTION_SCHEMA["properties"] | {"schemaVersion": {"type": "string", "enum": ["2025-01-29"]}}
}


class TelemetryApi:
    def __init__(self, environment: ExecutionEnvironment, session: aiohttp.ClientSession) -> None:
        self._environment = environment
        self._session = session

    def routes(self) -> list[web.RouteDef]:
        return [
            web.put("/2022-07-01/telemetry", self.subscribe),
            web.put("/2020-08-15/logs", self.subscribe_logs),
        ]

    async def subscribe_logs(self, _: web.Request) -> web.Response:
        raise errors.logs_not_supported()

    async def subscribe(self, request: web.Request) -> web.Response:
        environment = self._environment
        if environment.settings.telemetry != "on":
            raise refusal(environment.settings.telemetry)
        generation = environment.generation
        extension = generation.registry.identify(request.headers.get(IDENTIFIER))
        if generation.relay.closed:
            raise errors.telemetry_closed()
        managed = environment.settings.managed_instances is not None
        wanted = parse(await read(request, MAX_BODY), MANAGED_SCHEMA if managed else SUBSCRIPTION_SCHEMA)
        destination = await self._destination(wanted["destination"])
        types = tuple(wanted["types"])
        subscriber = Subscriber(
            types,
            _buffering(wanted.get("buffering", {}), environment.settings.telemetry_fault),
            destination,
            parse_json=environment.settings.log_format == "JSON" and wanted["schemaVersion"] != "2022-07-01",
            on_dropped=environment.journal.take,
        )
        generation.relay.subscribe(extension.id, subscriber)
        record = events.telemetry_subscription(extension.name, types)
        shown = ", ".join(kind.capitalize() for kind in types)
        line = f"TELEMETRY\tName: {extension.name}\tState: Subscribed\tTypes: [{shown}]"
        environment.journal.emit("platform.telemetrySubscription", record, line)
        return reply("OK")

    async def _destination(self, wanted: dict[str, Any]) -> Destination:
        if wanted["protocol"] == "HTTP":
            return HttpDestination(self._session, wanted["URI"])
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", wanted["port"])
        except OSError as error:
            raise errors.validation_error(f"no program listens at TCP port {wanted['port']}: {error}") from None
        return TcpDestination(writer)


def parse(body: bytes, schema: dict[str, Any] = SUBSCRIPTION_SCHEMA) -> dict[str, Any]:
    """Parse and check a subscription. Raises ApiRefusal 400 with every fault, joined as AWS joins them."""
    try:
        wanted: Any = loads(body)
    except ValueError as error:
        raise errors.validation_error(f"the body is not JSON: {error}") from None
    faults = [_explain(error) for error in jsonschema.Draft202012Validator(schema).iter_errors(wanted)]
    match wanted:
        case {"destination": {"protocol": "HTTP", "URI": str() as uri}}:
            faults = _uri_faults(uri) + faults
    if faults:
        raise errors.validation_error("; ".join(faults))
    return dict(wanted)


def refusal(status: int) -> ApiRefusal:
    """The refusal of all subscriptions, for a status that the settings ask for."""
    by_status = {
        202: errors.telemetry_not_supported(),
        400: errors.validation_error("refused, as the settings of this local Lambda ask"),
        403: errors.telemetry_closed(),
    }
    return by_status.get(status, errors.internal_server_error())


def _explain(error: jsonschema.ValidationError) -> str:
    where = ".".join(str(part) for part in error.absolute_path)
    if error.validator == "minItems":
        return f"{where} should not be empty"
    return f"{where}: {error.message}" if where else error.message


def _uri_faults(uri: str) -> list[str]:
    try:
        parts = urlsplit(uri)
        port = parts.port
    except ValueError as error:
        return [f"URI: {error}"]
    faults = []
    if parts.scheme != "http":
        faults.append(f"URI scheme is {parts.scheme or 'not provided'}, http is supported")
    if parts.hostname not in HOSTS:
        faults.append(f"URI host is {parts.hostname or 'not provided'}, sandbox.localdomain is supported")
    if port is None:
        faults.append("URI port is not provided")
    return faults


def _buffering(wanted: dict[str, int], fault: str) -> Buffering:
    default = Buffering()
    return Buffering(
        wanted.get("maxItems", default.max_items),
        wanted.get("maxBytes", default.max_bytes),
        wanted.get("timeoutMs", default.timeout_ms) + (SLOW_MS if fault == "slow" else 0),
        newest_first=fault == "out-of-order",
    )
