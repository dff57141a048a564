"""Measures whether many processes delay an invocation: up to 2,000 idle children, with and without the sidecar.

Runs the layer of `make layer` under the local Lambda, in turn. Writes results/many.md.

Exit codes: 0 every promise was kept, 1 one was broken, 2 it could not be measured.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import click
from rich.console import Console
from truemem_workbench.local import Function, LocalLambda, Settings

from benchmarks.accuracy import percentile
from benchmarks.added import spans
from benchmarks.contenders import EXACT_MODE, EXECUTABLE
from benchmarks.exact import Side
from benchmarks.publish import exit_if_broken, machine, markdown, measuring, shown

RESULTS = Path(__file__).with_name("results") / "many.md"
FUNCTION = Path(__file__).with_name("functions") / "many.py"

CHILDREN = (0, 64, 200, 1000, 2000)
TURNS = 10
BLOCK = 5
WARM_UP = 5
PAUSE_S = 0.05
"""Between two invocations: the sidecar's work after the answer is done by then."""
MAY_ADD_MS = {"default": (1.0, 5.0), "exact": (3.0, 7.0)}
"""The promise, whatever the number: to the response, and after it. Twelve processes are read before the answer goes on
(0.3 ms; twice in exact mode), the others for 2 ms at most, and the platform allows 1,024."""
MODES = {"without": None, "default": {}, "exact": EXACT_MODE}


@dataclass(frozen=True)
class Result:
    """One row. Times in ms, median."""

    children: int
    mode: str
    invocations: int
    added_to_response: float
    """To the time from the event to the response: the difference to the function without the sidecar."""
    added_after: float
    """To the time from the response to the end of the invocation, in which the sidecar asks for the next event."""
    cpu_ms: float
    """Of the sidecar, for one invocation."""
    promise_kept: bool


def environment(mode: str) -> LocalLambda:
    """One side."""
    variables = MODES[mode]
    settings = Settings(
        memory_mib=1769,
        memory_limit="off",
        timeout_s=300,
        extensions=[] if variables is None else [EXECUTABLE],
        environment=variables or {},
    )
    return LocalLambda(Function.from_handler(f"{FUNCTION}:handler"), settings)


def measure(children: int, turns: int, advance: Callable[[], None]) -> list[Result]:
    """All sides, by turns."""
    event = {"children": children}
    with ExitStack() as stack:
        made = {mode: Side(stack.enter_context(environment(mode))) for mode in MODES}
        for side in made.values():
            side.run(event, WARM_UP, PAUSE_S)
        asked: dict[str, list[str]] = {mode: [] for mode in made}
        for _ in range(turns):
            for mode, side in made.items():
                if mode == "without":
                    asked[mode] += side.run(event, BLOCK, PAUSE_S)
                    continue
                side.turn(event, BLOCK, PAUSE_S)
                asked[mode] += side.blocks[-1]
            advance()
        known = {mode: spans(side.local) for mode, side in made.items()}
    medians = {
        mode: (
            percentile([known[mode][each][0] for each in asked[mode]], 50),
            percentile([known[mode][each][1] + known[mode][each][2] for each in asked[mode]], 50),
        )
        for mode in made
    }
    results = []
    for mode in ("default", "exact"):
        response, after = (medians[mode][at] - medians["without"][at] for at in (0, 1))
        cpu_ms = statistics.fmean(made[mode].cpu_ms)
        kept = response <= MAY_ADD_MS[mode][0] and after <= MAY_ADD_MS[mode][1]
        results.append(
            Result(children, mode, len(asked[mode]), round(response, 3), round(after, 3), round(cpu_ms, 3), kept)
        )
    return results


def rows(results: Sequence[Result]) -> list[list[str]]:
    """The table's cells."""
    return [
        [
            f"{each.children:,}",
            each.mode,
            f"{each.added_to_response:+.2f}",
            f"{each.added_after:+.2f}",
            f"{each.cpu_ms:.2f}",
            "" if each.promise_kept else "**broken promise**",
        ]
        for each in results
    ]


def promises() -> str:
    """In words."""
    return "; ".join(f"in {mode} mode at most {first} and {then} ms" for mode, (first, then) in MAY_ADD_MS.items())


HEADINGS = ("children", "mode", "response, ms", "after it, ms", "CPU of the sidecar, ms", "")


@click.command()
def main() -> None:
    """See the module."""
    results: list[Result] = []
    with measuring() as bar:
        advance = bar("many processes", len(CHILDREN) * TURNS)
        for children in CHILDREN:
            results += measure(children, TURNS, advance)
    RESULTS.write_text(
        f"""# Many processes

What the sidecar adds to an invocation of a function with so many idle children, to the response and to the time
after it, against the same function without the sidecar, by turns. Medians of {TURNS * BLOCK} invocations a side.
Promise, whatever the number: {promises()}.
Made by `python -m benchmarks.many` on {datetime.now(UTC):%Y-%m-%d}, {machine()}.

{markdown(HEADINGS, rows(results), 2)}
"""
    )
    Console().print(shown("Many processes", HEADINGS, rows(results)))
    exit_if_broken([f"{result.children} children" for result in results if not result.promise_kept])


if __name__ == "__main__":
    main()
