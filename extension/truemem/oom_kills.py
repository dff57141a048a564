"""The kernel's own count of its OOM kills: the hard evidence, where it can be read.

cgroup v2 `memory.events` and v1 `memory.oom_control` count those of our group; /proc/vmstat those of this kernel,
which on Lambda is the environment's own. All since Linux 4.13 or before (cgroup-v2.rst, memcg-v1 memory.rst, proc(5)).
"""

from __future__ import annotations

import posix

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .cgroup import Level

LABEL = b"oom_kill "
_FILES = {"cgroup2": "memory.events", "cgroup1": "memory.oom_control"}


def parse(text: bytes) -> int | None:
    """The number after `oom_kill`; None where there is no such line."""
    for line in text.split(b"\n"):
        if line.startswith(LABEL) and line[len(LABEL) :].isdigit():
            return int(line[len(LABEL) :])
    return None


class OomKills:
    """Counts on from where it was made."""

    def __init__(self, level: Level, vmstat: str = "/proc/vmstat") -> None:
        self._path = f"{level.folder}/{_FILES[level.source]}" if level.source in _FILES else vmstat
        self.seen = self._count()
        """As last read; None where nothing counts."""

    def more(self) -> int:
        """Kills since the last time."""
        before, self.seen = self.seen, self._count()
        return self.since(before)

    def since(self, earlier: int | None) -> int:
        """Kills since an earlier process had read `earlier`; 0 where one of the two is not known."""
        return max(0, self.seen - earlier) if self.seen is not None and earlier is not None else 0

    def _count(self) -> int | None:
        pieces = []
        try:
            descriptor = posix.open(self._path, posix.O_RDONLY | posix.O_CLOEXEC)
            try:
                while piece := posix.read(descriptor, 16384):  # /proc gives a page at a time
                    pieces.append(piece)
            finally:
                posix.close(descriptor)
        except OSError:
            return None
        return parse(b"".join(pieces))
