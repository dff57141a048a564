"""A function of real processes, told what to do step by step, and what they really held."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from truemem.linux.process_table import ProcessTable
from truemem.linux.procfs import Procfs
from truemem.measure.recorder import Recorder
from truemem.measure.window import NEVER_NS, Peak, Window, peak

AGENT = str(Path(__file__).with_name("agent.py"))


class Member:
    """One process."""

    def __init__(self, name: str, pid: int, parent: Member | None) -> None:
        self.name = name
        self.pid = pid
        self.parent = parent
        """None for the runtime and for a daemon."""
        self.ended = False
        """It has, and its parent has not waited for it."""
        self.inherited = 0
        """KiB, at most, that fork() has handed on to it: there once until one of the two writes to them."""
        self.sigchld = "default"
        """See Agent.sigchld."""
        self.held: tuple[str, int] | None = None
        """Name and pid of its child that is held between vfork() and exec()."""


class Function:
    """Starts with a runtime, `p0`. Between two steps everything is at rest."""

    def __init__(self, folder: Path, polls: bool = False) -> None:
        """`polls`: the runtime waits for events in a thread that is made for each, as Python 3.12 and later does."""
        self._folder = folder
        self._polls = polls
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(folder / "driver"))
        self._socket.settimeout(60)
        self._made = 0
        self.members: list[Member] = []
        self.script: list[str] = []
        """What has been done since the start."""
        self.truth = 0
        """KiB: the most that all processes have held together since the last `close`, as a sum of RSS."""
        self.once = 0
        """The same without what fork() has handed on: so much was there for certain."""
        self.perhaps = 0
        """KiB more that they may have held: children that nothing waits for end some time later."""
        self._ending: dict[int, int] = {}
        """What each of them holds, by its pid."""
        self.sampled = False
        """It may be more still: threads were only sampled."""
        numbers = ".".join(str(secrets.randbelow(250)) for _ in range(3))
        self._api = socket.create_server((f"127.{numbers}", 0))  # none of them talks to it, and no other has this one
        address = f"127.{numbers}:{self._api.getsockname()[1]}"
        proc = Procfs()
        self.table = ProcessTable(proc, address, last_pid=proc.last_pid())
        self.recorder = Recorder(self.table, proc)
        variables = {**os.environ, "AWS_LAMBDA_RUNTIME_API": address, "_HANDLER": "app.handler"}
        self._runtime = subprocess.Popen([sys.executable, "-ISE", AGENT, str(folder), "p0"], env=variables)
        self._join(None)
        self.table.scan()
        found = [process.pid for process in self.table.function()]
        assert found == [self._runtime.pid], (found, self._runtime.pid, self.table.looked_for())
        self.close()

    def stop(self) -> None:
        for process in self.table.function():
            self.table.forget(process)
        pids = [member.pid for member in self.members] + [member.held[1] for member in self.members if member.held]
        for pid in reversed(pids):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self._runtime.kill()
        self._runtime.wait()
        self._api.close()
        self._socket.close()

    def living(self) -> list[Member]:
        return [member for member in self.members if not member.ended]

    def step(self, member: Member, word: str, argument: str = "") -> None:
        """One step of one process."""
        self.script.append(f"{member.name} {word} {argument}".strip())
        others = [other for other in self.living() if other is not member]
        held = sum(map(self._rss, others))
        shared = sum(map(self._shared, others))
        before, handed_on = self._rss(member), self._shared(member)
        if word in ("fork", "spawn", "daemon"):
            self._made += 1
            self._tell(member, word, f"p{self._made}")
            child = self._join(None if word == "daemon" else member)
            begun = self._peak_of(child)
            if word != "spawn":
                child.inherited = begun
            if word != "spawn" or member.sigchld == "ignored":
                child.sigchld = member.sigchld
            self._reach(held + before + begun, shared + handed_on + child.inherited)
        elif word == "hold":
            self._made += 1
            self._tell(member, word, f"p{self._made}")
            member.held = f"p{self._made}", int(self._hear()[3])
        else:
            self._tell(member, word, argument)
            more = self._hear()[3:]
            if word == "quick":
                peak, pid = map(int, more)
                own = int(argument.partition(" ")[0]) << 10
                self._reach(held + before + peak, shared + handed_on + peak - own)
                self._ending[pid] = peak
                self.perhaps += peak
            elif word == "churn":
                self.sampled = True
                self._reach(held + int(more[0]), shared + handed_on)
            elif word == "end":
                self._wait_until_ended(member)
            elif word == "exec":
                member.inherited = 0
                member.sigchld = member.sigchld.replace("nocldwait", "default")  # exec() resets it
                self._reach(held + self._peak_of(member), shared)
            elif word == "sigchld":
                member.sigchld = argument
        self._reach_now()

    def release(self, member: Member) -> None:
        """Its child of vfork() goes on, and calls exec()."""
        assert member.held is not None
        (name, _), member.held = member.held, None
        ignores = member.sigchld == "ignored"
        self.script.append(f"{member.name} release")
        living = self.living()
        before, shared = sum(map(self._rss, living)), sum(map(self._shared, living))
        os.close(os.open(self._folder / f"{name}.fifo", os.O_WRONLY))
        child = self._join(member)
        child.sigchld = "ignored" if ignores else "default"
        self._reach(before + self._peak_of(child), shared)
        self._reach_now()

    def brief(self, parent: Member, steps: list[str]) -> None:
        """A child that does these `steps`, and ends; at `tick` and `watch` the sidecar samples all, or the children."""
        looks: dict[str, Callable[[], object]] = {
            "tick": lambda: self.recorder.levels.sample(late=True),
            "watch": self.recorder.levels.watch,
        }
        self.step(parent, "fork")
        child = self.members[-1]
        for step in steps:
            looks.get(step, lambda step=step: self.step(child, *step.split()))()
        self.step(child, "end")
        if child.ended:
            self.wait_for(child)

    def wait_for(self, member: Member) -> None:
        """The parent of one that has ended waits for it."""
        assert member.parent is not None
        self.step(member.parent, "wait", str(member.pid))
        self.members.remove(member)

    def close(self, at_rest: bool = False, waits: bool = False) -> tuple[Window, Peak | None, int, int]:
        """The invocation ends: the window, the peak as it is told, `truth` and `once`. The next one begins; while it is
        worked out, who has ended is waited for, if it `waits`."""
        self.script.append(f"close at_rest={at_rest} waits={waits}")
        if self._polls:
            self._tell(self.members[0], "poll", "")
            self._hear()
            self._wait_until_at_rest(self.members[0])
        ending = {pid: kib for pid, kib in self._ending.items() if not _has_ended(pid)}
        readings = self.recorder.read_and_reset(at_rest, most=100)
        for member in [member for member in self.members if waits and member.ended and member.parent in self.living()]:
            self.wait_for(member)
        window = self.recorder.close(readings, NEVER_NS)
        truth, once = self.truth, self.once
        self.truth = self.once = 0
        self._ending = {pid: kib for pid, kib in ending.items() if not _has_ended(pid)}
        self.perhaps = sum(ending.values())
        self._reach_now()
        return window, peak(window), truth, once

    def _reach(self, held: int, shared: int) -> None:
        self.truth = max(self.truth, held)
        self.once = max(self.once, held - shared)

    def _reach_now(self) -> None:
        living = self.living()
        self._reach(sum(map(self._rss, living)), sum(map(self._shared, living)))

    def _shared(self, member: Member) -> int:
        return min(member.inherited, self._rss(member)) if member.inherited else 0

    def _tell(self, member: Member, word: str, argument: str) -> None:
        self._socket.sendto(f"{word} {argument}".encode(), str(self._folder / member.name))

    def _hear(self) -> list[str]:
        return self._socket.recv(4096).decode().split()

    def _join(self, parent: Member | None) -> Member:
        name, pid, *_ = self._hear()
        member = Member(name, int(pid), parent)
        self.members.append(member)
        return member

    def _wait_until_at_rest(self, member: Member) -> None:
        """Until none of its threads runs."""
        while any(state == "R" for state in map(_state, Path(f"/proc/{member.pid}/task").iterdir())):
            os.sched_yield()

    def _wait_until_ended(self, member: Member) -> None:
        """Until it is a zombie, or, of a daemon, is gone."""
        while not _has_ended(member.pid):
            os.sched_yield()
        for child in self.members:
            if child.parent is member:
                child.parent = None  # an orphan, from now on
        if member.parent is None or member.parent.sigchld != "default":
            self.members.remove(member)
        else:
            member.ended = True

    def _rss(self, member: Member) -> int:
        return self._read(member, "VmRSS:")

    def _peak_of(self, member: Member) -> int:
        """Since its exec, or fork: of one that has just begun."""
        return self._read(member, "VmHWM:")

    @staticmethod
    def _read(member: Member, label: str) -> int:
        """KiB, from any thread that has the memory."""
        for status in Path(f"/proc/{member.pid}/task").glob("*/status"):
            try:
                text = status.read_text()
            except OSError:  # a thread that has just ended: exec() ends all others
                continue
            for line in text.splitlines():
                if line.startswith(label):
                    return int(line.split()[1])
        return 0


def _state(task: Path) -> str:
    """Of a thread; "" if it has ended."""
    try:
        return (task / "stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def _has_ended(pid: int) -> bool:
    """All threads of it (the main one may have ended long ago)."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return True
    return fields[0] in "ZX" and int(fields[17]) <= 1
