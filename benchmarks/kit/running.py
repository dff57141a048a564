"""One extension and what it is attached to, invocation by invocation."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from truemem.config import VCPU_MIB

from benchmarks.kit.contenders import Contender
from testing.bare import Extension, FunctionProcesses

HARDLY_SAMPLING = {"TRUEMEM_CPU_BUDGET": "0.01"}
CPU_PERIOD_US = 20_000
"""Of the cpu cgroup: the granularity in which a share of a CPU is dealt out. A share of it must be 1 ms at least."""


def telemetry(request_id: str) -> list[dict[str, object]]:
    """What the platform says about one invocation."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    metrics = {"durationMs": 1.5, "billedDurationMs": 2, "memorySizeMB": VCPU_MIB, "maxMemoryUsedMB": 60}
    known: dict[str, object] = {"requestId": request_id}
    return [
        {"time": now, "type": "platform.start", "record": {**known, "version": "$LATEST"}},
        {"time": now, "type": "platform.runtimeDone", "record": {**known, "status": "success", "metrics": metrics}},
        {"time": now, "type": "platform.report", "record": {**known, "status": "success", "metrics": metrics}},
    ]


def named(number: int) -> str:
    """The request id of that invocation."""
    return f"00000000-0000-4000-8000-{number:012d}"


def invoke(extension: Extension, number: int) -> float:
    """One invocation, with its telemetry; µs from INVOKE to `next`."""
    sent_ns = extension.api.invoke(named(number))
    took_us = (extension.api.wait_for_next() - sent_ns) / 1000
    extension.api.tell(*telemetry(named(number)))
    return took_us


@contextmanager
def attached(contender: Contender, variables: dict[str, str] | None = None, **function: int) -> Iterator[Extension]:
    """An extension that waits for its first event, and function processes beside it."""
    with contender.start(variables) as extension:
        extension.api.wait_for_next()
        with FunctionProcesses(extension.api.address, **function):
            yield extension


def descriptors(pid: int) -> int:
    """Open file descriptors."""
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


@contextmanager
def confined(pids: Sequence[int], share: float, name: str = "") -> Iterator[bool]:
    """Confine processes to a share of one CPU (cgroup v1, cpu.cfs_quota_us); False if that is not permitted."""
    group = Path(f"/sys/fs/cgroup/cpu/truemem-bench-{os.getpid()}{name}")
    try:
        group.mkdir()
        (group / "cpu.cfs_period_us").write_text(str(CPU_PERIOD_US))
        (group / "cpu.cfs_quota_us").write_text(str(round(CPU_PERIOD_US * share)))
        for pid in pids:
            (group / "cgroup.procs").write_text(str(pid))
    except OSError:
        yield False
        return
    try:
        yield True
    finally:
        for member in group.joinpath("cgroup.procs").read_text().split():
            (group.parent / "cgroup.procs").write_text(member)
        group.rmdir()
