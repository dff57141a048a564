"""The steps of a report's work, which may be done in any process: parts in, what is found in them out."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .counts import Counts
from .judging import Judged, judged, ordered
from .parts import Files, Key, Part, divided, merged, read_pieces

if TYPE_CHECKING:
    from ..support.terminal import Count
    from .store import Job, Loaded


def end_with_parent() -> None:
    """In a process of a pool: end when the process that has the pool does, also if that is killed. Python's own would
    wait for work for ever."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def wait() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


class Found(NamedTuple):
    """What was found in one part."""

    lines: int
    environments: list[Judged]
    counts: Counts


def judge_part(part: Part, by: str | None) -> Found:
    """Judge whole environments."""
    found, counts = ordered(part), Counts()
    counts.count(found, by)
    return Found(len(part.rows), list(judged(found, by)), counts)


def judge_files(paths: Sequence[Path], by: str | None) -> Found:
    """The same of a part that is in some files, which are removed."""
    return judge_part(merged(chain.from_iterable(map(read_pieces, paths))), by)


def read_files(
    files: Sequence[Path], job: Job, folder: Path, parts: int, cores: int = 0, read: Count = lambda _: None
) -> Loaded:
    """Read log files, and divide their lines into so many parts, as files in the folder. `cores`: on one of so many,
    with the same in other processes; 0: on all. Raises BadInput."""
    from .store import MEMORY_MIB, Store  # judging needs no DuckDB

    by: Key = "environment" if job.by is None else "request_key"
    folder.mkdir()
    threads, memory = (1, MEMORY_MIB // cores) if cores else (None, MEMORY_MIB)
    with Store(memory_mib=memory, threads=threads, folder=folder) as store, Files(folder) as made:
        for piece in store.read(files, job, read):
            for number, part in divided(piece, by, parts):
                made.add(number, part)
        return store.loaded


SEVERAL = "(several)"
_SEVERAL = 1
"""Its hash."""


def match_requests(part: Part, count: int) -> tuple[int, Iterator[tuple[int, Part]]]:
    """Give lines the value that the function said of their request, and divide them by environment. Also, how many
    requests have a value and no line."""
    requests, first, of = np.unique(part.said["request_key"], return_index=True, return_inverse=True)
    values = part.said["by_value"][first]
    values[of[part.said["by_value"] != values[of]]] = _SEVERAL
    rows = part.rows
    if len(requests):
        place = np.minimum(np.searchsorted(requests, rows["request_key"]), len(requests) - 1)
        rows = rows.replaced(by_value=np.where(requests[place] == rows["request_key"], values[place], 0))
    without = int((~np.isin(requests, rows["request_key"])).sum())
    made = part._replace(rows=rows, said=part.said[:0], words={**part.words, _SEVERAL: SEVERAL})
    return without, divided(made, "environment", count)
