"""What threads hide from the kernel's watermark, simulated: one unmaps piece by piece while others touch memory."""

import gc
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from truemem.linux.process_table import FUNCTION, Process
from truemem.linux.procfs import FALLEN_KIB, PAGE_KIB, FaultSizes, Gone, ProcessFiles, Procfs
from truemem.measure import open_window
from truemem.measure.recorder import Recorder
from truemem.measure.window import KERNEL_SLACK_KIB, NEVER_NS, VMHWM, VMHWM_THREADS, Peak, peak

from tests.unit.stand_ins import MIB, PROC, FunctionTable, files_text

LIMIT_KIB = 4000 * MIB


class Machine:
    """One process, whose watermark is kept as the kernel keeps it: raised when an unmap begins, and when it is read."""

    def __init__(self) -> None:
        self.now_ns = 1_000_000_000
        self.rss = self.kept = 50 * MIB
        self.faults = 1000
        self.others_ns: int | None = 0
        self.running: dict[int, int] = {}
        """Time of threads that run, or wait for a CPU, which the kernel has not counted yet."""
        self.unmapping: dict[int, int] = {}
        """KiB that each thread still has to give back."""
        self.highest = self.rss

    @property
    def hwm(self) -> int:
        return max(self.kept, self.rss)

    def run(self, thread: int) -> None:
        self.now_ns += 1000
        if thread:
            self.running[thread] = self.running.get(thread, 0) + 700

    def count(self) -> None:
        """A tick of the kernel's."""
        if self.others_ns is not None:
            self.others_ns += sum(self.running.values())
        self.running = dict.fromkeys(self.running, 0)

    def sleep(self, thread: int) -> None:
        """Unless it unmaps."""
        if thread in self.running and thread not in self.unmapping:
            self.count()
            del self.running[thread]

    def touch(self, thread: int, kib: int, per_fault: int = PAGE_KIB) -> None:
        if thread not in self.unmapping:
            self.run(thread)
            self.rss += kib
            self.faults += -(-kib // per_fault)
            self.highest = max(self.highest, self.rss)

    def unmap(self, thread: int, kib: int) -> None:
        """Begin to."""
        if thread not in self.unmapping:
            self.run(thread)
            self.kept = self.hwm
            self.unmapping[thread] = min(kib, self.rss - 10 * MIB - sum(self.unmapping.values()))

    def go_on(self, thread: int, kib: int) -> None:
        """With an unmap that has begun."""
        if thread in self.unmapping:
            self.run(thread)
            done = min(kib, self.unmapping[thread])
            self.rss -= done
            self.unmapping[thread] -= done
            if not self.unmapping[thread]:
                del self.unmapping[thread]

    def touch_and_give_back(self, toucher: int, unmapper: int, touched: int, given_back: int) -> None:
        """One after the other."""
        self.touch(toucher, touched)
        self.unmap(unmapper, given_back)
        self.go_on(unmapper, given_back)


class Files(ProcessFiles):
    def __init__(self, machine: Machine) -> None:
        super().__init__("/nowhere/")
        self.machine = machine

    def read(self, name: str) -> bytes:
        return files_text(name, self.machine.rss, self.machine.hwm, self.machine.faults, threads=4)

    def others_rest(self, others_ns: int) -> bool:
        return not self.machine.running and others_ns == self.machine.others_ns

    def cpu_times(self) -> tuple[int | None, int | None]:
        return self.machine.others_ns, self.machine.others_ns

    def reset_watermark(self) -> None:
        self.machine.kept = self.machine.rss


class Scene:
    """A window that is open, of that process."""

    def __init__(self) -> None:
        self.machine = Machine()
        table: Any = FunctionTable(Process(12, 1, 1, FUNCTION, Files(self.machine)))
        self.recorder = Recorder(table, PROC, LIMIT_KIB, clock=lambda: self.machine.now_ns)
        self.close()

    def close(self) -> Peak:
        """The end of the invocation, in exact mode; the next one begins when all threads sleep that can."""
        for thread in range(4):
            self.machine.sleep(thread)
        return self.close_at_once()

    def close_at_once(self) -> Peak:
        found = peak(self.recorder.close(self.recorder.read_and_reset(at_rest=True), NEVER_NS))
        assert found is not None
        return found


@pytest.fixture(autouse=True)
def no_huge_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_window, "fault_sizes", lambda: FaultSizes(PAGE_KIB, 64, asked=False))


def crossing(machine: Machine, toucher: int, unmapper: int) -> None:
    """40 MiB are given back, and meanwhile others are touched: at most 70 MiB more than at the start, and the watermark
    has 50."""
    machine.touch(toucher, 50 * MIB)
    machine.unmap(unmapper, 40 * MIB)
    machine.touch(toucher, 20 * MIB)
    machine.go_on(unmapper, 40 * MIB)


@pytest.mark.parametrize("threads", [(0, 1), (1, 0), (1, 2)], ids=["another unmaps", "another touches", "two others"])
def test_what_threads_may_hide_is_an_interval(threads: tuple[int, int]) -> None:
    scene = Scene()
    crossing(scene.machine, *threads)
    found = scene.close()
    assert (found.method, found.raced) == (VMHWM_THREADS, False)
    assert found.estimate == found.lower == 100 * MIB
    assert found.upper >= scene.machine.highest == 120 * MIB


def test_where_one_thread_alone_runs_the_watermark_is_exact() -> None:
    scene = Scene()
    for _ in range(5):
        scene.machine.touch_and_give_back(0, 0, 50 * MIB, 50 * MIB)
    assert vars(scene.close()) == vars(Peak(100 * MIB, 100 * MIB, 100 * MIB, VMHWM, raced=False))


def test_what_is_touched_and_kept_is_exact_with_threads() -> None:
    scene = Scene()
    for thread in range(4):
        scene.machine.touch(thread, 20 * MIB)
    found = scene.close()
    assert (found.method, found.estimate, found.upper) == (VMHWM, 130 * MIB, 130 * MIB)


def test_at_most_as_much_is_hidden_as_was_given_back() -> None:
    scene = Scene()
    for _ in range(3):
        scene.machine.touch_and_give_back(1, 0, 30 * MIB, 5 * MIB)
    found = scene.close()
    assert (found.method, found.lower, found.upper) == (VMHWM_THREADS, 130 * MIB, 140 * MIB)


def test_what_is_touched_once_and_given_back_is_exact() -> None:
    scene = Scene()
    scene.machine.touch_and_give_back(1, 0, 30 * MIB, 30 * MIB)
    assert vars(scene.close()) == vars(Peak(80 * MIB, 80 * MIB, 80 * MIB, VMHWM, raced=False))


def test_a_time_that_cannot_be_read_leaves_an_interval() -> None:
    scene = Scene()
    scene.machine.others_ns = None
    crossing(scene.machine, 0, 1)
    assert scene.close().method == VMHWM_THREADS


def test_a_tick_above_the_watermark_raises_the_lower_bound() -> None:
    scene = Scene()
    scene.machine.touch(0, 50 * MIB)
    scene.machine.unmap(1, 40 * MIB)
    scene.machine.touch(0, 20 * MIB)
    scene.recorder.levels.sample(late=False, reset=False)
    scene.machine.go_on(1, 40 * MIB)
    found = scene.close()
    assert (found.method, found.lower) == (VMHWM, 120 * MIB)  # it has seen all that page faults allow


def test_a_thread_that_has_ended_early_hides_nothing_later() -> None:
    """AWS's client for Python asks for each event from a thread that ends before the handler runs."""
    scene = Scene()
    scene.machine.touch(1, 1 * MIB)
    scene.machine.sleep(1)
    scene.recorder.add_looks(scene.recorder.reader.look())
    for _ in range(3):
        scene.machine.touch_and_give_back(0, 0, 50 * MIB, 50 * MIB)
    scene.recorder.add_looks(scene.recorder.reader.look())
    scene.machine.touch(1, 32)
    assert vars(scene.close()) == vars(Peak(101 * MIB, 101 * MIB, 101 * MIB, VMHWM, raced=False))


def test_a_thread_that_may_run_still_leaves_an_interval() -> None:
    scene = Scene()
    scene.machine.run(1)  # and its time is not counted yet
    scene.recorder.add_looks(scene.recorder.reader.look())
    for _ in range(3):
        scene.machine.touch_and_give_back(0, 0, 50 * MIB, 50 * MIB)
    assert scene.close_at_once().method == VMHWM_THREADS


def test_ticks_make_the_interval_narrow() -> None:
    widths = []
    for ticks in (False, True):
        scene = Scene()
        for _ in range(20):
            scene.machine.touch_and_give_back(1, 0, 10 * MIB, 10 * MIB)
            if ticks:
                scene.recorder.levels.sample(late=False, reset=False)
        found = scene.close()
        widths.append(found.upper - found.lower)
    assert widths == [190 * MIB, 0]


def test_files_are_within_the_bound_once_a_look_has_seen_any_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault brings 16 pages of them, and they may be mapped no more at the end."""
    scene = Scene()
    shared = [30 * MIB]
    monkeypatch.setattr(Files, "rss_and_shared", lambda self: (self.machine.rss, shared[0]))
    scene.machine.run(1)
    scene.recorder.levels.sample(late=False, reset=False)
    scene.machine.run(1)
    shared[0] = 0
    scene.recorder.levels.sample(late=False, reset=False)
    scene.machine.touch(1, 100 * MIB)
    scene.close()
    scene.machine.highest = scene.machine.rss
    scene.machine.unmap(1, 100 * MIB)
    scene.machine.touch(0, 60 * MIB, per_fault=64)
    scene.machine.go_on(1, 100 * MIB)
    scene.machine.unmap(0, 60 * MIB)
    scene.machine.go_on(0, 60 * MIB)
    assert scene.close().upper >= scene.machine.highest == 210 * MIB


def test_a_file_that_stays_mapped_is_exact_with_threads() -> None:
    scene = Scene()
    scene.machine.touch(1, 40 * MIB, per_fault=64)  # a file
    assert vars(scene.close()) == vars(Peak(90 * MIB, 90 * MIB, 90 * MIB, VMHWM, raced=False))


def test_huge_pages_count_where_others_have_run(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = [(100, 7)]
    monkeypatch.setattr(open_window, "fault_sizes", lambda: FaultSizes(PAGE_KIB, 64, asked=True))
    monkeypatch.setattr(Procfs, "huge_pages", lambda self: counted[0])
    scene = Scene()
    scene.machine.touch_and_give_back(1, 0, 8 * MIB, 8 * MIB)
    counted[0] = (110, 8)
    found = scene.close()
    assert (found.lower, found.upper) == (58 * MIB, (58 + 22) * MIB)
    scene.close()  # counted at its end for the first time
    scene.machine.run(1)
    counted[0] = (200, 8)  # of another process: nothing was touched here
    assert scene.close().method == VMHWM


class Child(ProcessFiles):
    """Of 10 MiB, with an address space of its own, until it is gone."""

    gone = False

    def read(self, name: str) -> bytes:
        if self.gone:
            raise Gone(name)
        return files_text(name, 10 * MIB, 10 * MIB, faults=2560)

    def cpu_times(self) -> tuple[int, int]:
        return 0, 0

    def final_faults(self) -> None:
        """Its parent has waited for it."""


def reachable(thing: object) -> int:
    """How many objects hang on it."""
    seen: dict[int, object] = {}
    waiting = [thing]
    while waiting:
        one = waiting.pop()
        if id(one) not in seen and not isinstance(one, type | ModuleType | FunctionType):
            seen[id(one)] = one
            waiting += gc.get_referents(one)
    return len(seen)


def test_an_invocation_of_half_an_hour_may_start_many_children() -> None:
    """A shell script's, each below a shell of its own: none is remembered. Nothing has waited for any: no bound."""
    scene = Scene()
    table: Any = scene.recorder._table
    table.processes = [*table.processes]
    held = []
    for pid in range(100, 1100):
        files = Child("/nowhere/"), Child("/nowhere/")
        parent = Process(5000 + pid, 1, 12, FUNCTION, files[0])
        table.processes += [parent, Process(10_000 + pid, 1, parent.pid, FUNCTION, files[1])]
        scene.machine.now_ns += 1_000_000
        scene.recorder.levels.sample(late=True, reset=False)
        files[0].gone = files[1].gone = True
        scene.recorder.levels.sample(late=True, reset=False)
        if pid in (200, 1099):
            held.append(reachable(scene.recorder.window))
    assert held[1] < held[0] + 100, held
    assert not scene.close().upper


Action = Callable[[Machine], None]
threads = st.integers(0, 3)
sizes = st.integers(1, 30 * MIB)
actions: st.SearchStrategy[tuple[str, int, int]] = st.tuples(
    st.sampled_from(["touch", "unmap", "go_on", "go_on", "sleep", "count", "tick", "look", "close"]), threads, sizes
)


@given(st.lists(actions, min_size=5, max_size=60), st.integers(0, 3))
def test_no_record_is_false_whatever_threads_do(plan: list[tuple[str, int, int]], most_threads: int) -> None:
    scene = Scene()
    machine = scene.machine
    for word, thread, kib in [*plan, ("close", 0, 0)]:
        if word == "tick":
            scene.recorder.levels.sample(late=False, reset=False)
        elif word == "look":
            scene.recorder.add_looks(scene.recorder.reader.look())
        elif word == "count":
            machine.count()
        elif word == "sleep":
            machine.sleep(thread)
        elif word == "close":
            truth, found = machine.highest, scene.close_at_once()
            machine.highest = machine.rss
            assert found.lower - FALLEN_KIB <= truth
            # No upper bound where an unmap goes on across the window's end: the watermark seems to fall.
            assert truth <= found.upper + KERNEL_SLACK_KIB or not found.upper
            if found.method == VMHWM:
                assert abs(found.estimate - truth) <= KERNEL_SLACK_KIB
        else:
            getattr(machine, word)(min(thread, most_threads), -(-kib // PAGE_KIB) * PAGE_KIB)
