"""The printed line: each member with its kind and unit, in the line's order. The one home of the line.

From it come what the sidecar prints, accepts from its journal and refuses as a user's own name; how the workbench reads
a line; and the tables in docs/metrics.md (`make line-table`). The text below a member is its meaning there; where two
members share one text, it stands below the second. The sidecar does not carry the texts.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

FULL: Final = 1
SHORT: Final = 2
"""Forms of a line: the member `schema`. A short one leaves out what follows from its other members (`Properties`)."""
SCHEMA = SHORT
"""The newest form."""
SMALL_BYTES: Final = 16 * 1024
"""Event and answer are not on a short line if both have fewer bytes: they seldom explain what memory does."""

TEXT = "text"
FLAG = "true"
"""True, or absent."""
WHOLE = "number"
MIB = "MiB"
KIB = "KiB"
BYTES = "bytes"
MS = "ms"
US = "µs"
EPOCH_MS = "epoch ms"
MIB_PER_S = "MiB/s"

ANY_NAME = ""
"""In an object: whatever name there is."""


class Metrics:
    """What CloudWatch makes metrics of. A kind is the unit of a number, `{...}` an object, `[...]` a list."""

    PeakRSS = MIB
    """highest RSS of the function in this invocation: the best estimate between the two bounds"""
    CurrentRSS = MIB
    """its RSS when the window closed: what the invocation left behind. If the next record has no `baselineRSS`, it may
    include memory of that invocation. If the processes had ended, it is the last sample, or absent"""
    MaxMemoryUsed = MIB
    """what REPORT says: the environment's high-water mark"""
    MemoryDrift = KIB
    """growth of the environment's memory per invocation: with each `drift` ([below](#drift))"""
    MemoryGrowing = WHOLE
    """1 where the verdict of `drift` is `growing`, else absent"""
    CpuTime = MS
    """`cpuMs`, where [`TRUEMEM_CPU_METRIC`](configuration.md) asks for it"""
    OutOfMemory = WHOLE
    """1 where the invocation ran out of memory, else absent: the sum counts them"""


class Properties:
    """All other members. The metrics are printed after the second of them; a line of many invocations has `aggregate`
    and its metrics last. "Short:" says what it means that a short line lacks this member."""

    _aws = {
        "Timestamp": EPOCH_MS,
        "CloudWatchMetrics": [
            {"Namespace": TEXT, "Dimensions": [[TEXT]], "Metrics": [{"Name": TEXT, "Unit": TEXT}]},
        ],
    }
    FunctionName = TEXT
    """EMF's own"""
    requestId = TEXT
    """of the invocation"""
    environmentId = TEXT
    """its log stream, or a random id without telemetry"""
    invocation = WHOLE
    """number in this environment, from 1; continues after a reset"""
    coldStart = FLAG
    """the environment's first"""
    suppressedInit = FLAG
    """init ran within this invocation: after a reset or a failed first init"""
    initializationType = TEXT
    """on the environment's first, unless `on-demand`: `provisioned-concurrency`, `snap-start`"""
    functionVersion = TEXT
    """the function's. Short: in the brackets of `environmentId`"""
    tenantId = TEXT
    """under tenant isolation"""
    traceId = TEXT
    """of a sampled trace, if records are [sent elsewhere](outputs.md)"""
    status = TEXT
    errorType = TEXT
    """from the platform: `success`, `error`, `failure`, `timeout`, and why. `Extension.Crash` also without a report, if
    the kernel killed an extension. Short: `success`"""
    durationMs = MS
    """from the platform, as in REPORT"""
    cpuMs = MS
    """[CPU time](how-it-measures.md#cpu-time) of the function"""
    cpuShare = WHOLE
    """share of the CPU that the memory size buys: `cpuMs` / `durationMs` / (`memoryLimit` / 1769). Short: not said"""
    initCpuMs = MS
    """`cpuMs` of the init phase, on the first record"""
    initDurationMs = MS
    restoreDurationMs = MS
    """from the platform: the init phase, or the restore, before this invocation"""
    billedDurationMs = MS
    """from the platform, unless it is `durationMs` rounded up"""
    method = TEXT
    """[how the peak is known](how-it-measures.md): `vmhwm`, `vmhwm-threads`, `vmhwm-sum`, `vmhwm-segments` or
    `sampled`"""
    peakLower = MIB
    peakUpper = MIB
    """the true peak is between them. Without `peakUpper` only the memory size bounds it; without `peakLower` (Managed
    Instances) nothing does from below. Short: `PeakRSS`, to 0.25 MiB"""
    raced = FLAG
    """default mode: the peak is an interval, because the function may have run before the window opened or during the
    reset"""
    sharedBy = WHOLE
    """[Managed Instances](how-it-measures.md#managed-instances): how many requests ran at once, this one included.
    `PeakRSS` is that of all"""
    closedBy = TEXT
    """what ended the window: `next-request` (exact mode), `next-invoke` (default mode) or `shutdown`. Short: by the
    mode"""
    mode = TEXT
    """`exact`: the sidecar saw this invocation begin and end"""
    requestBytes = BYTES
    responseBytes = BYTES
    """exact mode: size of event and answer. Short: both below 16 KiB"""
    handlerError = FLAG
    """exact mode: the runtime answered with an error, which the platform may call a success"""
    resetDelayUs = US
    """from INVOKE's arrival to the reset that opened the window. Short: not said"""
    initPeakRSS = MIB
    """peak of the init phase, on the first record"""
    initRaced = FLAG
    """default mode: `initPeakRSS` may contain memory of the first invocation"""
    highWaterMark = MIB
    """highest `PeakRSS` of the environment, init included; continues after a reset. Short: not said"""
    memoryLimit = MIB
    """the function's memory size"""
    baselineRSS = MIB
    """RSS when the window opened; absent if the function may have run before. Short, in exact mode: `CurrentRSS`"""
    holders = {"function": MIB, "truemem": MIB, "extensions": {ANY_NAME: MIB}}
    """memory at the close: `function`, `truemem` (this sidecar), `extensions` by name. Short: not said"""
    rss = {"anon": MIB, "file": MIB, "shmem": MIB}
    """CurrentRSS by kind: `anon`, `file`, `shmem`. Short: without `shmem` it is 0; `anon` is the rest"""
    processes = WHOLE
    threads = WHOLE
    """of the function, at the close. Short: one process, and one thread in each"""
    environment = {"source": TEXT, "used": MIB, "peak": MIB}
    """the whole environment at the close: `source` (`cgroup2`, `cgroup1`, `meminfo`), `used` unless the function had
    ended, `peak` if the kernel has it. Short: not said"""
    heap = {
        "runtime": TEXT,
        "used": MIB,
        "live": MIB,
        "committed": MIB,
        "limit": MIB,
        "external": MIB,
        "metaspace": MIB,
        "collections": WHOLE,
        "gcMs": MS,
        "inUse": MIB,
        "held": MIB,
        "mapped": MIB,
        "blocks": WHOLE,
        "small": MIB,
        "gc": [WHOLE],
        "threads": WHOLE,
        "source": TEXT,
        "kept": MIB,
        "garbage": MIB,
        "room": WHOLE,
    }
    """the runtime's heap at the invocation's end. With `runtime` (`java`, `nodejs`, `go`, `dotnet`, `ruby`, `php`) it
    has [these names](heap.md#names). Python: malloc's `inUse`, `held` (freed, kept by the allocator), `mapped` (in use,
    blocks with a mapping of their own); `blocks` and `small`, number and MiB of Python's own small blocks; `gc`, counts
    of each generation; `threads`. `source`: `mallinfo` if figures restart at 0 every 4 GiB, `outside` if [read without
    a probe](heap.md#without-a-probe). Short: no `gc`, `threads`. After some invocations also [what is
    kept](heap.md#settled-readings): `kept`, `garbage`, `room`"""
    resources = {
        "tmp": {"used": MIB, "size": MIB, "verdict": TEXT, "perInvocationKiB": KIB, "invocationsLeft": WHOLE},
        "descriptors": {
            "open": WHOLE,
            "limit": WHOLE,
            "holders": {ANY_NAME: WHOLE},
            "verdict": TEXT,
            "perInvocation": WHOLE,
            "invocationsLeft": WHOLE,
        },
        "threads": {
            "count": WHOLE,
            "limit": WHOLE,
            "verdict": TEXT,
            "perInvocation": WHOLE,
            "invocationsLeft": WHOLE,
        },
        "processes": {
            "count": WHOLE,
            "zombies": WHOLE,
            "limit": WHOLE,
            "verdict": TEXT,
            "perInvocation": WHOLE,
            "invocationsLeft": WHOLE,
        },
    }
    """[what else may run out](resources.md#read-it), at the close: each above a tenth of its limit, and on every 16th
    line each that grows"""
    drift = {
        "verdict": TEXT,
        "perInvocationKiB": KIB,
        "low": KIB,
        "high": KIB,
        "perMinuteKiB": KIB,
        "invocationsLeft": WHOLE,
        "confidence": WHOLE,
        "since": WHOLE,
        "grownKiB": KIB,
        "ended": TEXT,
    }
    """leak or not, so far ([below](#drift)): about every 16th line and the last, from the 32nd invocation"""
    outOfMemory = {
        "signals": [TEXT],
        "running": {"file": TEXT, "line": WHOLE, "function": TEXT, "level": MIB, "stack": [TEXT]},
    }
    """`signals`: the [reasons](#out-of-memory); `running`: [the line of code that
    ran](heap.md#the-line-that-ran-when-memory-ran-out) when the environment held `level`, and the `stack` that led
    there"""
    environmentKills = WHOLE
    """OOM kills that are no [`OutOfMemory`](#out-of-memory): of an extension, in the init phase, between two
    invocations, or of a child that was left running"""
    ending = {
        "level": MIB,
        "growthPerSecond": MIB_PER_S,
        "holder": {"process": TEXT, "pid": WHOLE, "extension": TEXT, "rss": MIB},
        "lastSampleTime": EPOCH_MS,
    }
    """of an invocation that died: `level` of function, sidecar and extensions at the last sample; `growthPerSecond`,
    MiB per second over the last 100 ms or the last second, whichever is more; `holder`, the process (name, `pid`,
    `rss`) or `extension` that held most. If `recovered`, also `lastSampleTime`, epoch ms: the kill came up to a second
    later"""
    lastSamples = [[MS, MIB]]
    """of an invocation that died: its curve, as pairs of ms before the end (`recovered`: before its last sample) and
    MiB, oldest first"""
    reportMissing = FLAG
    """no `platform.report` came: no mark, no status"""
    dropped = WHOLE
    """lost since the line before: telemetry, readings, lines"""
    growthLines = [
        {
            "file": TEXT,
            "line": WHOLE,
            "column": WHOLE,
            "function": TEXT,
            "class": TEXT,
            "perInvocationKiB": KIB,
            "perInvocationObjects": WHOLE,
            "share": WHOLE,
            "stack": [TEXT],
        }
    ]
    """the [lines of code](heap.md#lines) that keep what grows, most first, once in an environment: `perInvocationKiB`,
    `share` of all that grows, `stack` of calls (outermost first), `column` of minified code. Empty: no line keeps
    anything. [Java](heap.md#classes-that-grow), and Python without a known line, have `class` and
    `perInvocationObjects`"""
    growthProfile = {
        "runtime": TEXT,
        "invocations": WHOLE,
        "looks": WHOLE,
        "cpuPercent": WHOLE,
        "memoryKiB": KIB,
        "lookMs": MS,
        "gaveUp": TEXT,
        "restKiB": KIB,
        "libraries": [TEXT],
    }
    """its cost: `invocations` profiled, `looks` and their time `lookMs`, `cpuPercent` more CPU time, `memoryKiB`.
    `gaveUp`: why it ended early. `restKiB`: growth per invocation that no line explains; the function's native
    `libraries`"""
    recovered = FLAG
    """printed by the next process, because the sidecar was killed. The invocation that ran is `sampled`"""
    mayRepeat = FLAG
    """with `recovered`: this line may be printed twice. It has no `_aws`: CloudWatch does not count it"""
    level = TEXT
    """`INFO`, or the function's log level if that is WARN or above. Short: `INFO`"""
    schema = WHOLE
    """2 on a [short line](#short-lines), else 1"""
    aggregate = {
        "invocations": WHOLE,
        "peakMax": MIB,
        "peakRequestId": TEXT,
        "requestId": TEXT,
        "invocation": [WHOLE],
        "startMs": [MS],
        "durationMs": [MS],
        "cpuMs": [MS],
        "peakUpper": [MIB],
        "raced": [WHOLE],
    }
    """on a line of [many invocations](report.md#many-invocations-in-one-line), whose metrics are arrays: their number
    `invocations`; the highest peak `peakMax` and its `peakRequestId`; of each, in order, `requestId` (all in one text),
    `invocation`, `startMs` (after `_aws.Timestamp`), `durationMs`, `cpuMs`, `peakUpper`; places from 0 of the `raced`.
    Other members are the last invocation's"""
    timestamp = TEXT
    """under a log level of WARN or above: the time, so that Lambda's JSON log filter passes the line"""


def _kinds(table: type) -> dict[str, Any]:
    return {name: kind for name, kind in vars(table).items() if not name.startswith("__")}


METRICS: dict[str, Any] = _kinds(Metrics)
"""The kind of each metric, by name."""
PROPERTIES: dict[str, Any] = _kinds(Properties)
"""The same of each other member."""
MEMBERS: dict[str, Any] = {**METRICS, **PROPERTIES}
"""The same of every member that a line can have: what a user's own dimensions and properties may not be called."""

CLOUDWATCH = {MIB: "Megabytes", KIB: "Kilobytes", WHOLE: "Count", MS: "Milliseconds"}
"""CloudWatch's unit for a metric of this kind; its `Megabytes` are MiB, as in REPORT."""
