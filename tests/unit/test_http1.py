"""HTTP/1.1, whole and in pieces, good and bad."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from truemem.platform.http1 import HEAD_LIMIT, Malformed, Message, Reader

LIMIT = 1000
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nLambda-Extension-Identifier: abc\r\n\r\nhello"
IN_CHUNKS = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
CHUNKED = IN_CHUNKS + b"4;x=y\r\nhell\r\n1\r\no\r\n0\r\n\r\n"


def reading(data: bytes) -> Reader:
    reader = Reader(LIMIT, requests=not data.startswith(b"HTTP/"))
    reader.feed(data)
    return reader


def whole(data: bytes, at_end: bool = False) -> Message:
    message = reading(data).take(at_end)
    assert message is not None
    return message


ENDS = {
    "a length": (ANSWER, b"hello"),
    "chunks": (CHUNKED, b"hello"),
    "a request without a length": (b"GET / HTTP/1.1\r\n\r\n", b""),
    "an answer that has no body": (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
}


@pytest.mark.parametrize(("data", "body"), ENDS.values(), ids=ENDS)
def test_a_message_ends_by_its_own_head(data: bytes, body: bytes) -> None:
    assert whole(data).body == body


def test_an_answer_has_a_status_and_header_names_in_lower_case() -> None:
    assert (whole(ANSWER).status, whole(ANSWER).headers[b"lambda-extension-identifier"]) == (200, b"abc")


def test_a_body_without_length_ends_with_the_connection() -> None:
    data = b"HTTP/1.1 200 OK\r\n\r\nhello"
    assert reading(data).take() is None
    assert whole(data, at_end=True).body == b"hello"


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
    reader = Reader(LIMIT)
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


def test_the_first_line_is_known_before_the_body_has_come() -> None:
    reader = reading(b"POST /x HTTP/1.1\r\nContent-Length: 5\r\n\r\nhel")
    assert reader.take() is None
    assert reader.start_line == b"POST /x HTTP/1.1"
    reader.feed(b"lo")
    assert reader.take() is not None
    assert reader.start_line == b""


@pytest.mark.parametrize(
    "data",
    [
        b"x" * (HEAD_LIMIT + 1),
        b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * (HEAD_LIMIT // 6) + b"\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        *(ANSWER.replace(b"5", length) for length in (b"-1", b"five", b"1001", b"9" * 20, b"9" * 5000)),
        *(
            IN_CHUNKS + chunk
            for chunk in (b"+1\r\nx\r\n", b"0_1\r\nx\r\n", b"zz\r\n", b"-4\r\n", b"ffff\r\n", b"1\r\nabc\r\n")
        ),
        IN_CHUNKS + b"64\r\n%s\r\n" % (b"x" * 100) * (LIMIT // 100 + 1),
        IN_CHUNKS + b"1" * 300,
        IN_CHUNKS.replace(b"chunked", b"gzip, chunked"),
        *(IN_CHUNKS + b"0\r\n" + trailer for trailer in (b"no header\r\n\r\n", b"a: b" + b"x" * HEAD_LIMIT)),
        b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * (LIMIT + 1),
    ],
)
def test_what_can_never_become_a_message(data: bytes) -> None:
    with pytest.raises(Malformed):
        reading(data).take()


@pytest.mark.parametrize("data", [ANSWER[:-1], CHUNKED[:-3], ANSWER[:20], b""])
def test_a_connection_closed_in_the_middle(data: bytes) -> None:
    with pytest.raises(Malformed):
        reading(data).take(at_end=True)


@given(st.lists(st.binary(min_size=1, max_size=50), max_size=8))
def test_any_chunking_is_undone(pieces: list[bytes]) -> None:
    body = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
    message = whole(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + body + b"0\r\n\r\n")
    assert message.body == b"".join(pieces)


@given(st.lists(st.sampled_from([ANSWER, CHUNKED, b"HTTP/1.1 204 No Content\r\n\r\n"])), st.data())
def test_how_a_stream_is_cut_does_not_matter(messages: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(messages)
    reader = Reader(LIMIT)
    bodies = []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        reader.feed(stream[:size])
        stream = stream[size:]
        while message := reader.take():
            bodies.append(message.body)
    assert bodies == [whole(message).body for message in messages]
    assert reader.held == 0


HEADERS = b"a:\r\n" * 4000


SLOW = {
    "length": (b"POST / HTTP/1.1\r\nContent-Length: 200000\r\n" + HEADERS, b"x"),
    "chunks": (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" + HEADERS, b"1\r\nx\r\n"),
}


@pytest.mark.parametrize(("head", "piece"), SLOW.values(), ids=SLOW)
def test_a_slow_sender_does_not_make_a_message_dear(head: bytes, piece: bytes) -> None:
    """Half a second. Looked at anew with each piece, it would take minutes: longer than a test may."""
    reader = Reader(200_000, requests=True)
    for at in range(len(head)):
        reader.feed(head[at : at + 1])
        assert reader.take() is None
    reader.feed(b"\r\n")
    for _ in range(199_999):
        reader.feed(piece)
        assert reader.take() is None
    assert reader.held < 300_000
