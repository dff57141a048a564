"""The trace of an invocation, from the X-Ray header that the platform tells. Pure.

`Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1` (X-Ray developer guide, "Tracing header").
Root without its version and hyphens is the trace id of OpenTelemetry and W3C, Parent a span of that trace.
"""

from __future__ import annotations

from ..support.named_tuple import NamedTuple

HEADER_LIMIT = 1024
"""Characters of a header that are looked at. A caller can add to it."""

_HEX = frozenset("0123456789abcdef")


class Trace(NamedTuple):
    """One that is kept: both ids in lower-case hex digits."""

    trace_id: str
    """32 digits."""
    span_id: str
    """16 digits, of the span that the invocation belongs to; "" where that is not said."""


def parse(tracing: object) -> Trace | None:
    """From the `tracing` of INVOKE or platform.start. None where there is none, or it is not sampled: a trace that is
    not kept leads nowhere."""
    value = tracing.get("value") if isinstance(tracing, dict) else None
    if not isinstance(value, str):
        return None
    members: dict[str, str] = {}
    for part in value[:HEADER_LIMIT].split(";"):
        name, _, text = part.partition("=")
        members.setdefault(name.strip().lower(), text.strip().lower())
    version, _, rest = members.get("root", "").partition("-")
    trace_id, parent = rest.replace("-", "", 1), members.get("parent", "")
    if members.get("sampled") != "1" or version != "1" or rest[8:9] != "-" or not _is_id(trace_id, 32):
        return None
    return Trace(trace_id, parent if _is_id(parent, 16) else "")


def _is_id(text: str, digits: int) -> bool:
    """All zeros are no id (W3C trace context)."""
    return len(text) == digits and _HEX.issuperset(text) and text.strip("0") != ""
