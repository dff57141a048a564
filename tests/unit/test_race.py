"""The race with the runtime, through every interleaving that hypothesis can think of.

A process is simulated as the kernel keeps it (RSS, watermark, page faults), and the function's actions fall between any
two system calls of the recorder. The runtime gets its event before the sidecar or after it, by any time, with any looks
in between. What must hold: the truth lies within the bounds, and what is not called raced is exact.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from truemem.linux.kernel import FAULT_KIB
from truemem.linux.proc_text import FALLEN_KIB, PAGE_KIB
from truemem.linux.process_table import FUNCTION, Process
from truemem.linux.procfs import ProcessFiles, Procfs
from truemem.measure.race import KEPT, KERNEL_SLACK_KIB, NEVER, Boundary, Sample, keep
from truemem.measure.recorder import Recorder
from truemem.measure.window import VMHWM, Window, peak

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


class Files(ProcessFiles):
    """The process's files, as the kernel prints them."""

    def __init__(self, world: World) -> None:
        super().__init__("/nowhere/")
        self.world = world

    def read(self, name: str) -> bytes:
        self.world.pass_time()
        world = self.world
        if name == "stat":
            return b"1 (f) S 1 0 0 0 0 0 %d 0 0 0 0 0 0 0 0 0 1 0 1 0 %d" % (world.faults, world.rss // PAGE_KIB)
        if name == "statm":
            return b"0 %d 0" % (world.rss // PAGE_KIB)
        sizes = (world.hwm // PAGE_KIB * PAGE_KIB, world.rss // PAGE_KIB * PAGE_KIB)
        return b"x\nVmHWM: %d kB\nVmRSS: %d kB\nRssAnon: 1 kB\nRssFile: 1 kB\nRssShmem: 1 kB\nThreads: 1\n" % sizes

    def reset_watermark(self) -> None:
        self.world.pass_time()
        self.world.hwm = self.world.rss


class Table:
    """One function process, and never a new one."""

    last_pid = -1
    unfinished = False

    def __init__(self, world: World) -> None:
        self.process = Process(12, 1, 1, FUNCTION, Files(world))

    def function(self) -> list[Process]:
        return [self.process]

    def changed(self) -> bool:
        return False

    def adopted_faults(self) -> int:
        return 0


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
TOLD = ["nothing", "done", "started", "both"]
"""What the platform says of the time between the two invocations."""


@settings(max_examples=10 * settings().max_examples)
@given(st.data(), changes, changes, st.sampled_from(TOLD), st.booleans())
def test_in_any_order_and_by_any_lead_the_bounds_hold(
    data: st.DataObject, first: list[int], second: list[int], told: str, sidecar_first: bool
) -> None:
    world = World(data.draw)
    recorder = Recorder(Table(world), PROC, clock=lambda: world.now_ns)  # type: ignore[arg-type]

    def looks() -> None:
        for _ in range(data.draw(st.integers(0, 3))):
            recorder.levels.sample(late=data.draw(st.booleans()))

    recorder.close(recorder.read_and_reset(), NEVER)
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
def test_measured_while_the_runtime_waits_every_figure_is_exact(
    data: st.DataObject, first: list[int], second: list[int]
) -> None:
    """In exact mode: nothing runs between a request for the next event and that event."""
    world = World(data.draw)
    recorder = Recorder(Table(world), PROC, clock=lambda: world.now_ns)  # type: ignore[arg-type]
    recorder.close(recorder.read_and_reset(), NEVER)
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


def boundary(*looks: Sample, fault_kib: int = FAULT_KIB) -> Boundary:
    made = Boundary()
    made.samples = [list(looks)]
    made.fault_kib = fault_kib
    return made


def test_a_look_that_may_lie_after_the_event_counts_for_the_next_window() -> None:
    made = boundary(look(5, 70_000), look(8, 90_000), look(9, 50_000))
    made.prove(7 * MS)
    assert made.hidden() == 90_000
    made.prove(8 * MS)
    assert made.hidden() == 50_000


def test_what_is_proven_is_never_taken_back() -> None:
    made = boundary(look(5, 70_000))
    for told in (7 * MS, 3 * MS, None):
        made.prove(told)
    assert made.not_before_ns == 7 * MS


def test_the_level_is_settled_where_no_page_was_touched_since_a_proven_look() -> None:
    quiet = boundary(look(5, 70_000, faults=10), look(9, START_KIB, faults=10))
    busy = boundary(look(5, 70_000, faults=10), look(9, START_KIB, faults=15))
    fallen = boundary(look(5, 70_000, faults=10), look(9, 70_000, faults=10))
    for made in quiet, busy, fallen:
        made.prove(6 * MS)
    assert (quiet.settled(), busy.settled(), fallen.settled()) == (True, False, False)


def test_without_a_proven_look_the_level_is_not_settled() -> None:
    assert not boundary(look(5, START_KIB)).settled()


@given(st.lists(st.integers(0, 9), min_size=1, max_size=200))
def test_of_many_looks_the_older_are_merged_and_none_is_lost(levels: list[int]) -> None:
    history: list[Sample] = []
    for number, level in enumerate(levels):
        keep(history, look(number, level), Sample.merged)
    assert len(history) <= KEPT
    assert max(each.hwm for each in history) == max(levels)
    assert [each.end_ns for each in history] == sorted(each.end_ns for each in history)
    assert history[-1].end_ns == (len(levels) - 1) * MS
