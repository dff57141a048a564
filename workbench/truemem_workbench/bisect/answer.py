"""What the search has found, in words and as a document. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..support.document import known_members
from ..support.terminal import counted, some
from ..support.typed_command import Command
from .gate import Trial
from .search import Found, Version

FOUND, UNKNOWN = 0, 2  # exit codes


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The answer to which commit, or which version of `package`, it was."""

    spec: str
    command: Command
    """As it was typed."""
    package: str | None
    is_node: bool
    order: Sequence[Version]
    is_repair: bool
    """True if the newer end is the good one: the first version without it was asked for."""
    tried: Mapping[str, Trial]
    """By the version's name."""
    found: Found | None = None
    """None: an end was not as given, or it was ended early."""
    problem: str = ""
    is_cut: bool = False
    """It was ended early."""
    line: Mapping[str, Any] | None = None
    """Which line holds most of what grows."""
    others: Sequence[str] = ()
    """What else changed with the version."""
    notices: Sequence[str] = field(default=())

    @property
    def exit_code(self) -> int:
        return FOUND if self.found and self.found.is_one else UNKNOWN

    @property
    def trials(self) -> list[Trial]:
        """All that were tried, the oldest first."""
        return [self.tried[each.name] for each in self.order if each.name in self.tried]

    @property
    def one(self) -> str:
        return "version" if self.package else "commit"

    @property
    def headline(self) -> str:
        skipped = sum(each.outcome == "skipped" for each in self.trials)
        said = f"{len(self.trials) - skipped} of {counted(len(self.order), self.one)} measured"
        seconds = sum(each.seconds for each in self.trials)
        return f"{self.spec}: {said}, {skipped} skipped, {seconds:.0f} s"

    @property
    def first(self) -> Trial | None:
        """The earliest that is known to have the answer of the newer end."""
        return self.tried.get(self.found.after) if self.found else None

    @property
    def before(self) -> Trial | None:
        """The latest before that, which has the answer of the older end."""
        if self.found is None:
            return None
        known = [each.name for each in self.order if each.name in {*self.found.before, self.found.after}]
        return self.tried.get(known[max(0, known.index(self.found.after) - 1)])

    def sentence(self) -> str:
        """The answer in one paragraph, without the next command."""
        first, before = self.first, self.before
        if self.found is None or first is None or before is None:
            return self.problem
        rates = f"{first.said}; before, in {before.version.shown}: {before.said}."
        if self.found.is_one:
            said = f"{self._named(first.version)} {self._did}: {rates}"
        else:
            left = [each.version.shown for each in self.trials if each.version.name in self.found.candidates]
            said = (
                f"One of {counted(len(left), self.one)} {self._did}: {some(left, 6)}. Only {left[-1]} could be judged:"
                f" {rates}"
            )
        return " ".join(filter(None, (said, self._line(), self._others())))

    @property
    def _did(self) -> str:
        return "ended it" if self.is_repair else "brought it"

    def _named(self, version: Version) -> str:
        if self.package:
            return f"{self.package} {version.shown}"
        return f"Commit {version.shown} of {version.date} ({version.subject})"

    def _line(self) -> str:
        line = self.line
        if line is None:
            return ""
        code = f" `{line['source'].strip()}`" if line.get("source") else ""
        place, kib = f"{line['file']}:{line['line']}", f"{line['perInvocationKiB']:,.1f} KiB"
        return f"{'Before, most was' if self.is_repair else 'Most is'} held by {place}{code}: {kib} of each invocation."

    def _others(self) -> str:
        return f"With it changed {some(self.others, 5)}." if self.others else ""

    def next(self) -> str:
        """The command to type next."""
        first, before = self.first, self.before
        if first is None or before is None or self.found is None:
            return self._after_problem()
        if not self.found.is_one:
            open_ones = [self.tried[each] for each in self.found.candidates if each in self.tried]
            if any(each.cause == "undecided" for each in open_ones):
                return str(self._between(before, first).with_option("--invocations", 2000))
            if self.package:
                return str(self._between(before, first))
            return f"git log --stat {before.version.shown}..{first.version.shown}"
        if not self.package:
            return f"git show {first.version.shown}"
        kept = first if self.is_repair else before
        if self.is_node:
            return f"npm install {shlex.quote(f'{self.package}@{kept.version.name}')}"
        return f"pip install {shlex.quote(f'{self.package}=={kept.version.name}')}"

    def _between(self, before: Trial, first: Trial) -> Command:
        """This command for what is left."""
        good, bad = (first, before) if self.is_repair else (before, first)
        again = self.command.without("--good", "--bad", "--invocations")
        return again.with_option("--good", good.version.shown).with_option("--bad", bad.version.shown)

    def _after_problem(self) -> str:
        """Both ends fail, and one for certain by more: a limit between them tells them apart. Ended early: what is left
        of it."""
        by = {outcome: [each for each in self.trials if each.outcome == outcome] for outcome in ("good", "bad")}
        if by["good"] and by["bad"]:
            if self.is_repair:
                return str(self._between(by["bad"][-1], by["good"][0]))
            return str(self._between(by["good"][-1], by["bad"][0]))
        ends = [self.tried.get(self.order[each].name) for each in (0, -1)]
        if self.is_cut:
            return str(self.command)
        less, more = reversed(ends) if self.is_repair else ends
        if not less or not more or less.high_kib is None or more.low_kib is None or not by["bad"][1:]:
            return ""
        if less.high_kib < more.low_kib:
            return str(self.command.with_option("--max-drift", f"{(less.high_kib + more.low_kib) / 2:.3g}"))
        return ""

    def document(self) -> dict[str, object]:
        """The document of --json. What is not known is left out."""
        first, before, found = self.first, self.before, self.found
        members = {
            "checked": self.spec,
            "package": self.package,
            "asked": "first good" if self.is_repair else "first bad",
            "outcome": "found" if self.exit_code == FOUND else "unknown",
            "first": first.document() if first and found and found.is_one else None,
            "before": before.document() if before else None,
            "candidates": [each.name for each in self.order if found and each.name in found.candidates] or None,
            "line": dict(self.line) if self.line else None,
            "others": list(self.others) or None,
            "tried": [each.document() for each in self.trials],
            "versions": len(self.order),
            "notices": list(self.notices),
            "sentence": self.sentence(),
            "next": self.next() or None,
        }
        return known_members(members)


def not_as_given(good: Trial, bad: Trial | None, is_package: bool) -> str:
    """What is wrong with the ends, in a sentence; empty if nothing is. `bad` is None if it was not tried any more."""
    for end, option in ((good, "--good"), (bad, "--bad")):
        if end is not None and end.outcome == "skipped":
            fix = "" if is_package else ", or --build COMMAND where it must be built or lacks packages"
            return f"{option} {end.version.shown} could not be judged: {end.said}. Try another one{fix}."
    if bad is None or (good.outcome, bad.outcome) == ("good", "bad"):
        return ""
    if (good.outcome, bad.outcome) == ("bad", "good"):
        shown = f"--good {bad.version.shown} --bad {good.version.shown}"
        return f"It is the other way round: {good.version.shown} fails, {bad.version.shown} passes. Try {shown}."
    if good.outcome == "bad":
        return (
            f"--good {good.version.shown} fails as well: {good.said}; --bad {bad.version.shown}: {bad.said}. Try an"
            " older --good, or a limit between the two (--max-drift, --max-peak)."
        )
    return (
        f"--bad {bad.version.shown} passes: {bad.said}. Try events that make it grow (--events), a limit"
        " (--max-current, --max-peak), or another --bad."
    )
