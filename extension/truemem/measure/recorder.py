"""Opens and closes windows on the function's processes: reads, resets, samples.

A cut closes one window and opens the next: for each process its status is read and its watermark reset. In exact mode
it is made while the runtime waits; else at INVOKE, when the runtime may have its event already (race).
"""

from __future__ import annotations

import time

from ..linux.kernel import fault_kib, probe, watermark_slack_kib
from ..linux.process_table import NO_LIMIT_NS
from ..linux.procfs import ESRCH, ZOMBIE, Gone, Procfs, Stat, Status, has_fallen, parse_status
from .memory_curve import WholePicture
from .process_family import UNKNOWN, ProcessFamily
from .process_track import ProcessTrack
from .race import NEVER, Boundary, Look, keep
from .readings import Reading, Readings
from .sampling_schedule import child_interval_ns
from .window import Window

STILL_KIB = 64
"""Two levels that differ by less are one."""

AT_ONCE = 12
"""Processes that are read while the answer waits: 0.3 ms. The others are read later."""
SETTLE_NS = 20_000_000
"""CPU time of looking for new processes when a window is closed: what is not found leaves no upper bound."""
FEW = 8
"""Processes that are asked whether they ignore SIGCHLD: the runtime, and its first children."""
SIGCHLD = 17
"""On x86 and ARM (signal(7))."""
TICK_NS = 1_000_000
"""One tick may take so long, and one process more: the runtime's bytes may wait for it."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..linux.process_table import Process, ProcessTable
    from ..linux.procfs import ProcessFiles


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
        self._proc = proc
        self._limit_kib = limit_kib
        self._clock = clock
        self._fault_kib = fault_kib()
        self._slack_kib = watermark_slack_kib()
        self._tracks: dict[int, ProcessTrack] = {}
        self._family = ProcessFamily()
        self._closed_family = self._family
        """That of the window that was closed last, until it is settled."""
        self._threads = 0
        """Of the function's processes beside their main ones, when the window opened."""
        self._adopted = table.adopted_faults()
        """Faults of all orphans that processes above the function had waited for, as last read."""
        self._first = True
        """The init phase: a runtime is started by exec(), and its memory counts from there."""
        self._boundary = Boundary()
        """Where the open window will end: its looks so far."""
        self.refused = probe(proc)
        """Why the watermark cannot be reset here, or "" while it can."""
        self.window = Window(baseline=0, before=0, resets=True)  # the init phase: since exec, as after a reset
        self.window.first_pid = proc.last_pid()
        self.last_sample = 0
        self.holder: tuple[str, int, int] | None = None
        """Name, pid and RSS in KiB of the process that held most of the function's memory, as last seen."""
        self.lost = 0
        """Readings that failed although the process lives."""
        self.is_whole = False
        """Was the last sample a picture of all that the function held?"""
        self._picture = WholePicture()
        self._turn = 0
        """Where there are too many processes for one tick, the next one goes on from here."""

    def cut(self, at_rest: bool = False, most: int = AT_ONCE) -> Readings:
        """Read and reset, now: the runtime waits for this, or may run already. `at_rest`: it waits, so that there is
        nothing to compare with where nothing is reset. `most` processes, the others by `rest`."""
        cut = Readings(self._table.function(), self._proc.last_pid())
        self._read(cut, most, NO_LIMIT_NS, at_rest)
        if len(cut.readings) > 1:
            for reading in cut.readings:
                try:
                    reading.again = reading.process.files.rss()
                except Gone:
                    reading.again = 0
        cut.done_ns = self._clock()
        for reading in cut.readings:
            reading.end_ns = cut.done_ns
        cut.split = bool(cut.left)
        return cut

    def rest(self, cut: Readings, most_ns: int) -> None:
        """Read the other processes, for so long at most. Those that could not be read last time come first."""
        if cut.left:
            skipped = {pid for pid, track in self._tracks.items() if track.stale}
            cut.left.sort(key=lambda process: process.pid not in skipped)
            self._read(cut, len(cut.left), most_ns, at_rest=False)

    def _read(self, cut: Readings, most: int, most_ns: int, at_rest: bool) -> None:
        until_ns = self._clock() + most_ns
        waiting, cut.left = cut.left[:most], cut.left[most:]
        for at, process in enumerate(waiting, 1):
            files = process.files
            try:
                before = files.read("stat")
                status = files.read("status")
                reset = has_fallen(status)
                if reset:
                    self._reset(files)
                after = before if at_rest and not reset else files.read("stat")
                cut.readings.append(Reading(process, before, status, after, reset and not self.refused))
            except Gone as gone:
                self.lost += gone.errno != 0
                cut.ended.append(process)
            now_ns = self._clock()
            if cut.readings:
                cut.readings[-1].end_ns = cut.readings[-1].end_ns or now_ns
            if now_ns > until_ns:
                cut.left = waiting[at:] + cut.left
                return

    def close(self, cut: Readings, not_before_ns: int = 0, arrived_ns: int | None = None) -> Window:
        """Close the open window with a cut, and open the next; the one that was closed.

        The runtime's event did not come before `not_before_ns` (epoch ns): NEVER where it comes after the cut for
        certain, 0 where nothing is known. `arrived_ns` is when the sidecar's own event arrived, None without one.
        """
        closed, family = self.window, self._family
        for process in cut.ended:
            self._end(process)
        closed.dying = self._picture.is_dying(self._clock())
        boundary, self._boundary = self._boundary, Boundary()
        boundary.prove(min(not_before_ns, cut.done_ns) if cut.split else not_before_ns)
        boundary.fault_kib = self._fault_kib
        tracks: dict[int, ProcessTrack] = {}
        rss = together = watermark = gaps = missed = largest = threads = earlier = 0
        for reading in cut.readings:
            process = reading.process
            try:
                status, before, after = _parse(reading)
            except Gone:  # a zombie: its status has no memory
                self._end(process, boundary)
                continue
            track = self._track(process)
            gap = self._see(track, reading.end_ns, status, before if reading.reset else after, after, reading.reset)
            missed += gap
            gaps += status.rss + gap
            if track.lost:
                boundary.lost_ns = reading.end_ns
            closed.watermarks.append(track.highest)
            closed.closing.append(status.with_hwm(status.rss if track.stale else track.watermark))
            boundary.looks.append(track.looks)
            rss += status.rss
            together += min(status.rss, after.rss, status.rss if reading.again is None else reading.again)
            watermark += status.hwm
            threads += status.threads - 1
            earlier += status.threads - 1 if track.found_ns and not self._is_new(process) else 0
            if status.rss >= largest and not closed.dying:
                largest, self.holder = status.rss, (after.name, process.pid, status.rss)
            family.reaped += before.child_faults - track.child_faults
            tracks[process.pid] = ProcessTrack(process.parent, after, after.rss if reading.reset else status.hwm)
        rss += self._pass_over(cut, closed, boundary, tracks)
        for track in self._tracks.values():
            self._leave(track)
        family.threads, self._threads = max(0, threads - self._threads - earlier), UNKNOWN if cut.left else threads
        closed.several |= len(closed.closing) > 1 or family.reaped > 0
        closed.someone_ended |= family.reaped > 0
        closed.resets = not self.refused
        closed.lost |= boundary.lost_ns > 0
        closed.dip = rss - together if len(closed.closing) > 1 else 0
        boundary.gaps = gaps if missed else 0
        closed.end = boundary
        self._tracks, self._first = tracks, False
        self._closed_family, self._family = family, ProcessFamily()
        self._open(cut, arrived_ns, Window(rss - closed.dip, watermark, not self.refused, boundary), rss)
        return closed

    def _pass_over(self, cut: Readings, closed: Window, boundary: Boundary, tracks: dict[int, ProcessTrack]) -> int:
        """Processes that were not read: their watermarks go on, and say nothing of where one window ends. KiB, as read
        last."""
        rss = 0
        for process in cut.left:
            boundary.lost_ns = NEVER
            track = tracks[process.pid] = self._track(process)
            track.stale = True
            if track.look is not None:
                closed.closing.append(_level(track.rss))
                rss += track.rss
        return rss

    def _open(self, cut: Readings, arrived_ns: int | None, window: Window, rss: int) -> None:
        self.window = window
        window.first_pid = cut.last_pid
        window.flight.see(cut.done_ns, rss)
        if arrived_ns is not None:
            window.reset_delay_us = max(0, cut.done_ns - arrived_ns) // 1000
        self.last_sample = rss

    def _is_new(self, process: Process) -> bool:
        """Was it born within the open window?"""
        return process.pid > self.window.first_pid

    def absorb(self, cut: Readings) -> None:
        """The window stays open: the cut was a look at it, and no more."""
        for process in cut.ended:
            self._end(process)
        for reading in cut.readings:
            try:
                status, before, after = _parse(reading)
            except Gone:
                self._end(reading.process)
                continue
            track = self._track(reading.process)
            self._keep(track, status, before if reading.reset else after, after, reading.reset)
        self._note()

    def settle(self, closed: Window) -> None:
        """After the function has its event: look for processes that the cut could not know."""
        known = set(self._tracks)
        family = self._closed_family
        if self._table.changed():
            self.find(SETTLE_NS)
        if self._table.last_pid >= closed.first_pid >= 0:
            closed.born = self._table.last_pid - closed.first_pid
        for process in self._table.function():
            if process.pid in known:
                continue
            try:
                stat, status = process.files.stat(), process.files.status()
            except Gone:  # it came and went unseen: in the open window, and if it is older than that, perhaps before it
                final = _final_faults(process)
                windows = [(self.window, self._family), (closed, family)]
                for window, its in windows[:1] if self._is_new(process) else windows:
                    window.someone_ended = True
                    its.ended(0, final, has_parent=False)
                self._table.forget(process, zombie=final is not None)
                continue
            # Born before or after the cut: an upper bound for both windows.
            closed.unseen += status.hwm
            closed.several = True
            closed.end.strangers += status.hwm
            family.found += process.pid > closed.first_pid
            self._threads += status.threads - 1
            parent = self._tracks.get(process.parent)
            track = self._track(process)
            track.rss = status.rss
            track.stale = not self._is_new(process)
            if not track.has_mm_of(parent, stat):
                family.before_exec.append((stat.faults, status.hwm))
        closed.lost |= self._table.unfinished
        self._count_unread(closed, family)

    def _count_unread(self, closed: Window, family: ProcessFamily) -> None:
        unseen = family.unseen(closed)
        closed.births = unseen if closed.born >= 0 else -1
        if unseen and any(ignores_children(process) for process in self._table.function()[:FEW]):
            closed.someone_ended = closed.several = closed.lost = True  # what ends is waited for by no process
        if not closed.several and not closed.someone_ended:
            return
        before, now = self._adopted, self._table.adopted_faults()
        self._adopted = now
        adopted = None if before is None or now is None else max(0, now - before)
        unread = family.bound(closed, adopted, self._fault_kib, self._limit_kib)
        if unread:
            closed.end.unread.append((self._clock(), unread))

    def find(self, most_ns: int = NO_LIMIT_NS) -> None:
        """Look for the function's processes now, for so long at most."""
        try:
            self._table.scan(most_ns)
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
            self.find(TICK_NS)
        processes = self._table.function()
        several = len(processes) > 1
        self.window.several |= several
        levels: dict[int, int] = {}
        until_ns = self._clock() + TICK_NS
        turn = self._turn % len(processes) if several else 0
        self._turn = 0
        waiting = [*processes[:1], *processes[1 + turn :], *processes[1 : 1 + turn]]
        for at, process in enumerate(waiting):
            if at and self._clock() > until_ns:
                self._turn = turn + at - 1
                break
            track = self._track(process)
            try:
                previous, track.rss = track.rss, process.files.rss()
                track.known = max(track.known, track.rss)
                if abs(track.rss - levels.get(process.parent, 0)) < STILL_KIB:
                    continue  # a child of vfork() that has not called exec: its memory is its parent's
                levels[process.pid] = track.rss
                if several or (reset and (late or track.rss <= previous)):
                    self._look_closely(process, track, reset)
            except Gone as gone:
                self.lost += gone.errno != 0
                self._end(process)
        total = sum(levels.values())
        together = self._together(processes, levels) if len(levels) > 1 else total
        if self._turn:  # the others have what they had
            total += sum(track.rss for pid, track in self._tracks.items() if pid not in levels)
        moved = abs(total - self.last_sample)
        self.last_sample = total
        self.window.sampled = max(self.window.sampled, together)
        now_ns = self._note()
        # A function that has ended leaves its last level, and one that is dying the one before that.
        self.is_whole = bool(levels) and self._picture.take(now_ns)
        if self.is_whole:
            self.window.last = total
            self.window.flight.see(now_ns, total)
            pid = max(levels, key=levels.__getitem__)
            self.holder = self._name(pid), pid, levels[pid]
        return moved

    def _together(self, processes: list[Process], levels: dict[int, int]) -> int:
        """What processes held at one moment: the levels were read one after the other, so each is read once more. The
        lower one of the two was there between the last first reading and the first second one."""
        held = 0
        for process in processes:
            level = levels.get(process.pid, 0)
            if level:
                try:
                    held += min(level, process.files.rss())
                except Gone:  # the next look will see it, too
                    continue
        return held

    def watch(self, sparing: int = 1) -> int | None:
        """Look at the function's children alone, each when its look is due: ns until the next one; None without any.
        `sparing` times as seldom.

        A child takes its watermark with it when it ends, so that is read again and again, and never reset.
        """
        if self._table.changed():
            self.find(TICK_NS)
        processes = self._table.function()
        if len(processes) < 2:
            return None
        self.window.several = True
        now_ns = self._clock()
        due_ns = NEVER
        for process in processes[1:]:
            if self._clock() > now_ns + TICK_NS:
                return 0
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

    def _look_closely(self, process: Process, track: ProcessTrack, reset: bool) -> None:
        """Watermark and faults: 20 µs more. Raises Gone."""
        files = process.files
        before = files.stat()
        text = files.read("status")
        status = parse_status(text)
        after = before
        has_reset = reset and has_fallen(text)
        if has_reset:
            self._reset(files)
            after = files.stat()
        self._keep(track, status, before, after, has_reset and not self.refused, rising=not reset)

    def _keep(
        self, track: ProcessTrack, status: Status, before: Stat, after: Stat, reset: bool, rising: bool = False
    ) -> None:
        """A watermark that was read, and perhaps reset, while the window is open."""
        now_ns = self._clock()
        self._see(track, now_ns, status, before, after, reset, rising)
        if track.lost:
            self._boundary.lost_ns = now_ns
        if self.window.resets and not track.stale:
            self.window.sampled = max(self.window.sampled, status.hwm)

    def _see(
        self,
        track: ProcessTrack,
        now_ns: int,
        status: Status,
        before: Stat,
        after: Stat,
        reset: bool,
        rising: bool = False,
    ) -> int:
        """One more look; what may have come and gone between its reading and its reset, KiB."""
        gap = max(0, after.faults - before.faults) * self._fault_kib
        look = Look(now_ns, status.hwm, max(status.hwm, gap and status.rss + gap), after.faults, after.rss)
        track.see(look, status, after, self._slack_kib, reset, rising, self._tracks.get(track.parent))
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

    def _track(self, process: Process) -> ProcessTrack:
        track = self._tracks.get(process.pid)
        if track is None:
            track = self._tracks[process.pid] = ProcessTrack(process.parent, None, found_ns=self._clock())
            self._family.found += self._is_new(process)
        return track

    def _name(self, pid: int) -> str:
        track = self._tracks.get(pid)
        return track.look.name if track is not None and track.look is not None else ""

    def _end(self, process: Process, boundary: Boundary | None = None) -> None:
        final = _final_faults(process)
        if not self._table.forget(process, zombie=final is not None):
            return  # two cuts have seen it
        track = self._track(process)
        self._picture.process_ended(self._clock())
        self.window.someone_ended = True
        self.window.ended += max(track.watermark, track.known)
        (boundary or self._boundary).unread.append((self._clock(), max(track.highest, track.known)))
        del self._tracks[process.pid]
        self._leave(track)
        if track.found_ns and not track.looks:
            self._family.found -= self._is_new(process)
        faults = track.look.faults if track.look is not None else 0
        self._family.ended(faults, final, track.parent in self._tracks)

    def _leave(self, track: ProcessTrack) -> None:
        """The window ends for a process. What a runtime held before its own exec() is not the function's."""
        if track.faults is not None and not (self._first and track.parent not in self._tracks):
            self._family.before_exec.append((track.faults, track.highest))


def ignores_children(process: Process) -> bool:
    """Does the process ignore SIGCHLD? Then the kernel adds the faults of its children to nothing (wait(2), NOTES)."""
    try:
        mask = process.files.read("status").partition(b"\nSigIgn:")[2].split(None, 1)[0]
        return bool(int(mask, 16) >> (SIGCHLD - 1) & 1)
    except (Gone, ValueError, IndexError):
        return False


def _final_faults(process: Process) -> int | None:
    """Page faults of a process that has ended, and for which nothing has waited yet; else None."""
    try:
        stat = process.files.stat()
    except Gone:
        return None
    return stat.faults if stat.state == ZOMBIE and stat.threads <= 1 else None


def _level(kib: int) -> Status:
    """All that is known of a process that was not read: its level, as last seen."""
    return Status(0, kib, 0, 0, 0, 1)


def _parse(reading: Reading) -> tuple[Status, Stat, Stat]:
    """Raises Gone."""
    parsed = reading.process.files.parsed_stat
    return parse_status(reading.status), parsed(reading.before), parsed(reading.after)
