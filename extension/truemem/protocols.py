"""What a wing may bring for the loop to drive: types alone, in a module that is not compiled."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    class Lifecycle(Protocol):
        """The lifecycle of one execution environment, from the first `next` to SHUTDOWN."""

        def run(self) -> None:
            """Serve until SHUTDOWN."""

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
