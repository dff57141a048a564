"""HTTP/1.1 messages, as bytes in and values out: what the Lambda APIs and their telemetry use of it."""

from __future__ import annotations

from ..support.log import OwnWords, reason
from ..support.named_tuple import NamedTuple
from .http_framing import Framing, Head, NotHttp

HEAD_LIMIT = 16 * 1024
"""Longest head (start line and headers) accepted, in bytes. AWS's are below 1 KiB."""


class Malformed(OwnWords):
    """The bytes are not an HTTP/1.1 message, or break a limit; the connection has no future."""


class Broken(OwnWords, OSError):
    """The connection is of no use any more, and the kernel has no number for why."""


class Message(NamedTuple):
    """One request or response."""

    start_line: bytes
    headers: dict[bytes, bytes]
    """By lower-case name; of a repeated header the last one counts."""
    body: bytes
    status: int
    """Status code of a response; 0 of a request."""


class Reader:
    """Takes a stream apart into messages. Whatever the pieces in which it comes, no byte is looked at more than a few
    times: a sender cannot make a message cost more by sending it slowly."""

    def __init__(self, body_limit: int, requests: bool = False) -> None:
        """`requests`: these are requests, else responses."""
        self._limit = body_limit
        self._framing = Framing(requests, HEAD_LIMIT)
        self._data = b""
        """Received, and not read."""
        self._body = bytearray()
        """Of the message whose head is there."""

    @property
    def held(self) -> int:
        """Bytes kept of a message that is not whole."""
        return len(self._data) + len(self._body) + self._framing.pending

    @property
    def begun(self) -> bool:
        """Has something come of a message that is not whole?"""
        return bool(self._head or self.held)

    @property
    def start_line(self) -> bytes:
        """The first line of the message that is being received, once its head is there; else nothing."""
        return self._head.start_line if self._head is not None else b""

    @property
    def _head(self) -> Head | None:
        """Of the message that is being received."""
        head = self._framing.head
        return head if head is not None and not head.complete else None

    def feed(self, piece: bytes) -> None:
        """More has come."""
        self._data += piece

    def take(self, at_end: bool = False) -> Message | None:
        """The next message, or None while it is incomplete.

        `at_end` says that the peer has closed: a body without a length then ends here (RFC 9112, 6.3).
        Raises Malformed for anything that can never become a message with a body of at most `body_limit` bytes.
        """
        try:
            return self._take(at_end)
        except ValueError as error:
            raise Malformed(reason(error)) from None

    def _take(self, at_end: bool) -> Message | None:
        framing, piece, at = self._framing, memoryview(self._data), 0
        while at < len(piece):
            is_body, before = framing.in_body, at
            at = framing.step(piece, at)
            if is_body:
                self._body += piece[before:at]
            head = framing.head
            if head is not None and head.complete and not framing.pending and not 100 <= head.status < 200:
                return self._whole(head, self._data[at:])
            if framing.in_body and len(self._body) + framing.left > self._limit:
                raise NotHttp(f"a body of more than {self._limit} bytes")
        self._data = b""
        if not at_end:
            return None
        head = self._head
        framing.end()
        if head is None or not head.complete:
            raise NotHttp("closed in the middle of a message")
        return self._whole(head, b"")

    def _whole(self, head: Head, rest: bytes) -> Message:
        body, self._body, self._data = bytes(self._body), bytearray(), rest
        return Message(head.start_line, head.headers, body, head.status)
