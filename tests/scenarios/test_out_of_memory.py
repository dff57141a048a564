"""Out of memory, with real kills by the kernel: what the record of that hour says, and who it blames."""

import json
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from truemem_workbench.local import Function

from faults.deaths import DEATHS, die, judge
from faults.subject import Subject
from testing.environment import EXTENSIONS, SIDECAR, Environment, Record
from tests.local.conftest import needs_cgroups

pytestmark = needs_cgroups

VENDOR = EXTENSIONS / "vendor.py"
KILLED = Path(__file__).with_name("killed.py")


def killed(environment: Environment, do: str = "hold", **event: float) -> Record:
    """One invocation before it, the one that dies, one after it; the record of the second, the only one that counts."""
    environment.invoke(mib=3)
    assert environment.attempt(do, **event).function_error == "Unhandled"
    environment.invoke(mib=3)
    before, record, after = environment.told()
    assert (before.OutOfMemory, after.OutOfMemory) == (None, None)
    return record


def fill(environment: Environment) -> None:
    """Hold 126 of 128 MiB until the timeout."""
    environment.invoke(mib=3)
    resting = sum(psutil.Process(pid).memory_info().rss for pid in environment.local.processes().values()) >> 20
    environment.attempt(mib=126 - resting, ms=60_000)


def scores(environment: Environment) -> dict[str, int]:
    """oom_score_adj of each process."""
    pids = environment.local.processes()
    return {name: int(Path(f"/proc/{pid}/oom_score_adj").read_text()) for name, pid in pids.items()}


@pytest.mark.smoke
def test_a_killed_invocation_tells_the_end_of_its_curve() -> None:
    with Environment(memory_mib=128) as environment:
        record = killed(environment, mib=400)
    assert record.OutOfMemory == 1
    assert {"Runtime.OutOfMemory", "kernel"} <= set(record.outOfMemory["signals"])
    assert (record.status, record.errorType, record.closedBy) == ("error", "Runtime.OutOfMemory", "shutdown")
    levels = [mib for _, mib in record.lastSamples]
    assert record.ending["level"] > levels[0]
    assert record.ending["growthPerSecond"] >= 0  # 0 where it was at the limit for a second before the kill
    assert record.ending["holder"]["rss"] == levels[-1] == record.CurrentRSS
    assert record.ending["holder"]["process"].startswith("python")
    ago = [ms for ms, _ in record.lastSamples]
    assert ago == sorted(ago, reverse=True)
    assert len(json.dumps([record.lastSamples, record.ending])) < 2048


@pytest.mark.smoke
def test_a_child_that_was_killed_while_its_function_lives() -> None:
    with Environment(memory_mib=128) as environment:
        environment.invoke("hog", mib=400, ms=60)
        environment.invoke(mib=3)
        first, second = environment.records()
    assert first.outOfMemory == {"signals": ["kernel"]}
    assert first.OutOfMemory == 1
    assert first.lastSamples is None  # it did not die
    assert second.OutOfMemory is None


def test_a_timeout_at_the_limit_alone_is_memorys_doing() -> None:
    with Environment(memory_mib=128, timeout_s=8, memory_limit="watch") as environment:  # time to touch it all
        fill(environment)
        environment.attempt(mib=20, ms=60_000)
        _, full, modest = environment.records()
    assert full.status == modest.status == "timeout"
    assert "timeout-at-limit" in full.outOfMemory["signals"]
    assert full.ending["level"] >= 0.97 * 128
    assert modest.OutOfMemory is None
    assert modest.ending["level"] < 100
    assert modest.lastSamples[-1][1] > 20


def test_a_timeout_that_only_shutdown_tells_of() -> None:
    """Without telemetry, as under AWS's emulator."""
    with Environment(memory_mib=128, timeout_s=8, memory_limit="watch", telemetry=202) as environment:
        fill(environment)
        before, full = environment.records()
    assert (before.status, full.status) == (None, "timeout")
    assert full.outOfMemory["signals"] == ["timeout-at-limit"]


@pytest.mark.nightly
def test_shared_memory_does_not_make_a_timeout_memorys_doing() -> None:
    often = {"TRUEMEM_CPU_BUDGET": "20"}  # what 128 MiB buy is a look each second
    family = Function.from_handler(f"{KILLED}:family")
    with Environment(family, memory_mib=128, timeout_s=6, environment=often) as environment:
        for event in ({}, {"mib": 30, "children": 5}, {"mib": 5, "children": 5, "until": 125.5}):
            environment.attempt(**event)
        _, shared, full = environment.records()
    assert shared.status == full.status == "timeout"
    assert shared.PeakRSS < 100  # what fork() hands on counts once
    assert shared.OutOfMemory is None
    assert 30 < shared.ending["level"] < 100
    assert full.outOfMemory["signals"] == ["timeout-at-limit"]
    assert full.ending["level"] >= 0.97 * 128


def test_an_init_that_runs_out_of_memory_is_in_the_log() -> None:
    """It has no invocation, and no extension hears of the one that pays for it."""
    with Environment(KILLED, memory_mib=128, environment={"GREEDY": "1"}) as environment:
        assert environment.attempt().function_error == "Unhandled"
        assert environment.records() == []
        told = [line for line in environment.log().splitlines() if "before its first invocation" in line]
    assert len(told) >= 1
    assert "out of memory (kernel" in told[0]
    ending = json.loads(told[0][told[0].index("{") :])
    assert ending["level"] > 90
    assert ending["growthPerSecond"] > 0
    assert len(ending["lastSamples"]) > 2


def test_an_extension_that_ate_the_memory_is_named() -> None:
    with Environment(extensions=[VENDOR], memory_mib=128, environment={"EATS": "1"}) as environment:
        environment.invoke(mib=3)
        environment.attempt(mib=3, ms=60_000)
        environment.invoke(mib=3)
        before, died, after = environment.records()
    assert [record.OutOfMemory for record in (before, died, after)] == [None, None, None]
    assert (died.errorType, died.environmentKills) == ("Extension.Crash", 1)
    assert died.ending["holder"]["extension"] == VENDOR.name
    assert died.ending["holder"]["rss"] > died.CurrentRSS


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize(("kib", "invocations"), [(9000, 28), pytest.param(500, 450, marks=pytest.mark.nightly)])
def test_an_extension_that_hoards_is_on_the_line_of_its_end(kib: int, invocations: int, exact: bool) -> None:
    """It keeps so much of each invocation, and they follow each other without a pause, until the kernel kills it, once.
    No line blames the function."""
    kept = {"KEEPS_KIB": str(kib)}
    with Environment(extensions=[VENDOR], memory_mib=192, exact=exact, environment=kept) as environment:
        for _ in range(invocations):
            environment.attempt(mib=3)
        records = environment.told()
        failed = [report for report in environment.local.reports if report.status != "success"]
    (report,) = failed
    assert report.error_type == "Extension.Crash"
    died = [record for record in records if record.environmentKills or record.errorType or record.ending]
    assert [record.requestId for record in died] == [report.request_id]
    assert (died[0].environmentKills, died[0].status, died[0].errorType) == (1, "error", "Extension.Crash")
    assert died[0].ending["holder"]["extension"] == VENDOR.name
    assert died[0].ending["holder"]["rss"] > 140
    assert not any(record.OutOfMemory for record in records)


@pytest.mark.parametrize("do", ["crash", "leave"])
def test_a_crash_with_the_mark_at_the_size_is_not_memorys_doing(do: str) -> None:
    with Environment(memory_mib=128) as environment:
        environment.attempt(mib=400)
        environment.attempt(do, mib=20, ms=1000)
        first, second = environment.records()
    assert first.OutOfMemory == 1
    assert (second.errorType, second.OutOfMemory) == ("Runtime.ExitError", None)
    assert second.lastSamples[-1][1] > 20
    # The environment's history goes on. (Of the first, samples are all that is left: they may have missed its end.)
    assert second.highWaterMark == max(first.highWaterMark, second.PeakRSS)


@pytest.mark.parametrize(("setting", "expected"), [(None, 100), ("300", 300), ("0", 0)])
def test_the_function_is_to_die_before_us(setting: str | None, expected: int) -> None:
    with Environment(environment={"TRUEMEM_OOM_SCORE_ADJ": setting} if setting else {}) as environment:
        environment.invoke()
        found = scores(environment)
    own = int(Path("/proc/self/oom_score_adj").read_text())
    assert found == {"runtime": max(expected, own), f"extension:{environment.name}": own}


SOME = (
    "page cache, then timeout",
    "page cache, then exit with 1",
    "MemoryError, caught",
)
"""Of faults/deaths.py, at one size: those of which no test here says more."""


@pytest.mark.parametrize("title", SOME)
def test_the_record_of_a_death_says_what_is_so(title: str) -> None:
    (death,) = (death for death in DEATHS if death.title == title)
    assert judge(death, die(Subject(SIDECAR), death, 128)) == []


def test_a_killed_daemon_is_not_blamed_on_a_later_invocation() -> None:
    """The sidecar may not know it: it has no variables, and its parent has ended. The last one ends a process."""
    with Environment(Function.from_handler(f"{KILLED}:daemon"), memory_mib=128) as environment:
        for do in ("start", "idle", "grow", "idle", "run"):
            environment.invoke(do)
        assert environment.local.environment.memory.kills() == 1
        records = environment.records()
    told = [(record.OutOfMemory or 0) + (record.environmentKills or 0) for record in records]
    assert told == [0, 0, 1, 0, 0]


@pytest.mark.parametrize("exact", [False, True])
def test_a_left_childs_kill_is_on_its_own_line_or_on_none(exact: bool) -> None:
    """Short invocations follow each other while it dies. A line that claims no kill of its own has the count."""
    with Environment(Function.from_handler(f"{KILLED}:leaves"), memory_mib=128, exact=exact) as environment:
        environment.invoke("idle")
        for _ in range(3):
            before = environment.invoke("leave")["before"]
            while environment.invoke("run")["after"] == before:
                environment.invoke("idle")
            time.sleep(0.3)
            environment.invoke("run")
        environment.invoke("idle")
        answers: list[Any] = [made.payload for made in environment.invocations]
        records = environment.told()
    kernel = answers[-1]["after"]
    assert kernel
    for at, record in enumerate(records[1:-1], 1):
        if record.OutOfMemory:  # between the end of the one before and the beginning of the next
            assert answers[at + 1]["before"] > answers[at - 1]["after"]
    assert sum(record.environmentKills or 0 for record in records) + sum(bool(r.OutOfMemory) for r in records) <= kernel
