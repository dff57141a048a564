"""Measures how accurate the figures are: known amounts of memory, measured by truemem and by polling.

The workload is that of the tests: memory that rises and falls, spikes of 2 ms and of 0.2 ms at the handler's start, 32
threads, a child process, a file mapping. The release order of runtime and extension differs from row to row. Writes
results/accuracy.md and the table of docs/how-it-measures.md.

Exit codes: 0 every promise was kept, 1 one was broken, 2 it could not be measured.
"""

from __future__ import annotations

import json
import multiprocessing
import multiprocessing.synchronize
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import click
import psutil
from rich.console import Console

from benchmarks.contenders import EXACT_MODE, EXECUTABLE
from benchmarks.publish import ROOT, exit_if_broken, machine, markdown, measuring, replace, shown
from testing.environment import SLACK_MIB, Environment
from testing.workload import Judgement, events

RESULTS = Path(__file__).with_name("results") / "accuracy.md"
LIMIT_MIB = 1024
POLLING_S = (0.010, 1.0)


@dataclass(frozen=True)
class Mode:
    """One way of running the sidecar."""

    name: str
    release: str
    """Who gets an invocation first, as the local Lambda spells it."""
    exact: bool = False
    in_short: bool = True


MODES = (
    Mode("runtime first by 0.05 ms", "runtime:50", in_short=False),
    Mode("runtime first by 0.1 ms", "runtime:100", in_short=False),
    Mode("runtime first by 0.5 ms", "runtime:500"),
    Mode("both at the same instant", "together", in_short=False),
    Mode("extension first by 0.3 ms", "extension:300"),
    Mode("as AWS's code does", "aws"),
    Mode("exact mode, as AWS's code does", "aws", exact=True),
    Mode("exact mode, runtime first by 0.5 ms", "runtime:500", exact=True, in_short=False),
    Mode("exact mode, extension first by 0.3 ms", "extension:300", exact=True, in_short=False),
)


@dataclass(frozen=True)
class Result:
    """One row. Errors are |measured - truth| in MiB, widths MiB."""

    name: str
    invocations: int
    best_p50: float
    """Error of the best estimate, over all invocations,"""
    best_p99: float
    within_bounds: int | None = None
    raced: int | None = None
    width_p50: float | None = None
    """From the lower to the upper bound, of the raced ones,"""
    width_p90: float | None = None
    error_p50: float | None = None
    """Of the invocations that claim to be exact,"""
    error_p99: float | None = None
    error_max: float | None = None
    promise_kept: bool | None = None
    in_short: bool = True


def poll(pid: int, interval_s: float, samples_file: str, stop: multiprocessing.synchronize.Event) -> None:
    """Poll as usual monitoring does: read RSS every `interval_s`, until told to stop. Writes [[time, MiB], ...]."""
    process = psutil.Process(pid)
    samples = []
    while not stop.wait(interval_s):
        samples.append([time.monotonic(), process.memory_info().rss / 2**20])
    Path(samples_file).write_text(json.dumps(samples))


def polled_peaks(samples: Sequence[Sequence[float]], spans: Sequence[tuple[float, float]]) -> list[float]:
    """For each invocation the highest sample inside it; where there is none, the last before its end."""
    peaks = []
    for start, end in spans:
        inside = [level for at, level in samples if start <= at <= end]
        before = [level for at, level in samples if at <= end]
        peaks.append(max(inside) if inside else before[-1] if before else 0.0)
    return peaks


def percentile(values: Sequence[float], percent: int) -> float:
    """The usual percentile; of one value, that value."""
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1] if len(values) > 1 else values[0]


def two(values: Sequence[float], tail: int) -> tuple[float, float] | tuple[None, None]:
    """Median and a percentile, rounded; None of no values."""
    return (round(percentile(values, 50), 2), round(percentile(values, tail), 2)) if values else (None, None)


def row(mode: Mode, judgements: Sequence[Judgement]) -> Result:
    """A row of truemem's, with its promises checked."""
    claimed = [abs(judgement.error) for judgement in judgements if judgement.claims_exactness]
    raced = [judgement.record for judgement in judgements if judgement.record.raced]
    widths = [(LIMIT_MIB if record.peakUpper is None else record.peakUpper) - record.peakLower for record in raced]
    within = sum(judgement.within_bounds for judgement in judgements)
    honest = within == len(judgements) and max(claimed, default=0) <= SLACK_MIB
    in_exact_mode = all(judgement.record.mode == "exact" for judgement in judgements)
    best = [abs(judgement.error) for judgement in judgements]
    width_p50, width_p90 = two(widths, 90)
    error_p50, error_p99 = two(claimed, 99)
    return Result(
        mode.name,
        len(judgements),
        percentile(best, 50),
        percentile(best, 99),
        within,
        len(raced),
        width_p50,
        width_p90,
        error_p50,
        error_p99,
        round(max(claimed), 2) if claimed else None,
        promise_kept=honest and not (mode.exact and (raced or not in_exact_mode)),
        in_short=mode.in_short,
    )


def measure(mode: Mode, count: int, polling: bool, advance: Callable[[], None]) -> list[Result]:
    """Run the workload once: a row for truemem, or with `polling` rows for what looks on beside it."""
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    pollers = []
    spans, answers = [], []
    variables = EXACT_MODE if mode.exact else {}
    with Environment(
        sidecar=EXECUTABLE, memory_mib=LIMIT_MIB, release=mode.release, environment=variables
    ) as environment:
        environment.invoke()  # the cold start is not part of the comparison
        folder = environment.local.environment_dir
        runtime = environment.local.processes()["runtime"]
        if polling:
            for interval in POLLING_S:
                arguments = (runtime, interval, str(folder / f"poll-{interval}.json"), stop)
                pollers.append(context.Process(target=poll, args=arguments))
                pollers[-1].start()
            time.sleep(1)
        for event in events(count):
            start = time.monotonic()
            answers.append(environment.invoke(**event))
            spans.append((start, time.monotonic()))
            advance()
        stop.set()
        for poller in pollers:
            poller.join()
        polled = [json.loads((folder / f"poll-{interval}.json").read_text()) for interval in POLLING_S[: len(pollers)]]
        records = environment.records()
    if not polling:
        pairs = zip(records[1:], answers, strict=True)
        return [row(mode, [Judgement(record, answer, LIMIT_MIB) for record, answer in pairs])]
    rows = []
    for interval, samples in zip(POLLING_S, polled, strict=True):
        peaks = zip(polled_peaks(samples, spans), answers, strict=True)
        errors = [abs(peak - answer["truth"] / 1024) for peak, answer in peaks]
        name = f"polling every {interval * 1000:g} ms"
        rows.append(Result(name, count, percentile(errors, 50), percentile(errors, 99)))
    return rows


def both(first: float | None, second: float | None) -> str:
    """Two figures in a cell; "" where there are none."""
    return "" if first is None else f"{first:.2f} / {second:.2f}"


def share(result: Result) -> str:
    """Of raced invocations."""
    return "" if result.raced is None else f"{100 * result.raced / result.invocations:.1f} %"


FULL = ("", "invocations", "within bounds", "raced", "width p50 / p90", "error p50 / p99", "max", "best p50 / p99")


def full(results: Sequence[Result]) -> list[list[str]]:
    """All rows, for the results page and the terminal."""
    return [
        [
            result.name,
            f"{result.invocations:,}",
            "" if result.within_bounds is None else f"{result.within_bounds:,}",
            share(result),
            both(result.width_p50, result.width_p90),
            both(result.error_p50, result.error_p99),
            "" if result.error_max is None else f"{result.error_max:.2f}",
            both(result.best_p50, result.best_p99),
        ]
        for result in results
    ]


SHORT = ("", "raced", "their width", "exact: max error", "best estimate: p50 / p99")


def short(results: Sequence[Result]) -> list[list[str]]:
    """A few rows and columns, for docs/how-it-measures.md."""
    return [
        [
            result.name,
            share(result),
            "" if result.width_p50 is None else f"{result.width_p50:.1f}",
            "" if result.error_max is None else f"{result.error_max:.2f}",
            both(result.best_p50, result.best_p99),
        ]
        for result in results
        if result.in_short
    ]


def publish(results: Sequence[Result]) -> None:
    """Write the results page, and the table of docs/how-it-measures.md between its two marks."""
    explained = (
        "MiB. Raced: an interval, `peakLower` to `peakUpper`; width: from the one to the other. Error: of the "
        "invocations that claim an exact figure (one process, not raced). Best: error of `PeakRSS` over all "
        f"invocations, intervals and several processes included. Bounds have {SLACK_MIB} MiB for the kernel's "
        "bookkeeping."
    )
    invocations = sum(result.invocations for result in results if result.within_bounds is not None)
    within = sum(result.within_bounds or 0 for result in results)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(
        f"# Accuracy\n\n`make bench`, {datetime.now(UTC):%Y-%m-%d}, on {machine()}.\n\n{markdown(FULL, full(results))}"
        f"\n\n{explained}\n"
    )
    replace(
        ROOT / "docs" / "how-it-measures.md",
        "accuracy",
        f"{markdown(SHORT, short(results))}\n\nMiB, {results[0].invocations:,} invocations a row. Raced: an "
        "interval, so wide at the median. Exact: one process, not raced. The truth lay within the bounds of "
        f"{within:,} of {invocations:,} invocations.",
    )


@click.command(help=__doc__)
@click.option("--invocations", default=1000, show_default=True, help="Of each row.")
def main(invocations: int) -> None:
    """See the module."""
    results: list[Result] = []
    with measuring() as bar:
        for mode in MODES:
            results += measure(mode, invocations, False, bar(mode.name, invocations))
        results += measure(MODES[-1], invocations, True, bar("polling", invocations))
    title = "Error of each invocation's peak RSS against the known truth, MiB"
    Console(width=150).print(shown(title, FULL, full(results)))
    publish(results)
    exit_if_broken([result.name for result in results if result.promise_kept is False])


if __name__ == "__main__":
    main()
