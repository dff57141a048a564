"""Lines of the sidecar as columns: what is read in one place and judged in another, perhaps on another machine.

A part has some lines, all of an environment or of a request. It is small, is sent as it is, and is written to a file in
pieces where there is more than memory holds.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from .heap_columns import FIGURES

COLUMNS: dict[str, type[np.generic] | str] = {
    **dict.fromkeys(("environment", "request_key", "method", "failed", "by_value", "runtime"), np.uint64),
    "request": "S36",
    **dict.fromkeys(("invocation", "time_ms", "processes", "threads", "shared_by", "line_bytes"), np.float64),
    **dict.fromkeys(("held_by_extensions", *FIGURES), np.float64),
    **dict.fromkeys(("peak_rss", "current_rss", "max_memory_used", "peak_lower", "peak_upper"), np.float32),
    **dict.fromkeys(("opening_rss", "init_peak_rss", "memory_limit", "duration_ms", "cpu_ms"), np.float32),
    **dict.fromkeys(("billed_duration_ms", "function_holds", "sidecar_holds", "environment_used"), np.float32),
    **dict.fromkeys(("request_bytes", "payload"), np.float32),
    **dict.fromkeys(("ended", "exact", "out_of_memory", "begins", "raced", "recovered", "handler_error"), np.bool_),
    **dict.fromkeys(("may_repeat", "lost", "succeeded", "is_last", "has_malloc", "has_runtime"), np.bool_),
    "text": np.int64,
}
"""What is known of an invocation, with its type: fields of its `line.Line`, and what follows from them. NaN: not known.
`environment`, `request_key`, `method`, `failed`, `by_value` and `runtime` are hashes; of the last three 0 is none.
`is_last`: closed by the environment's end. `text`: its place in `Part.texts`, or -1."""
NO_REQUEST = b" " * 36


class Rows:
    """Columns of the same length. Of one that has the same value in all rows, only that is kept."""

    def __init__(self, count: int, columns: dict[str, NDArray[Any]]) -> None:
        self._count, self._columns = count, columns

    @classmethod
    def of(cls, columns: Mapping[str, NDArray[Any]]) -> Rows:
        """Of all COLUMNS."""
        typed = {name: np.asarray(columns[name], kind) for name, kind in COLUMNS.items()}
        for values in typed.values():
            if values.dtype.kind == "f" and np.isinf(values).any():
                values[np.isinf(values)] = np.nan
        return cls(
            len(typed["text"]), {name: values[:1] if _is_one(values) else values for name, values in typed.items()}
        )

    @classmethod
    def concatenated(cls, several: Sequence[Rows]) -> Rows:
        if len(several) == 1:
            return several[0]
        return cls.of({name: np.concatenate([rows[name] for rows in several]) for name in COLUMNS})

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, name: str) -> NDArray[Any]:
        values = self._columns[name]
        if len(values) == self._count:
            return values
        repeated: NDArray[Any] = np.ndarray(self._count, values.dtype, values, strides=(0,))
        repeated.flags.writeable = False  # as np.broadcast_to makes it, in a tenth of the time
        return repeated

    def take(self, places: NDArray[np.intp]) -> Rows:
        taken = {name: each[places] if len(each) == self._count else each for name, each in self._columns.items()}
        return Rows(len(places), taken)

    def replaced(self, **columns: NDArray[Any]) -> Rows:
        """With other values in some columns."""
        return Rows(self._count, {**self._columns, **columns})


def _is_one(values: NDArray[Any]) -> bool:
    """Is it the same value in all rows?"""
    if len(values) < 2 or not (values[0] == values[-1] or (values[0] != values[0] and values[-1] != values[-1])):
        return False
    return bool((values == values[0]).all() or (values.dtype.kind == "f" and np.isnan(values).all()))


SAID = np.dtype([("request_key", np.uint64), ("by_value", np.uint64)])
"""What the function said of one of its requests: for --by."""


class Name(NamedTuple):
    """Of an environment."""

    function: str
    version: str
    environment_id: str


class Part(NamedTuple):
    """Some lines."""

    rows: Rows
    names: dict[int, Name]
    """By the hash that stands for the environment."""
    texts: list[bytes]
    """What few lines have, as JSON with the members' names (`columns`)."""
    words: dict[int, str]
    """By their hashes."""
    said: NDArray[np.void]


Key = Literal["environment", "request_key"]


def merged(parts: Iterable[Part]) -> Part:
    """All of them in one."""
    rows: list[Rows] = []
    made = Part(Rows.of({name: np.empty(0) for name in COLUMNS}), {}, [], {}, np.empty(0, SAID))
    said = [made.said]
    for part in parts:
        text = part.rows["text"]
        rows.append(
            part.rows.replaced(text=np.where(text >= 0, text + len(made.texts), -1)) if part.texts else part.rows
        )
        said.append(part.said)
        made.texts.extend(part.texts)
        made.words.update(part.words)
        for key, name in part.names.items():
            made.names.setdefault(key, name)
    return made._replace(rows=Rows.concatenated(rows or [made.rows]), said=np.concatenate(said))


def divided(part: Part, by: Key, count: int) -> Iterator[tuple[int, Part]]:
    """Divide into so many parts, by the key: its number, and what is in it. Only those with anything in them."""
    said = _shares(part.said["request_key"], count)
    names = dict(zip(part.names, _shares(np.array(list(part.names), np.uint64), count).tolist(), strict=True))
    numbers = _shares(part.rows[by], count)
    order = np.argsort(numbers, kind="stable")
    edges = np.searchsorted(numbers[order], np.arange(count + 1)).tolist()
    for number in range(count):
        of_it = part.said[said == number]
        if edges[number] == edges[number + 1] and not len(of_it):
            continue
        rows = part.rows.take(order[edges[number] : edges[number + 1]])
        texts: list[bytes] = []
        if part.texts:
            text = rows["text"].copy()
            texts = [part.texts[at] for at in text[text >= 0].tolist()]
            text[text >= 0] = np.arange(len(texts))
            rows = rows.replaced(text=text)
        known = {key: name for key, name in part.names.items() if by != "environment" or names[key] == number}
        yield number, Part(rows, known, texts, part.words, of_it)


def _shares(keys: NDArray[np.uint64], count: int) -> NDArray[np.uint16]:
    """The part that a key is in: parts are in the order of their keys."""
    return ((keys >> np.uint64(32)) * np.uint64(count) >> np.uint64(32)).astype(np.uint16)


class Files:
    """Parts in files of a folder, written in pieces."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open: dict[int, IO[bytes]] = {}

    def add(self, number: int, piece: Any) -> None:
        if number not in self._open:
            self._open[number] = (self._folder / f"{number}.part").open("wb")
        pickle.dump(piece, self._open[number], protocol=5)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._open.values():
            file.close()


def in_order(folder: Path) -> list[list[Path]]:
    """The files of each part, in all folders in this one, in the order of the parts' numbers."""
    found: dict[int, list[Path]] = {}
    for path in sorted(folder.glob("*/*.part")):
        found.setdefault(int(path.stem), []).append(path)
    return [found[number] for number in sorted(found)]


def read_pieces(path: Path) -> Iterator[Any]:
    """The pieces that were added to one file, which is removed."""
    with path.open("rb") as file:
        path.unlink()
        while file.peek(1):
            yield pickle.load(file)  # of this run
