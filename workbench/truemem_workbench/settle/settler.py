"""Settles the function of a local run between two passes of invocations, and reads what it keeps."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from ..analysis.curves import BLOCKS, CLASSES, EXTERNAL, HEAP, IN_USE, MALLOC, RSS, TMP
from ..analysis.settled import TRIMMED, Cache, Reading
from . import jvm
from .outside import seen_from_outside, used_kib

if TYPE_CHECKING:
    from ..local import LocalLambda


class Settler:
    """Asks the probe, which settles the process at the end of an invocation, or a JVM between two."""

    def __init__(self, folder: Path) -> None:
        """`folder` must be one that the function's user can look into."""
        self.path = folder / "settle"
        """The probe looks whether this file has changed. What it says then goes into the one beside it."""
        self._said = folder / "settle.said"
        self._said.touch()
        self._said.chmod(0o666)
        self._asked = 0
        self._jvm: dict[int, dict[str, float]] = {}
        """What a JVM has said last, by its pid, with the metaspace of classes that are new since the first time."""

    def ask(self, *, trims: bool) -> None:
        """The next invocation ends with a settled process. `trims`: malloc gives back what is free, if the probe can
        ask for that. How much it held cannot be known after that."""
        self._asked += 1
        self.path.write_text(f"{self._asked} {trims:d}\n")

    def read(self, local: LocalLambda, invocation: int) -> Reading | None:
        """What is kept after this invocation. None where nothing of that can be known: the runtime has ended."""
        local.settle()
        pid = local.processes().get("runtime")
        if pid is None:
            return None
        try:
            runtime = psutil.Process(pid)
            said = self._answer() or self._of_jvm(local, runtime)
            kept = {name: float(value) for name, value in said.items() if isinstance(value, (int, float))}
            kept |= seen_from_outside(runtime)
            kept[TMP] = used_kib(local.environment_dir / "tmp")
        except psutil.Error:
            return None
        if BLOCKS in kept and TRIMMED not in kept:
            del kept[RSS]  # with what malloc holds it says less than what is in use
        return Reading(invocation, _completed(kept), _caches(said), pid)

    def _answer(self) -> Mapping[str, object]:
        """What the probe has said since it was asked last; empty without one."""
        with suppress(OSError, ValueError):
            said = json.loads(self._said.read_text(encoding="utf-8", errors="replace"))
            if isinstance(said, dict) and said.get("asked") == self._asked:
                del said["asked"]
                return said
        return {}

    def _of_jvm(self, local: LocalLambda, runtime: psutil.Process) -> dict[str, object]:
        """Metaspace counts where classes came: what the JVM notes of hot methods is in it as well."""
        for process in (runtime, *runtime.children(recursive=True)):
            if jvm.is_hotspot(process.pid):
                with suppress(OSError, ValueError), local.thawed():
                    now = jvm.settled_kib(process.pid)
                    before = self._jvm.get(process.pid) or {**now, "kept": now["metaspace"]}
                    came = now["classes"] != before["classes"]
                    kept = before["kept"] + (now["metaspace"] - before["metaspace"] if came else 0.0)
                    self._jvm[process.pid] = {**now, "kept": kept}
                    return {HEAP: now["heap"], CLASSES: kept}
        return {}


def _completed(kept: dict[str, float]) -> dict[str, float]:
    """With IN_USE, what is kept for certain of all that is known; and without what says nothing of this runtime."""
    parts = [kept[name] for name in (HEAP, CLASSES) if name in kept]
    if CLASSES not in kept and (of_malloc := kept.get(MALLOC, kept.get(EXTERNAL))) is not None:
        parts.append(of_malloc)  # buffers outside of V8's heap come from malloc; a JVM's own use of it comes and goes
    if HEAP in kept:  # it touches more of its heap, and compiles: RSS rises where nothing is kept
        del kept[RSS]
    return {**kept, **({IN_USE: sum(parts)} if parts else {})}


def _caches(said: Mapping[str, object]) -> dict[str, Cache]:
    found = {}
    caches = said.get("caches")
    for each in caches if isinstance(caches, list) else []:
        with suppress(TypeError, ValueError, KeyError, OverflowError):
            found[str(each["id"])] = Cache(str(each["name"])[:200], int(each["entries"]), int(each["bound"]))
    return found
