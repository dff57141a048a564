"""The event, checked."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from settings import Settings

BATCH_MAX = 16384
ROWS_MAX = 256
VALUE_MAX = 1e6
"""Largest value of a row, either sign: the network's float32 stays finite with room to spare."""

TENANT = re.compile(r"[A-Za-z0-9_.:@/-]{1,128}")


class BadEvent(ValueError):
    """An event that cannot be handled. The message names the member, its value and the fix."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """What is asked."""

    model: int
    batch: int
    """Rows to score at once."""
    rows: list[list[float]] | None
    """The rows themselves, `batch` of them, each as wide as the network. None: rows are made."""
    tenant: str | None


def read_event(event: object, settings: Settings) -> Request:
    """The request in an event. Raises BadEvent, naming the member and the fix."""
    if not isinstance(event, dict):
        raise BadEvent(f'event {_short(event)} must be an object, as in {{"model": 3}}')
    model = _whole(event, "model", None, 0, settings.model_count - 1)
    rows = _rows(event, settings.shape.width)
    if rows is not None and event.get("batch") not in (None, len(rows)):
        raise BadEvent(f'event: "batch" is {event["batch"]!r} and "rows" are {len(rows)}: leave out "batch"')
    batch = _whole(event, "batch", 1, 1, BATCH_MAX) if rows is None else len(rows)
    return Request(model=model, batch=batch, rows=rows, tenant=_tenant(event))


def _whole(event: dict[str, Any], name: str, fallback: int | None, lowest: int, highest: int) -> int:
    value = event.get(name, fallback)
    if type(value) is not int or not lowest <= value <= highest:
        raise BadEvent(
            f'event {_short(event)}: "{name}" must be a whole number from {lowest} to {highest}, as in {{"model": 3}}'
        )
    return value


def _rows(event: dict[str, Any], width: int) -> list[list[float]] | None:
    rows = event.get("rows")
    if rows is None:
        return None
    if not isinstance(rows, list) or not 1 <= len(rows) <= ROWS_MAX:
        raise BadEvent(f'event: "rows" is {_short(rows)}, not a list of 1 to {ROWS_MAX} rows')
    for number, row in enumerate(rows):
        if not isinstance(row, list) or len(row) != width:
            held = f"{len(row)} values" if isinstance(row, list) else _short(row)
            raise BadEvent(f'event: "rows"[{number}] is {held}, not a list of {width} numbers (MODEL_WIDTH)')
        for column, value in enumerate(row):
            # NaN is within no bounds; a bool is an int in Python and a mistake here
            if type(value) not in (int, float) or not -VALUE_MAX <= value <= VALUE_MAX:
                raise BadEvent(
                    f'event: "rows"[{number}][{column}] is {_short(value)}, not a number'
                    f" from {-VALUE_MAX:.0f} to {VALUE_MAX:.0f}"
                )
    return rows


def _tenant(event: dict[str, Any]) -> str | None:
    tenant = event.get("tenant")
    if tenant is None:
        return None
    if not isinstance(tenant, str) or not TENANT.fullmatch(tenant):
        raise BadEvent(f'event: "tenant" is {_short(tenant)}, not 1 to 128 letters, digits or any of _.:@/-')
    return tenant


def _short(value: object) -> str:
    """An event may be megabytes; its message should not."""
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}..."
