"""The scenarios of `truemem local run FUNCTION --scenario NAME`. Each shows one fault that an extension can meet.

A scenario works with any function that answers. If the function must die, its answer is held back, and it dies with the
handler's work done and its memory still held.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .configuration.function import Function

if TYPE_CHECKING:  # aiohttp is for playing one, not for the list of them
    from .scenario_context import ScenarioContext

BYSTANDER = Path(__file__).parent / "extensions" / "bystander"
"""An extension for scenarios. The name of its process is the file's name."""


@dataclass(frozen=True)
class Scenario:
    play: Callable[[ScenarioContext], None]
    """Plays the scenario. Raises NotAsDescribed. The user reads the first line of its docstring."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Members of `Settings`, unless the user has set them."""
    extensions: bool = False
    """Add an extension that does nothing."""
    wrapped: bool = False
    """Put a shell around the runtime, which exits with 0 at a signal."""
    grows: bool = False
    """True if memory runs out: after its work a Python handler takes memory until it is killed. Beside a bootstrap,
    another process does."""
    held_in_init: bool = False
    """Hold the runtime's first `next` from the start."""

    def function(self, function: Function) -> Function:
        """The user's function, changed as the scenario needs it."""
        if self.grows:
            return function.growing() or function
        return function.wrapped() if self.wrapped else function

    @property
    def description(self) -> str:
        return (self.play.__doc__ or "").strip().split("\n")[0]


def timeout(context: ScenarioContext) -> None:
    """The function's answer never comes: a timeout, SHUTDOWN `timeout`, and init again within the next invocation."""
    with context.invocation():
        context.say(f"the answer is held back: {context.settings.timeout_s:g} s is the function's timeout")
    context.check("its report says timeout", context.report().status == "timeout")
    _recovers(context)


def crash(context: ScenarioContext) -> None:
    """The runtime is killed during an invocation: Runtime.ExitError, SHUTDOWN `failure`."""
    with context.invocation():
        context.signal("runtime", signal.SIGKILL)
    _failed_with(context, "Runtime.ExitError")
    _recovers(context)


def exit_0(context: ScenarioContext) -> None:
    """The runtime exits with 0 during an invocation: also a Runtime.ExitError."""
    with context.invocation():
        context.signal("runtime", signal.SIGUSR1, group=False)
    _failed_with(context, "Runtime.ExitError")
    context.check("the caller reads so", "without providing a reason" in str(context.answer().payload))
    _recovers(context)


def init_failure(context: ScenarioContext) -> None:
    """The runtime dies in its init, and again when the first invocation repeats it: the caller gets the error."""
    context.kill_runtime_in_init()
    context.hold_next_init()
    with context.invocation(held=False):
        context.kill_runtime_in_init()
    _failed_with(context, "Runtime.ExitError")
    context.check("init failed twice", [each["status"] for each in context.records("initReport")] == ["error", "error"])
    _recovers(context)


def suppressed_init(context: ScenarioContext) -> None:
    """The runtime dies in its init: the first invocation does init again (phase `invoke`) and succeeds."""
    context.kill_runtime_in_init()
    context.invoke()
    context.check("the invocation succeeded", context.report().status == "success")
    context.check("init was repeated", [each["phase"] for each in context.records("initStart")] == ["init", "invoke"])


def extension_crash(context: ScenarioContext) -> None:
    """Another extension dies during an invocation: Extension.Crash, SHUTDOWN `failure` to the others."""
    with context.invocation():
        context.signal("extension:bystander", signal.SIGKILL)
    _failed_with(context, "Extension.Crash")
    _recovers(context)


def out_of_memory(context: ScenarioContext) -> None:
    """Memory runs out during an invocation: the kernel kills the runtime, Runtime.OutOfMemory."""
    if context.grows:
        context.say("the handler does its work, and then takes memory without end")
        context.invoke()
    else:
        context.needs_cgroup()
        with context.invocation():
            context.fill_memory()
    _failed_with(context, "Runtime.OutOfMemory")
    mark, size = context.report().max_memory_used_mib, context.report().memory_size_mib
    context.check(f"Max Memory Used is the memory size ({mark} of {size})", mark == size)
    _recovers(context)


def long_freeze(context: ScenarioContext) -> None:
    """A freeze of --gap seconds between two invocations: clocks jump, timers are overdue, reports are late."""
    context.invoke()
    context.gap()
    context.invoke()
    _all_well(context, 2)


def provisioned_gap(context: ScenarioContext) -> None:
    """Provisioned concurrency: --gap seconds between init and the first invocation, and no report has an init."""
    context.gap()
    context.invoke()
    context.invoke()
    _all_well(context, 2)
    context.check(
        "no report has an init duration", all(each.init_duration_ms is None for each in context.local.reports)
    )


def snap_start(context: ScenarioContext) -> None:
    """SnapStart: init, a snapshot, --gap seconds, then a restore with another log stream, and two invocations."""
    context.gap()
    published = context.local.processes()
    context.invoke()
    context.invoke()
    _all_well(context, 2)
    context.check("the processes are those of the snapshot", context.local.processes() == published)
    streams = [context.records("initStart")[0]["instanceId"], context.records("restoreStart")[0]["instanceId"]]
    context.check("the restored environment has a log stream of its own", streams[0] != streams[1])


def spindown(context: ScenarioContext) -> None:
    """SHUTDOWN while nothing runs, after one invocation: the extensions have two seconds, and get the last report."""
    context.invoke()
    _all_well(context, 1)
    context.say("the environment is not needed any more")
    context.local.stop()
    for name, state in context.final_states().items():
        context.check(f"{name} ended by itself, with 0 and in time (it is {state})", state == "Exited")


def report_lost(context: ScenarioContext) -> None:
    """The runtime dies, and the report of that invocation never reaches an extension."""
    crash(context)


def telemetry_out_of_order(context: ScenarioContext) -> None:
    """Each batch of telemetry has its newest event first: a report before its runtimeDone and its start."""
    for _ in range(3):
        context.invoke()
    _all_well(context, 3)


def slow_telemetry(context: ScenarioContext) -> None:
    """Telemetry is seconds late, or comes at SHUTDOWN: runtimeDone comes long after its invocation."""
    for _ in range(3):
        context.invoke()
    _all_well(context, 3)


def _failed_with(context: ScenarioContext, error_type: str) -> None:
    got = context.report().error_type
    context.check(f"its report says {error_type}", got == error_type, f"it says {got}")


def _recovers(context: ScenarioContext) -> None:
    """Check that the next invocation repeats init and succeeds."""
    before = len(context.records("initStart"))
    context.invoke()
    status = context.report().status
    hint = f"its status is {status}. Init is a part of it: it may need a longer --timeout"
    context.check("the next invocation succeeded", status == "success", hint)
    again = [each["phase"] for each in context.records("initStart")[before:]]
    context.check("it did init again, in phase `invoke`", again == ["invoke"])


def _all_well(context: ScenarioContext, count: int) -> None:
    statuses = [each.status for each in context.local.reports]
    context.check(f"{count} invocations succeeded", statuses == ["success"] * count, f"they are {statuses}")


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
