"""Writes called.txt: `python -m layer.called PROFILE...`, after `make layer` of the same source.

The profiles are of the layer's executable, from a cold start over 60 invocations to its end, by `valgrind
--tool=callgrind --dump-instr=yes`: in default mode, in exact mode, with other outputs. The kernel maps 16 pages around
each that is touched: first is what each invocation of the first profile calls, then of the second, and so on; then what
they have called seldom. What is in no profile is last.
"""

from __future__ import annotations

import re
import sys
import tempfile
import textwrap
from collections import Counter
from pathlib import Path

from . import compiled, cpython, executable, unused
from .__main__ import default_cache
from .toolchain import Toolchain

COSTS = re.compile(r"^(0x[0-9a-f]+|[+-]\d+|\*) \S+ (\d+)|^(calls)=", re.MULTILINE)
"""A line of costs: the instruction's address, or how far it is from that of the line before, and how often it was
executed. After `calls` comes the cost of what was called."""

OFTEN = 30
"""A function that was called so many times is called at each invocation."""


def executed(profile: str) -> Counter[int]:
    """How often each instruction was executed, by its address."""
    at, found, is_of_call = 0, Counter[int](), False
    for position, count, calls in COSTS.findall(profile):
        if not calls:
            at = int(position, 16) if position.startswith("0x") else at + int(position.replace("*", "0"))
            found[at] += 0 if is_of_call else int(count)
        is_of_call = bool(calls)
    return found


def main(*profiles: str) -> None:
    """Write the names: by profile what was called often in it, then the others."""
    cache = default_cache().resolve()
    toolchain = Toolchain(cache, print)
    build = cpython.build(cache, toolchain, print)
    with tempfile.TemporaryDirectory() as work:
        library = compiled.library(cache, build, toolchain, cpython.NATIVE, executable.SIDECAR_FOLDER)
        program = executable.program(build, toolchain, cpython.NATIVE, Path(work), library)
        code = unused.Code(program.read_bytes(), executable.sections(program).read_text())
    seen: dict[int, int] = {}
    for rank, counts in enumerate(executed(Path(profile).read_text()) for profile in profiles):
        for number in {code.find(address) for address in counts}:
            if number is not None:
                start, _ = code.parts[number]
                seen[start] = min(seen.get(start, len(profiles)), rank if counts[start] >= OFTEN else len(profiles))
    names = dict(code.functions)
    order = sorted(seen, key=lambda start: (seen[start], start))
    called = " ".join(names[start] for start in order if start in names)
    executable.CALLED.write_text(textwrap.fill(called, 120, break_long_words=False, break_on_hyphens=False) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
