"""The steps of a report's work, which may be done in any process: parts in, what is found in them out."""

from __future__ import annotations

import gc
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..printed.parts import Files, Key, Part, divided, merged, read_pieces
from ..printed.reader import Job, Loaded, Reader
from ..support.exit_codes import ENDING
from .counts import Counts
from .judging import Judged, judged, ordered

if TYPE_CHECKING:
    from ..support.terminal import Count


MANY_OBJECTS = 100_000
"""New objects from which on garbage is collected: lines become many, and no garbage of them is cyclic."""


def collect_seldom() -> None:
    """In a process that reads or judges lines."""
    gc.freeze()  # else each collection would look at all that was imported
    gc.set_threshold(MANY_OBJECTS)


def begin_in_pool() -> None:
    """In a process of a pool: end at a signal, and when the process that has the pool does, also if that is killed.
    Python's own would wait for work for ever."""
    for number in ENDING:
        signal.signal(number, signal.SIG_DFL)
    collect_seldom()
    import multiprocessing

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
    return Found(len(part.rows), list(judged(found)), counts)


def judge_files(paths: Sequence[Path], by: str | None) -> Found:
    """The same of a part that is in some files, which are removed."""
    return judge_part(merged(chain.from_iterable(map(read_pieces, paths))), by)


def read_files(files: Sequence[Path], job: Job, folder: Path, parts: int, read: Count = lambda _: None) -> Loaded:
    """Read log files, and divide their lines into so many parts, as files in the folder. Raises BadInput."""
    by: Key = "environment" if job.by is None else "request_key"
    folder.mkdir()
    reader = Reader(job)
    with Files(folder) as made:
        for piece in reader.read(files, read):
            for number, part in divided(piece, by, parts):
                made.add(number, part)
    return reader.loaded


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
