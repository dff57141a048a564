"""Which lines hold what grew, from what a tracer found, and which files are the user's. Pure, but for `Users`."""

from __future__ import annotations

import csv
import itertools
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..support.estimates import theil_sen

Frame = tuple[str, int] | tuple[str, int, int]  # file and line; with a column where the line is minified
Stack = tuple[Frame, ...]  # outermost first
LIBRARY_FOLDERS = r"(?:.*/)?(?:site-packages|dist-packages)/"  # folders of libraries below the root

OF_SYSTEM = tuple(f"{name}/" for name in ("bin", "etc", "lib", "lib64", "opt", "run", "sbin", "usr", "var"))
"""Folders of a file system that are not the user's code."""


class Users:
    """The code below a task root, but not the libraries that lie there."""

    def __init__(self, root: Path, native: Collection[str] = ()) -> None:
        """`native`: sources of native modules that are the user's too, wherever they lie."""
        self._root, self._native = f"{root}/", frozenset(native)
        system = OF_SYSTEM if (root / "usr").is_dir() else ()  # an image without WORKDIR has its code there
        flat = sorted({re.escape(name) for name in (*_installed(root), *system)})
        self.foreign = "|".join((LIBRARY_FOLDERS, *flat))
        """A regular expression: what follows the root in the files of libraries."""
        self._is_foreign = re.compile(self.foreign).match

    def is_theirs(self, frame: Frame) -> bool:
        return self.is_native(frame) or (
            frame[0].startswith(self._root) and not self._is_foreign(frame[0], len(self._root))
        )

    def is_native(self, frame: Frame) -> bool:
        """Is it a line of a native module of theirs?"""
        return frame[0] in self._native

    def way(self, stack: Stack) -> Stack:
        """The user's frames alone, outermost first."""
        return tuple(filter(self.is_theirs, stack))

    def line(self, stack: Stack) -> Frame | None:
        """The user's innermost frame. If there is none, the innermost of all."""
        way = self.way(stack)
        return way[-1] if way else stack[-1] if stack else None


def _installed(root: Path) -> Iterator[str]:
    """Folders and files that `sam build` or `pip install --target` have put beside the user's code.

    RECORD lists the files of a distribution
    (packaging.python.org/en/latest/specifications/recording-installed-packages).
    """
    for record in root.glob("*.dist-info/RECORD"):
        with record.open(encoding="utf-8", errors="replace", newline="") as file:
            for row in csv.reader(file):
                name, slash, _ = row[0].partition("/") if row else ("", "", "")
                if name not in ("", "..", ".") and not name.endswith(".dist-info"):
                    yield f"{name}{slash}"


TRACER = "python_tracer.py"
OURS = f"{Path(__file__).parents[1]}/"
"""Folder of the workbench: its runtime client, for an interpreter that has none, keeps little of its own."""
SKIPPED_SHARE = 0.25  # share of the looks at the begin that do not count: caches fill then
LEAST_LOOKS = 4
RISING_SHARE = 0.6  # share of the steps from look to look that rise, where something grows
IN_EACH_HALF = 2  # steps that rise in each half, where there is none that falls: that is enough as well
STEADY_SHARE = 0.5
"""Growth in the later half of the looks, as a share of growth in all of them: a cache that fills ends sooner."""
FALL_SHARE = 0.5
"""A fall from one look to a later one, as a share of all growth, from which it is no leak: it is emptied again."""
LEAST_GROWTH_KIB = 0.2  # growth per invocation that is not reported: a runtime client or a library keeps as much
LEAST_GROWTH_SHARE = 0.05  # the same, as a share of the measured growth, and of what the first line holds


@dataclass(frozen=True)
class Holder:
    """A line that holds something that grows."""

    file: str
    line: int
    """0 if it was not seen: then `file` is empty."""
    kib: float
    """KiB per invocation."""
    kind: str
    """What kind of thing it is: `list of bytearray`, `native block`."""
    owner: str = ""
    """The container that holds it, as Python writes it: `app.kept`. Empty if it is not known."""
    items: float = 0.0
    """Items per invocation by which that container grows."""
    stack: Stack = ()
    """From the handler to the allocation: the user's frames, and the innermost one of a library."""
    allocated: Frame | None = None
    """Where most of it is allocated, if that is another line."""
    native: tuple[str, ...] = ()
    """The C functions below that stack, innermost last."""
    column: int = 0
    """From 1; 0 where the line alone tells the place."""
    function: str = ""
    """The function of a place that has a column."""
    called: Frame | None = None
    """The user's line that called it, if the line is a library's, or one of a native module of theirs."""

    @property
    def frame(self) -> Frame:
        return (self.file, self.line, self.column) if self.column else (self.file, self.line)

    @property
    def whole_stack(self) -> Stack:
        """The stack with the C functions, whose line is 0."""
        return (*self.stack, *((name, 0) for name in self.native))


@dataclass(frozen=True)
class Series:
    """A stack with its bytes at each look."""

    stack: Stack
    rate: float
    """Bytes per invocation."""
    native: tuple[str, ...] = ()
    """The C functions below it, innermost last."""


def attribute(found: Mapping[str, Any], root: Path, measured_kib: float) -> list[Holder]:
    """The lines that hold what grew, that with most of it first.

    `found` is the tracer's document, `root` the folder of the user's code, `measured_kib` the growth of RSS per
    invocation in the plain run.
    """
    users = Users(root)
    in_containers, left = held(found, users)
    return most_first([*in_containers, *left], measured_kib)


def held(found: Mapping[str, Any], users: Users) -> tuple[list[Holder], list[Holder]]:
    """What grew in containers that the tracer knows, and what did in none: the latter with one holder for each line,
    however little it holds."""
    at = found["invocations"]
    growing = [
        Series(_stack(each["frames"]), rate, tuple(each.get("native", ())))
        for each in _by_way(found["stacks"], users)
        if (rate := rising(at, each["bytes"])) > 0
    ]
    left = {series.stack: series for series in growing}
    holders = []
    containers = [(each, rate) for each in found["containers"] if (rate := rising(at, each["lengths"])) > 0]
    for container, items in sorted(containers, key=lambda pair: _trust(pair[0], users), reverse=True):
        ways = {users.way(_stack(frames)) for frames in container["allocatedAt"]} - {()}
        line = _keeping_line(container, users)
        if line is not None:
            ways.add((line,))
        claimed = [
            series for series in left.values() if users.way(series.stack) in ways or users.line(series.stack) == line
        ]
        for series in claimed:
            del left[series.stack]
        if line is None and claimed:
            line = users.line(max(claimed, key=lambda series: series.rate).stack)
        if line is not None:
            holders.append(_holder(line, claimed, users, container, items))
    by_line: dict[Frame, list[Series]] = defaultdict(list)
    for series in left.values():
        line = users.line(series.stack)
        if line is not None and not line[0].startswith(OURS):
            by_line[line].append(series)
    types = [each for each in found["types"] if rising(at, each["counts"]) > 0]
    return holders, [_typed(_holder(line, claimed, users), types, users) for line, claimed in by_line.items()]


def _by_way(stacks: Iterable[Mapping[str, Any]], users: Users) -> Iterator[Mapping[str, Any]]:
    """Stacks with the same lines of the user's as one, with the frames of the one that grows most.

    What a library keeps lies at many places of it: only their sum is seen to grow.
    """
    same: dict[Stack, list[Mapping[str, Any]]] = defaultdict(list)
    for each in stacks:
        stack = _stack(each["frames"])
        same[users.way(stack) or stack].append(each)
    for of in same.values():
        most = max(of, key=lambda each: each["bytes"][-1] - each["bytes"][0])
        yield {**most, "bytes": [sum(column) for column in zip(*(each["bytes"] for each in of), strict=True)]}


def most_first(holders: Iterable[Holder], measured_kib: float) -> list[Holder]:
    """One holder for each line, that with most first; those of almost nothing are left out."""
    found = sorted(_merged(holders), key=lambda each: -each.kib)
    least = max(LEAST_GROWTH_KIB, LEAST_GROWTH_SHARE * min(measured_kib, found[0].kib)) if found else 0.0
    return [each for each in found if each.kib >= least]


def rising(at: Sequence[int], values: Sequence[float]) -> float:
    """Growth per invocation, if it is steady; else 0. A series that is shorter began later, and was 0 before."""
    full = [0.0] * (len(at) - len(values)) + list(values)
    begin = min(int(len(at) * SKIPPED_SHARE), max(0, len(at) - LEAST_LOOKS))
    places, levels = at[begin:], full[begin:]
    if len(levels) < LEAST_LOOKS:
        return 0.0
    steps = [after - before for before, after in itertools.pairwise(levels)]
    half = len(levels) // 2
    falls = min(steps) < 0
    halves = (steps[:half], steps[half:])
    in_steps = not falls and min(sum(step > 0 for step in of) for of in halves) >= IN_EACH_HALF
    if sum(step > 0 for step in steps) < RISING_SHARE * len(steps) and not in_steps:
        return 0.0
    highest = itertools.accumulate(levels, max)
    if max(high - level for high, level in zip(highest, levels, strict=True)) > FALL_SHARE * (levels[-1] - levels[0]):
        return 0.0
    slope = theil_sen(levels, places).slope
    if in_steps and slope == 0:
        slope = (levels[-1] - levels[0]) / (places[-1] - places[0])
    later = (levels[-1] - levels[half]) / (places[-1] - places[half])
    return slope if later > STEADY_SHARE * slope else 0.0


def _stack(frames: Iterable[Sequence[Any]]) -> Stack:
    return tuple((str(file), int(line)) for file, line in frames)


def _trust(container: Mapping[str, Any], users: Users) -> tuple[bool, bool, int]:
    """Containers that tell most come first, and claim what they hold."""
    defined = container["definedAt"]
    return (
        defined is not None and users.is_theirs(tuple(defined)),
        bool(container["owner"]) and bool(container["grewAt"]),
        len(container["allocatedAt"]),
    )


def _keeping_line(container: Mapping[str, Any], users: Users) -> Frame | None:
    """Where a cached function is defined, or after which line the container was longer."""
    defined = container["definedAt"]
    if defined is not None and users.is_theirs(tuple(defined)):
        return defined[0], defined[1]
    if container["othersRan"] and not any(_in_handler(frames) for frames in container["allocatedAt"]):
        return None
    seen = max(container["grewAt"], key=lambda each: each[2], default=None)
    return (seen[0], seen[1]) if seen is not None else None


def _in_handler(frames: Sequence[Sequence[Any]]) -> bool:
    """Was the memory allocated in the thread that runs the handler?"""
    return any(Path(str(file)).name == TRACER for file, _ in frames)


def _holder(
    line: Frame, claimed: Sequence[Series], users: Users, container: Mapping[str, Any] | None = None, items: float = 0.0
) -> Holder:
    largest = max(claimed, key=lambda series: series.rate, default=None)
    stack: Stack = ()
    if largest is not None:
        way = users.way(largest.stack)
        stack = way if not largest.stack or way[-1:] == largest.stack[-1:] else (*way, largest.stack[-1])
    allocated = users.line(largest.stack) if largest is not None else None
    return Holder(
        file=line[0],
        line=line[1],
        kib=sum(series.rate for series in claimed) / 1024,
        kind=_kind(container),
        owner=container["owner"] if container else "",
        items=items,
        stack=stack,
        allocated=allocated if allocated != line else None,
        native=largest.native if largest is not None else (),
    )


def _typed(holder: Holder, types: Iterable[Mapping[str, Any]], users: Users) -> Holder:
    """With the class of the objects that the line makes, or a line that calls it, and who owns them.

    For what grows in no container: a chain of objects, a tree.
    """
    way = tuple(filter(users.is_theirs, holder.stack))
    for each in types:
        theirs = [users.way(_stack(frames)) for frames in each["allocatedAt"]]
        if any(stack and stack == way[: len(stack)] for stack in theirs):
            return replace(holder, kind=each["type"].rpartition(".")[2], owner=each["owner"])
    return holder


def _kind(container: Mapping[str, Any] | None) -> str:
    if container is None:
        return "Python object"
    names = [each.removeprefix("builtins.") for each in container["items"]]
    kind = "cache" if container["type"] == "_lru_cache_wrapper" else container["type"]
    if kind == "dict":
        names = names[1::2]  # a key, a value, a key ...
    most = max(set(names), key=names.count, default="")
    return f"{kind} of {most}" if most and kind != "cache" else kind


def _merged(holders: Iterable[Holder]) -> list[Holder]:
    """One holder for each line, or for each owner if no line was seen."""
    found: dict[tuple[Frame, str], Holder] = {}
    for each in sorted(holders, key=lambda each: -each.kib):
        place = (each.frame, "" if each.line else f"{each.kind} {each.owner}")
        first = found.get(place)
        found[place] = (
            each if first is None else replace(first, kib=first.kib + each.kib, owner=first.owner or each.owner)
        )
    return list(found.values())
