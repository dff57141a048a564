"""Settles the function of a local run between two passes of invocations, and reads what it keeps."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from ...judge import growth_causes
from ...judge.curves import (
    BLOCKS,
    BUFFERS,
    CLASSES,
    DIRECT,
    EXTERNAL,
    GOAL,
    GOROUTINES,
    HEAP,
    HELD,
    IN_USE,
    MALLOC,
    OWN_HEAP,
    RSS,
    SMALL,
    SOFT,
    TMP,
)
from ...judge.settled import GARBAGE, TRIMMED, Cache, Reading
from ...local.processes.tmp import elsewhere
from . import allocators, dotnet, go, java_caches, jvm
from .outside import mapped, seen_from_outside

if TYPE_CHECKING:
    from ...local import LocalLambda


BESIDE_HEAP = "besideHeap"
"""What a program in Go has beside its heap: there it stands for RSS."""
OWN_MALLOC = "own"
"""What a JVM has of malloc for itself: the function does not keep it."""
OF_JVM = (SOFT, BUFFERS, DIRECT, OWN_MALLOC)
LOOKS_KIB = 16
"""A JVM's caches are asked for how full they are once its heap has grown by so much: that takes a dump of it."""
UNTRIMMED = 4
"""Passes before the first after which allocators give back what is free: until then it is seen how much they hold."""


class Settler:
    """Settles the function of one environment after each pass of invocations, and reads what it keeps: it asks the
    probe, which settles the process after an answer, or a JVM, .NET or a program in Go between two."""

    def __init__(self, *, trims: bool = True) -> None:
        """`trims`: allocators give back what is free as well, after some passes. How much malloc held cannot be known
        then."""
        self.readings: list[Reading] = []
        """What was kept after each pass."""
        self.slowed: set[int] = set()
        """Numbers of invocations at whose end the process was settled."""
        self._trims = trims
        self._after = self._pass = 0
        """After this invocation passes begin, of so many invocations each; 0: there are none."""
        self._folder = tempfile.TemporaryDirectory(prefix="truemem-settle-", dir=elsewhere())
        Path(self._folder.name).chmod(0o777)  # the function may run as another user, and each worker makes a file
        self.path = Path(self._folder.name) / "settle"
        """The probe looks whether this file has changed. What it says then goes into the one beside it."""
        self._said = self.path.with_suffix(".said")
        self._said.touch()
        self._said.chmod(0o666)
        self._asked = self._threads = 0
        self._jvm: dict[int, dict[str, float]] = {}
        """What a JVM has said last, by its pid, with the metaspace of classes that are new since the first time."""
        self._dumps = Path(self._folder.name) / "dumps"
        self._dumps.mkdir()
        self._dumps.chmod(0o777)
        self._bounded: dict[int, tuple[float, list[dict[str, Any]]]] = {}
        """The heap of a JVM when its caches were asked last, and what was said, by its pid."""
        self._heaps: dict[int, float] = {}
        """The heap of each program in Go before its garbage is collected, KiB, by its pid."""
        self._freed: Counter[int] = Counter()
        """What all of that has freed, KiB."""

    def close(self) -> None:
        """The function has ended."""
        self._folder.cleanup()

    def begin_passes(self, after: int, invocations: int) -> None:
        """After this invocation passes begin, of so many invocations each."""
        self._after, self._pass = after, invocations

    def before(self, number: int) -> None:
        """Invocation `number` comes next."""
        place = self._place(number)
        if place in (0, self._pass - 1):  # twice: what a finalizer lets go of, the next collection frees
            self.ask(trims=self._trims and len(self.readings) >= UNTRIMMED and place == 0)
            self.slowed.add(number)

    def after(self, local: LocalLambda, number: int, workers: Sequence[int] = ()) -> None:
        """Invocation `number` is over. At the end of a pass what is kept is read, of each of these processes where
        several serve."""
        if number in self.slowed:
            local.settle()  # it is settled after its answer, by what is asked now
        if self._place(number) == 0:
            read = [self._read(local, number, pid) for pid in workers or (None,)]
            self.readings += [each for each in read if each is not None]
        if self._place(number + 1) == 0:
            for program in programs_in_go(local.processes().get("runtime")):
                with suppress(OSError, ValueError):
                    self._heaps[program.pid] = program.hurry()

    def _place(self, number: int) -> int | None:
        """In its pass; 0 is the last one. None before the first pass."""
        return (number - self._after) % self._pass if self._pass and number > self._after else None

    def ask(self, *, trims: bool = False) -> None:
        """The next invocation ends with a settled process."""
        self._asked += 1
        self.path.write_text(f"{self._asked} {trims:d}\n")

    def _read(self, local: LocalLambda, invocation: int, worker: int | None = None) -> Reading | None:
        """What the runtime, or this worker of it, keeps after this invocation. None where nothing of that can be known:
        it has ended."""
        pid = worker or local.processes().get("runtime")
        if pid is None:
            return None
        try:
            runtime = psutil.Process(pid)
            said = (
                self._answer(worker)
                or self._of_jvm(local, runtime)
                or _of_dotnet(local, runtime)
                or self._of_go(local, pid)
            )
            kept = {name: float(value) for name, value in said.items() if isinstance(value, (int, float))}
            kept |= seen_from_outside(runtime)
            told = allocators.told(said, pid)
            if told.unsaid:
                kept.pop(MALLOC, None)
            elif told.in_use_kib:
                kept[MALLOC] = kept.get(MALLOC, 0.0) + told.in_use_kib
            own_kib = kept.pop(OWN_MALLOC, 0.0)
            if MALLOC in kept:
                kept[MALLOC] -= own_kib
            kept[RSS] -= told.still_held_kib
            kept[TMP] = local.tmp_kib()
        except psutil.Error:
            return None
        if BLOCKS in kept and TRIMMED not in kept:
            del kept[RSS]  # with what malloc holds it says less than what is in use
        library = mapped(pid, growth_causes.LIBRARY_CACHES)
        return Reading(invocation, _completed(kept), _caches(said), pid, told.held_kib, library, told.unsaid)

    def _answer(self, worker: int | None) -> Mapping[str, object]:
        """What the probe has said since it was asked last, in this worker if several serve; empty without one."""
        own = self._said if worker is None else self.path.with_suffix(f".said.{worker}")
        said = _said(own)
        if said.pop("asked", None) == self._asked:
            return said
        return self._of_threads() if worker is None else {}

    def _of_threads(self) -> dict[str, object]:
        """The sum of what all threads have said last that serve in one process. Readings before one that has said
        nothing yet are forgotten: they are of fewer."""
        all_said = {path.suffix: _said(path) for path in self.path.parent.glob("settle.said.*")}
        if len(all_said) > self._threads:
            self.readings.clear()
        self._threads = len(all_said)
        figures: Counter[str] = Counter()
        caches = []
        for thread, said in all_said.items():
            figures.update({name: value for name, value in said.items() if isinstance(value, int | float)})
            of_thread = said.get("caches")
            caches += [
                {**each, "id": f"{each.get('id')}{thread}"} for each in of_thread or [] if isinstance(each, dict)
            ]
        figures.pop("asked", None)
        return {**figures, "caches": caches} if figures else {}

    def _of_jvm(self, local: LocalLambda, runtime: psutil.Process) -> dict[str, object]:
        """Metaspace counts where classes came: what the JVM notes of hot methods is in it as well."""
        for pid in jvms(runtime.pid):
            with suppress(OSError, ValueError), local.thawed():
                now = jvm.settled_kib(pid)
                before = self._jvm.get(pid) or {**now, "kept": now["metaspace"]}
                came = now["classes"] != before["classes"]
                kept = before["kept"] + (now["metaspace"] - before["metaspace"] if came else 0.0)
                self._jvm[pid] = {**now, "kept": kept}
                more = {name: now[name] for name in OF_JVM if name in now}
                return {HEAP: now["heap"], CLASSES: kept, **more, "caches": self._caches_of_jvm(pid, now)}
        return {}

    def _caches_of_jvm(self, pid: int, now: Mapping[str, float]) -> list[dict[str, Any]]:
        """They are asked while the heap grows, or while one of them fills."""
        heap = now["heap"]
        level, said = self._bounded.get(pid, (heap, []))
        if now["caches"] and (heap > level + LOOKS_KIB or any(each["entries"] < each["bound"] for each in said)):
            level = heap
            try:
                said = java_caches.bounded(pid, self._dumps)
            except (OSError, ValueError):
                said = []
        self._bounded[pid] = min(level, heap), said
        return said

    def _of_go(self, local: LocalLambda, pid: int) -> dict[str, object]:
        for program in programs_in_go(pid):
            with suppress(OSError, ValueError):
                with local.thawed():
                    program.collect()
                live = program.live()
                self._freed[program.pid] += max(0, int(self._heaps.get(program.pid, 0.0) - live.objects_kib))
                return {
                    HEAP: live.objects_kib + live.stacks_kib,
                    GOROUTINES: live.goroutines,
                    GOAL: live.goal_kib,
                    GARBAGE: self._freed[program.pid],
                    BESIDE_HEAP: go.beside_heap_kib(program.pid),
                    **({} if live.has_c else {MALLOC: 0.0}),
                }
        return {}


def _said(path: Path) -> dict[str, Any]:
    """What a process or a thread has written there; empty if nothing, or half of it."""
    with suppress(OSError, ValueError):
        said = json.loads(path.read_text(encoding="utf-8", errors="replace"))
        return said if isinstance(said, dict) else {}
    return {}


def has_jvm(pid: int) -> bool:
    """Is it a JVM that can be attached to, or has it one below it?"""
    return any(jvms(pid))


def collect(pid: int) -> None:
    """Collect the garbage of each JVM that is this process, or below it: what is live then is on its next line."""
    for each in jvms(pid):
        with suppress(OSError, ValueError):
            jvm.run(each, "GC.run")


def jvms(pid: int) -> Iterator[int]:
    """Those that can be attached to: this process, and all below it."""
    with suppress(psutil.Error):
        runtime = psutil.Process(pid)
        yield from (each.pid for each in (runtime, *runtime.children(recursive=True)) if jvm.is_hotspot(each.pid))


def _of_dotnet(local: LocalLambda, runtime: psutil.Process) -> dict[str, object]:
    for process in (runtime, *runtime.children(recursive=True)):
        if (port := dotnet.port(process.pid)) is not None:
            with suppress(OSError, ValueError), local.thawed():
                return {HEAP: dotnet.settled_kib(process.pid, port)}
    return {}


def programs_in_go(pid: int | None) -> Iterator[go.Process]:
    """Those that can be settled, of this process and all below it."""
    with suppress(psutil.Error):
        runtime = psutil.Process(pid) if pid is not None else None
        for each in (runtime, *runtime.children(recursive=True)) if runtime is not None else ():
            with suppress(OSError, ValueError):
                yield go.Process(each.pid)


def _completed(kept: dict[str, float]) -> dict[str, float]:
    """With IN_USE, what is kept for certain of all that is known; and without what says nothing of this runtime."""
    if OWN_HEAP in kept and HEAP not in kept:
        return {name: value for name, value in kept.items() if name not in (MALLOC, HELD)}
    parts = [kept[name] for name in (HEAP, CLASSES) if name in kept]
    if CLASSES not in kept and (of_malloc := kept.get(MALLOC, kept.get(EXTERNAL))) is not None:
        # Buffers outside of V8's heap come from malloc; a JVM's own use of it comes and goes.
        parts += [of_malloc, kept.get(SMALL, 0.0)]
    if BLOCKS in kept or HEAP in kept:  # there malloc's figures are on each line, or it is a small part
        kept.pop(HELD, None)
    if HEAP in kept:  # it touches more of its heap, and compiles: RSS rises where nothing is kept
        del kept[RSS]
    if BESIDE_HEAP in kept:
        kept[RSS] = kept.pop(BESIDE_HEAP)
    return {**kept, **({IN_USE: sum(parts)} if parts else {})}


def _caches(said: Mapping[str, object]) -> dict[str, Cache]:
    found = {}
    caches = said.get("caches")
    for each in caches if isinstance(caches, list) else []:
        with suppress(TypeError, ValueError, KeyError, OverflowError):
            unit = str(each.get("unit", "entries"))[:40]
            found[str(each["id"])] = Cache(str(each["name"])[:200], int(each["entries"]), int(each["bound"]), unit)
    return found
