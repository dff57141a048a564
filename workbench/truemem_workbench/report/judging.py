"""Judges the environments of a batch: figures by DuckDB's SQL, verdicts by `drift.judge`.

`truemem report` does so on one machine (`collect`) and on many (`distributed`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..analysis import covariates, fleet
from ..analysis.covariates import Value
from ..analysis.drift import Point, Verdict, judge
from ..analysis.heap import explain, hoarding
from ..analysis.resources import resources
from ..analysis.runtime_heap import find
from ..lines.record import Record
from .peak_percentiles import peaks_of, rounded
from .store import Store
from .summary import Environment

_ENVIRONMENTS = """
SELECT environment, any_value(function) AS function, any_value(version) AS version,
    any_value(environment_id) AS environment_id, count(*) AS invocations,
    quantile_disc(peak, 0.5) AS p50, quantile_disc(peak, 0.99) AS p99, max(peak) AS highest,
    count(*) FILTER (out_of_memory) AS out_of_memory,
    arg_min("current", invocation) FILTER (certain) AS current_first,
    arg_max("current", invocation) FILTER (certain) AS current_last,
    arg_min(mark, invocation) AS mark_first, max(mark) AS mark, max(size) AS size,
    min(time_ms) AS first_ms, max(time_ms) AS last_ms,
    max(greatest(coalesce(upper, peak), peak, init_peak)) AS need,
    count(*) FILTER (peak IS NOT NULL AND (upper IS NULL OR (upper >= size AND coalesce(lower, peak) < size))
        AND (closed_by <> 'shutdown' OR out_of_memory)) AS unbounded,
    max(others) AS others,
    arg_max(struct_pack(f := held_function, t := held_truemem, e := held_extensions), invocation)
        FILTER (held_truemem IS NOT NULL AND closed_by <> 'shutdown') AS holders,
    max_by(heap, invocation, 400) FILTER (heap IS NOT NULL) AS heaps,
    max_by(struct_pack(n := invocation, r := resources), invocation, 64) FILTER (resources IS NOT NULL) AS resources,
    max(invocation) AS latest,
    -- of all its life: what is live shows at major collections, which may be far apart
    max_by(runtime_heap, hash(invocation), 400) FILTER (runtime_heap IS NOT NULL) AS runtime_heaps,
    arg_max(runtime_heap, invocation) FILTER (runtime_heap IS NOT NULL) AS last_runtime_heap,
    coalesce(sum(ceil(duration_ms)), 0) AS billed_ms, count(duration_ms) AS billed,
    arg_max(request, (peak, -invocation)) FILTER (peak IS NOT NULL)::VARCHAR AS peak_request,
    min_by(request::VARCHAR, invocation, 10) FILTER (out_of_memory AND request IS NOT NULL) AS killed,
    histogram(coalesce(method, 'none')) AS methods, count(*) FILTER (report_missing OR dropped) AS lost
FROM batch GROUP BY environment ORDER BY environment
"""
_POINTS = """
SELECT * FROM (
    SELECT environment, invocation, coalesce(time_ms, 0) AS time_ms, peak, certain, begins, out_of_memory AS died,
        coalesce("current", CASE WHEN out_of_memory THEN peak END) AS "current", told, threads,
        shared_by AS "sharedBy", files AS "rss.file", heap_held AS "heap.held", request_bytes AS "requestBytes"
    FROM batch WHERE invocation IS NOT NULL
) WHERE "current" IS NOT NULL ORDER BY environment, invocation
"""


class Curve(NamedTuple):
    """One environment's invocations, for its verdict."""

    invocation: NDArray[np.float64]
    time_ms: NDArray[np.float64]
    current: NDArray[np.float64]
    peak: NDArray[np.float64]
    """Peaks; NaN if unknown."""
    certain: NDArray[np.bool_]
    begins: NDArray[np.bool_]
    died: NDArray[np.bool_]
    size: float | None
    beside: dict[str, NDArray[Any]]
    """What may move with the memory, by name, if it is not always the same; None or NaN if unknown."""


class Judged(NamedTuple):
    """One environment of a batch."""

    key: int
    """The store's key of the environment: its place among the others."""
    environment: Environment
    evidence: fleet.Evidence
    """For the verdict on all environments of its function."""


Judges = Callable[[Sequence[Curve]], Iterator[tuple[Verdict, fleet.Evidence]]]
"""A function that judges curves, in their order."""


def judged(store: Store, by: str | None, judges: Judges) -> Iterator[Judged]:
    """Judge the environments in the store's present batch, by their keys. The batch is read at once: by the time that
    they are judged, there may be another."""
    rows = store.rows(_ENVIRONMENTS)
    verdicts = judges(_curves(store, rows, by))
    return (
        Judged(row["environment"], _environment(row, verdict), evidence)
        for row, (verdict, evidence) in zip(rows, verdicts, strict=True)
    )


def here(curves: Sequence[Curve]) -> Iterator[tuple[Verdict, fleet.Evidence]]:
    """Judge curves in this process."""
    return map(verdict_of, curves)


def verdict_of(curve: Curve) -> tuple[Verdict, fleet.Evidence]:
    """Judge one curve, alone and for its function."""
    columns = (curve.invocation.astype(int), curve.time_ms, curve.current * 1024, curve.peak * 1024)
    numbers, times, currents, peaks = (column.tolist() for column in columns)  # lists: Python reads them sooner
    known = [None if math.isnan(peak) else peak for peak in peaks]
    flags = (column.tolist() for column in (curve.certain, curve.begins, curve.died))
    points = list(map(Point._make, zip(numbers, times, currents, known, *flags, strict=True)))
    beside = {name: dict(zip(numbers, _known(column), strict=True)) for name, column in curve.beside.items()}
    return judge(points, int(curve.size) if curve.size else None, beside=beside), fleet.evidence(points)


def _known(column: NDArray[Any]) -> list[Value]:
    """The values, None where there is none."""
    return column.tolist() if column.dtype == object else [None if math.isnan(one) else one for one in column.tolist()]


def _curves(store: Store, rows: Sequence[dict[str, Any]], by: str | None) -> list[Curve]:
    """The curve of each row, in their order."""
    columns = {name: _filled(name, values) for name, values in store.columns(_POINTS).items()}
    keys, begins = np.unique(columns["environment"], return_index=True)
    ends = [*begins[1:], len(columns["environment"])][: len(keys)]
    places = {int(key): slice(begin, end) for key, begin, end in zip(keys, begins, ends, strict=True)}
    names = {name: name for name in covariates.MEMBERS} | ({"told": by} if by else {})

    def curve(row: dict[str, Any]) -> Curve:
        at = places.get(row["environment"], slice(0, 0))
        invocation, time_ms, current, peak = (
            columns[name][at].astype(float) for name in ("invocation", "time_ms", "current", "peak")
        )
        certain, begins, died = (columns[name][at].astype(bool) for name in ("certain", "begins", "died"))
        beside = {name: columns[column][at] for column, name in names.items()}
        beside = {name: values for name, values in beside.items() if _varies(values)}
        return Curve(invocation, time_ms, current, peak, certain, begins, died, row["size"], beside)

    return [curve(row) for row in rows]


def _varies(values: NDArray[Any]) -> bool:
    """Is there more than one known value?"""
    known = values if values.dtype == object else values[~np.isnan(values)]
    return len(known) > 0 and bool((known != known[0]).any())


def _filled(name: str, values: Any) -> NDArray[Any]:
    """A column as a plain array: NaN, or None in texts, where there is no value."""
    if name == "told":
        return np.ma.filled(values.astype(object), None) if isinstance(values, np.ma.MaskedArray) else values
    if not isinstance(values, np.ma.MaskedArray):
        return np.asarray(values)
    return np.ma.filled(values.astype(float) if name != "environment" else values, np.nan)


def _environment(row: dict[str, Any], verdict: Verdict) -> Environment:
    held = row["holders"] or {}
    heaps = [Record(members=json.loads(members)) for members in reversed(row["heaps"] or [])]
    found = hoarding(heaps)
    collected = [each for each in (*(row["runtime_heaps"] or []), row["last_runtime_heap"]) if each is not None]
    runtime = find(Record(members=json.loads(members)) for members in collected)
    holders = {"function": held.get("f"), "truemem": held.get("t"), **json.loads(held.get("e") or "{}")}
    mib = {name: rounded(row[name]) for name in ("current_first", "current_last", "mark_first", "mark", "size")}
    return Environment(
        function=row["function"] or "",
        version=row["version"] or "",
        environment_id=row["environment_id"],
        peaks=peaks_of(row),
        **mib,
        first_ms=row["first_ms"],
        last_ms=row["last_ms"],
        need=rounded(row["need"]),
        unbounded=row["unbounded"],
        others=rounded(row["others"]),
        holders={name: round(value, 2) for name, value in holders.items() if value is not None},
        heap_in_use=rounded(heaps[-1].members["heap"]["inUse"]) if heaps else None,
        heap_held=rounded(heaps[-1].members["heap"]["held"]) if heaps else None,
        heap_says=runtime.sentence if runtime else explain(heaps) if heaps else None,
        runtime_heap=runtime,
        hoards=found is not None,
        only_hoards=found is not None and found.alone,
        billed_ms=row["billed_ms"],
        billed=row["billed"],
        methods=row["methods"],
        lost=row["lost"],
        peak_request=row["peak_request"],
        out_of_memory_requests=row["killed"] or [],
        verdict=verdict,
        resources=resources(
            ((told["n"] or 0, json.loads(told["r"])) for told in row["resources"] or []), row["latest"] or 0
        ),
    )
