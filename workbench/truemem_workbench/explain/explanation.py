"""What `--explain` found, in the words of all outputs. Pure, but for the source lines that it quotes."""

from __future__ import annotations

import linecache
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from ..judge.finding import Finding
from ..judge.growth_lines import has_line, is_open, keeps
from ..printed.document import figure
from ..printed.line import Line
from ..support import docs_link
from ..support.document import known_members
from ..support.estimates import theil_sen
from ..support.terminal import counted
from ..support.untrusted_text import visible
from .attribution import LEAST_LOOKS, Frame, Holder

NAMED_REST_SHARE = 0.5  # share of the rest that a figure of the line must grow by to be named
STACK_KIB = 8
"""Least KiB that are touched of a thread's stack and arena: its stack, its control block, its arena's header."""


class LikelyCause(NamedTuple):
    pattern: str
    """The cause's heading in docs/patterns.md, as a link writes it. Empty if there is none."""
    sentence: str
    """What the lines say, without the full stop."""


UNKNOWN = LikelyCause("", "Not explained: no figure of the printed line grows by as much")


def likely(lines: Sequence[Line], rest_kib: float, explained_kib: float = 0.0) -> LikelyCause:
    """What grows by at least half of `rest_kib` per invocation, by figures of the invocations that were judged; UNKNOWN
    if none does. `explained_kib` is what lines of code explain: of what malloc has given out that is not the rest."""
    threads, processes = _slope(lines, "threads"), _slope(lines, "processes")
    # after fork() a child has its parent's memory: at most what all held before it came
    child_kib = (lines[0].current_rss or 0.0) * 1024 if lines else 0.0
    found = (
        (
            processes * child_kib,
            LikelyCause("child-processes", f"Child processes are left behind: {processes:.2f} more per invocation"),
        ),
        (
            threads * STACK_KIB,
            LikelyCause(
                "arenas-for-each-thread", f"Thread stacks and arenas: {threads:.2f} threads more per invocation"
            ),
        ),
        *((1024 * _slope(lines, *name.split(".")), LikelyCause(*said)) for name, said in SIZES.items()),
        (
            1024 * (_slope(lines, "heap", "inUse") + _slope(lines, "heap", "mapped")) - explained_kib,
            LikelyCause(
                "a-cache-without-bound", "malloc gave it out, and it was not freed (`heap.inUse`, `heap.mapped`)"
            ),
        ),
    )
    return next((cause for kib, cause in found if kib >= NAMED_REST_SHARE * rest_kib), UNKNOWN)


SIZES = {
    "rss.file": ("mapped-files", "Mapped files grow as much (`rss.file`)"),
    "rss.shmem": ("mapped-files", "Shared memory grows as much (`rss.shmem`)"),
    "heap.held": ("arenas", "It was freed, and malloc keeps it (`heap.held`)"),
}
"""Members of the line in MiB, with pattern and sentence of a growth that is theirs."""


def _slope(lines: Sequence[Line], name: str, part: str = "") -> float:
    """Growth of this member, or of a part of it, per invocation; 0 where lines do not have it."""
    known = []
    for place, line in enumerate(lines):
        member = line.members.get(name)
        value = figure((member.get(part) if isinstance(member, dict) else None) if part else member)
        if value is not None:
            known.append((place, value))
    if len(known) < 2 or len({value for _, value in known}) == 1:
        return 0.0
    return theil_sen([value for _, value in known], [place for place, _ in known]).slope


MOST_LINES_REPORTED = 10  # lines of code that are reported
LIBRARIES = re.compile(r"(?:node_modules|site-packages|dist-packages)/")
"""Folders whose files are not the user's to change: a line in one is told at the line that calls it."""
UNSEEN: Frame = ("", 0)  # the place of a holder by a line that was not seen
EXCERPT = 80  # characters of a source line that is too long to be read
LONG = 160  # characters of such a line
MAPS = (
    "The code is minified, and has no source map: places are those of what runs. Build it with a map, inline or beside"
    " the file, for the lines of its source: esbuild --sourcemap; tsc --sourceMap; swc --source-maps; webpack --devtool"
    " source-map"
)
REST = 0.2  # share of the growth that is worth a sentence if no line explains it
WORTH = 0.05  # KiB per invocation: less is 0.0 where it is told


class Account(NamedTuple):
    """The growth per invocation in its parts, KiB: together they are `settled`, unless lines hold more than that."""

    settled: float
    """By the plain run; by the traced one where that has kept more: RSS follows late."""
    lines: float
    """At the lines that are named."""
    unnamed: float
    """At places that are too small to be named, or do not grow steadily."""
    outside: float
    """Outside of the runtime's heap, in use by malloc."""
    held: float
    """Freed, and held by malloc, by its own lists in the plain run."""
    known: str
    """How the first two are known: `by samples of malloc`."""

    @classmethod
    def of(
        cls, settled: float, lines: float, counted: float, known: str, *, outside: float = 0.0, held: float = 0.0
    ) -> Account:
        """`counted`: by which all that the tracer has counted grew, 0 where that is not known. No part is more than
        what the ones before it leave."""
        unnamed = max(0.0, min(counted, settled) - lines)
        outside = max(0.0, min(outside, settled - lines - unnamed))
        return cls(settled, lines, unnamed, outside, max(0.0, min(held, settled - lines - unnamed - outside)), known)

    @property
    def unknown(self) -> float:
        """What is left, and nothing says where it is."""
        return max(0.0, self.settled - self.lines - self.unnamed - self.outside - self.held)

    def sentence(self) -> str:
        parts = [f"the lines {self.lines:.1f} ({self.known})"]
        if self.unnamed >= WORTH:
            parts.append(f"places too small to name {self.unnamed:.1f} (the same)")
        if self.outside >= WORTH:
            parts.append(f"outside of the runtime's heap {self.outside:.1f} (by malloc's own lists)")
        if self.held >= WORTH:
            parts.append(f"freed and held by malloc {self.held:.1f} (by its own lists)")
        if self.unknown >= WORTH:
            parts.append(f"not known {self.unknown:.1f}")
        return f"Of {self.settled:.1f} KiB that an invocation keeps: {', '.join(parts)}."

    def document(self) -> dict[str, float]:
        """KiB per invocation, by part."""
        return {
            "settledKiB": round(self.settled, 3),
            "linesKiB": round(self.lines, 3),
            "unnamedKiB": round(self.unnamed, 3),
            "outsideKiB": round(self.outside, 3),
            "heldKiB": round(self.held, 3),
            "unknownKiB": round(self.unknown, 3),
        }


@dataclass(frozen=True)
class Explanation:
    holders: Sequence[Holder]
    """The lines that hold what grew, that with most of it first."""
    measured_kib: float
    """What an invocation keeps, KiB: by the plain run, or by the lines where they have more."""
    invocations: int
    seconds: float
    """Duration of all runs under a tracer."""
    missing: Sequence[str] = ()
    """What is missing in the answer, as sentences."""
    first_run_s: float = 0.0
    """Duration of the first run under a tracer, which traces Python's blocks or V8's heap."""
    rest: LikelyCause = UNKNOWN
    """What grows as much as what no line explains, by the printed lines' figures."""
    looks: Sequence[int] = ()
    """Invocations of the first run after which it looked at what is held."""
    account: Account | None = None
    """Where the growth is, part by part. None after too few looks."""
    signal: int = 0
    """Number of the signal that has ended it; 0 if none has."""

    def share(self, kib: float) -> float:
        """Share of the measured growth."""
        return kib / self.measured_kib if self.measured_kib > 0 else 0.0

    @property
    def rest_kib(self) -> float:
        """Growth per invocation that no line explains."""
        return max(0.0, self.measured_kib - sum(holder.kib for holder in self.holders))

    def lines(self) -> list[str]:
        """A table, with each source line quoted; then what is missing."""
        is_twice = self.seconds > self.first_run_s > 0
        in_runs, in_first = (" in 2 runs", " in the first") if is_twice else ("", "")
        ran = f"{counted(self.invocations, 'invocation')} under a tracer{in_runs}, {self.seconds:.0f} s"
        if not self.is_known:
            looks = counted(len(self.looks), "look")
            return [f"Which line keeps it is not known: {looks} of {LEAST_LOOKS} ({ran}).", *self.sentences()]
        ran += f"; {len(self.looks)} looks{in_first}, from invocation {self.looks[0]} to {self.looks[-1]}"
        if not self.holders:
            return [f"No line of code holds more with each invocation ({ran}).", *self.sentences()]
        rows = [("KiB per invocation", "share", "line", "what holds it")]
        rows += [
            (f"{each.kib:.1f}", f"{self.share(each.kib):.0%}", place(each.frame), what(each))
            for each in self.holders[:MOST_LINES_REPORTED]
        ]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        table = []
        for number, row in enumerate(rows):
            table.append("  ".join(map(str.ljust, row, widths)).rstrip())
            if number:
                table += [f"    {each}" for each in _below(self.holders[number - 1])]
        said = self.sentences()
        return [f"What grew, by line of code ({ran}):", "", *table, *(["", *said] if said else [])]

    @property
    def is_known(self) -> bool:
        """False after too few looks: then nothing is known of what grows."""
        return len(self.looks) >= LEAST_LOOKS

    @property
    def _has_rest(self) -> bool:
        return self.is_known and self.rest_kib > max(WORTH, REST * self.measured_kib)

    def sentences(self) -> list[str]:
        """The rest that no line explains, and what is missing."""
        said = []
        if (hidden := len(self.holders) - MOST_LINES_REPORTED) > 0:
            said.append(f"{hidden} more lines hold less.")
        if self.is_known and self.account is not None and self.account.settled >= WORTH:
            said.append(self.account.sentence())
        if self._has_rest and self.rest is not UNKNOWN:
            pattern = self.rest.pattern and f" ({docs_link.command(f'patterns#{self.rest.pattern}')})"
            said.append(f"{self.rest.sentence}{pattern}.")
        if any(each.column for each in self.holders):
            said.append(f"{MAPS} ({docs_link.command('heap#source-maps')}).")
        return [*said, *map(visible, self.missing)]

    def named(self, finding: Finding) -> Finding:
        """The finding with the line that holds most, in the words and the members of a function that names it where it
        runs."""
        first = next((each for each in self.holders if each.line), None)
        if first is None or not self.is_known or not has_line(finding):
            return finding
        line = {
            "file": _relative(first.file),
            "line": first.line,
            "function": first.function,
            "perInvocationKiB": round(first.kib, 3),
            "share": round(min(1.0, self.share(first.kib)), 3),
            "environments": 1,
            "stack": [*map(place, first.whole_stack)],
            "invocations": self.invocations,
        }
        how = f"traced in another run, of {counted(self.invocations, 'invocation')}"
        sentence = keeps(place(first.frame), first.kib, min(1.0, self.share(first.kib)), how)
        return replace(
            finding, line=line, line_sentence=f"If it is a leak: {sentence}" if is_open(finding) else sentence
        )

    def annotations(self) -> list[tuple[Path, int, str]]:
        """File, line and a sentence for each line of the user's."""
        return [
            (
                Path(_relative(frame[0])),
                frame[1],
                f"{what(each)} grows by {each.kib:.1f} KiB per invocation, {self.share(each.kib):.0%} of the growth.",
            )
            for each in self.holders[:MOST_LINES_REPORTED]
            if each.line
            for frame in [each.called if each.called and LIBRARIES.search(each.file) else each.frame]
        ]

    def document(self) -> dict[str, object]:
        """The member `explanation` of `--json`. KiB are per invocation."""
        members = {
            "lines": [self._line(each) for each in self.holders],
            "restKiB": round(self.rest_kib, 3),
            "restPattern": (self.rest.pattern or None) if self._has_rest else None,
            "account": self.account.document() if self.account is not None else None,
            "invocations": self.invocations,
            "looks": list(self.looks),
            "seconds": round(self.seconds, 1),
            "missing": list(self.missing),
        }
        return known_members(members)

    def _line(self, holder: Holder) -> dict[str, object]:
        members = {
            "file": holder.file or None,
            "line": holder.line or None,
            "column": holder.column or None,
            "function": holder.function or None,
            "source": source(holder.frame) if holder.line else None,
            "perInvocationKiB": round(holder.kib, 3),
            "share": round(self.share(holder.kib), 3),
            "kind": holder.kind,
            "owner": holder.owner or None,
            "itemsPerInvocation": round(holder.items, 3) if holder.items else None,
            "allocatedAt": list(holder.allocated) if holder.allocated else None,
            "calledAt": list(holder.called) if holder.called else None,
            "stack": [list(frame) for frame in holder.stack],
            "nativeStack": list(holder.native) or None,
        }
        return known_members(members)


def what(holder: Holder) -> str:
    named = f"{holder.kind} {holder.owner}" if holder.owner else holder.kind
    return visible(f"{named}, in {holder.function}" if holder.function else named)


def place(frame: Frame) -> str:
    """`app.py:16`, relative to the present folder if it is below it. A C function has no line."""
    if frame == UNSEEN:
        return "line not seen"
    rest = frame[1:] if frame[1] else ()
    return visible(":".join(map(str, (_relative(frame[0]), *rest))))


def source(frame: Frame) -> str:
    """The line of source; of a very long one the part around the place. Empty if it cannot be read."""
    line = linecache.getline(frame[0], frame[1]).rstrip()
    if len(line) <= LONG:
        return visible(line.strip())
    begin = max(0, frame[2] - 1 - EXCERPT // 2) if len(frame) > 2 else 0
    part = line[begin : begin + EXCERPT].strip()
    return visible(f"{'…' if begin else ''}{part}{'…' if begin + EXCERPT < len(line) else ''}")


def _below(holder: Holder) -> list[str]:
    said = [text] if (text := source(holder.frame)) else []
    if holder.called:
        said.append(f"called at {place(holder.called)}: {source(holder.called)}")
    if holder.allocated:
        said.append(f"allocated at {place(holder.allocated)}: {source(holder.allocated)}")
    if len(holder.whole_stack) > 1:
        said.append(f"stack: {' > '.join(map(place, holder.whole_stack))}")
    return said


def _relative(file: str) -> str:
    here = os.path.join(os.getcwd(), "")  # noqa: PTH109, PTH118
    return file.removeprefix(here)
