"""Reads the function's processes: their status, and a reset of their watermarks where that is needed."""

from __future__ import annotations

import posix
import time

from ..linux.kernel import reset_problem
from ..linux.process_table import NO_LIMIT_NS
from ..linux.procfs import ESRCH, READ_TRIES, Gone, Procfs, Stat, Status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Final

    from ..linux.process_table import Process, ProcessTable
    from ..linux.procfs import ProcessFiles


class ProcessReading:
    """One process's files, in the order in which they were read. `before` and `after` are parsed later."""

    def __init__(
        self,
        process: Process,
        before: bytes,
        status: Status,
        cpu_times: tuple[int | None, int | None],
        after: bytes,
        reset: bool,
    ) -> None:
        self.process = process
        self.before = before
        self.status = status
        self.cpu_ns, self.others_ns = cpu_times
        """CPU times (ns) of all threads, and of all but the first (ProcessFiles.cpu_times), read between the watermark
        and its reset."""
        self.after = after
        self.reset = reset
        """True if the watermark was reset. That is not needed if the level is at its watermark, and would open a gap
        between the two."""
        self.again: int | None = None
        """RSS once more, after all others were read: at one moment between the two all levels were there together."""
        self.end_ns = 0
        """Epoch ns, after the reset."""

    def parsed(self) -> Parsed:
        """Raises Gone."""
        parse = self.process.files.parsed_stat
        faults = parse(self.before).faults
        after = parse(self.after)
        gap = after.faults - faults if self.reset else 0
        return Parsed(self.status, faults, gap, after, self.others_ns, self.reset)


class Parsed:
    """What one reading says."""

    def __init__(self, status: Status, faults: int, gap: int, after: Stat, others_ns: int | None, reset: bool) -> None:
        self.status = status
        self.faults = faults
        """Page faults when the status was read."""
        self.gap = gap
        """Page faults between the status and the reset of the watermark; 0 without a reset."""
        self.after = after
        self.others_ns = others_ns
        """CPU time (ns) of the other threads than the first; None where that is not known (ProcessFiles.cpu_times)."""
        self.reset = reset


class Look:
    """What a process with threads held at one moment, as it was read: parsed later."""

    def __init__(self, process: Process, before: bytes, statm: bytes, after: bytes, others_ns: int | None) -> None:
        self.process = process
        self.before = before
        """The process's stat, read before the level: what was touched later is of the next look."""
        self.statm = statm
        self.after = after
        """The process's stat, read after the level."""
        self.others_ns = others_ns
        """CPU time (ns) of the other threads than the first (ProcessFiles.cpu_times): read last, so that who has run
        since is not in it."""


class ProcessReadings:
    """One reading of all processes of the function, and the reset of their watermarks."""

    def __init__(self, processes: list[Process], last_pid: int) -> None:
        self.readings: list[ProcessReading] = []
        self.ended: list[tuple[Process, int | None]] = []
        """Processes that have ended, each with its final page faults; None if it is gone."""
        self.left = processes
        self.done_ns = 0
        """Epoch ns after the last reset that the answer waited for."""
        self.last_pid = last_pid
        """The pid given out last, before the readings; below 0 where that is not known."""
        self.huge_pages: tuple[int, int] | None = None
        """Huge pages of all processes (Procfs.huge_pages); None where they were not counted."""
        self.whole = False
        """True if all processes there were are in the readings for certain: nothing could begin while the runtime
        waited."""
        self.shown: object = None
        self.killed: int | None = None
        """OOM kills in the window that these readings end (Window.killed); None if not known."""
        self.adopted: int | None = None
        """Page faults of adopted processes (ProcessTable.adopted_faults), and later of the function's own ones that
        ended."""
        self.split = False
        """True if some processes were read later than the others, or not at all."""

    def read_later(self, later: ProcessReadings) -> None:
        """Add what these readings left out and the next ones have: those processes were not reset in between."""
        left = {process.pid: process for process in self.left}
        for reading in later.readings:
            if left.pop(reading.process.pid, None) is not None:
                self.readings.append(reading)
        for process, final in later.ended:
            if left.pop(process.pid, None) is not None:
                self.ended.append((process, final))
        self.left = [*left.values()]


PROCESSES_READ_FIRST: Final = 12
"""Processes that are read while the answer waits: 0.3 ms. The others are read later."""
SCAN_NS: Final = 200_000
"""CPU time of looking for processes that have just begun, or ended, while the answer waits."""


class ProcessReader:
    """Reads the function's processes. Parses no more than it needs: the runtime waits."""

    def __init__(self, table: ProcessTable, proc: Procfs, clock: Callable[[], int] = time.time_ns) -> None:
        """`clock` gives epoch ns."""
        self._table = table
        self._proc = proc
        self._clock = clock
        self.refused = reset_problem(proc)
        """Why the watermark cannot be reset here, or "" while it can."""
        self.counts_huge_pages = False
        """Are there threads, and may they ask for huge pages?"""
        self.lost = 0
        """Readings that failed although the process lives."""
        self._threaded: dict[Process, int | None] = {}
        """Processes that had several threads when they were read last, and the CPU time of those but the first."""
        self.others_ran = False
        """True if, at the last look, a process still had several threads, and others than its first had run."""

    def read_and_reset(self, at_rest: bool = False, most: int = PROCESSES_READ_FIRST) -> ProcessReadings:
        """Read all processes and reset their watermarks, now: the runtime waits for this, or may run already.
        `at_rest`: it waits, so that there is nothing to compare with where nothing is reset, and time to look for
        children that were not seen: they may end, and be waited for, in the next window. At most `most` processes:
        `read_rest` reads the others."""
        last_pid = self._proc.last_pid()
        if at_rest and last_pid != self._table.last_pid:
            self._table.scan(SCAN_NS)
            last_pid = self._proc.last_pid()
        taken = ProcessReadings(self._table.function(), last_pid)
        taken.whole = at_rest and taken.last_pid == self._table.last_pid >= 0 and not self._table.unfinished
        if self.counts_huge_pages:
            taken.huge_pages = self._proc.huge_pages()
        self._read(taken, most, NO_LIMIT_NS, at_rest)
        if len(taken.readings) > 1:
            for reading in taken.readings:
                try:
                    reading.again = reading.process.files.rss()
                except Gone:
                    reading.again = 0
        self._threaded = {each.process: each.others_ns for each in taken.readings if each.status.threads > 1}
        taken.done_ns = self._clock()
        for reading in taken.readings:
            reading.end_ns = taken.done_ns
        taken.split = bool(taken.left)
        return taken

    def look(self) -> list[Look]:
        """The levels of processes with several threads, and whose threads have run. 12 µs each."""
        looks = []
        self.others_ran = False
        for process, before_ns in self._threaded.items():
            files = process.files
            try:
                before, statm, after = files.read("stat"), files.read("statm"), files.read("stat")
                look = Look(process, before, statm, after, files.others_ns())
                self.others_ran |= look.others_ns != before_ns and files.parse(after).threads > 1
                looks.append(look)
            except Gone as gone:  # the next reading will show it
                self.failed(gone)
        return looks

    @property
    def has_threads(self) -> bool:
        """True if a process of the function had several threads when they were read last."""
        return bool(self._threaded)

    def read_rest(self, readings: ProcessReadings, first: set[int], most_ns: int) -> None:
        """Read the processes that were left out, for so long at most. Those of `first` (pids) come first."""
        if readings.left:
            readings.left.sort(key=lambda process: process.pid not in first)
            self._read(readings, len(readings.left), most_ns, at_rest=False)

    def read_cpu(self, readings: ProcessReadings, after: ProcessReadings | None) -> None:
        """The runtime had just asked for its next event when these were taken, and may have been running still: then
        its CPU time was not counted yet. It waits by now, or did when the next ones were taken (`after`)."""
        later = {reading.process: reading.cpu_ns for reading in after.readings} if after is not None else {}
        for reading in readings.readings:
            if after is not None:
                reading.cpu_ns = later.get(reading.process)
                continue
            try:
                reading.cpu_ns = self._cpu_at_rest(reading.process.files)
            except Gone:
                continue

    def _cpu_at_rest(self, files: ProcessFiles) -> int | None:
        """CPU time (ns) of a process that rests; None where its first thread goes on running. Raises Gone."""
        for _ in range(READ_TRIES):
            if b") R " not in files.read("stat"):  # a name that has it makes the time unknown
                return files.cpu_ns()
            posix.sched_yield()
        return None

    def reset(self, files: ProcessFiles) -> None:
        """Reset the watermark, or note why it cannot be. Raises Gone."""
        if self.refused:
            return
        try:
            files.reset_watermark()
        except OSError as error:
            if error.errno == ESRCH:
                raise Gone("clear_refs: no such process") from None
            self.refused = f"clear_refs: {error.strerror}"

    def failed(self, gone: Gone) -> None:
        """Count a reading that failed, unless the process has ended."""
        self.lost += gone.errno != 0

    def _read(self, taken: ProcessReadings, most: int, most_ns: int, at_rest: bool) -> None:
        until_ns = self._clock() + most_ns
        waiting, taken.left = taken.left[:most], taken.left[most:]
        for at, process in enumerate(waiting, 1):
            files = process.files
            try:
                before = files.read("stat")
                status = files.status()
                cpu_times = files.cpu_times()
                reset = status.has_fallen
                if reset:
                    self.reset(files)
                after = before if at_rest and not reset else files.read("stat")
                taken.readings.append(
                    ProcessReading(process, before, status, cpu_times, after, reset and not self.refused)
                )
            except Gone as gone:
                self.failed(gone)
                taken.ended.append((process, files.final_faults()))
            now_ns = self._clock()
            if taken.readings:
                taken.readings[-1].end_ns = taken.readings[-1].end_ns or now_ns
            if now_ns > until_ns:
                taken.left = waiting[at:] + taken.left
                break
        if any(final is None for _, final in taken.ended):
            self._hear_of_the_gone(taken)

    def _hear_of_the_gone(self, taken: ProcessReadings) -> None:
        """A process is gone, and its parent may have been read before it had waited for it."""
        for reading in taken.readings:
            try:
                reading.after = reading.process.files.read("stat")
            except Gone:
                continue  # it is read as it was
