"""Reads log files, and hands their lines on as columns (`parts`), in bounded memory.

A line as the sidecar writes it is decoded in a fifth of the time of `json.loads`. One that is wrapped, or has many
invocations, is unwrapped and split before (`line.lines_in`), ten times as slowly.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from truemem.line_schema import SHORT

from ..support.terminal import Count
from .columns import columns_of, hash_of
from .document import version_in
from .line import NO_MEMBERS, Line, decode, decode_lines, lines_in
from .log_files import as_it_is, events, kind_of, raw_lines
from .opened import may_open, opened
from .own_lines import OwnLines
from .parts import Name, Part, Rows, merged
from .platform_lines import PlatformLines, Reports
from .wrapped import NAMES, Event, Unread, compact, inside, is_local

TOGETHER = 1_000
"""Lines that become columns at once: they are still in the processor's cache."""
RANGE = 1 << 16
"""Lines in a part."""
_ENVIRONMENT, _PEAK = (name.encode() for name in NAMES)


@dataclass(kw_only=True)
class Job:
    """What is asked for, as `truemem report` has it."""

    by: str | None = None
    """The member of other lines that tells requests apart."""
    since_ms: float | None = None
    environment: str | None = None
    """Only environments with this in their id."""
    function: str | None = None


@dataclass
class Loaded:
    """Numbers of lines that were found."""

    lines: int = 0
    """Lines of the sidecar in the chosen time, function and environments. One that may repeat another counts too."""
    elsewhere: int = 0
    """Lines of the sidecar of another time, function or environment."""
    functions: set[str] = field(default_factory=set)
    """Functions of which there are lines of the sidecar, asked for or not."""
    local: set[str] = field(default_factory=set)
    """Those of which the local Lambda has printed lines."""
    unread: Unread = field(default_factory=Unread)
    """Lines that look like the sidecar's but were not read, by reason (`truemem_workbench.printed.wrapped`)."""
    without_request_id: int = 0
    """Lines with the member of --by that say no request id."""
    reports: list[Reports] = field(default_factory=list)
    """What Lambda says of invocations itself."""

    def add(self, other: Loaded) -> None:
        self.lines += other.lines
        self.elsewhere += other.elsewhere
        self.functions |= other.functions
        self.local |= other.local
        self.unread += other.unread
        self.without_request_id += other.without_request_id
        self.reports += other.reports


class Reader:
    """Reads log files for one job."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._own = None if job.by is None else OwnLines(job.by)
        self._loaded = Loaded()
        self._platform = PlatformLines(job.function)
        self._begin_part()

    def _begin_part(self) -> None:
        self._lines: list[Line] = []
        self._sizes: list[int] = []
        self._columns: list[dict[str, NDArray[Any]]] = []
        self._rows = 0
        self._keys: dict[tuple[str, str | None], int] = {}
        self._names: dict[int, Name] = {}
        self._words: dict[int, str] = {}
        self._texts: list[bytes] = []

    @property
    def loaded(self) -> Loaded:
        """What has been read so far."""
        if self._own is not None:
            self._loaded.without_request_id = self._own.without_request
        return self._loaded

    def read(
        self, files: Iterable[Path], read: Count = lambda _: None, named: Mapping[Path, str] = MappingProxyType({})
    ) -> Iterator[Part]:
        """Read all files, once, and yield their lines in pieces. Raises BadInput for a file that cannot be read.

        `read` is called with the bytes that are read, also within a file. `named`: what files are called elsewhere.
        """
        for path in files:
            self._platform.begin_file(named.get(path, str(path)))
            if as_it_is(path, kind_of(path)):
                for block in raw_lines(path, read):
                    self._read(block)
                    yield from self._part(RANGE)
            else:
                for event in events(path, read):
                    if self._own is not None:
                        self._own.read_event(event)
                    self._platform.read_event(event)
                    self._unwrap(event)
                    yield from self._part(RANGE)
        yield from self._part(0)
        self._loaded.reports = [self._platform.taken()]

    def _read(self, block: bytes) -> None:
        """Read lines as they stand in a file. Most blocks have nothing but lines of ours."""
        try:
            lines = decode_lines(block)
        except (ValueError, RecursionError):
            lines = []
        ends = np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n"))
        is_ours = bool(lines) and len(lines) == len(ends)
        texts = [] if is_ours and self._own is None else block.split(b"\n")
        if not is_ours and may_open(whole := block.decode(errors="replace")):
            texts = [opened(text).encode(errors="replace") for text in whole.split("\n")]
            block = b"\n".join(texts)
        if (own := self._own) is not None:
            for text in filter(own.may_be_in, texts):
                own.read(text.decode(errors="replace"))
        if is_ours:
            self._lines += lines
            self._sizes += (np.diff(ends, prepend=-1) - 1 - block.endswith(b"\r\n")).tolist()
            self._platform.measured(lines)
        else:
            for text in texts:
                self._read_line(text)
            self._platform.read_block(block)

    def _read_line(self, text: bytes) -> None:
        if not _may_be_line(text):
            return
        of_line = _json_in(text)
        try:
            self._lines.append(line := decode(of_line))
            self._sizes.append(len(of_line))
            if is_local(text[: -len(of_line)].decode(errors="replace") + "{"):
                self._loaded.local.add(line.function or "")
        except (ValueError, RecursionError):
            self._unwrap(text.decode(errors="replace").rstrip("\r"))

    def _unwrap(self, event: Event) -> None:
        """Read what is inside an event, however it is wrapped."""
        is_of_local = is_local(event)
        for found in inside(event):
            lines = lines_in(found, self._loaded.unread)
            self._loaded.local.update(line.function or "" for line in lines if is_of_local)
            for line in lines:
                line.members = NO_MEMBERS
                self._lines.append(line)
            if lines:
                size = len(compact(found).encode(errors="replace")) // len(lines)
                self._sizes += [size] * len(lines)

    def _part(self, most: int) -> Iterator[Part]:
        """What has been read, if these are more lines."""
        if len(self._lines) >= (TOGETHER if most else 1):
            self._make_columns()
        own = self._own
        if max(self._rows, len(own.said) if own else 0) <= most:
            return
        part = merged([])
        if self._rows:
            names = self._columns[0]
            rows = Rows.of({name: np.concatenate([each[name] for each in self._columns]) for name in names})
            there = np.unique(rows["environment"]).tolist()
            part = Part(rows, {key: self._names[key] for key in there}, self._texts, self._words, part.said)
        if own is not None:
            part.words.update(own.words)
            part = part._replace(said=own.taken())
        self._loaded.lines += self._rows
        self._begin_part()
        yield part

    def _make_columns(self) -> None:
        """Of the lines that were read; those that are not asked for are counted."""
        known = len(self._keys)
        columns = columns_of(self._lines, self._key_of, self._words, self._texts)
        columns["line_bytes"] = np.array(self._sizes, float)
        for key in islice(self._keys.values(), known, None):
            self._names[key] = _name_of(self._lines[int(np.argmax(columns["environment"] == key))])
        is_chosen = columns["environment"] > 0
        if self._job.since_ms is not None:
            is_chosen &= ~(columns["time_ms"] < self._job.since_ms)
        if not is_chosen.all():
            columns = {name: values[is_chosen] for name, values in columns.items()}
            self._loaded.elsewhere += int((~is_chosen).sum())
        count = len(columns["environment"])
        if count:
            self._columns.append(columns)
            self._rows += count
        self._lines, self._sizes = [], []

    def _key_of(self, function: str, environment: str) -> int:
        """What stands for an environment; 0 if that is not asked for."""
        known = self._keys.get((function, environment))
        if known is not None:
            return known
        self._loaded.functions.add(function)
        job = self._job
        is_asked_for = (job.environment or "") in environment and job.function in (None, function)
        key = self._keys[function, environment] = hash_of(f"{function}\0{environment}") if is_asked_for else 0
        return key


def _may_be_line(text: bytes) -> bool:
    return _ENVIRONMENT in text or _PEAK in text or b'"MESSAGE":null' in text


def _json_in(text: bytes) -> bytes:
    """The JSON at the end of a line; empty if another line, in quotes, is before it."""
    begin = text.find(b'{"')  # not Loki's labels, {job="x"}
    return text[begin:].rstrip(b"\r") if begin >= 0 and _ENVIRONMENT not in text[:begin] else b""


def _name_of(line: Line) -> Name:
    version = line.function_version or (version_in(line.environment) if line.schema == SHORT else None)
    return Name(line.function or "", version or "", line.environment)
