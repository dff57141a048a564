"""HTTP/1.1, whole and in pieces, good and bad."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from truemem.http1 import HEAD_LIMIT, Malformed, Message, parse

LIMIT = 1000
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nLambda-Extension-Identifier: abc\r\n\r\nhello"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4;x=y\r\nhell\r\n1\r\no\r\n0\r\n\r\n"


def whole(data: bytes, at_end: bool = False) -> Message:
    parsed = parse(data, LIMIT, at_end)
    assert parsed is not None
    return parsed[0]


@pytest.mark.parametrize("data", [ANSWER, CHUNKED])
def test_an_answer(data: bytes) -> None:
    message = whole(data)
    assert (message.status, message.body) == (200, b"hello")


def test_header_names_are_lower_case() -> None:
    assert whole(ANSWER).headers[b"lambda-extension-identifier"] == b"abc"


def test_a_body_without_length_ends_with_the_connection() -> None:
    data = b"HTTP/1.1 200 OK\r\n\r\nhello"
    assert parse(data, LIMIT) is None
    assert whole(data, at_end=True).body == b"hello"


def test_a_request_without_length_has_no_body() -> None:
    assert whole(b"GET / HTTP/1.1\r\n\r\n").body == b""


@pytest.mark.parametrize("data", [ANSWER, CHUNKED])
def test_every_prefix_is_incomplete_and_what_follows_is_left(data: bytes) -> None:
    for end in range(len(data)):
        assert parse(data[:end], LIMIT) is None
    parsed = parse(data + b"more", LIMIT)
    assert parsed is not None
    assert parsed[1] == len(data)


@pytest.mark.parametrize(
    "data",
    [
        b"x" * (HEAD_LIMIT + 1),
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: five\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n-4\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffff\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1" * 100,
    ],
)
def test_what_can_never_become_a_message(data: bytes) -> None:
    with pytest.raises(Malformed):
        parse(data, LIMIT)


@pytest.mark.parametrize("data", [ANSWER[:-1], CHUNKED[:-3], ANSWER[:20], b""])
def test_a_connection_closed_in_the_middle(data: bytes) -> None:
    with pytest.raises(Malformed):
        parse(data, LIMIT, at_end=True)


@given(st.binary(max_size=300), st.booleans())
def test_anything_is_a_message_or_incomplete_or_malformed(data: bytes, at_end: bool) -> None:
    for start in (
        b"",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: ",
    ):
        try:
            parse(start + data, LIMIT, at_end)
        except Malformed:
            continue


@given(st.lists(st.binary(min_size=1, max_size=50), max_size=8))
def test_any_chunking_is_undone(pieces: list[bytes]) -> None:
    body = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
    message = whole(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + body + b"0\r\n\r\n")
    assert message.body == b"".join(pieces)
