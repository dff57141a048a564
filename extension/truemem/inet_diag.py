"""What the kernel knows of a TCP connection: netlink SOCK_DIAG (sock_diag(7)), unprivileged, in our network namespace.

It counts bytes: nothing of what they say is seen, and nothing is delayed.
Layouts: linux/netlink.h, linux/inet_diag.h, and `struct tcp_info` of linux/tcp.h (`tcpi_bytes_sent` since 4.19).
"""

from __future__ import annotations

import _socket
from struct import Struct
from struct import error as StructError

_NETLINK = 16
_SOCK_DIAG = 4
_TCPDIAG_GETSOCK = 18
"""The older request: its dump walks both address families at once."""
_SOCK_DIAG_BY_FAMILY = 20
_REQUEST, _DUMP = 1, 0x300
_ERROR, _DONE = 2, 3
_STATE_ESTABLISHED = 1
_INFO = 2
"""The attribute that holds tcp_info; asked for by the bit one below."""
_ENOENT = 2

_HEADER = Struct("=IHHII")
_REQUEST_V2 = Struct("=BBBBI")
_REQUEST_V1 = Struct("=BBBB")
_PORTS = Struct(">HH")
_NO_COOKIE = Struct("=III").pack(0, 0xFFFFFFFF, 0xFFFFFFFF)
_QUEUES = Struct("=IIIII")
_ATTRIBUTE = Struct("=HH")
_U32 = Struct("=I")

# Where the parts of a message lie, from its start: header, four bytes, the socket's identity, queues, attributes.
_AT_STATE = 16 + 1
_AT_IDENTITY = 16 + 4
_AT_QUEUES = _AT_IDENTITY + 48
_AT_ATTRIBUTES = _AT_QUEUES + 20

_COUNTS = Struct("=52xI72xQ8xI52xQ")
"""In tcp_info: last_data_recv (ms ago), bytes_received, notsent_bytes, bytes_sent."""

DUMPED, ANSWERED = 65536, 4096
"""Bytes of one part of a dump, which the kernel fills up to 32 KiB, and of one connection's answer."""

MAPPED = bytes(10) + b"\xff\xff"
"""What precedes an IPv4 address in an IPv6 one."""


class DiagError(Exception):
    """The kernel refused, or answered something that cannot be understood."""


class Connection:
    """One established TCP connection as of now, seen from its client's end. Counts in bytes."""

    __slots__ = ("identity", "inode", "received", "received_ago_ms", "sent", "unread", "unsent")

    def __init__(
        self, identity: bytes, inode: int, sent: int, received: int, unsent: int, unread: int, received_ago_ms: int
    ) -> None:
        self.identity = identity
        """Address family, ports, addresses: the kernel's own bytes. The same for as long as the connection lives."""
        self.inode = inode
        """As in `socket:[INODE]`, the links of /proc/PID/fd."""
        self.sent = sent
        """Given to the network since the connection was made, repeats included."""
        self.received = received
        self.unsent = unsent
        """Written by the process, and still waiting to be sent."""
        self.unread = unread
        """Received, and not yet read by the process."""
        self.received_ago_ms = received_ago_ms
        """Time since data came last, in steps of a jiffy (4 or 10 ms)."""


def parse(data: bytes) -> tuple[list[tuple[Connection, int, bytes]], bool]:
    """One datagram of answers: each connection with its remote port and address; and was it the last datagram?

    The address is 16 bytes, with IPv4 in the first four. Raises DiagError.
    """
    try:
        return _parse(data)
    except (StructError, IndexError) as error:
        raise DiagError(f"a message that is cut off: {error}") from None


def _parse(data: bytes) -> tuple[list[tuple[Connection, int, bytes]], bool]:
    found: list[tuple[Connection, int, bytes]] = []
    at = 0
    while at < len(data):
        length, kind = _HEADER.unpack_from(data, at)[:2]
        if length < 16 or at + length > len(data):
            raise DiagError(f"a message of {length} bytes in {len(data) - at}")
        if kind == _DONE:
            return found, True
        if kind == _ERROR:
            number = -_U32.unpack_from(data, at + 16)[0] & 0xFFFFFFFF  # it comes negative
            if number == _ENOENT:
                return found, True
            raise DiagError(f"errno {number}")
        if data[at + _AT_STATE] == _STATE_ESTABLISHED:  # a lookup also finds what is in TIME_WAIT, without tcp_info
            found.append(_connection(data[at : at + length]))
        at += (length + 3) & ~3
    return found, False


def _connection(message: bytes) -> tuple[Connection, int, bytes]:
    family = message[16]
    identity = message[_AT_IDENTITY : _AT_IDENTITY + 36]
    _, port = _PORTS.unpack_from(identity)
    _, unread, _, _, inode = _QUEUES.unpack_from(message, _AT_QUEUES)
    at = _AT_ATTRIBUTES
    while at + 4 <= len(message):
        length, kind = _ATTRIBUTE.unpack_from(message, at)
        if kind == _INFO:
            if length - 4 < _COUNTS.size:
                raise DiagError("tcp_info without tcpi_bytes_sent: a kernel before 4.19")
            ago, received, unsent, sent = _COUNTS.unpack_from(message, at + 4)
            connection = Connection(bytes([family]) + identity, inode, sent, received, unsent, unread, ago)
            return connection, port, identity[20:36]
        at += (max(length, 4) + 3) & ~3
    raise DiagError("no tcp_info in the answer")


class InetDiag:
    """Asks the kernel about the established connections to one address. Never waits."""

    def __init__(self, address: str) -> None:
        """`address` is "host:port", the host an IPv4 or IPv6 address. Raises DiagError."""
        host, _, port = address.rpartition(":")
        host = host.strip("[]")
        try:
            if ":" in host:
                self._hosts = {_socket.inet_pton(_socket.AF_INET6, host)}
            else:
                packed = _socket.inet_pton(_socket.AF_INET, host)
                self._hosts = {packed + bytes(12), MAPPED + packed}
            self._port = int(port)
            _PORTS.pack(0, self._port)
        except (OSError, ValueError, StructError):  # not said what it is: it comes from the function's environment
            raise DiagError("the runtime's AWS_LAMBDA_RUNTIME_API is no IP address with a port") from None
        try:
            self._socket = _socket.socket(_NETLINK, _socket.SOCK_DGRAM, _SOCK_DIAG)
            self._socket.setblocking(False)
        except OSError as error:
            raise DiagError(f"netlink: {error.strerror or error}") from None
        self._number = 0

    def connections(self) -> list[Connection]:
        """All of them. The kernel walks its whole table: some hundred µs where that is large. Raises DiagError."""
        request = _REQUEST_V1.pack(0, 0, 0, 1 << (_INFO - 1)) + _PORTS.pack(0, self._port) + bytes(32) + _NO_COOKIE
        answers = self._ask(_TCPDIAG_GETSOCK, _DUMP, request + _U32.pack(1 << _STATE_ESTABLISHED) + bytes(4))
        return [found for found, port, host in answers if port == self._port and host in self._hosts]

    def look(self, connection: Connection) -> Connection | None:
        """That one as of now, None if it is no more: some µs. Raises DiagError."""
        identity = connection.identity
        request = _REQUEST_V2.pack(identity[0], _socket.IPPROTO_TCP, 1 << (_INFO - 1), 0, 1 << _STATE_ESTABLISHED)
        for found, _, _ in self._ask(_SOCK_DIAG_BY_FAMILY, 0, request + identity[1:] + _NO_COOKIE):
            if found.identity == identity and found.inode == connection.inode:
                return found
        return None

    def close(self) -> None:
        """Give the descriptor back."""
        try:
            self._socket.close()
        except OSError:  # it is closed, whatever it says (close(2))
            pass

    def _ask(self, kind: int, flags: int, request: bytes) -> list[tuple[Connection, int, bytes]]:
        self._number = self._number % 0xFFFF + 1
        found: list[tuple[Connection, int, bytes]] = []
        try:
            self._socket.send(_HEADER.pack(16 + len(request), kind, _REQUEST | flags, self._number, 0) + request)
            last = False
            while not last:
                data = self._socket.recv(DUMPED if flags else ANSWERED)
                if len(data) >= 16 and _HEADER.unpack_from(data)[3] != self._number:
                    continue  # what was left of an answer that broke off
                part, last = parse(data)
                found += part
                last |= not flags
        except OSError as error:
            raise DiagError(f"netlink: {error.strerror or error}") from None
        return found
