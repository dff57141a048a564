"""CPU time in a window: what is known is counted once, in any order of ends and waits."""

from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from truemem.linux.process_table import FUNCTION, Process
from truemem.linux.procfs import Gone, Procfs, Stat
from truemem.measure.cpu_time import BIRTHS, TICK_NS, ZOMBIES, CpuTime
from truemem.measure.recorder import Recorder
from truemem.measure.window import NEVER_NS

from tests.unit.stand_ins import FunctionTable, OneProcess

RUNTIME = 1


class Machine:
    """Processes below the runtime, each in whole ticks; and what the kernel says of them."""

    def __init__(self) -> None:
        self.parents = {RUNTIME: 0}
        self.own = {RUNTIME: 0}
        self.waited = {RUNTIME: 0}
        self.zombies: set[int] = set()
        self.last_pid = RUNTIME
        self.used = 0
        """Ticks in the window."""
        self.is_lost = False
        """The time of one was given to init."""
        self.is_deep = False
        """A child's child has ended: if its parent does too, it is not known who has waited for it."""

    def alive(self) -> list[int]:
        return [pid for pid in self.parents if pid not in self.zombies]

    def spawn(self, parent: int) -> None:
        self.last_pid += 1
        self.parents[self.last_pid], self.own[self.last_pid], self.waited[self.last_pid] = parent, 0, 0

    def burn(self, pid: int, ticks: int) -> None:
        self.own[pid] += ticks
        self.used += ticks

    def end(self, pid: int) -> None:
        if pid != RUNTIME:
            self.zombies.add(pid)
            self.is_deep |= self.parents[pid] != RUNTIME
            for child in [child for child, parent in self.parents.items() if parent == pid]:
                self.is_lost = True
                self.parents[child] = 0
                if child in self.zombies:
                    self.forget(child)

    def wait(self, pid: int) -> None:
        parent = self.parents[pid]
        if pid in self.zombies and parent:
            self.waited[parent] += self.own[pid] + self.waited[pid]
            self.forget(pid)

    def forget(self, pid: int) -> None:
        self.zombies.discard(pid)
        del self.parents[pid]

    def stat(self, pid: int) -> Stat:
        if pid not in self.parents:
            raise Gone("gone")
        return Stat(b"S", self.parents[pid], 0, 0, 1, pid, 0, child_ticks=self.waited[pid], ticks=self.own[pid])

    def has_thread(self, pid: int, thread: int) -> bool:
        return False

    def process(self, pid: int, keep: bool) -> Any:
        machine = self

        class Files:
            def stat(self) -> Stat:
                return machine.stat(pid)

        return Files()


STEPS = st.lists(
    st.tuples(st.sampled_from(["spawn", "burn", "end", "wait", "close"]), st.integers(0, 3), st.integers(1, 30)),
    min_size=8,
    max_size=40,
)


@settings(max_examples=2 * settings().max_examples)
@given(STEPS)
def test_each_tick_is_in_one_window(steps: list[tuple[str, int, int]]) -> None:
    machine = Machine()
    proc: Any = machine
    cpu = CpuTime(proc)
    first_pid, had_zombies = machine.last_pid, False
    known, used = 0.0, 0

    def close() -> None:
        nonlocal first_pid, had_zombies, known, used
        for pid in machine.alive():
            process: Any = Process(pid, pid, machine.parents[pid], FUNCTION, proc)
            cpu.see(process, machine.own[pid] * TICK_NS, machine.stat(pid))
        found = cpu.close(first_pid, is_whole=not machine.is_lost)
        assert found is not None or machine.is_lost or machine.is_deep or len(machine.zombies) > ZOMBIES
        if found is not None and not (had_zombies or machine.zombies):
            assert found == machine.used * TICK_NS
        first_pid, had_zombies = machine.last_pid, bool(machine.zombies)
        known += 0 if found is None else found / TICK_NS
        used, machine.used = used + machine.used, 0

    close()
    for do, which, ticks in [*steps, ("close", 0, 0)]:
        alive = machine.alive()
        pid = alive[-1 - which % len(alive)]
        if do == "spawn":
            machine.spawn(pid)
        elif do == "burn":
            machine.burn(pid, ticks)
        elif do == "end" and pid != RUNTIME:
            machine.end(pid)
            if ticks % 2:  # the sampler has seen it
                process: Any = Process(pid, pid, machine.parents[pid], FUNCTION, proc)
                cpu.ended(process)
        elif do == "wait" and machine.zombies:
            machine.wait(sorted(machine.zombies)[-1 - which % len(machine.zombies)])
        elif do == "close":
            close()
    if not (machine.is_lost or machine.is_deep):
        waiting = sum(machine.own[pid] + machine.waited[pid] for pid in machine.zombies)
        assert used - waiting <= known <= used


def test_a_child_waited_for_after_the_readings_counts_once() -> None:
    machine = Machine()
    proc: Any = machine
    cpu = CpuTime(proc)

    def see() -> None:
        for pid in machine.alive():
            process: Any = Process(pid, pid, machine.parents[pid], FUNCTION, proc)
            cpu.see(process, machine.own[pid] * TICK_NS, machine.stat(pid))

    machine.spawn(RUNTIME)
    machine.burn(2, 50)
    see()
    assert cpu.close(2, is_whole=True) == 50 * TICK_NS
    machine.end(2)
    see()
    machine.wait(2)
    assert cpu.close(2, is_whole=True) == 0
    see()
    assert cpu.close(2, is_whole=True) == 0


def test_of_many_zombies_the_reaped_are_forgotten() -> None:
    """An invocation of half an hour may start a hundred thousand processes: to look for each at its end takes long."""
    machine = Machine()
    proc: Any = machine
    cpu = CpuTime(proc)

    def close() -> int | None:
        process: Any = Process(RUNTIME, RUNTIME, 0, FUNCTION, proc)
        cpu.see(process, 0, machine.stat(RUNTIME))
        return cpu.close(machine.last_pid, is_whole=True)

    def come_and_go(count: int) -> None:
        for _ in range(count):
            machine.spawn(RUNTIME)
            machine.burn(machine.last_pid, 7)
            machine.end(machine.last_pid)
            process: Any = Process(machine.last_pid, machine.last_pid, RUNTIME, FUNCTION, proc)
            cpu.ended(process)
            machine.wait(machine.last_pid)

    close()
    come_and_go(10 * BIRTHS)
    assert len(cpu._zombies) <= BIRTHS
    assert close() is None
    come_and_go(3)
    assert close() == 3 * 7 * TICK_NS


class Counted(Procfs):
    """Of a machine that has given out so many pids."""

    last = 100

    def last_pid(self) -> int:
        return self.last


class Table(FunctionTable):
    """Has seen all of them."""

    def __init__(self, proc: Counted, *processes: Process) -> None:
        super().__init__(*processes)
        self._counted = proc

    @property
    def last_pid(self) -> int:
        return self._counted.last


@pytest.mark.parametrize(("last_pids", "is_known"), [((100, 105), True), ((100, 100), True), ((32_767, 301), False)])
def test_where_births_cannot_be_counted_it_is_not_known(last_pids: tuple[int, int], is_known: bool) -> None:
    """Pids begin anew: one of the zombies that were never seen may have any."""
    process = OneProcess()
    proc = Counted()
    table: Any = Table(proc, *process.table().function())
    recorder = Recorder(table, proc, clock=lambda: process.now_ns)
    for proc.last in last_pids:
        window = recorder.close(recorder.read_and_reset(at_rest=True), NEVER_NS)
    assert (window.cpu_ns is not None) == is_known


def test_what_ended_before_it_was_read_has_no_cpu_time() -> None:
    """As a function that ends in its first invocation: nothing of it was there when a window was closed."""
    cpu = CpuTime(Machine())  # type: ignore[arg-type]
    assert [cpu.close(RUNTIME, is_whole=True) for _ in range(2)] == [None, None]
