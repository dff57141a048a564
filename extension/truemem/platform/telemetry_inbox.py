"""Telemetry on its way from the listener: received, answered, and read when there is time for it."""

from __future__ import annotations

from .telemetry_events import Event, parse_batch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .telemetry_server import TelemetryServer

DELIVERIES = 64
"""Received and not yet read; beyond these the rest waits in the sockets."""


class TelemetryInbox:
    """Deliveries in the order in which they came."""

    def __init__(self, listener: TelemetryServer | None, lose: Callable[[int], None]) -> None:
        """`lose` is told how much could not be understood."""
        self._listener = listener
        self._lose = lose
        self._bodies: list[bytes] = []

    def __bool__(self) -> bool:
        return bool(self._bodies)

    def take(self, descriptors: list[int]) -> None:
        """Receive and answer what has come there. Descriptors of others are passed over."""
        for descriptor in descriptors:
            if self._listener is not None and len(self._bodies) < DELIVERIES:
                self._bodies += self._listener.ready(descriptor)

    def read(self) -> list[Event]:
        """The events of the oldest delivery."""
        try:
            events, bad = parse_batch(self._bodies.pop(0))
        except ValueError:
            events, bad = [], 1
        self._lose(bad)
        return events
