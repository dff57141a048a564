"""A finished record: what is known of one invocation, as the JSON of its line (line_schema). Written once.

Absent means unknown or not so: no nulls, no zeros for what was not measured. Sizes come in KiB and leave in MiB with
two decimals.
"""

from __future__ import annotations

import time

from ..config import ALWAYS, EMF
from ..line_schema import CLOUDWATCH, FULL, METRICS, SHORT, SMALL_BYTES
from ..measure.window import KERNEL_SLACK_KIB, current
from ..support.minijson import dumps, loads, quoted
from ..support.numbers import decimal, hundredths, mib, mib_text, ms, rounded
from ..verdict import GROWING
from .pending_record import NEXT_INVOKE, NEXT_REQUEST, SUCCESS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, Final

    from ..config import Config
    from .pending_record import Exchange, PendingRecord

NO_MEMBERS: Final[Mapping[str, Any]] = {}

VALUES = 100
"""Most values of one metric in one line."""

UNITS: Final = {name: f'{{"Name":"{name}","Unit":"{CLOUDWATCH[kind]}"}},' for name, kind in METRICS.items()}
"""What EMF says of each metric, and a comma."""


class InvocationRecord:
    """One invocation, as its line and the journal have it."""

    def __init__(
        self,
        time_ms: int,
        metrics: Mapping[str, float] = NO_MEMBERS,
        properties: Mapping[str, Any] = NO_MEMBERS,
        slot: int | None = None,
    ) -> None:
        """`metrics`: each in the unit of its kind, by name; `properties`: the other members, in the line's order."""
        self.time_ms = time_ms
        """Epoch milliseconds at which the invocation began."""
        self.slot = slot
        """The record's slot in the journal until it is printed."""
        self.figures = _members(metrics)
        """JSON of the metrics; each has a comma after it, here and in what follows."""
        self.units = "".join([UNITS[name] for name in metrics])
        self.members = _members(properties)
        self.short = ""
        """Members of its short line; "" where it has none."""
        self.held_mib = 0.0
        """What sidecar and extensions held at its end."""
        self.may_repeat = "mayRepeat" in properties
        self._metrics: Mapping[str, float] | None = metrics or None
        self._properties: Mapping[str, Any] | None = properties or None

    @property
    def metrics(self) -> Mapping[str, float]:
        """The metrics, read back: for those who need one."""
        if self._metrics is None:
            self._metrics = _read(self.figures)
        return self._metrics

    @property
    def properties(self) -> Mapping[str, Any]:
        """Members of the line that are no metrics, read back."""
        if self._properties is None:
            self._properties = _read(self.members)
        return self._properties

    def having(self, **properties: Any) -> InvocationRecord:
        return InvocationRecord(self.time_ms, self.metrics, {**self.properties, **properties}, self.slot)

    def measured(self, name: str, text: str) -> None:
        """Add a metric with this value."""
        self.figures += f'"{name}":{text},'
        self.units += UNITS[name]


def _members(values: Mapping[str, object]) -> str:
    return f"{dumps(values)[1:-1]}," if values else ""


def _read(members: str) -> dict[str, Any]:
    found: dict[str, Any] = loads(f"{{{members[:-1]}}}".encode())
    return found


class _Fixed:
    """What each line has of the settings, as it is written there."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.memory_mib, self.cpu_share, self.cpu_metric = config.memory_mib, config.cpu_share, config.cpu_metric
        sets = [["FunctionName"], ["FunctionName", *config.dimensions]] if config.dimensions else [["FunctionName"]]
        self.is_emf = EMF in config.outputs
        self.about = dumps({"Namespace": config.namespace, "Dimensions": sets})[:-1]
        # What the user fixed never replaces what we measured: config refuses our names.
        self.named = _members({**config.properties, **config.dimensions, "FunctionName": config.function_name})
        level = f'"level":"{config.level}",'
        self.end = f'{level}"schema":{FULL}'
        self.short_end = f'{"" if config.level == "INFO" else level}"schema":{SHORT}'
        # Lambda takes a line without a timestamp for INFO, whatever its level says; and the time is also in `_aws`.
        self.has_time = config.level != "INFO" or not self.is_emf
        self.version = config.function_version
        self.version_member = f'"functionVersion":{quoted(self.version)},'
        self._environment_id = self.environment_member = ""
        self.version_follows = False
        """The environment's id has the function's version."""

    def see(self, environment_id: str) -> None:
        """The record is one of this environment."""
        if environment_id != self._environment_id or not self.environment_member:
            self._environment_id = environment_id
            self.environment_member = f'"environmentId":{quoted(environment_id)},'
            inside = environment_id.partition("[")[2].partition("]")[0]
            self.version_follows = bool(self.version) and self.version == inside


_known: Final[list[_Fixed]] = []
"""The settings that were used last: a process has one Config."""


def _fixed(config: Config) -> _Fixed:
    if not _known or _known[0].config is not config:
        _known[:] = [_Fixed(config)]
    return _known[0]


def line(
    record: InvocationRecord, config: Config, columns: Mapping[str, object] = NO_MEMBERS, *, is_short: bool = False
) -> str:
    """The EMF document for one invocation, without a newline. `columns`: metrics with several values each, and what
    belongs to them; last, as Logs Insights finds the first 200 members of a line ("Supported logs and discovered
    fields"). `is_short`: leave out what ShortLines allows.

    `FunctionName` alone is a set of dimensions in any case: dashboards, alarms and `truemem metrics` look for it, and
    CloudWatch does not aggregate over dimensions.
    """
    fixed = _fixed(config)
    head = more = ""
    if fixed.is_emf and not record.may_repeat:  # what may have been written before must not make metrics again
        units = record.units
        for name in columns:
            if name in METRICS:
                units += UNITS[name]
        head = (
            f'"_aws":{{"Timestamp":{record.time_ms},"CloudWatchMetrics":[{fixed.about},"Metrics":[{units[:-1]}]}}]}},'
        )
    if columns:
        more = f",{dumps(columns)[1:-1]}"
    if fixed.has_time:
        more += f',"timestamp":"{rfc3339(record.time_ms)}"'
    members, end = (record.short, fixed.short_end) if is_short else (record.members, fixed.end)
    return f"{{{head}{fixed.named}{record.figures}{members}{end}{more}}}"


def rfc3339(time_ms: int) -> str:
    """Epoch milliseconds as `2026-01-31T23:59:59.123Z`."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time_ms // 1000)) + f".{time_ms % 1000:03d}Z"


FULL_EVERY: Final = 16
"""Each invocation whose number is a multiple of this has a full line, as it may have a verdict on the memory; and so
have 1, 2, 4 and 8, for environments of a short life."""
SLACK_MIB: Final = KERNEL_SLACK_KIB / 1024
RISE_MIB: Final = 1.0
"""A line is full if the sidecar and the other extensions hold so much more than on any full one before."""


class ShortLines:
    """Decides which lines of an environment are short: those of ordinary invocations, of which all that is left out is
    known or is said by the full lines between them."""

    def __init__(self, config: Config) -> None:
        self._never = config.detail == ALWAYS
        self._held_mib = 0.0
        """Most that sidecar and extensions held by a full line."""

    def end(self) -> None:
        """Note that the next line is the environment's last one."""
        self._never = True

    def take(self, record: InvocationRecord) -> bool:
        """Is this record's line short?"""
        if record.short and not self._never and record.held_mib < self._held_mib + RISE_MIB:
            return True
        self._held_mib = max(self._held_mib, record.held_mib)
        return False


def _is_due(invocation: int) -> bool:
    return invocation % FULL_EVERY == 0 or (invocation < FULL_EVERY and not invocation & (invocation - 1))


HEAP: Final = "heap"
HEAP_NOT_SAID: Final = ("gc", "threads")
"""Members of `heap` that a short line does not say."""
PROFILE: Final = "growthProfile"


class _Writer:
    """The members of one record: those of its full line, and those of its short one."""

    def __init__(self) -> None:
        self.full: list[str] = []
        self.short: list[str] = []
        self.is_ordinary = True
        """Can its line be short?"""

    def both(self, member: str) -> None:
        self.full.append(member)
        self.short.append(member)

    def only_full(self, member: str) -> None:
        """A member that a short line never has: it follows from the others, or only full lines say it."""
        self.full.append(member)

    def odd(self, member: str) -> None:
        """A member of a record that needs attention: no short line has it."""
        self.full.append(member)
        self.is_ordinary = False

    def of_wings(self, names: Sequence[str], added: Mapping[str, Any]) -> None:
        for name in names:
            value = added.get(name)
            if value is None:
                continue
            self.full.append(f'"{name}":{dumps(value)},')
            if name == HEAP:
                value = {inner: known for inner, known in value.items() if inner not in HEAP_NOT_SAID}
            self.short.append(f'"{name}":{dumps(value)},')
            if name == PROFILE:
                self.is_ordinary = False


def finished(
    pending: PendingRecord,
    config: Config,
    environment_id: str,
    signals: Sequence[str] = (),
    drift: Mapping[str, object] | None = None,
    dropped: int = 0,
    added: Mapping[str, Any] = NO_MEMBERS,
) -> InvocationRecord:
    """The record, of what is known by now. `signals`: that it ran out of memory; `drift`: the verdict on the
    environment's memory, where one is due; `dropped`: what was lost since the line before; `added`: members of
    wings, by name; those of `outOfMemory` beside its signals.

    Of its short line `truemem_workbench.printed.document.completed` is the inverse."""
    fixed, reported, window = _fixed(config), pending.reported, pending.window
    fixed.see(environment_id)
    made, writer = InvocationRecord(pending.time_ms, slot=pending.slot), _Writer()
    held = current(window) if window is not None else 0
    _write_metrics(made, pending, fixed, held, signals, drift)
    writer.both(
        f'"requestId":{quoted(pending.request_id)},{fixed.environment_member}"invocation":{pending.invocation},'
    )
    if pending.cold_start:
        writer.odd('"coldStart":true,')
    if pending.suppressed_init:
        writer.odd('"suppressedInit":true,')
    if pending.initialization_type:
        writer.both(f'"initializationType":{quoted(pending.initialization_type)},')
    if fixed.version_follows:
        writer.only_full(fixed.version_member)
    elif fixed.version:
        writer.both(fixed.version_member)
    if reported.tenant_id is not None:
        writer.both(f'"tenantId":{quoted(reported.tenant_id)},')
    if added:
        writer.of_wings(("traceId",), added)
    _write_report(writer, pending, fixed)
    _write_peak(writer, pending, fixed, held)
    made.held_mib = _write_close(writer, pending, held)
    if added:
        writer.of_wings((HEAP, "resources"), added)
    if drift:
        writer.odd(f'"drift":{dumps(drift)},')
    if signals:
        why = {"signals": [*signals], **added.get("outOfMemory", NO_MEMBERS)}
        writer.odd(f'"outOfMemory":{dumps(why)},')
    _write_death(writer, pending)
    if pending.measured is not None and not reported.report_came:
        writer.odd('"reportMissing":true,')
    if dropped:
        writer.odd(f'"dropped":{dropped},')
    if added:
        writer.of_wings(("growthLines", PROFILE), added)
    made.members = "".join(writer.full)
    if writer.is_ordinary and held and not _is_due(pending.invocation):
        made.short = "".join(writer.short)
    return made


def _write_metrics(
    made: InvocationRecord,
    pending: PendingRecord,
    fixed: _Fixed,
    held: int,
    signals: Sequence[str],
    drift: Mapping[str, object] | None,
) -> None:
    if pending.peak is not None:
        made.measured("PeakRSS", mib_text(pending.peak.estimate))
    if held:
        made.measured("CurrentRSS", mib_text(held))
    if pending.reported.max_memory_used_mib is not None:
        made.measured("MaxMemoryUsed", f"{pending.reported.max_memory_used_mib}")
    if drift:
        growth = drift.get("perInvocationKiB")
        if isinstance(growth, float):
            made.measured("MemoryDrift", dumps(growth))
        if drift.get("verdict") == GROWING:
            made.measured("MemoryGrowing", "1")
    if fixed.cpu_metric and pending.cpu_ns is not None:
        made.measured("CpuTime", f"{ms(pending.cpu_ns)}")
    if signals:
        made.measured("OutOfMemory", "1")


def _write_report(writer: _Writer, pending: PendingRecord, fixed: _Fixed) -> None:
    """What the platform says of the end and of time, which it bills rounded up to a ms; and CPU time beside that."""
    reported, cpu_ns = pending.reported, pending.cpu_ns
    duration_ms, billed_ms = reported.duration_ms, reported.billed_ms
    if reported.status == SUCCESS:
        writer.only_full('"status":"success",')
    elif reported.status is not None:
        writer.odd(f'"status":{quoted(reported.status)},')
    else:
        writer.is_ordinary = False
    if reported.error_type is not None:
        writer.odd(f'"errorType":{quoted(reported.error_type)},')
    if duration_ms:
        writer.both(f'"durationMs":{duration_ms},')
    else:
        writer.is_ordinary = False
    if cpu_ns is not None:
        cpu_ms = ms(cpu_ns)
        writer.both(f'"cpuMs":{rounded(cpu_ms)},')
        if duration_ms and fixed.memory_mib:
            writer.only_full(f'"cpuShare":{rounded(cpu_ms / duration_ms / fixed.cpu_share)},')
    if pending.init_cpu_ns is not None:
        writer.both(f'"initCpuMs":{ms(pending.init_cpu_ns)},')
    if reported.init_ms is not None:
        writer.odd(f'"initDurationMs":{reported.init_ms},')
    if reported.restore_ms is not None:
        writer.odd(f'"restoreDurationMs":{reported.restore_ms},')
    if billed_ms is not None and (duration_ms is None or billed_ms != -(-duration_ms // 1)):
        writer.both(f'"billedDurationMs":{billed_ms},')


def _write_peak(writer: _Writer, pending: PendingRecord, fixed: _Fixed, held: int) -> None:
    """The peak's bounds and how it is known, and what ended the window."""
    window, peak, closed_by = pending.window, pending.peak, pending.closed_by
    if peak is not None:
        writer.both(f'"method":"{peak.method}",')
        lower, upper = hundredths(peak.lower), hundredths(peak.upper)
        bounds = f'"peakLower":{decimal(lower)},' if lower else ""
        bounds += f'"peakUpper":{decimal(upper)},' if upper else ""
        if not lower or not upper:
            writer.odd(bounds)
        elif upper / 100 - lower / 100 <= SLACK_MIB:
            writer.only_full(bounds)
        else:
            writer.both(bounds)
        if peak.raced:
            writer.both('"raced":true,')
    if pending.shared_by:
        writer.odd(f'"sharedBy":{pending.shared_by},')
    if closed_by:
        writer.only_full(f'"closedBy":"{closed_by}",')
    is_exact = window is not None and window.opening.exact and closed_by == NEXT_REQUEST
    if is_exact:
        writer.both('"mode":"exact",')
    elif closed_by != NEXT_INVOKE:
        writer.is_ordinary = False
    _write_passage(writer, pending.answer, is_exact)
    _write_levels(writer, pending, fixed, held if is_exact else None)


def _write_passage(writer: _Writer, passed: Exchange | None, is_exact: bool) -> None:
    if passed is not None:
        sizes = "" if passed.request_bytes is None else f'"requestBytes":{passed.request_bytes},'
        sizes += "" if passed.response_bytes is None else f'"responseBytes":{passed.response_bytes},'
        if is_exact and (passed.request_bytes or 0) < SMALL_BYTES > (passed.response_bytes or 0):
            writer.only_full(sizes)
        else:
            writer.both(sizes)
        if passed.failed:
            writer.odd('"handlerError":true,')
    if is_exact and (passed is None or passed.request_bytes is None or passed.response_bytes is None):
        writer.is_ordinary = False


def _write_levels(writer: _Writer, pending: PendingRecord, fixed: _Fixed, held: int | None) -> None:
    """What the peak is compared with. `held`: what the function held at the end, KiB, in exact mode."""
    window = pending.window
    if window is not None and window.reset_delay_us:
        writer.only_full(f'"resetDelayUs":{window.reset_delay_us},')
    if pending.init_peak is not None:
        writer.odd(f'"initPeakRSS":{mib_text(pending.init_peak.estimate)},')
        if pending.init_peak.raced:
            writer.odd('"initRaced":true,')
    mark = hundredths(pending.high_water_mark)
    if mark:
        writer.only_full(f'"highWaterMark":{decimal(mark)},')
    if fixed.memory_mib:
        writer.both(f'"memoryLimit":{fixed.memory_mib},')
    if window is not None and pending.peak is not None and not pending.shared_by and window.opening.settled():
        baseline = mib_text(window.baseline)
        member = f'"baselineRSS":{baseline},'
        if held is not None and baseline == mib_text(held):
            writer.only_full(member)
        else:
            writer.both(member)
    elif held is not None:
        writer.is_ordinary = False


def _write_close(writer: _Writer, pending: PendingRecord, held: int) -> float:
    """Who held what when the window closed; the function `held` KiB. Returns what sidecar and extensions did, MiB."""
    memory = pending.measured.memory if pending.measured is not None else None
    window = pending.window if pending.peak is not None else None
    held_mib = 0.0
    if window is not None:
        function = hundredths(held)
        holders = f'"function":{decimal(function)},' if function else ""
        if memory is not None:
            sidecar = hundredths(memory.sidecar)
            held_mib = sidecar / 100
            if sidecar:
                holders += f'"truemem":{decimal(sidecar)},'
            if memory.extensions:
                each = [f"{quoted(name)}:{mib_text(kib)}" for name, kib in memory.extensions.items()]
                holders += f'"extensions":{{{",".join(each)}}},'
                held_mib += sum([mib(kib) for kib in memory.extensions.values()])
        writer.only_full(f'"holders":{{{holders[:-1]}}},')
    closing = window.closing if window is not None else ()
    if closing:
        processes = len(closing)
        threads = anon = file = shmem = 0
        for status in closing:
            threads += status.threads
            anon += status.anon
            file += status.file
            shmem += status.shmem
        counts = f'"processes":{processes},"threads":{threads},'
        of_file, shared = f'"file":{mib_text(file)}', hundredths(shmem)
        of_shmem = f',"shmem":{decimal(shared)}'
        writer.full.append(f'"rss":{{"anon":{mib_text(anon)},{of_file}{of_shmem}}},{counts}')
        writer.short.append(f'"rss":{{{of_file}{of_shmem if shared else ""}}},')
        if threads != processes:
            writer.short.append(counts if processes != 1 else f'"threads":{threads},')
        elif processes != 1:
            writer.short.append(f'"processes":{processes},')
    else:
        writer.is_ordinary = False
    usage = memory.environment if memory is not None else None
    if memory is not None and usage is not None:
        used = f',"used":{mib_text(usage.used)}' if memory.function_lived else ""
        peak = f',"peak":{mib_text(usage.peak)}' if usage.peak is not None else ""
        writer.only_full(f'"environment":{{"source":"{usage.source}"{used}{peak}}},')
    return held_mib


def _write_death(writer: _Writer, pending: PendingRecord) -> None:
    kills = pending.kills()[1] + pending.unplaced_kills()
    if kills:
        writer.odd(f'"environmentKills":{kills},')
    if pending.death is not None:
        ending, samples = pending.death.document(), pending.last_samples()
        if ending:
            writer.odd(f'"ending":{dumps(ending)},')
        if samples:
            writer.odd(f'"lastSamples":{dumps(samples)},')
