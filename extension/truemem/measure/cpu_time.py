"""CPU time of the function's processes, from the close of one window to the next.

The kernel keeps a process's own time in ns, and adds what it and its children have used to those of the process that
has waited for it (cutime and cstime, proc_pid_stat(5)): so the sum over all that live stays the same when one ends.
"""

from __future__ import annotations

import posix

from ..linux.procfs import Gone
from ..support.named_tuple import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..linux.process_table import Process
    from ..linux.procfs import Procfs, Stat

    Key = tuple[int, int]

ZOMBIES = 16
"""Beyond these CPU time is not known any more: each is looked at, at each close."""
TICK_NS = 1_000_000_000 // posix.sysconf("SC_CLK_TCK")


class Used(NamedTuple):
    """By one process, ns."""

    own: int
    children: int
    """Those that it had waited for, and theirs: to a tick for user and system time each."""
    parent: int

    @property
    def total(self) -> int:
        return self.own + self.children


class CpuTime:
    def __init__(self, proc: Procfs) -> None:
        self._proc = proc
        self._before: dict[Key, Used] | None = None
        """Of each process, when the last window closed: by pid and start time. None before the first."""
        self._now: dict[Key, Used] = {}
        self._late: dict[Key, Used] = {}
        self._ended: dict[Key, Used] = {}
        """Of those that have ended and were not waited for yet, as far as is known: their parents will have it."""
        self._is_known = True
        self._is_lost = False
        """Too many have ended and were not waited for."""

    def see(self, process: Process, own_ns: int | None, stat: Stat) -> None:
        """A process as the window closes; `own_ns` is None where that is not known."""
        self._is_known &= own_ns is not None
        key = process.pid, process.start_time
        self._now[key] = Used(own_ns or 0, stat.child_ticks * TICK_NS, stat.parent)

    def see_late(self, process: Process, own_ns: int | None) -> None:
        """A process that may be of this window or of the next, or of both: what it has used is of the next, if that is
        no more than a tick."""
        self._is_known &= own_ns is not None and own_ns <= TICK_NS
        self._late[process.pid, process.start_time] = Used(0, 0, process.parent)

    def close(self, first_pid: int, is_whole: bool) -> int | None:
        """CPU time (ns) in the window that is closed, to two ticks (20 ms) where children have ended; None where that
        is not known. `first_pid` is the pid given out last when it opened. `is_whole`: there were no other processes
        of the function than those seen."""
        is_known, is_first = self._is_known and is_whole, self._before is None
        before, now = self._before or {}, self._now
        used = 0
        waited: dict[int, int] = {}
        """Time of children that each process has waited for in the window, by its pid."""
        for key, one in now.items():
            earlier = before.get(key) or Used(0, 0, 0)
            used += one.total - earlier.total
            waited[key[0]] = one.children - earlier.children
            is_known &= is_first or key in before or key[0] > first_pid
        ended, self._ended = self._ended, {}
        for key, one in {**ended, **before}.items():
            if key in now:
                continue
            final_ns = self._final_ns(key)
            if final_ns is not None:
                used += final_ns - one.total
                self._ended[key] = Used(final_ns, 0, one.parent)
            elif one.parent not in waited:
                is_known = False  # its parent has ended as well: the kernel has given its time to another one
            elif waited[one.parent] < one.total - 2 * TICK_NS:
                self._ended[key] = one  # it is gone by now, and was not when the window closed
            else:
                used -= one.total
                waited[one.parent] -= one.total
        if len(self._ended) > ZOMBIES:
            self._ended.clear()
            self._is_lost = True
        self._before = self._late | now
        self._now, self._late, self._is_known = {}, {}, True
        return max(0, used) if is_known and not self._is_lost else None

    def _final_ns(self, key: Key) -> int | None:
        """What a zombie has used; None where it is gone."""
        pid, start_time = key
        try:
            stat = self._proc.process(pid, keep=False).stat()
        except Gone:
            return None
        return (stat.ticks + stat.child_ticks) * TICK_NS if stat.start_time == start_time else None
