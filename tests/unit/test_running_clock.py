"""Time that the environment has run, by clocks that do what they like over a freeze."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from truemem.support.clock import RunningClock


@pytest.mark.parametrize("jump_ms", [0, 3_600_000, -3_600_000], ids=["no freeze", "an hour", "back by an hour"])
def test_a_wait_is_no_longer_than_its_timeout_and_time_never_goes_back(jump_ms: int) -> None:
    now = [5_000_000_000_000]
    simulated: Any = SimpleNamespace(monotonic_ns=lambda: now[0])
    clock = RunningClock(simulated)
    seen = [clock.running_ms]
    for _ in range(3):
        now[0] += 2_000_000  # at work
        clock.before_wait(10)
        now[0] += (10 + jump_ms) * 1_000_000
        clock.after_wait()
        seen.append(clock.running_ms)
    assert seen == sorted(seen)
    assert 6 <= seen[-1] <= 3 * (2 + 10 + 1)
