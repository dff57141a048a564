"""The window that is open: what is known of each process in it so far, and of those that have ended."""

from __future__ import annotations

import time

from ..linux.kernel import fault_kib, watermark_slack_kib
from ..linux.proc_text import ZOMBIE, Gone, Stat, Status, has_fallen, parse_status
from .memory_curve import WholePicture
from .process_family import ProcessFamily
from .process_track import ProcessTrack
from .race import Boundary, Sample, keep
from .window import Window

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..linux.process_table import Process, ProcessTable
    from .process_reader import ProcessReader


class OpenWindow:
    """The window that is open now; `begin` replaces it by the next."""

    def __init__(
        self, table: ProcessTable, reader: ProcessReader, first_pid: int, clock: Callable[[], int] = time.time_ns
    ) -> None:
        """`first_pid` is the pid given out last; `clock` gives epoch ns."""
        self._table = table
        self._reader = reader
        self._clock = clock
        self.fault_kib = fault_kib()
        self._slack_kib = watermark_slack_kib()
        self.tracks: dict[int, ProcessTrack] = {}
        self.family = ProcessFamily()
        self.boundary = Boundary()
        """Where it will end: its samples so far."""
        self.is_first = True
        """The init phase: a runtime is started by exec(), and its memory counts from there."""
        self.window = Window(baseline=0, before=0, resets=True)  # the init phase: since exec, as after a reset
        self.window.first_pid = first_pid
        self.picture = WholePicture()

    def begin(self, window: Window, tracks: dict[int, ProcessTrack]) -> None:
        """Open the next window."""
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
        has_reset = reset and has_fallen(text)
        if has_reset:
            self._reader.reset(files)
            after = files.stat()
        self.keep(track, status, before, after, has_reset and not self._reader.refused, rising=not reset)

    def keep(
        self, track: ProcessTrack, status: Status, before: Stat, after: Stat, reset: bool, rising: bool = False
    ) -> None:
        """Add a sample that was taken while the window is open."""
        now_ns = self._clock()
        self.see(track, now_ns, status, before, after, reset, rising)
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
        reset: bool,
        rising: bool = False,
    ) -> int:
        """Add a sample; what may have come and gone between its reading and its reset, KiB."""
        gap = max(0, after.faults - before.faults) * self.fault_kib
        sample = Sample(now_ns, status.hwm, max(status.hwm, gap and status.rss + gap), after.faults, after.rss)
        track.see(sample, status, after, self._slack_kib, reset, rising, self.tracks.get(track.parent))
        return gap

    def end(self, process: Process) -> None:
        """A process has ended, or is a zombie: what it held last counts for the open window."""
        final = final_faults(process)
        if not self._table.forget(process, zombie=final is not None):
            return  # it was seen in two readings
        track = self.track(process)
        self.picture.process_ended(self._clock())
        self.window.process_exited = True
        self.window.ended += max(track.watermark, track.known)
        self.boundary.unread.append((self._clock(), max(track.highest, track.known)))
        del self.tracks[process.pid]
        self.leave(track)
        if track.found_ns and not track.samples:
            self.family.found -= self.is_new(process)
        faults = track.last_stat.faults if track.last_stat is not None else 0
        self.family.ended(faults, final, track.parent in self.tracks)

    def leave(self, track: ProcessTrack) -> None:
        """The window ends for a process. What a runtime held before its own exec() is not the function's."""
        if track.faults is not None and not (self.is_first and track.parent not in self.tracks):
            self.family.before_exec.append((track.faults, track.highest))

    def note(self) -> int:
        """Note the level that the window has reached by now. Returns the time, epoch ns."""
        now_ns = self._clock()
        keep(self.boundary.levels, (now_ns, self.window.sampled), max)
        return now_ns


def final_faults(process: Process) -> int | None:
    """Page faults of a process that has ended, and for which nothing has waited yet; else None."""
    try:
        stat = process.files.stat()
    except Gone:
        return None
    return stat.faults if stat.state == ZOMBIE and stat.threads <= 1 else None
