"""Requests that overlap: whatever the function does, and whenever, the truth lies within each request's bounds.

Two processes are simulated as the kernel keeps them (RSS, watermark, page faults); they act between any two system
calls of a cut, of the recorder's own code.
"""

import itertools
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from truemem.linux.process_table import FUNCTION, Process
from truemem.linux.procfs import FAULT_KIB, Procfs, Stat
from truemem.managed.requests import Requests
from truemem.managed.segments import (
    MOST_SEGMENTS,
    RESOLUTION_NS,
    VMHWM_SEGMENTS,
    WIDTHS,
    Segment,
    SegmentRecorder,
    Segments,
    Zone,
    both,
)
from truemem.managed.segments import zone as cut_zone
from truemem.measure.recorder import Recorder
from truemem.measure.window import DYING_NS, SAMPLED, Peak, Window, current
from truemem.platform.telemetry import REPORT, START, PlatformEvent

from tests.records import MIB, MS, window
from tests.unit.stand_ins import PROC, START_KIB, US, FunctionTable, OneThread, files_text


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


class Files(OneThread):
    """One process's files, as the kernel prints them."""

    def __init__(self, machine: Machine, which: int) -> None:
        super().__init__("/nowhere/")
        self.machine = machine
        self.which = which

    def read(self, name: str) -> bytes:
        self.machine.pass_time()
        machine = self.machine
        return files_text(name, machine.rss[self.which], machine.hwm[self.which], machine.faults[self.which])

    def reset_watermark(self) -> None:
        self.machine.pass_time()
        self.machine.hwm[self.which] = self.machine.rss[self.which]


@settings(max_examples=2 * settings().max_examples)
@given(st.data(), st.lists(st.tuples(actions, st.sampled_from([1, 3, 20])), min_size=2, max_size=12))
def test_whatever_comes_between_the_bounds_hold(data: st.DataObject, stretches: list[Any]) -> None:
    machine = Machine(data.draw)
    table: Any = FunctionTable(*(Process(12 + which, 1, 1, FUNCTION, Files(machine, which)) for which in (0, 1)))
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
    closed = window((peak, level), baseline=level, resets=resets)
    return Segment(zone(start_ms, level * MIB), closed, zone(end_ms, level * MIB))


def filled(*peaks: int, first: int = 0) -> Segments:
    segments = Segments()
    for number, peak in enumerate(peaks, first):
        segments.add(segment(number * 20, (number + 1) * 20, peak))
    return segments


def found_between(segments: Segments, start_ms: float, end_ms: float) -> Peak:
    found = segments.peak_between(round(start_ms * MS), round(end_ms * MS))
    assert found is not None
    return found


def bounds(segments: Segments, start_ms: float, end_ms: float) -> tuple[int, int, int]:
    """Lower bound, estimate and upper bound of a request, MiB."""
    found = found_between(segments, start_ms, end_ms)
    return found.lower // MIB, found.estimate // MIB, found.upper // MIB


def test_a_cut_may_put_two_processes_into_two_segments() -> None:
    """Each is low in one of the two, and both are high at that moment."""
    between = Zone(20 * MS, 20 * MS + 50 * US, level=60 * MIB, highest=180 * MIB)
    segments = Segments()
    for opening, closing in ((zone(0), between), (between, zone(40))):
        segments.add(Segment(opening, window((90, 30), (30, 30), baseline=60), closing))
    assert bounds(segments, 10, 30)[2] == 180
    assert bounds(segments, 15, 18)[2] == 180


def test_what_rose_during_a_cut_took_page_faults() -> None:
    def stat(faults: int, rss: int) -> Stat:
        return Stat(b"R", 1, faults, 0, 1, 1, rss)

    looks = [(stat(10, 500), stat(12, 600)), (stat(10, 300), stat(10, 200)), (stat(10, 100), None)]
    made = cut_zone(1, 2, looks, fault_kib=64)
    assert made.highest == 500 + 2 * 64 + 300 + 100
    assert made.level == 600 - 2 * 64 + 200


BOUNDS = {
    "within the first segment": (10, 15, (0, 50, 50)),
    "within a segment: nothing is known from below": (22, 27, (0, 200, 200)),
    "the highest that it overlaps": (10, 25, (40, 200, 200)),
    "within another one": (45, 55, (0, 60, 60)),
    "a cut within the request tells a level": (32, 48, (40, 200, 200)),
    "the highest of all": (10, 90, (300, 300, 300)),
    "a whole segment is its own": (10, 55, (200, 200, 200)),
    "a whole one, and the next is higher": (25, 65, (60, 300, 300)),
    "times are known to a millisecond": (40.5, 50, (0, 200, 200)),
    "and no worse": (42, 50, (0, 60, 60)),
}


@pytest.mark.parametrize(("start_ms", "end_ms", "found"), BOUNDS.values(), ids=BOUNDS)
def test_a_requests_bounds_are_those_of_its_segments(
    start_ms: float, end_ms: float, found: tuple[int, int, int]
) -> None:
    assert RESOLUTION_NS == MS  # that of telemetry
    assert bounds(filled(50, 200, 60, 300, 50), start_ms, end_ms) == found


def test_what_was_not_seen_is_not_bounded_and_says_so() -> None:
    """Before the first segment, after the last, of a function that was gone at the end of one; and without resets."""
    for start_ms, end_ms in ((10, 30), (70, 90)):
        found = found_between(filled(50, 200, 60, first=1), start_ms, end_ms)
        assert (found.upper, found.method) == (0, SAMPLED)
    gone = filled(50)
    gone.add(Segment(zone(20, 50 * MIB), window(baseline=50), zone(40)))
    found = found_between(gone, 10, 30)
    assert (found.estimate // MIB, found.upper, found.method) == (50, 0, SAMPLED)
    without = Segments()
    for at_ms in (0, 20, 40):
        without.add(segment(at_ms, at_ms + 20, peak=200, level=60, resets=False))
    found = found_between(without, 10, 30)
    assert (found.lower // MIB, found.upper // MIB, found.method) == (60, 200, SAMPLED)


def test_before_there_is_anything_there_is_no_peak() -> None:
    assert Segments().peak_between(0, 10 * MS) is None
    assert Segments().at(0) is None
    assert Segments().peak_before(10 * MS) is None


def test_the_peak_before_and_the_segment_of_a_requests_end() -> None:
    before, held = filled(50, 200, 60, 300).peak_before(65 * MS), filled(50, 200, 60).at(33 * MS)
    assert before is not None
    assert held is not None
    assert before.estimate == held.estimate == 200 * MIB
    assert held.window is not None


@given(st.lists(st.integers(40, 4000), min_size=1, max_size=60), st.integers(1, 3000), st.data())
def test_however_long_ago_it_is_not_below_the_truth(peaks: list[int], count: int, data: st.DataObject) -> None:
    levels = [peaks[number * 7919 % len(peaks)] for number in range(count)]
    segments = filled(*levels)
    assert sum(map(len, segments._widths)) <= MOST_SEGMENTS * WIDTHS
    first = data.draw(st.integers(0, count - 1))
    last = data.draw(st.integers(first, count - 1))
    lower, estimate, upper = bounds(segments, first * 20 + 5, last * 20 + 15)
    truth = max(levels[first : last + 1])
    assert truth <= estimate == upper
    assert lower <= truth


@pytest.mark.parametrize("exact", [False, True])
def test_a_long_request_has_nothing_of_what_ran_beside_its_time(exact: bool) -> None:
    """In segments of 20 ms; 4,000 MiB were held just before it, and are just after it."""
    before, count = 10_000, 60_000
    start_ms, end_ms = before * 20 + (0.1 if exact else 5), count * 20 - 10
    segments, requests, seen_ns = filled(*[4000] * before), Requests(), 0
    if exact:
        invocation: Any = SimpleNamespace(request_id="long", unsure=False)
        requests.began(invocation, round(start_ms * MS))
    requests.join([PlatformEvent(START, {"requestId": "long"}, before * 20 * MS)], 0)
    for number in range(before, count + 30):
        is_its_own = before + (not exact) <= number < count
        segments.add(segment(number * 20, number * 20 + 20, peak=100 + number % 7 if is_its_own else 4000))
        seen_ns = (number + 1) * 20 * MS - RESOLUTION_NS
        requests.take_peaks(segments, seen_ns)
    assert sum(map(len, segments._widths)) <= MOST_SEGMENTS * WIDTHS
    requests.join([PlatformEvent(REPORT, {"requestId": "long"}, end_ms * MS)], seen_ns)
    (request,) = requests.ended(seen_ns)
    found = request.reach(segments, end_ms * MS, RESOLUTION_NS)
    assert found is not None
    expected = 106 if exact else 4000  # its first segment is shared
    assert (found.estimate // MIB, found.upper // MIB, found.lower // MIB) == (expected, expected, 106)
    assert found.method == VMHWM_SEGMENTS


@given(st.lists(st.integers(40, 4000), min_size=1, max_size=60), st.integers(1, 1500), st.integers(0, 100), st.data())
def test_however_long_it_runs_the_truth_is_within_the_bounds(
    peaks: list[int], count: int, late: int, data: st.DataObject
) -> None:
    """`late`: its report comes so many segments after its end."""
    levels = [peaks[number * 7919 % len(peaks)] for number in range(count + 101)]
    first = data.draw(st.integers(0, count - 1))
    last = data.draw(st.integers(first, count - 1))
    segments, requests = Segments(), Requests()
    for number in range(last + late + 2):
        segments.add(segment(number * 20, number * 20 + 20, peak=levels[number]))
        if number == first:
            requests.join([PlatformEvent(START, {"requestId": "a"}, (number * 20 + 5) * MS)], 0)
        requests.take_peaks(segments, (number + 1) * 20 * MS - RESOLUTION_NS)
    requests.join([PlatformEvent(REPORT, {"requestId": "a"}, (last * 20 + 15) * MS)], 0)
    (request,) = requests.ended(1 << 62)
    found = request.reach(segments, request.end_ns, RESOLUTION_NS)
    assert found is not None
    truth = max(levels[first : last + 1])
    assert found.lower // MIB <= truth <= found.estimate // MIB == found.upper // MIB


def test_an_end_before_what_is_known_is_right() -> None:
    """Telemetry may be late: the peak was taken beyond the request's end."""
    segments, requests = filled(*[100] * 200, *[4000] * 200), Requests()
    requests.join([PlatformEvent(START, {"requestId": "a"}, 105 * MS)], 0)
    requests.take_peaks(segments, 8_000 * MS)
    requests.join([PlatformEvent(REPORT, {"requestId": "a"}, 3_900 * MS)], 0)
    (request,) = requests.ended(8_000 * MS)
    found = request.reach(segments, request.end_ns, RESOLUTION_NS)
    assert found is not None
    assert found.estimate // MIB == 100


SEEN, NOT_BOUNDED, SAMPLES = (
    Peak(90, 20, 100, VMHWM_SEGMENTS, raced=False),
    Peak(80, 40, 0, SAMPLED, raced=False),
    Peak(70, 30, 110, SAMPLED, raced=False),
)


@pytest.mark.parametrize(
    ("first", "second", "together"),
    [
        (SEEN, SEEN, SEEN),
        (SEEN, NOT_BOUNDED, Peak(90, 40, 0, SAMPLED, raced=False)),
        (SAMPLES, SEEN, Peak(90, 30, 110, SAMPLED, raced=False)),
        (None, SEEN, Peak(90, 20, 0, SAMPLED, raced=False)),
        (SEEN, None, Peak(90, 20, 0, SAMPLED, raced=False)),
        (None, None, None),
    ],
)
def test_the_peak_of_two_times_is_known_as_well_as_the_worse(first: Any, second: Any, together: Any) -> None:
    found = both(first, second)
    assert (found and vars(found)) == (together and vars(together))


@pytest.mark.parametrize("unbounded", [0, 1])
def test_what_is_merged_with_something_unbounded_is_not_bounded(unbounded: int) -> None:
    made = [segment(0, 20, peak=100), segment(20, 40, peak=100)]
    made[unbounded].upper = 0
    made[0].take(made[1])
    assert made[0].upper == 0


# Requests that overlap


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


def cut(cutter: SegmentRecorder) -> Window:
    made = cutter.end_segment().window
    assert made is not None
    return made


def test_where_workers_die_one_by_one_the_last_picture_is_of_all(function: Function, cutter: SegmentRecorder) -> None:
    workers = [function.grow() for _ in range(2)]
    both = cut(cutter)
    function.end(workers[0])
    for _ in range(2):
        assert (len(cut(cutter).closing), cutter.whole) == (1, both)
    function.end(workers[1])
    none = cut(cutter)
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
