"""Makes columns of what lines say of their heap. Read as JSON, line by line, it took most of a report's time. Pure."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, cast

import numpy as np
from msgspec.structs import astuple
from numpy.typing import NDArray

from .document import HUGE_MIB
from .line import Heap, Rss

Column = NDArray[Any]

NAN = float("nan")
MALLOC = ("malloc_used", "malloc_held", "blocks", "small", "files")
"""What malloc has given out, Python's small objects with it, and what it holds free; Python's blocks, and what they
hold; the file pages of RSS. MiB, and a number of blocks."""
COLLECTED = ("used", "committed", "live", "limit", "external", "metaspace", "collections", "gc_ms")
"""What runtimes say that collect garbage; their columns have `heap_` before it."""
FIGURES = (*MALLOC, *(f"heap_{name}" for name in COLLECTED))
PYTHON = "python"
"""The runtime of a heap that names none."""


def heap_columns(heaps: Sequence[Heap | None], rss: Sequence[Rss], hash_of: Callable[[str], int]) -> dict[str, Column]:
    """Those of `parts.COLUMNS` that tell of heaps, of these members of lines; and `is_kept`: a heap says what is kept,
    or was read from outside, which few do. `hash_of` gives what stands for a runtime. What is no size is NaN."""
    count = len(heaps)
    made: dict[str, Column] = {name: np.full(count, NAN) for name in FIGURES}
    made |= {name: np.zeros(count, np.bool_) for name in ("has_malloc", "has_runtime", "is_kept")}
    made["runtime"] = np.zeros(count, np.uint64)
    are_all = heaps.count(None) == 0
    at = range(count) if are_all else [place for place, heap in enumerate(heaps) if heap is not None]
    if not at:
        return made
    fields = zip(*map(astuple, filter(None, heaps)), strict=True)
    said: dict[str, Sequence[Any]] = dict(zip(Heap.__struct_fields__, fields, strict=True))
    runtimes, sources = said.pop("runtime"), said.pop("source")
    said["files"] = [*map(attrgetter("file"), rss if are_all else [rss[place] for place in at])]
    given = np.array([*map(numbers, said.values())])
    sizes = dict(zip(said, np.where((given >= 0) & (given < HUGE_MIB), given, NAN), strict=True))
    is_outside, has_runtime = are(sources, "outside"), ~are(runtimes, None)
    # malloc is read from outside too seldom for a curve
    is_malloc = ~(is_outside | np.isnan(sizes["in_use"] + sizes["held"] + sizes["mapped"]))
    hashes = {each: hash_of(each or PYTHON) for each in set(runtimes)}
    of_each = np.array([hashes[each] for each in runtimes], np.uint64)
    found = {f"heap_{name}": sizes[name] for name in COLLECTED} | {
        "malloc_used": np.where(is_malloc, sizes["in_use"] + sizes["mapped"] + np.nan_to_num(sizes["small"]), NAN),
        "malloc_held": np.where(is_malloc, sizes["held"], NAN),
        **{name: sizes[name] for name in ("blocks", "small", "files")},
        "has_malloc": ~np.isnan(given[[*said].index("held")]),
        "has_runtime": has_runtime,
        "is_kept": is_outside | ~np.isnan(sizes["kept"]),
        "runtime": np.where(is_outside & ~has_runtime, np.uint64(0), of_each),
    }
    if are_all:
        return made | found
    for name, values in found.items():
        made[name][at] = values
    return made


def numbers(values: Sequence[float | None]) -> Column:
    """NaN for None. Of at least one."""
    if is_one(values):
        return np.full(len(values), NAN if values[0] is None else values[0])
    try:
        return np.frombuffer(array("d", cast("Sequence[float]", values)))
    except TypeError:  # for None numpy takes three times as long
        return np.frombuffer(array("d", [NAN if each is None else each for each in values]))


def is_one(values: Sequence[object]) -> bool:
    """Is it the same value on all lines, or on none? Most columns differ at their ends if they differ at all."""
    first, last = values[0], values[-1]
    return (first is last or first == last) and values.count(first) == len(values)


def are(values: Sequence[object], word: str | None) -> Column:
    """Which are this word, or not said."""
    count = values.count(word)
    if count in (0, len(values)):
        return np.full(len(values), count > 0)
    return np.array([each == word for each in values])
