"""Who has the event first, and when does everything stop between two invocations?

Run as a program it is the ticker: it runs each millisecond, and notes each time that it could not for half a second.
"""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Any

from notes import LATE, note, noted

GAP_NS = 500_000_000
LIFE_S = 60
"""After that the ticker ends by itself."""

STARTED: dict[str, int] = {}
"""When the handler began with each `order` event: CLOCK_MONOTONIC, ns."""
_idle: dict[str, Any] = {}


def arrivals() -> list[float]:
    """For each `order` event by how much the extension had it before the handler began. Below 0: it came later. µs."""
    events = {request: int(came) for request, came in noted("event")}
    return [round((began - events[request]) / 1e3, 1) for request, began in STARTED.items() if request in events]


def before_the_freeze() -> None:
    """Start the ticker. From the next event on, the extension is the last to ask for its next one. Raises OSError."""
    ticker = subprocess.Popen([sys.executable, __file__], stdout=subprocess.PIPE)
    assert ticker.stdout
    ticker.stdout.readline()
    LATE.touch()
    _idle.update(ticker=ticker, monotonic=time.monotonic_ns(), wall=time.time_ns())


def after_the_freeze() -> dict[str, Any]:
    """What both clocks say about the time between, and when the ticker stopped. Milliseconds. Raises OSError."""
    monotonic, wall = time.monotonic_ns(), time.time_ns()
    ticker = _idle.pop("ticker", None)
    if ticker is None:
        raise OSError(0, "this process was not there before the freeze")
    LATE.unlink(missing_ok=True)
    time.sleep(0.05)  # the ticker notes its gap
    ticker.kill()
    ticker.stdout.close()
    ticker.wait(10)
    found: dict[str, Any] = {"monotonicMs": _ms(monotonic - _idle["monotonic"]), "wallMs": _ms(wall - _idle["wall"])}
    asked = [int(at) for (at,) in noted("next") if _idle["monotonic"] < int(at) < monotonic]
    gaps = [tuple(map(int, gap)) for gap in noted("gap")]
    gaps = [gap for gap in gaps if gap[0] >= _idle["monotonic"]]
    if gaps:
        before, length, wall_length = gaps[-1]
        found["stopped"] = {"monotonicMs": _ms(length), "wallMs": _ms(wall_length)}
        if asked:
            # The last tick may be a millisecond before the freeze, so before the request as well.
            found["stopped"]["afterLastNextMs"] = max(0.0, _ms(before - max(asked)))
    return found


def _ms(nanoseconds: int) -> float:
    return round(nanoseconds / 1e6, 2)


def tick() -> None:
    last, wall = time.monotonic_ns(), time.time_ns()
    end = last + LIFE_S * 1_000_000_000
    print(flush=True)  # it runs
    while last < end:
        time.sleep(0.001)
        now, wall_now = time.monotonic_ns(), time.time_ns()
        if max(now - last, wall_now - wall) > GAP_NS:
            note("gap", last, now - last, wall_now - wall)
        last, wall = now, wall_now


if __name__ == "__main__":
    tick()
