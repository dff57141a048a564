"""Which clock growth follows: invocations, minutes, long idle pauses, or requests that overlap. Pure.

Each life of an environment is cut into blocks, by how far all clocks ran. What memory rises by from block to block is
explained by how far each clock ran in between, with one rate for all environments. A clock is named if

- it predicts parts that were left out of the fit better than every other clock, in nearly all random draws of parts;
- nearly all growth is left to it where all clocks are fitted together: else there are two causes;
- it explains the environments that served most, and the second half of lives;
- what fills by the same clock, and so comes to an end, does not predict the growth as well.

Where two clocks run alike, as at a constant rate in one environment, none is named: a wrong one costs a day's search.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise, product
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Places = NDArray[np.intp]
Name = Literal["invocation", "minute", "pause", "overlap", ""]

PAUSES_MS = (200, 300, 500, 700, 1_000, 1_500, 2_000, 3_000, 5_000, 7_000, 10_000, 15_000, 30_000, 60_000, 300_000)
"""Lengths of pauses that are counted. How long a pause must be for a leak is not known before."""

IN_USE_MS = (3_000, 10_000)
"""Most ms of a pause that count, for minutes in use: what is made anew when it is used and too old, as a connection is,
is made once after a pause, however long that was."""


class Step(NamedTuple):
    """One served invocation of one environment. Counts run on from the environment's start: steps may be left out."""

    time_ms: float
    """When the invocation began, ms from any origin."""
    invocation: int
    """Number in its environment, from 1."""
    pauses: tuple[int, ...]
    """For each of PAUSES_MS: so many idle pauses at least so long, the one before this invocation included."""
    overlapped: int
    """Number of invocations, this one included, that ran beside another request."""
    current_kib: float | None
    """RSS that it left behind; None if not known."""
    certain: bool = True
    """False if that may contain another invocation's memory, or is of a dying process."""
    begins: bool = False
    """True if the processes are new: at a cold start, and first after a reset."""


@dataclass(frozen=True, kw_only=True)
class GrowthClock:
    """The clock that growth follows."""

    name: Name
    """Empty if there is no growth that lasts, or if clocks could not be told apart, or it may end."""
    grows: bool
    """True if memory grows, and goes on growing."""
    may_end: bool = False
    """True if it grows ever less, as what fills does: then it has no name."""
    rate_kib: float | None = None
    """KiB per invocation, minute, pause, or invocation beside another one. None without a name."""
    low_kib: float | None = None
    """Ends of its 95 % interval."""
    high_kib: float | None = None
    pause_ms: float | None = None
    """Pauses at least so long count. Only for `pause`."""
    in_use_ms: float | None = None
    """Most ms of a pause that count. Only for `minute`; None if minutes count whether it is in use or not."""
    per_minute: float | None = None
    """Number of the clock's units in a minute. None without a name."""
    at_most_kib: float | None = None
    """Growth per minute in the last third of lives is surely below this. None: not known."""
    evidence: str
    candidates: tuple[Name, ...] = ()
    """Clocks that explain the growth about as well. Only if it grows, and none is named."""
    traffic: str = ""
    """What would tell these apart, a sentence."""

    @property
    def counted(self) -> str:
        """Which of its units count, behind their word. Empty if all do."""
        if self.pause_ms:
            return f" of {self.pause_ms / 1000:g} s or longer"
        return f" in use (a pause counts for {self.in_use_ms / 1000:g} s at most)" if self.in_use_ms else ""


MINUTE_MS = 60_000
_APART = np.diff(PAUSES_MS) / MINUTE_MS
"""Minutes from each length of a pause to the next."""
DROPPED_READINGS = 2
"""First readings of a life that are not looked at: what is loaded when it is first used is no growth."""
LONG_PAUSE, MADE_UP_INVOCATIONS = PAUSES_MS.index(10_000), 3
"""Place of a pause of 10 s in PAUSES_MS, and invocations after it that do not count: threads were frozen, and make up
for it in these."""
MEDIAN_READINGS = 5
"""Readings in a running median: it takes spikes away, and keeps every rise."""
LEAST_READINGS = 12
"""Readings that a life needs."""
MOST_KIB = 1e12
"""A larger reading is none."""
READINGS_IN_BLOCK = 3
MOST_BLOCKS = 64
LEAST_BLOCKS = 5
GROUP = 3
"""Blocks that are left out together."""
LEAST_GROUPS, MOST_GROUPS = 6, 96
LEAST_EVENTS = 5
"""Pauses, or invocations beside others, before their clock is asked about."""
RECENT_MINUTES = 5 / 60
"""What a busy environment holds, it holds for about so long."""
EARLY = (0.005, 0.02, 0.06, 0.2)
"""What warms up does so, exponentially, in one of these parts of the longest life."""
SLOWLY = (0.5, 1.5)
"""What fills may take so many times the longest life: a rival of the clocks that run unlike it."""

# chosen by testing.clock_cases.TUNING
DRAWS = 400
OFTEN = 0.98
"""Share of the draws in which a clock must predict better than another one."""
STRAIGHT = 0.5
"""Share of the draws in which a clock must predict better than what fills by that clock."""
OWN_SHARE, OWN_SHARE_AT_LEAST = 0.75, 0.5
"""Part of the growth that is its own, and in 95 of 100 draws at least."""
GOES_ON = 0.4
"""The rate in a part that must grow is this part of the whole rate."""
PART_ABOVE_NOISE, ABOVE_NOISE = 1.3, 4.0
"""Times its standard deviation that growth must be: in such a part, and in the whole."""
WIDER = 1.6
"""Intervals of draws alone are too narrow: draws keep what blocks have in common."""
LEAST_GROWTH_KIB = 256.0
"""Growth, of all environments together, that matters."""
ALIKE_COSINE = 0.85
"""Clocks run alike if the cosine of what they ran from block to block is at least this."""
SHORTER = 0.97
"""Minutes in use are asked about if they are at most this part of the minutes before them."""

INVOCATION, MINUTE, PAUSE, OVERLAP = 0, 1, 2, 2 + len(PAUSES_MS)
"""Columns of the clocks; one for each of PAUSES_MS."""
IN_USE = OVERLAP + 1
"""Columns of minutes of which a pause counts for so long at most; one for each of IN_USE_MS."""
CLOCKS = IN_USE + len(IN_USE_MS)

CLOCK_WORDS: dict[Name, str] = {
    "invocation": "invocations",
    "minute": "minutes",
    "pause": "idle pauses",
    "overlap": "requests beside others",
}
TELLS: dict[Name, str] = {
    "invocation": "busy and quiet minutes",
    "minute": "busy and quiet minutes",
    "pause": "some minutes with long pauses and some without",
    "overlap": "some requests alone and some at once",
}

ENDS = 5
"""Readings at each end and in the middle, of which the median counts."""
STOPPED_SHARE = 0.15
"""Growth has stopped if less than this part of it is in the second half of the time."""
LONGER = "A longer run would tell."


def clock_of(environments: Sequence[Sequence[Step]], is_heap: bool = False) -> GrowthClock:
    """Which clock the growth of all environments of one run follows. Each has its steps in order. `is_heap`: they have
    what a collected heap keeps, which is known at its collections alone: too seldom to ask for minutes in use."""
    lives = [life for steps in environments for life in _lives(steps, is_heap)]
    # whichever environment comes first, the answer is the same
    lives.sort(key=lambda life: (*life.clocks[-1].tolist(), *life.held.tolist()))
    rows = _Rows.of(lives)
    if rows is None:
        return GrowthClock(
            name="", grows=False, evidence="There are too few readings to say which clock growth follows."
        )
    fits = _Fits(rows)
    found, at_most_kib = _judged(rows, fits), fits.at_most_kib()
    busiest = max(lives, key=lambda life: life.clocks[-1, INVOCATION])
    names = found.candidates or (found.name,)
    if found.grows and not found.may_end and all(_has_stopped(busiest, _column(name, found)) for name in names):
        said = "Memory grows, but hardly any more in the environment that served most, as a cache that fills"
        found = _may_end(said, found.candidates)
    return replace(found, at_most_kib=at_most_kib)


def _column(name: Name, found: GrowthClock) -> int:
    """The column of a clock; of pauses those of the length that was found, or of a second."""
    minute = IN_USE + IN_USE_MS.index(int(found.in_use_ms)) if found.in_use_ms else MINUTE
    columns: dict[Name, int] = {"invocation": INVOCATION, "minute": minute, "overlap": OVERLAP}
    return columns.get(name, PAUSE + PAUSES_MS.index(int(found.pause_ms or 1_000)))


def _has_stopped(life: _Life, column: int) -> bool:
    """Has hardly anything grown in the second half of what this clock ran?"""
    ran = life.clocks[:, column]
    if ran[-1] - ran[0] < (0 if column == MINUTE else LEAST_EVENTS):
        return False
    middle = int(np.searchsorted(ran, (ran[0] + ran[-1]) / 2))
    at = [0, min(max(middle, ENDS), len(ran) - 2 * ENDS), len(ran) - ENDS]
    before, half, after = (float(np.median(life.held[place : place + ENDS])) for place in at)
    return after - half < STOPPED_SHARE * max(after - before, LEAST_GROWTH_KIB)


# ---- lives, blocks, rows ----


class _Life(NamedTuple):
    """Readings of the same processes, in order."""

    held: Floats
    clocks: Floats
    """For each reading, how far each clock ran since the life began."""


def _lives(steps: Sequence[Step], is_heap: bool = False) -> Iterator[_Life]:
    """The lives that are long enough."""
    starts = [0, *(at for at, step in enumerate(steps) if step.begins and at), len(steps)]
    for first, last in pairwise(starts):
        timed = [step for step in steps[first:last] if np.isfinite(step.time_ms)]
        read = [
            step
            for step in timed[DROPPED_READINGS:]
            if step.current_kib is not None and abs(step.current_kib) < MOST_KIB
        ]
        late = set() if is_heap else _late(timed)
        certain = [step for step in read if step.certain]
        read = certain if 2 * len(certain) >= len(read) else read
        in_time = [step for step in read if step.invocation not in late]
        read = in_time if 4 * len(in_time) >= 3 * len(read) else read
        if len(read) >= LEAST_READINGS:
            clocks = np.array([_clocks(step) for step in (timed[0], *read)], dtype=np.float64)
            if is_heap:
                clocks[:, IN_USE:] = 0  # a clock that never ran is not asked about
            held = np.array([step.current_kib for step in read], dtype=np.float64)
            yield _Life(_smooth(held), np.maximum.accumulate(clocks - clocks[0], axis=0)[1:])


def _late(steps: Sequence[Step]) -> set[int]:
    """The invocations just after a long pause."""
    after = [
        at
        for at, (one, other) in enumerate(pairwise(steps), 1)
        if _pauses(other)[LONG_PAUSE] > _pauses(one)[LONG_PAUSE]
    ]
    return {step.invocation for at in after for step in steps[at : at + MADE_UP_INVOCATIONS]}


def _pauses(step: Step) -> tuple[int, ...]:
    return step.pauses if len(step.pauses) == len(PAUSES_MS) else (0,) * len(PAUSES_MS)


def _clocks(step: Step) -> tuple[float, ...]:
    pauses, minutes = _pauses(step), step.time_ms / MINUTE_MS
    return step.invocation, minutes, *pauses, step.overlapped, *(minutes - over for over in _longer(pauses))


def _longer(pauses: Sequence[int]) -> list[float]:
    """For each of IN_USE_MS: by how many minutes all pauses together were longer, about. Known is how many were at
    least how long: between two lengths as many end in each ms."""
    counts = np.array(pauses)
    between = (counts[1:] + counts[:-1]) / 2 * _APART
    return [float(between[PAUSES_MS.index(most) :].sum()) for most in IN_USE_MS]


def _smooth(held: Floats) -> Floats:
    padded = np.pad(held, MEDIAN_READINGS // 2, mode="edge")
    return np.median(np.lib.stride_tricks.sliding_window_view(padded, MEDIAN_READINGS), axis=1)


class _Rows(NamedTuple):
    """From one block of a life to the next, all lives one after the other."""

    rise: Floats
    """What memory rose by, KiB."""
    ran: Floats
    """How far each clock ran."""
    forms: Floats
    """How far each form of what is no clock went: of EARLY and SLOWLY by invocations and by minutes; last, activity."""
    starts: NDArray[np.bool_]
    """First of its life."""
    into: Floats
    """Which part of its life was over: from 0 to 1."""
    used: NDArray[np.bool_]
    """True if the row is of one of the lives that served most: they have half of all invocations."""
    group: Places
    """Rows that are left out together have the same number."""

    @classmethod
    def of(cls, lives: Sequence[_Life]) -> _Rows | None:
        """The rows of these lives; None if there are too few."""
        parts = []
        longest = np.max([life.clocks[-1] for life in lives], axis=0) if lives else np.zeros(CLOCKS)
        if not longest[MINUTE] > 0:  # times are not known: minutes could not be ruled out
            return None
        served = np.sort([life.clocks[-1, INVOCATION] for life in lives])[::-1]
        for life in lives:
            blocks = _blocks(life)
            if len(blocks) < LEAST_BLOCKS:
                continue
            columns = np.column_stack([life.clocks, _forms(life, longest)])
            moved = np.diff([columns[block].mean(axis=0) for block in blocks], axis=0)
            at = np.arange(len(moved))
            is_used = served[served > life.clocks[-1, INVOCATION]].sum() < served.sum() / 2
            rise = np.diff([np.median(life.held[block]) for block in blocks])
            parts.append((rise, moved, at == 0, at / len(at), np.full(len(at), is_used), at))
        if not parts:
            return None
        rise, moved, starts, into, used, at = (np.concatenate(part) for part in zip(*parts, strict=True))
        size = max(GROUP, -(-len(rise) // MOST_GROUPS))
        group = np.cumsum(np.diff(at // size, prepend=-1) != 0) - 1
        if group[-1] + 1 < LEAST_GROUPS:
            return None
        return cls(rise, moved[:, :CLOCKS], moved[:, CLOCKS:], starts, into, used, group)


def _blocks(life: _Life) -> list[Places]:
    """The readings of each block. All clocks count alike: neither a busy minute nor a quiet one is a single block."""
    ran = life.clocks - life.clocks[0]
    kinds = np.column_stack([ran[:, [INVOCATION, MINUTE, OVERLAP]], ran[:, PAUSE:OVERLAP].mean(axis=1)])
    kinds = kinds[:, kinds[-1] > 0]
    if not kinds.shape[1]:
        return []
    count = min(MOST_BLOCKS, len(kinds) // READINGS_IN_BLOCK)
    progress = (kinds / kinds[-1]).mean(axis=1)
    number = np.minimum((progress * count).astype(np.intp), count - 1)
    return np.split(np.arange(len(number)), np.flatnonzero(np.diff(number)) + 1)


def _forms(life: _Life, longest: Floats) -> Floats:
    """What else moves memory, for each reading."""
    count, minute = life.clocks[:, INVOCATION], life.clocks[:, MINUTE]
    filled = [
        1 - np.exp(-life.clocks[:, clock] / max(part * longest[clock], 1e-9))
        for part in (*EARLY, *SLOWLY)
        for clock in (INVOCATION, MINUTE)
    ]
    lately = count - np.interp(minute - RECENT_MINUTES, minute, count, left=0.0)
    return np.column_stack([*filled, np.log1p(lately)])


# ---- fits ----


def _nonnegative(products: Floats, columns: Sequence[int]) -> tuple[Floats, Floats]:
    """Least squares of column 0 by `columns`, no coefficient below 0. `products` of all columns: one problem or several
    on the first axis. Returns the coefficients, and the squares that they explain. It tries every set of columns."""
    gram, cross = products[..., columns, :][..., columns], products[..., columns, 0]
    scale = np.sqrt(np.maximum(np.einsum("...ii->...i", gram), 1e-30))
    even = gram / scale[..., :, None] / scale[..., None, :] + 1e-9 * np.eye(len(columns))
    goal = cross / scale
    best, explains = np.zeros(cross.shape), np.zeros(cross.shape[:-1])
    for count in range(1, len(columns) + 1):
        for chosen in combinations(range(len(columns)), count):
            pick = list(chosen)
            answer = np.linalg.solve(even[..., pick, :][..., pick], goal[..., pick, None])[..., 0]
            gain = np.sum(answer * goal[..., pick], axis=-1)
            is_better = np.all(answer >= 0, axis=-1) & (gain > explains)
            explains = np.where(is_better, gain, explains)
            full = np.zeros(cross.shape)
            full[..., pick] = answer / scale[..., pick]
            best = np.where(is_better[..., None], full, best)
    return best, explains


class _Fits:
    """The clocks that ran, fitted to the rows, in the whole (first) and in draws of its groups."""

    def __init__(self, rows: _Rows) -> None:
        self.rows, self.asked = rows, _asked(rows)
        self.names = [_name(column) for column in self.asked]
        early = len(EARLY) * 2
        warm, left = self._warm(early)
        columns = [rows.rise, rows.ran[:, self.asked], rows.forms[:, [warm, -1]], rows.forms[:, early:-1]]
        self.table = _whitened(np.column_stack(columns), left, rows.starts)
        self.beside = [1 + len(self.asked), 2 + len(self.asked)]
        """Columns of what warms up and of activity: in every fit."""
        self.groups = int(rows.group[-1]) + 1
        self.fewer = 1 + 2 / self.groups
        self.products = self._by_group(np.ones(len(rows.rise)))
        self.drawn = np.random.default_rng(0).multinomial(self.groups, np.full(self.groups, 1 / self.groups), DRAWS)
        self.drawn[0] = 1
        self.inside = np.tensordot(self.drawn, self.products, axes=1)

    def _warm(self, early: int) -> tuple[int, Floats]:
        """The form of what warms up beside which one clock explains most, and the rises that these leave."""
        rows, most, best, left = self.rows, -1.0, 0, self.rows.rise
        for form in range(early):
            for column in self.asked:
                table = np.column_stack([rows.rise, rows.ran[:, column], rows.forms[:, [form, -1]]])
                answer, gain = _nonnegative(table.T @ table, [1, 2, 3])
                if gain > most:
                    most, best, left = float(gain), form, rows.rise - table[:, 1:] @ answer
        return best, left

    def _by_group(self, weights: Floats) -> Floats:
        """Products of the table's columns, summed over the rows of each group."""
        made = np.zeros((self.groups, self.table.shape[1], self.table.shape[1]))
        np.add.at(made, self.rows.group, (self.table * weights[:, None])[:, :, None] * self.table[:, None, :])
        return made

    def columns(self, name: Name) -> list[int]:
        """The table's columns of this clock: several for pauses."""
        return [1 + at for at, each in enumerate(self.names) if each == name]

    def alone(self, columns: Sequence[int]) -> tuple[Floats, Floats, Places]:
        """The best of these columns in each draw: its rate, the squares that it explains, and which it is."""
        rates, gains = zip(*(_nonnegative(self.inside, [column, *self.beside]) for column in columns), strict=True)
        best = np.argmax(gains, axis=0)
        draws = np.arange(len(best))
        return np.array(rates)[best, draws, 0], np.array(gains)[best, draws], np.array(columns)[best]

    def left_out(self, columns: Sequence[int]) -> Floats:
        """The squares that are left in each group, with the rate of the best of these columns from all other groups.

        What is no clock is taken off as in the whole: what warms up is in the first group alone."""
        least, left = np.full(self.groups, np.inf), np.zeros(self.groups)
        for column in columns:
            answer, _ = _nonnegative(self.inside[0], [column, *self.beside])
            bare = np.zeros(self.products.shape[1])
            bare[[0, *self.beside]] = [1.0, *-answer[1:]]
            own = self.products @ bare
            square, cross, gram = own @ bare, own[:, column], self.products[:, column, column]
            others = cross.sum() - cross, gram.sum() - gram
            rate = np.maximum(others[0], 0) / np.maximum(others[1], 1e-30)
            fits_worse = square.sum() - square - rate * others[0]
            left = np.where(fits_worse < least, square - 2 * rate * cross + rate**2 * gram, left)
            least = np.minimum(fits_worse, least)
        return left

    def beats(self, leader: Name) -> dict[Name, float]:
        """How often the leader predicts better than each other clock, and than what fills by that clock."""
        own = self.left_out(self.columns(leader))
        rivals = {name: self.columns(name) for name in dict.fromkeys(self.names) if name != leader}
        made = {name: self._wins(own, columns) for name, columns in rivals.items()}
        for name, columns in self.fills():
            if name != leader:
                made[name] = min(made[name], *(self._wins(own, [column]) for column in columns))
        return made

    def may_fill(self, leader: Name) -> bool:
        """Does what fills by the leader's own clock predict the growth about as well? Then it may end."""
        return self._fill_as_well(leader, dict(self.fills()).get(leader, []), STRAIGHT)

    def any_may_fill(self, leader: Name) -> bool:
        """Does what fills by any clock predict the growth about as well as a leader that is not told from others?"""
        return self._fill_as_well(leader, [column for _, columns in self.fills() for column in columns], OFTEN)

    def _fill_as_well(self, leader: Name, columns: Sequence[int], often: float) -> bool:
        own = self.left_out(self.columns(leader))
        return any(self._wins(own, [column]) < often for column in columns)

    def fills(self) -> Iterator[tuple[Name, list[int]]]:
        """The table's columns of what fills by a clock."""
        begin, end = self.beside[-1] + 1, self.table.shape[1]
        yield "invocation", list(range(begin, end, 2))
        yield "minute", list(range(begin + 1, end, 2))

    def _wins(self, own: Floats, columns: Sequence[int]) -> float:
        return float(np.mean(self.drawn @ (self.left_out(columns) - own) > 0))

    def part(self, column: int, which: NDArray[np.bool_]) -> tuple[float, float]:
        """The rate in these rows alone, and its standard deviation."""
        inside = np.tensordot(self.drawn, self._by_group(which.astype(np.float64)), axes=1)
        rates = _nonnegative(inside, [column, self.beside[-1]])[0][:, 0]
        return float(rates[0]), _deviation(rates)

    def at_most_kib(self) -> float:
        """Upper end of the growth per minute in the last third of lives."""
        rate, deviation = self.part(1 + self.asked.index(MINUTE), self.rows.into >= 2 / 3)
        return rate + 1.96 * WIDER * self.fewer * deviation

    def shares(self, name: Name) -> Floats:
        """The part of all growth that is this clock's where all are fitted together, in each draw."""
        fixed = [1 + at for at, each in enumerate(self.names) if each not in ("pause", "minute")]
        most, shares = np.full(DRAWS, -1.0), np.zeros(DRAWS)
        for minute, *pause in product(*(self.columns(each) for each in ("minute", "pause") if self.columns(each))):
            columns = [*fixed, minute, *pause]
            answer, gain = _nonnegative(self.inside, [*columns, *self.beside])
            made = answer[:, : len(columns)] * [self.ran(column) for column in columns]
            own = made[:, [self.names[column - 1] == name for column in columns]].sum(axis=1)
            shares = np.where(gain > most, own / np.maximum(made.sum(axis=1), 1e-9), shares)
            most = np.maximum(gain, most)
        return shares

    def ran(self, column: int) -> float:
        """How far the clock of this column of the table ran, in all."""
        return float(self.rows.ran[:, self.asked[column - 1]].sum())

    def alike(self, one: Name, other: Name) -> bool:
        """Do these clocks run alike?"""
        whole = self.inside[0]
        return any(
            whole[first, second] ** 2 >= ALIKE_COSINE**2 * whole[first, first] * whole[second, second]
            for first in self.columns(one)
            for second in self.columns(other)
        )


def _asked(rows: _Rows) -> list[int]:
    """The clocks that ran. Of pauses whose counts are the same, the longest; of minutes that are about the same, those
    that count all."""
    totals, asked = rows.ran.sum(axis=0), [INVOCATION, MINUTE]
    for column in range(OVERLAP - 1, PAUSE - 1, -1):
        is_new = asked[-1] == MINUTE or np.any(rows.ran[:, column] != rows.ran[:, asked[-1]])
        if totals[column] >= LEAST_EVENTS and is_new:
            asked.append(column)
    if totals[OVERLAP] >= LEAST_EVENTS:
        asked.append(OVERLAP)
    shortest = MINUTE
    for column in reversed(range(IN_USE, CLOCKS)):
        if 0 < totals[column] < SHORTER * totals[shortest]:
            asked.append(column)
            shortest = column
    return asked


def _name(column: int) -> Name:
    names: dict[int, Name] = {INVOCATION: "invocation", OVERLAP: "overlap"}
    return names.get(column, "minute" if column == MINUTE or column >= IN_USE else "pause")


def _whitened(table: Floats, left: Floats, starts: NDArray[np.bool_]) -> Floats:
    """The rows as they are for independent errors. A level that is read too high is in two rises, up and down: so
    neighbouring errors go against each other. `left`: the errors of a first fit."""
    power = float(np.sum(left**2))
    memory = float(np.sum((left[1:] * left[:-1])[~starts[1:]])) / power if power else 0.0
    memory = min(max(memory, -0.49), 0.0)
    made, diagonal = table.copy(), 1.0
    for at, is_first in enumerate(starts):  # solves with the Cholesky factor of that correlation
        below = 0.0 if is_first else memory / diagonal
        diagonal = np.sqrt(1 - below**2)
        if below:
            made[at] = (made[at] - below * made[at - 1]) / diagonal
    return made


def _deviation(rates: Floats) -> float:
    """Standard deviation, of most: a draw that has hardly any of the clock may give any rate."""
    low, high = np.quantile(rates, [0.16, 0.84])
    return float(high - low) / 2


# ---- the answer ----


def _judged(rows: _Rows, fits: _Fits) -> GrowthClock:
    alone = {name: fits.alone(fits.columns(name)) for name in dict.fromkeys(fits.names)}
    leader = max(alone, key=lambda name: float(alone[name][1][0]))
    rates, _, picked = alone[leader]
    rate, column = float(rates[0]), int(picked[0])
    grown = rates * np.array([fits.ran(each) for each in range(1, 1 + len(fits.asked))])[picked - 1]
    asked = fits.asked[column - 1]
    least = max(LEAST_GROWTH_KIB, ABOVE_NOISE * fits.fewer * _deviation(grown))
    if grown[0] < least or not _is_clear(rate, fits.part(column, rows.into >= 1 / 2)):
        return GrowthClock(name="", grows=False, evidence="Memory has no growth that lasts, by any clock.")
    beats, shares = fits.beats(leader), fits.shares(leader)
    is_used = rows.ran[rows.used, asked].sum() >= LEAST_EVENTS or leader == "minute"
    as_well = [name for name, often in beats.items() if often < OFTEN]
    is_own = shares[0] >= OWN_SHARE and np.quantile(shares, 0.05) >= OWN_SHARE_AT_LEAST
    if as_well or not is_own or not is_used or not _is_clear(rate, fits.part(column, rows.used)):
        told = _not_told(fits, leader, as_well)
        said = "Memory grows, but that may end, as with a cache that fills"
        return _may_end(said, told.candidates) if fits.any_may_fill(leader) else told
    if fits.may_fill(leader):
        return _may_end(f"Memory grows by {CLOCK_WORDS[leader]}, but ever less, as a cache that fills does", (leader,))
    wide = 1.96 * WIDER * fits.fewer * _deviation(rates)
    others = _listed([CLOCK_WORDS[name] for name in beats])
    found = GrowthClock(
        name=leader,
        grows=True,
        rate_kib=rate,
        low_kib=max(rate - wide, 0.0),
        high_kib=rate + wide,
        pause_ms=PAUSES_MS[asked - PAUSE] if leader == "pause" else None,
        in_use_ms=IN_USE_MS[asked - IN_USE] if asked >= IN_USE else None,
        per_minute=fits.ran(column) / float(rows.ran[:, MINUTE].sum()),
        evidence="",
    )
    said = f"Growth follows {CLOCK_WORDS[leader]}{found.counted}: they predict it better than {others} do"
    return replace(found, evidence=f"{said}, in parts of the run that they were not fitted to.")


def _is_clear(whole: float, part: tuple[float, float]) -> bool:
    """Does a part grow, as the whole does?"""
    rate, deviation = part
    return rate >= GOES_ON * whole and rate > PART_ABOVE_NOISE * deviation


def _may_end(said: str, candidates: tuple[Name, ...]) -> GrowthClock:
    return GrowthClock(
        name="", grows=True, may_end=True, evidence=f"{said}. {LONGER}", candidates=candidates, traffic=LONGER
    )


def _not_told(fits: _Fits, leader: Name, as_well: Sequence[Name]) -> GrowthClock:
    rivals = [name for name in dict.fromkeys(fits.names) if name != leader]
    names = [leader, *(as_well or sorted(rivals, key=lambda name: -float(fits.shares(name)[0]))[:1])]
    if any(fits.alike(leader, name) for name in names[1:]):
        tells = dict.fromkeys(TELLS[name] for name in names)
        traffic = f"Traffic that has {_listed(tells)} would tell (--rate mixed)."
    else:
        traffic = LONGER
    said = f"Memory grows, but whether by {_listed([CLOCK_WORDS[name] for name in names], 'or')} cannot be told"
    return GrowthClock(name="", grows=True, evidence=f"{said}. {traffic}", candidates=tuple(names), traffic=traffic)


def _listed(words: Sequence[str] | dict[str, None], last: str = "and") -> str:
    *first, end = words
    return f"{', '.join(first)} {last} {end}" if first else end
