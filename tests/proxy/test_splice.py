"""Large bodies that stay in the kernel arrive as they were sent; where the kernel refuses, they are copied."""

from __future__ import annotations

import errno
import fcntl
import posix
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from truemem.platform import pipe
from truemem.platform.exact_mode import RuntimeConnection
from truemem.platform.pipe import Pipe
from truemem.platform.proxy import LEAST_SPLICED_BYTES, RECEIVE_BYTES

from testing.proxy import (
    ACCEPTED,
    NEXT,
    Close,
    Expect,
    Meet,
    Proxy,
    Read,
    ReadRest,
    Reset,
    Send,
    Step,
    Turns,
    accept,
    address_of,
    answer,
    connect,
    descriptors,
    event,
    read,
    wait_for,
)
from tests.proxy.test_differential import Between, Script, by_side, fill, pattern
from tests.proxy.test_hostile import starved

BODY = pattern(6_000_000)


@pytest.fixture
def between(api: socket.socket) -> Iterator[Between]:
    with Proxy(address_of(api), cut=lambda: None) as proxy:
        yield Between(api, proxy)


@pytest.fixture
def spliced(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Sizes of what was spliced, into a pipe and out of it."""
    sizes: list[int] = []
    splice = posix.splice

    def counted(*arguments: Any) -> int:
        sizes.append(splice(*arguments))
        return sizes[-1]

    monkeypatch.setattr(posix, "splice", counted)
    return sizes


def invoke(runtime: socket.socket, server: socket.socket, body: bytes = BODY) -> None:
    """One invocation whose event and response are `body`, byte for byte."""
    for sender, receiver, data in [
        (runtime, server, NEXT),
        (server, runtime, event("a", body)),
        (runtime, server, answer("a", body)),
        (server, runtime, ACCEPTED),
    ]:
        reading = Reading(receiver, len(data))
        sender.sendall(data)
        assert reading.data() == data


class Reading:
    """Reads in a thread: what is large does not fit into the sockets."""

    def __init__(self, connection: socket.socket, size: int) -> None:
        self._threads = ThreadPoolExecutor(1)
        self._read = self._threads.submit(read, connection, size)

    def data(self) -> bytes:
        data = self._read.result(30)
        self._threads.shutdown()
        return data


def invoke_once(port: int, api: socket.socket, body: bytes = BODY) -> None:
    with connect(port) as runtime, accept(api) as server:
        invoke(runtime, server, body)


def test_large_bodies_are_spliced_and_counted(api: socket.socket, spliced: list[int]) -> None:
    with Proxy(address_of(api), cut=lambda: None) as proxy:
        with connect(proxy.port) as runtime, accept(api) as server:
            invoke(runtime, server)
            runtime.sendall(NEXT)
            assert read(server, len(NEXT)) == NEXT
        (invocation,) = proxy.exact.moments[-1].ended
        assert invocation.event is not None
        assert invocation.answer is not None
        assert (invocation.event.body_bytes, invocation.event.complete) == (len(BODY), True)
        assert (invocation.answer.body_bytes, invocation.answer.complete) == (len(BODY), True)
        assert proxy.exact.failures == 0
    assert sum(spliced) > 2 * 2 * (len(BODY) - RECEIVE_BYTES - LEAST_SPLICED_BYTES)


def test_no_connection_is_paced(api: socket.socket) -> None:
    """BBR, where it is the system's choice, spends more on its timers than a body of 6 MB costs without them."""
    with Proxy(address_of(api)) as proxy, connect(proxy.port) as runtime, accept(api) as server:
        invoke(runtime, server, b"{}")
        sockets = [end.socket for end in proxy.proxy._ends.values()]
        assert [each.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 5) for each in sockets] == [b"reno\0"] * 2


def test_small_bodies_are_copied(api: socket.socket, spliced: list[int]) -> None:
    with Proxy(address_of(api)) as proxy:
        before = descriptors()
        invoke_once(proxy.port, api, pattern(LEAST_SPLICED_BYTES - 1))
        proxy.wait_until_idle()
        wait_for(lambda: descriptors() == before)
    assert spliced == []


# Conversations

SIZE = st.sampled_from([10, LEAST_SPLICED_BYTES - 1, LEAST_SPLICED_BYTES, LEAST_SPLICED_BYTES + 1, 200_000, 1_000_000])


def chunked(head: bytes, body: bytes, size: int) -> bytes:
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    return head + b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\nT: x\r\n\r\n"


@st.composite
def large_message(draw: st.DrawFn, of_runtime: bool) -> bytes:
    """A body of a given length, or in chunks, as response streaming sends it."""
    body = pattern(draw(SIZE))
    if draw(st.booleans()):
        return answer("a", body) if of_runtime else event("a", body)
    head = (answer("a", b"") if of_runtime else event("a", b"")).replace(
        b"Content-Length: 0", b"Transfer-Encoding: chunked"
    )
    return chunked(head, body, draw(SIZE))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=30)
@given(st.data())
def test_large_messages_arrive_as_without_the_proxy(between: Between, data: st.DataObject) -> None:
    runtime, server = Script(), Script()
    piece = st.sampled_from([5000, RECEIVE_BYTES, 1 << 20])
    for _ in range(data.draw(st.integers(1, 3))):
        runtime.says(NEXT, server)
        server.says(data.draw(large_message(of_runtime=False)), runtime, data.draw(piece), data.draw(piece))
        runtime.says(data.draw(large_message(of_runtime=True)), server, data.draw(piece), data.draw(piece))
        server.says(ACCEPTED, runtime)
    for by_runtime, by_server in between.both_ways([*runtime.steps, Close()], [*server.steps, ReadRest()]):
        assert by_runtime.data == server.sent
        assert by_server.all == (runtime.sent, "EOF")


@pytest.mark.parametrize("share", [0.001, 0.5, 0.99])
@pytest.mark.parametrize("then", [Close(), Reset()], ids=["closed", "reset"])
@pytest.mark.parametrize("first", ["runtime", "server"])
def test_a_body_that_is_cut_off(between: Between, first: str, then: Close | Reset, share: float) -> None:
    whole = answer("a", BODY) if first == "runtime" else event("a", BODY)
    part = whole[: round(len(whole) * share)]
    for _, by_other in between.both_ways([Meet(), Send(part), then], [Meet(), ReadRest()], first):
        assert by_other.ending == ("EOF" if isinstance(then, Close) else "reset")
        assert part.startswith(bytes(by_other.data))
        assert isinstance(then, Reset) or by_other.data == part


@pytest.mark.parametrize("first", ["runtime", "server"])
@pytest.mark.parametrize("then", [Close(), Reset()], ids=["closed", "reset"])
def test_a_reader_that_goes_away_ends_the_sender(between: Between, then: Close | Reset, first: str) -> None:
    """It has read a part. The kernel tells the sender so once: as it sends, or as it reads."""
    message = event("a", BODY * 3) if first == "runtime" else answer("a", BODY * 3)
    goes: list[Step] = [Read(1_000_000), Expect(), then]
    sends: list[Step] = [Send(message), ReadRest()]
    for by_reader, by_sender in between.both_ways(goes, sends, first):
        assert by_reader.data == message[:1_000_000]
        assert by_sender.ending in ("reset", "EOF")


# A kernel that refuses


def refusing(number: int, error: int) -> Callable[..., int]:
    """splice, which from its call of this number on raises this error."""
    splice, calls = posix.splice, iter(range(1 << 40))

    def refuses(*arguments: Any) -> int:
        if next(calls) >= number:
            raise OSError(error, "refused")
        return splice(*arguments)

    return refuses


@pytest.mark.parametrize("error", [errno.EINVAL, errno.ENOSYS, errno.EPERM, errno.ENOMEM])
@pytest.mark.parametrize("number", [0, 1, 2, 3, 8, 9])
def test_a_refused_splice_loses_no_byte(
    api: socket.socket, monkeypatch: pytest.MonkeyPatch, number: int, error: int
) -> None:
    """Into the pipe or out of it, from the beginning or in mid-body (seccomp, gVisor)."""
    monkeypatch.setattr(posix, "splice", refusing(number, error))
    with Proxy(address_of(api), cut=lambda: None) as proxy:
        before = descriptors()
        invoke_once(proxy.port, api)
        assert not proxy.proxy.splices
        proxy.wait_until_idle()
        wait_for(lambda: descriptors() == before)
        invoke_once(proxy.port, api)
        assert proxy.exact.failures == 0


@pytest.mark.parametrize("method", ["skip", "body_left"])
def test_a_bug_in_counting_a_body_stops_no_byte(
    api: socket.socket, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    def raises(*_: Any) -> Any:
        raise RuntimeError("a bug")

    monkeypatch.setattr(RuntimeConnection, method, raises)
    with Proxy(address_of(api), cut=lambda: None) as proxy:
        invoke_once(proxy.port, api)
        assert proxy.exact.failures > 0
        assert proxy.proxy.problem == ""


# Pipes that cannot be had


def test_without_descriptors_large_bodies_are_copied(api: socket.socket) -> None:
    with starved(api) as port:
        invoke_once(port, api)


def test_without_pipes_large_bodies_are_copied(
    api: socket.socket, monkeypatch: pytest.MonkeyPatch, spliced: list[int]
) -> None:
    """And spliced again once there are."""

    def none_left(_: int) -> Any:
        raise OSError(errno.ENFILE, "none left")

    with Proxy(address_of(api)) as proxy:
        with monkeypatch.context() as starving:
            starving.setattr(posix, "pipe2", none_left)
            invoke_once(proxy.port, api)
        assert spliced == []
        invoke_once(proxy.port, api)
        assert spliced


@pytest.mark.parametrize("size", [4096, None], ids=["one page", "as it is"])
def test_small_pipes_pass_all(api: socket.socket, monkeypatch: pytest.MonkeyPatch, size: int | None) -> None:
    """What a user gets whose pipes have used up their memory (pipe(7))."""
    resize = fcntl.fcntl

    def small(descriptor: int, command: int, _: int) -> int:
        if size is None:
            raise PermissionError(errno.EPERM, "no more")
        return resize(descriptor, command, size)

    monkeypatch.setattr(fcntl, "fcntl", small)
    with Proxy(address_of(api)) as proxy:
        invoke_once(proxy.port, api)
        assert proxy.proxy.splices


# A side that does not read

Turned = tuple[Turns, socket.socket, socket.socket, socket.socket]


@pytest.fixture
def turned(api: socket.socket) -> Iterator[Turned]:
    """Served step by step; the runtime has asked for an event."""
    with Turns(address_of(api)) as turns, asking(turns, api) as (runtime, server):
        yield turns, api, runtime, server


@contextmanager
def asking(turns: Turns, api: socket.socket) -> Iterator[tuple[socket.socket, socket.socket]]:
    before = len(turns.proxy._ends)
    with connect(turns.port) as runtime:
        turns.turn_until(lambda: len(turns.proxy._ends) > before)
        with accept(api) as server:
            exchange(turns, runtime, server, NEXT)
            yield runtime, server


@pytest.mark.parametrize("reader", ["runtime", "server"])
def test_a_side_that_does_not_read_holds_one_pipe(turned: Turned, reader: str) -> None:
    """The sender is held up; nothing turns idly; another connection is served; then not a byte is lost."""
    turns, api, runtime, server = turned
    reading, sending = by_side(reader, runtime, server)
    whole = (event if reader == "runtime" else answer)("a", BODY * 11)
    sent = fill(turns, sending, whole, held=pipe.PIPE_BYTES)
    held = [end.unsent for end in turns.proxy._ends.values() if end.unsent]
    assert [type(each) for each in held] == [Pipe]
    assert len(held[0]) <= pipe.PIPE_BYTES
    assert not any(turns.turn() for _ in range(100))
    with asking(turns, api) as (other, other_server):
        exchange(turns, other_server, other, event("b", BODY))
        exchange(turns, other, other_server, answer("b", BODY))
    sending.shutdown(socket.SHUT_WR)
    assert collect(turns, reading) == whole[:sent]


def exchange(turns: Turns, sender: socket.socket, receiver: socket.socket, data: bytes) -> None:
    sender.setblocking(False)
    receiver.setblocking(False)
    sent, pieces = 0, bytearray()

    def goes_on() -> bool:
        nonlocal sent
        with suppress(BlockingIOError):
            sent += sender.send(data[sent : sent + RECEIVE_BYTES])
        with suppress(BlockingIOError):
            pieces.extend(receiver.recv(1 << 20))
        return len(pieces) == len(data)

    turns.turn_until(goes_on)
    assert pieces == data


def collect(turns: Turns, reading: socket.socket) -> bytes:
    pieces: list[bytes] = []
    reading.setblocking(False)

    def take() -> bool:
        with suppress(BlockingIOError):
            pieces.append(reading.recv(1 << 20))
        return pieces[-1:] == [b""]

    turns.turn_until(take)
    return b"".join(pieces)


@pytest.mark.parametrize("refused", [False, True], ids=["spliced", "refused"])
def test_a_full_pipe_goes_with_its_connection(turned: Turned, monkeypatch: pytest.MonkeyPatch, refused: bool) -> None:
    """Its bytes come up on no other connection, and its descriptors are free."""
    turns, api, runtime, server = turned
    before = descriptors()
    fill(turns, server, event("a", BODY * 11), held=pipe.PIPE_BYTES)
    assert any(isinstance(end.unsent, Pipe) for end in turns.proxy._ends.values())
    if refused:
        monkeypatch.setattr(posix, "splice", refusing(0, errno.EINVAL))
    runtime.close()
    server.close()
    turns.turn_until(lambda: not turns.proxy._ends)
    assert descriptors() <= before - 4 + 2  # two sockets of ours, two of the test's; a pipe that is kept
    with asking(turns, api) as (other, other_server):
        exchange(turns, other_server, other, event("b", BODY))
