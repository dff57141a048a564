"""One window's arithmetic: from what was read at its ends and in between, to a peak and how well it is known.

Pure: sizes in KiB in, a `Peak` out. The truth lies between the peak's two bounds, whatever was lost.
"""

from __future__ import annotations

from ..linux.procfs import Status
from ..support.named_tuple import NamedTuple
from ..support.numbers import mib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeVar

    Entry = TypeVar("Entry")

DYING_NS = 500_000_000
"""Processes of an environment that dies end one after the other. After one has ended, the others are no picture of what
the function held, for so long."""

SAMPLES_KEPT = 64
"""Samples kept as they are; as many older ones are thinned."""

MOST_TAIL_SAMPLES = 32

LAST_SAMPLES = 8
"""Samples at the end of a tail that are all there."""

RATE_NS = (100_000_000, 1_000_000_000)
"""The growth rate is the higher one of these times: of a burst, or of memory that is taken piece by piece."""


class WholePicture:
    """When was all of the function seen? Its processes end one after the other when it dies: what is seen then is only
    a part. Some functions end processes all the time: a picture may be that of a part if the last one is too old.
    Times are epoch ns, by a clock that may be set back."""

    def __init__(self) -> None:
        self._ended_ns = -DYING_NS
        self.seen_ns = 0

    def process_ended(self, now_ns: int) -> None:
        self._ended_ns = now_ns

    def is_dying(self, now_ns: int) -> bool:
        """Has a process of the function ended just now?"""
        return 0 <= now_ns - self._ended_ns < DYING_NS

    def take(self, now_ns: int) -> bool:
        """Processes of the function are seen now: is this the picture to keep?"""
        if self.is_dying(now_ns) and 0 <= now_ns - self.seen_ns < DYING_NS:
            return False
        self.seen_ns = now_ns
        return True


class MemoryCurve:
    """Samples of the function's level: (epoch ns, KiB), oldest first."""

    def __init__(self) -> None:
        self.samples: list[tuple[int, int]] = []

    def see(self, at_ns: int, level_kib: int) -> None:
        """Add a sample, unless its level is 0: that was not read."""
        if level_kib <= 0:
            return
        self.samples.append((at_ns, level_kib))
        if len(self.samples) > 2 * SAMPLES_KEPT:
            del self.samples[1:SAMPLES_KEPT:2]

    def last_ns(self) -> int:
        """Epoch ns of the last sample; 0 without one."""
        return self.samples[-1][0] if self.samples else 0

    def tail(self, since_ns: int, end_ns: int) -> list[list[float]]:
        """The samples of `thinned` as pairs of (ms before `end_ns`, MiB)."""
        return [[round(max(0, end_ns - at_ns) / 1e6, 1), mib(level)] for at_ns, level in self.thinned(since_ns, end_ns)]

    def thinned(self, since_ns: int, end_ns: int) -> list[tuple[int, int]]:
        """At most MOST_TAIL_SAMPLES of the samples, oldest first, and the more of them the closer to `end_ns`; none
        from before `since_ns` but for the last one, if there was none since."""
        told = [sample for sample in reversed(self.samples) if sample[0] >= since_ns] or self.samples[-1:]
        agos = [max(0, end_ns - at_ns) for at_ns, _ in told]
        step = 0.0
        if len(told) > MOST_TAIL_SAMPLES:  # the last ones all, then ever fewer, back to the first
            step = (agos[-1] / max(1, agos[LAST_SAMPLES - 1])) ** (1 / (MOST_TAIL_SAMPLES - LAST_SAMPLES))
        shown: list[tuple[int, int]] = []
        wanted_ns = 0.0
        for ago_ns, sample in zip(agos, told, strict=True):
            if ago_ns >= wanted_ns and len(shown) < MOST_TAIL_SAMPLES:
                shown.append(sample)
                if len(shown) >= LAST_SAMPLES:
                    wanted_ns = ago_ns * step
        return shown[::-1]

    def ns_until(self, level_kib: int) -> float | None:
        """Time from the last sample until this level, at the rate of the last two; None if it does not grow."""
        if len(self.samples) < 2:
            return None
        (before_ns, before), (last_ns, last) = self.samples[-2:]
        return max(0, level_kib - last) * (last_ns - before_ns) / (last - before) if last > before else None

    def growth_kib_per_s(self) -> float | None:
        """Over one of RATE_NS before the last sample, or since the one before it; None without two."""
        rates = [rate for rate in map(self._rate, RATE_NS) if rate is not None]
        return max(rates) if rates else None

    def _rate(self, span_ns: int) -> float | None:
        if len(self.samples) < 2:
            return None
        last_ns, last = self.samples[-1]
        first_ns, first = self.samples[-2]
        for at_ns, level in reversed(self.samples):
            if last_ns - at_ns > span_ns:
                break
            if at_ns < first_ns:
                first_ns, first = at_ns, level
        return (last - first) * 1e9 / (last_ns - first_ns) if last_ns > first_ns else None


KERNEL_SLACK_KIB = 256
"""Two readings of one level may differ by this much: the kernel keeps RSS in per-thread or per-CPU batches."""

MOST_KEPT_SAMPLES = 16
"""Samples that are kept of one process in one window. Beyond that the older half is merged in pairs: coarser, never
wrong."""

NEVER_NS = (1 << 62) - 1
"""Epoch ns: later than all samples."""


def keep(history: list[Entry], entry: Entry, merge: Callable[[Entry, Entry], Entry]) -> None:
    """Append an entry to a history; if that has more than MOST_KEPT_SAMPLES, merge its older entries in pairs."""
    history.append(entry)
    if len(history) > MOST_KEPT_SAMPLES:
        half = MOST_KEPT_SAMPLES // 2
        history[:half] = [merge(history[at], history[at + 1]) for at in range(0, half, 2)]


class Sample(NamedTuple):
    """One reading of one process's watermark and level, while a window is open or when it is closed. Sizes in KiB."""

    end_ns: int
    """Epoch ns after the reading, and after the reset of the watermark if there was one."""
    hwm: int
    """Highest level since the sample before."""
    highest: int
    """Highest level since the sample before, with what may have come and gone between the reading and the reset."""
    faults: int
    rss: int

    def merged(self, later: Sample) -> Sample:
        hwm, highest = max(self.hwm, later.hwm), max(self.highest, later.highest)
        return Sample(later.end_ns, hwm, highest, later.faults, later.rss)


class Boundary:
    """What is known of the time around the runtime's event, where one window ends and the next begins. The readings
    that close the window come before that event or after it. So this bounds what each of the two windows has held."""

    def __init__(self, not_before_ns: int = 0) -> None:
        """`not_before_ns`: NEVER_NS where the event came after the last sample for certain."""
        self.not_before_ns = not_before_ns
        """The runtime's event did not come before this time (epoch ns), as far as is known by now."""
        self.has_waited = not_before_ns == NEVER_NS
        """The runtime has waited for the readings: if other threads or processes of the function have run then, that is
        no race of two invocations."""
        self.levels: list[tuple[int, int]] = []
        """(epoch ns, KiB): by then the function had held so much in the window that ends. Both only rise."""
        self.samples: list[list[Sample]] = []
        """Samples of each process in the window that ends, oldest first. The last one is the reading that closed the
        window."""
        self.unobserved_kib = 0
        """What the processes can have held between their last readings and their resets, if they touched memory."""
        self.unread: list[tuple[int, int]] = []
        """(epoch ns, KiB): processes that had ended by then may have held so much."""
        self.found_late_kib = 0
        """KiB that processes held which were found after the window was closed: they may have been there before."""
        self.is_outlived = False
        """True if a process that was found after the window was closed had begun before that for certain."""
        self.fault_kib = 0
        """What one page fault can make resident."""
        self.lost_ns = 0
        """Epoch ns: a watermark may have been lost up to then; 0 if none was."""

    @property
    def exact(self) -> bool:
        """Did the event come after the last sample for certain? Then nothing is left open."""
        return self.not_before_ns == NEVER_NS

    @property
    def lost(self) -> bool:
        """May a watermark have been lost after the event?"""
        return self.lost_ns > self.not_before_ns

    def ended(self, by_ns: int, kib: int) -> None:
        """Processes have, by then, that may have held so much."""
        keep(self.unread, (by_ns, kib), lambda first, second: (second[0], first[1] + second[1]))

    def prove(self, not_before_ns: int | None) -> None:
        """The platform says that the event did not come before this time (epoch ns)."""
        if not_before_ns is not None and not_before_ns > self.not_before_ns:
            self.not_before_ns = not_before_ns

    def reached(self) -> int:
        """KiB that the window before the event has reached for certain; 0 where no sample is proven to be of it."""
        return max((level for end_ns, level in self.levels if end_ns <= self.not_before_ns), default=0)

    def hidden(self) -> int:
        """KiB that the function can have held, at most, after the event and before its watermark was reset: the next
        window's peak, perhaps, and not in its watermark. 0 where that is nothing."""
        unread = sum(kib for ns, kib in self.unread if ns > self.not_before_ns)
        late = [self._late(samples) for samples in self.samples]
        if not (self.unobserved_kib or self.found_late_kib or unread or any(late)):
            return 0
        held = sum(late_kib or samples[-1].rss for late_kib, samples in zip(late, self.samples, strict=True))
        return max(held, self.unobserved_kib) + unread + self.found_late_kib

    def settled(self) -> bool:
        """Is the level at the event known, but for the kernel's slack? It is where no memory was touched between the
        last sample that is proven to be from before the event and the reading that closed the window."""
        if self.found_late_kib or any(ns > self.not_before_ns for ns, _ in self.unread):
            return False
        uncertain = 0
        for samples in self.samples:
            late_kib = self._late(samples)
            if late_kib:
                proven = [sample for sample in samples if sample.end_ns <= self.not_before_ns]
                if not proven:
                    return False
                risen = (samples[-1].faults - proven[-1].faults) * self.fault_kib
                uncertain += risen + max(0, late_kib - samples[-1].rss)
        return uncertain <= KERNEL_SLACK_KIB

    def _late(self, samples: list[Sample]) -> int:
        """The highest of the samples that are not proven to be from before the event; 0 if all are."""
        return max((sample.highest for sample in samples if sample.end_ns > self.not_before_ns), default=0)


VMHWM = "vmhwm"
VMHWM_THREADS = "vmhwm-threads"
VMHWM_SUM = "vmhwm-sum"
SAMPLED = "sampled"


class Window(NamedTuple):
    """A closed window: what is known of the time between two watermark resets. Frozen: OpenWindow collects it, Recorder
    closes it. Sizes in KiB, summed over the function's processes."""

    baseline: int = 0
    before: int = 0
    """If nothing can be reset: the watermark of the whole life up to the opening, KiB."""
    resets: bool = True
    """True if watermarks can be reset here. Else VmHWM is the peak of a whole life, and only samples tell of the
    window."""
    opening: Boundary = Boundary(NEVER_NS)
    """What is known of the time around the event that began the window."""
    end: Boundary = Boundary(NEVER_NS)
    """What is known of the time around the event that ended the window. Telemetry may still prove more."""
    reset_delay_us: int | None = None
    """Time from the event's arrival at the sidecar to the reset that opened the window, µs; None if there was none."""
    sampled: int = 0
    """Highest level that the sampler saw: a simultaneous sum, or one process's watermark. 0 without a sample."""
    last: int = 0
    together: int = 0
    """The environment's own level at the last sample, asked where the sum of RSS is at the limit and may count what
    several processes share in each of them; 0 where it was not."""
    curve: MemoryCurve = MemoryCurve()
    lived: int = 0
    """Watermarks of processes that began or ended in it, as last read: of those that may have lived at once."""
    unseen: int = 0
    """Upper bound of what processes held that were found only when it had closed."""
    multi_process: bool = False
    process_exited: bool = False
    """A process of the function ended in it: by itself, or killed."""
    lost: bool = False
    """True if there is no upper bound: a watermark was lost (exec(), or the function has reset its own), or not all
    processes could be read."""
    closing: Sequence[Status] = ()
    """Each live process as read when it closed, before the reset; the watermarks of those that began in it are in
    `lived`."""
    watermarks: Sequence[int] = ()
    """Each live process's highest level, with what samples may have missed at their resets; 0 of those in `lived`."""
    unread: int = 0
    """Upper bound of what children held that ended without being read, or after they were, by their page faults."""
    unread_estimate: int = 0
    """What such children held most likely: a page for each page fault."""
    born: int = -1
    """Pids given out in it, to processes and threads; -1 where that is not known."""
    births: int = -1
    """How many of those may have been processes that were not seen; -1 where that is not known."""
    deaths: int = 0
    """Processes that were seen, and have ended in it; -1 where one of them was not waited for."""
    orphans: bool = False
    """What was not read may have been a daemon, for which the function did not wait."""
    dying: bool = False
    """A process had ended just before it closed: `last` is from before that, and `closing` may be what was left."""
    dip: int = 0
    """The levels in `closing` were read one after the other: together they were lower by so much, at most."""
    threads: bool = False
    """True if more than one thread of a process has run in the window, as far as is known: its watermark may be too
    low."""
    shown: object = None
    """What a wing has read at the same moment (Readings.shown)."""
    cpu_ns: int | None = None
    """CPU time of the function in ns (CpuTime); None where it is not known."""
    killed: int | None = None
    """OOM kills that the kernel has counted in it; None where they were not counted at its end."""
    limit: int = 0
    """The environment's memory limit; 0 if unknown."""
    child_most: int = 0
    """Upper bound of each child that was waited for in the window, KiB; 0 if not known."""
    risen: int = 0
    """KiB by which Max Memory Used has risen in this invocation; 0 if not known."""


class Peak(NamedTuple):
    """A window's peak RSS in KiB, and how it is known."""

    estimate: int
    lower: int
    upper: int
    """The peak was not higher. At least `lower`; 0 stands for "not bounded" (nothing of the function was left to
    read)."""
    method: str
    raced: bool
    """The peak is an interval, not a figure: the function ran before a window could be opened, or allocated
    between a sample's reading and its reset; and that may have made a difference."""


def current(window: Window) -> int:
    """What the function held when the window closed, KiB; 0 when it was never seen.

    Of a function that was gone by then, the last sample. In default mode it may hold some memory of the next
    invocation, which may have begun.
    """
    return sum([status.rss for status in window.closing]) if window.closing else window.last


def peak(window: Window) -> Peak | None:
    """The peak of a closed window, by what is known of its boundaries now; None when the function was never seen."""
    may_race = not (window.opening.has_waited and window.end.has_waited)
    if not window.closing:  # the function was gone before its watermark could be read once more
        seen = max(window.sampled, window.baseline)
        if not window.multi_process and window.resets:
            seen = max(seen, window.lived)
        return Peak(seen, seen, 0, SAMPLED, may_race and not window.opening.settled()) if seen else None

    watermark = sum([status.hwm for status in window.closing])
    own = max(watermark, sum(window.watermarks)) + window.lived + window.unseen + _unread(window, window.unread)
    upper = max(own, window.opening.hidden())
    lost = window.lost or window.opening.lost
    seen = max(window.sampled, window.baseline)
    lower = seen if window.end.exact else max(window.end.reached(), window.baseline)

    if not window.resets:
        if watermark > window.before and not window.multi_process and window.end.exact:
            lower = watermark  # the life's watermark rose: it was this window that raised it
        raced = may_race and not window.opening.settled()
        return Peak(lower, lower, 0 if lost else max(lower, own), SAMPLED, raced)

    # Each process's own watermark was reached in this window, the others holding at least nothing.
    seen = max(seen, current(window) - window.dip, *(status.hwm for status in window.closing))
    if window.end.exact:
        lower = seen
    upper = max(lower, min(upper, window.limit or NEVER_NS) if window.multi_process else upper)
    likely = watermark + window.lived + _unread(window, window.unread_estimate)
    if window.unread:  # what raised the mark, and was not read, was most likely a child
        likely = max(likely, window.baseline + window.risen)
    if lost:
        raced = may_race and not window.end.exact and seen - lower > KERNEL_SLACK_KIB
        return Peak(max(lower, current(window)), lower, 0, SAMPLED, raced)
    estimate = min(max(likely, lower), upper)
    uncertain = upper - lower > KERNEL_SLACK_KIB
    by_race = upper - own > KERNEL_SLACK_KIB or seen - lower > KERNEL_SLACK_KIB
    raced = may_race and uncertain and (by_race or not (window.multi_process or window.threads))
    by_threads = uncertain and (window.threads or not may_race)
    method = VMHWM_SUM if window.multi_process else VMHWM_THREADS if by_threads else VMHWM
    return Peak(estimate, lower, upper, method, raced)


def _unread(window: Window, kib: int) -> int:
    """What children held that were not read, at most `kib`: each no more than the largest ever waited for. (Threads of
    a child may hide some of its peak from the kernel: they count as births.)"""
    if not window.child_most or min(window.births, window.deaths) < 0 or window.orphans:
        return kib
    return min(kib, max(1, window.births + window.deaths) * (window.child_most + KERNEL_SLACK_KIB))
