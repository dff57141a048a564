"""Reads what `truemem report` was given, and makes the report: on all cores."""

from __future__ import annotations

import math
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from .. import page
from ..aws.cloudwatch import DEFAULT_SINCE_MS, Source
from ..judge.finding import TOO_FEW, Finding, commands_of, most_urgent, urgency
from ..judge.growth_lines import Growth, named
from ..judge.prices import GB_SECOND, MONTH_MS, Cost, cost
from ..judge.resources import Resource
from ..judge.sizing import HEADROOM, SizingFigures, advise_size
from ..page import html as page_html
from ..page.environments import most
from ..printed.line import read as read_lines
from ..printed.log_files import gzipped, refuse_summaries, size_of
from ..printed.packed import on_disk
from ..printed.parts import Files, in_order, merged, read_pieces
from ..printed.platform_lines import Reports
from ..printed.reader import Job, Loaded
from ..printed.wrapped import WORDS as REASONS
from ..printed.wrapped import not_read
from ..support.bad_input import BadInput
from ..support.exit_codes import no_ctrl_c_in_children
from ..support.platform_facts import MOST_MIB
from ..support.terminal import MIB, Count, notify, progress
from ..triage import account
from ..triage.function import Unmeasured, judged
from ..triage.lives import observed
from . import fleet
from .counts import Counts, Key
from .fleet import RATE, Together
from .judging import Judged
from .steps import begin_in_pool, collect_seldom, judge_files, match_requests, read_files
from .summary import EnvironmentSummary, Function, Holder, LeftOut, Peaks, Report, added

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor

WORTH_A_POOL = 1 << 28
"""Least bytes of lines for a pool of processes: fewer take 2 s, and in a pool half a second less for more CPU."""
START = "fork" if "linux" in sys.platform else "spawn"
"""A forked process has imported what it needs. macOS and Windows cannot do it safely, or at all."""
PART_LINES = 100_000
"""Lines in a part, about: so many are in a process at once."""
SHARE_BYTES, SHARE_FILES = 1 << 26, 128
"""Bytes of files from which on they are another process's, and most files."""
LINE_BYTES = 900
PACKED = 10
"""A gzipped log has this many times as many bytes, about."""
MOST_PARTS = 500
"""Each has an open file."""
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


class Parts(NamedTuple):
    """The lines that were read."""

    paths: Sequence[Sequence[Path]]
    """Files of each part."""
    loaded: Loaded
    left_out: LeftOut | None
    """None without --by."""


Pool: TypeAlias = "ProcessPoolExecutor | None"
"""None: all is done in this process."""


def collect(files: Sequence[Path], job: Job, prices: Prices = USUAL) -> Report:
    """Make the report of these files, in this process."""
    with tempfile.TemporaryDirectory(prefix="truemem-report-") as folder:
        parts = read_parts(files, job, Path(folder), 1)
        return judge_parts(parts, job, prices, without_sidecar(parts.loaded, job))


def read_parts(
    files: Sequence[Path], job: Job, folder: Path, count: int, pool: Pool = None, read: Count = lambda _: None
) -> Parts:
    """Read the lines, and divide them into so many parts, as files in the folder. Raises BadInput."""
    place = folder / "read"
    place.mkdir()
    loaded = Loaded()
    shares = list(_shares(files))
    if pool is None or len(shares) == 1:
        loaded = read_files(files, job, place / "0", count, read=read)
    else:
        places = [place / str(number) for number in range(len(shares))]
        made = pool.map(read_files, shares, repeat(job), places, repeat(count))
        for share, each in zip(shares, made, strict=True):
            loaded.add(each)
            read(sum(map(size_of, share)))
    if job.by is None:
        return Parts(in_order(place), loaded, None)
    without, matched = 0, folder / "matched"
    (matched / "0").mkdir(parents=True)
    with Files(matched / "0") as of_environments:
        for paths in in_order(place):
            missing, divided = match_requests(merged(chain.from_iterable(map(read_pieces, paths))), count)
            without += missing
            for number, part in divided:
                of_environments.add(number, part)
    left_out = LeftOut(without_request_id=loaded.without_request_id, without_line=without)
    return Parts(in_order(matched), loaded, left_out)


def _shares(files: Sequence[Path]) -> Iterator[Sequence[Path]]:
    """Files that are read together."""
    share: list[Path] = []
    size = 0
    for path in files:
        share.append(path)
        size += size_of(path)
        if size >= SHARE_BYTES or len(share) == SHARE_FILES:
            yield share
            share, size = [], 0
    if share:
        yield share


def judge_parts(
    parts: Parts,
    job: Job,
    prices: Prices,
    unmeasured: Sequence[Unmeasured],
    pool: Pool = None,
    done: Count = lambda _: None,
) -> Report:
    """Judge the environments of all parts. `unmeasured`: see `without_sidecar`. `done` is called with the lines that
    are judged."""
    found, counts = [], Counts()
    for each in (pool.map if pool is not None else map)(judge_files, parts.paths, repeat(job.by)):
        found += each.environments
        counts.add(each.counts)
        done(each.lines)
    return report_of(found, counts, parts.loaded, job.by, parts.left_out, prices, unmeasured)


def part_count(size: int, least: int, most: int) -> int:
    """In how many parts so many bytes of lines are judged: each has about PART_LINES of them."""
    return min(most, max(least, size // LINE_BYTES // PART_LINES))


def report_of(
    found: list[Judged],
    counts: Counts,
    loaded: Loaded,
    by: str | None,
    by_left_out: LeftOut | None,
    prices: Prices,
    unmeasured: Sequence[Unmeasured],
) -> Report:
    """Make the report of all environments, of the counts of their invocations, and of functions that have REPORT lines
    alone."""
    found.sort(key=lambda each: (each.environment.function, each.environment.version, each.environment.environment_id))
    evidences: dict[Key, list[fleet.Evidence]] = {}
    for each, evidence in found:
        # else a witness says that it is no leak, or that garbage may be what rises
        if each.finding.cause not in ("hoarding", "collector") and each.finding.holder != "heap":
            evidences.setdefault((each.function, each.version), []).append(evidence)
    profiled = counts.growths()
    environments = [_with_line(each.environment, profiled, each.environment.environment_id) for each in found]
    environments.sort(key=lambda each: urgency(each.finding, each.peaks.out_of_memory, each.peaks.highest, each.size))
    total = sum(environment.peaks.invocations for environment in environments)
    groups: dict[Key, list[EnvironmentSummary]] = {}
    for environment in environments:
        groups.setdefault((environment.function, environment.version), []).append(environment)
    peaks = counts.peaks()
    together = dict(zip(evidences, fleet.accuse(list(map(fleet.pool, evidences.values()))), strict=True))

    per_month = prices.per_month if prices.per_month is not None else _traffic(environments, total)

    def function(key: Key) -> Function:
        share = None if per_month is None else per_month * peaks[key].invocations / total
        made = _function_of(key, groups[key], peaks[key], counts, together.get(key), prices._replace(per_month=share))
        is_unknown = key[0] in loaded.local and not any(each.name == "tmp" for each in made.resources)
        made = replace(made, tmp_unknown=is_unknown, mark_only_rises=0 if is_unknown else made.mark_only_rises)
        return _with_line(made, profiled, groups[key][0].environment_id)

    functions = [function(key) for key in sorted(groups)]
    measured = {each.function for each in functions}
    return Report(
        functions=functions,
        environments=environments,
        without_sidecar=[each for each in unmeasured if each.key.function not in measured],
        parts=counts.parts() if by is not None else [],
        by=by,
        by_left_out=by_left_out,
        lines=loaded.lines,
        repeated=loaded.lines - total,
        elsewhere=loaded.elsewhere,
        unread={name: loaded.unread[name] for name in REASONS},
    )


def without_sidecar(loaded: Loaded, job: Job) -> list[Unmeasured]:
    """What REPORT lines alone prove, of all functions that have some. The most urgent first."""
    reports = Reports.joined(loaded.reports)
    if job.since_ms is not None:
        reports = reports.chosen(~(reports.columns["time_ms"] < job.since_ms))
    if job.environment is not None:
        streams = [key for key, place in reports.places.items() if job.environment in place.stream]
        reports = reports.chosen(np.isin(reports.columns["place"], np.array(streams, np.uint64)))
    # Lines without a time may be of the time of lines of the sidecar that were not asked for.
    timed = set() if job.since_ms is None else loaded.functions
    return judged(
        {
            key: seen
            for key, seen in observed(reports).items()
            if job.function in (None, key.function) and not (key.function in timed and math.isnan(seen.first_ms))
        }
    )


Judgement = TypeVar("Judgement", EnvironmentSummary, Function)


def _with_line(judged: Judgement, profiled: Mapping[Key, Growth], environment: str) -> Judgement:
    """With the line of code that keeps what grows, which any environment of the version may have named."""
    growth = profiled.get((judged.function, judged.version))
    return replace(judged, finding=named(judged.finding, growth, commands_of(judged.function, environment)))


@contextmanager
def _pool(size: int) -> Iterator[Pool]:
    """A process for each core, if there are so many bytes of lines that it is worth it. Raises BadInput if one is
    killed."""
    if size < WORTH_A_POOL:
        collect_seldom()
        yield None
        return
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool

    with (
        no_ctrl_c_in_children(),
        ProcessPoolExecutor(mp_context=multiprocessing.get_context(START), initializer=begin_in_pool) as pool,
    ):
        pool.submit(os.getpid)  # starts them, before other threads do
        try:
            yield pool
        except BrokenProcessPool as error:
            text = "a process of the report was killed, perhaps because memory ran out. Try fewer files at once"
            raise BadInput(text) from error


def report_here(where: Source, options: Mapping[str, Any], prices: Prices) -> Report:
    """Read and judge all lines on this machine. Writes the pages of --output, which need the lines again. `options` are
    those of the command. Raises BadInput."""
    job = Job(by=options["by"], since_ms=where.since_ms, environment=options["environment"], function=where.function)
    with tempfile.TemporaryDirectory(prefix="truemem-report-") as folder:
        paths = on_disk(where.paths(Path(folder), options["way"]), Path(folder))
        size = sum(map(size_of, paths))
        unpacked = sum(size_of(path) * (PACKED if gzipped(path) else 1) for path in paths)
        least = 4 * (os.cpu_count() or 1) if unpacked >= WORTH_A_POOL else 1
        with _pool(unpacked) as pool:
            with progress("reading (MiB)", size, MIB) as read:
                parts = read_parts(paths, job, Path(folder), part_count(unpacked, least, MOST_PARTS), pool, read)
            unmeasured = without_sidecar(parts.loaded, job)
            if not (parts.loaded.lines or unmeasured) and where.log_group and options["way"] == "insights":
                unmeasured = _counted_there(where)  # of what has no JSON only these are asked for
            if not unmeasured:
                check_loaded(parts.loaded, where, paths)
            with progress("judging lines", parts.loaded.lines) as done:
                made = judge_parts(parts, job, prices, unmeasured, pool, done)
        for html in options["outputs"]:
            if html.suffix.lower() == ".html":
                with progress("drawing (MiB)", size, MIB) as read:
                    _draw(made, paths, where, html, read)
    return made


def _counted_there(where: Source) -> list[Unmeasured]:
    now_ms = int(time.time() * 1000)
    begin_ms = now_ms - DEFAULT_SINCE_MS if where.since_ms is None else int(where.since_ms)
    return judged(account.count_lines([account.Group(where.log_group or "", 0)], begin_ms, now_ms))


def _draw(made: Report, paths: Sequence[Path], where: Source, html: Path, read: Count) -> None:
    """Draw the most urgent environments, as many as a page holds. Nothing of the others is kept."""
    environments = made.environments
    fitting = most(environments, page_html.ROOM, lambda each: each.peaks.invocations)
    shown = {(each.function, each.environment_id) for each in fitting}
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


def check_loaded(loaded: Loaded, where: Source, files: Sequence[Path] = ()) -> None:
    """Raise BadInput if there is no line, with what to try. `files` are asked whether they are of a local run."""
    if loaded.lines:
        return
    if loaded.elsewhere:
        if whose := where.whose(loaded.functions):
            raise BadInput(f"{whose}. Leave --function out, or name one of those")
        raise BadInput(
            f"all {loaded.elsewhere:,} lines are of another time, function or environment."
            " Leave --since, --function or --environment out"
        )
    refuse_summaries(files)
    place = where.place if where.log_group else "these files"
    hint = f"Try an earlier --since, or {where.doctor}" if where.log_group else f"Try {where.doctor}"
    unread = f" ({not_read(loaded.unread)})" if loaded.unread else ""
    raise BadInput(f"no line of the sidecar and no REPORT in {place}{unread}. {hint}")


def _function_of(
    key: Key,
    environments: Sequence[EnvironmentSummary],
    peaks: Peaks,
    counts: Counts,
    together: Together | None,
    prices: Prices,
) -> Function:
    """`prices`: with the traffic of this function."""
    causes = added([{environment.finding.cause: 1} for environment in environments])
    held: dict[str, list[float]] = {}
    for environment in environments:
        for name, value in environment.holders.items():
            held.setdefault(name, []).append(value)
    growing = [each.finding for each in environments if each.finding.grows]
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
        computed=counts.computed(key).get(latest.size or 0.0),
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
        payload=counts.payload(key),
        durations=counts.durations(key),
        sizing=advise_size(seen, headroom=prices.headroom, gb_second=prices.gb_second),
        cost=_cost(environments, prices),
        resources=_most_urgent_resources(environments),
        ran_out=counts.ran(key),
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
