"""What malloc's lists in another process say is what mallinfo2 says there; and whatever they say, nothing breaks."""

from __future__ import annotations

import posix
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from truemem import arenas

SAYS = """
import ctypes, sys, threading
class Said(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in
        "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()]
libc = ctypes.CDLL(None)
libc.mallinfo2.restype = Said
kept = [bytes(600 + number % 3000) for number in range({objects})]
large = [bytes(1_000_000) for _ in range(9)]
{after}
said = libc.mallinfo2()
print(said.uordblks, said.fordblks, said.hblkhd, flush=True)
sys.stdin.readline()
"""
FREE = "kept = kept[::3]"
OF_THREADS = """
come = threading.Event()
def run():
    kept.append(bytes(700))
    come.wait()
threads = [threading.Thread(target=run, daemon=True) for _ in range({threads})]
threading.stack_size(65536)
[thread.start() for thread in threads]
"""


@contextmanager
def says(after: str = FREE, objects: int = 20_000, **variables: str) -> Iterator[tuple[int, list[int]]]:
    """A process that sleeps: its pid, and what it says itself of what is in use, held, and mapped."""
    command = [sys.executable, "-c", SAYS.format(objects=objects, after=after)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=variables) as process:
        assert process.stdout is not None
        said = [int(each) for each in process.stdout.readline().split()]
        until = time.monotonic() + 10
        while psutil.Process(process.pid).status() != psutil.STATUS_SLEEPING:
            assert time.monotonic() < until
            time.sleep(0.01)
        try:
            yield process.pid, said
        finally:
            process.kill()


def test_malloc_has_given_out_and_holds_what_mallinfo_says() -> None:
    """Chunks of all sizes, freed ones between them, and blocks with a mapping of their own."""
    with says() as (pid, said):
        found = arenas.read(pid)
    assert found[:3] == pytest.approx(said, abs=64 * 1024)
    assert found.main == found.in_use  # there is no thread
    assert found.main_held == found.held


def test_each_threads_arena_counts_up_to_a_limit() -> None:
    with says(OF_THREADS.format(threads=60), 10, MALLOC_ARENA_MAX="1000") as (pid, said):
        found = arenas.read(pid)
    assert found[:3] == pytest.approx(said, abs=64 * 1024)
    assert 0 < found.main < found.in_use
    assert 0 < found.main_held < found.held
    many = OF_THREADS.format(threads=arenas.MOST_ARENAS + 20)
    with says(many, 10, MALLOC_ARENA_MAX="1000") as (pid, _), pytest.raises(ValueError):
        arenas.read(pid)


def test_beyond_so_many_free_chunks_there_is_no_figure() -> None:
    with says() as (pid, _), pytest.raises(ValueError, match="too many"):
        arenas.read(pid, 1000)


def test_a_process_that_runs_or_ends_meanwhile_breaks_nothing() -> None:
    runs = "while True: kept = [bytes(600 + number % 3000) for number in range(2_000)]"
    with subprocess.Popen([sys.executable, "-c", runs]) as process:
        for number in range(400):
            if number == 300:
                process.kill()
            with suppress(OSError, ValueError):
                assert min(arenas.read(process.pid, 2_000)) >= 0
    with pytest.raises(OSError):
        arenas.read(process.pid)


@pytest.fixture(scope="module")
def memory() -> Iterator[tuple[str, dict[int, bytes]]]:
    """`maps` of a process, and its heap and libc's mapping by their addresses."""
    with says(objects=300) as (pid, _):
        maps = Path(f"/proc/{pid}/maps").read_text()
        found = {}
        with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as file:
            for line in maps.splitlines():
                if "/libc" in line or "[heap]" in line:
                    begin, end = (int(each, 16) for each in line.split()[0].split("-"))
                    file.seek(begin)
                    found[begin] = file.read(end - begin)
        yield maps, found


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_lists_that_the_program_has_overwritten_break_nothing(
    memory: tuple[str, dict[int, bytes]], data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    maps, segments = memory[0], dict(memory[1])
    places = st.tuples(st.sampled_from(sorted(segments)), st.integers(0, 1023))
    pointers = st.sampled_from([begin + 8 * at for begin in segments for at in (0, 2, 90, 500)])
    words = st.one_of(st.integers(0, 2**64 - 1), pointers, st.integers(0, 4096))
    for (begin, at), word in data.draw(st.lists(st.tuples(places, words), max_size=20)):
        text = segments[begin]
        segments[begin] = text[: 8 * at] + word.to_bytes(8, "little") + text[8 * at + 8 :]

    def pread(_: int, count: int, address: int) -> bytes:
        for begin, text in segments.items():
            if begin <= address < begin + len(text):
                return text[address - begin :][:count]
        raise OSError(5, "Input/output error")

    root = tmp_path_factory.mktemp("proc")
    (root / "1").mkdir()
    (root / "1" / "maps").write_text(maps)
    (root / "1" / "mem").touch()
    with pytest.MonkeyPatch.context() as patch, suppress(OSError, ValueError):
        patch.setattr(posix, "pread", pread)
        assert min(arenas.read(1, root=str(root))) >= 0


@pytest.mark.parametrize(
    ("maps", "mem"),
    [
        ("00400000-00452000 rw-p 00000000 08:02 173521 /usr/bin/static\n", b""),
        ("00000000-00001000 rw-p 00000000 08:02 173521 /lib/ld-musl-x86_64.so.1\n", bytes(4096)),
        ("00000000-00001000 rw-p 00000000 08:02 173521 /lib/libc.so.6\n", bytes(range(256)) * 16),
        ("nonsense /libc.so.6\n", b""),
    ],
)
def test_what_is_not_glibc_is_told_apart(tmp_path: Path, maps: str, mem: bytes) -> None:
    folder = tmp_path / "1"
    folder.mkdir()
    (folder / "maps").write_text(maps)
    (folder / "mem").write_bytes(mem)
    with pytest.raises(ValueError):
        arenas.read(1, root=str(tmp_path))
