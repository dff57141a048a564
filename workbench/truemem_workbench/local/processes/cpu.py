"""The environment's share of CPU, by a cgroup's quota: the runtime, the extensions and their children share it.

The quota counts in periods of 20 ms, as pauses on the service were seen to do (pwrdrvr/lambda-dispatch#246). AWS does
not say, and Linux's own default is 100 ms.
"""

from __future__ import annotations

import os

from ...support.conditions import Condition
from .cgroups import Cgroup, NotPermitted, create, enable

PERIOD_US = 20_000


class Cpu:
    """CPU without a limit: the environment has what this machine has."""

    group: Cgroup | None = None

    def add(self, pid: int) -> None:
        """Add a process before its first instruction."""

    def throttle(self) -> None:
        """Allow the share of the memory size from now on."""

    def unthrottle(self) -> None:
        """Allow all CPU of this machine from now on."""

    def close(self) -> None:
        """Kill the remaining processes, and remove the group."""


LOW_WEIGHT: dict[int, str] = {1: "64", 2: "6"}
"""A sixteenth of the usual weight, by the version of cgroups."""


class CgroupCpu(Cpu):
    """Limits CPU with a cgroup: `cpu.cfs_quota_us` of v1, or `cpu.max`. It begins throttled."""

    group: Cgroup

    def __init__(self, group: Cgroup, vcpus: float, *, shared: bool = False) -> None:
        """Raises OSError if the kernel refuses the quota: in v1 it may not be more than that of our own group."""
        self.group = group
        self._quota_us = round(vcpus * PERIOD_US)
        self._shared = shared
        if group.version == 1:
            group.write("cpu.cfs_period_us", str(PERIOD_US))
        # On a busy machine our own process must go first: requests wait for it, whatever environments compute.
        group.write("cpu.shares" if group.version == 1 else "cpu.weight", LOW_WEIGHT[group.version])
        self.throttle()

    def add(self, pid: int) -> None:
        if not self._shared:
            self.group.add(pid)

    def throttle(self) -> None:
        self._set(str(self._quota_us))

    def unthrottle(self) -> None:
        self._set("-1" if self.group.version == 1 else "max")

    def _set(self, quota: str) -> None:
        if self.group.version == 1:
            self.group.write("cpu.cfs_quota_us", quota)
        else:
            self.group.write("cpu.max", f"{quota} {PERIOD_US}")

    def close(self) -> None:
        if not self._shared:
            self.group.kill()
            self.group.remove()


def choose_cpu(vcpus: float | None, group_name: str, shared: Cgroup | None) -> tuple[Cpu, str | None]:
    """Choose a limit of so many vCPUs, and a notice if this machine cannot give exactly that. None: no limit.

    `shared`: a group that exists already, of v2, in which the processes will be.
    """
    if vcpus is None:
        return Cpu(), None
    try:
        cpu = _limited(vcpus, group_name, shared)
    except NotPermitted as refusal:
        notice = f"no permission for a CPU cgroup ({refusal}): all CPU of this machine, not {vcpus:.2f} vCPU"
        return Cpu(), Condition(notice, f"all CPU, not {vcpus:.2f} vCPU")
    here = len(os.sched_getaffinity(0))
    return cpu, f"{vcpus:.2f} vCPU, but this machine has {here}: slower than on Lambda" if vcpus > here else None


def _limited(vcpus: float, group_name: str, shared: Cgroup | None) -> CgroupCpu:
    if shared is not None:
        enable("cpu", shared)
    group = shared or create("cpu", group_name)
    try:
        return CgroupCpu(group, vcpus, shared=shared is not None)
    except OSError as error:
        if shared is None:
            group.remove()
        raise NotPermitted(f"{error.strerror} in {group.path.parent}") from None
