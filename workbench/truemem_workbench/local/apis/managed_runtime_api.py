"""The Runtime API on Managed Instances: the same routes, called by several workers at once."""

from __future__ import annotations

import time

from aiohttp import web

from .. import errors
from ..errors import ApiError, Failure
from ..managed.environment import ManagedEnvironment
from ..managed.generation import Request, Worker
from ..state.invocation import MAX_PAYLOAD, Answer
from ..state.runtime_state import RuntimeAction
from .http import accepted, read
from .runtime_api import MAX_STREAM, refusal_type, refused

ERROR_TYPE = "Lambda-Runtime-Function-Error-Type"


class ManagedRuntimeApi:
    def __init__(self, environment: ManagedEnvironment) -> None:
        self._environment = environment

    def routes(self) -> list[web.RouteDef]:
        invocation = "/2018-06-01/runtime/invocation"
        return [
            web.get("/2018-06-01/ping", self.ping),
            web.get(f"{invocation}/next", self.next),
            web.post(invocation + "/{request_id}/response", self.response),
            web.post(invocation + "/{request_id}/error", self.error),
            web.post("/2018-06-01/runtime/init/error", self.init_error),
        ]

    async def ping(self, _: web.Request) -> web.Response:
        return web.Response(text="pong")

    async def next(self, request: web.Request) -> web.StreamResponse:
        worker = Worker(request)
        self._environment.generation.worker_ready(worker)
        return await worker.pending_next.answered()

    async def response(self, request: web.Request) -> web.Response:
        claimed = self._claim(request)
        mode = request.headers.get("Lambda-Runtime-Function-Response-Mode", "")
        try:
            if mode not in ("", "streaming"):
                raise errors.invalid_response_mode()
            body = await read(request, MAX_STREAM if mode == "streaming" else MAX_PAYLOAD)
        except ApiError as error:
            failure = Failure(refusal_type(error), error.message, "failure")
            self._answer(claimed, refused(claimed.pending, error), failure)
            raise
        self._answer(claimed, Answer(body, None, request.headers.get("Content-Type", "application/json")))
        return accepted()

    async def error(self, request: web.Request) -> web.Response:
        """An exception in the handler: unlike on demand, the report's status is `error`."""
        claimed = self._claim(request)
        error_type = errors.normalised_error_type(request.headers.get(ERROR_TYPE, ""))
        answer = Answer(await read(request, MAX_PAYLOAD), "Unhandled")
        self._answer(claimed, answer, Failure(error_type, "the handler raised", "failure"))
        return accepted()

    async def init_error(self, request: web.Request) -> web.Response:
        """Every worker imports the handler and fails; the first one counts, the others are refused with a 403."""
        runtime = self._environment.generation.runtime
        runtime.act(RuntimeAction.INIT_ERROR)
        error_type = errors.normalised_error_type(request.headers.get(ERROR_TYPE, ""))
        runtime.init_error = (error_type, await read(request, MAX_PAYLOAD))
        return accepted()

    def _claim(self, request: web.Request) -> Request:
        attempt_id = request.headers.get("Lambda-Runtime-Invocation-Id")
        claimed = self._environment.generation.claim(request.match_info["request_id"], attempt_id)
        claimed.pending.moments.response_began = time.perf_counter()
        return claimed

    @staticmethod
    def _answer(claimed: Request, answer: Answer, failure: Failure | None = None) -> None:
        pending = claimed.pending
        pending.reply(answer)
        pending.moments.produced_bytes = len(answer.payload)
        pending.moments.response_sent = time.perf_counter()
        claimed.end(failure)
