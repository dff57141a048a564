"""How full the caches of Guava and Caffeine are that have a bound, from a heap dump of a JVM (HPROF 1.0.2)."""

from __future__ import annotations

import mmap
import struct
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from . import jvm

HEADER = 19 + 4 + 8
"""Bytes: `JAVA PROFILE 1.0.2` and a zero, the size of an id, the time."""
STRING, LOADED, SEGMENTS = 0x01, 0x02, (0x0C, 0x1C)
CLASS, INSTANCE = b"\x20", b"\x21"
TRACE = b"\0\0\0\1"
"""Stack trace that HotSpot gives every class and instance."""
TYPES = {2: "Q", 4: "?", 5: "H", 6: "f", 7: "d", 8: "b", 9: "h", 10: "i", 11: "q"}
"""struct's letters for a type of HPROF."""
GUAVA, CAFFEINE = b"/common/cache/LocalCache", b"/caffeine/cache/"
"""In names of classes: a library may bring them under a package of its own."""


def bounded(pid: int, folder: Path) -> list[dict[str, Any]]:
    """The caches of this JVM, which must run, as a probe tells them: `id`, `name`, `entries`, `bound`, `unit`. Those of
    one class and bound are one: objects move, and nothing tells them apart from dump to dump. `folder`: for the dump,
    which nothing is collected for. Raises OSError, ValueError."""
    dump = folder / f"{pid}.hprof"
    seen_by_us = Path(f"/proc/{pid}/root{dump}")
    try:
        jvm.run(pid, f"GC.heap_dump -all {dump}")
        with seen_by_us.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return found(data)
    except (struct.error, KeyError, RecursionError) as error:
        raise ValueError("the heap dump is not understood") from error
    finally:
        seen_by_us.unlink(missing_ok=True)


def found(data: mmap.mmap) -> list[dict[str, Any]]:
    """The same of an open dump."""
    dump = _Dump(data)
    weights: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    for name in dump.classes:
        if name.endswith(GUAVA + b"$Segment"):
            for _, segment in dump.instances(name):
                weights[segment["map"]][0] += segment["totalWeight"]
                weights[segment["map"]][1] += segment["count"]
    told: dict[tuple[str, bytes, int], list[int]] = defaultdict(lambda: [0, 0, 0])
    for name in dump.classes:
        for at, cache in dump.instances(name) if name.endswith(GUAVA) else ():
            kind, bound, (entries, count) = "Guava's cache", cache["maxWeight"], weights[at]
            if bound > 0 and entries > 0:
                one = told[kind, name, bound]
                one[:] = one[0] + entries, one[1] + bound, one[2] + count
        code = name.rpartition(b"/")[2]
        if CAFFEINE not in name or not (code.isalpha() and code.isupper()):  # generated: SSMS, a size; SSMW, a weight
            continue
        if not {"maximum", "weightedSize"} <= {field for field, _ in dump.fields(name)}:
            continue
        for _, cache in dump.instances(name):
            bound, entries = cache["maximum"], cache["weightedSize"]
            if bound > 0 and entries > 0:
                one = told["Caffeine's cache", name, bound]
                one[:] = one[0] + entries, one[1] + bound, one[2] + (0 if b"MW" in code else entries)
    return [
        {
            "id": f"{name.decode(errors='replace')} {bound}",
            "name": kind,
            "entries": entries,
            "bound": bounds,
            "unit": "entries" if entries == count else "units of weight",
        }
        for (kind, name, bound), (entries, bounds, count) in told.items()
    ]


class _Dump:
    """Finds instances by the bytes before their fields: to parse each object would take a second for each million."""

    def __init__(self, data: mmap.mmap) -> None:
        self._data = data
        self._strings: dict[int, bytes] = {}
        self.classes: dict[bytes, int] = {}
        """The id of each loaded class, by its name; the last one of those that have the same."""
        at, (size,) = HEADER, struct.unpack_from(">I", data, 19)
        if size != 8:
            raise ValueError("ids of another size")
        while at < len(data) and (tag := data[at]) not in SEGMENTS:
            (length,) = struct.unpack_from(">I", data, at + 5)
            if tag == STRING:
                self._strings[struct.unpack_from(">Q", data, at + 9)[0]] = data[at + 17 : at + 9 + length]
            elif tag == LOADED:
                _, own, _, name = struct.unpack_from(">IQIQ", data, at + 9)
                self.classes[self._strings[name]] = own
            at += 9 + length
        self._begin = at
        self._known: dict[int, list[tuple[str, str]]] = {}

    def fields(self, name: bytes) -> list[tuple[str, str]]:
        """Names and types, as they follow each other in an instance: those of the class it inherits from come last."""
        return self._fields(self.classes[name])

    def _fields(self, own: int) -> list[tuple[str, str]]:
        if own not in self._known:
            self._known[own] = self._parsed(own) if own else []
        return self._known[own]

    def _parsed(self, own: int) -> list[tuple[str, str]]:
        head = CLASS + struct.pack(">Q", own) + TRACE
        at = self._data.find(head, self._begin)
        if at < 0:
            raise ValueError("a class is not in the dump")
        above, at = struct.unpack_from(">Q", self._data, at + len(head))[0], at + len(head) + 6 * 8 + 4
        for named in (2, 8):  # constants by a number, then static fields by the id of their name
            (count,) = struct.unpack_from(">H", self._data, at)
            at += 2
            for _ in range(count):
                at += named + 1 + struct.calcsize(">" + TYPES[self._data[at + named]])
        (count,) = struct.unpack_from(">H", self._data, at)
        made = [struct.unpack_from(">QB", self._data, at + 2 + 9 * number) for number in range(count)]
        own_fields = [(self._strings[name].decode(errors="replace"), TYPES[kind]) for name, kind in made]
        return [*own_fields, *self._fields(above)]

    def instances(self, name: bytes) -> Iterator[tuple[int, Mapping[str, Any]]]:
        """The id and the fields of each instance of exactly this class. Of two fields of a name the one of the class
        that is nearer."""
        fields = self.fields(name)
        values = struct.Struct(">" + "".join(kind for _, kind in fields))
        head = TRACE + struct.pack(">QI", self.classes[name], values.size)
        at = self._data.find(head, self._begin)
        while at >= 0:
            if self._data[at - 9 : at - 8] == INSTANCE:
                named = zip(fields, values.unpack_from(self._data, at + len(head)), strict=True)
                own = struct.unpack_from(">Q", self._data, at - 8)[0]
                yield own, {field: value for (field, _), value in reversed([*named])}
            at = self._data.find(head, at + len(head))
