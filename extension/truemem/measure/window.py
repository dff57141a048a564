"""One window's arithmetic: from what was read at its ends and in between, to a peak and how well it is known.

Pure: sizes in KiB in, a `Peak` out. The truth lies between the peak's two bounds, whatever was lost.
"""

from __future__ import annotations

from ..linux.proc_text import Status
from ..support.named_tuple import NamedTuple
from .memory_curve import MemoryCurve
from .race import KERNEL_SLACK_KIB, NEVER, Boundary

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..linux.hsperf_files import Shown

VMHWM = "vmhwm"
VMHWM_THREADS = "vmhwm-threads"
VMHWM_SUM = "vmhwm-sum"
SAMPLED = "sampled"


class Window:
    """What is known of the time between two watermark resets. Sizes in KiB, summed over the function's processes."""

    def __init__(  # noqa: PLR0915  # its members, and nothing else
        self, baseline: int, before: int, resets: bool, opening: Boundary | None = None
    ) -> None:
        self.opening = opening or Boundary(NEVER)
        """What is known of the time around the event that began it."""
        self.end: Boundary = Boundary(NEVER)
        """The same of the event that ended it. Set when it is closed."""
        self.baseline = baseline
        """RSS when the window opened."""
        self.before = before
        """Without resets: the watermark of the whole life up to the window's opening."""
        self.resets = resets
        """Does the reset work here? Else VmHWM is the peak of a life, and samples are what is left."""
        self.reset_delay_us: int | None = None
        """From the event's arrival at the sidecar to the reset that opened the window; None if there was none."""
        self.watermarks: list[int] = []
        """Each live process's highest level in the window, with what samples may have missed at their resets."""
        self.sampled = 0
        """Highest level that the sampler saw: a simultaneous sum, or one process's watermark. 0 without a sample."""
        self.last = 0
        """The last of the samples, 0 without one."""
        self.together = 0
        """The environment's own level at the last sample, asked where the sum of RSS is at the limit and may count what
        several processes share in each of them; 0 where it was not."""
        self.multi_process = False
        """More than one process lived in the window."""
        self.ended = 0
        """Watermarks of processes that ended in the window, as last read."""
        self.unseen = 0
        """Upper bound of what processes held that were found only when the window had closed."""
        self.unread = 0
        """Upper bound of what children held that ended without being read, or after they were, by their page faults."""
        self.unread_estimate = 0
        """The same as it most likely was: a page for each page fault."""
        self.first_pid = -1
        """The pid given out last when the window opened,"""
        self.born = -1
        """and how many were given out in it, to processes and threads; -1 where that is not known."""
        self.births = -1
        """How many of those may have been processes that were not seen; -1 where that is not known."""
        self.orphans = False
        """What was not read may have been a daemon, for which the function did not wait."""
        self.lost = False
        """There is no upper bound: a watermark was lost (exec(), or the function has reset its own), or not all
        processes could be read."""
        self.dying = False
        """One of the processes had ended just before the window did: `last` is from before that, and `closing` may be
        what was left."""
        self.dip = 0
        """The levels in `closing` were read one after the other: together they were lower by so much, at most."""
        self.child_most = 0
        """None of the children that the runtime has waited for was larger; 0 where the probe does not say."""
        self.child_peak = 0
        """One of them was as large as this; 0 where that is not known."""
        self.risen = 0
        """By so much Max Memory Used has risen in this invocation, KiB; 0 where that is not known."""
        self.threads = False
        """More than one thread of a process has run in it, as far as is known: its watermark may be too low."""
        self.process_exited = False
        """A process of the function ended in the window: by itself, or killed."""
        self.curve = MemoryCurve()
        self.closing: list[Status] = []
        """Each live process as read when the window closed, before the reset."""
        self.shown: Shown | None = None
        """What the runtime showed of its heap then, not parsed yet; None where it was not read."""


class Peak(NamedTuple):
    """A window's peak RSS in KiB, and how it is known."""

    estimate: int
    lower: int
    upper: int
    """At least `lower`; 0 stands for "not bounded" (nothing of the function was left to read)."""
    method: str
    raced: bool
    """The peak is an interval, not a figure: the function ran before a window could be opened, or allocated
    between a sample's reading and its reset; and that may have made a difference."""


def current(window: Window) -> int:
    """What the function held when the window closed, KiB; 0 when it was never seen.

    Of a function that was gone by then, the last sample. In default mode it may hold some memory of the next
    invocation, which may have begun.
    """
    return sum(status.rss for status in window.closing) if window.closing else window.last


def peak(window: Window) -> Peak | None:
    """The peak of a closed window, by what is known of its boundaries now; None when the function was never seen."""
    if not window.closing:  # the function was gone before its watermark could be read once more
        seen = max(window.sampled, window.baseline)
        if not window.multi_process and window.resets:
            seen = max(seen, window.ended)
        return Peak(seen, seen, 0, SAMPLED, not window.opening.settled()) if seen else None

    watermark = sum(status.hwm for status in window.closing)
    own = max(watermark, sum(window.watermarks)) + window.ended + window.unseen + _unread(window, window.unread)
    upper = max(own, window.opening.hidden())
    lost = window.lost or window.opening.lost
    seen = max(window.sampled, window.baseline)
    lower = seen if window.end.exact else max(window.end.reached(), window.baseline)

    if not window.resets:
        if watermark > window.before and not window.multi_process and window.end.exact:
            lower = watermark  # the life's watermark rose: it was this window that raised it
        return Peak(lower, lower, 0 if lost else max(lower, own), SAMPLED, not window.opening.settled())

    # Each process's own watermark was reached in this window, the others holding at least nothing.
    seen = max(seen, current(window) - window.dip, window.child_peak, *(status.hwm for status in window.closing))
    if window.end.exact:
        lower = seen
    upper = max(upper, lower)
    likely = watermark + window.ended + _unread(window, window.unread_estimate)
    if window.unread:  # what raised the mark, and was not read, was most likely a child
        likely = max(likely, window.baseline + window.risen)
    if lost:
        raced = not window.end.exact and seen - lower > KERNEL_SLACK_KIB
        return Peak(max(lower, current(window)), lower, 0, SAMPLED, raced)
    estimate = min(max(likely, lower), upper)
    uncertain = upper - lower > KERNEL_SLACK_KIB
    by_race = upper - own > KERNEL_SLACK_KIB or seen - lower > KERNEL_SLACK_KIB
    raced = uncertain and (by_race or not (window.multi_process or window.threads))
    method = VMHWM_SUM if window.multi_process else VMHWM_THREADS if window.threads and uncertain else VMHWM
    return Peak(estimate, lower, upper, method, raced)


def _unread(window: Window, kib: int) -> int:
    """What children held that were not read, at most `kib`: each no more than the largest ever waited for."""
    if not window.child_most or window.born < 0 or window.orphans:
        return kib
    return min(kib, max(1, window.births) * window.child_most)
