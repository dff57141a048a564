"""Did the invocation run out of memory? One verdict from all signals there are. Pure.

No single one is enough. The platform names it, or takes it for any other exit, or for a timeout; the kernel may have
killed a child, which the platform does not hear of; and a mark that has reached the size stays there for good, and may
have reached it by page cache alone.
"""

from __future__ import annotations

from ..measure.environment_memory import AT_LIMIT
from ..measure.window import current

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..measure.window import Window
    from .record import InvocationRecord

TIMED_OUT = "timeout"
"""Status of an invocation, and reason of a SHUTDOWN."""

PLATFORM = "Runtime.OutOfMemory"
EXTENSION_CRASH = "Extension.Crash"
DEATHS = (PLATFORM, "Runtime.ExitError", EXTENSION_CRASH)
"""The platform's words for an invocation that ended with its processes."""
KERNEL = "kernel"
EXIT = "exit-at-limit"
TIMEOUT = "timeout-at-limit"
MARK = "mark-at-limit"


def signals(record: InvocationRecord, limit_mib: int, mark_before_mib: float) -> list[str]:
    """The signals that fired, none where it did not run out of memory.

    `mark_before_mib` is Max Memory Used of the invocation before: a mark that was at the limit already says nothing.
    """
    fired = []
    if record.error_type == PLATFORM:
        fired.append(PLATFORM)
    of_function, of_others = kills(record)
    if of_function:
        fired.append(KERNEL)
    if not _died(record) or not limit_mib:
        return fired
    if of_others and record.ending is not None and "extension" in record.ending.holder:
        return fired  # it was the extension that ran out of memory
    mark_mib = record.max_memory_used_mib
    at_limit = _level_kib(record) >= AT_LIMIT * limit_mib * 1024
    if mark_mib is not None and mark_mib < AT_LIMIT * limit_mib:
        at_limit = False  # the environment has never been there: RSS counts twice what two processes share
    reached = (mark_mib or 0) >= limit_mib > mark_before_mib
    timeout = _timed_out(record)
    if at_limit:
        fired.append(TIMEOUT if timeout else EXIT)
    # Page cache fills a mark as well: memory that cannot be reclaimed must have been able to.
    if reached and (fired or _can_have_reached(record, AT_LIMIT * limit_mib * 1024)):
        fired.append(MARK)
    return fired


def kills(record: InvocationRecord) -> tuple[int, int]:
    """OOM kills by the kernel in the invocation: of the function's processes, and of others of the environment. Where
    the platform says that an extension ended first, it was one of those that were killed; where it says nothing, if the
    largest process was an extension's, and has ended."""
    known = record.kernel_kills or 0
    extension_ended = record.error_type == EXTENSION_CRASH or (
        record.error_type is None and record.ending is not None and record.ending.extension_ended
    )
    of_extension = 1 if known and extension_ended else 0
    return known - of_extension, record.environment_kills + of_extension


def _level_kib(record: InvocationRecord) -> int:
    return record.ending.level_kib or 0 if record.ending is not None else 0


def _can_have_reached(record: InvocationRecord, limit_kib: float) -> bool:
    """Growing on as it did, since its last sample? Without a kill by the kernel, where kills are counted, an exit came
    before that."""
    if record.kernel_kills == 0 and not _timed_out(record):
        return False
    growth = record.ending.growth_kib_per_s if record.ending is not None else None
    if growth is None or growth <= 0 or record.window is None or record.done_ns is None:
        return False
    unseen_ns = max(0, record.done_ns - record.window.flight.last_ns())
    return _level_kib(record) + growth * unseen_ns / 1e9 >= limit_kib


def ending_of(
    reason: str,
    window: Window,
    others_kib: int,
    holder: tuple[str, int, int] | None,
    extensions: Mapping[str, int],
) -> DeathReport:
    """`reason` as SHUTDOWN has it, or "".

    `holder` is the function's largest process, (name, pid, KiB); `others_kib` what sidecar and `extensions` held. Where
    nothing of the function was read, there is no level; who held more than everybody does by now is not named."""
    largest = max(extensions.items(), key=lambda item: item[1], default=None)
    largest_kib = 0
    who: dict[str, object] = {}
    if largest is not None and largest[1] > (holder[2] if holder is not None else 0):
        largest_kib = largest[1]
        who = {"extension": largest[0], "rss": round(largest_kib / 1024, 2)}
    elif holder is not None and holder[2]:
        name, pid, largest_kib = holder
        who = {**({"process": name} if name else {}), "pid": pid, "rss": round(largest_kib / 1024, 2)}
    function_kib = (window.last if window.dying else 0) or current(window) or window.baseline
    level_kib = function_kib + others_kib if function_kib else None
    if level_kib is not None and window.together:
        level_kib = min(level_kib, window.together)
    if level_kib is not None and largest_kib > level_kib:
        who = {}
    return DeathReport(reason, level_kib, window.flight.growth_kib_per_s(), who)


def _died(record: InvocationRecord) -> bool:
    """Did its processes end with it? The platform's word for an exit is Runtime.ExitError. (What a runtime reports
    of itself and lives on is no death.)"""
    if _timed_out(record):
        return True
    return record.ending is not None and record.error_type in (None, *DEATHS)


def _timed_out(record: InvocationRecord) -> bool:
    return record.status == TIMED_OUT or (record.ending is not None and record.ending.reason == TIMED_OUT)


class DeathReport:
    """What was known of an invocation's last moment."""

    __slots__ = ("at_ms", "extension_ended", "growth_kib_per_s", "holder", "level_kib", "reason", "samples")

    def __init__(
        self, reason: str, level_kib: int | None, growth_kib_per_s: float | None, holder: dict[str, object]
    ) -> None:
        self.reason = reason
        """`timeout` or `failure` (SHUTDOWN's), "" where the sidecar did not live to hear of it."""
        self.level_kib = level_kib
        """RSS of the function, this sidecar and all extensions, at the last sample; no more than Window.together.
        None if none of the function was read."""
        self.growth_kib_per_s = growth_kib_per_s
        """Of the function, None with fewer than two samples."""
        self.holder = holder
        """Who held most: `{"process": name, "pid": n, "rss": MiB}` or `{"extension": name, "rss": MiB}`."""
        self.extension_ended = False
        """It was an extension, and has ended."""
        self.samples: list[list[float]] = []
        """[ms before the end, MiB of the function], oldest first."""
        self.at_ms = 0
        """When the last sample was, epoch ms, where the end itself is not known: `samples` are before it then."""

    def document(self) -> dict[str, object]:
        """As it stands on the record; MiB, and MiB per second."""
        members: dict[str, object] = {}
        if self.level_kib is not None:
            members["level"] = round(self.level_kib / 1024, 2)
        if self.growth_kib_per_s is not None:
            members["growthPerSecond"] = round(self.growth_kib_per_s / 1024, 2)
        if self.holder:
            members["holder"] = self.holder
        if self.at_ms:
            members["lastSampleTime"] = self.at_ms
        return members
