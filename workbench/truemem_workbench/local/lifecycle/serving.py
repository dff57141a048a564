"""What the APIs, the server and the session ask of an environment: one request at a time, or many."""

from __future__ import annotations

from typing import Protocol

from ..configuration.function import Function
from ..configuration.settings import Settings
from ..processes.freezer import Freezer
from ..processes.memory import Memory
from ..state.generation import Generation
from ..state.invocation import Pending
from .journal import Journal


class Serving(Protocol):
    function: Function
    settings: Settings
    journal: Journal

    @property
    def generation(self) -> Generation: ...

    def equip(self, memory: Memory, freezer: Freezer) -> None: ...

    def roots(self) -> dict[str, int]:
        """Live processes by name: `runtime`, `extension:NAME`."""

    def submit(self, pending: Pending) -> None:
        """Queue an invocation: its `answer` comes when the runtime posts it, its `report` at its end."""

    async def settle(self) -> None:
        """Wait until nothing runs and nothing waits."""

    def stop(self, reason: str, *, abort: bool) -> None:
        """Make `run` end: after what is running, or with `abort` in the midst of it."""

    async def run(self) -> None:
        """The life of the environment: to its end, whatever happens."""
