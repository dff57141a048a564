"""Whose connections they are: real sockets of real processes, the function's and others'."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from truemem.inet_diag import Connection, DiagError
from truemem.processes import ProcessTable
from truemem.procfs import Procfs
from truemem.runtime_connections import MANY, TRIES, RuntimeConnections

CALLER = """
import os, socket, sys
made = []
def connect():
    made.append(socket.create_connection(("127.0.0.1", int(sys.argv[1]))))
def child():
    if not os.fork():
        made[-1].sendall(b"x" * 50)
        sys.stdin.read()
        os._exit(0)
    made.pop().close()
print(flush=True)
for line in sys.stdin:
    exec(line)
    print(flush=True)
"""
"""A process that does what it is told, a line at a time."""


class Caller:
    """A process that makes connections. `is_function`: with the variables that only a runtime has."""

    def __init__(self, port: int, is_function: bool = True) -> None:
        variables = {"_HANDLER": "a.b", "AWS_LAMBDA_RUNTIME_API": f"127.0.0.1:{port}"} if is_function else {}
        self.process = subprocess.Popen(
            [sys.executable, "-SEc", CALLER, str(port)],
            env=variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._done()

    def do(self, line: str) -> None:
        """Run a line of Python there, and wait until it is done."""
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        self._done()

    def _done(self) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "\n"

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


class Api:
    """Stands for the Runtime API: it accepts, and the test speaks for it."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=200)
        self.port: int = self._listener.getsockname()[1]
        self.callers: list[Caller] = []
        self._ends: list[socket.socket] = [self._listener]

    def caller(self, is_function: bool = True) -> Caller:
        made = Caller(self.port, is_function)
        self.callers.append(made)
        return made

    def accept(self) -> socket.socket:
        """Our end of the connection that was made first of those not accepted yet."""
        end = self._listener.accept()[0]
        self._ends.append(end)
        return end

    def connect(self) -> socket.socket:
        """A connection of our own process, which stands for the sidecar."""
        end = socket.create_connection(("127.0.0.1", self.port))
        self._ends.append(end)
        return end

    def close(self) -> None:
        for caller in self.callers:
            caller.end()
        for end in self._ends:
            end.close()


class CountingProc(Procfs):
    """Counts how often a process's descriptors are listed."""

    listed = 0

    def sockets(self, pid: int) -> set[int]:
        self.listed += 1
        return super().sockets(pid)


@pytest.fixture
def api() -> Iterator[Api]:
    made = Api()
    yield made
    made.close()


@pytest.fixture
def proc() -> CountingProc:
    return CountingProc()


@pytest.fixture
def watched(api: Api, proc: CountingProc) -> Iterator[RuntimeConnections]:
    address = f"127.0.0.1:{api.port}"
    made = RuntimeConnections(address, ProcessTable(proc, address), proc)
    yield made
    made.close()


def ports(look: list[Connection]) -> set[int]:
    """The clients' own ports."""
    return {int.from_bytes(seen.identity[1:3], "big") for seen in look}


def test_the_functions_connections_and_nobody_elses(api: Api, watched: RuntimeConnections) -> None:
    api.connect()  # the sidecar's
    api.accept()
    api.caller(is_function=False).do("connect()")  # another extension's
    api.accept()
    api.caller().do("connect()")
    mine = api.accept().getpeername()[1]
    assert ports(watched.look()) == {mine}


def test_a_function_that_has_none_yet(api: Api, watched: RuntimeConnections) -> None:
    api.connect()
    caller = api.caller()
    assert watched.look() == []
    caller.do("connect()")
    assert len(watched.look()) == 1


def test_a_process_that_begins_later_is_found(api: Api, watched: RuntimeConnections) -> None:
    first = api.caller()
    first.do("connect()")
    assert len(watched.look()) == 1
    api.caller().do("connect()")
    assert len(watched.look()) == 2


def test_a_child_of_the_function_is_the_function(api: Api, watched: RuntimeConnections) -> None:
    """A bootstrap that calls curl."""
    caller = api.caller()
    caller.do("connect(); child()")
    end = api.accept()
    assert len(end.recv(50)) == 50
    (seen,) = watched.look()
    assert seen.sent == 50


def test_each_look_tells_the_counts_as_of_now(api: Api, watched: RuntimeConnections) -> None:
    caller = api.caller()
    caller.do("connect()")
    end = api.accept()
    (seen,) = watched.look()
    assert (seen.sent, seen.received) == (0, 0)
    caller.do("made[0].sendall(b'x' * 132)")
    (seen,) = watched.look()
    assert (seen.sent, seen.received) == (132, 0)
    end.sendall(b"y" * 358)
    caller.do("made[0].recv(358, socket.MSG_WAITALL)")
    (seen,) = watched.look()
    assert (seen.sent, seen.received, seen.unread) == (132, 358, 0)


def test_a_connection_that_is_opened_and_one_that_is_closed(api: Api, watched: RuntimeConnections) -> None:
    caller = api.caller()
    caller.do("connect()")
    first = api.accept().getpeername()[1]
    assert ports(watched.look()) == {first}
    caller.do("connect()")
    second = api.accept().getpeername()[1]
    assert ports(watched.look()) == {first, second}
    caller.do("made.pop(0).close()")
    assert ports(watched.look()) == {second}
    caller.do("made.pop(0).close()")
    assert watched.look() == []


def test_the_owner_of_a_strangers_connection_is_not_looked_for_for_ever(
    api: Api, watched: RuntimeConnections, proc: CountingProc
) -> None:
    api.connect()
    api.caller().do("connect()")
    for _ in range(TRIES):
        assert len(watched.look()) == 1
    listed = proc.listed
    assert listed > 0
    for _ in range(5):
        assert len(watched.look()) == 1
    assert proc.listed == listed


def test_a_function_that_has_ended_has_none(api: Api, watched: RuntimeConnections) -> None:
    caller = api.caller()
    caller.do("connect()")
    assert len(watched.look()) == 1
    caller.end()
    api.connect()
    assert watched.look() == []


def test_more_than_a_runtimes_talk_is_an_error(api: Api, watched: RuntimeConnections) -> None:
    caller = api.caller()
    caller.do(f"for _ in range({MANY}): connect()")
    assert len(watched.look()) == MANY
    caller.do("connect()")
    with pytest.raises(DiagError, match=f"{MANY + 1} connections"):
        watched.look()


# Where the kernel's count of sockets says nothing: it is a file of the test's


class StillCount:
    """A /proc whose count of sockets never changes."""

    def __init__(self, folder: Path, caller: Caller) -> None:
        (folder / "self/net").mkdir(parents=True)
        (folder / "self/net/sockstat").write_text("sockets: used 9\nTCP: inuse 5 orphan 0 tw 0 alloc 5 mem 0\n")
        (folder / str(caller.process.pid)).symlink_to(f"/proc/{caller.process.pid}")
        self.proc = Procfs(str(folder))


@pytest.fixture
def still(api: Api, tmp_path: Path) -> Iterator[tuple[Caller, RuntimeConnections]]:
    caller = api.caller()
    address = f"127.0.0.1:{api.port}"
    made = RuntimeConnections(address, ProcessTable(Procfs(), address), StillCount(tmp_path, caller).proc)
    yield caller, made
    made.close()


def test_where_no_socket_is_made_all_are_not_listed_anew(api: Api, still: tuple[Caller, RuntimeConnections]) -> None:
    caller, watched = still
    caller.do("connect()")
    first = api.accept().getpeername()[1]
    assert ports(watched.look()) == {first}
    caller.do("connect()")
    assert ports(watched.look()) == {first}, "a count that does not change is believed"


def test_a_connection_whose_process_is_not_known_yet_is_looked_at_again(
    api: Api, still: tuple[Caller, RuntimeConnections], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside one that is known: the count of sockets does not change any more."""
    caller, watched = still
    caller.do("connect(); connect()")
    assert len(watched.look()) == 2
    caller.do("connect(); made.pop(1).close()")
    with monkeypatch.context() as patch:
        patch.setattr(ProcessTable, "function", lambda self: [])
        assert len(watched.look()) == 1
    assert len(watched.look()) == 2


def test_where_one_goes_and_another_comes_all_are_listed_anew(
    api: Api, still: tuple[Caller, RuntimeConnections]
) -> None:
    """Curl between two looks, its server not having closed its end yet."""
    caller, watched = still
    caller.do("connect()")
    api.accept()
    assert len(watched.look()) == 1
    caller.do("connect(); made.pop(0).close()")
    assert ports(watched.look()) == {api.accept().getpeername()[1]}


def test_where_one_of_several_goes_as_another_comes_too(api: Api, still: tuple[Caller, RuntimeConnections]) -> None:
    """Node, whose connection for responses is kept."""
    caller, watched = still
    caller.do("connect(); connect()")
    kept = api.accept().getpeername()[1]
    api.accept()
    assert len(watched.look()) == 2
    caller.do("connect(); made.pop(1).close()")
    assert ports(watched.look()) == {kept, api.accept().getpeername()[1]}


def test_the_same_with_a_server_that_has(api: Api, still: tuple[Caller, RuntimeConnections]) -> None:
    caller, watched = still
    caller.do("connect()")
    end = api.accept()
    assert len(watched.look()) == 1
    caller.do("connect(); made.pop(0).close()")
    assert end.recv(1) == b""
    end.close()
    assert ports(watched.look()) == {api.accept().getpeername()[1]}


def test_without_a_count_of_sockets_there_is_no_watching(tmp_path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    proc = Procfs(str(tmp_path))
    with pytest.raises(DiagError, match="sockstat"):
        RuntimeConnections("127.0.0.1:9001", ProcessTable(proc, "127.0.0.1:9001"), proc)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_an_address_that_cannot_be_asked_about_is_an_error() -> None:
    proc = Procfs()
    with pytest.raises(DiagError, match="no IP address"):
        RuntimeConnections("localhost:9001", ProcessTable(proc, "localhost:9001"), proc)
