"""Starts extensions by turns, warm and cold, and times them."""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.contenders import ONE_FILE, Contender

ROUNDS = 40


@dataclass(frozen=True)
class Start:
    """One row. Times in ms from exec, as the API's side sees it; memory in MiB after the first `next`."""

    name: str
    rounds: int
    register_min: float
    register_median: float
    next_min: float
    next_median: float
    cpu_median: float
    """CPU time to the first `next`, in ms."""
    rss: float
    pss: float
    private_dirty: float
    cold_register_median: float | None = None
    """With the executable's pages dropped from the page cache before."""
    cold_next_median: float | None = None
    cold_read_kib: float | None = None
    """What was read from disk before register."""


@dataclass(frozen=True)
class Made:
    """One start."""

    register: float
    next: float
    cpu: float
    read_kib: int
    memory_kib: dict[str, int]


def once(contender: Contender) -> Made:
    """Start it, until it waits for its first event."""
    read: list[int] = []
    with contender.start() as extension:
        extension.api.registering = lambda: read.append(extension.read_kib())
        extension.api.wait_for_next()
        cpu_ms, memory = extension.cpu_ns() / 1e6, extension.memory_kib()
        return Made(extension.ms_since_exec("register"), extension.ms_since_exec("next"), cpu_ms, read[0], memory)


def forget(path: str | os.PathLike[str]) -> None:
    """Drop a file from the page cache (posix_fadvise(2), POSIX_FADV_DONTNEED)."""
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)


def measure(contenders: Sequence[Contender], rounds: int, advance: Callable[[], None]) -> list[Start]:
    """All by turns: warm, and those that are one file also cold."""
    warm: dict[str, list[Made]] = {contender.name: [] for contender in contenders}
    cold: dict[str, list[Made]] = {contender.name: [] for contender in contenders}
    for number in range(rounds + 1):
        for contender in contenders:
            made = once(contender)
            if number:  # the first is not counted: page cache, byte code
                warm[contender.name].append(made)
            if number and contender.name in ONE_FILE:
                forget(contender.command[0])
                cold[contender.name].append(once(contender))
            advance()
    return [_row(name, made, cold[name]) for name, made in warm.items()]


def _row(name: str, made: Sequence[Made], cold: Sequence[Made]) -> Start:
    def mib(member: str) -> float:
        return round(statistics.median(one.memory_kib[member] for one in made) / 1024, 2)

    return Start(
        name=name,
        rounds=len(made),
        register_min=round(min(one.register for one in made), 2),
        register_median=round(statistics.median(one.register for one in made), 2),
        next_min=round(min(one.next for one in made), 2),
        next_median=round(statistics.median(one.next for one in made), 2),
        cpu_median=round(statistics.median(one.cpu for one in made), 2),
        rss=mib("Rss"),
        pss=mib("Pss"),
        private_dirty=mib("Private_Dirty"),
        cold_register_median=round(statistics.median(one.register for one in cold), 2) if cold else None,
        cold_next_median=round(statistics.median(one.next for one in cold), 2) if cold else None,
        cold_read_kib=round(statistics.median(one.read_kib for one in cold)) if cold else None,
    )
