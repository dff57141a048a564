"""The window that is open: what is known of each process in it so far, and of those that have ended. Sizes in KiB.

Theory of operation
===================

A window lies between two resets of the function's watermarks. What a process has held in it at most is the highest of
these, each with its own bound:

- its watermark, VmHWM, as read last. It was reset when the window opened, so that it is this window's.
- What came and went between a reading of VmHWM and its reset: the level that was read, and 64 KiB for each page fault
  since (`see`, `gap`).
- What VmHWM does not have because several threads have run: thread_bound.py.
- What no reading tells of children (before exec(), after the last reading, all of a short life): child_bound.py.

`Watermark lost` is what no bound covers: exec(), or a function that resets its own watermark (ProcessTrack.lost).

Who reads what, and when: recorder.py all processes, when the window opens and closes; level_sampler.py the levels
meanwhile, and watermarks where memory has fallen; watermark.py is the reading itself. Each reading goes through
OpenWindow, the only writer.
"""

from __future__ import annotations

import time

from ..linux.kernel import fault_sizes, watermark_slack_kib
from ..linux.procfs import UNREADABLE, Stat, parse_statm
from .child_bound import (
    PARENTS,
    Lives,
    OwnPart,
    ProcessFamily,
    handed_on,
    own_part_of_fork,
    own_part_of_vfork,
    shares_memory,
)
from .cpu_time import CpuTime
from .process_track import ProcessTrack
from .thread_bound import ProcessMemory
from .watermark import Look, Parsed
from .window import NEVER_NS, Boundary, MemoryCurve, Sample, WholePicture, Window, keep

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Final

    from ..linux.process_table import Process, ProcessTable
    from ..linux.procfs import ProcessFiles, Procfs
    from .watermark import ProcessReader

FEW_FAULTS: Final = 16
"""Page faults that cannot have hidden more than a figure's own error."""


class WindowContext:
    """What all windows of one environment are opened with."""

    def __init__(
        self,
        table: ProcessTable,
        reader: ProcessReader,
        proc: Procfs,
        limit_kib: int,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        """`limit_kib` is the environment's memory limit, 0 if unknown. `clock` gives epoch ns."""
        self.table = table
        self.reader = reader
        self.proc = proc
        self.clock = clock
        self.limit_kib = limit_kib
        self.fault_sizes = fault_sizes()
        self.slack_kib = watermark_slack_kib()
        self.huge_pages = proc.huge_pages() or (0, 0)
        """Huge pages of all processes (Procfs.huge_pages), when a window opened or earlier."""
        self.picture = WholePicture()
        self.cpu = CpuTime(proc)


class OpenWindow:
    """The window that is open: the only writer of what is known of it so far. Sizes in KiB.

    The first one is the init phase: a runtime is started by exec(), and its memory counts from there, as after a reset.
    """

    def __init__(
        self,
        watch: WindowContext,
        first_pid: int,
        baseline: int = 0,
        before: int = 0,
        resets: bool = True,
        opening: Boundary | None = None,
        tracks: dict[int, ProcessTrack] | None = None,
        reset_delay_us: int | None = None,
    ) -> None:
        """`tracks` are the processes that were read when it opened. For the others see Window."""
        self._watch = watch
        self.first_pid = first_pid
        self.baseline = baseline
        self.before = before
        self.resets = resets
        self.opening = opening or Boundary(NEVER_NS)
        self.reset_delay_us = reset_delay_us
        self.is_first = tracks is None
        self.tracks: dict[int, ProcessTrack] = tracks or {}
        self.family = ProcessFamily()
        self.end = Boundary()
        """The window's end, as far as it is known: its samples so far."""
        self.curve = MemoryCurve()
        self.huge_pages = watch.huge_pages
        """Huge pages of all processes (Procfs.huge_pages), when the window opened or earlier."""
        self.lived = Lives()
        self.sampled = self.last = self.together = self.unseen = 0
        self.multi_process = self.process_exited = self.lost = False

    def track(self, process: Process) -> ProcessTrack:
        track = self.tracks.get(process.pid)
        if track is None:
            track = self.tracks[process.pid] = ProcessTrack(process.parent, None, found_ns=self._watch.clock())
            self.family.found += self.is_new(process)
        return track

    def is_new(self, process: Process) -> bool:
        """True if the process was born within the open window."""
        return process.pid > self.first_pid

    def read_watermark(self, process: Process, track: ProcessTrack, reset: bool) -> None:
        """Sample the watermark and the page faults of a process: 20 µs. Raises Gone."""
        files = process.files
        before = after = files.stat()
        status = files.status()
        others_ns = files.others_ns()
        # A child of vfork() has its parent's watermark.
        has_reset = reset and status.has_fallen and not (track.fresh and self.has_parents_mm(track, before))
        if has_reset:
            self._watch.reader.reset(files)
            after = files.stat()
        has_reset &= not self._watch.reader.refused
        gap = after.faults - before.faults
        reading = Parsed(status, before.faults, gap, after, others_ns, has_reset)
        self.keep(track, files, reading, rising=not reset)

    def keep(self, track: ProcessTrack, files: ProcessFiles, reading: Parsed, rising: bool = False) -> None:
        """Add a sample that was taken while the window is open."""
        now_ns = self._watch.clock()
        self.see(track, files, now_ns, reading, rising)
        if track.lost:
            self.end.lost_ns = now_ns
        if self.resets and not track.stale:
            self.sampled = max(self.sampled, reading.status.hwm)

    def see(self, track: ProcessTrack, files: ProcessFiles, now_ns: int, reading: Parsed, rising: bool = False) -> int:
        """Add a sample; what may have come and gone between its reading and its reset, KiB."""
        status, after = reading.status, reading.after
        if track.own is not None and not self.has_parents_mm(track, after):
            track.samples.clear()  # of its parent's memory
            track.known = 0
        highest = max(status.hwm, self._bound_of_threads(track, files, reading))
        gap = 0
        if reading.gap > 0:
            gap = reading.gap * self._watch.fault_sizes.most
            highest = max(highest, status.rss + gap)
        sample = Sample(now_ns, status.hwm, highest, after.faults, after.rss)
        track.see(sample, reading, self._watch.slack_kib, rising, self.tracks.get(track.parent))
        track.own = self.own_part(track, after, status.hwm) if track.fresh else None
        return gap

    def has_parents_mm(self, track: ProcessTrack, stat: Stat) -> bool:
        """Is the process a child that has not called exec()?"""
        return track.has_mm_of(self.tracks.get(track.parent), stat)

    def own_part(self, track: ProcessTrack, stat: Stat, hwm: int) -> OwnPart | None:
        """What it holds beside its parent; None where it has memory of its own."""
        parent = self.tracks.get(track.parent)
        if parent is None or not track.has_mm_of(parent, stat):
            return None
        sizes = self._watch.fault_sizes
        least = max(0, stat.rss - max(parent.known, parent.highest, parent.rss))
        if shares_memory(stat.rss, parent.rss):
            return own_part_of_vfork(stat.faults, hwm, least, sizes)
        if track.handed_on is None:
            has_huge = sizes.asked and self._watch.proc.huge_pages() != self.huge_pages
            track.handed_on = handed_on(stat, sizes, has_huge)
        return own_part_of_fork(stat.faults, hwm, least, track.handed_on, sizes)

    def look(self, process: Process, track: ProcessTrack) -> None:
        """Read the process's level and page faults, if it has threads or has had some. Raises Gone."""
        files = process.files
        others_ns = files.others_ns()
        if track.threads.has_several or others_ns is None or others_ns != track.threads.level_others_ns:
            before = files.read("stat")
            rss, shared = files.rss_and_shared()
            after = files.read("stat")
            self._look(track, files, rss - shared, shared, before, after, files.others_ns())

    def add_look(self, track: ProcessTrack, look: Look) -> None:
        """Add a level that was read some time ago. Raises Gone."""
        files = look.process.files
        rss, shared = parse_statm(look.statm)
        track.known = max(track.known, rss)
        self._look(track, files, rss - shared, shared, look.before, look.after, look.others_ns)

    def _look(
        self,
        track: ProcessTrack,
        files: ProcessFiles,
        own: int,
        shared: int,
        before: bytes,
        after: bytes,
        others_ns: int | None,
    ) -> None:
        """The level was read, after the process's stat `before` and before `after`. Raises Gone."""
        faults = files.parse(before).faults
        self._see_level_of(track, files, own, shared, faults, files.parsed_stat(after), others_ns)

    def _see_level_of(
        self,
        track: ProcessTrack,
        files: ProcessFiles,
        own: int,
        shared: int,
        faults_before: int,
        stat: Stat,
        others_ns: int | None,
    ) -> bool:
        """Has another thread than the first run since the last look, perhaps? The level was read after `faults_before`
        page faults, and before `stat`: those in between count for what comes before the level and after it."""
        first = track.threads.level
        new_faults, huge = stat.faults, self._watch.huge_pages
        if first is not None:
            new_faults -= first.faults
            huge = first.huge
        others_ran = others_ns is None or others_ns != track.threads.level_others_ns
        if not others_ran and stat.threads > 1:  # what few faults can have hidden is less than asking costs
            others_ran = new_faults <= FEW_FAULTS or not files.others_rest(others_ns or 0)
        sizes = self._watch.fault_sizes
        if sizes.asked and others_ran and new_faults > FEW_FAULTS:
            huge = self._watch.proc.huge_pages() or huge
        level = ProcessMemory(own, shared, faults_before, huge)
        track.look(level, stat.faults, others_ns, others_ran, sizes, self.tracks.get(track.parent))
        return others_ran

    def _bound_of_threads(self, track: ProcessTrack, files: ProcessFiles, reading: Parsed) -> int:
        """The status was read: KiB that the process can have held since it was read before, at most, whatever its
        threads did; 0 where its watermark shows all (ThreadBound.bound)."""
        status, others_ns, watch = reading.status, reading.others_ns, self._watch
        shared = status.file + status.shmem
        others_ran = self._see_level_of(track, files, status.anon, shared, reading.faults, reading.after, others_ns)
        huge_pages = watch.proc.huge_pages if watch.fault_sizes.asked else None
        hwm, known, watermark, slack, limit = status.hwm, track.known, track.watermark, watch.slack_kib, watch.limit_kib
        return track.threads.bound(hwm, known, watermark, slack, limit, huge_pages, others_ns, others_ran)

    def end_process(self, process: Process, final: int | None) -> None:
        """A process has ended, or is about to: what it held last counts for the open window. `final`: see
        ProcessFiles.final_faults, read before its parent is read for the last time."""
        if final == UNREADABLE:
            self.lost = True
            return
        if not self._watch.table.forget(process, zombie=final is not None):
            return  # it was seen in two readings
        track = self.track(process)
        self._watch.cpu.ended(process)
        self._watch.picture.process_ended(self._watch.clock())
        self.process_exited = True
        if track.own is None:
            seen = max(track.watermark, track.known)
            most = max(track.highest, seen)
        else:
            _, seen, most = track.own
        self.lived.add(process.pid, self._watch.proc.last_pid(), seen, most)
        self.end.ended(self._watch.clock(), most)
        del self.tracks[process.pid]
        self.leave(track)
        if track.found_ns and not track.samples:
            self.family.found -= self.is_new(process)
        faults = track.last_stat.faults if track.last_stat is not None else 0
        if final is not None:
            final -= track.child_faults  # of those that it had waited for in earlier windows
        self.family.ended(faults, final, track.parent)
        if len(self.family.gone) > PARENTS:
            self.family.leave_orphans(self.tracks.keys())

    def see_level(self, now_ns: int, level_kib: int) -> None:
        """Note what the function held when all of it was seen."""
        self.last = level_kib
        self.curve.see(now_ns, level_kib)

    def see_together(self, level_kib: int) -> None:
        """The environment's own level was asked for: see Window.together."""
        self.together = level_kib

    def end_unseen(self, final: int | None) -> None:
        """A process has ended that was never read. `final`: see ProcessFiles.final_faults."""
        self.process_exited = True
        self.family.ended(0, final, 0)

    def found(self, several: bool = False, exited: bool = False, lost: bool = False, unseen: int = 0) -> None:
        """Several processes lived in it; one has ended; a watermark, or a process, was not read; `unseen`: KiB that
        processes may have held which were found only now."""
        self.multi_process |= several
        self.process_exited |= exited
        self.lost |= lost
        self.unseen += unseen

    def so_far(self) -> Window:
        """What is known of it, as if it had closed without a reading."""
        made = Window(self.baseline)
        made.before, made.resets = self.before, not self._watch.reader.refused
        made.opening, made.end, made.reset_delay_us = self.opening, self.end, self.reset_delay_us
        made.sampled, made.last, made.together, made.curve = self.sampled, self.last, self.together, self.curve
        made.lived, made.unseen = self.lived.likely, self.unseen + self.lived.most - self.lived.likely
        made.multi_process, made.process_exited, made.lost = self.multi_process, self.process_exited, self.lost
        return made

    def leave(self, track: ProcessTrack) -> None:
        """The window ends for a process. What a runtime held before its own exec() is not the function's."""
        if track.faults is not None and not (self.is_first and track.parent not in self.tracks):
            self.family.called_exec(track.faults, track.highest)

    def note(self, together: int = 0) -> int:
        """Note the level that it has reached by now; `together`: that of a sample. Returns the time, epoch ns."""
        self.sampled = max(self.sampled, together)
        now_ns = self._watch.clock()
        keep(self.end.levels, (now_ns, self.sampled), max)
        return now_ns
