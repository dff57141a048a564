"""Whatever happens to the sidecar, the runtime's bytes pass."""

import contextlib
import gc
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from truemem.platform.exact_mode import ExactMode, RuntimeConnection
from truemem.platform.proxy import SPARE_DESCRIPTORS

from testing.proxy import (
    ACCEPTED,
    NEXT,
    PATIENCE_S,
    Proxy,
    Turns,
    accept,
    address_of,
    answer,
    connect,
    descriptors,
    event,
    handshake_with,
    listen,
    port_of,
    read,
    reset,
    wait_for,
)

ROOT = Path(__file__).parents[2]


def invoke(runtime: socket.socket, server: socket.socket, name: str = "a") -> None:
    """One invocation, byte for byte as it has to be."""
    response = answer(name, b"x" * 1000)
    for sender, receiver, data in [
        (runtime, server, NEXT),
        (server, runtime, event(name, b"y" * 1000)),
        (runtime, server, response),
        (server, runtime, ACCEPTED),
    ]:
        sender.sendall(data)
        assert read(receiver, len(data)) == data


def talk_over(port: int, api: socket.socket, invocations: int = 3) -> None:
    """A connection on which the function is invoked, and its end."""
    with connect(port) as runtime, accept(api) as server:
        for _ in range(invocations):
            invoke(runtime, server)
        runtime.shutdown(socket.SHUT_WR)
        assert server.recv(1) == b""
        server.close()
        assert runtime.recv(1) == b""


# Bugs of ours


def raises(*_: Any) -> Any:
    raise RuntimeError("a bug")


def test_a_measurement_that_raises_is_counted_and_the_bytes_pass(api: socket.socket) -> None:
    with Proxy(address_of(api), cut=raises) as proxy:
        talk_over(proxy.port, api)
        assert proxy.exact.failures == 1 + 3 + 2  # the first request, each event, each further request


def test_a_slow_measurement_delays_the_event_alone(api: socket.socket) -> None:
    measuring, measured = threading.Event(), threading.Event()

    def cut() -> None:
        measuring.set()
        assert measured.wait(PATIENCE_S)

    with Proxy(address_of(api), cut=cut) as proxy, connect(proxy.port) as runtime, accept(api) as server:
        runtime.send(NEXT)
        assert measuring.wait(PATIENCE_S)
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.recv(1)
        server.settimeout(PATIENCE_S)
        measured.set()
        assert read(server, len(NEXT)) == NEXT


@pytest.mark.parametrize(
    ("where", "method"),
    [
        *((RuntimeConnection, name) for name in ("sent", "received")),
        *((ExactMode, name) for name in ("asks", "begins", "answers", "left", "forget")),
    ],
)
def test_a_bug_in_understanding_the_bytes_does_not_stop_them(
    api: socket.socket, where: type, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(where, method, raises)
    with Proxy(address_of(api), cut=lambda: None) as proxy:
        talk_over(proxy.port, api)
        wait_for(lambda: not proxy.pairs)
        assert proxy.exact.failures > 0 or where is ExactMode


@pytest.mark.parametrize("method", ["closed", "lose"])
def test_a_bug_in_ending_a_connection_spoils_no_other_one(
    api: socket.socket, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The proxy clears up after a connection that is lost, and there the same may fail again."""
    with Proxy(address_of(api), cut=lambda: None) as proxy:
        with connect(proxy.port) as kept, accept(api) as server:
            invoke(kept, server)
            monkeypatch.setattr(RuntimeConnection, "sent", raises)
            monkeypatch.setattr(RuntimeConnection, method, raises)
            with connect(proxy.port) as runtime:
                runtime.sendall(NEXT)
                with accept(api) as other:
                    read(other, len(NEXT))
            wait_for(lambda: proxy.pairs == 1 or proxy.raised)
            monkeypatch.undo()
            invoke(kept, server)
        talk_over(proxy.port, api)
        wait_for(lambda: not proxy.pairs)


def test_a_foreign_or_stale_descriptor_does_no_harm(api: socket.socket) -> None:
    """Where the kernel cannot wait, all are tried."""

    def serve_all() -> None:
        for descriptor in [*turns.proxy.interests(), *turns.proxy._ends] * 3:
            assert turns.proxy.serve(descriptor)

    with Turns(address_of(api)) as turns, connect(turns.port) as runtime:
        turns.turn_until(lambda: turns.proxy._ends)
        with accept(api) as server:
            for descriptor in (-1, 0, api.fileno(), 1 << 30):
                assert not turns.proxy.serve(descriptor)
            serve_all()
            runtime.send(NEXT)
            serve_all()
            assert read(server, len(NEXT)) == NEXT


def test_a_kernel_that_cannot_wait_stops_no_byte(api: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    class NoMemory:
        def register(self, *_: int) -> None: ...

        def poll(self, *_: float) -> list[tuple[int, int]]:
            raise OSError(12, "no memory")

    monkeypatch.setattr("truemem.platform.proxy.select.poll", NoMemory)
    with Proxy(address_of(api)) as proxy:
        talk_over(proxy.port, api)
        proxy.wait_until_idle()


# No descriptors


@contextlib.contextmanager
def starved(api: socket.socket, *arguments: str) -> Iterator[int]:
    """The port of a proxy whose process has no descriptor left."""
    command = [sys.executable, "-m", "tests.proxy.starved", address_of(api), *arguments]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.stdin.close()
            assert process.wait(PATIENCE_S) == 0


@contextlib.contextmanager
def connections(port: int, api: socket.socket, count: int) -> Iterator[list[tuple[socket.socket, socket.socket]]]:
    """So many at once: of each, the runtime's end and the API's."""
    with contextlib.ExitStack() as opened:
        made = []
        for _ in range(count):
            runtime = opened.enter_context(connect(port))
            made.append((runtime, opened.enter_context(accept(api))))
        yield made


def refused(port: int) -> None:
    """A connection that the API does not take."""
    with contextlib.suppress(ConnectionError), connect(port) as runtime:
        assert runtime.recv(1) == b""


@contextlib.contextmanager
def back(address: str, port: int) -> Iterator[socket.socket]:
    """The API, which had gone, at its old address."""
    with socket.create_server(("127.0.0.1", port)) as again:
        again.settimeout(PATIENCE_S)
        assert address_of(again) == address
        yield again


@pytest.mark.parametrize("at_once", [1, SPARE_DESCRIPTORS // 2])
def test_without_descriptors_the_spare_ones_serve(api: socket.socket, at_once: int) -> None:
    with starved(api) as port, connections(port, api, at_once) as opened:
        for runtime, server in opened * 20:
            invoke(runtime, server)


def test_without_descriptors_one_connection_a_call_goes_on(api: socket.socket) -> None:
    with starved(api) as port:
        for _ in range(200):
            talk_over(port, api, invocations=1)


@pytest.mark.parametrize("breaks", [False, True], ids=["closes", "breaks off"])
def test_what_a_connection_frees_is_kept_for_the_next_one(api: socket.socket, breaks: bool) -> None:
    """Though another part of the sidecar takes every descriptor that it can have."""
    with starved(api, "takes") as port:
        for _ in range(3 * SPARE_DESCRIPTORS):
            with connect(port) as runtime, accept(api) as server:
                invoke(runtime, server)
                if breaks:
                    reset(runtime)
                    with contextlib.suppress(ConnectionResetError):
                        assert server.recv(1) == b""


def test_refused_connections_use_up_no_spare_descriptor(api: socket.socket) -> None:
    address, port_of_api = address_of(api), port_of(api)
    with starved(api, "takes") as port:
        api.close()
        for _ in range(3 * SPARE_DESCRIPTORS):
            refused(port)
        with back(address, port_of_api) as again:
            talk_over(port, again)


def test_a_connection_beyond_the_spares_is_served_later(api: socket.socket) -> None:
    """Both ends of one at a time are all that is left."""
    with starved(api) as port, connections(port, api, SPARE_DESCRIPTORS // 2) as opened, connect(port) as waiting:
        waiting.sendall(NEXT)
        for runtime, server in opened:
            invoke(runtime, server)
        for end in opened[0]:
            end.close()
        with accept(api) as late:
            assert read(late, len(NEXT)) == NEXT


def test_a_connection_that_was_not_accepted_is_served_later(api: socket.socket) -> None:
    """Though nothing else happens that would end the proxy's waiting."""
    with starved(api, "frees") as port, connections(port, api, SPARE_DESCRIPTORS // 2), connect(port) as waiting:
        waiting.sendall(NEXT)
        with accept(api) as late:
            assert read(late, len(NEXT)) == NEXT


def test_an_unreachable_api_is_logged_once(api: socket.socket, capfd: pytest.CaptureFixture[str]) -> None:
    """Not even one that the kernel refuses to connect to at once."""
    with Turns(address_of(api)) as turns:
        with handshake_with(address_of(api), turns.port) as wrapper:
            wrapper.send(b"255.255.255.255:9")
        turns.turn()
        for _ in range(3):
            with connect(turns.port) as runtime:
                turns.turn_until(partial(ended, runtime))
        assert len(turns.listener._spares) == SPARE_DESCRIPTORS
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("truemem WARN no connection to the Runtime API: ")


def ended(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True


# An API that is not there


def test_a_refusing_api_is_an_error_of_the_runtimes(api: socket.socket) -> None:
    address, port = address_of(api), port_of(api)
    api.close()
    with Proxy(address) as proxy:
        for _ in range(20):
            with pytest.raises(ConnectionResetError), connect(proxy.port) as runtime:
                with contextlib.suppress(BrokenPipeError):
                    runtime.sendall(NEXT)
                assert runtime.recv(1)
        proxy.wait_until_idle()
        assert proxy.proxy.problem == ""  # it is the API's, and the runtime sees it
        with back(address, port) as again:
            talk_over(proxy.port, again)


# Letters

GARBAGE = [
    *(b"", b"\0", b"nonsense", b"\xff\xfe\x80:1", b"127.0.0.1:", b"127.0.0.1:http", b"127.0.0.1:99999"),
    *(b"127.0.0.1:-1", b"127.0.0.1:0", b":9001", b":::::", b"..:9001", b"a" * 250 + b":9001", b"x" * 100_000),
    b"127.0.0.1:1" + b" " * 100_000,  # an address as far as it is read
    b"127.0.0.1:" + b"0" * 100_000 + b"9",
]


def test_a_letter_that_is_no_address_changes_nothing(api: socket.socket) -> None:
    with Proxy(address_of(api)) as proxy:
        for letter in GARBAGE:
            proxy.write(letter)
            talk_over(proxy.port, api, invocations=1)


def test_a_letter_says_where_connections_go_from_then_on(api: socket.socket) -> None:
    """Another vendor's proxy. Those that are open already stay."""
    with listen() as vendor, Proxy(address_of(api)) as proxy, connect(proxy.port) as before, accept(api) as server:
        proxy.write(address_of(vendor).encode())
        wait_for(lambda: proxy.proxy.runtime_pid)
        assert proxy.proxy.runtime_pid == os.getpid()
        for _ in range(3):
            talk_over(proxy.port, vendor)
        invoke(before, server)


def test_the_first_letter_alone_counts(api: socket.socket) -> None:
    """It is sent before any code of the function runs."""
    with listen() as other, Turns(address_of(api)) as turns:
        with handshake_with(address_of(api), turns.port) as wrapper:
            for handshake in (b"nonsense", address_of(api).encode(), address_of(other).encode(), b"127.0.0.1:1"):
                wrapper.send(handshake)
        turns.turn_until(lambda: not turns.turn())
        with connect(turns.port) as runtime:
            turns.turn_until(lambda: turns.proxy._ends)
            with accept(api) as server:
                runtime.sendall(NEXT)
                turns.turn_until(lambda: not turns.turn(10))
                assert read(server, len(NEXT)) == NEXT


def test_an_address_of_the_other_kind(api: socket.socket) -> None:
    with contextlib.ExitStack() as opened:
        try:
            other = opened.enter_context(socket.create_server(("::1", 0), family=socket.AF_INET6))
        except OSError:
            pytest.skip("no IPv6 here")
        other.settimeout(PATIENCE_S)
        proxy = opened.enter_context(Proxy(address_of(api)))
        proxy.write(f"[::1]:{port_of(other)}".encode())
        wait_for(lambda: proxy.proxy.runtime_pid)
        talk_over(proxy.port, other)


def test_a_flood_of_handshakes_stops_no_byte(api: socket.socket) -> None:
    with Proxy(address_of(api)) as proxy, handshake_with(address_of(api), proxy.port) as wrapper:
        over = threading.Event()

        def flood() -> None:
            while not over.is_set():
                wrapper.send(b"nonsense")

        flooding = threading.Thread(target=flood)
        flooding.start()
        try:
            for _ in range(20):
                talk_over(proxy.port, api)
        finally:
            over.set()
            flooding.join(PATIENCE_S)


def test_a_letter_with_descriptors_in_it_leaves_none_behind(api: socket.socket) -> None:
    with Turns(address_of(api)) as turns, handshake_with(address_of(api), turns.port) as wrapper:
        before = descriptors()
        for _ in range(10):
            socket.send_fds(wrapper, [b"nonsense"], [0, 0, 0])
            turns.turn_until(lambda: not turns.turn())
        assert descriptors() == before


# Many connections


@pytest.mark.parametrize("refuses", [False, True], ids=["served", "refused"])
def test_a_thousand_connections_leak_no_descriptor(api: socket.socket, refuses: bool) -> None:
    with Proxy(address_of(api)) as proxy:
        talk_over(proxy.port, api)
        proxy.wait_until_idle()
        if refuses:
            api.close()
        gc.collect()  # what other tests have left open must not be closed meanwhile
        before = descriptors()
        for number in range(1000):
            if refuses:
                refused(proxy.port)
                continue
            with connect(proxy.port) as runtime, accept(api) as server:
                if number % 3:
                    invoke(runtime, server)
                else:
                    server.close()
        proxy.wait_until_idle()
        wait_for(lambda: descriptors() == before)


def test_a_storm_of_connections_is_served_to_the_last(api: socket.socket) -> None:
    with Proxy(address_of(api)) as proxy, contextlib.ExitStack() as opened:
        runtimes = [opened.enter_context(connect(proxy.port)) for _ in range(200)]
        servers = [opened.enter_context(accept(api)) for _ in runtimes]
        for number, runtime in enumerate(runtimes):
            runtime.sendall(b"%d\r\n" % number)
        numbers = [int(server.recv(100)) for server in servers]
        assert sorted(numbers) == list(range(200))
        for number, server in zip(numbers, servers, strict=True):
            server.sendall(b"%d\r\n" % number)
        assert [int(runtime.recv(100)) for runtime in runtimes] == list(range(200))
        opened.close()
        proxy.wait_until_idle()


@pytest.mark.parametrize("said", [0, len(NEXT) - 1], ids=["nothing", "half a request"])
def test_a_stalled_connection_holds_up_nothing(api: socket.socket, said: int) -> None:
    with Proxy(address_of(api)) as proxy:
        with connect(proxy.port) as slow, accept(api) as server:
            slow.sendall(NEXT[:said])
            for _ in range(10):
                talk_over(proxy.port, api)
            assert proxy.pairs
            slow.sendall(NEXT[said:])
            assert read(server, len(NEXT)) == NEXT
            invoke(slow, server)
        proxy.wait_until_idle()
