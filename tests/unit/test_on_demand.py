"""Invocations one after the other, with everything but the platform, the kernel and time: real lines come out."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from truemem.config import Config
from truemem.lifecycle import machine as m
from truemem.lifecycle.on_demand import OnDemand
from truemem.lifecycle.parts import Parts
from truemem.measure.environment_memory import HeldMemory
from truemem.measure.readings import Readings
from truemem.measure.recorder import Recorder
from truemem.records.environment_state import EnvironmentState
from truemem.records.journal import Journal

from tests.unit.test_closing import PROC, SIZED, Family, Kills, Output, Quiet, Surroundings
from tests.unit.test_loop import Arrival, World, failures, gaps, quiet

__all__ = ["quiet"]


class Table(Family):
    """The function's only process is known from the start."""

    api_address = "127.0.0.1:9001"

    def runtime_address(self) -> str:
        return self.api_address


class UnsteadyRecorder(Recorder):
    """Some of its readings fail."""

    failing: list[bool]

    def read_and_reset(self, at_rest: bool = False, most: int = 64) -> Readings:
        if self.failing and self.failing.pop(0):
            raise RuntimeError("a bug")
        return super().read_and_reset(at_rest, most)


class UnsteadyMemory(Surroundings):
    """What the environment holds cannot always be read."""

    source = "meminfo"

    def __init__(self, failing: list[bool]) -> None:
        super().__init__()
        self.failing = failing

    def read(self) -> HeldMemory:
        if self.failing and self.failing.pop(0):
            raise RuntimeError("a bug")
        return super().read()


class Environment:
    """One execution environment and its lines."""

    def __init__(self, world: World, failing: list[bool], telemetry: bool) -> None:
        platform: Any = world
        table: Any = Table(Quiet())
        recorder = UnsteadyRecorder(table, PROC, clock=world.epoch_ns)
        recorder.failing = failing
        memory: Any = UnsteadyMemory(failing)
        kills: Any = Kills()
        about = Config(SIZED), table, recorder, memory, kills
        parts = Parts(platform, platform if telemetry else None, "", *about, None, platform, platform)
        self.lifecycle = OnDemand(parts, EnvironmentState(), Journal(""))
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
    environment = Environment(world, reading, telemetry)
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
    says = {name for actions, _ in m.TABLE[m.ON_DEMAND].values() for name in actions}
    assert set(Environment(world, [], False).lifecycle.actions) == says - own
