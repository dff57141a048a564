"""Busy processes beside what is measured."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

LOOP = """
import os, sys
while os.getppid() == int(sys.argv[1]):
    for _ in range(1_000_000):
        pass
"""
"""Ends by itself if the benchmark was killed."""


@contextmanager
def busy(count: int) -> Iterator[None]:
    """Runs so many loops, each of which would take a whole CPU, at the priority of this process."""
    command = [sys.executable, "-IS", "-c", LOOP, str(os.getpid())]
    started: list[subprocess.Popen[bytes]] = []
    try:
        started.extend(subprocess.Popen(command) for _ in range(count))
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()
