"""How true are the figures? Known amounts of memory, measured by truemem and by polling, side by side.

The workload is the tests' own: memory that rises and falls, spikes of 2 ms and of 0.2 ms right at the
handler's start, 32 threads, a child process, a file mapping. Writes results/accuracy.md and the README's table.

Exit codes: 0 every promise held, 1 one was broken, 2 it could not be measured.
"""

from __future__ import annotations

import json
import multiprocessing
import multiprocessing.synchronize
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import click
import psutil
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.publish import ROOT, machine, markdown, replace
from tests.scenarios.environment import SLACK_MIB, Environment
from tests.scenarios.workload import Judgement, events

RESULTS = Path(__file__).with_name("results") / "accuracy.md"
LIMIT_MIB = 1024
POLLING_S = (0.010, 1.0)


@dataclass(frozen=True)
class Mode:
    """One way of running the sidecar."""

    name: str
    lead_us: int
    """The extension is released this long before the runtime."""
    hold: str
    count: int
    may_race: float | None
    """Largest share of raced records that is a promise kept; None where none is made."""


@dataclass(frozen=True)
class Result:
    """One row. Errors are |measured - truth| in MiB."""

    name: str
    invocations: int
    within_bounds: int | None
    raced: int | None
    error_p50: float
    error_p99: float
    error_max: float
    reset_delay_us_p50: float | None = None
    reset_delay_us_p99: float | None = None
    promise_kept: bool | None = None


def poll(pid: int, interval_s: float, samples_file: str, stop: multiprocessing.synchronize.Event) -> None:
    """What everybody does: look at RSS every `interval_s`, until told to stop. Writes [[time, MiB], ...]."""
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


def row(name: str, errors: Sequence[float], judgements: Sequence[Judgement] | None, mode: Mode | None) -> Result:
    """A row of the table; for truemem with its promises checked."""
    sizes = sorted(abs(error) for error in errors)
    figures = (round(percentile(sizes, 50), 2), round(percentile(sizes, 99), 2), round(sizes[-1], 2))
    if judgements is None or mode is None:
        return Result(name, len(errors), None, None, *figures)
    raced = sum(judgement.record.raced is True for judgement in judgements)
    within = sum(judgement.within_bounds for judgement in judgements)
    exact = all(judgement.exact for judgement in judgements if judgement.claims_exactness)
    rare = mode.may_race is None or raced <= max(1, mode.may_race * len(judgements))
    delays = [judgement.record.resetDelayUs for judgement in judgements if judgement.record.resetDelayUs is not None]
    return Result(
        name,
        len(judgements),
        within,
        raced,
        *figures,
        percentile(delays, 50) if len(delays) > 1 else None,
        percentile(delays, 99) if len(delays) > 1 else None,
        promise_kept=within == len(judgements) and exact and rare,
    )


def measure(mode: Mode, polling: bool, progress: Progress) -> list[Result]:
    """Run the workload once; rows for truemem, for each kind of peak it claims, and for polling beside it."""
    task = progress.add_task(mode.name, total=mode.count)
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    pollers = []
    spans, answers = [], []
    with Environment(
        memory_mib=LIMIT_MIB, extension_lead_us=mode.lead_us, environment={"TRUEMEM_HOLD": mode.hold}
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
        for event in events(mode.count):
            start = time.monotonic()
            answers.append(environment.invoke(**event))
            spans.append((start, time.monotonic()))
            progress.advance(task)
        stop.set()
        for poller in pollers:
            poller.join()
        polled = {
            interval: json.loads((folder / f"poll-{interval}.json").read_text())
            for interval in POLLING_S[: len(pollers)]
        }
        records = environment.records()
    judgements = [Judgement(record, answer, LIMIT_MIB) for record, answer in zip(records[1:], answers, strict=True)]
    figures = [judgement for judgement in judgements if judgement.claims_exactness]
    rows = [row(f"truemem, {mode.name}", [judgement.error for judgement in figures], judgements, mode)]
    for interval, samples in polled.items():
        pairs = zip(polled_peaks(samples, spans), judgements, strict=True)
        rows.append(
            row(f"polling every {interval * 1000:g} ms", [peak - made.truth for peak, made in pairs], None, None)
        )
    return rows


def table(results: Sequence[Result]) -> Table:
    """The rows for people."""
    made = Table(title="Error of each invocation's peak RSS against the known truth, MiB", title_justify="left")
    for heading in ("", "invocations", "within bounds", "raced", "p50", "p99", "max", "reset after INVOKE, µs p50/p99"):
        made.add_column(heading, justify="left" if not heading else "right")
    for result in results:
        delay = (
            ""
            if result.reset_delay_us_p50 is None
            else f"{result.reset_delay_us_p50:.0f} / {result.reset_delay_us_p99:.0f}"
        )
        errors = (f"{error:.2f}" for error in (result.error_p50, result.error_p99, result.error_max))
        counts = ("" if count is None else str(count) for count in (result.within_bounds, result.raced))
        made.add_row(result.name, str(result.invocations), *counts, *errors, delay)
    return made


def rows_of(results: Sequence[Result]) -> str:
    """The rows as a Markdown table."""
    rows = []
    for result in results:
        counts = ("" if count is None else str(count) for count in (result.within_bounds, result.raced))
        errors = (f"{error:.2f}" for error in (result.error_p50, result.error_p99, result.error_max))
        rows.append([result.name, str(result.invocations), *counts, *errors])
    return markdown(["", "invocations", "within bounds", "raced", "error p50", "p99", "max"], rows)


def publish(results: Sequence[Result]) -> None:
    """Write the results page, and the README's table between its two marks."""
    explained = (
        "Errors in MiB, over the invocations that claim an exact figure (one process, not raced). Within bounds: over "
        f"all, several processes and lost races included, with {SLACK_MIB} MiB for the kernel's bookkeeping. Polling "
        "is judged over all."
    )
    delays = [
        f"- {result.name}: {result.reset_delay_us_p50:.0f} µs (p50), {result.reset_delay_us_p99:.0f} µs (p99)"
        for result in results
        if result.reset_delay_us_p50 is not None
    ]
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(
        f"# Accuracy\n\n`make bench`, {datetime.now(UTC):%Y-%m-%d}, on {machine()}.\n\n{rows_of(results)}\n\n"
        f"{explained}\n\nFrom INVOKE's arrival to the last watermark reset:\n\n" + "\n".join(delays) + "\n"
    )
    replace(ROOT / "README.md", "accuracy", f"{rows_of(results)}\n\n{explained}")


@click.command(help=__doc__)
@click.option("--invocations", default=500, show_default=True, help="Per mode; the held one gets a quarter.")
@click.option("--json", "as_json", is_flag=True, help="Print the rows as JSON.")
@click.option("--write/--no-write", default=True, help="Write the results page and the README's table.")
def main(invocations: int, as_json: bool, write: bool) -> None:
    """See the module."""
    modes = (
        Mode("released 0.3 ms before the runtime", 300, "off", invocations, 0.01),
        Mode("released at the same instant", 0, "off", invocations, None),
        Mode("TRUEMEM_HOLD=always", 0, "always", max(20, invocations // 4), 0.0),
    )
    results: list[Result] = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    try:
        with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
            for mode in modes:
                results += measure(mode, polling=False, progress=progress)
            contrast = Mode("with polling beside it", 300, "off", invocations, None)
            results += measure(contrast, polling=True, progress=progress)[1:]
    except (OSError, AssertionError, RuntimeError) as error:
        click.echo(f"could not measure: {error}", err=True)
        sys.exit(2)
    console = Console(width=150, file=sys.stderr if as_json else None)
    console.print(table(results))
    if as_json:
        click.echo(json.dumps([asdict(result) for result in results]))
    if write:
        publish(results)
    broken = [result.name for result in results if result.promise_kept is False]
    if broken:
        click.echo(f"broken promise: {'; '.join(broken)}. (Is the machine idle?)", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
