"""Writes called.txt: `python -m layer.called PROFILE...`, after `make layer` of the same source.

The profiles are of the layer's executable, from a cold start on, by `valgrind --tool=callgrind --dump-instr=yes`. What
they have not seen is far from the rest in the file: one such function brings 16 pages into memory.
"""

from __future__ import annotations

import re
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path

from . import compiled, cpython, executable, unused
from .__main__ import default_cache
from .toolchain import Toolchain

POSITION = re.compile(r"^(0x[0-9a-f]+|[+-]\d+|\*) ", re.MULTILINE)
"""Of a line of costs: the instruction's address, or how far it is from that of the line before."""


def addresses(profile: str) -> Iterator[int]:
    """Of all instructions that were executed."""
    at = 0
    for position in POSITION.findall(profile):
        at = int(position, 16) if position.startswith("0x") else at + int(position.replace("*", "0"))
        yield at


def main(*profiles: str) -> None:
    """Write the names, in the order of the program."""
    cache = default_cache().resolve()
    toolchain = Toolchain(cache, print)
    build = cpython.build(cache, toolchain, print)
    with tempfile.TemporaryDirectory() as work:
        library = compiled.library(cache, build, toolchain, cpython.NATIVE, executable.SIDECAR_FOLDER)
        program = executable.program(build, toolchain, cpython.NATIVE, Path(work), library)
        code = unused.Code(program.read_bytes(), executable.sections(program).read_text())
    seen = {code.find(address) for profile in profiles for address in addresses(Path(profile).read_text())}
    names = dict(code.functions)
    starts = [code.parts[number][0] for number in sorted(each for each in seen if each is not None)]
    called = " ".join(names[start] for start in starts if start in names)
    executable.CALLED.write_text(textwrap.fill(called, 120, break_long_words=False, break_on_hyphens=False) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
