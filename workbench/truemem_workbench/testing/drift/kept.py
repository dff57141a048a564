"""The form in which long curves are kept: columns of small numbers, each the difference from the one before.

{"pages": [4100, 3, [12], -1], "peak": [...], "ms": [...], "uncertain": [17]}: a list of one number stands for so many
zeros. `pages` and `ms` are differences, `peak` is how far each peak lies above its own `pages`. `uncertain` has the
invocations that are not certain.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, groupby, pairwise

from ...analysis.drift import Point
from .compositions import PAGE_KIB

Column = list[int | list[int]]


def text_of(points: Sequence[Point]) -> str:
    """Keep points of one life, numbered from 1. Memory is rounded to pages, time to milliseconds after the first."""
    assert [point.invocation for point in points] == list(range(1, len(points) + 1))
    pages = [round(point.current_kib / PAGE_KIB) for point in points]
    peaks = [round((point.current_kib if point.peak_kib is None else point.peak_kib) / PAGE_KIB) for point in points]
    ms = [round(point.time_ms - points[0].time_ms) for point in points]
    columns = {
        "pages": _shortened(_differences(pages)),
        "peak": _shortened(peak - page for peak, page in zip(peaks, pages, strict=True)),
        "ms": _shortened(_differences(ms)),
        "uncertain": [point.invocation for point in points if not point.certain],
    }
    return json.dumps(columns, separators=(",", ":")) + "\n"


def points_of(text: str) -> list[Point]:
    """The points that were kept. The first is at 0 ms."""
    columns = json.loads(text)
    pages = list(accumulate(_whole(columns["pages"])))
    above = _whole(columns["peak"])
    ms = accumulate(_whole(columns["ms"]))
    uncertain = frozenset(columns["uncertain"])
    return [
        Point(number, float(at), float(page * PAGE_KIB), float((page + more) * PAGE_KIB), number not in uncertain)
        for number, (page, more, at) in enumerate(zip(pages, above, ms, strict=True), start=1)
    ]


def _differences(numbers: Sequence[int]) -> list[int]:
    """The first number, then how much each differs from the one before."""
    return [*numbers[:1], *(after - before for before, after in pairwise(numbers))]


def _shortened(numbers: Iterable[int]) -> Column:
    made: Column = []
    for number, run in groupby(numbers):
        same = list(run)
        made += [[len(same)]] if number == 0 and len(same) > 1 else same
    return made


def _whole(column: Column) -> Iterator[int]:
    for number in column:
        yield from [0] * number[0] if isinstance(number, list) else [number]
