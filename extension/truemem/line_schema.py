"""The printed line: each member with its kind and unit, in the line's order. The one home of the line.

From it come what the sidecar prints, accepts from its journal and refuses as a user's own name; how the workbench reads
a line; and the tables in docs/metrics.md (`make line-table`). The text below a member is its meaning there; where two
members share one text, it stands below the second. The sidecar does not carry the texts.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SCHEMA = 1
"""Version of this table: the member `schema`."""

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

ANY = ""
"""In an object: whatever name there is."""


class Metrics:
    """What CloudWatch makes metrics of. A kind is the unit of a number, `{...}` an object, `[...]` a list."""

    PeakRSS = MIB
    """highest RSS of the function inside this invocation: the best estimate between the two bounds"""
    CurrentRSS = MIB
    """its RSS when the window closed: what the invocation left behind. Where the next record has no `baselineRSS`, it
    may hold some of that invocation's memory; where the function was gone already, it is the last sample, and absent if
    there was none"""
    MaxMemoryUsed = MIB
    """what REPORT says: the environment's high-water mark, if the report came"""
    MemoryDrift = KIB
    """growth of the environment's memory per invocation: with each `drift` ([below](#drift))"""
    MemoryGrowing = WHOLE
    """1 where the verdict of `drift` is `growing`, and only there"""
    OutOfMemory = WHOLE
    """1 where the invocation ran out of memory, and only there: its sum is the number of such invocations"""


class Properties:
    """All other members. The metrics are printed after the second of them; a line of many invocations has `aggregate`
    and its metrics last."""

    _aws = {
        "Timestamp": EPOCH_MS,
        "CloudWatchMetrics": [
            {"Namespace": TEXT, "Dimensions": [[TEXT]], "Metrics": [{"Name": TEXT, "Unit": TEXT}]},
        ],
    }
    FunctionName = TEXT
    """EMF's own"""
    requestId = TEXT
    """which invocation"""
    environmentId = TEXT
    """which execution environment: its log stream, or a random id where telemetry does not say"""
    invocation = WHOLE
    """number in this environment, from 1; it goes on after a reset"""
    coldStart = FLAG
    """the environment's first"""
    suppressedInit = FLAG
    """the init phase was done within this invocation: after a reset, or after a first init that failed"""
    initializationType = TEXT
    """on the environment's first, where it is not `on-demand`: `provisioned-concurrency`, `snap-start`"""
    functionVersion = TEXT
    """version of the function"""
    tenantId = TEXT
    """under tenant isolation"""
    traceId = TEXT
    """id of the invocation's trace, where it is sampled; only where records are also [sent
    elsewhere](outputs.md#from-a-peak-to-its-trace), and not on a line of many invocations"""
    status = TEXT
    errorType = TEXT
    """from the platform: `success`, `error`, `failure`, `timeout`, and why. `Extension.Crash` also where the platform
    ended the environment with a failure, without a report, and the kernel had killed an extension in this
    invocation"""
    durationMs = MS
    """from the platform, as in REPORT"""
    method = TEXT
    """how the peak is known: `vmhwm`, `vmhwm-threads`, `vmhwm-sum`, `vmhwm-segments` or `sampled` ([how it
    measures](how-it-measures.md))"""
    peakLower = MIB
    peakUpper = MIB
    """the true peak lies between them; `PeakRSS` is the best estimate, and where nothing was in doubt all three are the
    same. Without `peakUpper` only the memory size bounds it: it may have been anything from `peakLower` to that.
    Without `peakLower` it is not bounded from below (Managed Instances). They are far apart where `raced` says so;
    where several processes ran, which may have been largest at different times; where a child ended before it was
    read; and where [threads](how-it-measures.md#threads) may hide some (`vmhwm-threads`)"""
    raced = FLAG
    """the peak is an interval, not a figure: in the default mode the function often has its event before the sidecar
    has its own, so that it may have run before the window opened. What it may have allocated by then makes the
    interval; or what it allocated just while the sampler was resetting its watermark. Not on a record whose bounds are
    nearer than the kernel's own figures are exact; in exact mode there is no race"""
    sharedBy = WHOLE
    """on Managed Instances: most requests that ran at once while this one did, itself included. All of them share one
    memory, and `PeakRSS` is that of all ([how it measures](how-it-measures.md#managed-instances))"""
    closedBy = TEXT
    """what ended the window: `next-request` (exact mode: the runtime asked for its next event), `next-invoke` (the
    sidecar got its next event) or `shutdown`"""
    mode = TEXT
    """`exact`: the runtime talked to its API through the sidecar, which saw this invocation begin and end: both ends of
    the window are exact. Absent in the default mode, and where the sidecar did not see both"""
    requestBytes = BYTES
    responseBytes = BYTES
    """in exact mode: the size of the event, and of what the runtime answered"""
    handlerError = FLAG
    """in exact mode: the runtime answered with an error, which the platform may call a success"""
    resetDelayUs = US
    """from INVOKE's arrival to the reset that opened the window"""
    initPeakRSS = MIB
    """peak of the init phase, on the first record"""
    highWaterMark = MIB
    """our own mark: highest `PeakRSS` since the environment started, init phase included; it goes on after a reset"""
    memoryLimit = MIB
    """the function's memory size"""
    baselineRSS = MIB
    """RSS when the window opened; absent where the function may have run before"""
    holders = {"function": MIB, "truemem": MIB, "extensions": {ANY: MIB}}
    """who holds what at the close: `function`, `truemem` (this sidecar), `extensions` by name"""
    rss = {"anon": MIB, "file": MIB, "shmem": MIB}
    """CurrentRSS by kind: `anon`, `file`, `shmem`"""
    processes = WHOLE
    threads = WHOLE
    """of the function, at the close"""
    environment = {"source": TEXT, "used": MIB, "peak": MIB}
    """the whole environment at the close: `source` (`cgroup2`, `cgroup1`, `meminfo`), `used`, and `peak` where the
    kernel keeps one"""
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
        "gc": [WHOLE],
        "threads": WHOLE,
        "source": TEXT,
    }
    """what the function's own runtime says of its heap when the invocation ended ([heap](heap.md)). With `runtime`
    (`java`, `nodejs`, `go`, `dotnet`): `used` by objects, garbage included; `live`, used just after the last major
    collection; `committed`, taken from the system; `limit` of the heap; `external`, memory outside of the heap that
    objects own; `metaspace`; `collections`, major ones since the start; `gcMs`, time of all collections. Without it,
    of Python, malloc's own figures: `inUse`, `held` (freed, and kept by the allocator), `mapped` (in use, each block
    with a mapping of its own), MiB; `blocks`, the number of Python's own small blocks in use, which are not malloc's;
    `gc`, Python's counts of each generation; `threads`, Python's; `source`, only where it is `mallinfo`, whose figures
    begin at 0 again every 4 GiB"""
    resources = {
        "tmp": {"used": MIB, "size": MIB, "verdict": TEXT, "perInvocationKiB": KIB, "invocationsLeft": WHOLE},
        "descriptors": {
            "open": WHOLE,
            "limit": WHOLE,
            "holders": {ANY: WHOLE},
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
    """what else may run out ([resources](resources.md)), at the close: each only above a tenth of its limit, and on
    every 16th line where it grows. `tmp`: the disk below /tmp. `descriptors`: `open` in the function's process that is
    nearest to its `limit`; `holders`, those of all processes of each, above a tenth of the limit. `threads` of the
    function, and its `processes`, among them `zombies`, which have ended and were not waited for; threads and zombies
    together have one `limit`. `verdict` as in [drift](#drift), on every 16th line"""
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
    """leak or not, so far ([below](#drift)); on about every 16th line of an environment and its last, from the 32nd
    invocation"""
    outOfMemory = {"signals": [TEXT]}
    """`{"signals": [...]}`: why we say so ([below](#out-of-memory))"""
    environmentKills = WHOLE
    """OOM kills that the kernel counted in this invocation and that are not the function's: of an extension, of what
    cannot have been a process of the function, or, on the first one, in the init phase. They do not make it
    `OutOfMemory`"""
    ending = {
        "level": MIB,
        "growthPerSecond": MIB_PER_S,
        "holder": {"process": TEXT, "pid": WHOLE, "extension": TEXT, "rss": MIB},
        "lastSampleTime": EPOCH_MS,
    }
    """of an invocation that died: `level`, what function, sidecar and extensions held at the last sample;
    `growthPerSecond`, MiB per second over the last 100 ms before it, or over the last second if that is more; `holder`,
    the process (name, `pid`, `rss`) or `extension` that held most. `recovered` has `lastSampleTime` as well, epoch ms
    of that sample: the kill came up to a second later"""
    lastSamples = [[MS, MIB]]
    """of an invocation that died: its curve as pairs of ms before the end (`recovered`: before its last sample) and MiB
    of the function, oldest first; at most 32, the last 8 that there were and ever fewer from before; fewer where the
    line would exceed 2 KiB"""
    reportMissing = FLAG
    """no `platform.report` came: no mark, no status"""
    dropped = WHOLE
    """what was lost since the line before: telemetry, readings, lines"""
    recovered = FLAG
    """printed by the process after the one that measured it, which was killed. The peak of the invocation that ran then
    is `sampled`"""
    mayRepeat = FLAG
    """with `recovered`: the killed process was about to print this line, and may have. It has no `_aws`, so that
    CloudWatch counts nothing twice"""
    level = TEXT
    """`INFO`; under a log level of WARN or above that level"""
    schema = WHOLE
    """version of this table: 1"""
    aggregate = {
        "invocations": WHOLE,
        "peakMax": MIB,
        "peakRequestId": TEXT,
        "requestId": TEXT,
        "invocation": [WHOLE],
        "startMs": [MS],
        "durationMs": [MS],
        "peakUpper": [MIB],
        "raced": [WHOLE],
    }
    """on a line of [many invocations](scale.md#many-invocations-in-one-line), whose metrics are arrays: `invocations`,
    how many; `peakMax`, `peakRequestId`, the highest peak and whose it is; then of each, in order: `requestId`, all in
    one text; `invocation`, `startMs` (after `_aws.Timestamp`, which is the first one's), `durationMs`, `peakUpper`;
    `raced`, the places, from 0, of those that are. All other members are the last invocation's"""
    timestamp = TEXT
    """under a log level of WARN or above: the time, so that Lambda's JSON log filter lets the line through"""


def _kinds(table: type) -> dict[str, Any]:
    return {name: kind for name, kind in vars(table).items() if not name.startswith("__")}


METRICS: dict[str, Any] = _kinds(Metrics)
"""The kind of each metric, by name."""
PROPERTIES: dict[str, Any] = _kinds(Properties)
"""The same of each other member."""
MEMBERS: dict[str, Any] = {**METRICS, **PROPERTIES}
"""The same of every member that a line can have: what a user's own dimensions and properties may not be called."""

CLOUDWATCH = {MIB: "Megabytes", KIB: "Kilobytes", WHOLE: "Count"}
"""CloudWatch's unit for a metric of this kind; its `Megabytes` are MiB, as in REPORT."""
