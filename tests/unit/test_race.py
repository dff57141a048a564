"""The race with the runtime, through every interleaving that hypothesis can think of.

A process is simulated as the kernel keeps it (RSS, watermark, page faults), and the function's actions fall between any
two system calls of the recorder. The runtime gets its event before the sidecar or after it, by any time, with any looks
in between. What must hold: the truth lies within the bounds, and what is not called raced is exact.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from truemem.linux.kernel import FAULT_KIB
from truemem.linux.proc_text import FALLEN_KIB, PAGE_KIB
from truemem.linux.process_table import FUNCTION, Process
from truemem.linux.procfs import Procfs
from truemem.measure.race import KEPT, KERNEL_SLACK_KIB, NEVER, Boundary, Sample, keep
from truemem.measure.recorder import Recorder
from truemem.measure.window import VMHWM, Window, peak

from tests.unit.stand_ins import FunctionTable, OneThread, files_text

PROC = Procfs()
"""One for all tests: it keeps a descriptor."""

US = 1_000
MS = 1_000_000
START_KIB = 50_000


class World:
    """One process, its memory, and a clock. `draw` decides what happens between two system calls."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw
        self.now_ns = 1_000_000_000
        self.rss = self.hwm = START_KIB
        self.faults = 1000
        self.queue: list[int] = []
        """Changes of the level (KiB) that the running invocation has still to make."""
        self.levels: list[int] = []
        """Every level of the running invocation."""

    def begin(self, changes: list[int]) -> None:
        """The runtime has its event: the invocation's peak counts from the level that it finds."""
        self.queue, self.levels = list(changes), [self.rss]

    def act(self) -> None:
        """The function's next action."""
        change = self.queue.pop(0)
        if change > 0:
            self.faults += -(-change // FAULT_KIB)
        self.rss = max(1000, self.rss + change)
        self.hwm = max(self.hwm, self.rss)
        self.levels.append(self.rss)

    def pass_time(self) -> None:
        """Between two system calls: time, and perhaps actions of the function."""
        self.now_ns += self.draw(st.sampled_from([5, 20, 60, 500, 5000])) * US
        for _ in range(self.draw(st.integers(0, len(self.queue)))):
            self.act()

    def finish(self) -> int:
        """The rest of the invocation; its true peak."""
        while self.queue:
            self.act()
        return max(self.levels)


class Files(OneThread):
    """The process's files, as the kernel prints them."""

    def __init__(self, world: World) -> None:
        super().__init__("/nowhere/")
        self.world = world

    def read(self, name: str) -> bytes:
        self.world.pass_time()
        rss, hwm = (kib // PAGE_KIB * PAGE_KIB for kib in (self.world.rss, self.world.hwm))
        return files_text(name, rss, hwm, self.world.faults)

    def reset_watermark(self) -> None:
        self.world.pass_time()
        self.world.hwm = self.world.rss


class Table(FunctionTable):
    """One function process."""

    def __init__(self, world: World) -> None:
        self.process = Process(12, 1, 1, FUNCTION, Files(world))
        super().__init__(self.process)


def recorder_of(world: World) -> Recorder:
    table: Any = Table(world)
    recorder = Recorder(table, PROC, clock=lambda: world.now_ns)
    recorder.close(recorder.read_and_reset(), NEVER)
    return recorder


def check(window: Window, truth: int, level_before: int) -> None:
    """The promises."""
    found = peak(window)
    assert found is not None
    assert found.lower - FALLEN_KIB <= truth <= found.upper + FALLEN_KIB, (found.lower, truth, found.upper)
    assert found.lower <= found.estimate <= found.upper
    assert found.method == VMHWM
    if not found.raced:
        assert abs(found.estimate - truth) <= KERNEL_SLACK_KIB
    if window.opening.settled():
        assert abs(window.baseline - level_before) <= KERNEL_SLACK_KIB


changes = st.lists(st.sampled_from([30_000, 5_000, 700, 64, -64, -700, -5_000, -30_000]), max_size=6)
Plan = list[int]
TOLD = ["nothing", "done", "started", "both"]
"""What the platform says of the time between the two invocations."""


@settings(max_examples=10 * settings().max_examples)
@given(st.data(), changes, changes, st.sampled_from(TOLD), st.booleans())
def test_in_any_order_and_by_any_lead_the_bounds_hold(
    data: st.DataObject, first: Plan, second: Plan, told: str, sidecar_first: bool
) -> None:
    world = World(data.draw)
    recorder = recorder_of(world)

    def looks() -> None:
        for _ in range(data.draw(st.integers(0, 3))):
            recorder.levels.sample(late=data.draw(st.booleans()))

    world.begin(first)
    looks()
    first_truth = world.finish()
    done_ns, between = world.now_ns, world.rss
    looks()
    if not sidecar_first:
        started_ns = world.now_ns
        world.begin(second)
        looks()
    closed = recorder.close(recorder.read_and_reset())
    if sidecar_first:
        looks()
        started_ns = world.now_ns
        world.begin(second)
    # Telemetry tells times in whole ms, cut off.
    if told in ("done", "both"):
        closed.end.prove(done_ns // MS * MS)
    if told in ("started", "both"):
        closed.end.prove(started_ns // MS * MS)
    check(closed, first_truth, START_KIB)

    looks()
    second_truth = world.finish()
    check(recorder.close(recorder.read_and_reset(), NEVER), second_truth, between)


@settings(max_examples=2 * settings().max_examples)
@given(st.data(), changes, changes)
def test_measured_while_the_runtime_waits_all_is_exact(data: st.DataObject, first: Plan, second: Plan) -> None:
    """In exact mode: nothing runs between a request for the next event and that event."""
    world = World(data.draw)
    recorder = recorder_of(world)
    for plan in first, second:
        before = world.rss
        world.begin(plan)
        for _ in range(data.draw(st.integers(0, 3))):
            recorder.levels.sample(late=data.draw(st.booleans()), reset=False)
        truth = world.finish()
        closed = recorder.close(recorder.read_and_reset(), NEVER)
        found = peak(closed)
        assert found is not None
        assert not found.raced
        assert max(abs(found.estimate - truth), abs(closed.baseline - before)) <= FALLEN_KIB
        recorder.close(recorder.read_and_reset(), NEVER)  # the next event passes


def look(end_ms: int, hwm: int, faults: int = 0, rss: int = START_KIB) -> Sample:
    return Sample(end_ms * MS, hwm, hwm, faults, rss)


def boundary(*looks: Sample) -> Boundary:
    made = Boundary()
    made.samples, made.fault_kib = [list(looks)], FAULT_KIB
    return made


def test_a_look_that_may_lie_after_the_event_counts_for_the_next_window() -> None:
    """What is proven is never taken back."""
    made = boundary(look(5, 70_000), look(8, 90_000), look(9, 50_000))
    for proven_ms, not_before_ms, hidden in [(7, 7, 90_000), (3, 7, 90_000), (None, 7, 90_000), (8, 8, 50_000)]:
        made.prove(None if proven_ms is None else proven_ms * MS)
        assert (made.not_before_ns, made.hidden()) == (not_before_ms * MS, hidden)


@pytest.mark.parametrize(
    ("faults", "hwm", "proven_ms", "settled"),
    [(10, START_KIB, 6, True), (15, START_KIB, 6, False), (10, 70_000, 6, False), (10, START_KIB, None, False)],
    ids=["quiet", "busy", "fallen", "no look is proven"],
)
def test_the_level_is_settled_where_no_page_was_touched_since_a_proven_look(
    faults: int, hwm: int, proven_ms: int | None, settled: bool
) -> None:
    made = boundary(look(5, 70_000, faults=10), look(9, hwm, faults=faults))
    made.prove(None if proven_ms is None else proven_ms * MS)
    assert made.settled() is settled


@given(st.lists(st.integers(0, 9), min_size=1, max_size=200))
def test_of_many_looks_the_older_are_merged_and_none_is_lost(levels: list[int]) -> None:
    history: list[Sample] = []
    for number, level in enumerate(levels):
        keep(history, look(number, level), Sample.merged)
    assert len(history) <= KEPT
    assert max(each.hwm for each in history) == max(levels)
    assert [each.end_ns for each in history] == sorted(each.end_ns for each in history)
    assert history[-1].end_ns == (len(levels) - 1) * MS
