"""Were the CPUs taken away from this machine while a test ran?

A scenario races real processes, to the millisecond. A host that takes the CPUs away for tens of them leaves even a
sidecar that does all as promised too little to see, and the test has shown nothing: it runs again, twice at most, and
the summary shows what had failed (conftest.py). Where the CPUs were there, a failure is a failure.

As a program: one line for each stall, its begin and end (CLOCK_MONOTONIC, s), until standard input is closed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

PERIOD_S = 0.005
STALL_S = 0.025
"""A thread that wants to run each PERIOD_S, and has not for so long, was kept from it: by more than its turn behind the
few processes of one test, each of which runs for some ms at most."""


class Watch:
    """Watches every CPU that this process may use, beside it."""

    def __init__(self) -> None:
        self._file = tempfile.NamedTemporaryFile(prefix="truemem-stalls-")  # noqa: SIM115  # until `close`
        self.process = subprocess.Popen([sys.executable, "-P", __file__], stdin=subprocess.PIPE, stdout=self._file)

    def longest_ms(self, since_s: float) -> float:
        """Of the stalls that have ended after `since_s` (CLOCK_MONOTONIC), 0 if there was none."""
        stalls = (map(float, line.split()) for line in Path(self._file.name).read_text().splitlines())
        return max((1000 * (end - begin) for begin, end in stalls if end > since_s), default=0)

    def close(self) -> None:
        """Stop watching."""
        self.process.communicate()
        self._file.close()


def watch(cpu: int) -> None:
    """Tell of each stall of one CPU, for ever."""
    os.sched_setaffinity(0, {cpu})  # of this thread (sched_setaffinity(2))
    before = time.monotonic()
    while True:
        time.sleep(PERIOD_S)
        now = time.monotonic()
        if now - before > STALL_S:
            os.write(1, f"{before} {now}\n".encode())
        before = now


if __name__ == "__main__":
    for number in os.sched_getaffinity(0):
        threading.Thread(target=watch, args=(number,), daemon=True).start()
    sys.stdin.read()
