"""Waiting fails now and then, and has a clock that may have jumped."""

from __future__ import annotations

import errno
import os
import select
import socket
from types import SimpleNamespace
from typing import Any, cast

import pytest
from truemem.platform.extensions_api import ExtensionsApi
from truemem.platform.poller import FAILURES, Poller
from truemem.platform.runtime_proxy import RuntimeProxy
from truemem.support.clock import Clock, RunningClock

MS = 1_000_000


class Unwilling:
    """A poll that fails so many times in a row."""

    def __init__(self, times: int, number: int) -> None:
        self.left = times
        self.number = number

    def register(self, *_: int) -> None: ...

    def poll(self, *_: float) -> list[tuple[int, int]]:
        if self.left:
            self.left -= 1
            raise OSError(self.number, os.strerror(self.number))
        return []


class Proxy:
    """Of the runtime's connections, those that a test wants to be waited for."""

    patience_s = float("inf")

    def __init__(self) -> None:
        self.wanted: dict[int, int] = {}

    def interests(self) -> dict[int, int]:
        return dict(self.wanted)


def made(proxy: Proxy | None = None, poll: Unwilling | None = None) -> Poller:
    api = SimpleNamespace(waiting=False, fileno=lambda: -1)
    parts: Any = api, None, RunningClock(Clock()), proxy, poll
    return Poller(*parts)


@pytest.mark.parametrize("number", [errno.EINTR, errno.ENOMEM, errno.EIO])
def test_a_wait_that_fails_is_one_in_which_nothing_came(number: int) -> None:
    unwilling = Unwilling(FAILURES - 1, number)
    wait = made(poll=unwilling)
    for _ in range(2):
        assert [wait.wait(MS // 2) for _ in range(FAILURES)] == [[]] * FAILURES
        unwilling.left = FAILURES - 1  # one that succeeds ends the row


def test_one_that_goes_on_failing_is_told() -> None:
    wait = made(poll=Unwilling(FAILURES, errno.EIO))
    for _ in range(FAILURES - 1):
        assert wait.wait(MS // 2) == []
    with pytest.raises(OSError, match="Input/output"):
        wait.wait(MS // 2)


def test_each_of_the_runtimes_connections_is_waited_for_as_the_proxy_wants_it_now() -> None:
    proxy = Proxy()
    wait = made(proxy)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert wait.wait(0) == []
        proxy.wanted = {ours.fileno(): select.POLLIN}
        assert wait.wait(0) == []
        theirs.send(b"x")
        assert wait.wait(0) == [ours.fileno()]
        ours.recv(1)
        assert wait.wait(0) == []
        proxy.wanted = {ours.fileno(): select.POLLIN | select.POLLOUT}
        assert wait.wait(0) == [ours.fileno()]
        proxy.wanted = {ours.fileno(): select.POLLIN}
        assert wait.wait(0) == []
        theirs.send(b"x")
        proxy.wanted = {}  # what the other side does not take is left where it is
        assert wait.wait(0) == []


def test_beside_them_the_next_event_is_waited_for_while_it_is_asked_for() -> None:
    proxy = Proxy()
    (ours, theirs), (event, platform) = socket.socketpair(), socket.socketpair()
    with ours, theirs, event, platform:
        api = SimpleNamespace(waiting=True, fileno=event.fileno)
        wait = Poller(cast(ExtensionsApi, api), None, RunningClock(Clock()), cast(RuntimeProxy, proxy))
        proxy.wanted = {ours.fileno(): select.POLLIN}
        platform.send(b"x")
        theirs.send(b"x")
        assert sorted(wait.wait(0)) == sorted([ours.fileno(), event.fileno()])
        api.waiting = False
        assert wait.wait(0) == [ours.fileno()]


@pytest.mark.parametrize("timeout_ns", [-(10**30), -1, 10**30])
def test_a_time_that_cannot_be_is_no_error(timeout_ns: int) -> None:
    asked: list[float] = []

    class Poll(Unwilling):
        def poll(self, *timeout: float) -> list[tuple[int, int]]:
            asked.extend(timeout)
            return []

    assert made(poll=Poll(0, 0)).wait(timeout_ns) == []
    assert 0 <= asked[0] < 1 << 31  # what poll(2) takes
