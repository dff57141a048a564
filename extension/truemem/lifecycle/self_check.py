"""`truemem --check`: does the one-file executable run here, and is everything in it? For people and tests; Lambda
gives an extension no arguments."""

from __future__ import annotations

import _imp
import posix
import sys

from .. import VERSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def main(path: str) -> None:
    """Import every module that is frozen in, and say so. Exits 1 if one of them is not whole."""
    frozen_module_names: Callable[[], list[str]] = getattr(_imp, "_frozen_module_names")  # noqa: B009 - not in typeshed
    names = sorted(frozen_module_names())
    for name in names:
        try:
            __import__(name)
        except ImportError as error:
            posix.write(2, f"{path}: {name}: {error}\n".encode())
            sys.exit(1)
    version = ".".join(map(str, sys.version_info[:3]))
    posix.write(1, f"truemem {VERSION}, CPython {version}, {posix.uname().machine}: {' '.join(names)}\n".encode())
