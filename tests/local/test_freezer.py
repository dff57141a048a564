"""Between invocations everything stands still."""

import asyncio
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from truemem_workbench.local.processes.cgroups import NotPermitted, create
from truemem_workbench.local.processes.freezer import CgroupFreezer

from tests.local.conftest import APP, Start, needs_cgroups, until

LONG_ENOUGH_S = 0.2
"""For a thread that counts without a pause, were it not frozen."""
COUNTING = f"{APP}:counting"


def read(path: Path) -> int:
    return int(path.read_text() or 0)


@pytest.mark.parametrize("freeze", [pytest.param("auto", marks=needs_cgroups), "signal"])
def test_a_thread_stops_counting_until_the_next_invocation(start: Start, freeze: str) -> None:
    local = start(COUNTING, freeze=freeze)
    path = local.environment_dir / "tmp" / "counter"
    local.finish({"path": str(path)})
    frozen = read(path)
    time.sleep(LONG_ENOUGH_S)
    assert read(path) == frozen

    assert local.invoke({"path": str(path), "beyond": frozen}).payload > frozen


@pytest.mark.parametrize(
    ("settings", "notices"),
    [
        ({"freeze": "off"}, ["no freeze between invocations, as asked"]),
        ({"managed_instances": 1}, []),  # never frozen there: no news
    ],
    ids=["with freeze off", "on Managed Instances"],
)
def test_without_a_freeze_it_goes_on(start: Start, settings: dict[str, Any], notices: list[str]) -> None:
    local = start(COUNTING, **settings)
    path = local.environment_dir / "tmp" / "counter"
    local.finish({"path": str(path)})
    before = read(path)
    until(lambda: read(path) > before)
    assert [notice for notice in local.notices if "freeze" in notice] == notices


@needs_cgroups
def test_an_extension_is_frozen_too(start: Start) -> None:
    local = start(behaviour={})
    local.settle()
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
