"""HTTP/1.1 as the Lambda APIs, their telemetry and collectors use it (RFC 9112, sections 6 and 7). Pure.

`Framing` finds where messages begin and end in a stream, and keeps no body: the proxy reads along with it, and what it
does not understand ends the reading, not the stream. It reads heads itself. A body has a reader, by the way in which
its end is told (RFC 9112, 6.3): `LengthReader`, `ChunkedReader`, `UntilCloseReader`. `MessageReader` takes whole
messages.
"""

from __future__ import annotations

from ..support.log import OwnWords
from ..support.numbers import whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

    from mypy_extensions import i64

HEAD_LIMIT: Final = 16 * 1024
"""Longest head (start line and headers) of a message that is taken, in bytes. AWS's are below 1 KiB."""
PROXY_HEAD_LIMIT: Final = 64 * 1024
"""Longest head of a message that only passes, in bytes. A client context or a trace can make one long."""
STRIDE: Final = 1024
"""Bytes that are looked at in one go for the end of a head or a line."""
LINE_LIMIT: Final = 256
"""Bytes of a line that gives a chunk's size."""

HEADERS: Final = frozenset(
    (
        *(b"connection", b"content-length", b"transfer-encoding", b"retry-after"),
        *(b"lambda-extension-identifier", b"lambda-runtime-aws-request-id"),
    )
)
"""Headers that are read, by lower-case name. Of others only the colon is looked for."""

_HEX = frozenset(b"0123456789abcdefABCDEF")


class Malformed(OwnWords, ValueError):
    """The bytes are no HTTP/1.1 message, or break a limit; the connection has no future."""


class Broken(OwnWords):
    """The connection is of no use any more, and the kernel has no number for why."""


class Message:
    """The head of one request or response, and how much of its body has passed."""

    def __init__(self, start_line: bytes, headers: dict[bytes, bytes]) -> None:
        self.start_line = start_line
        self.headers = headers
        """By lower-case name: those of HEADERS, and some others. Of a repeated header the last one counts."""
        self.status = _status(start_line)
        """Status code of a response; 0 where there is none."""
        self.body_bytes = 0
        self.body = b""
        """The body, where a MessageReader has kept it."""
        self.complete = False

    @property
    def is_last(self) -> bool:
        """Will the sender close the connection after it?"""
        connection = self.headers.get(b"connection", b"").lower()
        return connection == b"close" or (self.start_line.startswith(b"HTTP/1.0") and connection != b"keep-alive")


def _status(start_line: bytes) -> int:
    if start_line.startswith(b"HTTP/1.1 ") and start_line[12:13] == b" ":  # the rest takes 2,500 instructions
        return whole(start_line[9:12], 3) or 0
    code = start_line.partition(b" ")[2].lstrip()[:4].rstrip()
    return int(code) if start_line.startswith(b"HTTP/1.") and code.isdigit() and len(code) == 3 else 0


def _take(pending: bytearray, piece: memoryview, at: int, mark: bytes, limit: int) -> int:
    """Move to `pending` what `piece` has from `at`, up to the end of `mark`, or all that there is: how far. Raises
    Malformed if there is no mark in more than `limit` bytes."""
    before = len(pending)
    pending += piece[at : at + min(limit + 1 - before, STRIDE)]
    found = pending.find(mark, max(0, before - len(mark) + 1))
    if found >= 0:
        del pending[found + len(mark) :]
    elif len(pending) > limit:
        raise Malformed("no end")
    return at + len(pending) - before


class LengthReader:
    """Reads a body of which the head says the length."""

    def __init__(self, message: Message, length: int) -> None:
        self.message = message
        self.left = length
        """Bytes that are sure to be of the body, or of its chunk, and are still to come."""
        self.in_body = True
        """The next byte is of the body, not of what is between its chunks."""

    def read(self, piece: memoryview, at: int) -> int:
        """Read on from `at`: how far. The message is complete with the last byte of its body. Raises Malformed."""
        size = min(self.left, len(piece) - at)
        self.skip(size)
        return at + size

    def skip(self, size: int) -> None:
        """Note that `size` bytes of the body have passed: `left` at most."""
        self.left -= size
        self.message.body_bytes += size
        if not self.left:
            self._end()

    def _end(self) -> None:
        self.message.complete = True


class ChunkedReader(LengthReader):
    """Reads a body in chunks (RFC 9112, 7.1): a line with the size, so many bytes, a line end. The last chunk has the
    size 0, and no bytes; lines of a trailer may follow, then an empty one."""

    def __init__(self, message: Message, pending: bytearray, trailer_limit: int) -> None:
        self.message = message
        self.left = 0
        self.in_body = False
        self._pending = pending
        # Functions, not bound methods: nothing here refers to itself, so it goes without a garbage collection.
        self._line, self._limit = ChunkedReader._size, LINE_LIMIT
        """What reads the next line, and the longest that it may be, in bytes."""
        self._trailer_limit = trailer_limit

    def read(self, piece: memoryview, at: int) -> int:
        if self.in_body:
            return LengthReader.read(self, piece, at)
        pending = self._pending
        at = _take(pending, piece, at, b"\r\n", self._limit)
        if pending.endswith(b"\r\n"):
            line = bytes(pending[:-2])
            pending.clear()
            self._line(self, line)
        return at

    def _size(self, line: bytes) -> None:
        digits = line.partition(b";")[0].strip()  # an extension says nothing that is used here
        if not 0 < len(digits) <= 12 or not _HEX.issuperset(digits):
            raise Malformed("no chunk size")
        self.left = int(digits, 16)
        self.in_body = self.left > 0
        if not self.in_body:
            self._line, self._limit = ChunkedReader._trailer, self._trailer_limit

    def _end(self) -> None:
        self.in_body = False
        self._line, self._limit = ChunkedReader._chunk_end, 2

    def _chunk_end(self, line: bytes) -> None:
        if line:
            raise Malformed("a chunk longer than its size")
        self._line, self._limit = ChunkedReader._size, LINE_LIMIT

    def _trailer(self, line: bytes) -> None:
        self._limit -= len(line) + 2
        if not line:
            self.message.complete = True
        elif b":" not in line:
            raise Malformed("not a trailer")


class UntilCloseReader(LengthReader):
    """Reads a body that ends when the sender closes the connection."""

    def __init__(self, message: Message) -> None:
        super().__init__(message, 0)

    def read(self, piece: memoryview, at: int) -> int:
        self.message.body_bytes += len(piece) - at
        return len(piece)


class Framing:
    """Finds where messages begin and end in one direction of one connection."""

    def __init__(self, requests: bool, head_limit: int = PROXY_HEAD_LIMIT) -> None:
        """`requests`: these are requests, whose body is empty where no length is given."""
        self._requests = requests
        self._head_limit = head_limit
        self._pending = bytearray()
        """The beginning of a head, or of a line between chunks."""
        self.body: LengthReader | None = None
        """Reads the body that passes; None between messages, and in a head."""
        self.head: Message | None = None
        """Head of the message that passes, or passed last; None before the first."""
        self.lost = False
        """Something was not understood: nothing is read any more."""

    @property
    def in_body(self) -> bool:
        """Is the next byte of a body?"""
        return self.body is not None and self.body.in_body

    @property
    def body_left(self) -> int:
        """Bytes that are sure to be of the body, or of its chunk, and are still to come."""
        return self.body.left if self.body is not None else 0

    @property
    def pending(self) -> int:
        """Bytes kept of a head, or of a line between chunks."""
        return len(self._pending)

    @property
    def beginning(self) -> bool:
        """Has a head begun that is not whole?"""
        return self.body is None and bool(self._pending)

    def feed(self, piece: memoryview) -> list[Message]:
        """Take more of the stream. Returns the heads that end in it."""
        heads: list[Message] = []
        at = 0
        try:
            if self.body is None and not self._pending:
                at = self.begin(bytes(piece[:STRIDE]))
                if at and self.head is not None:
                    heads.append(self.head)
            while at < len(piece) and not self.lost:
                before, at = self.head, self.step(piece, at)
                if self.head is not None and self.head is not before:
                    heads.append(self.head)
        except ValueError:
            self.give_up()
        return heads

    def end(self) -> None:
        """The sender has closed: where no length was given, that ends the body (RFC 9112, 6.3)."""
        if isinstance(self.body, UntilCloseReader):
            self.body.message.complete = True
            self.body = None

    def give_up(self) -> None:
        """Read nothing from now on."""
        self.lost = True
        self.body = None
        self._pending.clear()

    def begin(self, text: bytes) -> int:
        """Where a message begins with `text`, and its head is whole, read that: how far. Raises Malformed."""
        is_between = self.body is None and not self._pending and not self.lost
        end = text.find(b"\r\n\r\n") if is_between else -1
        if end < 0 or end + 4 > self._head_limit:
            return 0
        self._begin(text[:end])
        return end + 4

    def step(self, piece: memoryview, at: int) -> int:
        """Read on from `at`: how far. Raises Malformed."""
        body = self.body
        if body is not None:
            at = body.read(piece, at)
            if body.message.complete:
                self.body = None
            return at
        at = _take(self._pending, piece, at, b"\r\n\r\n", self._head_limit)
        if self._pending.endswith(b"\r\n\r\n"):
            self._begin(bytes(self._pending[:-4]))
            self._pending.clear()
        return at

    def skip(self, size: int) -> None:
        """Note that `size` bytes of the body have passed: `body_left` at most."""
        if self.body is not None:
            self.body.skip(size)
            if self.body.message.complete:
                self.body = None

    def _begin(self, text: bytes) -> None:
        """Read a head, without its empty line. Raises Malformed."""
        lines = text.split(b"\r\n")
        headers: dict[bytes, bytes] = {}
        for line in lines[1:]:
            colon: i64 = 0
            size: i64 = len(line)
            while colon < size and line[colon] != 58:
                colon += 1
            if colon == size or line[0] == 32 or line[0] == 9:
                raise Malformed("not a header")
            spaced = line[0] < 33 or line[colon - 1] < 33
            # As long as one of HEADERS is: to look each name up takes twice the instructions.
            if spaced or colon in (10, 11, 14, 17, 27, 29):
                name, value = line[:colon].lower(), line[colon + 1 :].strip()
                if spaced:
                    name = name.strip()
                if name == b"content-length" and headers.get(name, value) != value:
                    raise Malformed("two lengths")
                headers[name] = value
        head = self.head = Message(lines[0], headers)
        self.body = self._body_of(head)
        head.complete = self.body is None

    def _body_of(self, head: Message) -> LengthReader | None:
        """Who reads the body of this message; None where it has none. Raises Malformed."""
        if not self._requests:
            status = head.status
            if not status or status == 101:  # what follows 101 is not HTTP any more
                raise Malformed("no status line")
            if status < 200 or status in (204, 304):
                return None
        elif head.start_line.count(b" ") != 2:
            raise Malformed("no request line")
        coding = head.headers.get(b"transfer-encoding")
        if coding is not None:
            if coding.lower() != b"chunked":
                raise Malformed("a coding that is not used by these APIs")
            return ChunkedReader(head, self._pending, self._head_limit)
        length = head.headers.get(b"content-length")
        if length is None:
            return None if self._requests else UntilCloseReader(head)
        size = whole(length, 12)
        if size is None:
            raise Malformed("no length")
        return LengthReader(head, size) if size else None


class MessageReader:
    """Takes a stream apart into messages. Whatever the pieces in which it comes, no byte is looked at more than a few
    times: a sender cannot make a message cost more by sending it slowly."""

    def __init__(self, body_limit: int, requests: bool = False) -> None:
        """`requests`: these are requests, else responses."""
        self._limit = body_limit
        self._framing = Framing(requests, HEAD_LIMIT)
        self._data = b""
        """Received, and not read."""
        self._body = bytearray()
        """What has come of the body of the message whose head is there."""

    @property
    def held(self) -> int:
        """Bytes kept of a message that is not whole."""
        return len(self._data) + len(self._body) + self._framing.pending

    @property
    def begun(self) -> bool:
        return bool(self._head or self.held)

    @property
    def start_line(self) -> bytes:
        """The first line of the message that is being received, once its head is there; else nothing."""
        return self._head.start_line if self._head is not None else b""

    @property
    def _head(self) -> Message | None:
        head = self._framing.head
        return head if head is not None and not head.complete else None

    def feed(self, piece: bytes) -> None:
        self._data += piece

    def take(self, at_end: bool = False) -> Message | None:
        """The next message, or None while it is incomplete.

        `at_end` says that the peer has closed: a body without a length then ends here (RFC 9112, 6.3).
        Raises Malformed for anything that can never become a message with a body of at most `body_limit` bytes.
        """
        framing, data = self._framing, self._data
        if not data and not at_end:
            return None
        at = framing.begin(data)
        head, left = framing.head, framing.body_left
        if head is not None and at and 0 < left <= min(self._limit, len(data) - at):  # all of it is there, as usual
            framing.skip(left)
            return self._whole(head, data[at : at + left], data[at + left :])
        piece = memoryview(data)
        while True:
            head = framing.head
            if head is not None and head.complete and not framing.pending and not 100 <= head.status < 200:
                return self._whole(head, bytes(self._body), data[at:])
            body, before = framing.body, at
            is_body = body is not None and body.in_body
            if body is not None and is_body and len(self._body) + body.left > self._limit:
                raise Malformed(f"a body of more than {self._limit} bytes")
            if at == len(piece):
                break
            at = framing.step(piece, at)
            if is_body:
                self._body += piece[before:at]
        self._data = b""
        if not at_end:
            return None
        head = self._head
        framing.end()
        if head is None or not head.complete:
            raise Malformed("closed in the middle of a message")
        return self._whole(head, bytes(self._body), b"")

    def _whole(self, head: Message, body: bytes, rest: bytes) -> Message:
        head.body, self._data = body, rest
        self._body.clear()
        self._framing.head = None  # who takes it keeps it
        return head
