"""No invocation is held longer than 50 ms after its runtime is done, whatever fails: searched for in simulated time.

Three things can end a hold: the connections, platform.runtimeDone, and time. Each of them is made to fail.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from truemem import closing, publisher, running_clock, runtime_watch, sidecar, waiting
from truemem.cgroup import Level
from truemem.config import Config
from truemem.history import History
from truemem.journal import Journal
from truemem.oom_kills import OomKills
from truemem.procfs import Procfs
from truemem.runtime_watch import RuntimeWatch
from truemem.sidecar import Sidecar

from tests.unit.simulated_lambda import (
    MS,
    Api,
    Faults,
    Listener,
    Plan,
    Recorder,
    Select,
    Surroundings,
    Table,
    Time,
    World,
)

DEADLINE_MS = 3000
PROMISE_MS = 50

handlers = st.sampled_from([0.3, 1, 3, 10, 30, 60, 100, 300, 2600, 2950])
delays = st.sampled_from([0.1, 0.3, 3, 12, 80])
plans = st.builds(
    Plan,
    handler_ms=handlers,
    delivered_ms=st.sampled_from([-0.05, 0, 0.1, 2]),
    respond_ms=st.lists(st.sampled_from([0, 1, 7, 15, 60]), min_size=1, max_size=4).map(tuple),
    accept_ms=delays,
    request_ms=delays,
    gap_ms=st.sampled_from([0, 1, 30, 60_000]),
    own_traffic=st.lists(st.sampled_from([0.2, 1, 5, 20, 50]), max_size=2, unique=True).map(sorted).map(tuple),
    own_connection=st.booleans(),
    telemetry_ms=st.sampled_from([25, 27, 40]),
)
CALIBRATED = 8
"""Invocations like one another, after which there are holds."""

usual = st.builds(
    lambda handler_ms, gap_ms: [Plan(handler_ms=handler_ms, gap_ms=gap_ms) for _ in range(CALIBRATED)],
    handler_ms=st.sampled_from([10, 30, 60, 100, 300]),
    gap_ms=st.sampled_from([0, 30]),
)
LOST = [
    frozenset[str](),
    frozenset({"platform.start"}),
    frozenset({"platform.start", "platform.runtimeDone"}),
    frozenset({"platform.start", "platform.runtimeDone", "platform.report"}),
]
kinds = st.sampled_from(["", "refused", "wrong", "frozen", "frozen-received", "frozen-sent", "proxied"])
since = st.integers(CALIBRATED, CALIBRATED + 4) | st.just(0)
faults = st.builds(
    Faults,
    kind=kinds,
    since=since,
    after_ms=st.sampled_from([0, 0.5, 2, 8, 25, 59, 61, 101, 110]),
    numbers=st.lists(st.integers(0, 2000), min_size=5, max_size=9),
)


def as_usual_or_not(first: list[Plan], then: list[Plan | None]) -> list[Plan]:
    """None stands for one more like the first ones."""
    return first + [plan or replace(first[0]) for plan in then]


class Output:
    """In place of stdout."""

    dropped = 0

    def __init__(self) -> None:
        self.lines: list[str] = []

    def put(self, line: str, *_: object) -> None:
        self.lines.append(line)

    def flush(self, wait_ms: int = 0) -> None: ...


def play(world: World, mode: str = "auto") -> list[str]:
    """Run a world to its end under the real loop; the lines that it printed."""
    output = Output()

    class Connections:
        def __init__(self, *_: object) -> None:
            self.look = world.look

        def close(self) -> None: ...

    with pytest.MonkeyPatch.context() as patch:
        for module in (sidecar, runtime_watch, closing, running_clock):
            patch.setattr(module, "time", Time(world))
        patch.setattr(waiting, "select", Select(world))
        patch.setattr(publisher, "Output", lambda **_: output)
        patch.setattr(runtime_watch, "RuntimeConnections", Connections)
        config = Config(
            {b"TRUEMEM_HOLD": mode.encode(), b"TRUEMEM_HOLD_BUDGET": b"50", b"AWS_LAMBDA_FUNCTION_MEMORY_SIZE": b"1769"}
        )
        table: Any = Table()
        watch = RuntimeWatch(table, Procfs(), wanted=mode != "always")
        kept = [History(), Journal(""), OomKills(Level(Procfs()))]
        made: list[Any] = [Api(world), Listener(world), "", config, table, Recorder(world), watch, Surroundings()]
        Sidecar(*made, *kept).run()
    return output.lines


def held_too_long(world: World) -> list[tuple[int, float]]:
    """(number, ms) of each invocation that was held for longer than promised."""
    spans = enumerate(zip(world.asked_at, world.done_at, strict=True))
    return [(number, (asked - done) / MS) for number, (asked, done) in spans if asked - done > PROMISE_MS * MS]


def check(world: World, lines: list[str]) -> None:
    assert len(world.asked_at) == len(world.done_at) == len(world.plans)
    assert held_too_long(world) == []
    for begun, asked in zip(world.begun_at, world.asked_at, strict=True):
        assert asked - begun <= (DEADLINE_MS - 100) * MS
    assert len(lines) == len(world.plans)


def test_where_nothing_fails_holds_end_when_the_runtime_is_done() -> None:
    world = World([Plan(handler_ms=100) for _ in range(40)], Faults(), fresh=False, deadline_ms=DEADLINE_MS)
    lines = play(world)
    check(world, lines)
    idle = [line for line in lines if '"closedBy":"idle"' in line and '"holdMs":' in line]
    assert len(idle) >= 25
    assert all(asked >= done for asked, done in list(zip(world.asked_at, world.done_at, strict=True))[-10:])


def test_always_holds_until_the_platform_says_that_it_is_done() -> None:
    world = World([Plan(handler_ms=30) for _ in range(10)], Faults(), fresh=False, deadline_ms=DEADLINE_MS)
    lines = play(world, "always")
    check(world, lines)
    assert all('"closedBy":"runtime-done"' in line for line in lines)
    assert all(asked >= done + 25 * MS for asked, done in zip(world.asked_at, world.done_at, strict=True))


HOUR_MS = 3_600_000


@pytest.mark.parametrize("mode", ["off", "auto", "always"])
@pytest.mark.parametrize(
    "jump_ms", [0, -HOUR_MS, -50 * HOUR_MS, 1000 * HOUR_MS], ids=["runs on", "stands still", "goes back", "jumps ahead"]
)
@pytest.mark.parametrize("handler_ms", [50, 3])
def test_an_hour_of_frost_is_no_time_whatever_the_monotonic_clock_does(
    mode: str, jump_ms: float, handler_ms: float
) -> None:
    """Of short invocations the report comes several freezes later. The first freeze lies between init and first use."""
    freezes = [Plan(handler_ms=handler_ms, gap_ms=HOUR_MS, jump_ms=jump_ms) for _ in range(6)]
    plans = [Plan(handler_ms=handler_ms) for _ in range(6)]
    world = World([*freezes, *plans, *freezes], Faults(), fresh=False, deadline_ms=DEADLINE_MS)
    world.init = Plan(gap_ms=50 * HOUR_MS, jump_ms=50 * jump_ms)
    lines = play(world, mode)
    check(world, lines)
    made = [json.loads(line) for line in lines]
    assert [line["requestId"] for line in made] == [str(number) for number in range(18)]
    # The last one's report is late, like every other, and nothing comes after it.
    assert [line.get("reportMissing") for line in made].count(True) <= 1
    assert not any("holdMs" in line and line["holdMs"] > 60 for line in made)


SEQUENCE: dict[str, st.SearchStrategy[Any]] = {
    "first": usual,
    "then": st.lists(st.none() | plans, min_size=1, max_size=8),
    "fault": faults,
    "fresh": st.booleans(),
    "data": st.data(),
}


@settings(max_examples=400, deadline=None)
@given(**SEQUENCE)
def test_whatever_fails_no_hold_hangs(
    first: list[Plan], then: list[Plan | None], fault: Faults, fresh: bool, data: st.DataObject
) -> None:
    made = as_usual_or_not(first, then)
    lost = data.draw(st.sampled_from(LOST))
    for plan in made[max(0, fault.since + data.draw(st.integers(-1, 2))) :]:
        plan.lost = lost
    world = World(made, fault, fresh, DEADLINE_MS)
    check(world, play(world))


@settings(max_examples=200, deadline=None)
@given(**SEQUENCE)
def test_where_the_platform_promises_its_word_and_does_not_keep_it_patience_ends(
    first: list[Plan], then: list[Plan | None], fault: Faults, fresh: bool, data: st.DataObject
) -> None:
    """platform.start comes, runtimeDone does not, and the connections fail in the same invocation."""
    made = as_usual_or_not(first, then)
    for plan in made[CALIBRATED:]:
        if data.draw(st.booleans()):
            plan.lost = frozenset({"platform.runtimeDone"})
    world = World(made, fault, fresh, DEADLINE_MS)
    lines = play(world)
    assert len(lines) == len(made)
    longest = max((done - begun) / MS for begun, done in zip(world.begun_at, world.done_at, strict=True))
    for begun, asked, done in zip(world.begun_at, world.asked_at, world.done_at, strict=True):
        assert asked <= max(done + PROMISE_MS * MS, begun + round((2 * longest + 100) * MS) + 2 * MS)
        assert asked - begun <= (DEADLINE_MS - 100) * MS
