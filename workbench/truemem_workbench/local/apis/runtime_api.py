"""The Runtime API, `/2018-06-01/runtime`: on demand, on Managed Instances, and SnapStart's restore.

The body of a streaming response is collected, and the caller gets it whole. Its error trailers are not read.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod

from aiohttp import web

from .. import errors
from ..configuration.settings import CREDENTIALS_PATH, CREDENTIALS_TOKEN, LOCAL_CREDENTIALS
from ..errors import ApiRefusal, Failure
from ..lifecycle.environment import ExecutionEnvironment, OnDemandEnvironment
from ..lifecycle.events import compact
from ..lifecycle.generation import PendingNext, RuntimeAction, RuntimeCalls, RuntimeState
from ..lifecycle.invocation import MAX_PAYLOAD, PendingInvocation, Response
from ..lifecycle.managed_instances import ClaimedInvocation, ManagedEnvironment, Worker
from .http import accepted, read, reply

MAX_STREAM = 200 * 1024 * 1024
TRUNCATED_ERROR = "Runtime.TruncatedResponse"
ERROR_OF_REFUSAL = {
    "RequestEntityTooLarge": "Function.ResponseSizeTooLarge",
    "InvalidFunctionResponseMode": "Runtime.InvalidResponseModeHeader",
    "TruncatedHTTPRequest": TRUNCATED_ERROR,
}
"""Error type of the invocation, by the error type of the refused response."""


class RuntimeRoutes(ABC):
    """The routes of the Runtime API, and the parts of their handlers that Managed Instances share."""

    def __init__(self, environment: ExecutionEnvironment) -> None:
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

    def __init__(self, environment: OnDemandEnvironment) -> None:
        super().__init__(environment)
        self._environment = environment

    @property
    def _runtime(self) -> RuntimeCalls:
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
        pending = await self._claim(runtime, request, RuntimeAction.RESPONSE)
        try:
            answer = await read_response(request)
        except ApiRefusal as refusal:
            self._answer(runtime, pending, refused(pending, refusal), produced_bytes=0)
            raise
        self._answer(runtime, pending, answer, len(answer.payload))
        return accepted()

    async def error(self, request: web.Request) -> web.Response:
        """Take an exception of the handler. For telemetry the invocation is still a success, as in AWS's code."""
        runtime = self._runtime
        pending = await self._claim(runtime, request, RuntimeAction.ERROR)
        answer = Response(await read(request, MAX_PAYLOAD), "Unhandled")
        self._answer(runtime, pending, answer, len(answer.payload))
        return accepted()

    @staticmethod
    def _answer(runtime: RuntimeCalls, pending: PendingInvocation, answer: Response, produced_bytes: int) -> None:
        pending.reply(answer)
        pending.moments.produced_bytes = produced_bytes
        pending.moments.response_sent = time.perf_counter()
        runtime.act(RuntimeAction.SENT)

    async def _claim(self, runtime: RuntimeCalls, request: web.Request, action: RuntimeAction) -> PendingInvocation:
        """The invocation that the request is for. Raises ApiRefusal for a call out of order, then for a wrong id."""
        await self._environment.hold.pass_by("response", runtime, request)
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
        pending.moments.response_began = time.perf_counter()
        return pending


def error_type(request: web.Request) -> str:
    """The error type that a runtime reports, as the platform passes it on."""
    return errors.normalised_error_type(request.headers.get("Lambda-Runtime-Function-Error-Type", ""))


async def read_response(request: web.Request) -> Response:
    """The response that the runtime posts. Raises ApiRefusal if it is refused."""
    mode = request.headers.get("Lambda-Runtime-Function-Response-Mode", "")
    if mode not in ("", "streaming"):
        raise errors.invalid_response_mode()
    body = await read(request, MAX_STREAM if mode == "streaming" else MAX_PAYLOAD)
    return Response(body, None, request.headers.get("Content-Type", "application/json"))


def refusal_type(error: ApiRefusal) -> str:
    """The error type of an invocation whose response was refused."""
    return ERROR_OF_REFUSAL.get(error.error_type, TRUNCATED_ERROR)


def refused(pending: PendingInvocation, error: ApiRefusal) -> Response:
    """What the caller gets for a response that was refused."""
    message = f"RequestId: {pending.request_id} Error: {error.message}"
    if error.status == 413:
        message = f"Response payload size exceeded maximum allowed payload size ({MAX_PAYLOAD} bytes)."
    return Response(compact({"errorType": refusal_type(error), "errorMessage": message}), "Unhandled")


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
        except ApiRefusal as error:
            failure = Failure(refusal_type(error), error.message, "failure")
            self._answer(claimed, refused(claimed.pending, error), failure)
            raise
        self._answer(claimed, answer)
        return accepted()

    async def error(self, request: web.Request) -> web.Response:
        """Take an exception that the handler raised. Unlike on demand, the report's status is `error`."""
        claimed = self._claim(request)
        answer = Response(await read(request, MAX_PAYLOAD), "Unhandled")
        self._answer(claimed, answer, Failure(error_type(request), "the handler raised", "failure"))
        return accepted()

    def _claim(self, request: web.Request) -> ClaimedInvocation:
        attempt_id = request.headers.get("Lambda-Runtime-Invocation-Id")
        claimed = self._environment.generation.claim(request.match_info["request_id"], attempt_id)
        claimed.pending.moments.response_began = time.perf_counter()
        return claimed

    @staticmethod
    def _answer(claimed: ClaimedInvocation, answer: Response, failure: Failure | None = None) -> None:
        pending = claimed.pending
        pending.reply(answer)
        pending.moments.produced_bytes = len(answer.payload)
        pending.moments.response_sent = time.perf_counter()
        claimed.end(failure)


class SnapStartApi:
    """The routes that only SnapStart has.

    There is no real snapshot here: the processes are frozen and continue after the restore. They see what they would
    see in Lambda: they do not register again or call `next` again, the log stream is another one, and only telemetry
    tells an extension of the restore (RIE rapid/handlers.go handleRestore).
    """

    def __init__(self, environment: OnDemandEnvironment) -> None:
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
        return reply(LOCAL_CREDENTIALS)
