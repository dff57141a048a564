"""The result of a sweep over memory sizes, as a table, sentences and a document. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ..judge.finding import TOO_FEW, Finding, most_urgent
from ..judge.prices import DATE, GB_SECOND
from ..support.document import known_members, rounded
from ..support.terminal import mib
from .choice import SAME, Choice, Trial, usd

SUGGESTED, NONE_FITS, UNKNOWN = 0, 1, 2  # exit codes
TEXTS, FIGURES, LAST = (
    ("",),
    ("MB", "p50 ms", "p95", "p99", "init", "peak MiB", "current", "headroom", "errors", *(f"$ {a}" for a in GB_SECOND)),
    ("finding",),
)
"""Columns of the table."""


@dataclass(frozen=True, kw_only=True)
class Result:
    """All that is printed. It does not matter where the invocations ran: `notices` say it."""

    spec: str
    """The function as the user named it."""
    choice: Choice
    notices: Sequence[str]
    log: Sequence[str]
    """The end of the log of an invocation, where all have failed."""
    next: str = ""
    """The command to type next."""
    next_when: str = ""
    """What must be done before; empty for nothing."""
    is_cut: bool = False
    """True if it was ended early."""

    @property
    def exit_code(self) -> int:
        if self.choice.suggested is not None:
            return SUGGESTED
        is_tried = any(each.durations or each.killed or each.timeouts for each in self.choice.trials)
        return NONE_FITS if is_tried or (self.finding is not None and self.finding.grows) else UNKNOWN

    @property
    def finding(self) -> Finding | None:
        """What must be done first: it grows, or fails. None if that is not so."""
        found = [(each.finding, each.invocations) for each in self.choice.trials if each.finding is not None]
        urgent = most_urgent(found) if found else None
        return urgent if urgent and (urgent.grows or urgent.cause == "failing") else None

    def rows(self) -> list[list[str]]:
        """A row for each size, by the columns."""
        return [self._row(each) for each in self.choice.trials]

    def _row(self, trial: Trial) -> list[str]:
        choice = self.choice
        roles = {"suggested": choice.suggested, "cheapest": choice.cheapest, "fastest": choice.fastest}
        out = "out" if trial.is_tried else "not tried"
        return [
            out if choice.against[trial.memory] else ", ".join(name for name, each in roles.items() if each is trial),
            f"{trial.memory:,}",
            *(_ms(trial.percentile(each)) for each in (50, 95, 99)),
            _ms(trial.init),
            mib(trial.peak),
            mib(trial.current),
            "-" if trial.headroom is None else f"{trial.headroom:.0%}",
            f"{trial.failures} of {trial.invocations}" if trial.failures else "0",
            *(_dollars(trial.cost(architecture)) for architecture in GB_SECOND),
            trial.finding.cause if trial.finding and trial.finding.pattern != TOO_FEW else "-",
        ]

    def sentences(self) -> list[str]:
        """The suggestion, what must be done first, and why a size is out."""
        first = [replace(self.finding, next="").paragraph()] if self.finding else []
        against, untried = self.choice.against, self.choice.untried
        is_broken = self.finding is not None and self.finding.cause == "failing"  # that says it of all sizes
        out = [
            f"{memory:,} MB is out: {'; '.join(why.values())}."
            for memory, why in against.items()
            if why and memory not in untried and not (is_broken and why.keys() == {"failed"})
        ]
        return [*self._cut(), self.choice.sentence(), *first, *out]

    def _cut(self) -> list[str]:
        """That it was ended early, and what is known."""
        if not self.is_cut:
            return []
        untried = ", ".join(f"{memory:,}" for memory in self.choice.untried)
        left = f"{untried} MB: not tried. " if untried else ""
        return [f"It was ended early. {left}What follows is from the invocations until then."]

    def all_notices(self) -> list[str]:
        if self.choice.grows or not self.choice.is_tried:
            return list(self.notices)
        other = next(each for each in GB_SECOND if each != self.choice.wanted.architecture)
        return [
            *self.notices,
            f"$ is for the duration of a million invocations (prices of {DATE} in us-east-1), without requests, init"
            f" and log lines; on {other} as if it took the same time",
            f"durations and costs that differ by {SAME:.0%} or less count as equal",
        ]

    def document(self) -> dict[str, object]:
        """The document for `--json`. What is not known is left out."""
        choice = self.choice
        members: dict[str, object] = {
            "sizes": [self._size(each) for each in choice.trials],
            "cheapest": choice.cheapest and choice.cheapest.memory,
            "fastest": choice.fastest and choice.fastest.memory,
            "suggested": choice.suggested and choice.suggested.memory,
            "function": self.spec,
            "strategy": choice.wanted.strategy,
            "architecture": choice.wanted.architecture,
            "prices": {"date": DATE, "gbSecond": GB_SECOND},
            "sentences": self.sentences(),
            "notices": self.all_notices(),
            "next": self.next,
            "nextWhen": self.next_when or None,
            "endedEarly": self.is_cut or None,
        }
        return known_members(members)

    def _size(self, trial: Trial) -> Mapping[str, object]:
        costs = {each: rounded(trial.cost(each), 4) for each in GB_SECOND}
        members: dict[str, object] = {
            "memory": trial.memory,
            "durationMs": known_members({f"p{each}": rounded(trial.percentile(each)) for each in (50, 95, 99)}),
            "costPerMillion": costs[self.choice.wanted.architecture],
            "peak": rounded(trial.peak),
            "errors": trial.failures,
            "invocations": trial.invocations,
            "errorRate": round(trial.failures / trial.invocations, 4) if trial.invocations else None,
            "initMs": rounded(trial.init),
            "current": rounded(trial.current),
            "others": round(trial.others, 2),
            "rise": trial.rise or None,
            "headroom": rounded(trial.headroom, 4),
            "costs": known_members(costs),
            "against": dict(self.choice.against[trial.memory]),
            "error": trial.error or None,
            "finding": trial.finding.document() if trial.finding else None,
        }
        return known_members(members)


def _ms(value: float | None) -> str:
    if value is None or math.isnan(value):
        return "-"
    return f"{value:,.1f}" if value < 100 else f"{value:,.0f}"


def _dollars(value: float) -> str:
    return "-" if math.isnan(value) else usd(value)
