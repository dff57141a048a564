"""What is found about the heap of a runtime: its kind, and the figures that it was found from. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .heap_course import Course
from .runtime_reading import Reading

Kind = Literal["leak", "classes", "external", "native", "filling", "filled", "lazy", "level"]

LEAKS = ("leak", "classes", "external", "native")
PATTERNS: dict[Kind, str] = {
    "leak": "a-cache-without-bound",
    "classes": "classes-that-are-never-unloaded",
    "external": "buffers-outside-of-the-heap",
    "native": "buffers-outside-of-the-heap",
    "filling": "a-cache-that-fills",
    "filled": "a-cache-that-fills",
    "lazy": "a-collector-that-has-not-run",
    "level": "steady",
}
"""Section of docs/patterns.md."""
EXCEEDS = "a-heap-limit-above-the-memory-size"
"""The same, where the limit of a heap without a leak is the trouble."""

RECENT = 0.5
"""What was live at the last collection is still told of now if it ran in this later part of the invocations."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What was found about one environment's heap."""

    kind: Kind
    sentence: str

    exceeds: bool = False
    """True if the heap's limit does not fit the function's memory size."""

    @property
    def is_leak(self) -> bool:
        return self.kind in LEAKS

    @property
    def matters(self) -> bool:
        """True if there is something to do, or if growth is explained."""
        return self.kind != "level" or self.exceeds

    @property
    def pattern(self) -> str:
        """Section of docs/patterns.md that explains it."""
        return EXCEEDS if self.exceeds and not self.is_leak else PATTERNS[self.kind]


@dataclass(frozen=True, kw_only=True)
class Seen:
    """How the figures of one process went. MiB."""

    first: Reading
    last: Reading
    invocations: int
    live: Course
    live_now: float | None
    """What the last major collection that is known has left."""
    since_live: int
    """Invocations since the last point at which something is known of what is live."""
    used_now: float | None
    is_used_old: bool
    """True if that is as of some earlier collection: what Java tells from 25 on."""
    metaspace: Course
    is_metaspace_kept: bool
    """True if a major collection left what it has grown by; else it may be garbage."""
    external: Course
    is_external_kept: bool
    native: Course
    used: Course
    rss_before: float | None
    rss_after: float | None
    collections: int
    """Major collections from the first of these lines to the last."""

    @property
    def garbage(self) -> float | None:
        """What objects use beyond what was live at the last major collection."""
        if self.live_now is None or self.used_now is None:
            return None
        return max(0.0, self.used_now - self.live_now)

    @property
    def is_recent(self) -> bool:
        return self.since_live <= RECENT * self.invocations

    @property
    def is_contradicted(self) -> bool:
        """True if objects use less now than what is said to be live."""
        return self.used_now is not None and self.used_now < self.live.before
