"""Who is who, on captured trees."""

from __future__ import annotations

import errno
import itertools
import os
import posix
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from truemem.linux import process_table
from truemem.linux.cgroup import MemorySource
from truemem.linux.oom_score import OomScore
from truemem.linux.process_evidence import NAME_MAX
from truemem.linux.process_table import MOST_PROCESSES, NewPids, ProcessTable
from truemem.linux.procfs import Procfs
from truemem.measure.environment_memory import EXTENSIONS, EnvironmentMemory

from tests.golden import unpack

ADDRESS = "127.0.0.1:9001"


def table(tree: str, folder: Path, **settings: Any) -> ProcessTable:
    processes = ProcessTable(Procfs(str(unpack(tree, folder))), ADDRESS, **settings)
    processes.scan()
    return processes


def scanned(folder: Path, **settings: Any) -> ProcessTable:
    """Of a tree that a test has changed."""
    processes = ProcessTable(Procfs(str(folder)), ADDRESS, **settings)
    processes.scan()
    return processes


def refuses(path: str) -> list[str]:
    """/proc cannot be listed."""
    raise PermissionError(errno.EACCES, path)


def function(processes: ProcessTable) -> list[int]:
    """Pids of the function."""
    return [process.pid for process in processes.function()]


def owners(processes: ProcessTable) -> dict[int, str]:
    """Whose each process is, ours left out."""
    return {each.pid: each.owner for each in [*processes.function(), *processes.others()] if each.owner != "truemem"}


def test_the_functions_tree_and_extensions_by_their_folder(tmp_path: Path) -> None:
    processes = table("lambda", tmp_path)
    assert owners(processes) == {12: "function", 31: "function", 8: "extension:agent", 9: "extension:shipper"}
    assert processes.function()[0].start_time == 50  # identity is pid and start time


def test_a_hundred_pretended_extensions_do_not_fill_the_line(tmp_path: Path) -> None:
    unpack("lambda", tmp_path)
    for pid in range(100, 200):
        folder = tmp_path / f"{pid}"
        shutil.copytree(tmp_path / "8", folder)
        (folder / "cmdline").write_text(f"/opt/extensions/{'x' * (pid * 2 - 100)}\0")
        (folder / "statm").write_text("100 50 20 1 0 20 0\n")
    held = EnvironmentMemory(scanned(tmp_path), MemorySource(Procfs(str(tmp_path)), str(tmp_path))).read()
    assert len(held.extensions) == EXTENSIONS
    assert max(map(len, held.extensions)) <= NAME_MAX


def test_a_forgotten_process_is_found_again_if_it_lives(tmp_path: Path) -> None:
    processes = table("lambda", tmp_path)
    processes.forget(processes.function()[0])
    assert function(processes) == [31]
    processes.scan()
    assert sorted(function(processes)) == [12, 31]


def test_only_our_own_environment_on_a_shared_machine(tmp_path: Path) -> None:
    processes = table("shared-machine", tmp_path)
    assert function(processes) == [50]
    assert not processes.adopt_elsewhere()


def test_a_variable_set_for_all_makes_only_a_guess(tmp_path: Path) -> None:
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
    assert function(processes) == [15]
    assert not processes.is_settled()
    for pid in "12", "31":
        (tmp_path / f"later {pid}").rename(tmp_path / pid)
    processes.scan()
    assert function(processes) == [12, 31]
    assert [score.read_text().strip() for score in scores] == ["100", "0"]


def test_a_reused_pid_is_looked_at_anew(tmp_path: Path) -> None:
    processes = table("shared-machine", tmp_path)  # 70 is unrelated
    (tmp_path / "loadavg").write_text("0.04 0.01 0.00 1/78 69\n")
    processes.scan()
    (tmp_path / "70/environ").write_bytes((tmp_path / "50/environ").read_bytes())
    (tmp_path / "70/status").write_text("Name:\tpython3\nTgid:\t70\n")
    (tmp_path / "loadavg").write_text("0.04 0.01 0.00 1/78 70\n")
    processes.scan()
    assert function(processes) == [50, 70]


def appears(folder: Path, pid: int, like: int, parent: int) -> Path:
    """A process `like` another one, as the last one that was started."""
    made = shutil.copytree(folder / f"{like}", folder / f"{pid}")
    name, _, rest = (made / "stat").read_text().partition(")")
    state, _, *others = rest.split()
    (made / "stat").write_text(" ".join([f"{pid} ({name.partition('(')[2]})", state, f"{parent}", *others]))
    (made / "status").write_text(f"Name:\tx\nTgid:\t{pid}\n")
    (folder / "loadavg").write_text(f"0.04 0.01 0.00 1/78 {pid}\n")
    return made


def test_what_has_ended_makes_room_for_a_new_process(tmp_path: Path) -> None:
    """An extension has started many, and no record was printed meanwhile."""
    processes = table("lambda", tmp_path, most=8)
    for pid in range(100, 120):
        made = appears(tmp_path, pid, like=8, parent=8)
        processes.scan()
        shutil.rmtree(made)
    appears(tmp_path, 120, like=31, parent=12)
    processes.scan()
    assert function(processes) == [12, 31, 120]


def test_orphans_that_come_and_go_are_not_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_table, "MOST_PROCESSES", 20)
    processes = table("lambda", tmp_path)
    for pid in range(100, 200):
        made = appears(tmp_path, pid, like=8, parent=1)
        stat = (made / "stat").read_text()
        (made / "stat").write_text(stat.replace(" 331542528 3000 ", " 0 0 "))
        processes.scan()
        shutil.rmtree(made)
    assert 0 < len(processes._orphans) <= 20


def test_processes_that_come_and_go_are_not_remembered() -> None:
    """An environment may live for 14 days: of each zombie that it was, a pid was kept until it was given out anew."""
    listed = itertools.count()
    proc: Any = SimpleNamespace(leads=lambda _: True, pids=lambda: [next(listed)])
    proc.last_pid = lambda: proc.last
    pids = NewPids(proc, lambda: False)
    most = 0
    for proc.last in range(2, 20_000):
        pids.find()
        pids.unrelated.add(proc.last)
        most = max(most, len(pids.unrelated))
    assert most <= MOST_PROCESSES
    assert next(listed) < 30


def test_what_an_unlisted_proc_has_hidden_is_found_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    proc = Procfs(str(unpack("lambda", tmp_path)))
    processes = ProcessTable(proc, ADDRESS)
    (tmp_path / "loadavg").write_text("0.04 0.01 0.00 1/78 31\n")
    with monkeypatch.context() as kernel:
        kernel.setattr(posix, "listdir", refuses)
        processes.scan()
    assert (function(processes), processes.errors) == ([], 1)
    (tmp_path / "loadavg").write_text("0.04 0.01 0.00 1/78 32\n")  # one more, which is none of ours
    processes.scan()
    assert function(processes) == [12, 31]


@pytest.mark.parametrize(
    "groups", [(), ("ours", "theirs")], ids=["adopted", "another environment's, of another cgroup"]
)
def test_a_runtime_behind_a_proxy_is_adopted_as_the_last_one(tmp_path: Path, groups: tuple[str, ...]) -> None:
    processes = table("proxy", tmp_path)
    assert processes.function() == []
    for pid, group in zip((os.getpid(), 12), groups, strict=False):
        (tmp_path / str(pid)).mkdir(exist_ok=True)
        (tmp_path / str(pid) / "cgroup").write_text(f"0::/{group}\n")
    assert processes.adopt_elsewhere() is not bool(groups)
    assert function(processes) == ([] if groups else [12])


VARIABLES = {
    "first": (f"AWS_LAMBDA_RUNTIME_API={ADDRESS}\0_HANDLER=a.b", [12]),
    "last": (f"_HANDLER=a.b\0AWS_LAMBDA_RUNTIME_API={ADDRESS}\0", [12]),
    "another name that ends alike": (f"_HANDLER=a.b\0MY_AWS_LAMBDA_RUNTIME_API={ADDRESS}\0", []),
}


@pytest.mark.parametrize(("variables", "found"), VARIABLES.values(), ids=VARIABLES)
def test_a_runtimes_address_stands_anywhere_in_its_variables(tmp_path: Path, variables: str, found: list[int]) -> None:
    (unpack("proxy", tmp_path) / "12/environ").write_text(variables)
    assert function(scanned(tmp_path)) == found


def test_the_half_dead_do_not_stop_a_scan(tmp_path: Path) -> None:
    processes = table("half-dead", tmp_path)
    assert (processes.function(), processes.errors) == ([], 0)
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
        found = function(processes)
        runtime.communicate(b"\n", timeout=30)
    assert found == [runtime.pid]  # and not its thread
    assert before < processes.last_pid


# Without trusting variables: the emulator's tree


def emulator(folder: Path, last_pid: int = 24, tree: str = "emulator") -> ProcessTable:
    return table(tree, folder, last_pid=last_pid, own_pid=20)


EMULATED = {
    21: "extension:agent",
    22: "extension:shipper",
    23: "extension:collector",
    24: "extension:collector",
    30: "function",
    31: "function",
}


def of_runtimes(tree: Path) -> None:
    """Variables by which runtimes are known."""
    for pid in 21, 22, 23, 24:
        environ = tree / f"{pid}/environ"
        environ.write_text(environ.read_text() + "_HANDLER=a.b\0AWS_EXECUTION_ENV=AWS_Lambda_python3.13\0")


def started_by_an_extension(tree: Path) -> None:
    """We are, by a script of its folder: it is not the platform."""
    own = tree / "20/stat"
    own.write_text(own.read_text().replace("S 5 20", "S 22 20"))


@pytest.mark.parametrize("changed", [lambda tree: None, of_runtimes, started_by_an_extension])
def test_no_variable_makes_an_extension_the_function(tmp_path: Path, changed: Callable[[Path], None]) -> None:
    changed(unpack("emulator", tmp_path))
    processes = scanned(tmp_path, last_pid=24, own_pid=20)
    assert owners(processes) == EMULATED
    processes.adopt_elsewhere()
    assert owners(processes) == EMULATED


def test_the_platforms_processes_are_never_touched(tmp_path: Path) -> None:
    """Not the emulator, which is no pid 1 here, not even where there is no function at all, and where it is named."""
    unpack("emulator", tmp_path)
    for pid in 30, 31:
        shutil.rmtree(tmp_path / str(pid))
    scores = [tmp_path / f"{pid}/oom_score_adj" for pid in (1, 5, 6, 21, 22, 23, 24)]
    for score in scores:
        score.write_text("0\n")
    processes = scanned(tmp_path, last_pid=24, own_pid=20, oom_score=OomScore(Procfs(str(tmp_path)), 100))
    assert not processes.adopt_elsewhere()
    assert not any(processes.adopt_runtime(pid) for pid in (0, 1, 5, 20, 21, 22, 23, 24, 4711))
    assert processes.function() == []
    assert {score.read_text() for score in scores} == {"0\n"}
    assert "is started by pid 5 after us" in processes.looked_for()
    assert "4 of extensions, 0 with another AWS_LAMBDA_RUNTIME_API, 1 others" in processes.looked_for()


def test_what_the_wrapper_names_is_the_runtime_whatever_it_is(tmp_path: Path) -> None:
    """It corrects the guess where it is not known when we registered."""
    processes = emulator(tmp_path, last_pid=0)
    assert sorted(function(processes)) == [23, 24, 30, 31]
    assert processes.adopt_runtime(31)
    assert sorted(function(processes)) == [30, 31]
    processes.scan()
    assert sorted(function(processes)) == [30, 31]
    processes = emulator(tmp_path / "again")
    assert processes.adopt_runtime(6)
    assert function(processes) == [6]


def test_a_guess_gives_way_to_a_runtime_with_variables(tmp_path: Path) -> None:
    processes = emulator(tmp_path, last_pid=21, tree="no-variables")
    assert not processes.is_settled()
    (tmp_path / "40").mkdir()
    (tmp_path / "40/stat").write_text((tmp_path / "30/stat").read_text().replace("30", "40"))
    (tmp_path / "40/environ").write_text(f"AWS_LAMBDA_RUNTIME_API={ADDRESS}\0_HANDLER=a.b\0")
    (tmp_path / "40/cmdline").write_text("node\0")
    (tmp_path / "loadavg").write_text("0.04 0.01 0.00 1/78\n")
    processes.scan()
    assert processes.is_settled()
    assert owners(processes) == {21: "extension:agent", 40: "function"}


def test_a_guess_is_settled_when_an_event_has_come(tmp_path: Path) -> None:
    processes = emulator(tmp_path, last_pid=21, tree="no-variables")
    assert owners(processes) == {21: "extension:agent", 30: "function"}  # known by its connection
    assert processes.adopt_elsewhere()
    assert processes.is_settled()
    assert not processes.adopt_elsewhere()


def test_a_proxys_client_is_the_runtime_unless_an_extension(tmp_path: Path) -> None:
    """Behind an extension's, and behind ours; not behind another environment's API."""
    processes = emulator(tmp_path / "theirs", last_pid=21, tree="extension-proxy")
    assert processes.adopt_elsewhere()
    assert owners(processes) == {21: "extension:proxy", 30: "function"}
    processes = emulator(tmp_path / "ours", last_pid=21, tree="extension-proxy")
    assert processes.adopt_client(40000, 9009)
    assert owners(processes) == {21: "extension:proxy", 30: "function"}
    assert not processes.adopt_client(40001, 9009)
    assert not emulator(tmp_path / "again", tree="no-variables").adopt_client(40000, 9001)  # the extension's


def test_our_proxys_address_is_as_good_as_ours(tmp_path: Path) -> None:
    processes = ProcessTable(Procfs(str(unpack("proxy", tmp_path))), ADDRESS)
    processes.proxy_address = "127.0.0.1:9009"
    processes.scan()
    assert function(processes) == [12]


def test_a_parent_with_the_pid_of_its_child_is_no_endless_family(tmp_path: Path) -> None:
    unpack("lambda", tmp_path)
    for pid, parent in ((12, 31), (31, 12)):
        stat = tmp_path / f"{pid}/stat"
        stat.write_text(stat.read_text().replace(" 1 12 " if pid == 12 else " 12 12 ", f" {parent} 12 ", 1))
    assert scanned(tmp_path).adopt_runtime(31)


# Without trusting variables: real processes


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with ExitStack() as stack:
        yield World(tmp_path, stack)


class World:
    """This process stands for the platform: it starts extensions, a stand-in for the sidecar, and then a runtime."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.extensions = folder / "extensions"
        self.extensions.mkdir()
        self._stack = stack
        self.api = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        self.address = f"127.0.0.1:{self.api.getsockname()[1]}"
        self.own = self.start("sleep", "600")

    def start(self, *command: str, **variables: str) -> int:
        """A child of this process; its pid."""
        environment = {"PATH": os.environ["PATH"], "AWS_LAMBDA_RUNTIME_API": self.address} | variables
        given = {name: value for name, value in environment.items() if value}
        process = self._stack.enter_context(subprocess.Popen(command, env=given, start_new_session=True))
        self._stack.callback(os.killpg, process.pid, signal.SIGKILL)
        while not Path(f"/proc/{process.pid}/environ").read_bytes():  # exec() lets us go on before it is there
            time.sleep(0.001)
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


def children(pid: int, count: int = 0) -> list[int]:
    """Its children: wait until it has so many."""
    while True:
        found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        if len(found) >= count:
            return [int(child) for child in found]
        time.sleep(0.005)


TASK_ROOT = {"LAMBDA_TASK_ROOT": "/var/task"}


def test_real_extensions_and_a_runtime_without_variables(world: World) -> None:
    script = world.extension("script", "#!/bin/sh\nsleep 600 & exec sleep 599\n", **TASK_ROOT)
    program = world.extension("program", "#!/bin/sh\nwhile :; do sleep 600; done\n", **TASK_ROOT)
    running(script, "599")
    processes = world.table()
    shell = world.start("/bin/sh", "-c", "sleep 600; true", **TASK_ROOT)
    running(shell, "600")
    runtime = children(shell, 1)
    processes.scan()
    found = owners(processes)
    assert function(processes) == [shell, *runtime]
    assert found[script] == "extension:sleep"  # its file's name is gone with the exec
    assert found[program] == "extension:program"
    assert {found[child] for child in children(script)} == {"extension:sleep"}
    assert os.getpid() not in found
    assert os.getppid() not in found


def test_a_real_connected_runtime_without_variables(world: World) -> None:
    processes = world.table()
    host, port = world.address.split(":")
    program = f"import os, socket; s = socket.create_connection(({host!r}, {port})); os.write(1, b'x'); s.recv(1)"
    runtime = world.start(sys.executable, "-c", program, AWS_LAMBDA_RUNTIME_API="")
    connection, client = world.api.accept()
    with connection:
        processes.scan()
        assert function(processes) == [runtime]
        assert processes.adopt_client(client[1], int(port))
        assert processes.is_settled()


FORKS = "import os, time; [os.fork() for _ in range(3)]; time.sleep(600)"


def test_more_processes_than_lambda_allows_are_not_looked_at(world: World) -> None:
    processes = world.table(most=4)
    children(world.start(sys.executable, "-c", FORKS), 3)
    processes.scan()
    assert len(processes.function()) + len(processes.others()) == 4
    assert processes.unfinished


def test_no_other_process_takes_an_ended_runtimes_place(world: World) -> None:
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
    assert late not in function(processes)


# The adjustment


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as made:
        yield made
        made.kill()


def adjustment(pid: int) -> int:
    return int(Path(f"/proc/{pid}/oom_score_adj").read_text())


def test_a_process_gets_at_least_the_adjustment(process: subprocess.Popen[bytes]) -> None:
    before = adjustment(process.pid)
    for asked, has in [(0, before), (700, 700), (100, 700)]:  # its own, or inherited
        OomScore(Procfs(), asked).raise_for(process.pid)
        assert adjustment(process.pid) == has


def test_a_refused_adjustment_is_not_tried_again(process: subprocess.Popen[bytes]) -> None:
    asked = []

    class Noting(Procfs):
        def text(self, name: str, size: int = 4096) -> bytes:
            asked.append(name)
            return super().text(name, size)

    score = OomScore(Noting(), 2000)  # above what the kernel takes
    for _ in range(2):
        score.raise_for(process.pid)
    assert (score.refused, asked) == ("oom_score_adj: Invalid argument", [f"{process.pid}/oom_score_adj"])
    process.communicate()
    score = OomScore(Procfs(), 700)
    score.raise_for(process.pid)
    assert score.refused == ""  # it has ended
