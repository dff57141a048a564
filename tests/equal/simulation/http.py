"""HTTP/1.1 as the others in a made-up environment write and read it: mostly well, and in pieces."""

from __future__ import annotations

import _json

from . import kernel as k
from .rolls import Rolls, mangled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_encode = _json.make_encoder(None, None, _json.encode_basestring_ascii, None, ":", ",", False, False, True)  # type: ignore[arg-type]


def dumps(value: Any) -> bytes:
    return "".join(_encode(value, 0)).encode()


class Message:
    def __init__(self, start: bytes, headers: dict[bytes, bytes], body: bytes) -> None:
        self.start, self.headers, self.body = start, headers, body


def taken(buffer: bytearray) -> Message | None:
    """The first message, if it is whole: it is taken out of the buffer."""
    head_end = buffer.find(b"\r\n\r\n")
    if head_end < 0:
        return None
    start, *lines = bytes(buffer[:head_end]).split(b"\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(b":") for line in lines)}
    at = head_end + 4
    if headers.get(b"transfer-encoding") == b"chunked":
        end = buffer.find(b"0\r\n\r\n", at)
        if end < 0:
            return None
        body, end = bytes(buffer[at:end]), end + 5
    else:
        length = headers.get(b"content-length", b"0")
        end = at + (int(length) if length.isdigit() and len(length) < 12 else 0)
        if len(buffer) < end:
            return None
        body = bytes(buffer[at:end])
    del buffer[:end]
    return Message(start, headers, body)


def framed(rolls: Rolls, start: bytes, body: bytes, headers: bytes = b"", closes: bool = False) -> bytes:
    """With a length, in chunks, or (`closes`: of an answer) until the connection closes."""
    kind = rolls.below(10)
    if kind == 0 and body:
        size = 1 + rolls.below(len(body))
        pieces = [body[at : at + size] for at in range(0, len(body), size)][:200]
        body = b"".join(pieces)
        chunks = b"".join(b"%x%s\r\n%s\r\n" % (len(each), rolls.pick((b"", b"", b";a=b")), each) for each in pieces)
        trailer = rolls.pick((b"", b"", b"x: y\r\n"))
        return b"%s\r\n%sTransfer-Encoding: chunked\r\n\r\n%s0\r\n%s\r\n" % (start, headers, chunks, trailer)
    if kind == 1 and closes:
        return b"%s\r\n%sConnection: close\r\n\r\n%s" % (start, headers, body)
    name = rolls.pick((b"Content-Length", b"Content-Length", b"content-length", b"CONTENT-LENGTH"))
    return b"%s\r\n%s%s: %d\r\n\r\n%s" % (start, headers, name, len(body), body)


def send(rolls: Rolls, wire: k.Wire, data: bytes, delay: int = 0) -> None:
    """At once, or in pieces; rarely byte by byte."""
    kind = rolls.below(12)
    cuts: list[int] = []
    if kind < 2:
        cuts = sorted(rolls.below(len(data) + 1) for _ in range(1 + rolls.below(4)))
    elif kind == 2 and len(data) < 300:
        cuts = [*range(1, len(data))]
    at = 0
    for cut in [*cuts, len(data)]:
        if cut > at:
            wire.say(data[at:cut], delay + at * rolls.pick((0, 0, 10 * k.US)))
            at = cut
    if kind == 3 and rolls.chance(30):
        wire.reset(delay + k.MS)


def answer(
    rolls: Rolls, wire: k.Wire, status: int, body: bytes, headers: bytes = b"", delay: int = 0, mangles: int = 0
) -> None:
    """Answer a request. `mangles`: answers with something wrong, of 1,000."""
    version = b"HTTP/1.0" if rolls.chance(10) else b"HTTP/1.1"
    data = framed(rolls, b"%s %d %s" % (version, status, rolls.pick((b"OK", b"", b"X Y"))), body, headers, closes=True)
    if rolls.chance(15):
        data = b"HTTP/1.1 100 Continue\r\n\r\n" + data
    if rolls.chance(mangles):
        data = mangled(rolls, data)
    send(rolls, wire, data, delay)
    if b"Connection: close" in data or rolls.chance(10):
        wire.hang_up(delay + 2 * k.MS)
