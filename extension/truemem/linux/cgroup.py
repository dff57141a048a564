"""Memory of the whole environment, and its OOM kills: from cgroup v2, then v1, then /proc, whichever is there.

On ordinary Lambda expect no cgroup files: /proc/meminfo has the level then, page cache left out. OOM kills are counted
by `memory.events` (v2) and `memory.oom_control` (v1) of our group, and by /proc/vmstat of this kernel, which on Lambda
is the environment's own. All since Linux 4.13 or before (cgroup-v2.rst, memcg-v1 memory.rst, proc(5)).
"""

from __future__ import annotations

import posix

from ..support.kept_file import READ_BYTES, KeptFile
from .procfs import Gone, Procfs, labelled, number_at, parse_meminfo

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

_KILLS: Final = b"\noom_kill "
_KILLS_FILES = {"cgroup2": "memory.events", "cgroup1": "memory.oom_control"}


class MemoryUsage:
    """Memory of the environment, in KiB."""

    def __init__(self, source: str, used: int, peak: int | None) -> None:
        self.source = source
        self.used = used
        """Now. A cgroup counts page cache, meminfo (MemTotal - MemAvailable) what cannot be reclaimed."""
        self.peak = peak
        """Highest since the cgroup was made, None where the kernel keeps none (meminfo; v2 before Linux 5.19)."""


def parse_membership(text: bytes) -> tuple[str | None, str | None]:
    """Paths of the process in the (v2, v1 memory) hierarchies, from /proc/self/cgroup (cgroups(7))."""
    unified = memory = None
    for line in text.splitlines():
        _, _, rest = line.partition(b":")
        controllers, colon, path = rest.partition(b":")
        if not colon or b"\0" in path:
            continue
        if controllers == b"":
            unified = path.decode("utf-8", "surrogateescape")
        elif b"memory" in controllers.split(b","):
            memory = path.decode("utf-8", "surrogateescape")
    return unified, memory


def parse_bytes(text: bytes) -> int:
    """A cgroup's figure in KiB, from one number of bytes. Raises Gone for anything else."""
    try:
        number, at = number_at(text, 0)
    except ValueError:
        at = -1
    if at < 0 or text[at:].strip():
        raise Gone(f"not a number of bytes: {text[:40]!r}")
    return number // 1024


class MemorySource:
    """Reads the environment's memory from the best source there is, chosen once."""

    def __init__(self, proc: Procfs, root: str = "/sys/fs/cgroup") -> None:
        self.source = "meminfo"
        self.folder = ""
        """Folder of our cgroup's files; "" for meminfo."""
        self._used = self._peak = KeptFile(f"{proc.root}/meminfo")
        try:
            unified, memory = parse_membership(proc.text("self/cgroup"))
        except Gone:
            return
        for source, mount, path, used, peak in (
            ("cgroup2", root, unified, "memory.current", "memory.peak"),
            ("cgroup1", root + "/memory", memory, "memory.usage_in_bytes", "memory.max_usage_in_bytes"),
        ):
            # Inside a cgroup namespace the path may not exist below the mount: then the mount is ours.
            for folder in () if path is None else (mount + path.rstrip("/"), mount):
                if posix.access(f"{folder}/{used}", posix.R_OK):
                    self.source, self.folder = source, folder
                    self._used, self._peak = KeptFile(f"{folder}/{used}"), KeptFile(f"{folder}/{peak}")
                    return

    def read(self) -> MemoryUsage | None:
        """The level now, or None when not even meminfo can be read."""
        try:
            if self.source != "meminfo":
                return MemoryUsage(self.source, parse_bytes(self._used.read(64)), self._read_peak())
            total, available = parse_meminfo(self._used.read(4096))
            return MemoryUsage("meminfo", total - available, None)
        except (Gone, OSError):
            return None

    def _read_peak(self) -> int | None:
        try:
            return parse_bytes(self._peak.read(64))
        except (Gone, OSError):  # not kept here
            return None


class OomKills:
    """The kernel's own count of OOM kills, from where this was made. Read when a window closes: 1 µs of a cgroup, 20 µs
    of /proc/vmstat (measured), so the descriptor is kept."""

    def __init__(self, level: MemorySource, vmstat: str = "/proc/vmstat", piece: int = READ_BYTES) -> None:
        name = _KILLS_FILES.get(level.source)
        self._file = KeptFile(f"{level.folder}/{name}" if name is not None else vmstat)
        self._piece = piece
        self.seen = self._count()
        """OOM kills as last read; None where nothing counts them."""

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
        try:
            text, at = self._file.line(_KILLS, self._piece)
            return labelled(text, _KILLS, at)[0]
        except (Gone, OSError):
            return None
