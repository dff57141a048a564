"""Windows closed at rest, and taken back where it was none: over a simulated process, under the real recorder.

What must hold is what holds for any other window: the truth lies within the bounds, and what is not called raced is
exact; and no line is printed before its rest is confirmed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from truemem import closing, publisher, recovery
from truemem import recorder as recorder_module
from truemem.closing import Closing
from truemem.config import Config
from truemem.history import History
from truemem.journal import Journal
from truemem.kernel import FAULT_KIB
from truemem.procfs import Gone, Procfs, Stat
from truemem.publisher import Publisher
from truemem.race import ASLEEP_NS, AWAKE_NS, STILL_KIB
from truemem.record import InvocationRecord
from truemem.recorder import Cut, Reading, Recorder
from truemem.running_clock import RunningClock
from truemem.telemetry import REPORT, RUNTIME_DONE, Event
from truemem.window import KERNEL_SLACK_KIB

from tests.unit.test_race import START_KIB, TURNS, US, Clock, Table, World, changes

MIB = 1024
SIZED = {b"AWS_LAMBDA_FUNCTION_MEMORY_SIZE": b"128"}


@pytest.fixture(autouse=True)
def simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulated files give values instead of texts, and each scene has a clock of its own."""
    for module in (recorder_module, closing):
        monkeypatch.setattr(module, "time", vars(module)["time"])
    monkeypatch.setattr(recorder_module, "parse_stat", lambda value: value)
    monkeypatch.setattr(recorder_module, "parse_status", lambda value: value)
    monkeypatch.setattr(recorder_module, "probe", lambda proc: "")
    monkeypatch.setattr(recorder_module, "fault_kib", lambda: FAULT_KIB)


class Output:
    """In place of stdout."""

    dropped = 0

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []

    def put(self, line: str, *_: object) -> None:
        self.lines.append(json.loads(line))

    def flush(self, wait_ms: int = 0) -> None: ...


class Watch:
    """Says of the runtime whatever the test wants."""

    def __init__(self) -> None:
        self.rests: bool | None = True
        """Has it sent nothing since it was seen waiting? None where nobody knows."""
        self.rested = 0

    def unmoved(self) -> bool | None:
        return self.rests

    def back_for_ms(self) -> float:
        return 0.7

    def rest(self) -> None:
        self.rested += 1


class Surroundings:
    """Nothing but the function."""

    held_kib = 0
    extensions: dict[str, int] = {}  # noqa: RUF012 - never filled

    def look(self) -> None: ...

    def describe(self, record: object) -> None: ...


class Kills:
    """As many as the kernel has killed in each window in which somebody ended."""

    seen = 0
    killed = 0

    def more(self) -> int:
        return self.killed


class Scene:
    """One environment: its process, and what the sidecar does with its windows."""

    def __init__(self, world: World, reports: bool = False, journal: str = "") -> None:
        self.world = world
        self.kills = Kills()
        self.watch = Watch()
        self.output = Output()
        vars(recorder_module)["time"] = vars(closing)["time"] = Clock(world)
        self.recorder = Recorder(Table(world), Procfs())  # type: ignore[arg-type]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(publisher, "Output", lambda **_: self.output)
            self.publisher = Publisher(Config(SIZED), reports, History(), Journal(journal), lambda: 0)
        parts: list[Any] = [self.recorder, self.publisher, self.watch, Surroundings(), RunningClock()]
        parts += [History(), self.kills]
        self.closing = Closing(*parts)
        self.records: list[InvocationRecord] = []
        self.let_go: list[float] = []
        self.event_has_come = False
        self.over = False

    def event(
        self, arrived_ns: int | None = None, looked_ns: int = 0, closed_by: str = "next-invoke", died: str = ""
    ) -> None:
        """INVOKE or SHUTDOWN, as the sidecar answers to it."""
        cut = self.closing.cut()
        closed = self.recorder.close(cut, arrived_ns, looked_ns) if cut is not None else None
        if closed is not None:
            self.closing.close(closed_by, closed, died)
        if closed_by == "next-invoke":
            self.records.append(InvocationRecord(str(len(self.records) + 1), len(self.records) + 1, 0))
            self.closing.begin(self.records[-1], closed if len(self.records) == 1 else None)
        self.print_due()

    def rest(self, done: Event | None = None, looked_ns: int = 0) -> bool:
        closed = self.closing.rest(done, lambda: self.event_has_come, self.let_go.append, looked_ns)
        self.print_due()
        return closed

    def print_due(self) -> None:
        while self.publisher.print_due(0):
            pass

    def printed(self) -> list[str]:
        """Request ids."""
        return [line["requestId"] for line in self.output.lines]


class Quiet(World):
    """A world in which nothing happens between two system calls."""

    def __init__(self) -> None:
        super().__init__(lambda strategy: 0)

    def touch(self, mib: int) -> None:
        """Allocate so much, and free it again."""
        for change in (mib * MIB, -mib * MIB):
            self.queue.append(change)
            self.act()


@pytest.fixture
def scene() -> Scene:
    """In the first invocation, which has touched 100 MiB."""
    made = Scene(Quiet())
    made.event()
    touch(made, 100)
    return made


def touch(scene: Scene, mib: int) -> None:
    assert isinstance(scene.world, Quiet)
    scene.world.touch(mib)


def done() -> Event:
    return Event(RUNTIME_DONE, {"requestId": "1"}, None)


def mib_above(scene: Scene, name: str) -> float:
    """A member of the last line, above the level at which all began."""
    value: float = scene.output.lines[-1][name]
    return round(value - START_KIB / MIB, 1)


# A rest that is one


def test_a_rest_is_confirmed_at_the_next_event_and_only_then_printed(scene: Scene) -> None:
    assert scene.rest()
    assert (scene.watch.rested, scene.let_go) == (1, [0.7])
    assert scene.printed() == []
    scene.event()
    (line,) = scene.output.lines
    assert line["closedBy"] == "idle"
    assert mib_above(scene, "PeakRSS") == mib_above(scene, "peakUpper") == 100
    assert "raced" not in line


def test_its_report_does_not_make_it_known(scene: Scene) -> None:
    scene.rest()
    scene.publisher.join(Event(REPORT, {"requestId": "1", "metrics": {"durationMs": 20}}))
    scene.print_due()
    assert scene.printed() == []


def test_the_window_after_it_is_the_next_invocations_and_is_not_cut_at_its_event(scene: Scene) -> None:
    """So there is no race: what the function does before we come to it is in its own window."""
    scene.rest()
    touch(scene, 40)  # the next event is at the runtime already
    scene.event()
    touch(scene, 10)
    scene.rest()
    scene.event()
    assert mib_above(scene, "PeakRSS") == 40
    assert "raced" not in scene.output.lines[-1]
    assert "resetDelayUs" not in scene.output.lines[-1]


def test_the_platforms_word_is_a_rest_that_needs_no_confirmation(scene: Scene) -> None:
    scene.watch.rests = False
    assert scene.rest(done())
    assert scene.printed() == ["1"]
    assert scene.output.lines[0]["closedBy"] == "runtime-done"
    assert (scene.watch.rested, len(scene.let_go)) == (0, 1)


# What is no rest


@pytest.mark.parametrize("why", ["an event has come", "the runtime has sent more", "it is awake", "it is allocating"])
def test_what_is_no_rest_closes_nothing_and_loses_nothing(scene: Scene, why: str) -> None:
    scene.event_has_come = why == "an event has come"
    scene.watch.rests = why != "the runtime has sent more"
    world = scene.world
    with pytest.MonkeyPatch.context() as patch:
        if why == "it is awake":
            patch.setattr(world, "pass_time", lambda: setattr(world, "state", b"R"))
        elif why == "it is allocating":
            patch.setattr(world, "pass_time", lambda: touch(scene, 1))
        assert not scene.rest()
    assert (scene.let_go, scene.watch.rested) == ([], 0)
    assert scene.publisher.current() is scene.records[0]

    scene.event_has_come, scene.watch.rests, world.state = False, True, b"S"
    assert scene.rest()
    scene.event()
    assert mib_above(scene, "PeakRSS") == 100


def stat(state: bytes, faults: int, rss: int) -> Any:
    return Stat(state, 1, faults, 0, 1, 1, rss)


ASLEEP = (stat(b"S", 10, 500), stat(b"S", 10, 500))
AWAKE = (stat(b"R", 10, 500), stat(b"R", 10, 500))


@pytest.mark.parametrize(
    ("looks", "ended", "rests"),
    [
        # of each process, the runtime first: before the reset, and after it
        ([ASLEEP], 0, True),
        ([ASLEEP, AWAKE], 0, True),  # a child that only waits for something else
        ([AWAKE, ASLEEP], 0, False),
        ([(stat(b"S", 10, 500), stat(b"R", 10, 500))], 0, False),
        ([(stat(b"S", 10, 500), stat(b"S", 11, 504))], 0, False),
        ([ASLEEP, (stat(b"S", 10, 500), stat(b"S", 10, 300))], 0, False),
        ([ASLEEP], 1, False),  # some process is gone
        ([], 0, False),
    ],
)
def test_is_a_cut_at_rest(looks: list[tuple[Any, Any]], ended: int, rests: bool) -> None:
    cut = Cut()
    process: Any = None
    cut.readings = [Reading(process, before, b"", after, 0) for before, after in looks]
    cut.ended = [process] * ended
    assert cut.at_rest() is rests


# A rest that turns out to have been early


def test_what_came_after_an_early_rest_widens_the_bounds(scene: Scene) -> None:
    scene.rest()
    touch(scene, 300)
    scene.watch.rests = False
    scene.event()
    (line,) = scene.output.lines
    assert (mib_above(scene, "peakLower"), mib_above(scene, "peakUpper")) == (100, 300)
    assert (line["closedBy"], line["raced"]) == ("next-invoke", True)


def test_what_came_after_it_and_was_less_changes_nothing(scene: Scene) -> None:
    scene.rest()
    touch(scene, 50)
    scene.watch.rests = False
    scene.event()
    assert mib_above(scene, "peakLower") == mib_above(scene, "peakUpper") == 100
    assert "raced" not in scene.output.lines[0]


def test_the_next_invocation_gets_nothing_of_it(scene: Scene) -> None:
    scene.rest()
    touch(scene, 300)
    scene.watch.rests = False
    scene.event()
    touch(scene, 20)
    scene.rest(done())
    assert mib_above(scene, "PeakRSS") == 20


def test_the_platforms_word_may_find_out_as_well(scene: Scene) -> None:
    scene.rest()
    touch(scene, 300)
    scene.watch.rests = False
    assert not scene.closing.confirm()
    scene.rest(done())
    assert scene.output.lines[0]["closedBy"] == "runtime-done"
    assert mib_above(scene, "peakUpper") == 300
    scene.event()
    assert len(scene.output.lines) == 1


# A rest that only platform.runtimeDone can tell from none


@pytest.fixture
def undecided() -> Scene:
    """At the next event the runtime has sent something, and it may be the response to that event."""
    made = Scene(Quiet(), reports=True)
    made.event()
    touch(made, 100)
    made.rest()
    touch(made, 300)
    made.watch.rests = None
    made.event()
    return made


def printed_first(scene: Scene) -> dict[str, Any]:
    """The line of the first invocation, once its report has come."""
    scene.event()
    assert scene.printed() == []
    scene.publisher.join(Event(REPORT, {"requestId": "1"}))
    scene.print_due()
    (line,) = scene.output.lines
    return line


def test_where_a_short_invocation_has_followed_at_once_the_platforms_word_decides(undecided: Scene) -> None:
    undecided.records[0].decide(rested=True)
    line = printed_first(undecided)
    assert (line["closedBy"], line["PeakRSS"]) == ("idle", line["peakUpper"])
    assert mib_above(undecided, "PeakRSS") == mib_above(undecided, "highWaterMark") == 100
    assert "raced" not in line


def test_what_was_done_before_we_came_to_it_is_the_next_ones_and_its_marks(undecided: Scene) -> None:
    undecided.records[0].decide(rested=True)
    printed_first(undecided)
    second = undecided.records[1]
    assert second.peak is not None
    assert second.peak.upper >= second.high_water_mark == START_KIB + 300 * MIB


@pytest.mark.parametrize("word", ["against it", "none"])
def test_and_may_decide_against_it_or_be_lost(undecided: Scene, word: str) -> None:
    if word == "against it":
        undecided.records[0].decide(rested=False)
    line = printed_first(undecided)
    assert (mib_above(undecided, "peakLower"), mib_above(undecided, "peakUpper")) == (100, 300)
    assert mib_above(undecided, "highWaterMark") == 300
    assert (line["closedBy"], line["raced"]) == ("next-invoke", True)


def test_at_shutdown_as_well(scene: Scene) -> None:
    scene.rest()
    touch(scene, 300)
    scene.watch.rests = False
    scene.event(closed_by="shutdown")
    assert scene.output.lines[0]["closedBy"] == "shutdown"
    assert mib_above(scene, "peakUpper") == 300


def test_what_is_left_at_the_end_is_printed_as_it_is(scene: Scene) -> None:
    scene.rest()
    scene.publisher.print_rest()
    assert scene.printed() == ["1"]


def test_what_was_left_behind_is_what_there_was_at_last(scene: Scene) -> None:
    scene.rest()
    scene.world.queue.append(30 * MIB)
    scene.world.act()
    scene.watch.rests = False
    scene.event()
    assert mib_above(scene, "CurrentRSS") == 30


# The mark


def test_the_high_water_mark_never_falls(scene: Scene) -> None:
    scene.rest()
    scene.event()
    touch(scene, 10)
    scene.rest()
    scene.event()
    assert [line["highWaterMark"] for line in scene.output.lines] == [scene.output.lines[0]["PeakRSS"]] * 2


def test_the_high_water_mark_knows_of_what_came_after_an_early_rest(scene: Scene) -> None:
    scene.rest()
    touch(scene, 300)
    scene.watch.rests = False
    scene.event()
    assert mib_above(scene, "highWaterMark") == 300


def test_the_init_phase_has_a_peak_of_its_own() -> None:
    scene = Scene(Quiet())
    touch(scene, 70)
    scene.event()
    touch(scene, 10)
    scene.rest(done())
    assert mib_above(scene, "initPeakRSS") == mib_above(scene, "highWaterMark") == 70
    assert mib_above(scene, "PeakRSS") == 10


# Whatever comes between


class Sleepy(World):
    """A function that may also sleep with work left to do."""

    def pass_time(self) -> None:
        super().pass_time()
        if self.now_ns >= self.awake_until_ns and self.draw(st.booleans()):
            self.state = b"S"


def check(scene: Scene, truths: list[int]) -> None:
    """What each line says, beside what its invocation really did."""
    assert scene.printed() == [record.request_id for record in scene.records]
    for record, truth in zip(scene.records, truths, strict=True):
        found = record.peak
        assert found is not None
        assert not record.provisional
        assert found.lower - STILL_KIB <= truth <= found.upper + STILL_KIB, (record.closed_by, found.lower, found.upper)
        if not found.raced:
            assert abs(found.estimate - truth) <= KERNEL_SLACK_KIB


def at_the_event(early: bool) -> st.SearchStrategy[bool | None]:
    """What the watch may say then of the last rest."""
    return st.sampled_from([None, False] if early else [None, False, True])


@settings(max_examples=100, deadline=None)
@given(
    data=st.data(), invocations=st.lists(changes, min_size=1, max_size=4), timestamps=st.booleans(), wrong=st.booleans()
)
def test_whatever_is_taken_for_a_rest_the_bounds_hold(
    data: st.DataObject, invocations: list[list[int]], timestamps: bool, wrong: bool
) -> None:
    """The connections may say that the runtime waits while it does not (`wrong`). That comes out at the next event:
    by then it has sent its response."""
    world = Sleepy(data.draw)
    scene = Scene(world)
    truths = []
    early = False  # the last window was closed at a rest that was none
    scene.recorder.close(scene.recorder.cut(), None, at_rest=True)
    for made in invocations:
        looked = world.now_ns = world.now_ns + 50_000 * US
        arrived = looked + 1
        after = data.draw(st.sampled_from([AWAKE_NS, ASLEEP_NS, 20 * ASLEEP_NS])) + 1
        world.begin(made, arrived + after, arrived + ASLEEP_NS + 1)
        world.now_ns = arrived
        scene.event_has_come = True
        for act in data.draw(st.sampled_from([*TURNS, ("done",)])):
            if act == "tick":
                scene.recorder.sample(late=data.draw(st.booleans()))
            elif scene.publisher.current() is not None:
                scene.rest(done() if act == "done" else None, looked)
        scene.event_has_come = False
        scene.watch.rests = data.draw(at_the_event(early))
        scene.event(arrived if timestamps else None, looked)
        if data.draw(st.booleans()):  # the platform's word on the one before
            for record in scene.records[-2:-1]:
                record.decide(rested=not early)
        early = False
        for _ in range(data.draw(st.integers(0, 3))):
            if data.draw(st.booleans()):
                scene.recorder.sample(late=data.draw(st.booleans()), held=data.draw(st.booleans()))
            elif scene.publisher.current() is not None:
                busy = bool(world.queue)
                scene.watch.rests = wrong or not busy
                early = scene.rest() and busy
        truths.append(world.finish())
        if data.draw(st.booleans()):  # the platform's word comes while we still run
            scene.watch.rests = not early and data.draw(st.booleans())
            if scene.publisher.current() is not None or not scene.closing.confirm():
                scene.rest(done())
                early = False
    scene.watch.rests = data.draw(at_the_event(early))
    scene.event(closed_by="shutdown")
    scene.publisher.print_rest()
    check(scene, truths)


# An end with the environment


def dead(scene: Scene) -> None:
    """The kernel kills the function, and SHUTDOWN comes."""
    scene.kills.killed = 1
    scene.recorder.window.someone_ended = True
    scene.event(closed_by="shutdown", died="failure")


def test_what_is_known_of_a_death_outlives_the_sidecar_before_it_is_printed(tmp_path: Path) -> None:
    """The line waits for its report for up to 250 ms, and the platform does not wait for ever."""
    path = str(tmp_path / "journal")
    scene = Scene(Quiet(), reports=True, journal=path)
    scene.event()
    touch(scene, 100)
    dead(scene)
    assert scene.printed() == []
    ((_, text),) = recovery.lines(Journal(path), History(), Config(SIZED), 0)
    line = json.loads(text)
    assert (line["requestId"], line["OutOfMemory"], line["recovered"]) == ("1", 1, True)
    assert line["outOfMemory"]["signals"][0] == "kernel"
    assert line["ending"]["level"] > 0
    assert line["lastSamples"]
    scene.publisher.print_rest()
    assert scene.printed() == ["1"]


def test_an_init_phase_that_dies_is_told_in_the_log_for_it_has_no_invocation(capfd: pytest.CaptureFixture[str]) -> None:
    scene = Scene(Quiet())
    dead(scene)
    log = capfd.readouterr().err
    assert log.startswith("truemem WARN before its first invocation the environment has ended with a failure, out of ")
    assert "(kernel" in log
    assert '"level":' in log
    assert scene.output.lines == []


def test_and_not_if_invocations_have_come(scene: Scene, capfd: pytest.CaptureFixture[str]) -> None:
    scene.rest(done())
    dead(scene)
    assert capfd.readouterr().err == ""


def test_an_invocation_that_was_over_by_then_has_not_died() -> None:
    scene = Scene(Quiet(), reports=True)
    scene.event()
    scene.rest(done())
    dead(scene)
    assert scene.records[0].ending is None


def test_one_that_was_not_over_has_died_and_is_told_with_all_that_is_known(scene: Scene) -> None:
    """It was taken to be at rest, and had gone on."""
    scene.rest()
    scene.recorder.window.flight.see(scene.world.now_ns, 77 * MIB)
    scene.watch.rests = False
    dead(scene)
    (line,) = scene.output.lines
    assert (line["closedBy"], line["OutOfMemory"], line["outOfMemory"]["signals"]) == ("shutdown", 1, ["kernel"])
    assert line["ending"]["level"] > 0
    assert line["lastSamples"][-1][1] == 77


@pytest.mark.parametrize(("closed_by", "kills"), [("next-invoke", 1), ("shutdown", 2)])
def test_a_child_that_was_killed_before_what_was_no_rest_is_not_forgotten(
    scene: Scene, closed_by: str, kills: int
) -> None:
    scene.kills.killed = 1
    scene.recorder.window.someone_ended = True
    scene.rest()
    scene.watch.rests = False
    scene.recorder.window.someone_ended = True
    scene.event(closed_by=closed_by, died="failure" if closed_by == "shutdown" else "")
    assert scene.records[0].kernel_kills == kills


@pytest.mark.parametrize(("rested", "died"), [(True, False), (False, True)])
def test_where_nobody_knows_the_platforms_word_tells_whether_it_has_died(rested: bool, died: bool) -> None:
    scene = Scene(Quiet(), reports=True)
    scene.event()
    scene.rest()
    scene.watch.rests = None
    dead(scene)
    (record,) = scene.records
    record.decide(rested)
    assert (record.ending is not None, record.kernel_kills) == (died, died)


def test_a_child_that_was_killed_unseen_is_of_the_window_that_is_closed(scene: Scene) -> None:
    """Nobody has waited for it: it is found when the next event has come, without memory."""

    class Zombie:
        pid = 99

        @property
        def files(self) -> Any:
            raise Gone("status: a zombie")

    scene.kills.killed = 1
    cut = scene.closing.cut()
    assert cut is not None
    closed = scene.recorder.close(cut, None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Table, "function", lambda table: [Zombie()])
        patch.setattr(Table, "forget", lambda table, process: None, raising=False)
        scene.closing.close("next-invoke", closed)
    assert scene.records[0].kernel_kills == 1
    assert not scene.recorder.window.someone_ended
