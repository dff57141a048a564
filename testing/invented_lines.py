"""Makes lines of the sidecar for tests: synthetic curves, real members."""

from __future__ import annotations

import hashlib
import json
import random
import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from truemem_workbench.printed.line import Line, Metadata, parse_event

BEGUN_MS = 1_795_288_667_352
LIMIT = 512


def request_id(row: int, environment: str = "a") -> str:
    """Request id of an invocation, numbered from 0. It is always the same."""
    return str(uuid.UUID(bytes=hashlib.md5(f"{environment} {row}".encode()).digest(), version=4))


def line(row: int, environment: str = "a", **members: Any) -> str:
    """One line. `members` replace its own; None leaves one out."""
    document = {
        "_aws": {"Timestamp": BEGUN_MS + row * 1000},
        "FunctionName": "orders",
        "PeakRSS": 100.0,
        "CurrentRSS": 90.0,
        "MaxMemoryUsed": 120.0,
        "requestId": request_id(row, environment),
        "environmentId": environment,
        "invocation": row + 1,
        "coldStart": True if row == 0 else None,
        "functionVersion": "7",
        "status": "success",
        "durationMs": 12.5,
        "method": "vmhwm",
        "peakLower": members.get("PeakRSS", 100.0),
        "peakUpper": members.get("PeakRSS", 100.0),
        "closedBy": "next-invoke",
        "memoryLimit": LIMIT,
        "holders": {"function": members.get("CurrentRSS", 90.0), "truemem": 9.5, "extensions": {"vendor": 31.0}},
        "schema": 1,
        **members,
    }
    return json.dumps({name: value for name, value in document.items() if value is not None})


def curve(peaks: Iterable[float], environment: str = "a", **members: Any) -> Iterator[str]:
    """An environment whose invocations had these peaks, under the mark that never falls."""
    mark = 0.0
    for row, peak in enumerate(peaks):
        mark = max(mark, peak + 12)
        yield line(row, environment, PeakRSS=peak, CurrentRSS=min(peak, 90.0), MaxMemoryUsed=mark, **members)


def noisy(invocations: int, seed: int = 1) -> list[float]:
    """About 100 MiB, give or take three."""
    chance = random.Random(seed)
    return [100 + 6 * (chance.random() - 0.5) for _ in range(invocations)]


def spiked(invocations: int, at: int, peak: float = 400.0) -> list[float]:
    """One invocation that needed much more."""
    peaks = noisy(invocations)
    peaks[at] = peak
    return peaks


def parsed(lines: Iterable[str | Line]) -> list[Line]:
    return [made for text in lines for made in ([text] if isinstance(text, Line) else parse_event(text))]


def recorded(peaks: Iterable[float]) -> Iterator[Line]:
    """The records of `curve`, without making the text, for very many."""
    mark = 0.0
    for row, peak in enumerate(peaks):
        mark = max(mark, peak + 12)
        yield Line(
            function="orders",
            environment="a",
            schema=1,
            request_id=request_id(row),
            invocation=row + 1,
            metadata=Metadata(time_ms=BEGUN_MS + row * 1000.0),
            peak_rss=peak,
            peak_lower=peak,
            peak_upper=peak,
            current_rss=min(peak, 90.0),
            max_memory_used=mark,
            memory_limit=LIMIT,
        )


def leak(invocations: int, environment: str = "leak", kib: float = 400) -> Iterator[str]:
    """An environment whose memory grows by this much with each invocation."""
    noise: Sequence[float] = noisy(invocations, seed=2)
    mark = 0.0
    for row in range(invocations):
        current = 80 + row * kib / 1024
        peak = current + noise[row] - 95
        mark = max(mark, peak + 12)
        yield line(row, environment, PeakRSS=peak, CurrentRSS=current, MaxMemoryUsed=mark)
