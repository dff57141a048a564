"""Runs one handler at all memory sizes in turn: under the plain quota of each size, and under the local Lambda."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from truemem.config import VCPU_MIB
from truemem_workbench.check.target import resolve
from truemem_workbench.local import LocalLambda, Settings
from truemem_workbench.local.processes.cgroups import Cgroup, NotPermitted, create
from truemem_workbench.local.processes.cpu import PERIOD_US
from truemem_workbench.local.processes.memory import CgroupMemory, MiB
from truemem_workbench.support.bad_input import BadInput

from benchmarks.publish import ROOT

FUNCTIONS = ROOT / "benchmarks" / "functions"
SHARES = 100_000
"""Of this benchmark's cpu cgroup, where others have 1,024: what a quota permits it has at once."""
PAUSE_S = 0.02, 0.05
"""Between two invocations: a handler begins anywhere in a period."""
WARM_UP = 8
"""Rounds that do not count: so many invocations of Node.js are slower, until it has compiled what is hot."""
Invoke = Callable[[], tuple[float, float]]
"""Invokes the handler, and returns duration and CPU time in ms, as it measures them itself."""


@dataclass(frozen=True)
class Swept:
    """What one handler did, by memory size. Times in ms."""

    plain: dict[int, list[tuple[float, float]]] = field(default_factory=dict)
    """Duration and CPU time of each invocation, under the quota alone."""
    local: dict[int, list[tuple[float, float]]] = field(default_factory=dict)
    """The same under the local Lambda. Empty if it was not asked for."""


@contextmanager
def preferred() -> Iterator[Path]:
    """A cpu cgroup that has SHARES, for this process and all that it starts. Raises BadInput without permission."""
    try:
        group = create("cpu", f"truemem-size-{os.getpid()}", only_version=1)
    except NotPermitted as refusal:
        raise BadInput(str(refusal)) from None
    try:
        group.write("cpu.shares", str(SHARES))
        group.add(os.getpid())
        yield group.path
    finally:
        Cgroup(group.path.parent, 1).add(os.getpid())
        group.remove()


def sweep(name: str, sizes: Sequence[int], rounds: int, within: Path, *, is_local: bool) -> Swept:
    """Invoke the handler so many times at each size, in rounds of all sizes and both ways, each in another order: so
    all see the same machine."""
    seen = Swept()
    with ExitStack() as stack:
        ways: list[tuple[Invoke, list[tuple[float, float]]]] = []
        for size in sizes:
            plain = stack.enter_context(_plain(name, size, within / f"plain-{size}"))
            ways.append((plain, seen.plain.setdefault(size, [])))
            if is_local:
                local = stack.enter_context(_local(name, size))
                ways.append((local, seen.local.setdefault(size, [])))
        for number in range(WARM_UP + rounds):
            for invoke, done in random.sample(ways, len(ways)):
                time.sleep(random.uniform(*PAUSE_S))
                measured = invoke()
                if number >= WARM_UP:
                    done.append(measured)
    return seen


@contextmanager
def _plain(name: str, size: int, group: Path) -> Iterator[Invoke]:
    """A process that runs the handler, in cgroups of its own. The quota is written once: the kernel would
    forget what an invocation has used in advance."""
    program, runtime = _program(name, size)
    group.mkdir()
    # From its first instruction: V8 asks for the memory that it may use when it starts.
    memory = CgroupMemory(create("memory", f"{group.parent.name}-{group.name}"), size * MiB)
    within_limit = ("/bin/sh", "-c", 'echo $$ >"$0" && exec "$@"', memory.group.path / "cgroup.procs")
    try:
        with subprocess.Popen(
            [*within_limit, *runtime, program, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            stdin, stdout = process.stdin, process.stdout

            def invoke() -> tuple[float, float]:
                process.send_signal(signal.SIGCONT)
                stdin.write("go\n")
                stdin.flush()
                duration, cpu = map(float, stdout.readline().split())
                process.send_signal(signal.SIGSTOP)  # as Lambda freezes: else collectors would work between them
                return duration, cpu

            try:
                stdout.readline()
                (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
                (group / "cpu.cfs_quota_us").write_text(str(round(PERIOD_US * size / VCPU_MIB)))
                (group / "cgroup.procs").write_text(str(process.pid))
                yield invoke
            finally:
                process.kill()
    finally:
        memory.close()
        Cgroup(group, 1).remove()


@contextmanager
def _local(name: str, size: int) -> Iterator[Invoke]:
    """The same as a real function, as `truemem size` runs it."""
    program, _ = _program(name, size)
    settings = Settings(memory_mib=size, cpu="size", environment={"WORK": name})
    with LocalLambda(resolve(f"{program}:handler").function, settings) as local:

        def invoke() -> tuple[float, float]:
            answer = local.invoke({})
            assert isinstance(answer.payload, list), answer.payload
            local.report(answer.request_id)  # it comes when all is frozen
            duration, cpu = answer.payload
            return duration, cpu

        invoke()
        assert local.limits_cpu
        yield invoke


def _program(name: str, size: int) -> tuple[Path, Sequence[str]]:
    """The file of a handler, and what runs it."""
    if name.startswith("node_"):
        # As Lambda: the size of V8's young generation decides how much CPU time the collector takes.
        return FUNCTIONS / "sizes.mjs", (
            "node",
            f"--max-semi-space-size={size // 20}",
            f"--max-old-space-size={size * 9 // 10}",
        )
    return FUNCTIONS / "sizes.py", (sys.executable,)
