"""Decodes the sidecar's lines, each into a typed `Line`: the one decoder of what the sidecar prints.

`read` gives the lines of files one at a time: for the page, and for logs of ordinary size. `truemem report` makes
columns of very many of them (`reader`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType
from truemem.line_schema import FULL, SCHEMA

from .document import LARGEST, spread
from .log_files import events
from .wrapped import NAMES, Event, Found, Unread, compact, inside, may_be_line, reason

WIDE_MIB = 1.0
"""An interval that is wider than this is no error of the kernel's own figures."""
ABSENT = Raw()
"""A member of any type, which is not there."""
NO_MEMBERS: Mapping[str, Any] = MappingProxyType({})


def _member_of(field: str) -> str:
    """The member of the line that a field is read from: `initPeakRSS` from `init_peak_rss`."""
    first, *rest = field.split("_")
    return _OTHER_NAMES.get(field) or first + "".join("RSS" if each == "rss" else each.capitalize() for each in rest)


_OTHER_NAMES = {
    "metadata": "_aws",
    "function": "FunctionName",
    "peak_rss": "PeakRSS",
    "current_rss": "CurrentRSS",
    "max_memory_used": "MaxMemoryUsed",
    "oom_count": "OutOfMemory",
    "oom_signals": "outOfMemory",
    "environment": "environmentId",
    "opening_rss": "baselineRSS",
    "environment_memory": "environment",
}
Figure = Annotated[float, Meta(ge=-LARGEST, le=LARGEST)]
"""Sizes in MiB, times in ms."""
Count = Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)]


class Metadata(Struct, frozen=True, gc=False, omit_defaults=True, rename={"time_ms": "Timestamp"}):
    time_ms: Figure | None = None


class Holders(Struct, frozen=True, gc=False, omit_defaults=True, rename={"sidecar": "truemem"}):
    function: Figure | None = None
    sidecar: Figure | None = None
    extensions: dict[str, Figure] | None = None


class EnvironmentMemory(Struct, frozen=True, gc=False, omit_defaults=True):
    used: Figure | None = None


class Rss(Struct, frozen=True, gc=False, omit_defaults=True):
    file: Figure | None = None


class Heap(Struct, frozen=True, gc=False, omit_defaults=True, rename="camel"):
    """What a line says of its runtime's heap, as far as it is judged by. docs/heap.md has the meanings. MiB."""

    in_use: Figure | None = None
    held: Figure | None = None
    mapped: Figure | None = None
    blocks: Figure | None = None
    small: Figure | None = None
    runtime: str | None = None
    used: Figure | None = None
    committed: Figure | None = None
    live: Figure | None = None
    limit: Figure | None = None
    external: Figure | None = None
    metaspace: Figure | None = None
    collections: Figure | None = None
    gc_ms: Figure | None = None
    kept: Figure | None = None
    garbage: Figure | None = None
    room: Figure | None = None
    source: str | None = None


class Line(Struct, gc=False, kw_only=True, omit_defaults=True, rename=_member_of):
    """What the sidecar's line says of one invocation. docs/metrics.md has the meanings. Sizes in MiB; None: not said.

    In the line's order, in which msgspec finds the members at once. Other JSON has no such schema, or no environment.
    Of a short line only what it spells out is there, unless it was read by `lines_in`.
    """

    metadata: Metadata = Metadata()
    function: str | None = None
    """Name of the function."""
    peak_rss: Figure | None = None
    current_rss: Figure | None = None
    max_memory_used: Figure | None = None
    oom_count: Figure | None = None
    request_id: str | None = None
    environment: str
    """Id of the environment. Two functions never have the same one."""
    invocation: Count | None = None
    cold_start: bool = False
    suppressed_init: bool = False
    function_version: str | None = None
    status: str | None = None
    error_type: str | None = None
    duration_ms: Figure | None = None
    cpu_ms: Figure | None = None
    billed_duration_ms: Figure | None = None
    method: str | None = None
    peak_lower: Figure | None = None
    peak_upper: Figure | None = None
    raced: bool = False
    shared_by: Figure | None = None
    closed_by: str | None = None
    mode: str | None = None
    request_bytes: Figure | None = None
    response_bytes: Figure | None = None
    init_peak_rss: Figure | None = None
    memory_limit: Figure | None = None
    opening_rss: Figure | None = None
    """RSS when the window opened."""
    holders: Holders = Holders()
    rss: Rss = Rss()
    processes: Figure | None = None
    threads: Figure | None = None
    environment_memory: EnvironmentMemory = EnvironmentMemory()
    heap: Heap | None = None
    resources: Raw = ABSENT
    handler_error: bool = False
    oom_signals: Raw = ABSENT
    environment_kills: Count = 0
    report_missing: bool = False
    dropped: Raw = ABSENT
    growth_lines: Raw = ABSENT
    growth_profile: Raw = ABSENT
    recovered: bool = False
    may_repeat: bool = False
    """True if the line may be there twice."""
    schema: Annotated[float, Meta(ge=1, le=SCHEMA)]
    aggregate: UnsetType = UNSET
    """A line of many invocations is split before it is decoded (`document.spread`)."""
    timestamp: str | None = None
    members: Mapping[str, Any] = NO_MEMBERS
    """All members, those without a field too, of a line that was read by `lines_in`."""

    @property
    def time_ms(self) -> float | None:
        """Begin of the invocation, in epoch ms. A line of TRUEMEM_OUTPUT=json has `timestamp` in place of `_aws`."""
        of_metadata = self.metadata.time_ms
        return epoch_ms(self.timestamp) if of_metadata is None and self.timestamp else of_metadata

    @property
    def out_of_memory(self) -> bool:
        return bool(self.oom_count) or is_there(self.oom_signals)

    @property
    def begins(self) -> bool:
        """True if the function's processes are new, after a cold start or a reset."""
        return self.cold_start or self.suppressed_init

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
    def function_holds(self) -> float | None:
        return self.holders.function

    @property
    def sidecar_holds(self) -> float | None:
        return self.holders.sidecar

    @property
    def extensions_hold(self) -> Mapping[str, float]:
        """RSS at the close, by the name of the other extension."""
        return self.holders.extensions or {}


def is_there(raw: Raw) -> bool:
    """True of a member that is there, and not null."""
    return raw is not ABSENT and bytes(raw) != b"null"


def epoch_ms(text: str) -> float | None:
    """The time of an ISO text, UTC if it does not say. None if it is no time."""
    try:
        time = datetime.fromisoformat(text)
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000 // 1
    except (ValueError, OverflowError):
        return None


_decoder = msgspec.json.Decoder(Line)
decode, decode_lines = _decoder.decode, _decoder.decode_lines
"""Lines from JSON as it was printed. They raise ValueError or RecursionError if it is no line of one invocation, or a
member has another type."""
encode = msgspec.json.Encoder().encode


def line_of(members: Mapping[str, Any]) -> Line:
    """The line of a parsed JSON object of one invocation (`document.spread`). Never raises: a member of another type is
    left out."""
    try:
        line = decode(encode(members))
    except (ValueError, TypeError, OverflowError, RecursionError):
        line = decode(_as_json({**_LEAST, **(_readable(members) or {})}))
    line.members = members
    return line


_LEAST = {"environmentId": "", "schema": FULL}
DEEPEST = 3
"""`holders.extensions.NAME`: no member deeper in the line is looked at by itself."""


def _readable(value: Any, *path: str) -> Any:
    """The member at this path, or of an object that cannot be read those members that can; UNSET for nothing."""
    alone = value
    for name in reversed(path):
        alone = {name: alone}
    try:
        decode(_as_json({**_LEAST, **alone}))
    except (ValueError, RecursionError):
        if not isinstance(value, Mapping) or len(path) == DEEPEST:
            return UNSET
        kept = {name: _readable(each, *path, name) for name, each in value.items()}
        return {name: each for name, each in kept.items() if each is not UNSET} or UNSET
    return value


def _as_json(members: Mapping[str, Any]) -> bytes:
    """With a ? for half a surrogate pair, which UTF-8 does not have."""
    return compact(members).encode(errors="replace")


_ENVIRONMENT = re.compile(r'"environmentId"\s*:\s*"([^"]*)"')


def read(
    paths: Iterable[Path],
    *,
    wanted: Callable[[str], bool] | None = None,
    containing: str = "",
    done: Callable[[int], None] = lambda _: None,
    unread: Unread | None = None,
) -> Iterator[Line]:
    """Read the lines in these files, in their order, each invocation once. Raises BadInput if a file cannot be read.

    `wanted` chooses environments by their id. Lines of others are skipped before they are parsed, in a sixth of the
    time, and so are those without the text `containing`. `done` is called with the bytes that are read. What is not
    read is added to `unread`.
    """
    seen: set[int] = set()  # of hashes: the names of all of them would take more room than what is drawn
    repeats: dict[int, Line] = {}
    for path in paths:
        for event in events(path, done):
            if wanted is not None and _passed_over(event, wanted):
                continue
            if isinstance(event, str) and containing not in event:
                continue
            for line in parse_event(event, unread):
                if wanted is not None and not wanted(line.environment):
                    continue
                key = hash((line.environment, line.request_id, line.invocation))
                if line.may_repeat:
                    repeats[key] = line  # the first one may still come
                elif key not in seen:
                    seen.add(key)
                    yield line
    for key, line in repeats.items():
        if key not in seen:
            yield line


def _passed_over(event: Event, wanted: Callable[[str], bool]) -> bool:
    """True if the line certainly belongs to other environments. A name with an escape must be parsed to be known."""
    if not isinstance(event, str):
        return False
    names = _ENVIRONMENT.findall(event)
    if len(names) != event.count(NAMES[0]):  # one is in a wrapper
        return False
    return bool(names) and not any("\\" in name or wanted(name) for name in names)


def parse_event(event: Event, unread: Unread | None = None) -> list[Line]:
    """Parse a log event: the sidecar's line, as one Line for each of its invocations. Empty for other events.

    The line may be wrapped in other JSON. A line that is not read is added to `unread`, by reason.
    """
    if isinstance(event, str) and not may_be_line(event):
        return []
    return [line for found in inside(event) for line in lines_in(found, unread)]


def parse_line(text: str) -> Line | None:
    """Parse one line of the sidecar's stdout, of one invocation. None for other lines. Never raises."""
    return next(iter(parse_event(text)), None)


def lines_in(found: Found, unread: Unread | None = None) -> list[Line]:
    """The lines of a thing that was found in an event: one for each invocation. Empty if it is none, or not read."""
    if isinstance(found, str):
        return []
    why = reason(found)
    if why is None and isinstance(found, dict):
        return [line_of(one) for one in spread(found)]
    if why is not None and unread is not None:
        unread[why] += 1
    return []
