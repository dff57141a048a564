"""The sidecar from source, which writes where its CPU time goes: to the file of $SAMPLED, as JSON, the number of
samples of each of its modules. A sample each tick of the kernel's, some ms of CPU time."""

import json
import os
import signal
import sys
from collections import Counter
from pathlib import Path
from types import FrameType

TICK_S = 0.001
"""The kernel rounds it up to its own."""
counts: Counter[str] = Counter()
file = os.open(os.environ["SAMPLED"], os.O_RDWR | os.O_CREAT)
RUN = Path(__file__).parents[2] / "extension" / "truemem" / "run"


def sample(_: int, frame: FrameType | None) -> None:
    """Count the innermost of the sidecar's modules."""
    while frame is not None and not str(frame.f_globals.get("__name__")).startswith("truemem."):
        frame = frame.f_back
    counts[frame.f_globals["__name__"].removeprefix("truemem.") if frame else "other"] += 1
    os.pwrite(file, json.dumps(counts).encode().ljust(8192), 0)


signal.signal(signal.SIGPROF, sample)
signal.setitimer(signal.ITIMER_PROF, TICK_S, TICK_S)
sys.path.append(str(RUN.parents[1]))
from truemem.__main__ import main  # noqa: E402  # its start is not counted otherwise

main(str(RUN))
