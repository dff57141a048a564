"""Serves Invoke API and Function URL on loopback, for all environments, and removes everything at the end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from contextvars import ContextVar

import aiohttp
from aiohttp import web

from .apis.function_url import FunctionUrl
from .apis.http import Handler, bind, serve
from .apis.invoke_api import InvokeApi
from .configuration.function import Function
from .configuration.settings import Settings
from .errors import STOPPED_FAILURE, WaitFailed
from .lifecycle.generation import Hold
from .lifecycle.invocation import PendingInvocation
from .lifecycle.journal import Archive
from .sandbox import Sandbox
from .scaling import Answer, Fleet, Scaling, answer_to

AWAITED_INVOCATION: ContextVar[PendingInvocation | None] = ContextVar("asked", default=None)
"""The invocation whose answer the present HTTP request waits for."""


class Server:
    """The Invoke API and the environments, in one event loop: `start`, then use `fleet`, then `stop`."""

    def __init__(
        self,
        function: Function,
        settings: Settings,
        scaling: Scaling | None,
        archive: Archive,
        on_answer: Callable[[Answer], None] | None = None,
    ) -> None:
        """`on_answer` gets what each request over HTTP came to, but not of those that `stop` ends."""
        self._function = function
        self._settings = settings
        self._archive = archive
        self._on_answer = on_answer
        self._session: aiohttp.ClientSession
        self._undo = contextlib.AsyncExitStack()
        self.hold = Hold()
        self.fleet = Fleet(scaling, settings, self._make_sandbox)
        self.port = 0

    async def start(self) -> None:
        """Serve the Invoke API, and start the environments that need no request. Raises BadInput, and then leaves
        nothing behind."""
        try:
            await self._start()
        except BaseException:
            await self._undo.aclose()
            raise

    async def _start(self) -> None:
        invoke_socket = bind(self._settings.port)
        self._undo.callback(invoke_socket.close)
        self.port = invoke_socket.getsockname()[1]
        self._session = await self._undo.enter_async_context(
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None), trust_env=False)
        )
        await self.fleet.start()
        routes = [
            *InvokeApi(self._settings, self._submit).routes(),
            *FunctionUrl(self._settings, self._submit).routes(),
        ]
        runner = await serve(invoke_socket, routes, self._measured)
        self._undo.push_async_callback(runner.cleanup)

    def _submit(self, pending: PendingInvocation, *, may_wait: bool = False) -> None:
        if not may_wait:
            AWAITED_INVOCATION.set(pending)
        self.fleet.submit(pending, may_wait=may_wait)

    @web.middleware
    async def _measured(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        begun_s = asyncio.get_running_loop().time()
        AWAITED_INVOCATION.set(None)
        response = await handler(request)
        pending = AWAITED_INVOCATION.get()
        if pending is not None and self._on_answer is not None and not is_stopped(pending):
            self._on_answer(answer_to(pending, begun_s, response.status))
        return response

    def _make_sandbox(self) -> Sandbox:
        return Sandbox(self._function, self._settings, self._archive, self._session, self.hold)

    async def stop(self, reason: str, *, abort: bool) -> None:
        """End all environments. No process, cgroup, folder or socket stays."""
        if abort:
            self._on_answer = None
        try:
            await self.fleet.stop(reason, abort=abort)
        finally:
            await self._undo.aclose()


def is_stopped(pending: PendingInvocation) -> bool:
    """True if it waited for an init when the local Lambda was stopped: that is no failure of the function."""
    if not pending.answer.done():
        return False
    error = pending.answer.exception()
    return isinstance(error, WaitFailed) and error.failure is STOPPED_FAILURE
