"""What native code holds: memray's allocations by stack, beside what Python's own tracer has seen at the same line."""

from __future__ import annotations

import bisect
import itertools
import subprocess
import sysconfig
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..support.untrusted_text import loads
from .attribution import LEAST_LOOKS, Frame, Holder, Users, held, most_first
from .own_sources import OwnSources

INSTALL = "memray may name the line of native code: pip install memray, where the function's Python finds it."
KNOWN = "memray"
MALLOC_VARIABLE = {"PYTHONMALLOC": "malloc"}
"""Variable that makes each of Python's blocks one of malloc's, so that one can be taken from the other."""
OURS = "TRUEMEM_EXPLAIN_MEMRAY"
"""Variable: a folder with memray, for a function whose Python finds none."""
_ASKED = """import sysconfig; print(sysconfig.get_config_var("EXT_SUFFIX"))
import memray; memray.Tracker("/dev/null", native_traces=True)"""  # which imports more than memray does
EXCESS = 0.25  # share of a line's bytes that Python has not seen, from which they are native
PLAIN = frozenset({"int", "float", "complex", "bool", "str", "bytes", "NoneType"})
"""Types whose objects own no memory but their own."""
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


def read(folder: Path, sources: OwnSources) -> list[dict[str, Any]]:
    """The captures in the folder, as documents like the Python tracer's: a stack ends with the frames of the user's own
    native code below Python's innermost one, and `sources` are their files. Raises OSError if one is damaged."""
    return [
        _document(
            loads(path.read_text(encoding="utf-8")),
            folder / f"capture-{path.stem.removeprefix('looks-')}.bin",
            sources,
        )
        for path in folder.glob("looks-*.json")
    ]


def _document(looks: list[tuple[int, float]], capture: Path, sources: OwnSources) -> dict[str, Any]:
    """`looks` are invocations and epoch ms."""
    import memray

    stacks: dict[tuple[Frame, ...], _Held] = {}
    files: set[str] = set()
    with memray.FileReader(capture) as reader:
        moments = [int(each.time) for each in reader.get_memory_snapshots()]
        at = [bisect.bisect_right(moments, time) - 1 for _, time in looks]
        for record in reader.get_temporal_allocation_records(merge_threads=True):
            if any(sizes := _sizes(record, at)):
                frames = tuple((file, line) for _, file, line in record.stack_trace()[::-1])
                own = _own_frames(record, sources) if sources else ()
                files |= {file for file, _ in own}
                stacks.setdefault((*frames, *own), _Held([0] * len(at))).add(record, sizes)
        grown = [
            {"frames": frames, "bytes": held.sizes, "native": _c_frames(held.largest, sources)}
            for frames, held in stacks.items()
            if held.sizes[-1] > held.sizes[0]
        ]
    return {
        "invocations": [number for number, _ in looks],
        "stacks": grown,
        "containers": [],
        "types": [],
        "sources": sorted(files),
    }


def _sizes(record: Any, at: Sequence[int]) -> list[int]:
    """Bytes of memray's record at each look. `at` is the moment of each."""
    sizes = [0] * len(at)
    for part, (place, moment) in itertools.product(record.intervals, enumerate(at)):
        ended = part.deallocated_before_snapshot
        if part.allocated_before_snapshot <= moment and (ended is None or moment < ended):
            sizes[place] += part.n_bytes
    return sizes


class _Held:
    """What one stack holds at each look, and the allocation of it that holds most at the last."""

    def __init__(self, sizes: list[int]) -> None:
        self.sizes = sizes
        self.largest: Any = None
        self._most = -1

    def add(self, record: Any, sizes: Sequence[int]) -> None:
        """Add memray's record with its bytes at each look."""
        self.sizes = [sum(both) for both in zip(self.sizes, sizes, strict=True)]
        if sizes[-1] > self._most:
            self.largest, self._most = record, sizes[-1]


def _below_python(record: Any) -> list[tuple[str, str, int]]:
    """Function, file and line of the native frames below Python's innermost one, innermost first."""
    innermost = record.stack_trace(1)  # none in a thread that is not Python's
    return list(itertools.takewhile(lambda frame: [frame] != innermost, record.hybrid_stack_trace()))


def _own_frames(record: Any, sources: OwnSources) -> tuple[tuple[str, int], ...]:
    """Those of them that are the user's and have a line, innermost last."""
    frames = ((sources.path(file), line) for _, file, line in _below_python(record)[::-1] if line)
    return tuple((file, line) for file, line in frames if file)


def _c_frames(record: Any, sources: OwnSources) -> list[str]:
    """The C functions between the innermost frame of the user's, or else Python's, and the allocation, innermost last,
    as far as symbols tell."""
    inner = itertools.takewhile(lambda frame: not (frame[2] and sources.path(frame[1])), _below_python(record))
    names = [name for name, _, _ in inner if name != "<unknown>" and not name.startswith(INTERPRETER)]
    return names[MOST_C_FRAMES - 1 :: -1]


def with_native(native: Mapping[str, Any], python: Mapping[str, Any], root: Path, measured_kib: float) -> list[Holder]:
    """The lines that hold what grew, by both tracers: Python's, less what was allocated by native code of the user's
    that it calls; the lines of that code; and lines whose native blocks grow by more than Python has seen allocated
    there. Pure.

    Where a container of Python's holds objects that a line gets from native code, the container's line is told with the
    native memory, and the native line is where that was allocated: an object of a class of its own may own some. Where
    Python's tracer has missed something, blocks may be Python's: then they are blocks alone.
    """
    users = Users(root, native["sources"])
    is_whole = len(python["invocations"]) >= LEAST_LOOKS and not python.get("missing")
    block = "native block" if is_whole else "block"
    in_containers, left = held(python, users)
    keepers = {users.line(each.stack): each for each in in_containers if each.kind.rpartition(" of ")[2] not in PLAIN}
    loose = {each.frame: each for each in left}
    seen = {each.frame: each.kib for each in held({**python, "containers": [], "types": []}, users)[1]}
    by_caller: dict[Frame | None, list[Any]] = defaultdict(list)
    for each in native["stacks"]:
        outer = tuple(frame for frame in each["frames"] if not users.is_native(frame))
        by_caller[users.line(outer)].append(each)
    found = []
    for caller, stacks in by_caller.items():
        lines = held({**native, "stacks": stacks}, users)[1]
        own = sorted((each for each in lines if users.is_native(each.frame)), key=lambda each: -each.kib)
        own_kib = sum(each.kib for each in own)
        other = next((each for each in lines if each.frame == caller), None)
        other_kib = other.kib if other is not None else 0.0
        python_kib = seen.get(caller, 0.0) if caller is not None else 0.0
        line = loose.get(caller) if caller is not None else None
        loose_kib = line.kib if line is not None else 0.0
        keeper = keepers.get(caller)
        if own and keeper is not None and python_kib > 2 * loose_kib:
            other = replace(
                own[0],
                file=keeper.file,
                line=keeper.line,
                owner=keeper.owner,
                items=keeper.items,
                kib=own_kib + other_kib,
                allocated=own[0].frame,
            )
        elif own:
            kept = max(min(loose_kib, other_kib), loose_kib - own_kib)
            is_little = kept <= EXCESS * loose_kib
            # Python's allocator rounds up to 16 bytes, which memray does not see
            rounded = max(0.0, loose_kib - own_kib - other_kib) if is_little else 0.0
            rest = 1 + (rounded - max(0.0, python_kib - loose_kib - other_kib)) / own_kib
            rest = rest if rest > EXCESS else 0.0
            kind = block if line is None or loose_kib - other_kib < own_kib / 2 else line.kind
            called = caller if caller is not None and users.is_theirs(caller) else None
            found += [replace(each, kib=rest * each.kib, kind=kind, called=called) for each in own]
            if line is not None:
                loose[line.frame] = replace(line, kib=0.0 if is_little else kept)
        if other is None or not Path(other.file).is_relative_to(root):
            continue
        if (kib := other.kib - python_kib) > EXCESS * other.kib:
            found.append(replace(other, kib=kib, kind=block))
    both = (*most_first([*in_containers, *loose.values()], measured_kib), *most_first(found, measured_kib))
    return sorted(both, key=lambda each: -each.kib)
