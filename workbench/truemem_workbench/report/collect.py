"""Reads what `truemem report` was given, and makes the report: figures by DuckDB, findings on all cores."""

from __future__ import annotations

import multiprocessing
import os
import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from .. import page
from ..analysis import fleet
from ..analysis.finding import TOO_FEW, Finding, commands_of, most_urgent, urgency
from ..analysis.fleet import RATE, Together
from ..analysis.growth_lines import Growth, named
from ..analysis.prices import GB_SECOND, MONTH_MS, Cost, cost
from ..analysis.resources import Resource
from ..analysis.size_prediction import Invocations
from ..analysis.sizing import HEADROOM, SizingFigures, advise_size
from ..aws.cloudwatch import Source
from ..lines.line import read as read_lines
from ..lines.log_files import on_disk, size_of
from ..lines.wrapped import WORDS as REASONS
from ..lines.wrapped import not_read
from ..page import html as page_html
from ..support.bad_input import BadInput
from ..support.exit_codes import no_ctrl_c_in_children
from ..support.platform_facts import MOST_MIB
from ..support.terminal import Count, notify, progress
from .judging import (
    Judged,
    Judges,
    computed,
    count_batch,
    durations,
    finding_of,
    growths,
    here,
    judged,
    left_out,
    parts_by,
    payloads,
    peaks_by,
)
from .store import Loaded, Store
from .summary import (
    Durations,
    EnvironmentSummary,
    Function,
    Holder,
    LeftOut,
    Payload,
    Peaks,
    Report,
    added,
)

WORTH_A_POOL = 200
"""Least number of environments for a pool of processes. Fewer are judged before a process has started."""


LEAST_SPAN_MS = 3600 * 1000
"""Lines of a shorter time do not tell a month's traffic."""


class Prices(NamedTuple):
    """What the suggested sizes and the costs depend on."""

    headroom: float = HEADROOM
    """Share that is added to the need."""
    per_month: float | None = None
    """Invocations of all functions. None: as many as the lines have in their time."""
    gb_second: float = GB_SECOND["x86_64"]
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
            count_batch(store, by)
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
    profiled = growths(store)
    environments = [_with_line(each.environment, profiled, each.environment.environment_id) for each in found]
    environments.sort(key=lambda each: urgency(each.finding, each.peaks.out_of_memory, each.peaks.highest, each.size))
    total = sum(environment.peaks.invocations for environment in environments)
    groups: dict[tuple[str, str], list[EnvironmentSummary]] = {}
    for environment in environments:
        groups.setdefault((environment.function, environment.version), []).append(environment)
    peaks = peaks_by(store, "coalesce(function, ''), coalesce(version, '')")
    explained, lasted, at_sizes = payloads(store), durations(store), computed(store)
    together = dict(zip(evidences, fleet.accuse(list(map(fleet.pool, evidences.values()))), strict=True))

    per_month = prices.per_month if prices.per_month is not None else _traffic(environments, total)

    def function(key: tuple[str, str]) -> Function:
        share = None if per_month is None else per_month * peaks[key].invocations / total
        more = explained.get(key), lasted.get(key), together.get(key), at_sizes.get(key, {})
        made = function_of(key, groups[key], peaks[key], more, prices._replace(per_month=share))
        return _with_line(made, profiled, groups[key][0].environment_id)

    return Report(
        functions=[function(key) for key in sorted(groups)],
        environments=environments,
        parts=parts_by(store) if by is not None else [],
        by=by,
        by_left_out=by_left_out,
        lines=loaded.lines,
        repeated=loaded.lines - total,
        elsewhere=loaded.elsewhere,
        unread={name: loaded.unread[name] for name in REASONS},
    )


Judgement = TypeVar("Judgement", EnvironmentSummary, Function)


def _with_line(judged: Judgement, profiled: Mapping[tuple[str, str], Growth], environment: str) -> Judgement:
    """With the line of code that keeps what grows, which any environment of the version may have named."""
    growth = profiled.get((judged.function, judged.version))
    return replace(judged, finding=named(judged.finding, growth, commands_of(judged.function, environment)))


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


def report_here(where: Source, options: Mapping[str, Any], prices: Prices) -> Report:
    """Read and judge all lines on this machine. Writes the pages of --output, which need the lines again. `options` are
    those of the command. Raises BadInput."""
    by, environment = options["by"], options["environment"]
    with tempfile.TemporaryDirectory(prefix="truemem-report-") as folder:
        paths = [on_disk(file, Path(folder)) for file in where.paths(Path(folder), options["way"])]
        size = sum(map(size_of, paths))
        with Store() as store:
            with progress("reading", size) as read:
                loaded = store.load(
                    paths, since_ms=where.since_ms, environment=environment, function=where.function, by=by, read=read
                )
            check_loaded(loaded, where)
            with progress("judging", loaded.lines) as judged, no_ctrl_c_in_children():
                made = collect(store, loaded, by=by, prices=prices, done=judged)
        for html in options["outputs"]:
            if html.suffix.lower() == ".html":
                with progress("drawing", size) as read:
                    _draw(made, paths, where, html, read)
    return made


def _draw(made: Report, paths: Sequence[Path], where: Source, html: Path, read: Count) -> None:
    """Draw the most urgent environments, as many as a page holds. Nothing of the others is kept."""
    environments = made.environments
    shown = _foremost(environments, page_html.ROOM)
    names = {name for _, name in shown}
    drawn = page.gather(
        line
        for line in read_lines(paths, wanted=names.__contains__, done=read)
        if (line.function or "", line.environment) in shown and where.wants(line.function, line.time_ms)
    )
    try:
        page.write(drawn, html, left_out=len(environments) - len(shown), note=not_read(made.unread))
    except OSError as error:
        raise BadInput(f"{html} cannot be written: {error.strerror}") from error
    if len(shown) < len(environments):
        text = (
            f"{html} has the {len(shown):,} most urgent of {len(environments):,} environments, as many as a page holds"
        )
        notify("truemem report", f"{text}. --environment chooses others")


def _foremost(environments: Sequence[EnvironmentSummary], room: int) -> set[tuple[str, str]]:
    """Take whole environments from the first on while their invocations fit, at least one. By function and id."""
    shown: set[tuple[str, str]] = set()
    for each in environments:
        if each.peaks.invocations <= room or not shown:
            shown.add((each.function, each.environment_id))
            room -= each.peaks.invocations
    return shown


def check_loaded(loaded: Loaded, where: Source) -> None:
    """Raise BadInput if there is no line, with what to try."""
    if loaded.lines:
        return
    if loaded.elsewhere:
        raise BadInput(
            f"all {loaded.elsewhere:,} lines are of another time, function or environment."
            " Leave --since, --function or --environment out"
        )
    place = where.place if where.log_group else "these files"
    hint = "Try an earlier --since, or truemem doctor" if where.log_group else "Try truemem doctor FILE"
    unread = f" ({not_read(loaded.unread)})" if loaded.unread else ""
    raise BadInput(f"no line of the sidecar in {place}{unread}. {hint}")


def function_of(
    key: tuple[str, str],
    environments: Sequence[EnvironmentSummary],
    peaks: Peaks,
    more: tuple[Payload | None, Durations | None, Together | None, Mapping[float, Invocations]],
    prices: Prices,
) -> Function:
    """`prices`: with the traffic of this function."""
    causes = added([{environment.finding.cause: 1} for environment in environments])
    held: dict[str, list[float]] = {}
    for environment in environments:
        for name, value in environment.holders.items():
            held.setdefault(name, []).append(value)
    growing = [each.finding for each in environments if each.finding.grows]
    payload, lasted, together, at_sizes = more
    finding = _function_finding(environments, together)
    latest = max(environments, key=lambda each: each.last_ms or 0)
    seen = SizingFigures(
        invocations=peaks.invocations,
        size=latest.size,
        need=_highest(each.need for each in environments),
        others=_highest(each.others for each in environments),
        mark=_highest(each.mark for each in environments),
        unbounded=sum(each.unbounded for each in environments),
        out_of_memory=peaks.out_of_memory,
        environments=len(environments),
        growing=len(growing),
        together=together is not None and together.grows,
        open=_open_question(finding),
        settled=sum(each.settled for each in environments),
        rising=sum(each.rises for each in environments),
        computed=at_sizes.get(latest.size or 0.0),
    )
    return Function(
        function=key[0],
        version=key[1],
        peaks=peaks,
        environments=len(environments),
        size=seen.size,
        mark=seen.mark,
        current_median=_median([each.current_last for each in environments]),
        finding=finding,
        causes=causes,
        growth_kib=_highest(each.per_invocation_kib for each in growing),
        together=together,
        ended=sum(each.ended for each in environments),
        growing=len(growing) or (together.environments if together is not None and together.grows else 0),
        settled=seen.settled,
        rising=seen.rising,
        mark_only_rises=sum(_is_mark_misleading(each) for each in environments),
        holders=[
            Holder(name=name, environments=len(values), median=statistics.median(values), highest=max(values))
            for name, values in sorted(held.items(), key=lambda item: -statistics.median(item[1]))
        ],
        lost=sum(each.lost for each in environments),
        methods=added([each.methods for each in environments]),
        payload=payload,
        durations=lasted or Durations(p50=None, p99=None),
        sizing=advise_size(seen, headroom=prices.headroom, gb_second=prices.gb_second),
        cost=_cost(environments, prices),
        resources=_most_urgent_resources(environments),
    )


def _function_finding(environments: Sequence[EnvironmentSummary], together: Together | None) -> Finding:
    """The answer of the environment to act on first; of all of them together, where none grows alone."""
    finding = most_urgent([(each.finding, each.peaks.invocations) for each in environments])
    if finding.grows or finding.cause == "failing" or together is None or not together.grows:
        return finding
    return replace(
        finding,
        cause="leak",
        title=f"Leak, that no environment shows alone: {together.sentence()}.",
        holder="function",
        per_invocation_kib=together.per_invocation_kib,
        low_kib=together.low_kib,
        high_kib=together.high_kib,
        evidence=[f"of functions that are named so, at most {RATE:.1%} are expected to be false alarms"],
        repair="",
        grows=True,
        settled=True,
        pattern="a-cache-without-bound",
    )


def _traffic(environments: Sequence[EnvironmentSummary], invocations: int) -> float | None:
    """Invocations a month, if they go on as they were from the first line to the last."""
    times = [each for one in environments for each in (one.first_ms, one.last_ms) if each is not None]
    span_ms = max(times, default=0.0) - min(times, default=0.0)
    return invocations * MONTH_MS / span_ms if span_ms >= LEAST_SPAN_MS else None


def _cost(environments: Sequence[EnvironmentSummary], prices: Prices) -> Cost | None:
    if any(each.managed or not each.size or each.size > MOST_MIB for each in environments):
        return None
    billed = sum(each.billed for each in environments)
    if not billed:
        return None
    return cost(
        invocations=billed,
        gb_s=sum((each.size or 0.0) * each.billed_ms for each in environments) / 1024 / 1000,
        init_gb_s=sum((each.size or 0.0) * each.init_ms for each in environments) / 1024 / 1000,
        line_bytes=sum(each.line_bytes for each in environments),
        gb_second=prices.gb_second,
        a_month=prices.per_month,
    )


def _open_question(finding: Finding) -> str:
    """Why no size can be named."""
    if finding.cause == "failing":
        return "most invocations failed"
    is_open = finding.cause == "undecided" and finding.pattern != TOO_FEW
    return "whether memory grows is not known yet" if is_open else ""


def _most_urgent_resources(environments: Sequence[EnvironmentSummary]) -> list[Resource]:
    """Of each kind of what runs out the most urgent, the most urgent first."""
    worst: dict[str, Resource] = {}
    for resource in sorted((each for one in environments for each in one.resources), key=lambda each: each.urgency):
        worst.setdefault(resource.name, resource)
    return list(worst.values())


def _is_mark_misleading(environment: EnvironmentSummary) -> bool:
    """True if the mark looks like a leak: it has risen, but memory has settled well below it."""
    begun, mark, held = environment.mark_first, environment.mark, environment.current_last
    if not environment.settled or begun is None or mark is None or held is None:
        return False
    return mark > 1.05 * begun + 1 and mark > 1.1 * (held + (environment.others or 0.0))


def _highest(values: Iterator[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None
