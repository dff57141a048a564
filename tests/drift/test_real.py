"""The recorded curves of real programs: each is there, and is of what its code says. No verdict is asked."""

import numpy as np
import pytest

from testing.drift import recorded

SLOW_KIB = 4
"""What is not a leak may go on filling by so much per invocation for a while; no leak is smaller."""


def levels(name: str) -> list[float]:
    """What the program held after each invocation that is certain."""
    return [point.current_kib for point in recorded.stored(name) if point.certain]


@pytest.mark.parametrize("name", recorded.REAL)
def test_each_has_all_its_invocations(name: str) -> None:
    curve = recorded.stored(name)
    assert [point.invocation for point in curve] == list(range(1, recorded.REAL_INVOCATIONS + 1))
    assert sum(point.certain for point in curve) > 0.95 * len(curve)
    assert curve[0].time_ms == 0


@pytest.mark.parametrize("name", recorded.REAL)
def test_recorded_leaks_go_on_and_others_slow_down(name: str) -> None:
    held = levels(name)
    begin, end = (float(np.median(part)) for part in (held[900:1000], held[-100:]))
    rate = (end - begin) / (len(held) - 1000)
    if name in recorded.KIB:
        assert rate == pytest.approx(recorded.KIB[name], rel=0.25)
    if recorded.REAL[name]:
        assert SLOW_KIB <= rate <= 64
    else:
        assert rate < max(SLOW_KIB, 0.5 * (begin - held[0]) / 900)


def test_a_real_program_can_be_recorded_anew() -> None:
    lines = recorded.run("log handlers", 60)
    assert [line.invocation for line in lines] == list(range(1, 61))
    held = [line.current_rss for line in lines if line.current_rss is not None]
    assert max(held[50:]) > max(held[:10])
