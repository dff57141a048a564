"""The sidecar's lines, read back on the host: one EMF line in, one typed record out."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from truemem.line_schema import FLAG, MEMBERS, TEXT, WHOLE

from ..support.untrusted_text import loads
from .batch_line import spread

LARGEST = 3.4e38
"""No figure is above: that of 32 bits, in which `truemem report` and the page keep them."""
WIDE_MIB = 1.0
"""What a peak may be inexact by and still be a figure: 63 pages a thread before Linux 6.2, of both ends."""


@dataclass(frozen=True, kw_only=True)
class Record:
    """One invocation, as the sidecar saw it. Sizes in MiB. None: unknown, or not so (the line leaves it out)."""

    request_id: str | None = None
    """The platform's request id; None on lines that belong to no invocation."""
    environment_id: str | None = None
    """The execution environment: its log stream."""
    invocation: int | None = None
    """Number in its environment, from 1."""
    cold_start: bool = False
    status: str | None = None
    """`success`, `error`, `failure` or `timeout`, from the platform."""
    error_type: str | None = None
    duration_ms: float | None = None

    peak_rss: float | None = None
    """Highest resident set of the function's processes in this invocation: the best estimate."""
    peak_lower: float | None = None
    """Truth is not below this."""
    peak_upper: float | None = None
    """Truth is not above this. None: not bounded, but by the memory size."""
    current_rss: float | None = None
    """What the invocation left behind."""
    baseline_rss: float | None = None
    """What it found."""
    max_memory_used: float | None = None
    """REPORT's figure: the environment's high-water mark, which never falls."""
    init_peak_rss: float | None = None
    """Peak of the init phase; on an environment's first record only."""
    high_water_mark: float | None = None
    """The sidecar's own mark since the environment's start."""
    memory_limit: float | None = None
    """The function's memory size."""

    method: str | None = None
    """How the peak is known: `vmhwm`, `vmhwm-sum` or `sampled`."""
    closed_by: str | None = None
    """What ended the window: `next-request`, `next-invoke`, `runtime-done` or `shutdown`."""
    mode: str | None = None
    """`exact`: the sidecar stood between the runtime and its API, and saw both ends of the window."""
    raced: bool = False
    """The function may have run before the window was open: the peak is an interval, not a figure."""
    request_bytes: float | None = None
    response_bytes: float | None = None
    """Sizes of event and answer; in exact mode only."""
    reset_delay_us: float | None = None
    """From the event's arrival to the last watermark reset, microseconds."""

    function_holds: float | None = None
    sidecar_holds: float | None = None
    extensions_hold: Mapping[str, float] = field(default_factory=dict)
    """Resident set at the close, by other extension."""

    out_of_memory: bool = False
    environment_kills: int = 0
    """OOM kills by the kernel in this invocation that are not the function's."""
    recovered: bool = False
    """Printed by a later process of the same environment: the one that measured it was killed."""
    report_missing: bool = False

    members: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The whole line, for members that have no field here."""

    @property
    def certain(self) -> bool:
        """Is `current_rss` what the invocation left behind, and not another's, or that of a dying process?"""
        return not self.raced and self.closed_by != "shutdown" and not self.recovered

    @property
    def bounds(self) -> tuple[float, float]:
        """The peak is between them. What bounds it from above if nothing else does is the memory size."""
        known = self.peak_rss if self.peak_lower is None else self.peak_lower
        lower = 0.0 if known is None else known
        upper = self.memory_limit if self.peak_upper is None else self.peak_upper
        return lower, max(lower, math.inf if upper is None else upper)

    @property
    def wide(self) -> bool:
        """Is the peak an interval that is wider than what the kernel's own figures are inexact by?"""
        lower, upper = self.bounds
        return self.raced or upper - lower > WIDE_MIB

    @property
    def begins(self) -> bool:
        """Are the function's processes new: a cold start, or a reset?"""
        return self.cold_start or self.members.get("suppressedInit") is True


def parse_line(text: str) -> Record | None:
    """One line of the sidecar's stdout as a record; None for anything else (a notice, a function's own EMF).

    Lenient: a member that is absent or of another type is None. Never raises.
    """
    line = _document(text)
    return None if line is None else record_of(line)


def _document(text: str) -> Mapping[str, Any] | None:
    try:
        line = loads(text, lenient=True)
    except ValueError:
        return None
    # `PeakRSS` is absent when nothing could be measured; `schema` is on every line of ours
    if not isinstance(line, dict) or "_aws" not in line or not line.keys() & {"PeakRSS", "schema"}:
        return None
    return line


def record_of(line: Mapping[str, Any]) -> Record:
    """The record in a line's JSON object."""
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
    """The records among `lines`, in their order, one for each invocation."""
    return [record for line in lines if (document := _document(line)) for record in map(record_of, spread(document))]


def _number(line: Mapping[str, Any], name: str) -> float | None:
    return figure(line.get(name))


def figure(value: object) -> float | None:
    """A JSON value as a number; None if it is none, or so large that it is no figure."""
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
    """A member's name as Python has it: `initPeakRSS` is `init_peak_rss`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", member).lower()


_OWN = {"out_of_memory", "environment_kills"}
"""Fields that `record_of` works out itself."""
_Reader = Callable[[Mapping[str, Any], str], Any]
_READERS: dict[str, _Reader] = {TEXT: _text, FLAG: _flag, WHOLE: _whole}
"""By a member's kind; all other kinds are numbers with a unit."""
_FIELDS: dict[str, tuple[str, _Reader]] = {
    _field(member): (member, _READERS.get(kind, _number))
    for member, kind in MEMBERS.items()
    if isinstance(kind, str) and _field(member) in {each.name for each in fields(Record)} - _OWN
}
"""Fields that have a member of their own: how it is called, and read."""
