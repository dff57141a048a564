"""Records curves of real functions under the local Lambda with the sidecar attached. They are kept in `curves/`.

`python -m testing.drift.recorded [NAME...]` records them again in a quarter of an hour. Eight of them need Node.

Long curves are kept as columns of small numbers, each the difference from the one before:
{"pages": [4100, 3, [12], -1], "peak": [...], "ms": [...], "uncertain": [17]}: a list of one number stands for so many
zeros. `pages` and `ms` are differences, `peak` is how far each peak lies above its own `pages`. `uncertain` has the
invocations that are not certain.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, groupby, pairwise
from pathlib import Path

from truemem_workbench.judge.drift import Point, points
from truemem_workbench.local import Function
from truemem_workbench.printed.line import Line, parse_event

from ..environment import SOURCE, Environment
from .compositions import PAGE_KIB
from .functions import behave, real_native, real_python

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


FOLDER = Path(__file__).with_name("curves")
FUNCTIONS = Path(__file__).with_name("functions")
NODE = "Node"
INVOCATIONS = 300

LABELS = {
    "steady": ("stable",),
    "python list": ("growing",),
    "C level": ("growing",),
    "lru_cache": ("plateau", "warming"),
    "arenas": ("plateau",),
    "one spike": ("spiky",),
    "model swap": ("warming",),
    "cycles": ("warming",),
    NODE: ("warming",),
}
"""The right verdicts for each function after 300 invocations. Where it moves by tens of MiB, that is too early: a leak
of many KiB per invocation could hide in the movement."""

_MODULES = (real_native, real_python)
_NODE_REAL = {
    "Node, listeners": True,
    "Node, map": True,
    "Node, timers": True,
    "Node, buffers": True,
    "Node, bounded map": False,
    "Node, garbage": False,
    "Node, buffer pool": False,
}
_FILE = {name: module.__name__.split(".")[-1] for module in _MODULES for name in (*module.LEAKS, *module.CALM)}
REAL = {
    **{name: True for module in _MODULES for name in module.LEAKS},
    **{name: False for module in _MODULES for name in module.CALM},
    **_NODE_REAL,
}
"""Whether each program leaks, as its code tells. No threshold may be chosen by their curves."""
REAL_INVOCATIONS = 2000
KIB = {
    "log handlers": 12.0,
    "dictionary, 1 of 10": 8.0,
    "event listeners": 10.0,
    "exceptions": 18.0,
    "method cache": 18.0,
    "generators": 20.0,
    "asyncio tasks": 15.0,
    "garbage and leak": 10.0,
    "malloc, late": 6.0,
    "mapped": 18.0,
    "sockets": 8.0,
    "numpy views": 40.0,
    "Node, buffers": 16.0,
}
"""What a leak keeps per invocation in the mean, where its code says so. (`malloc, late` begins at the 200th.)"""


def run(name: str, invocations: int | None = None) -> list[Line]:
    """Run a function and return its lines."""
    if invocations is None:
        invocations = REAL_INVOCATIONS if name in REAL else INVOCATIONS
    with Environment(
        function_of(name),
        sidecar=SOURCE,
        environment={"BEHAVIOUR": name},
        memory_mib=512,
        exact=True,  # curves are about the function: every reading is to be certain
    ) as environment:
        for number in range(invocations):
            made = environment.local.invoke({"n": number})
            assert made.function_error is None, made.payload
        environment.local.stop()
        return [line for text in environment.local.extension_stdout(environment.name) for line in parse_event(text)]


def function_of(name: str) -> Function:
    """The program of this name, for the local Lambda; its variable BEHAVIOUR has the name as well."""
    if name == NODE or name in _NODE_REAL:
        return Function.from_spec(str(FUNCTIONS / ("node_real" if name in _NODE_REAL else "node_bootstrap")))
    if name not in REAL:
        return Function.from_handler(f"{FUNCTIONS / 'behave.py'}:handler")
    # modules of a package: they import from each other
    handler = f"{FUNCTIONS.name}.{_FILE[name]}.handler"
    made = Function.from_handler(f"{FUNCTIONS / _FILE[name]}.py:handler")
    needs = (*made.needs, *FUNCTIONS.glob("*.py"))
    command = (*made.command[:-1], handler)
    return dataclasses.replace(made, command=command, task_root=FUNCTIONS.parent, handler=handler, needs=needs)


def file_of(name: str) -> Path:
    """File of its recorded lines."""
    return (FOLDER / "real" if name in REAL else FOLDER) / f"{name.replace(',', '').replace(' ', '-')}.json"


def stored(name: str) -> list[Point]:
    """The recorded lines."""
    text = file_of(name).read_text()
    if name in REAL:
        return points_of(text)
    return [
        Point(number, float(time), float(current), float(peak), bool(certain))
        for number, time, current, peak, certain in json.loads(text)["points"]
    ]


def main(names: list[str]) -> None:
    """Record them, one after another."""
    assert set(behave.BEHAVIOURS) | {NODE} == set(LABELS)
    (FOLDER / "real").mkdir(parents=True, exist_ok=True)
    names = names or [*LABELS, *REAL]
    for number, name in enumerate(names, start=1):
        begun = time.monotonic()
        seen = points(run(name))
        text = text_of(seen) if name in REAL else _rows(seen)
        file_of(name).write_text(text)
        first, *_, last = [p.current_kib for p in seen if p.certain]
        uncertain = sum(not p.certain for p in seen)
        print(
            f"{number} of {len(names)}, {name}: {len(seen)} invocations in {time.monotonic() - begun:.0f} s, "
            f"{first / 1024:.1f} to {last / 1024:.1f} MiB, {uncertain} uncertain, {len(text) / 1000:.0f} kB",
            flush=True,
        )


def _rows(seen: list[Point]) -> str:
    begun = seen[0].time_ms
    rows = [
        [p.invocation, round(p.time_ms - begun), round(p.current_kib), round(p.peak_kib or 0), int(p.certain)]
        for p in seen
    ]
    kept = {"columns": ["invocation", "ms", "currentKiB", "peakKiB", "certain"], "points": rows}
    return json.dumps(kept, separators=(",", ":")) + "\n"


if __name__ == "__main__":
    main(sys.argv[1:])
