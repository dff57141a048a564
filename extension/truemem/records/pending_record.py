"""One invocation while its parts become known: what was measured, what the platform reports, how it died.

Sizes are in KiB, as the kernel prints them. A record's members are read everywhere and written here alone: each part
that becomes known has a method.
"""

from __future__ import annotations

import posix

from ..drift import Drift
from ..measure.environment_memory import AT_LIMIT
from ..measure.window import current, peak
from ..platform.telemetry import REPORT, RUNTIME_DONE, START, PlatformEvent
from ..support import minijson
from ..support.named_tuple import NamedTuple
from ..support.numbers import mib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from typing import Any, Final

    from ..measure.environment_memory import HeldMemory
    from ..measure.window import Boundary, MemoryCurve, Peak, Window
    from ..platform.exact_mode import PassingInvocation

SNAP_START: Final = "snap-start"


class EnvironmentState:
    """What goes on from one invocation to the next in one execution environment."""

    def __init__(self, boot: str = "") -> None:
        self.boot = boot
        """/proc/sys/kernel/random/boot_id: what another boot has left in /tmp is another environment's."""
        self.environment_id = posix.urandom(8).hex()
        """The log stream (`initStart.instanceId`), or an id of our own where telemetry does not say."""
        self.from_platform = False
        """The platform has named it since the process was restored, or started."""
        self.restored = False
        self.invocations = 0
        self.high_water_mark = 0
        """Highest peak of the function since the environment started, KiB."""
        self.mark_mib: int | float = 0.0
        """Max Memory Used, as last reported."""
        self.kills: int | None = None
        """The kernel's count of OOM kills, as last read."""
        self.drift = Drift()
        """Leak or not. It ends with this process: after a reset the function's processes are new as well."""
        self.resumed = False
        """True if a reset started this process: another one has been here before. Its journal says so, or the platform,
        if that comes before the first event."""

    def reached(self, kib: int) -> None:
        """The function was seen to hold so much."""
        self.high_water_mark = max(self.high_water_mark, kib)

    def identify(self, environment_id: str | None) -> None:
        if environment_id:
            self.environment_id, self.from_platform = environment_id, True

    def begin(self, initialization_type: str) -> None:
        """The first event of this process. If it was restored from a snapshot, what it knows it shares with every other
        copy: an extension does not hear of a restore, but a snapshot is never taken of an environment that serves."""
        if initialization_type == SNAP_START and not self.resumed:
            self.restored = True
            if not self.from_platform:
                self.environment_id = posix.urandom(8).hex()

    def text(self) -> str:
        kills = "null" if self.kills is None else self.kills
        names = f"{minijson.quoted(self.boot)},{minijson.quoted(self.environment_id)}"
        return f"[{names},{self.invocations},{self.high_water_mark},{self.mark_mib},{kills}]"

    def resume_from(self, text: bytes) -> bool:
        """Go on from what an earlier process has left; False where that is not one of this environment."""
        try:
            boot, environment_id, invocations, high_water_mark, mark_mib, kills = minijson.loads(text)
        except (ValueError, TypeError):
            return False
        numbers = (invocations, high_water_mark, mark_mib, kills if kills is not None else 0)
        if boot != self.boot or not isinstance(environment_id, str) or len(environment_id) > 512:
            return False
        if not all(isinstance(number, (int, float)) and 0 <= number < 1e15 for number in numbers):
            return False
        self.environment_id = environment_id
        self.invocations, self.high_water_mark = int(invocations), int(high_water_mark)
        self.mark_mib, self.kills = float(mark_mib), None if kills is None else int(kills)
        self.resumed = True
        return True


CHANCE_MS: Final = 1000
"""Running time after a record's close in which its report arrives, if it does: forty times the buffering."""

START_MS: Final = 100
"""Running time in which the next invocation's platform.start arrives where it would make a record exact: four times the
buffering."""

MOST_WAITING: Final = 16
"""Closed records that may wait at once."""


class PendingRecords:
    """The pending records of one environment, in the order of their invocations."""

    def __init__(self, reports: bool = True) -> None:
        """`reports` says whether any will come: without telemetry nothing is waited for."""
        self._reports = reports
        self._waiting: list[PendingRecord] = []

    def open(self, record: PendingRecord) -> None:
        self._waiting.append(record)

    def over_capacity(self) -> bool:
        """Do more wait than should? Invocations may follow each other so closely that there is no time to print."""
        return len(self._waiting) > 2 * MOST_WAITING

    def current(self) -> PendingRecord | None:
        """The invocation whose window is open, or None."""
        return self._waiting[-1] if self._waiting and self._waiting[-1].measured is None else None

    def unreported(self) -> PendingRecord | None:
        """The last invocation, if the platform has not reported its end."""
        last = self._waiting[-1] if self._waiting else None
        return last if last is not None and not last.reported.report_came else None

    def first(self) -> PendingRecord | None:
        """The oldest invocation that is still here."""
        return self._waiting[0] if self._waiting else None

    def for_request(self, request_id: str | None, kind: str = RUNTIME_DONE) -> PendingRecord | None:
        """The invocation that such an event is about, if it is still here. A retry has the request id of the one before
        it, which may still wait for its report: it is the first that has not had such an event."""
        last: PendingRecord | None = None
        for record in self._waiting:
            if record.request_id == request_id:
                last, reported = record, record.reported
                has_had = reported.started if kind == START else kind == RUNTIME_DONE and reported.done_ns is not None
                if not reported.report_came and not has_had:
                    return record
        return last

    def join(self, event: PlatformEvent) -> bool:
        """Add what the platform says; False where it is about an invocation that does not wait."""
        record = self.for_request(event.request_id, event.kind)
        if record is None:
            return False
        record.join(event)
        return True

    def due(self, running_ms: float) -> PendingRecord | None:
        """Take the first record if it can be printed now (`is_due`), else None."""
        return self._take() if self.is_due(running_ms) else None

    def is_due(self, running_ms: float) -> bool:
        """Can the first record be printed now? `running_ms` is the time that the environment has run, freezes left out,
        on the scale of `Measured.at_ms`."""
        first, closed = self.first(), len(self._waiting) - (self.current() is not None)
        if first is None or first.measured is None:
            return False
        if closed > MOST_WAITING or not self._reports:
            return True
        waited_ms = running_ms - first.measured.at_ms
        if not first.reported.report_came:
            return closed > 1 and waited_ms >= CHANCE_MS
        # The start of the next one tells which samples were taken before it.
        if waited_ms >= START_MS or (len(self._waiting) > 1 and self._waiting[1].reported.started):
            return True
        first.update_peak()
        return first.peak is None or not first.peak.raced

    def complete(self) -> bool:
        """True when no record waits for a report."""
        return not self._reports or all(record.reported.report_came for record in self._waiting)

    def take_all(self) -> list[PendingRecord]:
        return [self._take() for _ in range(len(self._waiting))]

    def _take(self) -> PendingRecord:
        record = self._waiting.pop(0)
        record.update_peak()
        return record


TIMED_OUT: Final = "timeout"
"""Status of an invocation, and reason of a SHUTDOWN."""

PLATFORM: Final = "Runtime.OutOfMemory"
EXTENSION_CRASH: Final = "Extension.Crash"
DEATHS: Final = (PLATFORM, "Runtime.ExitError", EXTENSION_CRASH)
"""The platform's words for an invocation that ended with its processes."""
KERNEL: Final = "kernel"
EXIT_AT_LIMIT: Final = "exit-at-limit"
TIMEOUT_AT_LIMIT: Final = "timeout-at-limit"
MARK_AT_LIMIT: Final = "mark-at-limit"


def signals(record: PendingRecord, limit_mib: int, mark_before_mib: float) -> list[str]:
    """The signals that fired, none where the invocation did not run out of memory. `mark_before_mib` is Max Memory Used
    of the invocation before: a mark that was at the limit already says nothing."""
    death, reported = record.death, record.reported
    mark_mib = reported.max_memory_used_mib
    fired = []
    if reported.error_type == PLATFORM:
        fired.append(PLATFORM)
    of_function, of_others = record.kills()
    if of_function:
        fired.append(KERNEL)
    timeout = reported.status == TIMED_OUT or (death is not None and death.reason == TIMED_OUT)
    # Did its processes end with it? What a runtime reports of itself and lives on is no death.
    died = death is not None and (reported.error_type is None or reported.error_type in DEATHS)
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
        fired.append(TIMEOUT_AT_LIMIT if timeout else EXIT_AT_LIMIT)
    # Page cache fills a mark as well: memory that cannot be reclaimed must have been able to. Where the kernel counts
    # its kills, and counted none, it did not: a burst's growth says nothing of a timeout seconds later.
    can_have_grown = record.kernel_kills != 0 and _can_have_reached(record, limit_kib)
    if reached and (fired or can_have_grown):
        fired.append(MARK_AT_LIMIT)
    return fired


def _can_have_reached(record: PendingRecord, limit_kib: float) -> bool:
    """Growing on as it did, from its last sample to its end?"""
    death, window, done_ns = record.death, record.window, record.reported.done_ns
    if death is None or window is None or done_ns is None:
        return False
    growth, unseen_ns = death.growth_kib_per_s or 0, max(0, done_ns - window.curve.last_ns())
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
    level_kib, who = level_and_holder(window, others_kib, largest_process, extensions)
    return DeathReport(reason, level_kib, window.curve.growth_kib_per_s(), who, who.get("extension") in ended)


def level_and_holder(
    window: Window, others_kib: int, largest_process: tuple[str, int, int] | None, extensions: Mapping[str, int]
) -> tuple[int | None, dict[str, object]]:
    """DeathReport's level and largest."""
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
    return level_kib, who


class DeathReport(NamedTuple):
    reason: str
    """`timeout` or `failure` (SHUTDOWN's), "" where the sidecar did not live to hear of it."""
    level_kib: int | None
    """RSS of the function, this sidecar and all extensions, at the last sample; no more than Window.together.
    None if none of the function was read."""
    growth_kib_per_s: float | None
    """Growth of the function's level, KiB per second; None with fewer than two samples."""
    largest: dict[str, object]
    """Who held most: `{"process": name, "pid": n, "rss": MiB}` or `{"extension": name, "rss": MiB}`."""
    extension_ended: bool = False
    at_ms: int = 0
    """When the last sample was, epoch ms, where the end itself is not known."""

    def document(self) -> dict[str, object]:
        members = {
            "level": None if self.level_kib is None else mib(self.level_kib),
            "growthPerSecond": None if self.growth_kib_per_s is None else mib(self.growth_kib_per_s),
            "holder": self.largest or None,
            "lastSampleTime": self.at_ms or None,
        }
        return {name: value for name, value in members.items() if value is not None}


SUCCESS: Final = "success"
"""Status of an invocation."""
FAILURE: Final = "failure"
"""Reason of a SHUTDOWN."""
NEXT_INVOKE: Final = "next-invoke"
NEXT_REQUEST: Final = "next-request"
"""`closedBy` of a window that was closed by the next INVOKE, or when the runtime asked for its next event."""


class Measured:
    """What was measured of one invocation: made when its window closes."""

    def __init__(
        self,
        window: Window | None = None,
        closed_by: str = "",
        at_ms: float = 0.0,
        memory: HeldMemory | None = None,
        peak: Peak | None = None,
    ) -> None:
        self.window = window
        """The window of the invocation; None where reading the function failed."""
        self.closed_by = closed_by
        """`next-request` (exact mode), `next-invoke` or `shutdown`; "" where no window was closed for it."""
        self.at_ms = at_ms
        """Running time of the environment, freezes left out, when it closed."""
        self.memory = memory
        """What the environment held then."""
        self.peak = peak
        """Peak of an invocation that shares its window with others; else it follows from the window."""


class Exchange(NamedTuple):
    """What has passed between the runtime and its API, in exact mode."""

    request_bytes: int | None
    response_bytes: int | None
    failed: bool
    """The runtime answered with an error. The platform may call that a success."""


class PlatformReport:
    """What the platform says of one invocation, and what SHUTDOWN lets infer of it. Only its methods write."""

    def __init__(self) -> None:
        self.started = self.report_came = False
        """True once platform.start of the invocation has come; once platform.report has."""
        self.done_ns: int | None = None
        """When the runtime was done, or gone: epoch ns, in steps of a ms."""
        self.status: str | None = None
        self.error_type: str | None = None
        self.duration_ms: int | float | None = None
        self.tenant_id: str | None = None
        self.max_memory_used_mib: int | float | None = None
        self.billed_ms: int | float | None = None
        self.init_ms: int | float | None = None
        """Times of the environment's start, and of its restore from a snapshot, ms: with its first report."""
        self.restore_ms: int | float | None = None

    def join(self, event: PlatformEvent) -> None:
        """platform.start, runtimeDone or report of this invocation."""
        if event.kind not in (START, RUNTIME_DONE, REPORT):
            return
        self.tenant_id = event.text("tenantId") or self.tenant_id
        if event.kind == START:
            self.started = True
            return
        if event.kind == RUNTIME_DONE:
            self.done_ns = event.time_ns
        if event.kind == REPORT or self.error_type is None:  # else it is known what came after the runtime was done
            self.status = event.text("status") or self.status
        self.error_type = event.text("errorType") or self.error_type
        duration = event.metric("durationMs")
        # The report's duration is the one that REPORT shows and that is billed; runtimeDone's comes sooner.
        if duration is not None and not self.report_came:
            self.duration_ms = duration
        if event.kind == REPORT:
            if self.status == SUCCESS:
                self.error_type = None
            self.max_memory_used_mib = event.metric("maxMemoryUsedMB")
            self.billed_ms = event.metric("billedDurationMs")
            self.init_ms, self.restore_ms = event.metric("initDurationMs"), event.metric("restoreDurationMs")
            self.report_came = True

    def ended(self, reason: str, done_ns: int | None) -> None:
        """SHUTDOWN has this reason. The word is the platform's, with telemetry or without."""
        self.done_ns = done_ns or self.done_ns
        if reason == TIMED_OUT:
            self.status = self.status or TIMED_OUT

    def extension_crashed(self) -> None:
        """The environment has ended because the kernel has killed an extension. The platform's report, which says it,
        often comes too late."""
        self.status, self.error_type = "error", EXTENSION_CRASH


class PendingRecord:
    """What is known of one invocation so far: read everywhere, written by its own methods alone. None: not known."""

    def __init__(self, request_id: str, invocation: int, time_ms: int, opening: Boundary | None = None) -> None:
        self.request_id = request_id
        self.invocation = invocation
        """Number in this environment, from 1."""
        self.time_ms = time_ms
        self.opening = opening
        self.cold_start = self.suppressed_init = False
        """The environment's first; the init phase was done (again) within it."""
        self.initialization_type = ""
        self.init_peak: Peak | None = None
        self._init: Window | None = None
        self.init_cpu_ns: int | None = None
        """CPU time of the init phase in ns (Window.cpu_ns)."""
        self.shared_by = 0
        """Most requests that ran at once while it did, itself included; 0 where they never do."""
        self.answer: Exchange | None = None
        """Exact mode: what has passed of the answer."""

        self.notes: dict[str, object] = {}
        """What wings want to know of it when it is printed."""

        self.measured: Measured | None = None
        self.reported = PlatformReport()

        # What is decided
        self.peak: Peak | None = None
        """The peak by what is known now: telemetry may still raise it."""
        self._peak_known: tuple[Window, int, int] | None = None
        """What it was worked out by."""
        self.high_water_mark = 0
        self.kernel_kills: int | None = None
        """OOM kills of the function's processes that the kernel has counted in it; None where nothing counts."""
        self._kill_looks: Sequence[tuple[int, int]] | None = None
        """Looks at those, (epoch ns, kills by then): only what was seen before the invocation's end is its own for
        certain. None: all are."""
        self._kills_between = 0
        self.environment_kills = 0
        """OOM kills that were not the function's: of extensions, what cannot have been the function's, and of the init
        phase before it."""
        self.death: DeathReport | None = None
        self.slot: int | None = None
        """The record's slot in the journal, from its close to its print."""

    @property
    def window(self) -> Window | None:
        return self.measured.window if self.measured is not None else None

    @property
    def cpu_ns(self) -> int | None:
        """The function's CPU time in the window (see CpuTime); None also if the invocation shares its window with
        others."""
        return self.window.cpu_ns if self.window is not None and not self.shared_by else None

    @property
    def closed_by(self) -> str:
        return self.measured.closed_by if self.measured is not None else ""

    # How it began

    def follows_init(self, cold_start: bool, suppressed: bool, initialization_type: str = "") -> None:
        """Note that the invocation is the first of the function's processes. `suppressed`: their init phase was done
        within it."""
        self.cold_start, self.suppressed_init = cold_start, suppressed
        self.initialization_type = initialization_type if cold_start else ""

    def init_measured(self, window: Window) -> None:
        """The window of the init phase before it."""
        self._init, self.init_cpu_ns = window, window.cpu_ns
        self.init_reached(peak(window))

    def init_reached(self, reached: Peak | None) -> None:
        self.init_peak = reached

    def shared(self, at_once: int) -> None:
        """Note that `at_once` invocations, this one included, run at the same time."""
        self.shared_by = max(self.shared_by, at_once)

    # What was measured

    def close(self, measured: Measured) -> None:
        """Note what was measured: the window has closed, or reading the function has failed."""
        self.measured = measured
        self.update_peak()

    def holds(self, memory: HeldMemory) -> None:
        """What the environment held when it closed."""
        if self.measured is not None:
            self.measured.memory = memory

    def children_were(self, most: int) -> None:
        """Note that no child that was waited for in this invocation was larger than `most` KiB; 0 if that is not
        known."""
        self._know(child_most=most)

    def mark_rose(self, before_mib: float) -> None:
        """Max Memory Used of the invocation before is `before_mib`: its rise bounds the peak."""
        mark_mib = self.reported.max_memory_used_mib
        if not self.shared_by and mark_mib is not None and 0 < before_mib < mark_mib:
            self._know(risen=round((mark_mib - before_mib) * 1024))
            self.update_peak()

    def answered(self, invocation: PassingInvocation) -> None:
        """Note that the event and the response have passed (exact mode)."""
        response = invocation.answer.body_bytes if invocation.answer is not None else None
        self.answer = Exchange(invocation.size, response, invocation.failed)

    def note(self, name: str, value: object) -> None:
        """What a wing wants to know of it when it is printed."""
        self.notes[name] = value

    def mark_reached(self, kib: int) -> int:
        """The environment's high-water mark is at least this. Returns this record's."""
        self.high_water_mark = max(self.high_water_mark, kib)
        return self.high_water_mark

    def update_peak(self) -> None:
        """Work the peak out by all that is known by now: the runtime's next event did not come before this one was
        done (platform.runtimeDone)."""
        if self._init is not None:  # platform.start tells which of its samples were taken before it
            self.init_reached(peak(self._init))
        measured = self.measured
        if measured is None:
            return
        if measured.peak is not None or self.shared_by:
            self.peak = measured.peak
        elif measured.window is not None:
            window = measured.window
            window.end.prove(self.reported.done_ns)
            known = window, window.opening.not_before_ns, window.end.not_before_ns
            if known != self._peak_known:
                self._peak_known, self.peak = known, peak(window)

    def _know(self, **evidence: Any) -> None:
        measured = self.measured
        if measured is not None and measured.window is not None:
            measured.window = measured.window._replace(**evidence)

    # How it ended

    def killed(self, of_function: int | None, looks: Sequence[tuple[int, int]] | None = None) -> None:
        """OOM kills of the function's processes in it; None where nothing counts. `looks`, where some of them may have
        come after its end: (epoch ns, kills by then)."""
        self.kernel_kills, self._kill_looks = of_function, looks

    def killed_between(self, count: int) -> None:
        """OOM kills before it began that no invocation has."""
        self._kills_between = count

    def others_killed(self, total: int) -> None:
        """OOM kills of all others in it, so far."""
        self.environment_kills = total

    def died(self, report: DeathReport, done_ns: int | None = None, curve: MemoryCurve | None = None) -> None:
        """The environment ended with it, at `done_ns` and after such a `curve`, if those are known."""
        self.death = report
        self.reported.ended(report.reason, done_ns)
        if curve is not None:
            self._know(curve=curve)

    def blame_extension(self) -> None:
        """The environment has ended with a failure, and the kernel has killed an extension: that is why. The platform
        may have said before that the runtime was done."""
        known = self.reported.error_type is not None
        if self.death is not None and self.death.reason == FAILURE and not known and self.kills()[1]:
            self.reported.extension_crashed()

    def journaled(self, slot: int | None) -> None:
        """The journal has it in this slot until it is printed."""
        self.slot = slot

    # What the platform says

    def join(self, event: PlatformEvent) -> None:
        """platform.start, runtimeDone or report of this invocation."""
        self.reported.join(event)
        if event.kind == START and self.opening is not None:
            self.opening.prove(event.time_ns)
        if event.kind == REPORT and self.reported.status == SUCCESS and self.closed_by == NEXT_REQUEST:
            self.death = None  # the environment has ended after it

    # What follows from it

    def last_samples(self) -> list[list[float]]:
        """The end of the curve of an invocation that died: [ms before the end, MiB], oldest first."""
        if self.death is None or self.window is None:
            return []
        curve = self.window.curve
        if self.death.at_ms:  # the end is not known
            return curve.tail(0, curve.last_ns())
        return curve.tail(self.time_ms * 1_000_000, self.reported.done_ns or curve.last_ns())

    def kills(self) -> tuple[int, int]:
        """OOM kills in it by the kernel: of the function's processes, and of others of the environment.

        One of those that seem to be the function's was an extension's where the platform says that an extension ended
        first; or, where it says nothing, where the largest process was an extension's and has ended."""
        known, death, error_type = self._own_kills(), self.death, self.reported.error_type
        extension_ended = error_type == EXTENSION_CRASH or (
            error_type is None and death is not None and death.extension_ended
        )
        of_extension = 1 if known and extension_ended and not self.environment_kills else 0
        return known - of_extension, self.environment_kills + of_extension

    def unplaced_kills(self) -> int:
        """OOM kills of which it is not known that they were in it: in or after it, or between two invocations."""
        return (self.kernel_kills or 0) - self._own_kills() + self._kills_between

    def _own_kills(self) -> int:
        killed, window = self.kernel_kills or 0, self.window
        if not killed or self._kill_looks is None or window is None:
            return killed
        window.end.prove(self.reported.done_ns)
        ended_ns = window.end.not_before_ns
        return min(killed, max((kills for by_ns, kills in self._kill_looks if by_ns <= ended_ns), default=0))
