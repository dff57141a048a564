"""Members of a line in the units of other systems. Pure."""

from __future__ import annotations

from ..line_schema import KIB, MIB, WHOLE
from ..platform.telemetry_events import number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

FACTORS = {MIB: 1 << 20, KIB: 1 << 10, WHOLE: 1}
MOST = 1 << 62
"""What a 64-bit integer surely has room for."""


def scaled(members: Mapping[str, object], name: str, kind: str) -> int | None:
    """A member of such a kind as a whole number, sizes in bytes; None where it is no number, or none that fits. (What
    lay in the journal may be of any kind.)"""
    value = number(members.get(name))
    if value is None:
        return None
    whole = round(value * FACTORS[kind])
    return whole if abs(whole) < MOST else None
