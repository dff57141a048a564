"""Output for GitHub Actions: annotations (workflow commands), and the step's summary in Markdown."""

from __future__ import annotations

from pathlib import Path

from ..support.untrusted_text import markdown, visible
from .result import Result

MARKS = {"kept": "✅ kept", "broken": "❌ broken", "unknown": "⚠️ unknown"}


def errors(result: Result) -> list[str]:
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


def summary(result: Result) -> str:
    rows = [
        f"| {each.name} | {markdown(each.allowed)} | {markdown(each.measured)} | {MARKS[each.outcome]} |"
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
        file.write(summary(result))


def _block(lines: list[str]) -> str:
    return "\n".join(["```", *lines, "```"]) if lines else ""


def _data(value: str) -> str:
    """Escape a text as actions/toolkit does, packages/core/src/command.ts."""
    return visible(value).replace("%", "%25")


def _property(value: str) -> str:
    return _data(value).replace(":", "%3A").replace(",", "%2C")
