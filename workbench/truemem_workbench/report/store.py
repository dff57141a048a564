"""Keeps a fleet's lines in a DuckDB of its own: read on all cores, stored as columns on disk, in bounded memory.

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

from ..lines.log_files import as_it_is, events, gzipped, kind_of, odd_lines
from ..lines.wrapped import Event, Unread, around, compact, inside, reason
from ..support.bad_input import BadInput
from ..support.terminal import Count
from ..support.untrusted_text import quoted
from .schema import (
    COLUMNS,
    INVOCATIONS,
    OWN_LINES,
    REJECT_TABLES,
    REJECTED,
    REQUEST_VALUES,
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
BATCH = 250_000
"""Lines in a batch of whole environments."""
TOGETHER = 128
"""Most files, and bytes of files, that one statement reads."""
ROWS = 5_000
"""Lines that are taken out of the database at once."""
LOOK_S = 0.2
"""Pause between two looks at how far a statement is."""
TOGETHER_BYTES = 1 << 28


@dataclass(frozen=True)
class Loaded:
    """Numbers of lines that were found."""

    lines: int
    """Lines of the sidecar in the chosen time, function and environments. One that may repeat another counts too."""
    elsewhere: int
    """Lines of the sidecar of another time, function or environment."""
    unread: Unread = field(default_factory=Unread)
    """Lines that look like the sidecar's but were not read, by reason (`truemem_workbench.lines.wrapped`)."""


class Store:
    """The lines of one report. As a context manager, it removes its folder at the end."""

    def __init__(self, *, memory_mib: int = MEMORY_MIB, batch: int = BATCH, threads: int | None = None) -> None:
        """Make the database. Raises BadInput if its folder cannot be in TMPDIR. `threads`: else all cores."""
        _check_temporary_folder()
        self._batch = batch
        self._folder = Path(tempfile.mkdtemp(prefix="truemem-report-"))
        self._db = duckdb.connect(str(self._folder / "lines.duckdb"))
        self._db.execute(f"SET memory_limit='{memory_mib}MiB'")
        self._db.execute(f"SET temp_directory={quoted(str(self._folder / 'spill'))}")
        self._db.execute(f"SET threads={threads or os.cpu_count() or 1}")
        self._db.execute("SET preserve_insertion_order=false")
        self._db.execute("SET checkpoint_threshold='1TB'")  # it is for this report alone: nothing is to be recovered
        self._db.execute("SET enable_progress_bar=true")  # it counts how far it is
        self._db.execute("SET enable_progress_bar_print=false")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._db.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def load(
        self,
        files: Sequence[Path],
        *,
        since_ms: float | None = None,
        environment: str | None = None,
        function: str | None = None,
        by: str | None = None,
        read: Count = lambda _: None,
    ) -> Loaded:
        """Read all files, once. Raises BadInput for a file that cannot be read.

        `by` is the member that tells requests apart. `read` is called with the bytes that are read, also within a file.
        """
        unread = Unread()
        self._db.execute(f"CREATE TABLE found AS SELECT {COLUMNS} LIMIT 0")
        self._db.execute(f"CREATE TABLE own_lines ({OWN_LINES})")
        for group in _groups(files):
            if group.plain:
                self._read(group, by, read, unread)
            else:
                self._unwrap((event for path in group.files for event in events(path, read)), by, unread)
        self._unwrap(self._rest("found"), by, unread)
        if by is not None:
            self._unwrap(self._rest("own_lines"), by, unread=None)
        self._db.execute(f"INSERT INTO found {spread()}")
        everything = self.value("SELECT count(environment_id) FROM found WHERE many IS NULL")
        # sorted, an environment is a short stretch of every column
        self._db.execute(
            "CREATE TABLE line AS SELECT * EXCLUDE (many, rest) FROM found WHERE contains(environment_id, $environment)"
            " AND many IS NULL AND (time_ms >= $since OR time_ms IS NULL)"
            " AND ($function IS NULL OR function = $function) ORDER BY environment",
            {"since": since_ms or 0, "environment": environment or "", "function": function},
        )
        self._db.execute("DROP TABLE found")
        self._db.execute(f"CREATE TABLE request_values AS {REQUEST_VALUES}")
        lines = self.value("SELECT count(*) FROM line")
        return Loaded(lines, everything - lines, unread)

    def batches(self) -> Iterator[int]:
        """Fill the table `batch` with whole environments, again and again until all are done. Yields its lines."""
        begin, lines = None, 0
        sizes = self._db.execute("SELECT environment, count(*) FROM line GROUP BY 1 ORDER BY 1").fetchall()
        for place, (environment, count) in enumerate(sizes):
            begin = environment if begin is None else begin
            lines += count
            if lines >= self._batch or place == len(sizes) - 1:
                self._db.execute(
                    f"CREATE OR REPLACE TEMP TABLE batch AS {INVOCATIONS}", {"first": begin, "last": environment}
                )
                yield lines
                begin, lines = None, 0

    def execute(self, statement: str) -> None:
        self._db.execute(statement)

    def rows(self, query: str) -> list[dict[str, Any]]:
        result = self._db.execute(query)
        names = [column[0] for column in result.description or ()]
        return [dict(zip(names, row, strict=True)) for row in result.fetchall()]

    def columns(self, query: str) -> dict[str, Any]:
        """The result as masked or plain numpy arrays, by name."""
        return self._db.execute(query).fetchnumpy()

    def value(self, query: str) -> Any:
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
