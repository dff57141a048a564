"""The report's work in parts that many machines do at the same time, and that together are `collect`.

`read` takes some of the files, and divides their lines by environment; `judge_part` judges the whole environments of
one part; `gather` makes the report of all. With --by, `match` comes between: it finds what the function said of a
request, which may stand in another file than the sidecar's line. Each part has a DuckDB of its own, with the SQL and
the functions of the report on one machine, so both say the same. Between them lines travel as Parquet.

Who carries the pieces does not matter: `truemem_workbench.report.spark` lets Spark do it.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ..support.bad_input import BadInput
from .collect import Prices, report_of
from .judging import Judged, here, judged
from .part_store import PartStore
from .peak_percentiles import TABLES, count, left_out
from .schema import TOLD
from .store import Loaded
from .summary import LeftOut, Report

BY_ENVIRONMENT = "((environment >> 32) * {parts}) >> 32"
"""The part of a line: environments in the order of their keys. The key is a hash of 64 bits."""
BY_REQUEST = "((hash(request) >> 32) * {parts}) >> 32"
_PART_OF_TOLD = f"SELECT DISTINCT told.*, {BY_ENVIRONMENT} AS part FROM told JOIN line USING (request)"


@dataclass(frozen=True, kw_only=True)
class Job:
    """What is asked for, as `truemem report` has it."""

    parts: int
    """Parts that the environments are divided into. A part is in one place while it is judged."""
    by: str | None = None
    since_ms: float | None = None
    environment: str | None = None
    function: str | None = None


class Piece(NamedTuple):
    """What one step has for another."""

    part: int
    kind: str
    """A table of the store; or `loaded`, `left out`, `judged`, `refused`."""
    content: Any
    """Rows as Parquet; or a Loaded, a LeftOut, a list of Judged, the reason why a file was refused."""


File = tuple[str, Iterable[bytes]]
"""A file's name, and what is in it, in any number of pieces."""


def read(files: Iterable[File], job: Job) -> Iterator[Piece]:
    """Read some of the files, and divide their lines into parts: by environment, with --by by request.

    A file that cannot be read becomes a piece: as an error, it would be tried again on another machine.
    """
    with tempfile.TemporaryDirectory(prefix="truemem-report-") as folder, PartStore() as store:
        names: dict[Path, str] = {}
        for number, (name, content) in enumerate(files):
            path = Path(folder) / f"{number}.log"
            names[path] = name
            with path.open("wb") as file:
                file.writelines(content)
        if not names:
            return
        try:
            loaded = store.load(
                list(names), since_ms=job.since_ms, environment=job.environment, function=job.function, by=job.by
            )
        except BadInput as error:
            text = str(error)
            for path, name in names.items():
                text = text.replace(str(path), name)
            yield Piece(0, "refused", text)
            return
        yield Piece(0, "loaded", loaded)
        if job.by is None:
            yield from _divided(store, "line", f"SELECT *, {BY_ENVIRONMENT} AS part FROM line", job)
            return
        yield from _divided(store, "line", f"SELECT *, {BY_REQUEST} AS part FROM line", job)
        yield from _divided(store, "said", f"SELECT *, {BY_REQUEST} AS part FROM said WHERE told IS NOT NULL", job)


def match(pieces: Iterable[Piece], job: Job) -> Iterator[Piece]:
    """Find what was said of the requests of one part, and divide its lines by environment. Only with --by."""
    with PartStore() as store:
        yield from _restored(store, pieces)
        store.execute(f"CREATE OR REPLACE TABLE told AS {TOLD}")
        yield Piece(0, "left out", left_out(store))
        yield from _divided(store, "line", f"SELECT *, {BY_ENVIRONMENT} AS part FROM line", job)
        yield from _divided(store, "told", _PART_OF_TOLD, job)


def judge_part(pieces: Iterable[Piece], job: Job) -> Iterator[Piece]:
    """Judge the environments of one part."""
    with PartStore() as store:
        yield from _restored(store, pieces)
        if not store.value("SELECT count(*) FROM line"):
            return
        for _ in store.batches():
            yield Piece(0, "judged", list(judged(store, job.by, here)))
            count(store, job.by)
        for table in TABLES:
            yield Piece(0, table, store.saved(f"FROM {table}"))


def gather(pieces: Iterable[Piece], job: Job, prices: Prices) -> tuple[Loaded, Report | None]:
    """Make the report of all parts; None if there is no line. Raises BadInput if a file was refused."""
    with PartStore() as store:
        (*others,) = _restored(store, pieces)
        refused = sorted(piece.content for piece in others if piece.kind == "refused")
        if refused:
            raise BadInput(refused[0])
        loaded = _added([piece.content for piece in others if piece.kind == "loaded"])
        if not loaded.lines:
            return loaded, None
        found: list[Judged] = sorted(
            (each for piece in others if piece.kind == "judged" for each in piece.content), key=lambda each: each.key
        )
        missing: list[LeftOut] = [piece.content for piece in others if piece.kind == "left out"]
        without = None
        if job.by is not None:
            without = LeftOut(
                without_request_id=sum(each.without_request_id for each in missing),
                without_line=sum(each.without_line for each in missing),
            )
        return loaded, report_of(store, found, loaded, job.by, without, prices)


def _added(loaded: Iterable[Loaded]) -> Loaded:
    lines = elsewhere = 0
    unread: Counter[str] = Counter()
    for each in loaded:
        lines += each.lines
        elsewhere += each.elsewhere
        unread += each.unread
    return Loaded(lines, elsewhere, unread)


def _divided(store: PartStore, kind: str, query: str, job: Job) -> Iterator[Piece]:
    """The rows of a query, one piece for each `part` that it names."""
    for part, content in store.divided(query.format(parts=job.parts)):
        yield Piece(part, kind, content)


def _restored(store: PartStore, pieces: Iterable[Piece]) -> Iterator[Piece]:
    """Put all rows back into tables. Yields the pieces that are none."""
    with store.restoring() as put:
        for piece in pieces:
            if isinstance(piece.content, bytes):
                put(piece.kind, piece.content)
            else:
                yield piece
