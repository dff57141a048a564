"""The share of CPU, with the kernel's real quota, and the files of version 2."""

import os
from pathlib import Path

import pytest
from truemem_workbench.local.processes.cgroups import Cgroup
from truemem_workbench.local.processes.cpu import PERIOD_US, CgroupCpu, choose_cpu
from truemem_workbench.local.processes.freezer import CgroupFreezer, choose_freezer

from tests.local.conftest import HANDLER, IDLE_RUNTIME, Local, SettingsOf, Start, can_make_cgroups, cgroups_of, until

needs_cpu_cgroup = pytest.mark.skipif(not can_make_cgroups("cpu"), reason="no permission to limit CPU on this machine")


def cpu_group(local: Local) -> Path:
    """The environment's group that has a quota."""
    (group,) = (each for each in cgroups_of(local.environment_id) if has_quota(each))
    return group


def has_quota(group: Path) -> bool:
    return (group / "cpu.cfs_quota_us").exists() or (group / "cpu.max").exists()


def quota_us(group: Path) -> int | None:
    """Of a period of 20 ms; None without a limit."""
    if (group / "cpu.max").exists():
        quota, period = (group / "cpu.max").read_text().split()
    else:
        quota, period = ((group / f"cpu.cfs_{name}_us").read_text().strip() for name in ("quota", "period"))
    assert int(period) == PERIOD_US
    return None if quota in ("max", "-1") else int(quota)


def throttled(group: Path) -> int:
    """Number of periods that ended before the environment's work did."""
    lines = (line.split() for line in (group / "cpu.stat").read_text().splitlines())
    return next(int(value) for name, value in lines if name == "nr_throttled")


@needs_cpu_cgroup
def test_all_processes_share_the_cpu_of_the_memory_size(start: Start) -> None:
    local = start(memory_mib=128, cpu="size", behaviour={})
    cpu_s, wall_s = local.finish({"burn": 0.1}).payload
    group = cpu_group(local)

    assert quota_us(group) == round(128 / 1769 * 20_000)
    members = {int(pid) for pid in (group / "cgroup.procs").read_text().split()}
    assert local.processes().keys() == {"runtime", "extension:recorder"}
    assert set(local.processes().values()) <= members
    assert throttled(group) > 0
    assert cpu_s / wall_s < 2 * 128 / 1769  # and not all of a CPU
    assert not local.notices


def test_without_a_limit_there_is_no_group(start: Start) -> None:
    local = start()
    local.finish({})
    assert not [group for group in cgroups_of(local.environment_id) if (group / "cpu.cfs_quota_us").exists()]


@needs_cpu_cgroup
@pytest.mark.parametrize(
    ("initialization", "quota"),
    [("on-demand", None), ("provisioned-concurrency", 5000), ("snap-start", 5000)],
)
def test_only_init_on_demand_is_not_throttled(start: Start, initialization: str, quota: int | None) -> None:
    local = start(IDLE_RUNTIME, initialization=initialization, cpu=0.25, init_timeout_s=60)
    group = cpu_group(local)
    api = local.api  # the runtime is there, and its init goes on
    assert quota_us(group) == quota
    api.next_invocation()
    local.settle()
    assert quota_us(group) == 5000


@needs_cpu_cgroup
def test_a_repeated_init_is_throttled_like_its_invocation(start: Start) -> None:
    local = start(IDLE_RUNTIME, cpu=0.25, init_timeout_s=0.2, timeout_s=60)
    local.settle()  # init has timed out
    local.invoke_in_background({})
    until(lambda: len(local.of_type("initStart")) == 2 and "runtime" in local.processes())
    assert quota_us(cpu_group(local)) == 5000


def test_the_command_limits_cpu_unless_told_otherwise(settings_of: SettingsOf) -> None:
    limits = [settings_of(HANDLER, "--no-sidecar", *cpu).vcpus for cpu in ([], ["--cpu", "off"], ["--cpu", "0.5"])]
    assert limits == [512 / 1769, None, 0.5]


@needs_cpu_cgroup
def test_a_machine_with_too_few_cpus_says_so(monkeypatch: pytest.MonkeyPatch, start: Start) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    assert start(IDLE_RUNTIME, cpu=1.5).notices == ["1.50 vCPU, but this machine has 1: slower than on Lambda"]


@pytest.fixture
def of_version_2(tmp_path: Path) -> Cgroup:
    """The group that another controller has already, with the files that the kernel makes."""
    (tmp_path / "cgroup.subtree_control").write_text("memory\n")
    group = Cgroup(tmp_path / "truemem-id", 2)
    group.path.mkdir()
    return group


def test_in_version_2_all_controllers_share_a_group(of_version_2: Cgroup) -> None:
    cpu, notice = choose_cpu(0.25, "truemem-id", of_version_2)
    freezer, _ = choose_freezer("auto", "truemem-id", of_version_2, dict)

    assert isinstance(cpu, CgroupCpu)
    assert isinstance(freezer, CgroupFreezer)
    assert cpu.group is freezer.group is of_version_2
    assert notice is None
    assert (of_version_2.path.parent / "cgroup.subtree_control").read_text() == "+cpu"
    assert of_version_2.read("cpu.max") == "5000 20000"
    cpu.unthrottle()
    assert of_version_2.read("cpu.max") == "max 20000"
    cpu.throttle()
    assert of_version_2.read("cpu.max") == "5000 20000"
    cpu.add(os.getpid())
    assert not (of_version_2.path / "cgroup.procs").exists()  # its owner adds and removes
    cpu.close()
    assert of_version_2.path.exists()


@pytest.mark.parametrize("refused", ["cgroup.subtree_control", "truemem-id/cpu.max"])
def test_where_no_quota_can_be_set_nothing_is_limited(of_version_2: Cgroup, refused: str) -> None:
    folder = of_version_2.path.parent
    (folder / refused).unlink(missing_ok=True)
    (folder / refused).mkdir()  # cannot be written
    cpu, notice = choose_cpu(0.25, "truemem-id", of_version_2)

    assert cpu.group is None
    cpu.add(os.getpid())
    cpu.unthrottle()
    cpu.throttle()
    cpu.close()
    why = f"no permission for a CPU cgroup (Is a directory in {folder})"
    assert notice == f"{why}: all CPU of this machine, not 0.25 vCPU"
    assert of_version_2.path.exists()
