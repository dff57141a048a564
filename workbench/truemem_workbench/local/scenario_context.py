"""The tools of a scenario: a local Lambda, the user's function and event, and methods that cause and check faults."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

from ..support.bad_input import BadInput
from .configuration.settings import Settings
from .lifecycle.events import Report
from .processes.memory import CgroupMemory
from .processes.process import User
from .session import Invocation, LocalLambda

LOOK_EVERY_S = 0.02
KILL_ME_FIRST = "1000"
# Waits to be put into the environment's cgroup; then takes memory by the MiB for as long as the runtime has any. It is
# two processes, neither with more than half of the limit: to the kernel the runtime then is the largest.
_HOG = """
import os, sys
sys.stdin.readline()
os.fork()
held = []
while open(sys.argv[1]).read(1) != "0":
    held.append(bytearray(b"\\1" * 2**20))
"""


class NotAsDescribed(Exception):
    """The scenario did not go as its description says."""


class Reporter(Protocol):
    """Shows the user how the scenario goes."""

    def step(self, text: str) -> None: ...

    def response(self, invocation: Invocation) -> None: ...


class ScenarioContext:
    def __init__(
        self,
        local: LocalLambda,
        settings: Settings,
        reporter: Reporter,
        *,
        event: object = None,
        tenant_id: str | None = None,
        gap_s: float = 0,
        grows: bool = False,
    ) -> None:
        """`grows`: the function itself runs out of memory in its first invocation."""
        self.local = local
        self.settings = settings
        self.grows = grows
        self._reporter = reporter
        self._event = event
        self._tenant_id = tenant_id
        self._gap_s = gap_s
        self._answers: list[Invocation] = []

    # --- what happened ------------------------------------------------------------------------------------------------

    def say(self, text: str) -> None:
        self._reporter.step(text)

    def check(self, expected: str, true: bool, otherwise: str = "that is not true") -> None:
        """Tell the user that the expectation is met. Raises NotAsDescribed if it is not."""
        if not true:
            raise NotAsDescribed(f"{expected}: {otherwise}")
        self.say(f"as described: {expected}")

    def answer(self) -> Invocation:
        """The answer to the last invocation."""
        return self._answers[-1]

    def report(self) -> Report:
        """The REPORT line of the last invocation."""
        return self.local.reports[-1]

    def records(self, kind: str) -> list[dict[str, Any]]:
        """The records of all events of a type so far. The type is given without `platform.`."""
        return [event["record"] for event in self.local.events if event["type"] == f"platform.{kind}"]

    def final_states(self) -> dict[str, str]:
        """The last state of each extension that asked for SHUTDOWN, after the stop."""
        known = self.local.environment.generation.registry.external()
        return {each.name: each.state.value for each in known if "SHUTDOWN" in each.events}

    # --- invocations --------------------------------------------------------------------------------------------------

    def invoke(self) -> None:
        """Invoke, and wait for the freeze."""
        self._answered(self._call())
        self.local.settle()

    def _call(self) -> Invocation:
        return self.local.invoke(self._event, tenant_id=self._tenant_id)

    def _answered(self, invocation: Invocation) -> None:
        self._answers.append(invocation)
        self._reporter.response(invocation)

    @contextlib.contextmanager
    def invocation(self, *, held: bool = True) -> Iterator[None]:
        """Run an invocation with a fault in it. With `held`, the fault comes between the function's work and its
        answer."""
        hold = self.local.hold
        if held:
            hold.at("response")
        with ThreadPoolExecutor(1) as pool:
            calling = pool.submit(self._call)
            try:
                if held:
                    self._until_held(calling)
                    self.say("the function has done its work, and its answer is held back")
                    hold.at(None)
                yield
                self._answered(calling.result())
            except BaseException:  # Ctrl-C as well: then the call must not run on
                self.local.stop(abort=True)
                raise
            finally:
                hold.at(None)
        self.local.settle()

    def _until_held(self, calling: Future[Invocation] | None = None) -> None:
        while not self.local.hold.wait(LOOK_EVERY_S):
            if calling is not None and calling.done():
                raise NotAsDescribed(
                    "the invocation ended before the function answered. Try another --event or --timeout"
                )

    # --- making things happen -----------------------------------------------------------------------------------------

    def hold_next_init(self) -> None:
        self.local.hold.at("next")

    def kill_runtime_in_init(self) -> None:
        """Kill the runtime at the end of its init, before it asks for its first event."""
        self._until_held()
        self.local.hold.at(None)
        self.signal("runtime", signal.SIGKILL)
        while "runtime" in self.local.processes():
            time.sleep(LOOK_EVERY_S)

    def signal(self, name: str, number: signal.Signals, *, group: bool = True) -> None:
        """Send a signal to a process of the environment, by default to its whole group."""
        pid = self.local.processes()[name]
        self.say(f"{number.name} to {name} (pid {pid})")
        (os.killpg if group else os.kill)(pid, number)

    def gap(self) -> None:
        """Stay frozen for `--gap` seconds."""
        self.local.settle()
        self.say(f"nothing happens for {self._gap_s:g} s")
        time.sleep(self._gap_s)

    def needs_cgroup(self) -> None:
        """Raise BadInput if there is no memory cgroup: only then can the kernel kill."""
        if self.settings.memory_limit == "off" or not isinstance(self.local.environment.memory, CgroupMemory):
            raise BadInput("this scenario needs a memory cgroup, which is off or not permitted here. Try it as root")

    def fill_memory(self) -> None:
        """Let another process take the remaining memory, and make the kernel prefer the runtime as its victim."""
        environment = self.local.environment
        runtime = Path("/proc") / str(self.local.processes()["runtime"])
        owner = runtime.stat()
        (runtime / "oom_score_adj").write_text(KILL_ME_FIRST)
        identity = User(owner.st_uid, owner.st_gid).identity if os.geteuid() == 0 else {}
        with subprocess.Popen(
            [sys.executable, "-c", _HOG, str(runtime / "statm")],
            stdin=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # it may end in a MemoryError, or with the process that it looks at
            **identity,
        ) as hog:
            self.say(f"a process (pid {hog.pid}) takes the remaining memory")
            environment.memory.add(hog.pid)
            hog.communicate(b"\n")
