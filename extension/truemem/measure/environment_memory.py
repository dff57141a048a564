"""What the environment holds beside the function, read when a window closes: sidecar, extensions, the whole."""

from __future__ import annotations

from ..linux.cgroup import MemorySource
from ..linux.process_table import SIDECAR, ProcessTable
from ..linux.procfs import Gone

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

    from ..linux.cgroup import MemoryUsage

AT_LIMIT: Final = 0.97
"""Share of the limit from which on a level is at it: functions that thrash were seen at 127 of 128 and 192 of 192."""

EXTENSIONS: Final = 10
"""Most extensions that a function may have: others only pretend to be extensions."""


class HeldMemory:
    """Who held what beside the function when a window closed, in KiB."""

    def __init__(
        self,
        environment: MemoryUsage | None,
        sidecar: int,
        extensions: dict[str, int],
        function_lived: bool = True,
    ) -> None:
        """`function_lived`: it still did. Else what it held is not in the environment's level any more."""
        self.environment = environment
        self.sidecar = sidecar
        self.extensions = extensions
        self.function_lived = function_lived


class EnvironmentMemory:
    def __init__(self, table: ProcessTable, level: MemorySource) -> None:
        self._table = table
        self._level = level
        self.source = level.source
        """Where the environment's own level comes from: `cgroup2`, `cgroup1` or `meminfo`."""
        self.held_kib = 0
        """RSS of sidecar and extensions, as last read."""
        self.extensions: dict[str, int] = {}
        """RSS of each extension, as last read while it lived."""
        self.ended: set[str] = set()
        """Extensions that had ended when they were read last."""
        self._last: dict[str, int] = {}
        """RSS of those that ended last, as read before."""

    def read(self, function_lives: bool = True) -> HeldMemory:
        """What the environment holds when a window closes."""
        environment = self._level.read()
        before = self.extensions
        self.held_kib, sidecar, self.extensions = self._others(forget=True)
        if before or self._last:
            # Windows may close late, several at once: the one that it ended in is not always the last.
            ended = {name: rss for name, rss in before.items() if name not in self.extensions}
            self._last = ended or {name: rss for name, rss in self._last.items() if name not in self.extensions}
        return HeldMemory(environment, sidecar, dict(self.extensions), function_lives)

    def dying_extensions(self) -> int:
        """How many extensions have ended, or are about to by SIGKILL. For when the kernel has counted a kill: 5 µs
        each."""
        others = [process for process in self._table.others() if process.owner != SIDECAR]
        return len(self._last) + sum(process.files.is_dying() for process in others)

    def look(self) -> None:
        """Read `held_kib` and `extensions` anew. One that has ended keeps its last level: it may be why all end."""
        held, _, alive = self._others(forget=False)
        ended = {name: rss for name, rss in {**self._last, **self.extensions}.items() if name not in alive}
        self.extensions, self.ended = {**alive, **ended}, set(ended)
        self.held_kib = held + sum(ended.values())

    def _others(self, forget: bool) -> tuple[int, int, dict[str, int]]:
        """RSS of all together, of this sidecar, and of each extension that has some: one that has ended has none, also
        while it is still there. `forget`: those that cannot be read."""
        held = sidecar = 0
        extensions: dict[str, int] = {}
        for process in self._table.others():
            try:
                rss = process.files.rss()
            except Gone:
                if forget:
                    self._table.forget(process)
                continue
            held += rss
            if process.owner == SIDECAR:
                sidecar = rss
            elif rss:
                name = process.owner.partition(":")[2]
                if name in extensions or len(extensions) < EXTENSIONS:
                    extensions[name] = extensions.get(name, 0) + rss
        return held, sidecar, extensions

    def together_kib(self, largest: int, counted_kib: int, limit_kib: int) -> int:
        """What all processes hold (KiB), with the memory that they share counted once. 0 where that is not known, or
        where the function's RSS, `counted_kib`, and all others' are far enough from the limit together. A cgroup knows
        it. meminfo leaves out memory that can be reclaimed, and so the files that are mapped: those of the `largest`
        process, a pid, stand for all of them."""
        if not limit_kib or counted_kib + self.held_kib < AT_LIMIT * limit_kib:
            return 0
        level = self._level.read()
        if level is None:
            return 0
        if level.source != "meminfo":
            return level.used
        mapped = 0
        for process in self._table.function():
            if process.pid == largest:
                try:
                    mapped = process.files.status().file
                except Gone:
                    return 0
        return level.used + mapped
