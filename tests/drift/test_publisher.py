"""Which invocations the sidecar's verdict is made of, and which lines tell it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from truemem.config import Config
from truemem.linux.proc_text import Status
from truemem.measure.race import Boundary
from truemem.measure.window import Window, peak
from truemem.records.environment_state import EnvironmentState
from truemem.records.journal import Journal
from truemem.records.pending_record import PendingRecord
from truemem.records.publisher import Publisher

CONFIG = Config({b"AWS_LAMBDA_FUNCTION_MEMORY_SIZE": b"128"})
MIB = 1024


class Printed:
    """A publisher, and its lines."""

    def __init__(self, capfd: pytest.CaptureFixture[str]) -> None:
        self._capfd = capfd
        self.history = EnvironmentState()
        self._publisher = Publisher(CONFIG, True, self.history, Journal(""), lambda: 0)
        self._count = 0

    def line(self, held_mib: float, *, raced: bool = False, closed_by: str = "next-invoke") -> dict[str, Any]:
        """Of the next invocation, that leaves so much behind."""
        self._count += 1
        record = PendingRecord(f"r-{self._count}", self._count, 1_700_000_000_000 + 100 * self._count)
        record.window = window = Window(10 * MIB, 0, True)
        held = round(held_mib * MIB)
        window.closing = [Status(hwm=held, rss=held, anon=held, file=0, shmem=0, threads=1)]
        if raced:
            window.end = Boundary()
        record.peak, record.closed_by = peak(window), closed_by
        self._publisher.print_one(record)
        self._publisher.flush(record.time_ms)
        line: dict[str, Any] = json.loads(self._capfd.readouterr().out)
        return line


@pytest.fixture
def printed(capfd: pytest.CaptureFixture[str]) -> Printed:
    return Printed(capfd)


def test_every_16th_line_tells_from_the_32nd(printed: Printed) -> None:
    lines = [printed.line(30 + 0.1 * number) for number in range(70)]
    assert [line["invocation"] for line in lines if "drift" in line] == [32, 48, 64]
    assert [line["invocation"] for line in lines if "MemoryDrift" in line] == [32, 48, 64]


def test_the_last_line_tells_and_its_own_level_does_not_count(printed: Printed) -> None:
    for _ in range(33):
        printed.line(30)
    assert "drift" not in printed.line(30)
    last = printed.line(120, closed_by="shutdown")
    assert last["drift"] == {"verdict": "stable", "perInvocationKiB": 0}
    assert last["MemoryDrift"] == 0


def test_what_may_hold_some_of_the_next_invocation_counts_as_well(printed: Printed) -> None:
    """In default mode it may in any invocation: without them there would be no verdict."""
    lines = [printed.line(30 + 0.1 * number, raced=True) for number in range(160)]
    assert all(line["raced"] for line in lines)
    assert lines[-1]["drift"]["verdict"] == "growing"
    assert lines[-1]["drift"]["perInvocationKiB"] == pytest.approx(102.4, rel=0.01)


def test_a_leak_says_what_is_left(printed: Printed) -> None:
    lines = [printed.line(30 + 0.1 * number) for number in range(160)]
    drift = lines[-1]["drift"]
    assert drift["verdict"] == "growing"
    assert drift["perInvocationKiB"] == pytest.approx(102.4, rel=0.01)
    assert drift["perMinuteKiB"] == pytest.approx(102.4 * 600, rel=0.01)
    left = (128 - 30 - 0.1 * 159) / 0.1
    assert drift["invocationsLeft"] == pytest.approx(left, abs=2)
