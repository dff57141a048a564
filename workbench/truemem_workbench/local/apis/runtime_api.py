"""The Runtime API, `/2018-06-01/runtime`. SnapStart's restore routes are in `snap_start`.

Of a streaming response the body is collected and given to the caller whole; its error trailers are not read.
"""

from __future__ import annotations

import time

from aiohttp import web

from .. import errors
from ..errors import ApiError
from ..lifecycle.environment import Environment
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
"""What the refusal of a response makes of its invocation."""


class RuntimeApi:
    def __init__(self, environment: Environment) -> None:
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

    @property
    def _runtime(self) -> Runtime:
        return self._environment.generation.runtime

    async def ping(self, _: web.Request) -> web.Response:
        return web.Response(text="pong")

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
        mode = request.headers.get("Lambda-Runtime-Function-Response-Mode", "")
        limit = MAX_STREAM if mode == "streaming" else MAX_PAYLOAD
        refusal: ApiError | None = None
        try:
            if mode not in ("", "streaming"):
                raise errors.invalid_response_mode()
            body = await read(request, limit)
        except ApiError as error:
            refusal = error
            answer = refused(pending, error)
        else:
            answer = Answer(body, None, request.headers.get("Content-Type", "application/json"))
            pending.moments.produced_bytes = len(body)
        pending.reply(answer)
        pending.moments.response_began = began
        pending.moments.response_sent = time.perf_counter()
        runtime.act(RuntimeAction.SENT)
        if refusal is not None:
            raise refusal
        return accepted()

    async def error(self, request: web.Request) -> web.Response:
        """A handled exception, as a runtime reports it: for telemetry the invocation is a success all the same."""
        runtime = self._runtime
        await self._environment.hold.pass_by("response", runtime, request)
        pending = self._claim(runtime, request, RuntimeAction.ERROR)
        began = time.perf_counter()
        body = await read(request, MAX_PAYLOAD)
        pending.reply(Answer(body, "Unhandled"))
        pending.moments.produced_bytes = len(body)
        pending.moments.response_began = began
        pending.moments.response_sent = time.perf_counter()
        runtime.act(RuntimeAction.SENT)
        return accepted()

    async def init_error(self, request: web.Request) -> web.Response:
        """It is the exit of the process that fails the init; what was posted here becomes the caller's answer."""
        runtime = self._runtime
        runtime.act(RuntimeAction.INIT_ERROR)
        error_type = errors.normalised_error_type(request.headers.get("Lambda-Runtime-Function-Error-Type", ""))
        runtime.init_error = (error_type, await read(request, MAX_PAYLOAD))
        return accepted()

    @staticmethod
    def _claim(runtime: Runtime, request: web.Request, action: RuntimeAction) -> Pending:
        """The invocation that the runtime means. Raises ApiError: out of order first, then a wrong id."""
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
