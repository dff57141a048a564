"""Fails if the layer, its lines or the report have become slower or larger: a short measurement against the committed
results/layer.json and results/speed.json.

It compares only ratios and sizes: each figure of our executable is set against another in the same run. Worse by a
fifth fails.

Exit codes: 0 no worse, 1 worse, 2 not measured, or not compared because the machine is of another class.
"""

from __future__ import annotations

import json
import platform
import sys
import tempfile
from pathlib import Path

import click
from rich.console import Console

from benchmarks import cold_start, namespace, publish, running, speed
from benchmarks.contenders import contenders
from benchmarks.layer import RATIOS, ratios
from benchmarks.sizes import measure_sizes

TOLERANCE = 1.2


def compare(now: dict[str, float], committed: dict[str, float]) -> list[tuple[str, float, float, bool]]:
    """Name, committed, now, and whether it is worse. A figure that is missing on one side is a KeyError."""
    return [(name, was, now[name], now[name] > was * TOLERANCE) for name, was in committed.items()]


def same_class(machine: str) -> bool:
    """The same processors, as many, and the same kernel's version: of what `publish.machine` says."""
    here = publish.machine()
    return machine.partition(", Linux")[0] == here.partition(", Linux")[0] and platform.release() in machine


@click.command(help=__doc__)
@click.option("--rounds", default=25, show_default=True, help="Starts of each.")
@click.option("--anywhere", is_flag=True, help="Compare on another class of machine, too.")
def main(rounds: int, anywhere: bool) -> None:
    """See the module."""
    namespace.enter()
    try:
        committed = {path.name: json.loads(path.read_text()) for path in (RATIOS, speed.RATIOS)}
        for name, each in committed.items():
            if not anywhere and not same_class(each["machine"]):
                click.echo(f"not compared: {name} is from {each['machine']}; --anywhere does", err=True)
                sys.exit(2)
        with tempfile.TemporaryDirectory() as folder:
            compared = contenders(Path(folder))
            starts = cold_start.measure(compared, rounds, lambda: None)
            growths = [running.growth(compared[0], 100, lambda: None)]
            now = {**ratios(starts, growths, measure_sizes()), **speed.ratios(compared)}
        rows = compare(now, {name: was for each in committed.values() for name, was in each["ratios"].items()})
    except (OSError, AssertionError, RuntimeError, LookupError, ValueError) as error:
        click.echo(f"could not measure: {error!r}", err=True)
        sys.exit(2)
    cells = [[name, f"{was:.3f}", f"{now:.3f}", "worse" if worse else ""] for name, was, now, worse in rows]
    Console(width=120).print(publish.shown("Ours beside others", ("figure", "committed", "now", ""), cells))
    worse = [name for name, _, _, is_worse in rows if is_worse]
    if worse:
        click.echo(f"worse by more than a fifth: {'; '.join(worse)}", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
