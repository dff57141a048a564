"""The environment's memory: its limit, and the high-water mark that REPORT shows.

The mark is the kernel's own, of the whole environment, and it never falls: v1 `memory.max_usage_in_bytes`, v2
`memory.peak`. Beside RSS it counts the group's page cache and kernel memory, as AWS's mark does (by the OTel/AWS design
note; AWS itself does not say). The group is not charged for file pages that another program on this machine has read
before, mostly of shared libraries. A Lambda would pay for them, so the part that the largest process maps is added. The
mark survives a reset of the environment: that is our choice, because the service's behaviour is not known.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Literal, Protocol

import psutil

from ...support.conditions import Condition
from .cgroups import Cgroup, NotPermitted, create, read_file

MiB = 1024 * 1024
WATCH_EVERY_S = 0.02
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
STATM_FIELDS = {"rss": 1, "shared": 2}
"""Places of the fields in /proc/PID/statm (proc_pid_statm(5)), whose unit is pages."""


class Memory(Protocol):
    @property
    def group(self) -> Cgroup | None:
        """The control group, if there is one."""

    def add(self, pid: int) -> None:
        """Add a process before its first instruction."""

    def mark(self) -> int:
        """The high-water mark in bytes. It never falls."""

    def forget(self) -> None:
        """Start the mark again at the present level: another environment begins here."""

    def kills(self) -> int:
        """Number of processes that the limit has killed so far."""

    def pids(self) -> list[int]:
        """Every process of the environment, if it knows them by itself."""

    def close(self) -> None:
        """Kill the remaining processes, and remove the group."""


class CgroupMemory:
    """Limits memory with a cgroup: the kernel really kills at the limit."""

    def __init__(self, group: Cgroup, limit: int | None) -> None:
        self.group = group
        self._highest = 0
        self._limit = limit
        v1 = group.version == 1
        self._peak_file = "memory.max_usage_in_bytes" if v1 else "memory.peak"
        self._kills_file = "memory.oom_control" if v1 else "memory.events"
        if not v1 and not (group.path / "memory.peak").exists():
            self._peak_file = "memory.current"  # before Linux 5.19: only as high as we happen to look
        if limit is not None:
            group.write("memory.limit_in_bytes" if v1 else "memory.max", str(limit))
            # Lambda has no swap. Without swap accounting the file is absent, or refuses: then there is none to forbid.
            name, value = ("memory.memsw.limit_in_bytes", str(limit)) if v1 else ("memory.swap.max", "0")
            with suppress(OSError):
                group.write(name, value)

    def add(self, pid: int) -> None:
        self.group.add(pid)

    def mark(self) -> int:
        peak = int(self.group.read(self._peak_file)) + self._mapped_but_not_charged()
        self._highest = max(self._highest, peak if self._limit is None else min(peak, self._limit))
        return self._highest

    def forget(self) -> None:
        self._highest = 0
        if self.group.version == 1:
            self.group.write(self._peak_file, "0")  # memory.peak of v2 has no such reset for all its readers

    def _mapped_but_not_charged(self) -> int:
        """File pages that our largest process maps and another group is charged for, in bytes."""
        mapped = max((memory_of(pid, "shared") for pid in self.group.pids()), default=0)
        if not mapped:
            return 0
        charged = self.group.field("memory.stat", "mapped_file" if self.group.version == 1 else "file_mapped")
        return max(0, mapped - charged)

    def kills(self) -> int:
        return self.group.field(self._kills_file, "oom_kill")

    def pids(self) -> list[int]:
        return self.group.pids()

    def close(self) -> None:
        self.group.kill()
        self.group.remove()


class WatchedMemory:
    """The memory limit where there is no cgroup: reads RSS every 20 ms, and kills the runtime if the sum is over the
    limit.

    It misses a spike between two readings, and counts pages that forked processes share once for each process.
    """

    group = None

    def __init__(self, limit: int | None, roots: Callable[[], dict[str, int]]) -> None:
        self._limit = limit
        self._roots = roots
        self._highest = 0
        self._kills = 0
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="truemem-memory", daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._closed.wait(WATCH_EVERY_S):
            self._look()

    def _look(self) -> None:
        roots = self._roots()
        used = sum(memory_of(pid, "rss") for pid in tree(roots.values()))
        self._highest = max(self._highest, used)
        if self._limit is not None and used > self._limit and "runtime" in roots:
            self._kills += 1
            try:
                os.killpg(roots["runtime"], signal.SIGKILL)
            except ProcessLookupError:
                self._kills -= 1  # gone by itself in the meantime

    def add(self, pid: int) -> None:
        """Does nothing: the processes are found by descent."""

    def mark(self) -> int:
        self._look()
        return self._highest if self._limit is None else min(self._highest, self._limit)

    def forget(self) -> None:
        self._highest = 0

    def kills(self) -> int:
        return self._kills

    def pids(self) -> list[int]:
        return []

    def close(self) -> None:
        self._closed.set()
        self._thread.join()


def memory_of(pid: int, kind: Literal["rss", "shared"]) -> int:
    """RSS, or its part of mapped files and shared memory, in bytes; 0 if the process is gone."""
    try:
        statm = read_file(f"/proc/{pid}/statm")
    except OSError:
        return 0
    return int(statm.split()[STATM_FIELDS[kind]]) * PAGE_BYTES


def tree(roots: Iterable[int]) -> set[int]:
    """The given processes and all their descendants."""
    found: set[int] = set()
    for pid in roots:
        try:
            found |= {pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))}
        except psutil.Error:
            continue
    return found


def choose_memory(
    asked: Literal["auto", "watch", "off"],
    limit_mib: int,
    group_name: str,
    roots: Callable[[], dict[str, int]],
) -> tuple[Memory, str | None]:
    """Choose the best permitted memory limit, and a notice if it is less than Lambda has.

    `off` keeps the mark and sets no limit.
    """
    limit = None if asked == "off" else limit_mib * MiB
    if asked == "watch":
        return WatchedMemory(limit, roots), None
    try:
        return CgroupMemory(create("memory", group_name), limit), None
    except NotPermitted as refusal:
        notice = f"no permission for a memory cgroup ({refusal}): watching instead, no kernel OOM kill"
        return WatchedMemory(limit, roots), Condition(notice, "memory is watched, no kernel OOM kill")
