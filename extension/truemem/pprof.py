"""What grew, as a profile of pprof: what the sidecar sends to a relay, and the workbench writes to a file. Pure.

A profile's values are bytes that each invocation adds. What no line keeps is in it too, so that its sum is all that
grew. The format is https://github.com/google/pprof/blob/main/proto/profile.proto, which readers take compressed or not.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    Sample = tuple[Sequence[str], float, str]
    """Frames such as `app.mjs:30 handler`, outermost first; the KiB that each invocation adds there; and the function
    with its version, such as `orders:41`."""

TYPE, UNIT = "inuse_space", "bytes"
"""What pprof and Pyroscope call memory that is kept."""
MOST = (1 << 63) - 1
"""The largest int64: a log may say any figure."""
NO_LINE = "(in no line)"


def frame(text: str) -> tuple[str, str, int]:
    """The frame that is written so: `FILE:LINE`, `FILE:LINE:COLUMN`, each with a blank and the function's name, or a
    name alone. Its function, its file, or "" where that is not known, and its line, or 0."""
    at = text.find(":", 1)
    while at > 0:
        place, blank, function = text[at + 1 :].partition(" ")
        line, _, column = place.partition(":")
        if line.isdecimal() and len(line) < 10 and (column or "0").isdecimal() and (function or not blank):
            return function or text, text[:at], int(line)
        at = text.find(":", at + 1)
    return text, "", 0


def added(kib: float) -> int:
    """Bytes per invocation, from 0 to what a profile can have."""
    return max(0, min(round(kib * 1024), MOST))


def encoded(samples: Iterable[Sample], comments: Sequence[str], now_ns: int) -> bytes:
    """The profile, not compressed: each sample that is a byte at least, its version as the label `function`. `now_ns`:
    epoch ns."""
    texts, frames = {"": 0}, {"": 0}
    profile = _field(9, now_ns) + _field(1, _text(1, TYPE, texts) + _text(2, UNIT, texts)) + _text(14, TYPE, texts)
    for stack, kib, version in samples:
        if size := added(kib):
            places = b"".join([_text(1, each, frames) for each in stack[::-1]])
            label = _field(3, _text(1, "function", texts) + _text(2, version, texts))
            profile += _field(2, places + _field(2, size) + label)
    del frames[""]
    for each, number in frames.items():  # a function for each: only frames of one line are the same
        name, file, line = frame(each)
        own = _field(1, number)
        profile += _field(4, own + _field(4, own + _field(2, line)))
        profile += _field(5, own + _text(2, name, texts) + _text(3, name, texts) + _text(4, file, texts))
    for each in comments:
        profile += _text(13, each, texts)
    return profile + b"".join([_field(6, each.encode("utf-8", "replace")) for each in texts])


def _text(number: int, text: str, table: dict[str, int]) -> bytes:
    """A field with the place that the text has in a table, whose first one is empty."""
    return _field(number, table.setdefault(text, len(table)))


def _field(number: int, value: int | bytes) -> bytes:
    """A field of protocol buffers (https://protobuf.dev/programming-guides/encoding)."""
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    return bytes((value,)) if value < 0x80 else bytes((value & 0x7F | 0x80,)) + _varint(value >> 7)
