"""A record as one datagram of DogStatsD, and the socket to the agent.

`NAME:VALUE|d|#KEY:VALUE,...`, one metric a line (Datadog's documentation, "Datagram format and shell usage"). All are
distributions: of two environments that send a count or a gauge with the same tags, only one would be kept.
"""

from __future__ import annotations

import _socket

from ..line_schema import KIB, MIB, WHOLE
from ..platform.tcp import close
from ..support.log import reason
from .otlp import scaled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..output_settings import DogStatsdSettings
    from ..records.record import InvocationRecord


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


class AgentSocket:
    """On UDP or a Unix socket: nothing waits, nothing raises. It is connected, so that the kernel says at the next
    datagram if nothing listens (udp(7))."""

    def __init__(self, settings: DogStatsdSettings) -> None:
        self._settings = settings
        self._socket: _socket.socket | None = None
        self.sent = 0
        self.lost = 0
        """Datagrams, as far as the kernel says."""
        self.why = ""
        """The last was lost because of that."""

    def send(self, datagram: bytes, again: bool = True) -> None:
        """Send it, or count it. `again`: where the agent was not there for the one before, try once more."""
        try:
            self._send(datagram)
        except OSError as error:
            refused = again and isinstance(error, ConnectionRefusedError)
            if not refused or not self._settings.path:
                self._fail(error)  # over UDP it is the one before that was lost; this one has not left
            if not refused or self._settings.path:
                self._close()  # the agent was started anew, perhaps
            if refused:
                self.send(datagram, again=False)

    def look(self) -> None:
        """Was the last one lost?"""
        if self._socket is not None:
            try:
                number = self._socket.getsockopt(_socket.SOL_SOCKET, _socket.SO_ERROR)
                if number:
                    self._fail(OSError(number, "nobody listens there"))
            except OSError:
                pass

    def _send(self, datagram: bytes) -> None:
        """Raises OSError."""
        self._connected().send(datagram, _socket.MSG_DONTWAIT | _socket.MSG_NOSIGNAL)
        self.sent += 1

    def _connected(self) -> _socket.socket:
        """Raises OSError."""
        if self._socket is None:
            settings = self._settings
            address: str | tuple[str, int] = settings.path or (settings.host, settings.port)
            internet = _socket.AF_INET6 if ":" in settings.host else _socket.AF_INET
            made = _socket.socket(_socket.AF_UNIX if settings.path else internet, _socket.SOCK_DGRAM)
            self._socket = made
            made.setblocking(False)
            made.connect(address)
        return self._socket

    def _fail(self, error: OSError) -> None:
        self.lost += 1
        self.why = reason(error)

    def _close(self) -> None:
        close(self._socket)
        self._socket = None
