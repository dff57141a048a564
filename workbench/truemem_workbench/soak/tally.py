"""Counts what a soak sees, in bounded memory: a day at 200 requests a second takes no more than an hour. Pure.

Latencies are in histograms by time. Of each environment some lines are kept, and cumulative counts with each of them.
One thread counts; others may read meanwhile.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ..judge.curves import is_settled
from ..printed.line import Line, lines_in
from .clocks import PAUSES_MS, Step

if TYPE_CHECKING:
    from ..local.scaling import EnvironmentChange
    from .driver import Arrival

MOST_BUCKETS = 240
"""Most buckets of a soak. When there are more, they are joined in pairs."""
FIRST_WIDTH_S = 1.0
MOST_KEPT_LINES = 1024
"""Lines that are kept of an environment. When there are more, every second one goes."""
MOST_KEPT_LINES_ENDED = 256
"""Lines that are kept of an environment that has ended before the soak."""
STOPPED_REASON = "stopped"
"""Why those end that live at the end of the soak: all their lines are judged."""
MOST_PINNED = 128
"""Lines of an environment that stay: the first one, and those with a kill, with new processes or of settled ones."""
MOST_ENDED = 64
"""Ended environments that are kept. When there are more, the one that served least is only counted."""
MOST_TYPES = 64
"""Types of errors that are counted by name."""
OTHERS = "others"
LONGEST_NAME = 200


# --- latency ----------------------------------------------------------------------------------------------------------

LEAST_MS, MOST_MS = 0.01, 86_400_000.0
RATIO = 1.01


@dataclass
class Histogram:
    """Times in buckets, each 1 % wider than the one before: a percentile is wrong by half a percent at most."""

    counts: Counter[int] = field(default_factory=Counter)
    """Counts by number of the bucket. The first one begins at LEAST_MS."""

    def add(self, ms: float) -> None:
        self.counts[int(math.log(min(max(ms, LEAST_MS), MOST_MS) / LEAST_MS) / _LOG_RATIO)] += 1

    def join(self, other: Histogram) -> None:
        self.counts.update(other.counts)

    @property
    def count(self) -> int:
        return self.counts.total()

    def percentile(self, share: float) -> float | None:
        """The least time that at least this share of them does not exceed, in ms. None if there is no time."""
        rest = share * self.count
        for number in sorted(self.counts):
            rest -= self.counts[number]
            if rest <= 0:
                return LEAST_MS * math.exp((number + 0.5) * _LOG_RATIO)
        return None


_LOG_RATIO = math.log(RATIO)


@dataclass
class Bucket:
    """What was due in a part of the time."""

    begin_s: float
    width_s: float
    count: int = 0
    """Requests that were answered or failed."""
    errors: int = 0
    throttled: int = 0
    dropped: int = 0
    cold: int = 0
    environments: int = 0
    """Most that lived at once."""
    readings: int = 0
    current_sum: float = 0.0
    latency: Histogram = field(default_factory=Histogram)

    @property
    def current_mib(self) -> float | None:
        """Mean current RSS of what was served. None if nothing was measured."""
        return self.current_sum / self.readings if self.readings else None

    def join(self, other: Bucket) -> None:
        """Add what was counted in the bucket after it, or before it."""
        self.count += other.count
        self.errors += other.errors
        self.throttled += other.throttled
        self.dropped += other.dropped
        self.cold += other.cold
        self.environments = max(self.environments, other.environments)
        self.readings += other.readings
        self.current_sum += other.current_sum
        self.latency.join(other.latency)


# --- environments -----------------------------------------------------------------------------------------------------


class Kept(NamedTuple):
    """A line that is kept."""

    text: str
    """The line as JSON: a tenth of the memory that the parsed line takes."""
    step: Step | None
    """The line's step; None if it belongs to no invocation."""
    is_pinned: bool


@dataclass
class KeptLines:
    """Some lines of an environment, and what was counted of all of them."""

    seen: int = 0
    stride: int = 1
    """One line of so many is kept."""
    pinned: int = 0
    kept: dict[int, Kept] = field(default_factory=dict)
    """The kept lines, by place among all lines."""
    latest: tuple[int, Line, Step | None] | None = None
    """The newest line, with its place before it and its step after it."""
    invocation: int = 0
    pauses: tuple[int, ...] = (0,) * len(PAUSES_MS)
    overlapped: int = 0
    busy_until_ms: float | None = None
    begins: bool = False
    """True if processes began with a line that was not kept, so that the next kept one tells it."""

    def add(self, line: Line) -> None:
        place = self.seen
        self.seen += 1
        self.begins |= line.begins
        step = self._step(line)
        self.latest = place, line, step
        is_special = not place or line.begins or line.out_of_memory or line.environment_kills > 0 or is_settled(line)
        is_pinned = is_special and self.pinned < MOST_PINNED
        if is_pinned or place % self.stride == 0:
            self.pinned += is_pinned
            self.begins = False
            self.kept[place] = Kept(_text(line), step, is_pinned)
            self.thin(MOST_KEPT_LINES)

    def _step(self, line: Line) -> Step | None:
        if line.request_id is None or line.time_ms is None:
            return None
        self.invocation = max(self.invocation + 1, line.invocation or 0)
        shared_by = line.members.get("sharedBy")
        self.overlapped += isinstance(shared_by, int) and shared_by > 1
        if self.busy_until_ms is not None and line.time_ms - self.busy_until_ms >= PAUSES_MS[0]:
            pause = line.time_ms - self.busy_until_ms
            self.pauses = tuple(count + (pause >= least) for count, least in zip(self.pauses, PAUSES_MS, strict=True))
        self.busy_until_ms = max(self.busy_until_ms or 0.0, line.time_ms + (line.duration_ms or 0.0))
        current_kib = None if line.current_rss is None else 1024 * line.current_rss
        return Step(line.time_ms, self.invocation, self.pauses, self.overlapped, current_kib, line.certain, self.begins)

    def thin(self, most: int) -> None:
        """Let lines go until there are at most so many."""
        while len(self.kept) > most:
            self.stride *= 2
            self.kept = {place: each for place, each in self.kept.items() if each.is_pinned or place % self.stride == 0}

    def all(self) -> dict[int, Kept]:
        """A copy of what is kept, by place, and the newest line."""
        kept = dict(self.kept)
        if self.latest is not None:
            place, line, step = self.latest
            if place not in kept:
                kept[place] = Kept(_text(line), step, is_pinned=False)
        return kept

    def end(self, most: int) -> None:
        """No more lines are expected: keep so many."""
        self.thin(most)
        self.kept = self.all()
        self.latest = None


def _text(line: Line) -> str:
    """The line as JSON, without what is the same on every line, and which `lines_in` does not read."""
    members = dict(line.members)
    if line.time_ms is not None and "_aws" in members:
        members["_aws"] = {"Timestamp": line.time_ms}
    return json.dumps(members, separators=(",", ":"))


@dataclass
class EnvironmentTally:
    """One environment. Sizes in MiB, moments in seconds of the soak."""

    id: str
    began_s: float
    init_ms: float | None = None
    """Duration of its first init."""
    served: int = 0
    """Requests, also those that failed."""
    failed: int = 0
    ended: str = ""
    """Why it has ended: `idle`, `age`, `stopped`, `interrupted`, the text of an error. Empty while it lives."""
    ended_s: float | None = None
    resets: int = 0
    """How often its processes were replaced because it ran out of memory."""
    out_of_memory: int = 0
    """Lines that tell an OOM kill of the function."""
    limit_mib: float | None = None
    first_mib: float | None = None
    """Current RSS after the first invocation whose reading is certain."""
    last_mib: float | None = None
    peak_mib: float | None = None
    kept_lines: KeptLines = field(default_factory=KeptLines)

    @property
    def killed(self) -> int:
        """How often it ran out of memory."""
        return max(self.out_of_memory, self.resets)

    @property
    def lines(self) -> list[Line]:
        """The kept lines, in their order. They are parsed anew with each call, in 0.1 ms each."""
        return [line for each in self.kept_lines.all().values() for line in lines_in(json.loads(each.text))]

    def steps(self) -> list[Step]:
        """What `clock_of` needs of the kept lines."""
        return [each.step for each in self.kept_lines.all().values() if each.step is not None]

    def add(self, line: Line) -> None:
        self.out_of_memory += line.out_of_memory
        self.limit_mib = line.memory_limit or self.limit_mib
        if line.peak_rss is not None:
            self.peak_mib = max(self.peak_mib or 0.0, line.peak_rss)
        if line.current_rss is not None:
            self.last_mib = line.current_rss
            if self.first_mib is None and line.certain:
                self.first_mib = line.current_rss
        self.kept_lines.add(line)

    def end(self, reason: str, at_s: float) -> None:
        self.ended, self.ended_s = reason, at_s
        self.kept_lines.end(MOST_KEPT_LINES if reason == STOPPED_REASON else MOST_KEPT_LINES_ENDED)


# --- the soak ---------------------------------------------------------------------------------------------------------


@dataclass
class Tally:
    """A soak, so far."""

    begun_ms: float = 0.0
    """Epoch ms at second 0."""
    seconds: float = 0.0
    """Length of the soak, without interruptions."""
    interruptions: list[tuple[float, float]] = field(default_factory=list)
    """Seconds at which the soak was interrupted, and for how many seconds."""
    asked: int = 0
    """Requests that were due: answered, failed, throttled or dropped."""
    made: int = 0
    """Requests that were sent."""
    dropped: int = 0
    """Requests that were not sent, because this tool had too many under way."""
    late_ms: Histogram = field(default_factory=Histogram)
    """How late they were sent."""
    invocations: int = 0
    """Requests that were answered or failed."""
    throttled: int = 0
    cold: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    """Number of errors by type."""
    examples: dict[str, str] = field(default_factory=dict)
    """The first error of each type."""
    latency: Histogram = field(default_factory=Histogram)
    """Latency of `invocations`, from when they were due."""
    killed: int = 0
    """How often a function ran out of memory, in all environments."""
    left_out: int = 0
    """Ended environments that are only counted."""
    width_s: float = FIRST_WIDTH_S
    by_number: dict[int, Bucket] = field(default_factory=dict)
    by_id: dict[str, EnvironmentTally] = field(default_factory=dict)
    zero_s: float = 0.0
    """The event loop's time at second 0: `drive` needs it."""

    def begin(self, loop_s: float, epoch_ms: float) -> None:
        """The soak begins now; or goes on, after an interruption in which all environments ended."""
        self.zero_s = loop_s - self.seconds
        if not self.seconds:
            self.begun_ms = epoch_ms
            return
        away_s = sum(seconds for _, seconds in self.interruptions)
        self.interruptions.append((self.seconds, (epoch_ms - self.begun_ms) / 1000 - self.seconds - away_s))
        for each in [each for each in self.by_id.values() if not each.ended]:
            self._end(each, "interrupted", self.seconds)

    def at_s(self, epoch_ms: float) -> float:
        """The second of the soak at a time."""
        seconds = (epoch_ms - self.begun_ms) / 1000
        for begin_s, long_s in self.interruptions:
            if seconds > begin_s:
                seconds = max(begin_s, seconds - long_s)
        return seconds

    def tick(self, loop_s: float) -> None:
        """Note that the soak has come so far, whether or not anything was due."""
        self.seconds = max(self.seconds, loop_s - self.zero_s)

    # --- what is seen -------------------------------------------------------------------------------------------------

    def add(self, arrival: Arrival) -> None:
        """Count a request that has been answered or dropped."""
        bucket = self._bucket(arrival.due_s)
        self.seconds = max(self.seconds, arrival.ended_s)
        self.asked += 1
        answer = arrival.answer
        if answer is None:
            self.dropped += 1
            bucket.dropped += 1
            return
        self.made += 1
        self.late_ms.add(arrival.late_ms)
        if answer.error == "throttled":
            self.throttled += 1
            bucket.throttled += 1
            return
        self.invocations += 1
        self.cold += answer.is_cold
        latency_ms = arrival.latency_ms
        self.latency.add(latency_ms)
        bucket.count += 1
        bucket.cold += answer.is_cold
        bucket.latency.add(latency_ms)
        environment = self.by_id.get(answer.environment)
        if environment is not None:
            environment.served += 1
        if answer.error:
            bucket.errors += 1
            kind = _counted(self.errors, answer.error.partition(":")[0])
            self.examples.setdefault(kind, answer.error[:LONGEST_NAME])
            if environment is not None:
                environment.failed += 1

    def line(self, line: Line, environment: str) -> None:
        """Take a line of the sidecar in the environment with this id. One that repeats another does not count."""
        seen = self.by_id.get(environment)
        if seen is None or (line.may_repeat and (line.invocation or 0) <= seen.kept_lines.invocation):
            return
        before = seen.killed
        seen.add(line)
        self.killed += seen.killed - before
        if line.time_ms is not None and line.current_rss is not None:
            # a function may print what looks like a line of another time
            bucket = self._bucket(min(max(0.0, self.at_s(line.time_ms)), self.seconds))
            bucket.readings += 1
            bucket.current_sum += line.current_rss

    def change(self, change: EnvironmentChange) -> None:
        """Take a change of an environment's life."""
        at_s = change.time_s - self.zero_s
        self.seconds = max(self.seconds, at_s)
        environment = self.by_id.setdefault(change.environment, EnvironmentTally(change.environment, at_s))
        match change.kind:
            case "started":
                bucket = self._bucket(at_s)
                bucket.environments = max(bucket.environments, self._alive())
            case "initialised":
                environment.init_ms = change.init_ms if environment.init_ms is None else environment.init_ms
            case "reset":
                before = environment.killed
                environment.resets += change.reason == "out of memory"
                self.killed += environment.killed - before
            case "ended":
                self._end(environment, change.reason or "by itself", at_s)

    # --- what is kept -------------------------------------------------------------------------------------------------

    @property
    def buckets(self) -> Sequence[Bucket]:
        """Buckets in the order of time. There is none for a part in which nothing happened."""
        return [bucket for _, bucket in sorted(self.by_number.items())]

    @property
    def environments(self) -> Sequence[EnvironmentTally]:
        """Environments in the order of their start."""
        return [*self.by_id.values()]

    def _alive(self) -> int:
        return sum(not each.ended for each in self.by_id.values())

    def _bucket(self, at_s: float) -> Bucket:
        while (number := int(at_s / self.width_s)) >= MOST_BUCKETS:
            self._widen()
        bucket = self.by_number.get(number)
        if bucket is None:
            bucket = Bucket(number * self.width_s, self.width_s, environments=self._alive())
            self.by_number[number] = bucket
        return bucket

    def _widen(self) -> None:
        """Join the buckets in pairs."""
        self.width_s *= 2
        before, self.by_number = self.by_number, {}
        for number, each in before.items():
            joined = self.by_number.setdefault(number // 2, Bucket(number // 2 * self.width_s, self.width_s))
            joined.join(each)

    def _end(self, environment: EnvironmentTally, reason: str, at_s: float) -> None:
        environment.end(reason[:LONGEST_NAME], at_s)
        ended = [each for each in self.by_id.values() if each.ended]
        if len(ended) > MOST_ENDED:
            least = min(ended, key=lambda each: each.served)
            del self.by_id[least.id]
            self.left_out += 1


def _counted(counts: Counter[str], name: str) -> str:
    """Count a name. Returns it, or what it is counted as if there are too many names."""
    name = name[:LONGEST_NAME]
    if name not in counts and len(counts) >= MOST_TYPES:
        name = OTHERS
    counts[name] += 1
    return name
