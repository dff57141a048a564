"""The old object samples in a recording of Flight Recorder: objects that live, with stack and way to a root. Pure.

A recording is a row of chunks (OpenJDK: jdk.jfr.internal.consumer.ChunkHeader, ChunkParser, ParserFactory; the same in
JDK 11 to 25). Each has its metadata, which describes all types, and checkpoints with the values that events refer to.
The JDK's `jfr` prints it as 20 KB of JSON for each object, and is not everywhere where Java is.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

MAGIC = b"FLR\0"
HEADER = struct.Struct(">4sHHqqqqqqqI")
"""Magic, version, then size, checkpoint, metadata, begin in ns, duration, begin in ticks, ticks a second; features."""
METADATA, CHECKPOINT = 0, 1
"""Numbers of the two types of events that describe themselves."""
SAMPLE = "jdk.OldObjectSample"
TEXT = "java.lang.String"
FIXED = {"float": 4, "double": 8, "byte": 1, "boolean": 1}
"""Bytes of the types that are no number of variable length."""


class JavaFrame(NamedTuple):
    of: str
    """Its class: `com.acme.Orders$Order`."""
    method: str
    line: int
    """0 where the class has no line numbers."""


class Step(NamedTuple):
    """An object on the way from a root, and by what it refers to the next one."""

    of: str
    """Its class, as the JVM writes it: `com.acme.Orders`, `[B`."""
    by: str
    """The field; `[]` for a place in an array. Empty at the end of the way."""
    said: str
    """What the JVM says of it: `Class Name: com.acme.Orders`, `Thread Name: main`."""
    place: int = 0
    """Its address at this look: a collection moves it."""


class OldObject(NamedTuple):
    of: str
    """Its class, as the JVM writes it."""
    elements: int
    """How many elements an array has; -1 if it is no array."""
    allocated_ns: int
    """Nanoseconds since 1970."""
    frames: tuple[JavaFrame, ...]
    """The stack that allocated it, innermost first."""
    way: tuple[Step, ...]
    """From the object at a root to itself."""
    root: str
    """What the JVM says of the root."""


def class_name(text: str) -> str:
    """A class as the JVM writes it, with dots, and without the place of a hidden one: `com/acme/App$$Lambda$14+0x1`."""
    return text.partition("/0x")[0].partition("+0x")[0].replace("/", ".")


def old_objects(data: bytes) -> list[OldObject]:
    """The samples of the last chunk that has any: those of one dump. Raises ValueError for what is no recording."""
    at, chunks = 0, []
    try:
        while at < len(data):
            magic, _, _, size, *_ = HEADER.unpack_from(data, at)
            if magic != MAGIC or size < HEADER.size:
                raise ValueError("no recording of Flight Recorder")
            chunks.append(data[at : at + size])
            at += size
        return next((found for each in reversed(chunks) if (found := _Chunk(each).samples())), [])
    except (struct.error, ArithmeticError, LookupError, RecursionError, TypeError) as error:
        raise ValueError("the recording is not understood") from error


class _Field(NamedTuple):
    name: str
    type: int
    is_shared: bool
    """Its value is the key of one in a checkpoint."""
    is_array: bool


class _Bytes:
    """Reads forwards."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def number(self) -> int:
        """Read a number of variable length: seven bits in each byte, the ninth one whole."""
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            if shift == 56:
                return value | byte << 56
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def skip(self, count: int) -> None:
        self.at += count

    def text(self) -> str | int | None:
        """A number: the key of one in a checkpoint."""
        kind = self.data[self.at]
        self.at += 1
        if kind in (0, 1):
            return None if kind == 0 else ""
        length = self.number()
        if kind == 2:
            return length
        if kind == 4:
            return "".join(chr(self.number()) for _ in range(length))
        self.at += length
        return self.data[self.at - length : self.at].decode("utf-8" if kind == 3 else "latin-1", "replace")


class _Chunk:
    def __init__(self, data: bytes) -> None:
        self._bytes = _Bytes(data)
        _, _, _, self._size, self._checkpoint, metadata, self._began_ns, _, self._began, self._ticks, _ = (
            HEADER.unpack_from(data)
        )
        self._types: dict[int, list[_Field]] = {}
        self._names: dict[int, str] = {}
        self._readers: dict[int, Callable[[], Any]] = {}
        self._shared: dict[str, dict[int, Any]] = {}
        """Values by their type's name and their key."""
        self._stacks: dict[int, tuple[JavaFrame, ...]] = {}
        self._read_metadata(metadata)

    def samples(self) -> list[OldObject]:
        events = list(self._events())
        if not events:
            return []
        at = self._checkpoint
        while at:
            at = self._read_checkpoint(at)
        return [self._sample(each) for each in events]

    def _events(self) -> Iterator[Mapping[str, Any]]:
        wanted = next((number for number, name in self._names.items() if name == SAMPLE), -1)
        at, data = HEADER.size, self._bytes
        while at < self._size:
            data.at = at
            size, kind = data.number(), data.number()
            if kind == wanted:
                yield self._value(kind)
            if size <= 0:
                raise ValueError("an event without a size")
            at += size

    def _read_metadata(self, at: int) -> None:
        data = self._bytes
        data.at = at
        for _ in range(5):  # size, type, begin, duration, its own number
            data.number()
        texts = [str(data.text() or "") for _ in range(data.number())]

        def element() -> tuple[str, dict[str, str], list[Any]]:
            name = texts[data.number()]
            attributes = {texts[data.number()]: texts[data.number()] for _ in range(data.number())}
            return name, attributes, [element() for _ in range(data.number())]

        root = element()
        for _, attributes, children in (each for part in root[2] if part[0] == "metadata" for each in part[2]):
            number = int(attributes["id"])
            self._names[number] = attributes["name"]
            self._types[number] = [
                _Field(of["name"], int(of["class"]), of.get("constantPool") == "true", of.get("dimension") == "1")
                for kind, of, _ in children
                if kind == "field"
            ]

    def _value(self, number: int) -> Any:
        """The value of this type that comes next: a number, a text, or the values of its fields by name."""
        if number not in self._readers:
            self._readers[number] = self._reader(number)
        return self._readers[number]()

    def _reader(self, number: int) -> Callable[[], Any]:
        name, fields, data = self._names[number], self._types[number], self._bytes
        if name == TEXT:
            return data.text
        if (count := FIXED.get(name)) is not None:
            return lambda: data.skip(count)
        if not fields:
            return data.number

        def structure() -> dict[str, Any]:
            return {
                field.name: [self._one(field) for _ in range(data.number())] if field.is_array else self._one(field)
                for field in fields
            }

        return structure

    def _one(self, field: _Field) -> Any:
        return self._bytes.number() if field.is_shared else self._value(field.type)

    def _read_checkpoint(self, at: int) -> int:
        """Where the one before it is; 0: there is none."""
        data = self._bytes
        data.at = at
        for _ in range(4):  # size, type, begin, duration
            data.number()
        delta = data.number()
        data.skip(1)
        for _ in range(data.number()):
            number = data.number()
            values = self._shared.setdefault(self._names[number], {})
            for _ in range(data.number()):
                key = data.number()
                values.setdefault(key, self._value(number))
        before = at + delta - (delta >> 63 << 64)
        return before if HEADER.size <= before < at else 0

    def _of(self, kind: str, key: int) -> Any:
        return self._shared.get(kind, {}).get(key)

    def _text(self, value: str | int | None) -> str:
        return str((self._of(TEXT, value) if isinstance(value, int) else value) or "")

    def _symbol(self, key: int) -> str:
        value = self._of("jdk.types.Symbol", key)
        return self._text(value["string"]) if value else ""

    def _class(self, key: int) -> str:
        value = self._of("java.lang.Class", key)
        return class_name(self._symbol(value["name"])) if value else ""

    def _sample(self, event: Mapping[str, Any]) -> OldObject:
        way = [*self._way(event["object"])][::-1]
        root = self._of("jdk.types.OldObjectGcRoot", event["root"])
        elements = event["arrayElements"] & 0xFFFFFFFF
        return OldObject(
            of=way[-1].of if way else "",
            elements=elements if elements < 1 << 31 else -1,
            allocated_ns=self._began_ns + (event["allocationTime"] - self._began) * 1_000_000_000 // self._ticks,
            frames=self._stack(event["stackTrace"]),
            way=tuple(way),
            root=self._text(root["description"]) if root else "",
        )

    def _way(self, key: int) -> Iterator[Step]:
        """From the object to the root."""
        by = ""
        while (found := self._of("jdk.types.OldObject", key)) is not None:
            yield Step(self._class(found["type"]), by, self._text(found["description"]), found["address"])
            reference = self._of("jdk.types.Reference", found["referrer"])
            if reference is None:
                return
            field = self._of("jdk.types.OldObjectField", reference["field"])
            by = self._text(field["name"]) if field else "[]"
            key = reference["object"]

    def _stack(self, key: int) -> tuple[JavaFrame, ...]:
        if key not in self._stacks:
            value = self._of("jdk.types.StackTrace", key)
            self._stacks[key] = tuple(map(self._frame, value["frames"])) if value else ()
        return self._stacks[key]

    def _frame(self, value: Mapping[str, Any]) -> JavaFrame:
        method = self._of("jdk.types.Method", value["method"])
        line = value["lineNumber"] & 0xFFFFFFFF
        if method is None:
            return JavaFrame("", "", 0)
        of = self._class(method["type"])
        return JavaFrame(of, self._symbol(method["name"]), line if 0 < line < 1 << 31 else 0)
