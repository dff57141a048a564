"""The user's handler, and after its first answer memory without end: the function of the scenario `out-of-memory`.

It is imported in the function's own process, so it imports nothing that the function might not.
"""

import importlib
import os
import time
from typing import Any

MARK = os.path.join(os.environ.get("TMPDIR", "/tmp"), ".has-grown")  # noqa: PTH118
"""Left behind, so that the process that follows does not grow again."""
PACE_S = 0.002
"""For each MiB: slow enough for a sampler to see the curve."""

module, _, name = os.environ["_HANDLER"].rpartition(".")
user = getattr(importlib.import_module(module.replace("/", ".")), name)


def handler(event: Any, context: Any) -> Any:
    answer = user(event, context)
    if not os.path.exists(MARK):  # noqa: PTH110
        with open(MARK, "x"):  # noqa: PTH123
            grow()
    return answer


def grow() -> None:
    held = []
    while True:
        held.append(bytearray(b"\1" * 2**20))
        time.sleep(PACE_S)
