"""Invocations as of a durable function: each one loads the results of all steps that its execution has done, does one
more, and forgets them. `STEPS`: of an execution. `KEEPS`: bytes of each invocation that stay.
"""

from __future__ import annotations

import itertools
import json
import os

RESULT = json.dumps([{"number": number, "text": f"some text of a result {number}"} for number in range(40)])
STEPS, KEEPS = int(os.environ["STEPS"]), int(os.environ["KEEPS"])
replays = itertools.count()
kept: list[bytearray] = []


def handler(event: object, context: object) -> int:
    history = json.loads(f"[{','.join([RESULT] * (next(replays) % STEPS))}]")
    kept.append(bytearray(KEEPS))
    return len(history)
