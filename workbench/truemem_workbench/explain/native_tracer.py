"""The handler of the run under memray: the user's own, while memray follows malloc and mmap.

It runs in the function's own process: standard library and memray alone. memray writes a moment of the curve every
10 ms; a look waits for the next one, because nothing is allocated between invocations.
"""

import gc
import importlib
import json
import os
import sys
import time
from typing import Any

from truemem_workbench.explain.looks import Looks

FOLDER = os.environ["TRUEMEM_EXPLAIN"]
OURS = os.environ.get("TRUEMEM_EXPLAIN_MEMRAY", "")  # a folder with memray, where the function's Python has none
MOMENT_S = 0.03
PID = os.getpid()


def new_capture() -> Any:
    """A tracker of memray that has not begun. From OURS comes all that memray imports, now and here: afterwards the
    function finds memray there, and else only what is its own."""
    before = set(sys.modules)
    sys.path[:0] = [OURS] if OURS else []
    import memray

    capture = memray.Tracker(os.path.join(FOLDER, f"capture-{PID}.bin"), native_traces=True)  # noqa: PTH118
    if OURS:
        sys.path.remove(OURS)
        for name in sys.modules.keys() - before:
            file = getattr(sys.modules[name], "__file__", None) or ""
            if file.startswith(os.path.join(OURS, "")) and not name.startswith("memray"):  # noqa: PTH118
                del sys.modules[name]
        vars(memray._memray)["pprint"] = print  # its warning of greenlets: rich's would import more of rich
    return capture


looks = Looks.of_process()
moments: list[tuple[int, float]] = []  # number of the invocation, and epoch ms
capture = new_capture()
os.environ["_HANDLER"] = os.environ["TRUEMEM_EXPLAIN_HANDLER"]
module, _, name = os.environ["_HANDLER"].rpartition(".")
user = getattr(importlib.import_module(module.replace("/", ".")), name)
capture.__enter__()


def handler(event: Any, context: Any) -> Any:
    try:
        return user(event, context)
    finally:
        if os.getpid() == PID:
            look()


def look() -> None:
    """Count an invocation; if it is time note the moment, and after the last look end the capture."""
    if not looks.due():
        return
    if gc.isenabled():
        gc.collect()
    time.sleep(MOMENT_S)
    moments.append((looks.count, time.time() * 1000))
    if looks.is_over:
        capture.__exit__(None, None, None)
    path = os.path.join(FOLDER, f"looks-{PID}.json")  # noqa: PTH118
    with open(f"{path}.new", "w", encoding="utf-8") as file:  # noqa: PTH123
        json.dump(moments, file)
    os.replace(f"{path}.new", path)  # noqa: PTH105 - a process may be killed: what is there is whole
