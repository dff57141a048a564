"""The drift of an environment: its CurrentRSS as a few levels, and the verdict on them as the line has it. Pure.

A level is the median of CurrentRSS, in KiB, over a few invocations; its floor is their minimum. Levels are evenly
spaced over all invocations: when there are LEVELS of them, each two are made one. So some hundred numbers are enough,
however long the environment lives. A reset starts new processes, and a new history.
"""

from __future__ import annotations

from .leak_verdict import GROWING, WARMING, LeakVerdict
from .trend import median

BLOCK = 4
"""Invocations in a level at first; it doubles when two levels are made one."""
LEVELS = 40
"""Levels kept, at most."""
FIRST = 8
"""Levels that a verdict needs."""
MINIMUM = BLOCK * FIRST
"""Invocations that a verdict needs."""
STEP = 4
"""Levels from one look to the next."""
EVERY = 16
"""A verdict is printed with each invocation whose number is a multiple of this, and with the last."""
SPIKE_KIB = 16 * 1024
"""A peak this far above CurrentRSS before and after it is a spike, if that is a quarter of CurrentRSS as well."""


class Drift:
    """The drift of the processes that run now."""

    def __init__(self, verdict: LeakVerdict | None = None) -> None:
        """`verdict`: another judge than that of memory."""
        self._block: list[int] = []
        """CurrentRSS of the invocations since the last median."""
        self._sum, self._summed = 0.0, 0
        """Sum of the medians that are to become one level, and their number,"""
        self._floor = 0
        """and the lowest CurrentRSS among them."""
        self._levels: list[float] = []
        self._floors: list[float] = []
        self._stride = BLOCK
        """Invocations in one level."""
        self._first_ms = self._last_ms = 0
        self._held_kib = 0
        self._spikes = self._seen = 0
        """Spikes and invocations so far."""
        self.count = 0
        """Invocations whose CurrentRSS counts."""
        self.verdict = verdict or LeakVerdict()

    def see(self, held_kib: int, peak_kib: int) -> None:
        """Count an invocation: its CurrentRSS, as far as it is known, and its peak."""
        self._seen += 1
        self._spikes += is_spike(peak_kib, max(self._held_kib, held_kib))
        self._held_kib = held_kib

    def add(self, held_kib: int, time_ms: int, limit_kib: int | None = None) -> None:
        """Add the CurrentRSS of an invocation that began at `time_ms`, where it is known for certain. `limit_kib`: what
        the function can have; None where that is not known."""
        self._first_ms = self._first_ms or time_ms
        self._last_ms = time_ms
        self.count += 1
        self._block.append(held_kib)
        if len(self._block) == BLOCK:
            lowest = min(self._block)
            self._floor = min(self._floor, lowest) if self._summed else lowest
            self._sum += median(self._block)
            self._summed += 1
            self._block.clear()
            if self._summed * BLOCK == self._stride:
                self._levels.append(self._sum / self._summed)
                self._floors.append(self._floor)
                self._sum, self._summed = 0.0, 0
                self._judge(limit_kib)

    def due(self) -> bool:
        """Is a verdict to be printed with this invocation?"""
        return bool(self.verdict.name) and self.count % EVERY == 0

    def document(self, invocation: int, room_kib: int | None) -> dict[str, object]:
        """The verdict as the line of the environment's `invocation`, which was seen last, has it; empty without one.
        `room_kib` is left until the memory limit; None where that is not known."""
        verdict = self.verdict
        if not verdict.name:
            return {}
        growth, low, high = verdict.growth
        members: dict[str, object] = {"verdict": verdict.name, "perInvocationKiB": round(growth, 2) + 0.0}
        if verdict.name in (GROWING, WARMING):  # every byte of a line is paid for
            members["low"], members["high"] = round(low, 2), round(high, 2)
            if self._last_ms > self._first_ms:
                per_ms = growth * (self._seen - 1) / (self._last_ms - self._first_ms)
                members["perMinuteKiB"] = round(per_ms * 60_000, 2)
        if verdict.name == GROWING:
            if growth > 0 and room_kib is not None:
                members["invocationsLeft"] = int(max(0, room_kib) / growth)
            members["confidence"] = verdict.confidence
            members["since"] = invocation - self._seen + verdict.since
            members["grownKiB"] = int(verdict.grown_kib)
        if verdict.ended:
            members["ended"] = verdict.ended
        return members

    def _judge(self, limit_kib: int | None) -> None:
        levels, floors = self._levels, self._floors
        room_kib = None if limit_kib is None else limit_kib - levels[-1]
        if len(levels) >= FIRST and len(levels) % STEP == 0:
            # Invocations between those that count have leaked as well.
            self.verdict.look(levels, floors, self._seen, room_kib, self._spikes)
        if len(levels) == LEVELS:
            self._levels = [(levels[at] + levels[at + 1]) / 2 for at in range(0, LEVELS, 2)]
            self._floors = [min(floors[at], floors[at + 1]) for at in range(0, LEVELS, 2)]
            self._stride *= 2


def is_spike(peak_kib: float, held_kib: float) -> bool:
    """Is a peak far above the CurrentRSS before and after it?"""
    return peak_kib - held_kib > max(SPIKE_KIB, held_kib / 4)
