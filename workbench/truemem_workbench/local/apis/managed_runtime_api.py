"""The Runtime API on Managed Instances: the same routes, but several workers call them at once."""

from __future__ import annotations

import time

from aiohttp import web

from ..errors import ApiError, Failure
from ..managed.environment import ManagedEnvironment
from ..managed.generation import Request, Worker
from ..state.invocation import MAX_PAYLOAD, Answer
from .http import accepted, read
from .runtime_api import RuntimeRoutes, error_type, read_response, refusal_type, refused


class ManagedRuntimeApi(RuntimeRoutes):
    """The Runtime API of an environment that serves many requests at once."""

    def __init__(self, environment: ManagedEnvironment) -> None:
        super().__init__(environment)
        self._environment = environment

    async def next(self, request: web.Request) -> web.StreamResponse:
        worker = Worker(request)
        self._environment.generation.worker_ready(worker)
        return await worker.pending_next.answered()

    async def response(self, request: web.Request) -> web.Response:
        claimed = self._claim(request)
        try:
            answer = await read_response(request)
        except ApiError as error:
            failure = Failure(refusal_type(error), error.message, "failure")
            self._answer(claimed, refused(claimed.pending, error), failure)
            raise
        self._answer(claimed, answer)
        return accepted()

    async def error(self, request: web.Request) -> web.Response:
        """Take an exception that the handler raised. Unlike on demand, the report's status is `error`."""
        claimed = self._claim(request)
        answer = Answer(await read(request, MAX_PAYLOAD), "Unhandled")
        self._answer(claimed, answer, Failure(error_type(request), "the handler raised", "failure"))
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
