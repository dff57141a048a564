"""Collects events that are delivered together. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Buffering:
    """Limits of a batch. It is sent when it reaches the first of them."""

    max_items: int = 10_000
    max_bytes: int = 262_144
    timeout_ms: int = 1_000
    """Longest wait of a batch, from its first event."""
    newest_first: bool = False
    """Reverse each batch, as a fault: AWS promises no order."""


@dataclass
class Batch:
    """The events that wait. No clock: the caller passes the time, in seconds."""

    buffering: Buffering
    items: list[bytes] = field(default_factory=list)
    size: int = 0
    due: float | None = None
    """Time at which the oldest waiting event must be sent."""

    def add(self, item: bytes, now: float) -> None:
        if self.due is None:
            self.due = now + self.buffering.timeout_ms / 1000
        self.items.append(item)
        self.size += len(item)

    def wait(self, now: float) -> float | None:
        """Seconds until the batch must be sent: 0 or less means now, None means that it is empty."""
        if self.due is None:
            return None
        if len(self.items) >= self.buffering.max_items or self.size >= self.buffering.max_bytes:
            return 0.0
        return self.due - now

    def take(self, now: float) -> list[bytes]:
        """Take the next batch: at most maxItems events, and no event that begins after maxBytes."""
        count = size = 0
        while count < len(self.items) and count < self.buffering.max_items and size < self.buffering.max_bytes:
            size += len(self.items[count])
            count += 1
        taken, self.items = self.items[:count], self.items[count:]
        self.size -= size
        self.due = now + self.buffering.timeout_ms / 1000 if self.items else None
        return taken
