"""`truemem --check`: does the one-file executable run here, and what is in it? For people and tests; Lambda gives an
extension no arguments."""

from __future__ import annotations

import posix
import sys

from .. import VERSION


def main(path: str) -> None:
    """Say which modules there are: all that its image was made with."""
    version = ".".join(map(str, sys.version_info[:3]))
    names = " ".join(sorted(sys.modules))
    posix.write(1, f"truemem {VERSION}, CPython {version}, {posix.uname().machine}: {names}\n".encode())
