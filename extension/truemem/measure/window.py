"""One window's arithmetic: from what was read at its ends and in between, to a peak and how well it is known.

Pure: sizes in KiB in, a `Peak` out. The truth lies between the peak's two bounds, whatever was lost.
"""

from __future__ import annotations

from ..support.numbers import mib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, Final, TypeVar

    from ..linux.procfs import Status

    Entry = TypeVar("Entry")

DYING_NS: Final = 500_000_000
"""Processes of an environment that dies end one after the other. After one has ended, the others are no picture of what
the function held, for so long."""

SAMPLES_KEPT: Final = 64
"""Samples kept as they are; as many older ones are thinned."""

MOST_TAIL_SAMPLES: Final = 32

LAST_SAMPLES: Final = 8
"""Samples at the end of a tail that are all there."""

RATE_NS: Final = (100_000_000, 1_000_000_000)
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
        told = [sample for sample in self.samples if sample[0] >= since_ns] or self.samples[-1:]
        if len(told) <= MOST_TAIL_SAMPLES:
            return told
        told.reverse()
        agos = [max(0, end_ns - at_ns) for at_ns, _ in told]
        # The last ones all, then ever fewer, back to the first
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
        before_ns, before = self.samples[-2]
        last_ns, last = self.samples[-1]
        # Divided first: compiled, an int by an int loses the last digit of a product above 2**53.
        return max(0, level_kib - last) / (last - before) * (last_ns - before_ns) if last > before else None

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


KERNEL_SLACK_KIB: Final = 256
"""Two readings of one level may differ by this much: the kernel keeps RSS in per-thread or per-CPU batches."""

MOST_KEPT_SAMPLES: Final = 16
"""Samples that are kept of one process in one window. Beyond that the older half is merged in pairs: coarser, never
wrong."""

NEVER_NS: Final = (1 << 62) - 1
"""Later than any time of a clock, in ns."""


def keep(history: list[Entry], entry: Entry, merge: Callable[[Entry, Entry], Entry]) -> None:
    """Append an entry to a history; if that has more than MOST_KEPT_SAMPLES, merge its older entries in pairs."""
    history.append(entry)
    if len(history) > MOST_KEPT_SAMPLES:
        half = MOST_KEPT_SAMPLES // 2
        history[:half] = [merge(history[at], history[at + 1]) for at in range(0, half, 2)]


class Sample:
    """One reading of one process's watermark and level, while a window is open or when it is closed. Sizes in KiB.
    Frozen."""

    def __init__(self, end_ns: int, hwm: int, highest: int, faults: int, rss: int) -> None:
        self.end_ns = end_ns
        """Epoch ns after the reading, and after the reset of the watermark if there was one."""
        self.hwm = hwm
        """Highest level since the sample before."""
        self.highest = highest
        """Highest level since the sample before, with what may have come and gone between the reading and the reset."""
        self.faults = faults
        self.rss = rss

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
        keep(self.unread, (by_ns, kib), _later_and_both)

    def prove(self, not_before_ns: int | None) -> None:
        """The platform says that the event did not come before this time (epoch ns)."""
        if not_before_ns is not None and not_before_ns > self.not_before_ns:
            self.not_before_ns = not_before_ns

    def reached(self) -> int:
        """KiB that the window before the event has reached for certain; 0 where no sample is proven to be of it."""
        reached = 0
        for end_ns, level in self.levels:
            if end_ns <= self.not_before_ns:
                reached = max(reached, level)
        return reached

    def hidden(self) -> int:
        """KiB that the function can have held, at most, after the event and before its watermark was reset: the next
        window's peak, perhaps, and not in its watermark. 0 where that is nothing."""
        unread = self._unread()
        held = 0
        is_late = False
        for samples in self.samples:
            late_kib = self._late(samples)
            is_late |= late_kib > 0
            held += late_kib or samples[-1].rss
        if not (self.unobserved_kib or self.found_late_kib or unread or is_late):
            return 0
        return max(held, self.unobserved_kib) + unread + self.found_late_kib

    def settled(self) -> bool:
        """Is the level at the event known, but for the kernel's slack? It is where no memory was touched between the
        last sample that is proven to be from before the event and the reading that closed the window."""
        if self.found_late_kib:
            return False
        for ended_ns, _ in self.unread:
            if ended_ns > self.not_before_ns:
                return False
        uncertain = 0
        for samples in self.samples:
            late_kib = self._late(samples)
            if late_kib:
                proven: Sample | None = None
                for sample in samples:
                    if sample.end_ns <= self.not_before_ns:
                        proven = sample
                if proven is None:
                    return False
                closing = samples[-1]
                uncertain += (closing.faults - proven.faults) * self.fault_kib + max(0, late_kib - closing.rss)
        return uncertain <= KERNEL_SLACK_KIB

    def _unread(self) -> int:
        """What processes may have held that have ended after the event, perhaps."""
        unread = 0
        for ended_ns, kib in self.unread:
            if ended_ns > self.not_before_ns:
                unread += kib
        return unread

    def _late(self, samples: list[Sample]) -> int:
        """The highest of the samples that are not proven to be from before the event; 0 if all are."""
        late = 0
        for sample in samples:
            if sample.end_ns > self.not_before_ns:
                late = max(late, sample.highest)
        return late


def _later_and_both(first: tuple[int, int], second: tuple[int, int]) -> tuple[int, int]:
    return second[0], first[1] + second[1]


VMHWM: Final = "vmhwm"
VMHWM_THREADS: Final = "vmhwm-threads"
VMHWM_SUM: Final = "vmhwm-sum"
SAMPLED: Final = "sampled"


_EXACT: Final = Boundary(NEVER_NS)


class Window:
    """A closed window: what is known of the time between two watermark resets. Frozen: OpenWindow collects it, Recorder
    closes it. Sizes in KiB, summed over the function's processes."""

    def __init__(self, baseline: int = 0, **known: Any) -> None:  # noqa: PLR0915 - half of them are docstrings
        self.baseline = baseline
        self.before = 0
        """If nothing can be reset: the watermark of the whole life up to the opening, KiB."""
        self.resets = True
        """True if watermarks can be reset here. Else VmHWM is the peak of a whole life, and only samples tell of the
        window."""
        self.opening = _EXACT
        """What is known of the time around the event that began the window."""
        self.end = _EXACT
        """What is known of the time around the event that ended the window. Telemetry may still prove more."""
        self.reset_delay_us: int | None = None
        """Time from the event's arrival at the sidecar to the reset that opened the window, µs; None if there was
        none."""
        self.sampled = 0
        """Highest level that the sampler saw: a simultaneous sum, or one process's watermark. 0 without a sample."""
        self.last = 0
        self.together = 0
        """The environment's own level at the last sample, asked where the sum of RSS is at the limit and may count what
        several processes share in each of them; 0 where it was not."""
        self.curve = MemoryCurve()
        self.lived = 0
        """Watermarks of processes that began or ended in it, as last read: of those that may have lived at once."""
        self.unseen = 0
        """Upper bound of what processes held that were found only when it had closed."""
        self.multi_process = False
        self.process_exited = False
        """A process of the function ended in it: by itself, or killed."""
        self.lost = False
        """True if there is no upper bound: a watermark was lost (exec(), or the function has reset its own), or not all
        processes could be read."""
        self.closing: list[Status] = []
        """Each live process as read when it closed, before the reset; the watermarks of those that began in it are in
        `lived`."""
        self.watermarks: list[int] = []
        """Each live process's highest level, with what samples may have missed at their resets; 0 of those in
        `lived`."""
        self.unread = 0
        """Upper bound of what children held that ended without being read, or after they were, by their page faults."""
        self.unread_estimate = 0
        """What such children held most likely: a page for each page fault."""
        self.born = -1
        """Pids given out in it, to processes and threads; -1 where that is not known."""
        self.births = -1
        """How many of those may have been processes that were not seen; -1 where that is not known."""
        self.deaths = 0
        """Processes that were seen, and have ended in it; -1 where one of them was not waited for."""
        self.orphans = False
        """What was not read may have been a daemon, for which the function did not wait."""
        self.dying = False
        """A process had ended just before it closed: `last` is from before that, and `closing` may be what was left."""
        self.dip = 0
        """The levels in `closing` were read one after the other: together they were lower by so much, at most."""
        self.threads = False
        """True if more than one thread of a process has run in the window, as far as is known: its watermark may be too
        low."""
        self.shown: object = None
        """What a wing has read at the same moment (Readings.shown)."""
        self.cpu_ns: int | None = None
        """CPU time of the function in ns (CpuTime); None where it is not known."""
        self.killed: int | None = None
        """OOM kills that the kernel has counted in it; None where they were not counted at its end."""
        self.limit = 0
        """The environment's memory limit; 0 if unknown."""
        self.child_most = 0
        """Upper bound of each child that was waited for in the window, KiB; 0 if not known."""
        self.risen = 0
        """KiB by which Max Memory Used has risen in this invocation; 0 if not known."""
        self._set(known)

    def _set(self, known: Mapping[str, Any]) -> None:
        for name, value in known.items():
            getattr(self, name)  # AttributeError, if it has no such member
            setattr(self, name, value)

    def _replace(self, **changed: Any) -> Window:
        """A copy with other values of these members."""
        made = Window(self.baseline)
        made.before, made.resets, made.reset_delay_us = self.before, self.resets, self.reset_delay_us
        made.opening, made.end, made.curve = self.opening, self.end, self.curve
        made.sampled, made.last, made.together = self.sampled, self.last, self.together
        made.lived, made.unseen, made.lost = self.lived, self.unseen, self.lost
        made.multi_process, made.process_exited = self.multi_process, self.process_exited
        made.closing, made.watermarks = self.closing, self.watermarks
        made.unread, made.unread_estimate, made.orphans = self.unread, self.unread_estimate, self.orphans
        made.born, made.births, made.deaths = self.born, self.births, self.deaths
        made.dying, made.dip, made.threads = self.dying, self.dip, self.threads
        made.shown, made.cpu_ns, made.killed, made.limit = self.shown, self.cpu_ns, self.killed, self.limit
        made.child_most, made.risen = self.child_most, self.risen
        made._set(changed)
        return made


class Peak:
    """A window's peak RSS in KiB, and how it is known. Frozen."""

    def __init__(self, estimate: int, lower: int, upper: int, method: str, raced: bool) -> None:
        self.estimate = estimate
        self.lower = lower
        self.upper = upper
        """The peak was not higher. At least `lower`; 0 stands for "not bounded" (nothing of the function was left to
        read)."""
        self.method = method
        self.raced = raced
        """The peak is an interval, not a figure: the function ran before a window could be opened, or allocated between
        a sample's reading and its reset; and that may have made a difference."""


def current(window: Window) -> int:
    """What the function held when the window closed, KiB; 0 when it was never seen.

    Of a function that was gone by then, the last sample. In default mode it may hold some memory of the next
    invocation, which may have begun.
    """
    if not window.closing:
        return window.last
    held = 0
    for status in window.closing:
        held += status.rss
    return held


def peak(window: Window) -> Peak | None:
    """The peak of a closed window, by what is known of its boundaries now; None when the function was never seen."""
    opening, end = window.opening, window.end
    may_race = not (opening.has_waited and end.has_waited)
    seen = max(window.sampled, window.baseline)
    if not window.closing:  # the function was gone before its watermark could be read once more
        if not window.multi_process and window.resets:
            seen = max(seen, window.lived)
        return Peak(seen, seen, 0, SAMPLED, may_race and not opening.settled()) if seen else None

    watermark = largest = highest = 0
    for status in window.closing:
        watermark += status.hwm
        largest = max(largest, status.hwm)
    for most in window.watermarks:
        highest += most
    own = max(watermark, highest) + window.lived + window.unseen + _unread(window, window.unread)
    lost = window.lost or opening.lost
    lower = seen if end.exact else max(end.reached(), window.baseline)

    if not window.resets:
        if watermark > window.before and not window.multi_process and end.exact:
            lower = watermark  # the life's watermark rose: it was this window that raised it
        raced = may_race and not opening.settled()
        return Peak(lower, lower, 0 if lost else max(lower, own), SAMPLED, raced)

    # Each process's own watermark was reached in this window, the others holding at least nothing.
    held = current(window)
    seen = max(seen, held - window.dip)
    seen = max(seen, largest)
    if end.exact:
        lower = seen
    if lost:
        raced = may_race and not end.exact and seen - lower > KERNEL_SLACK_KIB
        return Peak(max(lower, held), lower, 0, SAMPLED, raced)
    upper = max(own, opening.hidden())
    if window.multi_process:
        upper = min(upper, window.limit or NEVER_NS)
    upper = max(lower, upper)
    likely = watermark + window.lived + _unread(window, window.unread_estimate)
    if window.unread:  # what raised the mark, and was not read, was most likely a child
        likely = max(likely, window.baseline + window.risen)
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
    if not (kib and window.child_most) or window.births < 0 or window.deaths < 0 or window.orphans:
        return kib
    return min(kib, max(1, window.births + window.deaths) * (window.child_most + KERNEL_SLACK_KIB))
