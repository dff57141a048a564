"""Reads what malloc_sampler.c keeps of the function's processes: what is live after an invocation, by stack."""

from __future__ import annotations

import bisect
import os
import platform
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .attribution import LEAST_LOOKS
from .symbols import resolved

KNOWN = "samples of malloc"
"""How it is known what lines keep, in words for the account."""
HERE = Path(__file__)
PERIOD = "TRUEMEM_EXPLAIN_PERIOD"
"""Variable: bytes from sample to sample in the mean."""
SAMPLES = 1000
"""In what the plain run has kept: its size is known to 3 % then."""
LEAST_PERIOD, MOST_PERIOD = 512, 1 << 18
LEAST_KIB = 1.0
"""Growth per invocation that the samples are for at least: where less or nothing grew they would be of each block."""
MOST_STACKS = 400
"""Stacks whose functions are looked up, those that have gained most."""
MOST_OTHERS = 2000
"""The same of those that have gained nothing: they tell who else has called what allocates, and has freed it."""

SILENCE = "no process with glibc's malloc lived through enough looks. It cannot be loaded into a static program"
NOT_BUILT = "The library that samples malloc is not here: in a checkout, make layer builds it."

MAGIC = 0x32534D54
HEADER = ("magic", "pid", "lost", "used", "end", "no_unwinder", "slots", "unused")
SLOT = np.dtype([("address", "<u8"), ("size", "<u8"), ("stack", "<u4"), ("unasked", "<u4"), ("period", "<u8")])
MAPPED = 0xFFFFFFFF
"""In `unasked`: the program has mapped it itself."""
PAGE = os.sysconf("SC_PAGE_SIZE")
MOST_PAGES = 1 << 20
"""Pages of a mapping that are looked at. One of more than 4 GiB is room that is reserved."""

Slots = npt.NDArray[np.void]
Floats = npt.NDArray[np.float64]


def library() -> Path | None:
    """The sampler for this machine: in a wheel beside this file, in a checkout where `make layer` puts it. None if it
    is not there."""
    name = f"malloc_sampler-{platform.machine().replace('aarch64', 'arm64')}.so"
    return next(filter(Path.is_file, (HERE.with_name(name), HERE.parents[3] / "dist" / name)), None)


def period(measured_kib: float, invocations: int) -> int:
    """Bytes from sample to sample, for what grew in a plain run: KiB per invocation."""
    grown = max(measured_kib, LEAST_KIB) * 1024 * invocations
    return round(min(MOST_PERIOD, max(LEAST_PERIOD, grown / SAMPLES)))


class Mapped(NamedTuple):
    """Code that a process has mapped."""

    begin: int
    end: int
    offset: int
    """Place of the begin in the file."""
    path: str


@dataclass
class Look:
    """The live samples of a process after an invocation."""

    invocation: int
    slots: Slots
    in_memory: Floats
    """Bytes of each that are in memory."""
    lost: int


@dataclass
class _Process:
    """A process, from its first sample to its last look."""

    path: Path
    looks: list[Look] = field(default_factory=list)
    code: list[Mapped] = field(default_factory=list)
    room: npt.NDArray[np.uint64] = field(default_factory=lambda: np.zeros(0, np.uint64))
    """The stacks: the number of frames of each, then its addresses."""
    has_unwinder: bool = True
    first: dict[int, int] = field(default_factory=dict)
    """Live samples of each stack after the first invocation."""

    def look(self, invocation: int, *, is_first: bool = False) -> bool:
        """Note what is live, for the series or as that of the first invocation; nothing if it has just begun. False if
        the process has ended. Raises OSError, ValueError for a file that is not whole."""
        header = dict(zip(HEADER, map(int, np.fromfile(self.path, "<u8", len(HEADER))), strict=False))
        if header.get("magic") != MAGIC:
            return True
        begin, end = 8 * len(HEADER), 8 * len(HEADER) + header["slots"] * SLOT.itemsize
        slots = np.fromfile(self.path, SLOT, header["slots"], offset=begin)
        slots = slots[slots["address"] != 0]
        self.room = np.fromfile(self.path, "<u8", header["end"], offset=end)
        self.has_unwinder = not header["no_unwinder"]
        if is_first:
            self.first = _counted(slots)
            return True
        self.looks.append(Look(invocation, slots, _in_memory(slots, header["pid"]), header["lost"]))
        with suppress(OSError):
            if code := code_of(header["pid"]):
                self.code = code
                return True
        return False  # it has ended; perhaps its parent has not waited for it yet

    def stacks(self) -> Iterator[int]:
        """The places of all stacks in the room."""
        at = 1
        while at < len(self.room):
            yield at
            at += 1 + int(self.room[at])

    def frames(self, stack: int) -> tuple[tuple[str, int], ...]:
        """File and place in it of each call, the innermost first; up to one that is in no code. The sampler's own
        frames are left out."""
        found = []
        count = int(self.room[stack]) if 0 < stack < len(self.room) else 0
        for address in map(int, self.room[stack + 1 : stack + 1 + count]):
            at = bisect.bisect_right(self.code, address - 1, key=lambda each: each.begin) - 1
            if at < 0 or address > self.code[at].end:
                break
            mapped = self.code[at]
            if not Path(mapped.path).name.startswith("malloc_sampler"):
                found.append((mapped.path, address - 1 - mapped.begin + mapped.offset))
        return tuple(found)


def code_of(pid: int, root: str = "/proc") -> list[Mapped]:
    """What code this process has mapped, by address. Raises OSError if it has ended."""
    found = []
    for line in Path(f"{root}/{pid}/maps").read_text(encoding="utf-8", errors="replace").splitlines():
        place, permissions, offset, *_, path = (*line.split(maxsplit=5), "", "")[:6]
        if "x" in permissions and path.startswith("/"):
            begin, end = (int(each, 16) for each in place.split("-"))
            found.append(Mapped(begin, end, int(offset, 16), path))
    return found


def _in_memory(slots: Slots, pid: int, root: str = "/proc") -> Floats:
    """Bytes of each slot: what malloc has taken for it, and of a mapping the pages that are in memory now, as
    proc_pid_pagemap(5) says; none of them where the process has ended."""
    sizes = slots["size"].astype(float)
    mappings = np.flatnonzero(slots["unasked"] == MAPPED)
    sizes[mappings] = 0.0
    with suppress(OSError), Path(f"{root}/{pid}/pagemap").open("rb", buffering=0) as file:
        for each in mappings:
            begin, end = (int(slots["address"][each]) + more for more in (0, int(slots["size"][each])))
            count = min(MOST_PAGES, -(-end // PAGE) - begin // PAGE)
            pages = np.frombuffer(os.pread(file.fileno(), 8 * count, begin // PAGE * 8), "<u8")
            sizes[each] = float(np.count_nonzero(pages >> np.uint64(63))) * PAGE
    return sizes


class SampleReader:
    """Looks at the samples of one run, after some of its invocations."""

    def __init__(self, looks: Sequence[int], placed: Callable[[str], str] = str) -> None:
        """`looks`: numbers of the invocations, from 1. `placed`: where a file that is mapped is on this machine."""
        self._placed = placed
        self._planned = frozenset(looks)
        self._count = 0
        self._processes: dict[str, _Process] = {}

    def between(self, folder: Path) -> None:
        """An invocation has ended: look, if it is time. Raises OSError, ValueError for what is damaged."""
        self._count += 1
        if self._count == 1:
            for path in folder.glob("samples-*"):
                self._processes.setdefault(path.name, _Process(path)).look(1, is_first=True)
        if self._count not in self._planned:
            return
        for path in folder.glob("samples-*"):
            if not self._processes.setdefault(path.name, _Process(path)).look(self._count):
                path.unlink()  # each child that a function starts has a file

    def read(self, _: Path) -> list[dict[str, Any]]:
        """What was found, as one document: all processes that were there at enough looks, or none of them if there are
        none."""
        kept = [each for each in self._processes.values() if len(each.looks) >= LEAST_LOOKS]
        if not kept:
            return []
        invocations = sorted({look.invocation for each in kept for look in each.looks})
        missing = []
        if lost := sum(each.looks[-1].lost for each in kept):
            missing.append(f"{lost} samples found no place: what is told is too little.")
        if not all(each.has_unwinder for each in kept):
            missing.append("There is no libgcc_s.so.1, which finds who has called malloc: no line can be named.")
        told = [stack for each in kept for stack in _stacks(each, invocations)]
        told.sort(key=lambda each: -each["gain"])
        count = sum(each["gain"] > 0 for each in told)
        told = [*told[: min(count, MOST_STACKS)], *told[count : count + MOST_OTHERS]]
        for each in told:
            each["calls"] = [(self._placed(module), place) for module, place in each["calls"]]
        named, problems = resolved({frame for each in told for frame in each["calls"]})
        stacks = [
            {
                "frames": [frame for call in reversed(each["calls"]) for frame in named.get(call, ())],
                "bytes": each["bytes"],
                "variance": each["variance"],
                "once": each["once"],
            }
            for each in told
        ]
        return [
            {
                "invocations": invocations,
                "stacks": stacks,
                "bytes": [sum(column) for column in zip(*(_totals(each, invocations) for each in kept), strict=True)],
                "missing": [*missing, *problems],
            }
        ]


def weights(slots: Slots, sizes: Floats) -> tuple[Floats, Floats]:
    """Bytes that each sample stands for, and the variance of that, by its own `sizes`: each was taken with the chance
    1 - exp(-asked / period) (Horvitz and Thompson)."""
    unasked = np.where(slots["unasked"] == MAPPED, 0, slots["unasked"])
    asked = np.maximum(slots["size"].astype(float) - unasked, 1.0)
    chance = -np.expm1(-asked / slots["period"])
    of = sizes / chance
    return of, of**2 * (1 - chance)


def _at(process: _Process, invocations: Sequence[int]) -> list[Look | None]:
    by_number = {look.invocation: look for look in process.looks}
    return [by_number.get(number) for number in invocations]


def _totals(process: _Process, invocations: Sequence[int]) -> list[float]:
    return [float(_weighed(look)[0].sum()) if look else 0.0 for look in _at(process, invocations)]


def _weighed(look: Look) -> tuple[Floats, Floats]:
    return weights(look.slots, look.in_memory)


def _stacks(process: _Process, invocations: Sequence[int]) -> list[dict[str, Any]]:
    """All stacks that were ever sampled: bytes at each look, what they have gained from the first to the last, the
    variance of what came and went since the first look and is there no more, or is new; and whether all of it came in
    the first invocation, and has stayed."""
    sums = [_by_stack(look.slots, _weighed(look)[0]) if look else {} for look in _at(process, invocations)]
    first, last = process.looks[0], process.looks[-1]
    variance: dict[int, float] = {}
    for look, other in ((first, last), (last, first)):
        changed = ~np.isin(look.slots, other.slots)
        for stack, added in _by_stack(look.slots[changed], _weighed(look)[1][changed]).items():
            variance[stack] = variance.get(stack, 0.0) + added
    live = _counted(last.slots)
    found = []
    for stack in process.stacks():
        series = [each.get(stack, 0.0) for each in sums]
        gain = series[-1] - series[0]
        if calls := process.frames(stack):
            once = set(series) == {series[0]} and series[0] > 0 and process.first.get(stack) == live.get(stack)
            found.append(
                {"calls": calls, "gain": gain, "bytes": series, "variance": variance.get(stack, 0.0), "once": once}
            )
    return found


def _counted(slots: Slots) -> dict[int, int]:
    stacks, counts = np.unique(slots["stack"], return_counts=True)
    return dict(zip(map(int, stacks), map(int, counts), strict=True))


def _by_stack(slots: Slots, values: Floats) -> dict[int, float]:
    stacks, place = np.unique(slots["stack"], return_inverse=True)
    return dict(zip(map(int, stacks), map(float, np.bincount(place, values, len(stacks))), strict=True))
