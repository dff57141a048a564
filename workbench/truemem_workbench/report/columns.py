"""Makes columns of lines: the figures of many invocations at once."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import blake2b
from math import isnan
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
from msgspec import Raw
from msgspec.structs import astuple
from numpy.typing import NDArray
from truemem.line_schema import SHORT

from ..lines.record import LARGEST
from .members import ABSENT, NAN, Members, defaults, heap_of
from .parts import NO_REQUEST, Texts

Column = NDArray[Any]

_NUMBERS = {
    "invocation": "invocation",
    "peak": "PeakRSS",
    "current": "CurrentRSS",
    "mark": "MaxMemoryUsed",
    "lower": "peakLower",
    "upper": "peakUpper",
    "baseline": "baselineRSS",
    "init_peak": "initPeakRSS",
    "size": "memoryLimit",
    "duration_ms": "durationMs",
    "cpu_ms": "cpuMs",
    "billed_ms": "billedDurationMs",
    "request_bytes": "requestBytes",
    "processes": "processes",
    "threads": "threads",
    "shared_by": "sharedBy",
}
_INNER = {
    "time_ms": ("_aws", "Timestamp"),
    "held_function": ("holders", "function"),
    "held_truemem": ("holders", "truemem"),
    "environment_used": ("environment", "used"),
}
_FLAGS = {"answered": "handlerError", "raced": "raced", "recovered": "recovered", "may_repeat": "mayRepeat"}
_DEFAULTS = defaults(Members)


def columns_of(
    lines: Sequence[Members], key_of: Callable[[str, str], int], words: dict[int, str], texts: list[Texts]
) -> dict[str, Column]:
    """The columns of `parts.Rows`, without `line_bytes`. `key_of` gives what stands for the environment of a function.

    Adds to the words, and to the texts, of which `text` has the places.
    """
    count = len(lines)
    found = dict(zip(Members.__struct_fields__, zip(*map(astuple, lines), strict=True), strict=True))
    made: dict[str, Column] = {name: _numbers(found[member]) for name, member in _NUMBERS.items()}
    made |= {name: _inner_numbers(found[outer], outer, inner) for name, (outer, inner) in _INNER.items()}
    made |= {name: _flags(found[member]) for name, member in _FLAGS.items()}
    timestamps, statuses, errors = found["timestamp"], found["status"], found["errorType"]
    if timestamps.count("") < count:
        _put_times(made["time_ms"], timestamps)
    is_short, is_exact = _numbers(found["schema"]) == SHORT, _are(found["mode"], "exact")
    payload = np.nan_to_num(made["request_bytes"]) + np.nan_to_num(_numbers(found["responseBytes"]))
    _complete(made, is_short, is_exact)
    is_killed = _numbers(found["OutOfMemory"]) > 0
    ended = (_numbers(found["environmentKills"]) > 0) | _are(errors, "Extension.Crash")
    succeeded = _are(statuses, "success") | (is_short & _are(statuses, ""))
    made |= {
        "environment": _keys(found["FunctionName"], found["environmentId"], key_of),
        "request": _requests(found["requestId"]),
        "exact": is_exact,
        "payload": payload / (1 << 20),
        "out_of_memory": is_killed,
        "ended": ended,
        "succeeded": succeeded,
        "is_last": _are(found["closedBy"], "shutdown"),
        "begins": _flags(found["coldStart"]) | _flags(found["suppressedInit"]),
        "lost": _flags(found["reportMissing"]) | _are_there(found["dropped"]),
        "method": np.broadcast_to(_hashes(found["method"], words), count),
        "failed": np.zeros(count, np.uint64),
        "by_value": np.zeros(count, np.uint64),
        "held_by_extensions": np.full(count, NAN),
        "heap_held": np.full(count, NAN),
        "has_runtime": np.zeros(count, np.bool_),
        "text": np.full(count, -1),
    }
    made["request_key"] = keys_of(made["request"])
    is_failed = ~succeeded & ~is_killed & ~ended & ~_are(statuses, "")
    if is_failed.any():
        places = np.flatnonzero(is_failed)
        made["failed"][places] = _hashes([errors[each] or statuses[each] for each in places.tolist()], words)
    for at in _places_with_text(found):
        _put_texts(made, at, lines[at], texts)
    made["has_malloc"] = ~np.isnan(made["heap_held"])
    return made


def _numbers(values: Sequence[float]) -> Column:
    """NaN for what is too large to be a figure."""
    if _is_one(values):
        return np.full(len(values), values[0] if abs(values[0]) <= LARGEST else NAN)
    made = np.array(values)
    if not np.fmax.reduce(np.abs(made)) <= LARGEST:
        made[np.abs(made) > LARGEST] = NAN
    return made


def _is_one(values: Sequence[object]) -> bool:
    """Is it the same value on all lines, or on none? Most columns differ at their ends if they differ at all."""
    first, last = values[0], values[-1]
    return (first is last or first == last) and values.count(first) == len(values)


def _inner_numbers(values: Sequence[Any], outer: str, inner: str) -> Column:
    """The same of a member of a member."""
    nothing = _DEFAULTS[outer]
    if values[0] is nothing and all(each is nothing for each in values):
        return np.full(len(values), NAN)
    return _numbers([*map(attrgetter(inner), values)])


def _flags(values: Sequence[bool]) -> Column:
    return np.array(values, np.bool_) if True in values else np.zeros(len(values), np.bool_)


def _are(values: Sequence[str], word: str) -> Column:
    count = values.count(word)
    if count in (0, len(values)):
        return np.full(len(values), count > 0)
    return np.array([each == word for each in values])


def _complete(made: dict[str, Column], is_short: Column, is_exact: Column) -> None:
    """Fill in what a short line does not spell out (`lines.record.completed`)."""
    if not is_short.any():
        return
    held, of_exact = made["current"], is_short & is_exact
    for name, known, where in (
        ("lower", made["peak"], is_short),
        ("upper", made["peak"], is_short),
        ("baseline", held, of_exact),
        ("request_bytes", np.zeros(len(held)), of_exact),
        ("processes", np.ones(len(held)), is_short),
    ):
        made[name] = np.where(where & np.isnan(made[name]), known, made[name])
    made["threads"] = np.where(is_short & np.isnan(made["threads"]), made["processes"], made["threads"])


def _put_times(times: Column, timestamps: Sequence[str]) -> None:
    """A plain line (TRUEMEM_OUTPUT=json) has `timestamp` instead of `_aws`."""
    for at in np.flatnonzero(np.isnan(times)).tolist():
        if timestamps[at]:
            times[at] = epoch_ms(timestamps[at])


def epoch_ms(text: str) -> float:
    """NaN if it is no time."""
    try:
        time = datetime.fromisoformat(text)
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000 // 1
    except (ValueError, OverflowError):
        return NAN


_LONG = len(NO_REQUEST)
_FORM = np.frombuffer(b"xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx", "u1")
_FORM_OF = np.zeros(256, "u1")
"""Of each byte."""
_FORM_OF[list(b"0123456789abcdef")] = ord("x")
_FORM_OF[ord("-")] = ord("-")


def _requests(texts: Sequence[str]) -> Column:
    """Request ids in their usual form; NO_REQUEST for what is none."""
    found = np.frombuffer("".join([each if len(each) == _LONG else request_of(each) for each in texts]).encode(), "u1")
    is_ascii = len(found) == _LONG * len(texts)
    if is_ascii and (_FORM_OF[found].reshape(-1, _LONG) == _FORM).all():
        return found.view(f"S{_LONG}")
    return np.array([request_of(each) for each in texts], f"S{_LONG}")


_UUID = re.compile("[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")


def request_of(text: str) -> str:
    """A request id in its usual form; NO_REQUEST for what is none."""
    if _UUID.fullmatch(text):
        return text
    try:
        return str(uuid.UUID(text))
    except ValueError:
        return NO_REQUEST.decode()


def keys_of(requests: Column) -> Column:
    """A hash of each request id, the same on all machines."""
    key = np.zeros(len(requests), np.uint64)
    for word in np.ascontiguousarray(requests).view("<u4").reshape(-1, _LONG // 4).T:
        key = (key ^ word) * np.uint64(0x9E3779B97F4A7C15)
        key ^= key >> np.uint64(29)
    return key * np.uint64(0xBF58476D1CE4E5B9)


def hash_of(text: str) -> int:
    """8 bytes, the same on all machines, and never 0."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little") or 1


def _hashes(texts: Sequence[str], words: dict[int, str]) -> Column:
    """The hash of each text, or of `none`."""
    if _is_one(texts):
        texts = texts[:1]
    hashes = {each: hash_of(each or "none") for each in set(texts)}
    words.update({key: text or "none" for text, key in hashes.items()})
    return np.array([hashes[each] for each in texts], np.uint64)


def _keys(functions: Sequence[str], environments: Sequence[str], key_of: Callable[[str, str], int]) -> Column:
    pairs = [*zip(functions, environments, strict=True)]
    keys = {pair: key_of(*pair) for pair in set(pairs)}
    return np.array([keys[pair] for pair in pairs], np.uint64)


def _is_there(raw: Raw) -> bool:
    return raw is not ABSENT and bytes(raw) != b"null"


def _are_there(values: Sequence[Raw]) -> Column:
    if values.count(ABSENT) == len(values):
        return np.zeros(len(values), np.bool_)
    return np.array([_is_there(each) for each in values])


def _places_with_text(found: Mapping[str, Sequence[Any]]) -> list[int]:
    """Those lines that have one of the members in `Texts`."""
    places: set[int] = set()
    extensions = [*map(attrgetter("extensions"), found["holders"])]
    for values, nothing in (
        (extensions, None),
        *((found[name], ABSENT) for name in ("heap", "resources", "growthProfile")),
    ):
        if values.count(nothing) < len(values):
            places.update(at for at, each in enumerate(values) if each is not nothing)
    return sorted(places)


class _AboutHeap(msgspec.Struct, omit_defaults=True):
    """What `judging` reads with the heap."""

    heap: Raw
    rss: dict[str, float]
    processes: float | None = None
    CurrentRSS: float | None = None
    invocation: int | None = None
    memoryLimit: float | None = None
    coldStart: bool = False
    suppressedInit: bool = False
    sharedBy: float | None = None


class _AboutGrowth(msgspec.Struct, omit_defaults=True):
    growthProfile: Raw
    growthLines: Raw = ABSENT


_json = msgspec.json.Encoder().encode


def _put_texts(made: dict[str, Column], at: int, line: Members, texts: list[Texts]) -> None:
    heap = extensions = growth = None
    if _is_there(line.heap):
        found = heap_of(line.heap)
        made["heap_held"][at] = found.held
        made["has_runtime"][at] = _is_there(found.runtime)
        known = {name: getattr(line.rss, name) for name in ("anon", "file")}
        number = made["invocation"][at]
        about = _AboutHeap(
            line.heap,
            {name: value for name, value in known.items() if not isnan(value)},
            _known(made["processes"][at]),
            _known(line.CurrentRSS),
            None if isnan(number) else int(number),
            _known(line.memoryLimit),
            line.coldStart,
            line.suppressedInit,
            _known(line.sharedBy),
        )
        heap = _json(about).decode()
    if line.holders.extensions:
        made["held_by_extensions"][at] = sum(line.holders.extensions.values())
        extensions = _json(line.holders.extensions).decode()
    if _is_there(line.growthProfile):
        growth = _json(_AboutGrowth(line.growthProfile, line.growthLines)).decode()
    resources = bytes(line.resources).decode() if _is_there(line.resources) else None
    if heap or extensions or growth or resources:
        made["text"][at] = len(texts)
        texts.append(Texts(heap, extensions, resources, growth))


def _known(value: float) -> float | None:
    return None if isnan(value) else float(value)
