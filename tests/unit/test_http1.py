"""HTTP/1.1, whole and in pieces, good and bad."""

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
from truemem.platform.http1 import (
    HEAD_LIMIT,
    HEADERS,
    LINE_LIMIT,
    PROXY_HEAD_LIMIT,
    Framing,
    Malformed,
    Message,
    MessageReader,
)

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


def feed(framing: Framing, stream: bytes, cuts: list[int] | None = None) -> list[Message]:
    """Everything, and the memory that it takes is bounded at any moment."""
    heads = []
    for piece in pieces_of(stream, cuts or []):
        heads += framing.feed(piece)
        assert len(framing._pending) <= PROXY_HEAD_LIMIT + 1
    return heads


def found(heads: list[Message]) -> list[Read]:
    return [Read(head.start_line, only_read(head.headers), head.body_bytes) for head in heads]


def only_read(headers: dict[bytes, bytes]) -> dict[bytes, bytes]:
    return {name: headers[name] for name in headers if name in HEADERS}


def expected(messages: list[Sent]) -> list[Read]:
    return [message.read for message in messages]


# Valid messages

TOKEN = st.text("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.", min_size=1, max_size=12)
VALUE = st.text([chr(code) for code in range(0x20, 0x7F)], max_size=30).map(str.strip)
SPACE = st.sampled_from(["", " ", "  ", "\t"])
FRAMED = ("content-length", "transfer-encoding", "connection", "upgrade", "content-encoding", "host", "trailer")
READ_NAMES = sorted(name.decode() for name in HEADERS if name.decode() not in FRAMED)
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
    names = st.sampled_from(READ_NAMES).flatmap(mixed_case) | TOKEN.filter(lambda name: name.lower() not in FRAMED)
    headers = draw(st.dictionaries(names, VALUE, max_size=4))
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
    return Sent(data, Read(start_line.encode(), only_read(read), body_bytes))


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
def test_a_body_without_length_ends_with_the_connection(before: list[Sent], body: bytes, cuts: list[int]) -> None:
    framing = Framing(RESPONSES)
    last = Sent(b"HTTP/1.1 200 OK\r\nA: b\r\n\r\n" + body, Read(b"HTTP/1.1 200 OK", {}, len(body)))
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


@pytest.mark.parametrize("requests", [REQUESTS, RESPONSES], ids=["requests", "responses"])
@given(data=st.data(), cuts=CUTS)
def test_bodies_that_are_not_looked_at_are_as_well_counted(requests: bool, data: Any, cuts: list[int]) -> None:
    """They stay in the kernel, which says how many bytes have passed."""
    messages = data.draw(st.lists(message(requests), max_size=5))
    framing = Framing(requests)
    heads: list[Message] = []
    for piece in pieces_of(stream_of(messages), cuts):
        unseen = min(framing.body_left, len(piece))
        if unseen:
            framing.skip(unseen)
        heads += framing.feed(piece[unseen:])
    assert found(heads) == expected(messages)
    assert all(head.complete for head in heads)
    assert between(framing)


def test_the_longest_head_and_line_and_a_repeated_header() -> None:
    framing = Framing(REQUESTS)
    line = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nRetry-After: a\r\nRetry-After: "
    head = line + b"x" * (PROXY_HEAD_LIMIT - len(line) - 4) + b"\r\n\r\n"
    (read,) = feed(framing, head + b"1;" + b"x" * (LINE_LIMIT - 4) + b"\r\ny\r\n0\r\n\r\n")
    assert read.body_bytes == 1
    assert set(read.headers[b"retry-after"]) == {ord("x")}  # it counts as it came last
    assert between(framing)


LIMIT = 1000
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nLambda-Extension-Identifier: abc\r\n\r\nhello"
IN_CHUNKS = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
CHUNKED = IN_CHUNKS + b"4;x=y\r\nhell\r\n1\r\no\r\n0\r\n\r\n"

# What is not valid

HEAD = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n"
NOT_REQUESTS = {
    "not HTTP": b"\x16\x03\x01\x00\xa5\r\n\r\n",
    "an empty head": b"\r\n\r\n",
    "a line of one word": b"GET\r\n\r\n",
    "a line of four words": b"GET / a HTTP/1.1\r\n\r\n",
    "a head without end": b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * (PROXY_HEAD_LIMIT // 6),
    "a line without end": b"x" * (PROXY_HEAD_LIMIT + 1),
    "line ends of another system": b"GET / HTTP/1.1\n\n" * (PROXY_HEAD_LIMIT // 16 + 1),
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
    "a trailer without end": HEAD + b"\r\n0\r\n" + b"x" * (PROXY_HEAD_LIMIT + 1),
    "a trailer of too many lines": HEAD + b"\r\n0\r\n" + b"X: y\r\n" * (PROXY_HEAD_LIMIT // 6 + 1),
    "a trailer without a colon": HEAD + b"\r\n0\r\nno header\r\n\r\n",
}
NOT_RESPONSES = {
    "not HTTP": b"SSH-2.0-OpenSSH\r\n\r\n",
    "a request": b"GET / HTTP/1.1\r\n\r\n",
    "no status": b"HTTP/1.1\r\n\r\n",
    "a status in words": b"HTTP/1.1 fine\r\n\r\n",
    "a status of two digits": b"HTTP/1.1 20 OK\r\n\r\n",
    "a status of four digits": b"HTTP/1.1 2000 OK\r\n\r\n",
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
    reader = MessageReader(LIMIT, requests)
    with pytest.raises(Malformed):
        for at in range(0, len(data), size := 1 if bytewise else len(data)):
            reader.feed(data[at : at + size])
            reader.take()


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
        limits = {"max_line_size": PROXY_HEAD_LIMIT, "max_field_size": PROXY_HEAD_LIMIT}
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
def test_what_was_changed_is_not_misread(data: st.DataObject, requests: bool) -> None:
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


# Whole messages


def reading(data: bytes) -> MessageReader:
    reader = MessageReader(LIMIT, requests=not data.startswith(b"HTTP/"))
    reader.feed(data)
    return reader


def whole(data: bytes, at_end: bool = False) -> Message:
    message = reading(data).take(at_end)
    assert message is not None
    return message


WHOLE = {
    "a length": ANSWER,
    "chunks": CHUNKED,
    "a trailer": IN_CHUNKS + b"5\r\nhello\r\n0\r\nA: b\r\nC:\r\n\r\n",
    "a trailer after an extension": IN_CHUNKS + b"5;a\r\nhello\r\n0;b=c\r\nA: b\r\n\r\n",
    "an interim answer before it": b"HTTP/1.1 100 Continue\r\n\r\n" + ANSWER,
    "several": b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.0 102 X\r\n\r\n" + CHUNKED,
    "an older version": ANSWER.replace(b"HTTP/1.1", b"HTTP/1.0"),
    "names in another case": CHUNKED.replace(b"Transfer-Encoding: c", b"transfer-encoding: C"),
}
"""Also what HTTP allows, and these APIs do not use."""


@pytest.mark.parametrize("name", WHOLE)
def test_it_is_understood_however_it_is_cut(name: str) -> None:
    data = WHOLE[name]
    for end in range(len(data)):
        assert reading(data[:end]).take() is None
    reader = MessageReader(LIMIT)
    messages = []
    for at in range(2 * len(data)):
        reader.feed((data + data)[at : at + 1])
        if message := reader.take():
            messages.append((message.status, message.body))
            assert not reader.begun
    assert messages == [(200, b"hello")] * 2
    assert reader.held == 0
    reader.feed(data + b"more")
    assert reader.take() is not None
    assert reader.held == len(b"more")


def test_a_message_has_its_status_its_headers_and_its_body() -> None:
    answer = whole(ANSWER)
    assert (answer.status, answer.headers[b"lambda-extension-identifier"], answer.body) == (200, b"abc", b"hello")
    for data in b"GET / HTTP/1.1\r\n\r\n", b"HTTP/1.1 204 No Content\r\n\r\n":
        assert whole(data).body == b""
    data = b"HTTP/1.1 200 OK\r\n\r\nhello"  # ends with the connection
    assert reading(data).take() is None
    assert whole(data, at_end=True).body == b"hello"


@pytest.mark.parametrize(
    ("head", "is_last"),
    [
        (b"HTTP/1.1 200 OK\r\n", False),
        (b"HTTP/1.1 200 OK\r\nConnection: Close\r\n", True),
        (b"HTTP/1.0 200 OK\r\n", True),
        (b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n", False),
    ],
)
def test_an_answer_says_whether_the_connection_stays(head: bytes, is_last: bool) -> None:
    assert whole(head + b"Content-Length: 0\r\n\r\n").is_last is is_last


@pytest.mark.parametrize(
    "data",
    [
        b"x" * (HEAD_LIMIT + 1),
        b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * (HEAD_LIMIT // 6) + b"\r\n",
        ANSWER.replace(b"5", b"1001"),
        IN_CHUNKS + b"ffff\r\n",
        IN_CHUNKS + b"64\r\n%s\r\n" % (b"x" * 100) * (LIMIT // 100 + 1),
        IN_CHUNKS + b"0\r\na: b" + b"x" * HEAD_LIMIT,
        b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * (LIMIT + 1),
    ],
)
def test_what_is_longer_than_a_limit_is_no_message(data: bytes) -> None:
    with pytest.raises(Malformed):
        reading(data).take()


@pytest.mark.parametrize("data", [ANSWER[:-1], CHUNKED[:-3], ANSWER[:20], b""])
def test_a_connection_closed_in_the_middle(data: bytes) -> None:
    with pytest.raises(Malformed):
        reading(data).take(at_end=True)


MANY_HEADERS = b"a:\r\n" * 4000


SLOW = {
    "length": (b"POST / HTTP/1.1\r\nContent-Length: 200000\r\n" + MANY_HEADERS, b"x"),
    "chunks": (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" + MANY_HEADERS, b"1\r\nx\r\n"),
}


@pytest.mark.parametrize(("head", "piece"), SLOW.values(), ids=SLOW)
def test_a_slow_sender_does_not_make_a_message_dear(head: bytes, piece: bytes) -> None:
    """Half a second. Looked at anew with each piece, it would take minutes: longer than a test may."""
    reader = MessageReader(200_000, requests=True)
    for at in range(len(head)):
        reader.feed(head[at : at + 1])
        assert reader.take() is None
    reader.feed(b"\r\n")
    for _ in range(199_999):
        reader.feed(piece)
        assert reader.take() is None
    assert reader.held < 300_000
