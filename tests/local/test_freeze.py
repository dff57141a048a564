"""Between invocations everything stands still."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from pathlib import Path

import pytest
from truemem_workbench.local.processes.cgroups import NotPermitted, create
from truemem_workbench.local.processes.freezer import CgroupFreezer

from tests.local.conftest import APP, BOUND_S, Local, Start, needs_cgroups

LONG_ENOUGH_S = 0.2
"""For a thread that counts without a pause, were it not frozen."""


def counter(local: Local) -> Path:
    return local.environment_dir / "tmp" / "counter"


def read(path: Path) -> int:
    return int(path.read_text() or 0)


@pytest.mark.parametrize("freeze", [pytest.param("cgroup", marks=needs_cgroups), "signal"])
def test_a_thread_stops_counting_until_the_next_invocation(start: Start, freeze: str) -> None:
    local = start(f"{APP}:counting", freeze=freeze)
    path = counter(local)
    event = {"path": str(path)}
    local.invoke(event)
    local.settle(timeout=BOUND_S)
    frozen = read(path)
    time.sleep(LONG_ENOUGH_S)
    assert read(path) == frozen

    assert local.invoke({"path": str(path), "beyond": frozen}).payload > frozen  # type: ignore[operator]


def test_with_freeze_off_it_goes_on_and_a_notice_says_so(start: Start) -> None:
    local = start(f"{APP}:counting", freeze="off")
    path = counter(local)
    local.invoke({"path": str(path)})
    local.settle(timeout=BOUND_S)
    before = read(path)
    deadline = time.monotonic() + BOUND_S
    while read(path) == before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert read(path) > before
    assert "no freeze between invocations, as asked" in local.notices


@needs_cgroups
def test_an_extension_is_frozen_too(start: Start) -> None:
    local = start(behaviour={})
    local.settle(timeout=BOUND_S)
    (group,) = Path("/sys/fs/cgroup").glob(f"**/freezer/**/truemem-{local.environment_id}")
    members = {int(pid) for pid in (group / "cgroup.procs").read_text().split()}
    assert set(local.processes().values()) <= members
    assert (group / "freezer.state").read_text().strip() == "FROZEN"


def test_the_freezer_of_version_2() -> None:
    """Where it is mounted beside version 1, or alone: it needs no controller."""
    try:
        group = create("freezer", f"truemem-test-{os.getpid()}", only_version=2)
    except NotPermitted as refusal:
        pytest.skip(f"no cgroup v2: {refusal}")
    freezer = CgroupFreezer(group)
    with subprocess.Popen(["sleep", "600"]) as process:
        try:
            freezer.add(process.pid)
            assert asyncio.run(freezer.freeze())
            assert group.field("cgroup.events", "frozen") == 1
            freezer.thaw()
            assert group.field("cgroup.events", "frozen") == 0
        finally:
            process.kill()
            process.wait()
            freezer.close()
    assert not group.path.exists()
