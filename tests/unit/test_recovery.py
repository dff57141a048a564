"""What a killed process left in the journal, as lines: each invocation once, marked, and nothing that is not ours."""

from __future__ import annotations

import contextlib
import json
import posix
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from truemem.config import Config
from truemem.measure.window import Window, peak
from truemem.records import emf
from truemem.records.environment_state import EnvironmentState
from truemem.records.journal import Journal
from truemem.records.journal_text import curve, journal_text
from truemem.records.out_of_memory import DeathReport
from truemem.records.pending_record import PendingRecord
from truemem.records.publisher import Publisher
from truemem.records.record import finished
from truemem.records.recovery import records
from truemem.support.minijson import dumps

EVENT = b'{"eventType":"INVOKE","deadlineMs":1,"requestId":"%s"}'
CONFIG = Config({b"AWS_LAMBDA_FUNCTION_MEMORY_SIZE": b"128"})
BEGUN_MS = 1_700_000_000_000


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "journal")


def record(number: int, mib: int = 50) -> PendingRecord:
    """One that is closed."""
    made = PendingRecord(f"r-{number}", number, BEGUN_MS + number)
    made.window = Window(10 * 1024, 0, True)
    made.window.sampled = made.window.last = mib * 1024
    made.peak = peak(made.window)
    return made


def left(journal: Journal, *records: PendingRecord) -> list[int | None]:
    """Put closed records into the journal; their slots."""
    return [journal.keep(each.invocation, journal_text(finished(each, CONFIG, ""))) for each in records]


def recovered(path: str, kills: int = 0, history: EnvironmentState | None = None) -> list[dict[str, Any]]:
    """The lines that the next process prints."""
    found = records(Journal(path), history or EnvironmentState(), CONFIG, kills)
    return [json.loads(emf.line(record, CONFIG)) for record in found]


def ran(path: str, *looks: tuple[int, float], number: int = 3, read: bool = True, **held: Any) -> Journal:
    """The journal of a process that was killed while the invocation `number` ran, with its curve: (ms, MiB).
    `read`: its levels are known."""
    journal = Journal(path)
    window = Window(10 * 1024 * read, 0, True)
    for ms, mib in looks:
        window.curve.see((BEGUN_MS + ms) * 1_000_000, round(mib * 1024))
    level = round(looks[-1][1] * 1024)
    if read:
        window.sampled = window.last = level
    largest = ("python3.13", 9, level) if held.get("largest", read) else None
    journal.begin(number, BEGUN_MS, EVENT % b"r-%d" % number)
    running = PendingRecord(f"r-{number}", number, BEGUN_MS)
    journal.checkpoint(number, curve(running, window, largest, held.get("others_kib", 5 * 1024), {}))
    return journal


def test_closed_records_come_in_their_order_and_are_marked(path: str) -> None:
    left(Journal(path), record(2), record(1))
    first, second = recovered(path)
    assert (first["requestId"], second["requestId"]) == ("r-1", "r-2")
    assert first["recovered"] is True
    assert first["PeakRSS"] == 50
    assert [metric["Name"] for metric in first["_aws"]["CloudWatchMetrics"][0]["Metrics"]] == ["PeakRSS", "CurrentRSS"]
    assert first["_aws"]["Timestamp"] == 1_700_000_000_001


def test_what_may_have_been_printed_makes_no_metrics(path: str) -> None:
    journal = Journal(path)
    (slot,) = left(journal, record(1))
    assert slot is not None
    journal.printing(slot)
    (line,) = recovered(path)
    assert line["mayRepeat"] is True
    assert "_aws" not in line
    assert line["PeakRSS"] == 50


def test_the_invocation_that_ran_has_the_end_of_its_curve(path: str) -> None:
    ran(path, *((ms, 10 + ms) for ms in range(0, 100, 10)))
    history = EnvironmentState()
    (line,) = recovered(path, kills=1, history=history)
    assert (line["requestId"], line["invocation"], line["recovered"]) == ("r-3", 3, True)
    assert (line["peakLower"], line["method"]) == (100, "sampled")
    assert line["outOfMemory"] == {"signals": ["kernel"]}
    assert line["OutOfMemory"] == 1
    holder = {"process": "python3.13", "pid": 9, "rss": 100}
    ending = {"level": 105, "growthPerSecond": 1000, "holder": holder, "lastSampleTime": BEGUN_MS + 90}
    assert line["ending"] == ending
    assert line["lastSamples"][-2:] == [[10, 90], [0, 100]]
    assert history.invocations == 3


def test_a_burst_long_before_the_kill_is_no_growth_at_its_end(path: str) -> None:
    calm = [(1000 * second, 110) for second in range(1, 6)]
    ran(path, (0, 10), (50, 60), (100, 110), *calm, largest=False, others_kib=0)
    (line,) = recovered(path)
    assert line["ending"] == {"level": 110, "growthPerSecond": 0, "lastSampleTime": BEGUN_MS + 5000}
    assert line["lastSamples"][:3] == [[5000, 10], [4950, 60], [4900, 110]]


def test_of_one_of_which_nothing_was_read_there_are_no_zeros(path: str) -> None:
    ran(path, (0, 0), read=False)
    (line,) = recovered(path)
    assert not {"PeakRSS", "CurrentRSS", "ending", "lastSamples", "baselineRSS"} & line.keys()


@pytest.mark.parametrize(("mib", "signals"), [(120, {"signals": ["exit-at-limit"]}), (100, None)])
def test_a_sidecar_that_died_with_all_at_the_limit_is_a_signal(path: str, mib: int, signals: Any) -> None:
    ran(path, (0, mib))
    (line,) = recovered(path)
    assert line.get("outOfMemory") == signals


def test_of_two_invocations_only_the_one_that_ran_has_died(path: str) -> None:
    """The second event had come: whatever the kernel has killed, the first was at its end."""
    for number in (3, 4):
        ran(path, (0, 125), number=number)
    first, second = recovered(path, kills=1)
    assert (first["requestId"], first["PeakRSS"]) == ("r-3", 125)
    assert not {"OutOfMemory", "outOfMemory", "ending", "lastSamples"} & first.keys()
    assert second["outOfMemory"] == {"signals": ["kernel", "exit-at-limit"]}
    assert second["ending"]["level"] == 130


def test_one_that_ran_is_told_once_and_a_retry_is_not_the_attempt_before_it(path: str) -> None:
    """Killed before it cleared the running page; the numbers of the next process go on."""
    history = EnvironmentState()
    journal = Journal(path)
    journal.begin(1, BEGUN_MS, EVENT % b"r-1")
    (line,) = recovered(path)
    assert (line["requestId"], line["coldStart"]) == ("r-1", True)
    assert "PeakRSS" not in line  # nothing of it was seen
    journal.keep(1 + 1, dumps([0, {}, {**finished(record(1), CONFIG, "").properties}]))
    assert [line["requestId"] for line in recovered(path)] == ["r-1"]
    journal.begin(2, BEGUN_MS, EVENT % b"r-1")
    assert [(line["requestId"], line["invocation"]) for line in recovered(path)] == [("r-1", 1), ("r-1", 2)]
    left(journal, record(7))
    recovered(path, history=history)
    assert history.invocations == 7


class Killed(BaseException):
    """SIGKILL: nothing catches it."""


def live(path: str, requests: Sequence[str], writes: int, ends: bool = False) -> tuple[list[str], int]:
    """A process that serves these requests until it has written to a file so often, or has served the last; what it had
    noted by then, and how often it has written. `ends`: SHUTDOWN comes."""
    noted: list[str] = []
    opened: list[int] = []
    written = 0

    def until_killed(write: Callable[..., int]) -> Callable[..., int]:
        def counted(*arguments: Any) -> int:
            nonlocal written
            if written == writes:
                raise Killed
            written += 1
            return write(*arguments)

        return counted

    with pytest.MonkeyPatch.context() as patch, contextlib.suppress(Killed):
        for name in ("write", "pwrite"):
            patch.setattr(posix, name, until_killed(getattr(posix, name)))
        patch.setattr(posix, "open", noting(posix.open, opened))
        journal = Journal(path)
        history = EnvironmentState("boot")
        history.resume_from(journal.history)
        publisher = Publisher(CONFIG, True, history, journal, lambda: 0)
        publisher.recover(0)
        for request in requests:
            before = publisher.current()
            journal.begin(history.invocations + 1, BEGUN_MS, EVENT % request.encode())
            noted.append(request)
            if before is not None:
                before.closed = before.report_came = True
                publisher.keep(before)
            history.invocations += 1
            publisher.open(PendingRecord(request, history.invocations, BEGUN_MS))
            publisher.print_due(0.0)
        if ends:
            publisher.flush_all()
            journal.remove()
    if not ends:
        posix.close(opened[-1])
    return noted, written


def noting(call: Callable[..., int], results: list[int]) -> Callable[..., int]:
    def noted(*arguments: Any) -> int:
        results.append(call(*arguments))
        return results[-1]

    return noted


def test_killed_at_any_write_and_again_each_is_told_once(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    first, second, last = (["a1", "a2", "a3"], ["b1", "b2", "b3"], ["c1", "c2"])
    _, whole = live(str(tmp_path / "first"), first, -1)
    for at in range(1, whole + 1):
        _, whole_second = live_after(tmp_path / f"{at}", first, at, second, -1)
        for again in range(whole_second + 1):
            capfd.readouterr()
            path = tmp_path / f"{at}-{again}"
            noted, _ = live_after(path, first, at, second, again)
            noted += live(str(path), last, -1, ends=True)[0]
            told = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
            certain = [line["requestId"] for line in told if "mayRepeat" not in line]
            assert len(certain) == len(set(certain)), (at, again, told)
            assert {line["requestId"] for line in told} == set(noted), (at, again)
            numbers = {line["requestId"]: line["invocation"] for line in told}
            assert len(set(numbers.values())) == len(numbers), (at, again, numbers)


def live_after(path: Path, first: list[str], writes: int, second: list[str], more_writes: int) -> tuple[list[str], int]:
    """Two processes, one after the other; what both had noted, and how often the second has written."""
    noted, _ = live(str(path), first, writes)
    more, written = live(str(path), second, more_writes)
    return noted + more, written


junk = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=20) | st.sampled_from(["r-1", "PeakRSS", "invocation"]),
    lambda inner: st.lists(inner, max_size=8) | st.dictionaries(st.text(max_size=12), inner, max_size=6),
    max_leaves=20,
)


@settings(max_examples=300, deadline=None)
@given(junk, junk, st.binary(max_size=200))
def test_whatever_the_function_writes_there_is_passed_over(
    tmp_path_factory: pytest.TempPathFactory, first: Any, second: Any, noise: bytes
) -> None:
    path = str(tmp_path_factory.mktemp("any") / "journal")
    journal = Journal(path)
    journal.remember("x")
    journal.keep(1, json.dumps(first))
    journal.keep(1, noise.decode("latin-1"))
    journal.keep(1, json.dumps([1, {"PeakRSS": second}, {"requestId": first, "invocation": second}]))
    journal.begin(2, 1, EVENT % b"r-2")
    journal.checkpoint(2, json.dumps(second))
    journal.begin(3, 1, json.dumps(first).encode())
    told = recovered(path)
    assert "r-2" in [line["requestId"] for line in told]
    assert all(isinstance(line["invocation"], int | float) for line in told)


def test_history_goes_on_and_no_other_boots() -> None:
    history = EnvironmentState("boot-1")
    history.identify("2026/11/21/[$LATEST]abc")
    history.invocations, history.high_water_mark, history.mark_mib, history.kills = 7, 1024, 94, None
    after = EnvironmentState("boot-1")
    assert after.resume_from(history.text().encode())
    assert (after.environment_id, after.invocations, after.high_water_mark) == ("2026/11/21/[$LATEST]abc", 7, 1024)
    assert after.resumed
    assert not EnvironmentState("boot-2").resume_from(history.text().encode())


@given(junk)
def test_a_history_that_is_not_one_is_not_taken_over(text: Any) -> None:
    history = EnvironmentState("boot")
    before = history.text()
    assert not history.resume_from(json.dumps(text).encode())
    assert history.text() == before


def test_an_ending_of_a_killed_sidecar_has_no_reason() -> None:
    assert DeathReport("", 1024, None, {}).document() == {"level": 1.0}
