"""A program in Go keeps what is read of it from outside, and goes on as before."""

from __future__ import annotations

import os
import shutil
import signal
import struct
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest
from truemem_workbench.judge.causes import find
from truemem_workbench.judge.curves import Curves
from truemem_workbench.judge.finding import Commands, Finding
from truemem_workbench.judge.settled import Reading
from truemem_workbench.runs.settle import go
from truemem_workbench.target.go_program import is_go_file

GO = shutil.which("go")
needs_go = pytest.mark.skipif(GO is None, reason="there is no go")

KEEPS = """
package main

import (
    "fmt"
    "runtime"
    "sync"
)

type closed struct{ body []byte }

type large struct {
    body  [12_000]byte
    holds *holder
}

type holder struct{ of *large }

var kept = make([][]byte, 0, 100_000)
var pool = sync.Pool{New: func() any { return make([]byte, 100_000) }}
var sink []byte

func main() {
    for {
        var objects, goroutines, finalized int
        if _, err := fmt.Scan(&objects, &goroutines, &finalized); err != nil {
            return
        }
        for at := 0; at < finalized; at++ {
            one := &large{}
            one.holds = &holder{one}
            runtime.SetFinalizer(one, func(*large) {})
        }
        for at := 0; at < objects; at++ {
            kept = append(kept, make([]byte, 16_384))
            sink = make([]byte, 50_000)
            runtime.SetFinalizer(&closed{make([]byte, 20_000)}, func(*closed) {})
            pool.Put(pool.Get())
        }
        sink = nil
        for at := 0; at < goroutines; at++ {
            go func() { select {} }()
        }
        fmt.Println()
    }
}
"""
MIB = 1024.0
TWO_MINUTES_NS = 120_000_000_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("keeps")
    (made / "keeps.go").write_text(KEEPS)
    return made


def built(folder: Path, *flags: str) -> Path:
    """The program, built with these flags."""
    program = folder / f"keeps{'_'.join(flags)}"
    if not program.exists():
        variables = {**os.environ, "CGO_ENABLED": "0", "GO111MODULE": "off", "GOTOOLCHAIN": "local"}
        subprocess.run([str(GO), "build", *flags, "-o", program, "keeps.go"], cwd=folder, env=variables, check=True)
    return program


class Running(NamedTuple):
    process: subprocess.Popen[str]

    def keep(self, objects: int, goroutines: int = 0, finalized: int = 0) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(f"{objects} {goroutines} {finalized}\n")
        self.process.stdin.flush()
        self.process.stdout.readline()

    def settled(self, objects: int, goroutines: int = 0, finalized: int = 0) -> go.Live:
        """What is live after it has been told to keep this."""
        program = go.Process(self.process.pid)
        program.hurry()
        self.keep(objects, goroutines, finalized)
        program.collect()
        return program.live()

    def period_ns(self) -> int:
        with open(f"/proc/{self.process.pid}/mem", "rb") as memory:  # noqa: PTH123
            (period,) = struct.unpack("<q", os.pread(memory.fileno(), 8, go.Process(self.process.pid).places.period))
            return int(period)


@contextmanager
def running(program: Path, **variables: str) -> Iterator[Running]:
    with subprocess.Popen(
        [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, **variables}
    ) as process:
        made = Running(process)
        try:
            made.keep(0)
            yield made
        finally:
            process.kill()


@needs_go
@pytest.mark.parametrize("flags", [(), ("-buildmode=pie",)])
def test_go_keeps_what_the_program_keeps(folder: Path, flags: tuple[str, ...]) -> None:
    """16 KiB for each array, whatever is garbage, in a pool or to be finalized; the array of the goroutines grows."""
    with running(built(folder, *flags)) as program:
        lives = [program.settled(*each) for each in ((10, 0), (100, 0), (0, 0), (0, 200), (50, 0))]
        assert program.period_ns() == TWO_MINUTES_NS
    objects = [after.objects_kib - before.objects_kib for before, after in pairwise(lives)]
    assert objects[0] == pytest.approx(1600, abs=20)
    assert objects[1] == pytest.approx(0, abs=20)
    assert 0 <= objects[2] < 200
    assert objects[3] == pytest.approx(800, abs=20)
    stacks = [after.stacks_kib - before.stacks_kib for before, after in pairwise(lives)]
    assert stacks == pytest.approx([0, 0, 400, 0], abs=20)
    assert [after.goroutines - before.goroutines for before, after in pairwise(lives)] == [0, 0, 200, 0]
    assert not lives[-1].has_c
    assert lives[-1].goal_kib >= 4 * MIB


@needs_go
def test_what_has_a_finalizer_counts_once(folder: Path) -> None:
    """12,288 bytes for each, which is kept by what it holds: Go's own figure has it twice."""
    with running(built(folder)) as program:
        before, after = program.settled(0), program.settled(0, finalized=100)
    assert after.objects_kib - before.objects_kib == pytest.approx(1200, abs=40)


@needs_go
@pytest.mark.parametrize(("variables", "mib"), [({"GOMEMLIMIT": "30MiB"}, 30), ({"GOGC": "200"}, 82)])
def test_gos_heap_is_collected_where_it_is_told_to(folder: Path, variables: dict[str, str], mib: float) -> None:
    with running(built(folder), **variables) as program:
        assert program.settled(1600).goal_kib / MIB == pytest.approx(mib, rel=0.05)


@needs_go
def test_go_has_its_own_period_where_nothing_was_collected(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running(built(folder)) as program:
        program.keep(10)
        outside = go.Process(program.process.pid)
        outside.hurry()
        assert program.period_ns() < TWO_MINUTES_NS
        program.process.send_signal(signal.SIGSTOP)
        with monkeypatch.context() as patched, pytest.raises(TimeoutError):
            patched.setattr(go, "ANSWERS_S", 0.05)
            outside.collect()
        assert program.period_ns() == TWO_MINUTES_NS
        with pytest.raises(ValueError, match="not as expected"):  # it was not asked to hurry
            outside.collect()
        program.process.send_signal(signal.SIGCONT)
        assert program.settled(10).objects_kib > 300


@needs_go
def test_a_program_in_go_that_must_not_collect_is_left_alone(folder: Path) -> None:
    with running(built(folder), GOGC="off") as program:
        with pytest.raises(ValueError, match="GOGC=off"):
            go.Process(program.process.pid).hurry()
        assert program.period_ns() == TWO_MINUTES_NS


@needs_go
def test_a_value_that_is_not_gos_own_is_not_replaced(folder: Path) -> None:
    with running(built(folder)) as program:
        outside = go.Process(program.process.pid)
        with open(f"/proc/{program.process.pid}/mem", "r+b") as memory:  # noqa: PTH123
            os.pwrite(memory.fileno(), struct.pack("<q", 7 * TWO_MINUTES_NS), outside.places.period)
        for ask in (outside.hurry, outside.collect):
            with pytest.raises(ValueError, match="not as expected"):
                ask()
        assert program.period_ns() == 7 * TWO_MINUTES_NS


@needs_go
def test_go_without_debug_information_is_not_settled(folder: Path) -> None:
    with running(built(folder, "-ldflags=-w")) as program, pytest.raises(ValueError, match="no debug information"):
        go.Process(program.process.pid)
    with pytest.raises(OSError, match="No such"):
        go.Process(program.process.pid)


@needs_go
@pytest.mark.parametrize("part", [0.3, 0.5, 0.7])
def test_a_damaged_program_in_go_is_not_settled(folder: Path, part: float) -> None:
    text = built(folder).read_bytes()
    damaged = folder / f"damaged{part}"
    at = int(part * len(text))
    damaged.write_bytes(text[:at] + os.urandom(len(text) - at))
    assert go._places(damaged, 1) is None


def test_what_is_no_program_in_go_is_not_settled() -> None:
    with pytest.raises(ValueError, match="no debug information"):
        go.Process(os.getpid())


def test_a_program_in_go_is_known_by_what_its_linker_writes(tmp_path: Path) -> None:
    program = tmp_path / "bootstrap"
    program.write_bytes(b"\x7fELF" + b"\0" * 5000 + b"\xff Go buildinf:" + b"\0" * 100)
    assert is_go_file(program, 1)
    assert not is_go_file(Path(sys.executable), 2)
    assert go._places(program, 1) is None  # it is none after all


def told(live_mib: Iterable[float], goal_mib: float, garbage_kib: float, killed: tuple[int, ...] = ()) -> Finding:
    """The finding on a function in Go of 256 MB whose live heap had these sizes, after passes of 25 invocations."""
    readings = [
        Reading(
            25 * at,
            {
                "heap": MIB * size, "inUse": MIB * size, "malloc": 0.0, "goal": MIB * goal_mib, "files": 5 * MIB,
                "garbage": 25.0 * at * garbage_kib, "go": 1.0, "ownHeap": 1.0,
            },
        )
        for at, size in enumerate(live_mib, 1)
    ]  # fmt: skip
    curves = Curves(invocations=200, settled=readings, every_life=readings, limit_mib=256, out_of_memory=killed)
    return find(curves, Commands(again="again"))


def test_a_heap_in_go_that_memory_has_no_room_for_is_told() -> None:
    found = told([120] * 8, goal_mib=250, garbage_kib=500)
    assert (found.cause, found.grows, found.setting) == ("collector", True, {"GOMEMLIMIT": "205MiB"})
    assert found.invocations_left == pytest.approx(250, abs=20)
    assert told([120] * 2, goal_mib=250, garbage_kib=0, killed=(40,)).setting == {"GOMEMLIMIT": "205MiB"}


@pytest.mark.parametrize(
    ("live_mib", "goal_mib", "garbage_kib"),
    [
        ([120] * 8, 205, 500),  # it fits
        ([120] * 8, 250, 20),  # Go collects each two minutes
        ([230] * 8, 460, 500),  # a limit would have it collect all the time
        ([20 * at for at in range(1, 9)], 320, 500),  # a leak
    ],
)
def test_a_limit_for_gos_heap_is_told_where_it_helps(
    live_mib: list[float], goal_mib: float, garbage_kib: float
) -> None:
    assert not told(live_mib, goal_mib, garbage_kib).setting


MAPS = """
import ctypes
library = ctypes.CDLL(None)
library.mmap.restype = ctypes.c_void_p
library.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long)
print(flush=True)
input()
at = library.mmap({address}, 8 << 20, 3, 0x22, -1, 0)  # PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS
ctypes.memset(at, 1, 8 << 20)
print(flush=True)
input()
"""


@pytest.mark.parametrize(("address", "mib"), [(0, 8), (go.HEAP_BEGINS[0], 0), (go.HEAP_BEGINS[1], 0)])
def test_what_is_mapped_beside_gos_heap_is_seen(address: int, mib: int) -> None:
    """The kernel gives the address that is asked for, as it gives it to Go's runtime."""
    command = [sys.executable, "-c", MAPS.format(address=address)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdout.readline()
        before = go.beside_heap_kib(process.pid)
        process.stdin.write("\n")
        process.stdin.flush()
        process.stdout.readline()
        after = go.beside_heap_kib(process.pid)
        process.kill()
    assert after - before == pytest.approx(mib * MIB, abs=300)
