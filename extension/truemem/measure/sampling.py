"""When to sample next: dense at first and while memory moves, sparse later, never beyond the CPU budget.

Pure: time and measured cost come in, an interval goes out.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

MS: Final = 1_000_000

DENSE_NS: Final = 1 * MS
"""Interval while an invocation is young or its memory moves: the timer's own resolution."""
DENSE_AGE_NS: Final = 20 * MS
EXACT_NS: Final = 10 * MS
"""Shortest interval in exact mode, where the kernel's peak is read at the end for certain."""
WATCH_NS: Final = 10 * MS
"""Interval at which new processes are looked for: a child of 50 ms is to be found early."""
CHILD_NS: Final = 2 * MS
"""Shortest interval between samples of a child."""
CHILD_FRACTION: Final = 6
"""A child is sampled again after 1/6 of the time it has lived: its last sample is late in its life, whenever that
ends."""
SPARSE_NS: Final = 250 * MS
"""Longest interval, however long the invocation."""
AGE_FRACTION: Final = 20
"""Where memory does not move, sample again after 1/20 of the time already run: a long invocation is not watched more
often."""
MOVING_KIB: Final = 1024
"""A change between two samples after which the next one comes soon."""
URGENT_NS: Final = 250 * MS
"""If the limit would be reached within this time, as fast as memory grows, or before the sample after next, the
invocation may be about to die."""
URGENT_FRACTION: Final = 4
"""Near the limit sample again after a quarter of the time until it would be reached, so ever more often."""
OVERDRAFT_NS: Final = 5 * MS
"""CPU time that may be spent on an invocation that may be about to die before it is earned."""
BURST_NS: Final = 2 * MS
"""CPU time that may be saved up while nothing is sampled, and then spent in dense ticks."""
BURST_PART: Final = 0.75
"""At most this part of a second's CPU time may be saved up for dense ticks, so that a small function's first second is
not blind after them."""
SAVED_NS: Final = 20 * MS
"""CPU time that may be saved up for samples of children: they are worth more, as nothing else tells their peak."""
BESIDE_PART: Final = 0.1
"""Part of the budget that other readings may have on average, whatever sampling needs."""
SECOND_NS: Final = 1000 * MS
"""However much is saved, no second has more than its own share."""
PART_NS: Final = 100 * MS
"""A second's share is counted in parts of it, ..."""
PARTS: Final = 10
"""... of which it has so many."""
REST_NS: Final = 1 * MS
"""CPU time of reading the other ones of many processes, after the answer."""
MOST_REST_NS: Final = 2 * MS
"""Most CPU time of reading these processes, however much is saved: in exact mode the runtime's bytes wait meanwhile."""


class CpuBudget:
    """CPU time that sampling may use, in ns: it accrues with wall time, and is spent by what ticks really cost. What
    sampling leaves unused is saved for samples of children."""

    def __init__(self, fraction: float, cpu_share: float, now_ns: int) -> None:
        """`fraction` of `cpu_share` vCPUs: 0.01 of the 0.58 that 1,024 MiB buy is 5.8 ms in each second."""
        self._rate = fraction * cpu_share
        self._burst = min(BURST_NS, self._rate * SECOND_NS * BURST_PART)
        self._allowance: float = self._burst
        self._parts: list[int] = []
        """Parts of the last second in which something was spent: their numbers, counted from the clock's beginning."""
        self._costs: list[int] = []
        """ns spent in each of these."""
        self._spent_ns = 0
        """The sum of these."""
        self._saved = 0.0
        self._cost = 100_000.0
        self._updated = now_ns
        self._beside_ns = 0
        """What sampling has not saved may be used for other things again from then on."""

    def spend(self, cost_ns: int, now_ns: int, saved: bool = False) -> None:
        """A tick used `cost_ns` of CPU time, waking up included: of what is `saved`, for a sample of children."""
        self._accrue(now_ns)
        part = now_ns // PART_NS
        if self._parts and self._parts[-1] == part:
            self._costs[-1] += cost_ns
        else:
            self._parts.append(part)
            self._costs.append(cost_ns)
        self._spent_ns += cost_ns
        if saved:
            self._saved -= cost_ns
        else:
            self._allowance -= cost_ns
            self._cost += (cost_ns - self._cost) / 8

    def rest_ns(self, now_ns: int) -> int:
        """CPU time for processes that were not read when a window closed: what is there, and REST_NS in any case."""
        self._accrue(now_ns)
        return min(max(REST_NS, round(self._saved + self._allowance)), MOST_REST_NS)

    def affords(self, cost_ns: float, now_ns: int) -> bool:
        """May something else than sampling use so much CPU time now? It takes what sampling has saved; and where a busy
        function's sampling saves nothing, of BESIDE_PART on top."""
        self._accrue(now_ns)
        if self._saved >= cost_ns and not self._second_full_ns(now_ns):
            return True
        return now_ns >= self._beside_ns and cost_ns <= self._burst

    def spend_beside(self, cost_ns: int, now_ns: int) -> None:
        """Note `cost_ns` of CPU time that other work has used. Sampling waits until that is earned."""
        is_saved = self._saved >= cost_ns
        cost_before = self._cost
        self.spend(cost_ns, now_ns, saved=is_saved)
        self._cost = cost_before  # of a tick
        self._beside_ns = now_ns + round(cost_ns / BESIDE_PART / self._rate)

    def sparing(self, now_ns: int) -> int:
        """How many times as seldom children are to be looked at, the less is saved: 1, 2 or 4; 0 for not at all."""
        self._accrue(now_ns)
        if self._saved <= 0 or self._second_full_ns(now_ns):
            return 0
        return 1 if self._saved > SAVED_NS / 2 else 2 if self._saved > SAVED_NS / 8 else 4

    def wait_ns(self, now_ns: int, overdraft_ns: int = 0) -> int:
        """Time until a tick of the usual cost can be paid for, having spent `overdraft_ns` more than there was."""
        self._accrue(now_ns)
        lacking = self._cost - overdraft_ns - self._allowance
        earned_ns = round(lacking / self._rate) if lacking > 0 else 0
        return earned_ns if overdraft_ns else max(earned_ns, self._second_full_ns(now_ns))

    def _second_full_ns(self, now_ns: int) -> int:
        """Time until a second that ends with a tick of the usual cost has no more than its share: 0 for now."""
        part = now_ns // PART_NS
        while self._parts and not part - PARTS <= self._parts[0] <= part:  # the clock may have gone back
            self._spent_ns -= self._costs[0]
            del self._parts[0], self._costs[0]
        over = self._spent_ns + 1.5 * self._cost - self._rate * SECOND_NS
        free_ns = now_ns
        for at, cost_ns in enumerate(self._costs):  # the first that was spent is the first that no longer counts
            if over <= 0:
                break
            over -= cost_ns
            free_ns = (self._parts[at] + PARTS + 1) * PART_NS
        return free_ns - now_ns

    def _accrue(self, now_ns: int) -> None:
        # A freeze may have passed, or a clock may have jumped: it fills both budgets, and no more.
        earned = self._allowance + max(0, now_ns - self._updated) * self._rate
        self._allowance = min(self._burst, earned)
        self._saved = min(SAVED_NS, self._saved + earned - self._allowance)
        self._updated = now_ns


def init_interval_ns(age_ns: int, found: bool) -> int:
    """Time until the next tick in the init phase: looking for the runtime, which starts when every extension
    has registered; once it is `found`, the kernel keeps its peak and nothing needs to be seen."""
    return SPARSE_NS if found else min(max(age_ns // AGE_FRACTION, 2 * DENSE_NS), SPARSE_NS)


def urgent_ns(limit_ns: float | None, interval_ns: int) -> int | None:
    """Time until the next tick where the limit would be reached in `limit_ns` and one is planned in `interval_ns`; None
    where nothing is urgent."""
    if limit_ns is None or limit_ns > max(URGENT_NS, 2 * interval_ns):
        return None
    return max(round(limit_ns / URGENT_FRACTION), DENSE_NS)


def interval_ns(age_ns: int, moved_kib: int, affordable_ns: int, exact: bool = False) -> int:
    """Time until the next tick: of an invocation that began `age_ns` ago, whose memory moved by `moved_kib`
    since the last tick, with the next tick affordable in `affordable_ns`. `exact`: the kernel's peak
    will be read at its end for certain."""
    if exact:
        wanted = min(max(age_ns // AGE_FRACTION, EXACT_NS), SPARSE_NS)
    elif age_ns < DENSE_AGE_NS or moved_kib >= MOVING_KIB:
        wanted = DENSE_NS
    else:
        wanted = min(max(age_ns // AGE_FRACTION, DENSE_NS), SPARSE_NS)
    return max(wanted, affordable_ns)


def child_interval_ns(age_ns: int, moved_kib: int) -> int:
    """Time until the next sample of a child that was found `age_ns` ago, and has moved so much since the last one."""
    return CHILD_NS if moved_kib >= MOVING_KIB else max(age_ns // CHILD_FRACTION, CHILD_NS)
