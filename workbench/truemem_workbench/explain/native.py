"""What native code holds: memray's allocations by stack, less what Python's own tracer has seen at the same line."""

from __future__ import annotations

import bisect
import itertools
import subprocess
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..support.untrusted_text import loads
from .attribution import LEAST_LOOKS, Frame, Holder, attribute

INSTALL = "memray may name the line of native code: pip install memray, where the function's Python finds it."
MALLOC_VARIABLE = {"PYTHONMALLOC": "malloc"}
"""Variable that makes each of Python's blocks one of malloc's, so that one can be taken from the other."""
OURS = "TRUEMEM_EXPLAIN_MEMRAY"
"""Variable: a folder with memray, for a function whose Python finds none."""
_ASKED = """import sysconfig; print(sysconfig.get_config_var("EXT_SUFFIX"))
import memray; memray.Tracker("/dev/null", native_traces=True)"""  # which imports more than memray does
EXCESS = 0.25  # share of a line's bytes that Python has not seen, from which they are native
MOST_C_FRAMES = 8
INTERPRETER = ("Py", "_Py", "pymalloc")
"""Begins of names of CPython's own C functions, which tell nothing of an allocation."""


def variables(python: Path) -> dict[str, str] | None:
    """Variables with which the function's interpreter finds memray: its own, or ours where the versions fit.

    None if there is none for it.
    """
    ours = find_spec("memray")
    if ours is None or ours.origin is None:
        return None
    asked = subprocess.run([python, "-c", _ASKED], capture_output=True, text=True, check=False)
    if asked.returncode == 0:
        return MALLOC_VARIABLE
    if asked.stdout.strip() != sysconfig.get_config_var("EXT_SUFFIX"):
        return None
    return {**MALLOC_VARIABLE, OURS: str(Path(ours.origin).parents[1])}


def read(folder: Path) -> list[dict[str, Any]]:
    """The captures in the folder, as documents like the Python tracer's. Raises OSError if one is damaged."""
    return [
        _document(loads(path.read_text(encoding="utf-8")), folder / f"capture-{path.stem.removeprefix('looks-')}.bin")
        for path in folder.glob("looks-*.json")
    ]


def _document(looks: list[tuple[int, float]], capture: Path) -> dict[str, Any]:
    """`looks` are invocations and epoch ms."""
    import memray

    stacks: dict[tuple[Frame, ...], _Held] = {}
    with memray.FileReader(capture) as reader:
        moments = [int(each.time) for each in reader.get_memory_snapshots()]
        at = [bisect.bisect_right(moments, time) - 1 for _, time in looks]
        for record in reader.get_temporal_allocation_records(merge_threads=True):
            frames = tuple((file, line) for _, file, line in record.stack_trace()[::-1])
            stacks.setdefault(frames, _Held([0] * len(at))).add(record, at)
        grown = [
            {"frames": frames, "bytes": held.sizes, "native": _c_frames(held.largest)}
            for frames, held in stacks.items()
            if held.sizes[-1] > held.sizes[0]
        ]
    return {"invocations": [number for number, _ in looks], "stacks": grown, "containers": [], "types": []}


class _Held:
    """What one stack of Python's frames holds at each look, and the allocation of it that holds most at the last."""

    def __init__(self, sizes: list[int]) -> None:
        self.sizes = sizes
        self.largest: Any = None
        self._most = -1

    def add(self, record: Any, at: Sequence[int]) -> None:
        """Add memray's record. `at` is the moment of each look."""
        before = self.sizes[-1]
        for part, (place, moment) in itertools.product(record.intervals, enumerate(at)):
            ended = part.deallocated_before_snapshot
            if part.allocated_before_snapshot <= moment and (ended is None or moment < ended):
                self.sizes[place] += part.n_bytes
        if self.sizes[-1] - before > self._most:
            self.largest, self._most = record, self.sizes[-1] - before


def _c_frames(record: Any) -> list[str]:
    """The C functions between Python's innermost frame and the allocation, innermost last, as far as symbols tell."""
    innermost = record.stack_trace(1)  # none in a thread that is not Python's
    native = itertools.takewhile(lambda frame: [frame] != innermost, record.hybrid_stack_trace())
    names = [name for name, _, _ in native if name != "<unknown>" and not name.startswith(INTERPRETER)]
    return names[MOST_C_FRAMES - 1 :: -1]


def beyond_python(
    native: Mapping[str, Any], python: Mapping[str, Any], root: Path, measured_kib: float
) -> list[Holder]:
    """The lines whose native blocks grow by more than Python has seen allocated there. Pure.

    Where Python's tracer has missed something, they may be Python's: then they are blocks alone.
    """
    is_whole = len(python["invocations"]) >= LEAST_LOOKS and not python.get("missing")
    kind = "native block" if is_whole else "block"
    seen = {
        (each.file, each.line): each.kib for each in attribute({**python, "containers": [], "types": []}, root, 0.0)
    }
    found = []
    for each in attribute(native, root, measured_kib):
        kib = each.kib - seen.get((each.file, each.line), 0.0)
        if kib > EXCESS * each.kib and Path(each.file).is_relative_to(root):
            found.append(replace(each, kib=kib, kind=kind))
    return found
