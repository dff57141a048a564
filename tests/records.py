"""Closed windows, records without an environment, and what the publisher prints of them."""

from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from truemem.config import Config
from truemem.lifecycle.publisher import Publisher
from truemem.line_schema import ANY_NAME, FLAG, TEXT
from truemem.linux.cgroup import MemoryUsage
from truemem.linux.process_table import ProcessTable
from truemem.linux.procfs import Procfs, Status
from truemem.measure.environment_memory import HeldMemory
from truemem.measure.window import Boundary, MemoryCurve, Sample, Window
from truemem.platform.telemetry import REPORT, PlatformEvent
from truemem.records.pending_record import EnvironmentState, Measured, PendingRecord
from truemem.records.record import finished, line
from truemem.startup import WINGS
from truemem.support.clock import Clock
from truemem.wings import Site, Wings

MIB = 1024
"""KiB."""
MS = 1_000_000
BEGUN_MS = 1_700_000_000_000
ENVIRON = {
    b"AWS_LAMBDA_FUNCTION_NAME": b"orders",
    b"AWS_LAMBDA_FUNCTION_VERSION": b"7",
    b"AWS_LAMBDA_FUNCTION_MEMORY_SIZE": b"512",
}


def status(hwm: float, rss: float) -> Status:
    """Watermark and level of a process, MiB; all of it anonymous."""
    held = round(rss * MIB)
    return Status(round(hwm * MIB), held, held, 0, 0, 1)


def window(*closing: tuple[float, float], baseline: float = 0, **known: Any) -> Window:
    """A closed one: watermark and level of each process at its end, and the level at its beginning, MiB. For what else
    is `known` see Window."""
    statuses = [status(hwm, rss) for hwm, rss in closing]
    known = {"closing": statuses, "multi_process": len(closing) > 1, "curve": MemoryCurve(), **known}
    return Window(round(baseline * MIB), **known)


def around(hwm: float, rss: float = 0) -> Boundary:
    """An event whose time is not known, with one look that may lie after it: watermark and level, MiB."""
    made, kib = Boundary(), round(hwm * MIB)
    made.samples = [[Sample(1, kib, kib, 0, round(rss * MIB))]]
    return made


def curve(*samples: tuple[float, float]) -> MemoryCurve:
    """Samples of (epoch ms, MiB)."""
    made = MemoryCurve()
    for at_ms, mib in samples:
        made.see(round(at_ms * MS), round(mib * MIB))
    return made


def event(
    kind: str,
    request_id: str = "",
    time_ms: float | None = None,
    *,
    duration_ms: float | None = None,
    mark_mib: float | None = None,
    more: Mapping[str, float] | None = None,
    **said: Any,
) -> PlatformEvent:
    """What the platform says of an invocation, besides `status`, `errorType` or `tenantId`; `more` of its metrics."""
    metrics = {"durationMs": duration_ms, "maxMemoryUsedMB": mark_mib, **(more or {})}
    time_ns = None if time_ms is None else round(time_ms * MS)
    return PlatformEvent(kind, {"requestId": request_id, "metrics": metrics, **said}, time_ns)


OUT_OF_MEMORY = event(REPORT, status="error", errorType="Runtime.OutOfMemory", mark_mib=100)


def succeeded(duration_ms: float = 12.5, **said: Any) -> PlatformEvent:
    """The report of an ordinary invocation."""
    return event(REPORT, status="success", duration_ms=duration_ms, mark_mib=100, **said)


SUCCEEDED = succeeded()


def record(
    number: int,
    held_mib: float,
    peak_mib: float = 0.0,
    *,
    raced: bool = False,
    report: PlatformEvent | None = SUCCEEDED,
    **measured: Any,
) -> PendingRecord:
    """Of an ordinary invocation, the environment's `number`, 100 ms after the one before; it has its report. For what
    else was `measured` see Measured."""
    made = PendingRecord(f"00000000-0000-4000-8000-{number:012d}", number, BEGUN_MS + 100 * number)
    # Raced: the last look at the invocation before may lie in this one.
    opening = around(2 * held_mib) if raced else Boundary()
    closed = window((max(held_mib, peak_mib), held_mib), baseline=held_mib, opening=opening)
    memory = HeldMemory(None, 5 * MIB, {})
    made.close(Measured(**{"window": closed, "closed_by": "next-invoke", "memory": memory, **measured}))
    if report is not None:
        made.join(report)
    return made


def publisher_of(
    environ: Mapping[bytes, bytes],
    state: EnvironmentState | None = None,
    *,
    reports: bool = True,
    wings: Wings | None = None,
) -> Publisher:
    """Of an environment with these settings; without `wings` its lines have what the spine knows."""
    return Publisher(Config(environ), reports, state or EnvironmentState(), wings or Wings(), lambda: 0)


def wings_of(environ: Mapping[bytes, bytes]) -> Wings:
    """All that this build has, by these settings; but there is no journal."""
    environ = {**environ, b"TRUEMEM_JOURNAL": b"off"}
    proc = Procfs()
    table = ProcessTable(proc, "127.0.0.1:9001")
    site = Site(Config(environ), environ, "truemem", managed=False, table=table, proc=proc, clock=Clock())
    return Wings([wing for wing in (door(site) for door in WINGS.values()) if wing is not None])


def printed(
    capfd: pytest.CaptureFixture[str], records: Iterable[PendingRecord], environ: dict[bytes, bytes]
) -> list[str]:
    """The lines, in their order, when the environment has ended."""
    environment = EnvironmentState()
    environment.environment_id = "the same"
    publisher = publisher_of(ENVIRON | environ, environment, wings=wings_of(ENVIRON | environ))
    for each in records:
        publisher.print_one(each)
    publisher.flush_all()
    return capfd.readouterr().out.splitlines()


PRODUCTION = {
    b"AWS_LAMBDA_FUNCTION_NAME": b"model-serving-function-production",
    b"AWS_LAMBDA_FUNCTION_VERSION": b"$LATEST",
    b"AWS_LAMBDA_FUNCTION_MEMORY_SIZE": b"10240",
}
FAILED = event(REPORT, duration_ms=123456.789, mark_mib=9876, status="error", errorType="Runtime.ExitError")


def full(report: PlatformEvent | None = FAILED, **known: Any) -> PendingRecord:
    """A record with long values, of which the kernel and the platform have said all. For what else is `known` of its
    window see Window."""
    made = PendingRecord("8476a536-e9f4-11e8-9739-2dfe598c3fcd", 123456, BEGUN_MS + 123)
    opening = around(9_900_000 / MIB, 5_000_000 / MIB)
    statuses = [Status(9_100_000, 5_100_000, 5_000_000, 99_000, 1_000, 64)]
    settings = {"before": 9_000_000, "opening": opening, "reset_delay_us": 12345, "closing": statuses, **known}
    closed = Window(5_000_000, **settings)
    memory = HeldMemory(MemoryUsage("cgroup1", 6_000_000, 9_200_000), 6_000, {"cloudwatch_lambda_agent": 20_000})
    made.follows_init(cold_start=True, suppressed=False)
    made.init_measured(closed)
    made.close(Measured(closed, "next-invoke", memory=memory))
    made.mark_reached(9_100_000)
    if report is not None:
        made.join(report)
    return made


def line_of(made: PendingRecord, environ: Mapping[bytes, bytes], dropped: int = 3) -> str:
    """Its line, alone."""
    config = Config(environ)
    environment = "2026/11/21/[$LATEST]82561ce053dd47d190e0c8f5e063e62e"
    return line(finished(made, config, environment, dropped=dropped), config)


def fits(kind: Any, value: Any) -> bool:
    """Is the value of that kind (line_schema)? Of an object any member may be absent."""
    match kind:
        case dict():
            return all(fits(kind[name] if name in kind else kind[ANY_NAME], inner) for name, inner in value.items())
        case [[*pair]]:
            return all(fits(one, inner) for each in value for one, inner in zip(pair, each, strict=True))
        case [one]:
            return all(fits(one, inner) for inner in value)
        case _:
            return isinstance(value, {TEXT: str, FLAG: bool}.get(kind, int | float))
