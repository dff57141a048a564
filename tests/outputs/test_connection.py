"""The connection to a collector: real sockets that are late, slow, rude or gone. Nothing waits, and nothing raises."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st
from truemem.platform.agent_socket import AgentSocket
from truemem.platform.collector_connection import CollectorConnection, Outcome
from truemem.platform.output_settings import DogStatsdSettings

from faults import receivers
from faults.receivers import Agent, Behaviour, Collector

REQUEST = b"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}"
TIMEOUT_MS = 5_000


def finished(connection: CollectorConnection, request: bytes = REQUEST) -> tuple[Outcome, int]:
    """The request's end, and how often `step` was called for it."""
    begun_s = time.monotonic()
    connection.begin(request, 0.0)
    steps = 0
    while connection.outcome is None:
        now_ms = (time.monotonic() - begun_s) * 1000
        poll = select.poll()
        if (interest := connection.interest(now_ms)) is not None:
            poll.register(*interest)
        poll.poll(max(1.0, connection.due_ms() - now_ms))
        connection.step((time.monotonic() - begun_s) * 1000)
        steps += 1
    assert not connection.busy
    assert connection.interest(0.0) is None
    return connection.outcome, steps


@contextmanager
def listening(
    behaviour: Behaviour = receivers.takes, timeout_ms: int = TIMEOUT_MS
) -> Iterator[tuple[Collector, CollectorConnection]]:
    with Collector(behaviour) as collector:
        collector.start()
        yield collector, CollectorConnection("127.0.0.1", collector.port, timeout_ms)


def test_requests_share_one_connection() -> None:
    with listening() as (collector, connection):
        for _ in range(3):
            outcome, _ = finished(connection)
            assert (outcome.status, outcome.why) == (200, "")
        assert collector.connections == 1
        assert len(collector.bodies) == 3


def test_one_that_was_closed_meanwhile_is_made_anew() -> None:
    with listening(receivers.takes_and_closes) as (collector, connection):
        for _ in range(3):
            outcome, _ = finished(connection)
            assert outcome.status == 200
            while not connection_is_closed(connection):
                time.sleep(0.001)
        assert collector.connections == 3


def connection_is_closed(connection: CollectorConnection) -> bool:
    made = connection._socket
    return made is None or bool(select.select([made], [], [], 0)[0])


@pytest.mark.parametrize(
    ("behaviour", "status", "says"),
    [
        (receivers.answers(receivers.status(429, "Retry-After: 7\r\n")), 429, ""),
        (receivers.answers(receivers.status(500)), 500, ""),
        (receivers.answers(b"HTTP/1.0 204 No Content\r\n\r\n"), 204, ""),
        (receivers.answers(b"HTTP/1.1 100 Continue\r\n\r\n" + receivers.OK), 200, ""),
        (receivers.answers(b"\x16\x03\x01 garbage\r\n\r\n\r\n"), 0, "no status line"),
        (receivers.answers(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 0, "no status line"),
        (receivers.answers(b"HTTP/1.1 200 OK\r\nContent-Length: 9999999\r\n\r\n"), 0, "more than"),
        (receivers.dies, 0, "closed"),
        (receivers.floods, 0, "more than"),
    ],
)
def test_any_answer_is_an_end(behaviour: Behaviour, status: int, says: str) -> None:
    with listening(behaviour) as (_, connection):
        outcome, _ = finished(connection)
        assert (outcome.status, outcome.left) == (status, True)
        assert says in outcome.why


def test_retry_after_is_handed_on() -> None:
    with listening(receivers.answers(receivers.status(503, "Retry-After: 7\r\n"))) as (_, connection):
        assert finished(connection)[0].retry_after == b"7"


def test_where_nobody_listens_nothing_has_left() -> None:
    with Collector() as collector:
        outcome, _ = finished(CollectorConnection("127.0.0.1", collector.port, TIMEOUT_MS))
    assert (outcome.status, outcome.left) == (0, False)
    assert "Connection refused" in outcome.why


def test_an_answer_byte_by_byte_costs_looks_not_one_for_each_byte() -> None:
    with listening(receivers.slowly(0.002)) as (_, connection):
        outcome, steps = finished(connection)
    assert outcome.status == 200
    assert steps < len(receivers.OK) / 4


def test_interim_answers_without_an_end_cost_looks_not_one_for_each() -> None:
    sent = 0

    def going_on(collector: Collector, connection: socket.socket, _: bytes) -> bool:
        nonlocal sent
        while not collector.ended.wait(0.001):
            connection.sendall(b"HTTP/1.1 102 Processing\r\n\r\n")
            sent += 1
        return False

    with listening(going_on, timeout_ms=500) as (_, connection):
        outcome, steps = finished(connection)
        assert outcome.why == "no answer in 500 ms"
        assert steps < sent / 4


def test_after_an_interim_answer_in_two_pieces_it_waits() -> None:
    def two_pieces(collector: Collector, connection: socket.socket, _: bytes) -> bool:
        connection.sendall(b"HTTP/1.1 100 Cont")
        time.sleep(0.02)
        connection.sendall(b"inue\r\n\r\n")
        collector.ended.wait(60)
        return False

    with listening(two_pieces, timeout_ms=500) as (_, connection):
        begun_s = time.monotonic()
        connection.begin(REQUEST, 0.0)
        while (now_ms := (time.monotonic() - begun_s) * 1000) < 250:
            connection.step(now_ms)
            time.sleep(0.001)
        assert connection.due_ms() > now_ms  # else the loop would not wait at all
        assert connection.interest(now_ms) is not None


def test_one_that_never_answers_is_given_up() -> None:
    with listening(receivers.never, timeout_ms=50) as (_, connection):
        outcome, _ = finished(connection)
        assert (outcome.left, outcome.why) == (True, "no answer in 50 ms")


def test_one_that_does_not_read_is_given_up() -> None:
    with Collector(reads=False) as collector:
        collector.start()
        connection = CollectorConnection("127.0.0.1", collector.port, 50)
        outcome, _ = finished(connection, b"x" * (64 << 20))
        assert outcome.why == "no answer in 50 ms"


def test_given_up_at_the_end_it_says_why() -> None:
    with listening(receivers.never) as (_, connection):
        connection.begin(REQUEST, 0.0)
        connection.give_up("the environment ends")
        assert connection.outcome == Outcome(0, b"", b"", True, "the environment ends")


@given(st.binary(max_size=200), st.booleans())
def test_whatever_comes_nothing_raises(answer: bytes, closes: bool) -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        connection = CollectorConnection("127.0.0.1", 1, 10)
        connection._socket, connection._connected = ours, True
        ours.setblocking(False)
        connection.begin(REQUEST, 0.0)
        theirs.sendall(answer)
        if closes:
            theirs.close()
        for now_ms in range(0, 30, 5):
            connection.step(now_ms)
        assert connection.outcome is not None


def settings(url: str) -> DogStatsdSettings:
    if url.startswith("unix://"):
        return DogStatsdSettings("", 0, url.removeprefix("unix://"))
    return DogStatsdSettings("127.0.0.1", int(url.rpartition(":")[2]), "")


@pytest.mark.parametrize("unix", [False, True])
def test_datagrams_arrive_and_an_agent_that_is_gone_is_counted(
    unix: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = str(tmp_path_factory.mktemp("a") / "s") if unix else ""
    with Agent(path) as agent:
        made = AgentSocket(settings(agent.url))
        made.send(b"one")
        assert agent.received() == [b"one"]
    for _ in range(5):
        made.send(b"gone")
    made.look()
    assert made.lost == 5
    assert "refused" in made.why or "listens" in made.why


def test_an_agent_that_starts_anew_is_found_again(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("a") / "s"
    with Agent(str(path)) as agent:
        made = AgentSocket(settings(agent.url))
        made.send(b"one")
    path.unlink()
    made.send(b"lost")
    with Agent(str(path)) as agent:
        made.send(b"two")
        assert agent.received() == [b"two"]
    assert made.lost == 1


def test_a_full_agent_is_not_waited_for(tmp_path_factory: pytest.TempPathFactory) -> None:
    with Agent(str(tmp_path_factory.mktemp("a") / "s")) as agent:
        made = AgentSocket(settings(agent.url))
        for _ in range(5000):
            made.send(b"x" * 1000)
        assert made.lost > 0
        assert len(agent.received()) == made.sent
