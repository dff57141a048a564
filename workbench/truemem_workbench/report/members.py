"""The members of a line that a report reads, with their types. A line with a member of another type is read by
`_lenient`, which leaves that member out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType
from truemem.line_schema import FULL, SCHEMA

from ..lines.record import figure

NAN = float("nan")
ABSENT = Raw()
"""A member of any type, which is not there."""


class Metadata(Struct, frozen=True, gc=False):
    Timestamp: float = NAN


class Holders(Struct, frozen=True, gc=False):
    function: float = NAN
    truemem: float = NAN
    extensions: dict[str, float] | None = None


class Kinds(Struct, frozen=True, gc=False):
    anon: float = NAN
    file: float = NAN


class Environment(Struct, frozen=True, gc=False):
    used: float = NAN


class Members(Struct, gc=False, kw_only=True):
    """One invocation. Absent: NaN, an empty text, False or ABSENT. docs/metrics.md has the meanings.

    In the line's order, in which msgspec finds them at once. Other JSON has no such schema, or no environment."""

    _aws: Metadata = Metadata()
    FunctionName: str = ""
    PeakRSS: float = NAN
    CurrentRSS: float = NAN
    MaxMemoryUsed: float = NAN
    OutOfMemory: float = NAN
    requestId: str = ""
    environmentId: str
    invocation: float = NAN
    coldStart: bool = False
    suppressedInit: bool = False
    functionVersion: str = ""
    status: str = ""
    errorType: str = ""
    durationMs: float = NAN
    cpuMs: float = NAN
    billedDurationMs: float = NAN
    method: str = ""
    peakLower: float = NAN
    peakUpper: float = NAN
    raced: bool = False
    sharedBy: float = NAN
    closedBy: str = ""
    mode: str = ""
    requestBytes: float = NAN
    responseBytes: float = NAN
    initPeakRSS: float = NAN
    memoryLimit: float = NAN
    baselineRSS: float = NAN
    holders: Holders = Holders()
    rss: Kinds = Kinds()
    processes: float = NAN
    threads: float = NAN
    environment: Environment = Environment()
    heap: Raw = ABSENT
    resources: Raw = ABSENT
    handlerError: bool = False
    environmentKills: float = NAN
    reportMissing: bool = False
    dropped: Raw = ABSENT
    growthLines: Raw = ABSENT
    growthProfile: Raw = ABSENT
    recovered: bool = False
    mayRepeat: bool = False
    schema: Annotated[float, Meta(ge=1, le=SCHEMA)]
    aggregate: UnsetType = UNSET
    """A line of many invocations is read otherwise."""
    timestamp: str = ""


class Heap(Struct, gc=False):
    """What is read of `heap` on each line."""

    held: float = NAN
    runtime: Raw = ABSENT


_decoder = msgspec.json.Decoder(Members)
decode, decode_lines = _decoder.decode, _decoder.decode_lines
"""Raise ValueError or RecursionError if a line is none of one invocation, or a member has another type."""


def members_of(document: Mapping[str, Any]) -> Members:
    """What can be read of a parsed line: in a fifth of the time of `_lenient` if all types are right. Never raises."""
    try:
        return msgspec.convert(document, Members)
    except (ValueError, RecursionError):
        return Members(**{"environmentId": "", "schema": FULL, **_lenient(document, Members)})


def defaults(kind: type[Struct]) -> dict[str, Any]:
    return dict(zip(kind.__struct_fields__, kind.__struct_defaults__, strict=True))


def _lenient(document: Mapping[str, Any], kind: type[Struct]) -> dict[str, Any]:
    """The members of a parsed JSON object that have the right type. Never raises."""
    found: dict[str, Any] = {}
    for name, default in defaults(kind).items():
        value = document.get(name)
        if value is None:
            continue
        match default:
            case bool():
                found[name] = value is True
            case float():
                found[name] = NAN if (number := figure(value)) is None else number
            case Raw():
                found[name] = Raw(msgspec.json.encode(value))
            case Struct():
                if isinstance(value, dict):
                    found[name] = type(default)(**_lenient(value, type(default)))
            case _ if name == "extensions":
                found[name] = _figures(value)
            case _ if isinstance(value, str):
                found[name] = _text(value)
    return found


def _figures(value: object) -> dict[str, float]:
    members = value if isinstance(value, dict) else {}
    known = ((_text(name), figure(each)) for name, each in members.items())
    return {name: number for name, number in known if number is not None}


def _text(value: str) -> str:
    """The text, with a ? for half a surrogate pair, which UTF-8 does not have."""
    return value.encode(errors="replace").decode()


def heap_of(raw: Raw) -> Heap:
    """Never raises."""
    try:
        return _decode_heap(raw)
    except (ValueError, RecursionError):
        return Heap()


_decode_heap = msgspec.json.Decoder(Heap).decode
