"""Opens and closes windows on the function's processes.

One reading of all of them closes one window and opens the next: for each process its status is read and its watermark
reset. In exact mode it is made while the runtime waits; else at INVOKE, when the runtime may have its event already
(race).
"""

from __future__ import annotations

import time

from ..linux.hsperf_files import HsperfFiles
from ..linux.proc_text import Gone, Stat, Status, parse_status
from ..linux.process_table import KEPT_PROCESSES
from ..linux.procfs import UNREADABLE, Procfs
from .level_sampler import LevelSampler
from .open_window import OpenWindow, certain_ns
from .process_family import UNKNOWN, ProcessFamily
from .process_reader import AT_ONCE, ProcessReader
from .process_track import Level, ProcessTrack
from .race import NEVER, Boundary
from .window import Window

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..linux.process_table import Process, ProcessTable
    from ..linux.runtime_heap import RuntimeHeap
    from .readings import Reading, Readings

SETTLE_NS = 20_000_000
"""CPU time of looking for new processes when a window is closed: what is not found leaves no upper bound."""
FEW = 8
"""Processes that are asked whether they ignore SIGCHLD: the runtime, and its first children."""
SIGCHLD = 17
"""On x86 and ARM (signal(7))."""


class _Total:
    """Sums over the processes that were read when a window was closed. Sizes in KiB."""

    def __init__(self) -> None:
        self.rss = self.watermark = 0
        self.together = 0
        """What they held at one moment, at least."""
        self.missed = 0
        """What may have come and gone between readings and resets,"""
        self.gaps = 0
        """and the level with it."""
        self.threads = 0
        """Beside each process's first one,"""
        self.earlier = 0
        """and those of them that are older than the window although they were found in it."""
        self.holder: tuple[str, int, int] | None = None
        """Name, pid and RSS of the largest."""


class Recorder:
    """The window that is open, and what is needed to close it."""

    def __init__(
        self,
        table: ProcessTable,
        proc: Procfs,
        limit_kib: int = 0,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        """`limit_kib` is the environment's memory limit, 0 if unknown. `clock` gives epoch ns."""
        self._table = table
        self._limit_kib = limit_kib
        self._clock = clock
        self.reader = ProcessReader(table, proc, clock)
        self._open = OpenWindow(table, self.reader, proc, limit_kib, clock)
        self.levels = LevelSampler(table, self.reader, self._open, clock)
        self._hsperf_files = HsperfFiles()
        self._closed_family = self._open.family
        """That of the window that was closed last, until it is settled."""
        self._whole = False
        """Were all processes there were among the readings that closed it?"""
        self._threads = 0
        """Of the function's processes beside their main ones, when the window opened."""
        self._adopted = table.adopted_faults()
        """Faults of all orphans that processes above the function had waited for, as last read."""

    @property
    def window(self) -> Window:
        """The window that is open."""
        return self._open.window

    def read_and_reset(self, at_rest: bool = False, most: int = AT_ONCE) -> Readings:
        """See ProcessReader.read_and_reset. The counters of a JVM are read right after it: the next invocation moves
        them."""
        readings = self.reader.read_and_reset(at_rest, most)
        readings.shown = self._hsperf_files.take()
        return readings

    def read_rest(self, readings: Readings, most_ns: int) -> None:
        """Read the processes that were left out, for so long at most. Those left out the last time come first."""
        self.reader.read_rest(readings, {pid for pid, track in self._open.tracks.items() if track.stale}, most_ns)

    def close(self, readings: Readings, not_before_ns: int = 0, arrived_ns: int | None = None) -> Window:
        """Close the open window with these readings, and open the next. Returns the one that was closed.

        The runtime's event did not come before `not_before_ns` (epoch ns): NEVER where it comes after the readings
        for certain, 0 where nothing is known. `arrived_ns` is when the sidecar's own event arrived, None without one.
        """
        closed, family, boundary = self.window, self._open.family, self._open.boundary
        for process, final in readings.ended:
            self._open.end(process, final)
        closed.dying = self._open.picture.is_dying(self._clock())
        boundary.prove(min(not_before_ns, readings.done_ns) if readings.split else not_before_ns)
        boundary.fault_kib = self._open.fault_sizes.most
        tracks: dict[int, ProcessTrack] = {}
        total = _Total()
        for reading in readings.readings:
            try:
                self._close_one(reading, readings, tracks, total)
            except Gone:  # cut off, or of a process that has no memory any more
                self._open.end(reading.process, reading.process.files.final_faults())
        total.rss += self._pass_over(readings, closed, boundary, tracks)
        for track in self._open.tracks.values():
            self._open.leave(track)
        family.threads = max(0, total.threads - self._threads - total.earlier)
        self._threads = UNKNOWN if readings.left else total.threads
        closed.multi_process |= len(closed.closing) > 1 or family.reaped > 0
        closed.process_exited |= family.reaped > 0
        closed.resets = not self.reader.refused
        closed.lost |= boundary.lost_ns > 0
        closed.dip = total.rss - total.together if len(closed.closing) > 1 else 0
        boundary.unobserved_kib = total.gaps if total.missed else 0
        closed.end, closed.shown = boundary, readings.shown
        window = Window(total.rss - closed.dip, total.watermark, closed.resets, boundary)
        window.first_pid = readings.last_pid
        window.curve.see(readings.done_ns, total.rss)
        if arrived_ns is not None:
            window.reset_delay_us = max(0, readings.done_ns - arrived_ns) // 1000
        self._closed_family, self._whole = family, readings.whole
        self._open.begin(window, tracks, readings.huge_pages)
        self.reader.counts_huge_pages = self._open.fault_sizes.asked and (closed.threads or total.threads > 0)
        self.levels.begin(total.rss, None if closed.dying else total.holder)
        return closed

    def _close_one(self, reading: Reading, readings: Readings, tracks: dict[int, ProcessTrack], total: _Total) -> None:
        """The window ends for one process, and the next begins for it in `tracks`. Raises Gone."""
        process, closed, boundary = reading.process, self.window, self._open.boundary
        status, before, after = _parse(reading)
        track = self._open.track(process)
        huge_pages = readings.huge_pages or self._open.huge_pages
        level = Level(status.anon, status.file + status.shmem, before.faults, huge_pages)
        before = before if reading.reset else after
        others_ns = certain_ns(reading.others_ns, after, readings.running)
        gap = self._open.see(track, reading.end_ns, status, before, after, others_ns, reading.reset)
        closed.threads |= track.threads
        total.missed += gap
        total.gaps += status.rss + gap
        if track.lost:
            boundary.lost_ns = reading.end_ns
        closed.watermarks.append(track.highest)
        closed.closing.append(status._replace(hwm=status.rss if track.stale else track.watermark))
        boundary.samples.append(track.samples)
        total.rss += status.rss
        total.together += min(status.rss, after.rss, status.rss if reading.again is None else reading.again)
        total.watermark += status.hwm
        total.threads += status.threads - 1
        total.earlier += status.threads - 1 if track.found_ns and not self._open.is_new(process) else 0
        if total.holder is None or status.rss >= total.holder[2]:
            total.holder = after.name, process.pid, status.rss
        self._open.family.reaped += after.child_faults - track.child_faults
        known = after.rss if reading.reset else status.hwm
        tracks[process.pid] = opened = ProcessTrack(process.parent, after, known, 0, reading.others_ns, level)
        opened.has_threads, opened.unmaps_files = status.threads > 1, track.unmaps_files

    def _pass_over(
        self, readings: Readings, closed: Window, boundary: Boundary, tracks: dict[int, ProcessTrack]
    ) -> int:
        """Keep the tracks of processes that were not read: their watermarks go on, and belong to both windows. Returns
        what they held when they were read last, KiB."""
        rss = 0
        for process in readings.left:
            boundary.lost_ns = NEVER
            track = tracks[process.pid] = self._open.track(process)
            track.stale = True
            if not track.rss:  # it was found when there was no time left
                try:
                    track.rss = process.files.rss()
                except Gone:
                    continue  # the next reading will show it
            closed.closing.append(Status(0, track.rss, 0, 0, 0, threads=1))  # all that is known of it
            rss += track.rss
        return rss

    def runtime_heap(self, closed: Window | None = None) -> RuntimeHeap | None:
        """What the function's runtime shows of its heap to other processes, when that window closed or now: a JVM
        does."""
        shown = closed.shown if closed is not None else None
        return self._hsperf_files.heap(self._table.function()[:KEPT_PROCESSES], shown)

    def add_readings(self, readings: Readings) -> None:
        """The window stays open: these readings are a sample of it."""
        for process, final in readings.ended:
            self._open.end(process, final)
        for reading in readings.readings:
            try:
                status, before, after = _parse(reading)
            except Gone:
                self._open.end(reading.process, reading.process.files.final_faults())
                continue
            track = self._open.track(reading.process)
            before = before if reading.reset else after
            self._open.keep(track, status, before, after, reading.others_ns, reading.reset)
        self._open.note()

    def adopt_new_processes(self, closed: Window) -> None:
        """Look for processes that were not known when the window was closed: now the function has its event."""
        family = self._closed_family
        if self._whole:
            if self.window.first_pid >= closed.first_pid >= 0:
                closed.born = self.window.first_pid - closed.first_pid
            self._count_unread(closed, family)
            return
        known = set(self._open.tracks)
        if self._table.changed():
            self._table.scan(SETTLE_NS)
        if self._table.last_pid >= closed.first_pid >= 0:
            closed.born = self._table.last_pid - closed.first_pid
        for process in self._table.function():
            if process.pid in known:
                continue
            try:
                stat, status = process.files.stat(), process.files.status()
            except Gone:  # it came and went unseen: in the open window, and if it is older than that, perhaps before it
                final = process.files.final_faults()
                if final == UNREADABLE:
                    closed.lost = True
                    continue
                windows = [(self.window, self._open.family), (closed, family)]
                for window, its in windows[:1] if self._open.is_new(process) else windows:
                    window.process_exited = True
                    its.ended(0, final, 0)
                self._table.forget(process, zombie=final is not None)
                continue
            # Born before or after the readings: an upper bound for both windows.
            closed.unseen += status.hwm
            closed.multi_process = True
            closed.end.found_late_kib += status.hwm
            family.found += process.pid > closed.first_pid
            self._threads += status.threads - 1
            parent = self._open.tracks.get(process.parent)
            track = self._open.track(process)
            track.rss = status.rss
            track.stale = not self._open.is_new(process)
            if not track.has_mm_of(parent, stat):
                family.before_exec.append((stat.faults, status.hwm))
        closed.lost |= self._table.unfinished
        if family.unseen(closed):
            self._hear_of_the_unseen(closed, family)
        self._count_unread(closed, family)

    def _hear_of_the_unseen(self, closed: Window, family: ProcessFamily) -> None:
        """A child that was there when the window was closed may have ended before it was looked for: by now its parent
        has its faults, or it was found."""
        for process in self._table.function():
            track = self._open.tracks.get(process.pid)
            if track is not None:
                try:
                    family.reaped += max(0, process.files.stat().child_faults - track.child_faults)
                except Gone:
                    continue  # the next reading will show it
        closed.multi_process |= family.reaped > 0
        closed.process_exited |= family.reaped > 0

    def _count_unread(self, closed: Window, family: ProcessFamily) -> None:
        unseen = family.unseen(closed)
        closed.births = unseen if closed.born >= 0 else -1
        if (unseen or family.gone) and any(ignores_children(process) for process in self._table.function()[:FEW]):
            closed.process_exited = closed.multi_process = closed.lost = True  # what ends is waited for by no process
        family.credit(self._open.tracks)
        if not closed.multi_process and not closed.process_exited:
            return
        before, now = self._adopted, self._table.adopted_faults()
        self._adopted = now
        adopted = None if before is None or now is None else max(0, now - before)
        unread = family.bound(closed, adopted, self._open.fault_sizes.most, self._limit_kib)
        if unread:
            closed.end.unread.append((self._clock(), unread))


def ignores_children(process: Process) -> bool:
    """Does the process ignore SIGCHLD? Then the kernel adds the faults of its children to nothing (wait(2), NOTES)."""
    try:
        mask = process.files.read("status").partition(b"\nSigIgn:")[2].split(None, 1)[0]
        return bool(int(mask, 16) >> (SIGCHLD - 1) & 1)
    except (Gone, ValueError, IndexError):
        return False


def _parse(reading: Reading) -> tuple[Status, Stat, Stat]:
    """Raises Gone."""
    parsed = reading.process.files.parsed_stat
    return parse_status(reading.status), parsed(reading.before), parsed(reading.after)
