"""Telemetry delivered over real sockets: by the platform, and by others that find the port."""

from __future__ import annotations

import os
import resource
import select
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from truemem.platform.http1 import HEAD_LIMIT
from truemem.platform.telemetry_events import PARTS, TEXT_LIMIT
from truemem.platform.telemetry_server import BODY_LIMIT, CONNECTIONS, PIPELINED, TelemetryServer


def ready_of(descriptors: list[int], wait_s: float, events: int = select.POLLIN) -> list[int]:
    """By poll(2): in a run of all tests, descriptors are beyond what select(2) takes."""
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, events)
    return [descriptor for descriptor, _ in poll.poll(1000 * wait_s)]


def pump(listener: TelemetryServer, wait_s: float = 0.2) -> list[bytes]:
    """Let the listener do whatever is to do now."""
    bodies = []
    while ready := ready_of(listener.descriptors(), wait_s):
        for descriptor in ready:
            bodies += listener.ready(descriptor)
    return bodies


def connect(listener: TelemetryServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", listener.port), timeout=5)


def post(body: bytes, path: str = "/") -> bytes:
    return b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (path.encode(), len(body), body)


def deliver(listener: TelemetryServer, peer: Peer, body: bytes = b"[1]", path: str = "") -> None:
    """As the platform does."""
    peer.sendall(post(body, path or listener.path))
    assert pump(listener) == [body]
    assert peer.recv(100).startswith(b"HTTP/1.1 200")


Peer = socket.socket
Peers = list[socket.socket]


@pytest.fixture
def listener() -> TelemetryServer:
    return TelemetryServer()


@pytest.fixture
def peer(listener: TelemetryServer) -> Iterator[socket.socket]:
    with connect(listener) as connection:
        yield connection


@pytest.fixture
def flood() -> Iterator[Peers]:
    """Connections of a test, which are closed after it."""
    peers: Peers = []
    yield peers
    for each in peers:
        each.close()


def closed(peer: socket.socket) -> bool:
    """Did the listener close it?"""
    peer.settimeout(0.2)
    try:
        while peer.recv(1000):
            pass
    except TimeoutError:
        return False
    except ConnectionResetError:
        pass
    return True


def test_deliveries_are_answered_one_by_one_in_pieces_and_pipelined(listener: TelemetryServer, peer: Peer) -> None:
    for body in (b"[1]", b"[2]"):
        deliver(listener, peer, body, path="/")
    data = post(b"[1]") + post(b"[22]")
    peer.sendall(data[:10])
    assert pump(listener) == []
    peer.sendall(data[10:])
    assert pump(listener) == [b"[1]", b"[22]"]


NO_DELIVERY = {
    "garbage": b"\x16\x03\x01 not HTTP" * 2000,
    "2 MiB": post(b"x" * (2 << 20))[: 1 << 16],
    "endless head": b"POST / HTTP/1.1\r\n" + b"X: y\r\n" * (HEAD_LIMIT // 5),
}


@pytest.mark.parametrize("data", NO_DELIVERY.values(), ids=NO_DELIVERY)
def test_what_is_no_delivery_is_refused_and_counted(listener: TelemetryServer, peer: Peer, data: bytes) -> None:
    peer.sendall(data)
    assert pump(listener) == []
    assert peer.recv(100).startswith(b"HTTP/1.1 400")
    assert listener.refused == 1
    assert len(listener.descriptors()) == 1


@pytest.mark.parametrize("missing", [1, 3], ids=["in its body", "after its head"])
def test_a_delivery_cut_off_is_counted(listener: TelemetryServer, peer: Peer, missing: int) -> None:
    peer.sendall(post(b"[1]")[:-missing])
    pump(listener)
    peer.close()
    assert pump(listener) == []
    assert listener.refused == 1


def test_what_is_pushed_out_within_a_delivery_is_counted(listener: TelemetryServer, flood: Peers) -> None:
    for number in range(2 * CONNECTIONS):
        flood.append(connect(listener))
        if number < 3:
            flood[-1].sendall(post(b"[1]")[: -1 - number])
        pump(listener, 0.05)
    assert listener.refused == 3  # who had said nothing has lost nothing


def test_the_bounds_are_those_of_the_security_page() -> None:
    page = " ".join((Path(__file__).parents[2] / "docs" / "security.md").read_text().split())
    assert (CONNECTIONS, PIPELINED, TEXT_LIMIT) == (8, 16, 256)
    assert "eight connections" in page
    assert f"{BODY_LIMIT // 1000 + 1} KB for one delivery" in page
    assert f"{PIPELINED} requests that do not wait" in page
    assert f"{TEXT_LIMIT} characters of any text" in page
    assert f"{PARTS:,} members" in page
    paths = {TelemetryServer().path for _ in range(10)}
    assert len(paths) == 10
    assert min(map(len, paths)) > 16
    assert f"{(len(paths.pop()) - 1) * 4} random bits" in page


def test_the_largest_delivery_of_the_platform_is_taken(listener: TelemetryServer, peer: Peer) -> None:
    body = b"x" * (BODY_LIMIT - 1)
    bodies: list[bytes] = []
    peer.setblocking(False)
    data = memoryview(post(body))
    while data:
        data = data[peer.send(data) :]
        bodies += pump(listener)
    assert bodies == [body]


def test_a_flood_is_bounded_and_the_newest_is_served(listener: TelemetryServer, flood: Peers) -> None:
    for _ in range(CONNECTIONS * 3):
        flood.append(connect(listener))
        pump(listener, 0)
    assert len(listener.descriptors()) == 1 + CONNECTIONS
    flood[-1].sendall(post(b"[1]"))
    assert pump(listener) == [b"[1]"]


def test_an_ordinary_client_is_understood(listener: TelemetryServer) -> None:
    with pytest.raises(requests.exceptions.ReadTimeout):  # no loop reads while requests waits
        requests.post(f"http://127.0.0.1:{listener.port}/any/path", json=[1], timeout=0.2)
    assert pump(listener) == [b"[1]"]


def test_once_the_platform_has_kept_to_our_path_others_are_refused_and_counted(listener: TelemetryServer) -> None:
    with connect(listener) as stranger, connect(listener) as platform, connect(listener) as late:
        stranger.sendall(post(b"[0]"))
        assert pump(listener) == [b"[0]"]  # AWS's emulator for Managed Instances drops the path
        deliver(listener, platform)
        for peer in stranger, late:
            peer.sendall(post(b"[2]"))
            assert pump(listener) == []
            assert closed(peer)
        deliver(listener, platform)
    assert listener.refused == 2


def test_a_stranger_is_refused_before_his_body_has_come(listener: TelemetryServer, peer: Peer) -> None:
    with connect(listener) as stranger:
        deliver(listener, peer)
        stranger.sendall(b"POST / HTTP/1.1\r\nContent-Length: 500000\r\n\r\n")
        assert pump(listener) == []
        assert closed(stranger)


@pytest.mark.parametrize("how", ["silent", "unfinished", "delivering"])
def test_a_flood_does_not_push_the_platform_out(listener: TelemetryServer, peer: Peer, flood: Peers, how: str) -> None:
    peer.sendall(post(b"[1]", listener.path if how == "delivering" else "/"))
    assert pump(listener) == [b"[1]"]
    for _ in range(CONNECTIONS * 3):
        flood.append(connect(listener))
        if how != "silent":
            flood[-1].sendall(post(b"[9]")[: None if how == "delivering" else -1])
        pump(listener, 0)
    assert pump(listener) == []
    assert not closed(peer)
    peer.sendall(post(b"[1]", listener.path))
    assert pump(listener) == [b"[1]"]


def test_the_platform_goes_last_of_those_that_delivered(listener: TelemetryServer, peer: Peer, flood: Peers) -> None:
    pump(listener, 0.05)
    flood += [connect(listener) for _ in range(CONNECTIONS - 1)]
    for stranger in flood:
        stranger.sendall(post(b"[0]"))
        assert pump(listener, 0.05) == [b"[0]"]
    deliver(listener, peer)
    with connect(listener):
        pump(listener)
        assert closed(flood[0])
        deliver(listener, peer)


def test_what_strangers_leave_unfinished_is_bounded_as_a_whole(listener: TelemetryServer, flood: Peers) -> None:
    flood += [connect(listener) for _ in range(CONNECTIONS)]
    start = b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % BODY_LIMIT
    for peer in flood:
        peer.setblocking(False)
        data = memoryview(start + b"x" * (BODY_LIMIT - 1))
        while data:
            try:
                data = data[peer.send(data) :]
            except BlockingIOError:
                assert pump(listener, 0) == []
            except OSError:  # refused meanwhile
                break
    assert pump(listener) == []
    held = sum(made.reader.held for made in listener._connections.values())
    assert held < 2 * BODY_LIMIT
    assert listener.refused >= CONNECTIONS - 2


def test_who_does_not_wait_for_answers_is_refused(listener: TelemetryServer, peer: Peer) -> None:
    peer.sendall(b"GET / HTTP/1.1\r\n\r\n" * 500)
    assert len(pump(listener)) <= PIPELINED
    assert closed(peer)
    assert listener.refused == 1


def test_who_does_not_read_his_answers_is_refused(listener: TelemetryServer, peer: Peer) -> None:
    pump(listener)
    (connection,) = listener._connections.values()
    while ready_of([connection.socket.fileno()], 0.5, select.POLLOUT):  # as thousands of answers would, in the end
        connection.socket.send(bytes(1 << 16))
    with pytest.raises(BlockingIOError):
        while True:
            connection.socket.send(b"x")
    peer.sendall(post(b"[1]"))
    assert pump(listener) == []
    assert len(listener.descriptors()) == 1
    assert listener.refused == 1


@pytest.mark.usefixtures("peer")
def test_without_descriptors_for_more_it_does_not_wait_for_connections(listener: TelemetryServer) -> None:
    """An ear that stays readable would make the sidecar's loop a busy one."""
    (ear,) = listener.descriptors()
    assert ready_of([ear], 5)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (ear + 1, limits[1]))
    taken: list[int] = []
    try:
        while True:
            taken.append(os.open("/dev/null", os.O_RDONLY))
    except OSError:
        listener.ready(ear)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        for descriptor in taken:
            os.close(descriptor)
    assert listener.descriptors() == []
    deadline = time.monotonic() + 30
    while not listener.descriptors() and time.monotonic() < deadline:
        time.sleep(0.05)
    listener.ready(ear)
    assert len(listener.descriptors()) == 2
