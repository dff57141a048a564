"""The limit and the high-water mark, with real memory."""

from pathlib import Path

import psutil
import pytest
from truemem_workbench.local.processes.cgroups import Cgroup
from truemem_workbench.local.processes.memory import CgroupMemory, MiB

from tests.local.conftest import Start, has_ended, needs_cgroups


@pytest.mark.parametrize("memory_limit", [pytest.param("auto", marks=needs_cgroups), "watch"])
def test_the_mark_never_falls(start: Start, memory_limit: str) -> None:
    local = start(memory_mib=512, memory_limit=memory_limit)
    marks, sizes = [], []
    for event in ({"keep": 150}, {"release": True}, {}):
        marks.append(local.report(local.invoke(event).request_id).max_memory_used_mib)
        sizes.append(psutil.Process(local.processes()["runtime"]).memory_info().rss >> 20)

    assert sizes[0] >= 150
    assert sizes[1] < 100  # the function gave it back
    assert marks[0] >= 150
    assert marks == sorted(marks)  # the mark did not
    if memory_limit == "auto":  # also with a spike between two looks
        assert local.report(local.invoke({"touch": 250}).request_id).max_memory_used_mib >= 250


@needs_cgroups
def test_over_the_limit_the_kernel_kills(start: Start) -> None:
    local = start(memory_mib=128)
    answer = local.invoke({"touch": 200})
    report = local.report(answer.request_id)

    assert answer.payload == {
        "errorType": "Runtime.OutOfMemory",
        "errorMessage": f"RequestId: {answer.request_id} Error: Runtime exited with error: signal: killed",
    }
    assert report.max_memory_used_mib == report.memory_size_mib == 128
    assert report.line().endswith("\tStatus: error\tError Type: Runtime.OutOfMemory")

    after = local.report(local.invoke({}).request_id)
    assert after.status == "success"
    assert after.max_memory_used_mib == 128  # the environment's mark survives its reset


def test_without_a_cgroup_the_runtime_is_watched_and_killed(start: Start) -> None:
    local = start(memory_mib=128, memory_limit="watch", freeze="signal")
    answer = local.invoke({"keep": 300, "note": "long enough for a look"})
    if answer.function_error is None:  # the look came between the two invocations
        answer = local.invoke({})
    assert answer.payload["errorType"] == "Runtime.OutOfMemory"
    assert local.report(answer.request_id).max_memory_used_mib == 128


def test_with_the_limit_off_nothing_is_killed(start: Start) -> None:
    local = start(memory_mib=128, memory_limit="off")
    assert local.finish({"touch": 200}).function_error is None


@needs_cgroups
def test_a_daemon_is_ended_with_the_environment(start: Start) -> None:
    local = start()
    process = psutil.Process(local.invoke({"daemon": True}).payload)
    assert not has_ended(process)
    local.stop()
    assert has_ended(process)


def test_the_files_of_version_2(tmp_path: Path) -> None:
    """As the kernel writes them; this machine's memory controller may be of version 1."""
    (tmp_path / "memory.peak").write_text("104857600\n")
    (tmp_path / "memory.events").write_text("low 0\nhigh 0\nmax 3\noom 1\noom_kill 2\noom_group_kill 0\n")
    memory = CgroupMemory(Cgroup(tmp_path, 2), 128 * MiB)
    assert (tmp_path / "memory.max").read_text() == str(128 * MiB)
    assert (tmp_path / "memory.swap.max").read_text() == "0"
    assert memory.mark() == 100 * MiB
    assert memory.kills() == 2


def test_without_a_peak_file_the_mark_is_what_was_read(tmp_path: Path) -> None:
    (tmp_path / "memory.current").write_text("2000\n")
    memory = CgroupMemory(Cgroup(tmp_path, 2), None)
    assert memory.mark() == 2000
    (tmp_path / "memory.current").write_text("1000\n")
    assert memory.mark() == 2000
