"""Does `truemem soak` find leaks by another clock than the invocation, and nothing else?

Each run is a command of its own, with the usual traffic and another seed. Every leak is also put through `truemem
check`, which must not see it. A last run measures how near the arrivals are to a rate of 200 a second. Hours.
"""

from __future__ import annotations

import json
import socketserver
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from truemem_workbench.commands.soak import Duration

from benchmarks.kit.bench import Bench
from testing.pages import ROOT, Result, Table

TITLE = "Soaks of planted leaks"
SETTINGS = {"for": "Length of each (5m).", "at-once": "Runs at the same time (3)."}
FUNCTIONS = ROOT / "benchmarks" / "functions"
TRUEMEM = Path(sys.executable).with_name("truemem")
RUNS = 10
PROMISE = 0.9
"""Share of the runs with the right cause and the right clock."""
RATE, RATE_FOR_S, NEAR = 200, 60, 0.01
AT_ONCE = 8
"""Requests that one environment of Managed Instances serves at once."""
LONGEST_S = 1800
"""A command that takes longer hangs."""


@dataclass(frozen=True)
class Plant:
    """A handler of functions/soak.py, or of soak.mjs on Managed Instances."""

    title: str
    clock: str = ""
    """Which its growth follows; empty if it does not leak."""
    causes: Sequence[str] = ("leak",)
    """Of the finding. More than one where the heap's witness has a word of its own for it."""
    is_managed: bool = False
    environments: int | None = None
    """Most at once. 1 where the clock is the minute only in an environment that is never idle for long."""


LEAKS = {
    "by_time": Plant("gauges that a thread samples", "minute"),
    "by_refresh": Plant("a cache with a TTL, and its old generations", "minute", environments=1),
    "by_age": Plant("connections that are recycled by age", "minute", environments=1),
    "by_pause": Plant("a client that is made anew after a pause", "pause"),
    "by_pause_sockets": Plant("a socket that is opened anew after a pause", "pause", ("descriptors",)),
    "by_trimming": Plant("a pool that drops what was idle", "pause"),
    "by_overlap": Plant("scopes of requests that overlap", "overlap", is_managed=True),
}
OTHERS = {
    "bounded_pool": Plant("a pool with a bound"),
    "filled_cache": Plant("a cache that is full after 30 s"),
    "sawtooth": Plant("garbage in cycles"),
    "spikes": Plant("spikes of 40 MiB"),
    "slow_under_load": Plant("latency that follows load"),
    "hoards": Plant("an allocator that hoards after a burst"),
}
HANDLERS = LEAKS | OTHERS


def is_right(plant: Plant, document: dict[str, Any]) -> bool:
    if not plant.clock:
        return bool(document["outcome"] == "passed")
    return document["finding"]["cause"] in plant.causes and clock(document).get("name") == plant.clock


def clock(document: dict[str, Any]) -> dict[str, Any]:
    return document["finding"].get("clock") or {}


def soaked(name: str, options: Sequence[str]) -> dict[str, Any]:
    """The document of `truemem soak`. Raises OSError if it gives none."""
    plant = HANDLERS[name]
    own = [f"--managed-instances={AT_ONCE}"] * plant.is_managed
    own += [f"--environments={plant.environments}"] if plant.environments else []
    document: dict[str, Any] = json.loads(_truemem("soak", *_handler(name), *own, *options, "--json").stdout)
    return document


def checked(name: str, options: Sequence[str]) -> str:
    return ("passed", "FAILED", "undecided")[_truemem("check", *_handler(name), *options, "--no-explain").returncode]


def _handler(name: str) -> Sequence[str]:
    if HANDLERS[name].is_managed:
        # With more workers, which are threads with a heap of their own, requests would hardly meet.
        return f"{FUNCTIONS / 'soak.mjs'}:handler", "--env=AWS_LAMBDA_NODEJS_WORKER_COUNT=1"
    return f"{FUNCTIONS / 'soak.py'}:handler", f"--env=WORK={name}"


def _truemem(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Raises OSError if it printed no result, and TimeoutExpired."""
    done = subprocess.run([TRUEMEM, *arguments], capture_output=True, text=True, check=False, timeout=LONGEST_S)
    if done.returncode not in (0, 1) and not done.stdout:
        raise OSError(f"truemem {' '.join(arguments)}: {done.stderr.strip()[-500:]}")
    return done


class _Answering(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        for _ in self.rfile:
            self.wfile.write(b"value\n")


@contextmanager
def server() -> Iterator[str]:
    """A server on loopback, as HOST:PORT, that answers each line with another. It closes no connection by itself."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Answering) as serving:
        serving.daemon_threads = True
        thread = threading.Thread(target=serving.serve_forever)
        thread.start()
        try:
            host, port = serving.server_address[:2]
            yield f"{host!s}:{port}"
        finally:
            serving.shutdown()
            thread.join()


def _clocks(document: dict[str, Any]) -> str:
    """The clock, or all that fit if they were not told apart."""
    found = clock(document)
    return str(found["name"]) if "name" in found else " or ".join(found.get("candidates", ())) or "none"


def _counted(words: Iterable[str]) -> str:
    """`leak`, or `9 leak, 1 none`."""
    counts = Counter(words)
    return next(iter(counts)) if len(counts) == 1 else ", ".join(f"{count} {word}" for word, count in counts.items())


def measure(names: Sequence[str], bench: Bench) -> tuple[dict[str, list[dict[str, Any]]], dict[str, str]]:
    """The documents of each handler's soaks, and what `truemem check` says of the leaks. The handlers take turns, so
    that all see the same machine. The first soaks begin one after the other: cold starts of all at once would need more
    CPU than there is."""
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    length, at_once = bench.settings.get("for", "5m"), int(bench.settings.get("at_once", 3))
    apart_s = Duration().convert(length, None, None) / at_once
    planned = [(name, seed + 1) for seed in range(bench.count(RUNS)) for name in names]
    advance = bench.step("soaks", len(planned))
    with server() as address, ThreadPoolExecutor(at_once) as pool:
        env = f"--env=SERVER={address}"

        def once(place: int, name: str, seed: int) -> None:
            if place < at_once:
                time.sleep(place * apart_s)
            found[name].append(soaked(name, (env, f"--for={length}", f"--seed={seed}")))
            advance()

        soaks = [pool.submit(once, place, *each) for place, each in enumerate(planned)]
        checks = {name: pool.submit(checked, name, (env,)) for name in names if name in LEAKS}
        for each in soaks:
            each.result()
        return found, {name: check.result() for name, check in checks.items()}


def row(name: str, documents: Sequence[dict[str, Any]], check: str) -> list[str]:
    plant = HANDLERS[name]
    rates = [clock(each)["rateKiB"] for each in documents if clock(each).get("rateKiB") is not None]
    latency = max((each["latencyMs"] for each in documents), key=lambda each: float(each["p99"]))
    return [
        plant.title,
        check,
        f"{sum(is_right(plant, each) for each in documents)} of {len(documents)}",
        _counted(each["finding"]["cause"] for each in documents),
        _counted(_clocks(each) for each in documents),
        f"{min(rates):,.0f} to {max(rates):,.0f}" if rates and plant.clock else "",
        f"{latency['p50']:,.0f}, {latency['p99']:,.0f} ms",
        f"{sum(each['invocations'] for each in documents):,}",
    ]


def run(bench: Bench) -> Result:
    found, checks = measure(bench.chosen(HANDLERS), bench)
    rated = soaked("filled_cache", (f"--rate={RATE}", f"--for={RATE_FOR_S}s", "--cpu=off"))
    off = rated["sent"] / (RATE * RATE_FOR_S) - 1
    note = (
        f"{bench.count(RUNS)} runs of each, {bench.settings.get('for', '5m')} each, with the usual traffic. Right: the"
        " cause and the clock of a leak, and that what does not leak passes. `check`: what `truemem check` says of the"
        " same handler. Latency: of the run with the highest p99.\n\n"
        f"Asked for {RATE} requests a second over {RATE_FOR_S} s, it sent {rated['sent'] / RATE_FOR_S:.1f}"
        f" ({off:+.2%}; within {NEAR:.0%} is wanted), p99 of how late {rated['lateMs']['p99']:,.1f} ms, and"
        f" {rated['throttles']:,} were throttled."
    )
    right = {name: sum(is_right(HANDLERS[name], each) for each in of) for name, of in found.items()}
    broken = [f"{name}: right in {count}" for name, count in right.items() if count < PROMISE * len(found[name])]
    broken += [f"{name}: seen by check" for name, said in checks.items() if said == "FAILED"]
    broken += [f"the rate is off by {off:+.2%}"] * (abs(off) > NEAR)
    head = ("handler", "check", "right", "cause", "clock", "KiB per unit", "p50, p99", "requests")
    rows = [row(name, of, checks.get(name, "")) for name, of in found.items()]
    return Result([Table("", head, rows, note)], broken)
