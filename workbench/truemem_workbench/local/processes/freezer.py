"""Freezes and thaws the whole environment between invocations."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable
from typing import Literal, Protocol

import psutil

from ...support.conditions import Condition
from .cgroups import Cgroup, NotPermitted, create
from .memory import tree

SPIN_S = 0.0002  # most processes have stopped by then. For those that take longer a timer waits, which takes no CPU.
LOOK_S = 0.001
SETTLE_S = 2.0  # time for a process to stop. One that takes longer (an uninterruptible wait) keeps running.


class Freezer(Protocol):
    @property
    def group(self) -> Cgroup | None:
        """The control group, if it freezes with one."""

    def add(self, pid: int) -> None:
        """Add a process before its first instruction."""

    async def freeze(self) -> bool:
        """Stop all processes. Returns True when all have stopped, False if one would not stop."""

    def thaw(self) -> None:
        """Let all processes run. Returns when the kernel says so; blocks for some ten microseconds."""

    def close(self) -> None:
        """Thaw, kill the remaining processes, and remove the group."""


class CgroupFreezer:
    """Freezes with a cgroup: `freezer.state` of v1, or `cgroup.freeze` of v2."""

    def __init__(self, group: Cgroup, *, shared: bool = False) -> None:
        self.group = group
        self._shared = shared

    def add(self, pid: int) -> None:
        if not self._shared:
            self.group.add(pid)

    def _set(self, frozen: bool) -> None:
        if self.group.version == 1:
            self.group.write("freezer.state", "FROZEN" if frozen else "THAWED")
        else:
            self.group.write("cgroup.freeze", "1" if frozen else "0")

    def _is(self, frozen: bool) -> bool:
        if self.group.version == 1:
            return self.group.read("freezer.state").strip() == ("FROZEN" if frozen else "THAWED")
        return self.group.field("cgroup.events", "frozen") == int(frozen)

    async def freeze(self) -> bool:
        begun = time.monotonic()
        self._set(True)
        while not self._is(True):
            taken = time.monotonic() - begun
            if taken > SETTLE_S:
                return False
            await asyncio.sleep(0 if taken < SPIN_S else LOOK_S)
            self._set(True)  # v1 looks again at a task that could not stop only when asked again
        return True

    def thaw(self) -> None:
        end = time.monotonic() + SETTLE_S
        self._set(False)
        while not self._is(False) and time.monotonic() < end:
            time.sleep(0.0001)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.thaw()
        if not self._shared:
            self.group.kill()
            self.group.remove()


class SignalFreezer:
    """Freezes with SIGSTOP to every process of the environment, which it finds by descent; none without roots."""

    group = None

    def __init__(self, roots: Callable[[], dict[str, int]]) -> None:
        self._roots = roots
        self._stopped: set[int] = set()

    def add(self, pid: int) -> None:
        """Does nothing: the processes are found by descent."""

    async def freeze(self) -> bool:
        end = time.monotonic() + SETTLE_S
        while True:
            # Again from the start: a process may have forked before it was stopped.
            alive = tree(self._roots().values())
            for pid in alive - self._stopped:
                self._signal(pid, signal.SIGSTOP)
            self._stopped |= alive
            if all(_stopped(pid) for pid in alive):
                return True
            if time.monotonic() > end:
                return False
            await asyncio.sleep(0.0005)

    def thaw(self) -> None:
        for pid in self._stopped:
            self._signal(pid, signal.SIGCONT)
        self._stopped.clear()

    @staticmethod
    def _signal(pid: int, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)

    def close(self) -> None:
        self.thaw()


def _stopped(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() in (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.Error:
        return True


def choose_freezer(
    asked: Literal["auto", "signal", "off"],
    group_name: str,
    shared: Cgroup | None,
    roots: Callable[[], dict[str, int]],
) -> tuple[Freezer, str | None]:
    """Choose the best permitted freezer, and a notice if there is a better one. `shared`: a group that exists already,
    of v2, in which the processes will be."""
    if asked == "off":
        return SignalFreezer(dict), "no freeze between invocations, as asked"
    if asked == "signal":
        return SignalFreezer(roots), None
    if shared is not None:
        return CgroupFreezer(shared, shared=True), None
    try:
        return CgroupFreezer(create("freezer", group_name)), None
    except NotPermitted as refusal:
        notice = f"no permission for a freezer cgroup ({refusal}): SIGSTOP and SIGCONT instead"
        return SignalFreezer(roots), Condition(notice, "frozen by SIGSTOP")
