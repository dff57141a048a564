"""Holding `next` open, and answering it at a moment of our choosing."""

from __future__ import annotations

import asyncio
import contextlib
import time

from aiohttp import web

SPIN_S = 0.0001


class PendingNext:
    """One pending `next`.

    The answer is made ready first (`load`) and sent later (`fire`): between the thaw and the bytes lies as little work
    as possible. `fire` returns when the kernel has the bytes: asyncio's transport tries the socket at once.
    """

    def __init__(self, request: web.Request) -> None:
        self._request = request
        self._answered: asyncio.Future[web.Response] = asyncio.get_running_loop().create_future()
        self._response: web.Response | None = None

    async def answered(self) -> web.Response:
        """For the handler: the response, already sent."""
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
        """End the handler of a process that is gone."""
        self._answered.cancel()


async def wait_until(moment: float) -> None:
    """Wait until a `time.perf_counter` moment, to some ten microseconds.

    The event loop's timers are good for a millisecond. So the last millisecond is a real sleep that blocks the loop,
    and the last tenth of it a busy wait; nobody else has anything to do in the loop before the runtime is released.
    """
    remaining = moment - time.perf_counter()
    if remaining > 0.002:
        await asyncio.sleep(remaining - 0.001)
    remaining = moment - time.perf_counter()
    if remaining > SPIN_S:
        time.sleep(remaining - SPIN_S)
    while time.perf_counter() < moment:
        pass
