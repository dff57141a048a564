"""Who is who, on captured trees."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from truemem.cgroup import Level
from truemem.processes import NAME_MAX, ProcessTable
from truemem.procfs import Procfs
from truemem.record import InvocationRecord
from truemem.surroundings import EXTENSIONS, Surroundings

from tests.golden import unpack

ADDRESS = "127.0.0.1:9001"


def table(tree: str, folder: Path) -> ProcessTable:
    processes = ProcessTable(Procfs(str(unpack(tree, folder))), ADDRESS)
    processes.scan()
    return processes


def test_runtime_and_descendants_are_the_function(tmp_path: Path) -> None:
    assert [process.pid for process in table("lambda", tmp_path).function()] == [12, 31]


def test_extensions_are_told_apart_by_their_folder(tmp_path: Path) -> None:
    owners = {process.pid: process.owner for process in table("lambda", tmp_path).others()}
    assert owners == {8: "extension:agent", 9: "extension:shipper"}


def test_who_pretends_to_be_a_hundred_extensions_does_not_fill_the_line(tmp_path: Path) -> None:
    unpack("lambda", tmp_path)
    for pid in range(100, 200):
        for name in "stat", "environ":
            (tmp_path / f"{pid}").mkdir(exist_ok=True)
            (tmp_path / f"{pid}" / name).write_bytes((tmp_path / "8" / name).read_bytes())
        (tmp_path / f"{pid}" / "cmdline").write_text(f"/opt/extensions/{'x' * (pid * 2 - 100)}\0")
        (tmp_path / f"{pid}" / "statm").write_text("100 50 20 1 0 20 0\n")
    processes = ProcessTable(Procfs(str(tmp_path)), ADDRESS)
    processes.scan()
    record = InvocationRecord("one", 1, 0)
    Surroundings(processes, Level(Procfs(str(tmp_path)), str(tmp_path))).describe(record)
    assert len(record.extensions) == EXTENSIONS
    assert max(map(len, record.extensions)) <= NAME_MAX


def test_identity_is_pid_and_start_time(tmp_path: Path) -> None:
    runtime = table("lambda", tmp_path).function()[0]
    assert (runtime.pid, runtime.start_time) == (12, 50)


def test_a_forgotten_process_is_found_again_if_it_lives(tmp_path: Path) -> None:
    processes = table("lambda", tmp_path)
    processes.forget(processes.function()[0])
    assert [process.pid for process in processes.function()] == [31]
    processes.scan()
    assert {process.pid for process in processes.function()} == {12, 31}


def test_only_our_own_environment_on_a_shared_machine(tmp_path: Path) -> None:
    processes = table("shared-machine", tmp_path)
    assert [process.pid for process in processes.function()] == [50]
    assert not processes.adopt_elsewhere()


def test_a_runtime_behind_a_proxy_is_adopted_when_there_is_no_other(tmp_path: Path) -> None:
    processes = table("proxy", tmp_path)
    assert processes.function() == []
    assert processes.runtime_address() == ADDRESS
    assert processes.adopt_elsewhere()
    assert [process.pid for process in processes.function()] == [12]
    assert processes.runtime_address() == "127.0.0.1:9009"


def test_a_runtime_of_another_cgroup_is_another_environments(tmp_path: Path) -> None:
    processes = table("proxy", tmp_path)
    for pid, group in ((os.getpid(), "ours"), (12, "theirs")):
        (tmp_path / str(pid)).mkdir(exist_ok=True)
        (tmp_path / str(pid) / "cgroup").write_text(f"0::/{group}\n")
    assert not processes.adopt_elsewhere()
    assert processes.runtime_address() == ADDRESS


def test_a_runtimes_address_stands_anywhere_among_its_variables(tmp_path: Path) -> None:
    for variables in (
        f"AWS_LAMBDA_RUNTIME_API={ADDRESS}\0_HANDLER=a.b",
        f"_HANDLER=a.b\0AWS_LAMBDA_RUNTIME_API={ADDRESS}\0",
    ):
        (unpack("proxy", tmp_path) / "12/environ").write_text(variables)
        processes = ProcessTable(Procfs(str(tmp_path)), ADDRESS)
        processes.scan()
        assert [process.pid for process in processes.function()] == [12]


def test_a_name_that_only_ends_like_the_address_is_another(tmp_path: Path) -> None:
    (unpack("proxy", tmp_path) / "12/environ").write_text(f"_HANDLER=a.b\0MY_AWS_LAMBDA_RUNTIME_API={ADDRESS}\0")
    processes = ProcessTable(Procfs(str(tmp_path)), ADDRESS)
    processes.scan()
    assert processes.function() == []


def test_the_half_dead_do_not_stop_a_scan(tmp_path: Path) -> None:
    processes = table("half-dead", tmp_path)
    assert processes.function() == []
    assert processes.errors == 0


def test_a_new_process_is_noticed(tmp_path: Path) -> None:
    processes = table("lambda", tmp_path)
    assert not processes.changed()
    (tmp_path / "loadavg").write_text("0.04 0.01 0.00 1/78 32\n")
    assert processes.changed()


def test_a_new_process_is_found_and_its_thread_is_none() -> None:
    processes = ProcessTable(Procfs(), ADDRESS)
    processes.scan()
    variables = {"_HANDLER": "app.handler", "AWS_LAMBDA_RUNTIME_API": ADDRESS}
    program = "import threading; threading.Thread(target=input).start(); print(flush=True)"
    before = processes._last_pid
    with subprocess.Popen(
        [sys.executable, "-c", program], env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as runtime:
        assert runtime.stdout is not None
        runtime.stdout.readline()
        processes.scan()
        found = [process.pid for process in processes.function()]
        runtime.communicate(b"\n", timeout=30)
    assert found == [runtime.pid]  # and not its thread
    assert before < processes._last_pid
