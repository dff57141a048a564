"""What a closed window leaves on its record, in the journal and in the log: a simulated process, the real recorder."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from truemem.config import Config
from truemem.lifecycle.window_closer import WindowCloser
from truemem.linux.heap_page import Heap
from truemem.linux.proc_text import Gone
from truemem.linux.process_table import FUNCTION, Process
from truemem.linux.procfs import Procfs
from truemem.measure.environment_memory import HeldMemory
from truemem.measure.race import NEVER
from truemem.measure.recorder import Recorder
from truemem.measure.sampling_schedule import Budget
from truemem.measure.window import Window
from truemem.platform.telemetry_events import REPORT, RUNTIME_DONE, Event
from truemem.records import emf, recovery
from truemem.records.environment_state import EnvironmentState
from truemem.records.journal import Journal
from truemem.records.pending_record import PendingRecord
from truemem.records.publisher import Publisher
from truemem.support.clock import Clock, RunningClock
from truemem.support.log import set_level

from tests.unit.test_race import START_KIB, Table, World

PROC = Procfs()
"""One for all tests: it keeps a descriptor."""

MIB = 1024
DONE = Event(RUNTIME_DONE, {"requestId": "1", "status": "success"}, 1)
SIZED = {b"AWS_LAMBDA_FUNCTION_MEMORY_SIZE": b"128"}


class Quiet(World):
    """A world in which nothing happens between two system calls."""

    def __init__(self) -> None:
        super().__init__(lambda strategy: 0)

    def touch(self, mib: int) -> None:
        """Allocate so much, and free it again."""
        self.begin([mib * MIB, -mib * MIB])
        self.finish()


class Family(Table):
    """That process, and children that have ended before they could be read."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.ended: list[Any] = []
        self.gone = False

    def function(self) -> list[Process]:
        return [] if self.gone else [self.process, *self.ended]

    def forget(self, process: Process, zombie: bool = False) -> bool:
        self.ended.remove(process)
        return True


class Ended:
    """The files of a child that has ended, and was not waited for: it has no memory."""

    def __getattr__(self, name: str) -> Any:
        raise Gone(f"{name}: a zombie")

    def final_faults(self) -> int | None:
        return None


class Output:
    """In place of stdout."""

    dropped = 0

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []

    def put(self, line: str, *_: object) -> None:
        self.lines.append(json.loads(line))

    def flush(self, wait_ms: int = 0) -> None: ...


class Surroundings:
    """Nothing but the function, and what it says of its children."""

    held_kib = 0
    children_kib: int | None = None

    def __init__(self) -> None:
        self.extensions: dict[str, int] = {}
        self.ended: set[str] = set()
        self.dying = 0

    def look(self) -> None: ...

    def dying_extensions(self) -> int:
        return self.dying

    def read(self) -> HeldMemory:
        return HeldMemory(None, 0, {})

    def noted_by_probe(self, request_id: str, since_ms: int) -> Heap | None:
        return None if self.children_kib is None else Heap(0, 0, 0, [], 1, "none", self.children_kib)


class Kills:
    """So many the kernel has killed since it was asked last."""

    seen = 0
    new = 0
    counts = True

    def more(self) -> int | None:
        new, self.new = self.new, 0
        return new if self.counts else None


class Scene:
    """One environment: its process, and what the sidecar does with its windows."""

    def __init__(self, reports: bool = False, journal: str = "") -> None:
        self.world = Quiet()
        self.table = Family(self.world)
        self.kills, self.output, self.surroundings = Kills(), Output(), Surroundings()
        self.recorder = Recorder(self.table, PROC, clock=lambda: self.world.now_ns)  # type: ignore[arg-type]
        history = EnvironmentState()
        config = Config(SIZED)
        self.publisher = Publisher(config, reports, history, Journal(journal), lambda: 0)
        output: Any = self.output
        self.publisher._output = output
        parts: Any = SimpleNamespace(
            config=config,
            recorder=self.recorder,
            environment_memory=self.surroundings,
            kills=self.kills,
            clock=Clock(),
            resources=None,
        )
        self.closing = WindowCloser(parts, self.publisher, RunningClock(parts.clock), history, Budget(0.01, 1.0, 0))
        self.records: list[PendingRecord] = []

    def event(
        self, closed_by: str = "next-invoke", died: str = "", seen: Callable[[Window], None] | None = None
    ) -> None:
        """INVOKE or SHUTDOWN, at a function that rests until its own event comes. `seen`: what else the window has."""
        closed = self.recorder.close(self.recorder.read_and_reset(), NEVER)
        self.recorder.adopt_new_processes(closed)
        if seen is not None:
            seen(closed)
        if self.records:
            self.closing.close(self.records[-1], closed, closed_by, died)
        if closed_by == "next-invoke":
            self.records.append(PendingRecord(str(len(self.records) + 1), len(self.records) + 1, 0))
            self.closing.open(self.records[-1], closed if len(self.records) == 1 else None)
        elif not self.records:
            self.closing.died_in_init(closed, died)
        while self.publisher.print_due(0):
            pass

    def closes(
        self, kills: int = 0, ended: bool = False, born: int = 0, unread_mib: int = 0, gone: bool = False
    ) -> None:
        """The next INVOKE: the kernel has counted `kills`; a process of the function has `ended`, `born` pids were
        given out, children held `unread_mib` at most. `gone`: the runtime has ended by the time that it is closed."""

        def seen(window: Window) -> None:
            window.process_exited, window.born, window.births = ended, born, born
            window.unread = unread_mib * MIB
            self.table.gone = gone

        self.kills.new = kills
        self.event(seen=seen)
        self.table.gone = False

    def mib_above(self, name: str) -> list[float]:
        """A member of each line, above the level at which all began."""
        return [round(line[name] - START_KIB / MIB, 1) for line in self.output.lines]


@pytest.fixture
def scene() -> Scene:
    """In the init phase."""
    return Scene()


def dead(scene: Scene) -> None:
    """The kernel kills a process of the function, and SHUTDOWN comes."""
    scene.kills.new = 1
    scene.recorder.window.process_exited = True
    scene.event(closed_by="shutdown", died="failure")


def test_each_invocation_and_the_init_phase_have_their_own_peak_and_the_mark_never_falls(scene: Scene) -> None:
    scene.world.touch(70)
    scene.event()
    for mib in (100, 40, 60):
        scene.world.touch(mib)
        scene.event()
    assert scene.mib_above("PeakRSS") == scene.mib_above("peakUpper") == [100, 40, 60]
    assert scene.mib_above("highWaterMark") == [100, 100, 100]
    assert scene.mib_above("CurrentRSS") == [0, 0, 0]
    assert round(scene.output.lines[0]["initPeakRSS"] - START_KIB / MIB, 1) == 70
    assert ["initPeakRSS" in line for line in scene.output.lines] == [True, False, False]


def test_the_mark_is_that_of_the_init_phase_where_it_was_higher(scene: Scene) -> None:
    scene.world.touch(70)
    scene.event()
    scene.world.touch(10)
    scene.event()
    assert (scene.mib_above("highWaterMark"), scene.mib_above("PeakRSS")) == ([70], [10])


def test_what_is_known_of_a_death_outlives_the_sidecar_before_it_is_printed(tmp_path: Path) -> None:
    """The line waits for its report for up to 250 ms, and the platform does not wait for ever."""
    path = str(tmp_path / "journal")
    scene = Scene(reports=True, journal=path)
    scene.event()
    scene.recorder.window.curve.see(scene.world.now_ns, 77 * MIB)
    dead(scene)
    assert scene.output.lines == []
    (record,) = recovery.records(Journal(path), EnvironmentState(), Config(SIZED), 0)
    line = json.loads(emf.line(record, Config(SIZED)))
    assert (line["requestId"], line["OutOfMemory"], line["recovered"]) == ("1", 1, True)
    assert line["outOfMemory"]["signals"][0] == "kernel"
    assert line["ending"]["level"] > 0
    assert line["lastSamples"][-1][1] == 77
    scene.publisher.flush_all()
    assert [line["requestId"] for line in scene.output.lines] == ["1"]


def test_an_init_phase_that_dies_is_told_in_the_log(scene: Scene, capfd: pytest.CaptureFixture[str]) -> None:
    set_level("info")
    dead(scene)
    log = capfd.readouterr().err
    assert log.startswith("truemem WARN before its first invocation the environment has ended with a failure, out of ")
    assert "(kernel" in log
    assert '"level":' in log
    assert scene.output.lines == []


def test_without_telemetry_shutdown_says_that_it_timed_out(scene: Scene) -> None:
    scene.event()
    scene.event(closed_by="shutdown", died="timeout")
    assert (scene.records[0].status, scene.output.lines[0]["closedBy"]) == ("timeout", "shutdown")


def test_a_child_that_was_killed_unseen_is_of_the_window_that_is_closed(scene: Scene) -> None:
    """It is found when the next event has come, without memory."""
    scene.event()
    scene.kills.new = 1
    closed = scene.recorder.close(scene.recorder.read_and_reset(), NEVER)
    assert not closed.process_exited
    scene.table.ended.append(Process(99, 12, 1, FUNCTION, Ended()))  # type: ignore[arg-type]
    scene.recorder.adopt_new_processes(closed)
    assert closed.process_exited
    scene.closing.close(scene.records[0], closed, "next-invoke")
    assert scene.records[0].kernel_kills == 1
    assert scene.recorder.window.process_exited  # or it has ended since


Told = tuple[int | None, int]


def told(record: PendingRecord) -> Told:
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
def test_a_kill_is_the_functions_if_one_of_its_processes_can_have_been_the_victim(
    scene: Scene, closes: list[dict[str, Any]], kills: list[tuple[int, int]]
) -> None:
    scene.event()
    for each in closes:
        scene.closes(**each)
    assert [told(record) for record in scene.records[: len(closes)]] == kills
    for line, (of_function, of_others) in zip(scene.output.lines, kills, strict=True):
        assert (line.get("OutOfMemory"), line.get("environmentKills")) == (of_function or None, of_others or None)


@pytest.mark.parametrize(("counts", "kills"), [(True, (0, 1)), (False, (None, 0))], ids=["in init", "nothing counts"])
def test_a_kill_in_init_is_not_the_first_invocations(scene: Scene, counts: bool, kills: Told) -> None:
    scene.kills.counts, scene.kills.new = counts, 1
    scene.event()
    scene.closes(ended=True)
    scene.closes()
    assert [told(record) for record in scene.records[:2]] == [kills, (0 if counts else None, 0)]


@pytest.mark.parametrize("has_ended", [True, False])
def test_without_telemetry_a_kill_is_the_largest_extensions_if_it_has_ended(scene: Scene, has_ended: bool) -> None:
    scene.surroundings.extensions, scene.surroundings.held_kib = {"agent": 100 * MIB}, 100 * MIB
    scene.surroundings.ended = {"agent"} if has_ended else set()
    scene.event()
    dead(scene)
    (line,) = scene.output.lines
    assert line["ending"]["holder"]["extension"] == "agent"
    assert (line.get("OutOfMemory"), line.get("environmentKills")) == ((None, 1) if has_ended else (1, None))


@pytest.mark.parametrize("born", [0, 3])
def test_a_kill_of_an_extension_is_of_the_invocation_that_the_environment_ends_with(scene: Scene, born: int) -> None:
    """The extension has the event as soon as the sidecar, and takes memory before the sidecar counts."""
    scene.event()
    scene.surroundings.dying = 1
    scene.closes(kills=1, born=born)
    assert scene.publisher._history.kills == -1  # of the stand-in's 0: should we be killed now, the next one finds it
    scene.recorder.window.process_exited = True  # the platform ends the runtime before SHUTDOWN
    scene.event(closed_by="shutdown", died="failure")
    before, died = scene.output.lines
    assert (before.get("OutOfMemory"), before.get("environmentKills")) == (None, None)
    assert (died.get("OutOfMemory"), died["environmentKills"]) == (None, 1)
    assert (died["status"], died["errorType"]) == ("error", "Extension.Crash")


def killed_after_the_function_was_done() -> Scene:
    """Exact mode closes the window when the runtime asks for more; extensions work on."""
    scene = Scene(reports=True)
    scene.event()
    scene.event(closed_by="next-request")
    scene.surroundings.extensions, scene.surroundings.held_kib = {"agent": 100 * MIB}, 100 * MIB
    scene.surroundings.ended, scene.kills.new = {"agent"}, 1
    return scene


def test_a_kill_after_the_function_was_done_is_of_the_invocation_that_is_not_reported() -> None:
    scene = killed_after_the_function_was_done()
    record = scene.records[0]
    record.reported(DONE)
    assert scene.publisher.unreported() is record
    scene.closing.ended_after(record, "failure")
    scene.publisher.flush_all()
    (line,) = scene.output.lines
    assert (line["environmentKills"], line["status"], line["errorType"]) == (1, "error", "Extension.Crash")
    assert line["ending"]["holder"] == {"extension": "agent", "rss": 100.0}
    assert "OutOfMemory" not in line


def test_a_report_of_success_takes_back_what_was_concluded() -> None:
    scene = killed_after_the_function_was_done()
    record = scene.records[0]
    scene.closing.ended_after(record, "failure")
    record.reported(DONE)
    assert (record.status, record.error_type) == ("error", "Extension.Crash")  # of before that
    record.reported(DONE._replace(kind=REPORT))
    assert (record.status, record.error_type, record.death) == ("success", None, None)
    assert scene.publisher.unreported() is None


@given(st.lists(st.tuples(st.integers(0, 2), st.booleans(), st.sampled_from([-1, 0, 4])), min_size=1, max_size=8))
def test_each_kill_is_told_once_with_the_invocation_that_was_closed_then(closes: list[tuple[int, bool, int]]) -> None:
    scene = Scene()
    scene.event()
    for kills, ended, born in closes:
        scene.closes(kills, ended, born)
    for record, (kills, ended, born) in zip(scene.records, closes, strict=False):
        assert told(record) == ((kills, 0) if ended or born else (0, kills))


def test_a_peak_that_telemetry_raises_when_its_window_is_closed_raises_the_mark(scene: Scene) -> None:
    """Max Memory Used has risen by more than was seen: a child that was not read, most likely."""
    scene.event()
    scene.closes(unread_mib=100)
    scene.world.touch(1)
    scene.event()
    first, second = scene.records[:2]
    scene.publisher._history.mark_mib = 90
    first.max_memory_used_mib = 150
    for record in (first, second):
        scene.publisher.print_one(record)
    lines = scene.output.lines[-2:]
    assert round(lines[0]["PeakRSS"] - START_KIB / MIB) == 60
    assert [line["highWaterMark"] for line in lines] == [lines[0]["PeakRSS"]] * 2
    assert scene.publisher._history.high_water_mark == first.high_water_mark


@given(st.lists(st.tuples(st.integers(0, 90), st.integers(0, 30)), min_size=1, max_size=6))
def test_a_mark_is_never_below_its_own_peak_nor_below_the_mark_before(invocations: list[tuple[int, int]]) -> None:
    """Of each: MiB that it touches, and by how many MiB the mark rises."""
    scene = Scene(reports=True)
    scene.event()
    mark = 40
    for touched, rises in invocations:
        scene.world.touch(touched)
        scene.closes(unread_mib=100)
        mark += rises
        scene.records[-2].max_memory_used_mib = mark
    scene.publisher.flush_all()
    lines = scene.output.lines
    assert len(lines) == len(invocations) + 1
    marks = [line["highWaterMark"] for line in lines if "highWaterMark" in line]
    assert marks == sorted(marks)
    assert all(line["highWaterMark"] >= line["PeakRSS"] for line in lines if "PeakRSS" in line)


@pytest.mark.parametrize(
    ("children_mib", "peaks"),
    [
        ([None, None], [10, 10]),  # without the probe
        ([200, 200], [10, 10]),  # the first says nothing of when; the second is no other than the first
        ([20, 200], [10, 200]),
        ([20, 40], [10, 10]),  # less than the parent held: what a child has before exec()
    ],
)
def test_a_child_larger_than_all_before_is_this_invocations(
    scene: Scene, children_mib: list[int | None], peaks: list[float]
) -> None:
    scene.event()
    for mib in children_mib:
        scene.surroundings.children_kib = mib * MIB if mib is not None else None
        scene.world.touch(10)
        scene.event()
    above = [peak - START_KIB / MIB * (peak == 200) for peak in peaks]  # the child's own, or above the level
    assert scene.mib_above("PeakRSS") == pytest.approx(above, abs=0.1)
