"""Writes a result to all its places: terminal, GitHub, JUnit, a picture, files.

Each is tried before the run; one that fails does not stop the others.
"""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import click
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..support.bad_input import BadInput, need
from ..support.terminal import CURRENT, MARK, PEAK, QUIET, console, notify
from ..support.untrusted_text import markdown, visible
from . import baseline as baselines
from .limits import Limits
from .measurement import Outcome
from .result import BROKEN, KEPT, UNKNOWN, Result

SUMMARY_MARKS = {"kept": "✅ kept", "broken": "❌ broken", "unknown": "⚠️ unknown"}


def github_annotations(result: Result) -> list[str]:
    """An annotation at the handler for each limit that was not kept, and one at each line that holds what grew."""
    place = f"file={_property(result.source.as_posix())}," if result.source else ""
    place += f"line={result.line}," if result.source and result.line else ""
    explained = result.explanation.annotations() if result.explanation else []
    return [
        f"::error file={_property(file.as_posix())},line={line},title=truemem: what grows::{_data(sentence)}"
        for file, line, sentence in explained
    ] + [
        f"::error {place}title={_property(f'truemem: {each.name}')}::{_data(each.sentence)}"
        for each in result.limits
        if each.outcome != "kept"
    ]


def github_summary(result: Result) -> str:
    rows = [
        f"| {each.name} | {markdown(each.allowed)} | {markdown(each.measured)} | {SUMMARY_MARKS[each.outcome]} |"
        for each in result.limits
    ]
    parts = [
        f"### {markdown(result.headline)}",
        "\n".join(["| limit | allowed | measured | |", "|---|---|---|---|", *rows]),
        _block(result.curves()),
        "\n".join(f"- {markdown(sentence)}" for sentence in [*result.sentences(), *result.notices()]),
        _block([f"    {visible(line)}" for line in result.explanation.lines()] if result.explanation else []),
        _block([f"    {visible(line)}" for line in result.log()]),  # indented so far, no line of it ends the block
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def add_summary(result: Result, path: Path) -> None:
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


def junit_document(result: Result) -> ET.Element:
    """Make the JUnit document. `visible` escapes control characters, which XML 1.0 cannot have."""
    count = {outcome: sum(each.outcome == outcome for each in result.limits) for outcome in ("broken", "unknown")}
    suite = ET.Element(
        "testsuite",
        name="truemem check",
        tests=str(len(result.limits)),
        failures=str(count["broken"]),
        errors=str(count["unknown"]),
        skipped="0",
        time=f"{result.measurement.seconds:.3f}",
    )
    spec = visible(result.measurement.spec)
    for each in result.limits:
        case = ET.SubElement(suite, "testcase", classname=spec, name=each.name, time="0")
        if each.outcome == "kept":
            continue
        kind = "failure" if each.outcome == "broken" else "error"
        problem = ET.SubElement(case, kind, message=visible(each.sentence), type=each.name)
        problem.text = result.text()
    ET.SubElement(suite, "system-out").text = result.text()
    whole = ET.Element("testsuites")
    whole.append(suite)
    return whole


def write_junit(result: Result, path: Path) -> None:
    """Write the JUnit document. Raises BadInput."""
    try:
        ET.ElementTree(junit_document(result)).write(path, encoding="utf-8", xml_declaration=True)
    except OSError as error:
        raise BadInput(f"cannot write {path}: {error.strerror}. Try --output FOLDER/report.xml") from None


MARKS: dict[Outcome, tuple[str, str]] = {
    "kept": ("kept", "green"),
    "broken": ("BROKEN", "bold red"),
    "unknown": ("unknown", "yellow"),
}
COLOURS = ("green", "bold red", "yellow")


def print_result(result: Result, console: Console) -> None:
    """Print the result. `console` is one of `truemem_workbench.support.terminal`, which prints strings as they are."""
    console.print(result.headline, style=COLOURS[result.exit_code], soft_wrap=True)
    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    for name in ("limit", "allowed", "measured"):
        grid.add_column(name, overflow="fold")
    grid.add_column("", no_wrap=True, min_width=len("unknown"))
    for each in result.limits:
        grid.add_row(each.name, each.allowed, each.measured, Text(*MARKS[each.outcome]))
    console.print(grid)
    for line in result.curves(plain=not console.encoding.startswith("utf")):
        console.print(line, soft_wrap=True)
    console.print()
    for sentence in result.sentences():
        console.print(f"- {sentence}", soft_wrap=True)  # a command can be copied
    for notice in result.notices():
        console.print(f"note: {notice}", style="dim")
    if result.explanation is not None:
        console.print()
        for line in result.explanation.lines():
            console.print(line, soft_wrap=True)
    for line in result.log():
        console.print(line, soft_wrap=True)


LIMIT_SHOWN = 0.5  # a limit is drawn only if the curve reaches this share of it


def draw_curve(result: Result, limits: Limits, path: Path) -> None:
    """Draw peak and current of every invocation, the warm-up, and the limits that are near. Raises BadInput."""
    import matplotlib as mpl  # a second, and an extra of its own
    from matplotlib.figure import Figure

    measured = result.measurement
    with mpl.rc_context({"font.family": "DejaVu Sans", "font.size": 10, "text.parse_math": False}):
        figure = Figure(figsize=(10, 4.5), dpi=120, facecolor="white", layout="constrained")
        axes = figure.subplots()
        shown = [each for each in measured.seen if each.line.closed_by != "shutdown"]
        for name, colour in (("peak_rss", PEAK), ("current_rss", CURRENT)):
            known = [(each.number, value) for each in shown if (value := getattr(each.line, name)) is not None]
            label = {"peak_rss": "peak of each invocation", "current_rss": "current, left behind"}[name]
            axes.plot([x for x, _ in known], [y for _, y in known], color=colour, linewidth=1.4, label=label)
        highest = measured.peak[1] if measured.peak else 0.0
        for label, limit in (("peak", limits.peak_mib), ("current", limits.current_mib)):
            if limit is not None and highest > LIMIT_SHOWN * limit:
                axes.axhline(limit, color=MARK, linewidth=1.2, linestyle="--", label=f"{label} allowed: {limit:g}")
        if measured.warm_up:
            axes.axvspan(0.5, measured.warm_up + 0.5, color=QUIET, alpha=0.12, linewidth=0, label="warm-up")
        axes.set_title(
            f"{visible(result.headline)}\n{visible(measured.finding.paragraph())}", loc="left", fontsize=10, wrap=True
        )
        axes.set_xlabel("invocation", color=QUIET, loc="left")
        axes.set_ylabel("MiB", color=QUIET)
        axes.set_ylim(bottom=0)
        axes.grid(axis="y", color="#e3e3e3", linewidth=0.8)
        axes.legend(frameon=False, loc="lower right")
        try:
            figure.savefig(path, format="png")
        except OSError as error:
            raise BadInput(f"cannot write {path}: {error.strerror}. Try --output FOLDER/curve.png") from None


@dataclass(frozen=True, kw_only=True)
class Outputs:
    form: str
    """What is printed: `text`, `json` or `github`."""
    files: Sequence[Path]
    """Files to write, each as its ending says: .png, .xml (JUnit), .json or .html (what --explain found)."""
    summary: Path | None
    """GitHub's summary of the step."""
    baseline: Path | None
    """The baseline to write."""

    def try_them(self) -> None:
        """Raise BadInput for a place that cannot be written to."""
        if any(path.suffix.lower() == ".png" for path in self.files):
            need("page")
        if any(path.suffix.lower() == ".html" for path in self.files):
            need("explain")
        for path, fix in (
            *((path, f"--output FOLDER/{path.name}") for path in self.files),
            (self.baseline, "--write-baseline PATH/memory.json"),
            (self.summary, "another GITHUB_STEP_SUMMARY, or none"),
        ):
            if path is not None:
                try_place(path, fix)
        if self.baseline is not None:
            baselines.check_place(self.baseline)

    def write(self, result: Result, limits: Limits, spec: str) -> int:
        """Write to all places. Returns the exit code: the result's, or 2 if it passed and a place failed."""
        writers: list[Callable[[], None]] = [lambda: self._print(result)]
        writers += [partial(_write, path, result, limits) for path in self.files]
        if (summary := self.summary) is not None:
            writers.append(lambda: add_summary(result, summary))
        if (baseline := self.baseline) is not None:
            writers.append(lambda: _note(result, spec, baseline))
        written = [_written(writer) for writer in writers]
        return UNKNOWN if result.exit_code == KEPT and not all(written) else result.exit_code

    def _print(self, result: Result) -> None:
        if self.form == "json":
            click.echo(_document(result))
            return
        print_result(result, console())
        if self.form == "github":
            click.echo("".join(f"{error}\n" for error in github_annotations(result)), nl=False)


def try_place(path: Path, fix: str) -> None:
    """Raise BadInput if this file cannot be written. `fix` is what to try instead."""
    was_there = path.exists()
    if was_there and not path.is_file() and not path.is_dir():
        return  # a pipe, or a device
    try:
        with path.open("ab"):
            pass
        if not was_there:
            path.unlink()
    except OSError as error:
        raise BadInput(f"cannot write {path}: {error.strerror}. Try {fix}") from None


def _written(writer: Callable[[], None]) -> bool:
    try:
        writer()
    except (BadInput, OSError) as problem:
        notify("truemem check", problem)
        return False
    return True


def _write(path: Path, result: Result, limits: Limits) -> None:
    ending = path.suffix.lower()
    if ending == ".xml":
        write_junit(result, path)
    elif ending == ".json":
        path.write_text(f"{_document(result)}\n", encoding="utf-8")
    elif ending == ".html":
        from ..explain.growth_page import page

        path.write_text(page(result.explanation, result.headline), encoding="utf-8")
    else:
        draw_curve(result, limits, path)


def _document(result: Result) -> str:
    return json.dumps(result.document(), indent=2)


def _note(result: Result, spec: str, path: Path) -> None:
    now = baselines.Baseline.of(result.measurement)
    if result.exit_code == KEPT and now is not None:
        baselines.write_baseline(path, spec, now)
        notify("truemem check", f"the baseline of {spec} is in {path}")
        return
    why = "a limit was broken" if result.exit_code == BROKEN else "it could not be measured"
    notify("truemem check", f"the baseline of {spec} was not written to {path}: {why}")
