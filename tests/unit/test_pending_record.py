"""Which record is printed when, as scenarios of what came; and one verdict from many signals: was it memory?"""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from truemem.config import Config
from truemem.measure.window import NEVER_NS, Boundary, Window
from truemem.platform.telemetry import REPORT, RUNTIME_DONE, START, PlatformEvent
from truemem.records.pending_record import (
    CHANCE_MS,
    MOST_WAITING,
    PLATFORM,
    START_MS,
    DeathReport,
    Measured,
    PendingRecord,
    PendingRecords,
    death_report,
    signals,
)
from truemem.records.record import finished

from faults.deaths import DEATHS, EXTENSION_DIED
from tests.records import MIB, MS, curve, event, status, window
from tests.unit.deaths import LIMIT, Death, seen


def opened(pending: PendingRecords, request_id: str, opening: Boundary | None = None) -> PendingRecord:
    record = PendingRecord(request_id, 1, 0, opening)
    pending.open(record)
    return record


def due(pending: PendingRecords, running_ms: float = 0) -> list[str]:
    """Request ids of what can be printed now."""
    taken = []
    while record := pending.due(running_ms):
        taken.append(record.request_id)
    return taken


def plays(script: str, *, reports: bool = True, running_ms: float = 0) -> list[str]:
    """`+1`: the invocation 1 begins; `-1`: its window is closed; `=1`: its report comes. What can be printed then:
    nothing before the last step."""
    pending, records = PendingRecords(reports=reports), {}
    taken: list[str] = []
    for step in script.split():
        assert taken == []
        if step[0] == "+":
            records[step[1:]] = opened(pending, step[1:])
        elif step[0] == "-":
            records[step[1:]].close(Measured())
        else:
            assert pending.join(event(REPORT, step[1:], mark_mib=94))
            assert records[step[1:]].reported.max_memory_used_mib == 94
        taken = due(pending, running_ms)
    return taken


LIVES = {
    "waits for its report": ("+1 -1 +2 =1", ["1"]),
    "waits for its window's close": ("+1 =1 -1", ["1"]),
    "a missing report is waited for until the next one ends": ("+1 -1 +2 -2", ["1"]),
    "in their order, whichever report came": ("+1 -1 +2 =2 -2", ["1", "2"]),
}


@pytest.mark.parametrize(("script", "printed"), LIVES.values(), ids=LIVES)
def test_a_record_is_due_when_all_of_it_is_known(script: str, printed: list[str]) -> None:
    assert plays(script, running_ms=CHANCE_MS) == printed


def test_short_invocations_give_telemetry_its_chance() -> None:
    waiting = " ".join(f"+{number} -{number}" for number in range(MOST_WAITING))
    assert plays(waiting, running_ms=CHANCE_MS - 1) == []
    assert plays(f"{waiting} +last -last", running_ms=CHANCE_MS - 1) == ["0"]


def test_without_telemetry_nothing_is_waited_for() -> None:
    assert plays("+1 -1", reports=False) == ["1"]


def follow(pending: PendingRecords, raced: bool = True, reported: bool = True) -> tuple[PendingRecord, PendingRecord]:
    """Two invocations. The first is closed at 1000 ms of running time, and has its report. Its watermark was seen at
    8 ms (epoch): it is its own where that is proven to lie before the second one's event."""
    end = Boundary(0 if raced else NEVER_NS)
    end.levels = [(5 * MS, 45 * MIB), (8 * MS, 90 * MIB)]
    first, second = opened(pending, "1"), opened(pending, "2", end)
    first.close(Measured(window((90, 45), baseline=45, end=end), at_ms=1000))
    assert is_raced(first) is raced
    if reported:
        pending.join(event(REPORT, "1"))
    return first, second


def is_raced(record: PendingRecord) -> bool:
    """Its lower bound is that of the looks before 8 ms then, or the watermark."""
    assert record.peak is not None
    assert record.peak.lower == (45 if record.peak.raced else 90) * MIB
    return record.peak.raced


def test_an_unproven_record_waits_and_blocks_later_ones() -> None:
    """It waits for the start of the next one."""
    pending = PendingRecords()
    first, second = follow(pending)
    second.close(Measured(at_ms=1000))
    pending.join(event(REPORT, "2"))
    assert due(pending, 1000 + START_MS - 1) == []
    assert due(pending, 1000 + START_MS) == ["1", "2"]
    assert is_raced(first)


@pytest.mark.parametrize(("reports", "raced"), [(True, False), (False, True)], ids=["no need", "without telemetry"])
def test_where_no_proof_is_needed_or_comes_none_is_waited_for(reports: bool, raced: bool) -> None:
    pending = PendingRecords(reports=reports)
    first, _ = follow(pending, raced)
    assert due(pending, 1000) == ["1"]
    assert is_raced(first) is raced


PROOFS = {
    "began before it": (event(START, "2", 7), True),
    "began then": (event(START, "2", 8), False),
    "began later": (event(START, "2", 9), False),
    "began, without a time": (event(START, "2"), True),
    "the runtime was done": (event(RUNTIME_DONE, "1", 8), False),
}


@pytest.mark.parametrize(("proof", "raced"), PROOFS.values(), ids=PROOFS)
def test_telemetry_of_the_next_one_ends_the_wait(proof: PlatformEvent, raced: bool) -> None:
    """And may be proof."""
    pending = PendingRecords()
    first, second = follow(pending)
    assert due(pending, 1000) == []
    pending.join(proof)
    assert due(pending, 1000) == ["1"]
    assert second.reported.started is (proof.kind == START)
    assert is_raced(first) is raced


def test_before_its_report_has_come_no_proof_makes_it_due() -> None:
    pending = PendingRecords()
    follow(pending, reported=False)
    pending.join(event(START, "2", 9))
    assert due(pending, 1000 + CHANCE_MS) == []
    pending.join(event(REPORT, "1"))
    assert due(pending, 1000 + CHANCE_MS) == ["1"]


def test_at_the_end_all_that_is_known_by_then_counts() -> None:
    pending = PendingRecords()
    first, second = follow(pending)
    first.reported.join(event(RUNTIME_DONE, "1", 9))
    assert is_raced(first)
    assert pending.take_all() == [first, second]
    assert not is_raced(first)


def test_shutdown_takes_everything() -> None:
    pending = PendingRecords()
    opened(pending, "1").close(Measured())
    opened(pending, "2")
    assert not pending.complete()
    assert [record.request_id for record in pending.take_all()] == ["1", "2"]
    assert pending.take_all() == []
    assert pending.complete()


def test_an_event_of_another_environment_changes_nothing() -> None:
    pending = PendingRecords()
    record = opened(pending, "1")
    assert not pending.join(event(REPORT, "of the environment before"))
    assert not record.reported.report_came


def test_a_retry_has_the_same_request_id_and_its_own_events() -> None:
    """The report of the first attempt comes with the second, and so may the end of the second."""
    pending = PendingRecords()
    first = opened(pending, "1")
    pending.join(event(RUNTIME_DONE, "1", 7, status="error", errorType="Runtime.Unknown"))
    first.close(Measured())
    second = opened(pending, "1")
    assert pending.for_request("1") is second
    assert pending.join(event(REPORT, "1", status="error", mark_mib=94))
    assert pending.join(event(START, "1"))
    assert pending.join(event(RUNTIME_DONE, "1", 9, status="success"))
    assert pending.join(event(REPORT, "1", status="success", mark_mib=95))
    for record, known in (first, ("error", 7 * MS, 94)), (second, ("success", 9 * MS, 95)):
        reported = record.reported
        assert (reported.status, reported.done_ns, reported.max_memory_used_mib) == known
    assert second.reported.error_type is None


def test_the_start_of_a_retry_says_nothing_of_the_first_attempt() -> None:
    pending = PendingRecords()
    first = opened(pending, "1", Boundary())
    pending.join(event(START, "1", 5))
    first.close(Measured())
    second = opened(pending, "1", Boundary())
    pending.join(event(START, "1", 9))
    assert [record.opening and record.opening.not_before_ns for record in (first, second)] == [5 * MS, 9 * MS]
    assert second.reported.started


def test_the_reports_duration_replaces_the_runtimes() -> None:
    pending = PendingRecords()
    reported = opened(pending, "1").reported
    pending.join(event(START, "1", tenantId="blue"))
    pending.join(event(REPORT, "1", status="timeout", duration_ms=30))
    pending.join(event(RUNTIME_DONE, "1", status="timeout", duration_ms=20))
    assert (reported.duration_ms, reported.status, reported.tenant_id) == (30, "timeout", "blue")


# Out of memory


def ended(
    level_mib: float = 100,
    reason: str = "failure",
    kills: int | None = 0,
    mark: float | None = None,
    growth: tuple[float, float] | None = None,
    holder: dict[str, object] | None = None,
    **said: Any,
) -> PendingRecord:
    """An invocation at the end of which everybody held `level_mib`, for which SHUTDOWN gave `reason` ("": none).
    `growth`: MiB/s, and ms from its last sample to the end that the platform says."""
    record = PendingRecord("r", 1, 0)
    record.killed(kills)
    record.join(event(REPORT, mark_mib=mark, **said))
    mib_per_s, unseen_ms = growth or (0, 0)
    if reason:
        kib_per_s = mib_per_s * MIB if growth else None
        record.died(DeathReport(reason, round(level_mib * MIB), kib_per_s, holder or {}))
    if growth:
        record.close(Measured(window(curve=curve((1000, 50)))))
        record.join(event(RUNTIME_DONE, time_ms=1000 + unseen_ms))
    return record


KILLED: dict[str, Any] = {"status": "error", "errorType": "Runtime.ExitError"}
ALL = ["Runtime.OutOfMemory", "kernel", "exit-at-limit", "mark-at-limit"]
NAMED: dict[str, Any] = {"status": "error", "errorType": "Runtime.OutOfMemory"}
TOO_LARGE: dict[str, Any] = {"status": "error", "errorType": "Function.ResponseSizeTooLarge"}
NOT_IMPORTED: dict[str, Any] = {"status": "error", "errorType": "Runtime.ImportModuleError"}
TIMED_OUT: dict[str, Any] = {"reason": "timeout", "status": "timeout"}


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
    "a timeout at the limit": (ended(**TIMED_OUT, level_mib=510), 0, ["timeout-at-limit"]),
    "a timeout": (ended(**TIMED_OUT, level_mib=200), 0, []),
    "a timeout of who has read files": (ended(**TIMED_OUT, level_mib=200, mark=512), 200, []),
    "a timeout, no telemetry": (ended(reason="timeout", level_mib=510), 0, ["timeout-at-limit"]),
    "killed, no telemetry": (ended(reason="failure", level_mib=510), 0, ["exit-at-limit"]),
    "an error of the response": (ended(**TOO_LARGE, level_mib=510), 0, []),
    "page cache fills the mark": (ended(reason="", status="success", mark=512), 100, []),
    "a child was killed": (ended(reason="", status="success", kills=1), 0, ["kernel"]),
    "an error that it lives on with": (ended(**NOT_IMPORTED, reason="", mark=512), 100, []),
}


@pytest.mark.parametrize(("record", "mark_before", "fired"), VERDICTS.values(), ids=VERDICTS)
def test_the_verdict(record: PendingRecord, mark_before: float, fired: list[str]) -> None:
    assert signals(record, LIMIT, mark_before) == fired


REACHED = {
    "it can have got there": (KILLED, None, 500, ["mark-at-limit"]),
    "but the kernel killed none": (KILLED, 0, 500, []),
    "it cannot have got there": (KILLED, None, 490, []),
    "a timeout": (TIMED_OUT, None, 500, ["mark-at-limit"]),
    "but the kernel killed none before the timeout": (TIMED_OUT, 0, 500, []),
    "a timeout that came before": (TIMED_OUT, None, 490, []),
}


@pytest.mark.parametrize(("said", "kills", "unseen_ms", "fired"), REACHED.values(), ids=REACHED)
def test_a_mark_at_the_size_counts_if_growth_can_have_reached_it(
    said: dict[str, Any], kills: int | None, unseen_ms: int, fired: list[str]
) -> None:
    record = ended(level_mib=100, kills=kills, mark=512, growth=(794, unseen_ms), **said)
    assert signals(record, LIMIT, 100) == fired


AGENT: dict[str, object] = {"extension": "agent", "rss": 400}
RUNTIME: dict[str, object] = {"process": "python3.13", "pid": 7, "rss": 400}
HOGS = {
    "it was the hog": (AGENT, 1, 0, [], 1),
    "and all live": (AGENT, 0, 1, [], 1),
    "and took one with it": (AGENT, 2, 0, ["kernel"], 1),
    "the function was the hog": (RUNTIME, 1, 0, ["exit-at-limit", "mark-at-limit"], 1),
    "who ended by itself": (AGENT, 0, 0, ["exit-at-limit", "mark-at-limit"], None),
}
SIZED = Config({b"AWS_LAMBDA_FUNCTION_MEMORY_SIZE": b"512"})


@pytest.mark.parametrize(("holder", "kills", "of_others", "fired", "on_the_line"), HOGS.values(), ids=HOGS)
def test_an_extension_that_the_kernel_killed_is_the_environments(
    holder: dict[str, object], kills: int, of_others: int, fired: list[str], on_the_line: int | None
) -> None:
    record = ended(510, kills=kills, mark=512, holder=holder, status="failure", errorType="Extension.Crash")
    record.others_killed(of_others)
    assert signals(record, LIMIT, 100) == fired
    assert finished(record, SIZED, "").properties.get("environmentKills") == on_the_line


GROWTH = st.tuples(st.floats(-1000, 1000), st.integers(-10, 2000))
LOW: dict[str, st.SearchStrategy[Any]] = {
    "level_mib": st.floats(0, 0.969 * LIMIT),
    "reason": st.sampled_from(["", "failure", "timeout"]),
    "kills": st.sampled_from([None, 0]),
    "mark": st.none() | st.sampled_from([0.3 * LIMIT, 0.97 * LIMIT, 0.99 * LIMIT, LIMIT]),
    "growth": st.none() | GROWTH,
    "status": st.sampled_from([None, "success", "error", "failure", "timeout"]),
    "errorType": st.sampled_from([None, "Runtime.ExitError", "Extension.Crash", "Sandbox.Timedout", "Function.X"]),
}


@settings(max_examples=3 * settings().max_examples)
@given(st.fixed_dictionaries(LOW), st.sampled_from([0.0, 0.5 * LIMIT, LIMIT]), st.integers(0, 2))
def test_a_low_level_is_no_verdict_but_the_platforms_or_kernels(
    low: dict[str, Any], mark_before: float, of_others: int
) -> None:
    """Nor unless it grew to the limit unseen."""

    def fired(**known: Any) -> list[str]:
        record = ended(**{**low, **known})
        record.others_killed(of_others)
        return signals(record, LIMIT, mark_before)

    mib_per_s, unseen_ms = low["growth"] or (0, 0)
    reached = low["level_mib"] + max(0, mib_per_s * unseen_ms / 1000)
    assert fired() == [] or (low["reason"] and fired() == ["mark-at-limit"] and reached > 0.969 * LIMIT)
    assert fired(status="error", errorType="Runtime.OutOfMemory")[0] == "Runtime.OutOfMemory"
    assert "kernel" in fired(errorType=None, kills=1)


def test_without_a_size_only_platform_and_kernel_can_tell() -> None:
    assert signals(ended(**KILLED, level_mib=9000, kills=1), 0, 0) == ["kernel"]


@given(st.lists(st.sampled_from(["kernel", "exit-at-limit", "mark-at-limit"]), unique=True))
def test_however_many_signals_it_counts_once(fired: list[str]) -> None:
    record = finished(ended(**KILLED), SIZED, "", fired)
    assert record.metrics.get("OutOfMemory", 0) == (1 if fired else 0)
    assert ("outOfMemory" in record.properties) == bool(fired)


FFMPEG = ("ffmpeg", 37, 300 * MIB)
NAMED_FFMPEG = {"process": "ffmpeg", "pid": 37, "rss": 300.0}
LARGE = {"agent": 301 * MIB}
READ = [status(0, 500)]


def last(mib: float, together: float = 0, **known: Any) -> Window:
    """What a look saw last, and what processes hold without counting shared pages twice, MiB."""
    return window(last=mib * MIB, together=together * MIB, **known)


ENDINGS: dict[str, tuple[Window, int, Any, dict[str, int], dict[str, object]]] = {
    "before the first look: that of the beginning": (window(baseline=50), 20, None, {}, {"level": 70.0}),
    "not read: who held most before that": (window(), 20, FFMPEG, {}, {"holder": NAMED_FFMPEG}),
    "who held most is named": (last(400), 20, FFMPEG, {}, {"level": 420.0, "holder": NAMED_FFMPEG}),
    "but not if it held more than there is by now": (window((0, 90)), 20, FFMPEG, {}, {"level": 110.0}),
    "it lived to be read": (
        last(400, closing=READ),
        0,
        FFMPEG,
        LARGE,
        {"level": 500.0, "holder": {"extension": "agent", "rss": 301.0}},
    ),
    "ten processes with the same 80 MiB": (last(900), 20, None, {}, {"level": 920.0}),
    "what they share counts once": (last(900, together=130), 20, None, {}, {"level": 130.0}),
    "fewer by now": (last(60, together=130), 20, None, {}, {"level": 80.0}),
}


@pytest.mark.parametrize(("closed", "others_mib", "largest", "extensions", "document"), ENDINGS.values(), ids=ENDINGS)
def test_the_ending_says_the_level_and_who_held_most(
    closed: Window, others_mib: int, largest: Any, extensions: dict[str, int], document: dict[str, object]
) -> None:
    assert death_report("timeout", closed, others_mib * MIB, largest, extensions).document() == document


def test_what_was_not_read_is_no_level() -> None:
    record = PendingRecord("r", 1, 0)
    record.died(death_report("timeout", window(), 20 * MIB, FFMPEG, {}))
    assert signals(record, LIMIT, 0) == []


# What was recorded of real deaths

RIGHT = {death.title: death for death in DEATHS}
RECORDED = seen()


def test_each_death_was_recorded_in_both_modes() -> None:
    both = {(title, exact) for title in RIGHT for exact in (False, True)}
    assert {(death.title, death.exact) for death in RECORDED} == both


@pytest.mark.parametrize("mark_before", [60, LIMIT], ids=["the mark was low", "the mark was at the size"])
@pytest.mark.parametrize("death", RECORDED, ids=lambda death: f"{death.title}{', exact mode' if death.exact else ''}")
def test_the_verdict_is_right_of_each(death: Death, mark_before: float) -> None:
    fired = signals(death.record(), LIMIT, mark_before)
    right = RIGHT[death.title]
    assert bool(fired) is right.out_of_memory, fired
    assert ("kernel" in fired) is (death.kernel_kills > 0 and right.killed != EXTENSION_DIED)


@pytest.mark.parametrize("told_by_shutdown", [False, True], ids=["with telemetry", "without"])
@pytest.mark.parametrize(
    "death", [death for death in RECORDED if RIGHT[death.title].killed != EXTENSION_DIED], ids=lambda death: death.title
)
def test_where_nothing_counts_kills_no_other_death_is_one(death: Death, told_by_shutdown: bool) -> None:
    """Nor does the platform name it: some are not told then, and none that is not so is."""
    if told_by_shutdown:
        death = death._replace(status=None, error_type=None, mark_mib=None)
    elif death.error_type == PLATFORM:
        death = death._replace(error_type="Runtime.ExitError")
    record = death.record(telemetry=not told_by_shutdown)
    record.killed(None)
    fired = signals(record, LIMIT, 60)
    assert RIGHT[death.title].out_of_memory or not fired
    assert fired or (death.level_mib or 0) < 0.97 * LIMIT
