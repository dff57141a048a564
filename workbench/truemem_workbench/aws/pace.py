"""Spaces the requests of a client, so that many functions do not use up the account's rate limit."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

CALLS_PER_S = 10
"""Requests to Lambda each second. It permits 15 for all of an account's control plane calls (Lambda quotas, "Rest of
the control plane API requests"), which deployments need as well."""


class Pace:
    """Delays each request until its turn. Retries count too: they are requests like any other."""

    def __init__(
        self, per_s: float, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._interval, self._clock, self._sleep = 1 / per_s, clock, sleep
        self._turn = clock()

    def wait(self, **_: Any) -> None:
        """Called by botocore before it sends a request."""
        now = self._clock()
        turn = max(self._turn, now)
        self._turn = turn + self._interval
        if turn > now:
            self._sleep(turn - now)


def paced(client: Any, pace: Pace) -> Any:
    """The client, its requests at this pace."""
    client.meta.events.register("before-send", pace.wait)
    return client
