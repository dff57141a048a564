"""Ready scenarios for `truemem local run FUNCTION --scenario NAME`: what an extension may live to see, each on its own.

A scenario works with any function that answers. Where it must die, its answer is held back, and what is to happen to it
happens then: with the handler's work done, and the memory still held.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .function import Function
from .stage import Stage

BYSTANDER = Path(__file__).parent / "extensions" / "bystander.py"
"""An extension for scenarios; its process is called by the file's name without the suffix."""


@dataclass(frozen=True)
class Scenario:
    play: Callable[[Stage], None]
    """Raises NotAsTold. Its first line of documentation is what the user reads."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Unless the user chose them: of `Settings`."""
    extensions: bool = False
    """With an extension beside the user's, which does nothing."""
    wrapped: bool = False
    """With a shell around the runtime, which exits with 0 when told to."""
    grows: bool = False
    """A Python handler goes on after its work until memory is out. A bootstrap has a process beside it that does."""
    held_in_init: bool = False
    """The runtime's first `next` is held back from the start."""

    def function(self, function: Function) -> Function:
        """The user's, as the scenario needs it."""
        if self.grows:
            return function.growing() or function
        return function.wrapped() if self.wrapped else function

    @property
    def description(self) -> str:
        return (self.play.__doc__ or "").strip().split("\n")[0]


def timeout(stage: Stage) -> None:
    """The function's answer never comes: a timeout, SHUTDOWN `timeout`, and init again within the next invocation."""
    with stage.invocation():
        stage.say(f"the answer is held back: {stage.settings.timeout_s:g} s is the function's timeout")
    stage.check("its report says timeout", stage.report().status == "timeout")
    _recovers(stage)


def crash(stage: Stage) -> None:
    """SIGKILL to the runtime in the midst of an invocation: Runtime.ExitError, SHUTDOWN `failure`."""
    with stage.invocation():
        stage.signal("runtime", signal.SIGKILL)
    _failed_with(stage, "Runtime.ExitError")
    _recovers(stage)


def exit_0(stage: Stage) -> None:
    """The runtime exits with 0 in the midst of an invocation: Runtime.ExitError all the same."""
    with stage.invocation():
        stage.signal("runtime", signal.SIGUSR1, group=False)
    _failed_with(stage, "Runtime.ExitError")
    stage.check("the caller reads so", "without providing a reason" in str(stage.answer().payload))
    _recovers(stage)


def init_failure(stage: Stage) -> None:
    """The runtime dies in its init, and again when the first invocation repeats it: the caller gets the error."""
    stage.kill_runtime_in_init()
    stage.hold_next_init()
    with stage.invocation(held=False):
        stage.kill_runtime_in_init()
    _failed_with(stage, "Runtime.ExitError")
    stage.check("init failed twice", [each["status"] for each in stage.records("initReport")] == ["error", "error"])
    _recovers(stage)


def suppressed_init(stage: Stage) -> None:
    """The runtime dies in its init: the first invocation does init again (phase `invoke`) and succeeds."""
    stage.kill_runtime_in_init()
    stage.invoke()
    stage.check("the invocation succeeded", stage.report().status == "success")
    stage.check("init was repeated", [each["phase"] for each in stage.records("initStart")] == ["init", "invoke"])


def extension_crash(stage: Stage) -> None:
    """Another extension dies in the midst of an invocation: Extension.Crash, SHUTDOWN `failure` to the others."""
    with stage.invocation():
        stage.signal("extension:bystander", signal.SIGKILL)
    _failed_with(stage, "Extension.Crash")
    _recovers(stage)


def out_of_memory(stage: Stage) -> None:
    """Memory runs out in the midst of an invocation: the kernel kills the runtime, Runtime.OutOfMemory."""
    if stage.grows:
        stage.say("the handler does its work, and then takes memory without end")
        stage.invoke()
    else:
        stage.needs_cgroup()
        with stage.invocation():
            stage.fill_memory()
    _failed_with(stage, "Runtime.OutOfMemory")
    mark, size = stage.report().max_memory_used_mib, stage.report().memory_size_mib
    stage.check(f"Max Memory Used is the memory size ({mark} of {size})", mark == size)
    _recovers(stage)


def long_freeze(stage: Stage) -> None:
    """Frozen between two invocations for as long as --gap says: clocks jump, timers are overdue, reports are late."""
    stage.invoke()
    stage.gap()
    stage.invoke()
    _all_well(stage, 2)


def provisioned_gap(stage: Stage) -> None:
    """Provisioned concurrency: --gap lies between init and the first invocation, and no report has an init."""
    stage.gap()
    stage.invoke()
    stage.invoke()
    _all_well(stage, 2)
    stage.check("no report has an init duration", all(each.init_duration_ms is None for each in stage.local.reports))


def snap_start(stage: Stage) -> None:
    """SnapStart: init, a snapshot, --gap, then a restore under another log stream, and two invocations."""
    stage.gap()
    published = stage.local.processes()
    stage.invoke()
    stage.invoke()
    _all_well(stage, 2)
    stage.check("the processes are those of the snapshot", stage.local.processes() == published)
    told = [stage.records("initStart")[0]["instanceId"], stage.records("restoreStart")[0]["instanceId"]]
    stage.check("the restored environment has a log stream of its own", told[0] != told[1])


def spindown(stage: Stage) -> None:
    """SHUTDOWN amid idle, after one invocation: two seconds for the extensions, and the last report."""
    stage.invoke()
    _all_well(stage, 1)
    stage.say("the environment is not needed any more")
    stage.local.stop()
    for name, state in stage.final_states().items():
        stage.check(f"{name} ended by itself, with 0 and in time (it is {state})", state == "Exited")


def report_lost(stage: Stage) -> None:
    """The runtime dies, and the report of that invocation never reaches an extension."""
    crash(stage)


def telemetry_out_of_order(stage: Stage) -> None:
    """Each batch of telemetry has its newest event first: a report before its runtimeDone before its start."""
    for _ in range(3):
        stage.invoke()
    _all_well(stage, 3)


def slow_telemetry(stage: Stage) -> None:
    """Telemetry is seconds late, or comes at SHUTDOWN: runtimeDone long after the invocation, and the next one."""
    for _ in range(3):
        stage.invoke()
    _all_well(stage, 3)


def _failed_with(stage: Stage, error_type: str) -> None:
    got = stage.report().error_type
    stage.check(f"its report says {error_type}", got == error_type, f"it says {got}")


def _recovers(stage: Stage) -> None:
    """After a reset: init again, within the next invocation."""
    before = len(stage.records("initStart"))
    stage.invoke()
    status = stage.report().status
    hint = f"its status is {status}. Init is a part of it: it may need a longer --timeout"
    stage.check("the next invocation succeeded", status == "success", hint)
    again = [each["phase"] for each in stage.records("initStart")[before:]]
    stage.check("it did init again, in phase `invoke`", again == ["invoke"])


def _all_well(stage: Stage, count: int) -> None:
    statuses = [each.status for each in stage.local.reports]
    stage.check(f"{count} invocations succeeded", statuses == ["success"] * count, f"they are {statuses}")


SCENARIOS: dict[str, Scenario] = {
    "timeout": Scenario(timeout, {"timeout_s": 3.0}),
    "crash": Scenario(crash),
    "exit": Scenario(exit_0, wrapped=True),
    "init-failure": Scenario(init_failure, held_in_init=True),
    "suppressed-init": Scenario(suppressed_init, held_in_init=True),
    "extension-crash": Scenario(extension_crash, extensions=True),
    "out-of-memory": Scenario(out_of_memory, grows=True),
    "long-freeze": Scenario(long_freeze),
    "provisioned-gap": Scenario(provisioned_gap, {"initialization": "provisioned-concurrency"}),
    "snap-start": Scenario(snap_start, {"initialization": "snap-start"}),
    "spindown": Scenario(spindown),
    "report-lost": Scenario(report_lost, {"telemetry_fault": "report-lost"}),
    "telemetry-out-of-order": Scenario(telemetry_out_of_order, {"telemetry_fault": "out-of-order"}),
    "slow-telemetry": Scenario(slow_telemetry, {"telemetry_fault": "slow"}),
}
