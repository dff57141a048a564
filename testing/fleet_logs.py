"""Log files of a whole fleet, from a seed: functions of four kinds of runtime, whose memory moves as memory does.

An environment has 20 to 5,000 invocations, evenly by their logarithm, and one of the curves of `testing.fleets` or a
leak; besides, noise and spikes. Its lines are full and short ones, as the sidecar prints them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from testing.fleets import QUIET

Floats = NDArray[np.float64]

SHORTEST, LONGEST = 20, 5000
NOISE_MIB = 0.3
"""Standard deviation of CurrentRSS, in each second environment; a tenth of it in the others."""
SPIKES = 0.01
"""Part of the invocations of each third environment whose peak is SPIKE_MIB higher."""
SPIKE_MIB = 60.0
LEAKY_EVERY = 11
"""One environment of so many keeps LEAK_MIB with each invocation, until MOST_MIB."""
LEAK_MIB, MOST_MIB, SIZE_MIB = 0.125, 900.0, 1024
BEGIN_MS, GAP_MS = 1_795_288_667_424, 1_500
FULL_EVERY = 16
"""Every so many lines one is full; and so are the first, the second, the fourth and the eighth."""
METRICS = [{"Name": name, "Unit": "Megabytes"} for name in ("PeakRSS", "CurrentRSS", "MaxMemoryUsed")]
CLOUDWATCH = [{"Namespace": "truemem", "Dimensions": [["FunctionName"]], "Metrics": METRICS}]
Heap = Callable[[Generator, Floats, bool], Iterator[Mapping[str, Any]]]
"""`heap` of each line, where this is in use after each invocation, MiB. `True`: what is in use rises for garbage."""


def _no_heap(_: Generator, held: Floats, is_garbage: bool) -> Iterator[Mapping[str, Any]]:
    """The runtime has no probe."""
    yield from ({} for _ in held)


def _python(random: Generator, held: Floats, is_garbage: bool) -> Iterator[Mapping[str, Any]]:
    settled = 64
    for number, (used, noise) in enumerate(zip(held.tolist(), random.random(len(held)).tolist(), strict=True), 1):
        made: dict[str, Any] = {"inUse": round(used * 0.5 + noise, 2), "held": round(6 - noise, 2), "mapped": 0.58}
        made |= {"blocks": int(43_000 + used * 400 + 99 * noise), "small": round(3.9 + used * 0.2 + noise / 50, 2)}
        if number == settled:
            settled *= 2
            made |= {"kept": round(8 + used * 0.7 * (not is_garbage), 3), "garbage": round(number / 400, 3)}
        yield {"heap": made}


def _collected(random: Generator, held: Floats, is_garbage: bool, runtime: str) -> Iterator[Mapping[str, Any]]:
    """A heap whose collector runs each time that garbage has come to 30 MiB."""
    live, garbage, count, spent = held[0], 0.0, 0, 18
    for used, made in zip(held.tolist(), random.exponential(0.8, len(held)).tolist(), strict=True):
        garbage += made
        if garbage > 30:
            live, garbage, count, spent = held[0] if is_garbage else used, 0.0, count + 1, spent + 21
        sizes: dict[str, Any] = {"runtime": runtime, "used": round(used + garbage, 2), "committed": round(used + 60)}
        if count:
            sizes["live"] = round(float(live), 2)
        sizes |= {"limit": 870, **({"external": 1.87} if runtime == "nodejs" else {}), "metaspace": 5.06}
        yield {"heap": {**sizes, "collections": count, "gcMs": spent}}


def _node(random: Generator, held: Floats, is_garbage: bool) -> Iterator[Mapping[str, Any]]:
    return _collected(random, held, is_garbage, "nodejs")


def _java(random: Generator, held: Floats, is_garbage: bool) -> Iterator[Mapping[str, Any]]:
    return _collected(random, held, is_garbage, "java")


HEAPS: tuple[Heap, ...] = (_python, _node, _java, _no_heap)
"""Environments have these in turn, and so have functions."""
GARBAGE = ("sawtooth", "sawtooth, slow", "arenas")
"""Curves of what is not in use."""


class Life(NamedTuple):
    """One environment to be."""

    number: int
    length: int
    """Its invocations."""
    leaks: bool

    @property
    def environment(self) -> str:
        """Its id."""
        return f"2026/11/21/[$LATEST]{self.number:032x}"


def lives(environments: int, seed: int = 7) -> list[Life]:
    """So many environments, the same each time."""
    lengths = np.exp(np.random.default_rng(seed).uniform(np.log(SHORTEST), np.log(LONGEST), environments))
    return [Life(at, int(count), at % LEAKY_EVERY == 0) for at, count in enumerate(lengths.tolist())]


def write(folder: Path, known: Sequence[Life], files: int, functions: int, full_every: int = FULL_EVERY) -> list[Path]:
    """Log files of these environments, each of some of them, in the order of time."""
    paths = [folder / f"{number}.log" for number in range(min(files, len(known)))]
    for number, path in enumerate(paths):
        open_ones = [
            lines(life, f"function-{life.number % functions:03d}", full_every) for life in known[number :: len(paths)]
        ]
        with path.open("w") as file:
            while open_ones:
                pairs = [(each, next(each, "")) for each in open_ones]
                file.writelines(line for _, line in pairs)
                open_ones = [each for each, line in pairs if line]
    return paths


def lines(life: Life, function: str, full_every: int = FULL_EVERY) -> Iterator[str]:
    """What one environment logs; with 1 all its lines are full."""
    random = np.random.default_rng([life.number, life.length])
    kind = list(QUIET)[life.number % len(QUIET)]
    moved = np.minimum(np.arange(life.length) * LEAK_MIB, MOST_MIB - 200)
    if not life.leaks:
        moved = np.clip(QUIET[kind](random, 1, life.length)[0] / 1024, -60, MOST_MIB - 200)
    held = 90 + 20 * random.random() + moved
    noise = random.normal(0, NOISE_MIB if life.number % 2 else NOISE_MIB / 10, life.length)
    peak = 2 + 8 * random.random(life.length)
    if life.number % 3 == 0:
        peak += SPIKE_MIB * (random.random(life.length) < SPIKES)
    is_garbage = kind in GARBAGE and not life.leaks
    heaps = HEAPS[life.number % len(HEAPS)](random, np.maximum(held - 60, 1), is_garbage)
    current, time_ms = np.round(held + noise, 2), BEGIN_MS + life.number
    columns = current.tolist(), np.round(current + peak, 2).tolist(), (20 + 40 * random.random(life.length)).tolist()
    mark, before = 0.0, float(current[0])
    for number, (now, top, took, heap) in enumerate(zip(*columns, heaps, strict=True), 1):
        mark = max(mark, top + 8)
        figures = {"FunctionName": function, "PeakRSS": top, "CurrentRSS": now, "MaxMemoryUsed": int(mark)}
        request = f"{number:08x}-7e9b-4967-8952-{life.number:012x}"
        named = {"requestId": request, "environmentId": life.environment, "invocation": number}
        metadata = {"Timestamp": time_ms + number * GAP_MS, "CloudWatchMetrics": CLOUDWATCH}
        is_full = number % full_every == 0 or (number < full_every and number & (number - 1) == 0)
        said = {**figures, **named, **_measured(number, now, top, took, before, is_full), **heap}
        said |= {"level": "INFO", "schema": 1} if is_full else {"schema": 2}
        yield json.dumps({"_aws": metadata, **said}, separators=(",", ":")) + "\n"
        before = now


def _measured(number: int, now: float, top: float, took: float, before: float, is_full: bool) -> dict[str, Any]:
    """The members of a full line, or of a short one (records/record.py has which)."""
    cpu = round(took / 9, 2)
    if not is_full:
        short = {"durationMs": round(took, 3), "cpuMs": cpu, "method": "vmhwm", "mode": "exact"}
        return {**short, "memoryLimit": SIZE_MIB, "baselineRSS": before, "rss": {"file": 39.53}, "threads": 2}
    first = {"coldStart": True, "functionVersion": "$LATEST"} if number == 1 else {"functionVersion": "$LATEST"}
    measured = {"status": "success", "durationMs": round(took, 3), "cpuMs": cpu, "cpuShare": 0.04, "method": "vmhwm"}
    bounds = {"peakLower": top, "peakUpper": top, "closedBy": "next-request", "mode": "exact", "requestBytes": 12}
    held = {"responseBytes": 65, "highWaterMark": top, "memoryLimit": SIZE_MIB, "baselineRSS": before}
    holders = {"function": now, "truemem": 13.71}
    rss = {"anon": round(now - 39.53, 2), "file": 39.53, "shmem": 0.0}
    used = {"source": "meminfo", "used": round(now + 45, 2)}
    whole = {"holders": holders, "rss": rss, "processes": 1, "threads": 2, "environment": used}
    return {**first, **measured, **bounds, **held, **whole}
