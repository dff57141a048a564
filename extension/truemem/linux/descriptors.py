"""How many descriptors a process has open, and how many it may have.

Since Linux 6.2 the size of /proc/PID/fd is their number (proc_pid_fd(5)): one stat, 1 µs however many there are. Before
that the folder has to be listed, which takes time for each of them. `FDSize` of /proc/PID/status, the slots of the
process's table (proc_pid_status(5)), tells beforehand how many they are at most.
"""

from __future__ import annotations

import posix

from .proc_text import Gone, Limits, parse_limits, parse_slots
from .procfs import Procfs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .process_table import Process

MOST_SLOTS = 16_384
"""A larger table is not listed: 10,000 descriptors take 4 ms (docs/resources.md)."""
UNSURE = 0.9
"""Share of a limit from which on it is read again: a process may raise its own (Node.js and Java do, as they start)."""
NO_LIMITS = Limits(None, None)


class Descriptors:
    """The descriptors of processes, and their limits."""

    def __init__(self, proc: Procfs) -> None:
        self._proc = proc
        self.is_sized = False
        """Is the size of such a folder the number of descriptors? Found out with our own folder: some are open."""
        self._limits: dict[tuple[int, int], Limits] = {}
        """By pid and start time: read once, for that takes 15 µs."""
        try:
            # A captured tree is on a disk, where folders have sizes of their own.
            self.is_sized = proc.root == "/proc" and posix.stat("/proc/self/fd").st_size > 0
        except OSError:
            pass

    def count(self, process: Process) -> int:
        """The descriptors that the process has open. Raises OSError: it has ended, or may not be looked at."""
        folder = f"{self._proc.root}/{process.pid}/fd"
        return posix.stat(folder).st_size if self.is_sized else len(posix.listdir(folder))

    def slots(self, processes: Sequence[Process]) -> int | None:
        """Slots of the tables of all these processes: what listing them costs depends on it. None where one of them has
        too many, or does not tell."""
        total = 0
        for process in processes:
            try:
                slots = parse_slots(process.files.read("status"))
            except Gone:
                continue
            if not 0 < slots <= MOST_SLOTS:
                return None
            total += slots
        return total

    def limits(self, process: Process, opened: int = 0) -> Limits:
        """What the process may have, `opened` descriptors of which it has by now."""
        key = process.pid, process.start_time
        limits = self._limits.get(key)
        known = limits.descriptors if limits is not None else None
        if limits is None or (known is not None and opened > UNSURE * known):
            try:
                limits = parse_limits(self._proc.text(f"{process.pid}/limits", 4096))
            except Gone:
                limits = NO_LIMITS
            self._limits[key] = limits
        return limits

    def keep(self, processes: Sequence[Process]) -> None:
        """Forget the limits of all others."""
        if len(self._limits) > len(processes):
            keys = {(process.pid, process.start_time) for process in processes}
            self._limits = {key: limits for key, limits in self._limits.items() if key in keys}
