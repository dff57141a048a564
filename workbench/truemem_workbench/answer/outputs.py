"""Writes a result to all its places: terminal, GitHub, JUnit, a picture, files.

Each is tried before the run; one that fails does not stop the others. A result is what has the members of `Reported`.
"""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

import click
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..judge.latency import Figure
from ..support.bad_input import BadInput
from ..support.options import try_place
from ..support.terminal import console, fitted, notify, say
from ..support.untrusted_text import markdown, visible
from . import baseline as baselines
from .baseline import Baseline
from .limits import LimitCheck
from .result import BROKEN, KEPT, UNKNOWN, Explained


class Reported(Protocol):
    """A result that can be written: of `truemem check`, or of another command that checks limits."""

    @property
    def spec(self) -> str:
        """The function as the user named it."""

    @property
    def seconds(self) -> float: ...

    @property
    def limits(self) -> Sequence[LimitCheck]: ...

    @property
    def figures(self) -> Sequence[Figure]:
        """Rows below the limits."""

    @property
    def source(self) -> Path | None:
        """File of the handler, for annotations; `line` is where it begins."""

    @property
    def line(self) -> int | None: ...

    @property
    def explanation(self) -> Explained | None: ...

    @property
    def exit_code(self) -> int: ...

    @property
    def headline(self) -> str: ...

    def tables(self) -> Sequence[Table]:
        """Tables at a terminal, below that of the limits."""

    def curves(self, *, plain: bool = False) -> list[str]: ...

    def sentences(self) -> list[str]: ...

    def notices(self) -> list[str]: ...

    def log(self) -> list[str]: ...

    def document(self) -> dict[str, object]: ...

    def baseline(self) -> Baseline | None:
        """What a baseline keeps of it. None if there is nothing to compare with."""


SUMMARY_MARKS = {"kept": "✅ kept", "broken": "❌ broken", "unknown": "⚠️ unknown"}


def rows(result: Reported) -> list[tuple[str, str, str, str]]:
    """The table: name, what is allowed or what the baseline has, what was measured, and the outcome."""
    return [(each.name, each.allowed, each.measured, each.outcome) for each in result.limits] + [*result.figures]


def github_annotations(result: Reported) -> list[str]:
    """An annotation at the handler for each limit that was not kept, and one at each line that holds what grew."""
    place = f"file={_property(result.source.as_posix())}," if result.source else ""
    place += f"line={result.line}," if result.source and result.line else ""
    title = _property("truemem: what grows")
    explained = result.explanation.annotations() if result.explanation else []
    return [
        f"::error file={_property(file.as_posix())},line={line},title={title}::{_data(sentence)}"
        for file, line, sentence in explained
    ] + [
        f"::error {place}title={_property(f'truemem: {each.name}')}::{_data(each.sentence)}"
        for each in result.limits
        if each.outcome != "kept"
    ]


def github_summary(result: Reported) -> str:
    table = [
        f"| {name} | {markdown(allowed)} | {markdown(measured)} | {SUMMARY_MARKS.get(outcome, outcome)} |"
        for name, allowed, measured, outcome in rows(result)
    ]
    parts = [
        f"### {markdown(result.headline)}",
        "\n".join(["| limit | allowed | measured | |", "|---|---|---|---|", *table]),
        _block(result.curves()),
        "\n".join(f"- {markdown(sentence)}" for sentence in [*result.sentences(), *result.notices()]),
        _block([f"    {visible(line)}" for line in result.explanation.lines()] if result.explanation else []),
        _block([f"    {visible(line)}" for line in result.log()]),  # indented so far, no line of it ends the block
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def add_summary(result: Reported, path: Path) -> None:
    """Add the summary to the file of the step. Raises OSError."""
    with path.open("a", encoding="utf-8") as file:
        file.write(github_summary(result))


def _block(lines: list[str]) -> str:
    return "\n".join(["```", *lines, "```"]) if lines else ""


def _data(value: str) -> str:
    """Escape a text as actions/toolkit does, packages/core/src/command.ts."""
    return visible(value).replace("%", "%25")


def _property(value: str) -> str:
    return _data(value).replace(":", "%3A").replace(",", "%2C")


def junit_document(result: Reported, command: str = "truemem check") -> ET.Element:
    """Make the JUnit document; the suite has the command's name. `visible` escapes what XML 1.0 cannot have."""
    count = {outcome: sum(each.outcome == outcome for each in result.limits) for outcome in ("broken", "unknown")}
    suite = ET.Element(
        "testsuite",
        name=command,
        tests=str(len(result.limits)),
        failures=str(count["broken"]),
        errors=str(count["unknown"]),
        skipped="0",
        time=f"{result.seconds:.3f}",
    )
    spec, text = visible(result.spec), plain_text(result)
    for each in result.limits:
        case = ET.SubElement(suite, "testcase", classname=spec, name=each.name, time="0")
        if each.outcome == "kept":
            continue
        kind = "failure" if each.outcome == "broken" else "error"
        problem = ET.SubElement(case, kind, message=visible(each.sentence), type=each.name)
        problem.text = text
    ET.SubElement(suite, "system-out").text = text
    whole = ET.Element("testsuites")
    whole.append(suite)
    return whole


def write_junit(result: Reported, path: Path, command: str = "truemem check") -> None:
    """Write the JUnit document. Raises BadInput."""
    try:
        ET.ElementTree(junit_document(result, command)).write(path, encoding="utf-8", xml_declaration=True)
    except OSError as error:
        raise BadInput(f"cannot write {path}: {error.strerror}. Try --output FOLDER/report.xml") from None


def plain_text(result: Reported) -> str:
    """The whole result as text, for a failing test."""
    cells = [("limit", "allowed", "measured", ""), *((*row, _mark(outcome).plain) for *row, outcome in rows(result))]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    table = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in cells]
    explained = result.explanation.lines() if result.explanation else []
    parts = [[result.headline], table, result.curves(), [*result.sentences(), *result.notices()], explained]
    return "\n\n".join("\n".join(map(visible, part)) for part in [*parts, result.log()] if part)


MARKS: dict[str, tuple[str, str]] = {
    "kept": ("kept", "green"),
    "broken": ("BROKEN", "bold red"),
    "unknown": ("unknown", "yellow"),
}


def _mark(outcome: str) -> Text:
    return Text(*MARKS.get(outcome, (outcome, "yellow" if outcome == "slower" else "dim")))


COLOURS = ("green", "bold red", "yellow")


def print_result(result: Reported, console: Console) -> None:
    """Print the result. `console` is one of `truemem_workbench.support.terminal`, which prints strings as they are."""
    say(console, result.headline, style=COLOURS[result.exit_code])
    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    for name in ("limit", "allowed", "measured"):
        grid.add_column(name, overflow="fold")
    grid.add_column("", no_wrap=True, min_width=len("unknown"))
    for *cells, outcome in rows(result):
        grid.add_row(*cells, _mark(outcome))
    console.print(grid)
    for each in result.tables():
        console.print(fitted(each, console))
    for line in result.curves(plain=not console.encoding.startswith("utf")):
        console.print(line, soft_wrap=True)
    console.print()
    for sentence in result.sentences():
        say(console, sentence, begin="- ")
    for notice in result.notices():
        say(console, notice, begin="note: ", style="dim")
    if result.explanation is not None:
        console.print()
        for line in result.explanation.lines():
            say(console, line)
    for line in result.log():
        console.print(line, soft_wrap=True)


@dataclass(frozen=True, kw_only=True)
class Outputs:
    command: str = "truemem check"
    """Whose result it is."""
    form: str
    """What is printed: `text`, `json` or `github`."""
    files: Sequence[Path]
    """Files to write, each as its ending says: .png, .xml (JUnit), .json or .html (what --explain found)."""
    summary: Path | None
    """GitHub's summary of the step."""
    baseline: Path | None
    """The baseline to write."""

    def try_them(self) -> None:
        """Raise BadInput for a baseline or a summary that cannot be written to."""
        for path, fix in (
            (self.baseline, "--write-baseline PATH/memory.json"),
            (self.summary, "another GITHUB_STEP_SUMMARY, or none"),
        ):
            if path is not None:
                try_place(path, fix)
        if self.baseline is not None:
            baselines.check_place(self.baseline)

    def write(self, result: Reported, others: Mapping[str, Callable[[Path], object]]) -> int:
        """Write to all places. Returns the exit code: the result's, or 2 if it passed and a place failed. `others`:
        what writes a file with an ending that is neither `.xml` nor `.json`."""
        by_ending: dict[str, Callable[[Path], object]] = {
            ".xml": partial(write_junit, result, command=self.command),
            ".json": partial(_write_json, result),
            **others,
        }
        writers: list[Callable[[], object]] = [partial(self._print, result)]
        writers += [partial(by_ending[path.suffix.lower()], path) for path in self.files]
        if self.summary is not None:
            writers.append(partial(add_summary, result, self.summary))
        if self.baseline is not None:
            writers.append(partial(self._note, result, self.baseline))
        written = [self._written(writer) for writer in writers]
        return UNKNOWN if result.exit_code == KEPT and not all(written) else result.exit_code

    def _print(self, result: Reported) -> None:
        if self.form == "json":
            click.echo(_document(result))
            return
        print_result(result, console())
        if self.form == "github":
            click.echo("".join(f"{error}\n" for error in github_annotations(result)), nl=False)

    def _note(self, result: Reported, path: Path) -> None:
        now = result.baseline()
        if result.exit_code == KEPT and now is not None:
            baselines.write_baseline(path, result.spec, now)
            notify(self.command, f"the baseline of {result.spec} is written to {path}: commit that file")
            return
        why = "a limit was broken" if result.exit_code == BROKEN else "it could not be measured"
        notify(self.command, f"the baseline of {result.spec} was not written to {path}: {why}")

    def _written(self, writer: Callable[[], object]) -> bool:
        try:
            writer()
        except (BadInput, OSError) as problem:
            notify(self.command, problem)
            return False
        return True


def _write_json(result: Reported, path: Path) -> None:
    path.write_text(f"{_document(result)}\n", encoding="utf-8")


def _document(result: Reported) -> str:
    return json.dumps(result.document(), indent=2)
