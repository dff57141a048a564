"""The garbage-collected heap of the function's runtime, whatever the runtime is: one shape for all of them."""

from __future__ import annotations

from ..support.named_tuple import NamedTuple
from ..support.units import mib


class RuntimeHeap(NamedTuple):
    """What one runtime says of its heap when an invocation had ended. Sizes in KiB; None: it does not say."""

    runtime: str
    """`java`, `nodejs`, `go` or `dotnet`."""
    used: int | None
    """By objects, those that nothing refers to any more included: the collector has not taken them yet. With Java 25's
    Serial and Parallel collectors as of the end of the last collection: None before the first."""
    committed: int
    """Taken from the system for the heap, used or not."""
    live: int | None = None
    """Used just after the last major collection, or the last one that looked at all objects; None before the first, and
    where another collection came before it could be read. Java before 25: without what that collection has left in
    eden."""
    limit: int | None = None
    """The heap does not grow beyond it (`-Xmx`, `--max-old-space-size`, `GOMEMLIMIT`, `DOTNET_GCHeapHardLimit`)."""
    external: int | None = None
    """Memory outside of the heap that its objects own (Node.js: `external`, buffers included)."""
    metaspace: int | None = None
    """Classes and their code (Java: metaspace used; Node.js: compiled code, which is part of `used`)."""
    collections: int | None = None
    """Major collections since the process began."""
    gc_ms: int | None = None
    """Time that all collections took since the process began, ms."""

    def document(self) -> dict[str, object]:
        """The record's member `heap`, in MiB."""
        members: dict[str, object] = {"runtime": self.runtime}
        for name in ("used", "committed", "live", "limit", "external", "metaspace"):
            size = getattr(self, name)
            if size is not None:
                members[name] = mib(size)
        if self.collections is not None:
            members["collections"] = self.collections
        if self.gc_ms is not None:
            members["gcMs"] = self.gc_ms
        return members
