"""Which pids are to be looked at: all of /proc at first, then those given out since, and young ones again."""

from __future__ import annotations

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from .procfs import Procfs

AGAIN_SECONDS = 0.01
"""Young processes are not looked at again more often than this. (The function's own children are known by descent, at
once.)"""

NO_LIMIT_NS = 1 << 62

FEW = 64
"""So many new pids are looked at one by one, without listing /proc: a function starts a process, a machine is busy."""


class NewPids:
    """The pids of one environment that are new since the last time."""

    def __init__(self, proc: Procfs, is_full: Callable[[], bool]) -> None:
        """`is_full`: are so many processes known that no more are looked at?"""
        self._proc = proc
        self._is_full = is_full
        self.unrelated: set[int] = set()
        """A developer's other programs."""
        self.zombies: set[int] = set()
        """Processes of the function that had ended when they were last seen, and were not waited for."""
        self.young: set[int] = set()
        """Unrelated as of now, but young enough to exec into one of ours."""
        self.waiting: set[int] = set()
        """New processes that there was no time to look at."""
        self.last = -2
        """The pid given out last, as of the last time; below 0 where that is not known."""
        self._found_at = 0.0

    def restart(self) -> None:
        """Look at everything once more."""
        self.unrelated.clear()
        self.last = -2

    def forget(self, pid: int) -> None:
        """It is known now."""
        self.unrelated.discard(pid)
        self.young.discard(pid)

    def changed(self) -> bool:
        """Is there anything new? One read of /proc/loadavg."""
        last = self._proc.last_pid()
        if last < 0 or last != self.last or (self.waiting and not self._is_full()):
            return True
        return bool(self.young) and time.monotonic() - self._found_at > AGAIN_SECONDS

    def find(self) -> tuple[set[int], bool]:
        """Pids that may be new, and whether these are all there are. Raises OSError if /proc cannot be listed."""
        before, last = self.last, self._proc.last_pid()
        self._found_at = time.monotonic()
        if before > 0 and 0 < last - before <= FEW:
            # Pids are given out in order: these are all that can be new, and threads.
            self.last = last
            made = range(before + 1, last + 1)
            self.unrelated.difference_update(made)  # each has been another process's pid before
            self.zombies.difference_update(made)
            return {pid for pid in made if self._proc.leads(pid)} | self.waiting, False
        self.last = -2  # if /proc cannot be listed, what was there before stays unseen: the next time lists it as well
        present = set(self._proc.pids())
        self.last = last
        # A pid that is gone from one scan to the next may come back as another process's.
        self.unrelated &= present
        self.zombies &= present
        return present, True

    def unknown(self, found: set[int], known: Collection[int], most_ns: int) -> Iterator[int]:
        """Those to be looked at now, new ones first: for so much CPU time at most, and one more. The others wait."""
        until_ns = time.process_time_ns() + most_ns
        young = self.young
        self.waiting = found.difference(young, self.unrelated, known)
        self.young = young.difference(self.unrelated, known)
        for pid in [*sorted(self.waiting), *sorted(self.young)]:
            if self._is_full():
                self.young.clear()
                return
            self.waiting.discard(pid)
            self.young.discard(pid)
            yield pid
            if time.process_time_ns() > until_ns:
                return
