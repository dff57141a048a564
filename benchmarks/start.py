"""Measures the cold start: the time from exec to the register request, and to the first `next`."""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.bare import Extension
from benchmarks.contenders import Contender

ROUNDS = 40
COLD_ROUNDS = 10


@dataclass(frozen=True)
class Start:
    """One row. Times in ms from exec, as the API's side sees it; memory in MiB after the first `next`."""

    name: str
    rounds: int
    register_min: float
    register_median: float
    next_min: float
    next_median: float
    rss: float
    pss: float
    private_dirty: float
    cold_register_median: float | None = None
    """With the executable's pages dropped from the page cache before."""


def once(contender: Contender) -> tuple[float, float, dict[str, int]]:
    """Start it, until it waits for its first event."""
    with Extension(contender.command, contender.variables) as extension:
        extension.api.wait_for_next()
        memory = extension.memory_kib()
        return extension.ms_since_exec("register"), extension.ms_since_exec("next"), memory


def forget(path: str | os.PathLike[str]) -> None:
    """Drop a file from the page cache (posix_fadvise(2), POSIX_FADV_DONTNEED)."""
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)


def measure(
    contenders: Sequence[Contender], one_file: Sequence[str], rounds: int, advance: Callable[[], None]
) -> list[Start]:
    """All by turns. `one_file` names those that are one file, and can be started cold."""
    warm: dict[str, list[tuple[float, float, dict[str, int]]]] = {contender.name: [] for contender in contenders}
    cold: dict[str, list[float]] = {name: [] for name in one_file}
    for number in range(rounds + 1):
        for contender in contenders:
            made = once(contender)
            if number:  # the first is not counted: page cache, byte code
                warm[contender.name].append(made)
            advance()
    for _ in range(min(COLD_ROUNDS, rounds)):
        for contender in contenders:
            if contender.name in cold:
                forget(contender.command[0])
                cold[contender.name].append(once(contender)[0])
    return [_row(name, made, cold.get(name)) for name, made in warm.items()]


def _row(name: str, made: Sequence[tuple[float, float, dict[str, int]]], cold: Sequence[float] | None) -> Start:
    registers, nexts = [one[0] for one in made], [one[1] for one in made]

    def mib(member: str) -> float:
        return round(statistics.median(one[2][member] for one in made) / 1024, 2)

    return Start(
        name=name,
        rounds=len(made),
        register_min=round(min(registers), 2),
        register_median=round(statistics.median(registers), 2),
        next_min=round(min(nexts), 2),
        next_median=round(statistics.median(nexts), 2),
        rss=mib("Rss"),
        pss=mib("Pss"),
        private_dirty=mib("Private_Dirty"),
        cold_register_median=round(statistics.median(cold), 2) if cold else None,
    )
