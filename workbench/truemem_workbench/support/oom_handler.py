"""The handler of the scenario `out-of-memory`: the user's own handler, which then takes memory without end.

It is imported in the function's own process, so it imports only what every function has.
"""

import importlib
import os
import time
from typing import Any

MARK_FILE = os.path.join(os.environ.get("TMPDIR", "/tmp"), ".has-grown")  # noqa: PTH118
"""File that says that memory has run out once. The next process then does not do it again."""
PACE_S = 0.002
"""Pause after each MiB: slow enough for a sampler to see the curve."""

module, _, name = os.environ["_HANDLER"].rpartition(".")
user = getattr(importlib.import_module(module.replace("/", ".")), name)


def handler(event: Any, context: Any) -> Any:
    answer = user(event, context)
    if not os.path.exists(MARK_FILE):  # noqa: PTH110
        with open(MARK_FILE, "x"):  # noqa: PTH123
            grow()
    return answer


def grow() -> None:
    held = []
    while True:
        held.append(bytearray(b"\1" * 2**20))
        time.sleep(PACE_S)
