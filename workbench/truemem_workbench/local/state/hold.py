"""Holding the runtime at one of its calls, for a scenario: it stays in its init or invocation until it dies."""

from __future__ import annotations

import threading
from typing import Literal

from aiohttp import web

from .generation import Runtime
from .pending_next import PendingNext

Call = Literal["next", "response"]


class Hold:
    """Set from another thread. A held call is never answered: the function has done its work, nobody knows of it."""

    def __init__(self) -> None:
        self._call: Call | None = None
        self._reached = threading.Event()

    def at(self, call: Call | None) -> None:
        """From now on; None lets the calls that come later pass."""
        self._reached.clear()
        self._call = call

    def wait(self, within_s: float) -> bool:
        """Wait until the runtime is held."""
        return self._reached.wait(within_s)

    async def pass_by(self, call: Call, runtime: Runtime, request: web.Request) -> None:
        """For the Runtime API. Held, it returns never: it is cancelled with the generation."""
        if call != self._call:
            return
        runtime.pending_next = PendingNext(request)
        self._reached.set()
        await runtime.pending_next.answered()
