"""Telemetry delivered over real sockets: by the platform, and by whoever finds the port."""

from __future__ import annotations

import select
import socket

import pytest
import requests
from truemem.http1 import HEAD_LIMIT
from truemem.listener import BODY_LIMIT, CONNECTIONS, Listener


def pump(listener: Listener) -> list[bytes]:
    """Let the listener do whatever is to do now."""
    bodies = []
    while ready := select.select(listener.descriptors(), [], [], 0.2)[0]:
        for descriptor in ready:
            bodies += listener.ready(descriptor)
    return bodies


def connect(listener: Listener) -> socket.socket:
    return socket.create_connection(("127.0.0.1", listener.port), timeout=5)


def post(body: bytes) -> bytes:
    return b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)


def test_a_delivery_is_answered_with_200_and_the_connection_kept() -> None:
    listener = Listener()
    with connect(listener) as peer:
        for body in (b"[1]", b"[2]"):
            peer.sendall(post(body))
            assert pump(listener) == [body]
            assert peer.recv(100).startswith(b"HTTP/1.1 200")


def test_pieces_and_pipelined_deliveries() -> None:
    listener = Listener()
    with connect(listener) as peer:
        data = post(b"[1]") + post(b"[22]")
        peer.sendall(data[:10])
        assert pump(listener) == []
        peer.sendall(data[10:])
        assert pump(listener) == [b"[1]", b"[22]"]


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01 not HTTP" * 2000,
        post(b"x" * (2 << 20))[: 1 << 16],
        b"POST / HTTP/1.1\r\n" + b"X: y\r\n" * (HEAD_LIMIT // 5),
    ],
    ids=["garbage", "2 MiB", "endless head"],
)
def test_what_is_not_a_delivery_is_refused_and_counted(data: bytes) -> None:
    listener = Listener()
    with connect(listener) as peer:
        peer.sendall(data)
        assert pump(listener) == []
        assert peer.recv(100).startswith(b"HTTP/1.1 400")
    assert listener.refused == 1
    assert len(listener.descriptors()) == 1


def test_a_delivery_cut_off_is_counted() -> None:
    listener = Listener()
    with connect(listener) as peer:
        peer.sendall(post(b"[1]")[:-1])
        pump(listener)
    assert pump(listener) == []
    assert listener.refused == 1


def test_the_largest_delivery_the_platform_may_send_is_taken() -> None:
    listener = Listener()
    body = b"x" * (BODY_LIMIT - 1)
    bodies: list[bytes] = []
    with connect(listener) as peer:
        peer.setblocking(False)
        data = memoryview(post(body))
        while data:
            data = data[peer.send(data) :]
            bodies += pump(listener)
    assert bodies == [body]


def test_a_flood_of_connections_is_bounded_and_the_newest_is_served() -> None:
    listener = Listener()
    peers = []
    for _ in range(CONNECTIONS * 3):
        peers.append(connect(listener))
        pump(listener)
    assert len(listener.descriptors()) == 1 + CONNECTIONS
    peers[-1].sendall(post(b"[1]"))
    assert pump(listener) == [b"[1]"]
    for peer in peers:
        peer.close()


def test_an_ordinary_client_is_understood() -> None:
    listener = Listener()
    with pytest.raises(requests.exceptions.ReadTimeout):  # nobody pumps while requests waits
        requests.post(f"http://127.0.0.1:{listener.port}/any/path", json=[1], timeout=0.2)
    assert pump(listener) == [b"[1]"]
