"""What `--explain` found, in the words of all outputs. Pure, but for the source lines that it quotes."""

from __future__ import annotations

import linecache
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..support.untrusted_text import visible
from .attribution import Holder
from .rest import UNKNOWN, Cause
from .users import Frame

SHOWN = 10
"""Lines of code that are told of."""
UNSEEN: Frame = ("", 0)
"""The place of a holder by a line that was not seen."""
REST = 0.2
"""Share of the growth that is worth a sentence if no line explains it."""


@dataclass(frozen=True)
class Explanation:
    holders: Sequence[Holder]
    """The lines that hold what grew, that with most of it first."""
    measured_kib: float
    """Growth of RSS per invocation in the plain run, KiB."""
    invocations: int
    seconds: float
    """Of all runs under a tracer."""
    missing: Sequence[str] = ()
    """What is missing in the answer, as sentences."""
    first_run_s: float = 0.0
    """Of the first of them, which traces Python's blocks or V8's heap."""
    rest: Cause = UNKNOWN
    """What the growth that no line explains is likely to be."""

    def share(self, kib: float) -> float:
        """Share of the measured growth. The tracer counts what was asked for, RSS whole pages: it can be above 1."""
        return kib / self.measured_kib if self.measured_kib > 0 else 0.0

    @property
    def rest_kib(self) -> float:
        """Growth per invocation that no line explains."""
        return max(0.0, self.measured_kib - sum(holder.kib for holder in self.holders))

    def lines(self) -> list[str]:
        """A table, with each source line quoted; then what is missing."""
        ran = f"{self.invocations} invocations under a tracer, {self.seconds:.0f} s"
        if not self.holders:
            return [f"No line of code holds what grows ({ran}).", *self.sentences()]
        rows = [("KiB per invocation", "share", "line", "what holds it")]
        rows += [
            (f"{each.kib:.1f}", f"{self.share(each.kib):.0%}", place((each.file, each.line)), what(each))
            for each in self.holders[:SHOWN]
        ]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        table = []
        for number, row in enumerate(rows):
            table.append("  ".join(map(str.ljust, row, widths)).rstrip())
            if number:
                table += [f"    {each}" for each in _below(self.holders[number - 1])]
        return [f"What grew, by line of code ({ran}):", "", *table, "", *self.sentences()]

    def sentences(self) -> list[str]:
        """The rest that no line explains, and what is missing."""
        said = []
        if (hidden := len(self.holders) - SHOWN) > 0:
            said.append(f"{hidden} more lines hold less.")
        if self.rest_kib > REST * self.measured_kib:
            said.append(
                f"{self.rest_kib:.1f} KiB per invocation, {self.share(self.rest_kib):.0%} of the growth, are in no"
                f" object that was seen. {self.rest.sentence} (docs/patterns.md#{self.rest.pattern})."
            )
        return [*said, *map(visible, self.missing)]

    def annotations(self) -> list[tuple[Path, int, str]]:
        """File, line and a sentence for each line of the user's."""
        return [
            (
                Path(_relative(each.file)),
                each.line,
                f"{what(each)} grows by {each.kib:.1f} KiB per invocation, {self.share(each.kib):.0%} of the growth.",
            )
            for each in self.holders[:SHOWN]
            if each.line
        ]

    def document(self) -> dict[str, object]:
        """The member `explanation` of `--json`. KiB are per invocation."""
        lines = [
            {
                "file": each.file or None,
                "line": each.line or None,
                "source": source((each.file, each.line)) if each.line else None,
                "perInvocationKiB": round(each.kib, 3),
                "share": round(self.share(each.kib), 3),
                "kind": each.kind,
                "owner": each.owner or None,
                "itemsPerInvocation": round(each.items, 3) if each.items else None,
                "allocatedAt": list(each.allocated) if each.allocated else None,
                "stack": [list(frame) for frame in each.stack],
                "nativeStack": list(each.native) or None,
            }
            for each in self.holders
        ]
        return {
            "lines": [{name: value for name, value in line.items() if value is not None} for line in lines],
            "restKiB": round(self.rest_kib, 3),
            **({"restPattern": self.rest.pattern} if self.rest_kib > REST * self.measured_kib else {}),
            "invocations": self.invocations,
            "seconds": round(self.seconds, 1),
            "missing": list(self.missing),
        }


def what(holder: Holder) -> str:
    named = f"{holder.kind} {holder.owner}" if holder.owner else holder.kind
    return visible(named)


def place(frame: Frame) -> str:
    """`app.py:16`, relative to the present folder if it is below it. A C function has no line."""
    if frame == UNSEEN:
        return "line not seen"
    return visible(f"{_relative(frame[0])}:{frame[1]}" if frame[1] else frame[0])


def source(frame: Frame) -> str:
    """The line of source; empty if it cannot be read."""
    return visible(linecache.getline(*frame).strip())


def _below(holder: Holder) -> list[str]:
    said = [text] if (text := source((holder.file, holder.line))) else []
    if holder.allocated:
        said.append(f"allocated at {place(holder.allocated)}: {source(holder.allocated)}")
    if len(holder.whole_stack) > 1:
        said.append(f"stack: {' > '.join(map(place, holder.whole_stack))}")
    return said


def _relative(file: str) -> str:
    here = os.path.join(os.getcwd(), "")  # noqa: PTH109, PTH118
    return file.removeprefix(here)
