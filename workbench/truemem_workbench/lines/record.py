"""Parses the sidecar's lines: one EMF line in, one typed record out."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from typing import Any

from truemem.config import VCPU_MIB
from truemem.line_schema import FLAG, MEMBERS, METRICS, PROPERTIES, SHORT, TEXT, WHOLE

from ..support.untrusted_text import loads

COLUMNS = [name for name, kind in PROPERTIES["aggregate"].items() if name in MEMBERS and kind == [MEMBERS[name]]]
"""Members of `aggregate` that have the same names as on a line of one invocation."""

SAME = {
    *("_aws", "FunctionName", "environmentId", "functionVersion", "tenantId", "memoryLimit", "status", "method"),
    *("reportMissing", "recovered", "mayRepeat", "level", "timestamp", "schema"),
}
"""Members that are the same for all invocations of a line."""
OF_THE_LAST = MEMBERS.keys() - SAME
"""Members that are only about the last invocation."""


_VERSION = re.compile(r"\[([^]]*)\]")


def completed(line: Mapping[str, Any]) -> Mapping[str, Any]:
    """A short line with the members that follow from its others (docs/metrics.md, Short lines); 0 for `requestBytes`
    and `responseBytes`, which were small. Any other line as it is. Never raises."""
    if line.get("schema") != SHORT:
        return line
    environment, is_exact = line.get("environmentId"), line.get("mode") == "exact"
    version = _VERSION.search(environment) if isinstance(environment, str) else None
    peak, held = line.get("PeakRSS"), line.get("CurrentRSS")
    made: dict[str, Any] = {
        "status": "success",
        "closedBy": "next-request" if is_exact else "next-invoke",
        "peakLower": peak,
        "peakUpper": peak,
        "processes": 1,
        "threads": line.get("processes", 1),
        "level": "INFO",
        **({"functionVersion": version[1]} if version else {}),
        **({"baselineRSS": held, "requestBytes": 0, "responseBytes": 0} if is_exact else {}),
        **line,
    }
    rss, total = _object(line, "rss"), figure(held)
    file, shmem = figure(rss.get("file")), figure(rss.get("shmem", 0.0))
    if total is not None and file is not None and shmem is not None:
        made["rss"] = {"anon": round(max(0.0, total - file - shmem), 2), "file": file, "shmem": shmem}
    cpu, duration, size = (_number(line, name) for name in ("cpuMs", "durationMs", "memoryLimit"))
    if cpu is not None and duration and size:
        made["cpuShare"] = round(cpu / duration / (size / VCPU_MIB), 2)
    return made


def spread(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Split a line into one document per invocation, in their order, each with all its members."""
    document = completed(document)
    aggregate = document.get("aggregate")
    ids = aggregate.get("requestId") if isinstance(aggregate, dict) else None
    if not isinstance(aggregate, dict) or not isinstance(ids, str):
        return [document]
    requests = ids.split()
    common = {name: value for name, value in document.items() if name not in OF_THE_LAST}
    own = {name: value for name, value in document.items() if name not in ("aggregate", "raced")}
    places = aggregate.get("raced")
    raced = {place for place in places if isinstance(place, int)} if isinstance(places, list) else set()
    made: list[Mapping[str, Any]] = []
    for place, request in enumerate(requests):
        one = dict(own if place == len(requests) - 1 else common)
        one["requestId"] = request
        for name in METRICS:
            _put(one, name, document.get(name), place)
        for name in COLUMNS:
            _put(one, name, aggregate.get(name), place)
        if place in raced:
            one["raced"] = True
        _begin(one, aggregate.get("startMs"), place)
        made.append(one)
    return made


def _put(one: dict[str, Any], name: str, column: object, place: int) -> None:
    if isinstance(column, list):
        one.pop(name, None)
        if place < len(column):
            one[name] = column[place]


def _begin(one: dict[str, Any], starts: object, place: int) -> None:
    """Set the invocation's own time: `_aws.Timestamp`, or `timestamp` of a plain line, is that of the first one."""
    later = starts[place] if isinstance(starts, list) and place < len(starts) else None
    if not isinstance(later, int):
        return
    metadata, text = one.get("_aws"), one.get("timestamp")
    if isinstance(metadata, dict) and isinstance(begun := metadata.get("Timestamp"), int):
        one["_aws"] = {**metadata, "Timestamp": begun + later}
    elif metadata is None and isinstance(text, str):
        with suppress(ValueError, OverflowError):
            one["timestamp"] = (datetime.fromisoformat(text) + timedelta(milliseconds=later)).isoformat()


LARGEST = 3.4e38
"""Largest figure: that of 32 bits, in which `truemem report` and the page keep them."""
WIDE_MIB = 1.0
"""A peak is a figure if it is exact to this: 63 pages per thread before Linux 6.2, at both ends."""


@dataclass(frozen=True, kw_only=True)
class Record:
    """One invocation, as the sidecar measured it. Sizes in MiB. None: unknown, or false."""

    request_id: str | None = None
    """Request id of the platform. None on lines that belong to no invocation."""
    environment_id: str | None = None
    """The execution environment: its log stream."""
    invocation: int | None = None
    """Number in its environment, from 1."""
    cold_start: bool = False
    status: str | None = None
    """`success`, `error`, `failure` or `timeout`, from the platform."""
    error_type: str | None = None
    duration_ms: float | None = None
    billed_duration_ms: float | None = None
    """None where it is `duration_ms` rounded up."""
    init_duration_ms: float | None = None
    restore_duration_ms: float | None = None
    cpu_ms: float | None = None
    """CPU time of the function's processes, and of the children that they have waited for."""
    cpu_share: float | None = None
    """Part of the CPU that the memory size buys in `duration_ms`: 1 is all of it."""
    init_cpu_ms: float | None = None

    peak_rss: float | None = None
    """Best estimate of the peak: highest RSS of the function's processes in this invocation."""
    peak_lower: float | None = None
    """Lower bound of the peak."""
    peak_upper: float | None = None
    """Upper bound of the peak. None: only the memory size bounds it."""
    current_rss: float | None = None
    """RSS that the invocation left behind."""
    max_memory_used: float | None = None
    """Max Memory Used of REPORT: the environment's high-water mark, which never falls."""
    init_peak_rss: float | None = None
    """Peak of the init phase, only on an environment's first record."""
    high_water_mark: float | None = None
    """The sidecar's own mark since the environment's start."""
    memory_limit: float | None = None
    """The function's memory size."""

    method: str | None = None
    """How the peak is known: `vmhwm`, `vmhwm-threads`, `vmhwm-sum` or `sampled`."""
    closed_by: str | None = None
    """What ended the window: `next-request`, `next-invoke`, `runtime-done` or `shutdown`."""
    mode: str | None = None
    """`exact` if the runtime's requests passed through the sidecar, which saw both ends of the window."""
    raced: bool = False
    """True if the function may have run before the window was open: then the peak is an interval."""
    request_bytes: float | None = None
    response_bytes: float | None = None
    """Sizes of event and answer, only in exact mode. 0: both below 16 KiB."""
    reset_delay_us: float | None = None
    """Time from the event's arrival to the last watermark reset, in microseconds."""

    function_holds: float | None = None
    sidecar_holds: float | None = None
    extensions_hold: Mapping[str, float] = field(default_factory=dict)
    """RSS at the close, by the name of the other extension."""

    out_of_memory: bool = False
    environment_kills: int = 0
    """OOM kills of the kernel in this invocation that did not hit the function."""
    recovered: bool = False
    """True if a later process printed it, because the one that measured was killed."""
    report_missing: bool = False

    members: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The whole line, for members that have no field here."""

    @property
    def certain(self) -> bool:
        """True if `current_rss` is what this invocation left behind, and no other memory is in it."""
        return not self.raced and self.closed_by != "shutdown" and not self.recovered

    @property
    def bounds(self) -> tuple[float, float]:
        """Lower and upper bound of the peak. If nothing else bounds it, the memory size does."""
        known = self.peak_rss if self.peak_lower is None else self.peak_lower
        lower = 0.0 if known is None else known
        upper = self.memory_limit if self.peak_upper is None else self.peak_upper
        return lower, max(lower, math.inf if upper is None else upper)

    @property
    def wide(self) -> bool:
        """True if the peak is an interval that is wider than the error of the kernel's own figures."""
        lower, upper = self.bounds
        return self.raced or upper - lower > WIDE_MIB

    @property
    def begins(self) -> bool:
        """True if the function's processes are new, after a cold start or a reset."""
        return self.cold_start or self.members.get("suppressedInit") is True


def parse_line(text: str) -> Record | None:
    """Parse one line of the sidecar's stdout. None for other lines (a notice, a function's own EMF).

    Never raises: a member that is absent or of another type becomes None.
    """
    line = _document(text)
    return None if line is None else record_of(completed(line))


def _document(text: str) -> Mapping[str, Any] | None:
    try:
        line = loads(text, lenient=True)
    except ValueError:
        return None
    # `PeakRSS` is absent when nothing could be measured; `schema` is on every line of ours
    if not isinstance(line, dict) or not line.keys() & {"_aws", "timestamp"} or not line.keys() & {"PeakRSS", "schema"}:
        return None
    return line


def record_of(line: Mapping[str, Any]) -> Record:
    """Make the record from a line's JSON object."""
    holders = _object(line, "holders")
    return Record(
        **{name: read(line, member) for name, (member, read) in _FIELDS.items()},
        function_holds=_number(holders, "function"),
        sidecar_holds=_number(holders, "truemem"),
        extensions_hold=_numbers(_object(holders, "extensions")),
        out_of_memory=bool(_number(line, "OutOfMemory")) or isinstance(line.get("outOfMemory"), dict),
        environment_kills=_whole(line, "environmentKills") or 0,
        members=line,
    )


def parse_lines(lines: Iterable[str]) -> list[Record]:
    """Parse the records among these lines, in their order, one per invocation."""
    return [record for line in lines if (document := _document(line)) for record in map(record_of, spread(document))]


def _number(line: Mapping[str, Any], name: str) -> float | None:
    return figure(line.get(name))


def figure(value: object) -> float | None:
    """Read a JSON value as a number. None if it is none, or too large to be a figure."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= LARGEST:
        return None
    return float(value)


def _whole(line: Mapping[str, Any], name: str) -> int | None:
    value = _number(line, name)
    return None if value is None else int(value)


def _text(line: Mapping[str, Any], name: str) -> str | None:
    value = line.get(name)
    return value if isinstance(value, str) else None


def _object(line: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = line.get(name)
    return value if isinstance(value, dict) else {}


def _numbers(members: Mapping[str, Any]) -> dict[str, float]:
    return {name: value for name in members if (value := _number(members, name)) is not None}


def _flag(line: Mapping[str, Any], name: str) -> bool:
    return line.get(name) is True


def _field(member: str) -> str:
    """Convert a member's name to Python's style: `initPeakRSS` becomes `init_peak_rss`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", member).lower()


_OWN = {"out_of_memory", "environment_kills"}
"""Fields that `record_of` sets itself."""
_Reader = Callable[[Mapping[str, Any], str], Any]
_READERS: dict[str, _Reader] = {TEXT: _text, FLAG: _flag, WHOLE: _whole}
"""Reader of a member by its kind. All other kinds are numbers with a unit."""
_FIELDS: dict[str, tuple[str, _Reader]] = {
    _field(member): (member, _READERS.get(kind, _number))
    for member, kind in MEMBERS.items()
    if isinstance(kind, str) and _field(member) in {each.name for each in fields(Record)} - _OWN
}
"""Member and reader of each field that has a member of its own."""
