"""What a function's processes really held together, moment by moment: the kernel's own trace, as root.

The kernel tells each change of an address space's resident memory (event kmem:rss_stat, exact since Linux 6.2) and each
new task (task:task_newtask). It is summed over all address spaces of a process and its descendants. An address space
counts once: a child of vfork() has its parent's until exec(). What fork() hands on is in parent and
child, and is there once until one of them writes to it: so there are two levels. The trace has a buffer of its own, so
several programs may trace at the same time.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

MEMBERS = frozenset({"MM_FILEPAGES", "MM_ANONPAGES", "MM_SHMEMPAGES"})
"""Parts of RSS; what is swapped out is not."""
LINE = re.compile(r"-(?P<task>\d+) +\[\d+\] +\S+ +(?P<s>\d+)\.(?P<us>\d{6}): (?P<event>\w+): (?P<rest>.*)")
CHANGE = re.compile(r"mm_id=(\d+) curr=(\d) type=(\w+) size=(-?\d+)B")
NEW_TASK = re.compile(r"pid=(\d+) comm=.* clone_flags=([0-9a-f]+) ")
CLONE_VM = 0x100
MIB = 1 << 20
BUFFER_KIB = 65536
"""For each CPU: about a million changes."""
READ_BYTES = 1 << 16


class Truth(NamedTuple):
    """The most that was held between two moments, MiB."""

    rss: float
    """The sum of RSS, as /proc has it: what fork() has handed on counts in each process."""
    once: float
    """At least so much was there: what fork() has handed on counts once, whatever was written to it since."""


class Level(NamedTuple):
    at_ns: int
    """CLOCK_MONOTONIC."""
    rss: int
    """Bytes."""
    once: int


class LostEvents(Exception):
    """The buffer was full: the levels are not known any more."""


class TreeTrace:
    """Levels of a process and its descendants. It has to begin before that process does."""

    def __init__(self, folder: Path) -> None:
        self._pipe = os.open(folder / "trace_pipe", os.O_RDONLY | os.O_NONBLOCK)
        self._rest = ""
        self._tasks: set[int] = set()
        """Of the tree."""
        self._roots: set[int] = set()
        self._executed: set[int] = set()
        """Tasks outside of the tree that have called exec()."""
        self._children: dict[int, list[int]] = {}
        self._sizes: dict[str, dict[str, int]] = {}
        """Bytes of each member, by address space."""
        self._counts: dict[str, bool] = {}
        """Is an address space the tree's? The first task that changes its own says it; until then its maker."""
        self._maker: dict[str, int] = {}
        self._inherited: dict[str, int] = {}
        """Bytes that fork() has handed on to an address space."""
        self.levels = [Level(0, 0, 0)]
        """Each change since `forget`, and the one before."""

    def close(self) -> None:
        os.close(self._pipe)

    def read(self, root: int) -> None:
        """Take what the kernel has told so far, of the process `root` and its descendants. Until its own exec() its
        memory may be ours (vfork). Raises LostEvents."""
        self._roots.add(root)
        if root in self._executed:
            self._adopt(root)
        text = [self._rest]
        while True:
            try:
                told = os.read(self._pipe, READ_BYTES)
            except BlockingIOError:
                break
            if not told:
                break
            text.append(told.decode(errors="replace"))
        *lines, self._rest = "".join(text).split("\n")
        for line in lines:
            self._take(line)

    def forget(self) -> None:
        """Drop all levels but the last one."""
        del self.levels[:-1]

    def between(self, begin_ns: int, end_ns: int) -> list[float]:
        """Each level of RSS from the one at the begin until the end (CLOCK_MONOTONIC), MiB."""
        return [level.rss / MIB for level in self._within(begin_ns, end_ns)]

    def _within(self, begin_ns: int, end_ns: int) -> list[Level]:
        before = [level for level in self.levels if level.at_ns <= begin_ns]
        return before[-1:] + [level for level in self.levels if begin_ns < level.at_ns <= end_ns]

    def most(self, begin_ns: int, end_ns: int) -> Truth:
        """The highest levels between two moments (CLOCK_MONOTONIC)."""
        within = self._within(begin_ns, end_ns)
        rss, once = (max((level[at] for level in within), default=0) / MIB for at in (1, 2))
        return Truth(rss, once)

    def held(self) -> Mapping[str, float]:
        """MiB of each address space of the tree now."""
        return {space: sum(sizes.values()) / MIB for space, sizes in self._sizes.items() if self._is_ours(space)}

    def _adopt(self, task: int) -> None:
        self._tasks.add(task)
        for child in self._children.pop(task, ()):
            self._adopt(child)

    def _take(self, line: str) -> None:
        found = LINE.search(line)
        if found is None:
            if "LOST" in line:
                raise LostEvents(line.strip())
            return
        task, event = int(found["task"]), found["event"]
        if event == "task_newtask":
            child = NEW_TASK.match(found["rest"])
            if child is not None and not int(child[2], 16) & CLONE_VM:
                self._copied(task)
            if child is not None and task in self._tasks:
                self._adopt(int(child[1]))
            elif child is not None:
                self._children.setdefault(task, []).append(int(child[1]))
            return
        if event == "sched_process_exec":
            if task in self._roots:
                self._adopt(task)
            elif task not in self._tasks:
                self._executed.add(task)
            return
        change = CHANGE.match(found["rest"])
        if change is not None and change[3] in MEMBERS:
            at_ns = (int(found["s"]) * 1_000_000 + int(found["us"])) * 1000
            self._change(at_ns, task, change[1], change[2] == "1", change[3], int(change[4]))

    def _change(self, at_ns: int, task: int, space: str, own: bool, member: str, size: int) -> None:
        self._maker.setdefault(space, task)
        if own and (not self._counts.get(space, False) or task not in self._tasks):
            self._counts[space] = task in self._tasks
        sizes = self._sizes.setdefault(space, {})
        sizes[member] = size
        if not any(sizes.values()):  # it has ended: the next one may have its number
            for known in self._sizes, self._counts, self._maker, self._inherited:
                known.pop(space, None)
        ours = {space: sum(sizes.values()) for space, sizes in self._sizes.items() if self._is_ours(space)}
        # What no task of its own has changed yet, fork() is filling, or exec().
        begun = {space: held for space, held in ours.items() if space in self._counts}
        once = sum(max(0, held - self._inherited.get(space, 0)) for space, held in begun.items())
        level = Level(at_ns, sum(ours.values()), once)
        if level[1:] != self.levels[-1][1:]:
            self.levels.append(level)

    def _copied(self, parent: int) -> None:
        """A task has called fork(): what it has filled for its child is a copy."""
        for space, maker in self._maker.items():
            if maker == parent and space not in self._counts:
                self._inherited.setdefault(space, sum(self._sizes[space].values()))

    def _is_ours(self, space: str) -> bool:
        """Until one of its own tasks has changed it, it is what fork() or exec() fills: its maker's."""
        return self._counts.get(space, self._maker.get(space) in self._tasks)


@contextmanager
def tracing() -> Iterator[TreeTrace | None]:
    """Traces what this process starts from now on; None where the kernel cannot be traced."""
    with tempfile.TemporaryDirectory() as name:
        if os.geteuid() or subprocess.run(["mount", "-t", "tracefs", "nodev", name], check=False).returncode:
            yield None
            return
        folder = Path(name) / "instances" / f"truemem-{os.getpid()}-{threading.get_ident()}"
        try:
            folder.mkdir()
            _set_up(folder)
            trace = TreeTrace(folder)
            try:
                yield trace
            finally:
                trace.close()
                (folder / "tracing_on").write_text("0")
        finally:
            if folder.exists():
                folder.rmdir()
            subprocess.run(["umount", name], check=False)


def _set_up(folder: Path) -> None:
    tasks = " ".join(os.listdir("/proc/self/task"))  # noqa: PTH208
    # What we do ourselves when we read the trace must not make it longer.
    settings = {
        "events/kmem/rss_stat/filter": f"common_pid != {os.getpid()}",
        "buffer_size_kb": str(BUFFER_KIB),
        "trace_clock": "mono",
        "options/event-fork": "1",
        "set_event_pid": tasks,
        "events/kmem/rss_stat/enable": "1",
        "events/task/task_newtask/enable": "1",
        "events/sched/sched_process_exec/enable": "1",
    }
    for path, value in settings.items():
        (folder / path).write_text(value)
