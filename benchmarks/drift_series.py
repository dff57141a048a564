"""What the verdict and the published methods say of one series. Values in, values out: for several processes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from truemem.records.leak_verdict import GROWING
from truemem_workbench.testing.drift import open_kinds, recorded, sealed_kinds, second_kinds, synthetic, third_kinds
from truemem_workbench.testing.drift.corpus import BOUNDED, FILLING, LEAK, MIB, Kind, Series, make
from truemem_workbench.testing.drift.judged import Told, sidecar_at, workbench_of

from benchmarks.drift_methods import Floats, judged, reduced

CORPORA = {
    "open": {
        **open_kinds.KINDS,
        **{f"{name} (second)": kind for name, kind in second_kinds.KINDS.items()},
        **{f"{name} (third)": kind for name, kind in third_kinds.KINDS.items()},
    },
    "sealed": sealed_kinds.KINDS,
}
LENGTHS = (256, 512, 1024, 4096, 16_384)
LIFE = LENGTHS[-1]
SIDECAR, WORKBENCH = "truemem, sidecar", "truemem, workbench"
FORMS = (SIDECAR, WORKBENCH)

ALONE, BESIDE = "leak alone", "leak beside"
GROUPS = (ALONE, BESIDE, BOUNDED, FILLING)

LEAST_ROOM_KIB, MOST_ROOM_KIB = 32 * MIB, 4096 * MIB
"""Range of what is left below the memory limit at first."""
REAL_ROOM_KIB = 512 * MIB
"""The same of a recorded program."""
SHORT_GAP_MS = 200
"""Between the invocations of a short series."""


class Heard(NamedTuple):
    """What all methods say of one series."""

    growing: dict[str, dict[int, bool]]
    """By method and length."""
    told: dict[str, dict[int, Told]]
    """The same of the verdict's two forms, with intervals."""
    first: int | None
    """At which invocation the sidecar first said growing, if ever."""
    sidecar_us: float
    """CPU time of one invocation."""
    workbench_ms: dict[int, float]
    """CPU time of one verdict, by length."""


class Result(NamedTuple):
    """Of one series of a corpus."""

    kind: str
    group: str
    rate: float | None
    """KiB per invocation that truly leak, if that is one number."""
    heard: Heard
    killed: int | None
    """At which invocation it reached its memory limit."""


class Real(NamedTuple):
    """Of one recorded program."""

    name: str
    leaks: bool
    half: int
    end: int
    heard: Heard


class Short(NamedTuple):
    """The verdicts on one short series."""

    kind: str
    growing: dict[str, bool]


def group_of(kind: Kind) -> str:
    """One of GROUPS."""
    if kind.truth != LEAK:
        return kind.truth
    return BESIDE if kind.beside else ALONE


def measure(which: tuple[str, str, int]) -> Result:
    """The series of that corpus, kind and seed."""
    corpus, name, seed = which
    kinds = CORPORA[corpus]
    series = make(kinds, name, seed, LIFE)
    limit = limit_of(series, seed)
    current, peak, time_ms = (
        np.asarray(values, np.float64) for values in (series.current, series.peak, series.time_ms)
    )
    over = np.flatnonzero(np.maximum(current, peak) > limit)
    killed = int(over[0]) + 1 if len(over) else None
    heard = hear(current, peak, time_ms, LENGTHS, limit)
    return Result(name, group_of(kinds[name]), series.rate, heard, killed)


def limit_of(series: Series, seed: int) -> float:
    """A memory limit in KiB, drawn by the seed. What does not leak always has enough."""
    random = np.random.default_rng([seed, *series.kind.encode(), *b"limit"])
    room = float(np.exp(random.uniform(np.log(LEAST_ROOM_KIB), np.log(MOST_ROOM_KIB))))
    first = float(series.current[0])
    if series.truth != LEAK:
        need = float(max(series.current.max(), series.peak.max())) - first
        room = max(room, 1.05 * need + MIB)
    return first + room


def hear(current: Floats, peak: Floats, time_ms: Floats, lengths: Sequence[int], limit_kib: float) -> Heard:
    """All methods after each of these lengths. The limit is for the verdict and Precog."""
    begun = time.process_time()
    small, first = sidecar_at(current, peak, time_ms, lengths, limit_kib)
    sidecar_us = (time.process_time() - begun) * 1e6 / len(current)
    large: dict[int, Told] = {}
    spent: dict[int, float] = {}
    growing: dict[str, dict[int, bool]] = {}
    for count in lengths:
        begun = time.process_time()
        large[count] = workbench_of(current[:count], peak[:count], time_ms[:count], limit_kib)
        spent[count] = (time.process_time() - begun) * 1e3
        for method, grows in judged(reduced(current[:count], limit_kib)).items():
            growing.setdefault(method, {})[count] = grows
    told = {SIDECAR: small, WORKBENCH: large}
    ours = {form: {count: one.verdict == GROWING for count, one in by.items()} for form, by in told.items()}
    return Heard({**ours, **growing}, told, first, sidecar_us, spent)


def measure_real(name: str) -> Real:
    """The recorded program of that name."""
    points = [point for point in recorded.stored(name) if point.certain]
    current = np.array([point.current_kib for point in points])
    peak = np.array([point.peak_kib or point.current_kib for point in points])
    time_ms = np.array([point.time_ms for point in points])
    half, end = len(points) // 2, len(points)
    heard = hear(current, peak, time_ms, [half, end], float(current[0]) + REAL_ROOM_KIB)
    return Real(name, recorded.REAL[name], half, end, heard)


def measure_short(which: tuple[str, int]) -> Short:
    """The short series of that kind and seed."""
    series = synthetic.make(*which)
    count = len(series.current)
    current, peak = (np.asarray(values, np.float64) for values in (series.current, series.peak))
    time_ms = np.arange(1, count + 1, dtype=np.float64) * SHORT_GAP_MS
    small = sidecar_at(current, peak, time_ms, [count])[0][count]
    names = {SIDECAR: small.verdict, WORKBENCH: workbench_of(current, peak, time_ms).verdict}
    return Short(which[0], {form: name == GROWING for form, name in names.items()})
