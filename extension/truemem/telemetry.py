"""Telemetry API events: those that we join to a record, out of whatever comes. Lenient with all that is unknown.

Schema 2022-12-13 of the developer guide's "Telemetry API event schema reference"; every member is optional.
"""

from __future__ import annotations

from .minijson import loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

INIT_START = "platform.initStart"
START = "platform.start"
RUNTIME_DONE = "platform.runtimeDone"
REPORT = "platform.report"
LOGS_DROPPED = "platform.logsDropped"

_USED = (INIT_START, START, RUNTIME_DONE, REPORT, LOGS_DROPPED)


class Event:
    """One platform event that we use."""

    __slots__ = ("kind", "record")

    def __init__(self, kind: str, record: dict[str, Any]) -> None:
        self.kind = kind
        self.record = record

    def text(self, name: str) -> str | None:
        """A member that is a string, else None."""
        value = self.record.get(name)
        return value if isinstance(value, str) and value else None

    def metric(self, name: str) -> float | None:
        """A member of `metrics` that is a number, else None."""
        metrics = self.record.get("metrics")
        value = metrics.get(name) if isinstance(metrics, dict) else None
        return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None

    @property
    def request_id(self) -> str | None:
        """Which invocation it is about."""
        return self.text("requestId")


def parse_batch(body: bytes) -> tuple[list[Event], int]:
    """The events of one delivery that we use, and how many elements could not be understood.

    Unknown types are passed over without being counted. Raises ValueError if the body is no JSON array.
    """
    batch = loads(body)
    if not isinstance(batch, list):
        raise ValueError(f"telemetry is not an array but {type(batch).__name__}")  # noqa: TRY004 - bad data, not a bug
    events = []
    bad = 0
    for element in batch:
        kind = element.get("type") if isinstance(element, dict) else None
        if not isinstance(kind, str):
            bad += 1
        elif kind in _USED:
            record = element.get("record")
            if isinstance(record, dict):
                events.append(Event(kind, record))
            else:
                bad += 1
    return events, bad
