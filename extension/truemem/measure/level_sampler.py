"""Looks at the function's level while a window is open: sums, the curve, and children's watermarks. Sizes in KiB."""

from __future__ import annotations

from ..linux.procfs import Gone
from .sampling import child_interval_ns
from .window import NEVER_NS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

    from ..linux.process_table import Process
    from ..linux.procfs import Stat
    from .open_window import OpenWindow, WindowContext

TICK_NS: Final = 1_000_000
"""Most time that one tick may take, and then one process more: the runtime's bytes may wait for it."""


class LevelSampler:
    """Samples the function's level, and its children's watermarks."""

    def __init__(self, watch: WindowContext, window: OpenWindow) -> None:
        self._watch = watch
        self._clock = watch.clock
        self._open = window
        self.last_sample = 0
        """KiB."""
        self.levels: dict[int, int] = {}
        """The same of each process, by pid."""
        self.largest_pid = 0
        """The process that held most of the function's memory, as last seen; 0 where none was."""
        self._largest_kib = 0
        self._largest_stat: Stat | None = None
        self.is_whole = False
        """True if the last sample had all that the function held."""
        self._turn = 0
        """Process from which the next tick goes on, if there are too many for one."""

    @property
    def largest_process(self) -> tuple[str, int, int] | None:
        """Name, pid and RSS in KiB of the process that held most of the function's memory, as last seen."""
        if not self.largest_pid:
            return None
        return self._largest_stat.name if self._largest_stat is not None else "", self.largest_pid, self._largest_kib

    def begin(self, window: OpenWindow, rss: int) -> None:
        """A window has opened at this level in KiB."""
        self._open = window
        self.last_sample = rss

    def see_largest(self, pid: int, level_kib: int, stat: Stat | None) -> None:
        """This process holds most of the function's memory."""
        self.largest_pid, self._largest_kib, self._largest_stat = pid, level_kib, stat

    def sample(self, late: bool, reset: bool = True) -> int:
        """Do one tick. Returns by how much the function's level has moved since the last one, in KiB.

        While memory grows only its level is read. Else, or `late` (much more time has passed than was asked for: a
        freeze, perhaps), this may well be the last sample before the next event, or before the process is killed: then
        the watermark is read too, and reset, so that what cannot be told apart later is only what comes after. No
        `reset` where the window's end will be exact.
        """
        processes = self._processes()
        several = len(processes) > 1
        levels: dict[int, int] = {}
        waiting, turn, until_ns = processes, 0, NEVER_NS
        if several:
            turn, until_ns = self._turn % len(processes), self._clock() + TICK_NS
            waiting = [*processes[:1], *processes[1 + turn :], *processes[1 : 1 + turn]]
        self._turn = 0
        total = most = largest_pid = 0
        for at, process in enumerate(waiting):
            if at and self._clock() > until_ns:
                self._turn = turn + at - 1
                break
            track = self._open.track(process)
            try:
                previous = track.rss
                track.rss = process.files.rss()
                reads_all = several or (reset and (late or track.rss <= previous))
                if several or track.threads.has_several or not reads_all:
                    self._open.look(process, track)
                own = self._open.own_part(track, process.files.stat(), track.rss) if at and track.fresh else None
                if own is None:
                    track.known = max(track.known, track.rss)
                level = track.rss if own is None else own.least
                levels[process.pid] = level
                total += level
                if level > most or not largest_pid:
                    most, largest_pid = level, process.pid
                if reads_all:
                    self._open.read_watermark(process, track, reset)
            except Gone as gone:
                self._end(process, gone)
        together = self._together(processes, levels) if len(levels) > 1 else total
        if self._turn:  # the others have what they had
            total += sum(track.rss for pid, track in self._open.tracks.items() if pid not in levels)
        moved = abs(total - self.last_sample)
        self.last_sample, self.levels = total, levels
        now_ns = self._open.note(together)
        # A function that has ended leaves its last level, and one that is dying the one before that.
        self.is_whole = bool(levels) and self._watch.picture.take(now_ns)
        if self.is_whole:
            self._open.see_level(now_ns, total)
            track_of_largest = self._open.tracks.get(largest_pid)
            stat = track_of_largest.last_stat if track_of_largest is not None else None
            self.see_largest(largest_pid, most, stat)
        return moved

    def watch(self, sparing: int = 1) -> int | None:
        """Sample the function's children alone, each when it is due: ns until the next one; None without any.
        `sparing` times as seldom.

        A child takes its watermark with it when it ends, so that is read again and again, and never reset.
        """
        processes = self._processes()
        if len(processes) < 2:
            return None
        now_ns = self._clock()
        due_ns = NEVER_NS
        for process in processes[1:]:
            if self._clock() > now_ns + TICK_NS:
                return 0
            track = self._open.track(process)
            if now_ns >= track.due_ns:
                before = track.rss
                try:
                    self._open.read_watermark(process, track, reset=False)
                except Gone as gone:
                    self._end(process, gone)
                    continue
                moved = abs(track.rss - before)
                track.due_ns = now_ns + sparing * child_interval_ns(now_ns - track.found_ns, moved)
            due_ns = min(due_ns, track.due_ns)
        return max(0, due_ns - self._clock()) if due_ns < NEVER_NS else None

    def _processes(self) -> list[Process]:
        if self._watch.table.changed():
            self._watch.table.scan(TICK_NS)
        processes = self._watch.table.function()
        if len(processes) > 1:
            self._open.found(several=True)
        return processes

    def _end(self, process: Process, gone: Gone) -> None:
        self._watch.reader.failed(gone)
        self._open.end_process(process, process.files.final_faults())

    def _together(self, processes: list[Process], levels: dict[int, int]) -> int:
        """What processes held at one moment: the levels were read one after the other, so each is read once more. The
        lower one of the two was there between the last first reading and the first second one."""
        held = 0
        for process in processes:
            level = levels.get(process.pid, 0)
            if level:
                try:
                    held += min(level, process.files.rss())
                except Gone:  # the next tick will see it, too
                    continue
        return held
