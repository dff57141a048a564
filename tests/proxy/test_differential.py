"""The runtime and the API see of each other what they would see without the proxy, byte for byte, to the very end."""

from __future__ import annotations

import select
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from truemem.platform.proxy import RECEIVE_BYTES

from testing.proxy import (
    ACCEPTED,
    NEXT,
    Close,
    Expect,
    HalfClose,
    Meet,
    Proxy,
    Read,
    ReadRest,
    Received,
    Reset,
    Send,
    SendAndRead,
    Step,
    Turns,
    Wait,
    Watch,
    accept,
    address_of,
    answer,
    connect,
    directly,
    event,
    listen,
    play,
    reset,
)

MANY = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large]
)
"""One proxy for all examples: what the one has left behind would meet the other."""


@dataclass
class Between:
    """An API, and the proxy before it."""

    api: socket.socket
    proxy: Proxy

    def both_ways(self, one: list[Step], other: list[Step], first: str = "runtime") -> list[tuple[Received, Received]]:
        """What `first` and the other side have seen: directly, and through the proxy."""
        runtime, server = by_side(first, one, other)
        direct = directly(self.api, runtime, server)
        proxied = play(self.proxy.port, self.api, runtime, server)
        self.proxy.wait_until_idle()
        assert self.proxy.raised == []
        assert self.proxy.exact.failures == 0
        self.proxy.exact.moments.clear()
        self.proxy.exact.running.clear()
        return [by_side(first, *direct), by_side(first, *proxied)]


T = TypeVar("T")


def by_side(first: str, one: T, other: T) -> tuple[T, T]:
    """That of the runtime and of the API from those of `first` and the other one, and the other way round."""
    return (one, other) if first == "runtime" else (other, one)


@pytest.fixture(scope="module")
def between() -> Iterator[Between]:
    with listen() as api, Proxy(address_of(api), cut=lambda: None) as proxy:
        yield Between(api, proxy)


def pattern(size: int) -> bytes:
    """Bytes that tell if any of them is lost or out of its order: each eight are a number."""
    return np.arange(size // 8 + 1, dtype=">u4").tobytes().hex().encode()[:size]


# Conversations


@dataclass
class Script:
    """Of one side, and what it has sent."""

    steps: list[Step] = field(default_factory=list)
    sent: bytes = b""

    def says(self, data: bytes, to: Script, piece: int = 1 << 20, reads: int = 1 << 20) -> None:
        self.steps.append(Send(data, piece))
        to.steps.append(Read(len(data), reads))
        self.sent += data

    def says_while_it_reads(self, data: bytes, heard: bytes) -> None:
        self.steps.append(SendAndRead(data, len(heard)))
        self.sent += data


SMALL_OR_LARGE = st.integers(0, 300) | st.sampled_from([RECEIVE_BYTES - 1, RECEIVE_BYTES, RECEIVE_BYTES + 1, 400_000])
ASKED = st.sampled_from([NEXT, answer("a"), answer("b", pattern(3000)), NEXT * 3, answer("c") + NEXT])
ANSWERED = st.sampled_from(
    [event("a"), event("b", pattern(3000)), ACCEPTED, ACCEPTED + event("c"), b"HTTP/1.1 100 \r\n\r\n"]
)
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
CHUNKS = CHUNKED + b"".join(b"%x\r\n%s\r\n" % (size, bytes(size)) for size in range(1, 300)) + b"0\r\nT: x\r\n\r\n"
ANYTHING = st.binary(max_size=40) | SMALL_OR_LARGE.map(pattern) | st.just(CHUNKS)


@st.composite
def conversation(draw: st.DrawFn) -> tuple[Script, Script]:
    """Requests and answers, or what is neither; in pieces of any size, read in pieces of any size."""
    runtime, server = Script(), Script()
    for _ in range(draw(st.integers(0, 5))):
        what = draw(st.sampled_from(["runtime", "server", "server", "both", "waits", "slow"]))
        asked, answered = draw(ASKED | ANYTHING), draw(ANSWERED | ANYTHING)
        said = asked if what == "runtime" else answered
        pieces = [1, 7, 1000, RECEIVE_BYTES, 1 << 20] if len(said) < 2000 else [1000, RECEIVE_BYTES, 1 << 20]
        piece, reads = draw(st.sampled_from(pieces)), draw(st.sampled_from(pieces))
        match what:
            case "runtime":
                runtime.says(asked, server, piece, reads)
            case "server":
                server.says(answered, runtime, piece, reads)
            case "both":
                runtime.says_while_it_reads(asked, answered)
                server.says_while_it_reads(answered, asked)
            case _:
                (runtime if what == "waits" else server).steps.append(Wait())
    return runtime, server


Talk = tuple[Script, Script]
FIRST = st.sampled_from(["runtime", "server"])
LAST = st.sampled_from([b"", b"last", pattern(400_000)])


@MANY
@given(conversation(), FIRST, LAST)
def test_a_conversation_that_one_side_ends(between: Between, talk: Talk, first: str, last: bytes) -> None:
    """It closes its half; then the other side says the last of it."""
    one, other = by_side(first, *talk)
    ends, goes_on = [*one.steps, HalfClose(), ReadRest()], [*other.steps, ReadRest(), Send(last), Close()]
    for by_one, by_other in between.both_ways(ends, goes_on, first):
        assert by_other.all == (one.sent, "EOF")
        assert by_one.all == (other.sent + last, "EOF")


@MANY
@given(conversation(), FIRST, LAST)
def test_a_conversation_that_one_side_cuts_off(between: Between, talk: Talk, first: str, last: bytes) -> None:
    """In the middle of what it says: all of that arrives, and then the end."""
    one, other = by_side(first, *talk)
    cuts_off, goes_on = [*one.steps, Meet(), Send(last), Close()], [*other.steps, Meet(), ReadRest(1000)]
    for by_one, by_other in between.both_ways(cuts_off, goes_on, first):
        assert by_other.all == (one.sent + last, "EOF")
        assert by_one.data == other.sent


@MANY
@given(conversation(), FIRST, LAST)
def test_a_conversation_that_one_side_breaks_off(between: Between, talk: Talk, first: str, last: bytes) -> None:
    """The other side sees a reset, directly and through the proxy. What was under way then may be lost (tcp(7)): it
    has what it had read before, and then no other bytes than those that were sent."""
    one, other = by_side(first, *talk)
    breaks_off, goes_on = [*one.steps, Meet(), Send(last), Reset()], [*other.steps, Meet(), ReadRest()]
    for by_one, by_other in between.both_ways(breaks_off, goes_on, first):
        assert by_other.data[: len(one.sent)] == one.sent
        assert last.startswith(bytes(by_other.data[len(one.sent) :]))
        assert by_other.ending == "reset"
        assert by_one.data == other.sent


@MANY
@given(conversation(), FIRST)
def test_a_side_that_closes_without_reading_has_broken_off(between: Between, talk: Talk, first: str) -> None:
    """The kernel says so (RFC 1122, 4.2.2.13)."""
    one, other = by_side(first, *talk)
    closes, goes_on = [*one.steps, Expect(), Close()], [*other.steps, Send(b"unread"), ReadRest()]
    for _, by_other in between.both_ways(closes, goes_on, first):
        assert by_other.ending == "reset"


@MANY
@given(conversation(), FIRST)
def test_a_side_breaks_off_after_it_closed_its_half(between: Between, talk: Talk, first: str) -> None:
    """The other side has read all, and sends nothing: the kernel tells it, directly and through the proxy."""
    one, other = by_side(first, *talk)
    breaks_off, goes_on = [*one.steps, HalfClose(), Meet(), Reset()], [*other.steps, ReadRest(), Meet(), Watch()]
    for by_one, by_other in between.both_ways(breaks_off, goes_on, first):
        assert by_other.all == (one.sent, "EOF")
        assert by_other.gone
        assert by_one.data == other.sent


# Single cases

MORE: list[Step] = [Wait(), Send(b"more")]

BODY = pattern(6 << 20)


@pytest.mark.parametrize("reads", [1 << 20, 4096], ids=["fast", "slow"])
def test_an_event_and_a_response_of_six_megabytes(between: Between, reads: int) -> None:
    runtime, server = Script(), Script()
    for _ in range(2):
        runtime.says(NEXT, server)
        server.says(event("a", BODY), runtime, reads=reads)
        runtime.says(answer("a", BODY), server, reads=reads)
        server.says(ACCEPTED, runtime, reads=reads)
    for by_runtime, by_server in between.both_ways([*runtime.steps, Close()], [*server.steps, ReadRest()]):
        assert by_runtime.data == server.sent
        assert by_server.all == (runtime.sent, "EOF")


def test_six_megabytes_both_ways_at_once(between: Between) -> None:
    runtime: list[Step] = [SendAndRead(BODY, len(BODY)), HalfClose(), ReadRest()]
    server: list[Step] = [SendAndRead(BODY[::-1], len(BODY)), HalfClose(), ReadRest()]
    for by_runtime, by_server in between.both_ways(runtime, server):
        assert by_runtime.all == (BODY[::-1], "EOF")
        assert by_server.all == (BODY, "EOF")


def test_a_refusal_is_read_by_a_runtime_that_is_still_sending(between: Between) -> None:
    """A response that is too large: the API refuses it before all of it has come, and closes. What it has said can be
    read after sending has failed, as urllib3 does."""
    refusal = b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n"
    runtime: list[Step] = [Send(b"POST / HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n" + BODY * 8), ReadRest()]
    server: list[Step] = [Expect(), Send(refusal), Close()]
    for by_runtime, _ in between.both_ways(runtime, server):
        assert by_runtime.data == refusal


def test_a_half_that_was_closed_stays_open_for_the_other_one(between: Between) -> None:
    """For as long as it takes."""
    runtime: list[Step] = [Send(NEXT), HalfClose(), ReadRest()]
    server: list[Step] = [ReadRest(), *MORE * 20, Close()]
    for by_runtime, by_server in between.both_ways(runtime, server):
        assert by_runtime.all == (b"more" * 20, "EOF")
        assert by_server.all == (NEXT, "EOF")


@pytest.mark.parametrize("first", ["runtime", "server"])
def test_a_reset_after_a_closed_half_is_seen(between: Between, first: str) -> None:
    """The end that it sent comes first: the reset shows when the other side sends."""
    one: list[Step] = [HalfClose(), Meet(), Reset(), Meet()]
    other: list[Step] = [ReadRest(), Meet(), Meet(), *MORE * 20]
    for _, by_other in between.both_ways(one, other, first):
        assert by_other.ending == "EOF"


@pytest.mark.parametrize("first", ["runtime", "server"])
def test_a_reset_directly_after_a_half_was_closed(between: Between, first: str) -> None:
    for _, by_other in between.both_ways([Meet(), HalfClose(), Reset()], [Meet(), Watch()], first):
        assert by_other.gone


# What is kept when a side does not read


@pytest.fixture
def turned() -> Iterator[tuple[Turns, socket.socket, socket.socket, socket.socket]]:
    """A proxy that a test turns itself, its API, and a connection through it: of the runtime and of the API."""
    with listen() as api, Turns(address_of(api)) as turns, connect(turns.port) as runtime:
        turns.turn_until(lambda: turns.proxy._ends)
        with accept(api) as server:
            yield turns, api, runtime, server


Turned = tuple[Turns, socket.socket, socket.socket, socket.socket]


@pytest.mark.parametrize("reader", ["runtime", "server"])
def test_what_is_not_read_is_not_taken(turned: Turned, reader: str) -> None:
    """The sender is held up, as it would be without the proxy. Not a byte is lost when reading goes on."""
    turns, _, runtime, server = turned
    reading, sending = by_side(reader, runtime, server)
    turns.turn_until(lambda: turns.turn(1) or True)
    sent = fill(turns, sending)
    assert sent > 2 * RECEIVE_BYTES
    assert max(turns.held()) <= RECEIVE_BYTES
    pieces: list[bytes] = []
    reading.setblocking(False)
    sending.shutdown(socket.SHUT_WR)

    def take() -> bool:
        with suppress(BlockingIOError):
            pieces.append(reading.recv(1 << 20))
        return pieces[-1:] == [b""]

    turns.turn_until(take)
    assert b"".join(pieces) == pattern(sent)


def fill(turns: Turns, sending: socket.socket, whole: bytes | None = None, *, held: int = RECEIVE_BYTES) -> int:
    """Send of `whole` until nothing goes on: how much that was. No end holds more than `held` bytes meanwhile."""
    sending.setblocking(False)
    data, sent = memoryview(pattern(64 << 20) if whole is None else whole), 0
    while True:
        try:
            sent += sending.send(data[sent : sent + RECEIVE_BYTES])
        except BlockingIOError:
            if not turns.turn(100):
                return sent
        assert all(size <= held for size in turns.held())
        assert sent < len(data), "it takes everything"


def test_neither_side_reads(turned: Turned) -> None:
    """Each keeps one piece for the other, and waits for nothing else but that it is taken."""
    turns, _, runtime, server = turned
    fill(turns, server)
    fill(turns, runtime)
    assert sum(turns.held()) <= 2 * RECEIVE_BYTES
    assert not turns.turn()


def test_a_side_that_does_not_read_holds_up_no_other_connection(turned: Turned) -> None:
    turns, api, stuck, flooding = turned
    fill(turns, flooding)
    with connect(turns.port) as runtime:
        turns.turn_until(lambda: len(turns.proxy._ends) == 4)
        with accept(api) as server:
            for _ in range(10):
                for sender, receiver, data in [(runtime, server, NEXT), (server, runtime, event("a"))]:
                    sender.send(data)
                    turns.turn_until(partial(readable, receiver))
                    assert receiver.recv(1000) == data
    assert stuck.recv(1)


def readable(connection: socket.socket) -> bool:
    poll = select.poll()  # select(2) takes descriptors below 1024 alone
    poll.register(connection, select.POLLIN)
    return bool(poll.poll(0))


def half_closed(turns: Turns, one: socket.socket, _: socket.socket) -> None:
    one.shutdown(socket.SHUT_WR)


def gone(turns: Turns, one: socket.socket, other: socket.socket) -> None:
    one.close()
    turns.turn(100)
    other.send(b"more")


def half_closed_then_reset(turns: Turns, one: socket.socket, _: socket.socket) -> None:
    one.shutdown(socket.SHUT_WR)
    turns.turn(100)
    reset(one)


def half_closed_and_not_reading(turns: Turns, one: socket.socket, other: socket.socket) -> None:
    one.shutdown(socket.SHUT_WR)
    fill(turns, other)


def half_closed_and_not_reading_to_the_end(turns: Turns, one: socket.socket, other: socket.socket) -> None:
    """The kernel tells constantly of the connection of the other side, whose halves are both closed."""
    one.shutdown(socket.SHUT_WR)
    while not any(turns.held()):
        other.send(bytes(RECEIVE_BYTES))
        turns.turn(100)
    other.close()


def not_read_by_one_that_is_gone(turns: Turns, one: socket.socket, other: socket.socket) -> None:
    fill(turns, other)
    reset(one)


def nothing(turns: Turns, one: socket.socket, other: socket.socket) -> None:
    pass


STATES = [
    *(nothing, half_closed, gone, half_closed_then_reset, not_read_by_one_that_is_gone),
    *(half_closed_and_not_reading, half_closed_and_not_reading_to_the_end),
]


@pytest.mark.parametrize("first", ["runtime", "server"])
@pytest.mark.parametrize("comes_about", STATES)
def test_where_nothing_can_go_on_the_proxy_sleeps(turned: Turned, comes_about: Callable[..., None], first: str) -> None:
    """Else it would burn the function's CPU time."""
    turns, _, runtime, server = turned
    comes_about(turns, *by_side(first, runtime, server))
    turns.turn_until(lambda: not turns.turn(20))
    assert not any(turns.turn() for _ in range(100))
    assert comes_about is not half_closed_then_reset or not turns.proxy._ends  # it was passed on
