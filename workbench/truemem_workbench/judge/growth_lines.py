"""The lines that keep memory, merged over the environments of a function's version, and joined to its finding. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..printed.growth import GrowthLine, GrowthProfile
from ..support.terminal import counted
from .finding import TOO_FEW, Cause, Commands, Finding

CAUSES_WITH_LINES: tuple[Cause, ...] = ("leak", "native")
"""Causes that a line of code can have. What malloc hoards, or an extension keeps, is in no line."""
LEAST_FIRST_SHARE = 0.1
"""Least part of the finding's own growth that the first line keeps. With less it is not what grows. A class of Java's
has only its own bytes, not those of what its objects refer to."""


@dataclass(frozen=True, kw_only=True)
class MergedLine:
    """A line of code, over all environments that were profiled."""

    line: GrowthLine
    """KiB and share are means over the profiled invocations. The stack is of the environment where it kept most."""
    environments: int
    """Environments whose profile has it."""

    def document(self) -> dict[str, Any]:
        """The members for `--json`."""
        column = {"column": self.line.column} if self.line.column else {}
        return {
            "file": self.line.file,
            "line": self.line.line,
            **column,
            "function": self.line.function,
            "perInvocationKiB": round(self.line.kib, 3),
            "share": round(self.line.share, 3),
            "environments": self.environments,
            "stack": list(self.line.stack),
        }


@dataclass(frozen=True, kw_only=True)
class Growth:
    """The profiles of one version of a function, as one."""

    lines: Sequence[MergedLine]
    """The line that keeps most comes first."""
    environments: int
    """Environments that were profiled."""
    counted: int
    """Profiled environments whose figures count: they were not given up, or have named a line before."""
    invocations: int
    """Invocations of these."""
    rest_kib: float
    """Growth per invocation that is in no line."""
    libraries: Sequence[str]
    gave_up: Mapping[str, int]
    """Number of environments that gave up, by the reason."""
    runtime: str
    cpu_percent: float | None
    memory_kib: float | None
    look_ms: float | None
    """What it cost at most."""

    def sentence(self) -> str:
        """The line that keeps most, in a sentence. Needs a line."""
        line = self.lines[0].line
        where = f"{line.place} in {line.function}" if line.function else line.place
        over = counted(self.invocations, "invocation")
        over += f" of {self.counted:,} environments" if self.counted > 1 else ""
        return keeps(where, line.kib, line.share, f"profiled over {over}")

    def silence(self) -> str:
        """Why there is no line, in a sentence."""
        if not self.counted:
            return f"No line is known: the profile was given up ({next(iter(self.gave_up), 'no reason is known')})."
        return f"The profile of {counted(self.invocations, 'invocation')} found no line that keeps it."


def keeps(where: str, kib: float, share: float, how: str) -> str:
    """What a line keeps, in the sentence that all commands have."""
    return f"{where} keeps {kib:,.1f} KiB in each invocation ({share:.0%} of what grew; {how})."


def is_open(finding: Finding) -> bool:
    """True if more may tell: a line is named in case that it is a leak."""
    return finding.cause == "undecided" and finding.pattern != TOO_FEW


def has_line(finding: Finding) -> bool:
    """May a line of code keep it? Where nothing grows, none is accused."""
    return is_open(finding) or (finding.grows and finding.cause in CAUSES_WITH_LINES)


def merged(profiles: Iterable[GrowthProfile]) -> Growth:
    """Merge the profiles of environments, each weighted by its invocations. One that was given up before it named a
    line counts for the cost alone."""
    every = list(profiles)
    known = [each for each in every if each.lines or not each.gave_up]
    invocations = sum(map(_weight, known))
    grown = sum(_weight(each) * each.grown_kib for each in known)
    found: dict[tuple[Any, ...], list[tuple[GrowthProfile, GrowthLine]]] = defaultdict(list)
    for each in known:
        for line in each.lines:
            found[line.key].append((each, line))

    def one(places: Sequence[tuple[GrowthProfile, GrowthLine]]) -> MergedLine:
        most = max(places, key=lambda place: (_weight(place[0]) * place[1].kib, place[1].stack))[1]
        kib = sum(_weight(profile) * line.kib for profile, line in places) / invocations
        share = sum(_weight(profile) * profile.grown_kib * line.share for profile, line in places) / grown
        return MergedLine(
            line=most._replace(kib=kib, share=min(1.0, share)), environments=len({id(profile) for profile, _ in places})
        )

    return Growth(
        lines=sorted(map(one, found.values()), key=lambda each: each.line.order),
        environments=len(every),
        counted=len(known),
        invocations=sum(each.invocations for each in known),
        rest_kib=sum(_weight(each) * each.rest_kib for each in known) / invocations if known else 0.0,
        libraries=sorted({name for each in known for name in each.libraries}),
        gave_up=dict(Counter(each.gave_up for each in every if each.gave_up).most_common()),
        runtime=max((each.runtime for each in every), default=""),
        cpu_percent=_highest(each.cpu_percent for each in every),
        memory_kib=_highest(each.memory_kib for each in every),
        look_ms=_highest(each.look_ms for each in every),
    )


def named(finding: Finding, growth: Growth | None, commands: Commands) -> Finding:
    """The finding with the line that keeps what grows, if one was profiled; else as it is. Where nothing grows, no line
    is accused."""
    if growth is None or not growth.environments or not has_line(finding):
        return finding
    rate = finding.per_invocation_kib
    first = growth.lines[0].line if growth.lines else None
    if first is not None and (rate is None or first.rank or first.kib >= LEAST_FIRST_SHARE * rate):
        sentence = f"If it is a leak: {growth.sentence()}" if is_open(finding) else growth.sentence()
        line = {**growth.lines[0].document(), "invocations": growth.invocations}
        named = replace(finding, line=line, line_sentence=sentence)
        return replace(named, next=commands.lines, next_when="") if commands.lines else named
    silence = "" if is_open(finding) or first is not None else growth.silence()
    asked = finding.next in (commands.profile, commands.classes)
    explain = commands.explain if asked else ""  # that was done, and named nothing
    told = replace(finding, line_sentence=silence)
    return replace(told, next=explain, next_when="") if explain else told


def _weight(profile: GrowthProfile) -> int:
    return max(1, profile.invocations)


def _highest(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)
