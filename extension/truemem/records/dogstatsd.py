"""A record as one datagram of DogStatsD. Pure.

`NAME:VALUE|d|#KEY:VALUE,...`, one metric a line (Datadog's documentation, "Datagram format and shell usage"). All are
distributions: of two environments that send a count or a gauge with the same tags, only one would be kept.
"""

from __future__ import annotations

from ..line_schema import KIB, MIB, WHOLE
from .members import scaled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from .record import InvocationRecord

LONGEST = 1432
"""Bytes of a datagram that no network cuts: what Datadog's own clients keep to for UDP."""
TAG_LIMIT = 200
"""Characters of a tag, key and all ("Getting started with tags")."""

METRICS = {
    "truemem.memory.peak": ("PeakRSS", MIB),
    "truemem.memory.current": ("CurrentRSS", MIB),
    "truemem.oom": ("OutOfMemory", WHOLE),
    "truemem.memory.mark": ("MaxMemoryUsed", MIB),
    "truemem.memory.drift": ("MemoryDrift", KIB),
    "truemem.memory.growing": ("MemoryGrowing", WHOLE),
    "truemem.memory.baseline": ("baselineRSS", MIB),
}
"""Members of the line and their kind, the most important one first. Sizes are sent in bytes."""
HEAP = {"truemem.heap.used": "used", "truemem.heap.live": "live", "truemem.heap.held": "held"}
"""Members of `heap`, MiB."""

SPARE = ("lambda_arn",)
"""Tags that are left out first where all of them are too long: others say the same."""

_KEPT = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_-:./")


def tag(name: str, value: str) -> str:
    """As Datadog stores it: lower case, and an underscore for what a tag may not have. It ends in no colon."""
    text = "".join(c if c in _KEPT else "_" for c in f"{name}:{value}".lower()[:TAG_LIMIT])
    return text.rstrip(":")


def datagram(record: InvocationRecord, tags: Mapping[str, str]) -> bytes:
    """One record, in LONGEST bytes at most; nothing where it has no value. `tags` of the function; those of the
    invocation are added."""
    members = record.properties
    own = {
        "cold_start": "true" if members.get("coldStart") else "false",
        "method": str(members.get("method", "")),
        "tenant": str(members.get("tenantId", "")),
    }
    named = {name: value for name, value in {**tags, **own}.items() if value}
    values = _values(record)
    for skipped in ((), SPARE):
        lines = _lines(values, [tag(name, value) for name, value in named.items() if name not in skipped])
        if len("\n".join(lines)) <= LONGEST:
            break
    while lines and len("\n".join(lines)) > LONGEST:
        lines.pop()
    return "\n".join(lines).encode()


def _values(record: InvocationRecord) -> dict[str, int]:
    members, heap = {**record.properties, **record.metrics}, record.properties.get("heap")
    found = {name: scaled(members, member, kind) for name, (member, kind) in METRICS.items()}
    if isinstance(heap, dict):
        found.update({name: scaled(heap, member, MIB) for name, member in HEAP.items()})
    return {name: value for name, value in found.items() if value is not None}


def _lines(values: Mapping[str, int], tags: list[str]) -> list[str]:
    return [f"{name}:{value}|d|#{','.join(tags)}" for name, value in values.items()]
