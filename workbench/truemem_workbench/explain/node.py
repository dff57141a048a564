"""Explains a Node.js function: reads the heap snapshots between its invocations, and says what to watch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..support.untrusted_text import loads
from .attribution import LEAST_KIB, LEAST_LOOKS, Holder, most_first, rising
from .explanation import REST
from .heap_growth import HeapGrowth
from .heap_snapshot import Snapshot
from .users import Frame


class Heap:
    """What one run has found: the growth of each process of the function."""

    def __init__(self) -> None:
        self._growth: dict[str, HeapGrowth] = {}
        """By process id."""

    def between(self, folder: Path) -> None:
        """Read new snapshots and remove them. Raises OSError, and ValueError or LookupError for one that is damaged."""
        for path in sorted(folder.glob("heap-*.json"), key=lambda path: path.stat().st_mtime_ns):
            _, process, invocation = path.stem.split("-")
            growth = self._growth.setdefault(process, HeapGrowth())
            growth.add(int(invocation), Snapshot.parse(loads(path.read_text(encoding="utf-8", errors="replace"))))
            path.unlink()
            looks = len(growth.invocations)
            if looks >= LEAST_LOOKS:  # early, because a process may end
                new = folder / f"watch-{process}-{looks}.new"
                new.write_text(json.dumps(_wanted(growth)), encoding="utf-8")
                new.rename(new.with_suffix(".json"))

    def read(self, folder: Path) -> list[dict[str, Any]]:
        """A document for each process. Raises OSError."""
        found = []
        for process, growth in self._growth.items():
            path = folder / f"watched-{process}.json"
            told = loads(path.read_text(encoding="utf-8")) if path.exists() else {}
            grew_at = {(each["id"], each["variable"]): each["stacks"] for each in told.get("grewAt", ())}
            document = growth.document(told.get("scripts", {}), grew_at)
            found.append({**document, "missing": told.get("missing", [])})
        return found


def _wanted(growth: HeapGrowth) -> list[dict[str, Any]]:
    return [
        {"id": number, "variable": variable, "closure": each.closure}
        for (number, variable), each in growth.growing().items()
        if rising(growth.invocations, each.sizes) > LEAST_KIB * 1024
    ]


def holders(found: Mapping[str, Any], measured_kib: float) -> list[Holder]:
    """The lines that keep what grew, that with most of it first.

    What keeps it, but by a line that was not seen, is told if that is as much as is worth a sentence.
    """
    made = []
    for each in found["keepers"]:
        rate = rising(found["invocations"], each["bytes"])
        file, number = _line(each) or ("", 0)
        if rate <= 0:
            continue
        of = f" of {each['of']}" if each["of"] and each["kind"] != "variable" else ""
        seen = max(each["grewAt"], key=lambda stack: stack[1], default=((), 0))[0]
        made.append(
            Holder(
                file=file,
                line=number,
                kib=rate / 1024,
                kind=f"{each['kind']}{of}",
                owner=each["owner"],
                items=rising(found["invocations"], each["items"]),
                stack=tuple((file, number) for file, number in seen),
            )
        )
    return [each for each in most_first(made, measured_kib) if each.line or each.kib > REST * measured_kib > 0]


def _line(keeper: Mapping[str, Any]) -> Frame | None:
    """The line after which it had more; else that of the functions and classes that it keeps most of."""
    seen: dict[Frame, int] = {}
    for stack, count in keeper["grewAt"]:
        if stack:
            place = (stack[-1][0], stack[-1][1])
            seen[place] = seen.get(place, 0) + count
    if seen:
        return max(seen, key=lambda place: seen[place])
    made = max(keeper["madeAt"], key=lambda each: each[2], default=None)
    return (made[0], made[1]) if made is not None else None
