"""`--output growth.html`: a flame graph of what grew, in one file that loads nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from typing import TypeVar

from ..judge.growth_lines import Growth
from ..support.untrusted_text import visible
from .attribution import Frame, Holder
from .explanation import Explanation, place, source, what

GOLDEN_DEGREES = 137.5
"""Distance on the colour wheel of the frames that the handler calls: no two near ones are alike."""
STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; }
table { border-collapse: collapse; } td, th { padding: .2rem 1rem .2rem 0; text-align: left; vertical-align: top; }
code { white-space: pre-wrap; }
.graph { position: relative; margin: 1.5rem 0; --row: 2.9rem; }
.graph div { position: absolute; height: var(--row); box-sizing: border-box; padding: .15rem .4rem; overflow: hidden;
  font-size: 12px; white-space: nowrap; text-overflow: ellipsis; border: 1px solid Canvas; color: #111; }
"""


def _shown(text: str) -> str:
    """As HTML shows it, on one line: a title's control characters would reach the window and its list."""
    return escape(visible(text))


def page(explanation: Explanation | None, headline: str) -> str:
    """The content of the file. Without an explanation nothing grew."""
    sentences = explanation.sentences() if explanation else ["Nothing was traced: no growth was found."]
    body = ""
    if explanation and explanation.holders:
        sums = tree((stack_of(each), each.kib) for each in explanation.holders)
        body = f"{_table(explanation)}{_graph(sums, place, source)}"
    elif explanation:
        body = f"<p>{_shown(explanation.lines()[0])}</p>"
    return _document(headline, body, sentences)


def page_of_profiles(growths: Mapping[str, Growth], headline: str, sentences: Sequence[str]) -> str:
    """The page of lines that functions have named where they run, by function and version. No source is quoted: a log
    must not choose which files of this machine are read."""
    body = ""
    for name, growth in growths.items():
        body += f"<h2>{_shown(name)}</h2>{_table_of_lines(growth)}"
        if growth.lines:
            sums = tree((each.line.stack or (each.line.place,), each.line.kib) for each in growth.lines)
            body += _graph(sums, lambda frame: frame, lambda _: "")
    return _document(headline, body, sentences)


def _document(headline: str, body: str, sentences: Sequence[str]) -> str:
    said = "".join(f"<p>{_shown(sentence)}</p>" for sentence in sentences)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{_shown(headline)}</title>'
        f"<style>{STYLE}</style></head><body><h1>What grew, by line of code</h1><p>{_shown(headline)}</p>"
        f"{body}{said}</body></html>\n"
    )


Each = TypeVar("Each", Frame, str)


def tree(stacks: Iterable[tuple[tuple[Each, ...], float]]) -> dict[tuple[Each, ...], float]:
    """KiB per invocation of each stack, and of each stack that it begins with. The empty one has all of it. `stacks`
    have their own KiB."""
    sums: dict[tuple[Each, ...], float] = {}
    for stack, kib in stacks:
        for depth in range(len(stack) + 1):
            sums[stack[:depth]] = sums.get(stack[:depth], 0.0) + kib
    return sums


def stack_of(holder: Holder) -> tuple[Frame, ...]:
    """The holder's stack, below its line if that is not in it: a line that keeps what others allocate."""
    line: Frame = holder.frame if holder.line else (what(holder), 0)
    return holder.whole_stack if line in holder.whole_stack else (line, *holder.whole_stack)


def _table(explanation: Explanation) -> str:
    rows = "".join(
        f"<tr><td>{each.kib:.1f}</td><td>{explanation.share(each.kib):.0%}</td>"
        f"<td>{_shown(place(each.frame))}<br><code>{_shown(source(each.frame))}</code></td>"
        f"<td>{_shown(what(each))}</td></tr>"
        for each in explanation.holders
    )
    return f"<table><tr><th>KiB per invocation<th>share<th>line<th>what holds it</tr>{rows}</table>"


def _table_of_lines(growth: Growth) -> str:
    rows = "".join(
        f"<tr><td>{each.line.kib:.1f}</td><td>{each.line.share:.0%}</td><td>{_shown(each.line.place)}</td>"
        f"<td>{_shown(each.line.function)}</td><td>{each.environments} of {growth.counted}</td></tr>"
        for each in growth.lines
    )
    heads = "<tr><th>KiB per invocation<th>share<th>line<th>function<th>environments</tr>"
    return f"<table>{heads}{rows}</table>" if rows else "<p>No line was named.</p>"


def _graph(sums: Mapping[tuple[Each, ...], float], label: Callable[[Each], str], quoted: Callable[[Each], str]) -> str:
    """A flame graph of KiB per invocation by stack, the handler at the top. The mouse shows a frame's whole text."""
    whole, boxes = sums[()], []
    ends: dict[tuple[Each, ...], float] = {(): 0.0}
    """Up to where the frames below each are drawn, KiB from the left."""
    hues: dict[tuple[Each, ...], float] = {}
    for stack in sorted(sums, key=lambda stack: (len(stack), -sums[stack])):
        left, kib = ends[stack[:-1]], f"{sums[stack]:,.1f} KiB per invocation"
        ends[stack[:-1]] += sums[stack] if stack else 0.0
        ends[stack] = left
        hues[stack] = hues[stack[:-1]] if len(stack) > 1 else GOLDEN_DEGREES * len(hues)
        name, text = (label(stack[-1]), quoted(stack[-1])) if stack else ("all that grew", "")
        boxes.append(
            f'<div style="left:{left / whole:.3%};width:{sums[stack] / whole:.3%};top:calc({len(stack)} * var(--row));'
            f'background:hsl({hues[stack]:.0f} 70% {88 - 6 * (len(stack) % 2)}%)" title="{_shown(name)}&#10;{kib}'
            f'&#10;{_shown(text)}">{_shown(name)}<br>{kib}</div>'
        )
    rows = max(map(len, sums)) + 1
    return f'<div class="graph" style="height:calc({rows} * var(--row))">{"".join(boxes)}</div>'
