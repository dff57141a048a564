"""The Extensions API, `/2020-01-01/extension`. It answers every mistake of a client with a 403, as AWS's code does."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from ...support.untrusted_text import loads
from .. import errors
from ..configuration.settings import ACCOUNT, FUNCTION_VERSION
from ..lifecycle.environment import ExecutionEnvironment
from ..lifecycle.generation import ExtensionAction, PendingNext
from ..lifecycle.launcher import shutdown_response
from .http import accepted, read, reply

IDENTIFIER = "Lambda-Extension-Identifier"
MAX_BODY = 1024 * 1024


class ExtensionsApi:
    def __init__(self, environment: ExecutionEnvironment) -> None:
        self._environment = environment

    def routes(self) -> list[web.RouteDef]:
        base = "/2020-01-01/extension"
        return [
            web.post(f"{base}/register", self.register),
            web.get(f"{base}/event/next", self.next),
            web.post(f"{base}/init/error", self.init_error),
            web.post(f"{base}/exit/error", self.exit_error),
        ]

    async def register(self, request: web.Request) -> web.Response:
        environment = self._environment
        generation = environment.generation
        name = request.headers.get("Lambda-Extension-Name")
        if not name:
            raise errors.empty_extension_name()
        extension = generation.registry.register(name, _events(await read(request, MAX_BODY)))
        generation.notify()
        body = {
            "functionName": environment.settings.name,
            "functionVersion": FUNCTION_VERSION,
            "handler": environment.function.handler,
        }
        features = request.headers.get("Lambda-Extension-Accept-Feature", "").split(",")
        if "accountId" in (feature.strip() for feature in features):
            body["accountId"] = ACCOUNT
        return reply(body, headers={IDENTIFIER: extension.id})

    async def next(self, request: web.Request) -> web.StreamResponse:
        generation = self._environment.generation
        extension = generation.registry.identify(request.headers.get(IDENTIFIER))
        extension.act(ExtensionAction.NEXT)
        shutdown = generation.shutdown_event
        if shutdown is not None and "SHUTDOWN" in extension.events:
            extension.act(ExtensionAction.RELEASE)
            return shutdown_response(shutdown)
        pending_next = extension.pending_next = PendingNext(request)
        generation.notify()
        return await pending_next.answered()

    async def init_error(self, request: web.Request) -> web.Response:
        return self._error(request, ExtensionAction.INIT_ERROR)

    async def exit_error(self, request: web.Request) -> web.Response:
        return self._error(request, ExtensionAction.EXIT_ERROR)

    def _error(self, request: web.Request, action: ExtensionAction) -> web.Response:
        """Keep the error type for telemetry. Only the exit of the process ends the init or the invocation."""
        registry = self._environment.generation.registry
        unknown = "Unknown Lambda-Extension-Identifier"
        extension = registry.identify(request.headers.get(IDENTIFIER), unknown)
        error_type = request.headers.get("Lambda-Extension-Function-Error-Type")
        if not error_type:
            raise errors.missing_error_type()
        extension.act(action)
        extension.error_type = extension.error_type or error_type
        return accepted()


def _events(body: bytes) -> list[str]:
    """Parse the events of a register request. Raises ApiRefusal."""
    try:
        parsed: Any = loads(body)
    except ValueError as error:
        raise errors.invalid_request_format(str(error)) from None
    wanted = parsed.get("events") or [] if isinstance(parsed, dict) else None
    if not isinstance(wanted, list) or not all(isinstance(event, str) for event in wanted):
        raise errors.invalid_request_format("the body is an object, its `events` a list of strings")
    if parsed.get("configurationKeys"):
        raise errors.invalid_request_format("configurationKeys are deprecated; use environment variables instead")
    return wanted
