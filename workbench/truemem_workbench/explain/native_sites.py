"""Which calls of malloc keep what grew, from the samples of a run. Pure."""

from __future__ import annotations

import itertools
import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any, NamedTuple, Protocol

from .attribution import LEAST_LOOKS, SKIPPED_SHARE, Frame, Holder, Stack, most_first, rising
from .symbols import NativeFrame
from .telling import keeps_nothing, telling

KIND = "native block"
CERTAIN = 3.0  # standard deviations of the samples by which a site must have grown
DOUBLES, DOUBLED = 1.5, 3  # times that a table is larger after it has grown, and how often it must have
EXCESS = 0.25  # share by which samples of a module may be above what the interpreter's tracer has left
TOLD = 0.5  # share of what a site has gained that the lines outside of it must tell
MOST_INNER = 8  # functions of libraries that are told below a site
GO_MAPS = "x_cgo_mmap"
"""What Go's runtime maps its heap with, where a program has C code (runtime/cgo/gcc_mmap.c): another tracer sees it."""
C_LIBRARIES = ("libc.so", "libc-", "libstdc++.", "libc++.", "libgcc_s.", "libm.", "libm-", "libpthread", "ld-")
"""Begins of the names of the libraries that ask for memory for others."""
LIBRARY_SOURCE = re.compile(
    r"/usr/(?!src/|local/src/)|/rustc/|/rust/deps/|.*/\.cargo/(?:registry|git)/|.*/rustlib/|.*/pkg/mod/|.*/go/src/"
    r"|.*(?:cgo-gcc-prolog|_cgo_\w+\.(?:go|c))$"
)
"""Sources of libraries that are compiled into a program: headers of C++, crates and modules from a registry."""
LIBRARY_FUNCTION = re.compile(
    r"(?:[\w: ]+ )?(?:std|__gnu_cxx|core|alloc|hashbrown)::|<?(?:alloc|core|std)::|<.* as (?:alloc|core|std)::"
    r"|__r(?:ust|g|dl)_|operator (?:new|delete)|_start\b|__libc_"
)
"""The same by their names, where there is no debug information."""
EXTENSION = re.compile(r"\.node$|\.cpython-[\w-]+\.so$|\.abi3\.so$|/(?:site|dist)-packages/")
"""Paths of modules that an interpreter loads, and of the libraries that these bring."""
SUFFIX = re.compile(r"\.(?:cpython-[\w-]+|abi3)?\.?so(?:\.\d+)*$|\.node$")


class Code(Protocol):
    """Which frames of a stack matter."""

    def is_theirs(self, frame: NativeFrame) -> bool: ...

    def shown(self, frame: NativeFrame) -> NativeFrame: ...

    def site(self, stack: Sequence[NativeFrame]) -> int: ...


def holders(found: Mapping[str, Any], measured_kib: float, code: Code) -> list[Holder]:
    """The lines that keep what grew, that with most of it first."""
    sites: dict[tuple[Frame, str], list[_Sampled]] = defaultdict(list)
    for each in found["stacks"]:
        frames = tuple(map(code.shown, each["frames"]))
        if (place := code.site(frames)) >= 0:
            named = frames[place]
            way = tuple(
                at for at in range(place + 1) if at == place or (frames[at].line and code.is_theirs(frames[at]))
            )
            sites[_frame(named), "" if named.line else named.function].append(_Sampled(each, frames, way))
    made = [holder for of in sites.values() for holder in _of_site(found["invocations"], of)]
    return most_first(made, measured_kib)


class _Sampled(NamedTuple):
    """A stack that was sampled."""

    found: Mapping[str, Any]
    frames: tuple[NativeFrame, ...]
    places: tuple[int, ...]
    """Places of the user's frames in it, up to the site."""

    @property
    def gain(self) -> float:
        return float(self.found["bytes"][-1] - self.found["bytes"][0])

    @property
    def way(self) -> Stack:
        return tuple(_frame(self.frames[at]) for at in self.places)


def _of_site(at: Sequence[int], stacks: Sequence[_Sampled]) -> Iterator[Holder]:
    """What is kept of what a site makes: by the site, or where some of its ways keep nothing by the line that tells.
    A way that only the first invocation took does not count: what is made once may stay."""
    growing = [each for each in stacks if each.gain > 0]
    whole = _rate(at, growing)
    if whole <= 0:
        return
    ways: dict[Stack, list[_Sampled]] = defaultdict(list)
    for each in stacks:
        ways[each.way].append(each)
    gained = sum(each.gain for each in growing)
    others = [
        way
        for way, of in ways.items()
        if not all(each.found["once"] for each in of) and not _rate(at, of) and keeps_nothing(_sum(of), gained)
    ]
    by_line: dict[Frame, list[_Sampled]] = defaultdict(list)
    for each in growing:
        if each.way not in others:
            by_line[each.way[telling(each.way, others)]].append(each)
    told = {line: (rate, of) for line, of in by_line.items() if (rate := _rate(at, of)) > 0}
    if sum(rate for rate, _ in told.values()) < TOLD * whole:  # each of them has too few samples
        yield _holder(growing, whole, ())
        return
    for rate, of in told.values():
        yield _holder(of, rate, others)


def _rate(at: Sequence[int], stacks: Sequence[_Sampled]) -> float:
    """Bytes per invocation by which these grow. They are judged together: each has few samples of its own. Where they
    do not grow together, those of them that do by themselves."""
    ways: dict[tuple[NativeFrame, ...], list[Mapping[str, Any]]] = defaultdict(list)
    for each in stacks:
        if each.gain > 0:
            ways[each.frames[: each.places[-1] + 1]].append(each.found)
    return grown(at, [each for of in ways.values() for each in of]) or sum(grown(at, of) for of in ways.values())


def _sum(stacks: Sequence[_Sampled]) -> list[float]:
    return [float(sum(column)) for column in zip(*(each.found["bytes"] for each in stacks), strict=True)]


def beside(found: Mapping[str, Any], code: Code, measured_kib: float, rest_kib: float) -> list[Holder]:
    """Code below a runtime that keeps what grew, as far as that can be part of the rest that the runtime's own tracer
    has not seen: what a module has told the interpreter of (numpy does) is no part of it."""
    return [each for each in holders(found, measured_kib, code) if each.kib < rest_kib * (1 + EXCESS)]


def grown(at: Sequence[int], stacks: Sequence[Mapping[str, Any]]) -> float:
    """Bytes per invocation by which these grow together; 0 if not steadily, or if the samples may have drawn it."""
    if not stacks:
        return 0.0
    series = [float(sum(column)) for column in zip(*(each["bytes"] for each in stacks), strict=True)]
    gain, deviation = series[-1] - series[0], math.sqrt(sum(each["variance"] for each in stacks))
    if gain <= CERTAIN * deviation:
        return 0.0
    return rising(at, series) or _doubling(at, series)


def _doubling(at: Sequence[int], series: Sequence[float]) -> float:
    """Bytes per invocation of a table that doubles when it is full, as those of C++ and Rust do: it grows seldom. 0 if
    it is none: it never falls, and has doubled three times, once in the later half at least."""
    steps = [(before, after) for before, after in itertools.pairwise(series) if before > 0]
    grew = [place for place, (before, after) in enumerate(steps) if after > before * DOUBLES]
    falls = any(after < before for before, after in steps)
    if falls or len(grew) < DOUBLED or grew[-1] < len(steps) // 2:
        return 0.0
    return float(series[-1] - series[0]) / (at[-1] - at[0])


def sampled_kib(found: Mapping[str, Any]) -> float:
    """KiB per invocation by which all that is sampled has grown, the looks at the begin left out."""
    at, series = found["invocations"], found["bytes"]
    begin = min(int(len(at) * SKIPPED_SHARE), max(0, len(at) - LEAST_LOOKS))
    return float((series[-1] - series[begin]) / (at[-1] - at[begin]) / 1024)


def _frame(frame: NativeFrame) -> Frame:
    return (frame.file, frame.line) if frame.line else (frame.module, 0)


def _holder(stacks: Sequence[_Sampled], rate: float, others: Sequence[Stack]) -> Holder:
    most = max(stacks, key=lambda each: each.gain)
    way, site = most.way, most.places[-1]
    named = most.frames[most.places[telling(way, others)]]
    file, line = _frame(named)[:2]
    inner = list(dict.fromkeys(each.function for each in most.frames[site + 1 :] if each.function))
    return Holder(
        file=file,
        line=line,
        kib=rate / 1024,
        kind=KIND,
        owner=_said(named, file, line),
        stack=tuple(each for each in way if each[1]),
        allocated=way[-1] if way[-1] != (file, line) else None,
        native=tuple(inner[:MOST_INNER]),
    )


def _said(frame: NativeFrame, file: str, line: int) -> str:
    """The function, with the module where that is an interpreter's, and its file does not tell it."""
    module = module_name(frame.module)
    if module and not line:
        return f"{module}: {frame.function}" if frame.function else module
    return frame.function


def module_name(path: str) -> str:
    """`lxml.etree`, of an extension module in a folder of packages; its file's name elsewhere. Empty for any other
    file."""
    if not EXTENSION.search(path):
        return ""
    parts = re.split(r"/(?:site|dist)-packages/", path)
    inside = SUFFIX.sub("", parts[-1] if len(parts) > 1 else PurePath(path).name)
    return inside.replace("/", ".") if len(parts) > 1 else inside


class Program:
    """The frames of a program: its own code is told, and that of libraries beside it."""

    def __init__(self, root: Path, path: Path) -> None:
        """`path` of the program."""
        self.path = path
        self._below, self._own = f"{root}/", str(path)

    def is_theirs(self, frame: NativeFrame) -> bool:
        """Is it the user's own code?"""
        if frame.module != self._own and not frame.module.startswith(self._below):
            return False
        if frame.line:
            return not LIBRARY_SOURCE.match(frame.file)
        return bool(frame.function) and not LIBRARY_FUNCTION.match(frame.function)

    def shown(self, frame: NativeFrame) -> NativeFrame:
        return frame

    def site(self, stack: Sequence[NativeFrame]) -> int:
        """The place of the frame that is named: the innermost of the user's, of those that have a line if there are
        any: what a library has compiled into the program has none. Where there is no frame of the user's, the innermost
        that does not belong to the libraries of C and C++; negative without any."""
        if any(each.function == GO_MAPS for each in stack):
            return -1
        theirs = [place for place, each in enumerate(stack) if self.is_theirs(each)]
        theirs = [place for place in theirs if stack[place].line] or theirs
        others = [place for place, each in enumerate(stack) if not _is_of_c(each)]
        return max(theirs or others, default=-1)

    def without_lines(self, found: Sequence[Holder]) -> list[str]:
        """A sentence for each file of the user's in which no line could be named."""
        files = {each.file for each in found if not each.line and each.file.startswith((self._below, self._own))}
        return [
            f"{PurePath(file).name} has no debug information: a build with -g (in Rust: debug = 1 in the profile) names"
            " the line too."
            for file in sorted(files)
        ]


class Modules:
    """The frames below an interpreter: those of modules that it has loaded are told, and of libraries that lie beside
    the handler. What it keeps itself it does for its own objects, which another tracer has seen."""

    def __init__(self, root: Path) -> None:
        self._below = f"{root}/"

    def is_theirs(self, frame: NativeFrame) -> bool:
        """Is it such a module?"""
        return bool(EXTENSION.search(frame.module)) or frame.module.startswith(self._below)

    def shown(self, frame: NativeFrame) -> NativeFrame:
        """Without its line, if that is of a source that is not beside the handler: of another machine, mostly."""
        return frame if frame.file.startswith(self._below) else frame._replace(file="", line=0)

    def site(self, stack: Sequence[NativeFrame]) -> int:
        """The place of the innermost frame, if it is a module's; else negative. Of its frames it is the innermost one
        whose line is not a header's, where there is one."""
        inner = max((place for place, each in enumerate(stack) if not _is_of_c(each)), default=-1)
        if inner < 0 or not self.is_theirs(stack[inner]):
            return -1
        module = stack[inner].module
        same = itertools.takewhile(lambda place: stack[place].module == module, range(inner, -1, -1))
        return next((at for at in same if stack[at].line and not LIBRARY_SOURCE.match(stack[at].file)), inner)


def _is_of_c(frame: NativeFrame) -> bool:
    return PurePath(frame.module).name.startswith(C_LIBRARIES)
