"""What was read of the function's processes: to close one window and open the next, or as a sample of the open one."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..linux.hsperf_files import Shown
    from ..linux.process_table import Process


class Reading:
    """The texts of one process's files, in the order in which they were read: they are parsed later."""

    __slots__ = ("after", "again", "before", "end_ns", "others_ns", "process", "reset", "status")

    def __init__(
        self, process: Process, before: bytes, status: bytes, others_ns: int | None, after: bytes, reset: bool
    ) -> None:
        self.process = process
        self.before = before
        """`stat`, before the others."""
        self.status = status
        self.others_ns = others_ns
        """See ProcessFiles.others_ns: between the watermark's reading and its reset."""
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

    def __init__(self, processes: list[Process], last_pid: int, running: int) -> None:
        self.readings: list[Reading] = []
        self.ended: list[tuple[Process, int | None]] = []
        """Each with its final faults, None where it is gone."""
        self.left = processes
        """Not read yet."""
        self.done_ns = 0
        """Epoch ns after the last reset that the answer waited for."""
        self.last_pid = last_pid
        """The pid given out last, before the readings; below 0 where that is not known."""
        self.running = running
        """Threads of all processes that ran then, ours among them; below 0 where that is not known."""
        self.huge_pages: tuple[int, int] | None = None
        """See Procfs.huge_pages; None where they were not counted."""
        self.whole = False
        """All processes there were are in it, for certain: nothing could begin while the runtime waited."""
        self.shown: Shown | None = None
        """What the runtime showed of its heap then, not parsed yet; None where it is not known to show it."""
        self.split = False
        """Some were read later than that, or not at all."""

    def read_later(self, later: Readings) -> None:
        """What this one has left out was read for the next one: by then it has not been reset since."""
        left = {process.pid for process in self.left}
        self.readings += [reading for reading in later.readings if reading.process.pid in left]
        self.ended += [(process, final) for process, final in later.ended if process.pid in left]
        left -= {reading.process.pid for reading in later.readings} | {process.pid for process, _ in later.ended}
        self.left = [process for process in self.left if process.pid in left]
