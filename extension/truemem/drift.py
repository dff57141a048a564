"""The levels of one life of an environment, invocation after invocation, and what is judged of them. Pure. KiB."""

from __future__ import annotations

from .verdict import (
    GROWING,
    LEVEL_INVOCATIONS,
    MOST_LEVELS_KEPT,
    SPIKE_KIB,
    VERDICT_EVERY,
    WARMING,
    LeakVerdict,
    look_schedule,
    median,
)


class Drift:
    """The drift of the processes that run now."""

    def __init__(self, verdict: LeakVerdict | None = None) -> None:
        """`verdict`: another judge than that of memory."""
        self._block: list[int] = []
        """CurrentRSS of the invocations since the last median."""
        self._sum, self._summed = 0.0, 0
        """Sum of the medians that are to become one level, and their number."""
        self._floor = 0
        """The lowest CurrentRSS among the medians that are to become one level."""
        self._levels: list[float] = []
        self._floors: list[float] = []
        self._stride = LEVEL_INVOCATIONS
        self._looks = look_schedule()
        self._look_at = next(self._looks)[1]
        """Number of levels at which the next look is due."""
        self._first_ms = self._last_ms = 0
        self._held_kib = 0
        self._spikes = self._seen = 0
        self.count = 0
        """Invocations whose CurrentRSS counts."""
        self.verdict = verdict or LeakVerdict()

    def see(self, held_kib: int, peak_kib: int) -> None:
        """Count an invocation: its CurrentRSS, as far as it is known, and its peak."""
        self._seen += 1
        self._spikes += is_spike(peak_kib, max(self._held_kib, held_kib))
        self._held_kib = held_kib

    def add(self, held_kib: int, time_ms: int) -> None:
        """Add the CurrentRSS of an invocation that began at `time_ms`, where it is known for certain."""
        self._first_ms = self._first_ms or time_ms
        self._last_ms = time_ms
        self.count += 1
        self._block.append(held_kib)
        if len(self._block) == LEVEL_INVOCATIONS:
            lowest = min(self._block)
            self._floor = min(self._floor, lowest) if self._summed else lowest
            self._sum += median(self._block)
            self._summed += 1
            self._block.clear()
            if self._summed * LEVEL_INVOCATIONS == self._stride:
                self._levels.append(self._sum / self._summed)
                self._floors.append(self._floor)
                self._sum, self._summed = 0.0, 0
                self._judge()

    def due(self) -> bool:
        """Is a verdict to be printed with this invocation?"""
        return bool(self.verdict.name) and self.count % VERDICT_EVERY == 0

    def document(self, invocation: int, room_kib: int | None) -> dict[str, object]:
        """The verdict as the line of the environment's `invocation`, which was seen last, has it; empty without one.
        `room_kib` is left until the memory limit; None where that is not known."""
        verdict = self.verdict
        if not verdict.name:
            return {}
        growth, low, high = verdict.growth
        digits = 5 if verdict.name == GROWING and growth < 0.1 else 2  # every byte of a line is paid for
        members: dict[str, object] = {"verdict": verdict.name, "perInvocationKiB": round(growth, digits) + 0.0}
        if verdict.name in (GROWING, WARMING):
            members["low"], members["high"] = round(low, digits), round(high, digits)
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

    def _judge(self) -> None:
        levels, floors = self._levels, self._floors
        if len(levels) == self._look_at:
            self._look_at = next(self._looks)[1]
            # Invocations between those that count have leaked as well.
            self.verdict.look(levels, floors, self._seen, self._spikes)
        if len(levels) == MOST_LEVELS_KEPT:
            self._levels = [(levels[at] + levels[at + 1]) / 2 for at in range(0, MOST_LEVELS_KEPT, 2)]
            self._floors = [min(floors[at], floors[at + 1]) for at in range(0, MOST_LEVELS_KEPT, 2)]
            self._stride *= 2


def is_spike(peak_kib: float, held_kib: float) -> bool:
    """Is a peak far above the CurrentRSS before and after it?"""
    return peak_kib - held_kib > max(SPIKE_KIB, held_kib / 4)
