"""Requests that overlap: whatever the function does, and whenever, the truth lies within each request's bounds.

Two processes are simulated as the kernel keeps them (RSS, watermark, page faults); they act between any two system
calls of a cut, of the recorder's own code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from truemem.linux.kernel import FAULT_KIB
from truemem.linux.proc_text import PAGE_KIB, Stat, Status
from truemem.linux.process_table import FUNCTION, Process
from truemem.linux.procfs import ProcessFiles, Procfs
from truemem.measure.recorder import Recorder
from truemem.measure.segment_recorder import SegmentRecorder
from truemem.measure.segments import KEPT, RESOLUTION_NS, VMHWM_SEGMENTS, WIDTHS, Segment, Segments, Zone
from truemem.measure.segments import zone as cut_zone
from truemem.measure.window import SAMPLED, Window

PROC = Procfs()
"""One for all tests: it keeps a descriptor."""

US = 1_000
MS = 1_000_000
MiB = 1024
START_KIB = 50_000


class Machine:
    """Two processes, a clock, and the truth. `draw` decides what happens between two system calls."""

    def __init__(self, draw: Callable[[Any], Any]) -> None:
        self.draw = draw
        self.now_ns = 1_000 * MS
        self.rss = [START_KIB, START_KIB]
        self.hwm = [START_KIB, START_KIB]
        self.faults = [1000, 1000]
        self.truth = [(self.now_ns, sum(self.rss))]
        """(since when, level of both)."""

    def time_ns(self) -> int:
        """The clock."""
        return self.now_ns

    def act(self, which: int, change: int) -> None:
        """One process's level moves."""
        if change > 0:
            self.faults[which] += -(-change // FAULT_KIB)
        self.rss[which] = max(1000, self.rss[which] + change)
        self.hwm[which] = max(self.hwm[which], self.rss[which])
        self.truth.append((self.now_ns, sum(self.rss)))

    def pass_time(self) -> None:
        """Between two system calls."""
        for which, change, later_us in self.draw(actions):
            self.now_ns += later_us * US
            self.act(which, change)
        self.now_ns += 5 * US

    def highest(self, start_ns: int, end_ns: int) -> int:
        """The true peak between two moments."""
        before = [level for since, level in self.truth if since <= start_ns][-1]
        return max(before, *(level for since, level in self.truth if start_ns <= since <= end_ns), 0)


big = st.sampled_from([30_000, 5_000, 64, -64, -5_000, -30_000])
actions = st.lists(st.tuples(st.integers(0, 1), big, st.sampled_from([1, 40, 300])), max_size=2)


class Files(ProcessFiles):
    """One process's files, as the kernel prints them."""

    def __init__(self, machine: Machine, which: int) -> None:
        super().__init__("/nowhere/")
        self.machine = machine
        self.which = which

    def read(self, name: str) -> bytes:
        self.machine.pass_time()
        rss, hwm, faults = (of[self.which] for of in (self.machine.rss, self.machine.hwm, self.machine.faults))
        if name == "stat":
            return b"1 (f) R 1 0 0 0 0 0 %d 0 0 0 0 0 0 0 0 0 1 0 1 0 %d" % (faults, rss // PAGE_KIB)
        return b"x\nVmHWM: %d kB\nVmRSS: %d kB\nRssAnon: 1 kB\nRssFile: 1 kB\nRssShmem: 1 kB\nThreads: 1\n" % (hwm, rss)

    def reset_watermark(self) -> None:
        self.machine.pass_time()
        self.machine.hwm[self.which] = self.machine.rss[self.which]


class Table:
    """The function's processes, and never a new one."""

    last_pid = -1
    unfinished = False

    def __init__(self, machine: Machine, count: int) -> None:
        self.processes = [Process(12 + which, 1, 1, FUNCTION, Files(machine, which)) for which in range(count)]

    def function(self) -> list[Process]:
        return self.processes

    def changed(self) -> bool:
        return False

    def adopted_faults(self) -> int:
        return 0


@settings(max_examples=250, deadline=None)
@given(st.data(), st.lists(st.tuples(actions, st.sampled_from([1, 3, 20])), min_size=2, max_size=12))
def test_whatever_comes_between_the_bounds_hold(
    data: st.DataObject, stretches: list[tuple[list[tuple[int, int, int]], int]]
) -> None:
    machine = Machine(data.draw)
    table: Any = Table(machine, 2)
    cutter = SegmentRecorder(table, Recorder(table, PROC, clock=machine.time_ns), machine.time_ns)
    segments = Segments()
    segments.add(cutter.end_segment())
    machine.now_ns += 3 * MS
    began = machine.now_ns
    for doing, ms in stretches:
        for which, change, later_us in doing:
            machine.now_ns += later_us * US
            machine.act(which, change)
        machine.now_ns += ms * MS
        segments.add(cutter.end_segment())
    last = machine.now_ns
    machine.now_ns += 3 * MS
    segments.add(cutter.end_segment())

    interesting = [since for since, _ in machine.truth if began <= since <= last]
    moments = st.sampled_from([began, last, *interesting]) | st.integers(began, last)
    start = data.draw(moments)
    end = max(start, data.draw(st.just(start) | moments))
    told = [time_ns // MS * MS for time_ns in (start, end)]  # as telemetry has it
    found = segments.peak_between(*told)
    assert found is not None
    truth = machine.highest(start, end)
    assert found.lower <= truth <= found.upper, (found.lower, truth, found.upper)
    assert found.lower <= found.estimate <= found.upper
    assert found.method == VMHWM_SEGMENTS


def zone(at_ms: float, level: int = 0) -> Zone:
    return Zone(round(at_ms * MS), round(at_ms * MS) + 50 * US, level, level)


def segment(start_ms: float, end_ms: float, peak: int, level: int = 40, resets: bool = True) -> Segment:
    """Of one process; sizes in MiB."""
    window = Window(level * MiB, 0, resets)
    window.closing = [Status(peak * MiB, level * MiB, level * MiB, 0, 0, 1)]
    return Segment(zone(start_ms, level * MiB), window, zone(end_ms, level * MiB))


def filled(*peaks: int, length_ms: float = 20) -> Segments:
    segments = Segments()
    for number, peak in enumerate(peaks):
        segments.add(segment(number * length_ms, (number + 1) * length_ms, peak))
    return segments


def bounds(segments: Segments, start_ms: float, end_ms: float) -> tuple[int, int, int]:
    """Lower bound, estimate and upper bound of a request, MiB."""
    found = segments.peak_between(round(start_ms * MS), round(end_ms * MS))
    assert found is not None
    return found.lower // MiB, found.estimate // MiB, found.upper // MiB


def test_during_a_cut_one_process_may_be_in_the_next_segment_and_the_other_in_this_one() -> None:
    """Each is low in one of the two, and both are high at that moment."""
    between = Zone(20 * MS, 20 * MS + 50 * US, level=60 * MiB, highest=180 * MiB)
    segments = Segments()
    for opening, closing in ((zone(0), between), (between, zone(40))):
        window = Window(60 * MiB, 0, resets=True)
        window.closing = [Status(90 * MiB, 30 * MiB, 30 * MiB, 0, 0, 1), Status(30 * MiB, 30 * MiB, 30 * MiB, 0, 0, 1)]
        window.multi_process = True
        segments.add(Segment(opening, window, closing))
    assert bounds(segments, 10, 30)[2] == 180
    assert bounds(segments, 15, 18)[2] == 180


def test_what_rose_during_a_cut_took_page_faults() -> None:
    def stat(faults: int, rss: int) -> Stat:
        return Stat(b"R", 1, faults, 0, 1, 1, rss)

    looks = [(stat(10, 500), stat(12, 600)), (stat(10, 300), stat(10, 200)), (stat(10, 100), None)]
    made = cut_zone(1, 2, looks, fault_kib=64)
    assert made.highest == 500 + 2 * 64 + 300 + 100
    assert made.level == 600 - 2 * 64 + 200


def test_a_request_has_the_highest_segment_that_it_overlaps() -> None:
    segments = filled(50, 200, 60, 300, 50)
    assert bounds(segments, 10, 15)[1:] == (50, 50)
    assert bounds(segments, 10, 25)[1:] == (200, 200)
    assert bounds(segments, 45, 55)[1:] == (60, 60)
    assert bounds(segments, 10, 90)[1:] == (300, 300)


def test_a_segment_that_lies_within_the_request_is_its_own() -> None:
    segments = filled(50, 200, 60, 300, 50)
    assert bounds(segments, 10, 55) == (200, 200, 200)
    assert bounds(segments, 25, 65) == (60, 300, 300)


def test_of_one_within_a_segment_nothing_is_known_from_below() -> None:
    assert bounds(filled(50, 200, 60), 22, 27) == (0, 200, 200)


def test_a_cut_within_the_request_tells_a_level() -> None:
    assert bounds(filled(50, 200, 60), 32, 48) == (40, 200, 200)


def test_times_are_known_to_a_millisecond() -> None:
    segments = filled(50, 200, 60)
    assert bounds(segments, 40.5, 50)[1] == 200
    assert bounds(segments, 42, 50)[1] == 60


def test_what_nobody_has_seen_is_not_bounded() -> None:
    segments = filled(50, 200, 60)
    for start_ms, end_ms in ((-10, 10), (50, 70)):
        found = segments.peak_between(round(start_ms * MS), round(end_ms * MS))
        assert found is not None
        assert (found.upper, found.method) == (0, SAMPLED)


def test_a_function_that_was_gone_at_the_end_of_its_segment_is_not_bounded() -> None:
    segments = filled(50)
    gone = Window(50 * MiB, 0, resets=True)
    segments.add(Segment(zone(20, 50 * MiB), gone, zone(40)))
    found = segments.peak_between(10 * MS, 30 * MS)
    assert found is not None
    assert (found.estimate // MiB, found.upper, found.method) == (50, 0, SAMPLED)


def test_without_resets_it_is_sampled_and_says_so() -> None:
    segments = Segments()
    for number in range(3):
        segments.add(segment(number * 20, number * 20 + 20, peak=200, level=60, resets=False))
    found = segments.peak_between(10 * MS, 30 * MS)
    assert found is not None
    assert (found.lower // MiB, found.upper // MiB) == (60, 200)
    assert found.method == SAMPLED


def test_before_there_is_anything_there_is_no_peak() -> None:
    assert Segments().peak_between(0, 10 * MS) is None
    assert Segments().at(0) is None
    assert Segments().peak_before(10 * MS) is None


def test_the_peak_of_all_that_was_before() -> None:
    before = filled(50, 200, 60, 300).peak_before(65 * MS)
    assert before is not None
    assert before.estimate == 200 * MiB


def test_the_segment_in_which_a_request_ended() -> None:
    held = filled(50, 200, 60).at(33 * MS)
    assert held is not None
    assert held.estimate == 200 * MiB
    assert held.window is not None


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(40, 4000), min_size=1, max_size=60),
    st.integers(1, 3000),
    st.data(),
)
def test_however_long_ago_it_is_bounded_and_never_below_the_truth(
    peaks: list[int], count: int, data: st.DataObject
) -> None:
    levels = [peaks[number * 7919 % len(peaks)] for number in range(count)]
    segments = filled(*levels)
    assert len(segments) <= KEPT * WIDTHS
    first = data.draw(st.integers(0, count - 1))
    last = data.draw(st.integers(first, count - 1))
    lower, estimate, upper = bounds(segments, first * 20 + 5, last * 20 + 15)
    truth = max(levels[first : last + 1])
    assert truth <= estimate == upper
    assert lower <= truth


def test_a_quarter_of_an_hour_keeps_its_beginning_to_a_few_per_cent() -> None:
    """In segments of 20 ms; what was before it is another request's."""
    count = 60_000
    before = 10_000
    segments = Segments()
    for number in range(count):
        segments.add(segment(number * 20, number * 20 + 20, peak=4000 if number < before else 100))
    assert len(segments) <= KEPT * WIDTHS
    ran = count - before
    assert bounds(segments, (before + ran * 0.05) * 20, count * 20 - 5)[1] == 100


def test_what_is_merged_with_something_unbounded_is_not_bounded() -> None:
    for unbounded in (0, 1):
        made = [segment(0, 20, peak=100), segment(20, 40, peak=100)]
        made[unbounded].upper = 0
        made[0].take(made[1])
        assert made[0].upper == 0


def test_resolution_is_that_of_telemetry() -> None:
    assert RESOLUTION_NS == MS
