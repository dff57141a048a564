"""What was read of the function's processes: to close one window and open the next, or as a sample of the open one."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..linux.hsperf_files import Shown
    from ..linux.process_table import Process


class Reading:
    """The texts of one process's files, in the order in which they were read: they are parsed later."""

    __slots__ = ("after", "again", "before", "end_ns", "process", "reset", "status")

    def __init__(self, process: Process, before: bytes, status: bytes, after: bytes, reset: bool) -> None:
        self.process = process
        self.before = before
        """`stat`, before the others."""
        self.status = status
        self.after = after
        """`stat`, after the reset."""
        self.reset = reset
        """Was there one? It is not needed where the level is at its watermark, and would open a gap between the two."""
        self.again: int | None = None
        """RSS once more, after all others were read: at one moment between the two all levels were there together."""
        self.end_ns = 0
        """Epoch ns, after the reset."""


class Readings:
    """One reading of all processes of the function, and the reset of their watermarks."""

    def __init__(self, processes: list[Process], last_pid: int) -> None:
        self.readings: list[Reading] = []
        self.ended: list[Process] = []
        self.left = processes
        """Not read yet."""
        self.done_ns = 0
        """Epoch ns after the last reset that the answer waited for."""
        self.last_pid = last_pid
        """The pid given out last, before the readings; below 0 where that is not known."""
        self.shown: Shown | None = None
        """What the runtime showed of its heap then, not parsed yet; None where it is not known to show it."""
        self.split = False
        """Some were read later than that, or not at all."""

    def read_later(self, later: Readings) -> None:
        """What this one has left out was read for the next one: by then it has not been reset since."""
        left = {process.pid for process in self.left}
        self.readings += [reading for reading in later.readings if reading.process.pid in left]
        self.ended += [process for process in later.ended if process.pid in left]
        left -= {reading.process.pid for reading in later.readings} | {process.pid for process in later.ended}
        self.left = [process for process in self.left if process.pid in left]
