"""HTTP/1.1 messages, as bytes in and values out: what the Lambda APIs and their telemetry use of it."""

from __future__ import annotations

HEAD_LIMIT = 16 * 1024
"""Longest head (start line and headers) accepted, in bytes. AWS's are below 1 KiB."""

SIZE_LIMIT = 64
"""Longest line before a chunk, in bytes."""
TRAILER_LIMIT = 1024
"""Longest trailer after the last chunk, in bytes."""

_INTERIM = (b"100", b"102", b"103")
"""Another response follows."""
_EMPTY = (b"204", b"304")
"""These have no body, whatever their head says (RFC 9112, 6.3)."""

_CHUNKED = -1
_UNTIL_CLOSE = -2


class Malformed(Exception):
    """The bytes are not an HTTP/1.1 message, or break a limit; the connection has no future."""


class Message:
    """One request or response."""

    def __init__(self, start_line: bytes, headers: dict[bytes, bytes], body: bytes = b"") -> None:
        self.start_line = start_line
        self.headers = headers
        """By lower-case name; of a repeated header the last one counts."""
        self.body = body

    @property
    def status(self) -> int:
        """Status code of a response. Raises Malformed for anything else."""
        words = self.start_line.split(None, 2)
        if len(words) < 2 or not words[0].startswith(b"HTTP/1.") or not words[1].isdigit() or len(words[1]) > 3:
            raise Malformed(f"no status line: {self.start_line[:80]!r}")
        return int(words[1])


class Reader:
    """Takes a stream apart into messages. Whatever the pieces in which it comes, no byte is looked at more than a few
    times: a sender cannot make a message cost more by sending it slowly."""

    def __init__(self, body_limit: int) -> None:
        self._body_limit = body_limit
        self._data = bytearray()
        """Received, and not part of `_body` or `_head`."""
        self._searched = 0
        """In so many bytes of `_data` the head does not end."""
        self._head: Message | None = None
        self._length = 0
        """Of the body whose head is there; or how its end is to be known."""
        self._body = bytearray()
        """What there is of a body in chunks."""

    @property
    def held(self) -> int:
        """Bytes kept of a message that is not whole."""
        return len(self._data) + len(self._body)

    @property
    def begun(self) -> bool:
        """Has something come of a message that is not whole?"""
        return bool(self._head is not None or self._data or self._body)

    @property
    def start_line(self) -> bytes:
        """The first line of the message that is being received, once its head is there; else nothing."""
        return self._head.start_line if self._head is not None else b""

    def feed(self, piece: bytes) -> None:
        """More has come."""
        self._data += piece

    def take(self, at_end: bool = False) -> Message | None:
        """The next message, or None while it is incomplete.

        `at_end` says that the peer has closed: a body without a length then ends here (RFC 9112, 6.3).
        Raises Malformed for anything that can never become a message with a body of at most `body_limit` bytes.
        """
        head = self._head
        while head is None:
            head = self._take_head(at_end)
            if head is None:
                return None
            if _code(head.start_line) in _INTERIM:
                head = None
        self._head = head
        length, held = self._length, len(self._data)
        if length == _CHUNKED:
            body = self._take_chunks()
        elif length == _UNTIL_CLOSE:
            self._check(held)
            body = self._cut(held) if at_end else None
        else:
            body = self._cut(length) if held >= length else None
        if body is None:
            if at_end:
                raise Malformed("closed in the middle of a body")
            return None
        self._head = None
        head.body = body
        return head

    def _cut(self, size: int, more: int = 0) -> bytes:
        """Take so many bytes out, and so many after them away."""
        piece = bytes(self._data[:size])
        del self._data[: size + more]
        return piece

    def _check(self, size: int) -> None:
        if size > self._body_limit:
            raise Malformed(f"a body of {size} bytes, limit {self._body_limit}")

    def _take_head(self, at_end: bool) -> Message | None:
        end = self._data.find(b"\r\n\r\n", self._searched, HEAD_LIMIT + 4)
        if end < 0:
            if len(self._data) > HEAD_LIMIT or at_end:
                raise Malformed(f"no end of the head in {len(self._data)} bytes")
            self._searched = max(0, len(self._data) - 3)
            return None
        self._searched = 0
        start_line, *lines = self._cut(end, 4).split(b"\r\n")
        headers = {}
        for line in lines:
            name, colon, value = line.partition(b":")
            if not colon:
                raise Malformed(f"not a header: {line[:80]!r}")
            headers[name.strip().lower()] = value.strip()
        self._length = self._framing(start_line, headers)
        return Message(start_line, headers)

    def _framing(self, start_line: bytes, headers: dict[bytes, bytes]) -> int:
        if _code(start_line) in _EMPTY:
            return 0
        coding = headers.get(b"transfer-encoding")
        if coding is not None:
            if coding.lower() != b"chunked":
                raise Malformed(f"Transfer-Encoding {coding[:40]!r}")
            return _CHUNKED
        length = headers.get(b"content-length")
        if length is None:
            # A request without a length has no body.
            return _UNTIL_CLOSE if start_line.startswith(b"HTTP/") else 0
        if not length.isdigit() or len(length) > 12:
            raise Malformed(f"bad Content-Length {length[:40]!r}")
        size = int(length)
        self._check(size)
        return size

    def _take_chunks(self) -> bytes | None:
        """The body once its last chunk is there. Chunks that are whole are put together as they come."""
        data, at = self._data, 0
        try:
            while True:
                line_end = data.find(b"\r\n", at, at + SIZE_LIMIT)
                if line_end < 0:
                    if len(data) - at >= SIZE_LIMIT:
                        raise Malformed("no chunk size")
                    return None
                size = _chunk_size(data[at:line_end])
                self._check(len(self._body) + size)
                if size == 0:
                    end = self._trailer_end(line_end)
                    if end < 0:
                        return None
                    at = end
                    body, self._body = bytes(self._body), bytearray()
                    return body
                end = line_end + 2 + size
                if len(data) < end + 2:
                    return None
                if data[end : end + 2] != b"\r\n":
                    raise Malformed("a chunk longer than its size")
                self._body += data[line_end + 2 : end]
                at = end + 2
        finally:
            del data[:at]

    def _trailer_end(self, at: int) -> int:
        """Where the trailer ends that begins with the line end at `at`; -1 while it is not whole."""
        end = self._data.find(b"\r\n\r\n", at, at + TRAILER_LIMIT)
        if end < 0:
            if len(self._data) - at >= TRAILER_LIMIT:
                raise Malformed("no end of the trailer")
            return -1
        if any(b":" not in line for line in self._data[at:end].split(b"\r\n")[1:]):
            raise Malformed("a chunk longer than its size")
        return end + 4


def _code(start_line: bytes) -> bytes:
    """Of a response, nothing for a request."""
    return start_line[9:12] if start_line.startswith(b"HTTP/1.") else b""


def _chunk_size(line: bytearray) -> int:
    digits = bytes(line).partition(b";")[0].strip()
    try:
        size = int(digits, 16)
    except ValueError:
        size = -1
    if size < 0 or not digits.isalnum():  # no sign, no underscore
        raise Malformed(f"bad chunk size {digits!r}")
    return size
