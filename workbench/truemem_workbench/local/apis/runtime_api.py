"""The Runtime API, `/2018-06-01/runtime`. SnapStart's restore routes are in `snap_start`.

The body of a streaming response is collected, and the caller gets it whole. Its error trailers are not read.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod

from aiohttp import web

from .. import errors
from ..errors import ApiError
from ..lifecycle.environment import Environment
from ..lifecycle.serving import Serving
from ..state.generation import Runtime
from ..state.invocation import MAX_PAYLOAD, Answer, Pending
from ..state.pending_next import PendingNext
from ..state.runtime_state import RuntimeAction, RuntimeState
from .http import accepted, read, reply

MAX_STREAM = 200 * 1024 * 1024
TRUNCATED = "Runtime.TruncatedResponse"
REFUSED = {
    "RequestEntityTooLarge": "Function.ResponseSizeTooLarge",
    "InvalidFunctionResponseMode": "Runtime.InvalidResponseModeHeader",
    "TruncatedHTTPRequest": TRUNCATED,
}
"""Error type of the invocation, by the error type of the refused response."""


class RuntimeRoutes(ABC):
    """The routes of the Runtime API, and the parts of their handlers that Managed Instances share."""

    def __init__(self, environment: Serving) -> None:
        self._serving = environment

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

    @abstractmethod
    async def next(self, request: web.Request) -> web.StreamResponse: ...

    @abstractmethod
    async def response(self, request: web.Request) -> web.Response: ...

    @abstractmethod
    async def error(self, request: web.Request) -> web.Response: ...

    async def init_error(self, request: web.Request) -> web.Response:
        """Keep the error: the caller gets it when the process exits, and that exit fails the init.

        On Managed Instances every worker fails to import the handler. The first call counts; the others get a 403.
        """
        runtime = self._serving.generation.runtime
        runtime.act(RuntimeAction.INIT_ERROR)
        runtime.init_error = (error_type(request), await read(request, MAX_PAYLOAD))
        return accepted()


class RuntimeApi(RuntimeRoutes):
    """The Runtime API of an environment that serves one invocation at a time."""

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self._environment = environment

    @property
    def _runtime(self) -> Runtime:
        return self._environment.generation.runtime

    async def next(self, request: web.Request) -> web.StreamResponse:
        generation = self._environment.generation
        runtime = generation.runtime
        await self._environment.hold.pass_by("next", runtime, request)
        runtime.asked_next()
        if runtime.state is RuntimeState.RUNNING and runtime.current is not None:
            return web.Response(body=runtime.current.payload, headers=runtime.current.runtime_headers())
        pending_next = runtime.pending_next = PendingNext(request)
        runtime.waiting.add(pending_next)
        generation.notify()
        try:
            return await pending_next.answered()
        finally:
            runtime.waiting.discard(pending_next)

    async def response(self, request: web.Request) -> web.Response:
        runtime = self._runtime
        await self._environment.hold.pass_by("response", runtime, request)
        pending = self._claim(runtime, request, RuntimeAction.RESPONSE)
        began = time.perf_counter()
        try:
            answer = await read_response(request)
        except ApiError as refusal:
            self._answer(runtime, pending, refused(pending, refusal), began, produced_bytes=0)
            raise
        self._answer(runtime, pending, answer, began, len(answer.payload))
        return accepted()

    async def error(self, request: web.Request) -> web.Response:
        """Take an exception of the handler. For telemetry the invocation is still a success, as in AWS's code."""
        runtime = self._runtime
        await self._environment.hold.pass_by("response", runtime, request)
        pending = self._claim(runtime, request, RuntimeAction.ERROR)
        began = time.perf_counter()
        answer = Answer(await read(request, MAX_PAYLOAD), "Unhandled")
        self._answer(runtime, pending, answer, began, len(answer.payload))
        return accepted()

    @staticmethod
    def _answer(runtime: Runtime, pending: Pending, answer: Answer, began: float, produced_bytes: int) -> None:
        pending.reply(answer)
        pending.moments.produced_bytes = produced_bytes
        pending.moments.response_began = began
        pending.moments.response_sent = time.perf_counter()
        runtime.act(RuntimeAction.SENT)

    @staticmethod
    def _claim(runtime: Runtime, request: web.Request, action: RuntimeAction) -> Pending:
        """The invocation that the request is for. Raises ApiError for a call out of order, then for a wrong id."""
        before = runtime.state
        runtime.act(action)
        pending = runtime.current
        attempt = request.headers.get("Lambda-Runtime-Invocation-Id")
        if pending is None or pending.request_id != request.match_info["request_id"]:
            runtime.state = before  # AWS's code leaves it where it is, and a runtime with a typo hangs
            raise errors.invalid_request_id()
        if attempt and attempt != pending.attempt_id:
            runtime.state = before
            raise errors.invalid_invocation_id()
        return pending


def error_type(request: web.Request) -> str:
    """The error type that a runtime reports, as the platform passes it on."""
    return errors.normalised_error_type(request.headers.get("Lambda-Runtime-Function-Error-Type", ""))


async def read_response(request: web.Request) -> Answer:
    """The response that the runtime posts. Raises ApiError if it is refused."""
    mode = request.headers.get("Lambda-Runtime-Function-Response-Mode", "")
    if mode not in ("", "streaming"):
        raise errors.invalid_response_mode()
    body = await read(request, MAX_STREAM if mode == "streaming" else MAX_PAYLOAD)
    return Answer(body, None, request.headers.get("Content-Type", "application/json"))


def refusal_type(error: ApiError) -> str:
    """The error type of an invocation whose response was refused."""
    return REFUSED.get(error.error_type, TRUNCATED)


def refused(pending: Pending, error: ApiError) -> Answer:
    """What the caller gets for a response that was refused."""
    message = f"RequestId: {pending.request_id} Error: {error.message}"
    if error.status == 413:
        message = f"Response payload size exceeded maximum allowed payload size ({MAX_PAYLOAD} bytes)."
    return Answer(_body(refusal_type(error), message), "Unhandled")


def _body(error_type: str, message: str) -> bytes:
    body = reply({"errorType": error_type, "errorMessage": message}).body
    assert isinstance(body, bytes)
    return body
