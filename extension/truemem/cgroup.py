"""Memory of the whole environment: cgroup v2, then v1, then /proc/meminfo, whichever is there.

On ordinary Lambda expect no cgroup files; meminfo is then what everybody can see, page cache left out.
"""

from __future__ import annotations

import posix

from .procfs import Gone, Procfs, parse_meminfo


class EnvironmentLevel:
    """Memory of the environment, in KiB."""

    __slots__ = ("peak", "source", "used")

    def __init__(self, source: str, used: int, peak: int | None) -> None:
        self.source = source
        """`cgroup2`, `cgroup1` or `meminfo`."""
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
        if not colon:
            continue
        if controllers == b"":
            unified = path.decode("utf-8", "surrogateescape")
        elif b"memory" in controllers.split(b","):
            memory = path.decode("utf-8", "surrogateescape")
    return unified, memory


def parse_bytes(text: bytes) -> int:
    """A cgroup's figure in KiB, from one number of bytes. Raises Gone for anything else."""
    digits = text.strip()
    if not digits.isdigit():
        raise Gone(f"not a number of bytes: {digits[:40]!r}")
    return int(digits) // 1024


class Level:
    """Reads the environment's memory from the best source there is, chosen once."""

    def __init__(self, proc: Procfs, root: str = "/sys/fs/cgroup") -> None:
        self._proc = proc
        self.source = "meminfo"
        self._used = self._peak = ""
        try:
            unified, memory = parse_membership(proc.text("self/cgroup"))
        except Gone:
            return
        candidates = []
        if unified is not None:
            candidates.append(("cgroup2", root, unified, "memory.current", "memory.peak"))
        if memory is not None:
            v1 = ("memory.usage_in_bytes", "memory.max_usage_in_bytes")
            candidates.append(("cgroup1", root + "/memory", memory, *v1))
        for source, mount, path, used, peak in candidates:
            # Inside a cgroup namespace the path may not exist below the mount: then the mount is ours.
            for folder in (mount + path.rstrip("/"), mount):
                if _readable(f"{folder}/{used}"):
                    self.source, self._used, self._peak = source, f"{folder}/{used}", f"{folder}/{peak}"
                    return

    def read(self) -> EnvironmentLevel | None:
        """The level now, or None when not even meminfo can be read."""
        try:
            if self._used:
                used = parse_bytes(_read(self._used))
                peak = parse_bytes(_read(self._peak)) if _readable(self._peak) else None
                return EnvironmentLevel(self.source, used, peak)
            total, available = parse_meminfo(self._proc.text("meminfo", 4096))
        except (Gone, OSError):
            return None
        return EnvironmentLevel("meminfo", total - available, None)


def _readable(path: str) -> bool:
    return posix.access(path, posix.R_OK)


def _read(path: str) -> bytes:
    descriptor = posix.open(path, posix.O_RDONLY | posix.O_CLOEXEC)
    try:
        return posix.read(descriptor, 64)
    finally:
        posix.close(descriptor)
