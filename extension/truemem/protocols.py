"""What the loop asks of those that it drives: types alone, in a module that is not compiled."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Protocol

    from .lifecycle.loop import ReceivedEvent
    from .lifecycle.turn import Pending

    class Lifecycle(Protocol):
        """The lifecycle of one execution environment, from the first `next` to SHUTDOWN."""

        def run(self) -> None:
            """Serve until SHUTDOWN."""

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

    class Sender(Protocol):
        """Sends records somewhere, without waiting. Times are monotonic ns."""

        running_ms: Callable[[], float]
        """Time that the environment has run, without its freezes. Set by the loop."""

        def interests(self) -> dict[int, int]:
            """What to wait for: events by descriptor."""

        def due_ns(self, now_ns: int) -> int:
            """Monotonic ns at which `step` has something to do, whatever comes."""

        def step(self) -> None:
            """Go on, as far as that goes without waiting."""

        def hurry(self, limit_ns: float, last: bool = False, reset: bool = False) -> None:
            """The environment ends: send all, for so long at most. `last`: nothing comes after. `reset`: but another
            process of the same environment."""
