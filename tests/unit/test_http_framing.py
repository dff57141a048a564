"""Where messages begin and end, however the stream is cut; what is not understood ends the reading and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import pytest
from aiohttp.base_protocol import BaseProtocol
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.http_parser import HttpRequestParser, HttpResponseParser, RawRequestMessage
from hypothesis import assume, given
from hypothesis import strategies as st
from truemem.platform.http_framing import HEAD_LIMIT, LINE_LIMIT, Framing, Head

REQUESTS, RESPONSES = True, False


class Read(NamedTuple):
    start_line: bytes
    headers: dict[bytes, bytes]
    body_bytes: int


class Sent(NamedTuple):
    """One message, and what has to be found of it."""

    data: bytes
    read: Read


def pieces_of(stream: bytes, cuts: list[int]) -> Iterator[memoryview]:
    places = [0, *sorted(cut % (len(stream) + 1) for cut in cuts), len(stream)]
    for begin, end in pairwise(places):
        yield memoryview(stream)[begin:end]


def feed(framing: Framing, stream: bytes, cuts: list[int] | None = None) -> list[Head]:
    """Everything, and the memory that it takes is bounded at any moment."""
    heads = []
    for piece in pieces_of(stream, cuts or []):
        heads += framing.feed(piece)
        assert len(framing._pending) <= HEAD_LIMIT + 1
    return heads


def found(heads: list[Head]) -> list[Read]:
    return [Read(head.start_line, head.headers, head.body_bytes) for head in heads]


def expected(messages: list[Sent]) -> list[Read]:
    return [message.read for message in messages]


# Valid messages

TOKEN = st.text("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.", min_size=1, max_size=12)
VALUE = st.text([chr(code) for code in range(0x20, 0x7F)], max_size=30).map(str.strip)
SPACE = st.sampled_from(["", " ", "  ", "\t"])
FRAMED = ("content-length", "transfer-encoding", "connection", "upgrade", "content-encoding", "host", "trailer")
CUTS = st.lists(st.integers(0, 1 << 20), max_size=12)


def mixed_case(name: str) -> st.SearchStrategy[str]:
    return st.sampled_from([name, name.lower(), name.upper(), name.title()])


@st.composite
def chunked(draw: st.DrawFn, body: bytes) -> bytes:
    """The body in chunks, with extensions and a trailer as they come."""
    data = b""
    cuts = draw(st.lists(st.integers(0, 1 << 10), max_size=4))
    for piece in pieces_of(body, cuts):
        if piece:
            extension = draw(st.sampled_from([b"", b";x", b";name=value", b';q="a b";z=1']))
            size = draw(st.sampled_from([b"%x", b"%X", b"0%x", b"0000%X"])) % len(piece)
            data += size + extension + b"\r\n" + bytes(piece) + b"\r\n"
    trailer = draw(st.lists(TOKEN.map("T-{}: x".format), max_size=2))
    return data + b"0\r\n" + "".join(f"{line}\r\n" for line in trailer).encode() + b"\r\n"


@st.composite
def message(draw: st.DrawFn, requests: bool) -> Sent:
    """Any message that says itself where it ends."""
    body = draw(st.binary(max_size=80))
    headers = draw(st.dictionaries(TOKEN.filter(lambda name: name.lower() not in FRAMED), VALUE, max_size=4))
    body_bytes = len(body)
    if requests:
        method = draw(st.sampled_from(["GET", "POST", "PUT", "DELETE"]))
        target = draw(st.sampled_from(["/", "/2018-06-01/runtime/invocation/next", "/a/b?c=d"]))
        start_line, headers["Host"] = f"{method} {target} HTTP/1.1", "127.0.0.1:9001"
        shape = draw(st.sampled_from(["length", "chunked", "none"]))
    else:
        status = draw(st.sampled_from([100, 103, 200, 202, 204, 304, 403, 413, 500]))
        reason = draw(st.sampled_from([" OK", " Not at all", " "]))
        start_line = f"HTTP/1.1 {status}{reason}"
        shape = "none" if status in (100, 103, 204, 304) else draw(st.sampled_from(["length", "chunked"]))
    if shape == "length":
        headers[draw(mixed_case("Content-Length"))] = f"{len(body)}"
        payload = body
    elif shape == "chunked":
        headers[draw(mixed_case("Transfer-Encoding"))] = draw(st.sampled_from(["chunked", "Chunked"]))
        payload = draw(chunked(body))
    else:
        payload, body_bytes = b"", 0
    items = draw(st.permutations(list(headers.items())))
    # Node's parser knows no `chunked` with a tab behind it.
    lines = [f"{name}:{draw(SPACE)}{value}{'' if name.lower() in FRAMED else draw(SPACE)}" for name, value in items]
    data = "\r\n".join([start_line, *lines, "", ""]).encode() + payload
    read = {name.lower().encode(): value.encode() for name, value in items}
    return Sent(data, Read(start_line.encode(), read, body_bytes))


def between(framing: Framing) -> bool:
    """Has all of the last message passed, and nothing of the next one?"""
    return not framing.lost and not framing.beginning and (framing.head is None or framing.head.complete)


def stream_of(messages: list[Sent]) -> bytes:
    return b"".join(sent.data for sent in messages)


@pytest.mark.parametrize("bytewise", [False, True], ids=["pieces", "bytewise"])
@pytest.mark.parametrize("requests", [REQUESTS, RESPONSES], ids=["requests", "responses"])
@given(data=st.data(), cuts=CUTS)
def test_messages_are_found_however_they_are_cut(requests: bool, bytewise: bool, data: Any, cuts: list[int]) -> None:
    messages = data.draw(st.lists(message(requests), max_size=3 if bytewise else 5))
    stream = stream_of(messages)
    framing = Framing(requests)
    heads = feed(framing, stream, list(range(len(stream))) if bytewise else cuts)
    assert found(heads) == expected(messages)
    if not requests:
        assert [b"%d" % head.status for head in heads] == [sent.read.start_line.split(b" ")[1] for sent in messages]
    assert between(framing)
    assert not framing.lost


@given(st.lists(message(RESPONSES), max_size=3), st.binary(max_size=300), CUTS)
def test_a_response_without_a_length_ends_with_the_connection(before: list[Sent], body: bytes, cuts: list[int]) -> None:
    framing = Framing(RESPONSES)
    last = Sent(b"HTTP/1.1 200 OK\r\nA: b\r\n\r\n" + body, Read(b"HTTP/1.1 200 OK", {b"a": b"b"}, len(body)))
    assert found(feed(framing, stream_of([*before, last]), cuts)) == expected([*before, last])
    assert not framing.lost
    assert not between(framing)


@given(message(REQUESTS) | message(RESPONSES), st.data())
def test_a_head_is_told_with_its_last_byte_and_not_before(sent: Sent, data: st.DataObject) -> None:
    """What is passed on must not be ahead of what is known of it."""
    framing = Framing(requests=not sent.read.start_line.startswith(b"HTTP/"))
    end = sent.data.index(b"\r\n\r\n") + 4
    cut = data.draw(st.integers(0, end - 1))
    assert feed(framing, sent.data[:cut]) == []
    assert between(framing) == (cut == 0)
    assert feed(framing, sent.data[cut : end - 1]) == []
    assert len(feed(framing, sent.data[end - 1 : end])) == 1


@given(message(RESPONSES), st.data())
def test_what_has_passed_of_a_body_is_counted_as_it_passes(sent: Sent, data: st.DataObject) -> None:
    """A connection may be cut off in the middle of it."""
    framing = Framing(RESPONSES)
    begin = sent.data.index(b"\r\n\r\n") + 4
    whole = Framing(RESPONSES)
    (head,) = feed(framing, sent.data[:begin])
    (same,) = feed(whole, sent.data[: (end := data.draw(st.integers(begin, len(sent.data))))])
    last = 0
    for at in range(begin, end):
        feed(framing, sent.data[at : at + 1])
        assert last <= head.body_bytes <= sent.read.body_bytes
        last = head.body_bytes
    assert head.body_bytes == same.body_bytes


def test_an_event_of_six_megabytes() -> None:
    body = bytes(6 << 20)
    stream = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body + b"HTTP/1.1 202 \r\n\r\n"
    heads = feed(Framing(RESPONSES), stream, list(range(0, len(stream), 131_072)))
    assert [head.status for head in heads] == [200, 202]
    assert heads[0].body_bytes == len(body)


def test_the_longest_head_the_longest_line_between_chunks_and_a_repeated_header() -> None:
    framing = Framing(REQUESTS)
    line = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nX: a\r\nX: "
    head = line + b"x" * (HEAD_LIMIT - len(line) - 4) + b"\r\n\r\n"
    (read,) = feed(framing, head + b"1;" + b"x" * (LINE_LIMIT - 4) + b"\r\ny\r\n0\r\n\r\n")
    assert read.body_bytes == 1
    assert set(read.headers[b"x"]) == {ord("x")}  # it counts as it came last
    assert between(framing)


# What is not valid

HEAD = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n"
NOT_REQUESTS = {
    "not HTTP": b"\x16\x03\x01\x00\xa5\r\n\r\n",
    "an empty head": b"\r\n\r\n",
    "a line of one word": b"GET\r\n\r\n",
    "a line of four words": b"GET / a HTTP/1.1\r\n\r\n",
    "a head without end": b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * (HEAD_LIMIT // 6),
    "a line without end": b"x" * (HEAD_LIMIT + 1),
    "line ends of another system": b"GET / HTTP/1.1\n\n" * (HEAD_LIMIT // 16 + 1),
    "a negative length": b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
    "a length in words": b"POST / HTTP/1.1\r\nContent-Length: five\r\n\r\n",
    "an empty length": b"POST / HTTP/1.1\r\nContent-Length:\r\n\r\n",
    "two lengths in one": b"POST / HTTP/1.1\r\nContent-Length: 5, 5\r\n\r\n",
    "a length in hexadecimal": b"POST / HTTP/1.1\r\nContent-Length: 0x5\r\n\r\n",
    "a length of no terabyte": b"POST / HTTP/1.1\r\nContent-Length: " + b"9" * 13 + b"\r\n\r\n",
    "more digits than Python takes": b"POST / HTTP/1.1\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n",
    "a coding of another kind": b"POST / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
    "a folded length": b"POST / HTTP/1.1\r\nX: y\r\n Content-Length: 5\r\n\r\n",
    "a chunk size with a sign": HEAD + b"\r\n+1\r\nx\r\n",
    "a chunk size with an underscore": HEAD + b"\r\n0_1\r\nx\r\n",
    "a chunk size with a prefix": HEAD + b"\r\n0x1\r\nx\r\n",
    "no chunk size": HEAD + b"\r\n\r\nx\r\n",
    "letters for a chunk size": HEAD + b"\r\nzz\r\n",
    "a chunk size without end": HEAD + b"\r\n" + b"1" * (LINE_LIMIT + 1),
    "a chunk longer than its size": HEAD + b"\r\n1\r\nabc\r\n",
    "a chunk a byte longer than its size": HEAD + b"\r\n1\r\nab\r\n",
    "a chunk without its line end": HEAD + b"\r\n1\r\nxyz0\r\n\r\n",
    "a trailer without end": HEAD + b"\r\n0\r\n" + b"x" * (HEAD_LIMIT + 1),
    "a trailer of too many lines": HEAD + b"\r\n0\r\n" + b"X: y\r\n" * (HEAD_LIMIT // 6 + 1),
    "a trailer without a colon": HEAD + b"\r\n0\r\nno header\r\n\r\n",
}
NOT_RESPONSES = {
    "not HTTP": b"SSH-2.0-OpenSSH\r\n\r\n",
    "a request": b"GET / HTTP/1.1\r\n\r\n",
    "no status": b"HTTP/1.1\r\n\r\n",
    "a status in words": b"HTTP/1.1 fine\r\n\r\n",
    "a status of two digits": b"HTTP/1.1 20 OK\r\n\r\n",
    "a status of four digits": b"HTTP/1.1 2000 OK\r\n\r\n",
    "an empty head": b"\r\n\r\n",
    "a head without end": b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * (HEAD_LIMIT // 6),
    "a length in words": b"HTTP/1.1 200 OK\r\nContent-Length: five\r\n\r\n",
    "a coding of another kind": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: br\r\n\r\n",
}
BAD = [pytest.param(REQUESTS, data, id=name) for name, data in NOT_REQUESTS.items()]
BAD += [pytest.param(RESPONSES, data, id=name) for name, data in NOT_RESPONSES.items()]


@pytest.mark.parametrize("bytewise", [False, True], ids=["whole", "bytewise"])
@pytest.mark.parametrize(("requests", "data"), BAD)
def test_what_is_no_message_is_lost(requests: bool, data: bytes, bytewise: bool) -> None:
    framing = Framing(requests)
    feed(framing, data, list(range(len(data))) if bytewise else [])
    assert framing.lost
    assert not framing._pending


@given(st.binary(min_size=1, max_size=200), st.booleans(), CUTS)
def test_noise_is_lost_within_one_head(noise: bytes, requests: bool, cuts: list[int]) -> None:
    framing = Framing(requests)
    endless = (noise * (HEAD_LIMIT + 1)).replace(b"\n", b".")[: HEAD_LIMIT + 1]
    assert feed(framing, endless, cuts) == []
    assert framing.lost


@given(message(REQUESTS), st.binary(max_size=50), CUTS)
def test_after_it_is_lost_nothing_is_read_any_more(sent: Sent, noise: bytes, cuts: list[int]) -> None:
    framing = Framing(REQUESTS)
    framing.give_up()
    assert feed(framing, noise + sent.data, cuts) == []
    assert framing.lost
    assert not framing._pending
    assert not between(framing)


# Against the parser of Node, which aiohttp has as well


class NodesParser:
    """Reads one direction of a connection; None where it understands no more."""

    def __init__(self, requests: bool) -> None:
        kind = HttpRequestParser if requests else HttpResponseParser
        self._loop = asyncio.new_event_loop()
        limits = {"max_line_size": HEAD_LIMIT, "max_field_size": HEAD_LIMIT}
        settings: dict[str, Any] = {**limits, "auto_decompress": False, "read_until_eof": not requests}
        self._parser = kind(BaseProtocol(self._loop), self._loop, 1 << 16, **settings)

    def read(self, stream: bytes) -> list[tuple[bytes, int]] | None:
        """A word of the start line and the length of the body, of each message."""
        try:
            messages, upgraded, _ = self._parser.feed_data(stream)
        except (HttpProcessingError, ValueError):
            return None
        finally:
            self._loop.close()
        if upgraded or any(payload.exception() is not None for _, payload in messages):
            return None
        words = [head.method if isinstance(head, RawRequestMessage) else f"{head.code}" for head, _ in messages]
        return [
            (word.encode(), getattr(payload, "total_bytes", 0))
            for word, (_, payload) in zip(words, messages, strict=True)
        ]


def ours(requests: bool, stream: bytes, cuts: list[int]) -> list[tuple[bytes, int]] | None:
    framing = Framing(requests)
    heads = feed(framing, stream, cuts)
    if framing.lost:
        return None
    return [(head.start_line.split(b" ")[0 if requests else 1], head.body_bytes) for head in heads]


@pytest.mark.parametrize("requests", [REQUESTS, RESPONSES], ids=["requests", "responses"])
@given(data=st.data(), cuts=CUTS)
def test_messages_are_read_as_node_reads_them(requests: bool, data: st.DataObject, cuts: list[int]) -> None:
    stream = stream_of(data.draw(st.lists(message(requests), max_size=4)))
    assert ours(requests, stream, cuts) == NodesParser(requests).read(stream)


@given(st.data(), st.booleans())
def test_where_something_was_changed_both_read_the_same_or_one_gives_up(data: st.DataObject, requests: bool) -> None:
    """What is not understood may be lost, but not misread."""
    stream = bytearray(stream_of(data.draw(st.lists(message(requests), min_size=1, max_size=2))))
    at = data.draw(st.integers(0, len(stream)))
    other = st.sampled_from([b"\r\n", b" ", b":", b"0", b"1", b"Content-Length: 2\r\n", b"\r\n\r\n", b";", b"\x00"])
    stream[at : at + data.draw(st.integers(0, 4))] = data.draw(other | st.binary(max_size=4))
    # Node takes others for line ends as well
    assume(stream.count(b"\n") == stream.count(b"\r\n") == stream.count(b"\r"))
    mine, theirs = ours(requests, bytes(stream), []), NodesParser(requests).read(bytes(stream))
    if mine is not None and theirs is not None:
        assert [size for _, size in mine] == [size for _, size in theirs]
