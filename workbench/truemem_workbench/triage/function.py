"""What the logs of a function without the sidecar prove: one answer, and the command to type next. Pure."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from statistics import median
from typing import Any

from ..judge.marks import LEAST_INVOCATIONS, Growth, approach, growth, pattern
from ..judge.prices import GB_SECOND, REQUEST, computing
from ..printed.platform_lines import Ended
from ..support.terminal import counted, mib
from .lives import Key, Observed

NEAR = 0.9
"""A mark from this part of the memory size on is near a kill."""
LIVES_LEFT = 10
"""Growth that needs so many of the longest lives to fill memory is no concern."""
HOUR_MS = 3_600_000
PRICE = GB_SECOND["x86_64"]


class State(IntEnum):
    """What is known of a function, the most urgent first."""

    OUT_OF_MEMORY = 0
    GROWING = 1
    NEAR_THE_LIMIT = 2
    UNDECIDED = 3
    NO_SIGN_OF_GROWTH = 4

    @property
    def text(self) -> str:
        return self.name.lower().replace("_", " ")


@dataclass(frozen=True)
class Unmeasured:
    """One version of a function at one memory size, judged by what Lambda logs of it."""

    key: Key
    seen: Observed
    growth: Growth | None
    state: State
    rank: float
    """Among those with the same state, the lowest is the most urgent."""
    sentence: str
    next: str
    """The command to type next; empty where there is nothing to do."""

    @property
    def name(self) -> str:
        """With its version, if it is not $LATEST."""
        name = self.key.function or self.key.file or "the function"
        return f"{name}:{self.key.version}" if self.key.version not in ("", "$LATEST") else name

    @property
    def is_growing(self) -> bool:
        return self.state is State.GROWING

    @property
    def usd(self) -> float:
        """What the invocations in the logs have cost, in us-east-1 on x86_64."""
        return computing(self.key.size_mb, self.seen.billed_ms, PRICE) + self.seen.invocations * REQUEST

    def document(self) -> dict[str, Any]:
        """For JSON: sizes in MB, growth in KiB per invocation, times in epoch ms; unknown figures are null."""
        seen, ages = self.seen, sorted(self.seen.ages)
        made: dict[str, Any] = {
            "function": self.key.function or None,
            "file": self.key.file or None,
            "version": self.key.version,
            "memorySize": self.key.size_mb,
            "state": self.state.text,
            "sentence": self.sentence,
            "next": self.next,
            "environments": None if seen.mixed else seen.environments,
            "invocations": seen.invocations,
            "mark": seen.highest_mb,
            "outOfMemory": seen.out_of_memory,
            "timeouts": seen.ended[Ended.TIMEOUT],
            "timeoutsAtLimit": seen.at_limit,
            "failed": sum(seen.ended[how] for how in (Ended.FAILED, Ended.EXITED, Ended.KILLED)),
            "agesAtKills": {"lowest": ages[0], "median": median(ages), "highest": ages[-1]} if ages else None,
            "durationMs": dict(zip(("p50", "p99"), seen.durations_ms, strict=False)) or None,
            "usd": self.usd,
            "firstMs": seen.first_ms,
            "lastMs": seen.last_ms,
            "growth": None if self.growth is None else _growth_document(self.growth),
        }
        return {name: None if isinstance(v, float) and math.isnan(v) else v for name, v in made.items()}


def _growth_document(grown: Growth) -> dict[str, Any]:
    return {
        "rises": grown.rises,
        "parts": grown.parts,
        "expected": grown.expected,
        "chance": grown.chance,
        "aboutKiB": grown.about_kib,
        "likelyKiB": grown.likely_kib,
        "provenKiB": grown.proven_kib,
        "longest": grown.longest,
        "load": grown.load,
    }


def judged(found: Mapping[Key, Observed]) -> list[Unmeasured]:
    """The most urgent first."""
    all_of_them = [judge(key, seen) for key, seen in found.items()]
    return sorted(all_of_them, key=lambda each: (each.state, each.rank, each.key))


def judge(key: Key, seen: Observed) -> Unmeasured:
    """Judge one function by its marks, kills and timeouts."""
    grown = growth(seen.lives) if seen.lives else None
    attach = f"truemem attach {shlex.quote(key.function or 'NAME')}"
    for check in (_out_of_memory, _growing, _near, _no_sign):
        if (answer := check(key, seen, grown)) is not None:
            state, rank, sentence = answer
            break
    else:
        state, rank, sentence = State.UNDECIDED, -float(seen.invocations), _undecided(key, seen, grown)
    if seen.nameless and not seen.mixed and seen.invocations >= LEAST_INVOCATIONS:
        sentence += " The log has no names of log streams: this is so if one environment ran at a time."
    return Unmeasured(key, seen, grown, state, rank, sentence, "" if state is State.NO_SIGN_OF_GROWTH else attach)


_Answer = tuple[State, float, str]


def _out_of_memory(key: Key, seen: Observed, grown: Growth | None) -> _Answer | None:
    kills, late, signalled = seen.out_of_memory, seen.at_limit, seen.ended[Ended.KILLED]
    if not kills + late + signalled:
        return None
    rank = -(kills + late + signalled) / seen.invocations
    said = []
    if kills:
        said.append(f"memory ran out {_times(kills)}{_in(seen)}, in {_one_of(kills, seen.invocations)}")
    if late:
        said.append(
            f"{counted(late, 'invocation')} timed out with the mark at the memory size, where none ended well before:"
            " the kernel was short of it"
        )
    if signalled:
        said.append(
            f"{counted(signalled, 'invocation')} ended with `signal: killed` with the mark below the memory size: by"
            " the kernel, as what is taken at once is not in the mark, or by the function itself"
        )
    told = f"{', and '.join(said)}. {_why(key, seen, grown)}"
    return State.OUT_OF_MEMORY, rank, told[0].upper() + told[1:]


def _why(key: Key, seen: Observed, grown: Growth | None) -> str:
    ages, how = seen.ages, approach(seen.lives, key.size_mb)
    of = f"after {min(ages) - 1:,} to {max(ages) - 1:,} invocations (median {median(ages) - 1:,.0f})" if ages else ""
    kind = pattern(ages, seen.survived)
    if kind == "start":
        share = "each time" if max(ages) <= 2 else "most often"
        return f"It did so {share} in an environment's first two invocations: {key.size_mb:,} MB is too small."
    if kind == "regular" and how.rises:
        return f"Environments were killed {of}, and their marks rose until then: memory grows until it runs out."
    if grown is not None and grown.grows:
        return f"Memory grows before that: {_rises(grown)}."
    if kind == "regular" and how.at_once:
        return (
            f"Environments were killed {of}, at ages more alike than by chance, but most of what was missing was taken"
            " at once: requests that come at that time, or that age, need more."
        )
    if kind == "irregular" and how.at_once:
        return (
            f"Environments were killed {of}, at no regular age, and most of what was missing was taken at once: single"
            " invocations need more, rather than that memory grows."
        )
    return "Whether memory grew until then, or one invocation needed more, REPORT lines do not say."


def _rises(grown: Growth) -> str:
    about = f", by about {mib(grown.about_kib)} KiB in each invocation" if grown.about_kib else ""
    return (
        f"in the second half of environments' lives the mark rises in {grown.rises:,} of {grown.parts:,} eighths, where"
        f" at most {grown.expected:,.1f} are expected without growth{about}"
    )


def _growing(key: Key, seen: Observed, grown: Growth | None) -> _Answer | None:
    if grown is None or not grown.grows:
        return None
    left = math.inf
    more = ""
    if grown.about_kib:
        left = max(0.0, (key.size_mb - seen.highest_mb) * 1024 / grown.about_kib)
        more = f" At that rate the highest environment reaches {key.size_mb:,} MB in {left:,.0f} invocations."
    told = f"Memory grows, a cache or a heap fills, or requests get larger: {_rises(grown)}.{more}"
    return State.GROWING, left, told


def _near(key: Key, seen: Observed, _: Growth | None) -> _Answer | None:
    share = seen.highest_mb / key.size_mb if key.size_mb else 0.0
    if share < NEAR:
        return None
    told = (
        f"An environment came to {seen.highest_mb:,} of {key.size_mb:,} MB ({share:.0%}): a little more ends it."
        " The first REPORT with that mark is of the invocation that needed it."
    )
    return State.NEAR_THE_LIMIT, -share, told


def _no_sign(key: Key, seen: Observed, grown: Growth | None) -> _Answer | None:
    if grown is None or grown.likely_kib is None or grown.rises_too_often:
        return None
    if (key.size_mb - seen.highest_mb) * 1024 < grown.likely_kib * LIVES_LEFT * grown.longest:
        return None
    return State.NO_SIGN_OF_GROWTH, -grown.likely_kib, f"{_highest(key, seen, grown)}. {_bounds(grown)}"


def _highest(key: Key, seen: Observed, grown: Growth | None) -> str:
    where = counted(seen.environments, "environment")
    longest = "" if grown is None else f"{', the longest' * (seen.environments > 1)} of {grown.longest:,} invocations"
    return f"The mark was {seen.highest_mb:,} of {key.size_mb:,} MB at most, in {where}{longest}"


def _bounds(grown: Growth) -> str:
    proven, likely = grown.proven_kib, grown.likely_kib
    told = []
    if proven is not None:
        told.append(
            f"Memory grew by less than {mib(proven)} KiB in each invocation: that is certain, on average over the"
            " longest life."
        )
    if likely is not None and (proven is None or likely < proven):
        told.append(
            f"With 95 % it grew by less than {mib(likely)} KiB in each invocation of any environment, if first"
            " invocations need no more than later ones."
        )
    return " ".join(told)


def _undecided(key: Key, seen: Observed, grown: Growth | None) -> str:
    if seen.mixed:
        return (
            f"The mark was {seen.highest_mb:,} of {key.size_mb:,} MB at most. Environments are mixed in this log, which"
            " has no names of log streams: more is not known."
        )
    if grown is not None and grown.rises_too_often:
        return f"{_rises(grown)[0].upper()}{_rises(grown)[1:]}. But {grown.load}: that does it as well as a leak."
    if grown is not None and grown.proven_kib is not None and grown.longest >= LEAST_INVOCATIONS:
        why = "That is not enough to say that it does not grow."
        if grown.likely_kib is None:
            why = "No long life has its first invocation in the log: a peak before may hide growth."
        return f"{_highest(key, seen, grown)}. {_bounds(grown)} {why}"
    return f"{_highest(key, seen, grown)}: too few to say whether memory grows."


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


def _one_of(kills: int, invocations: int) -> str:
    every = invocations / kills
    return f"1 of {every:,.0f} invocations" if every >= 1.5 else f"{kills / invocations:.0%} of the invocations"


def _in(seen: Observed) -> str:
    """The time from the first to the last kill, if the log says it."""
    if len(seen.killed_ms) < 2:
        return ""
    hours = (max(seen.killed_ms) - min(seen.killed_ms)) / HOUR_MS
    if hours * 60 < 1:
        return ""
    if hours < 1:
        return f" within {counted(math.ceil(hours * 60), 'minute')}"
    return f" within {counted(math.ceil(hours), 'hour')}" if hours < 48 else f" within {math.ceil(hours / 24):,} days"


def ten_first(found: Sequence[Unmeasured], most: int = 10) -> list[str]:
    """Names of the functions to attach first."""
    names = [each.key.function for each in found if each.state is not State.NO_SIGN_OF_GROWTH]
    known = list(dict.fromkeys(filter(None, names)))
    return known[:most] or ["NAME"] * bool(names)
