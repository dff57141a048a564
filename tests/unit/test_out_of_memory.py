"""One verdict from many signals: what is memory's doing, and what is not."""

from __future__ import annotations

import json
from types import SimpleNamespace
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
TOO_LARGE: dict[str, Any] = {"status": "error", "error_type": "Function.ResponseSizeTooLarge"}
NOT_IMPORTED: dict[str, Any] = {"status": "error", "error_type": "Runtime.ImportModuleError"}


VERDICTS = {
    "the platform names it": (ended(**NAMED), 0, ["Runtime.OutOfMemory"]),
    "everything fires": (ended(**NAMED, kills=1, level_mib=509, mark=512), 94, ALL),
    "killed at the limit": (ended(**KILLED, level_mib=497), 0, ["exit-at-limit"]),
    "killed below it": (ended(**KILLED, level_mib=496), 0, []),
    "a plain crash": (ended(**KILLED), 0, []),
    "the kernel counts a kill": (ended(**KILLED, kills=1), 0, ["kernel"]),
    "page cache raised the mark": (ended(**KILLED, mark=512), 300, []),
    "the kill raised it": (ended(**KILLED, mark=512, kills=1), 300, ["kernel", "mark-at-limit"]),
    "the mark was there before": (ended(**KILLED, mark=512), 512, []),
    "shared memory counted twice, says the mark": (ended(**KILLED, level_mib=900, mark=490), 0, []),
    "the mark was close to it": (ended(**KILLED, level_mib=900, mark=497), 0, ["exit-at-limit"]),
    "a timeout at the limit": (ended(reason="timeout", status="timeout", level_mib=510), 0, ["timeout-at-limit"]),
    "a timeout": (ended(reason="timeout", status="timeout", level_mib=200), 0, []),
    "a timeout of who has read files": (ended(reason="timeout", status="timeout", level_mib=200, mark=512), 200, []),
    "a timeout, no telemetry": (ended(reason="timeout", level_mib=510), 0, ["timeout-at-limit"]),
    "killed, no telemetry": (ended(reason="failure", level_mib=510), 0, ["exit-at-limit"]),
    "an error of the response": (ended(**TOO_LARGE, level_mib=510), 0, []),
    "page cache fills the mark": (ended(reason="", status="success", mark=512), 100, []),
    "a child was killed": (ended(reason="", status="success", kills=1), 0, ["kernel"]),
    "an error that it lives on with": (ended(**NOT_IMPORTED, reason="", mark=512), 100, []),
}


@pytest.mark.parametrize(("record", "mark_before", "fired"), VERDICTS.values(), ids=VERDICTS)
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


REACHED = {
    "it can have got there": (KILLED, None, 500, ["mark-at-limit"]),
    "but the kernel killed none": (KILLED, 0, 500, []),
    "it cannot have got there": (KILLED, None, 490, []),
    "a timeout": (TIMED_OUT, None, 500, ["mark-at-limit"]),
    "but the kernel killed none before the timeout": (TIMED_OUT, 0, 500, []),
    "a timeout that came before": (TIMED_OUT, None, 490, []),
}


@pytest.mark.parametrize(("said", "kills", "unseen_ms", "fired"), REACHED.values(), ids=REACHED)
def test_a_mark_at_the_size_counts_where_growth_can_have_reached_it(
    said: dict[str, Any], kills: int | None, unseen_ms: int, fired: list[str]
) -> None:
    record = growing(ended(level_mib=100, kills=kills, mark=512, **said), mib_per_s=794, unseen_ms=unseen_ms)
    assert record.signals(LIMIT, 100) == fired


HOGS = {
    "it was the hog": ({"extension": "agent", "rss": 400}, 1, 0, [], 1),
    "and all live": ({"extension": "agent", "rss": 400}, 0, 1, [], 1),
    "and took one with it": ({"extension": "agent", "rss": 400}, 2, 0, ["kernel"], 1),
    "the function was the hog": (
        {"process": "python3.13", "pid": 7, "rss": 400},
        1,
        0,
        ["exit-at-limit", "mark-at-limit"],
        1,
    ),
    "who ended by itself": ({"extension": "agent", "rss": 400}, 0, 0, ["exit-at-limit", "mark-at-limit"], None),
}


@pytest.mark.parametrize(("holder", "kills", "of_others", "fired", "told"), HOGS.values(), ids=HOGS)
def test_an_extension_that_the_kernel_killed_is_the_environments(
    holder: dict[str, object], kills: int, of_others: int, fired: list[str], told: int | None
) -> None:
    record = ended(status="failure", error_type="Extension.Crash", level_mib=510, mark=512, kills=kills)
    assert record.death is not None
    record.death, record.environment_kills = record.death._replace(largest=holder), of_others
    assert record.signals(LIMIT, 100) == fired
    assert finished(record, CONFIG, "").properties.get("environmentKills") == told


LOW = st.builds(
    ended,
    level_mib=st.floats(0, 0.969 * LIMIT),
    reason=st.sampled_from(["", "failure", "timeout"]),
    kills=st.sampled_from([None, 0]),
    mark=st.none() | st.sampled_from([0.3 * LIMIT, 0.97 * LIMIT, 0.99 * LIMIT, LIMIT]),
    status=st.sampled_from([None, "success", "error", "failure", "timeout"]),
    error_type=st.sampled_from([None, "Runtime.ExitError", "Extension.Crash", "Sandbox.Timedout", "Function.X"]),
)
GROWTH = st.tuples(st.floats(-1000, 1000), st.integers(-10, 2000))
"""MiB/s, and for how many ms it was not seen."""


@settings(max_examples=10 * settings().max_examples)
@given(LOW, st.sampled_from([0.0, 0.5 * LIMIT, LIMIT]), st.integers(0, 2), st.none() | GROWTH)
def test_a_low_level_is_no_verdict_unless_the_platform_or_the_kernel_says_so(
    record: PendingRecord, mark_before: float, of_others: int, growth: tuple[float, int] | None
) -> None:
    """Nor unless it grew to the limit unseen."""
    record.environment_kills = of_others
    reached = 0.0
    if record.death is not None and growth is not None:
        mib_per_s, unseen_ms = growth
        growing(record, mib_per_s, unseen_ms)
        reached = (record.death.level_kib or 0) / 1024 + max(0, mib_per_s * unseen_ms / 1000)
    fired = record.signals(LIMIT, mark_before)
    assert fired == [] or (fired == ["mark-at-limit"] and reached > 0.969 * LIMIT)
    record.error_type = "Runtime.OutOfMemory"
    assert record.signals(LIMIT, mark_before)[0] == "Runtime.OutOfMemory"
    record.error_type, record.kernel_kills = None, 1
    assert "kernel" in record.signals(LIMIT, mark_before)


def test_without_a_known_size_only_the_platform_and_the_kernel_can_tell() -> None:
    assert ended(**KILLED, level_mib=9000, kills=1).signals(0, 0) == ["kernel"]


@given(st.lists(st.sampled_from(["kernel", "exit-at-limit", "mark-at-limit"]), unique=True))
def test_however_many_signals_it_counts_once(fired: list[str]) -> None:
    record = finished(ended(**KILLED), CONFIG, "", fired)
    assert record.metrics.get("OutOfMemory", 0) == (1 if fired else 0)
    assert ("outOfMemory" in record.properties) == bool(fired)


def window_of(mib: float = 0, *, last: float = 0, together: float = 0, read: float | None = None) -> Window:
    """It begins with `mib`; what a look saw last, what processes hold without counting shared pages twice, and what
    was read when it was closed."""
    made = Window(round(mib * 1024), 0, True)
    made.last, made.together = round(last * 1024), round(together * 1024)
    made.closing = [Status(0, round(read * 1024), 0, 0, 0, 1)] if read is not None else []
    return made


FFMPEG = ("ffmpeg", 37, 300 * 1024)
NAMED_FFMPEG = {"process": "ffmpeg", "pid": 37, "rss": 300.0}
AGENT = {"extension": "agent", "rss": 301.0}


ENDINGS = {
    "before the first look: that of the beginning": (window_of(50), 20, None, {}, {"level": 70.0}),
    "not read: who held most before that": (window_of(), 20, FFMPEG, {}, {"holder": NAMED_FFMPEG}),
    "who held most is named": (window_of(last=400), 20, FFMPEG, {}, {"level": 420.0, "holder": NAMED_FFMPEG}),
    "but not if it held more than there is by now": (window_of(read=90), 20, FFMPEG, {}, {"level": 110.0}),
    "it lived to be read": (
        window_of(last=400, read=500),
        0,
        FFMPEG,
        {"agent": 301 * 1024},
        {"level": 500.0, "holder": AGENT},
    ),
    "ten processes with the same 80 MiB": (window_of(last=900), 20, None, {}, {"level": 920.0}),
    "what they share counts once": (window_of(last=900, together=130), 20, None, {}, {"level": 130.0}),
    "fewer by now": (window_of(last=60, together=130), 20, None, {}, {"level": 80.0}),
}


@pytest.mark.parametrize(("window", "others_mib", "largest", "extensions", "document"), ENDINGS.values(), ids=ENDINGS)
def test_the_ending_says_the_level_and_who_held_most(
    window: Window, others_mib: int, largest: Any, extensions: dict[str, int], document: dict[str, object]
) -> None:
    assert death_report("timeout", window, others_mib * 1024, largest, extensions).document() == document


@pytest.mark.parametrize(("source", "used"), [("cgroup2", 300), ("cgroup1", 300), ("meminfo", 340)])
def test_the_level_of_several_processes_is_the_environments(source: str, used: int) -> None:
    """meminfo leaves out mapped files, which can be reclaimed: those of the largest process stand for all."""

    status = SimpleNamespace(status=lambda: Status(0, 0, 0, 40 * 1024, 0, 1))
    table = SimpleNamespace(function=lambda: [SimpleNamespace(pid=pid, files=status) for pid in (8, 9)])
    levels = [MemoryUsage(source, 300 * 1024, None), None]
    level = SimpleNamespace(source=source, read=lambda: levels.pop(0))
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


def test_a_mark_that_was_told_before_makes_no_crash_an_out_of_memory(capfd: pytest.CaptureFixture[str]) -> None:
    """The mark that the second one's report tells of is the first one's, whose report never came; or it was told by a
    report that is of none of them."""
    first, second = printed(publisher(), capfd, ended(**NAMED), ended(**KILLED, mark=512))
    assert (first["OutOfMemory"], second.get("OutOfMemory")) == (1, None)
    told = publisher()
    told.join(Event(REPORT, {"requestId": "of the process before", "metrics": {"maxMemoryUsedMB": 512}}))
    (line,) = printed(told, capfd, ended(**KILLED, mark=512))
    assert "OutOfMemory" not in line


def publisher(history: EnvironmentState | None = None) -> Publisher:
    return Publisher(CONFIG, True, history or EnvironmentState(), Journal(""), lambda: 0)


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
    publisher(history).print_one(record)
    text = capfd.readouterr().out
    assert len(text.encode()) <= 2048
    samples = json.loads(text)["lastSamples"]
    assert samples[-1] == [0.0, round((400_123 + 899 * 111) / 1024, 2)]
    assert len(samples) >= 4


def test_what_was_not_read_is_no_level() -> None:
    record = ended(reason="timeout")
    record.death = death_report("timeout", window_of(), 20 * 1024, FFMPEG, {})
    assert record.signals(LIMIT, 0) == []
