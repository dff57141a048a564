"""Which classes are on a class path, and what their files say: versions, methods, what they extend and refer to."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from zipfile import BadZipFile, ZipFile

from ...support.bad_input import BadInput

CORE = "com.amazonaws.services.lambda.runtime."
INTERFACES = (f"{CORE}RequestHandler", f"{CORE}RequestStreamHandler")
OF_THE_JDK = ("java.", "javax.", "jdk.", "sun.", "com.sun.", "org.w3c.", "org.xml.", "org.ietf.")
MAGIC, JAVA_1 = 0xCAFEBABE, 44
"""Begin of a class file, and its major version at Java 0."""
PUBLIC, ABSTRACT = 0x1, 0x600
"""Flags of a class or a method: public; an interface or abstract."""
_SIZES = {3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2, 17: 4, 18: 4, 19: 2, 20: 2}
"""Bytes of each kind of constant after its tag (Java Virtual Machine Specification, 4.4)."""
_TEXT, _CLASS, _WIDE = 1, 7, (5, 6)
_DAMAGED = (ValueError, LookupError, struct.error, BadZipFile, OSError, NotImplementedError)


class ClassFile(NamedTuple):
    """What a class file says."""

    name: str
    java: int
    """The version of Java that it is compiled for: 17, 21."""
    is_concrete: bool
    above: tuple[str, ...]
    """Its superclass and its interfaces."""
    methods: tuple[str, ...]
    """Names of its own public methods."""
    mentions: frozenset[str]
    """Names of the classes that it refers to."""


def read_class(data: bytes) -> ClassFile:
    """Raises ValueError, LookupError or struct.error for what is no class file."""
    file = io.BytesIO(data)

    def number(form: str = "H") -> int:
        return int(struct.unpack(f">{form}", file.read(struct.calcsize(form)))[0])

    if number("I") != MAGIC:
        raise ValueError("no class file")
    number()
    java, count, at = number() - JAVA_1, number(), 1
    texts: dict[int, str] = {}
    classes: dict[int, int] = {}
    while at < count:
        tag = number("B")
        if tag == _TEXT:
            texts[at] = file.read(number()).decode(errors="replace")
        elif tag == _CLASS:
            classes[at] = number()
        else:
            file.seek(_SIZES[tag], io.SEEK_CUR)
        at += 2 if tag in _WIDE else 1

    def name(of: int) -> str:
        return texts[classes[of]].replace("/", ".")

    flags, this, above = number(), number(), number()
    parents = [above, *(number() for _ in range(number()))]
    methods: list[str] = []
    for is_method in (False, True):
        for _ in range(number()):
            access, called, _ = number(), number(), number()
            for _ in range(number()):
                number()
                file.seek(number("I"), io.SEEK_CUR)
            if is_method and access & PUBLIC:
                methods.append(texts[called])
    mentioned = frozenset(_element(name(each)) for each in classes if each != this)
    kept = tuple(each for each in methods if not each.startswith("<"))
    return ClassFile(name(this), java, not flags & ABSTRACT, tuple(map(name, filter(None, parents))), kept, mentioned)


def _element(name: str) -> str:
    """The class of an array's items, `[[Ljava.lang.String;`; empty for numbers'."""
    return name.lstrip("[")[1:].removesuffix(";") if name.startswith("[") else name


class ClassPath:
    """Folders and jars, in which a class is looked for in this order."""

    def __init__(self, entries: Sequence[Path]) -> None:
        self.entries = tuple(entries)
        self._names: dict[Path, frozenset[str]] = {}
        """By jar."""

    def __str__(self) -> str:
        return ":".join(map(str, self.entries))

    def has(self, name: str) -> bool:
        return self._place(name) is not None

    def find(self, name: str) -> ClassFile | None:
        """The class of this name, such as com.example.App$Item. None if it is not there. Raises BadInput for a class
        file that cannot be read."""
        entry, file = self._place(name), f"{name.replace('.', '/')}.class"
        if entry is None:
            return None
        try:
            if entry.is_dir():
                return read_class((entry / file).read_bytes())
            with ZipFile(entry) as jar:
                return read_class(jar.read(file))
        except _DAMAGED as problem:
            raise BadInput(f"cannot read {file} of {entry}: {problem}. Build it again") from None

    def family(self, name: str) -> Iterator[ClassFile]:
        """A class, its superclasses and interfaces, as far as they are here."""
        waiting, seen = [name], {name}
        while waiting:
            if (found := self.find(waiting.pop(0))) is not None:
                yield found
                waiting += [each for each in found.above if each not in seen]
                seen |= {*found.above}

    def _place(self, name: str) -> Path | None:
        file = f"{name.replace('.', '/')}.class"
        return next(
            (each for each in self.entries if ((each / file).is_file() if each.is_dir() else file in self._of(each))),
            None,
        )

    def _of(self, jar: Path) -> frozenset[str]:
        if jar not in self._names:
            try:
                with ZipFile(jar) as opened:
                    self._names[jar] = frozenset(opened.namelist())
            except (BadZipFile, OSError) as problem:
                raise BadInput(f"{jar} is no jar that can be read: {problem}. Build it again") from None
        return self._names[jar]


def handlers_in(place: Path) -> list[str]:
    """The handlers of a jar, or of all folders below one, by the interface that they implement, as one types them:
    `target/classes:com.example.App`. AWS's own are not among them. Raises BadInput for what is no jar."""
    found = set()
    for root, data in _classes(place):
        if b"com/amazonaws/services/lambda/runtime/Request" in data:
            try:
                read = read_class(data)
            except _DAMAGED:
                continue
            if read.is_concrete and {*INTERFACES} & {*read.above} and not read.name.startswith("com.amazonaws."):
                folder = root if place.is_file() else root.parents[read.name.count(".")]
                found.add(f"{folder}:{read.name}")
    return sorted(found, key=lambda each: (each.startswith("."), each))


def _classes(place: Path) -> Iterator[tuple[Path, bytes]]:
    try:
        if place.is_dir():
            for path in place.rglob("*.class"):
                yield path, path.read_bytes()
            return
        with ZipFile(place) as jar:
            for name in jar.namelist():
                if name.endswith(".class") and not name.startswith("META-INF/"):
                    yield place, jar.read(name)
    except _DAMAGED as problem:
        raise BadInput(f"{place} is no jar that can be read: {problem}. Build it again") from None
