"""Waiting fails now and then, and has a clock that may have jumped."""

from __future__ import annotations

import errno
import os
import select
import socket
from types import SimpleNamespace
from typing import Any

import pytest
from truemem.platform.poller import FAILURES, Poller
from truemem.support.clock import Clock, RunningClock
from truemem_workbench.testing.proxy.running import reset

MS = 1_000_000


class Poll:
    """The kernel's. It fails so many times in a row."""

    def __init__(self, times: int = 0, number: int = 0) -> None:
        self.left, self.number = times, number
        self.asked: list[float] = []
        """Timeouts."""

    def register(self, *_: int) -> None: ...

    def poll(self, timeout_ms: float) -> list[tuple[int, int]]:
        self.asked.append(timeout_ms)
        if self.left:
            self.left -= 1
            raise OSError(self.number, os.strerror(self.number))
        return []


def made(wanted: dict[int, int] | None = None, poll: Poll | None = None, api: Any = None) -> Poller:
    """`wanted`: those of the runtime's connections that the proxy wants to be waited for, now."""
    proxy = SimpleNamespace(patience_s=float("inf"), interests=lambda: dict(wanted or {}))
    api = api or SimpleNamespace(waiting=False, fileno=lambda: -1)
    parts: Any = api, None, RunningClock(Clock()), proxy, poll
    return Poller(*parts)


@pytest.mark.parametrize("number", [errno.EINTR, errno.ENOMEM, errno.EIO])
def test_a_wait_that_fails_is_one_in_which_nothing_came(number: int) -> None:
    unwilling = Poll(FAILURES - 1, number)
    wait = made(poll=unwilling)
    for _ in range(2):
        assert [wait.wait(MS // 2) for _ in range(FAILURES)] == [[]] * FAILURES
        unwilling.left = FAILURES - 1  # one that succeeds ends the row


def test_one_that_goes_on_failing_is_told() -> None:
    wait = made(poll=Poll(FAILURES, errno.EIO))
    for _ in range(FAILURES - 1):
        assert wait.wait(MS // 2) == []
    with pytest.raises(OSError, match="Input/output"):
        wait.wait(MS // 2)


def test_each_of_the_runtimes_connections_is_waited_for_as_the_proxy_wants_it_now() -> None:
    wanted: dict[int, int] = {}
    wait = made(wanted)
    ours, theirs = socket.socketpair()
    number = ours.fileno()
    with ours, theirs:
        assert wait.wait(0) == []
        wanted[number] = select.POLLIN
        assert wait.wait(0) == []
        theirs.send(b"x")
        assert wait.wait(0) == [number]
        ours.recv(1)
        assert wait.wait(0) == []
        wanted[number] = select.POLLIN | select.POLLOUT
        assert wait.wait(0) == [number]
        wanted[number] = select.POLLIN
        assert wait.wait(0) == []
        theirs.send(b"x")
        wanted.clear()  # what the other side does not take is left where it is
        assert wait.wait(0) == []


def test_poll_without_events_tells_of_a_reset_alone() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.create_connection(listening.getsockname()) as ours:
        theirs, _ = listening.accept()
        wait = made({ours.fileno(): 0})
        theirs.send(b"x")
        theirs.shutdown(socket.SHUT_WR)
        assert wait.wait(20 * MS) == []
        reset(theirs)
        assert wait.wait(10_000 * MS) == [ours.fileno()]


def test_beside_them_the_next_event_is_waited_for_while_it_is_asked_for() -> None:
    (ours, theirs), (event, platform) = socket.socketpair(), socket.socketpair()
    with ours, theirs, event, platform:
        api = SimpleNamespace(waiting=True, fileno=event.fileno)
        wait = made({ours.fileno(): select.POLLIN}, api=api)
        platform.send(b"x")
        theirs.send(b"x")
        assert sorted(wait.wait(0)) == sorted([ours.fileno(), event.fileno()])
        api.waiting = False
        assert wait.wait(0) == [ours.fileno()]


@pytest.mark.parametrize("timeout_ns", [-(10**30), -1, 10**30])
def test_a_time_that_cannot_be_is_no_error(timeout_ns: int) -> None:
    poll = Poll()
    assert made(poll=poll).wait(timeout_ns) == []
    assert 0 <= poll.asked[0] < 1 << 31  # what poll(2) takes
