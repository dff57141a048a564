"""Judges the environments of a batch: figures by DuckDB's SQL, the answer by `analysis.finding`.

`truemem report` does so on one machine (`collect`) and on many (`distributed`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..analysis import fleet
from ..analysis.causes import find
from ..analysis.curves import ENVIRONMENT, EXTENSION, PROCESSES, THREADS, Curves, Failed, others_of, runtime_of
from ..analysis.drift import MOVER_MEMBERS, Curve, Value
from ..analysis.finding import Finding, commands_of
from ..analysis.growth_lines import Growth, merged
from ..analysis.resources import Resource, resources
from ..analysis.runtime_heap import readings
from ..analysis.size_prediction import Invocations
from ..lines.growth import GrowthProfile, profile_in
from ..lines.record import Record, record_of
from .store import Store
from .summary import Durations, EnvironmentSummary, LeftOut, Part, Payload, Peaks

# counts of values, not values: their number is bounded by Lambda's largest size in hundredths of a MiB
_COUNTED = """
SELECT function, version, by_value, round(peak, 2) AS peak, {more} AS more, count(*) AS n,
    count(*) FILTER (out_of_memory) AS out_of_memory, count("current" - baseline) AS left_n,
    coalesce(sum("current" - baseline), 0) AS left_sum
FROM batch GROUP BY ALL
"""

# three digits are enough, and keep their number small
_DURATIONS = """
SELECT coalesce(function, '') AS function, coalesce(version, '') AS version,
    round(duration_ms, 2 - floor(log10(greatest(duration_ms, 1)))::INT) AS ms, count(*) AS n
FROM batch WHERE duration_ms IS NOT NULL GROUP BY ALL
"""

# bins of about 5 %, with their sums: in hundredths of a ms, so that their order does not matter. `is_any`: the CPU time
# of an environment's last invocation is not known where the runtime has ended first; it is like those before it
_COMPUTED = """
SELECT coalesce(function, '') AS function, coalesce(version, '') AS version, size,
    cpu_ms IS NULL AND invocation > 1 AND closed_by = 'shutdown' AND status = 'success' AS is_any, cpu_ms >= 0 AS known,
    round(20 * ln(duration_ms))::INT AS ms_bin, round(20 * ln(greatest(cpu_ms, 0.01)))::INT AS cpu_bin, count(*) AS n,
    sum(round(100 * duration_ms)::BIGINT)::BIGINT AS ms, sum(round(100 * cpu_ms)::BIGINT)::BIGINT AS cpu
FROM batch WHERE duration_ms > 0 AND size > 0 AND shared_by IS NULL GROUP BY ALL
"""

LARGE_MIB = 0.25
"""Least size of event and answer together. With less, other memory counts for more."""
PAYLOAD_MANY = 20
"""Least number of such invocations."""
PAYLOAD_ALIKE = 1.5
"""The middle half must not differ by more than this factor. Otherwise the payload does not explain the peak."""
PAYLOAD_TIMES = (0.5, 50.0)
"""Values outside of this range are not caused by the payload."""

_PAYLOAD_RATIOS = f"""
SELECT coalesce(function, '') AS function, coalesce(version, '') AS version,
    round((peak - baseline) / payload, 2) AS times, count(*) AS n
FROM batch WHERE exact AND NOT raced AND payload >= {LARGE_MIB} AND peak IS NOT NULL AND baseline IS NOT NULL
GROUP BY ALL
"""


_PROFILES = """
SELECT coalesce(function, '') AS function, coalesce(version, '') AS version, growth
FROM batch WHERE growth IS NOT NULL
"""

TABLES = ("counts", "payloads", "durations", "computed", "profiles")
"""What all batches add their counts to."""


def count_batch(store: Store, by: str | None) -> None:
    """Add the invocations of the present batch."""
    more = "round(peak - baseline, 1)" if by is not None else "NULL::FLOAT"  # only `parts` asks for it
    queries = (_COUNTED.format(more=more), _PAYLOAD_RATIOS, _DURATIONS, _COMPUTED, _PROFILES)
    for table, query in zip(TABLES, queries, strict=True):
        store.execute(f"CREATE TABLE IF NOT EXISTS {table} AS {query} LIMIT 0")
        store.execute(f"INSERT INTO {table} {query}")


def _ranked(by: str, value: str, table: str = "counts") -> str:
    return f"""
    SELECT {by} AS place, {value} AS value, sum(n) AS n,
        sum(sum(n)) OVER (PARTITION BY {by} ORDER BY {value}) AS upto, sum(sum(n)) OVER (PARTITION BY {by}) AS whole
    FROM {table} WHERE {value} IS NOT NULL GROUP BY {by}, {value}
    """


def peaks_by(store: Store, by: str) -> dict[Any, Peaks]:
    """Nearest-rank percentiles of the counts, by one column or several."""
    place = f"({by})"
    rows = store.rows(f"""
    WITH ranked AS ({_ranked(place, "peak")}), quantiles AS (
        SELECT place, min(value) FILTER (upto >= 0.5 * whole) AS p50, min(value) FILTER (upto >= 0.99 * whole) AS p99,
            max(value) AS highest FROM ranked GROUP BY place
    )
    SELECT {place} AS place, sum(n) AS invocations, sum(out_of_memory) AS out_of_memory, any_value(p50) AS p50,
        any_value(p99) AS p99, any_value(highest) AS highest
    FROM counts LEFT JOIN quantiles ON quantiles.place IS NOT DISTINCT FROM {place} GROUP BY {place}
    """)
    return {row["place"]: peaks_of(row) for row in rows}


def parts_by(store: Store) -> list[Part]:
    peaks = peaks_by(store, "by_value")
    rows = store.rows(f"""
    WITH ranked AS ({_ranked("by_value", "more")}), quantiles AS (
        SELECT place, min(value) FILTER (upto >= 0.5 * whole) AS more FROM ranked GROUP BY place
    )
    SELECT by_value, sum(left_n) AS left_n, sum(left_sum) AS left_sum, any_value(quantiles.more) AS more
    FROM counts LEFT JOIN quantiles ON place IS NOT DISTINCT FROM by_value GROUP BY by_value
    """)
    made = [
        Part(
            value=row["by_value"],
            peaks=peaks[row["by_value"]],
            added_p50=rounded_mib(row["more"]),
            left_mean=row["left_sum"] / row["left_n"] if row["left_n"] else None,
            left_sum=rounded_mib(row["left_sum"]) if row["left_n"] else None,
        )
        for row in rows
    ]
    return sorted(made, key=lambda part: (part.value is None, -(part.left_sum or 0.0), part.value or ""))


def left_out(store: Store) -> LeftOut:
    """Count what `parts` leaves out: what the function said, and no invocation here belongs to it."""
    (row,) = store.rows("""
    SELECT count(*) FILTER (request IS NULL) AS without_id,
        count(DISTINCT request) FILTER (request NOT IN (SELECT request FROM line WHERE request IS NOT NULL)) AS without
    FROM own_lines WHERE by_value IS NOT NULL
    """)
    return LeftOut(without_request_id=int(row["without_id"]), without_line=int(row["without"]))


def payloads(store: Store) -> dict[tuple[str, str], Payload]:
    """The ratio of peak growth to payload, for each function and version in which the payload explains the peak."""
    place = "(function, version)"
    rows = store.rows(f"""
    WITH ranked AS ({_ranked(place, "times", "payloads")})
    SELECT place, sum(n) AS invocations, min(value) FILTER (upto >= 0.25 * whole) AS low,
        min(value) FILTER (upto >= 0.5 * whole) AS middle, min(value) FILTER (upto >= 0.75 * whole) AS high
    FROM ranked GROUP BY place
    """)
    return {
        row["place"]: Payload(times=round(row["middle"], 2), invocations=int(row["invocations"]))
        for row in rows
        if row["invocations"] >= PAYLOAD_MANY
        and PAYLOAD_TIMES[0] <= row["low"] <= row["high"] <= min(PAYLOAD_TIMES[1], PAYLOAD_ALIKE * row["low"])
    }


def durations(store: Store) -> dict[tuple[str, str], Durations]:
    """Of each function and version that has any."""
    rows = store.rows(f"""
    WITH ranked AS ({_ranked("(function, version)", "ms", "durations")})
    SELECT place, min(value) FILTER (upto >= 0.5 * whole) AS p50, min(value) FILTER (upto >= 0.99 * whole) AS p99
    FROM ranked GROUP BY place
    """)
    return {row["place"]: Durations(p50=row["p50"], p99=row["p99"]) for row in rows}


def computed(store: Store) -> dict[tuple[str, str], dict[float, Invocations]]:
    """Durations and CPU times of each function and version that has any, by memory size. An environment's last
    invocation, if it succeeded, has the share of CPU time that the others have."""
    rows = store.columns("""
    SELECT function, version, size, sum(ms) / sum(n) / 100 AS ms, sum(n)::BIGINT AS n,
        CASE WHEN known THEN sum(cpu) / sum(n) / 100
            WHEN is_any THEN sum(ms) / sum(n) / 100 * (
                sum(sum(cpu)) FILTER (known) OVER at_size / sum(sum(ms)) FILTER (known) OVER at_size)
        END AS cpu
    FROM computed GROUP BY function, version, size, known, is_any, ms_bin, cpu_bin
    WINDOW at_size AS (PARTITION BY function, version, size) ORDER BY ALL
    """)
    keys = list(zip(rows["function"], rows["version"], rows["size"].tolist(), strict=True))
    begins = [at for at, key in enumerate(keys) if at == 0 or key != keys[at - 1]]
    found: dict[tuple[str, str], dict[float, Invocations]] = {}
    for begin, end in zip(begins, [*begins[1:], len(keys)], strict=False):
        function, version, size = keys[begin]
        columns = (np.ma.filled(rows[name][begin:end], np.nan) for name in ("ms", "cpu", "n"))
        found.setdefault((function, version), {})[size] = Invocations(size, *columns)
    return found


def growths(store: Store) -> dict[tuple[str, str], Growth]:
    """The lines of code that keep memory, of each function and version that was profiled."""
    found: dict[tuple[str, str], list[GrowthProfile]] = {}
    for row in store.rows("SELECT function, version, growth FROM profiles"):
        if (profile := profile_in(json.loads(row["growth"]))) is not None:
            found.setdefault((row["function"], row["version"]), []).append(profile)
    return {key: merged(profiles) for key, profiles in found.items()}


def peaks_of(row: dict[str, Any]) -> Peaks:
    return Peaks(
        invocations=int(row["invocations"]),
        p50=rounded_mib(row["p50"]),
        p99=rounded_mib(row["p99"]),
        highest=rounded_mib(row["highest"]),
        out_of_memory=int(row["out_of_memory"]),
    )


def rounded_mib(value: float | None) -> float | None:
    """Round MiB as in the lines: the store keeps 4-byte floats."""
    return None if value is None else round(value, 2)


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
    -- of all its life, at random
    max_by(struct_pack(n := invocation, h := heap, e := held_extensions, d := ended), hash(invocation), 1000)
        FILTER (heap IS NOT NULL OR held_extensions IS NOT NULL) AS sampled,
    list(invocation ORDER BY invocation) FILTER (ended) AS ends,
    list(invocation ORDER BY invocation) FILTER (out_of_memory) AS deaths,
    histogram(coalesce(error_type, status)) FILTER (status <> 'success' AND NOT out_of_memory AND NOT ended) AS failed,
    max_by(struct_pack(n := invocation, r := resources), invocation, 64) FILTER (resources IS NOT NULL) AS resources,
    max(invocation) AS latest,
    -- of all its life: what is live shows at major collections, which may be far apart
    max_by(runtime_heap, hash(invocation), 400) FILTER (runtime_heap IS NOT NULL) AS runtime_heaps,
    arg_max(runtime_heap, invocation) FILTER (runtime_heap IS NOT NULL) AS last_runtime_heap,
    count(duration_ms) AS billed,
    coalesce(sum(coalesce(billed_ms, ceil(duration_ms))) FILTER (duration_ms IS NOT NULL), 0) AS billed_ms,
    coalesce(sum(greatest(billed_ms - ceil(duration_ms), 0)), 0) AS init_ms,
    sum(line_bytes)::BIGINT AS line_bytes, count(shared_by) > 0 AS managed,
    arg_max(request, (peak, -invocation)) FILTER (peak IS NOT NULL)::VARCHAR AS peak_request,
    min_by(request::VARCHAR, invocation, 10) FILTER (out_of_memory AND request IS NOT NULL) AS killed,
    histogram(coalesce(method, 'none')) AS methods, count(*) FILTER (report_missing OR dropped) AS lost
FROM batch GROUP BY environment ORDER BY environment
"""
_POINTS = """
SELECT * FROM (
    SELECT environment, invocation, coalesce(time_ms, 0) AS time_ms, peak, certain, begins, out_of_memory AS died,
        coalesce("current", CASE WHEN out_of_memory THEN peak END) AS "current", by_value, threads,
        processes, held_truemem, environment_used, shared_by AS "sharedBy", files AS "rss.file",
        heap_held AS "heap.held", request_bytes AS "requestBytes"
    FROM batch WHERE invocation IS NOT NULL
) WHERE "current" IS NOT NULL ORDER BY environment, invocation
"""


class Column(NamedTuple):
    """One environment's invocations, and what else its finding is made from."""

    function: str
    environment: str
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
    others: dict[str, NDArray[np.float64]]
    """Other witnesses that are on each line, in the curve's own unit; NaN if unknown."""
    sampled: Sequence[Mapping[str, Any]]
    """Some invocations with what the heap and the extensions held, as JSON."""
    heaps: Sequence[str]
    """Some readings of a collected heap, as JSON."""
    resources: Sequence[Resource]
    failed: Failed
    ends: Sequence[int]
    """Invocations in which something beside the function was killed, or an extension ended."""
    deaths: Sequence[int]


class Judged(NamedTuple):
    """One environment of a batch."""

    key: int
    """The store's key of the environment: its place among the others."""
    environment: EnvironmentSummary
    evidence: fleet.Evidence
    """For the verdict on all environments of its function."""


Judges = Callable[[Sequence[Column]], Iterator[tuple[Finding, fleet.Evidence]]]
"""A function that judges curves, in their order."""


def judged(store: Store, by: str | None, judges: Judges) -> Iterator[Judged]:
    """Judge the environments in the store's present batch, by their keys. The batch is read at once: by the time that
    they are judged, there may be another."""
    rows = store.rows(_ENVIRONMENTS)
    columns = _columns(store, rows, by)
    return (
        Judged(row["environment"], _environment(row, column.resources, finding), evidence)
        for row, column, (finding, evidence) in zip(rows, columns, judges(columns), strict=True)
    )


def here(columns: Sequence[Column]) -> Iterator[tuple[Finding, fleet.Evidence]]:
    """Judge environments in this process."""
    return map(finding_of, columns)


def finding_of(column: Column) -> tuple[Finding, fleet.Evidence]:
    """Judge one environment, alone and for its function."""
    levels, peaks = column.current * 1024, column.peak * 1024
    rss = Curve.made(column.invocation, column.time_ms, levels, peaks, column.certain, column.begins, column.died)
    return find(_curves(column, rss), commands_of(column.function, column.environment)), fleet.evidence(rss)


def _curves(column: Column, rss: Curve) -> Curves:
    others = {}
    for name, values in column.others.items():
        known = ~np.isnan(values)
        others[name] = Curve.made(rss.invocation[known], 0.0, values[known], begins=rss.begins[known])
    sampled = sorted(column.sampled, key=lambda each: each["n"] or 0)
    numbers = rss.invocation.tolist()
    return Curves(
        invocations=len(rss),
        rss=rss,
        beside={name: dict(zip(numbers, _known(values), strict=True)) for name, values in column.beside.items()},
        others={**others, **_with_begins(others_of((each["n"] or 0, _record(each)) for each in sampled), rss)},
        readings=readings(Record(members=json.loads(members)) for members in column.heaps),
        reported=column.resources,
        runtime="".join(runtime_of(_record(each)) for each in sampled[:1])
        or (json.loads(column.heaps[0])["heap"]["runtime"] if column.heaps else ""),
        limit_mib=column.size,
        failed=column.failed,
        out_of_memory=column.deaths,
        killed=column.ends,
    )


def _with_begins(others: Mapping[str, Curve], rss: Curve) -> dict[str, Curve]:
    """The curves of some lines, with the begin of each life: the line that says so may not be among them."""
    begins = rss.invocation[rss.begins]
    found = {}
    for name, curve in others.items():
        lives = np.searchsorted(begins, curve.invocation, side="right")
        begun = np.diff(lives, prepend=0) > 0
        found[name] = Curve.made(curve.invocation, curve.time_ms, curve.current_kib, begins=begun, died=curve.died)
    return found


def _record(sampled: Mapping[str, Any]) -> Record:
    """The record of one sampled invocation, with what it says of the heap and of the extensions alone."""
    members = json.loads(sampled["h"] or "{}")
    members["holders"] = {"extensions": json.loads(sampled["e"] or "{}")}
    members["environmentKills"] = int(sampled["d"])
    members.pop("processes", None)  # which is a curve of its own
    return record_of(members)


def _known(column: NDArray[Any]) -> list[Value]:
    """The values, None where there is none."""
    return column.tolist() if column.dtype == object else [None if math.isnan(one) else one for one in column.tolist()]


def _columns(store: Store, rows: Sequence[dict[str, Any]], by: str | None) -> list[Column]:
    """The columns of each row, in their order."""
    found = {name: _filled(name, values) for name, values in store.columns(_POINTS).items()}
    keys, begins = np.unique(found["environment"], return_index=True)
    ends = [*begins[1:], len(found["environment"])][: len(keys)]
    places = {int(key): slice(begin, end) for key, begin, end in zip(keys, begins, ends, strict=True)}
    names = {name: name for name in MOVER_MEMBERS} | ({"by_value": by} if by else {})

    def column(row: dict[str, Any]) -> Column:
        at = places.get(row["environment"], slice(0, 0))
        beside = {name: found[column][at] for column, name in names.items()}
        others = {name: found[column][at].astype(float) * unit for name, (column, unit) in _OTHERS.items()}
        heaps = (*(row["runtime_heaps"] or []), row["last_runtime_heap"])
        reported = ((each["n"] or 0, json.loads(each["r"])) for each in row["resources"] or [])
        floats = {name: found[name][at].astype(float) for name in ("invocation", "time_ms", "current", "peak")}
        flags = {name: found[name][at].astype(bool) for name in ("certain", "begins", "died")}
        return Column(
            function=row["function"] or "",
            environment=row["environment_id"],
            **floats,
            **flags,
            size=row["size"],
            beside={name: values for name, values in beside.items() if _varies(values)},
            others={name: values if _varies(values) else _last(values) for name, values in others.items()},
            sampled=row["sampled"] or [],
            heaps=[each for each in heaps if each is not None],
            resources=resources(reported, row["latest"] or 0),
            failed=Failed.of(row["failed"] or {}),
            ends=row["ends"] or [],
            deaths=row["deaths"] or [],
        )

    return [column(row) for row in rows]


_OTHERS = {
    PROCESSES: ("processes", 1.0),
    THREADS: ("threads", 1.0),
    f"{EXTENSION}truemem": ("held_truemem", 1024.0),
    ENVIRONMENT: ("environment_used", 1024.0),
}
"""Witnesses that are on each line: the column, and what one of its unit is in the curve's."""


def _varies(values: NDArray[Any]) -> bool:
    """Is there more than one known value?"""
    known = values if values.dtype == object else values[~np.isnan(values)]
    return len(known) > 0 and bool((known != known[0]).any())


def _last(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Only the last known value: it says all of a curve that is level, and is judged in no time."""
    known = np.flatnonzero(~np.isnan(values))[-1:]
    return np.where(np.isin(np.arange(len(values)), known), values, np.nan)


def _filled(name: str, values: Any) -> NDArray[Any]:
    """A column as a plain array: NaN, or None in texts, where there is no value."""
    if name == "by_value":
        return np.ma.filled(values.astype(object), None) if isinstance(values, np.ma.MaskedArray) else values
    if not isinstance(values, np.ma.MaskedArray):
        return np.asarray(values)
    return np.ma.filled(values.astype(float) if name != "environment" else values, np.nan)


def _environment(row: dict[str, Any], reported: Sequence[Resource], finding: Finding) -> EnvironmentSummary:
    held = row["holders"] or {}
    holders = {"function": held.get("f"), "truemem": held.get("t"), **json.loads(held.get("e") or "{}")}
    mib = {name: rounded_mib(row[name]) for name in ("current_first", "current_last", "mark_first", "mark", "size")}
    return EnvironmentSummary(
        function=row["function"] or "",
        version=row["version"] or "",
        environment_id=row["environment_id"],
        peaks=peaks_of(row),
        **mib,
        first_ms=row["first_ms"],
        last_ms=row["last_ms"],
        need=rounded_mib(row["need"]),
        unbounded=row["unbounded"],
        others=rounded_mib(row["others"]),
        holders={name: round(value, 2) for name, value in holders.items() if value is not None},
        billed=row["billed"],
        billed_ms=row["billed_ms"],
        init_ms=row["init_ms"],
        line_bytes=row["line_bytes"],
        managed=row["managed"],
        methods=row["methods"],
        lost=row["lost"],
        peak_request=row["peak_request"],
        out_of_memory_requests=row["killed"] or [],
        finding=finding,
        ended=len(row["ends"] or []),
        resources=reported,
    )
