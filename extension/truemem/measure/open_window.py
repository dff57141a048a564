"""The window that is open: what is known of each process in it so far, and of those that have ended. Sizes in KiB.

The kernel raises the watermark when an unmap begins and when it is read, not at each page fault
(update_hiwater_rss, mm/mmap.c). So while one thread gives memory back, what others touch meanwhile may never be in it.
Where one thread alone has run nothing is missed. Else two things bound it: not more can be hidden than is given back,
and memory does not become resident without a page fault.

What was not read (before exec(), after the last reading, or all of a short life) page faults bound too: the kernel adds
a process's faults to those of the process that has waited for it (cmin_flt and cmaj_flt, proc_pid_stat(5)).
"""

from __future__ import annotations

import time

from ..linux.procfs import (
    HUGE_FAULT_KIB,
    PAGE_KIB,
    UNREADABLE,
    Gone,
    Stat,
    fault_sizes,
    parse_stat,
    parse_statm,
    watermark_slack_kib,
)
from ..support.named_tuple import NamedTuple
from .cpu_time import CpuTime
from .sampling import child_interval_ns
from .watermark import Look, Parsed
from .window import KERNEL_SLACK_KIB, NEVER, Boundary, MemoryCurve, Sample, WholePicture, Window, keep

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from typing import Any

    from ..linux.process_table import Process, ProcessTable
    from ..linux.procfs import FaultSizes, ProcessFiles, Procfs
    from .watermark import ProcessReader

UNKNOWN = 1 << 40
"""More KiB than any environment has, and more processes."""

FEW_FAULTS = 16
"""Page faults that cannot have hidden more than a figure's own error."""

FEW_OF_FORK = 64
"""Page faults of a child of fork() or vfork() that has hardly run: it may be about to call exec()."""

PARENTS = 64
"""Parents of children that are gone. Beyond that those that have ended themselves are forgotten: an invocation of half
an hour may start a hundred thousand processes."""


def _added(first: tuple[int, int, int], second: tuple[int, int, int]) -> tuple[int, int, int]:
    return first[0] + second[0], first[1] + second[1], first[2] + second[2]


def _highest(first: tuple[int, int, int], second: tuple[int, int, int]) -> tuple[int, int, int]:
    return max(first[0], second[0]), max(first[1], second[1]), max(first[2], second[2])


class Unread(NamedTuple):
    """What processes may have held in a window that was not read, KiB."""

    most: int = 0
    """At most, of processes that have ended."""
    estimate: int = 0
    """Most likely, of processes that have ended."""
    late: int = 0
    """More, at most, of processes that may have called exec() before they were read."""
    orphans: bool = False
    """See Window.orphans."""
    lost: bool = False
    """See Window.lost."""


class OwnPart(NamedTuple):
    """What a child of fork() or vfork() holds beside its parent, KiB. What it has from there counts once."""

    least: int
    likely: int
    most: int


class Lives:
    """Processes that have begun in one window, or ended in it: what those held that may have lived at once, KiB.

    A pid is given out later than another if it is higher: one that is higher than the last that had been given out when
    another process had ended is of a process that began after that.
    """

    def __init__(self) -> None:
        self._recent: list[tuple[int, int, int]] = []
        """Of each, the last pid that was given out when it had ended, and what `add` was told."""
        self.likely = 0
        self.most = 0

    def add(self, pid: int, last_pid: int, likely: int, most: int) -> None:
        """A process that held so much. `last_pid`: as read when it had ended; below 0 if that is unknown, or it
        lives."""
        beside = [each for each in self._recent if each[0] >= pid]
        self.likely = max(self.likely, likely + sum([each[1] for each in beside]))
        self.most = max(self.most, most + sum([each[2] for each in beside]))
        keep(self._recent, (last_pid if last_pid >= 0 else UNKNOWN, likely, most), _together)


def _together(one: tuple[int, int, int], other: tuple[int, int, int]) -> tuple[int, int, int]:
    return max(one[0], other[0]), one[1] + other[1], one[2] + other[2]


class ProcessFamily:
    """The function's processes that were born or have ended in one window."""

    def __init__(self) -> None:
        self.found = 0
        """Processes that were found, of those that were born."""
        self.threads = 0
        self._before_exec: list[tuple[int, int, int]] = []
        """How many may have called exec() before they were read: page faults until then, KiB that were read."""
        self.reaped = 0
        """Faults of children that the function's living processes have waited for."""
        self.credited = 0
        """The part of those that was read while they lived."""
        self.growth = 0
        """Faults, since they were read last, of processes that have ended and were not waited for yet."""
        self.is_left = False
        """One of those that have ended was not waited for when it was looked at."""
        self.orphaned = False
        """A process has ended whose parent is not the function's: another one has waited for it."""
        self.deaths = 0
        self.gone: dict[int, int] = {}
        """Of those that are gone: their faults as last read, by their parent."""

    def ended(self, faults: int, final: int | None, parent: int) -> None:
        """A process has ended, as last read after so many `faults`; `final` are all it had, if nothing has waited
        for it yet. A `parent` (pid) that is the function's will wait for it, or has."""
        self.deaths += 1
        if final is not None:
            self.growth += max(0, final - faults)
            self.is_left = True
        else:
            self.gone[parent] = self.gone.get(parent, 0) + faults

    def called_exec(self, faults: int, seen: int) -> None:
        """One may have, after so many faults and before it was read. It was read at `seen` KiB."""
        keep(self._before_exec, (1, faults, seen), _added)

    def leave_orphans(self, parents: Collection[int]) -> None:
        """Only a parent that lives has waited for its child for certain."""
        for parent in self.gone.keys() - parents:
            del self.gone[parent]
            self.orphaned = True

    def credit(self, parents: Collection[int]) -> None:
        """The window is closed."""
        self.leave_orphans(parents)
        self.credited += sum(self.gone.values())
        self.gone.clear()

    @property
    def waited(self) -> int:
        """See Window.deaths."""
        return -1 if self.is_left else self.deaths

    def unseen(self, born: int) -> int:
        """Processes, at most, of those `born` in the window (-1: not known) that were never seen."""
        return max(0, (born if born >= 0 else UNKNOWN) - self.found - self.threads)

    def bound(
        self, exited: bool, born: int, adopted: int | None, sizes: FaultSizes, huge: int, limit_kib: int
    ) -> Unread:
        """What was not read of the window that is closed. `exited`: a process has ended in it. `adopted` are the faults
        of orphans that processes above the function have waited for, None where that cannot be read. `huge` pages were
        made by all processes meanwhile. No process holds more than `limit_kib`; 0 if unknown.

        What fork() hands on to a child is its parent's, and counts there alone."""
        faults = max(0, self.reaped - self.credited) + self.growth
        unseen = self.unseen(born)
        orphans = False
        lost = self.reaped < self.credited  # a child that was seen has left no account: nothing has waited for it
        # Where children have ended, any other one that was not seen may have been a daemon.
        if self.orphaned or (exited and unseen):
            lost, orphans = lost or adopted is None, bool(adopted)
            faults += adopted or 0
        most_kib = limit_kib or UNKNOWN
        # Before exec() a child of fork() touches its parent's memory: a page a fault.
        own = [(min(count * most_kib, own * sizes.own), seen) for count, own, seen in self._before_exec]
        late = sum(max(0, bound - seen) for bound, seen in own)
        if not faults:
            return Unread(0, 0, late, orphans, lost)
        bound = min(faults * sizes.most + huge * HUGE_FAULT_KIB, most_kib)
        return Unread(bound, min(faults * PAGE_KIB, most_kib), late, orphans, lost or born < 0)


class Level(NamedTuple):
    """What a process holds, KiB."""

    own: int
    """Of no file (RssAnon),"""
    shared: int
    """and of files and shared memory."""
    faults: int
    """Page faults before it was read,"""
    huge: tuple[int, int]
    """and huge pages of all processes (Procfs.huge_pages), then or earlier."""


class ProcessTrack:
    def __init__(
        self,
        parent: int,
        opening: Stat | None,
        known: int = 0,
        found_ns: int = 0,
        others_ns: int | None = 0,
        level: Level | None = None,
    ) -> None:
        """`opening` and `level` are what was read when the window opened, `known` the watermark then; None for a
        process that was found later, at `found_ns`, as a child of `parent`. `others_ns`: see ProcessFiles.others_ns;
        it is 0 when a process begins."""
        self.parent = parent
        self.found_ns = found_ns
        """Epoch ns; 0 where it was there when the window opened."""
        self.due_ns = found_ns
        """When to look at it next, if it is a child: epoch ns."""
        self.child_faults = opening.child_faults if opening is not None else 0
        """Faults of its ended children, when the window opened."""
        self.last_stat = opening
        """What was read last: at the process's end the part of its faults whose effect is known."""
        self.samples: list[Sample] = []
        """Its readings in the window; after each the watermark may have been reset."""
        self.rss = opening.rss if opening is not None else 0
        self.known = known
        """The process has held so much since its watermark was reset last: the watermark cannot be below that."""
        self.lost = False
        """It is: the process has called exec(), or the watermark was reset by another one than us. The peak is lost."""
        self.fresh = bool(found_ns)
        """It was found within the window. Of a child of fork(), as long as that is so, its own part alone counts."""
        self.handed_on: int | None = None
        """KiB: of what it held when it was seen first fork() has handed on so much, at least; None of others."""
        self.own: OwnPart | None = None
        """See OwnPart; None once it has called exec(), and of one that was there when the window opened."""
        self.faults: int | None = None
        """Of a process that was found within the window and does not have its parent's address space: page faults until
        it was seen in its own. Before exec() it can have held what they made resident, and what it has inherited."""
        self.stale = False
        """It could not be read when the window opened: its watermark may be from before."""
        self.others_ns = others_ns
        """CPU time of its other threads when its status was read last."""
        self.level_ns = others_ns
        """CPU time of its other threads when its level was read last."""
        self.level = level
        self.status_huge = level.huge if level is not None else (0, 0)
        """Huge pages of all processes (Procfs.huge_pages), when its status was read last or earlier."""
        self.has_threads = False
        self.explained = 0
        """The most that it has held since its status was read last if each page fault has made one page resident."""
        self.uncertain: list[tuple[int, int, int]] = []
        """While other threads ran, since its status was read last, from look to look: the most that it can have held if
        each page fault made one page resident, or the pages of a file around it; and what it can have given back."""
        self.hidden = 0
        """As much of a level that was seen the watermark may lack."""
        self.unmaps_files = False
        """It has, in its life: a fault maps more of a file than a page, and may leave no trace of it."""
        self.threads = False
        """More than one of its threads have run in the window, as far as is known."""

    @property
    def watermark(self) -> int:
        """Highest VmHWM that samples have read."""
        return max((sample.hwm for sample in self.samples), default=0)

    @property
    def highest(self) -> int:
        """The same, and what they may have missed: between a reading and its reset, or while threads unmapped."""
        return max((sample.highest for sample in self.samples), default=0)

    def has_mm_of(self, parent: ProcessTrack | None, stat: Stat) -> bool:
        """Is it a child that has not called exec()? Then its watermark knows what it has inherited, too."""
        return parent is not None and parent.last_stat is not None and stat.mm == parent.last_stat.mm and bool(stat.mm)

    def move(
        self,
        level: Level,
        faults: int,
        others_ns: int | None,
        ran: bool,
        fault_sizes: FaultSizes,
        parent: ProcessTrack | None,
    ) -> None:
        """It holds this now, after so many `faults` at most. What they have added and is not there any more, it has
        given back. This counts where other threads than its first may have run meanwhile (`ran`). `parent`, before the
        first reading: what a child of fork() has, its parent had."""
        before = self.level
        self.level, self.level_ns = level, others_ns
        self.rss = level.own + level.shared
        if before is None:
            before = Level(max(parent.known, parent.highest) if parent is not None else 0, 0, 0, level.huge)
        faults = max(0, faults - before.faults)
        at_faults, joined = (new - old for new, old in zip(level.huge, before.huge, strict=True))
        own = before.own + faults * fault_sizes.own + (min(faults, at_faults) + joined) * HUGE_FAULT_KIB
        fallen = before.shared - level.shared
        most = own + max(before.shared, level.shared)
        self.explained = max(self.explained, most)
        self.unmaps_files |= fallen > KERNEL_SLACK_KIB
        if ran:
            mapped = most + faults * (fault_sizes.most - fault_sizes.own)
            keep(self.uncertain, (most, mapped, max(0, own - level.own) + max(0, fallen)), _highest)

    def see(self, sample: Sample, reading: Parsed, slack: int, rising: bool, parent: ProcessTrack | None) -> None:
        """One more sample. `rising`: the watermark is never reset, so that the last sample says all."""
        status, after = reading.status, reading.after
        before, self.last_stat = self.last_stat, after
        other_mm = before is not None and bool(before.mm and after.mm) and before.mm != after.mm
        fallen = status.hwm + slack + self.hidden < self.known
        if self.fresh and (other_mm or fallen or not (self.samples or self.has_mm_of(parent, after))):
            self.faults = after.faults
        elif other_mm or fallen:
            self.lost = True
        self.known = after.rss if reading.reset else status.hwm
        self.rss = after.rss
        if rising and self.samples:
            self.samples[-1] = self.samples[-1].merged(sample)
        else:
            keep(self.samples, sample, Sample.merged)


class Watch:
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
        """See Procfs.huge_pages: when a window opened, or earlier."""
        self.picture = WholePicture()
        self.cpu = CpuTime(proc)


class OpenWindow:
    """The window that is open: the only writer of what is known of it so far. Sizes in KiB.

    The first one is the init phase: a runtime is started by exec(), and its memory counts from there, as after a reset.
    """

    def __init__(
        self,
        watch: Watch,
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
        self.opening = opening or Boundary(NEVER)
        self.reset_delay_us = reset_delay_us
        self.is_first = tracks is None
        self.tracks: dict[int, ProcessTrack] = tracks or {}
        self.family = ProcessFamily()
        self.end = Boundary()
        """Where it will end: its samples so far."""
        self.curve = MemoryCurve()
        self.huge_pages = watch.huge_pages
        """See Procfs.huge_pages: when it opened, or earlier."""
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
        """Was it born within the open window?"""
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
        reading = Parsed._make((status, before.faults, gap, after, others_ns, has_reset))
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
        gap = max(0, reading.gap) * self._watch.fault_sizes.most
        highest = max(status.hwm, gap and status.rss + gap, self._bound_of_threads(track, files, reading))
        sample = Sample._make((now_ns, status.hwm, highest, after.faults, after.rss))
        track.see(sample, reading, self._watch.slack_kib, rising, self.tracks.get(track.parent))
        track.own = self.own_part(track, after, status.hwm) if track.fresh else None
        return gap

    def has_parents_mm(self, track: ProcessTrack, stat: Stat) -> bool:
        """Is it a child that has not called exec()?"""
        return track.has_mm_of(self.tracks.get(track.parent), stat)

    def own_part(self, track: ProcessTrack, stat: Stat, hwm: int) -> OwnPart | None:
        """What it holds beside its parent; None where it has memory of its own."""
        parent = self.tracks.get(track.parent)
        if parent is None or not track.has_mm_of(parent, stat):
            return None
        sizes = self._watch.fault_sizes
        least = max(0, stat.rss - max(parent.known, parent.highest, parent.rss))
        if abs(stat.rss - parent.rss) <= STILL_KIB:  # of vfork(): all of it is its parent's
            return OwnPart(least, *(min(hwm, max(least, stat.faults * size)) for size in (sizes.own, sizes.most)))
        if track.handed_on is None:
            has_huge = sizes.asked and self._watch.proc.huge_pages() != self.huge_pages
            track.handed_on = 0 if has_huge else max(0, stat.rss - stat.faults * sizes.most)
        most = max(least, hwm - track.handed_on)
        return OwnPart(least, min(most, max(least, stat.faults * sizes.own)), most)

    def look(self, process: Process, track: ProcessTrack) -> None:
        """Read its level and its page faults if it has threads, or has had. Raises Gone."""
        files = process.files
        others_ns = files.others_ns()
        if track.has_threads or others_ns is None or others_ns != track.level_ns:
            before = files.stat()
            rss, shared = files.rss_and_shared()
            after = files.stat()
            self._move(track, files, rss - shared, shared, before.faults, after, files.others_ns())

    def add_look(self, track: ProcessTrack, look: Look) -> None:
        """Add a level that was read some time ago. Raises Gone."""
        files = look.process.files
        rss, shared = parse_statm(look.statm)
        track.known = max(track.known, rss)
        faults = parse_stat(look.before).faults
        self._move(track, files, rss - shared, shared, faults, files.parsed_stat(look.after), look.others_ns)

    def _move(
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
        before = track.level
        ran = others_ns is None or others_ns != track.level_ns
        faults = stat.faults - before.faults if before is not None else stat.faults
        # What few faults can have hidden is less than asking costs.
        ran = ran or (stat.threads > 1 and (faults <= FEW_FAULTS or not files.others_rest(others_ns or 0)))
        huge = before.huge if before is not None else self._watch.huge_pages
        if self._watch.fault_sizes.asked and ran and faults > FEW_FAULTS:
            huge = self._watch.proc.huge_pages() or huge
        level = Level._make((own, shared, faults_before, huge))
        parent = self.tracks.get(track.parent)
        track.move(level, stat.faults, others_ns, ran, self._watch.fault_sizes, parent)
        return ran

    def _bound_of_threads(self, track: ProcessTrack, files: ProcessFiles, reading: Parsed) -> int:
        """KiB that the process can have held since its status was read last, at most; 0 where its watermark shows
        all."""
        status, after, others_ns = reading.status, reading.after, reading.others_ns
        ran = self._move(track, files, status.anon, status.file + status.shmem, reading.faults, after, others_ns)
        before, track.others_ns = track.others_ns, others_ns
        explained, uncertain, huge = track.explained, track.uncertain, track.status_huge
        track.explained = track.hidden = 0
        track.uncertain = []
        track.status_huge = track.level.huge if track.level is not None else huge
        if not ran and others_ns == before:
            return 0
        track.threads = True
        seen = max(status.hwm, track.known)
        unexplained = status.hwm - self._watch.slack_kib - max(track.watermark, explained)
        if unexplained > 0 and self._watch.fault_sizes.asked:
            now = self._watch.proc.huge_pages() or huge
            unexplained -= (sum(now) - sum(huge)) * HUGE_FAULT_KIB
        track.unmaps_files |= unexplained > 0  # more than a page a fault
        highest = 0
        for touched, mapped, given_back in uncertain:
            gone = given_back + (mapped - touched if unexplained > 0 else 0)
            track.hidden = max(track.hidden, gone)
            hidden = seen + gone
            most = min(mapped, max(touched, hidden)) if track.unmaps_files else min(touched, hidden)
            highest = max(highest, most)
        return min(highest, max((self._watch.limit_kib or NEVER), seen))

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
        """All of the function was seen, and held this."""
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

    def so_far(self, *closed: Any) -> Window:
        """What is known of it, as if it had closed without a reading; `closed`: what that has said, the next members of
        Window. By position: by name it takes 10 µs."""
        resets = not self._watch.reader.refused
        about_its_start = self.baseline, self.before, resets, self.opening, self.end, self.reset_delay_us
        levels = self.sampled, self.last, self.together, self.curve
        lived = self.lived.likely, self.unseen + self.lived.most - self.lived.likely
        return Window(*about_its_start, *levels, *lived, self.multi_process, self.process_exited, self.lost, *closed)

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


STILL_KIB = 64
"""Levels of one memory, read one after the other, may differ by this."""

TICK_NS = 1_000_000
"""One tick may take so long, and one process more: the runtime's bytes may wait for it."""


class LevelSampler:
    def __init__(self, watch: Watch, window: OpenWindow) -> None:
        self._watch = watch
        self._clock = watch.clock
        self._open = window
        self.last_sample = 0
        """KiB."""
        self.largest_process: tuple[str, int, int] | None = None
        """Name, pid and RSS in KiB of the process that held most of the function's memory, as last seen."""
        self.is_whole = False
        """Was the last sample a picture of all that the function held?"""
        self._turn = 0
        """Where there are too many processes for one tick, the next one goes on from here."""

    def begin(self, window: OpenWindow, rss: int, largest: tuple[str, int, int] | None) -> None:
        """A window has opened at this level in KiB. `largest`: who held most, if that was read."""
        self._open = window
        self.last_sample = rss
        self.largest_process = largest or self.largest_process

    def sample(self, late: bool, reset: bool = True) -> int:
        """One tick: how much the function's level has moved since the last, in KiB.

        While memory grows only its level is read. Else, or `late` (much more time has passed than was asked for: a
        freeze, perhaps), this may well be the last sample before the next event, or before the process is killed: then
        the watermark is read too, and reset, so that what cannot be told apart later is only what comes after. No
        `reset` where the window's end will be exact.
        """
        processes = self._processes()
        several = len(processes) > 1
        levels: dict[int, int] = {}
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
                track.rss = process.files.rss()
                reads_all = several or (reset and (late or track.rss <= previous))
                if several or track.has_threads or not reads_all:
                    self._open.look(process, track)
                own = self._open.own_part(track, process.files.stat(), track.rss) if at and track.fresh else None
                if own is None:
                    track.known = max(track.known, track.rss)
                levels[process.pid] = track.rss if own is None else own.least
                if reads_all:
                    self._open.read_watermark(process, track, reset)
            except Gone as gone:
                self._end(process, gone)
        total = sum(levels.values())
        together = self._together(processes, levels) if len(levels) > 1 else total
        if self._turn:  # the others have what they had
            total += sum(track.rss for pid, track in self._open.tracks.items() if pid not in levels)
        moved = abs(total - self.last_sample)
        self.last_sample = total
        now_ns = self._open.note(together)
        # A function that has ended leaves its last level, and one that is dying the one before that.
        self.is_whole = bool(levels) and self._watch.picture.take(now_ns)
        if self.is_whole:
            self._open.see_level(now_ns, total)
            pid = max(levels, key=levels.__getitem__)
            self.largest_process = self._name(pid), pid, levels[pid]
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
        due_ns = NEVER
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
        return max(0, due_ns - self._clock()) if due_ns < NEVER else None

    def _processes(self) -> list[Process]:
        if self._watch.table.changed():
            self._watch.table.scan(TICK_NS)
        processes = self._watch.table.function()
        self._open.found(several=len(processes) > 1)
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

    def _name(self, pid: int) -> str:
        track = self._open.tracks.get(pid)
        return track.last_stat.name if track is not None and track.last_stat is not None else ""
