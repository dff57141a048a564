"""Makes a report from the store's lines: percentiles and sums by DuckDB, findings on all cores."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from typing import NamedTuple

from ..analysis import fleet
from ..analysis.finding import urgency
from ..lines.unread import WORDS as REASONS
from . import sizing
from .functions import function_of
from .judging import Judged, Judges, finding_of, here, judged
from .peak_percentiles import count, durations, left_out, parts, payloads, peaks_by
from .store import Loaded, Store
from .summary import Environment, Function, LeftOut, Report

WORTH_A_POOL = 200
"""Least number of environments for a pool of processes. Fewer are judged before a process has started."""


class Prices(NamedTuple):
    """What the suggested sizes and their savings depend on."""

    headroom: float = sizing.HEADROOM
    """Share that is added to the need."""
    per_month: float | None = None
    """Invocations of all functions, for the saving."""
    gb_second: float = sizing.GB_SECOND
    """USD."""


USUAL = Prices()


def collect(
    store: Store,
    loaded: Loaded,
    *,
    by: str | None = None,
    prices: Prices = USUAL,
    done: Callable[[int], None] = lambda _: None,
) -> Report:
    """Make the report of all that `store` has loaded. `done` is called with the lines that are judged."""
    found: list[Judged] = []
    with _judges(store) as judges:
        waiting: tuple[Iterator[Judged], int] = iter(()), 0
        for lines in store.batches():  # the database makes the next batch while the processes judge this one
            before, waiting = waiting, (judged(store, by, judges), lines)
            count(store, by)
            found += before[0]
            done(before[1])
        found += waiting[0]
        done(waiting[1])
    return report_of(store, found, loaded, by, left_out(store) if by is not None else None, prices)


def report_of(
    store: Store, found: Sequence[Judged], loaded: Loaded, by: str | None, by_left_out: LeftOut | None, prices: Prices
) -> Report:
    """Make the report of the environments of all batches, in the order of their keys, and of the store's counts."""
    evidences: dict[tuple[str, str], list[fleet.Evidence]] = {}
    for _, each, evidence in found:
        # else a witness says that it is no leak, or that garbage may be what rises
        if each.finding.cause not in ("hoarding", "collector") and each.finding.holder != "heap":
            evidences.setdefault((each.function, each.version), []).append(evidence)
    environments = [each.environment for each in found]
    environments.sort(key=lambda each: urgency(each.finding, each.peaks.out_of_memory, each.peaks.highest, each.size))
    total = sum(environment.peaks.invocations for environment in environments)
    groups: dict[tuple[str, str], list[Environment]] = {}
    for environment in environments:
        groups.setdefault((environment.function, environment.version), []).append(environment)
    peaks = peaks_by(store, "coalesce(function, ''), coalesce(version, '')")
    explained, lasted = payloads(store), durations(store)
    together = dict(zip(evidences, fleet.accuse(list(map(fleet.pool, evidences.values()))), strict=True))

    def function(key: tuple[str, str]) -> Function:
        share = None if prices.per_month is None else prices.per_month * peaks[key].invocations / total
        more = explained.get(key), lasted.get(key), together.get(key)
        return function_of(key, groups[key], peaks[key], more, prices.headroom, share, prices.gb_second)

    return Report(
        functions=[function(key) for key in sorted(groups)],
        environments=environments,
        parts=parts(store) if by is not None else [],
        by=by,
        by_left_out=by_left_out,
        lines=loaded.lines,
        repeated=loaded.lines - total,
        elsewhere=loaded.elsewhere,
        unread={name: loaded.unread[name] for name in REASONS},
    )


@contextmanager
def _judges(store: Store) -> Iterator[Judges]:
    """Yield a function that judges curves, on all cores if there are many."""
    if store.value("SELECT count(DISTINCT environment) FROM line") < WORTH_A_POOL:
        yield here
        return
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # of the processes to come: each has a core, and no more
    pool: Executor
    with ProcessPoolExecutor(os.cpu_count(), mp_context=multiprocessing.get_context("spawn")) as pool:
        yield lambda curves: pool.map(finding_of, curves, chunksize=25)
