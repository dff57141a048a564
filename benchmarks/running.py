"""Measures the sidecar during invocations: time to `next`, CPU time and memory, and how they grow with the function's
processes, threads and memory."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.accuracy import percentile
from benchmarks.bare import Extension, FunctionProcesses
from benchmarks.contenders import Contender

FIRST = 1000
HARDLY_SAMPLING = {"TRUEMEM_CPU_BUDGET": "0.01"}

VCPU_MIB = 1769

CPU_PERIOD_US = 20_000
"""Of the cpu cgroup: the granularity in which a share of a CPU is dealt out. A share of it must be 1 ms at least."""


@dataclass(frozen=True)
class Answer:
    """One row: one function, many invocations. `answer`: from INVOKE sent to `next` received, µs."""

    function: str
    invocations: int
    answer_p50: float
    answer_p99: float
    cpu_ms: float
    """CPU time of the extension for one invocation, hardly sampling."""


@dataclass(frozen=True)
class Growth:
    """Its own memory over many invocations. MiB, growth in KiB."""

    name: str
    invocations: int
    pss: float
    private_dirty: float
    growth_kib: float
    """Of RSS, from `pss`'s moment to the end."""
    descriptors: int
    """Open ones more at the end than at that moment."""


@dataclass(frozen=True)
class Sampling:
    """CPU time in one long invocation, beyond what any invocation costs, in percent of what the memory size buys."""

    memory_mib: int
    seconds: float
    share_percent: float
    worst_percent: float
    """Of any second."""
    cgroup: bool
    """Was the environment confined to that share by a cpu cgroup?"""


def telemetry(request_id: str) -> list[dict[str, object]]:
    """What the platform says about one invocation."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    metrics = {"durationMs": 1.5, "billedDurationMs": 2, "memorySizeMB": 1769, "maxMemoryUsedMB": 60}
    known: dict[str, object] = {"requestId": request_id}
    return [
        {"time": now, "type": "platform.start", "record": {**known, "version": "$LATEST"}},
        {"time": now, "type": "platform.runtimeDone", "record": {**known, "status": "success", "metrics": metrics}},
        {"time": now, "type": "platform.report", "record": {**known, "status": "success", "metrics": metrics}},
    ]


def invoke(extension: Extension, number: int) -> float:
    """One invocation, with its telemetry; µs from INVOKE to `next`."""
    name = f"00000000-0000-4000-8000-{number:012d}"
    sent_ns = extension.api.invoke(name)
    took_us = (extension.api.wait_for_next() - sent_ns) / 1000
    extension.api.tell(*telemetry(name))
    return took_us


@contextmanager
def attached(contender: Contender, variables: dict[str, str] | None = None, **function: int) -> Iterator[Extension]:
    """An extension that waits for its first event, and function processes beside it."""
    with contender.start(variables) as extension:
        extension.api.wait_for_next()
        with FunctionProcesses(extension.api.address, **function):
            yield extension


def answers(contender: Contender, name: str, count: int, **function: int) -> Answer:
    """See Answer."""
    with attached(contender, HARDLY_SAMPLING, **function) as extension:
        for number in range(20):
            invoke(extension, number)
        before = extension.cpu_ns()
        took = []
        for number in range(20, 20 + count):
            time.sleep(0.002)  # as if frozen in between: it is to be woken, as it is there
            took.append(invoke(extension, number))
        cpu_ms = (extension.cpu_ns() - before) / count / 1e6
    return Answer(name, count, round(percentile(took, 50)), round(percentile(took, 99)), round(cpu_ms, 3))


def growth(contender: Contender, count: int, advance: Callable[[], None]) -> Growth:
    """See Growth: FIRST invocations, then `count` more."""
    with attached(contender) as extension:
        for number in range(FIRST):
            invoke(extension, number)
            advance()
        time.sleep(0.5)
        before, open_before = extension.memory_kib(), descriptors(extension.pid)
        for number in range(FIRST, FIRST + count):
            invoke(extension, number)
            advance()
        time.sleep(0.5)
        after, open_after = extension.memory_kib(), descriptors(extension.pid)
    return Growth(
        contender.name,
        count,
        round(before["Pss"] / 1024, 2),
        round(before["Private_Dirty"] / 1024, 2),
        after["Rss"] - before["Rss"],
        open_after - open_before,
    )


def descriptors(pid: int) -> int:
    """Open file descriptors."""
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def sampling(contender: Contender, memory_mib: int, seconds: float) -> Sampling:
    """See Sampling. The function's memory rests."""
    share = memory_mib / VCPU_MIB
    bare, _ = _long_invocation(contender, memory_mib, 1, HARDLY_SAMPLING)
    (_, outside), (_, after) = bare
    spent, cgroup = _long_invocation(contender, memory_mib, round(seconds), {})
    spent[0] = spent[0][0], spent[0][1] + after - outside
    percents = [
        100 * (cpu - cpu_before) / (at - before) / share
        for (before, cpu_before), (at, cpu) in [*itertools.pairwise(spent), (spent[0], spent[-1])]
    ]
    return Sampling(memory_mib, seconds, round(percents[-1], 2), round(max(percents[:-1]), 2), cgroup)


def _long_invocation(
    contender: Contender, memory_mib: int, seconds: int, variables: dict[str, str]
) -> tuple[list[tuple[int, int]], bool]:
    """(Monotonic ns, CPU ns so far) at its beginning and after each second of it; and if it was in a cpu cgroup."""
    share = memory_mib / VCPU_MIB
    size = {"AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(memory_mib)}
    with attached(contender, {**size, **variables}) as extension, confined([extension.pid], share) as cgroup:
        extension.api.invoke("warm")
        extension.api.wait_for_next()
        time.sleep(0.5)
        began = time.monotonic_ns()
        spent = [(began, extension.cpu_ns())]
        extension.api.invoke("long")
        for number in range(1, seconds + 1):
            time.sleep(max(0, number - (time.monotonic_ns() - began) / 1e9))
            spent.append((time.monotonic_ns(), extension.cpu_ns()))
    return spent, cgroup


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


SCALE: Sequence[tuple[str, dict[str, int]]] = (
    ("1 process, 1 thread, 1 MiB", {}),
    ("10 processes", {"processes": 10}),
    ("50 processes", {"processes": 50}),
    ("200 processes", {"processes": 200}),
    ("200 threads", {"threads": 200}),
    ("1 GiB", {"mib": 1024}),
    ("8 GiB", {"mib": 8192}),
)
"""How the cost of an invocation grows with the function."""


def scale(contender: Contender, count: int, advance: Callable[[], None]) -> list[Answer]:
    """One row for each; 8 GiB only where there is room for them."""
    room_mib = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20
    rows = []
    for name, function in SCALE:
        if function.get("mib", 0) * 1.2 < room_mib:
            rows.append(answers(contender, name, count, **function))
        advance()
    return rows
