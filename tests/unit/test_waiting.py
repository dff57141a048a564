"""Waiting fails now and then, and has a clock that may have jumped."""

from __future__ import annotations

import errno
import os
from types import SimpleNamespace
from typing import Any, cast

import pytest
from truemem.lambda_api import LambdaApi
from truemem.running_clock import RunningClock
from truemem.waiting import FAILURES, Waiting

MS = 1_000_000


class Unwilling:
    """A poll, or a select, that fails so many times in a row."""

    def __init__(self, times: int, number: int) -> None:
        self.left = times
        self.number = number

    def __call__(self, *_: Any) -> Any:
        if self.left:
            self.left -= 1
            raise OSError(self.number, os.strerror(self.number))
        return ([], [], [])

    def register(self, *_: int) -> None:
        """Of a poll."""

    def poll(self, *_: float) -> list[tuple[int, int]]:
        """Of a poll."""
        self()
        return []


def made() -> Waiting:
    api = SimpleNamespace(waiting=False, fileno=lambda: -1)
    return Waiting(cast(LambdaApi, api), None, RunningClock())


@pytest.mark.parametrize("fine", [False, True], ids=["poll", "select"])
@pytest.mark.parametrize("number", [errno.EINTR, errno.ENOMEM, errno.EIO])
def test_a_wait_that_fails_is_one_in_which_nothing_came(
    monkeypatch: pytest.MonkeyPatch, fine: bool, number: int
) -> None:
    unwilling = Unwilling(FAILURES - 1, number)
    monkeypatch.setattr("truemem.waiting.select.poll", lambda: unwilling)
    monkeypatch.setattr("truemem.waiting.select.select", unwilling)
    wait = made()
    for _ in range(2):
        assert [wait.wait(MS // 2, fine=fine) for _ in range(FAILURES)] == [[]] * FAILURES
        unwilling.left = FAILURES - 1  # one that succeeds ends the row


@pytest.mark.parametrize("fine", [False, True], ids=["poll", "select"])
def test_one_that_goes_on_failing_is_told(monkeypatch: pytest.MonkeyPatch, fine: bool) -> None:
    unwilling = Unwilling(FAILURES, errno.EIO)
    monkeypatch.setattr("truemem.waiting.select.poll", lambda: unwilling)
    monkeypatch.setattr("truemem.waiting.select.select", unwilling)
    wait = made()
    for _ in range(FAILURES - 1):
        assert wait.wait(MS // 2, fine=fine) == []
    with pytest.raises(OSError, match="Input/output"):
        wait.wait(MS // 2, fine=fine)


@pytest.mark.parametrize("timeout_ns", [-(10**30), -1, 10**30])
def test_a_time_that_cannot_be_is_no_error(monkeypatch: pytest.MonkeyPatch, timeout_ns: int) -> None:
    asked: list[float] = []

    class Poll(Unwilling):
        def poll(self, *timeout: float) -> list[tuple[int, int]]:
            asked.extend(timeout)
            return []

    monkeypatch.setattr("truemem.waiting.select.poll", lambda: Poll(0, 0))
    assert made().wait(timeout_ns) == []
    assert 0 <= asked[0] < 1 << 31  # what poll(2) takes
