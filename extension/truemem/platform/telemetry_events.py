"""Telemetry API events: those that we join to a record, out of whatever comes. Lenient with all that is unknown.

Schema 2022-12-13 of the developer guide's "Telemetry API event schema reference"; every member is optional.
"""

from __future__ import annotations

from ..support.minijson import loads
from ..support.named_tuple import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

INIT_START = "platform.initStart"
RESTORE_START = "platform.restoreStart"
START = "platform.start"
RUNTIME_DONE = "platform.runtimeDone"
REPORT = "platform.report"
LOGS_DROPPED = "platform.logsDropped"

_USED = (INIT_START, RESTORE_START, START, RUNTIME_DONE, REPORT, LOGS_DROPPED)

TEXT_LIMIT = 256
"""Characters of a member that goes into our lines. (A tenant's id may have so many.)"""


PARTS = 32_768
"""Members, elements and brackets of one delivery. The platform's have one in 23 bytes or more; denser ones, which take
many times their size and time to parse, are not the platform's."""


class Event(NamedTuple):
    """One platform event that we use."""

    kind: str
    record: dict[str, Any]
    time_ns: int | None = None
    """When it happened: epoch ns, in steps of a ms; None where it does not say."""

    def text(self, name: str) -> str | None:
        """A member that is a string, else None; no more of it than the longest that the platform may send."""
        value = self.record.get(name)
        return value[:TEXT_LIMIT] if isinstance(value, str) and value else None

    def metric(self, name: str) -> float | None:
        """A member of `metrics` that is a number, and not infinite, else None."""
        metrics = self.record.get("metrics")
        return number(metrics.get(name)) if isinstance(metrics, dict) else None

    @property
    def request_id(self) -> str | None:
        """Which invocation it is about."""
        return self.text("requestId")


def members(body: bytes) -> dict[str, Any] | None:
    """The members of an event of the Extensions API; None where it is no JSON object."""
    try:
        event = loads(body)
    except ValueError:
        return None
    return event if isinstance(event, dict) else None


def remaining_ms(event: dict[str, Any], now_ms: int) -> float:
    """Time until the event's deadline; infinite where it names none."""
    deadline_ms = number(event.get("deadlineMs"))
    return deadline_ms - now_ms if deadline_ms is not None else float("inf")


def number(value: object) -> float | None:
    """The value if it is a number, and not infinite, else None."""
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not abs(value) < 1e15:
        return None
    return value


def parse_batch(body: bytes) -> tuple[list[Event], int]:
    """The events of one delivery that we use, and how many elements could not be understood.

    Unknown types are passed over without being counted. Raises ValueError if the body is no JSON array, or has more
    than PARTS.
    """
    if body.count(b"{") + body.count(b"[") + body.count(b",") > PARTS:
        raise ValueError("telemetry in too many parts")
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
                events.append(Event(kind, record, epoch_ns(element.get("time"))))
            else:
                bad += 1
    return events, bad


def epoch_ns(text: object) -> int | None:
    """`2022-10-12T00:03:50.000Z` as epoch ns, None for anything else. (`datetime` would cost cold-start time.)"""
    if not isinstance(text, str) or len(text) < 20 or text[-1] != "Z" or not text.isascii():
        return None
    digits = text[:4] + text[5:7] + text[8:10] + text[11:13] + text[14:16] + text[17:19]
    fraction = text[20:-1] or "0"
    if (
        text[19] not in ".Z"
        or text[4] + text[7] + text[10] + text[13] + text[16] != "--T::"
        or not (digits + fraction).isdigit()
    ):
        return None
    year, month, day = int(text[:4]), int(text[5:7]), int(text[8:10])
    # Days since the epoch, with the year taken to begin in March: the leap day comes last.
    year -= month < 3
    days = 365 * year + year // 4 - year // 100 + year // 400 + (153 * (month + (9 if month < 3 else -3)) + 2) // 5
    seconds = (days + day - 719469) * 86400 + int(text[11:13]) * 3600 + int(text[14:16]) * 60 + int(text[17:19])
    return seconds * 1_000_000_000 + int((fraction + "000000000")[:9])
