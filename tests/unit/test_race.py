"""The race with the runtime, through every interleaving that hypothesis can think of.

A process is simulated as the kernel keeps it (RSS, watermark, page faults), and the function's actions fall
between any two system calls of the recorder, which may be preempted for as long as it likes. What must hold: the
truth lies within the bounds, and what is not called raced is exact.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from truemem import recorder as recorder_module
from truemem.kernel import FAULT_KIB
from truemem.processes import FUNCTION, Process
from truemem.procfs import ProcessFiles, Procfs, Stat, Status
from truemem.race import ASLEEP_NS, AWAKE_NS, STILL_KIB, UNKNOWN_NS, undisturbed
from truemem.recorder import Recorder
from truemem.window import KERNEL_SLACK_KIB, VMHWM, Window, peak

US = 1_000
START_KIB = 50_000


@pytest.mark.parametrize(
    ("look", "before", "after", "elapsed_us", "verdict"),
    [
        # each is (faults, RSS in KiB, state)
        ((10, 500, b"S"), (10, 500, b"S"), (10, 500, b"S"), None, True),  # nothing since the look
        ((10, 500, b"S"), (10, 400, b"S"), (10, 400, b"S"), None, False),  # it fell from where the peak may have been
        ((9, 500, b"S"), (10, 500, b"S"), (10, 500, b"S"), 50, True),  # in time
        ((9, 500, b"S"), (10, 500, b"S"), (11, 504, b"S"), 50, False),  # it ran between reading and reset
        ((9, 500, b"S"), (10, 500, b"S"), (10, 400, b"S"), 50, False),
        ((9, 500, b"S"), (10, 500, b"S"), (10, 500, b"S"), 240, True),  # late, but asleep
        ((9, 500, b"S"), (10, 500, b"R"), (10, 500, b"R"), 240, False),  # late, and awake
        ((9, 500, b"S"), (10, 500, b"S"), (10, 500, b"S"), 300, False),  # too late
        (None, (10, 500, b"S"), (10, 500, b"S"), None, False),  # no witness at all
    ],
)
def test_was_it_disturbed(
    look: tuple[int, int, bytes] | None,
    before: tuple[int, int, bytes],
    after: tuple[int, int, bytes],
    elapsed_us: int | None,
    verdict: bool,
) -> None:
    def stat(seen: tuple[int, int, bytes]) -> Stat:
        faults, rss, state = seen
        return Stat(state, 1, faults, 0, 1, 1, rss)

    elapsed = UNKNOWN_NS if elapsed_us is None else elapsed_us * US
    assert undisturbed(stat(look) if look else None, stat(before), stat(after), elapsed) is verdict


class World:
    """One process, its memory, and a clock. `steps` draws what happens between two system calls."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw
        self.now_ns = 1_000_000_000
        self.rss = self.hwm = START_KIB
        self.faults = 1000
        self.state = b"S"
        self.queue: list[int] = []
        """Changes of the level (KiB) that the running invocation has still to make."""
        self.may_run_ns = 0
        """No action before this moment: the event has to be received and understood."""
        self.levels: list[int] = []
        """Every level of the running invocation."""
        self.awake_until_ns = 0
        """Having done something, it does not sleep before this moment."""

    def begin(self, changes: list[int], may_run_ns: int, awake_until_ns: int) -> None:
        """An invocation begins: its peak counts from the level that it finds."""
        self.queue, self.levels = list(changes), [self.rss]
        self.may_run_ns, self.awake_until_ns = may_run_ns, awake_until_ns

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
        if self.now_ns >= self.may_run_ns:
            for _ in range(self.draw(st.integers(0, len(self.queue)))):
                self.act()
        runs = self.now_ns >= self.may_run_ns and (self.queue or len(self.levels) > 1)
        self.state = b"R" if runs and (self.queue or self.now_ns < self.awake_until_ns) else b"S"

    def finish(self) -> int:
        """The rest of the invocation; its true peak."""
        while self.queue:
            self.act()
        self.state = b"S"
        return max(self.levels)


class Files(ProcessFiles):
    """The process's files."""

    def __init__(self, world: World) -> None:
        super().__init__("/nowhere/")
        self.world = world

    def stat(self) -> Stat:
        self.world.pass_time()
        world = self.world
        return Stat(world.state, 1, world.faults, 0, 1, 1, world.rss)

    def status(self) -> Status:
        self.world.pass_time()
        return Status(self.world.hwm, self.world.rss, self.world.rss, 0, 0, 1)

    def rss(self) -> int:
        self.world.pass_time()
        return self.world.rss

    def read(self, name: str) -> Any:
        """The recorder parses these itself: hand the values through."""
        return self.stat() if name == "stat" else self.status()

    def reset_watermark(self) -> None:
        self.world.pass_time()
        self.world.hwm = self.world.rss


class Table:
    """One function process, and never a new one."""

    def __init__(self, world: World) -> None:
        self.process = Process(12, 1, 1, FUNCTION, Files(world))

    def function(self) -> list[Process]:
        return [self.process]

    def changed(self) -> bool:
        return False


class Clock:
    """Stands for the module `time` in the recorder."""

    def __init__(self, world: World) -> None:
        self.world = world

    def time_ns(self) -> int:
        return self.world.now_ns


@pytest.fixture
def pass_values_through(monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulated files give values instead of texts."""
    monkeypatch.setattr(recorder_module, "parse_stat", lambda value: value)
    monkeypatch.setattr(recorder_module, "parse_status", lambda value: value)
    monkeypatch.setattr(recorder_module, "probe", lambda proc: "")
    monkeypatch.setattr(recorder_module, "fault_kib", lambda: FAULT_KIB)


def check(window: Window, truth: int, level_before: int) -> None:
    """The promises."""
    found = peak(window)
    assert found is not None
    assert found.lower - STILL_KIB <= truth <= found.upper + STILL_KIB, (found.lower, truth, found.upper)
    assert found.method == VMHWM
    if not found.raced:
        assert abs(found.estimate - truth) <= KERNEL_SLACK_KIB
    if not window.started_raced:
        assert abs(window.baseline - level_before) <= STILL_KIB


TURNS: list[tuple[str, ...]] = [(), ("tick",), ("rest",), ("tick", "rest")]
"""What one turn of the loop may have begun before the event came: a tick, and a cut at a rest that was none."""

changes = st.lists(st.sampled_from([30_000, 5_000, 700, 64, -64, -700, -5_000, -30_000]), max_size=6)


@pytest.mark.usefixtures("pass_values_through")
@settings(max_examples=1000, deadline=None)
@given(st.data(), changes, changes, st.integers(0, 4), st.sampled_from(TURNS), st.booleans())
def test_whatever_comes_between_the_bounds_hold(
    data: st.DataObject, first: list[int], second: list[int], ticks: int, overtaken: tuple[str, ...], timestamps: bool
) -> None:
    world = World(data.draw)
    vars(recorder_module)["time"] = Clock(world)
    recorder = Recorder(Table(world), Procfs())  # type: ignore[arg-type]
    recorder.close(recorder.cut(), None, at_rest=True)

    world.begin(first, 0, 0)
    for _ in range(ticks):
        recorder.sample(late=data.draw(st.booleans()))
    first_truth = world.finish()
    between = world.rss

    looked = world.now_ns = world.now_ns + 50_000 * US
    arrived = looked + 1
    # Awake or asleep, nobody has touched much memory so soon: what the recorder takes for granted.
    after = data.draw(st.sampled_from([AWAKE_NS, ASLEEP_NS, 20 * ASLEEP_NS])) + 1
    world.begin(second, arrived + after, arrived + ASLEEP_NS + 1)
    world.now_ns = arrived
    if "tick" in overtaken:  # it had begun before the event came
        recorder.sample(late=data.draw(st.booleans()))
    if "rest" in overtaken:
        recorder.absorb(recorder.cut())
    closed = recorder.close(recorder.cut(), arrived if timestamps else None, looked)
    check(closed, first_truth, START_KIB)

    for _ in range(data.draw(st.integers(0, 2))):
        recorder.sample(late=data.draw(st.booleans()))
    second_truth = world.finish()
    check(recorder.close(recorder.cut(), None, at_rest=True), second_truth, between)
