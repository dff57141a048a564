"""The kernel's own count of its OOM kills: the hard evidence, where it can be read.

cgroup v2 `memory.events` and v1 `memory.oom_control` count those of our group; /proc/vmstat those of this kernel,
which on Lambda is the environment's own. All since Linux 4.13 or before (cgroup-v2.rst, memcg-v1 memory.rst, proc(5)).
"""

from __future__ import annotations

from ..support.files import KeptFile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .cgroup import MemorySource

LABEL = b"oom_kill "
PIECE = 16384
"""Bytes to read at once."""
_FILES = {"cgroup2": "memory.events", "cgroup1": "memory.oom_control"}


def parse(text: bytes) -> int | None:
    """The number after `oom_kill`; None where there is no such line."""
    for line in text.split(b"\n"):
        if line.startswith(LABEL) and line[len(LABEL) :].isdigit():
            return int(line[len(LABEL) :])
    return None


class OomKills:
    """Counts on from where it was made. Read when a window closes: 1 µs of a cgroup, 20 µs of /proc/vmstat (measured),
    so the descriptor is kept."""

    def __init__(self, level: MemorySource, vmstat: str = "/proc/vmstat", piece: int = PIECE) -> None:
        self._file = KeptFile(f"{level.folder}/{_FILES[level.source]}" if level.source in _FILES else vmstat)
        self._piece = piece
        self.seen = self._count()
        """As last read; None where nothing counts."""

    def more(self) -> int | None:
        """Kills since it was last read; None where it cannot be read now."""
        count = self._count()
        if count is None:
            return None
        before, self.seen = self.seen, count
        return self.since(before)

    def since(self, earlier: int | None) -> int:
        """Kills since an earlier process had read `earlier`; 0 where one of the two is not known."""
        return max(0, self.seen - earlier) if self.seen is not None and earlier is not None else 0

    def _count(self) -> int | None:
        text = b""
        try:
            while b"\n" not in text.partition(LABEL)[2] and (piece := self._file.read(self._piece, len(text))):
                text += piece  # /proc gives a page at a time
        except OSError:
            return None
        return parse(text)
