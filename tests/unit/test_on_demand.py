"""Invocations one after the other, with everything but the platform, the kernel and time: real lines come out."""

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from truemem.config import Config
from truemem.lifecycle import machine as m
from truemem.lifecycle.loop import LoopParts
from truemem.lifecycle.on_demand import OnDemand, SamplerLoop
from truemem.measure.environment_memory import HeldMemory
from truemem.measure.recorder import Recorder
from truemem.measure.watermark import ProcessReadings
from truemem.records.pending_record import EnvironmentState
from truemem.wings import Wings

from tests.unit.stand_ins import PROC, Kills, OneProcess, Output, Surroundings
from tests.unit.test_loop import MS, Arrival, World, failures, gaps, quiet

__all__ = ["quiet"]

SIZED = {b"AWS_LAMBDA_FUNCTION_MEMORY_SIZE": b"128"}


class UnsteadyRecorder(Recorder):
    """Some of its readings fail."""

    failing: list[bool]

    def read_and_reset(self, at_rest: bool = False, most: int = 64) -> ProcessReadings:
        if self.failing and self.failing.pop(0):
            raise RuntimeError("a bug")
        return super().read_and_reset(at_rest, most)


class UnsteadyMemory(Surroundings):
    """What the environment holds cannot always be read."""

    def __init__(self, failing: list[bool]) -> None:
        super().__init__()
        self.failing = failing

    def read(self, function_lives: bool = True) -> HeldMemory:
        if self.failing and self.failing.pop(0):
            raise RuntimeError("a bug")
        return super().read(function_lives)


class OnDemandScene:
    """One execution environment and its lines."""

    def __init__(self, world: World, failing: list[bool], telemetry: bool) -> None:
        platform: Any = world
        table = OneProcess().table()
        recorder = UnsteadyRecorder(table, PROC, clock=world.epoch_ns)
        recorder.failing = failing
        memory: Any = UnsteadyMemory(failing)
        kills: Any = Kills()
        about = Config(SIZED), table, recorder, memory, kills
        parts = LoopParts(platform, platform if telemetry else None, "", *about, None, platform, platform)
        self.lifecycle = OnDemand(parts, EnvironmentState())
        output: Any = Output()
        self.lifecycle._publisher._output = output
        self.lines: list[dict[str, Any]] = output.lines


invocations = st.lists(
    st.builds(Arrival, gaps, st.sampled_from(["invoke", "broken", "delivery", "freeze"])), max_size=20
)


@given(invocations, failures, failures, st.booleans())
def test_each_invocation_has_one_line_whatever_fails(
    come: list[Arrival], asking: list[bool], reading: list[bool], telemetry: bool
) -> None:
    world = World([each for each in come if telemetry or each.what != "delivery"], asking, [])
    fails = any(reading)
    environment = OnDemandScene(world, reading, telemetry)
    environment.lifecycle.run()
    invoked = [str(number + 1) for number in range(world.invoked)]
    assert [line["requestId"] for line in environment.lines] == invoked
    assert [line["invocation"] for line in environment.lines] == [int(number) for number in invoked]
    if not fails:
        assert all(line["PeakRSS"] > 0 for line in environment.lines)
        assert [line["closedBy"] for line in environment.lines[-1:]] == ["shutdown"] * bool(invoked)


def test_it_can_do_all_that_the_machine_says() -> None:
    world = World([], [], [])
    own = {m.ASK_NEXT, m.RECEIVE, m.TAKE_DELIVERIES, m.SEND_RECORDS}
    says = {name for actions, _ in m.TRANSITIONS[m.ON_DEMAND].values() for name in actions}
    assert set(OnDemandScene(world, [], False).lifecycle.actions) == says - own


def test_a_look_that_fails_is_not_tried_again_at_once() -> None:
    """It would keep the loop from waiting, at the function's expense."""

    def sample(late: bool, reset: bool) -> int:
        raise ValueError

    recorder = SimpleNamespace(levels=SimpleNamespace(sample=sample))
    clock = SimpleNamespace(monotonic_ns=lambda: 0)
    parts: Any = SimpleNamespace(
        config=Config({}), recorder=recorder, environment_memory=None, clock=clock, wings=Wings()
    )
    publisher: Any = None
    ticks = SamplerLoop(parts, publisher)
    with pytest.raises(ValueError):
        ticks.look(5 * MS, exact=False)
    assert ticks.next_ns > 100 * MS


def test_a_tick_that_may_not_look_is_followed_by_a_wait() -> None:
    """An event that does not pass whole keeps what comes from looking; the last look was at children alone."""
    recorder = SimpleNamespace(levels=SimpleNamespace(watch=lambda sparing: None))
    clock = SimpleNamespace(monotonic_ns=lambda: 0)
    parts: Any = SimpleNamespace(
        config=Config({}), recorder=recorder, environment_memory=None, clock=clock, wings=Wings()
    )
    publisher: Any = None
    ticks = SamplerLoop(parts, publisher)
    ticks.begin(0, exact=True)
    ticks.look(0, exact=True)
    ticks.plan(0, 0, exact=True)
    late_ns = ticks.next_ns + MS
    ticks.plan(late_ns, 0, exact=True)
    assert ticks.next_ns > late_ns
