"""Events that wait to be delivered together. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Buffering:
    """When a batch goes out: at whichever limit is reached first."""

    max_items: int = 10_000
    max_bytes: int = 262_144
    timeout_ms: int = 1_000
    """From the batch's first event."""
    newest_first: bool = False
    """A fault: AWS promises no order."""


@dataclass
class Batch:
    """Events waiting. No clock: time comes in as an argument, in seconds."""

    buffering: Buffering
    items: list[bytes] = field(default_factory=list)
    size: int = 0
    due: float | None = None
    """When the timer of the oldest waiting event runs out."""

    def add(self, item: bytes, now: float) -> None:
        if self.due is None:
            self.due = now + self.buffering.timeout_ms / 1000
        self.items.append(item)
        self.size += len(item)

    def wait(self, now: float) -> float | None:
        """Seconds until the batch must go: 0 or less is now, None is never (it is empty)."""
        if self.due is None:
            return None
        if len(self.items) >= self.buffering.max_items or self.size >= self.buffering.max_bytes:
            return 0.0
        return self.due - now

    def take(self, now: float) -> list[bytes]:
        """The next batch to send: never more than maxItems, and no event begun beyond maxBytes."""
        count = size = 0
        while count < len(self.items) and count < self.buffering.max_items and size < self.buffering.max_bytes:
            size += len(self.items[count])
            count += 1
        taken, self.items = self.items[:count], self.items[count:]
        self.size -= size
        self.due = now + self.buffering.timeout_ms / 1000 if self.items else None
        return taken
