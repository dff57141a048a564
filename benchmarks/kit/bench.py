"""What every benchmark shares: its length, its progress, two versions in turn, and statistics."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing import Pool
from typing import TypeVar

from truemem_workbench.support.bad_input import BadInput

T = TypeVar("T")
Said = TypeVar("Said")
Advance = Callable[[], None]


def nothing() -> None:
    """Shows no progress."""


@dataclass(frozen=True)
class Bench:
    """How a benchmark was asked for."""

    share: float = 1.0
    """The part of the usual length that is run."""
    only: Sequence[str] = ()
    """Words: only cases whose names have one of them."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """The benchmark's own options that were given."""
    step: Callable[[str, int], Advance] = lambda name, steps: nothing
    """Adds a progress bar (name, steps), and returns what to call after each step."""
    echo: Callable[[str], None] = lambda line: None
    """Says what was just measured, on stderr."""

    def count(self, usual: float, least: int = 1) -> int:
        """So many of what is usually `usual` of them."""
        return max(least, round(usual * self.share))

    def chosen(self, names: Iterable[str]) -> list[str]:
        """Those of them that were asked for. Raises BadInput if it is none."""
        known = list(names)
        found = [name for name in known if not self.only or any(word in name for word in self.only)]
        if not found:
            raise BadInput(f"--only {' '.join(self.only)}: none of {', '.join(known)}")
        return found

    def each(self, title: str, items: Sequence[T]) -> Iterator[T]:
        """All of them, with progress."""
        advance = self.step(title, len(items))
        for item in items:
            yield item
            advance()

    def spread(self, title: str, measure: Callable[[T], Said], items: Sequence[T]) -> list[Said]:
        """What `measure` says of each, in order, measured in a process for each CPU."""
        advance, found = self.step(title, len(items)), []
        with Pool() as pool:
            for said in pool.imap(measure, items, chunksize=8):
                found.append(said)
                advance()
        return found


def in_turn(sides: Mapping[str, Callable[[], T]], times: int, advance: Advance = nothing) -> dict[str, list[T]]:
    """What each side says, so many times. All take turns, in the other order each time: other programs run as well."""
    found: dict[str, list[T]] = {name: [] for name in sides}
    order = list(sides)
    for _ in range(times):
        for name in order:
            found[name].append(sides[name]())
        order.reverse()
        advance()
    return found


def percentile(values: Sequence[float], percent: int) -> float:
    """The usual percentile; of one value, that value."""
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1] if len(values) > 1 else values[0]


def apart(ones: Sequence[float], others: Sequence[float]) -> float:
    """Median of the differences from turn to turn."""
    return statistics.median(one - other for one, other in zip(ones, others, strict=True))


def middle(values: Sequence[float]) -> tuple[float, float]:
    """Median and its standard error, from the median deviation: an interrupt in one turn changes neither. 0 of none."""
    if not values:
        return 0.0, 0.0
    found = statistics.median(values)
    return found, 1.2533 * 1.4826 * statistics.median([abs(value - found) for value in values]) / len(values) ** 0.5


def share(said: Iterable[bool | None]) -> float | None:
    """Part of those that are true; None of nothing. What is None does not count."""
    known = [each for each in said if each is not None]
    return sum(known) / len(known) if known else None


def percent(part: float | None) -> str:
    """A share in a cell; "" of nothing."""
    return "" if part is None else f"{part:.1%}"


def two(value: float | None) -> str:
    """A figure in a cell; "" where there is none."""
    return "" if value is None else f"{value:.2f}"
