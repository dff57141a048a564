"""What the kernel tells of TCP connections: asked about real ones on loopback, and read from any bytes at all."""

from __future__ import annotations

import errno
import os
import socket
import struct
import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from truemem.conversation import JIFFY_MS
from truemem.inet_diag import Connection, DiagError, InetDiag, parse

LOOPBACKS = {
    "ipv4": ("127.0.0.1", "127.0.0.1"),
    "ipv6": ("::1", "::1"),
    "ipv4-mapped": ("127.0.0.1", "::ffff:127.0.0.1"),
}
"""Where the server listens, and what its client connects to."""

ESTABLISHED = bytes([socket.AF_INET, 1]) + bytes(70)
"""What an answer says of a connection before its attributes: the family, the state."""


class Pair:
    """A server, a client that is connected to it, and the kernel's word on the connections to that server."""

    def __init__(self, server: str, client: str) -> None:
        self.listener = socket.socket(_family(server))
        self.listener.bind((server, 0))
        self.listener.listen()
        self.port: int = self.listener.getsockname()[1]
        self.host = client
        self.client, self.server = self.connect()
        self.diag = InetDiag(f"{server}:{self.port}")

    def connect(self) -> tuple[socket.socket, socket.socket]:
        """One more connection: its two ends."""
        client = socket.socket(_family(self.host))
        client.connect((self.host, self.port))
        return client, self.listener.accept()[0]

    def seen(self) -> Connection:
        """The one connection that there is."""
        (found,) = self.diag.connections()
        return found

    def close(self) -> None:
        for each in (self.client, self.server, self.listener, self.diag):
            each.close()


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def receive(end: socket.socket, size: int) -> None:
    """Read so much. It has arrived then."""
    while size:
        size -= len(end.recv(size))


@pytest.fixture(params=LOOPBACKS)
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    try:
        made = Pair(*LOOPBACKS[request.param])
    except OSError as error:
        pytest.skip(f"no {request.param} on this machine: {error}")
    yield made
    made.close()


@pytest.fixture
def ipv4() -> Iterator[Pair]:
    made = Pair("127.0.0.1", "127.0.0.1")
    yield made
    made.close()


# Real connections


def test_bytes_are_counted_both_ways(pair: Pair) -> None:
    pair.client.sendall(b"x" * 100)
    pair.server.sendall(b"y" * 77)
    receive(pair.client, 77)
    seen = pair.seen()
    assert (seen.sent, seen.received, seen.unsent, seen.unread) == (100, 77, 0, 0)


def test_a_look_at_one_connection_tells_the_same_as_the_list(pair: Pair) -> None:
    listed = pair.seen()
    pair.client.sendall(b"x" * 2000)
    looked = pair.diag.look(listed)
    assert looked is not None
    assert (looked.identity, looked.inode, looked.sent) == (listed.identity, listed.inode, 2000)


def test_the_inode_is_that_of_the_processs_descriptor(pair: Pair) -> None:
    assert pair.seen().inode == os.fstat(pair.client.fileno()).st_ino


def test_what_the_process_has_not_read_yet_is_told(pair: Pair) -> None:
    pair.server.sendall(b"y" * 77)
    receive(pair.client, 7)  # it came in one piece: the rest is here, too
    seen = pair.seen()
    assert (seen.received, seen.unread) == (77, 70)


def test_what_still_waits_to_be_sent_is_told(pair: Pair) -> None:
    """The server reads nothing: at some time no more can be sent, and then no more be written."""
    pair.client.setblocking(False)
    written = 0
    try:
        while True:
            written += pair.client.send(b"x" * 65536)
    except BlockingIOError:
        seen = pair.seen()
    assert seen.unsent > 0
    assert seen.sent + seen.unsent >= written  # what is sent again counts again


def test_the_time_since_data_came_grows_and_begins_anew(ipv4: Pair) -> None:
    ipv4.server.sendall(b"y")
    receive(ipv4.client, 1)
    time.sleep(0.08)
    old = ipv4.seen().received_ago_ms
    assert old >= 80 - JIFFY_MS
    before = time.monotonic()
    ipv4.server.sendall(b"y")
    receive(ipv4.client, 1)
    fresh = ipv4.seen().received_ago_ms
    assert fresh <= (time.monotonic() - before) * 1000 + JIFFY_MS


def test_only_the_clients_end_is_a_connection_to_the_address(pair: Pair) -> None:
    second = pair.connect()
    ports = {end.getsockname()[1] for end in (pair.client, second[0])}
    found = {int.from_bytes(seen.identity[1:3], "big") for seen in pair.diag.connections()}
    for end in second:
        end.close()
    assert found == ports


def test_the_same_port_of_another_host_is_another_address(ipv4: Pair) -> None:
    elsewhere = socket.create_server(("127.0.0.2", ipv4.port))
    stranger = socket.create_connection(("127.0.0.2", ipv4.port))
    diag = InetDiag(f"127.0.0.2:{ipv4.port}")
    ours, theirs = ipv4.seen(), diag.connections()
    for each in (elsewhere, stranger, diag):
        each.close()
    assert ours.inode not in {seen.inode for seen in theirs}
    assert len(theirs) == 1


def test_more_connections_than_one_answer_holds(ipv4: Pair) -> None:
    """The kernel answers in datagrams of some ten KiB: all of them are read."""
    ends = [ipv4.connect() for _ in range(200)]
    count = len(ipv4.diag.connections())
    for both in ends:
        for end in both:
            end.close()
    assert count == 201


@pytest.mark.parametrize("first", ["client", "server, which has unread bytes"])
def test_a_connection_that_was_closed_is_no_more(pair: Pair, first: str) -> None:
    seen = pair.seen()
    if first != "client":
        pair.client.sendall(b"x")
        pair.server.close()  # a reset
    pair.client.close()
    assert pair.diag.look(seen) is None
    assert pair.diag.connections() == []


def test_a_connection_that_both_ends_have_closed_is_no_more(pair: Pair) -> None:
    """The client first, as curl does: its end stays for a minute, with no process and no counts."""
    seen = pair.seen()
    pair.client.close()
    assert pair.server.recv(1) == b""
    pair.server.close()
    assert pair.diag.look(seen) is None


def test_the_servers_goodbye_is_no_byte(pair: Pair) -> None:
    """A server may close a connection that its client has kept, and will not look at before it needs it."""
    pair.server.sendall(b"y" * 77)
    receive(pair.client, 77)
    seen = pair.seen()
    pair.server.close()
    assert pair.client.recv(1) == b""
    looked = pair.diag.look(seen)
    assert looked is None or looked.received == 77


def test_another_connection_between_the_same_ports_is_another(ipv4: Pair) -> None:
    seen = ipv4.seen()
    again = Connection(seen.identity, seen.inode + 1, 0, 0, 0, 0, 0)
    assert ipv4.diag.look(again) is None


# Refusals


def test_a_refusal_is_an_error_with_its_number(ipv4: Pair) -> None:
    nowhere = Connection(b"\xc8" + ipv4.seen().identity[1:], 1, 0, 0, 0, 0, 0)  # no such address family
    with pytest.raises(DiagError, match=f"errno {errno.EINVAL}"):
        ipv4.diag.look(nowhere)


def test_after_a_refusal_the_next_question_is_answered(ipv4: Pair) -> None:
    seen = ipv4.seen()
    with pytest.raises(DiagError):
        ipv4.diag.look(Connection(b"\xc8" + seen.identity[1:], 1, 0, 0, 0, 0, 0))
    assert ipv4.diag.look(seen) is not None


def test_what_was_left_of_a_broken_answer_is_not_taken_for_the_next(ipv4: Pair) -> None:
    seen = ipv4.seen()
    request = struct.pack("=BBBBI", seen.identity[0], socket.IPPROTO_TCP, 2, 0, 2) + seen.identity[1:] + b"\xff" * 12
    ipv4.diag._socket.send(struct.pack("=IHHII", 16 + len(request), 20, 1, 0xABCDE, 0) + request)
    ipv4.client.sendall(b"x" * 100)
    looked = ipv4.diag.look(seen)
    assert looked is not None
    assert looked.sent == 100


def test_a_socket_that_is_closed_is_an_error(ipv4: Pair) -> None:
    seen = ipv4.seen()
    ipv4.diag.close()
    with pytest.raises(DiagError, match="netlink"):
        ipv4.diag.look(seen)
    with pytest.raises(DiagError, match="netlink"):
        ipv4.diag.connections()


@pytest.mark.parametrize(
    "address",
    ["localhost:9001", "127.0.0.1", "127.0.0.1:http", "300.0.0.1:80", "", ":", ":80", "[fe80::1%lo:80", "\0:1"],
)
def test_an_address_is_in_numbers_and_what_else_stands_there_is_not_said(address: str) -> None:
    """It comes from the environment of the function's processes, of which nothing is printed."""
    with pytest.raises(DiagError) as refused:
        InetDiag(address)
    assert str(refused.value) == "the runtime's AWS_LAMBDA_RUNTIME_API is no IP address with a port"


def test_a_kernel_without_netlink_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: int) -> None:
        raise OSError(errno.EPROTONOSUPPORT, "no such protocol")

    monkeypatch.setattr("truemem.inet_diag._socket.socket", refused)
    with pytest.raises(DiagError, match="netlink: no such protocol"):
        InetDiag("127.0.0.1:80")


def test_an_address_that_nobody_talks_to_has_no_connections() -> None:
    diag = InetDiag("169.254.100.1:9001")
    assert diag.connections() == []
    diag.close()


@pytest.mark.parametrize("pair", ["ipv6"], indirect=True)
def test_brackets_around_an_address_are_no_part_of_it(pair: Pair) -> None:
    diag = InetDiag(f"[{pair.host}]:{pair.port}")
    assert [seen.inode for seen in diag.connections()] == [pair.seen().inode]
    diag.close()


@pytest.mark.parametrize("port", ["-1", "65536"])
def test_a_port_that_cannot_be_is_refused(port: str) -> None:
    with pytest.raises(DiagError):
        InetDiag(f"127.0.0.1:{port}")


# Bytes


@pytest.fixture(scope="module")
def answer() -> bytes:
    """A real answer about two connections, without the message that ends it."""
    pair = Pair("127.0.0.1", "127.0.0.1")
    second = pair.connect()
    request = struct.pack("=BBBBI", socket.AF_INET, socket.IPPROTO_TCP, 2, 0, 2)
    request += struct.pack(">HH", 0, pair.port) + bytes(44)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, 4) as netlink:
        netlink.send(struct.pack("=IHHII", 16 + len(request), 20, 0x301, 1, 0) + request)
        data = netlink.recv(65536)
    for end in second:
        end.close()
    pair.close()
    return data


def test_a_real_answer(answer: bytes) -> None:
    found, last = parse(answer)
    assert not last
    assert {address for _, _, address in found} == {bytes([127, 0, 0, 1]) + bytes(12)}
    assert len({port for _, port, _ in found}) == 1
    assert len({connection.identity for connection, _, _ in found}) == len(found) == 2


def test_a_real_answer_that_is_cut_off_is_an_error_or_its_beginning(answer: bytes) -> None:
    whole = [(connection.identity, connection.sent) for connection, _, _ in parse(answer)[0]]
    complete = 0
    for length in range(len(answer)):
        try:
            found, last = parse(answer[:length])
        except DiagError:
            continue
        assert not last
        assert [(connection.identity, connection.sent) for connection, _, _ in found] == whole[: len(found)]
        assert len(found) < len(whole)
        complete += 1
    assert complete == len(whole)  # cut between two messages, and nowhere else


@given(data=st.data())
def test_a_real_answer_with_wrong_bytes_is_read_or_an_error(answer: bytes, data: st.DataObject) -> None:
    garbled = bytearray(answer)
    for _ in range(data.draw(st.integers(1, 8))):
        garbled[data.draw(st.integers(0, len(garbled) - 1))] = data.draw(st.sampled_from([0, 1, 2, 3, 127, 128, 255]))
    _read(bytes(garbled))


headers = st.builds(
    lambda length, kind, rest: struct.pack("=IHHII", length, kind, 0, 1, 0) + rest,
    length=st.sampled_from([0, 15, 16, 17, 20, 40, 92, 96, 376, 2**32 - 1]) | st.integers(0, 500),
    kind=st.sampled_from([0, 1, 2, 3, 18, 20, 65535]),
    rest=st.binary(max_size=500),
)


@given(st.binary(max_size=600) | headers | st.lists(headers, max_size=4).map(b"".join))
def test_any_bytes_are_connections_or_an_error(data: bytes) -> None:
    _read(data)


def _read(data: bytes) -> None:
    try:
        found, last = parse(data)
    except DiagError:
        return
    assert isinstance(last, bool)
    for connection, port, address in found:
        assert 0 <= port <= 65535
        assert (len(address), len(connection.identity)) == (16, 37)
        counts = (connection.sent, connection.received, connection.unsent, connection.unread)
        assert min(*counts, connection.inode, connection.received_ago_ms) >= 0


@pytest.mark.parametrize(
    ("attributes", "problem"),
    [
        (b"", "no tcp_info"),
        (struct.pack("=HH", 5, 1) + b"x\0\0\0", "no tcp_info"),  # another attribute, padded to four bytes
        (struct.pack("=HH", 4 + 192, 2) + bytes(192), "4.19"),
        (struct.pack("=HH", 4 + 280, 2) + bytes(20), "cut off"),
        (struct.pack("=HH", 0, 1) * 40, "no tcp_info"),  # lengths of 0 do not stop the walk
    ],
)
def test_what_lacks_the_counts_is_an_error_that_says_so(attributes: bytes, problem: str) -> None:
    body = ESTABLISHED + attributes
    with pytest.raises(DiagError, match=problem):
        parse(struct.pack("=IHHII", 16 + len(body), 20, 2, 1, 0) + body)


def test_attributes_before_the_counts_are_passed_over() -> None:
    info = bytearray(280)
    struct.pack_into("=I", info, 52, 12)
    struct.pack_into("=Q", info, 128, 358)
    body = ESTABLISHED + struct.pack("=HH", 5, 8) + b"x\0\0\0" + struct.pack("=HH", 284, 2) + info
    ((connection, _, _),), _ = parse(struct.pack("=IHHII", 16 + len(body), 20, 2, 1, 0) + body)
    assert (connection.received_ago_ms, connection.received) == (12, 358)


def test_a_message_ends_on_a_boundary_of_four_bytes(answer: bytes) -> None:
    length = int.from_bytes(answer[:4], "little")
    odd = struct.pack("=I", length + 5) + answer[4:length] + struct.pack("=HHc", 5, 8, b"x") + bytes(3)
    assert len(parse(odd + answer)[0]) == 3


def test_an_answer_to_none_is_an_empty_list() -> None:
    nothing = struct.pack("=IHHIIi", 20, 2, 0, 1, 0, -errno.ENOENT)
    assert parse(nothing) == ([], True)


def test_the_end_is_told_from_what_goes_on(answer: bytes) -> None:
    done = struct.pack("=IHHIIi", 20, 3, 2, 1, 0, 0)
    found, last = parse(answer + done)
    assert last
    assert len(found) == len(parse(answer)[0])
    assert parse(b"") == ([], False)
