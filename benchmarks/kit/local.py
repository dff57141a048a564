"""One environment of the local Lambda, by turns with others: what it has spent on each invocation."""

from __future__ import annotations

import gc
import time
from collections.abc import Mapping
from typing import Any

from truemem_workbench.local import LocalLambda

from benchmarks.kit.contenders import EXECUTABLE
from testing.bare import cpu_ns


def spans(local: LocalLambda) -> dict[str, tuple[float, float, float]]:
    """Request id to three times in ms, as the platform's own events tell them: until the runtime's response, from that
    to its request for the next event, from that to the invocation's end (`extensionOverhead`, with no thaw in it)."""
    done: dict[str, tuple[float, float]] = {}
    known: dict[str, tuple[float, float, float]] = {}
    for event in local.events:
        record = event["record"]
        took = {span["name"]: float(span["durationMs"]) for span in record.get("spans", [])}
        if event["type"] == "platform.runtimeDone" and "runtimeOverhead" in took:
            done[record["requestId"]] = took["responseLatency"] + took["responseDuration"], took["runtimeOverhead"]
        elif event["type"] == "platform.report" and record["requestId"] in done:
            known[record["requestId"]] = (*done[record["requestId"]], took.get("extensionOverhead", 0.0))
    return known


class Side:
    """One environment, and what was measured in it, block by block."""

    def __init__(self, local: LocalLambda) -> None:
        self.local = local
        self.cpu_ms: list[float] = []
        """CPU time of the sidecar for one invocation, by block."""
        self._blocks: list[list[str]] = []

    def run(self, event: Mapping[str, Any], count: int, pause_s: float = 0.0) -> list[str]:
        """Invoke, until all is at rest; request ids."""
        gc.collect()  # the local Lambda's own, not in the middle of an invocation
        gc.disable()
        made = []
        for _ in range(count):
            time.sleep(pause_s)
            made.append(self.local.invoke(dict(event)))
            self.local.settle()  # the next event is not made while the runtime still asks for it
        gc.enable()
        failed = next((each for each in made if each.function_error is not None), None)
        assert failed is None, failed
        return [each.request_id for each in made]

    def turn(self, event: Mapping[str, Any], count: int, pause_s: float = 0.0) -> None:
        """The same, measured."""
        pid = self.local.processes().get(f"extension:{EXECUTABLE.name}")
        before = cpu_ns(pid) if pid else 0
        self._blocks.append(self.run(event, count, pause_s))
        self.cpu_ms.append((cpu_ns(pid) - before) / count / 1e6 if pid else 0.0)

    def blocks(self) -> list[list[tuple[float, float, float]]]:
        """The spans of each block's invocations."""
        known = spans(self.local)
        return [[known[request_id] for request_id in block] for block in self._blocks]
