"""Memory of the whole environment: cgroup v2, then v1, then /proc/meminfo, whichever is there.

On ordinary Lambda expect no cgroup files; meminfo is then what everybody can see, page cache left out.
"""

from __future__ import annotations

import posix

from ..support.files import KeptFile
from ..support.named_tuple import NamedTuple
from .proc_text import DIGITS, Gone, parse_meminfo
from .procfs import Procfs


class MemoryUsage(NamedTuple):
    """Memory of the environment, in KiB."""

    source: str
    """`cgroup2`, `cgroup1` or `meminfo`."""
    used: int
    """Now. A cgroup counts page cache, meminfo (MemTotal - MemAvailable) what cannot be reclaimed."""
    peak: int | None
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
    digits = text.strip()
    if not digits.isdigit() or len(digits) > DIGITS:
        raise Gone(f"not a number of bytes: {digits[:40]!r}")
    return int(digits) // 1024


class MemorySource:
    """Reads the environment's memory from the best source there is, chosen once."""

    def __init__(self, proc: Procfs, root: str = "/sys/fs/cgroup") -> None:
        self._proc = proc
        self.source = "meminfo"
        self.folder = ""
        """Of our cgroup's files; "" for meminfo."""
        self._used = self._peak = KeptFile("")
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
            total, available = parse_meminfo(self._proc.text("meminfo", 4096))
        except (Gone, OSError):
            return None
        return MemoryUsage("meminfo", total - available, None)

    def _read_peak(self) -> int | None:
        try:
            return parse_bytes(self._peak.read(64))
        except (Gone, OSError):  # not kept here
            return None
