"""The routes of the Runtime API that only SnapStart has.

There is no real snapshot here: the processes are frozen and continue after the restore. They see what they would see in
Lambda: they do not register again or call `next` again, the log stream is another one, and only telemetry tells an
extension of the restore (RIE rapid/handlers.go handleRestore).
"""

from __future__ import annotations

from aiohttp import web

from ..configuration.variables import CREDENTIALS, CREDENTIALS_PATH, CREDENTIALS_TOKEN
from ..errors import Failure
from ..lifecycle.environment import Environment
from ..state.invocation import MAX_PAYLOAD
from ..state.pending_next import PendingNext
from ..state.runtime_state import RuntimeAction
from .http import accepted, read, reply
from .runtime_api import error_type


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
        """Wait for the restore. The runtime calls this when its hooks for the snapshot are done."""
        generation = self._environment.generation
        generation.runtime.act(RuntimeAction.RESTORE_NEXT)
        pending_next = generation.runtime.pending_next = PendingNext(request)
        generation.notify()
        return await pending_next.answered()

    async def error(self, request: web.Request) -> web.Response:
        """End the restore with an error, which the caller gets. Unlike init/error, the call itself ends it."""
        generation = self._environment.generation
        generation.runtime.act(RuntimeAction.RESTORE_ERROR)
        body = await read(request, MAX_PAYLOAD)
        generation.fail(Failure(error_type(request), "restore/error", "failure", payload=body))
        return accepted()

    async def credentials(self, request: web.Request) -> web.Response:
        """Give out credentials. A snapshot must not contain any, so the AWS SDKs ask here."""
        if request.headers.get("Authorization") != CREDENTIALS_TOKEN:
            return web.Response(status=404)
        return reply(CREDENTIALS)
