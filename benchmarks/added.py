"""Measures what an attached sidecar adds to the function: paired runs under the local Lambda with it, without it, and
with an extension that does nothing."""

from __future__ import annotations

import gc
import statistics
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from truemem_workbench.local import Function, LocalLambda, Settings

from benchmarks.accuracy import percentile
from testing.environment import FUNCTIONS

BLOCK = 20
"""So many in a row, then it is the other's turn."""

WARM_UP = 10


@dataclass(frozen=True)
class Added:
    """One row. Times in ms."""

    handler: str
    invocations: int
    """Of each side."""
    duration_p50: tuple[float, float]
    """The runtime's own duration (platform.runtimeDone), without and with."""
    duration_p99: tuple[float, float]
    difference: float
    """Of the means, from block to block,"""
    error: float
    """and its standard error."""
    after_p50: tuple[float, float, float]
    """From the runtime's end to the invocation's: without, with the floor, which never waits, and with the sidecar."""
    line_bytes: float
    """Of the sidecar's line, in the mean."""


HANDLERS: Sequence[tuple[str, str, float]] = (
    ("sleeps 5 ms with 8 MiB", "hold", 5.0),
    ("computes for 5 ms with 8 MiB", "spike", 5.0),
)


def environment(sidecar: Path | None) -> LocalLambda:
    """A function of one vCPU, with the sidecar or without."""
    settings = Settings(memory_mib=1769, extensions=[sidecar] if sidecar is not None else [])
    return LocalLambda(Function.from_handler(f"{FUNCTIONS / 'touch.py'}:handler"), settings)


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


def measure(extensions: Mapping[str, Path], blocks: int, advance: Callable[[], None]) -> list[Added]:
    """`extensions` are `floor` and `with`. All by turns, in environments that stay open."""
    rows = []
    for name, do, ms in HANDLERS:
        event = {"do": do, "mib": 8, "ms": ms}
        made = {"without": environment(None), **{side: environment(path) for side, path in extensions.items()}}
        asked: dict[str, list[list[str]]] = {side: [] for side in made}
        with ExitStack() as stack:
            for local in made.values():
                stack.enter_context(local)
            for local in made.values():
                for _ in range(WARM_UP):
                    local.invoke(event)
            for _ in range(blocks):
                for side, local in made.items():
                    gc.collect()  # the local Lambda's own, not in the middle of an invocation
                    gc.disable()
                    asked[side].append([local.invoke(event).request_id for _ in range(BLOCK)])
                    gc.enable()
                    advance()
            for local in made.values():
                local.stop()
        known = {side: spans(local) for side, local in made.items()}
        lines = [len(line.encode()) + 1 for line in made["with"].extension_stdout(extensions["with"].name)]
        rows.append(_row(name, asked, known, statistics.fmean(lines)))
    return rows


def _row(
    name: str,
    asked: Mapping[str, list[list[str]]],
    known: Mapping[str, Mapping[str, tuple[float, float, float]]],
    line_bytes: float,
) -> Added:
    durations = {side: [[sum(known[side][one][:2]) for one in block] for block in asked[side]] for side in asked}
    after = {side: [known[side][one][2] for block in asked[side] for one in block] for side in asked}
    every = {side: [value for block in blocks for value in block] for side, blocks in durations.items()}
    differences = [
        statistics.fmean(attached) - statistics.fmean(alone)
        for attached, alone in zip(durations["with"], durations["without"], strict=True)
    ]

    def both(values: Mapping[str, Sequence[float]], percent: int) -> tuple[float, float]:
        return round(percentile(values["without"], percent), 2), round(percentile(values["with"], percent), 2)

    middle = {side: round(percentile(values, 50), 2) for side, values in after.items()}
    return Added(
        name,
        len(every["with"]),
        both(every, 50),
        both(every, 99),
        round(statistics.fmean(differences), 3),
        round(statistics.stdev(differences) / len(differences) ** 0.5, 3),
        (middle["without"], middle["floor"], middle["with"]),
        round(line_bytes),
    )
