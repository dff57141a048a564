"""What a tool says of planted leaks, and of functions that keep nothing."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from benchmarks.kit.bench import Bench
from testing.plants import CACHES, LEAKS, Planted, planted

T = TypeVar("T")


def told_of(bench: Bench, ask: Callable[[Planted, Path, Bench], T], leaks: int, clean: int) -> tuple[list[T], list[T]]:
    """What `ask` says of so many handlers with a leak, and of so many that keep nothing, with progress. It gets the
    handler, a folder to write it to, and the benchmark."""
    with tempfile.TemporaryDirectory(prefix="truemem-plants-") as name:
        folder = Path(name)
        folder.chmod(0o755)  # the function may run as another user
        found, cleared = (
            [ask(each, folder, bench) for each in bench.each(title, list(planted(kinds, bench.count(number))))]
            for title, kinds, number in (("leaks", LEAKS, leaks), ("clean", CACHES, clean))
        )
    return found, cleared
