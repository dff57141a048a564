"""Opens and closes windows on the function's processes: reads, resets, samples.

A cut closes one window and opens the next: for each process its status is read and its watermark reset. In exact mode
it is made while the runtime waits; else at INVOKE, when the runtime may have its event already (race).
"""

from __future__ import annotations

import time

from .kernel import fault_kib, probe
from .procfs import ESRCH, PAGE_KIB, Gone, Procfs, Stat, Status, has_fallen, parse_stat, parse_status
from .race import NEVER, Boundary, Look, keep
from .sampler import child_interval_ns
from .window import Window

STILL_KIB = 64
"""Two levels that differ by less are one."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .processes import Process, ProcessTable
    from .procfs import ProcessFiles


class _Track:
    """What is kept of one process from reading to reading, within a window. Sizes in KiB."""

    __slots__ = ("child_faults", "due_ns", "found_ns", "look", "looks", "rss")

    def __init__(self, opening: Stat | None, found_ns: int = 0) -> None:
        """`opening` is what was read when the window opened; None for a process that was found later, at `found_ns`."""
        self.found_ns = found_ns
        """Epoch ns; 0 where it was there when the window opened."""
        self.due_ns = found_ns
        """When to look at it next, if it is a child: epoch ns."""
        self.child_faults = opening.child_faults if opening is not None else 0
        """Faults of its ended children, when the window opened."""
        self.look = opening
        """What was read last: at the process's end the part of its faults whose effect is known."""
        self.looks: list[Look] = []
        """What the looks have seen, each resetting the watermark."""
        self.rss = opening.rss if opening is not None else 0
        """RSS as last read."""

    @property
    def watermark(self) -> int:
        """Highest VmHWM that looks have read."""
        return max((look.hwm for look in self.looks), default=0)

    @property
    def highest(self) -> int:
        """The same, and what they may have missed between a reading and its reset."""
        return max((look.highest for look in self.looks), default=0)


class Reading:
    """One process at a cut: the texts of its files, in the order in which they were read."""

    __slots__ = ("after", "before", "process", "reset", "status")

    def __init__(self, process: Process, before: bytes, status: bytes, after: bytes, reset: bool) -> None:
        self.process = process
        self.before = before
        """`stat`, before the others."""
        self.status = status
        self.after = after
        """`stat`, after the reset."""
        self.reset = reset
        """Was there one? It is not needed where the level is at its watermark, and would open a gap between the two."""


class Cut:
    """What was read when all watermarks were reset."""

    __slots__ = ("done_ns", "ended", "readings")

    def __init__(self) -> None:
        self.readings: list[Reading] = []
        self.ended: list[Process] = []
        self.done_ns = 0
        """Epoch ns after the last reset."""


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
        self._fault_kib = fault_kib()
        self._tracks: dict[int, _Track] = {}
        self._ended_faults = 0
        self._boundary = Boundary()
        """Where the open window will end: its looks so far."""
        self.refused = probe(proc)
        """Why the watermark cannot be reset here, or "" while it can."""
        self.window = Window(baseline=0, before=0, resets=True)  # the init phase: since exec, as after a reset
        self.last_sample = 0
        self.holder: tuple[str, int, int] | None = None
        """Name, pid and RSS in KiB of the process that held most of the function's memory, as last seen."""
        self.lost = 0
        """Readings that failed although the process lives."""

    def cut(self, at_rest: bool = False) -> Cut:
        """Read and reset, now: the runtime waits for this, or may run already. `at_rest`: it waits, so that there is
        nothing to compare with where nothing is reset."""
        cut = Cut()
        for process in self._table.function():
            files = process.files
            try:
                before = files.read("stat")
                status = files.read("status")
                reset = has_fallen(status)
                if reset:
                    self._reset(files)
                after = before if at_rest and not reset else files.read("stat")
                cut.readings.append(Reading(process, before, status, after, reset))
            except Gone as gone:
                self.lost += gone.errno != 0
                cut.ended.append(process)
        cut.done_ns = self._clock()
        return cut

    def close(self, cut: Cut, not_before_ns: int = 0, arrived_ns: int | None = None) -> Window:
        """Close the open window with a cut, and open the next; the one that was closed.

        The runtime's event did not come before `not_before_ns` (epoch ns): NEVER where it comes after the cut for
        certain, 0 where nothing is known. `arrived_ns` is when the sidecar's own event arrived, None without one.
        """
        closed = self.window
        for process in cut.ended:
            self._end(process)
        boundary, self._boundary = self._boundary, Boundary()
        boundary.prove(not_before_ns)
        boundary.fault_kib = self._fault_kib
        reaped = rss = watermark = gaps = missed = 0
        tracks: dict[int, _Track] = {}
        largest = -1
        for reading in cut.readings:
            process = reading.process
            try:
                status, before, after = _parse(reading)
            except Gone:  # a zombie: its status has no memory
                self._end(process, boundary)
                continue
            track = self._track(process)
            gap = self._see(track, cut.done_ns, status, before if reading.reset else after, after)
            missed += gap
            gaps += status.rss + gap
            closed.watermarks.append(track.highest)
            closed.closing.append(status.with_hwm(track.watermark))
            boundary.looks.append(track.looks)
            rss += status.rss
            watermark += status.hwm
            if status.rss > largest:
                largest, self.holder = status.rss, (after.name, process.pid, status.rss)
            reaped += before.child_faults - track.child_faults
            tracks[process.pid] = _Track(after)
        closed.several |= len(closed.closing) > 1 or reaped > 0
        closed.someone_ended |= reaped > 0
        closed.resets = not self.refused
        pages = max(0, reaped - self._ended_faults)
        if pages:
            unread = self._at_most_limit(pages * self._fault_kib)
            closed.unread += unread
            closed.unread_estimate += self._at_most_limit(pages * PAGE_KIB)
            boundary.unread.append((cut.done_ns, unread))
        boundary.gaps = gaps if missed else 0
        closed.end = boundary

        self.window = Window(rss, watermark, not self.refused, boundary)
        self.window.flight.see(cut.done_ns, rss)
        if arrived_ns is not None:
            self.window.reset_delay_us = max(0, cut.done_ns - arrived_ns) // 1000
        self._tracks, self._ended_faults = tracks, 0
        self.last_sample = rss
        return closed

    def _at_most_limit(self, kib: int) -> int:
        """What ended processes can have held unread is no more than the environment's limit."""
        return min(kib, self._limit_kib or kib)

    def absorb(self, cut: Cut) -> None:
        """The window stays open: the cut was a look at it, and no more."""
        for process in cut.ended:
            self._end(process)
        for reading in cut.readings:
            try:
                status, before, after = _parse(reading)
            except Gone:
                self._end(reading.process)
                continue
            self._keep(self._track(reading.process), status, before if reading.reset else after, after)
        self._note()

    def settle(self, closed: Window) -> None:
        """After the function has its event: look for processes that the cut could not know."""
        known = set(self._tracks)
        if self._table.changed():
            self.find()
        last_pid = self.window.first_pid = self._table.last_pid
        if last_pid >= closed.first_pid >= 0:
            closed.born = last_pid - closed.first_pid
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
            # Born before or after the cut: an upper bound for both windows.
            closed.unseen += status.hwm
            closed.several = True
            closed.end.strangers += status.hwm
            self._track(process).rss = status.rss

    def find(self) -> None:
        """Look for the function's processes now."""
        try:
            self._table.scan()
        except OSError:
            self.lost += 1

    def sample(self, late: bool, reset: bool = True) -> int:
        """One tick: how much the function's level has moved since the last, in KiB.

        While memory grows only its level is read. Else, or `late` (much more time has passed than was asked for: a
        freeze, perhaps), it may well be the last look before the next event, or before the process is killed: then the
        watermark is read too, and reset, so that what cannot be told apart later is only what comes after. Without
        `reset` where the window's end will be exact.
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
                if several or (reset and (late or track.rss <= previous)):
                    self._look_closely(process, track, reset)
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

    def watch(self, sparing: int = 1) -> int | None:
        """Look at the function's children alone, each when its look is due: ns until the next one; None without any.
        `sparing` times as seldom.

        A child takes its watermark with it when it ends, so that is read again and again, and never reset.
        """
        if self._table.changed():
            self.find()
        processes = self._table.function()
        if len(processes) < 2:
            return None
        self.window.several = True
        now_ns = self._clock()
        due_ns = NEVER
        for process in processes[1:]:
            track = self._track(process)
            if now_ns >= track.due_ns:
                try:
                    self._look_closely(process, track, reset=False)
                except Gone as gone:
                    self.lost += gone.errno != 0
                    self._end(process)
                    continue
                track.due_ns = now_ns + sparing * child_interval_ns(now_ns - track.found_ns)
            due_ns = min(due_ns, track.due_ns)
        return max(0, due_ns - self._clock()) if due_ns < NEVER else None

    def _note(self) -> int:
        """Until now the window has reached so much; epoch ns."""
        now_ns = self._clock()
        keep(self._boundary.levels, (now_ns, self.window.sampled), max)
        return now_ns

    def _look_closely(self, process: Process, track: _Track, reset: bool) -> None:
        """Watermark and faults: 20 µs more. Raises Gone."""
        files = process.files
        before = files.stat()
        text = files.read("status")
        status = parse_status(text)
        after = before
        if reset and has_fallen(text):
            self._reset(files)
            after = files.stat()
        self._keep(track, status, before, after, rising=not reset)

    def _keep(self, track: _Track, status: Status, before: Stat, after: Stat, rising: bool = False) -> None:
        """A watermark that was read, and perhaps reset, while the window is open."""
        track.look = after
        track.rss = after.rss
        self._see(track, self._clock(), status, before, after, rising)
        if self.window.resets:
            self.window.sampled = max(self.window.sampled, status.hwm)

    def _see(self, track: _Track, now_ns: int, status: Status, before: Stat, after: Stat, rising: bool = False) -> int:
        """One more look; what may have come and gone between its reading and its reset, KiB. `rising`: the watermark is
        never reset, so that the last look says all."""
        gap = max(0, after.faults - before.faults) * self._fault_kib
        look = Look(now_ns, status.hwm, max(status.hwm, gap and status.rss + gap), after.faults, after.rss)
        if rising and track.looks:
            track.looks[-1] = track.looks[-1].merged(look)
        else:
            keep(track.looks, look, Look.merged)
        return gap

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
            track = self._tracks[process.pid] = _Track(None, self._clock())
        return track

    def _name(self, pid: int) -> str:
        track = self._tracks.get(pid)
        return track.look.name if track is not None and track.look is not None else ""

    def _end(self, process: Process, boundary: Boundary | None = None) -> None:
        if not self._table.forget(process):
            return  # two cuts have seen it
        track = self._track(process)
        self.window.someone_ended = True
        self.window.ended += track.watermark
        (boundary or self._boundary).unread.append((self._clock(), track.highest))
        self._ended_faults += track.look.faults if track.look is not None else 0
        self._tracks.pop(process.pid, None)


def _parse(reading: Reading) -> tuple[Status, Stat, Stat]:
    """Raises Gone."""
    return parse_status(reading.status), parse_stat(reading.before), parse_stat(reading.after)
