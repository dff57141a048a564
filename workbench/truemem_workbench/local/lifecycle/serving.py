"""What every environment has for the APIs, the server and the session: it serves one request at a time, or many."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod

from ..configuration.function import Function
from ..configuration.settings import Settings
from ..errors import STOPPED, Failure
from ..processes.freezer import Freezer
from ..processes.memory import Memory
from ..state.generation import Generation
from ..state.invocation import Pending
from .journal import Journal
from .launcher import Launcher

INIT_TIMEOUT = Failure("Sandbox.Timedout", "Init timed out", "timeout")


class Serving(ABC):
    """An execution environment. Create it in the event loop; `run` is its main task."""

    memory: Memory
    freezer: Freezer
    generation: Generation

    def __init__(self, function: Function, settings: Settings, launcher: Launcher, journal: Journal) -> None:
        self.function = function
        self.settings = settings
        self.journal = journal
        self._launcher = launcher
        self._idle = asyncio.Event()
        self._stopping = False
        self._stop_reason = "spindown"

    def equip(self, memory: Memory, freezer: Freezer) -> None:
        """Set memory and freezer, once, before `run`. They are made after the environment: they ask for its `roots`."""
        self.memory = self._launcher.memory = memory
        self.freezer = self._launcher.freezer = freezer

    def roots(self) -> dict[str, int]:
        """Live processes by name: `runtime`, `extension:NAME`."""
        return self.generation.roots()

    def submit(self, pending: Pending) -> None:
        """Queue an invocation. Its `answer` is set when the runtime posts it, its `report` at its end."""
        if self._stopping:
            pending.refuse(STOPPED)
            return
        self._idle.clear()
        self._enqueue(pending)

    async def settle(self) -> None:
        """Wait until no invocation runs or waits, and all reports are made."""
        await self._idle.wait()

    def stop(self, reason: str, *, abort: bool) -> None:
        """Make `run` end: after the running invocations, or at once with `abort`."""
        self._stopping = True
        self._stop_reason = reason
        if abort or not self.generation.initialised:
            self.generation.fail(STOPPED)
        self._wake()

    @abstractmethod
    async def run(self) -> None:
        """Serve from the first init to the last shutdown. Cleans up also if it is cancelled or fails."""

    @abstractmethod
    def _enqueue(self, pending: Pending) -> None: ...

    @abstractmethod
    def _wake(self) -> None:
        """End the wait for the next invocation."""

    def _start_clock(self, pending: Pending) -> float:
        """The invocation begins now: sets its deadline. Returns the time, by perf_counter."""
        pending.deadline_ms = int((time.time() + self.settings.timeout_s) * 1000)
        pending.moments.released = time.perf_counter()
        return pending.moments.released

    def _timeout(self) -> Failure:
        return Failure("Sandbox.Timedout", f"Task timed out after {self.settings.timeout_s:.2f} seconds", "timeout")
