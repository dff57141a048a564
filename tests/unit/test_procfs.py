"""The readers of /proc, on captured trees, on this machine's own, and on anything at all."""

import mmap
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st
from truemem.linux.kernel import fault_sizes, reset_problem
from truemem.linux.procfs import (
    FAULT_KIB,
    HUGE_FAULT_KIB,
    PAGE_KIB,
    UNREADABLE,
    FaultSizes,
    Gone,
    Procfs,
    is_dying,
    parse_last_pid,
    parse_meminfo,
    parse_stat,
    parse_state,
)
from truemem.linux.sockets import connections, sockets

from tests.golden import unpack
from tests.unit.stand_ins import files_text


def test_the_files_of_a_runtime(tmp_path: Path) -> None:
    """stat is parsed from the last parenthesis."""
    proc = Procfs(str(unpack("lambda", tmp_path)))
    status, stat = proc.process(12).status(), proc.process(12).stat()
    assert (status.hwm, status.rss, status.anon, status.file, status.shmem) == (120320, 80172, 59692, 20480, 0)
    assert status.threads == stat.threads == 3
    assert (stat.state, stat.parent, stat.start_time) == (b"S", 1, 50)
    assert (stat.faults, stat.child_faults, stat.rss) == (78734, 204, 20043 * 4)
    assert proc.process(12, keep=False).status().rss == status.rss
    assert proc.process(12).others_ns() is None  # a captured /proc has no clocks
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
        sockets(str(tmp_path), 12)
    assert gone.value.errno == 0


def test_our_figures_agree_with_psutil() -> None:
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
    before = sockets("/proc", os.getpid())
    with socket.socket() as one, socket.socket(socket.AF_UNIX) as other:
        inodes = {os.fstat(each.fileno()).st_ino for each in (one, other)}
        assert sockets("/proc", os.getpid()) - before == inodes
    assert sockets("/proc", os.getpid()) == before


def test_other_descriptors_are_no_sockets(tmp_path: Path) -> None:
    folder = tmp_path / "12/fd"
    folder.mkdir(parents=True)
    for number, target in enumerate(["socket:[4711]", "pipe:[1]", "/run/socket:[2]", "anon_inode:[eventpoll]"]):
        (folder / str(number)).symlink_to(target)
    (folder / "9").write_text("no link at all")  # closed meanwhile
    assert sockets(str(tmp_path), 12) == {4711}


def test_connections_have_both_ports_and_an_inode(tmp_path: Path) -> None:
    root = str(unpack("no-variables", tmp_path))
    ours = [(9001, 0, 500), (40000, 9001, 501), (9001, 40000, 502)]
    assert connections(root) == [*ours, (40002, 443, 503), (40001, 9001, 504)]
    assert connections(str(tmp_path / "nothing")) == []


def test_all_connections_are_seen_over_many_pages() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=200) as server:
        port = server.getsockname()[1]
        clients = [socket.create_connection(server.getsockname()) for _ in range(100)]
        expected = {(client.getsockname()[1], port, os.fstat(client.fileno()).st_ino) for client in clients}
        rows = set(connections("/proc"))
        for client in clients:
            client.close()
    assert expected <= rows
    assert (port, 0, 0) not in rows


@given(st.integers(0, 2**40), st.integers(0, 2**40), st.text("x() \n", max_size=15))
def test_any_name_leaves_the_numbers_alone(faults: int, rss: int, name: str) -> None:
    fields = ["S", "1", "0", "0", "0", "0", "0", str(faults), "0", "0", "0"] + ["0"] * 10 + [str(rss), "0"]
    stat = parse_stat(f"12 ({name}) {' '.join(fields)}\n".encode())
    assert (stat.faults, stat.rss) == (faults, rss * 4)


THREADS = """
import sys, threading
for word in sys.stdin:
    if word == "thread\\n":
        thread = threading.Thread(target=int)
        thread.start()
        thread.join()
    print(sum(range(100_000)), flush=True)
"""


def test_the_time_of_other_threads_shows_that_they_ran() -> None:
    """Also of one that has ended since."""
    command = [sys.executable, "-c", THREADS]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        files = Procfs().process(child.pid)

        def after(word: str) -> int:
            assert child.stdin is not None
            assert child.stdout is not None
            child.stdin.write(f"{word}\n")
            child.stdout.readline()
            until = time.monotonic() + 60
            tasks = Path(f"/proc/{child.pid}/task")  # a thread that was joined may still use time while it ends
            while len([*tasks.iterdir()]) > 1 or files.stat().state != b"S" or (said := files.others_ns()) is None:
                assert time.monotonic() < until
            return said

        alone = after("alone")
        assert after("alone") == alone
        with_thread = after("thread")
        assert with_thread > alone
        assert after("alone") == with_thread
        child.stdin.close()
    assert files.others_ns() is None


@pytest.mark.parametrize(
    ("text", "dying"),
    [
        ("\nVmRSS:\t 9 kB\nSigPnd:\t0000000000000000\nShdPnd:\t0000000000000000\n", False),
        ("\nVmRSS:\t 9 kB\nSigPnd:\t0000000000000000\nShdPnd:\t0000000000004000\n", False),  # SIGTERM
        ("\nVmRSS:\t 9 kB\nSigPnd:\t0000000000000100\nShdPnd:\t0000000000000000\n", True),
        ("\nVmRSS:\t 9 kB\nSigPnd:\t0000000000000000\nShdPnd:\t0000000000004100\n", True),
        ("\nState:\tZ (zombie)\nSigPnd:\t0000000000000000\nShdPnd:\t0000000000000000\n", True),
        ("\nVmRSS:\t 9 kB\nSigPnd:\txyz\nShdPnd:\n", False),
    ],
)
def test_a_sigkill_on_its_way_and_a_zombie_are_dying(text: str, dying: bool) -> None:
    assert is_dying(text.encode()) is dying


def test_a_process_that_is_killed_is_dying_until_it_is_gone() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        files = Procfs().process(child.pid)
        assert not files.is_dying()
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert files.is_dying()
    assert files.is_dying()


@pytest.mark.parametrize("kill", [False, True])
def test_an_ended_process_shows_its_faults_until_it_is_gone(kill: bool) -> None:
    child = subprocess.Popen([sys.executable, "-c", "b = bytearray(50_000_000); print(1, flush=True); input()"],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # fmt: skip
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdout.readline()
    files = Procfs().process(child.pid)
    files.status()
    assert files.final_faults() == UNREADABLE  # it lives
    before = files.stat().faults
    assert before > 50_000_000 // mmap.PAGESIZE
    if kill:
        child.send_signal(signal.SIGKILL)
    child.stdin.close()
    until = time.monotonic() + 60
    while (final := files.final_faults()) == UNREADABLE:
        assert time.monotonic() < until
    with pytest.raises(Gone):
        files.status()
    assert final is not None
    assert final >= before
    child.wait()
    assert files.final_faults() is None
    child.stdout.close()


def test_the_load_says_the_last_pid() -> None:
    assert parse_last_pid(b"0.52 0.43 0.30 3/345 6789\n") == 6789
    assert parse_last_pid(b"") == -1
    assert Procfs().last_pid() > 0


def test_a_state_is_the_letter_after_the_name() -> None:
    assert parse_state(b"12 (a) R b) S 1 12") == b"S"
    assert parse_state(b"12 (a") == b""


@pytest.mark.parametrize("before", [0, 500, 900])
def test_huge_pages_are_made_at_faults_and_out_of_small_ones(tmp_path: Path, before: int) -> None:
    """Whichever page of the file has them."""
    (tmp_path / "vmstat").write_text("nr_free 5\n" * before + "nr_zone 5\nthp_fault_alloc 7\nthp_fault_fallback 9\n")
    proc = Procfs(str(tmp_path))
    assert proc.huge_pages() is None
    with (tmp_path / "vmstat").open("a") as file:
        file.write("thp_collapse_alloc 2\nthp_zero 1\n")
    assert [proc.huge_pages(), proc.huge_pages()] == [(7, 2)] * 2


@pytest.mark.parametrize(
    ("enabled", "sizes"),
    [
        ("[always] madvise never", FaultSizes(HUGE_FAULT_KIB, HUGE_FAULT_KIB, asked=False)),
        ("always [madvise] never", FaultSizes(PAGE_KIB, FAULT_KIB, asked=True)),
        ("always madvise [never]", FaultSizes(PAGE_KIB, FAULT_KIB, asked=False)),
        (None, FaultSizes(PAGE_KIB, FAULT_KIB, asked=False)),  # a kernel without huge pages
    ],
)
def test_what_a_fault_can_bring_depends_on_huge_pages(tmp_path: Path, enabled: str | None, sizes: FaultSizes) -> None:
    if enabled is not None:
        (tmp_path / "transparent_hugepage").mkdir()
        (tmp_path / "transparent_hugepage" / "enabled").write_text(enabled + "\n")
    assert vars(fault_sizes(str(tmp_path))) == vars(sizes)


def test_the_reset_works_here_or_says_what_is_missing(tmp_path: Path) -> None:
    assert reset_problem(Procfs()) == ""
    folder = tmp_path / "self"
    folder.mkdir()
    assert reset_problem(Procfs(str(tmp_path))) == "clear_refs: No such file or directory"
    (folder / "clear_refs").write_text("")
    (folder / "status").write_bytes(files_text("status", rss=100, hwm=9000))
    assert reset_problem(Procfs(str(tmp_path))) == "clear_refs: accepted, but VmHWM stays"
