"""A web server behind AWS's Lambda Web Adapter: requests that hold known amounts, in both modes.

The truth is what the server reads of itself before, while it holds the memory, and as the next request begins. Runs the
layer of `make layer` under the local Lambda, with AWS's adapter if it is given, else with what stands for it. Writes
results/web.md and the table of docs/web-adapter.md.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from truemem_workbench.local.configuration.layer import WEB_ADAPTER

from benchmarks.kit.bench import Bench, percentile, two
from benchmarks.kit.contenders import EXECUTABLE
from testing.environment import FUNCTIONS, SLACK_MIB, Record
from testing.pages import Result, Table, markdown
from testing.web import WebEnvironment
from testing.workload import events

TITLE = "Web servers"
SETTINGS = {"adapter": "AWS's own: VERSION=PATH. Its file is called lambda-adapter."}
DOCS = "docs/web-adapter.md"
LIMIT_MIB, WARM_UP, REQUESTS = 1024, 20, 500
OF_ONE_PROCESS = ("hold", "spike", "keep", "release")
"""Kinds of the workload whose truth is one process's."""
SERVERS = {
    "uvicorn, Starlette": [sys.executable, "-m", "uvicorn", "--app-dir", str(FUNCTIONS), "asgi:app"],
    "Node.js http": ["node", "--expose-gc", str(FUNCTIONS / "web.cjs")],
}
HEADINGS = ("", "mode", "requests", "in exact mode", "within bounds", "figures", "error p50 / max", "width p50 / p90")


@dataclass(frozen=True)
class Seen:
    """A record, and between which values the true peak lay, MiB."""

    record: Record
    low: float
    """The highest that the server has read of itself in the request."""
    high: float
    """With what a runtime takes for itself afterwards: by what the next request finds."""

    @property
    def upper(self) -> float:
        return LIMIT_MIB if self.record.peakUpper is None else float(self.record.peakUpper)

    @property
    def error(self) -> float:
        peak = float(self.record.PeakRSS)
        return max(self.low - peak, peak - self.high, 0.0)

    @property
    def within_bounds(self) -> bool:
        return self.record.peakLower - SLACK_MIB <= self.high and self.low <= self.upper + SLACK_MIB


def seen_of(record: Record, event: Mapping[str, Any], answer: Mapping[str, Any], following: Mapping[str, Any]) -> Seen:
    """What was held is free again where the next request begins, but for what is kept."""
    low, after = answer["truth"] / 1024, following["before"] / 1024
    freed = event["mib"] if event["do"] in ("hold", "spike") else 0
    return Seen(record, low, max(low, freed + max(answer["before"] / 1024, after)))


def measure(command: list[str], adapter: Path, bench: Bench, name: str, *, exact: bool) -> list[Seen]:
    """What was said of each request."""
    count = bench.count(REQUESTS, 20)
    asked = [*islice((each for each in events(10 * count) if each["do"] in OF_ONE_PROCESS), count)]
    advance, answers = bench.step(name, count), []
    with WebEnvironment(
        shlex.join(command), adapter=adapter, sidecar=EXECUTABLE, memory_mib=LIMIT_MIB, exact=exact
    ) as environment:
        for _ in range(WARM_UP):  # the cold start is not part of the comparison
            environment.invoke(mib=1)
        for event in asked:
            answers.append(environment.invoke(**event))
            advance()
        answers.append(environment.invoke(mib=1))  # without it no request would end the last one
        records = environment.told()[WARM_UP:-1]
    return [seen_of(*each) for each in zip(records, asked, answers[:-1], answers[1:], strict=True)]


def run(bench: Bench) -> Result:
    version, _, path = bench.settings.get("adapter", "").partition("=")
    adapter = Path(path) if path else WEB_ADAPTER
    rows, broken = [], []
    for name in bench.chosen(f"{server}: {mode}" for server in SERVERS for mode in ("default", "exact")):
        server, _, mode = name.partition(": ")
        seen = measure(SERVERS[server], adapter, bench, name, exact=mode == "exact")
        widths, errors = [each.upper - each.record.peakLower for each in seen], [each.error for each in seen]
        in_exact = sum(each.record.mode == "exact" for each in seen)
        inside, figures = sum(each.within_bounds for each in seen), sum(each <= SLACK_MIB for each in widths)
        error = f"{percentile(errors, 50):.2f} / {two(max(errors))}"
        cells = [f"{each:,}" for each in (len(seen), in_exact, inside, figures)]
        rows.append([server, mode, *cells, error, f"{percentile(widths, 50):.2f} / {percentile(widths, 90):.2f}"])
        is_kept = inside == len(seen) and (mode == "default" or (in_exact == len(seen) and max(errors) <= SLACK_MIB))
        broken += [name] * (not is_kept)
    who = f"AWS's adapter {version}, built from its source" if path else "What stands for AWS's adapter"
    note = (
        f"{who}. MiB. Figures: their bounds are {SLACK_MIB} MiB apart at most. Error: of `PeakRSS`, over all. Width:"
        " from `peakLower` to `peakUpper`."
    )
    return Result([Table("", HEADINGS, rows, note)], broken, {(DOCS, "web"): f"{markdown(HEADINGS, rows)}\n\n{note}"})
