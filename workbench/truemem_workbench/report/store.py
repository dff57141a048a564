"""Keeps a fleet's lines in a DuckDB of its own: read on all cores, stored as columns on disk, in bounded memory.

Python would be too slow for ten million lines. DuckDB and not Polars, because DuckDB writes to disk what exceeds a
given limit of memory, reads .gz itself, and is a third of the size.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import duckdb

from ..lines.log_files import Kind, as_it_is, events, gzipped, kind_of
from ..support.bad_input import BadInput
from ..support.untrusted_text import quoted
from .schema import COLUMNS, INVOCATIONS, TOLD, found_in, read_of, spread, told_in

MEMORY_MIB = 512
"""DuckDB's own memory limit."""
BATCH = 250_000
"""Lines in a batch of whole environments."""
TOGETHER = 128
"""Most files, and bytes of files, that one statement reads."""
TOGETHER_BYTES = 1 << 28


@dataclass(frozen=True)
class Loaded:
    """Numbers of lines that were found."""

    lines: int
    """Lines of the sidecar in the chosen time, function and environments. One that may repeat another counts too."""
    elsewhere: int
    """Lines of the sidecar of another time, function or environment."""
    unreadable: int
    """Lines that look like the sidecar's but are not JSON: cut off, or damaged."""


class Store:
    """The lines of one report. As a context manager, it removes its folder at the end."""

    def __init__(self, *, memory_mib: int = MEMORY_MIB, batch: int = BATCH) -> None:
        """Make the database. Raises BadInput if its folder cannot be in TMPDIR."""
        _check_temporary_folder()
        self._batch = batch
        self._folder = Path(tempfile.mkdtemp(prefix="truemem-report-"))
        self._db = duckdb.connect(str(self._folder / "lines.duckdb"))
        self._db.execute(f"SET memory_limit='{memory_mib}MiB'")
        self._db.execute(f"SET temp_directory={quoted(str(self._folder / 'spill'))}")
        self._db.execute(f"SET threads={os.cpu_count() or 1}")
        self._db.execute("SET preserve_insertion_order=false")
        self._db.execute("SET enable_progress_bar=false")

    def __enter__(self) -> Store:
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
        read: Callable[[int], None] = lambda _: None,
    ) -> Loaded:
        """Read all files, once. Raises BadInput for a file that cannot be read.

        `by` is the member that tells requests apart. `read` is called with the bytes that are read.
        """
        self._db.execute(f"CREATE TABLE found AS SELECT {COLUMNS} LIMIT 0")
        self._db.execute("CREATE TABLE said (request UUID, told VARCHAR)")
        for number, group in enumerate(_groups(files)):
            paths = [self._readable(path, kind, f"{number}-{i}") for i, (path, kind) in enumerate(group.files)]
            source = read_of(paths, group.compressed)
            try:
                self._db.execute(f"INSERT INTO found {found_in(source)}")
                if by is not None:
                    self._db.execute(f"INSERT INTO said {told_in(source, by)}")
            except (duckdb.IOException, duckdb.InvalidInputException) as error:
                names = ", ".join(str(path) for path, _ in group.files[:3])
                raise BadInput(f"{names} cannot be read: {str(error).splitlines()[0]}") from error
            read(sum(path.stat().st_size for path, _ in group.files))
            for path in paths:
                path.unlink()  # what was spread out takes room
        self._db.execute(f"INSERT INTO found {spread()}")
        unreadable = self.value("SELECT count(*) FROM found WHERE NOT readable")
        everything = self.value("SELECT count(environment_id) FROM found WHERE many IS NULL")
        # sorted, an environment is a short stretch of every column
        self._db.execute(
            "CREATE TABLE line AS SELECT * EXCLUDE (many) FROM found WHERE contains(environment_id, $environment)"
            " AND many IS NULL AND (time_ms >= $since OR time_ms IS NULL)"
            " AND ($function IS NULL OR function = $function) ORDER BY environment",
            {"since": since_ms or 0, "environment": environment or "", "function": function},
        )
        self._db.execute("DROP TABLE found")
        self._db.execute(f"CREATE TABLE told AS {TOLD}")
        lines = self.value("SELECT count(*) FROM line")
        return Loaded(lines, everything - lines, unreadable)

    def batches(self) -> Iterator[int]:
        """Fill the table `batch` with whole environments, again and again until all are done. Yields its lines."""
        begin, lines = None, 0
        sizes = self._db.execute("SELECT environment, count(*) FROM line GROUP BY 1 ORDER BY 1").fetchall()
        for place, (environment, count) in enumerate(sizes):
            begin = environment if begin is None else begin
            lines += count
            if lines >= self._batch or place == len(sizes) - 1:
                self._db.execute(f"CREATE OR REPLACE TEMP TABLE batch AS {INVOCATIONS}", [begin, environment])
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

    def _readable(self, path: Path, kind: Kind, name: str) -> Path:
        """A file with one event per line, under a name without wildcards."""
        here = self._folder / f"{name}.log"
        if as_it_is(path, kind):
            here.symlink_to(path.resolve())
        else:
            with here.open("w", encoding="utf-8", errors="replace") as file:
                file.writelines(f"{event}\n" for event in events(path))
        return here


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

    files: list[tuple[Path, Kind]]
    compressed: bool


def _groups(files: Sequence[Path]) -> Iterator[_Group]:
    """Group files: compressed in the same way, and not too many."""
    group = _Group([], False)
    size = 0
    for path in files:
        kind = kind_of(path)
        compressed = gzipped(path) and as_it_is(path, kind)
        if group.files and (group.compressed != compressed or len(group.files) == TOGETHER or size > TOGETHER_BYTES):
            yield group
            size = 0
        group = _Group([*(group.files if size else ()), (path, kind)], compressed)
        size += max(1, path.stat().st_size)
    if group.files:
        yield group
