"""The report's figures are those of the same lines, read one at a time and counted plainly."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from truemem_workbench.judge.causes import find
from truemem_workbench.judge.curves import curves_of
from truemem_workbench.judge.finding import commands_of
from truemem_workbench.printed.line import Line, read
from truemem_workbench.printed.reader import Job
from truemem_workbench.report.collect import collect
from truemem_workbench.report.summary import EnvironmentSummary

from testing import fleet_logs
from tests.report.fleet_files import captured, leaking, overlapping, quiet, uncollected
from tests.report.written import BEGIN_MS, line, log

MIB = st.integers(100, 90_000).map(lambda hundredths: hundredths / 100)
MS = st.integers(1, 9_000_000).map(lambda thousandths: thousandths / 1000)
FLAG = st.just(True)
MEMBERS = st.fixed_dictionaries(
    {},
    optional={
        "PeakRSS": st.none() | MIB,
        "CurrentRSS": st.none() | MIB,
        "MaxMemoryUsed": st.none() | MIB,
        "peakLower": st.none() | MIB,
        "peakUpper": st.none() | MIB,
        "memoryLimit": st.none() | st.sampled_from([128, 512, 1024]),
        "initPeakRSS": MIB,
        "durationMs": st.none() | MS,
        "billedDurationMs": st.integers(1, 9_000),
        "status": st.sampled_from([None, "success", "error", "timeout"]),
        "closedBy": st.sampled_from([None, "next-invoke", "shutdown"]),
        "method": st.sampled_from([None, "vmhwm", "sampled"]),
        "OutOfMemory": st.sampled_from([0, 1]),
        "raced": FLAG,
        "recovered": FLAG,
        "schema": st.sampled_from([1, 2]),
        "mode": st.just("exact"),
        "reportMissing": FLAG,
        "dropped": st.integers(1, 9),
        "requestId": st.none(),
        "holders": st.none() | st.fixed_dictionaries({"function": MIB, "truemem": MIB}),
    },
)
ENVIRONMENTS = st.dictionaries(st.sampled_from("abcde"), st.lists(MEMBERS, min_size=1, max_size=12), min_size=1)


def rank(values: Sequence[float], share: float) -> float | None:
    """The nearest rank."""
    return sorted(values)[max(1, math.ceil(share * len(values))) - 1] if values else None


def known(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def plain(lines: Sequence[Line]) -> dict[str, Any]:
    """Figures of one environment."""
    lines = sorted(lines, key=lambda each: each.invocation or 0)
    peaks = known([each.peak_rss for each in lines])
    certain = known([each.current_rss for each in lines if each.certain])
    marks, sizes = (known([getattr(each, name) for each in lines]) for name in ("max_memory_used", "memory_limit"))
    named = [each for each in lines if each.peak_rss is not None and each.request_id is not None]
    timed = [each for each in lines if each.duration_ms is not None]
    held = [each for each in lines if each.sidecar_holds is not None and each.closed_by != "shutdown"]
    needs = [
        max(known([each.peak_rss if each.peak_upper is None else each.peak_upper, each.peak_rss, each.init_peak_rss]))
        for each in lines
        if known([each.peak_rss, each.peak_upper, each.init_peak_rss])
    ]
    return {
        "peaks": (len(lines), rank(peaks, 0.5), rank(peaks, 0.99), max(peaks, default=None)),
        "out_of_memory": sum(each.out_of_memory for each in lines),
        "current": (certain[0], certain[-1]) if certain else (None, None),
        "mark": (marks[0], max(marks)) if marks else (None, None),
        "size": max(sizes, default=None),
        "times": (BEGIN_MS + 1000, BEGIN_MS + len(lines) * 1000),
        "need": max(needs, default=None),
        "unbounded": sum(map(is_unbounded, lines)),
        "billed": (len(timed), sum(each.billed_duration_ms or math.ceil(each.duration_ms or 0) for each in timed)),
        "methods": Counter(each.method or "none" for each in lines),
        "lost": sum(each.report_missing or "dropped" in each.members for each in lines),
        "peak_request": max(named, key=lambda each: (each.peak_rss, -(each.invocation or 0))).request_id
        if named
        else None,
        "killed": [each.request_id for each in lines if each.out_of_memory and each.request_id][:10],
        "others": max((each.sidecar_holds or 0 for each in lines if each.sidecar_holds is not None), default=None),
        "holders": (held[-1].function_holds, held[-1].sidecar_holds) if held else (None, None),
    }


def is_unbounded(line: Line) -> bool:
    """May the peak have reached the memory size?"""
    if line.peak_rss is None or (line.closed_by == "shutdown" and not line.out_of_memory):
        return False
    if line.peak_upper is None:
        return True
    lower = line.peak_rss if line.peak_lower is None else line.peak_lower
    return line.memory_limit is not None and lower < line.memory_limit <= line.peak_upper


def reported(environment: EnvironmentSummary) -> dict[str, Any]:
    """The same figures in the report."""
    peaks = environment.peaks
    return {
        "peaks": (peaks.invocations, peaks.p50, peaks.p99, peaks.highest),
        "out_of_memory": peaks.out_of_memory,
        "current": (environment.current_first, environment.current_last),
        "mark": (environment.mark_first, environment.mark),
        "size": environment.size,
        "times": (environment.first_ms, environment.last_ms),
        "need": environment.need,
        "unbounded": environment.unbounded,
        "billed": (environment.billed, environment.billed_ms),
        "methods": environment.methods,
        "lost": environment.lost,
        "peak_request": environment.peak_request,
        "killed": environment.out_of_memory_requests,
        "others": environment.others,
        "holders": tuple(environment.holders.get(name) for name in ("function", "truemem")),
    }


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ENVIRONMENTS, st.randoms(use_true_random=False))
def test_figures_are_those_of_a_plain_reading(tmp_path: Path, environments: dict[str, Any], random: Any) -> None:
    lines = [line(name, at, **each) for name, members in environments.items() for at, each in enumerate(members, 1)]
    random.shuffle(lines)
    path = log(tmp_path, [*lines, *lines[:3]])  # some twice
    by_environment: dict[str, list[Line]] = {}
    for each in read([path]):
        by_environment.setdefault(each.environment, []).append(each)

    report = collect([path], Job())

    assert {each.environment_id: reported(each) for each in report.environments} == {
        name: plain(each) for name, each in by_environment.items()
    }
    (function,) = report.functions
    peaks = known([each.peak_rss for several in by_environment.values() for each in several])
    assert (function.peaks.p50, function.peaks.p99) == (rank(peaks, 0.5), rank(peaks, 0.99))
    assert report.repeated == len(lines[:3])


def with_heaps() -> Iterator[str]:
    """Heaps of three runtimes and none, noise, spikes, collectors, caches, leaks; none so long that lines are drawn."""
    for life in fleet_logs.lives(300):
        if life.length <= 400:
            yield from map(str.rstrip, fleet_logs.lines(life, "as-they-come"))


@pytest.mark.parametrize("corpus", [captured, quiet, leaking, uncollected, overlapping, with_heaps])
def test_findings_are_those_of_a_plain_reading(corpus: Any, tmp_path: Path) -> None:
    path = log(tmp_path, corpus())
    by_environment: dict[tuple[str, str], list[Line]] = {}
    for each in read([path]):
        by_environment.setdefault((each.function or "", each.environment), []).append(each)

    report = collect([path], Job())

    assert len(report.environments) == len(by_environment)
    for environment in report.environments:
        key = (environment.function, environment.environment_id)
        lines = sorted(by_environment[key], key=lambda each: each.invocation or 0)
        finding = find(curves_of(lines), commands_of(*key))
        assert (environment.finding.cause, environment.finding.holder) == (finding.cause, finding.holder)
        rates = [(each.per_invocation_kib, each.low_kib, each.high_kib) for each in (environment.finding, finding)]
        assert all((one is None) == (other is None) for one, other in zip(*rates, strict=True))
        assert known(rates[0]) == pytest.approx(known(rates[1]), rel=0.01, abs=0.01)
