"""Waiting for what comes next: an event, telemetry, or a moment."""

from __future__ import annotations

import select

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .lambda_api import LambdaApi
    from .listener import Listener
    from .running_clock import RunningClock

MS = 1_000_000

LONGEST_MS = 1 << 30
"""What poll(2) takes, in whole numbers: a clock may have jumped."""

FAILURES = 10
"""A wait that fails may be for want of memory in the kernel, and once (poll(2): ENOMEM)."""

SELECT_LIMIT = 1024
"""select(2) takes descriptors below this."""


class Waiting:
    """Keeps the poll's descriptors in step with the connections there are."""

    def __init__(self, api: LambdaApi, listener: Listener | None, clock: RunningClock) -> None:
        self._api = api
        self._listener = listener
        self._clock = clock
        self._poll = select.poll()
        self._polled: set[int] = set()
        self._event_poll = select.poll()
        self._failures = 0
        """In a row."""

    def wait(self, timeout_ns: int, fine: bool = False) -> list[int]:
        """The descriptors that are ready, none after `timeout_ns`. `fine`: to the µs, where poll's timeout is in
        whole ms, rounded up. Raises OSError if that fails FAILURES times in a row."""
        self._refresh()
        timeout_ms = min(max(0, -(-timeout_ns // MS)), LONGEST_MS)
        self._clock.before_wait(timeout_ms)
        try:
            if fine and timeout_ns > 0 and max(self._polled, default=0) < SELECT_LIMIT:
                ready = list(select.select(list(self._polled), (), (), timeout_ns / 1e9)[0])
            else:
                ready = [descriptor for descriptor, _ in self._poll.poll(timeout_ms)]
            self._failures = 0
            return ready
        except OSError:
            self._failures += 1
            if self._failures >= FAILURES:
                raise
            return []
        finally:
            self._clock.after_wait()

    def event_has_come(self) -> bool:
        """Is one there already?"""
        if not self._api.waiting:
            return False
        descriptor = self._api.fileno()
        self._event_poll.register(descriptor, select.POLLIN)
        ready = self._event_poll.poll(0)
        self._event_poll.unregister(descriptor)
        return bool(ready)

    def _refresh(self) -> None:
        wanted = {self._api.fileno()} if self._api.waiting else set()
        if self._listener is not None:
            wanted.update(self._listener.descriptors())
        for descriptor in self._polled - wanted:
            try:
                self._poll.unregister(descriptor)
            except KeyError:
                pass
        for descriptor in wanted - self._polled:
            self._poll.register(descriptor, select.POLLIN)
        self._polled = wanted
