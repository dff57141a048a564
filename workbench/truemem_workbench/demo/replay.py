"""Replays the calls, and shows what was measured: a table, a verdict and a picture, or one JSON document."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import click
from rich.text import Text

from ..analysis.causes import find
from ..analysis.commands import Commands
from ..analysis.curves import curves_of
from ..analysis.finding import Finding
from ..lines.line import parse_event
from ..support import terminal
from ..support.bad_input import BadInput
from ..support.untrusted_text import visible
from .repairs import Level, chosen, effects, largest, level
from .run import Outcome, as_json, run, save_lines
from .table import table
from .verdict import headline, verdict
from .workload import Call, describe

COMMANDS = Commands(
    again="truemem demo",
    longer="truemem demo --invocations 400",
    repair="truemem demo --repairs",
    size="truemem demo --repairs",
)
METHODS = {
    "vmhwm": "kept by the kernel (vmhwm)",
    "vmhwm-threads": "less what threads hide (vmhwm-threads)",
    "vmhwm-sum": "summed over processes, upper bound (vmhwm-sum)",
    "sampled": "sampled, lower bound",
}


def replay(
    calls: Sequence[Call],
    variables: Mapping[str, str],
    *,
    memory_mib: int,
    output: Path,
    as_document: bool,
    repairs: bool,
) -> None:
    """Run the calls, print, and write the picture and the lines to the folder `output`. Raises BadInput."""
    workload = describe(calls)
    try:
        output.mkdir(parents=True, exist_ok=True)
        with terminal.steps(shown=not as_document) as progress:
            outcome = run(calls, memory_mib=memory_mib, variables=variables, progress=progress)
            others = chosen(variables) if repairs else {}
            repaired = {
                words: level(run(calls, memory_mib=memory_mib, variables=changed, progress=progress).rows)
                for words, changed in others.items()
            }
        from .picture import draw  # matplotlib takes a second

        picture, lines = output / "memory.png", output / "truemem.emf.jsonl"
        draw(outcome.rows, picture, memory_mib=memory_mib, subtitle=_subtitle(outcome, memory_mib, variables))
        save_lines(outcome.lines, lines)
    except OSError as problem:
        raise BadInput(f"cannot write to {output}: {problem.strerror or problem}. Try --output FOLDER") from None

    after = {words: found for words, found in repaired.items() if found is not None} if repairs else None
    if as_document:
        document = {
            "workload": workload,
            "memory": memory_mib,
            "variables": variables,
            "seconds": round(outcome.seconds, 1),
            "invocations": [as_json(row) for row in outcome.rows],
            "headline": headline(outcome.rows),
            "verdict": verdict(outcome.rows),
            "finding": _finding(outcome).document(),
            "repairs": {words: found.figures() for words, found in (after or {}).items()},
            "notices": outcome.notices,
            "files": [str(picture), str(lines)],
        }
        click.echo(json.dumps(document, indent=2))
    else:
        _print(
            outcome, workload=workload, settings=_settings(memory_mib, variables), files=[picture, lines], after=after
        )
    if not outcome.lines:
        raise BadInput(f"the sidecar printed no record; the last it said: {outcome.last_words}")


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
    for sentence in (*verdict(outcome.rows), _finding(outcome).paragraph()):
        console.print(_point(sentence))
    before = level(outcome.rows)
    if before and after:
        console.print()
        console.print("The same calls with one repair each, MiB at the end:")
        console.print(effects(before, after))
        for sentence in largest(before, after):
            console.print(_point(sentence))
    for notice in outcome.notices:
        console.print(f"On this machine: {notice}", style="dim")
    console.print()
    console.print(f"{len(outcome.rows)} invocations in {outcome.seconds:.0f} s. Written:")
    for path in files:
        console.print(f"  {path}", soft_wrap=True)


def _finding(outcome: Outcome) -> Finding:
    return find(curves_of(line for text in outcome.lines for line in parse_event(text)), COMMANDS, is_patient=False)


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
