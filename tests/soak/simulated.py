"""An event loop in which waiting takes no time: its clock goes to the next timer instead."""

import asyncio
import selectors
from typing import Any


class SimulatedLoop(asyncio.SelectorEventLoop):
    """Its time begins at 0."""

    def __init__(self) -> None:
        super().__init__(_NoWait(self))
        self._now = 0.0

    def time(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        """Time goes on while the loop does nothing, as in a computation."""
        self._now += seconds


class _NoWait(selectors.DefaultSelector):
    def __init__(self, loop: SimulatedLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout:
            self._loop.advance(timeout)
        return super().select(0 if timeout is not None else None)
