"""Cold start: from exec to the register request and to the first `next`, beside other extensions.

All start by turns, warm, and those that are one file also cold. Writes nothing: `layer` has the same in its page.
"""

from __future__ import annotations

import os
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.kit.bench import Advance, Bench, in_turn, nothing
from benchmarks.kit.contenders import GO_HELP, ONE_FILE, Contender, contenders
from testing.pages import Result, Table

NAMESPACE = True
SETTINGS = {"go": GO_HELP}
ROUNDS = 40
Made = dict[str, float]
"""One start. `register`, `next`: ms from exec, as the API's side sees it; `cpu`: ms until the first `next`; `read`: KiB
read from disk before register; `Rss`, `Pss`, `Private_Dirty`: MiB after the first `next`."""


class Start(NamedTuple):
    """Of one extension."""

    warm: Sequence[Made]
    cold: Sequence[Made]
    """With the executable's pages dropped from the page cache before. Only of what is one file."""

    def median(self, figure: str) -> float:
        return statistics.median(made[figure] for made in self.warm)

    def least(self, figure: str) -> float:
        return min(made[figure] for made in self.warm)

    def of_cold(self, figure: str) -> float:
        return statistics.median(made[figure] for made in self.cold)


def once(contender: Contender) -> Made:
    """Start it, until it waits for its first event."""
    read: list[float] = []
    with contender.start() as extension:
        extension.api.registering = lambda: read.append(extension.read_kib())
        extension.api.wait_for_next()
        memory = {name: kib / 1024 for name, kib in extension.memory_kib().items()}
        times = {kind: extension.ms_since_exec(kind) for kind in ("register", "next")}
        return {**times, "cpu": extension.cpu_ns() / 1e6, "read": read[0], **memory}


def cold(contender: Contender) -> Made:
    """The same after its file was dropped from the page cache (posix_fadvise(2), POSIX_FADV_DONTNEED)."""
    descriptor = os.open(contender.command[0], os.O_RDONLY)
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)
    return once(contender)


def measure(compared: Sequence[Contender], rounds: int, advance: Advance = nothing) -> dict[str, Start]:
    """All by turns. The first round is not counted: page cache, byte code."""
    ways = {(each.name, False): lambda each=each: once(each) for each in compared}
    ways |= {(each.name, True): lambda each=each: cold(each) for each in compared if each.name in ONE_FILE}
    made = in_turn({f"{name} {is_cold}": way for (name, is_cold), way in ways.items()}, rounds + 1, advance)
    return {
        each.name: Start(made[f"{each.name} False"][1:], made.get(f"{each.name} True", [])[1:]) for each in compared
    }


def table(starts: dict[str, Start]) -> Table:
    """Cold start."""
    rows = [
        [
            name,
            *(f"{start.median(kind):.2f} ({start.least(kind):.2f})" for kind in ("register", "next")),
            f"{start.median('cpu'):.1f}",
            *([f"{start.of_cold(kind):,.1f}" for kind in ("register", "next", "read")] if start.cold else ["", "", ""]),
            *(f"{start.median(kind):.1f}" for kind in ("Rss", "Pss", "Private_Dirty")),
        ]
        for name, start in starts.items()
    ]
    headings = ("", "exec to register, ms", "exec to `next`, ms", "CPU", "register, cold", "`next`, cold", "KiB read")
    count = len(next(iter(starts.values())).warm)
    return Table(
        "Cold start",
        (*headings, "RSS, MiB", "PSS", "private dirty"),
        rows,
        f"Medians (minima) of {count}, by turns; as the API's side sees it. CPU: ms until the first `next`. Cold: the"
        " file's pages dropped from the page cache before; read from disk before register. Memory after the first"
        " `next`.",
    )


def run(bench: Bench) -> Result:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)  # an extension runs as an ordinary user
        rounds = bench.count(ROUNDS, 2)
        compared = contenders(Path(folder), bench.settings.get("go"))
        return Result([table(measure(compared, rounds, bench.step("cold starts", rounds + 1)))])
