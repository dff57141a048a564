"""Prints what logs prove of functions without the sidecar."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from shlex import quote

from rich.console import Console
from rich.text import Text

from ..judge.prices import dollars
from ..support.terminal import counted, say
from ..support.untrusted_text import visible
from .function import State, Unmeasured, ten_first

COLOURS = {
    State.OUT_OF_MEMORY: "bold red",
    State.GROWING: "bold red",
    State.NEAR_THE_LIMIT: "yellow",
    State.UNDECIDED: "yellow",
    State.NO_SIGN_OF_GROWTH: "green",
}


def in_one_line(found: Sequence[Unmeasured]) -> str:
    """How many functions need what, for a chat or a heading."""
    names = {each.key.function for each in found}
    states = Counter(each.state for each in found)
    parts = ", ".join(f"{states[state]:,} {state.text}" for state in State if states[state])
    counts = f"{counted(len(names), 'function')} without the sidecar, {counted(invocations(found), 'invocation')}"
    return f"{counts}: {parts}"


def invocations(found: Sequence[Unmeasured]) -> int:
    return sum(each.seen.invocations for each in found)


def show(found: Sequence[Unmeasured], console: Console, top: int | None) -> None:
    """Print the first `top` of them, or all, each with its sentence, and what to attach first. `console` is one of
    `support.terminal`."""
    say(console, f"{in_one_line(found)} (from what Lambda itself logs).")
    for number, each in enumerate(found[:top], 1):
        begin = f"{number:3} " if len(found) > 1 else ""
        size = f"{each.key.size_mb:,} MB"
        console.print(
            Text(begin, "dim").append(visible(each.name), "bold").append(f"  {size}, {dollars(each.usd)}", "dim"),
            soft_wrap=True,
        )
        indent = "    " if begin else "  "
        say(console, f"{each.state.text}: {each.sentence}", begin=indent, style=COLOURS[each.state])
    if (more := len(found[top:] if top else ())) > 0:
        console.print(f"    {more:,} more: --top N, --all", soft_wrap=True)
    if names := ten_first(found):
        console.print()
        command = " ".join(map(quote, names))
        say(console, f"Next: truemem attach {command}")
