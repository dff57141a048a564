"""Time that the environment has run, by clocks that do what they like over a freeze."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from truemem.support.clock import BUSY_MS, RunningClock


@pytest.mark.parametrize("frozen", ["at work", "waiting"])
@pytest.mark.parametrize("jump_ms", [0, 3_600_000, -3_600_000], ids=["no freeze", "an hour", "back by an hour"])
def test_a_freeze_is_left_out_wherever_it_falls_and_time_never_goes_back(jump_ms: int, frozen: str) -> None:
    now = [5_000_000_000_000]
    simulated: Any = SimpleNamespace(monotonic_ns=lambda: now[0])
    clock = RunningClock(simulated)
    seen = [clock.running_ms]
    for _ in range(3):
        now[0] += (2 + jump_ms * (frozen == "at work")) * 1_000_000
        clock.before_wait(10)
        now[0] += (10 + jump_ms * (frozen == "waiting")) * 1_000_000
        clock.after_wait()
        seen.append(clock.running_ms)
    assert seen == sorted(seen)
    assert 6 <= seen[-1] <= 3 * (BUSY_MS + 10 + 1)
