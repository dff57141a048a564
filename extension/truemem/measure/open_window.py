"""The window that is open: what is known of each process in it so far, and of those that have ended."""

from __future__ import annotations

import time

from ..linux.kernel import fault_sizes, watermark_slack_kib
from ..linux.proc_text import Stat, Status, has_fallen, parse_status
from ..linux.procfs import UNREADABLE
from .memory_curve import WholePicture
from .process_family import ProcessFamily
from .process_track import Level, ProcessTrack
from .race import NEVER, Boundary, Sample, keep
from .window import Window

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..linux.process_table import Process, ProcessTable
    from ..linux.procfs import Procfs
    from .process_reader import ProcessReader


RUNNING = b"R"


class OpenWindow:
    """The window that is open now; `begin` replaces it by the next."""

    def __init__(
        self,
        table: ProcessTable,
        reader: ProcessReader,
        proc: Procfs,
        limit_kib: int,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        """`limit_kib` is the environment's memory limit, 0 if unknown. `clock` gives epoch ns."""
        self._table = table
        self._reader = reader
        self._clock = clock
        self.fault_sizes = fault_sizes()
        self._most_kib = limit_kib or NEVER
        self._proc = proc
        self.huge_pages = proc.huge_pages() or (0, 0)
        """See Procfs.huge_pages: when the window opened, or earlier."""
        self._slack_kib = watermark_slack_kib()
        self.tracks: dict[int, ProcessTrack] = {}
        self.family = ProcessFamily()
        self.boundary = Boundary()
        """Where it will end: its samples so far."""
        self.is_first = True
        """The init phase: a runtime is started by exec(), and its memory counts from there."""
        self.window = Window(baseline=0, before=0, resets=True)  # the init phase: since exec, as after a reset
        self.window.first_pid = proc.last_pid()
        self.picture = WholePicture()

    def begin(self, window: Window, tracks: dict[int, ProcessTrack], huge_pages: tuple[int, int] | None) -> None:
        """Open the next window; `huge_pages` of when that was, if they were counted."""
        if huge_pages is not None:
            self.huge_pages = huge_pages
        self.window, self.tracks, self.is_first = window, tracks, False
        self.family, self.boundary = ProcessFamily(), Boundary()

    def track(self, process: Process) -> ProcessTrack:
        """What is known of the process: made now where it was not known."""
        track = self.tracks.get(process.pid)
        if track is None:
            track = self.tracks[process.pid] = ProcessTrack(process.parent, None, found_ns=self._clock())
            self.family.found += self.is_new(process)
        return track

    def is_new(self, process: Process) -> bool:
        """Was it born within the open window?"""
        return process.pid > self.window.first_pid

    def read_watermark(self, process: Process, track: ProcessTrack, reset: bool) -> None:
        """Sample the watermark and the page faults of a process: 20 µs. Raises Gone."""
        files = process.files
        before = files.stat()
        text = files.read("status")
        status = parse_status(text)
        after = before
        others_ns = files.others_ns()
        has_reset = reset and has_fallen(text)
        if has_reset:
            self._reader.reset(files)
            after = files.stat()
        self.keep(track, status, before, after, others_ns, has_reset and not self._reader.refused, rising=not reset)

    def keep(
        self,
        track: ProcessTrack,
        status: Status,
        before: Stat,
        after: Stat,
        others_ns: int | None,
        reset: bool,
        rising: bool = False,
    ) -> None:
        """Add a sample that was taken while the window is open."""
        now_ns = self._clock()
        self.see(track, now_ns, status, before, after, others_ns, reset, rising)
        if track.lost:
            self.boundary.lost_ns = now_ns
        if self.window.resets and not track.stale:
            self.window.sampled = max(self.window.sampled, status.hwm)

    def see(
        self,
        track: ProcessTrack,
        now_ns: int,
        status: Status,
        before: Stat,
        after: Stat,
        others_ns: int | None,
        reset: bool,
        rising: bool = False,
    ) -> int:
        """Add a sample; what may have come and gone between its reading and its reset, KiB."""
        gap = max(0, after.faults - before.faults) * self.fault_sizes.most
        highest = max(status.hwm, gap and status.rss + gap, self._bound_of_threads(track, status, after, others_ns))
        sample = Sample(now_ns, status.hwm, highest, after.faults, after.rss)
        parent = self.tracks.get(track.parent)
        track.see(sample, status, after, self._slack_kib, reset, rising, parent)
        return gap

    def look(self, process: Process, track: ProcessTrack) -> None:
        """Read its level, and its page faults if it has threads, or has had. Raises Gone."""
        files = process.files
        track.rss, shared = files.rss_and_shared()
        others_ns = files.others_ns()
        if track.has_threads or others_ns is None or others_ns != track.level_ns:
            stat = files.stat()
            others_ns = certain_ns(others_ns, stat, self._proc.load()[1])
            self._move(track, track.rss - shared, shared, stat.faults, others_ns)

    def _move(self, track: ProcessTrack, own: int, shared: int, faults: int, others_ns: int | None) -> None:
        huge = track.level.huge if track.level is not None else self.huge_pages
        if self.fault_sizes.asked and (track.has_threads or others_ns is None or others_ns != track.level_ns):
            huge = self._proc.huge_pages() or huge
        level = Level(own, shared, faults, huge)
        track.move(level, others_ns, self.fault_sizes.own, self.tracks.get(track.parent))

    def _bound_of_threads(self, track: ProcessTrack, status: Status, after: Stat, others_ns: int | None) -> int:
        """KiB that the process can have held since its status was read last, at most; 0 where its watermark shows
        all."""
        seen = max(status.hwm, track.known)
        faults = after.faults - (track.last_stat.faults if track.last_stat is not None else 0)
        self._move(track, status.anon, status.file + status.shmem, after.faults, others_ns)
        touched, given_back = track.touched, track.given_back
        track.touched = track.given_back = 0
        before, track.others_ns = track.others_ns, others_ns
        if others_ns is not None and others_ns == before:
            return 0
        track.threads = True
        hidden = seen + given_back
        if status.hwm - self._slack_kib > max(track.watermark, touched):  # more than a page a fault: files
            track.unmaps_files = True
            hidden += faults * self.fault_sizes.most
        highest = max(touched, hidden) if track.unmaps_files else min(touched, hidden)
        return min(highest, max(self._most_kib, seen))

    def end(self, process: Process, final: int | None) -> None:
        """A process has ended, or is about to: what it held last counts for the open window. `final`: see
        ProcessFiles.final_faults, read before its parent is read for the last time."""
        if final == UNREADABLE:
            self.window.lost = True
            return
        if not self._table.forget(process, zombie=final is not None):
            return  # it was seen in two readings
        track = self.track(process)
        self.picture.process_ended(self._clock())
        self.window.process_exited = True
        seen = max(track.watermark, track.known)
        self.window.ended += seen
        self.window.unseen += max(0, track.highest - seen)  # of its threads
        self.boundary.unread.append((self._clock(), max(track.highest, track.known)))
        del self.tracks[process.pid]
        self.leave(track)
        if track.found_ns and not track.samples:
            self.family.found -= self.is_new(process)
        faults = track.last_stat.faults if track.last_stat is not None else 0
        if final is not None:
            final -= track.child_faults  # of those that it had waited for in earlier windows
        self.family.ended(faults, final, track.parent, max(track.highest, seen))

    def leave(self, track: ProcessTrack) -> None:
        """The window ends for a process. What a runtime held before its own exec() is not the function's."""
        if track.faults is not None and not (self.is_first and track.parent not in self.tracks):
            self.family.before_exec.append((track.faults, track.highest))

    def note(self) -> int:
        """Note the level that the window has reached by now. Returns the time, epoch ns."""
        now_ns = self._clock()
        keep(self.boundary.levels, (now_ns, self.window.sampled), max)
        return now_ns


def certain_ns(others_ns: int | None, stat: Stat, running: int) -> int | None:
    """See ProcessFiles.others_ns; None if another thread may run just now: the kernel counts its time when it stops, or
    at the next tick. `running` (Procfs.load) has ours and the process's first thread."""
    return others_ns if stat.threads < 2 or running <= 1 + (stat.state == RUNNING) else None
