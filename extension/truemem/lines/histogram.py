"""The classes that grow in a JVM, by two of HotSpot's class histograms. Pure."""

from __future__ import annotations

from ..support.named_tuple import NamedTuple
from ..support.numbers import whole
from .answer import MOST_LINES, MOST_NAME_CHARS

MOST_TEXT_BYTES = 64 * 1024
"""Most bytes of a histogram that are read: the largest classes come first in it."""
MOST_CLASSES = 200
DIGITS_OF_BYTES = 15
INVOCATIONS_PER_OBJECT = 2
"""A class counts if it has one object more for so many invocations: what was made once, or is only larger, does not."""
LEAST_PART = 100
"""A class of the JDK's counts if it is such a part of all that grows."""

_NAMES = ("byte", "char", "double", "float", "int", "long", "short", "boolean")
PRIMITIVES = dict(zip("BCDFIJSZ", _NAMES, strict=True))
JDK = ("java.", "jdk.")
"""The names of the JDK's modules begin with that."""
FILLER = "jdk.internal.vm.Filler"
"""Objects that HotSpot makes where memory is free."""


class GaveUp(Exception):
    """Why there is no answer."""


class Class(NamedTuple):
    objects: int
    size: int
    """Bytes of all of them, without what they refer to."""
    is_own: bool
    """Is the class the application's: not of the JDK's modules, and no array of primitives?"""


class ClassHistogram(NamedTuple):
    classes: dict[str, Class]
    floor: int
    """No class has more bytes that is not there."""


def parse_histogram(text: bytes) -> ClassHistogram:
    """The largest classes of what `inspectheap` has written, or of its beginning. Raises GaveUp where it is cut off
    earlier, or is something else. What cannot be printed is left out."""
    *lines, last = text.split(b"\n")
    if len(text) < MOST_TEXT_BYTES and (last or not lines or not lines[-1].startswith(b"Total ")):
        raise GaveUp("the histogram cannot be read")
    classes: dict[str, Class] = {}
    floor = 0
    for line in lines:
        number, objects, size, name = (*line.split(None, 3), b"", b"", b"", b"")[:4]
        count, total = whole(objects, DIGITS_OF_BYTES), whole(size, DIGITS_OF_BYTES)
        if not number.endswith(b":") or count is None or total is None:
            continue
        floor = total
        if len(classes) >= MOST_CLASSES:
            return ClassHistogram(classes, floor)
        shown, is_own = parse_name(name.decode("utf-8", "replace"))
        if not shown.startswith(FILLER) and shown.isprintable() and 0 < len(shown) <= MOST_NAME_CHARS:
            before = classes.get(shown, Class(0, 0, is_own))  # classes of two loaders, or of two lambdas
            classes[shown] = Class(before.objects + count, before.size + total, is_own)
    return ClassHistogram(classes, floor if len(text) >= MOST_TEXT_BYTES else 0)


def parse_name(text: str) -> tuple[str, bool]:
    """A class as Java's source has it, and whether it is the application's. `text`: such as `[Lcom.acme.Order;`, or
    `java.lang.String (java.base@21.0.4)`."""
    name, _, module = text.strip().partition(" (")
    name = name.partition("/0x")[0].partition("+0x")[0]  # where a hidden class lies says nothing
    element, is_own = name.lstrip("["), not module.startswith(JDK)
    depth = len(name) - len(element)
    if depth and element in PRIMITIVES:
        element, is_own = PRIMITIVES[element], False
    elif depth:
        element = element.removeprefix("L").removesuffix(";")
    return element + "[]" * depth, is_own


def growth(first: ClassHistogram, second: ClassHistogram, invocations: int) -> tuple[list[dict[str, object]], float]:
    """What grew steadily, as the members of `growthLines`, and the KiB per invocation of all that grew beside it. The
    application's classes come first: what they refer to is the JDK's."""
    grown: list[tuple[bool, int, float, str]] = []
    total = 0
    for name, now in second.classes.items():
        before = first.classes.get(name)
        if before is None:  # it had so much at most
            size = min(first.floor, now.size)
            before = Class(now.objects * size // now.size if now.size else 0, size, now.is_own)
        objects, size = now.objects - before.objects, now.size - before.size
        if size > 0:
            total += size
            if objects * INVOCATIONS_PER_OBJECT >= invocations:
                grown.append((not now.is_own, -size, objects / invocations, name))
    named = [each for each in sorted(grown) if not each[0] or -each[1] * LEAST_PART >= total][:MOST_LINES]
    entries: list[dict[str, object]] = [
        {
            "class": name,
            "perInvocationKiB": round(-size / 1024 / invocations, 2),
            "perInvocationObjects": round(objects, 2),
            "share": round(-size / total, 2),
        }
        for _, size, objects, name in named
    ]
    rest = total + sum(size for _, size, _, _ in named)
    return entries, round(rest / 1024 / invocations, 2)
