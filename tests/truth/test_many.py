"""Many processes must not hold the answer up: what is read while it waits is bounded, whatever their number."""

from __future__ import annotations

from typing import Any

import pytest
from truemem.linux.process_table import FUNCTION, Process
from truemem.linux.procfs import Gone, Procfs
from truemem.measure.level_sampler import TICK_NS
from truemem.measure.recorder import Recorder
from truemem.measure.window import NEVER_NS, SAMPLED, peak

from tests.unit.stand_ins import FunctionTable, OneThread, files_text

PROC = Procfs()
"""One for all tests: it keeps a descriptor."""

US = 1_000
READING_NS = 4 * US
"""A read of one file: five of them, and a reset, are 20 us, as was measured."""
MOST_NS = 300 * US
"""May be added before the sidecar asks for the next event."""


class Files(OneThread):
    """A process that holds 1 MiB and has held 2. Each read takes time."""

    def __init__(self, scene: Scene, pid: int) -> None:
        super().__init__("/nowhere/")
        self.scene, self.pid = scene, pid

    def read(self, name: str) -> bytes:
        self.scene.now_ns += READING_NS
        self.scene.read.append(self.pid)
        if self.pid in self.scene.ended:
            raise Gone(f"{name} is empty")
        return files_text(name, rss=1024, hwm=2048)

    def reset_watermark(self) -> None:
        self.scene.now_ns += READING_NS


class Ending(Files):
    """One that ends between the two looks at its level."""

    def read(self, name: str) -> bytes:
        if name == "statm":
            raise Gone("statm is empty")
        return super().read(name)


class Scene(FunctionTable):
    """So many processes, and the time that reading them takes."""

    def __init__(self, count: int) -> None:
        self.now_ns = 1_000_000_000
        self.read: list[int] = []
        """Pids, in the order of the readings."""
        self.ended: set[int] = set()
        """Pids of those that have ended, and were not waited for."""
        super().__init__(*(Process(pid, 1, 1, FUNCTION, Files(self, pid)) for pid in range(1, count + 1)))
        table: Any = self
        self.recorder = Recorder(table, PROC, clock=lambda: self.now_ns)


COUNTS = pytest.mark.parametrize("count", [1, 8, 64, 200, 1000, 2000])


@COUNTS
@pytest.mark.parametrize("at_rest", [False, True])
def test_the_answer_waits_for_few_processes(count: int, at_rest: bool) -> None:
    scene = Scene(count)
    began = scene.now_ns
    cut = scene.recorder.read_and_reset(at_rest)
    assert scene.now_ns - began <= MOST_NS
    assert scene.read[0] == 1  # the runtime is the first
    scene.recorder.read_rest(cut, NEVER_NS)
    assert {reading.process.pid for reading in cut.readings} == set(range(1, count + 1))


@COUNTS
def test_one_tick_delays_the_runtimes_bytes_only_so_long(count: int) -> None:
    scene = Scene(count)
    for _ in range(3):
        began = scene.now_ns
        scene.recorder.levels.sample(late=True)
        scene.recorder.levels.watch()
        # each may overrun by one process; then the levels that were read are read once more
        assert scene.now_ns - began <= 3 * TICK_NS


def test_many_that_have_just_ended_hold_it_up_no_longer() -> None:
    scene = Scene(1000)
    scene.ended = {process.pid for process in scene.processes[1:]}
    began = scene.now_ns
    cut = scene.recorder.read_and_reset()
    assert scene.now_ns - began <= MOST_NS
    assert cut.ended
    assert cut.left


def test_a_process_that_ends_during_reading_has_no_second_level() -> None:
    scene = Scene(2)
    scene.processes[1].files = Ending(scene, 2)
    assert [reading.again for reading in scene.recorder.read_and_reset().readings] == [1024, 0]


def test_ticks_take_turns_so_that_every_process_is_looked_at() -> None:
    scene = Scene(200)
    for _ in range(40):
        scene.recorder.levels.sample(late=True)
    assert set(scene.read) == set(range(1, 201))


def test_processes_beyond_the_cpu_budget_leave_no_upper_bound() -> None:
    scene = Scene(1000)
    scene.recorder.close(scene.recorder.read_and_reset(most=1000), NEVER_NS)
    cut = scene.recorder.read_and_reset()
    scene.recorder.read_rest(cut, 1_000 * US)
    assert 900 < len(cut.left) < 1000
    window = scene.recorder.close(cut, NEVER_NS)
    found = peak(window)
    assert found is not None
    assert (found.method, found.upper) == (SAMPLED, 0)
    assert found.lower <= 1000 * 2048


def test_two_windows_at_once_read_the_others_once() -> None:
    scene = Scene(64)
    scene.recorder.close(scene.recorder.read_and_reset(most=64), NEVER_NS)
    closing, opening = scene.recorder.read_and_reset(at_rest=True), scene.recorder.read_and_reset(at_rest=True)
    scene.read.clear()
    scene.recorder.read_rest(opening, NEVER_NS)
    closing.read_later(opening)
    assert max(scene.read.count(pid) for pid in scene.read) == 3  # stat, status, stat
    assert not closing.left
    for cut in closing, opening:
        assert sorted(reading.process.pid for reading in cut.readings) == list(range(1, 65))
        found = peak(scene.recorder.close(cut, NEVER_NS))
        assert found is not None
        assert found.lower <= 64 * 2048 <= found.upper


def test_a_process_ended_before_its_late_reading_ends_in_both() -> None:
    scene = Scene(20)
    closing, opening = scene.recorder.read_and_reset(), scene.recorder.read_and_reset()
    scene.ended = {20}
    scene.recorder.read_rest(opening, NEVER_NS)
    closing.read_later(opening)
    assert ([process.pid for process, _ in closing.ended], closing.left) == ([20], [])
