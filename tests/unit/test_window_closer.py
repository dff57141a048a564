"""What a closed window leaves on its record, in the journal and in the log: a simulated process, the real recorder."""

import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from truemem.config import Config
from truemem.lifecycle.loop import RunningClock
from truemem.lifecycle.window_closer import KillPlacement, WindowCloser, notice
from truemem.linux.cgroup import MemoryUsage
from truemem.linux.process_table import FUNCTION, Process, ProcessTable
from truemem.linux.procfs import Procfs
from truemem.measure.recorder import Recorder
from truemem.measure.sampling import CpuBudget
from truemem.measure.window import NEVER_NS, Boundary, Window
from truemem.platform.telemetry import REPORT, RUNTIME_DONE, START
from truemem.records.pending_record import EnvironmentState, PendingRecord
from truemem.records.record import InvocationRecord
from truemem.support.clock import Clock
from truemem.support.log import set_level
from truemem.wings import Keeper, Wing, Wings

from tests.golden import unpack
from tests.records import event, publisher_of
from tests.unit.stand_ins import MIB, PROC, START_KIB, Ended, Kills, OneProcess, Output, Surroundings

SIZED = {b"AWS_LAMBDA_FUNCTION_MEMORY_SIZE": b"128"}


class Scene:
    """One environment: its process, and what the sidecar does with its windows."""

    def __init__(self, reports: bool = False, wing: Callable[[Any], Wing] | None = None) -> None:
        """`wing` makes one, of the function's processes."""
        self.process = OneProcess()
        self.table = self.process.table()
        wings = Wings([wing(self.table)] if wing is not None else [])
        self.kills, self.output, self.surroundings = Kills(), Output(), Surroundings()
        self.recorder = Recorder(self.table, PROC, clock=lambda: self.process.now_ns)
        self.history = EnvironmentState()
        self.publisher = publisher_of(SIZED, self.history, reports=reports, wings=wings)
        output: Any = self.output
        self.publisher._output = output
        parts: Any = SimpleNamespace(
            config=Config(SIZED),
            recorder=self.recorder,
            environment_memory=self.surroundings,
            kills=self.kills,
            table=self.table,
            clock=Clock(),
            wings=wings,
        )
        running = RunningClock(parts.clock)
        self.closing = WindowCloser(parts, self.publisher, running, self.history, CpuBudget(0.01, 1.0, 0))
        self.records: list[PendingRecord] = []

    def event(self, closed_by: str = "next-invoke", died: str = "", gone: bool = False, **known: Any) -> None:
        """INVOKE or SHUTDOWN, at a function that rests until its own event comes. `known`: what else the window has.
        `gone`: the runtime has ended by the time that it is closed."""
        closed = self.recorder.close(self.recorder.read_and_reset(), NEVER_NS)._replace(**known)
        processes = self.table.processes
        self.table.processes = [] if gone else processes
        if self.records:
            self.closing.close(self.records[-1], closed, closed_by, died)
        if closed_by == "next-invoke":
            self.records.append(PendingRecord(str(len(self.records) + 1), len(self.records) + 1, 0))
            self.closing.open(self.records[-1], closed if len(self.records) == 1 else None)
        elif not self.records:
            self.closing.died_in_init(closed, died)
        while self.publisher.print_due(0):
            pass
        self.table.processes = processes

    def closes(
        self, kills: int = 0, ended: bool = False, born: int = 0, unread_mib: int = 0, gone: bool = False
    ) -> None:
        """The next INVOKE: the kernel has counted `kills`; a process of the function has `ended`, `born` pids were
        given out, children held `unread_mib` at most."""
        self.kills.new = kills
        self.event(gone=gone, process_exited=ended, born=born, births=born, unread=unread_mib * MIB)

    def killed(self) -> None:
        """The kernel kills a process of the function, and SHUTDOWN comes."""
        self.kills.new = 1
        self.event(closed_by="shutdown", died="failure", process_exited=True)

    def mib_above(self, name: str) -> list[float]:
        """A member of each line, above the level at which all began."""
        return [round(line[name] - START_KIB / MIB, 1) for line in self.output.lines]


@pytest.fixture
def scene() -> Scene:
    """In the init phase."""
    return Scene()


def test_each_invocation_has_its_own_peak_and_the_mark_stays(scene: Scene) -> None:
    """And so has the init phase."""
    for mib in (70, 100, 40, 60):
        scene.process.touch(mib)
        scene.event()
    assert scene.mib_above("PeakRSS") == scene.mib_above("peakUpper") == [100, 40, 60]
    assert scene.mib_above("highWaterMark") == [100, 100, 100]
    assert scene.mib_above("CurrentRSS") == [0, 0, 0]
    assert round(scene.output.lines[0]["initPeakRSS"] - START_KIB / MIB, 1) == 70
    assert ["initPeakRSS" in line for line in scene.output.lines] == [True, False, False]


@pytest.mark.parametrize(("started_ms", "is_raced"), [(None, True), (0, True), (10_000, False)])
def test_an_init_peak_is_marked_unless_its_level_is_proven(started_ms: int | None, is_raced: bool) -> None:
    """Default mode: its watermark is read when the first event has come, and the function may run."""
    scene = Scene(reports=True)
    scene.process.touch(70)
    scene.recorder.window.note(together=START_KIB + 70 * MIB)
    init = scene.recorder.close(scene.recorder.read_and_reset(), 0, scene.process.now_ns)
    record = PendingRecord("1", 1, 0, scene.recorder.window.opening)
    scene.closing.open(record, init)
    if started_ms is not None:
        record.join(event(START, "1", started_ms))
    scene.publisher.flush_all()
    (line,) = scene.output.lines
    assert round(line["initPeakRSS"] - START_KIB / MIB) == 70
    assert line.get("initRaced") == (is_raced or None)


def test_the_mark_is_that_of_a_higher_init_phase(scene: Scene) -> None:
    for mib in (70, 10):
        scene.process.touch(mib)
        scene.event()
    assert (scene.mib_above("highWaterMark"), scene.mib_above("PeakRSS")) == ([70], [10])


class Kept(Keeper):
    """What it was given."""

    def __init__(self) -> None:
        self.records: list[InvocationRecord] = []

    def keep(self, number: int, record: InvocationRecord) -> None:
        self.records.append(record)


def test_a_death_is_kept_before_it_is_printed() -> None:
    """The line waits for its report for up to 250 ms, and the platform does not wait for ever."""
    wing = Wing()
    wing.keeper = keeper = Kept()
    scene = Scene(reports=True, wing=lambda _: wing)
    scene.event()
    scene.recorder.window.see_level(scene.process.now_ns, 77 * MIB)
    scene.killed()
    assert scene.output.lines == []
    (record,) = keeper.records
    members = record.properties
    assert (members["requestId"], record.metrics["OutOfMemory"]) == ("1", 1)
    assert members["outOfMemory"]["signals"][0] == "kernel"
    assert members["ending"]["level"] > 0
    assert members["lastSamples"][-1][1] == 77
    scene.publisher.flush_all()
    assert [line["requestId"] for line in scene.output.lines] == ["1"]


def test_the_log_reports_an_init_phase_that_dies(scene: Scene, capfd: pytest.CaptureFixture[str]) -> None:
    set_level("info")
    scene.killed()
    log = capfd.readouterr().err
    assert log.startswith("truemem WARN before its first invocation the environment has ended with a failure, out of ")
    assert "(kernel" in log
    assert '"level":' in log
    assert scene.output.lines == []


def test_without_telemetry_shutdown_says_that_it_timed_out(scene: Scene) -> None:
    scene.event()
    scene.event(closed_by="shutdown", died="timeout")
    assert (scene.output.lines[0]["status"], scene.output.lines[0]["closedBy"]) == ("timeout", "shutdown")


def test_a_child_that_was_killed_unseen_is_of_the_closed_window(scene: Scene) -> None:
    """It is found when the next event has come, without memory."""
    scene.event()
    scene.kills.new = 1
    scene.table.new = [Process(99, 12, 1, FUNCTION, Ended())]  # type: ignore[arg-type]
    scene.event()
    assert scene.table.new == []
    assert scene.records[0].window is not None
    assert scene.records[0].window.process_exited
    assert scene.records[0].kernel_kills == 1
    assert scene.recorder.window.process_exited  # or it has ended since


KillCounts = tuple[int | None, int]


def kills_of(record: PendingRecord) -> KillCounts:
    return record.kernel_kills, record.environment_kills


SEEN: dict[str, Any] = {"kills": 1, "ended": True}
UNSEEN: dict[str, Any] = {"kills": 1}
BY_ITSELF: dict[str, Any] = {"ended": True}
"""As a function does that runs a program."""


KILLED = {
    "one has ended": ([SEEN], [(1, 0)]),
    "one may have come and gone": ([{**UNSEEN, "born": 3}], [(1, 0)]),
    "how many came is not known": ([{**UNSEEN, "born": -1}], [(1, 0)]),
    "all live, and it is not told later on an innocent": ([UNSEEN, BY_ITSELF], [(0, 1), (0, 0)]),
    "at once by the next event: told with the next": ([{**UNSEEN, "gone": True}, BY_ITSELF], [(0, 0), (1, 0)]),
}


@pytest.mark.parametrize(("closes", "kills"), KILLED.values(), ids=KILLED)
def test_a_kill_is_the_functions_if_it_can_have_been_the_victim(
    scene: Scene, closes: list[dict[str, Any]], kills: list[tuple[int, int]]
) -> None:
    scene.event()
    for each in closes:
        scene.closes(**each)
    assert [kills_of(record) for record in scene.records[: len(closes)]] == kills
    for line, (of_function, of_others) in zip(scene.output.lines, kills, strict=True):
        assert (line.get("OutOfMemory"), line.get("environmentKills")) == (of_function or None, of_others or None)


@pytest.mark.parametrize(("counts", "kills"), [(True, (0, 1)), (False, (None, 0))], ids=["in init", "nothing counts"])
def test_a_kill_in_init_is_not_the_first_invocations(scene: Scene, counts: bool, kills: KillCounts) -> None:
    scene.kills.counts, scene.kills.new = counts, 1
    scene.event()
    scene.closes(ended=True)
    scene.closes()
    assert [kills_of(record) for record in scene.records[:2]] == [kills, (0 if counts else None, 0)]


def hog(scene: Scene, has_ended: bool = True) -> None:
    """An extension holds more than the function."""
    scene.surroundings.extensions, scene.surroundings.held_kib = {"agent": 100 * MIB}, 100 * MIB
    scene.surroundings.ended = {"agent"} if has_ended else set()


@pytest.mark.parametrize("has_ended", [True, False])
def test_without_telemetry_a_kill_is_that_of_a_hog_that_ended(scene: Scene, has_ended: bool) -> None:
    hog(scene, has_ended)
    scene.event()
    scene.killed()
    (line,) = scene.output.lines
    assert line["ending"]["holder"]["extension"] == "agent"
    assert (line.get("OutOfMemory"), line.get("environmentKills")) == ((None, 1) if has_ended else (1, None))


@pytest.mark.parametrize("born", [0, 3])
@pytest.mark.parametrize("late", [0, 1], ids=["one window", "two windows"])
def test_an_extensions_kill_is_of_the_invocation_at_the_end(scene: Scene, born: int, late: int) -> None:
    """The extension has the event as soon as the sidecar, and takes memory before the sidecar counts, which may close
    two windows late."""
    scene.event()
    scene.surroundings.dying = 1
    scene.closes(kills=1, born=born)
    assert scene.history.kills == -1  # of the stand-in's 0: should we be killed now, the next one finds it
    for _ in range(late):
        scene.closes(born=born)
    scene.event(closed_by="shutdown", died="failure", process_exited=True)  # the platform ends the runtime before it
    *before, died = scene.output.lines
    assert [(each.get("OutOfMemory"), each.get("environmentKills")) for each in before] == [(None, None)] * (1 + late)
    assert (died.get("OutOfMemory"), died["environmentKills"]) == (None, 1)
    assert (died["status"], died["errorType"]) == ("error", "Extension.Crash")


DONE, REPORTED = (event(kind, "1", 0, status="success") for kind in (RUNTIME_DONE, REPORT))


def killed_after_the_function_was_done() -> Scene:
    """Exact mode closes the window when the runtime asks for more; extensions work on."""
    scene = Scene(reports=True)
    scene.event()
    scene.event(closed_by="next-request")
    hog(scene)
    scene.kills.new = 1
    return scene


def test_a_kill_after_the_function_was_done_is_on_its_record() -> None:
    """If the platform has not reported its success."""
    scene = killed_after_the_function_was_done()
    record = scene.records[0]
    record.join(DONE)
    assert scene.publisher.unreported() is record
    scene.closing.ended_after(record, "failure")
    scene.publisher.flush_all()
    (line,) = scene.output.lines
    assert (line["environmentKills"], line["status"], line["errorType"]) == (1, "error", "Extension.Crash")
    assert line["ending"]["holder"] == {"extension": "agent", "rss": 100.0}
    assert "OutOfMemory" not in line


def test_a_report_of_success_takes_back_what_was_concluded() -> None:
    scene = killed_after_the_function_was_done()
    record, reported = scene.records[0], scene.records[0].reported
    scene.closing.ended_after(record, "failure")
    record.join(DONE)
    assert (reported.status, reported.error_type) == ("error", "Extension.Crash")  # of before that
    record.join(REPORTED)
    assert (reported.status, reported.error_type, record.death) == ("success", None, None)
    assert scene.publisher.unreported() is None


@given(st.lists(st.tuples(st.integers(0, 2), st.booleans(), st.sampled_from([-1, 0, 4])), min_size=1, max_size=8))
def test_each_kill_is_on_one_record_that_of_its_window(closes: list[tuple[int, bool, int]]) -> None:
    scene = Scene()
    scene.event()
    for kills, ended, born in closes:
        scene.closes(kills, ended, born)
    for record, (kills, ended, born) in zip(scene.records, closes, strict=False):
        assert kills_of(record) == ((kills, 0) if ended or born else (0, kills))


def readings(several: bool) -> Any:
    """Of a function that has one process, or several."""
    made: Any = SimpleNamespace(readings=[None] * (1 + several), left=[], ended=[], killed=None)
    return made


MOMENTS: dict[str, tuple[list[tuple[str, int]], bool, list[int | None]]] = {
    # what is read, kills since the reading before; are there several processes; kills of the windows that end
    "while it runs": ([("end", 0), ("begin", 0), ("end", 1), ("begin", 0)], False, [0, 0, 1, 0]),
    "and the next one begins at once": ([("end", 0), ("begin", 0), ("end", 2), ("begin", 0)], False, [0, 0, 2, 0]),
    "between two": ([("end", 0), ("begin", 1), ("end", 0)], True, [0, 1, 0]),
    "its end is not seen": ([("end", 0), ("begin", 0), ("begin", 1)], False, [0, 0, 1]),
}


@pytest.mark.parametrize("settles", [True, False], ids=["calm", "busy"])
@pytest.mark.parametrize("name", MOMENTS)
def test_a_kill_is_of_the_window_in_which_it_was_counted(name: str, settles: bool) -> None:
    """Exact mode: the runtime waits while it is read. Kills are counted later where that tells as much."""
    steps, several, expected = MOMENTS[name]
    kernel = Kills()
    kills, taken = KillPlacement(cast("Any", kernel)), []
    for step, new in steps:
        kernel.new += new
        taken.append(readings(several))
        kills.count_at_rest(taken[-1], begins=step == "begin")
        if settles:
            kills.settle()
    kills.settle()
    assert [each.killed for each in taken] == expected


def test_a_kill_is_not_counted_while_one_process_waits() -> None:
    kernel = Kills()
    kills, asked, begun = KillPlacement(cast("Any", kernel)), readings(several=False), readings(several=False)
    kernel.new = 1
    kills.count_at_rest(asked, begins=False)
    assert kernel.new == 1
    kills.settle()
    kernel.new = 5
    kills.count_at_rest(begun, begins=True)
    assert (asked.killed, begun.killed, kernel.new) == (1, 0, 5)


def left_child(**known: Any) -> dict[str, Any]:
    """Of a window in the default mode: a child has ended in it, and was not waited for."""
    return {"end": Boundary(), "process_exited": True, "deaths": -1, **known}


@pytest.mark.parametrize(("done_ms", "told"), [(6, (1, None)), (4, (None, 1)), (None, (None, 1))])
def test_a_left_childs_kill_is_an_invocations_if_seen_in_it(
    done_ms: float | None, told: tuple[int | None, int | None]
) -> None:
    """Default mode: a window ends when the next event has come. What is seen after 5 ms may be from after its end."""
    scene = Scene(reports=True)
    scene.event()
    scene.kills.new = 1
    scene.closing.kills.look(lambda: 5_000_000)
    scene.event(**left_child())
    record = scene.records[0]
    if done_ms is not None:
        record.join(event(RUNTIME_DONE, "1", done_ms, status="success"))
    record.join(REPORTED)
    scene.publisher.print_one(record)
    (line,) = scene.output.lines
    assert (line.get("OutOfMemory"), line.get("environmentKills")) == told


CHILDREN: dict[str, tuple[dict[str, Any], int, bool]] = {
    "waited for": ({}, 100, True),
    "or not": ({"deaths": -1}, 100, False),
    "by the next invocation, perhaps": ({}, 9_000, False),
    "a daemon, perhaps": ({"orphans": True}, 100, False),
    "and was seen": ({"orphans": True, "deaths": 1}, 100, True),
    "none has ended": ({"process_exited": False, "births": -1}, 100, False),
}


@pytest.mark.parametrize("name", CHILDREN)
def test_a_kill_before_a_wait_is_that_invocations(scene: Scene, name: str) -> None:
    """Default mode: a window goes on until the next event has come, and `late_us` more."""
    known, late_us, is_certain = CHILDREN[name]
    scene.event()
    scene.kills.new = 1
    taken = scene.recorder.read_and_reset()
    closed = scene.recorder.close(taken, 0, taken.done_ns - late_us * 1000)._replace(
        **{"process_exited": True, **known}
    )
    record = scene.records[0]
    scene.closing.close(record, closed, "next-invoke")
    assert (record.kills(), record.unplaced_kills()) == (((1, 0), 0) if is_certain else ((0, 0), 1))


def test_a_runtime_that_the_next_event_kills_is_that_ones(scene: Scene) -> None:
    scene.event()
    scene.closes(kills=1, ended=True)
    scene.records[1].killed(0)
    scene.kills.new = 1
    scene.event(**left_child(closing=(), last=MIB))
    scene.closes(ended=True)
    assert [kills_of(record) for record in scene.records[1:3]] == [(0, 0), (1, 0)]


def test_a_child_that_is_dying_still_is_the_functions(scene: Scene) -> None:
    """The kernel counts a kill first; the memory of a large process takes some ms to give back."""
    scene.event()
    scene.table.processes[0].files.is_dying = lambda: True
    scene.closes(kills=1)
    assert kills_of(scene.records[0]) == (1, 0)


def test_a_kill_between_two_invocations_is_of_neither(scene: Scene) -> None:
    """The next line has the count; that an extension has ended it does not say."""
    scene.event()
    scene.closing.pass_between(Window(killed=1))
    scene.event(closed_by="shutdown", died="failure", process_exited=True)
    (line,) = scene.output.lines
    assert (line.get("OutOfMemory"), line["environmentKills"], line.get("errorType")) == (None, 1, None)


def test_a_peak_that_telemetry_raises_later_raises_the_mark(scene: Scene) -> None:
    """Max Memory Used has risen by more than was seen: a child that was not read, most likely."""
    scene.event()
    scene.closes(unread_mib=100)
    scene.process.touch(1)
    scene.event()
    first, second = scene.records[:2]
    scene.history.mark_mib = 90
    first.join(event(REPORT, "1", mark_mib=150))
    for record in (first, second):
        scene.publisher.print_one(record)
    lines = scene.output.lines[-2:]
    assert round(lines[0]["PeakRSS"] - START_KIB / MIB) == 60
    assert [line["highWaterMark"] for line in lines] == [lines[0]["PeakRSS"]] * 2
    assert scene.history.high_water_mark == first.high_water_mark


@given(st.lists(st.tuples(st.integers(0, 90), st.integers(0, 30)), min_size=1, max_size=6))
def test_a_mark_is_never_below_a_peak_nor_below_the_one_before(invocations: list[tuple[int, int]]) -> None:
    """Of each: MiB that it touches, and by how many MiB the mark rises."""
    scene = Scene(reports=True)
    scene.event()
    mark = 40
    for touched, rises in invocations:
        scene.process.touch(touched)
        scene.closes(unread_mib=100)
        mark += rises
        record = scene.records[-2]
        record.join(event(REPORT, record.request_id, mark_mib=mark))
    scene.publisher.flush_all()
    lines = scene.output.lines
    assert len(lines) == len(invocations) + 1
    marks = [line["highWaterMark"] for line in lines if "highWaterMark" in line]
    assert marks == sorted(marks)
    assert all(line["highWaterMark"] >= line["PeakRSS"] for line in lines if "PeakRSS" in line)


SHUTDOWN, GONE = {"closed_by": "shutdown"}, {"closing": (), "last": 70 * MIB}
LIVED: dict[str, tuple[dict[str, Any], bool]] = {
    "it lives": ({}, True),
    "a child has just ended": ({"dying": True}, True),
    "it lives at SHUTDOWN": (SHUTDOWN, True),
    "it was stopped": ({**SHUTDOWN, **GONE}, False),
    "it was killed": ({**SHUTDOWN, **GONE, "died": "failure"}, False),
    "a part of it was killed": ({**SHUTDOWN, "died": "failure", "dying": True}, False),
}


@pytest.mark.parametrize("name", LIVED)
def test_the_environments_level_is_printed_with_the_functions(scene: Scene, name: str) -> None:
    about, is_told = LIVED[name]
    scene.surroundings.usage = MemoryUsage("cgroup2", 200 * MIB, 300 * MIB)
    scene.event()
    scene.event(**about)
    scene.publisher.flush_all()
    told = {"used": 200.0} if is_told else {}
    assert scene.output.lines[0]["environment"] == {"source": "cgroup2", **told, "peak": 300.0}


# What the log says at the first invocation


def noticed(folder: Path, capfd: pytest.CaptureFixture[str]) -> list[str]:
    table = ProcessTable(Procfs(str(folder)), "127.0.0.1:9001", last_pid=24, own_pid=20)
    table.scan()
    recorder: Any = SimpleNamespace(reader=SimpleNamespace(refused=""))
    surroundings: Any = SimpleNamespace(source="meminfo")
    parts: Any = SimpleNamespace(
        config=Config({}),
        table=table,
        recorder=recorder,
        environment_memory=surroundings,
        unsubscribed="",
        wings=Wings(),
    )
    notice(parts, "vmhwm")
    return capfd.readouterr().err.splitlines()


def test_with_a_function_one_line_says_what_there_is(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (line,) = noticed(unpack("emulator", tmp_path), capfd)
    says = "method=vmhwm function processes=2 environment=meminfo telemetry=on mode=default limit=unknown MiB"
    assert line == f"truemem INFO {says}"


def test_without_a_function_it_says_what_it_looked_for(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    unpack("emulator", tmp_path)
    for pid in "30", "31":
        shutil.rmtree(tmp_path / pid)
    _, line = noticed(tmp_path, capfd)
    assert line.startswith("truemem WARN no process of the function is found, nothing is measured: it is what")
    assert "started by pid 5 after us; seen instead: 4 of extensions, 0 with another" in line
    assert "127.0.0.1:9001" not in line


class Broken(Wing):
    """A bug in a wing."""

    def window_closed(self, *_: object, **__: object) -> None:
        raise MemoryError

    def members(self, record: PendingRecord) -> dict[str, object]:
        raise ValueError


def test_what_fails_in_a_wing_costs_no_kill_and_no_line() -> None:
    scene = Scene(wing=lambda _: Broken())
    scene.event()
    scene.kills.new = 1
    scene.event(process_exited=True)
    assert scene.records[0].kernel_kills == 1
    assert scene.publisher.current() is scene.records[1]
