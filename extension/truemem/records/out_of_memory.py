"""Did the invocation run out of memory? One verdict from all signals there are. Pure.

No single one is enough. The platform names it, or takes it for any other exit, or for a timeout; the kernel may have
killed a child, which the platform does not hear of; and a mark that has reached the size stays there for good, and may
have reached it by page cache alone.
"""

from __future__ import annotations

from ..measure.environment_memory import AT_LIMIT
from ..measure.window import current
from ..support.named_tuple import NamedTuple
from ..support.units import mib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from ..measure.window import Window
    from .pending_record import PendingRecord

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


def signals(record: PendingRecord, limit_mib: int, mark_before_mib: float) -> list[str]:
    """The signals that fired, none where the invocation did not run out of memory. `mark_before_mib` is Max Memory Used
    of the invocation before: a mark that was at the limit already says nothing."""
    death, mark_mib = record.death, record.max_memory_used_mib
    fired = []
    if record.error_type == PLATFORM:
        fired.append(PLATFORM)
    of_function, of_others = split_kills(record)
    if of_function:
        fired.append(KERNEL)
    timeout = record.status == TIMED_OUT or (death is not None and death.reason == TIMED_OUT)
    # Did its processes end with it? What a runtime reports of itself and lives on is no death.
    died = death is not None and record.error_type in (None, *DEATHS)
    if not limit_mib or not (timeout or died):
        return fired
    if of_others and death is not None and "extension" in death.largest:
        return fired  # it was the extension that ran out of memory
    limit_kib = AT_LIMIT * limit_mib * 1024
    at_limit = death is not None and (death.level_kib or 0) >= limit_kib
    if mark_mib is not None and mark_mib < AT_LIMIT * limit_mib:
        at_limit = False  # the environment has never been there: RSS counts twice what two processes share
    reached = (mark_mib or 0) >= limit_mib > mark_before_mib
    if at_limit:
        fired.append(TIMEOUT if timeout else EXIT)
    # Page cache fills a mark as well: memory that cannot be reclaimed must have been able to. Where the kernel counts
    # its kills, and counted none, it did not: a burst's growth says nothing of a timeout seconds later.
    can_have_grown = record.kernel_kills != 0 and _can_have_reached(record, limit_kib)
    if reached and (fired or can_have_grown):
        fired.append(MARK)
    return fired


def split_kills(record: PendingRecord) -> tuple[int, int]:
    """OOM kills by the kernel in the invocation: of the function's processes, and of others of the environment.

    One of those that seem to be the function's was an extension's where the platform says that an extension ended
    first; or, where it says nothing, where the largest process was an extension's and has ended."""
    known, death = record.kernel_kills or 0, record.death
    extension_ended = record.error_type == EXTENSION_CRASH or (
        record.error_type is None and death is not None and death.extension_ended
    )
    of_extension = 1 if known and extension_ended and not record.environment_kills else 0
    return known - of_extension, record.environment_kills + of_extension


def _can_have_reached(record: PendingRecord, limit_kib: float) -> bool:
    """Growing on as it did, from its last sample to its end?"""
    death, window = record.death, record.window
    if death is None or window is None or record.done_ns is None:
        return False
    growth, unseen_ns = death.growth_kib_per_s or 0, max(0, record.done_ns - window.curve.last_ns())
    return growth > 0 and (death.level_kib or 0) + growth * unseen_ns / 1e9 >= limit_kib


def death_report(
    reason: str,
    window: Window,
    others_kib: int,
    largest_process: tuple[str, int, int] | None,
    extensions: Mapping[str, int],
    ended: Collection[str] = (),
) -> DeathReport:
    """`reason` as SHUTDOWN has it, or "".

    `largest_process` is the function's, (name, pid, KiB); `others_kib` what sidecar and `extensions` held; `ended`
    names the extensions that have. Where nothing of the function was read, there is no level; one that held more than
    all do together by now is not named."""
    largest = max(extensions.items(), key=lambda item: item[1], default=None)
    largest_kib = 0
    who: dict[str, object] = {}
    if largest is not None and largest[1] > (largest_process[2] if largest_process is not None else 0):
        largest_kib = largest[1]
        who = {"extension": largest[0], "rss": mib(largest_kib)}
    elif largest_process is not None and largest_process[2]:
        name, pid, largest_kib = largest_process
        who = {**({"process": name} if name else {}), "pid": pid, "rss": mib(largest_kib)}
    function_kib = (window.last if window.dying else 0) or current(window) or window.baseline
    level_kib = function_kib + others_kib if function_kib else None
    if level_kib is not None and window.together:
        level_kib = min(level_kib, window.together)
    if level_kib is not None and largest_kib > level_kib:
        who = {}
    extension_ended = who.get("extension") in ended
    return DeathReport(reason, level_kib, window.curve.growth_kib_per_s(), who, extension_ended)


class DeathReport(NamedTuple):
    """What was known of an invocation's last moment."""

    reason: str
    """`timeout` or `failure` (SHUTDOWN's), "" where the sidecar did not live to hear of it."""
    level_kib: int | None
    """RSS of the function, this sidecar and all extensions, at the last sample; no more than Window.together.
    None if none of the function was read."""
    growth_kib_per_s: float | None
    """Of the function, None with fewer than two samples."""
    largest: dict[str, object]
    """Who held most: `{"process": name, "pid": n, "rss": MiB}` or `{"extension": name, "rss": MiB}`."""
    extension_ended: bool = False
    """It was an extension, and has ended."""
    at_ms: int = 0
    """When the last sample was, epoch ms, where the end itself is not known."""

    def document(self) -> dict[str, object]:
        """As it stands on the record; MiB, and MiB per second."""
        members: dict[str, object] = {}
        if self.level_kib is not None:
            members["level"] = mib(self.level_kib)
        if self.growth_kib_per_s is not None:
            members["growthPerSecond"] = mib(self.growth_kib_per_s)
        if self.largest:
            members["holder"] = self.largest
        if self.at_ms:
            members["lastSampleTime"] = self.at_ms
        return members
