"""Makes columns of lines: the figures of many invocations at once."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Sequence
from hashlib import blake2b
from operator import attrgetter
from typing import Any

import numpy as np
from msgspec import Raw, Struct
from msgspec.structs import astuple
from msgspec.structs import fields as fields_of
from numpy.typing import NDArray
from truemem.line_schema import SHORT

from .document import OF_EXACT_MODE, SAME_AS, USUAL
from .heap_columns import are, heap_columns, is_one, numbers
from .line import ABSENT, Line, encode, epoch_ms, is_there
from .parts import COLUMNS, NO_REQUEST
from .running import MARK

Column = NDArray[Any]

NAN = float("nan")
_INNER = {
    "time_ms": ("metadata", "time_ms"),
    "function_holds": ("holders", "function"),
    "sidecar_holds": ("holders", "sidecar"),
    "environment_used": ("environment_memory", "used"),
}
_WITH_TEXT = ("resources", "growth_profile")
"""A line that has one of them, extensions, what its heap keeps, or what ran when memory ran out, is kept in
`parts.Part.texts`."""
_OF_TEXT = {
    *("current_rss", "invocation", "cold_start", "suppressed_init", "shared_by", "memory_limit", "holders", "rss"),
    *("processes", "growth_lines", "schema", "heap", "oom_signals", *_WITH_TEXT),
}
_FIELDS = fields_of(Line)
_IN_TEXT = [(each.name, each.encode_name, each.default) for each in _FIELDS if each.name in _OF_TEXT]
"""So much of it: field, member, and its value where it is absent."""


def columns_of(
    lines: Sequence[Line], key_of: Callable[[str, str], int], words: dict[int, str], texts: list[bytes]
) -> dict[str, Column]:
    """The columns of `parts.Rows`, without `line_bytes`. `key_of` gives what stands for the environment of a function.

    Adds to the words, and to the texts, of which `text` has the places.
    """
    count = len(lines)
    found = dict(zip(Line.__struct_fields__, zip(*map(astuple, lines), strict=True), strict=True))
    made: dict[str, Column] = {
        name: _flags(found[name]) if kind is np.bool_ else numbers(found[name])
        for name, kind in COLUMNS.items()
        if name in found and kind is not np.uint64
    }
    made |= {name: _inner_numbers(found[outer], inner) for name, (outer, inner) in _INNER.items()}
    timestamps, statuses, errors = found["timestamp"], found["status"], found["error_type"]
    if timestamps.count(None) < count:
        _put_times(made["time_ms"], timestamps)
    is_short, is_exact = numbers(found["schema"]) == SHORT, are(found["mode"], "exact")
    payload = np.nan_to_num(made["request_bytes"]) + np.nan_to_num(numbers(found["response_bytes"]))
    _complete(made, is_short, is_exact)
    is_killed = (numbers(found["oom_count"]) > 0) | _are_there(found["oom_signals"])
    ended = (numbers(found["environment_kills"]) > 0) | are(errors, "Extension.Crash")
    is_unknown = are(statuses, None)
    succeeded = are(statuses, "success") | (is_short & is_unknown)
    made |= {
        "environment": _keys(found["function"], found["environment"], key_of),
        "request": _requests(found["request_id"]),
        "exact": is_exact,
        "payload": payload / (1 << 20),
        "out_of_memory": is_killed,
        "ended": ended,
        "succeeded": succeeded,
        "is_last": are(found["closed_by"], "shutdown"),
        "begins": _flags(found["cold_start"]) | _flags(found["suppressed_init"]),
        "lost": _flags(found["report_missing"]) | _are_there(found["dropped"]),
        "method": np.broadcast_to(_hashes(found["method"], words), count),
        "failed": np.zeros(count, np.uint64),
        "by_value": np.zeros(count, np.uint64),
        "held_by_extensions": np.full(count, NAN),
        "text": np.full(count, -1),
    }
    made["request_key"] = keys_of(made["request"])
    is_failed = ~succeeded & ~is_killed & ~ended & ~is_unknown
    if is_failed.any():
        places = np.flatnonzero(is_failed)
        made["failed"][places] = _hashes([errors[each] or statuses[each] for each in places.tolist()], words)
    extensions = [*map(attrgetter("extensions"), found["holders"])]
    of_heaps = heap_columns(found["heap"], found["rss"], lambda name: _put_word(name, words))
    has_text = ~are(extensions, None) | of_heaps.pop("is_kept")
    for name in _WITH_TEXT:
        has_text |= _are_there(found[name])
    for at in np.flatnonzero(is_killed).tolist():
        has_text[at] |= MARK in bytes(found["oom_signals"][at])
    for at in np.flatnonzero(has_text).tolist():
        _put_text(made, at, lines[at], texts)
    return made | of_heaps


def _inner_numbers(values: Sequence[Struct], inner: str) -> Column:
    """The same of a member of a member, which most lines do not have."""
    if is_one(values):
        return numbers([getattr(values[0], inner)] * len(values))
    return numbers([*map(attrgetter(inner), values)])


def _flags(values: Sequence[bool]) -> Column:
    return np.array(values, np.bool_) if True in values else np.zeros(len(values), np.bool_)


def _complete(made: dict[str, Column], is_short: Column, is_exact: Column) -> None:
    """Fill in what a short line does not spell out, as `document.completed` does."""
    if not is_short.any():
        return
    field_of = {each.encode_name: each.name for each in _FIELDS}
    for member, known in (USUAL | SAME_AS).items():
        name, where = field_of.get(member), is_short & is_exact if member in OF_EXACT_MODE else is_short
        if name in made:
            values: Any = made[field_of[SAME_AS[member]]] if member in SAME_AS else known
            made[name] = np.where(where & np.isnan(made[name]), values, made[name])


def _put_times(times: Column, timestamps: Sequence[str | None]) -> None:
    """A plain line (TRUEMEM_OUTPUT=json) has `timestamp` instead of `_aws`."""
    for at in np.flatnonzero(np.isnan(times)).tolist():
        if (text := timestamps[at]) and (time_ms := epoch_ms(text)) is not None:
            times[at] = time_ms


_LONG = len(NO_REQUEST)
_FORM = np.frombuffer(b"xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx", "u1")
_FORM_OF = np.zeros(256, "u1")
"""The character of _FORM that each byte fits."""
_FORM_OF[list(b"0123456789abcdef")] = ord("x")
_FORM_OF[ord("-")] = ord("-")


def _requests(texts: Sequence[str | None]) -> Column:
    """Request ids in their usual form; NO_REQUEST for what is none."""
    made = "".join([each if each and len(each) == _LONG else request_of(each) for each in texts])
    found = np.frombuffer(made.encode(), "u1")
    is_ascii = len(found) == _LONG * len(texts)
    if is_ascii and (_FORM_OF[found].reshape(-1, _LONG) == _FORM).all():
        return found.view(f"S{_LONG}")
    return np.array([request_of(each) for each in texts], f"S{_LONG}")


UUID = re.compile("[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")


def request_of(text: str | None) -> str:
    """A request id in its usual form; NO_REQUEST for what is none."""
    if text and UUID.fullmatch(text):
        return text
    try:
        return str(uuid.UUID(text))
    except (ValueError, TypeError):
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


def _hashes(texts: Sequence[str | None], words: dict[int, str]) -> Column:
    """The hash of each text, or of `none`."""
    if is_one(texts):
        texts = texts[:1]
    hashes = {each: _put_word(each or "none", words) for each in set(texts)}
    return np.array([hashes[each] for each in texts], np.uint64)


def _put_word(text: str, words: dict[int, str]) -> int:
    """The hash that stands for it."""
    key = hash_of(text)
    words[key] = text
    return key


def _keys(functions: Sequence[str | None], environments: Sequence[str], key_of: Callable[[str, str], int]) -> Column:
    if is_one(functions):
        keys = {each: key_of(functions[0] or "", each) for each in set(environments)}
        return np.array([*map(keys.__getitem__, environments)], np.uint64)
    pairs = [*zip(functions, environments, strict=True)]
    of_pair = {pair: key_of(pair[0] or "", pair[1]) for pair in set(pairs)}
    return np.array([of_pair[pair] for pair in pairs], np.uint64)


def _are_there(values: Sequence[Raw]) -> Column:
    if values.count(ABSENT) == len(values):
        return np.zeros(len(values), np.bool_)
    return np.array([is_there(each) for each in values])


def _put_text(made: dict[str, Column], at: int, line: Line, texts: list[bytes]) -> None:
    """Keep what few lines say, as JSON."""
    if line.holders.extensions:
        made["held_by_extensions"][at] = sum(line.holders.extensions.values())
    made["text"][at] = len(texts)
    told = ((member, getattr(line, name), nothing) for name, member, nothing in _IN_TEXT)
    texts.append(encode({member: value for member, value, nothing in told if value is not nothing}))
