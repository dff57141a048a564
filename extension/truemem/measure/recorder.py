"""Opens and closes windows on the function's processes.

One reading of all of them closes one window and opens the next: for each process its status is read and its watermark
reset. In exact mode it is made while the runtime waits; else at INVOKE, when the runtime may have its event already
(race).
"""

from __future__ import annotations

import time

from ..linux.procfs import UNREADABLE, Gone, Procfs, Status, parse_state
from .child_bound import UNBOUNDED, ProcessFamily, Unread
from .level_sampler import LevelSampler
from .open_window import OpenWindow, WindowContext
from .process_track import ProcessTrack
from .thread_bound import ProcessMemory, ThreadBound
from .watermark import PROCESSES_READ_FIRST, Look, ProcessReader, ProcessReading, ProcessReadings
from .window import NEVER_NS, Sample, Window

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Final

    from ..linux.process_table import Process, ProcessTable
    from ..linux.procfs import Stat


SETTLE_NS: Final = 20_000_000
"""CPU time of looking for new processes when a window is closed: what is not found leaves no upper bound."""
FEW_OF_FORK: Final = 64
"""Page faults of a child of fork() or vfork() that has hardly run: it may be about to call exec()."""
PROCESSES_ASKED: Final = 8
"""Processes that are asked whether they ignore SIGCHLD: the runtime, and its first children."""
ENDED_STATES: Final = (b"Z", b"X")
"""States of a process that runs no more (proc_pid_stat(5))."""
SIGCHLD: Final = 17
"""Number of the signal SIGCHLD on x86 and ARM (signal(7))."""
_ALL_READ: Final = Unread()


class _Closing:
    """A window that is being closed, and the sums over the processes that were read for it. Sizes in KiB."""

    def __init__(self, window: OpenWindow, readings: ProcessReadings) -> None:
        self.window = window
        self.readings = readings
        self.statuses: list[Status] = []
        self.watermarks: list[int] = []
        self.tracks: dict[int, ProcessTrack] = {}
        self.parents: list[int] = []
        """Pids of those that lived when they were read, and may have ended since: at SHUTDOWN the runtime has."""
        self.rss = self.watermark = 0
        self.together = 0
        """What they held at one moment, at least."""
        self.missed = 0
        """What may have come and gone between readings and resets."""
        self.task_threads = 0
        """Threads beside each process's first one."""
        self.earlier = 0
        """Threads beside each process's first one that are older than the window although they were found in it."""
        self.holder: ProcessReading | None = None
        """The largest."""
        self.holder_stat: Stat | None = None
        # See Window:
        self.dip = 0
        self.born = -1
        self.dying = self.threads = False


class Recorder:
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
        self._watch = WindowContext(table, self.reader, proc, limit_kib, clock)
        self.window = OpenWindow(self._watch, proc.last_pid())
        self.levels = LevelSampler(self._watch, self.window)
        self.readings_taken: Sequence[Callable[[ProcessReadings], None]] = ()
        """Who reads more at the same moment (Wing.readings_taken)."""
        self._threads = 0
        """Threads of the function's processes beside their main ones, when the window opened."""
        self._adopted = table.adopted_faults()
        """Faults of all orphans that processes above the function had waited for, as last read."""

    def read_and_reset(self, at_rest: bool = False, most: int = PROCESSES_READ_FIRST) -> ProcessReadings:
        readings = self.reader.read_and_reset(at_rest, most)
        if at_rest:
            readings.adopted = self._table.adopted_faults()
        for readings_taken in self.readings_taken:
            readings_taken(readings)
        return readings

    def read_rest(self, readings: ProcessReadings, most_ns: int) -> None:
        """Read the processes that were left out, for so long at most. Those left out the last time come first."""
        self.reader.read_rest(readings, {pid for pid, track in self.window.tracks.items() if track.stale}, most_ns)

    def close(self, readings: ProcessReadings, not_before_ns: int = 0, arrived_ns: int | None = None) -> Window:
        """Close the open window with these readings, and open the next. Returns the one that was closed.

        The runtime's event did not come before `not_before_ns` (epoch ns): NEVER_NS where it comes after the readings
        for certain, 0 where nothing is known. `arrived_ns` is when the sidecar's own event arrived, None without one.
        """
        closing = self._end(readings, not_before_ns)
        delay_us = max(0, readings.done_ns - arrived_ns) // 1000 if arrived_ns is not None else None
        self._open_next(closing, delay_us)
        if readings.whole:
            if readings.last_pid >= closing.window.first_pid >= 0:
                closing.born = readings.last_pid - closing.window.first_pid
        else:
            self._adopt_new_processes(closing)
        return self._settle(closing)

    def _end(self, readings: ProcessReadings, not_before_ns: int) -> _Closing:
        window, boundary, family = self.window, self.window.end, self.window.family
        closing = _Closing(window, readings)
        for process, final in readings.ended:
            window.end_process(process, final)
        closing.dying = self._watch.picture.is_dying(self._clock())
        boundary.prove(min(not_before_ns, readings.done_ns) if readings.split else not_before_ns)
        boundary.has_waited = not_before_ns == NEVER_NS
        boundary.fault_kib = self._watch.fault_sizes.most
        for reading in readings.readings:
            try:
                self._close_one(reading, closing)
            except Gone:  # cut off, or of a process that has no memory any more
                window.end_process(reading.process, reading.process.files.final_faults())
        boundary.unobserved_kib = closing.rss + closing.missed if closing.missed else 0
        closing.rss += self._pass_over(closing)
        closing.parents = [*closing.tracks]
        for track in window.tracks.values():
            window.leave(track)
        family.threads = max(0, closing.task_threads - self._threads - closing.earlier)
        self._threads = UNBOUNDED if readings.left else closing.task_threads
        several = len(closing.statuses) > 1
        window.found(several or family.reaped > 0, exited=family.reaped > 0, lost=boundary.lost_ns > 0)
        closing.dip = closing.rss - closing.together if several else 0
        return closing

    def _open_next(self, closing: _Closing, reset_delay_us: int | None) -> None:
        readings, watch = closing.readings, self._watch
        if readings.huge_pages is not None:
            watch.huge_pages = readings.huge_pages
        baseline = closing.rss - closing.dip
        can_reset, opening = not self.reader.refused, closing.window.end
        self.window = OpenWindow(
            watch, readings.last_pid, baseline, closing.watermark, can_reset, opening, closing.tracks, reset_delay_us
        )
        self.window.curve.see(readings.done_ns, closing.rss)
        self.reader.counts_huge_pages = watch.fault_sizes.asked and (
            closing.threads or closing.task_threads > 0 or closing.window.multi_process
        )
        self.levels.begin(self.window, closing.rss)
        holder = closing.holder
        if holder is not None and not closing.dying:
            self.levels.see_largest(holder.process.pid, holder.status.rss, closing.holder_stat)

    def _close_one(self, reading: ProcessReading, closing: _Closing) -> None:
        """The window ends for one process, and the next begins for it. Raises Gone."""
        process, window, readings = reading.process, closing.window, closing.readings
        parsed = reading.parsed()
        status, after = parsed.status, parsed.after
        self._watch.cpu.see(process, reading.cpu_ns, after)
        track = window.track(process)
        huge_pages = readings.huge_pages or self._watch.huge_pages
        level = ProcessMemory(status.anon, status.file + status.shmem, parsed.faults, huge_pages)
        closing.missed += window.see(track, process.files, reading.end_ns, parsed)
        closing.threads |= track.threads.several_ran
        if track.lost:
            window.end.lost_ns = reading.end_ns
        own = track.own
        if own is None:
            rss, watermark, most = status.rss, status.rss if track.stale else track.watermark, track.highest
            window.end.samples.append(track.samples)
        else:
            rss, watermark, most = own
            last = track.samples[-1]
            window.end.samples.append([Sample(last.end_ns, own.likely, own.most, last.faults, own.most)])
        if track.found_ns and window.is_new(process):  # it may have begun after others had ended
            window.lived.add(process.pid, -1, watermark, most)
            window.sampled = max(window.sampled, watermark)
            watermark = most = 0
        closing.statuses.append(status.counted(watermark, rss))
        closing.watermarks.append(most)
        closing.rss += rss
        together = min(rss, after.rss)
        if reading.again is not None:
            together = min(together, reading.again)
        closing.together += together
        closing.watermark += status.hwm if own is None else own.likely
        closing.task_threads += status.threads - 1
        if track.found_ns and not window.is_new(process):
            closing.earlier += status.threads - 1
        if closing.holder is None or status.rss >= closing.holder.status.rss:
            closing.holder, closing.holder_stat = reading, after
        window.family.reaped += after.child_faults - track.child_faults
        known = after.rss if reading.reset else status.hwm
        threads = ThreadBound(level, reading.others_ns, status.threads > 1, track.threads.unmaps_files)
        opened = ProcessTrack(process.parent, after, known, threads=threads)
        opened.fresh = own is not None and after.faults <= FEW_OF_FORK  # it may call exec() still
        closing.tracks[process.pid] = opened

    def _pass_over(self, closing: _Closing) -> int:
        """Keep the tracks of processes that were not read: their watermarks go on, and belong to both windows. Returns
        what they held when they were read last, KiB."""
        rss = 0
        for process in closing.readings.left:
            closing.window.end.lost_ns = NEVER_NS
            track = closing.tracks[process.pid] = closing.window.track(process)
            track.stale = True
            if not track.rss:  # it was found when there was no time left
                try:
                    track.rss = process.files.rss()
                except Gone:
                    continue  # the next reading will show it
            closing.statuses.append(Status(0, track.rss, 0, 0, 0, threads=1))  # all that is known of it
            rss += track.rss
        return rss

    def add_readings(self, readings: ProcessReadings) -> None:
        """The window stays open: these readings are a sample of it."""
        window = self.window
        for process, final in readings.ended:
            window.end_process(process, final)
        for reading in readings.readings:
            try:
                parsed = reading.parsed()
            except Gone:
                window.end_process(reading.process, reading.process.files.final_faults())
                continue
            window.keep(window.track(reading.process), reading.process.files, parsed)
        window.note()

    def add_looks(self, looks: Sequence[Look]) -> None:
        """The window stays open: add what processes with threads have held in it (ProcessReader.look)."""
        for look in looks:
            track = self.window.tracks.get(look.process.pid)
            if track is not None:
                try:
                    self.window.add_look(track, look)
                except Gone:
                    continue  # cut off, or it has ended

    def _adopt_new_processes(self, closing: _Closing) -> None:
        """Look for processes that were not known when the window was closed: now the function has its event."""
        window, family = self.window, closing.window.family
        if self._table.changed():
            self._table.scan(SETTLE_NS)
        if self._table.last_pid >= closing.window.first_pid >= 0:
            closing.born = self._table.last_pid - closing.window.first_pid
        for process in self._table.function():
            if process.pid in window.tracks:
                continue
            try:
                stat, status = process.files.stat(), process.files.status()
            except Gone:  # it came and went unseen: in the open window, and if it is older than that, perhaps before it
                final = process.files.final_faults()
                if final == UNREADABLE:
                    closing.window.found(lost=True)
                    continue
                window.end_unseen(final)
                if not window.is_new(process):
                    closing.window.end_unseen(final)
                self._table.forget(process, zombie=final is not None)
                continue
            if not window.is_new(process):
                self._watch.cpu.see_late(process, process.files.cpu_ns())
                closing.window.end.is_outlived = True
            family.found += process.pid > closing.window.first_pid
            self._threads += status.threads - 1
            track = window.track(process)
            track.rss = status.rss
            track.stale = not window.is_new(process)
            own = window.own_part(track, stat, status.hwm)
            most = status.hwm if own is None else own.most
            if own is None:
                family.called_exec(stat.faults, status.hwm)
            # Born before or after the readings: an upper bound for both windows.
            closing.window.found(several=True, unseen=most)
            closing.window.end.found_late_kib += most
        closing.window.found(lost=self._table.unfinished)
        if family.unseen(closing.born):
            self._count_reaped(closing, family)

    def _count_reaped(self, closing: _Closing, family: ProcessFamily) -> None:
        """A child that was there when the window was closed may have ended before it was looked for: by now its parent
        has its faults, or it was found."""
        for process in self._table.function():
            track = self.window.tracks.get(process.pid)
            if track is not None:
                try:
                    family.reaped += max(0, process.files.stat().child_faults - track.child_faults)
                except Gone:
                    continue  # the next reading will show it
        closing.window.found(several=family.reaped > 0, exited=family.reaped > 0)

    def _settle(self, closing: _Closing) -> Window:
        """Bound what was not read, and freeze the window."""
        window, family = closing.window, closing.window.family
        unseen = family.unseen(closing.born)
        if unseen or family.gone:
            asked = self._table.function()[:PROCESSES_ASKED]
            if any(map(ignores_children, asked)) or (unseen and not asked):
                window.found(several=True, exited=True, lost=True)  # no process waits for what ends
        if family.gone:
            family.credit(closing.parents)
        unread = _ALL_READ
        if window.process_exited or window.multi_process:
            has_ended = closing.readings.whole and any(not is_alive(each.process) for each in closing.readings.readings)
            before, now = self._adopted, closing.readings.adopted if has_ended else self._table.adopted_faults()
            self._adopted = now
            adopted = None if before is None or now is None else max(0, now - before)
            huge = 0
            if self._watch.fault_sizes.asked:
                counted = closing.readings.huge_pages or self._watch.proc.huge_pages() or window.huge_pages
                huge = max(0, sum(counted) - sum(window.huge_pages))
            sizes = self._watch.fault_sizes
            unread = family.bound(window.process_exited, closing.born, adopted, sizes, huge, self._limit_kib)
            if unread.most:
                window.end.ended(self._clock(), unread.most)
            window.found(lost=unread.lost, unseen=unread.late)
        is_whole = closing.born >= 0 and not (window.lost or unread.orphans or closing.readings.left)
        new = range(window.first_pid + 1, window.first_pid + closing.born + 1) if unseen else ()
        closed = window.so_far()
        closed.closing, closed.watermarks = closing.statuses, closing.watermarks
        closed.unread, closed.unread_estimate, closed.orphans = unread.most, unread.estimate, unread.orphans
        closed.born, closed.births = closing.born, unseen if closing.born >= 0 else -1
        closed.deaths = family.waited
        closed.dying, closed.dip, closed.threads = closing.dying, closing.dip, closing.threads
        closed.shown, closed.killed, closed.limit = closing.readings.shown, closing.readings.killed, self._limit_kib
        closed.cpu_ns = self._watch.cpu.close(window.first_pid, is_whole, new)
        return closed


def is_alive(process: Process) -> bool:
    """False also for one that has ended and was not waited for yet."""
    try:
        return parse_state(process.files.read("stat")) not in ENDED_STATES
    except Gone:
        return False


def ignores_children(process: Process) -> bool:
    """Does the process ignore SIGCHLD? Then the kernel adds the faults of its children to nothing (wait(2), NOTES)."""
    try:
        mask = process.files.read("status").partition(b"\nSigIgn:")[2].split(None, 1)[0]
        return bool(int(mask, 16) >> (SIGCHLD - 1) & 1)
    except (Gone, ValueError, IndexError):
        return False
