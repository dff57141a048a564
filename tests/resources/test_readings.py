"""Limits, descriptors and /tmp: captured trees, this machine's own, and what cannot be read."""

import os
import posix
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st
from truemem.linux.process_table import FUNCTION, SIDECAR, Process
from truemem.linux.procfs import Procfs, Status
from truemem.measure.sampling import SAVED_NS, CpuBudget
from truemem.resources import (
    MOST_SLOTS,
    Descriptors,
    Resources,
    TmpDisk,
    Usage,
    parse_limits,
    parse_slots,
)
from truemem.support.clock import Clock

from tests.golden import unpack

CLOSING = [Status(2, 1, 1, 0, 0, 3), Status(2, 1, 1, 0, 0, 1)]
COST_NS = 30_000
"""Of a list."""
RICH, POOR = CpuBudget(1.0, 1.0, 0), CpuBudget(1e-9, 1e-9, 0)


class Table:
    """The processes of one environment, as told."""

    def __init__(self, proc: Procfs, function: list[int], others: dict[int, str] | None = None, zombies: int = 0):
        self._function = [Process(pid, 1, 1, FUNCTION, proc.process(pid)) for pid in function]
        self._others = [Process(pid, 1, 1, owner, proc.process(pid)) for pid, owner in (others or {}).items()]
        self._zombies = zombies

    def function(self) -> list[Process]:
        return self._function

    def others(self) -> list[Process]:
        return self._others

    def zombies(self, again: bool = True) -> int:
        return self._zombies - again


def resources(proc: Procfs, table: Table, tmp: TmpDisk | None = None) -> Resources:
    given: Any = table
    return Resources(given, proc, Clock(), tmp or TmpDisk("/nowhere"))


def test_the_limits_of_a_runtime(tmp_path: Path) -> None:
    proc = Procfs(str(unpack("limits", tmp_path)))
    found = [parse_limits(proc.text(f"{pid}/limits")) for pid in (12, 13, 14)]
    assert found == [(1024, 1024), (None, 1024), (None, 1024)]
    assert [parse_slots(proc.process(pid).read("status")) for pid in (12, 13)] == [64, 32768]


@given(st.integers(0, 10**9), st.integers(0, 10**9), st.text("ab \n", max_size=30))
def test_limits_are_read_and_tasks_are_those_of_lambda_at_most(files: int, tasks: int, between: str) -> None:
    text = f"Limit\nMax processes   {tasks}  {tasks} processes\n{between}\nMax open files  {files}  9 files\n"
    assert parse_limits(text.encode()) == (files, min(tasks, 1024))


def test_limits_and_descriptors_of_a_process_agree_with_psutil() -> None:
    """Another process: in our own the collector closes what earlier tests left."""
    code = "import os; [os.open(os.devnull, 0) for _ in range(40)]; print('opened', flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdin and child.stdout
        assert child.stdout.readline() == "opened\n"
        proc, other = Procfs(), psutil.Process(child.pid)
        descriptors, process = Descriptors(proc), Process(child.pid, 1, 1, FUNCTION, proc.process(child.pid))
        assert descriptors.limits(process)[0] == other.rlimit(psutil.RLIMIT_NOFILE)[0]
        for is_sized in {descriptors.is_sized, False}:
            descriptors.is_sized = is_sized
            assert descriptors.count(process) == other.num_fds() >= 43
        slots = descriptors.slots([process])
        assert slots is not None
        assert slots >= other.num_fds()
        child.stdin.write("\n")


def test_a_limit_is_read_again_where_it_is_near(tmp_path: Path) -> None:
    """Node.js and Java raise their own."""
    proc = Procfs(str(unpack("limits", tmp_path)))
    descriptors = Descriptors(proc)
    process = Process(12, 1, 1, FUNCTION, proc.process(12))
    assert descriptors.limits(process)[0] == 1024
    path = tmp_path / "12/limits"
    path.write_text(path.read_text().replace("1024                 4096", "4096                 4096"))
    assert descriptors.limits(process, 900)[0] == 1024
    assert descriptors.limits(process, 950)[0] == 4096


def test_who_holds_what_and_against_which_limit(tmp_path: Path) -> None:
    proc = Procfs(str(unpack("limits", tmp_path)))
    usage = resources(proc, Table(proc, [12, 14, 15], zombies=4)).read(CLOSING, RICH)
    wanted = Usage(None, 3, 1024, {"function": 3}, threads=4, processes=2 + 3, zombies=3, task_limit=1024)
    assert vars(usage) == vars(wanted)


def test_above_a_tenth_others_are_counted_as_well(tmp_path: Path) -> None:
    proc = Procfs(str(unpack("limits", tmp_path)))
    for number in range(10, 115):
        (tmp_path / f"12/fd/{number}").symlink_to("/dev/null")
    for pid in 21, 22, 23:
        (tmp_path / str(pid) / "fd").mkdir(parents=True)
        (tmp_path / str(pid) / "fd" / "0").symlink_to("/dev/null")
        (tmp_path / str(pid) / "status").write_text("Name:\tx\nFDSize:\t64\n")
    others = {21: SIDECAR, 22: "extension:agent", 23: "extension:agent"}
    usage = resources(proc, Table(proc, [12], others)).read(CLOSING, RICH)
    assert usage.descriptors == 108
    assert usage.holders == {"function": 108, "truemem": 1, "agent": 2}


@pytest.mark.parametrize("broken", ["no permission", "no folder", "a table too large", "it ends"])
def test_what_cannot_be_counted_is_left_out(tmp_path: Path, broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    proc = Procfs(str(unpack("limits", tmp_path)))
    if broken == "no permission":
        monkeypatch.setattr(posix, "listdir", _refuse)
    if broken == "it ends":
        monkeypatch.setattr(posix, "listdir", lambda _: [])
    usage = resources(proc, Table(proc, [{"no folder": 15, "a table too large": 13}.get(broken, 12)]))
    found = usage.read(CLOSING, RICH)
    assert (found.descriptors, found.holders) == (None, None)
    assert found.threads == 4
    assert MOST_SLOTS < 32768


def _refuse(path: str) -> list[str]:
    raise PermissionError(13, "not permitted", path)


def test_a_function_that_has_ended_uses_nothing(tmp_path: Path) -> None:
    proc = Procfs(str(tmp_path))
    assert vars(resources(proc, Table(proc, [])).read(CLOSING, RICH)) == vars(Usage())
    assert vars(resources(proc, Table(proc, [12])).read([], RICH)) == vars(Usage())


class Stepped:
    """A clock: each reading of CPU time is `cost_ns` after the one before, and takes as long."""

    def __init__(self, cost_ns: int) -> None:
        self.cost_ns = cost_ns
        self.now_ns = 10**12
        self.used_ns = 0

    def monotonic_ns(self) -> int:
        return self.now_ns

    def cpu_ns(self) -> int:
        self.used_ns += self.cost_ns
        return self.used_ns


def counted_in(seconds: float, clock: Stepped, budget: CpuBudget, *, busy: bool) -> int:
    """How often an older kernel's list is made, with 200 invocations a second; `busy`: sampling saves nothing."""
    proc = Procfs()
    table: Any = Table(proc, [os.getpid()])
    given: Any = clock
    made = Resources(table, proc, given, TmpDisk("/nowhere"))
    made._descriptors.is_sized = False
    counted = 0
    for _ in range(round(200 * seconds)):
        clock.now_ns += 5_000_000
        if busy:
            budget._accrue(clock.now_ns)
            budget._allowance = budget._saved = 0.0
        counted += made.read(CLOSING, budget).descriptors is not None
    return counted


def test_an_older_kernels_lists_are_paid_by_what_sampling_leaves() -> None:
    """A tenth of the budget, where that leaves nothing."""
    clock = Stepped(COST_NS)
    counted = counted_in(60, clock, CpuBudget(0.01, 0.29, clock.now_ns), busy=False)
    assert counted * COST_NS <= 0.01 * 0.29 * 60e9 + SAVED_NS
    assert counted > 500
    clock = Stepped(COST_NS)
    counted = counted_in(60, clock, CpuBudget(0.01, 0.29, clock.now_ns), busy=True)
    assert counted * COST_NS == pytest.approx(0.1 * 0.01 * 0.29 * 60e9, rel=0.2)


def test_no_list_is_made_that_the_budget_cannot_pay() -> None:
    proc = Procfs()
    made = resources(proc, Table(proc, [os.getpid()], zombies=3))
    made._descriptors.is_sized = False
    found = made.read(CLOSING, POOR)
    assert found.descriptors is None
    assert found.zombies == 3  # as last known


def test_tmp_is_told_where_it_is_a_disk_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    used, size = TmpDisk("/dev/shm").read() or (0, 0)
    told = psutil.disk_usage("/dev/shm")
    assert size == told.total // 1024
    assert used <= size
    assert TmpDisk("/").read() is None
    assert TmpDisk("/nowhere").read() is None
    disk = TmpDisk("/dev/shm")
    for broken in _refuse, lambda path: SimpleNamespace(f_blocks=0):
        monkeypatch.setattr(posix, "statvfs", broken)
        assert disk.read() is None
