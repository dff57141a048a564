"""Records curves of real functions under the local Lambda with the sidecar attached. They are kept in `curves/`.

`python -m truemem_workbench.testing.drift.recorded [NAME...]` records them again in a quarter of an hour. Eight of them
need Node.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import time
from pathlib import Path

from ...analysis.drift import Point, points
from ...lines.line import Line, parse_event
from ...local import Function
from ..environment import SOURCE, Environment
from .functions import behave, real_calm, real_libraries, real_native, real_objects
from .kept import points_of, text_of

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

_MODULES = (real_calm, real_libraries, real_native, real_objects)
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
