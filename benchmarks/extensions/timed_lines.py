"""The sidecar from source, with a clock around what TRUEMEM_LINES adds to it. At its end it writes the CPU time of each
invocation, µs, to the file of $TIMED, as JSON."""

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import MethodType

RUN = Path(__file__).parents[2] / "extension" / "truemem" / "run"
sys.path.append(str(RUN.parents[1]))
from truemem.__main__ import main  # noqa: E402
from truemem.lines import GrowthLines  # noqa: E402
from truemem.wings import Wings  # noqa: E402

clock = time.thread_time_ns
spent = [0.0]
guarded = Wings._guarded


def timed(wings: Wings, call: MethodType) -> Callable[..., object]:
    """As Wings calls it; the clock's own time is taken off."""
    made = guarded(wings, call)
    if not isinstance(call.__self__, GrowthLines):
        return made

    def calling(*arguments: object, **named: object) -> object:
        began = clock()
        middle = clock()
        found = made(*arguments, **named)
        spent[-1] += (clock() - middle - (middle - began)) / 1000
        if call.__name__ == "window_closed":
            spent.append(0.0)
        return found

    return calling


setattr(Wings, "_guarded", timed)  # noqa: B010 - mypy
main(sys.argv[1])
Path(os.environ["TIMED"]).write_text(json.dumps(spent))
