"""Holds the runtime at one of its calls, for a scenario: it stays in its init or invocation until it dies."""

from __future__ import annotations

import threading
from typing import Literal

from aiohttp import web

from .generation import Runtime
from .pending_next import PendingNext

Call = Literal["next", "response"]


class Hold:
    """Holds one call of the runtime, which is never answered. The scenario sets it from another thread."""

    def __init__(self) -> None:
        self._call: Call | None = None
        self._reached = threading.Event()

    def at(self, call: Call | None) -> None:
        """Hold this call from now on. None lets later calls pass."""
        self._reached.clear()
        self._call = call

    def wait(self, within_s: float) -> bool:
        """Wait until the runtime is held. Returns False if that takes longer."""
        return self._reached.wait(within_s)

    async def pass_by(self, call: Call, runtime: Runtime, request: web.Request) -> None:
        """Return if this call is not held; else never return. The end of the generation cancels it."""
        if call != self._call:
            return
        runtime.pending_next = PendingNext(request)
        self._reached.set()
        await runtime.pending_next.answered()
