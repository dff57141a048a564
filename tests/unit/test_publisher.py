"""Lines to a stdout that does not read, closes, or reads slowly; and what is left out of a line, or counts once."""

import json
import os
from collections.abc import Iterator

import pytest
from truemem.lifecycle.publisher import BACKLOG, StdoutWriter
from truemem.linux.cgroup import MemoryUsage
from truemem.linux.procfs import Status
from truemem.measure.environment_memory import HeldMemory
from truemem.measure.window import MemoryCurve
from truemem.platform.telemetry import REPORT, PlatformEvent
from truemem.records.pending_record import MOST_WAITING, DeathReport, EnvironmentState, Measured, PendingRecord
from truemem.wings import PrintedLine

from tests.records import event, publisher_of, window


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reader, writer = os.pipe()
    yield reader, writer
    for descriptor in (reader, writer):
        try:
            os.close(descriptor)
        except OSError:
            continue


def test_a_full_pipe_keeps_the_order_and_drops_the_oldest_whole(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    output = StdoutWriter(writer)
    count = BACKLOG + 200
    for number in range(count):
        output.put(PrintedLine(f"{number:06d} " + "x" * 1000))
    assert output.dropped > 0
    text = b""
    while not output.flush():
        text += os.read(reader, 1 << 20)
    text += os.read(reader, 1 << 20)
    lines = text.decode().splitlines()
    assert len(lines) == count - output.dropped
    assert all(len(line) == 1007 for line in lines)
    assert [line[:6] for line in lines] == sorted(line[:6] for line in lines)
    assert lines[-1].startswith(f"{count - 1:06d}")


@pytest.mark.parametrize("reports", [0, 2])
def test_a_closed_pipe_loses_the_line_and_those_it_reports(pipe: tuple[int, int], reports: int) -> None:
    os.close(pipe[0])
    output = StdoutWriter(pipe[1])
    output.put(PrintedLine("a line without a reader", lost=reports))
    assert output.dropped == 1 + reports


def test_events_that_leave_no_time_to_print_do_not_pile_up(capfd: pytest.CaptureFixture[str]) -> None:
    publisher = publisher_of({})
    for number in range(500):
        record = PendingRecord(f"{number}", number, 0)
        publisher.open(record)
        record.close(Measured())
    printed = [json.loads(line)["requestId"] for line in capfd.readouterr().out.splitlines()]
    assert printed == [f"{number}" for number in range(500 - 2 * MOST_WAITING - 1)]


SIZED = {b"AWS_LAMBDA_FUNCTION_MEMORY_SIZE": b"512"}


def crashed(report: PlatformEvent) -> PendingRecord:
    record = PendingRecord("r", 1, 0)
    record.died(DeathReport("failure", 509 * 1024, None, {}))
    record.join(report)
    return record


def test_a_mark_known_before_makes_no_crash_an_out_of_memory(capfd: pytest.CaptureFixture[str]) -> None:
    """The second one's report has the mark of the first one, whose own report never came; or a report has said it that
    is of none of them."""
    named = crashed(event(REPORT, status="error", errorType="Runtime.OutOfMemory"))
    publisher = publisher_of(SIZED)
    other = publisher_of(SIZED)
    other.join(event(REPORT, "of the process before", mark_mib=512))
    for printing, record in (publisher, named), (publisher, low_crash()), (other, low_crash()):
        printing.print_one(record)
    lines = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert [line.get("OutOfMemory") for line in lines] == [1, None, None]


def low_crash() -> PendingRecord:
    """Of a function that held 100 MiB, with the mark at the limit."""
    record = PendingRecord("r", 1, 0)
    record.killed(0)
    record.died(DeathReport("failure", 100 * 1024, None, {}))
    record.join(event(REPORT, status="error", errorType="Runtime.ExitError", mark_mib=512))
    return record


@pytest.mark.parametrize(
    "name", ["agent", "a-vendors-extension-with-a-name-that-nobody-will-ever-want-to-type-in-full"]
)
def test_the_line_of_a_death_has_less_than_2_KiB(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    record = crashed(event(REPORT, status="error", errorType="Runtime.OutOfMemory", mark_mib=512))
    record.killed(1)
    curve = MemoryCurve()
    for ms in range(900):
        curve.see(ms * 1_234_567, 400_123 + ms * 111)
    closing = [Status(500_000, 500_000, 450_000, 40_000, 10_000, 32)] * 40
    extensions = {f"{name}-{number}": 10_240 + number for number in range(10)}
    memory = HeldMemory(MemoryUsage("cgroup1", 512 * 1024, 512 * 1024), 5_000, extensions)
    record.close(Measured(window(baseline=50, curve=curve, closing=closing), memory=memory))
    record.mark_reached(520_000)
    state = EnvironmentState()
    state.identify("2026/11/21/[$LATEST]f59b043f4a3458fd9529a7b1006edced")
    publisher_of(SIZED, state).print_one(record)
    text = capfd.readouterr().out
    assert len(text.encode()) <= 2048
    samples = json.loads(text)["lastSamples"]
    assert samples[-1] == [0.0, round((400_123 + 899 * 111) / 1024, 2)]
    assert len(samples) >= 4
