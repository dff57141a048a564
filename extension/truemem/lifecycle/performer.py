"""What the loop asks of a role: a type alone, in a module that is not compiled."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Protocol

    from .event import ReceivedEvent
    from .turn import Pending

    class Performer(Protocol):
        """A role, as the loop drives it."""

        @property
        def actions(self) -> Mapping[str, Callable[[], object]]:
            """All actions of the role's table but those of the loop."""

        def look(self, pending: Pending) -> None:
            """Fill in what could be done now. Called twice in each turn."""

        def journal_invoke(self, body: bytes) -> None:
            """An event has come whole: before it is taken out of the socket."""

        def take(self, event: ReceivedEvent) -> bool:
            """The event that was received; False if the window that it ends was not read at its arrival."""
