"""Records without an environment, and what the publisher prints of them."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from truemem.config import Config
from truemem.linux.proc_text import Status
from truemem.measure.environment_memory import HeldMemory
from truemem.measure.race import Boundary, Sample
from truemem.measure.window import Window, peak
from truemem.records.environment_state import EnvironmentState
from truemem.records.journal import Journal
from truemem.records.pending_record import PendingRecord
from truemem.records.publisher import Publisher

MIB = 1024
BEGUN_MS = 1_700_000_000_000
ENVIRON = {
    b"AWS_LAMBDA_FUNCTION_NAME": b"orders",
    b"AWS_LAMBDA_FUNCTION_VERSION": b"7",
    b"AWS_LAMBDA_FUNCTION_MEMORY_SIZE": b"512",
}


def record(number: int, held_mib: float, peak_mib: float = 0.0, *, raced: bool = False) -> PendingRecord:
    """Of an ordinary invocation, the environment's `number`, 100 ms after the one before; it has its report."""
    made = PendingRecord(f"00000000-0000-4000-8000-{number:012d}", number, BEGUN_MS + 100 * number)
    held = round(held_mib * MIB)
    opening = Boundary()
    if raced:  # the last look at the invocation before may lie in this one
        opening.samples = [[Sample(1, 2 * held, 2 * held, 0, 0)]]
    made.window = window = Window(held, 0, True, opening)
    window.closing = [Status(max(held, round(peak_mib * MIB)), held, held, 0, 0, 1)]
    made.closed, made.closed_by, made.peak = True, "next-invoke", peak(window)
    made.status, made.duration_ms, made.max_memory_used_mib, made.report_came = "success", 12.5, 100, True
    made.memory = HeldMemory(None, 5 * MIB, {})
    return made


def printed(
    capfd: pytest.CaptureFixture[str], records: Iterable[PendingRecord], environ: dict[bytes, bytes]
) -> list[str]:
    """The lines, in their order, when the environment has ended."""
    environment = EnvironmentState()
    environment.environment_id = "the same"
    publisher = Publisher(Config(ENVIRON | environ), True, environment, Journal(""), lambda: 0)
    for each in records:
        publisher.print_one(each)
    publisher.flush_all()
    return capfd.readouterr().out.splitlines()
