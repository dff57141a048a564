"""Requests of 90 minutes and instances of 14 days, simulated: the records are right, and the sidecar does not grow."""

import gc
import tracemalloc
from collections.abc import Iterator
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from truemem.config import Config
from truemem.lifecycle.loop import LoopParts
from truemem.managed import ManagedInstances, segments
from truemem.measure.recorder import Recorder
from truemem.support import minijson
from truemem.support.log import set_level

from tests.records import wings_of
from tests.unit.stand_ins import MIB, PROC, Kills, OneProcess, Output, Surroundings

MS = 1_000_000
S = 1_000_000_000
MINUTE, DAY = 60 * S, 86_400 * S
BEGAN_NS = 1_700_000_000 * S
TELEMETRY_NS = 300 * MS
"""It comes so late."""
ENVIRON = {b"AWS_LAMBDA_FUNCTION_NAME": b"f", b"AWS_LAMBDA_FUNCTION_MEMORY_SIZE": b"4096"}


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    set_level("off")
    yield
    set_level("info")


class Function(OneProcess):
    """System calls take time, and the sidecar's CPU time."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ns, self.cpu_ns = BEGAN_NS, 0
        self.call_ns = 500_000
        self.waits_ns = 0
        """For a CPU."""

    def pass_time(self) -> None:
        self.now_ns += self.call_ns + self.waits_ns
        self.cpu_ns += self.call_ns


class Instance:
    """The sidecar, what the platform sends it, and the time of all of them."""

    def __init__(self) -> None:
        self.process = Function()
        self.output = Output()
        self.telemetry: list[tuple[int, bytes]] = []
        api: Any = SimpleNamespace(waiting=True, descriptor=0, overdue_at=float("inf"))
        server: Any = SimpleNamespace(descriptors=list, refused=0)
        poll: Any = SimpleNamespace(poll=self._wait, register=lambda *_: None, unregister=lambda *_: None)
        clock: Any = SimpleNamespace(monotonic_ns=self.now, epoch_ns=self.now, cpu_ns=lambda: self.process.cpu_ns)
        table = self.process.table()
        recorder = Recorder(table, PROC, clock=self.now)
        beside: list[Any] = [Surroundings(), Kills(), None, clock, poll, wings_of(ENVIRON)]
        self.sidecar = ManagedInstances(LoopParts(api, server, "", Config(ENVIRON), table, recorder, *beside))
        self.sidecar._segments.recorder._clock = self.now
        self.sidecar._publisher._output = self.output  # type: ignore[assignment]

    def now(self) -> int:
        return self.process.now_ns

    def _wait(self, timeout_ms: int) -> list[tuple[int, int]]:
        self.process.now_ns += max(timeout_ms * MS, 10_000)
        while self.telemetry and self.telemetry[0][0] <= self.now():
            self.sidecar._loop.inbox.bodies.append(self.telemetry.pop(0)[1])
        return []

    def run(self, ns: int) -> None:
        until_ns = self.now() + ns
        while self.now() < until_ns:
            self.sidecar._loop.turn()

    def say(self, kind: str, request_id: str) -> None:
        """Telemetry of something that happens now."""
        stamp = datetime.fromtimestamp(self.now() / S, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"
        record = {"requestId": request_id, "status": "success", "metrics": {"durationMs": 1.0}}
        event = {"time": stamp, "type": f"platform.{kind}", "record": record}
        self.telemetry.append((self.now() + TELEMETRY_NS, minijson.dumps([event]).encode()))

    def request(self, request_id: str, ns: int, mib: int) -> None:
        """One that holds so much for a moment."""
        self.say("start", request_id)
        self.run(ns // 2)
        self.process.touch(mib)
        self.run(ns // 2)
        self.say("report", request_id)

    def line(self, request_id: str) -> dict[str, Any]:
        (line,) = [line for line in self.output.lines if line["requestId"] == request_id]
        return line


def test_a_request_of_90_minutes_has_its_own_peak() -> None:
    """Not what was held before it, nor after."""
    instance = Instance()
    instance.run(S)
    instance.request("before", 2 * S, 900)
    instance.run(100 * MS)
    instance.say("start", "long")
    instance.run(30 * MINUTE)
    instance.process.touch(300)
    for number in range(10):
        instance.request(f"beside {number}", 4 * MINUTE, 100)
    instance.run(20 * MINUTE)
    instance.say("report", "long")
    instance.run(100 * MS)
    instance.request("after", 2 * S, 700)
    instance.run(2 * S)

    start_mib = 50_000 / MIB
    for name, mib in {"before": 900, "long": 300, "beside 3": 100, "after": 700}.items():
        line = instance.line(name)
        assert line["PeakRSS"] == pytest.approx(start_mib + mib, abs=1), name
        assert line["peakUpper"] == pytest.approx(start_mib + mib, abs=1), name
        assert (line["method"], line["status"]) == ("vmhwm-segments", "success")
    assert (instance.line("long")["sharedBy"], instance.line("after")["sharedBy"]) == (2, 1)


def test_the_first_request_may_run_for_90_minutes() -> None:
    """What was held while its model was loaded is the init phase's, and is still known."""
    instance = Instance()
    instance.process.call_ns = 5 * MS
    instance.run(S)
    instance.process.touch(2000)
    instance.run(S)
    instance.request("first", 90 * MINUTE, 300)
    instance.run(10 * S)
    line = instance.line("first")
    assert [round(line[name] - 50_000 / MIB) for name in ("initPeakRSS", "PeakRSS", "peakUpper")] == [2000, 300, 300]


def held_bytes() -> int:
    """What the sidecar's code, and what it calls, has allocated and holds."""
    gc.collect()
    outside = [tracemalloc.Filter(False, name) for name in (__file__, tracemalloc.__file__)]
    kept = tracemalloc.take_snapshot().filter_traces(outside)
    return sum(each.size for each in kept.statistics("filename"))


def test_an_instance_of_14_days_does_not_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests overlap, some run for long, and some are never reported."""
    monkeypatch.setattr(segments, "WIDTHS", 2)  # a tenth of them fills these
    count, held = 1000, []
    instance = Instance()
    instance.process.call_ns = 10 * MS
    tracemalloc.start()
    try:
        for number in range(count):
            if number % 5 == 0:
                instance.say("start", f"long {number}")
            instance.request(f"{number}", S, 10)
            if number % 7 == 0:
                instance.telemetry.pop()
            if number % 5 == 3:
                instance.say("report", f"long {number - 3}")
            instance.process.now_ns += 14 * DAY // count
            instance.run(S)
            instance.output.lines.clear()
            if number in (count // 10, count - 1):
                held.append(held_bytes())
    finally:
        tracemalloc.stop()
    assert instance.now() - BEGAN_NS > 14 * DAY
    assert held[1] < held[0] + 4096, held


def test_on_a_busy_machine_telemetry_has_its_turn() -> None:
    """A segment takes longer than it is to last, so the next one is always due."""
    instance = Instance()
    instance.process.call_ns, instance.process.waits_ns = 10_000, 10 * MS
    instance.run(S)
    instance.request("a", S, 100)
    instance.run(2 * S)
    assert instance.line("a")["status"] == "success"


def test_a_request_whose_report_is_lost_ends_all_the_same() -> None:
    instance = Instance()
    instance.process.call_ns = 10 * MS
    instance.run(S)
    instance.request("lost", S, 100)
    instance.telemetry.pop()
    instance.run(90 * MINUTE)
    assert instance.output.lines == []
    instance.run(2 * MINUTE)
    (line,) = instance.output.lines
    assert (line["reportMissing"], line["PeakRSS"]) == (True, pytest.approx(50_000 / MIB + 100, abs=1))
