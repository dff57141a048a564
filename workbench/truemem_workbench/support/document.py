"""Members of a document for `--json`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypeVar

T = TypeVar("T")


def known_members(members: Mapping[str, T | None]) -> dict[str, T]:
    """The members that have a value: what is not known is left out."""
    return {name: value for name, value in members.items() if value is not None}


def rounded(value: float | None, digits: int = 2) -> float | None:
    """The number, rounded; None if it is not known, or no number."""
    return None if value is None or math.isnan(value) else round(value, digits)
