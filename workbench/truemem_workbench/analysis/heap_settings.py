"""The limit of a heap that a function's variables set. Pure.

Where the forms come from: the page of the JDK's `java` command; Node.js, "Command-line API"; Go, package runtime,
"Environment Variables"; .NET, "Runtime configuration options for garbage collection" (numbers are hexadecimal).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from truemem.lifecycle.heap_limit import advice

KIB = {"": 1 / 1024, "k": 1.0, "m": 1024.0, "g": 1024.0**2, "t": 1024.0**3}
"""A size with this suffix, in KiB."""
MOST_KIB = 2**40
"""A heap has no PiB."""

_JAVA = re.compile(r"(?:-Xmx|-XX:MaxHeapSize=)(\d{1,18})([kmgt]?)", re.ASCII | re.IGNORECASE)
_JAVA_PERCENT = re.compile(r"-XX:MaxRAMPercentage=(\d{1,3}(?:\.\d{1,9})?)", re.ASCII)
_NODE = re.compile(r'--max[-_]old[-_]space[-_]size="?(\d{1,18})"?(?!\S)', re.ASCII)
_GO = re.compile(r"(\d{1,18})(?:([KMGT])iB|B)?", re.ASCII)
_HEX = re.compile(r"(?:0[xX])?([0-9a-fA-F]{1,16})", re.ASCII)


@dataclass(frozen=True)
class Limit:
    """The limit of a heap, and the setting that says so."""

    runtime: str
    """`java`, `nodejs`, `go` or `dotnet`."""
    kib: int
    evidence: str
    """The variable and its part."""

    def advice(self, memory_mib: float) -> str:
        """What to set, if the heap may outgrow a function of this size. Empty if it fits."""
        said = advice(self.runtime, self.kib, int(memory_mib * 1024))
        return f"{said[0].upper()}{said[1:]}." if said else ""


def limits_of(variables: Mapping[str, object], memory_mib: float) -> list[Limit]:
    """The limits that a function's variables set, one for each runtime that they name. What cannot be read is left
    out."""
    texts = {name: value for name, value in variables.items() if isinstance(value, str)}
    found = (_java(texts, memory_mib), _node(texts), _go(texts), _dotnet(texts, memory_mib))
    return [limit for limit in found if limit is not None and 0 < limit.kib < MOST_KIB]


def _java(texts: Mapping[str, str], memory_mib: float) -> Limit | None:
    """A size wins over a percentage, and the last of several."""
    set_by = [
        (name, word) for name in ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS") for word in texts.get(name, "").split()
    ]
    for name, word in reversed(set_by):
        if size := _JAVA.fullmatch(word.strip("\"'")):
            return Limit("java", round(int(size[1]) * KIB[size[2].lower()]), f"{name}: {word}")
    for name, word in reversed(set_by):
        percent = _JAVA_PERCENT.fullmatch(word.strip("\"'"))
        if percent and float(percent[1]) <= 100:  # with more, no JVM starts
            return Limit("java", round(float(percent[1]) / 100 * memory_mib * 1024), f"{name}: {word}")
    return None


def _node(texts: Mapping[str, str]) -> Limit | None:
    sizes = list(_NODE.finditer(texts.get("NODE_OPTIONS", "")))
    if not sizes:
        return None
    said = sizes[-1][0].replace('"', "")
    return Limit("nodejs", int(sizes[-1][1]) * 1024, f"NODE_OPTIONS: {said}")


def _go(texts: Mapping[str, str]) -> Limit | None:
    text = texts.get("GOMEMLIMIT", "")
    size = _GO.fullmatch(text)
    if size is None:
        return None
    return Limit("go", round(int(size[1]) * KIB[(size[2] or "").lower()]), f"GOMEMLIMIT={text}")


def _dotnet(texts: Mapping[str, str], memory_mib: float) -> Limit | None:
    """The size wins over the percentage. .NET passes over one of 100 or more: `75`, which is hexadecimal, is 117."""
    for setting in ("GCHeapHardLimit", "GCHeapHardLimitPercent"):
        for name in (f"DOTNET_{setting}", f"COMPlus_{setting}"):
            text = texts.get(name, "")
            number = _HEX.fullmatch(text)
            value = int(number[1], 16) if number else 0
            if value and (setting == "GCHeapHardLimit" or value < 100):
                kib = value / 1024 if setting == "GCHeapHardLimit" else value * memory_mib * 1024 / 100
                return Limit("dotnet", round(kib), f"{name}={text}")
    return None
