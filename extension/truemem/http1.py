"""HTTP/1.1 messages, as bytes in and values out: what the Lambda APIs and their telemetry use of it."""

from __future__ import annotations

HEAD_LIMIT = 16 * 1024
"""Longest head (start line and headers) accepted, in bytes. AWS's are below 1 KiB."""


class Malformed(Exception):
    """The bytes are not an HTTP/1.1 message, or break a limit; the connection has no future."""


class Message:
    """One request or response."""

    __slots__ = ("body", "headers", "start_line")

    def __init__(self, start_line: bytes, headers: dict[bytes, bytes], body: bytes) -> None:
        self.start_line = start_line
        self.headers = headers
        """By lower-case name; of a repeated header the last one counts."""
        self.body = body

    @property
    def status(self) -> int:
        """Status code of a response. Raises Malformed for anything else."""
        words = self.start_line.split(None, 2)
        if len(words) < 2 or not words[0].startswith(b"HTTP/1.") or not words[1].isdigit():
            raise Malformed(f"no status line: {self.start_line[:80]!r}")
        return int(words[1])


def parse(data: bytes | bytearray, body_limit: int, at_end: bool = False) -> tuple[Message, int] | None:
    """The first message in `data` and the bytes it takes, or None while it is incomplete.

    `at_end` says that the peer has closed: a body without a length then ends here (RFC 9112, 6.3).
    Raises Malformed for anything that can never become a message of at most `body_limit` bytes of body.
    """
    head_end = data.find(b"\r\n\r\n", 0, HEAD_LIMIT + 4)
    if head_end < 0:
        if len(data) > HEAD_LIMIT or at_end:
            raise Malformed(f"no end of the head in {len(data)} bytes")
        return None
    start_line, *lines = bytes(data[:head_end]).split(b"\r\n")
    headers = {}
    for line in lines:
        name, colon, value = line.partition(b":")
        if not colon:
            raise Malformed(f"not a header: {line[:80]!r}")
        headers[name.strip().lower()] = value.strip()
    start = head_end + 4

    if headers.get(b"transfer-encoding", b"").lower() == b"chunked":
        unchunked = _unchunk(data, start, body_limit, at_end)
        if unchunked is None:
            return None
        body, end = unchunked
        return Message(start_line, headers, body), end

    length = headers.get(b"content-length")
    if length is None:
        if not start_line.startswith(b"HTTP/"):
            return Message(start_line, headers, b""), start  # a request without a length has no body
        if not at_end:
            return None
        return Message(start_line, headers, bytes(data[start:])), len(data)
    if not length.isdigit() or len(length) > 12:
        raise Malformed(f"bad Content-Length {length[:40]!r}")
    end = start + int(length)
    if end - start > body_limit:
        raise Malformed(f"a body of {end - start} bytes, limit {body_limit}")
    if len(data) < end:
        if at_end:
            raise Malformed("closed in the middle of a body")
        return None
    return Message(start_line, headers, bytes(data[start:end])), end


def _unchunk(data: bytes | bytearray, at: int, limit: int, at_end: bool) -> tuple[bytes, int] | None:
    """The body that chunks from `at` on spell, and where they end; None while they are incomplete."""
    pieces: list[bytes] = []
    total = 0
    while True:
        line_end = data.find(b"\r\n", at, at + 64)
        if line_end < 0:
            if at_end or len(data) - at >= 64:
                raise Malformed("no chunk size")
            return None
        digits = bytes(data[at:line_end]).partition(b";")[0].strip()
        try:
            size = int(digits, 16)
        except ValueError:
            raise Malformed(f"bad chunk size {digits!r}") from None
        total += size
        if size < 0 or total > limit:
            raise Malformed(f"chunks of more than {limit} bytes")
        chunk_end = line_end + 2 + size
        if len(data) < chunk_end + 2:
            if at_end:
                raise Malformed("closed in the middle of a chunk")
            return None
        if data[chunk_end : chunk_end + 2] != b"\r\n":
            raise Malformed("a chunk longer than its size")
        pieces.append(bytes(data[line_end + 2 : chunk_end]))
        at = chunk_end + 2
        if size == 0:  # trailers are not used by any of these APIs: the last chunk's CRLF is the end
            return b"".join(pieces), at
