"""Opens and closes windows on the function's processes: reads, resets, samples.

A cut closes one window and opens the next: for each process its status is read and its watermark reset.
At INVOKE it races the runtime, which is released at about the same time.
"""

from __future__ import annotations

import time

from .kernel import fault_kib, probe
from .looks import keep, known_before
from .procfs import ESRCH, Gone, Procfs, Stat, Status, parse_stat, parse_status
from .race import STILL_KIB, UNKNOWN_NS, still, undisturbed
from .window import Window

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .processes import Process, ProcessTable
    from .procfs import ProcessFiles


class _Track:
    """What is kept of one process from reading to reading, within a window. Sizes in KiB."""

    __slots__ = ("child_faults", "gap", "looks", "rss", "watermark")

    def __init__(self, opening: Stat | None) -> None:
        """`opening` is what was read when the window opened; None for a process that was found later."""
        self.child_faults = opening.child_faults if opening is not None else 0
        """Faults of its ended children, when the window opened."""
        self.looks: list[tuple[int, Stat]] = [(0, opening)] if opening is not None else []
        """What the last close looks saw, and when they ended (epoch ns): the race's witnesses at the next cut."""
        self.rss = opening.rss if opening is not None else 0
        """RSS as last read."""
        self.watermark = 0
        """Highest VmHWM that looks in this window have read, each resetting it."""
        self.gap = 0
        """Upper bound of what came and went between a look's reading and its reset."""

    @property
    def look(self) -> Stat | None:
        """The last of the looks: at the process's end the part of its faults whose effect is known."""
        return self.looks[-1][1] if self.looks else None


class Reading:
    """One process at a cut: the texts of its files, in the order in which they were read."""

    __slots__ = ("after", "at_ns", "before", "process", "status")

    def __init__(self, process: Process, before: bytes, status: bytes, after: bytes, at_ns: int) -> None:
        self.process = process
        self.before = before
        """`stat`, before the others."""
        self.status = status
        self.after = after
        """`stat`, after the reset."""
        self.at_ns = at_ns
        """Epoch ns just after `before`."""


class Cut:
    """What was read when all watermarks were reset."""

    __slots__ = ("done_ns", "ended", "readings")

    def __init__(self) -> None:
        self.readings: list[Reading] = []
        self.ended: list[Process] = []
        self.done_ns = 0
        """Epoch ns after the last reset."""

    def at_rest(self) -> bool:
        """Did the runtime sleep, and did nothing of the function touch its memory while this was read? False also
        where some process is gone."""
        try:
            looks = [(parse_stat(reading.before), parse_stat(reading.after)) for reading in self.readings]
        except Gone:
            return False
        if self.ended or not all(still(before, after) for before, after in looks):
            return False
        return bool(looks) and looks[0][0].state == looks[0][1].state == b"S"


class Recorder:
    """The window that is open, and what is needed to close it."""

    def __init__(self, table: ProcessTable, proc: Procfs, limit_kib: int = 0) -> None:
        """`limit_kib` is the environment's memory limit, 0 if unknown."""
        self._table = table
        self._limit_kib = limit_kib
        self._fault_kib = fault_kib()
        self._tracks: dict[int, _Track] = {}
        self._ended_faults = 0
        self.refused = probe(proc)
        """Why the watermark cannot be reset here, or "" while it can."""
        self.window = Window(baseline=0, before=0, resets=True)  # the init phase: since exec, as after a reset
        self.last_sample = 0
        self._sampled: list[tuple[int, tuple[int, int]]] = []
        """The window's highest and last sample, as they were when (epoch ns)."""
        self.holder: tuple[str, int, int] | None = None
        """Name, pid and RSS in KiB of the process that held most of the function's memory, as last seen."""
        self.lost = 0
        """Readings that failed although the process lives."""

    def cut(self) -> Cut:
        """Read and reset, now: between an event's arrival and the function's start. No parsing, no scan."""
        cut = Cut()
        for process in self._table.function():
            files = process.files
            try:
                before = files.read("stat")
                at = time.time_ns()
                status = files.read("status")
                self._reset(files)
                cut.readings.append(Reading(process, before, status, files.read("stat"), at))
            except Gone as gone:
                self.lost += gone.errno != 0
                cut.ended.append(process)
        cut.done_ns = time.time_ns()
        return cut

    def close(self, cut: Cut, arrived_ns: int | None, not_before_ns: int = 0, at_rest: bool = False) -> Window:
        """Close the open window with a cut, and open the next; the one that was closed.

        `arrived_ns` is when the event arrived that the cut answers to (epoch ns), None if unknown; then it came
        not before `not_before_ns`. `at_rest` says that there was no event: the function is known to do nothing.
        """
        closed = self.window
        for process in cut.ended:
            self._end(process)
        # What was still going on when the event arrived is no witness of what was before it.
        since_ns = UNKNOWN_NS if at_rest else not_before_ns if arrived_ns is None else arrived_ns
        closed.sampled, closed.last = known_before(self._sampled, since_ns) or (0, 0)
        raced = False
        lost = reaped = rss = watermark = 0
        tracks: dict[int, _Track] = {}
        largest = -1
        for reading in cut.readings:
            process = reading.process
            try:
                status, before, after = _parse(reading)
            except Gone:  # a zombie: its status has no memory
                self._end(process)
                continue
            track = self._track(process)
            overtaken = bool(track.looks) and track.looks[-1][0] >= since_ns
            whole = max(status.hwm, track.watermark)
            watermark += max(whole, track.gap) if overtaken else status.hwm
            closed.unseen += max(0, track.gap - whole)
            closed.closing.append(status.with_hwm(whole))
            rss += status.rss
            if status.rss > largest:
                largest, self.holder = status.rss, (after.name, process.pid, status.rss)
            reaped += before.child_faults - track.child_faults
            lost += (after.faults - before.faults) * self._fault_kib
            elapsed_ns = reading.at_ns - arrived_ns if arrived_ns is not None else UNKNOWN_NS
            raced |= not (at_rest or undisturbed(known_before(track.looks, since_ns), before, after, elapsed_ns))
            tracks[process.pid] = fresh = _Track(after)
            fresh.watermark = status.rss
        closed.several |= len(closed.closing) > 1 or reaped > 0
        closed.someone_ended |= reaped > 0
        closed.stopped_raced = raced
        closed.resets = not self.refused
        unread = max(0, reaped - self._ended_faults) * self._fault_kib
        closed.unseen += min(unread, self._limit_kib or unread)

        self.window = Window(rss, watermark, not self.refused)
        self.window.started_raced = raced
        self.window.lost = lost
        self.window.flight.see(cut.done_ns, rss)
        if arrived_ns is not None:
            self.window.reset_delay_us = max(0, cut.done_ns - arrived_ns) // 1000
        self._tracks, self._ended_faults = tracks, 0
        self._sampled = []
        self.last_sample = rss
        return closed

    def absorb(self, cut: Cut) -> None:
        """The window stays open: the cut was a close look, and no more."""
        for process in cut.ended:
            self._end(process)
        for reading in cut.readings:
            try:
                status, before, after = _parse(reading)
            except Gone:
                self._end(reading.process)
                continue
            self._keep(self._track(reading.process), status, before, after, reset=True)
        self._note()

    def settle(self, closed: Window) -> None:
        """After the function has been let go: look for processes that the cut could not know."""
        known = set(self._tracks)
        if self._table.changed():
            self.find()
        for process in self._table.function():
            if process.pid in known:
                continue
            try:
                status = process.files.status()
                self._reset(process.files)
            except Gone:  # it came and went unseen: most likely in the window that is closed
                closed.someone_ended = True
                self._table.forget(process)
                continue
            # Born before or after the cut, nobody knows: an upper bound for both windows.
            closed.unseen += status.hwm
            closed.several = True
            self.window.before += status.hwm
            self.window.started_raced = True
            self._track(process).watermark = status.rss

    def rejoin(self, closed: Window) -> None:
        """The cut was for nothing, no event came: the open window may have had its peak before it."""
        self.window.started_raced = True
        self.window.before = max(self.window.before, closed.before)
        self.window.baseline = closed.baseline
        self.window.sampled = closed.sampled
        self._note()

    def find(self) -> None:
        """Look for the function's processes now."""
        try:
            self._table.scan()
        except OSError:
            self.lost += 1

    def sample(self, late: bool, held: bool = False) -> int:
        """One tick: how much the function's level has moved since the last, in KiB.

        While memory grows only its level is read. Else, or `late` (much more time has passed than was
        asked for: a freeze, perhaps), it may well be the last look before the next event, or before the
        process is killed: then the watermark is read too, and reset, so that a lost race can hide no more
        than what comes after. Not while the invocation is `held`: the window will be closed at rest.
        """
        if self._table.changed():
            self.find()
        processes = self._table.function()
        several = len(processes) > 1
        self.window.several |= several
        levels: dict[int, int] = {}
        for process in processes:
            track = self._track(process)
            try:
                previous, track.rss = track.rss, process.files.rss()
                if abs(track.rss - levels.get(process.parent, 0)) < STILL_KIB:
                    continue  # a child of vfork() that has not called exec: its memory is its parent's
                levels[process.pid] = track.rss
                if several or (not held and (late or track.rss <= previous)):
                    self._look_closely(process, track, reset=not held)
            except Gone as gone:
                self.lost += gone.errno != 0
                self._end(process)
        if levels:
            pid = max(levels, key=levels.__getitem__)
            self.holder = self._name(pid), pid, levels[pid]
        total = sum(levels.values())
        moved = abs(total - self.last_sample)
        self.last_sample = total
        self.window.sampled = max(self.window.sampled, total)
        self.window.last = total or self.window.last  # a function that has ended leaves its last level
        ended_ns = self._note()
        if total:
            self.window.flight.see(ended_ns, total)
        return moved

    def _note(self) -> int:
        """Until now the window's samples are these; epoch ns."""
        now_ns = time.time_ns()
        keep(self._sampled, now_ns, (self.window.sampled, self.window.last))
        return now_ns

    def _look_closely(self, process: Process, track: _Track, reset: bool) -> None:
        """Watermark and faults: 20 µs more. Raises Gone."""
        files = process.files
        before = files.stat()
        status = files.status()
        if reset:
            self._reset(files)
        self._keep(track, status, before, files.stat(), reset)

    def _keep(self, track: _Track, status: Status, before: Stat, after: Stat, reset: bool) -> None:
        """A watermark that was read, and perhaps reset, while the window is open."""
        keep(track.looks, time.time_ns(), after)
        track.rss = after.rss
        track.watermark = max(track.watermark, status.hwm)
        if reset and after.faults > before.faults:
            track.gap = max(track.gap, status.rss + (after.faults - before.faults) * self._fault_kib)
        if self.window.resets:
            self.window.sampled = max(self.window.sampled, status.hwm)

    def _reset(self, files: ProcessFiles) -> None:
        """Reset the watermark, or note why it cannot be. Raises Gone."""
        if self.refused:
            return
        try:
            files.reset_watermark()
        except OSError as error:
            if error.errno == ESRCH:
                raise Gone("clear_refs: no such process") from None
            self.refused = f"clear_refs: {error.strerror}"

    def _track(self, process: Process) -> _Track:
        track = self._tracks.get(process.pid)
        if track is None:
            track = self._tracks[process.pid] = _Track(None)
        return track

    def _name(self, pid: int) -> str:
        track = self._tracks.get(pid)
        return track.look.name if track is not None and track.look is not None else ""

    def _end(self, process: Process) -> None:
        track = self._track(process)
        self.window.someone_ended = True
        self.window.ended += track.watermark
        self._ended_faults += track.look.faults if track.look is not None else 0
        self._tracks.pop(process.pid, None)
        self._table.forget(process)


def _parse(reading: Reading) -> tuple[Status, Stat, Stat]:
    """Raises Gone."""
    return parse_status(reading.status), parse_stat(reading.before), parse_stat(reading.after)
