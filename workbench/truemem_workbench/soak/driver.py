"""Sends each request when it is due, whatever is under way: an open loop, as independent callers are.

A caller that waits for each answer before it asks again asks less often when the function is slow, and so hides how
long others would have waited (coordinated omission). Here the latency counts from when the request was due.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..local.scaling import Answer

MOST_AT_ONCE = 1000
"""Requests under way, above which one that is due is dropped: this tool must not grow either."""
TIMER_S = 0.001
"""Resolution of the event loop's timers. A request that is sent so late is on time."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A request, and what came of it. Moments are seconds since the begin of the soak."""

    due_s: float
    sent_s: float
    """When the request was sent: later than due if this machine was too slow."""
    answer: Answer | None
    """The answer. None: dropped by this tool, because too many were under way."""
    ended_s: float
    """When the answer came."""

    @property
    def late_ms(self) -> float:
        """How late it was sent. 0 within the resolution of the timers."""
        return 1000 * max(0.0, self.sent_s - self.due_s - TIMER_S)

    @property
    def latency_ms(self) -> float:
        """From when it was due to its answer, without the resolution of the timers."""
        return 1000 * (self.ended_s - self.sent_s) + self.late_ms


async def drive(
    arrivals: Iterable[float],
    payloads: Iterator[bytes],
    answer: Callable[[bytes], Awaitable[Answer]],
    on_done: Callable[[Arrival], None],
    *,
    begun_s: float,
    most_at_once: int = MOST_AT_ONCE,
) -> None:
    """Send the requests of `arrivals`, each with the next payload. Returns when the last one is answered.

    `begun_s`: the loop's time at second 0 of the arrivals. What was due before now is sent at once. `on_done` is called
    as answers come, which is not the order of the arrivals. Raises what `answer` raises. Then, and when it is
    cancelled, the requests under way are cancelled too, without `on_done`.
    """
    loop = asyncio.get_running_loop()
    under_way = 0

    async def request(due_s: float, payload: bytes) -> None:
        nonlocal under_way
        sent_s = loop.time() - begun_s
        came = await answer(payload)
        under_way -= 1
        on_done(Arrival(due_s, sent_s, came, came.ended_s - begun_s))

    try:
        async with asyncio.TaskGroup() as requests:
            for due_s in arrivals:
                await asyncio.sleep(begun_s + due_s - loop.time())  # late or not: answers must be heard
                if under_way < most_at_once:
                    under_way += 1
                    requests.create_task(request(due_s, next(payloads)))
                else:
                    now_s = loop.time() - begun_s
                    on_done(Arrival(due_s, now_s, None, now_s))
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None
