"""The command behind `make demo`."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import click
from rich.text import Text

from ..support import terminal
from ..support.bad_input import BadInput
from ..support.terminal import tell
from ..support.untrusted_text import visible
from .picture import draw
from .repairs import Level, chosen, effects, largest, level
from .run import Outcome, as_json, run, save_lines
from .table import table
from .verdict import headline, verdict
from .workload import describe, working_day

METHODS = {
    "vmhwm": "kept by the kernel (vmhwm)",
    "vmhwm-sum": "summed over processes, upper bound (vmhwm-sum)",
    "sampled": "sampled, lower bound",
}


class Refused(click.ClickException):
    """Input that cannot be used, told in one line."""

    def show(self, file: IO[Any] | None = None) -> None:
        tell("truemem demo", self.message)


@click.command(context_settings={"max_content_width": 100})
@click.option("--invocations", type=click.IntRange(1, 10_000), default=64, show_default=True)
@click.option("--memory", type=click.IntRange(128, 10_240), default=1024, show_default=True, help="MiB.")
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    default=Path("demo-output"),
    show_default=True,
    help="Folder for the picture and the raw lines.",
)
@click.option("--json", "as_document", is_flag=True, help="One JSON document on stdout, no table.")
@click.option("--seed", type=int, default=1, show_default=True, help="Seed of the calls.")
@click.option(
    "--load-from",
    type=click.Choice(["bytes", "path"]),
    default="bytes",
    show_default=True,
    help="How a model is loaded; the incident's way is bytes.",
)
@click.option("--cache-size", type=click.IntRange(0, 40), default=16, show_default=True, help="Sessions kept.")
@click.option("--pop-before-load", is_flag=True, help="Drop a session before the next is loaded.")
@click.option(
    "--mmap-threshold",
    type=click.IntRange(0, 32 * 1024 * 1024),
    help="malloc's, in bytes [default: glibc's own, which changes]. Try 32768.",
)
@click.option("--repairs", is_flag=True, help="Also run each repair with the same calls: up to five more runs.")
def main(
    invocations: int,
    memory: int,
    output: Path,
    as_document: bool,
    seed: int,
    load_from: str,
    cache_size: int,
    pop_before_load: bool,
    mmap_threshold: int | None,
    repairs: bool,
) -> None:
    """Replay the ONNX incident under the local Lambda, with the sidecar attached.

    Prints each invocation's own memory beside Max Memory Used, says what that means, and writes a picture and
    the raw EMF lines to a folder. Needs no AWS account.
    """
    calls = working_day(invocations, seed)
    variables = {
        "LOAD_FROM": load_from,
        "CACHE_SIZE": str(cache_size),
        "POP_BEFORE_LOAD": str(pop_before_load).lower(),
        **({} if mmap_threshold is None else {"MMAP_THRESHOLD": str(mmap_threshold)}),
    }
    workload = describe(calls)
    try:
        output.mkdir(parents=True, exist_ok=True)
        with terminal.steps(shown=not as_document) as progress:
            outcome = run(calls, memory_mib=memory, variables=variables, progress=progress)
            others = chosen(variables) if repairs else {}
            repaired = {
                words: level(run(calls, memory_mib=memory, variables=changed, progress=progress).rows)
                for words, changed in others.items()
            }
        picture, lines = output / "memory.png", output / "truemem.emf.jsonl"
        draw(outcome.rows, picture, memory_mib=memory, subtitle=_subtitle(outcome, memory, variables))
        save_lines(outcome.lines, lines)
    except BadInput as problem:
        raise Refused(str(problem)) from None
    except OSError as problem:
        raise Refused(f"cannot write to {output}: {problem.strerror or problem}. Try --output FOLDER") from None

    after = {words: found for words, found in repaired.items() if found is not None} if repairs else None
    if as_document:
        document = {
            "workload": workload,
            "memory": memory,
            "variables": variables,
            "seconds": round(outcome.seconds, 1),
            "invocations": [as_json(row) for row in outcome.rows],
            "headline": headline(outcome.rows),
            "verdict": verdict(outcome.rows),
            "repairs": {words: found.figures() for words, found in (after or {}).items()},
            "notices": outcome.notices,
            "files": [str(picture), str(lines)],
        }
        click.echo(json.dumps(document, indent=2))
    else:
        _print(outcome, workload=workload, settings=_settings(memory, variables), files=[picture, lines], after=after)
    if not outcome.lines:
        raise Refused(f"the sidecar printed no record; the last it said: {outcome.last_words}")


def _print(
    outcome: Outcome, *, workload: str, settings: str, files: list[Path], after: Mapping[str, Level] | None
) -> None:
    console = terminal.console()
    console.print()
    console.print(Text.assemble(("The ONNX sample under the local Lambda", "bold"), f": {settings}."))
    console.print(f"The calls: {workload}.")
    console.print(table(outcome.rows, bars=console.width >= 110 and console.encoding.startswith("utf")))
    console.print(
        "MiB. Peak and current: resident set of the function's processes. Max Memory Used: the whole environment's,"
        " page cache and sidecar included. In brackets: bounds of an uncertain peak."
    )
    console.print()
    for sentence in verdict(outcome.rows):
        console.print(_point(sentence))
    before = level(outcome.rows)
    if before and after:
        console.print()
        console.print("The same calls with one repair each, MiB at the end:")
        console.print(effects(before, after))
        for sentence in largest(before, after):
            console.print(_point(sentence))
    elif after is None:
        console.print()
        console.print("What each repair is worth: make demo ARGS=--repairs")
    for notice in outcome.notices:
        console.print(f"On this machine: {notice}", style="dim")
    console.print()
    console.print(f"{len(outcome.rows)} invocations in {outcome.seconds:.0f} s. Written:")
    for path in files:
        console.print(f"  {path}", soft_wrap=True)


def _point(sentence: str) -> Text:
    return Text.assemble(("-", "bold"), f" {visible(sentence)}")


def _settings(memory: int, variables: Mapping[str, str]) -> str:
    parts = [f"{memory} MiB", f"models from {variables['LOAD_FROM']}", f"cache of {variables['CACHE_SIZE']}"]
    if variables["POP_BEFORE_LOAD"] == "true":
        parts.append("evicted before loading")
    if threshold := variables.get("MMAP_THRESHOLD"):
        parts.append(f"mmap threshold {threshold}")
    return ", ".join(parts)


def _subtitle(outcome: Outcome, memory: int, variables: Mapping[str, str]) -> str:
    counted = Counter(row.record.method for row in outcome.rows if row.record and row.record.method)
    known = ", ".join(f"{number} {METHODS.get(name, name)}" for name, number in counted.most_common())
    peaks = f" Peaks: {known}." if known else ""
    return f"ONNX sample, local Lambda, {_settings(memory, variables)}.{peaks}"


if __name__ == "__main__":
    sys.exit(main(prog_name="truemem demo"))
