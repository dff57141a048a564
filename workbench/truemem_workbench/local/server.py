"""Serves the Invoke API on loopback, for the environments of one function, and removes everything at the end."""

from __future__ import annotations

import contextlib

import aiohttp

from .apis.http import bind, serve
from .apis.invoke_api import InvokeApi
from .configuration.function import Function
from .configuration.settings import Settings
from .lifecycle.generation import Hold
from .lifecycle.journal import Archive
from .sandbox import Sandbox
from .scaling import Fleet, Scaling


class Server:
    """The Invoke API and the environments, in one event loop: `start`, then use `fleet`, then `stop`."""

    def __init__(self, function: Function, settings: Settings, scaling: Scaling | None, archive: Archive) -> None:
        self._function = function
        self._settings = settings
        self._archive = archive
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
        runner = await serve(invoke_socket, InvokeApi(self._settings, self.fleet.submit).routes())
        self._undo.push_async_callback(runner.cleanup)

    def _make_sandbox(self) -> Sandbox:
        return Sandbox(self._function, self._settings, self._archive, self._session, self.hold)

    async def stop(self, reason: str, *, abort: bool) -> None:
        """End all environments. No process, cgroup, folder or socket stays."""
        try:
            await self.fleet.stop(reason, abort=abort)
        finally:
            await self._undo.aclose()
