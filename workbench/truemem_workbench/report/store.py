"""Reads log files with DuckDB, on all cores and in bounded memory, and hands their lines on as columns (`parts`).

Python would be too slow for ten million lines. DuckDB and not Polars, because DuckDB writes to disk what exceeds a
given limit of memory, reads .gz itself, and is a third of the size.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import duckdb
import numpy as np

from ..lines.log_files import as_it_is, events, gzipped, kind_of, odd_lines
from ..lines.wrapped import Event, Unread, around, compact, inside, reason
from ..support.bad_input import BadInput
from ..support.terminal import Count
from ..support.untrusted_text import quoted
from .parts import SAID, Name, Part, Rows, Texts, merged
from .schema import (
    CHOSEN,
    COLUMNS,
    FETCHED,
    NAMED,
    OWN_LINES,
    OWN_VALUES,
    OWN_WORDS,
    REJECT_TABLES,
    REJECTED,
    TEXTS,
    WITHOUT_REQUEST,
    WORDS,
    found_in,
    own_lines_in,
    read_of,
    spread,
)


def plain_lines(events: Iterable[Event], unread: Unread, *, texts: bool) -> Iterator[tuple[bool, str]]:
    """The sidecar's lines inside these events, each with True. What is not read is added to `unread`.

    With `texts`, also all other JSON, each with False: for --by.
    """
    for event in events:
        for found in inside(event):
            if isinstance(found, str):
                continue
            if why := reason(found):
                unread[why] += 1
            else:
                yield True, compact(found)
        if texts:
            yield from ((False, each) for each in around(event))


MEMORY_MIB = 512
"""DuckDB's own memory limit."""
TOGETHER = 128
"""Most files, and bytes of files, that one statement reads."""
ROWS = 5_000
"""Lines that are taken out of the database at once, as text,"""
RANGE = 1 << 18
"""and as columns."""
LOOK_S = 0.2
"""Pause between two looks at how far a statement is."""
TOGETHER_BYTES = 1 << 27


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
    unread: Unread = field(default_factory=Unread)
    """Lines that look like the sidecar's but were not read, by reason (`truemem_workbench.lines.wrapped`)."""
    without_request_id: int = 0
    """Lines with the member of --by that say no request id."""

    def add(self, other: Loaded) -> None:
        self.lines += other.lines
        self.elsewhere += other.elsewhere
        self.unread += other.unread
        self.without_request_id += other.without_request_id


class Store:
    """Reads log files. As a context manager, it removes its folder at the end."""

    def __init__(self, *, memory_mib: int = MEMORY_MIB, threads: int | None = None, folder: Path | None = None) -> None:
        """Make the database. Raises BadInput if its folder cannot be in TMPDIR. `threads`: else all cores.
        `folder`: where its own is made, else in TMPDIR."""
        _check_temporary_folder()
        self._folder = Path(tempfile.mkdtemp(prefix="truemem-report-", dir=folder))
        self._db = duckdb.connect()
        self._db.execute(f"SET memory_limit='{memory_mib}MiB'")
        self._db.execute(f"SET temp_directory={quoted(str(self._folder / 'spill'))}")
        self._db.execute(f"SET threads={threads or os.cpu_count() or 1}")
        self._db.execute("SET preserve_insertion_order=false")
        self._db.execute("SET enable_progress_bar=true")  # it counts how far it is
        self._db.execute("SET enable_progress_bar_print=false")
        self.loaded = Loaded()
        """What has been read so far."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._db.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def read(self, files: Sequence[Path], job: Job, read: Count = lambda _: None) -> Iterator[Part]:
        """Read all files, once, and yield their lines in pieces. Raises BadInput for a file that cannot be read.

        `read` is called with the bytes that are read, also within a file.
        """
        unread = self.loaded.unread
        for group in _groups(files):
            self._db.execute(f"CREATE OR REPLACE TABLE found AS SELECT {COLUMNS} LIMIT 0")
            self._db.execute(f"CREATE OR REPLACE TABLE own_lines ({OWN_LINES})")
            if group.plain:
                self._read(group, job.by, read, unread)
            else:
                self._unwrap((event for path in group.files for event in events(path, read)), job.by, unread)
            self._unwrap(self._rest("found"), job.by, unread)
            if job.by is not None:
                self._unwrap(self._rest("own_lines"), job.by, unread=None)
            self._db.execute(f"INSERT INTO found {spread()}")
            yield from self._pieces(job)

    def _pieces(self, job: Job) -> Iterator[Part]:
        """The tables as columns."""
        chosen = {"since": job.since_ms or 0, "environment": job.environment or "", "function": job.function}
        everything = self._value("SELECT count(environment_id) FROM found WHERE many IS NULL")
        named = self._db.execute(f"{NAMED} WHERE {CHOSEN} GROUP BY 1", chosen).fetchall()
        names = {key: Name(*name) for key, *name in named}
        words = dict(self._db.execute(WORDS).fetchall())
        words |= dict(self._db.execute(OWN_WORDS).fetchall())
        found = self._db.execute(OWN_VALUES).fetchnumpy()
        said = np.empty(len(found["by_value"]), SAID)
        said["request_key"], said["by_value"] = found["request_key"], found["by_value"]
        self.loaded.without_request_id += self._value(WITHOUT_REQUEST)
        lines = 0
        last = self._value("SELECT max(rowid) FROM found")
        for first in range(0, 0 if last is None else last + 1, RANGE):
            where = f"FROM found WHERE rowid >= {first} AND rowid < {first + RANGE} AND {CHOSEN}"
            columns = self._db.execute(f"SELECT rowid, {FETCHED} {where}", chosen).fetchnumpy()
            told = self._db.execute(f"SELECT rowid, {TEXTS} {where} AND {_HAS_TEXT}", chosen).fetchall()
            rows = _rows_of(columns, [row[0] for row in told])
            lines += len(rows)
            yield Part(rows, names, [Texts(*row[1:]) for row in told], words, said)
            said = said[:0]
        if len(said):
            yield merged([])._replace(words=words, said=said)
        self.loaded.lines += lines
        self.loaded.elsewhere += everything - lines

    def _value(self, query: str) -> Any:
        row = self._db.execute(query).fetchone()
        return row[0] if row else None

    def _read(self, group: _Group, by: str | None, read: Count, unread: Unread) -> None:
        """Read files as they are. Raises BadInput."""
        places = {self._folder / f"{number}.log": path for number, path in enumerate(group.files)}  # without wildcards
        for place, path in places.items():
            place.symlink_to(path.resolve())
        statements = [f"INSERT INTO found {found_in(read_of(places, group.compressed, rejects=True))}"]
        if by is not None:
            statements.append(f"INSERT INTO own_lines {own_lines_in(read_of(places, group.compressed), by)}")
        size = sum(path.stat().st_size for path in group.files)
        try:
            for done, statement in enumerate(statements):
                with self._followed((size + done) // len(statements), read):
                    self._db.execute(statement)
        except (duckdb.IOException, duckdb.InvalidInputException) as error:
            names = ", ".join(str(path) for path in group.files[:3])
            raise BadInput(f"{names} cannot be read: {str(error).splitlines()[0]}") from error
        for (name,) in self._db.execute(REJECTED).fetchall():
            self._unwrap(odd_lines(places[Path(name)]), by, unread)
        for table in REJECT_TABLES:
            self._db.execute(f"DROP TABLE IF EXISTS {table}")
        for place in places:
            place.unlink()

    def _unwrap(self, found: Iterable[Event], by: str | None, unread: Unread | None) -> None:
        """Read the lines inside these events; without `unread`, only what is for --by."""
        lines, texts = self._folder / "lines.log", self._folder / "texts.log"
        with (
            lines.open("w", encoding="utf-8", errors="replace") as of_ours,
            texts.open("w", encoding="utf-8", errors="replace") as of_others,
        ):
            for ours, text in plain_lines(found, Unread() if unread is None else unread, texts=by is not None):
                (of_ours if ours else of_others).write(f"{text}\n")
        if unread is not None:
            self._db.execute(f"INSERT INTO found {found_in(read_of([lines], False))}")
        if by is not None:
            self._db.execute(f"INSERT INTO own_lines {own_lines_in(read_of([lines, texts], False), by)}")
        for place in (lines, texts):
            place.unlink()  # it takes room

    @contextmanager
    def _followed(self, size: int, read: Count) -> Iterator[None]:
        """Call `read` while a statement runs, by DuckDB's own count of how far it is."""
        reached_bytes = 0
        ended = threading.Event()

        def look() -> None:
            nonlocal reached_bytes
            while not ended.wait(LOOK_S):
                reached = int(size * min(max(self._db.query_progress(), 0.0), 100.0) / 100)
                if reached > reached_bytes:
                    read(reached - reached_bytes)
                    reached_bytes = reached

        watcher = threading.Thread(target=look, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join()
        read(size - reached_bytes)

    def _rest(self, table: str) -> Iterator[str]:
        """The lines in a table that are to be unwrapped."""
        cursor = self._db.cursor()
        cursor.execute(f"SELECT rest FROM {table} WHERE rest IS NOT NULL")
        while rows := cursor.fetchmany(ROWS):
            yield from (row[0] for row in rows)
        cursor.close()


def _check_temporary_folder() -> None:
    """Raise BadInput if DuckDB cannot use the folder: no `?` and `\\` in a path, and only UTF-8."""
    folder = tempfile.gettempdir()
    try:
        quoted(folder)
    except ValueError:
        usable = False
    else:
        usable = not set("?\\") & set(folder)
    if not usable:
        raise BadInput(f"DuckDB cannot use the temporary folder {folder}. Try TMPDIR=/tmp")


class _Group(NamedTuple):
    """Files that one statement reads."""

    files: list[Path]
    plain: bool
    """True if DuckDB reads them itself: one event per line, and not wrapped."""
    compressed: bool


def _groups(files: Sequence[Path]) -> Iterator[_Group]:
    """Group files: read in the same way, and not too many."""
    group = _Group([], False, False)
    size = 0
    for path in files:
        plain = as_it_is(path, kind_of(path))
        key = (plain, plain and gzipped(path))
        if group.files and (group[1:] != key or len(group.files) == TOGETHER or size > TOGETHER_BYTES):
            yield group
            size = 0
        group = _Group([*(group.files if size else ()), path], *key)
        size += max(1, path.stat().st_size)
    if group.files:
        yield group


_HAS_TEXT = f"coalesce({TEXTS}) IS NOT NULL"


def _rows_of(found: dict[str, Any], told: Sequence[int]) -> Rows:
    """The rows of these columns; `told` are the places in the table of those that have texts."""
    columns = {
        name: values.filled(np.nan if values.dtype.kind == "f" else 0)
        if isinstance(values, np.ma.MaskedArray)
        else values
        for name, values in found.items()
    }
    columns["request"] = np.frombuffer("".join(columns["request"].tolist()).encode(), "S36")
    columns["text"] = np.full(len(columns["request"]), -1)
    if told:
        order = np.argsort(columns["rowid"])
        columns["text"][order[np.searchsorted(columns["rowid"][order], told)]] = np.arange(len(told))
    return Rows.of(columns)
