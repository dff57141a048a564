"""The steps of a report's work, which may be done in any process: parts in, what is found in them out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .counts import Counts
from .judging import Judged, judged, ordered
from .parts import Part, divided, merged, read_pieces


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


def judge_file(path: Path, by: str | None) -> Found:
    """The same of a part that is in a file."""
    return judge_part(merged(read_pieces(path)), by)


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
