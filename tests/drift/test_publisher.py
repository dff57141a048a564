"""Which invocations the sidecar's verdict is made of, and which lines tell it."""

import json
from typing import Any

import pytest
from truemem.measure.window import Boundary

from tests.records import publisher_of, record, window

SIZED = {b"AWS_LAMBDA_FUNCTION_MEMORY_SIZE": b"128"}


class Printed:
    """A publisher, and its lines."""

    def __init__(self, capfd: pytest.CaptureFixture[str]) -> None:
        self._capfd = capfd
        self._publisher = publisher_of(SIZED)
        self._count = 0

    def line(self, held_mib: float, *, raced: bool = False, closed_by: str = "next-invoke") -> dict[str, Any]:
        """Of the next invocation, that leaves so much behind."""
        self._count += 1
        made = record(self._count, held_mib, closed_by=closed_by)
        if raced:
            closed = window((held_mib, held_mib), baseline=10, opening=Boundary(), end=Boundary())
            made = record(self._count, held_mib, closed_by=closed_by, window=closed)
        self._publisher.print_one(made)
        self._publisher.flush(made.time_ms)
        line: dict[str, Any] = json.loads(self._capfd.readouterr().out)
        return line


@pytest.fixture
def printed(capfd: pytest.CaptureFixture[str]) -> Printed:
    return Printed(capfd)


def test_every_16th_line_tells_from_the_32nd(printed: Printed) -> None:
    lines = [printed.line(30 + 0.1 * number) for number in range(70)]
    assert [line["invocation"] for line in lines if "drift" in line] == [32, 48, 64]
    assert [line["invocation"] for line in lines if "MemoryDrift" in line] == [32, 48, 64]


@pytest.mark.parametrize(("leak_mib", "told"), [(0.15, [128, 144, 160]), (0.0, [])])
def test_memory_growing_is_1_only_on_lines_with_the_verdict(leak_mib: float, told: list[int], printed: Printed) -> None:
    lines = [printed.line(30 + leak_mib * number) for number in range(170)]
    assert [line["invocation"] for line in lines if line.get("drift", {}).get("verdict") == "growing"] == told
    assert [(line["invocation"], line["MemoryGrowing"]) for line in lines if "MemoryGrowing" in line] == [
        (invocation, 1) for invocation in told
    ]


def test_the_last_line_tells_and_its_own_level_does_not_count(printed: Printed) -> None:
    for _ in range(33):
        printed.line(30)
    assert "drift" not in printed.line(30)
    last = printed.line(120, closed_by="shutdown")
    assert last["drift"] == {"verdict": "stable", "perInvocationKiB": 0}
    assert last["MemoryDrift"] == 0


@pytest.mark.parametrize("raced", [False, True])
def test_a_leak_says_its_rate_and_what_is_left(printed: Printed, raced: bool) -> None:
    """Also of what may hold some of the next invocation: in default mode any may, and there would be no verdict."""
    lines = [printed.line(30 + 0.15 * number, raced=raced) for number in range(160)]
    assert all(line.get("raced", False) is raced for line in lines)
    drift = lines[-1]["drift"]
    assert drift["verdict"] == "growing"
    assert drift["perInvocationKiB"] == pytest.approx(153.6, rel=0.01)
    assert drift["perMinuteKiB"] == pytest.approx(153.6 * 600, rel=0.01)
    left = (128 - 5 - 30 - 0.15 * 159) / 0.15  # 5 of them are the sidecar's
    assert drift["invocationsLeft"] == pytest.approx(left, abs=2)
