"""Which concurrency fits which memory size on Managed Instances, by what a worker and a request need. Pure. MiB.

What an environment needs is taken as a sum: what it has whatever it serves, its workers, and its requests if all are at
their highest at once. A worker is a process for each request in Python, and a thread in Node.js, of which there are
eight for each vCPU whatever the concurrency.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ..judge.finding import Finding
from ..judge.prices import MANAGED_FEE, MANAGED_PRICES, MILLION, REQUEST, dollars
from ..judge.sizing import HEADROOM
from ..support.document import known_members, rounded
from ..support.platform_facts import LEAST_MANAGED_MIB, MOST_AT_ONCE, MOST_MANAGED_MIB
from ..support.terminal import counted

SIZES = tuple(LEAST_MANAGED_MIB << doubled for doubled in range(5))
"""Memory sizes that are looked at: 2 to 32 GiB."""


@dataclass(frozen=True)
class Tried:
    """One concurrency that was run."""

    at_once: int
    workers: int
    held: float
    """Between two rounds, at most."""
    needs: float
    """If all requests are at their highest at once."""


@dataclass(frozen=True)
class Needs:
    """What a function needs, by its parts."""

    fixed: float
    """Whatever it serves."""
    worker: float
    request: float
    others: float
    """The sidecar's, and that of other extensions."""
    threads_per_mib: float = 0.0
    """Workers are threads, so many for each MiB of the memory size (and those of one vCPU at least). 0: a process for
    each request."""
    least_threads: int = 0

    def workers(self, at_once: int, memory: int) -> float:
        """How many there are with this concurrency and memory size."""
        return max(self.least_threads, self.threads_per_mib * memory) if self.least_threads else at_once

    def of(self, at_once: int, memory: int) -> float:
        return self.fixed + self.others + self.workers(at_once, memory) * self.worker + at_once * self.request

    def used(self, at_once: int, memory: int) -> float:
        """The share of the memory size that is needed."""
        return self.of(at_once, memory) / memory

    def fits(self, at_once: int, memory: int) -> bool:
        """With HEADROOM over what is needed."""
        return self.used(at_once, memory) * (1 + HEADROOM) <= 1

    def most(self, memory: int) -> int:
        """The highest concurrency that fits; 0 if none does."""
        room = memory / (1 + HEADROOM) - self.of(0, memory)
        each = self.request + (0.0 if self.least_threads else self.worker)
        return 0 if room < each else MOST_AT_ONCE if each <= 0 else min(MOST_AT_ONCE, int(room / each))


def needs_of(tried: Sequence[Tried], others: float, threads_per_mib: float = 0.0, least_threads: int = 0) -> Needs:
    """The parts, by the fewest and the most workers that were run: a line through what these needed. A worker may keep
    what a request took, and then the next one takes nothing more: only the sum is the same in each run."""
    few, many = (pick(tried, key=lambda each: each.workers) for pick in (min, max))
    request = max(0.0, many.needs - many.held) / many.at_once
    more = many.workers - few.workers
    rise = many.needs - few.needs - request * (many.at_once - few.at_once)
    worker = max(0.0, rise / more) if more else 0.0
    fixed = max(0.0, *(each.needs - each.workers * worker - each.at_once * request for each in (few, many)))
    return Needs(fixed, worker, request, others, threads_per_mib, least_threads)


@dataclass(frozen=True, kw_only=True)
class Result:
    """All that is printed."""

    spec: str
    at_once: int
    """The function's concurrency."""
    memory: int
    """The function's memory size."""
    sizes: Sequence[int]
    tried: Sequence[Tried]
    needs: Needs | None
    """None: nothing could be measured, or it grows."""
    finding: Finding | None
    """What must be done first."""
    gib_per_vcpu: float
    notices: Sequence[str] = ()
    log: Sequence[str] = ()
    next: str = ""
    next_when: str = ""
    """What must be done before; empty for nothing."""
    signal: int = 0
    """Number of the signal that has ended it early; 0 if none has."""

    @property
    def suggested(self) -> int | None:
        """The smallest memory size that holds the function's concurrency. None if none does."""
        if self.needs is None:
            return None
        return next((size for size in self.sizes if self.needs.fits(self.at_once, size)), None)

    @property
    def exit_code(self) -> int:
        if self.needs is not None:
            return 0 if self.suggested is not None else 1
        return 1 if self.finding is not None and self.finding.grows else 2

    @property
    def concurrencies(self) -> list[int]:
        """Those that are shown: the function's own, and powers of two, up to what the largest size holds."""
        if self.needs is None:
            return []
        most = max(self.at_once, min(4 * self.at_once, self.needs.most(self.sizes[-1])))
        doubled = itertools.takewhile(lambda each: each <= most, (1 << power for power in range(11)))
        return sorted({*doubled, self.at_once})

    def columns(self) -> list[str]:
        return ["at once", "needs MiB", *(f"{size:,} MB" for size in self.sizes)]

    def rows(self) -> list[list[str]]:
        """A row for each concurrency: what part of each size is needed, or that it is out."""
        return [] if self.needs is None else [self._row(self.needs, each) for each in self.concurrencies]

    def _row(self, needs: Needs, at_once: int) -> list[str]:
        in_sizes = (f"{needs.used(at_once, size):.0%}" if needs.fits(at_once, size) else "out" for size in self.sizes)
        return [f"{at_once:,}", f"{needs.of(at_once, self.memory):,.0f}", *in_sizes]

    def sentences(self) -> list[str]:
        early = ["It was ended early. What follows is of the rounds until then."] if self.signal else []
        return [*early, *self._answer()]

    def _answer(self) -> list[str]:
        if self.finding is not None and (self.needs is None or self.finding.cause == "failing"):
            return [replace(self.finding, next="").paragraph()]
        if self.needs is None:
            return ["Nothing was measured."]
        needs, size = self.needs, self.suggested
        per = "thread" if needs.least_threads else "worker"
        parts = (
            f"{counted(self.at_once, 'request')} at once: {needs.of(self.at_once, size or self.memory):,.0f} MiB are"
            f" needed, {needs.fixed:,.1f} in any case, {needs.worker:,.1f} for each {per}, {needs.request:,.1f} for"
            f" each request at its highest, {needs.others:,.1f} for sidecar and extensions. Shared pages count once."
        )
        if size is None:
            largest = self.sizes[-1]
            holds = needs.most(largest)
            most = f"{largest:,} MB hold {holds:,} at most" if holds else "not even one fits"
            return [f"No size holds {self.at_once} at once with {HEADROOM:.0%} headroom: {most}.", parts]
        most = f"With {HEADROOM:.0%} headroom it holds {needs.most(size):,} at most"
        fits = f"{size:,} MB for {self.at_once} at once, which need {needs.used(self.at_once, size):.0%} of it. {most}."
        return [f"Suggested: {fits}", parts]

    def all_notices(self) -> list[str]:
        vcpus = f"one for each {self.gib_per_vcpu:g} GiB"
        return [
            *self.notices,
            f"cost: EC2's price of the instances, {MANAGED_FEE:.0%} of its on-demand price, and"
            f" {dollars(REQUEST * MILLION)} a million requests, whatever they take ({MANAGED_PRICES}). EC2's prices are"
            f" not known here. Memory buys vCPUs, {vcpus}: the less of it for each request at once, the less it costs",
        ]

    def document(self) -> dict[str, object]:
        needs = self.needs
        return known_members(
            {
                "function": self.spec,
                "requestsAtOnce": self.at_once,
                "memory": self.memory,
                "suggested": self.suggested,
                "needs": needs and {**_rounded(vars(needs)), "all": rounded(needs.of(self.at_once, self.memory), 2)},
                "mostAtOnce": needs and {str(size): needs.most(size) for size in self.sizes},
                "concurrencies": [
                    {
                        "atOnce": each,
                        "needs": rounded(needs.of(each, self.memory), 2),
                        "used": {str(size): rounded(needs.used(each, size), 4) for size in self.sizes},
                        "fits": [size for size in self.sizes if needs.fits(each, size)],
                    }
                    for each in self.concurrencies
                ]
                if needs
                else None,
                "tried": [_rounded(vars(each)) for each in self.tried],
                "finding": self.finding.document() if self.finding else None,
                "sentences": self.sentences(),
                "notices": self.all_notices(),
                "next": self.next,
                "nextWhen": self.next_when or None,
                "endedEarly": bool(self.signal) or None,
            }
        )


def _rounded(members: Mapping[str, float]) -> dict[str, float]:
    return {name: round(value, 4) for name, value in members.items() if value}


def sizes_within(asked: Sequence[int] | None, own: int) -> list[int]:
    """The sizes to look at: those asked for, or the usual ones and the function's own."""
    return sorted({*asked}) if asked else sorted({*SIZES, min(own, MOST_MANAGED_MIB)})
