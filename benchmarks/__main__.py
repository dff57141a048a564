"""The one runner of all benchmarks: python -m benchmarks NAME [options].

A benchmark is a module with a TITLE and a function `run`, which gets a Bench and returns a Result. SETTINGS has its own
options and what they mean. With NAMESPACE it runs in a PID namespace of its own, as in Lambda. What has no TITLE has no
page in results/.

Exit codes: 0 measured, and every promise was kept; 1 one was broken; 2 it could not be measured.
"""

from __future__ import annotations

import ast
import json
import sys
import time
from functools import partial
from importlib import import_module
from pathlib import Path
from subprocess import SubprocessError
from types import ModuleType
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

FOLDER = Path(__file__).parent


def texts() -> dict[str, str]:
    """Name and docstring of each benchmark, without its imports."""
    sources = {path.stem: path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*.py"))}
    return {name: ast.get_docstring(ast.parse(text)) or "" for name, text in sources.items() if "\ndef run(" in text}


class Benchmarks(click.Group):
    """Finds a benchmark's module by its name."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(texts())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in texts():
            return None
        module = import_module(f"benchmarks.{cmd_name}")
        own = [click.Option([f"--{name}"], help=text) for name, text in getattr(module, "SETTINGS", {}).items()]
        common: list[click.Parameter] = [
            click.Option(["--share"], type=float, default=1.0, show_default=True, help="Of the usual length."),
            click.Option(["--only"], multiple=True, help="Only cases whose names have this word."),
            click.Option(["--json", "as_json"], is_flag=True, help="Print the tables as JSON."),
            click.Option(
                ["--write/--no-write"], default=None, help="Write the pages. Default: if all was measured, in full."
            ),
        ]
        return click.Command(cmd_name, help=module.__doc__, params=[*common, *own], callback=partial(measure, module))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Benchmarks"):
            formatter.write_dl([(name, text.partition("\n")[0]) for name, text in texts().items()])


@click.group(cls=Benchmarks, help=__doc__, context_settings={"max_content_width": 120})
def main() -> None:
    """Run the benchmark that the command line names."""


def measure(
    module: ModuleType, share: float, only: tuple[str, ...], as_json: bool, write: bool | None, **own: str | None
) -> None:
    """Run a benchmark, and print and write what it found."""
    from truemem_workbench.support.bad_input import BadInput

    from benchmarks.kit import namespace
    from benchmarks.kit.bench import Bench

    if getattr(module, "NAMESPACE", False):
        namespace.enter()
    console, began = Console(stderr=True), time.monotonic()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    settings = {name: value for name, value in own.items() if value is not None}
    try:
        with Progress(*columns, console=console, transient=True) as progress:

            def step(name: str, steps: int) -> Any:
                return partial(progress.advance, progress.add_task(name, total=steps))

            result = module.run(Bench(share, only, settings, step, partial(console.print, markup=False)))
    except (OSError, AssertionError, RuntimeError, LookupError, SubprocessError, BadInput) as error:
        click.echo(f"could not measure: {error!r}", err=True)
        sys.exit(2)
    whole = share >= 1 and not only and "seeds" not in settings
    finish(module, result, as_json, whole if write is None else write, time.monotonic() - began)


def finish(module: ModuleType, result: Any, as_json: bool, write: bool, seconds: float) -> None:
    """Print, write, and end with 1 if a promise was broken."""
    from testing import pages

    name = module.__name__.rpartition(".")[2]
    if as_json:
        tables = [{"title": each.title, "headings": each.headings, "rows": each.rows} for each in result.tables]
        told = {"name": name, "machine": pages.machine(), "seconds": round(seconds), "broken": list(result.broken)}
        click.echo(json.dumps({**told, "tables": tables, "ratios": result.ratios}, indent=1))
    else:
        for table in result.tables:
            Console(width=160).print(table.shown())
            click.echo(table.note)
    if write:
        if hasattr(module, "TITLE"):
            text = pages.page(module.TITLE, f"python -m benchmarks {name}", result, seconds)
            (pages.RESULTS / f"{name}.md").write_text(text, encoding="utf-8")
        for (path, marks), text in result.docs.items():
            pages.replace(pages.ROOT / path, marks, text)
        if result.ratios is not None:
            ratios = {"machine": pages.machine(), "ratios": result.ratios}
            (pages.RESULTS / f"{name}.json").write_text(json.dumps(ratios, indent=1) + "\n")
    if result.broken:
        click.echo(f"broken promise: {'; '.join(result.broken)}. (Is the machine idle?)", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
