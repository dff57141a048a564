"""How accurate the figures are: known amounts of memory, measured by truemem and by polling.

The workload is that of the tests: memory that rises and falls, spikes of 2 ms and of 0.2 ms at the handler's start, 32
threads, a child process, a file mapping. The release order of runtime and extension differs from row to row. Writes
results/accuracy.md and the table of docs/how-it-measures.md.
"""

from __future__ import annotations

import json
import multiprocessing
import multiprocessing.synchronize
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from benchmarks.kit.bench import Bench, percentile, two
from benchmarks.kit.contenders import EXACT_MODE, EXECUTABLE
from testing.environment import SLACK_MIB, Environment
from testing.pages import Result, Table, markdown
from testing.workload import Judgement, events

TITLE = "Accuracy"
DOCS = "docs/how-it-measures.md"
LIMIT_MIB, INVOCATIONS = 1024, 1000
POLLING_S = (0.010, 1.0)


@dataclass(frozen=True)
class Mode:
    """One way of running the sidecar."""

    release: str
    """Who gets an invocation first, as the local Lambda spells it."""
    exact: bool = False
    in_docs: bool = False


MODES = {
    "runtime first by 0.05 ms": Mode("runtime:50"),
    "runtime first by 0.1 ms": Mode("runtime:100"),
    "runtime first by 0.5 ms": Mode("runtime:500", in_docs=True),
    "both at the same instant": Mode("together"),
    "extension first by 0.3 ms": Mode("extension:300", in_docs=True),
    "as AWS's code does": Mode("aws", in_docs=True),
    "exact mode, as AWS's code does": Mode("aws", exact=True, in_docs=True),
    "exact mode, runtime first by 0.5 ms": Mode("runtime:500", exact=True),
    "exact mode, extension first by 0.3 ms": Mode("extension:300", exact=True),
}
FULL = ("", "invocations", "within bounds", "raced", "width p50 / p90", "error p50 / p99", "max", "best p50 / p99")
SHORT = ("", "raced", "their width", "exact: max error", "best estimate: p50 / p99")


def poll(pid: int, interval_s: float, samples_file: str, stop: multiprocessing.synchronize.Event) -> None:
    """Poll as usual monitoring does: read RSS every `interval_s`, until told to stop. Writes [[time, MiB], ...]."""
    process, samples = psutil.Process(pid), []
    while not stop.wait(interval_s):
        samples.append([time.monotonic(), process.memory_info().rss / 2**20])
    Path(samples_file).write_text(json.dumps(samples))


def polled(samples: Sequence[Sequence[float]], start: float, end: float) -> float:
    """The highest sample inside an invocation; where there is none, the last before its end."""
    inside = [level for at, level in samples if start <= at <= end]
    before = [level for at, level in samples if at <= end]
    return max(inside) if inside else before[-1] if before else 0.0


def pair(values: Sequence[float], tail: int) -> str:
    """Median and a percentile in a cell; "" of no values."""
    return f"{percentile(values, 50):.2f} / {percentile(values, tail):.2f}" if values else ""


def measure(
    mode: Mode, bench: Bench, name: str, polling: bool = False
) -> tuple[list[Judgement], dict[str, list[float]]]:
    """What was said of each invocation; or, polled beside it, the errors of what looks on."""
    context = multiprocessing.get_context("spawn")
    stop, pollers, spans, answers = context.Event(), [], [], []
    variables = EXACT_MODE if mode.exact else {}
    count = bench.count(INVOCATIONS, 20)
    advance = bench.step(name, count)
    with Environment(
        sidecar=EXECUTABLE, memory_mib=LIMIT_MIB, release=mode.release, environment=variables
    ) as environment:
        environment.invoke()  # the cold start is not part of the comparison
        folder = environment.local.environment_dir
        runtime = environment.local.processes()["runtime"]
        for interval in POLLING_S if polling else ():
            arguments = (runtime, interval, str(folder / f"poll-{interval}.json"), stop)
            pollers.append(context.Process(target=poll, args=arguments))
            pollers[-1].start()
        time.sleep(bool(pollers))
        for event in events(count):
            start = time.monotonic()
            answers.append(environment.invoke(**event))
            spans.append((start, time.monotonic()))
            advance()
        stop.set()
        for poller in pollers:
            poller.join()
        errors = {}
        for interval in POLLING_S if polling else ():
            samples = json.loads((folder / f"poll-{interval}.json").read_text())
            pairs = zip(spans, answers, strict=True)
            errors[f"polling every {interval * 1000:g} ms"] = [
                abs(polled(samples, *span) - answer["truth"] / 1024) for span, answer in pairs
            ]
        records = environment.records()
    return [Judgement(*each, LIMIT_MIB) for each in zip(records[1:], answers, strict=True)], errors


def is_kept(mode: Mode, seen: Sequence[Judgement]) -> bool:
    """Are the promises kept?"""
    honest = all(each.within_bounds and (not each.claims_exactness or abs(each.error) <= SLACK_MIB) for each in seen)
    return honest and not (mode.exact and any(each.record.raced or each.record.mode != "exact" for each in seen))


def run(bench: Bench) -> Result:
    rows, short, broken, within, of = [], [], [], 0, 0
    chosen = bench.chosen([*MODES, "polling"])
    for name in (name for name in chosen if name in MODES):
        mode = MODES[name]
        seen, _ = measure(mode, bench, name)
        raced = [each.record for each in seen if each.record.raced]
        widths = [(LIMIT_MIB if each.peakUpper is None else each.peakUpper) - each.peakLower for each in raced]
        claimed = [abs(each.error) for each in seen if each.claims_exactness]
        best, part = pair([abs(each.error) for each in seen], 99), f"{100 * len(raced) / len(seen):.1f} %"
        most, inside = two(max(claimed, default=None)), sum(each.within_bounds for each in seen)
        rows.append([name, f"{len(seen):,}", f"{inside:,}", part, pair(widths, 90), pair(claimed, 99), most, best])
        if mode.in_docs:
            short.append([name, part, f"{percentile(widths, 50):.1f}" if widths else "", most, best])
        within, of = within + inside, of + len(seen)
        broken += [name] * (not is_kept(mode, seen))
    if "polling" in chosen:
        _, polls = measure(MODES["exact mode, extension first by 0.3 ms"], bench, "polling", polling=True)
        for name, errors in polls.items():
            rows.append([name, f"{len(errors):,}", "", "", "", "", "", pair(errors, 99)])
            short.append([name, "", "", "", pair(errors, 99)])
    note = (
        "MiB. Raced: an interval, `peakLower` to `peakUpper`; width: from the one to the other. Error: of the"
        " invocations that claim an exact figure (one process, not raced). Best: error of `PeakRSS` over all"
        f" invocations, intervals and several processes included. Bounds have {SLACK_MIB} MiB for the kernel's"
        " bookkeeping."
    )
    docs = (
        f"{markdown(SHORT, short)}\n\nMiB, {bench.count(INVOCATIONS, 20):,} invocations a row. Raced: the share of"
        " peaks that are an interval, and its width at the median. Exact: one process, not raced. The truth lay within"
        f" the bounds of {within:,} of {of:,} invocations."
    )
    return Result([Table("", FULL, rows, note)], broken, {(DOCS, "accuracy"): docs})
