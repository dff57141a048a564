"""Who is who, on captured trees."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from truemem.linux.cgroup import MemorySource
from truemem.linux.oom_score import OomScore
from truemem.linux.process_evidence import NAME_MAX
from truemem.linux.process_table import ProcessTable
from truemem.linux.procfs import Procfs
from truemem.measure.environment_memory import EXTENSIONS, EnvironmentMemory

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
    held = EnvironmentMemory(processes, MemorySource(Procfs(str(tmp_path)), str(tmp_path))).read()
    assert len(held.extensions) == EXTENSIONS
    assert max(map(len, held.extensions)) <= NAME_MAX


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


def test_a_variable_that_an_image_sets_for_all_makes_a_guess_and_no_more(tmp_path: Path) -> None:
    proc = Procfs(str(unpack("lambda", tmp_path)))
    late = tmp_path / "15"  # an extension that was started after us, and has become a program elsewhere
    late.mkdir()
    (late / "stat").write_text((tmp_path / "12/stat").read_text().replace("12 (", "15 ("))
    (late / "environ").write_text(f"AWS_LAMBDA_RUNTIME_API={ADDRESS}\0AWS_EXECUTION_ENV=AWS_Lambda_python3.13\0")
    scores = [tmp_path / f"{pid}/oom_score_adj" for pid in (12, 15)]
    for score in scores:
        score.write_text("0\n")
    for pid in "12", "31":
        (tmp_path / pid).rename(tmp_path / f"later {pid}")
    processes = ProcessTable(proc, ADDRESS, oom_score=OomScore(proc, 100))
    processes.scan()
    assert [process.pid for process in processes.function()] == [15]
    assert not processes.is_settled()
    for pid in "12", "31":
        (tmp_path / f"later {pid}").rename(tmp_path / pid)
    processes.scan()
    assert [process.pid for process in processes.function()] == [12, 31]
    assert [score.read_text().strip() for score in scores] == ["100", "0"]


def test_a_pid_that_has_been_another_processs_before_is_looked_at_anew(tmp_path: Path) -> None:
    processes = table("shared-machine", tmp_path)  # 70 is unrelated
    (tmp_path / "loadavg").write_text("0.04 0.01 0.00 1/78 69\n")
    processes.scan()
    (tmp_path / "70/environ").write_bytes((tmp_path / "50/environ").read_bytes())
    (tmp_path / "70/status").write_text("Name:\tpython3\nTgid:\t70\n")
    (tmp_path / "loadavg").write_text("0.04 0.01 0.00 1/78 70\n")
    processes.scan()
    assert [process.pid for process in processes.function()] == [50, 70]


def test_a_runtime_behind_a_proxy_is_adopted_when_there_is_no_other(tmp_path: Path) -> None:
    processes = table("proxy", tmp_path)
    assert processes.function() == []
    assert processes.adopt_elsewhere()
    assert [process.pid for process in processes.function()] == [12]


def test_a_runtime_of_another_cgroup_is_another_environments(tmp_path: Path) -> None:
    processes = table("proxy", tmp_path)
    for pid, group in ((os.getpid(), "ours"), (12, "theirs")):
        (tmp_path / str(pid)).mkdir(exist_ok=True)
        (tmp_path / str(pid) / "cgroup").write_text(f"0::/{group}\n")
    assert not processes.adopt_elsewhere()


@pytest.mark.parametrize(
    ("variables", "found"),
    [
        (f"AWS_LAMBDA_RUNTIME_API={ADDRESS}\0_HANDLER=a.b", [12]),
        (f"_HANDLER=a.b\0AWS_LAMBDA_RUNTIME_API={ADDRESS}\0", [12]),
        (f"_HANDLER=a.b\0MY_AWS_LAMBDA_RUNTIME_API={ADDRESS}\0", []),
    ],
    ids=["first", "last", "another name that ends alike"],
)
def test_a_runtimes_address_stands_anywhere_among_its_variables(
    tmp_path: Path, variables: str, found: list[int]
) -> None:
    (unpack("proxy", tmp_path) / "12/environ").write_text(variables)
    processes = ProcessTable(Procfs(str(tmp_path)), ADDRESS)
    processes.scan()
    assert [process.pid for process in processes.function()] == found


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
    before = processes.last_pid
    with subprocess.Popen(
        [sys.executable, "-c", program], env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as runtime:
        assert runtime.stdout is not None
        runtime.stdout.readline()
        processes.scan()
        found = [process.pid for process in processes.function()]
        runtime.communicate(b"\n", timeout=30)
    assert found == [runtime.pid]  # and not its thread
    assert before < processes.last_pid


# Without trusting variables: the emulator's tree


def owners(processes: ProcessTable) -> dict[int, str]:
    """Whose each process is, ours left out."""
    return {each.pid: each.owner for each in [*processes.function(), *processes.others()] if each.owner != "truemem"}


def emulator(folder: Path, last_pid: int = 24, tree: str = "emulator") -> ProcessTable:
    processes = ProcessTable(Procfs(str(unpack(tree, folder))), ADDRESS, last_pid=last_pid, own_pid=20)
    processes.scan()
    return processes


EMULATED = {
    21: "extension:agent",
    22: "extension:shipper",
    23: "extension:collector",
    24: "extension:collector",
    30: "function",
    31: "function",
}


def test_extensions_and_runtime_where_every_process_has_the_task_root(tmp_path: Path) -> None:
    processes = emulator(tmp_path)
    assert owners(processes) == EMULATED
    processes.adopt_elsewhere()
    assert owners(processes) == EMULATED


def test_no_variable_makes_an_extension_the_function(tmp_path: Path) -> None:
    unpack("emulator", tmp_path)
    for pid in 21, 22, 23, 24:
        environ = tmp_path / f"{pid}/environ"
        environ.write_text(environ.read_text() + "_HANDLER=a.b\0AWS_EXECUTION_ENV=AWS_Lambda_python3.13\0")
    processes = ProcessTable(Procfs(str(tmp_path)), ADDRESS, last_pid=24, own_pid=20)
    processes.scan()
    assert owners(processes) == EMULATED


def test_the_platforms_processes_are_never_adopted_nor_touched(tmp_path: Path) -> None:
    """Not the emulator, which is no pid 1 here, not even where there is no function at all, and where it is named."""
    unpack("emulator", tmp_path)
    for pid in 30, 31:
        for name in "stat", "environ", "cmdline":
            (tmp_path / f"{pid}/{name}").unlink()
        (tmp_path / str(pid)).rmdir()
    scores = [tmp_path / f"{pid}/oom_score_adj" for pid in (1, 5, 6, 21, 22, 23, 24)]
    for score in scores:
        score.write_text("0\n")
    proc = Procfs(str(tmp_path))
    processes = ProcessTable(proc, ADDRESS, last_pid=24, own_pid=20, oom_score=OomScore(proc, 100))
    processes.scan()
    assert not processes.adopt_elsewhere()
    assert not any(processes.adopt_runtime(pid) for pid in (0, 1, 5, 20, 21, 22, 23, 24, 4711))
    assert processes.function() == []
    assert {score.read_text() for score in scores} == {"0\n"}
    assert "is started by pid 5 after us" in processes.looked_for()
    assert "4 of extensions, 0 with another AWS_LAMBDA_RUNTIME_API, 1 others" in processes.looked_for()


def test_if_it_is_not_known_when_we_registered_the_wrapper_corrects_the_guess(tmp_path: Path) -> None:
    processes = emulator(tmp_path, last_pid=0)
    assert {pid for pid, owner in owners(processes).items() if owner == "function"} == {23, 24, 30, 31}
    assert processes.adopt_runtime(31)
    assert {pid for pid, owner in owners(processes).items() if owner == "function"} == {30, 31}
    processes.scan()
    assert {pid for pid, owner in owners(processes).items() if owner == "function"} == {30, 31}


def test_what_the_wrapper_names_is_the_runtime_whatever_it_is(tmp_path: Path) -> None:
    processes = emulator(tmp_path)
    assert processes.adopt_runtime(6)
    assert [process.pid for process in processes.function()] == [6]


def test_a_runtime_without_variables_is_known_by_its_connection(tmp_path: Path) -> None:
    processes = emulator(tmp_path, last_pid=21, tree="no-variables")
    assert owners(processes) == {21: "extension:agent", 30: "function"}


def test_a_guess_gives_way_to_a_runtime_with_variables(tmp_path: Path) -> None:
    processes = emulator(tmp_path, last_pid=21, tree="no-variables")
    assert not processes.is_settled()
    for name, text in (
        ("stat", (tmp_path / "30/stat").read_text().replace("30", "40")),
        ("environ", f"AWS_LAMBDA_RUNTIME_API={ADDRESS}\0_HANDLER=a.b\0"),
        ("cmdline", "node\0"),
    ):
        (tmp_path / "40").mkdir(exist_ok=True)
        (tmp_path / "40" / name).write_text(text)
    (tmp_path / "loadavg").write_text("0.04 0.01 0.00 1/78\n")
    processes.scan()
    assert processes.is_settled()
    assert owners(processes) == {21: "extension:agent", 40: "function"}


def test_a_guess_is_settled_when_an_event_has_come(tmp_path: Path) -> None:
    processes = emulator(tmp_path, last_pid=21, tree="no-variables")
    assert processes.adopt_elsewhere()
    assert processes.is_settled()
    assert not processes.adopt_elsewhere()


def test_behind_an_extensions_proxy_and_not_behind_another_environments_api(tmp_path: Path) -> None:
    processes = emulator(tmp_path, last_pid=21, tree="extension-proxy")
    assert processes.adopt_elsewhere()
    assert owners(processes) == {21: "extension:proxy", 30: "function"}


def test_the_client_of_our_proxy_is_the_runtime_but_for_an_extension(tmp_path: Path) -> None:
    processes = emulator(tmp_path, last_pid=21, tree="extension-proxy")
    assert processes.adopt_client(40000, 9009)
    assert owners(processes) == {21: "extension:proxy", 30: "function"}
    assert not processes.adopt_client(40001, 9009)
    (tmp_path / "21/fd/9").symlink_to("socket:[503]")
    assert not emulator(tmp_path / "again", tree="no-variables").adopt_client(40000, 9001)  # the extension's


def test_our_proxys_address_is_as_good_as_ours(tmp_path: Path) -> None:
    processes = ProcessTable(Procfs(str(unpack("proxy", tmp_path))), ADDRESS)
    processes.proxy_address = "127.0.0.1:9009"
    processes.scan()
    assert [process.pid for process in processes.function()] == [12]


def test_a_script_of_the_extensions_folder_that_starts_us_is_not_the_platform(tmp_path: Path) -> None:
    unpack("emulator", tmp_path)
    own = tmp_path / "20/stat"
    own.write_text(own.read_text().replace("S 5 20", "S 22 20"))
    processes = ProcessTable(Procfs(str(tmp_path)), ADDRESS, last_pid=24, own_pid=20)
    processes.scan()
    assert owners(processes) == EMULATED


def test_a_parent_with_the_pid_of_its_child_is_no_endless_family(tmp_path: Path) -> None:
    unpack("lambda", tmp_path)
    for pid, parent in ((12, 31), (31, 12)):
        stat = tmp_path / f"{pid}/stat"
        stat.write_text(stat.read_text().replace(" 1 12 " if pid == 12 else " 12 12 ", f" {parent} 12 ", 1))
    processes = ProcessTable(Procfs(str(tmp_path)), ADDRESS)
    processes.scan()
    assert processes.adopt_runtime(31)


# Without trusting variables: real processes


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with World(tmp_path) as made:
        yield made


class World:
    """This process stands for the platform: it starts extensions, a stand-in for the sidecar, and then a runtime."""

    def __init__(self, folder: Path) -> None:
        self.extensions = folder / "extensions"
        self.extensions.mkdir()
        self.folder = folder
        self._stack = ExitStack()

    def __enter__(self) -> World:
        self.api = self._stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        self.address = f"127.0.0.1:{self.api.getsockname()[1]}"
        self.own = self.start("sleep", "600")
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def start(self, *command: str, **variables: str) -> int:
        """A child of this process; its pid."""
        environment = {"PATH": os.environ["PATH"], "AWS_LAMBDA_RUNTIME_API": self.address} | variables
        process = self._stack.enter_context(
            subprocess.Popen(
                command, env={name: value for name, value in environment.items() if value}, start_new_session=True
            )
        )
        self._stack.callback(os.killpg, process.pid, signal.SIGKILL)
        return process.pid

    def extension(self, name: str, text: str, **variables: str) -> int:
        path = self.extensions / name
        path.write_text(text)
        path.chmod(0o755)
        return self.start(str(path), **variables)

    def table(self, **settings: Any) -> ProcessTable:
        """As of when the sidecar registers."""
        proc = Procfs()
        return ProcessTable(
            proc, self.address, str(self.extensions), last_pid=proc.last_pid(), own_pid=self.own, **settings
        )


def running(pid: int, program: str) -> None:
    """Wait until it runs this program."""
    until = time.monotonic() + 10
    while program not in Path(f"/proc/{pid}/cmdline").read_text():
        assert time.monotonic() < until
        time.sleep(0.005)


def children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(child) for child in text.split()]


TASK_ROOT = {"LAMBDA_TASK_ROOT": "/var/task"}


def test_real_extensions_and_a_runtime_of_which_no_variable_tells(world: World) -> None:
    script = world.extension("script", "#!/bin/sh\nsleep 600 & exec sleep 599\n", **TASK_ROOT)
    program = world.extension("program", "#!/bin/sh\nwhile :; do sleep 600; done\n", **TASK_ROOT)
    running(script, "599")
    processes = world.table()
    shell = world.start("/bin/sh", "-c", "sleep 600; true", **TASK_ROOT)
    running(shell, "600")
    while not (runtime := children(shell)):
        time.sleep(0.005)
    processes.scan()
    found = owners(processes)
    assert [process.pid for process in processes.function()] == [shell, *runtime]
    assert found[script] == "extension:sleep"  # its file's name is gone with the exec
    assert found[program] == "extension:program"
    assert {found[child] for child in children(script)} == {"extension:sleep"}
    assert os.getpid() not in found
    assert os.getppid() not in found


def test_a_real_runtime_without_any_variable_that_is_connected(world: World) -> None:
    processes = world.table()
    host, port = world.address.split(":")
    program = f"import os, socket; s = socket.create_connection(({host!r}, {port})); os.write(1, b'x'); s.recv(1)"
    runtime = world.start(sys.executable, "-c", program, AWS_LAMBDA_RUNTIME_API="")
    connection, client = world.api.accept()
    with connection:
        processes.scan()
        assert [process.pid for process in processes.function()] == [runtime]
        assert processes.adopt_client(client[1], int(port))
        assert processes.is_settled()


def test_forked_workers_are_the_functions_with_their_parent(world: World) -> None:
    processes = world.table()
    program = "import os, time; [os.fork() for _ in range(2)]; time.sleep(600)"
    runtime = world.start(sys.executable, "-c", program)
    while len(children(runtime)) < 2:
        time.sleep(0.005)
    workers = children(runtime)
    processes.scan()
    assert {*workers, runtime} <= {process.pid for process in processes.function()}


def test_another_environment_that_the_same_process_has_started_is_not_ours(world: World) -> None:
    processes = world.table()
    with socket.create_server(("127.0.0.1", 0)) as other:
        theirs = f"127.0.0.1:{other.getsockname()[1]}"
        runtime = world.start("sleep", "600", AWS_LAMBDA_RUNTIME_API=theirs, _HANDLER="a.b")
        child = world.start("sleep", "600", AWS_LAMBDA_RUNTIME_API=theirs)
        processes.scan()
        processes.adopt_elsewhere()
        # Another program on this machine may look like a runtime: a test that runs beside this one.
        assert not {runtime, child} & {process.pid for process in processes.function()}


def test_more_processes_than_lambda_allows_are_not_looked_at(world: World) -> None:
    processes = world.table(most=4)
    runtime = world.start(sys.executable, "-c", "import os, time; [os.fork() for _ in range(3)]; time.sleep(600)")
    while len(children(runtime)) < 3:
        time.sleep(0.005)
    processes.scan()
    assert len(processes.function()) + len(processes.others()) == 4
    assert processes.unfinished


def test_when_the_runtime_has_ended_no_other_process_takes_its_place(world: World) -> None:
    """An extension that began late, in an image that sets variables for all, still lives at SHUTDOWN."""
    processes = world.table()
    late = world.start("sleep", "600", AWS_EXECUTION_ENV="AWS_Lambda_python3.13")
    runtime = world.start("sleep", "600", _HANDLER="a.b")
    processes.scan()
    (known,) = processes.function()
    assert known.pid == runtime
    os.killpg(runtime, signal.SIGKILL)
    processes.forget(known, zombie=True)
    assert not processes.adopt_elsewhere()
    processes.scan()
    assert late not in [process.pid for process in processes.function()]
