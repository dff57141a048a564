"""What the function held before its processes ended, one after the other: real processes, a clock of our own."""

from __future__ import annotations

import itertools
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
from truemem.linux.process_table import FUNCTION, Process
from truemem.linux.procfs import Procfs
from truemem.measure.memory_curve import DYING_NS
from truemem.measure.recorder import Recorder
from truemem.measure.segment_recorder import SegmentRecorder
from truemem.measure.window import Window, current

from tests.unit.stand_ins import FunctionTable

PROC = Procfs()
"""One for all tests: it keeps a descriptor."""

STEP_NS = 10_000_000


class Function(FunctionTable):
    """Processes that hold some MiB each, and wait."""

    def __init__(self) -> None:
        super().__init__()
        self._children: dict[int, subprocess.Popen[bytes]] = {}

    def grow(self) -> int:
        """By a process; its pid."""
        child = subprocess.Popen(
            [sys.executable, "-ISc", "print(flush=True); input()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert child.stdout is not None
        child.stdout.readline()
        self._children[child.pid] = child
        self.processes.append(Process(child.pid, 1, 1, FUNCTION, Procfs().process(child.pid)))
        return child.pid

    def end(self, pid: int) -> None:
        self._children.pop(pid).communicate(b"\n")

    def end_all(self) -> None:
        for pid in list(self._children):
            self.end(pid)

    def forget(self, process: Process, zombie: bool = False) -> bool:
        process.files.close()
        return super().forget(process)


@pytest.fixture
def function() -> Iterator[Function]:
    made = Function()
    yield made
    made.end_all()


@pytest.fixture
def cutter(function: Any) -> SegmentRecorder:
    """Of that function. Each look at the clock takes STEP_NS."""
    clock = itertools.count(time.time_ns(), STEP_NS)
    return SegmentRecorder(function, Recorder(function, PROC), lambda: next(clock))


def window(cutter: SegmentRecorder) -> Window:
    made = cutter.end_segment().window
    assert made is not None
    return made


def test_where_workers_die_one_by_one_the_last_picture_is_of_all(function: Function, cutter: SegmentRecorder) -> None:
    workers = [function.grow() for _ in range(2)]
    both = window(cutter)
    function.end(workers[0])
    for _ in range(2):
        assert (len(window(cutter).closing), cutter.whole) == (1, both)
    function.end(workers[1])
    none = window(cutter)
    assert (none.closing, cutter.whole, current(none)) == ([], both, current(both))
    assert cutter.holder is not None
    assert cutter.holder[1] in workers


def test_a_worker_that_lives_on_is_the_picture_again(function: Function, cutter: SegmentRecorder) -> None:
    worker, _ = function.grow(), function.grow()
    both = cutter.end_segment().window
    function.end(worker)
    ended = cutter.end_segment()
    assert cutter.whole is both
    while (made := cutter.end_segment()).end_ns - ended.end_ns < DYING_NS:
        pass
    assert cutter.whole is made.window


def test_where_processes_end_all_the_time_the_picture_is_not_old(function: Function, cutter: SegmentRecorder) -> None:
    function.grow()
    for _ in range(DYING_NS // STEP_NS):
        worker = function.grow()
        cutter.end_segment()
        function.end(worker)
        assert cutter.end_segment().end_ns - cutter.whole_ns < DYING_NS
