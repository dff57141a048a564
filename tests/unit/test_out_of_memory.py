"""One verdict from many signals: what is memory's doing, and what is not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from truemem.config import Config
from truemem.linux.cgroup import MemorySource, MemoryUsage
from truemem.linux.proc_text import Status
from truemem.linux.procfs import Procfs
from truemem.measure.environment_memory import EnvironmentMemory, HeldMemory
from truemem.measure.window import Window, peak
from truemem.platform.telemetry_events import REPORT, Event
from truemem.records.environment_state import EnvironmentState
from truemem.records.journal import Journal
from truemem.records.out_of_memory import DeathReport, death_report
from truemem.records.pending_record import PendingRecord
from truemem.records.publisher import Publisher
from truemem.records.record import finished

LIMIT = 512


def ended(
    level_mib: float = 100, reason: str = "failure", kills: int | None = 0, mark: float | None = None, **said: Any
) -> PendingRecord:
    """An invocation at the end of which everybody held `level_mib`, for which SHUTDOWN gave `reason` ("": none)."""
    record = PendingRecord("r", 1, 0)
    record.death = DeathReport(reason, round(level_mib * 1024), None, {}) if reason else None
    record.kernel_kills = kills
    record.max_memory_used_mib = mark
    record.status, record.error_type = said.get("status"), said.get("error_type")
    return record


KILLED: dict[str, Any] = {"status": "error", "error_type": "Runtime.ExitError"}
ALL = ["Runtime.OutOfMemory", "kernel", "exit-at-limit", "mark-at-limit"]
NAMED: dict[str, Any] = {"status": "error", "error_type": "Runtime.OutOfMemory"}


@pytest.mark.parametrize(
    ("record", "mark_before", "fired"),
    [
        (ended(**NAMED), 0, ["Runtime.OutOfMemory"]),
        (ended(**NAMED, kills=1, level_mib=509, mark=512), 94, ALL),
        (ended(**KILLED, level_mib=497), 0, ["exit-at-limit"]),
        (ended(**KILLED, level_mib=496), 0, []),
        (ended(**KILLED), 0, []),
        (ended(**KILLED, kills=1), 0, ["kernel"]),
        (ended(**KILLED, mark=512), 300, []),
        (ended(**KILLED, mark=512, kills=1), 300, ["kernel", "mark-at-limit"]),
        (ended(**KILLED, mark=512), 512, []),
        (ended(**KILLED, level_mib=900, mark=490), 0, []),
        (ended(**KILLED, level_mib=900, mark=497), 0, ["exit-at-limit"]),
        (ended(reason="timeout", status="timeout", level_mib=510), 0, ["timeout-at-limit"]),
        (ended(reason="timeout", status="timeout", level_mib=200), 0, []),
        (ended(reason="timeout", status="timeout", level_mib=200, mark=512), 200, []),
        (ended(reason="timeout", level_mib=510), 0, ["timeout-at-limit"]),
        (ended(reason="failure", level_mib=510), 0, ["exit-at-limit"]),
        (ended(reason="failure", level_mib=510, status="error", error_type="Function.ResponseSizeTooLarge"), 0, []),
        (ended(reason="", status="success", mark=512), 100, []),
        (ended(reason="", status="success", kills=1), 0, ["kernel"]),
        (ended(reason="", status="error", error_type="Runtime.ImportModuleError", mark=512), 100, []),
    ],
    ids=[
        *("the platform names it", "everything fires", "killed at the limit", "killed below it", "a plain crash"),
        *("the kernel counts a kill", "page cache raised the mark", "the kill raised it", "the mark was there before"),
        *("shared memory counted twice, says the mark", "the mark was close to it"),
        *("a timeout at the limit", "a timeout", "a timeout of who has read files"),
        *("a timeout, no telemetry", "killed, no telemetry", "an error of the response"),
        *("page cache fills the mark", "a child was killed", "an error that it lives on with"),
    ],
)  # fmt: skip
def test_the_verdict(record: PendingRecord, mark_before: float, fired: list[str]) -> None:
    assert record.signals(LIMIT, mark_before) == fired


def growing(record: PendingRecord, mib_per_s: float, unseen_ms: int) -> PendingRecord:
    """The same, and its end, told by the platform, came so long after its last sample."""
    assert record.death is not None
    record.death = record.death._replace(growth_kib_per_s=mib_per_s * 1024)
    record.window = Window(0, 0, True)
    record.window.curve.see(1_000_000_000, 50 * 1024)
    record.done_ns = 1_000_000_000 + unseen_ms * 1_000_000
    return record


TIMED_OUT: dict[str, Any] = {"reason": "timeout", "status": "timeout"}


@pytest.mark.parametrize(
    ("said", "kills", "unseen_ms", "fired"),
    [
        (KILLED, None, 500, ["mark-at-limit"]),
        (KILLED, 0, 500, []),
        (KILLED, None, 490, []),
        (TIMED_OUT, None, 500, ["mark-at-limit"]),
        (TIMED_OUT, 0, 500, ["mark-at-limit"]),
        (TIMED_OUT, 0, 490, []),
    ],
    ids=[
        *("it can have got there", "but the kernel killed none", "it cannot have got there"),
        *("a timeout", "where no process need be killed", "that came before"),
    ],
)
def test_a_mark_at_the_size_counts_where_growth_can_have_reached_it(
    said: dict[str, Any], kills: int | None, unseen_ms: int, fired: list[str]
) -> None:
    record = growing(ended(level_mib=100, kills=kills, mark=512, **said), mib_per_s=794, unseen_ms=unseen_ms)
    assert record.signals(LIMIT, 100) == fired


@pytest.mark.parametrize(
    ("holder", "kills", "of_others", "fired", "told"),
    [
        ({"extension": "agent", "rss": 400}, 1, 0, [], 1),
        ({"extension": "agent", "rss": 400}, 0, 1, [], 1),
        ({"extension": "agent", "rss": 400}, 2, 0, ["kernel"], 1),
        ({"process": "python3.13", "pid": 7, "rss": 400}, 1, 0, ["exit-at-limit", "mark-at-limit"], 1),
        ({"extension": "agent", "rss": 400}, 0, 0, ["exit-at-limit", "mark-at-limit"], None),
    ],
    ids=["it was the hog", "and all live", "and took one with it", "the function was the hog", "who ended by itself"],
)
def test_an_extension_that_the_kernel_killed_is_the_environments(
    holder: dict[str, object], kills: int, of_others: int, fired: list[str], told: int | None
) -> None:
    record = ended(status="failure", error_type="Extension.Crash", level_mib=510, mark=512, kills=kills)
    assert record.death is not None
    record.death, record.environment_kills = record.death._replace(largest=holder), of_others
    assert record.signals(LIMIT, 100) == fired
    assert finished(record, CONFIG, "").properties.get("environmentKills") == told


@settings(max_examples=10 * settings().max_examples)
@given(
    level=st.floats(0, 0.969),
    mark=st.none() | st.sampled_from([0.3, 0.97, 0.99, 1.0]),
    mark_before=st.sampled_from([0.0, 0.5, 1.0]),
    kills=st.sampled_from([None, 0]),
    of_others=st.integers(0, 2),
    error_type=st.sampled_from([None, "Runtime.ExitError", "Extension.Crash", "Sandbox.Timedout", "Function.X"]),
    status=st.sampled_from([None, "success", "error", "failure", "timeout"]),
    reason=st.sampled_from(["", "failure", "timeout"]),
    growth=st.none() | st.floats(-1000, 1000),
    unseen_ms=st.none() | st.integers(-10, 2000),
)
def test_a_low_level_is_no_verdict_unless_the_platform_or_the_kernel_says_so(
    level: float,
    mark: float | None,
    mark_before: float,
    kills: int | None,
    of_others: int,
    error_type: str | None,
    status: str | None,
    reason: str,
    growth: float | None,
    unseen_ms: int | None,
) -> None:
    """Nor unless it grew to the limit unseen."""
    marked = None if mark is None else mark * LIMIT
    record = ended(level * LIMIT, reason, kills, marked, status=status, error_type=error_type)
    record.environment_kills = of_others
    reached = level * LIMIT
    if record.death is not None and growth is not None and unseen_ms is not None:
        growing(record, growth, unseen_ms)
        reached += max(0, growth * unseen_ms / 1000)
    fired = record.signals(LIMIT, mark_before * LIMIT)
    assert fired == [] or (fired == ["mark-at-limit"] and reached > 0.969 * LIMIT)
    record.error_type = "Runtime.OutOfMemory"
    assert record.signals(LIMIT, mark_before * LIMIT)[0] == "Runtime.OutOfMemory"
    record.error_type, record.kernel_kills = None, 1
    assert "kernel" in record.signals(LIMIT, mark_before * LIMIT)


def test_without_a_known_size_only_the_platform_and_the_kernel_can_tell() -> None:
    assert ended(**KILLED, level_mib=9000, kills=1).signals(0, 0) == ["kernel"]


@given(st.lists(st.sampled_from(["kernel", "exit-at-limit", "mark-at-limit"]), unique=True))
def test_however_many_signals_it_counts_once(fired: list[str]) -> None:
    record = finished(ended(**KILLED), CONFIG, "", fired)
    assert record.metrics.get("OutOfMemory", 0) == (1 if fired else 0)
    assert ("outOfMemory" in record.properties) == bool(fired)


def test_what_processes_share_is_no_level_at_the_limit() -> None:
    window = Window(0, 0, True)
    window.last = 900 * 1024  # ten processes with the same 80 MiB
    assert death_report("timeout", window, 20 * 1024, None, {}).level_kib == 920 * 1024
    window.together = 130 * 1024
    assert death_report("timeout", window, 20 * 1024, None, {}).level_kib == 130 * 1024
    window.last = 60 * 1024  # fewer by now
    assert death_report("timeout", window, 20 * 1024, None, {}).level_kib == 80 * 1024


@pytest.mark.parametrize(("source", "used"), [("cgroup2", 300), ("cgroup1", 300), ("meminfo", 340)])
def test_the_level_of_several_processes_is_the_environments(source: str, used: int) -> None:
    """meminfo leaves out mapped files, which can be reclaimed: those of the largest process stand for all."""

    class Part:
        def __init__(self, **members: Any) -> None:
            vars(self).update(members)

    files = [Part(pid=pid, files=Part(status=lambda: Status(0, 0, 0, 40 * 1024, 0, 1))) for pid in (8, 9)]
    table = Part(function=lambda: files)
    levels = [MemoryUsage(source, 300 * 1024, None), None]
    level = Part(source=source, read=lambda: levels.pop(0))
    surroundings = EnvironmentMemory(table, level, {})  # type: ignore[arg-type]
    assert surroundings.together_kib(9, counted_kib=LIMIT * 1024, limit_kib=LIMIT * 1024) == used * 1024
    assert surroundings.together_kib(9, counted_kib=LIMIT * 1024, limit_kib=LIMIT * 1024) == 0


@pytest.mark.parametrize(("share", "limit_mib"), [(0.9, LIMIT), (9, 0)])
def test_it_is_not_asked_far_from_the_limit_nor_without_one(share: float, limit_mib: int) -> None:
    surroundings = EnvironmentMemory(None, MemorySource(Procfs()), {})  # type: ignore[arg-type]
    assert surroundings.together_kib(9, round(share * LIMIT * 1024), limit_mib * 1024) == 0


def printed(publisher: Publisher, capfd: pytest.CaptureFixture[str], *records: PendingRecord) -> list[Any]:
    for record in records:
        publisher.print_one(record)
    return [json.loads(line) for line in capfd.readouterr().out.splitlines()]


CONFIG = Config({b"AWS_LAMBDA_FUNCTION_MEMORY_SIZE": b"512"})


def test_a_crash_after_an_out_of_memory_whose_report_never_came_is_a_crash(capfd: pytest.CaptureFixture[str]) -> None:
    """The mark that the second one's report tells of is the first one's."""
    publisher = Publisher(CONFIG, True, EnvironmentState(), Journal(""), lambda: 0)
    first, second = printed(publisher, capfd, ended(**NAMED), ended(**KILLED, mark=512))
    assert (first["OutOfMemory"], second.get("OutOfMemory")) == (1, None)


def test_nor_if_the_mark_was_told_by_a_report_that_nobody_waited_for(capfd: pytest.CaptureFixture[str]) -> None:
    publisher = Publisher(CONFIG, True, EnvironmentState(), Journal(""), lambda: 0)
    publisher.join(Event(REPORT, {"requestId": "of the process before", "metrics": {"maxMemoryUsedMB": 512}}))
    (line,) = printed(publisher, capfd, ended(**KILLED, mark=512))
    assert "OutOfMemory" not in line


@pytest.mark.parametrize(
    "name", ["agent", "a-vendors-extension-with-a-name-that-nobody-will-ever-want-to-type-in-full"]
)
def test_the_line_of_a_dead_invocation_has_less_than_2_KiB(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    record = ended(**NAMED, kills=1, level_mib=509, mark=512)
    record.window = Window(50 * 1024, 0, True)
    for ms in range(900):
        record.window.curve.see(ms * 1_234_567, 400_123 + ms * 111)
    record.window.closing = [Status(500_000, 500_000, 450_000, 40_000, 10_000, 32)] * 40
    record.peak = peak(record.window)
    extensions = {f"{name}-{number}": 10_240 + number for number in range(10)}
    record.memory = HeldMemory(MemoryUsage("cgroup1", 512 * 1024, 512 * 1024), 5_000, extensions)
    record.status, record.high_water_mark = "error", 520_000
    history = EnvironmentState()
    history.identify("2026/11/21/[$LATEST]f59b043f4a3458fd9529a7b1006edced")
    publisher = Publisher(CONFIG, True, history, Journal(""), lambda: 0)
    publisher.print_one(record)
    text = capfd.readouterr().out
    assert len(text.encode()) <= 2048
    samples = json.loads(text)["lastSamples"]
    assert samples[-1] == [0.0, round((400_123 + 899 * 111) / 1024, 2)]
    assert len(samples) >= 4


def test_before_the_first_look_the_level_is_that_of_the_beginning() -> None:
    ending = death_report("failure", Window(50 * 1024, 0, True), 20 * 1024, None, {})
    assert ending.level_kib == 70 * 1024


def test_what_was_not_read_is_no_level() -> None:
    """No sample, no reading: only what the others hold is known, and who held most before that."""
    ending = death_report("timeout", Window(0, 0, True), 20 * 1024, ("ffmpeg", 37, 500 * 1024), {})
    assert ending.document() == {"holder": {"process": "ffmpeg", "pid": 37, "rss": 500.0}}
    record = ended(reason="timeout")
    record.death = ending
    assert record.signals(LIMIT, 0) == []


def test_who_held_more_than_there_is_by_now_is_not_named() -> None:
    window = Window(0, 0, True)
    window.closing = [Status(0, 90 * 1024, 0, 0, 0, 1)]
    ending = death_report("failure", window, 20 * 1024, ("ffmpeg", 37, 500 * 1024), {})
    assert ending.document() == {"level": 110.0}


def test_a_timeout_that_only_shutdown_tells_of_is_one() -> None:
    """Without telemetry there is no status."""
    record = ended(reason="timeout", level_mib=510)
    assert (record.status, record.signals(LIMIT, 0)) == (None, ["timeout-at-limit"])


def test_the_ending_names_who_held_most() -> None:
    window = Window(0, 0, True)
    window.last = 400 * 1024
    ending = death_report("failure", window, 20 * 1024, ("ffmpeg", 37, 300 * 1024), {})
    assert ending.document() == {"level": 420.0, "holder": {"process": "ffmpeg", "pid": 37, "rss": 300.0}}
    window.closing = [Status(0, 500 * 1024, 0, 0, 0, 1)]  # it lived to be read
    ending = death_report("timeout", window, 0, ("ffmpeg", 37, 300 * 1024), {"agent": 301 * 1024})
    assert ending.document() == {"level": 500.0, "holder": {"extension": "agent", "rss": 301.0}}
