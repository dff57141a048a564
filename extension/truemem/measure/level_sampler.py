"""Ticks: levels of the function while its window is open, so that the sampler knows what is coming."""

from __future__ import annotations

import time

from ..linux.proc_text import Gone
from .race import NEVER
from .sampling_schedule import child_interval_ns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..linux.process_table import Process, ProcessTable
    from .open_window import OpenWindow
    from .process_reader import ProcessReader

STILL_KIB = 64
"""Two levels that differ by less are one."""

TICK_NS = 1_000_000
"""One tick may take so long, and one process more: the runtime's bytes may wait for it."""


class LevelSampler:
    """Samples the processes of the open window."""

    def __init__(
        self,
        table: ProcessTable,
        reader: ProcessReader,
        open_window: OpenWindow,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        """`clock` gives epoch ns."""
        self._table = table
        self._reader = reader
        self._open = open_window
        self._clock = clock
        self.last_sample = 0
        """KiB."""
        self.largest_process: tuple[str, int, int] | None = None
        """Name, pid and RSS in KiB of the process that held most of the function's memory, as last seen."""
        self.is_whole = False
        """Was the last sample a picture of all that the function held?"""
        self._turn = 0
        """Where there are too many processes for one tick, the next one goes on from here."""

    def begin(self, rss: int, largest: tuple[str, int, int] | None) -> None:
        """A window has opened at this level in KiB. `largest`: who held most, if that was read."""
        self.last_sample = rss
        self.largest_process = largest or self.largest_process

    def sample(self, late: bool, reset: bool = True) -> int:
        """One tick: how much the function's level has moved since the last, in KiB.

        While memory grows only its level is read. Else, or `late` (much more time has passed than was asked for: a
        freeze, perhaps), this may well be the last sample before the next event, or before the process is killed: then
        the watermark is read too, and reset, so that what cannot be told apart later is only what comes after. No
        `reset` where the window's end will be exact.
        """
        if self._table.changed():
            self._table.scan(TICK_NS)
        processes = self._table.function()
        several = len(processes) > 1
        self._open.window.multi_process |= several
        levels: dict[int, int] = {}
        known = {process.pid: process for process in processes}
        until_ns = self._clock() + TICK_NS
        turn = self._turn % len(processes) if several else 0
        self._turn = 0
        waiting = [*processes[:1], *processes[1 + turn :], *processes[1 : 1 + turn]]
        for at, process in enumerate(waiting):
            if at and self._clock() > until_ns:
                self._turn = turn + at - 1
                break
            track = self._open.track(process)
            try:
                previous = track.rss
                self._open.look(process, track)
                if process.parent in levels and _is_one_level(track.rss, levels[process.parent], known[process.parent]):
                    continue  # a child of vfork() that has not called exec: its memory is its parent's
                track.known = max(track.known, track.rss)
                levels[process.pid] = track.rss
                if several or (reset and (late or track.rss <= previous)):
                    self._open.read_watermark(process, track, reset)
            except Gone as gone:
                self._reader.failed(gone)
                self._open.end(process, process.files.final_faults())
        total = sum(levels.values())
        together = self._together(processes, levels) if len(levels) > 1 else total
        if self._turn:  # the others have what they had
            total += sum(track.rss for pid, track in self._open.tracks.items() if pid not in levels)
        moved = abs(total - self.last_sample)
        self.last_sample = total
        self._open.window.sampled = max(self._open.window.sampled, together)
        now_ns = self._open.note()
        # A function that has ended leaves its last level, and one that is dying the one before that.
        self.is_whole = bool(levels) and self._open.picture.take(now_ns)
        if self.is_whole:
            self._open.window.last = total
            self._open.window.curve.see(now_ns, total)
            pid = max(levels, key=levels.__getitem__)
            self.largest_process = self._name(pid), pid, levels[pid]
        return moved

    def watch(self, sparing: int = 1) -> int | None:
        """Sample the function's children alone, each when it is due: ns until the next one; None without any.
        `sparing` times as seldom.

        A child takes its watermark with it when it ends, so that is read again and again, and never reset.
        """
        if self._table.changed():
            self._table.scan(TICK_NS)
        processes = self._table.function()
        if len(processes) < 2:
            return None
        self._open.window.multi_process = True
        now_ns = self._clock()
        due_ns = NEVER
        for process in processes[1:]:
            if self._clock() > now_ns + TICK_NS:
                return 0
            track = self._open.track(process)
            if now_ns >= track.due_ns:
                try:
                    self._open.read_watermark(process, track, reset=False)
                except Gone as gone:
                    self._reader.failed(gone)
                    self._open.end(process, process.files.final_faults())
                    continue
                track.due_ns = now_ns + sparing * child_interval_ns(now_ns - track.found_ns)
            due_ns = min(due_ns, track.due_ns)
        return max(0, due_ns - self._clock()) if due_ns < NEVER else None

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

    def _name(self, pid: int) -> str:
        track = self._open.tracks.get(pid)
        return track.last_stat.name if track is not None and track.last_stat is not None else ""


def _is_one_level(rss: int, parent_before: int, parent: Process) -> bool:
    """Is a child's level its parent's, which may have moved since it was read?"""
    try:
        parent_now = parent.files.rss()
    except Gone:
        parent_now = parent_before
    return min(parent_before, parent_now) - STILL_KIB < rss < max(parent_before, parent_now) + STILL_KIB
