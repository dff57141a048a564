"""Run tests with the wall clock at a boundary: `make clocks`, or pytest -p tests.clocks --clock 2026-11-22T21:27 PATHS.

Each test begins just before the moment: so many readings of the clock by our code come before it (`--before`), the
others after it. In this process alone: `time.time`, `time_ns` and `datetime`; what the tests start, the kernel and
monotonic clocks have the real time.
"""

import datetime as datetimes
import os
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import pytest


class Boundary(NamedTuple):
    """A moment that something may depend on."""

    at: str
    """ISO 8601; UTC where it does not say."""
    zone: str = "UTC"
    """What TZ is then."""


MOMENTS = {
    "minute": Boundary("2026-11-22T21:27"),
    "hour": Boundary("2026-11-22T22:00"),
    "midnight": Boundary("2026-11-23T00:00"),
    "month": Boundary("2026-12-01T00:00"),
    "year": Boundary("2027-01-01T00:00"),
    "leap-day": Boundary("2028-02-29T00:00"),
    "after-leap-day": Boundary("2028-03-01T00:00"),
    "leap-second": Boundary("2017-01-01T00:00"),
    "kiritimati": Boundary("2026-11-23T00:00+14:00", "Pacific/Kiritimati"),
    "st-johns": Boundary("2026-11-22T00:00-03:30", "America/St_Johns"),
    "summer-time-ends": Boundary("2026-11-01T02:00-02:30", "America/St_Johns"),
}
ROOT = f"{Path(__file__).resolve().parents[1]}/"
BEFORE_S = 0.001
IMPORTED_S = 30.0
"""Test modules are imported so long before the moment: some take the time then."""

_Real = datetimes.datetime
_time = time.time


class Clock:
    """The wall clock of this process."""

    def __init__(self) -> None:
        self._at = _time()
        self._began = time.perf_counter()
        self._before = 0
        self.readings = 0

    def start(self, at: float, before: int, ahead_s: float = BEFORE_S) -> None:
        """`before` readings come `ahead_s` before `at` (epoch s), the others after it."""
        self._at, self._before, self._ahead_s, self.readings = at, before, ahead_s, 0
        self._began = time.perf_counter()

    def now(self) -> float:
        """Epoch s."""
        self.readings += self._is_ours(sys._getframe(1))
        if self.readings <= self._before:
            return self._at - self._ahead_s
        return self._at + time.perf_counter() - self._began

    def _is_ours(self, frame: FrameType | None) -> bool:
        """Is it read by this repository, through this module or not?"""
        while frame is not None and frame.f_code.co_filename == __file__:
            frame = frame.f_back
        path = frame.f_code.co_filename if frame is not None else ""
        return path.startswith(ROOT) and "/.venv/" not in path


CLOCK = Clock()


class _Kind(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _Real)

    def __subclasscheck__(cls, other: type) -> bool:
        return issubclass(other, _Real)


class _Shifted(_Real, metaclass=_Kind):
    @classmethod
    def now(cls, tz: datetimes.tzinfo | None = None) -> Any:
        return _Real.fromtimestamp(CLOCK.now(), tz)

    @classmethod
    def today(cls) -> Any:
        return _Real.fromtimestamp(CLOCK.now())

    @classmethod
    def utcnow(cls) -> Any:
        return _Real.fromtimestamp(CLOCK.now(), datetimes.UTC).replace(tzinfo=None)


def epoch_s(at: str) -> float:
    moment = _Real.fromisoformat(at)
    return (moment if moment.tzinfo else moment.replace(tzinfo=datetimes.UTC)).timestamp()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--clock", default="minute", help=f"a moment (UTC), or one of {', '.join(MOMENTS)}")
    parser.addoption("--before", type=int, default=1, help="so many readings of the clock come before the moment")


class Clocks:
    def __init__(self, name: str, before: int) -> None:
        self._about = f"{name}, {before} readings before it"
        boundary = MOMENTS.get(name, Boundary(name))
        self._at, self._before = epoch_s(boundary.at), before
        self._tests = self._reading = 0
        os.environ["TZ"] = boundary.zone
        time.tzset()
        CLOCK.start(self._at, 1 << 60, IMPORTED_S)
        time.time, time.time_ns = CLOCK.now, lambda: int(CLOCK.now() * 1e9)
        datetimes.datetime = _Shifted  # type: ignore[misc]

    def pytest_runtest_setup(self) -> None:
        CLOCK.start(self._at, self._before)

    def pytest_runtest_teardown(self) -> None:
        self._tests += 1
        self._reading += CLOCK.readings > 0

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.write_line(f"{self._about}: {self._reading} of {self._tests} tests read the clock")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Clocks(config.getoption("clock"), config.getoption("before")))
