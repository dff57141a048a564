"""One line in the log, at the first invocation, if the heap may grow beyond the function's memory.

The kernel then kills the function before its garbage collector sees a need to run.
"""

from __future__ import annotations

from ..linux.runtime_heap import RuntimeHeap
from ..support.log import log
from ..support.named_tuple import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..linux.heap_page import Heap


class _Setting(NamedTuple):
    """How the limit of one runtime's heap is set."""

    how: str
    """With `%d` for MiB, or `%X` for bytes."""
    percent: int
    """Of the memory size, to be proposed, if what is outside of the heap leaves so much."""
    beside_kib: int = 0
    """By how much the heap's limit is above the value that is set."""


_SETTINGS = {
    # AWS's own Java runtimes give the heap 85 % (445,645 KiB of 512 MiB; DataDog/datadog-lambda-extension#117).
    "java": _Setting(
        "-Xmx%dm, or a lower -XX:MaxRAMPercentage, where JAVA_TOOL_OPTIONS or the command has it (that wins)", 85
    ),
    # Outside of V8's old generation: its young one, buffers, code, stacks.
    # Its limit has 48 MiB of the young one in it, whatever the old one has (Node.js 20).
    "nodejs": _Setting("--max-old-space-size=%d in the variable NODE_OPTIONS", 75, 48 * 1024),
    # "leave an additional 5-10% of headroom" (A Guide to the Go Garbage Collector, "Suggested uses").
    "go": _Setting("the variable GOMEMLIMIT=%dMiB", 90),
    # The default in a container that has a limit (learn.microsoft.com, "Runtime configuration options for GC").
    "dotnet": _Setting("the variable DOTNET_GCHeapHardLimit=0x%X", 75),
}


def advice(runtime: str, limit_kib: int, memory_kib: int, outside_kib: int = 0) -> str:
    """What to set where the heap's limit, with what the runtime is known to hold outside of its heap, is above the
    memory size. "" where it is not, or where the runtime or a size (0) is not known."""
    setting = _SETTINGS.get(runtime)
    if setting is None or not limit_kib or not memory_kib or limit_kib + outside_kib <= memory_kib:
        return ""
    mib = min(memory_kib * setting.percent // 100, memory_kib - outside_kib - setting.beside_kib) // 1024
    value = mib << 20 if "%X" in setting.how else mib
    what_to_do = f"Set {setting.how % value}" if mib > 0 else "No limit fits: it needs a larger memory size"
    beside = f" and {outside_kib // 1024} MiB outside of it" if outside_kib >= 1024 else ""
    return (
        f"the heap may grow to {limit_kib // 1024} MiB{beside}, the function has {memory_kib // 1024} MiB: it can be "
        f"killed before the garbage collector has to run. {what_to_do}"
    )


class HeapLimitNotice:
    """Says so once in an environment, about the first heap that has a limit."""

    def __init__(self, memory_mib: int) -> None:
        """`memory_mib`: the function's memory size; 0 where that is not known."""
        self._memory_kib = memory_mib * 1024
        self._looked = False

    def look(self, heap: Heap | RuntimeHeap | None) -> None:
        """At the close of each invocation."""
        if self._looked or not isinstance(heap, RuntimeHeap) or heap.limit is None:
            return
        self._looked = True
        said = advice(heap.runtime, heap.limit, self._memory_kib, (heap.metaspace or 0) + (heap.external or 0))
        if said:
            log("warn", said)
