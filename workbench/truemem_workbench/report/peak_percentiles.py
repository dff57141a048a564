"""Computes percentiles over all batches, by function and by the values of `--by`, from counts of each value."""

from __future__ import annotations

from typing import Any

from .store import Store
from .summary import Durations, LeftOut, Part, Payload, Peaks

# counts of values, not values: their number is bounded by Lambda's largest size in hundredths of a MiB
_COUNTED = """
SELECT function, version, told, round(peak, 2) AS peak, {more} AS more, count(*) AS n,
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

LARGE_MIB = 0.25
"""Least size of event and answer together. With less, other memory counts for more."""
MANY = 20
"""Least number of such invocations."""
ALIKE = 1.5
"""The middle half must not differ by more than this factor. Otherwise the payload does not explain the peak."""
TIMES = (0.5, 50.0)
"""Values outside of this range are not caused by the payload."""

_TIMES = f"""
SELECT coalesce(function, '') AS function, coalesce(version, '') AS version,
    round((peak - baseline) / payload, 2) AS times, count(*) AS n
FROM batch WHERE exact AND NOT raced AND payload >= {LARGE_MIB} AND peak IS NOT NULL AND baseline IS NOT NULL
GROUP BY ALL
"""


TABLES = ("counts", "payloads", "durations")
"""What all batches add their counts to."""


def count(store: Store, by: str | None) -> None:
    """Add the invocations of the present batch."""
    more = "round(peak - baseline, 1)" if by is not None else "NULL::FLOAT"  # only `parts` asks for it
    for table, query in zip(TABLES, (_COUNTED.format(more=more), _TIMES, _DURATIONS), strict=True):
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


def parts(store: Store) -> list[Part]:
    peaks = peaks_by(store, "told")
    rows = store.rows(f"""
    WITH ranked AS ({_ranked("told", "more")}), quantiles AS (
        SELECT place, min(value) FILTER (upto >= 0.5 * whole) AS more FROM ranked GROUP BY place
    )
    SELECT told, sum(left_n) AS left_n, sum(left_sum) AS left_sum, any_value(quantiles.more) AS more
    FROM counts LEFT JOIN quantiles ON place IS NOT DISTINCT FROM told GROUP BY told
    """)
    made = [
        Part(
            value=row["told"],
            peaks=peaks[row["told"]],
            added_p50=rounded(row["more"]),
            left_mean=row["left_sum"] / row["left_n"] if row["left_n"] else None,
            left_sum=rounded(row["left_sum"]) if row["left_n"] else None,
        )
        for row in rows
    ]
    return sorted(made, key=lambda part: (part.value is None, -(part.left_sum or 0.0), part.value or ""))


def left_out(store: Store) -> LeftOut:
    """Count what `parts` leaves out: what the function said, and no invocation here belongs to it."""
    (row,) = store.rows("""
    SELECT count(*) FILTER (request IS NULL) AS without_id,
        count(DISTINCT request) FILTER (request NOT IN (SELECT request FROM line WHERE request IS NOT NULL)) AS without
    FROM said WHERE told IS NOT NULL
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
        if row["invocations"] >= MANY and TIMES[0] <= row["low"] <= row["high"] <= min(TIMES[1], ALIKE * row["low"])
    }


def durations(store: Store) -> dict[tuple[str, str], Durations]:
    """Of each function and version that has any."""
    rows = store.rows(f"""
    WITH ranked AS ({_ranked("(function, version)", "ms", "durations")})
    SELECT place, min(value) FILTER (upto >= 0.5 * whole) AS p50, min(value) FILTER (upto >= 0.99 * whole) AS p99
    FROM ranked GROUP BY place
    """)
    return {row["place"]: Durations(p50=row["p50"], p99=row["p99"]) for row in rows}


def peaks_of(row: dict[str, Any]) -> Peaks:
    return Peaks(
        invocations=int(row["invocations"]),
        p50=rounded(row["p50"]),
        p99=rounded(row["p99"]),
        highest=rounded(row["highest"]),
        out_of_memory=int(row["out_of_memory"]),
    )


def rounded(value: float | None) -> float | None:
    """Round MiB as in the lines: the store keeps 4-byte floats."""
    return None if value is None else round(value, 2)
