"""Makes the executable out of the program that was linked: its file with another data segment, the memory of a process
of it that has imported everything (image.c says why).

The layout of ELF files: elf(5).
"""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from .errors import BuildError

ELF_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
SEGMENT = struct.Struct("<IIQQQQQQ")
PT_LOAD, PF_X, PF_W = 1, 1, 2
OFFSET, SIZES = 8, 32
WORD = 8

IMAGE_ENVIRONMENT = {"TZ": "UTC0"}
"""Variables of the process that makes the image: musl reads no file for a zone that is given like this (tzset(3))."""

MOST_WORDS = 64
"""Words that may depend on the process: libc's own, which it sets at each start (its environment, auxiliary vector,
program's name and thread), and what returned calls have left on Python's stack. 12 are known."""


@dataclass(frozen=True)
class LoadSegment:
    """One entry of the program headers that is loaded."""

    at: int
    """Where its entry is in the file."""
    flags: int
    offset: int
    address: int
    memory_size: int
    alignment: int

    def __contains__(self, address: int) -> bool:
        return 0 <= address - self.address < self.memory_size


def memory(command: Sequence[str | Path], modules: bytes, names: str = "") -> bytes:
    """The data segments of a process of the program that `command` runs, one after the other, without what depends on
    the process. `modules` and `names` are what freeze.py wrote. Raises BuildError."""
    # An emulator's stack is at the same place each time, so an argument that is not read moves it.
    first, second = (_run(command, modules, names, moved) for moved in ("", "." * 4096))
    if len(first) != len(second):
        raise BuildError("two images of the same program differ in size")
    content = bytearray(first)
    if first != second:
        own = [at for at in range(0, len(first), WORD) if first[at : at + WORD] != second[at : at + WORD]]
        if len(own) > MOST_WORDS:
            raise BuildError(f"two images of the same program differ in {len(own)} words, {MOST_WORDS} are expected")
        for at in own:
            content[at : at + WORD] = bytes(WORD)
    return bytes(content)


def with_memory(program: bytes, content: bytes) -> bytes:
    """The file, its writable segments' content replaced. The last one is longer than it was. Zeros at a segment's end
    are not stored: the kernel adds them."""
    segments = writable(program)
    made = bytearray(program[: segments[0].offset])
    for number, segment in enumerate(segments, 1):
        size = segment.memory_size if number < len(segments) else len(content)
        stored, content = content[:size], content[size:]
        if len(stored) < segment.memory_size:
            raise BuildError("the image is smaller than the program's data segments")
        made += bytes((segment.address - len(made)) % segment.alignment)
        struct.pack_into("<Q", made, segment.at + OFFSET, len(made))
        stored = stored.rstrip(b"\0")
        struct.pack_into("<QQ", made, segment.at + SIZES, len(stored), size)
        made += stored
    header = list(ELF_HEADER.unpack_from(made))
    header[6] = header[12] = header[13] = 0  # no sections: they are for linkers
    ELF_HEADER.pack_into(made, 0, *header)
    return bytes(made)


def loaded(program: bytes) -> Iterator[LoadSegment]:
    """The program's loaded segments, in the order of the file."""
    header = ELF_HEADER.unpack_from(program)
    for number in range(header[10]):
        at = header[5] + number * header[9]
        kind, flags, offset, address, _, _, memory_size, alignment = SEGMENT.unpack_from(program, at)
        if kind == PT_LOAD:
            yield LoadSegment(at, flags, offset, address, memory_size, alignment)


def writable(program: bytes) -> list[LoadSegment]:
    """The program's segments that are written at run time."""
    return [segment for segment in loaded(program) if segment.flags & PF_W]


def _run(command: Sequence[str | Path], modules: bytes, *arguments: str) -> bytes:
    whole = [*command, "--image", *arguments]
    done = subprocess.run(whole, input=modules, env=IMAGE_ENVIRONMENT, capture_output=True, check=False)
    if done.returncode:
        last = (done.stderr.decode(errors="replace").strip().splitlines() or ["no message"])[-1]
        raise BuildError(f"{Path(command[-1]).name} does not make its image ({done.returncode}): {last}")
    return done.stdout
