"""CPU time of the function's processes, from the close of one window to the next.

The kernel keeps a process's own time in ns, and adds what it and its children have used to those of the process that
has waited for it (cutime and cstime, proc_pid_stat(5)): so the sum over all that live stays the same when one ends.
"""

from __future__ import annotations

import posix

from ..linux.procfs import ZOMBIE, Gone

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Final

    from ..linux.process_table import Process
    from ..linux.procfs import Procfs, Stat

    Key = tuple[int, int]

ZOMBIES: Final = 16
"""Beyond so many zombies CPU time is not known any more: each is looked at, at each close."""
BIRTHS: Final = 64
"""Beyond so many new processes that were never seen CPU time is not known any more."""
TICK_NS: Final = 1_000_000_000 // posix.sysconf("SC_CLK_TCK")


class Used:
    """CPU time that one process has used, ns."""

    def __init__(self, own: int, children: int, parent: int) -> None:
        """`children`: of the children that it had waited for, and of theirs, to a tick for user and system time
        each."""
        self.own = own
        self.children = children
        self.parent = parent

    @property
    def total(self) -> int:
        return self.own + self.children


NOTHING: Final = Used(0, 0, 0)


class CpuTime:
    def __init__(self, proc: Procfs) -> None:
        self._proc = proc
        self._before: dict[Key, Used] | None = None
        """CPU time of each process when the last window closed, by pid and start time. None before the first."""
        self._now: dict[Key, Used] = {}
        self._late: dict[Key, Used] = {}
        self._ended: dict[Key, Used] = {}
        """CPU time of processes that have ended and were not waited for yet, as far as is known: their parents will
        have it."""
        self._zombies: dict[Key, Used] = {}
        """Processes that have ended in the open window, and were not waited for at once."""
        self._is_known = True
        self._is_lost = False
        """True if too many processes have ended that were not waited for."""

    def see(self, process: Process, own_ns: int | None, stat: Stat) -> None:
        """A process as the window closes; `own_ns` is None where that is not known."""
        self._is_known &= own_ns is not None
        self._now[process.identity] = Used(own_ns or 0, stat.child_ticks * TICK_NS, stat.parent)

    def see_late(self, process: Process, own_ns: int | None) -> None:
        """A process that may be of this window or of the next, or of both: what it has used is of the next, if that is
        no more than a tick."""
        self._is_known &= own_ns is not None and own_ns <= TICK_NS
        self._late[process.identity] = Used(0, 0, process.parent)

    def ended(self, process: Process) -> None:
        """A process has ended while the window is open. It may be waited for before that is closed, or after."""
        key = process.identity
        zombie = self._zombie(process.pid, process.start_time)
        if zombie is not None and not self._is_lost:
            self._zombies[key] = zombie
        if len(self._zombies) > BIRTHS:
            self._is_known = False  # one that was waited for may have been an orphan
            self._zombies = {key: used for key, used in self._zombies.items() if self._zombie(*key) is not None}
            self._is_lost = len(self._zombies) > ZOMBIES

    def close(self, first_pid: int, is_whole: bool, unseen: Sequence[int] = ()) -> int | None:
        """CPU time (ns) in the window that is closed, to two ticks (20 ms) where children have ended; None where that
        is not known. `first_pid` is the pid given out last when it opened. `is_whole`: all processes that live were
        seen, and none of the others was an orphan. `unseen`: pids given out in it, if some of them were never seen."""
        is_known, is_first = self._is_known and is_whole, self._before is None
        before, now = self._before or {}, self._now
        used = stayed = 0
        waited: dict[int, int] = {}
        """Time of children that each process has waited for in the window, by its pid."""
        for key, one in now.items():
            earlier = before.get(key, NOTHING)
            used += one.total - earlier.total
            waited[key[0]] = one.children - earlier.children
            was_there = earlier is not NOTHING
            stayed += was_there
            is_known &= is_first or was_there or key[0] > first_pid
        ended, self._ended = self._ended, {}
        if ended or self._zombies or stayed < len(before):
            earlier_ones = {**ended, **before}
            for key, one in {**earlier_ones, **self._zombies}.items():
                if key in now:
                    continue
                zombie = self._zombie(key[0], key[1])
                last = zombie or one
                used += last.total - earlier_ones.get(key, NOTHING).total
                if last.parent not in waited:
                    # An orphan, or its parent has ended as well: the kernel has given its time to another.
                    is_known = False
                elif zombie is not None or waited[last.parent] < last.total - 2 * TICK_NS:
                    self._ended[key] = last  # if it is gone by now, it was not when the window closed
                else:
                    used -= last.total
                    waited[last.parent] -= last.total
        # What a function used that began, or was replaced, after the last close and has ended by now was never read.
        is_known &= bool(now) and len(unseen) <= BIRTHS
        if unseen:
            known = {pid for pid, _ in (*now, *before, *self._zombies)}
            runtime = next(iter(now), (0, 0))[0]
            for pid in unseen[:BIRTHS]:
                is_other = pid not in known and not self._proc.has_thread(runtime, pid)
                unseen_one = self._zombie(pid) if is_other else None
                if unseen_one is not None and unseen_one.parent in waited:
                    used += unseen_one.own
                    self._ended[pid, 0] = unseen_one
        if len(self._ended) > ZOMBIES:
            self._ended.clear()
            self._is_lost = True
        self._before = self._late | now if self._late else now
        self._now, self._late, self._is_known = {}, {}, True
        self._zombies.clear()
        return max(0, used) if is_known and not self._is_lost else None

    def _zombie(self, pid: int, start_time: int = 0) -> Used | None:
        """What a zombie has used, all of it as its own; None where it is gone. A `start_time` of 0 is not known."""
        try:
            stat = self._proc.process(pid, keep=False).stat()
        except Gone:
            return None
        if stat.start_time != start_time and (start_time or stat.state != ZOMBIE):
            return None
        return Used((stat.ticks + stat.child_ticks) * TICK_NS, 0, stat.parent)
