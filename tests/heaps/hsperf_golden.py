"""Counters of real JVMs (`hsperf.txt`), as the files that they were read from.

`python -m tests.heaps.hsperf_golden JAVA...` captures them anew, with each collector that these JVMs have. The file has
a section for each, `=== java-17 SerialGC`, with a line for each entry: its name; its type; flags, units, variability,
length of the entry, offsets of name and value, and length of the vector; then its value at each of the moments of
Moments.java. Most entries that are not about collections are left out: `used` and the number of entries follow from
what is there.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ARCHIVE = Path(__file__).with_name("hsperf.txt")
SOURCE = Path(__file__).parent / "java" / "Moments.java"
MOMENTS = ("began", "kept", "garbage", "collected")
COLLECTORS = ("SerialGC", "ParallelGC", "G1GC", "ZGC", "ShenandoahGC", "EpsilonGC")
ABOUT = ("sun.gc.generation.", "sun.gc.collector.", "sun.gc.metaspace.", "sun.gc.policy.name", "sun.gc.lastCause")
NOT_ABOUT = (".name", "agetable", "initCapacity")
SETTLED_S = 0.2
"""After this time a counter that is sampled has been."""


class Entry(NamedTuple):
    name: str
    kind: str
    flags: int
    units: int
    variability: int
    length: int
    name_at: int
    value_at: int
    vector: int
    values: tuple[str, ...]
    """At each moment."""

    def encoded(self, moment: int, order: Any) -> bytes:
        def number(value: int, size: int = 4) -> bytes:
            return value.to_bytes(size, order, signed=True)

        value = self.values[moment]
        data = value.encode().ljust(self.vector, b"\0") if self.vector else number(int(value), 8)
        header = number(self.length) + number(self.name_at) + number(self.vector) + self.kind.encode()
        header += bytes([self.flags, self.units, self.variability]) + number(self.value_at)
        name = self.name.encode().ljust(self.value_at - self.name_at, b"\0")
        return (header.ljust(self.name_at, b"\0") + name + data).ljust(self.length, b"\0")


def encoded(entries: list[Entry], moment: int = 0, order: Any = "little", size: int = 32768) -> bytes:
    """The file with these entries, as it was at that moment."""
    body = b"".join(entry.encoded(moment, order) for entry in entries)
    numbers = [32 + len(body), 0, 0, 0, 32, len(entries)]  # the third and fourth: time of the last change
    prologue = b"\xca\xfe\xc0\xc0" + bytes([order == "little", 2, 0, 1])
    prologue += b"".join(number.to_bytes(4, order) for number in numbers)
    return (prologue + body).ljust(size, b"\0")


def captured() -> dict[str, list[Entry]]:
    """By version and collector: `java-17 SerialGC`."""
    sections = ("\n" + ARCHIVE.read_text()).split("\n=== ")[1:]
    return {section.partition("\n")[0]: list(_entries(section.partition("\n")[2])) for section in sections}


def _entries(text: str) -> Iterator[Entry]:
    for line in text.splitlines():
        name, kind, *rest = line.split("\t")
        flags, units, variability, length, name_at, value_at, vector = map(int, rest[0].split())
        yield Entry(name, kind, flags, units, variability, length, name_at, value_at, vector, tuple(rest[1:]))


def _read(data: bytes) -> dict[str, tuple[list[Any], str]]:
    """Every entry of a file: its header's fields, and its value."""

    def number(at: int, size: int = 4) -> int:
        return int.from_bytes(data[at : at + size], "little", signed=True)

    at, found = number(24), {}
    for _ in range(number(28)):
        length, name_at, vector, value_at = number(at), number(at + 4), number(at + 8), number(at + 16)
        name = data[at + name_at :].partition(b"\0")[0].decode()
        start = at + value_at
        value = data[start : start + vector].partition(b"\0")[0].decode() if vector else str(number(start, 8))
        found[name] = [chr(data[at + 12]), *data[at + 13 : at + 16], length, name_at, value_at, vector], value
        at += length
    return found


def _capture(java: str, collector: str, classes: str) -> str:
    """The section of one JVM; "" if it does not have the collector."""
    heap = "-Xmx1g" if collector == "EpsilonGC" else "-Xmx128m"
    command = [java, "-XX:+UnlockExperimentalVMOptions", f"-XX:+Use{collector}", heap, "-cp", classes, "Moments"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True, bufsize=1) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        readings: list[dict[str, tuple[list[Any], str]]] = []
        while len(readings) < len(MOMENTS):
            line = process.stdout.readline()
            if not line:
                return ""
            if line.startswith("["):
                continue  # a warning of the JVM
            time.sleep(SETTLED_S)
            (file,) = Path("/tmp").glob(f"hsperfdata_*/{process.pid}")
            readings.append(_read(file.read_bytes()))
            process.stdin.write("\n")
    version = readings[0]["java.property.java.vm.specification.version"][1]
    lines = [f"=== java-{version} {collector}"]
    for name, (header, _) in readings[0].items():
        is_about = name.startswith(ABOUT) and not any(part in name for part in NOT_ABOUT)
        if is_about or name == "sun.gc.policy.name" or name.startswith("sun.os.hrt"):
            values = [reading[name][1] for reading in readings]
            lines.append("\t".join([name, header[0], " ".join(map(str, header[1:])), *values]))
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write the archive."""
    with tempfile.TemporaryDirectory() as classes:
        subprocess.run(["javac", "--release", "17", "-d", classes, str(SOURCE)], check=True)
        sections = [_capture(java, collector, classes) for java in sys.argv[1:] for collector in COLLECTORS]
    ARCHIVE.write_text("".join(sections))


if __name__ == "__main__":
    main()
