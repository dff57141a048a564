"""Halves a history until one version is left: the first whose answer is that of the new end. Pure.

A version that cannot be judged is skipped, and the next try is away from it, as `git bisect skip` does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

Outcome = Literal["good", "bad", "skipped"]
_GOLDEN = 0.618034  # its multiples are spread evenly over an interval, however many there are


@dataclass(frozen=True)
class Version:
    """A commit, or a version of a package."""

    name: str
    """All of it: what the history goes by."""
    shown: str
    date: str = ""
    subject: str = ""

    def __str__(self) -> str:
        return " ".join(filter(None, (self.shown, self.date, self.subject)))


@dataclass(frozen=True)
class Ready:
    """A version that can be run."""

    spec: str
    """What `truemem check` is to run."""
    options: Sequence[tuple[str, str]] = ()
    """Options for that, which come after the user's own."""
    folder: Path | None = None
    """Where it was laid out: paths below it are told without it."""


class Unready(Exception):
    """This version cannot be laid out, or not installed. The message says why."""


class History(Protocol):
    """The versions from one end to the other."""

    @property
    def order(self) -> Sequence[Version]:
        """From the old end to the new one, both included; of a history with branches, one order of it."""

    def between(self, before: Sequence[str], after: str) -> Sequence[str]:
        """The versions that come with `after` and not with any of `before`: the one that halves them best first, and
        `after` itself."""

    def ready(self, version: str) -> AbstractContextManager[Ready]:
        """The version, as long as the context lasts. Raises Unready."""

    def others(self, before: str, after: str) -> Sequence[str]:
        """What else differs between these two, each in words."""


@dataclass(frozen=True)
class Found:
    """What is left of the history."""

    after: str
    """The earliest version that is known to have the answer of the new end."""
    before: Sequence[str]
    """Versions with the answer of the old end."""
    candidates: Collection[str]
    """Those of which one is the first: `after` alone, or with some that could not be judged."""

    @property
    def is_one(self) -> bool:
        return len(self.candidates) == 1


def search(history: History, old: str, new: str, ask: Callable[[str, int], bool | None]) -> Found:
    """Find the first version whose answer is that of `new`. `ask` gets a version and how many are open at most; it
    returns True for the answer of `new`, False for that of `old`, None if it cannot be told."""
    before, after = [old], new
    skipped: set[str] = set()
    while True:
        candidates = history.between(before, after)
        untried = [each for each in candidates if each != after and each not in skipped]
        if not untried:
            return Found(after, before, candidates)
        chosen = untried[away(len(untried), len(skipped.intersection(candidates)))]
        answer = ask(chosen, len(untried))
        if answer is None:
            skipped.add(chosen)
        elif answer:
            after = chosen
        else:
            before.append(chosen)


def away(count: int, skipped: int) -> int:
    """Which of `count` versions to try, best first, where so many were skipped: the best, then now and then a farther
    one, with git's preference for the better ones (its `skip_away`)."""
    return int(count * (skipped * _GOLDEN % 1) ** 1.5)
