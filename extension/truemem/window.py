"""One window's arithmetic: from what was read at its ends and in between, to a peak and how well it is known.

Pure: sizes in KiB in, a `Peak` out. The truth lies between the peak's two bounds, whatever was lost.
"""

from __future__ import annotations

from .flight import Flight
from .procfs import Status

KERNEL_SLACK_KIB = 256
"""Two readings of one level may differ by this much: the kernel keeps RSS in per-thread or per-CPU batches."""

VMHWM = "vmhwm"
VMHWM_SUM = "vmhwm-sum"
SAMPLED = "sampled"


class Window:
    """What is known of the time between two watermark resets. Sizes in KiB, summed over the function's processes."""

    __slots__ = (
        "baseline",
        "before",
        "closing",
        "ended",
        "flight",
        "last",
        "lost",
        "reset_delay_us",
        "resets",
        "sampled",
        "several",
        "someone_ended",
        "started_raced",
        "stopped_raced",
        "together",
        "unseen",
    )

    def __init__(self, baseline: int, before: int, resets: bool) -> None:
        self.baseline = baseline
        """RSS when the window opened."""
        self.before = before
        """VmHWM read just before the reset that opened the window, since the last look before that: what a lost race
        can have hidden is below it. Without resets, it is the watermark of the whole life so far."""
        self.resets = resets
        """Does the reset work here? Else VmHWM is the peak of a life, and samples are what is left."""
        self.started_raced = False
        """The function may have run between the event's arrival and the reset that opened the window."""
        self.stopped_raced = False
        """The same at the reset that closed it: its last reading may hold memory of the next invocation."""
        self.reset_delay_us: int | None = None
        """From the event's arrival to the reset that opened the window; None if there was none, or unknown."""
        self.lost = 0
        """What may have come and gone between a reading and its reset, at the opening."""
        self.sampled = 0
        """Highest level that the sampler saw: a simultaneous sum, or one process's watermark. 0 without a sample."""
        self.last = 0
        """The last of the samples, 0 without one."""
        self.together = 0
        """The environment's own level at the last sample, asked where the sum of RSS is at the limit and may count what
        several processes share in each of them; 0 where it was not."""
        self.several = False
        """More than one process lived in the window."""
        self.ended = 0
        """Watermarks of processes that ended in the window, as last read."""
        self.unseen = 0
        """Upper bound of what processes held that ended without being read, or after they were."""
        self.someone_ended = False
        """A process of the function ended in the window: by itself, or killed."""
        self.flight = Flight()
        self.closing: list[Status] = []
        """Each live process as read when the window closed, before the reset."""


class Peak:
    """A window's peak RSS in KiB, and how it is known."""

    __slots__ = ("estimate", "lower", "method", "raced", "upper")

    def __init__(self, estimate: int, lower: int, upper: int, method: str, raced: bool) -> None:
        self.estimate = estimate
        self.lower = lower
        self.upper = upper
        """At least `lower`; 0 stands for "not bounded" (nothing of the function was left to read)."""
        self.method = method
        self.raced = raced
        """The peak is an interval, not a figure: the function ran before a window could be opened, or allocated
        between a look's reading and its reset; and that may have made a difference."""


def current(window: Window) -> int:
    """What the function held when the window closed, KiB; 0 when it was never seen.

    Of a function that was gone by then, the last sample. After a race that was lost at the close it may hold
    memory of the next invocation, whose record then says `raced`.
    """
    return sum(status.rss for status in window.closing) if window.closing else window.last


def peak(window: Window) -> Peak | None:
    """The peak of a closed window; None when the function was never seen in it."""
    seen = max(window.sampled, window.baseline)
    if not window.closing:  # the function was gone before its watermark could be read once more
        if not window.several and window.resets:
            seen = max(seen, window.ended)
        return Peak(seen, seen, 0, SAMPLED, window.started_raced) if seen else None

    watermark = sum(status.hwm for status in window.closing)
    upper = watermark + window.ended + window.unseen
    lower = seen
    if not window.stopped_raced:
        lower = max(lower, sum(status.rss for status in window.closing))

    if not window.resets:
        if watermark > window.before and not window.several and not window.stopped_raced:
            lower = watermark  # the life's watermark rose: it was this window that raised it
        return Peak(lower, lower, max(lower, upper), SAMPLED, window.started_raced)

    if not window.stopped_raced:
        # Each process's own watermark was reached in this window, the others holding at least nothing.
        lower = max(lower, *(status.hwm for status in window.closing))
    if window.started_raced:
        upper = max(upper, window.before + window.lost)
    upper = max(upper, lower)
    estimate = min(max(watermark + window.ended, lower), upper)
    uncertain = upper - lower > KERNEL_SLACK_KIB
    raced = uncertain and (window.started_raced or window.stopped_raced or not window.several)
    return Peak(estimate, lower, upper, VMHWM_SUM if window.several else VMHWM, raced)


def extended(closed: Peak, rest: Peak | None) -> Peak:
    """The peak of an invocation whose window may have been closed too early: `rest` is that of the time after it,
    None if nobody knows. Some of it, or nothing, was the invocation's own."""
    upper = max(closed.upper, rest.upper) if rest is not None and closed.upper and rest.upper else 0
    raced = closed.raced or not upper or upper - closed.upper > KERNEL_SLACK_KIB
    return Peak(closed.estimate, closed.lower, upper, closed.method, raced)
