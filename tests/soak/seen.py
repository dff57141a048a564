"""What a soak sees, of our own making: arrivals, lines and changes of environments."""

import json
from itertools import count
from typing import Any

from truemem_workbench.local.scaling import Answer, EnvironmentChange
from truemem_workbench.printed.line import Line, parse_event
from truemem_workbench.soak.driver import Arrival
from truemem_workbench.soak.tally import Tally

from tests.report import written

BEGUN_MS = written.BEGIN_MS
_numbers = count()


def begun(*environments: str) -> Tally:
    """A soak at its first moment, with these environments."""
    tally = Tally()
    tally.begin(0.0, BEGUN_MS)
    for name in environments:
        tally.change(started(name))
    return tally


def answer(environment: str = "a", *, begun_s: float = 0.0, ended_s: float = 0.0, cold: bool = False,
           error: str = "") -> Answer:  # fmt: skip
    return Answer(f"request-{next(_numbers)}", environment, begun_s, ended_s, cold, error, b"{}")


def arrival(due_s: float, latency_ms: float = 10.0, environment: str = "a", *, late_s: float = 0.0, cold: bool = False,
            error: str = "") -> Arrival:  # fmt: skip
    """A request that was sent so late, and answered `latency_ms` after it was due."""
    ended_s = due_s + latency_ms / 1000
    came = answer(environment, begun_s=due_s + late_s, ended_s=ended_s, cold=cold, error=error)
    return Arrival(due_s, due_s + late_s, came, ended_s)


def throttled(due_s: float) -> Arrival:
    return arrival(due_s, 0.1, "", error="throttled")


def dropped(due_s: float) -> Arrival:
    return Arrival(due_s, due_s, None, due_s)


def line(invocation: int = 1, at_s: float | None = None, environment: str = "a", **members: Any) -> Line:
    """A line of the sidecar, of an invocation that began at this second of the soak."""
    at_ms = round(BEGUN_MS + 1000 * (invocation if at_s is None else at_s))
    begin = {"Timestamp": at_ms, "CloudWatchMetrics": [{"Namespace": "truemem"}]}
    (made,) = parse_event(json.loads(written.line(environment, invocation, _aws=begin, **members)))
    return made


def started(environment: str = "a", at_s: float = 0.0) -> EnvironmentChange:
    return EnvironmentChange(environment, "started", at_s)


def initialised(environment: str = "a", at_s: float = 0.0, init_ms: float = 120.0) -> EnvironmentChange:
    return EnvironmentChange(environment, "initialised", at_s, init_ms=init_ms)


def reset(reason: str, environment: str = "a", at_s: float = 0.0) -> EnvironmentChange:
    return EnvironmentChange(environment, "reset", at_s, reason)


def ended(reason: str = "idle", environment: str = "a", at_s: float = 0.0) -> EnvironmentChange:
    return EnvironmentChange(environment, "ended", at_s, reason)
