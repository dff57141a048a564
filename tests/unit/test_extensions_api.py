"""The Extensions API's client against a server that plays a script: one answer for each request."""

import _socket
import errno
import os
import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from truemem.platform.extensions_api import (
    LONGEST_PAUSE,
    MANAGED_SCHEMA,
    MANAGED_TIMEOUT_MS,
    REST_S,
    ApiError,
    ExtensionsClient,
)

REGISTERED = b"HTTP/1.1 200 OK\r\nLambda-Extension-Identifier: 8476a536\r\nContent-Length: 2\r\n\r\n{}"
EVENT = b'{"eventType":"INVOKE"}'
INVOKE = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(EVENT), EVENT)
SUBSCRIBED = b'HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n"OK"'
NO_EVENT = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"

NEVER = float("inf")
PATIENCE_S = 10


class Late(bytes):
    """An answer that does not come before the test lets it (Script.late)."""


class Slow(bytes):
    """An answer that comes byte by byte."""


def refusal(status: int, error: str) -> bytes:
    body = f'{{"errorType":"{error}"}}'.encode()
    return b"HTTP/1.1 %d No\r\nContent-Length: %d\r\n\r\n%s" % (status, len(body), body)


class Script:
    """What the server has answered to, and where it is."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.requests: list[bytes] = []
        self.late = threading.Event()


@contextmanager
def server(*answers: bytes | None, host: str = "127.0.0.1") -> Iterator[Script]:
    """Answers each request with the next of `answers`, piece by piece; None closes the connection instead, and so does
    HTTP/1.0 after it."""
    listening = socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    script = Script(f"{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}")
    left = list(answers)

    def serve() -> None:
        while left:
            connection, _ = listening.accept()
            with connection:
                while left and (request := connection.recv(65536)):
                    script.requests.append(request)
                    answer = left.pop(0)
                    if answer is None:
                        break
                    if isinstance(answer, Late):
                        script.late.wait(PATIENCE_S)
                    size, pause_s = (1, 0.01) if isinstance(answer, Slow) else (7, 0)
                    try:
                        for start in range(0, len(answer), size):
                            connection.sendall(answer[start : start + size])
                            if pause_s:
                                time.sleep(pause_s)
                    except OSError:  # given up
                        break
                    if answer.startswith(b"HTTP/1.0"):
                        break

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield script
    thread.join(timeout=PATIENCE_S)
    listening.close()
    assert not thread.is_alive(), "not every answer was asked for"


def registered(script: Script, rest_s: float = REST_S) -> ExtensionsClient:
    api = ExtensionsClient(script.address, rest_s)
    api.register("truemem", '["INVOKE","SHUTDOWN"]')
    return api


def wait_for(api: ExtensionsClient, until: float) -> None:
    poll = select.poll()
    poll.register(api.descriptor, select.POLLIN)
    poll.poll(max(0, min(until, api.overdue_at) - time.monotonic()) * 1000)


def received(api: ExtensionsClient) -> bytes:
    """The next event, waited for as the loop does. Raises ApiError."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        wait_for(api, until)
        if event := api.receive_event():
            return event
    raise AssertionError("nothing comes")


def next_event(api: ExtensionsClient) -> bytes:
    """Asked for, and received."""
    api.send_next()
    return received(api)


def test_it_registers_and_then_shows_its_identifier() -> None:
    with server(REGISTERED, INVOKE) as script:
        api = registered(script)
        api.send_next()
        assert api.waiting
        assert received(api) == EVENT
        assert not api.waiting
    assert script.requests[0].startswith(b"POST /2020-01-01/extension/register HTTP/1.1\r\n")
    assert b"Lambda-Extension-Name: truemem\r\n" in script.requests[0]
    assert script.requests[0].endswith(b'{"events":["INVOKE","SHUTDOWN"]}')
    assert script.requests[1].startswith(b"GET /2020-01-01/extension/event/next HTTP/1.1\r\n")
    assert b"Lambda-Extension-Identifier: 8476a536\r\n" in script.requests[1]


IN_CHUNKS = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n%x\r\n%s\r\n0\r\n\r\n"


@pytest.mark.parametrize(
    "answer",
    [
        *(IN_CHUNKS % (len(EVENT), EVENT), b"HTTP/1.0 200 OK\r\n\r\n" + EVENT, Slow(INVOKE)),
        b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + INVOKE,
    ],
    ids=["in chunks", "to the end of the connection", "byte by byte, in time", "an interim answer before it"],
)
def test_events_are_received_in_any_shape(answer: bytes) -> None:
    with server(REGISTERED, answer, INVOKE) as script:
        api = registered(script)
        for kept in (answer.endswith(INVOKE), True):
            assert next_event(api) == EVENT
            assert api.overdue_at == NEVER
            assert (api.descriptor != -1) is kept


NO_REGISTRATION = {
    "refused": refusal(403, "Extension.InvalidExtensionName"),
    "no identifier": NO_EVENT,
    "too large": b"HTTP/1.1 200 OK\r\nContent-Length: 5000000\r\n\r\n",
    "not HTTP": b"SSH-2.0-OpenSSH\r\n\r\n",
    "closed": None,
}


@pytest.mark.parametrize("answer", NO_REGISTRATION.values(), ids=NO_REGISTRATION)
def test_what_is_no_registration_is_an_error(answer: bytes | None) -> None:
    with server(answer) as script:
        api = ExtensionsClient(script.address)
        with pytest.raises(ApiError) as refused:
            api.register("truemem", "[]")
        assert "timed out" not in str(refused.value)  # it is told from what has come


def test_a_subscription_asks_for_buffering() -> None:
    with server(REGISTERED, refusal(202, "Telemetry.NotSupported"), SUBSCRIBED) as script:
        api = registered(script)
        with pytest.raises(ApiError, match="status 202") as error:
            api.send_subscription(4242, "/secret")
            api.finish_subscription()
        api.send_subscription(4242, "/secret", MANAGED_SCHEMA, MANAGED_TIMEOUT_MS)
        api.finish_subscription()
    assert error.value.status == 202
    assert b"Telemetry.NotSupported" in error.value.body
    _, on_demand, managed = script.requests
    assert b'"types":["platform"]' in on_demand
    assert b'"buffering":{"maxItems":1000,"maxBytes":262144,"timeoutMs":25}' in on_demand
    assert b'"URI":"http://sandbox.localdomain:4242/secret"' in on_demand
    assert b'"schemaVersion":"2025-01-29"' in managed
    assert b'"timeoutMs":250}' in managed


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        *((sent, "the answer does not come") for sent in (INVOKE[:20], INVOKE[:-5], Slow(INVOKE))),
        (None, "closed in the middle"),
        (NO_EVENT, "no event"),
    ],
    ids=["a head", "not all of the body", "byte by byte", "a lost connection", "another document"],
)
def test_what_is_no_whole_event_is_given_up(answer: bytes | None, said: str) -> None:
    """The function would have to wait with us."""
    with server(REGISTERED, answer, INVOKE) as script:
        api = registered(script, rest_s=0.05)
        with pytest.raises(ApiError, match=said):
            next_event(api)
        assert (api.waiting, api.descriptor) == (False, -1)
        assert api.overdue_at == NEVER  # else the loop would come again, and again be told so
        assert next_event(api) == EVENT


def test_while_nothing_has_come_it_is_not_waited_for() -> None:
    """The runtime's bytes would have to wait as well. It may come hours later, unlike any other answer."""
    with server(REGISTERED, SUBSCRIBED, Late(INVOKE)) as script:
        api = registered(script, rest_s=0.05)
        api.send_subscription(4242, "/secret")
        api.finish_subscription()
        api.send_next()
        assert api.receive_event() == b""
        assert (api.waiting, api.overdue_at) == (True, NEVER)
        threading.Timer(0.1, script.late.set).start()
        assert received(api) == EVENT


def test_an_event_is_noted_before_it_leaves_the_socket() -> None:
    noted: list[bytes] = []

    def note(body: bytes) -> None:
        noted.append(body)
        with socket.socket(fileno=os.dup(api.descriptor)) as same:
            noted.append(same.recv(1000, socket.MSG_PEEK))

    with server(REGISTERED, INVOKE) as script:
        api = registered(script)
        api.send_next()
        while not api.receive_event(note):
            wait_for(api, time.monotonic() + PATIENCE_S)
    body, in_the_socket = noted
    assert body == EVENT
    assert in_the_socket
    assert INVOKE.endswith(in_the_socket)


def test_a_subscription_without_an_answer_is_given_up() -> None:
    with server(REGISTERED, b"", INVOKE) as script:
        api = registered(script, rest_s=0.05)
        with pytest.raises(ApiError, match="the answer does not come"):
            api.send_subscription(4242, "/secret")
            api.finish_subscription()
        assert next_event(api) == EVENT


def test_an_unasked_answer_is_not_the_next_one() -> None:
    stale = INVOKE.replace(b"INVOKE", b"DECOY!")
    with server(REGISTERED, INVOKE + stale, None, INVOKE) as script:
        api = registered(script)
        assert next_event(api) == EVENT
        with pytest.raises(ApiError):
            next_event(api)  # on a connection of its own
        assert next_event(api) == EVENT


def test_while_it_fails_it_is_to_be_asked_for_ever_more_slowly() -> None:
    failures = 12
    pauses: list[float] = []
    with server(REGISTERED, *[refusal(500, "InternalServerError")] * failures, INVOKE, INVOKE) as script:
        api = registered(script)
        assert api.pause_s == 0
        for _ in range(failures):
            with pytest.raises(ApiError, match="status 500"):
                next_event(api)
            pauses.append(api.pause_s)
        for _ in range(2):
            assert next_event(api) == EVENT
            assert api.pause_s == 0
    assert pauses == sorted(pauses)
    assert pauses[0] == 0  # after a single failure it is asked for again at once
    assert 0 < pauses[1] < 0.1
    assert pauses[-1] == LONGEST_PAUSE


def test_a_next_that_cannot_be_sent_is_tried_ever_more_slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    with server(REGISTERED) as script:
        api = registered(script)
    api.close()
    sleep = "truemem.platform.extensions_api.time.sleep"
    monkeypatch.setattr(sleep, lambda _: pytest.fail("the runtime's bytes wait as well"))
    pauses: list[float] = []
    for _ in range(12):
        with pytest.raises(ApiError):
            api.send_next()
        assert not api.waiting
        pauses.append(api.pause_s)
    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[-1]) == (0, LONGEST_PAUSE)


def test_a_refused_connection_is_an_error_and_ipv6_works() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(ApiError, match="refused"):
        ExtensionsClient(f"127.0.0.1:{port}").register("truemem", "[]")
    with server(REGISTERED, host="::1") as script:
        ExtensionsClient(script.address).register("truemem", "[]")
    assert script.requests[0].startswith(b"POST /2020-01-01/extension/register")


def test_where_the_kernel_has_no_socket_options_it_works_without(monkeypatch: pytest.MonkeyPatch) -> None:
    class Bare(_socket.socket):
        def setsockopt(self, *_: object) -> None:
            raise OSError(errno.ENOPROTOOPT, "Protocol not available")

    monkeypatch.setattr(_socket, "socket", Bare)
    with server(REGISTERED, INVOKE) as script:
        api = registered(script)
        assert next_event(api) == EVENT
        assert api.arrived_ns is None
