"""What else runs out beside memory: /tmp, descriptors, threads, processes; and whether it grows (TRUEMEM_RESOURCES).

The verdicts are those of memory, whose thresholds are KiB: a descriptor, thread or process stands for COUNTED_KIB. So a
rise of up to 21 is none: a pool of connections or threads that fills. From one in 24 invocations on, growth may be a
leak, however far the limit is: counts move less than memory.
"""

from __future__ import annotations

import posix

from ..config import ALWAYS, OFF
from ..drift import Drift
from ..linux.process_table import FUNCTION
from ..linux.procfs import DIGITS, Gone, Procfs, field
from ..support.files import tmp_of
from ..support.native import mypyc_attr
from ..support.numbers import mib, whole
from ..verdict import COUNTED_KIB, GROWING, LEAST_KIB, STABLE, VERDICT_EVERY, LeakVerdict
from ..wings import Wing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, Final

    from ..linux.process_table import Process, ProcessTable
    from ..linux.procfs import Status
    from ..measure.sampling import CpuBudget
    from ..measure.window import Window
    from ..records.pending_record import PendingRecord
    from ..support.clock import Clock
    from ..wings import Site

PROCESSES_COUNTED: Final = 24
"""Processes whose descriptors are counted, the runtime first: 1 µs each."""
ENTRY_NS: Final = 300
"""CPU time of listing one descriptor. One slot of its table is taken for one; what it has cost is paid afterwards."""
FOLDER_NS: Final = 20_000
"""CPU time of opening a folder, whatever is in it."""
PID_NS: Final = 1_000
"""CPU time of looking for one zombie."""
SHOWN_PART: Final = 10
"""The line shows what is in use by more than this part of its limit: a tenth."""
MOST_SLOTS: Final = 16_384
"""A larger table is not listed: 10,000 descriptors take 4 ms (docs/resources.md)."""
MOST_KNOWN: Final = 4 * PROCESSES_COUNTED
"""Processes whose limits are kept."""
TASKS: Final = 1024
"""Processes and threads together that Lambda allows in an environment (developer guide, "Lambda quotas"). Another
machine allows more: there, what is told of a function is still what Lambda will do."""
UNSURE_PART: Final = 0.9
"""Share of a limit from which on it is read again: a process may raise its own (Node.js and Java do, as they start)."""


def parse_slots(text: bytes) -> int:
    """FDSize of a `status`: slots of its table of descriptors, at least as many as it has open. 0 if not known."""
    try:
        return field(text, b"\nFDSize:")
    except Gone:
        return 0


def parse_limits(text: bytes) -> tuple[int | None, int | None]:
    """Soft limits (getrlimit(2)) of /proc/PID/limits, where each has a line; None: unlimited, or not known. Of
    descriptors that the process may have open (RLIMIT_NOFILE: in Lambda 1,024, on Managed Instances 4,096; developer
    guide, "Lambda quotas"); and of its user's processes and threads together (RLIMIT_NPROC), TASKS at most."""
    tasks = _soft_limit(text, b"\nMax processes ")
    return _soft_limit(text, b"\nMax open files "), TASKS if tasks is None else min(tasks, TASKS)


def _soft_limit(text: bytes, name: bytes) -> int | None:
    words = text.partition(name)[2].partition(b"\n")[0].split(None, 2)
    return whole(words[0], DIGITS) if len(words) > 1 else None  # without a second word the line may be cut off


class Descriptors:
    """How many descriptors a process has open, and how many it may have.

    Since Linux 6.2 the size of /proc/PID/fd is their number (proc_pid_fd(5)): one stat, 1 µs however many there are.
    Before that the folder has to be listed, which takes time for each. `FDSize` of /proc/PID/status, the slots of the
    process's table (proc_pid_status(5)), tells beforehand how many they are at most."""

    def __init__(self, proc: Procfs) -> None:
        self._proc = proc
        self.is_sized = False
        """Is the size of the folder /proc/PID/fd the number of descriptors? Found out with our own folder: some are
        open."""
        self._limits: dict[tuple[int, int], tuple[int | None, int | None]] = {}
        """Limits of each process, by pid and start time: read once, for that takes 15 µs."""
        try:
            # A captured tree is on a disk, where folders have sizes of their own.
            self.is_sized = proc.root == "/proc" and posix.stat("/proc/self/fd").st_size > 0
        except OSError:
            pass

    def count(self, process: Process) -> int:
        """The descriptors that the process has open. Raises OSError: it has ended, or may not be looked at."""
        folder = f"{self._proc.root}/{process.pid}/fd"
        return posix.stat(folder).st_size if self.is_sized else len(posix.listdir(folder))

    def slots(self, processes: Sequence[Process]) -> int | None:
        """Slots of the tables of all these processes: what listing them costs depends on it. None where one of them has
        too many, or does not tell."""
        total = 0
        for process in processes:
            try:
                slots = parse_slots(process.files.read("status"))
            except Gone:
                continue
            if not 0 < slots <= MOST_SLOTS:
                return None
            total += slots
        return total

    def limits(self, process: Process, opened: int = 0) -> tuple[int | None, int | None]:
        """What the process may have (parse_limits), `opened` descriptors of which it has by now."""
        key = process.identity
        limits = self._limits.get(key)
        known = limits[0] if limits is not None else None
        if limits is None or (known is not None and opened > UNSURE_PART * known):
            try:
                limits = parse_limits(self._proc.text(f"{process.pid}/limits", 4096))
            except Gone:
                limits = None, None
            if len(self._limits) >= MOST_KNOWN:  # most of them have ended
                self._limits.clear()
            self._limits[key] = limits
        return limits


class Usage:
    """What was in use when a window closed. None: not known, or not counted this time."""

    def __init__(
        self,
        tmp: tuple[int, int] | None = None,
        descriptors: int | None = None,
        descriptor_limit: int | None = None,
        holders: dict[str, int] | None = None,
        threads: int = 0,
        processes: int = 0,
        zombies: int = 0,
        task_limit: int | None = None,
    ) -> None:
        self.tmp = tmp
        """/tmp: KiB in use, and its size in KiB. None also where it is a part of another disk, which others fill
        too."""
        self.descriptors = descriptors
        """Descriptors that are open in the process of the function that is nearest to its limit."""
        self.descriptor_limit = descriptor_limit
        """Limit of descriptors of the process that is nearest to it."""
        self.holders = holders
        """Open in all processes of each holder: `function`, `truemem`, and extensions by name."""
        self.threads = threads
        """Threads of the function's processes; 0 where none was there."""
        self.processes = processes
        """Processes of the function, zombies included."""
        self.zombies = zombies
        """Processes of the function that have ended, and that nothing has waited for."""
        self.task_limit = task_limit
        """Processes and threads that the user may have."""


class TmpDisk:
    """The disk below /tmp."""

    def __init__(self, folder: str = "/tmp") -> None:
        self._folder = folder
        self._is_own: bool | None = None

    def read(self) -> tuple[int, int] | None:
        """Used, and all that there is to use, KiB. None where it is not known, or is the disk of "/": Lambda's /tmp
        is a disk of its own, of 512 to 10,240 MB (developer guide, "Lambda quotas"). 1 µs."""
        try:
            if self._is_own is None:
                self._is_own = posix.stat(self._folder).st_dev != posix.stat("/").st_dev
            disk = posix.statvfs(self._folder) if self._is_own else None
        except OSError:
            return None
        if disk is None or not disk.f_blocks:
            return None
        used = (disk.f_blocks - disk.f_bfree) * disk.f_frsize // 1024
        return used, used + disk.f_bavail * disk.f_frsize // 1024  # what is kept for root is of no use


class Resources:
    """Reads them, within the CPU budget."""

    def __init__(self, table: ProcessTable, proc: Procfs, clock: Clock, tmp: TmpDisk) -> None:
        self._table = table
        self._clock = clock
        self._descriptors = Descriptors(proc)
        self._tmp = tmp

    def read(self, closing: Sequence[Status], budget: CpuBudget) -> Usage:
        """Read all resources. `closing`: the function's processes as the window's end has found them. What takes more
        than some µs is done only when `budget` has saved enough for it."""
        usage = Usage(self._tmp.read())
        function = self._table.function()[:PROCESSES_COUNTED]
        if not closing or not function:  # it has ended
            return usage
        usage.zombies = self._zombies(budget)
        usage.processes = len(closing) + usage.zombies
        for status in closing:
            usage.threads += status.threads
        usage.task_limit = self._descriptors.limits(function[0])[1]
        total, nearest = 0, -1.0
        for process, opened in self._counted(function, budget):
            limit = self._descriptors.limits(process, opened)[0]
            total += opened
            part = opened / (limit or 1 << 30)
            if part > nearest:
                nearest, usage.descriptors, usage.descriptor_limit = part, opened, limit
        if usage.descriptors is not None:
            usage.holders = {FUNCTION: total}
            if matters(usage.descriptors, usage.descriptor_limit):
                self._add_others(usage.holders, budget)
        return usage

    def _zombies(self, budget: CpuBudget) -> int:
        known = self._table.zombies(again=False)
        if not known or not budget.affords(PID_NS * known, self._clock.monotonic_ns()):
            return known
        return self._table.zombies()

    def _counted(self, processes: Sequence[Process], budget: CpuBudget) -> list[tuple[Process, int]]:
        """The open descriptors of each that can be looked at. Empty where that costs too much now."""
        if self._descriptors.is_sized:
            return self._count(processes)
        slots = self._descriptors.slots(processes)
        if slots is None:
            return []
        cost_ns = FOLDER_NS * len(processes) + ENTRY_NS * slots
        if not budget.affords(cost_ns, self._clock.monotonic_ns()):
            return []
        began_ns = self._clock.cpu_ns()
        counted = self._count(processes)
        budget.spend_beside(self._clock.cpu_ns() - began_ns, self._clock.monotonic_ns())
        return counted

    def _count(self, processes: Sequence[Process]) -> list[tuple[Process, int]]:
        counted: list[tuple[Process, int]] = []
        for process in processes:
            try:
                opened = self._descriptors.count(process)
                if opened:  # one that ends has none
                    counted.append((process, opened))
            except OSError:
                continue
        return counted

    def _add_others(self, holders: dict[str, int], budget: CpuBudget) -> None:
        """Add those of sidecar and extensions."""
        for process, opened in self._counted(self._table.others()[:PROCESSES_COUNTED], budget):
            name = process.owner.partition(":")[2] or process.owner
            holders[name] = holders.get(name, 0) + opened


def matters(used: int, limit: int | None) -> bool:
    """Is so much in use that a line tells of it?"""
    return limit is not None and used * SHOWN_PART > limit > 0


@mypyc_attr(native_class=False)  # its base is not compiled
class _Verdict(LeakVerdict):
    """The verdict on one resource. While the use has never moved there is nothing to look at: most functions,
    always."""

    def look(self, levels: Sequence[float], *more: Any, **named: Any) -> None:
        if not self.since and max(levels) - min(levels) < LEAST_KIB:
            self.name, self.growth, self.ended = STABLE, (0.0, 0.0, 0.0), ""
        else:
            super().look(levels, *more, **named)


class _Series:
    """The use of one resource from invocation to invocation."""

    def __init__(self, name: str) -> None:
        is_tmp = name == "tmp"
        self._unit_kib = 1 if is_tmp else COUNTED_KIB
        self._rate_name = "perInvocationKiB" if is_tmp else "perInvocation"
        self._drift = Drift(_Verdict())
        self._used: int | None = None
        """What was in use as last known: it stands for an invocation at which it was not counted."""

    def add(self, used: int | None, time_ms: int) -> None:
        self._drift.see(0, 0)
        self._used = self._used if used is None else used
        if self._used is not None:
            self._drift.add(self._used * self._unit_kib, time_ms)

    @property
    def is_growing(self) -> bool:
        return self._drift.verdict.name == GROWING

    def verdict(self, room: int | None) -> dict[str, object]:
        """The verdict as the line has it; empty before there is one."""
        verdict = self._drift.verdict
        if not verdict.name:
            return {}
        rate = verdict.growth[0] / self._unit_kib
        members: dict[str, object] = {"verdict": verdict.name}
        if verdict.name != STABLE:
            members[self._rate_name] = round(rate, 3) + 0.0
        if self.is_growing and rate > 0 and room is not None:
            members["invocationsLeft"] = int(max(0, room) / rate)
        return members


class ResourceDrift:
    """The drift of what the processes that run now use. After a reset they are new, and so is this; /tmp is not
    cleared then, but what fills it begins anew."""

    def __init__(self) -> None:
        self._series = {name: _Series(name) for name in ("tmp", "descriptors", "threads", "processes")}
        self._count = 0

    def add(self, usage: Usage, time_ms: int) -> None:
        """Add an invocation that began at `time_ms`."""
        self._count += 1
        self._series["tmp"].add(usage.tmp[0] if usage.tmp else None, time_ms)
        self._series["descriptors"].add(usage.descriptors, time_ms)
        self._series["threads"].add(usage.threads or None, time_ms)
        self._series["processes"].add(usage.processes or None, time_ms)

    def members(self, usage: Usage, always: bool) -> dict[str, object]:
        """The member of the line of the invocation that was added last: what is above a tenth of its limit, or grows;
        with `always` all that is known. Every 16th has the verdicts."""
        found: dict[str, object] = {}
        if usage.tmp is not None:
            used, size = usage.tmp
            if always or self._counts("tmp", used, size):
                self._tell(found, "tmp", size - used, {"used": mib(used), "size": mib(size)})
        opened, limit = usage.descriptors, usage.descriptor_limit
        if opened is not None and (always or self._counts("descriptors", opened, limit)):
            holders = usage.holders if usage.holders != {FUNCTION: opened} else None
            room = None if limit is None else limit - opened
            self._tell(found, "descriptors", room, {"open": opened, "limit": limit, "holders": holders})
        if usage.threads:
            limit = usage.task_limit
            # Each thread has a place among all that the user may have, and each process that was not waited for.
            room = None if limit is None else limit - usage.threads - usage.zombies
            if always or self._counts("threads", usage.threads, limit):
                self._tell(found, "threads", room, {"count": usage.threads, "limit": limit})
            if always or self._counts("processes", usage.processes, limit):
                zombies = usage.zombies or None
                self._tell(found, "processes", room, {"count": usage.processes, "zombies": zombies, "limit": limit})
        return found

    def _counts(self, name: str, used: int, limit: int | None) -> bool:
        return matters(used, limit) or (self._is_due and self._series[name].is_growing)

    def _tell(self, found: dict[str, object], name: str, room: int | None, figures: dict[str, object]) -> None:
        """Add the member `name`; figures that are None are not known, as `room`, what is left until the limit."""
        told = {key: value for key, value in figures.items() if value is not None}
        if self._is_due:
            told.update(self._series[name].verdict(room))
        found[name] = told

    @property
    def _is_due(self) -> bool:
        """Is a verdict to be printed?"""
        return self._count % VERDICT_EVERY == 0


RESOURCES: Final = "resources"


class ResourceUse(Wing):
    """The resources of one environment."""

    def __init__(self, site: Site) -> None:
        self._resources = Resources(site.table, site.proc, site.clock, TmpDisk(tmp_of(site.environ)))
        self._drift = ResourceDrift()
        self._always = site.config.resources == ALWAYS

    def window_closed(self, records: Sequence[PendingRecord], window: Window, budget: CpuBudget, dying: bool) -> None:
        if dying:  # what a dying function has tells nothing
            return
        usage = self._resources.read(window.closing, budget)
        for record in records:
            record.note(RESOURCES, usage)

    def finishing(self, record: PendingRecord) -> None:
        usage = record.notes.get(RESOURCES)
        if isinstance(usage, Usage):
            self._drift.add(usage, record.time_ms)

    def members(self, record: PendingRecord) -> Mapping[str, object]:
        usage = record.notes.get(RESOURCES)
        members = self._drift.members(usage, self._always) if isinstance(usage, Usage) else {}
        return {RESOURCES: members} if members else {}


def door(site: Site) -> Wing | None:
    """The wing, unless it is switched off."""
    return ResourceUse(site) if site.config.resources != OFF else None
