"""SnapStart: the routes that only it has, and how a restore looks from inside.

There is no snapshot here: the same processes go on after the restore, frozen in between. What they can observe is as in
Lambda: no second register, no second first `next`, another log stream, and nothing tells an extension of the restore
but telemetry (RIE rapid/handlers.go handleRestore).
"""

from __future__ import annotations

from aiohttp import web

from .. import errors
from ..configuration.variables import CREDENTIALS, CREDENTIALS_PATH, CREDENTIALS_TOKEN
from ..errors import Failure
from ..lifecycle.environment import Environment
from ..state.invocation import MAX_PAYLOAD
from ..state.pending_next import PendingNext
from ..state.runtime_state import RuntimeAction
from .http import accepted, read, reply


class SnapStartApi:
    def __init__(self, environment: Environment) -> None:
        self._environment = environment

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/2018-06-01/runtime/restore/next", self.next),
            web.post("/2018-06-01/runtime/restore/error", self.error),
            web.get(CREDENTIALS_PATH, self.credentials),
        ]

    async def next(self, request: web.Request) -> web.StreamResponse:
        """The runtime has run its hooks for the snapshot; the answer comes when it is restored."""
        generation = self._environment.generation
        generation.runtime.act(RuntimeAction.RESTORE_NEXT)
        pending_next = generation.runtime.pending_next = PendingNext(request)
        generation.notify()
        return await pending_next.answered()

    async def error(self, request: web.Request) -> web.Response:
        """Unlike init/error, the call itself ends the restore; the caller gets what was posted."""
        generation = self._environment.generation
        generation.runtime.act(RuntimeAction.RESTORE_ERROR)
        error_type = errors.normalised_error_type(request.headers.get("Lambda-Runtime-Function-Error-Type", ""))
        body = await read(request, MAX_PAYLOAD)
        generation.fail(Failure(error_type, "restore/error", "failure", payload=body))
        return accepted()

    async def credentials(self, request: web.Request) -> web.Response:
        """A snapshot holds none: whoever wants some asks here, as the AWS SDKs do."""
        if request.headers.get("Authorization") != CREDENTIALS_TOKEN:
            return web.Response(status=404)
        return reply(CREDENTIALS)
