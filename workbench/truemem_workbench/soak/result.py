"""The result of a soak: all outputs are made from it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.table import Table
from truemem.verdict import COUNTED_KIB

from ..answer.baseline import Baseline
from ..answer.limits import LimitCheck
from ..answer.result import exit_code
from ..judge.latency import PERCENTS, Figure, failed_share
from ..runs.measurement import curve, end_of_log
from ..support.document import known_members, rounded
from ..support.terminal import counted, mib, table
from .judging import JudgedSoak
from .limits import baseline_of, latency_of
from .tally import EnvironmentTally, Histogram, Tally

Floats = NDArray[np.float64]
LATE_MS = 5.0
"""The tool's own lateness (p99) from which on it is said."""
TOO_LATE_MS = 1000.0
"""From so much on this machine is too slow for the traffic."""
FOLLOWS, MOVES, LEAST_BUCKETS = 0.8, 0.2, 10
"""Latency follows memory from this rank correlation on, if both move by so much, in so many spans of time."""
FIGURE_COLUMNS = ("served", "failed", "init ms", "first MiB", "last", "peak")
LAST_COLUMNS = ("finding", "end")
MOST_ROWS = 16


@dataclass(frozen=True)
class SoakResult:
    spec: str
    tally: Tally
    judged: JudgedSoak
    limits: Sequence[LimitCheck]
    told: Sequence[str] = ()
    """What this machine does not permit, and what the load's own tool said, in sentences."""
    function_log: Sequence[str] = ()
    """The end of what a failing function logged."""
    is_cut: bool = False
    """True if it was ended before its time."""
    source: Path | None = None
    """File of the handler, for annotations; `line` is where it begins."""
    line: int | None = None
    was: Baseline | None = None
    """What it is compared with."""
    most: str = "--environments or --reserved-concurrency"
    """The option above which requests were throttled."""

    @property
    def seconds(self) -> float:
        return self.tally.seconds

    @property
    def explanation(self) -> None:
        """None: a soak does not run under a tracer."""
        return None

    @property
    def figures(self) -> list[Figure]:
        """Latency, throttles and cold starts. A limit replaces the figure of its name."""
        tally, latency, was = self.tally, latency_of(self.tally), self.was
        found = latency.figures(was.latency if was else None) if latency else []
        found.append(Figure("throttles", "", failed_share(tally.throttled, tally.made)))
        found.append(Figure("cold starts", "", f"{counted(tally.cold, 'request')} waited for an init"))
        limited = {each.name.removeprefix("max-") for each in self.limits}
        return [each for each in found if each.name not in limited]

    def baseline(self) -> Baseline | None:
        """What a baseline keeps of it. None if nothing was measured."""
        return baseline_of(self.tally)

    @property
    def exit_code(self) -> int:
        return exit_code(self.limits)

    @property
    def headline(self) -> str:
        """The result in one line."""
        word = ("passed", "FAILED", "could not be decided")[self.exit_code]
        served = counted(self.tally.invocations, "invocation")
        environments = counted(len(self.tally.environments) + self.tally.left_out, "environment")
        return f"{self.spec} {word}: {served} in {environments}, {clock_time(self.tally.seconds)}"

    def sentences(self) -> list[str]:
        """The finding, latency beside memory, and a sentence for each other limit that was not kept."""
        covered = ("growth", "max-errors") if self.judged.finding.cause == "failing" else ("growth",)
        others = [each.sentence for each in self.limits if each.outcome != "kept" and each.name not in covered]
        follows = latency_follows_memory(self.tally)
        return [self.judged.finding.paragraph(), *([follows] if follows else []), *others]

    def notices(self) -> list[str]:
        """What makes the result less reliable."""
        tally, said = self.tally, [*self.told]
        late = tally.late_ms.percentile(0.99)
        if late is not None and late > LATE_MS:
            slow = ". This machine is too slow for them: try a lower rate" if late > TOO_LATE_MS else ""
            when = "latency counts from when they were due"
            said.append(f"requests were sent up to {late:,.0f} ms late (p99): {when}{slow}")
        if tally.dropped:
            said.append(f"{counted(tally.dropped, 'request')} were not sent: too many were under way")
        if tally.throttled:
            refused = counted(tally.throttled, "request")
            said.append(f"{refused} were throttled (429): more ran at once than {self.most} permits")
        for at_s, seconds in tally.interruptions:
            said.append(
                f"interrupted after {clock_time(at_s)}, for {clock_time(seconds)}: then all environments were new"
            )
        if tally.left_out:
            said.append(f"{counted(tally.left_out, 'environment')} that ended early are only counted")
        if self.is_cut:
            said.append("ended before its time")
        return said

    def curves(self, *, plain: bool = False) -> list[str]:
        """Memory and latency over time: a line each, with the first and the last value."""
        lines = []
        buckets = self.tally.buckets
        for name, unit, values in (
            ("current", "MiB", [each.current_mib for each in buckets]),
            ("p99", "ms", [each.latency.percentile(0.99) for each in buckets]),
        ):
            known = [value for value in values if value is not None]
            if known:
                drawn = curve(known, plain=plain, highest=name == "p99")
                lines.append(f"{name:7} {known[0]:7.1f} {drawn} {known[-1]:.1f} {unit}")
        return lines

    def log(self) -> list[str]:
        """The end of what a failing function logged, if failures are a finding."""
        if not self.function_log or all(each.outcome == "kept" for each in self.limits if each.name == "max-errors"):
            return []
        return ["The function's log ends:", *(f"  {line}" for line in end_of_log(self.function_log))]

    def tables(self) -> Sequence[Table]:
        """A row for each environment; of many, the first ones."""
        made = table("", ("environment",), FIGURE_COLUMNS, LAST_COLUMNS)
        for each in self.tally.environments[:MOST_ROWS]:
            finding = self.judged.by_environment.get(each.id)
            init = "-" if each.init_ms is None else f"{each.init_ms:,.0f}"
            held = (mib(each.first_mib), mib(each.last_mib), mib(each.peak_mib))
            ended = f"{each.ended}, {counted(each.killed, 'kill')}" if each.killed else each.ended
            cause = finding.cause if finding else "-"
            made.add_row(each.id[:12], f"{each.served:,}", f"{each.failed:,}", init, *held, cause, ended)
        return [made]

    def document(self) -> dict[str, object]:
        """The document for `--json`. What is not known is left out."""
        tally, judged = self.tally, self.judged
        finding = {**judged.finding.document(), "clock": clock_document(judged)}
        document: dict[str, object] = {
            "soaked": self.spec,
            "outcome": ("passed", "failed", "unknown")[self.exit_code],
            "seconds": round(tally.seconds, 1),
            "invocations": tally.invocations,
            "asked": tally.asked,
            "sent": tally.made,
            "throttles": tally.throttled,
            "notSent": tally.dropped,
            "coldStarts": tally.cold,
            "errors": {"count": sum(tally.errors.values()), "byType": dict(tally.errors)},
            "latencyMs": percentiles(tally.latency),
            "lateMs": percentiles(tally.late_ms),
            "latencyFollowsMemory": latency_follows_memory(tally) != "",
            "finding": finding,
            "environments": [_environment(each, judged) for each in tally.environments],
            "overTime": [
                known_members(
                    {
                        "at": round(each.begin_s, 1),
                        "invocations": each.count,
                        "errors": each.errors,
                        "throttles": each.throttled,
                        "coldStarts": each.cold,
                        "environments": each.environments,
                        "current": rounded(each.current_mib),
                        **percentiles(each.latency),
                    }
                )
                for each in tally.buckets
            ],
            "limits": [known_members({**vars(each), "why": None}) for each in self.limits],
            "notices": self.notices(),
        }
        return known_members(document)


def percentiles(latency: Histogram) -> dict[str, float]:
    """`{"p50": ms, ...}`; empty without a value."""
    return known_members({f"p{percent}": rounded(latency.percentile(percent / 100)) for percent in PERCENTS})


def latency_follows_memory(tally: Tally) -> str:
    """A sentence if latency rises and falls with memory over time; else empty."""
    seen = [(each.current_mib, each.latency.percentile(0.95), each.count / each.width_s) for each in tally.buckets]
    known = [(held, ms, rate) for held, ms, rate in seen if held is not None and ms is not None]
    if len(known) < LEAST_BUCKETS:
        return ""
    held, latency, rate = (np.array(each, np.float64) for each in zip(*known, strict=True))
    if any(np.ptp(each) < MOVES * np.median(each) for each in (held, latency)):
        return ""
    with_memory, with_rate = _rank_correlation(latency, held), _rank_correlation(latency, rate)
    if with_memory < FOLLOWS or with_memory <= abs(with_rate):
        return ""
    return (
        f"Latency follows memory: its p95 goes from {latency[np.argmin(held)]:,.0f} to"
        f" {latency[np.argmax(held)]:,.0f} ms where memory goes from {mib(held.min())} to {mib(held.max())} MiB."
    )


def clock_document(judged: JudgedSoak) -> dict[str, object] | None:
    clock = judged.clock
    if not clock.grows:
        return None
    unit, rate = (COUNTED_KIB, "rate") if judged.is_count else (1.0, "rateKiB")
    rates = {rate: clock.rate_kib, "low": clock.low_kib, "high": clock.high_kib}
    return known_members(
        {
            "name": clock.name or None,
            **{name: None if value is None else rounded(value / unit) for name, value in rates.items()},
            "pauseMs": clock.pause_ms,
            "inUseMs": clock.in_use_ms,
            "candidates": list(clock.candidates) or None,
            "evidence": clock.evidence,
        }
    )


def clock_time(seconds: float) -> str:
    """`42 s`, `5 min`, `6 h 12 min`."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


def _environment(each: EnvironmentTally, judged: JudgedSoak) -> dict[str, object]:
    finding = judged.by_environment.get(each.id)
    return known_members(
        {
            "id": each.id,
            "began": round(each.began_s, 1),
            "served": each.served,
            "failed": each.failed,
            "initMs": rounded(each.init_ms),
            "first": rounded(each.first_mib),
            "last": rounded(each.last_mib),
            "peak": rounded(each.peak_mib),
            "killed": each.killed or None,
            "ended": each.ended or None,
            "cause": finding.cause if finding else None,
            "perInvocationKiB": rounded(finding.per_invocation_kib) if finding else None,
        }
    )


def _rank_correlation(one: Floats, other: Floats) -> float:
    first, second = _ranks(one), _ranks(other)
    return float(np.corrcoef(first, second)[0, 1]) if np.ptp(first) and np.ptp(second) else 0.0


def _ranks(values: Floats) -> Floats:
    """The rank of each; equal ones have the mean of theirs."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2)[places], dtype=np.float64)
