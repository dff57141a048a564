"""A record as one datagram of DogStatsD, and the socket to the agent.

`NAME:VALUE|d|#KEY:VALUE,...`, one metric a line (Datadog's documentation, "Datagram format and shell usage"). All are
distributions: of two environments that send a count or a gauge with the same tags, only one would be kept.
"""

from __future__ import annotations

import _socket

from ..line_schema import KIB, MIB, WHOLE
from ..platform.tcp import close
from ..support.log import log, reason
from .otlp_document import scaled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ..output_settings import DogStatsdSettings
    from ..records.record import InvocationRecord


MOST_DATAGRAM_BYTES = 1432
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
HEAP_METRICS = {"truemem.heap.used": "used", "truemem.heap.live": "live", "truemem.heap.held": "held"}
"""Members of `heap`, MiB."""

_KEPT = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_-:./")


def tag(name: str, value: str) -> str:
    """A tag as Datadog stores it: lower case, and an underscore for what a tag may not have. It ends in no colon."""
    text = "".join(c if c in _KEPT else "_" for c in f"{name}:{value}".lower()[:TAG_LIMIT])
    return text.rstrip(":")


def datagram(record: InvocationRecord, tags: Mapping[str, str]) -> bytes:
    """One record, in MOST_DATAGRAM_BYTES at most; nothing where it has no value. `tags` of the function; those of the
    invocation are added."""
    members = record.properties
    own = {
        "cold_start": "true" if members.get("coldStart") else "false",
        "method": str(members.get("method", "")),
        "tenant": str(members.get("tenantId", "")),
    }
    tags_of_all = ",".join(tag(name, value) for name, value in {**tags, **own}.items() if value)
    lines = [f"{name}:{value}|d|#{tags_of_all}" for name, value in _values(record)]
    while lines and len("\n".join(lines)) > MOST_DATAGRAM_BYTES:
        lines.pop()
    return "\n".join(lines).encode()


def _values(record: InvocationRecord) -> Iterator[tuple[str, float]]:
    members, heap = {**record.properties, **record.metrics}, record.properties.get("heap")
    found = [(name, scaled(members, member, kind)) for name, (member, kind) in METRICS.items()]
    if isinstance(heap, dict):
        found += [(name, scaled(heap, member, MIB)) for name, member in HEAP_METRICS.items()]
    return ((name, value) for name, value in found if value is not None)


class AgentSocket:
    """The socket to Datadog's agent, UDP or Unix. Nothing waits, nothing raises. It is connected, so that the kernel
    says at the next datagram if nothing listens (udp(7))."""

    def __init__(self, settings: DogStatsdSettings) -> None:
        self._settings = settings
        self._socket: _socket.socket | None = None
        self.sent = 0
        self.lost = 0
        """Datagrams, as far as the kernel says."""
        self._reported = 0
        """How many of the lost are in the log."""
        self._why = ""
        """Why the last datagram was lost."""

    def send(self, datagram: bytes) -> None:
        """Send it, or count it."""
        try:
            self._connected().send(datagram, _socket.MSG_DONTWAIT | _socket.MSG_NOSIGNAL)
            self.sent += 1
        except OSError as error:
            # Over UDP it is the one before that was refused, and this one has not left.
            of_before = isinstance(error, ConnectionRefusedError) and not self._settings.path
            self._lose(error, sent=int(of_before), unsent=1)
            if self.lost >= 2 * self._reported:  # without an agent each record is a loss: ever fewer lines
                self._report()
            close(self._socket)  # the agent may have been started anew
            self._socket = None

    def end(self) -> None:
        """No datagram follows: was the last one lost?"""
        number = self._socket.getsockopt(_socket.SOL_SOCKET, _socket.SO_ERROR) if self._socket is not None else 0
        if number:
            self._lose(OSError(number, ""), sent=1)
        if self.lost > self._reported:
            self._report()

    def _connected(self) -> _socket.socket:
        """Raises OSError."""
        if self._socket is None:
            settings = self._settings
            address: str | tuple[str, int] = settings.path or (settings.host, settings.port)
            internet = _socket.AF_INET6 if ":" in settings.host else _socket.AF_INET
            self._socket = _socket.socket(_socket.AF_UNIX if settings.path else internet, _socket.SOCK_DGRAM)
            self._socket.setblocking(False)
            self._socket.connect(address)
        return self._socket

    def _lose(self, error: OSError, sent: int = 0, unsent: int = 0) -> None:
        self.sent -= sent
        self.lost += sent + unsent
        self._why = reason(error)

    def _report(self) -> None:
        self._reported = self.lost
        log("warn", f"dogstatsd: {self.lost} datagrams dropped so far, {self.sent} sent: {self._why}")
