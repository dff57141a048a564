"""Plays conversations with the sidecar, and tries its parts: what comes of each seed, as text."""

from __future__ import annotations

import posix
import sys

from . import kernel as k
from . import stand_ins

stand_ins.install()

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


def lines(asked: str, environ: dict[bytes, bytes]) -> Iterator[str]:
    """`asked`: FIRST COUNT, a line for each of these seeds; or FIRST alone, all that this one does."""
    from truemem.__main__ import main  # not before the modules are in their place

    from .conversations import converse
    from .pieces import try_all

    first, _, count = asked.partition(" ")
    for seed in range(int(first), int(first) + int(count or 1)):
        tried = try_all(seed)
        kernel = converse(seed, main, environ)
        if not count:
            yield from tried
            yield from kernel.trace
        endings = ", ".join(text.decode() for name, text in kernel.said if name == "end")
        printed = sum(name == "out" for name, _ in kernel.said)
        sums = [k.digest("\n".join(each).encode("utf-8", "backslashreplace")) for each in (tried, kernel.trace)]
        yield f"{seed}: parts {sums[0]:x}, conversation {sums[1]:x}, calls {kernel.calls}, lines {printed}, {endings}"


def main(path: str) -> None:
    """In the place of `truemem --check`: $SEEDS says what is asked."""
    environ = posix.environ
    for line in lines(environ.pop(b"SEEDS").decode(), environ):
        sys.stdout.write(f"{line}\n")
