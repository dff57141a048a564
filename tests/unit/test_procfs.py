"""The readers of /proc, on captured trees, on this machine's own, and on anything at all."""

from __future__ import annotations

import mmap
import os
import socket
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st
from truemem.linux.proc_text import Gone, parse_meminfo, parse_stat
from truemem.linux.procfs import Procfs

from tests.golden import unpack


def test_the_files_of_a_runtime(tmp_path: Path) -> None:
    """stat is parsed from the last parenthesis."""
    proc = Procfs(str(unpack("lambda", tmp_path)))
    status, stat = proc.process(12).status(), proc.process(12).stat()
    assert (status.hwm, status.rss, status.anon, status.file, status.shmem) == (120320, 80172, 59692, 20480, 0)
    assert status.threads == stat.threads == 3
    assert (stat.state, stat.parent, stat.start_time) == (b"S", 1, 50)
    assert (stat.faults, stat.child_faults, stat.rss) == (78734, 204, 20043 * 4)
    assert proc.process(12, keep=False).status().rss == status.rss
    assert parse_meminfo(proc.text("meminfo")) == (512000, 400000)


@pytest.mark.parametrize("pid", [12, 13, 14, 15])
def test_the_half_dead_are_gone(tmp_path: Path, pid: int) -> None:
    process = Procfs(str(unpack("half-dead", tmp_path))).process(pid)
    with pytest.raises(Gone) as gone:
        process.status()
    assert gone.value.errno == 0
    for read in (process.stat, process.rss) if pid > 13 else ():  # cut off
        with pytest.raises(Gone):
            read()


def test_a_permission_is_told_from_an_end(tmp_path: Path) -> None:
    (tmp_path / "7/status").mkdir(parents=True)  # reading a folder is EISDIR, for root as for anybody
    with pytest.raises(Gone) as gone:
        Procfs(str(tmp_path)).process(7).status()
    assert gone.value.errno != 0
    with pytest.raises(Gone) as gone:
        Procfs(str(tmp_path)).sockets(12)
    assert gone.value.errno == 0


def test_last_pid_moves_when_a_process_is_made() -> None:
    proc = Procfs()
    before = proc.last_pid()
    psutil.Popen(["true"]).wait()
    assert proc.last_pid() != before


def test_our_own_figures_agree_with_psutil_and_faults_count_what_is_touched() -> None:
    process, reference = Procfs().process(os.getpid()), psutil.Process()
    assert process.status().rss == pytest.approx(reference.memory_info().rss / 1024, abs=1024)
    assert process.rss() == pytest.approx(reference.memory_info().rss / 1024, abs=1024)
    assert (process.stat().parent, process.stat().threads) == (os.getppid(), reference.num_threads())
    before = process.stat().faults
    with mmap.mmap(-1, 8 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as fresh:  # malloc may have some left
        fresh.write(bytes(8 << 20))
        assert process.stat().faults - before >= (8 << 20) // (2 << 20)


def test_the_watermark_can_be_reset() -> None:
    process = Procfs().process(os.getpid())
    with mmap.mmap(-1, 64 << 20) as bulk:  # not malloc's: given back whatever this process has done before
        bulk.write(b"x" * (64 << 20))
        raised = process.status().hwm
    process.reset_watermark()
    assert raised - process.status().hwm > 60 * 1024


def test_the_sockets_of_a_process_are_those_it_has_open() -> None:
    before = Procfs().sockets(os.getpid())
    with socket.socket() as one, socket.socket(socket.AF_UNIX) as other:
        inodes = {os.fstat(each.fileno()).st_ino for each in (one, other)}
        assert Procfs().sockets(os.getpid()) - before == inodes
    assert Procfs().sockets(os.getpid()) == before


def test_other_descriptors_are_no_sockets(tmp_path: Path) -> None:
    folder = tmp_path / "12/fd"
    folder.mkdir(parents=True)
    for number, target in enumerate(["socket:[4711]", "pipe:[1]", "/run/socket:[2]", "anon_inode:[eventpoll]"]):
        (folder / str(number)).symlink_to(target)
    (folder / "9").write_text("no link at all")  # closed meanwhile
    assert Procfs(str(tmp_path)).sockets(12) == {4711}


def test_connections_have_both_ports_and_an_inode(tmp_path: Path) -> None:
    proc = Procfs(str(unpack("no-variables", tmp_path)))
    ours = [(9001, 0, 500), (40000, 9001, 501), (9001, 40000, 502)]
    assert proc.connections() == [*ours, (40002, 443, 503), (40001, 9001, 504)]
    assert Procfs(str(tmp_path / "nothing")).connections() == []


def test_every_connection_of_this_machine_is_seen_however_many_pages_they_take() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=200) as server:
        port = server.getsockname()[1]
        clients = [socket.create_connection(server.getsockname()) for _ in range(100)]
        expected = {(client.getsockname()[1], port, os.fstat(client.fileno()).st_ino) for client in clients}
        rows = set(Procfs().connections())
        for client in clients:
            client.close()
    assert expected <= rows
    assert (port, 0, 0) not in rows


@given(st.integers(0, 2**40), st.integers(0, 2**40), st.text("x() \n", max_size=15))
def test_any_name_leaves_the_numbers_alone(faults: int, rss: int, name: str) -> None:
    fields = ["S", "1", "0", "0", "0", "0", "0", str(faults), "0", "0", "0"] + ["0"] * 10 + [str(rss), "0"]
    stat = parse_stat(f"12 ({name}) {' '.join(fields)}\n".encode())
    assert (stat.faults, stat.rss) == (faults, rss * 4)
