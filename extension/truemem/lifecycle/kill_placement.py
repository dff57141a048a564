"""Whose processes has the kernel killed? Its count says how many, and not which."""

from __future__ import annotations

from ..measure.memory_curve import DYING_NS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..linux.oom_kills import OomKills
    from ..measure.window import Window
    from ..records.request_overlap import Requests


def may_be_of_function(window: Window) -> bool:
    """Has one of the function's processes ended in this window, or one come and gone unseen?"""
    return window.process_exited or window.births != 0


class KillPlacement:
    """OOM kills of one environment, until it is known whose processes they were."""

    def __init__(self, kills: OomKills) -> None:
        self._kills = kills
        self._open = 0
        """Counted, and put back."""
        self._counted_ns = 0
        """When the last of them was counted, as `take` was told."""

    @property
    def seen(self) -> int | None:
        """The kernel's count as last read; None where nothing counts."""
        return self._kills.seen

    def take(self, now_ns: int = 0) -> int | None:
        """OOM kills since the last time, and those that were put back; None where nothing counts now."""
        killed = self._kills.more()
        if killed is None:
            return None
        if killed:
            self._counted_ns = now_ns
        killed, self._open = killed + self._open, 0
        return killed

    def place(self, window: Window, requests: Requests, now_ns: int, is_last: bool = False) -> None:
        """On Managed Instances, at the end of a segment: tell the requests that run. A process is killed at once, and
        may be seen to have ended a segment later. `is_last`: no segment follows."""
        killed = self.take(now_ns)
        if not killed:
            return
        of_function = may_be_of_function(window)
        if of_function or is_last or now_ns - self._counted_ns > DYING_NS:
            requests.killed(killed, of_function)
        else:
            self.put_back(killed)

    def put_back(self, killed: int) -> None:
        """It is not known yet whose they were: the next `take` has them again."""
        self._open += killed
