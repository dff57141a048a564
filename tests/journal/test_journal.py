"""The journal: what a killed process left is there for the next one, whose lines tell each invocation once, marked; and
nothing else is ever touched, or taken for ours."""

import contextlib
import json
import os
import posix
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from truemem.config import Config
from truemem.journal import CURVE, FIRST_SLOT_PAGE, SIZE, SLOTS, Journal, journal_text
from truemem.journal import recovered as recovered_records
from truemem.measure.window import Window
from truemem.platform.telemetry import REPORT
from truemem.records.pending_record import EnvironmentState, Measured, PendingRecord
from truemem.records.record import InvocationRecord, finished
from truemem.records.record import line as line_of
from truemem.support.files import PAGE_BYTES, path_in
from truemem.support.minijson import loads
from truemem.wings import Wing, Wings

from tests.records import BEGUN_MS, MIB, event, publisher_of, window
from tests.records import curve as curve_of

EVENT = b'{"eventType":"INVOKE","deadlineMs":1,"requestId":"r-%d"}'
SIZED = {b"AWS_LAMBDA_FUNCTION_MEMORY_SIZE": b"128"}
CONFIG = Config(SIZED)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "journal")


IMPORTS = """
from truemem.journal import Journal
from truemem.measure.window import Window
from truemem.records.pending_record import PendingRecord
from tests.journal.test_journal import small
"""


def small(request_id: str) -> InvocationRecord:
    """A record that says no more."""
    return InvocationRecord(0, {}, {"requestId": request_id})


def killed(path: str, *lines: str) -> Journal:
    """What the next process finds after one that did `lines` and was killed."""
    program = f"{IMPORTS}\nj = Journal({path!r})\n" + "\n".join(lines)
    program += "\nimport os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    subprocess.run([sys.executable, "-c", program], check=False, timeout=30)
    return Journal(path)


def test_the_first_process_finds_nothing(path: str) -> None:
    journal = Journal(path)
    assert (journal.problem, journal.history, journal.running, journal.records) == ("", b"", [], [])
    assert Path(path).stat().st_size == SIZE
    assert Path(path).stat().st_mode & 0o777 == 0o600


def test_a_closed_record_is_found_until_it_is_printed(path: str) -> None:
    kept = (
        "j.remember('history')",
        "j.keep(1, small('1'))",
        "j.printed(j.keep(2, small('2')))",
        "j.printing(j.keep(3, small('3')))",
    )
    after = killed(path, *kept)
    assert after.history == b"history"
    found = [(loads(entry.text)[-1]["requestId"], entry.may_repeat) for _, entry in after.records]
    assert sorted(found) == [("1", False), ("3", True)]


def test_the_next_one_begins_before_the_one_before_is_closed(path: str) -> None:
    begun = [f"j.begin(1, 0, {EVENT % 1!r})", f"j.begin(2, 9, {EVENT % 1!r})"]
    assert len(killed(path, *begun).running) == 2
    Path(path).unlink()
    (entry,) = killed(path, *begun, "j.keep(1, small('1'))").running
    assert entry.text.startswith(b"2 9 ")


def test_the_one_that_ran_is_found_with_its_own_curve(path: str) -> None:
    first = f"j.begin(7, 1700, {EVENT % 1!r})", "j.checkpoint(PendingRecord('', 7, 0), Window(5), None, 0, {})"
    after = killed(path, *first)
    assert [(entry.text, entry.curve) for entry in after.running] == [(b"7 1700 " + EVENT % 1, b"[5,0,0,5,{},[]]")]
    Path(path).unlink()
    after = killed(path, *first, "j.keep(7, small(''))", f"j.begin(9, 0, {EVENT % 1!r})")
    assert [entry.curve for entry in after.running] == [b""]


def test_slots_are_used_again_and_never_more_than_there_are(path: str) -> None:
    journal = Journal(path)
    for number in range(1000):
        slot = journal.keep(number, small("x" * 2000))
        assert slot is not None
        journal.printed(slot)
    kept = [journal.keep(number, small("y")) for number in range(SLOTS + 3)]
    assert kept.count(None) == 3
    assert Path(path).stat().st_size == SIZE


def test_what_does_not_fit_is_left_out(path: str) -> None:
    journal = Journal(path)
    room = PAGE_BYTES - 2 - len(journal_text(small("")))
    assert journal.keep(1, small("x" * (room + 1))) is None
    journal.begin(1, 0, b"x" * CURVE)
    journal.checkpoint(record(1), Window(5), ("x" * CURVE, 9, 5), 0, {})
    assert journal.keep(1, small("x" * room)) is not None
    assert journal.problem == ""


def test_after_the_end_of_the_environment_nothing_is_left(path: str) -> None:
    journal = Journal(path)
    journal.remember("history")
    journal.remove()
    assert not Path(path).exists()
    assert journal.keep(1, small("x")) is None  # and nothing fails


@pytest.mark.parametrize("link", [True, False], ids=["symbolic link", "hard link"])
def test_a_link_is_never_followed(path: str, tmp_path: Path, link: bool) -> None:
    target = tmp_path / "target"
    target.write_bytes(b"t" * SIZE)
    target.chmod(0o600)
    Path(path).symlink_to(target) if link else Path(path).hardlink_to(target)
    journal = Journal(path)
    journal.remember("history")
    assert target.read_bytes() == b"t" * SIZE
    assert not Path(path).is_symlink()
    assert journal.problem == ""


@pytest.mark.parametrize("kind", ["fifo", "another size", "readable by others"])
def test_what_is_not_ours_is_replaced(path: str, kind: str) -> None:
    if kind == "fifo":
        os.mkfifo(path, 0o600)
    else:
        Path(path).write_bytes(b"history\n" + b"x" * (SIZE - 8 if kind == "readable by others" else 10))
        Path(path).chmod(0o644 if kind == "readable by others" else 0o600)
    journal = Journal(path)
    assert (journal.problem, journal.history) == ("", b"")
    assert Path(path).stat().st_size == SIZE


@pytest.mark.parametrize("kind", ["folder", "no folder around it"])
def test_without_a_file_there_is_no_journal_and_a_reason(path: str, kind: str) -> None:
    if kind == "folder":
        Path(path).mkdir()
    else:
        path += "/none/journal"
    journal = Journal(path)
    assert journal.problem.startswith("no journal")
    assert journal.keep(1, small("x")) is None


def test_another_process_that_lives_has_it(path: str) -> None:
    program = f"""from truemem.journal import Journal
journal = Journal({path!r})
journal.remember("mine")
print("ready", flush=True)
input()"""
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"ready\n"
        journal = Journal(path)
        journal.remember("ours")
        assert journal.problem.startswith("no journal")
        assert Path(path).exists()
        other.communicate(b"\n", timeout=30)
    assert Journal(path).history == b"mine"


def test_an_error_while_writing_ends_and_removes_the_journal(path: str) -> None:
    journal = Journal(path)
    journal.remember("history")
    limit = os.open("/dev/full", os.O_WRONLY)
    os.dup2(limit, journal._descriptor)
    os.close(limit)
    assert journal.keep(1, small("x")) is None
    assert "No space left" in journal.problem
    assert not Path(path).exists()


@pytest.mark.parametrize(
    ("tmpdir", "folder"),
    [("", "/tmp"), ("/tmp/of-mine/", "/tmp/of-mine"), ("/mnt/shared/tmp", "/tmp"), ("/tmp/../mnt", "/tmp")],
)
def test_it_lies_below_tmp_whatever_tmpdir_says(tmpdir: str, folder: str) -> None:
    environ = {b"TMPDIR": tmpdir.encode(), b"AWS_LAMBDA_RUNTIME_API": b"169.254.100.1:9001"}
    assert path_in(environ, "truemem") == f"{folder}/.truemem-truemem-16925410019001"


DRAWN = {
    "when it has moved": ([(0, 100), (0, 110), (0, 163), (0, 165), (0, 220), (0, 240)], False, [0, 3, 5]),
    "urgent: when it has moved a little": ([(0, 240), (0, 250), (0, 257), (0, 260)], True, [0, 2]),
    "each second: it may end with an old burst": (
        [(ms, 100) for ms in (0, 500, 999, 1000, 1500, 2001)],
        False,
        [0, 3, 5],
    ),
}


@pytest.mark.parametrize(("looks", "urgent", "due"), DRAWN.values(), ids=DRAWN)
def test_the_curve_is_written_at_first_and_as_it_moves(
    looks: list[tuple[int, int]], urgent: bool, due: list[int]
) -> None:
    journal = Journal("", limit_kib=1024 * 1024)
    written = [journal.checkpoint_due(mib * 1024, urgent, ms * 1_000_000) for ms, mib in looks]
    assert [number for number, each in enumerate(written) if each] == due


# What the next process prints


def record(number: int, mib: int = 50) -> PendingRecord:
    """One that is closed."""
    made = PendingRecord(f"r-{number}", number, BEGUN_MS + number)
    made.close(Measured(window(baseline=10, sampled=mib * MIB, last=mib * MIB)))
    return made


def left(journal: Journal, *records: PendingRecord) -> list[int | None]:
    """Put closed records into the journal; their slots."""
    return [journal.keep(each.invocation, finished(each, CONFIG, "")) for each in records]


def recovered(path: str, kills: int = 0, history: EnvironmentState | None = None) -> list[dict[str, Any]]:
    """The lines that the next process prints."""
    found = recovered_records(Journal(path), history or EnvironmentState(), CONFIG, kills)
    return [json.loads(line_of(record, CONFIG)) for record in found]


def ran(path: str, *looks: tuple[int, float], number: int = 3, read: bool = True, **held: Any) -> Journal:
    """The journal of a process that was killed while the invocation `number` ran, with its curve: (ms, MiB).
    `read`: its levels are known."""
    journal = Journal(path)
    samples = curve_of(*((BEGUN_MS + ms, mib) for ms, mib in looks))
    level = round(looks[-1][1] * MIB)
    seen = window(baseline=10 * read, curve=samples, sampled=level * read, last=level * read)
    largest = ("python3.13", 9, level) if held.get("largest", read) else None
    journal.begin(number, BEGUN_MS, EVENT % number)
    running = PendingRecord(f"r-{number}", number, BEGUN_MS)
    journal.checkpoint(running, seen, largest, held.get("others_kib", 5 * MIB), {})
    return journal


def test_closed_records_come_in_their_order_and_are_marked(path: str) -> None:
    left(Journal(path), record(2), record(1))
    first, second = recovered(path)
    assert (first["requestId"], second["requestId"]) == ("r-1", "r-2")
    assert first["PeakRSS"] == 50
    assert first == json.loads(line_of(finished(record(1), CONFIG, "").having(recovered=True), CONFIG))
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


def test_where_nothing_was_read_there_are_no_zeros(path: str) -> None:
    ran(path, (0, 0), read=False)
    (line,) = recovered(path)
    assert not {"PeakRSS", "CurrentRSS", "ending", "lastSamples", "baselineRSS"} & line.keys()


@pytest.mark.parametrize(("mib", "signals"), [(120, {"signals": ["exit-at-limit"]}), (100, None)])
def test_a_sidecar_that_died_at_the_limit_is_a_signal(path: str, mib: int, signals: Any) -> None:
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


def test_one_that_ran_is_told_once_and_a_retry_is_another(path: str) -> None:
    """Killed before it cleared the running page; the numbers of the next process go on."""
    history = EnvironmentState()
    journal = Journal(path)
    journal.begin(1, BEGUN_MS, EVENT % 1)
    (line,) = recovered(path)
    assert (line["requestId"], line["coldStart"]) == ("r-1", True)
    assert "PeakRSS" not in line  # nothing of it was seen
    journal.keep(1 + 1, InvocationRecord(0, {}, finished(record(1), CONFIG, "").properties))
    assert [line["requestId"] for line in recovered(path)] == ["r-1"]
    journal.begin(2, BEGUN_MS, EVENT % 1)
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
        wing = Wing()
        wing.keeper = journal
        publisher = publisher_of(SIZED, history, wings=Wings([wing]))
        publisher.recover(0)
        for request in requests:
            before = publisher.current()
            journal.begin(history.invocations + 1, BEGUN_MS, EVENT.replace(b"r-%d", request.encode()))
            noted.append(request)
            if before is not None:
                before.close(Measured())
                before.join(event(REPORT))
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


@pytest.mark.parametrize(
    "written", [b"W\xff\n", b"Wnull\n", b"W[1]\n", b'W[1,{"PeakRSS":[]},{"requestId":5,"invocation":"x"}]\n', b"P\n"]
)
def test_what_the_function_writes_there_hides_no_invocation(path: str, written: bytes) -> None:
    """Anything at all: tests/fuzz."""
    journal = Journal(path)
    journal.begin(2, 1, EVENT % 2)
    os.pwrite(journal._descriptor, written, FIRST_SLOT_PAGE * PAGE_BYTES)
    assert "r-2" in [line["requestId"] for line in recovered(path)]
