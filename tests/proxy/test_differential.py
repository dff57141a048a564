"""The runtime and the API see of each other what they would see without the proxy, byte for byte, to the very end."""

from __future__ import annotations

import select
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from truemem.platform.runtime_proxy import PIECE
from truemem_workbench.testing.proxy.running import (
    ACCEPTED,
    NEXT,
    Proxy,
    Turns,
    accept,
    address_of,
    answer,
    connect,
    event,
    listen,
    reset,
)
from truemem_workbench.testing.proxy.scripts import (
    Close,
    Expect,
    HalfClose,
    Meet,
    Read,
    ReadRest,
    Reset,
    Seen,
    Send,
    SendAndRead,
    Step,
    Wait,
    directly,
    play,
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

    def both_ways(self, runtime: list[Step], server: list[Step]) -> list[tuple[Seen, Seen]]:
        """What the runtime and the API have seen: directly, and through the proxy."""
        direct = directly(self.api, runtime, server)
        proxied = play(self.proxy.port, self.api, runtime, server)
        self.proxy.wait_until_idle()
        assert self.proxy.raised == []
        assert self.proxy.exact.failures == 0
        self.proxy.exact.moments.clear()
        self.proxy.exact.running.clear()
        return [direct, proxied]


@pytest.fixture(scope="module")
def between() -> Iterator[Between]:
    with listen() as api, Proxy(address_of(api), cut=lambda: None) as proxy:
        yield Between(api, proxy)


def pattern(size: int) -> bytes:
    """Bytes that tell if any of them is lost or out of its order."""
    return b"".join(b"%07x " % number for number in range(size // 8 + 1))[:size]


# Conversations


@dataclass
class Scripts:
    """Of both sides, and what each has sent."""

    runtime: list[Step] = field(default_factory=list)
    server: list[Step] = field(default_factory=list)
    of_runtime: bytes = b""
    of_server: bytes = b""

    def runtime_says(self, data: bytes, piece: int, reads: int) -> None:
        self.runtime.append(Send(data, piece))
        self.server.append(Read(len(data), reads))
        self.of_runtime += data

    def server_says(self, data: bytes, piece: int, reads: int) -> None:
        self.server.append(Send(data, piece))
        self.runtime.append(Read(len(data), reads))
        self.of_server += data

    def both_say(self, runtime: bytes, server: bytes) -> None:
        self.runtime.append(SendAndRead(runtime, len(server)))
        self.server.append(SendAndRead(server, len(runtime)))
        self.of_runtime += runtime
        self.of_server += server

    def meet(self) -> None:
        self.runtime.append(Meet())
        self.server.append(Meet())


SMALL_OR_LARGE = st.integers(0, 300) | st.sampled_from([PIECE - 1, PIECE, PIECE + 1, 400_000])
ASKED = st.sampled_from([NEXT, answer("a"), answer("b", pattern(3000)), NEXT * 3, answer("c") + NEXT])
ANSWERED = st.sampled_from(
    [event("a"), event("b", pattern(3000)), ACCEPTED, ACCEPTED + event("c"), b"HTTP/1.1 100 \r\n\r\n"]
)
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
CHUNKS = CHUNKED + b"".join(b"%x\r\n%s\r\n" % (size, bytes(size)) for size in range(1, 300)) + b"0\r\nT: x\r\n\r\n"
ANYTHING = st.binary(max_size=40) | SMALL_OR_LARGE.map(pattern) | st.just(CHUNKS)


@st.composite
def conversation(draw: st.DrawFn) -> Scripts:
    """Requests and answers, or what is neither; in pieces of any size, read in pieces of any size."""
    scripts = Scripts()
    for _ in range(draw(st.integers(0, 5))):
        what = draw(st.sampled_from(["runtime", "server", "server", "both", "waits", "slow"]))
        asked, answered = draw(ASKED | ANYTHING), draw(ANSWERED | ANYTHING)
        said = asked if what == "runtime" else answered
        pieces = [1, 7, 1000, PIECE, 1 << 20] if len(said) < 2000 else [1000, PIECE, 1 << 20]
        piece, reads = draw(st.sampled_from(pieces)), draw(st.sampled_from(pieces))
        if what == "runtime":
            scripts.runtime_says(said, piece, reads)
        elif what == "server":
            scripts.server_says(said, piece, reads)
        elif what == "both":
            scripts.both_say(asked, answered)
        else:
            (scripts.runtime if what == "waits" else scripts.server).append(Wait())
    return scripts


@MANY
@given(conversation(), st.sampled_from(["runtime", "server"]), st.sampled_from([b"", b"last", pattern(200_000)]))
def test_a_conversation_that_one_side_ends(between: Between, scripts: Scripts, first: str, last: bytes) -> None:
    """It closes, or closes its half first; then the other side says the last of it."""
    one, other = (scripts.runtime, scripts.server) if first == "runtime" else (scripts.server, scripts.runtime)
    one += [HalfClose(), ReadRest()]
    other += [ReadRest(), Send(last), Close()]
    for by_runtime, by_server in between.both_ways(scripts.runtime, scripts.server):
        assert by_server.data == scripts.of_runtime + (last if first == "server" else b"")
        assert by_runtime.data == scripts.of_server + (last if first == "runtime" else b"")
        assert (by_runtime.ending, by_server.ending) == ("EOF", "EOF")


@MANY
@given(conversation(), st.sampled_from(["runtime", "server"]), st.sampled_from([b"", b"last", pattern(400_000)]))
def test_a_conversation_that_one_side_cuts_off(between: Between, scripts: Scripts, first: str, last: bytes) -> None:
    """In the middle of what it says: all of that arrives, and then the end."""
    one, other = (scripts.runtime, scripts.server) if first == "runtime" else (scripts.server, scripts.runtime)
    scripts.meet()
    one += [Send(last), Close()]
    other += [ReadRest(1000)]
    for by_runtime, by_server in between.both_ways(scripts.runtime, scripts.server):
        cut_off, saw = (by_runtime, by_server) if first == "runtime" else (by_server, by_runtime)
        assert saw.data == (scripts.of_runtime if first == "runtime" else scripts.of_server) + last
        assert saw.ending == "EOF"
        assert cut_off.data == (scripts.of_server if first == "runtime" else scripts.of_runtime)


@MANY
@given(conversation(), st.sampled_from(["runtime", "server"]), st.sampled_from([b"", b"last", pattern(400_000)]))
def test_a_conversation_that_one_side_breaks_off(between: Between, scripts: Scripts, first: str, last: bytes) -> None:
    """The other side sees a reset, directly and through the proxy. What was under way then may be lost (tcp(7)): it
    has what it had read before, and then no other bytes than those that were sent."""
    one, other = (scripts.runtime, scripts.server) if first == "runtime" else (scripts.server, scripts.runtime)
    scripts.meet()
    one += [Send(last), Reset()]
    other += [ReadRest()]
    for by_runtime, by_server in between.both_ways(scripts.runtime, scripts.server):
        broke_off, saw = (by_runtime, by_server) if first == "runtime" else (by_server, by_runtime)
        sent = scripts.of_runtime if first == "runtime" else scripts.of_server
        assert saw.data[: len(sent)] == sent
        assert last.startswith(bytes(saw.data[len(sent) :]))
        assert saw.ending == "reset"
        assert broke_off.data == (scripts.of_server if first == "runtime" else scripts.of_runtime)


@MANY
@given(conversation(), st.sampled_from(["runtime", "server"]))
def test_a_side_that_closes_without_reading_has_broken_off(between: Between, scripts: Scripts, first: str) -> None:
    """The kernel says so (RFC 1122, 4.2.2.13)."""
    one, other = (scripts.runtime, scripts.server) if first == "runtime" else (scripts.server, scripts.runtime)
    one += [Expect(), Close()]
    other += [Send(b"unread"), ReadRest()]
    for by_runtime, by_server in between.both_ways(scripts.runtime, scripts.server):
        assert (by_server if first == "runtime" else by_runtime).ending == "reset"


# Single cases

MORE: list[Step] = [Wait(), Send(b"more")]

BODY = pattern(6 << 20)


@pytest.mark.parametrize("reads", [1 << 20, 4096], ids=["fast", "slow"])
def test_an_event_and_a_response_of_six_megabytes(between: Between, reads: int) -> None:
    scripts = Scripts()
    for _ in range(2):
        scripts.runtime_says(NEXT, 1 << 20, 1 << 20)
        scripts.server_says(event("a", BODY), 1 << 20, reads)
        scripts.runtime_says(answer("a", BODY), 1 << 20, reads)
        scripts.server_says(ACCEPTED, 1 << 20, reads)
    for by_runtime, by_server in between.both_ways([*scripts.runtime, Close()], [*scripts.server, ReadRest()]):
        assert by_runtime.data == scripts.of_server
        assert by_server.all == (scripts.of_runtime, "EOF")


def test_six_megabytes_both_ways_at_once(between: Between) -> None:
    runtime: list[Step] = [SendAndRead(BODY, len(BODY)), HalfClose(), ReadRest()]
    server: list[Step] = [SendAndRead(BODY[::-1], len(BODY)), HalfClose(), ReadRest()]
    for by_runtime, by_server in between.both_ways(runtime, server):
        assert by_runtime.all == (BODY[::-1], "EOF")
        assert by_server.all == (BODY, "EOF")


def test_a_response_that_is_streamed_byte_by_byte(between: Between) -> None:
    stream = b"POST /2018-06-01/runtime/invocation/a/response HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    stream += b"1\r\nx\r\n" * 300 + b"0\r\nLambda-Runtime-Function-Error-Type: E\r\n\r\n"
    runtime: list[Step] = [Send(NEXT, 1), Read(len(event("a"))), Send(stream, 1), Read(len(ACCEPTED)), Close()]
    server: list[Step] = [Read(len(NEXT)), Send(event("a"), 1), Read(len(stream)), Send(ACCEPTED, 1), ReadRest()]
    for by_runtime, by_server in between.both_ways(runtime, server):
        assert by_runtime.data == event("a") + ACCEPTED
        assert by_server.all == (NEXT + stream, "EOF")


@pytest.mark.parametrize("share", [0.0, 0.001, 0.5, 0.99])
@pytest.mark.parametrize("then", [Close(), Reset()], ids=["closed", "reset"])
def test_an_answer_that_is_cut_off_in_its_middle(between: Between, then: Close | Reset, share: float) -> None:
    whole = event("a", BODY)
    part = whole[: round(len(whole) * share)]
    runtime: list[Step] = [Send(NEXT), ReadRest(), Close()]
    server: list[Step] = [Read(len(NEXT)), Send(part), then]
    for by_runtime, _ in between.both_ways(runtime, server):
        assert by_runtime.ending == ("EOF" if isinstance(then, Close) else "reset")
        assert part.startswith(bytes(by_runtime.data))
        assert isinstance(then, Reset) or by_runtime.data == part


def test_a_refusal_is_read_by_a_runtime_that_is_still_sending(between: Between) -> None:
    """A response that is too large: the API refuses it before all of it has come, and closes. What it has said can be
    read after sending has failed, as urllib3 does."""
    refusal = b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n"
    runtime: list[Step] = [Send(b"POST / HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n" + BODY * 8), ReadRest()]
    server: list[Step] = [Expect(), Send(refusal), Close()]
    for by_runtime, _ in between.both_ways(runtime, server):
        assert by_runtime.data == refusal


def test_a_runtime_that_goes_away_at_once(between: Between) -> None:
    for ending in (Close(), Reset()):
        for _, by_server in between.both_ways([ending], [ReadRest()]):
            assert by_server.all == (b"", "EOF" if isinstance(ending, Close) else "reset")


def test_a_half_that_was_closed_stays_open_for_the_other_one(between: Between) -> None:
    """For as long as it takes."""
    runtime: list[Step] = [Send(NEXT), HalfClose(), ReadRest()]
    server: list[Step] = [ReadRest(), *MORE * 20, Close()]
    for by_runtime, by_server in between.both_ways(runtime, server):
        assert by_runtime.all == (b"more" * 20, "EOF")
        assert by_server.all == (NEXT, "EOF")


@pytest.mark.parametrize("first", ["runtime", "server"])
def test_a_side_that_breaks_off_after_it_closed_its_half_is_not_waited_for(between: Between, first: str) -> None:
    """The end that it sent comes first: the reset shows when the other side sends."""
    one: list[Step] = [HalfClose(), Meet(), Reset(), Meet()]
    other: list[Step] = [ReadRest(), Meet(), Meet(), *MORE * 20]
    runtime, server = (one, other) if first == "runtime" else (other, one)
    for by_runtime, by_server in between.both_ways(runtime, server):
        assert (by_server if first == "runtime" else by_runtime).ending == "EOF"


# What is kept when a side does not read


@pytest.mark.parametrize("reader", ["runtime", "server"])
def test_what_is_not_read_is_not_taken(reader: str) -> None:
    """The sender is held up, as it would be without the proxy. Not a byte is lost when reading goes on."""
    with listen() as api, Turns(address_of(api)) as turns, connect(turns.port) as runtime:
        turns.turn_until(lambda: turns.proxy._ends)
        with accept(api) as server:
            turns.turn_until(lambda: turns.turn(1) or True)
            reading, sending = (runtime, server) if reader == "runtime" else (server, runtime)
            sent = fill(turns, sending)
            assert sent > 2 * PIECE
            assert max(turns.held()) <= PIECE
            received = bytearray()
            reading.setblocking(False)
            sending.shutdown(socket.SHUT_WR)
            ended = False

            def take() -> bool:
                nonlocal ended
                try:
                    piece = reading.recv(1 << 20)
                except BlockingIOError:
                    return False
                received.extend(piece)
                ended = not piece
                return ended

            turns.turn_until(take)
            assert received == pattern(sent)


def fill(turns: Turns, sending: socket.socket) -> int:
    """Send until nothing goes on: how much that was."""
    sending.setblocking(False)
    data = memoryview(pattern(64 << 20))
    sent = 0
    while True:
        try:
            sent += sending.send(data[sent : sent + PIECE])
        except BlockingIOError:
            if not turns.turn(100):
                return sent
        assert all(held <= PIECE for held in turns.held())
        assert sent < len(data), "it takes everything"


def test_neither_side_reads() -> None:
    """Each keeps one piece for the other, and waits for nothing else but that it is taken."""
    with listen() as api, Turns(address_of(api)) as turns, connect(turns.port) as runtime:
        turns.turn_until(lambda: turns.proxy._ends)
        with accept(api) as server:
            fill(turns, server)
            fill(turns, runtime)
            assert sum(turns.held()) <= 2 * PIECE
            assert not turns.turn()


def test_a_side_that_does_not_read_holds_up_no_other_connection() -> None:
    with listen() as api, Turns(address_of(api)) as turns, connect(turns.port) as stuck:
        turns.turn_until(lambda: turns.proxy._ends)
        with accept(api) as flooding, connect(turns.port) as runtime:
            fill(turns, flooding)
            turns.turn_until(lambda: len(turns.proxy._ends) == 4)
            with accept(api) as server:
                for _ in range(10):
                    runtime.send(NEXT)
                    turns.turn_until(lambda: readable(server))
                    assert server.recv(1000) == NEXT
                    server.send(event("a"))
                    turns.turn_until(lambda: readable(runtime))
                    assert runtime.recv(1000) == event("a")
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


def not_read_by_one_that_is_gone(turns: Turns, one: socket.socket, other: socket.socket) -> None:
    fill(turns, other)
    reset(one)


def nothing(turns: Turns, one: socket.socket, other: socket.socket) -> None:
    pass


STATES = [nothing, half_closed, gone, half_closed_then_reset, half_closed_and_not_reading, not_read_by_one_that_is_gone]


@pytest.mark.parametrize("first", ["runtime", "server"])
@pytest.mark.parametrize("comes_about", STATES)
def test_where_nothing_can_go_on_the_proxy_sleeps(comes_about: Callable[..., None], first: str) -> None:
    """Else it would burn the function's CPU time."""
    with listen() as api, Turns(address_of(api)) as turns, connect(turns.port) as runtime:
        turns.turn_until(lambda: turns.proxy._ends)
        with accept(api) as server:
            comes_about(turns, *((runtime, server) if first == "runtime" else (server, runtime)))
            turns.turn_until(lambda: not turns.turn(20))
            assert not any(turns.turn() for _ in range(100))
