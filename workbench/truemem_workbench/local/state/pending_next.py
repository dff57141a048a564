"""Keeps a call of `next` open, to answer it at a chosen moment."""

from __future__ import annotations

import asyncio
import contextlib
import time

from aiohttp import web

SPIN_S = 0.0001


class PendingNext:
    """One pending call of `next`.

    `load` prepares the answer, `fire` sends it later, so that little work lies between the thaw and the bytes. `fire`
    returns when the kernel has the bytes: asyncio's transport tries the socket at once.
    """

    def __init__(self, request: web.Request) -> None:
        self._request = request
        self._answered: asyncio.Future[web.Response] = asyncio.get_running_loop().create_future()
        self._response: web.Response | None = None

    async def answered(self) -> web.Response:
        """Wait for the response, which is already sent then. The HTTP handler returns it."""
        return await self._answered

    async def load(self, response: web.Response) -> None:
        self._response = response
        await response.prepare(self._request)

    async def fire(self) -> None:
        assert self._response is not None
        with contextlib.suppress(ConnectionError):  # the client is gone: its process will be noticed, not its socket
            await self._response.write_eof()
        if not self._answered.done():
            self._answered.set_result(self._response)

    def give_up(self) -> None:
        """Cancel the HTTP handler: its process is gone."""
        self._answered.cancel()


async def wait_until(moment: float) -> None:
    """Wait until this time by `time.perf_counter`, to some ten microseconds.

    The event loop's timers are exact to a millisecond. So the last millisecond is a real sleep that blocks the loop,
    and the last tenth of it a busy wait. The loop has no other work before the runtime is released.
    """
    remaining = moment - time.perf_counter()
    if remaining > 0.002:
        await asyncio.sleep(remaining - 0.001)
    remaining = moment - time.perf_counter()
    if remaining > SPIN_S:
        time.sleep(remaining - SPIN_S)
    while time.perf_counter() < moment:
        pass
