"""HotSpot's performance counters: where the wanted ones lie in a file, and what they say. Pure.

The format is that of src/hotspot/share/runtime/perfMemory.hpp, version 2.0 (JDK 8 to 25): a prologue of 32 bytes, then
entries, each with a header of 20 bytes, a name that ends with NUL, and a value. The JVM writes it through a mapping
while we read, and the function can write to it as well: nothing is believed that does not lie within what was read.
"""

from __future__ import annotations

from ..support.named_tuple import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Literal

MAGIC = b"\xca\xfe\xc0\xc0"
"""In this order of bytes, whatever that of the machine is."""
VERSION = b"\x02\x00"
PROLOGUE = 32
HEADER = 20
MOST_BYTES = 256 * 1024
"""Of the file: HotSpot makes it PerfDataMemorySize large, 32 KiB."""
MOST_ENTRIES = 4096
"""128 to 214 were seen."""
LONG = ord("J")
"""Type of a counter that is a number of 8 bytes,"""
BYTES = ord("B")
"""and of one that is text: then a vector of a fixed length, which NUL ends."""
NAME_MAX = 64
TEXT_MAX = 64


class Layout(NamedTuple):
    """Where the wanted counters lie in one file. They stay there: HotSpot only adds entries, at the end."""

    order: Literal["little", "big"]
    start: int
    end: int
    """Bytes of the file that hold all of them."""
    heads: list[tuple[bytes, int, int, bytes]]
    """Of each number: its name, where its entry and its value begin, from `start`, and the bytes between."""
    texts: dict[bytes, bytes]
    """Value of each text. It is a constant, and read once."""


def locate(data: bytes, numbers: Collection[bytes], texts: Collection[bytes] = ()) -> Layout | None:
    """Where these counters lie, those that are there. None if `data` is not a whole file of this version, or has none
    of the numbers."""
    if len(data) < PROLOGUE or data[:4] != MAGIC or data[4] > 1 or data[5:7] != VERSION or data[7] != 1:
        return None  # another format, or not ready to access
    order: Literal["little", "big"] = "little" if data[4] else "big"
    used, at, count = (int.from_bytes(data[place : place + 4], order, signed=True) for place in (8, 24, 28))
    if not PROLOGUE <= at <= used <= len(data) or not 0 < count <= MOST_ENTRIES:
        return None
    heads: list[tuple[bytes, int, int, bytes]] = []
    found: dict[bytes, bytes] = {}
    for _ in range(count):
        if at + HEADER > used:
            return None
        length, name_at, vector = (int.from_bytes(data[place : place + 4], order) for place in (at, at + 4, at + 8))
        value_at = int.from_bytes(data[at + 16 : at + 20], order)
        if length < HEADER or at + length > used or not HEADER <= name_at < value_at <= length:
            return None
        name = data[at + name_at : at + min(value_at, name_at + NAME_MAX)].partition(b"\0")[0]
        kind = data[at + 12]
        if name in numbers and kind == LONG and not vector and value_at + 8 <= length:
            heads.append((name, at, at + value_at, data[at : at + value_at]))
        elif name in texts and kind == BYTES and value_at + vector <= length:
            value = data[at + value_at : at + value_at + min(vector, TEXT_MAX)]
            found[name] = value.partition(b"\0")[0]
        at += length
    if not heads:
        return None
    start, end = min(head[1] for head in heads), max(head[2] for head in heads) + 8
    placed = [(name, entry - start, value - start, head) for name, entry, value, head in heads]
    return Layout(order, start, end, placed, found)


def values(layout: Layout, part: bytes) -> dict[bytes, int] | None:
    """The numbers in `part`, the file's bytes from `layout.start` to `layout.end`. None if they lie there no longer."""
    if len(part) != layout.end - layout.start:
        return None
    read = {}
    for name, entry, value, head in layout.heads:
        if part[entry:value] != head:
            return None
        read[name] = int.from_bytes(part[value : value + 8], layout.order, signed=True)
    return read
