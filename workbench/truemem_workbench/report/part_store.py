"""A store of some of the lines: its rows travel to other stores as Parquet, which keeps DuckDB's types and is small."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ..support.untrusted_text import quoted
from .schema import COLUMNS, SAID
from .store import Store

_EMPTY = {
    "line": f"CREATE TABLE line AS SELECT * EXCLUDE (many, rest) FROM (SELECT {COLUMNS}) LIMIT 0",
    "said": f"CREATE TABLE said ({SAID})",
    "told": "CREATE TABLE told (request UUID, told VARCHAR)",
}
"""Tables that a step needs also where no row of theirs came."""


class PartStore(Store):
    """A store on one core of many."""

    def __init__(self) -> None:
        super().__init__(threads=1)

    def saved(self, query: str) -> bytes:
        """The rows of a query as Parquet."""
        path = self._folder / "saved.parquet"
        self._db.execute(f"COPY ({query}) TO {quoted(str(path))} (FORMAT parquet)")
        content = path.read_bytes()
        path.unlink()
        return content

    def divided(self, query: str) -> Iterator[tuple[int, bytes]]:
        """The rows of a query by its column `part`, which is left out. Only parts that have rows."""
        self._db.execute(f"CREATE OR REPLACE TEMP TABLE divided AS {query} ORDER BY part")
        for (part,) in self._db.execute("SELECT DISTINCT part FROM divided ORDER BY part").fetchall():
            yield part, self.saved(f"SELECT * EXCLUDE (part) FROM divided WHERE part = {part}")
        self._db.execute("DROP TABLE divided")

    @contextmanager
    def restoring(self) -> Iterator[Callable[[str, bytes], None]]:
        """Yield a function that takes a table's name and rows of it as Parquet. At the end all are in their tables."""
        found: dict[str, list[Path]] = {}

        def put(table: str, content: bytes) -> None:
            paths = found.setdefault(table, [])
            paths.append(self._folder / f"{table}-{len(paths)}.parquet")
            paths[-1].write_bytes(content)

        yield put
        for table in {**_EMPTY, **found}:
            paths = found.get(table, [])
            names = ", ".join(quoted(str(path)) for path in paths)
            self._db.execute(f"CREATE TABLE {table} AS FROM read_parquet([{names}])" if paths else _EMPTY[table])
            for path in paths:
                path.unlink()
