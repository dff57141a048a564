"""An event of the Extensions API, and when it came."""

from __future__ import annotations

from ..platform.extensions_api import is_invoke

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..support.clock import Clock

MS = 1_000_000


class ReceivedEvent:
    """INVOKE or SHUTDOWN."""

    def __init__(self, body: bytes, arrived_ns: int | None, clock: Clock) -> None:
        self.body = body
        self.invoke = is_invoke(body)
        self.arrived_ns = arrived_ns
        """When the event arrived, as the kernel says: epoch ns; None if it does not say."""
        self.now_ns = clock.monotonic_ns()
        self.time_ms = clock.epoch_ns() // MS
