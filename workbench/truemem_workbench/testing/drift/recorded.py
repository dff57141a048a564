"""Records curves of real functions under the local Lambda with the sidecar attached. They are kept in `curves/`.

`python -m truemem_workbench.testing.drift.recorded [NAME...]` records them again in three minutes. Three of them need
Node.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from ...analysis.drift import Point, points
from ...lines.line import Line, parse_event
from ...local import Function
from ..environment import SOURCE, Environment
from .functions import behave, behave_held_out
from .synthetic import INVOCATIONS

FOLDER = Path(__file__).with_name("curves")
FUNCTIONS = Path(__file__).with_name("functions")
NODE = "Node"
NODE_HELD_OUT = ("Node, bounded map", "Node, listeners")

LABELS = {
    "steady": ("stable",),
    "python list": ("growing",),
    "C level": ("growing",),
    "lru_cache": ("plateau",),
    "arenas": ("plateau",),
    "one spike": ("spiky",),
    "model swap": ("stable",),
    "cycles": ("stable",),
    NODE: ("stable", "plateau"),
}
"""The right verdict for each function. V8's heap is nearly full-grown after 20 invocations; whether that still counts
as its start is debatable."""

FLAT = ("stable", "warming", "plateau")
HELD_OUT = {
    "dictionary, 1 of 10": ("growing",),
    "malloc, late": ("growing",),
    "threads": ("growing",),
    "log handlers": ("growing",),
    "garbage and leak": ("growing",),
    "Node, listeners": ("growing",),
    "Zipf cache": ("warming",),
    "connections": FLAT,
    "TLS contexts": FLAT,
    "arrays": (*FLAT, "spiky"),
    "patterns": FLAT,
    "log buffer": FLAT,
    "fragments": FLAT,
    "Node, bounded map": FLAT,
}
"""The right verdict for functions that no threshold was chosen by. Among the calm ones it is debatable; for a leak it
is not."""
HELD_OUT_INVOCATIONS = 600


def run(name: str, invocations: int | None = None) -> list[Line]:
    """Run a function and return its lines."""
    if invocations is None:
        invocations = HELD_OUT_INVOCATIONS if name in HELD_OUT else INVOCATIONS
    function: Path | Function = FUNCTIONS / ("behave_held_out.py" if name in HELD_OUT else "behave.py")
    if name == NODE or name in NODE_HELD_OUT:
        function = Function.from_spec(str(FUNCTIONS / ("node_bootstrap" if name == NODE else "node_held_out")))
    with Environment(
        function,
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


def file_of(name: str) -> Path:
    """File of its recorded lines."""
    return (FOLDER / "held_out" if name in HELD_OUT else FOLDER) / f"{name.replace(',', '').replace(' ', '-')}.json"


def stored(name: str) -> list[Point]:
    """The recorded lines."""
    kept = json.loads(file_of(name).read_text())
    return [
        Point(number, float(time), float(current), float(peak), bool(certain))
        for number, time, current, peak, certain in kept["points"]
    ]


def main(names: list[str]) -> None:
    """Record them."""
    assert set(behave.BEHAVIOURS) | {NODE} == set(LABELS)
    assert set(behave_held_out.BEHAVIOURS) | set(NODE_HELD_OUT) == set(HELD_OUT)
    (FOLDER / "held_out").mkdir(parents=True, exist_ok=True)
    for name in names or [*LABELS, *HELD_OUT]:
        seen = points(run(name))
        begun = seen[0].time_ms
        rows = [
            [p.invocation, round(p.time_ms - begun), round(p.current_kib), round(p.peak_kib or 0), int(p.certain)]
            for p in seen
        ]
        kept = {"columns": ["invocation", "ms", "currentKiB", "peakKiB", "certain"], "points": rows}
        file_of(name).write_text(json.dumps(kept, separators=(",", ":")) + "\n")
        first, *_, last = [p.current_kib for p in seen if p.certain]
        uncertain = sum(not p.certain for p in seen)
        print(f"{name}: {len(seen)} invocations, {first / 1024:.1f} to {last / 1024:.1f} MiB, {uncertain} uncertain")


if __name__ == "__main__":
    main(sys.argv[1:])
