"""The journal: what a killed process left is there for the next one, and nothing else is ever touched."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from truemem.records.journal import CURVE, SIZE, SLOTS, Journal
from truemem.support.private_file import PAGE, path_in

EVENT = b'{"eventType":"INVOKE","requestId":"r-1"}'


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "journal")


def killed(path: str, *lines: str) -> Journal:
    """What the next process finds after one that did `lines` and was killed."""
    program = f"from truemem.records.journal import Journal\nj = Journal({path!r})\n" + "\n".join(lines)
    program += "\nimport os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    subprocess.run([sys.executable, "-c", program], check=False, timeout=30)
    return Journal(path)


def test_the_first_process_finds_nothing(path: str) -> None:
    journal = Journal(path)
    assert (journal.problem, journal.history, journal.running, journal.records) == ("", b"", [], [])
    assert Path(path).stat().st_size == SIZE
    assert Path(path).stat().st_mode & 0o777 == 0o600


def test_a_closed_record_is_found_until_it_is_printed_and_may_repeat_while_it_is(path: str) -> None:
    kept = "j.remember('history')", "j.keep(1, 'one')", "j.printed(j.keep(2, 'two'))", "j.printing(j.keep(3, 'three'))"
    after = killed(path, *kept)
    assert after.history == b"history"
    assert sorted((entry.text, entry.may_repeat) for _, entry in after.records) == [(b"one", False), (b"three", True)]


def test_the_next_invocation_begins_before_the_one_before_it_is_closed(path: str) -> None:
    begun = [f"j.begin(1, 0, {EVENT!r})", f"j.begin(2, 9, {EVENT!r})"]
    assert len(killed(path, *begun).running) == 2
    Path(path).unlink()
    (entry,) = killed(path, *begun, "j.keep(1, 'one')").running
    assert entry.text.startswith(b"2 9 ")


def test_the_invocation_that_ran_is_found_with_its_curve_and_no_older_one(path: str) -> None:
    first = f"j.begin(7, 1700, {EVENT!r})", "j.checkpoint(7, '[1,2]')"
    after = killed(path, *first)
    assert [(entry.text, entry.curve) for entry in after.running] == [(b"7 1700 " + EVENT, b"[1,2]")]
    Path(path).unlink()
    after = killed(path, *first, "j.keep(7, '')", f"j.begin(9, 0, {EVENT!r})")
    assert [entry.curve for entry in after.running] == [b""]


def test_slots_are_used_again_and_never_more_than_there_are(path: str) -> None:
    journal = Journal(path)
    for number in range(1000):
        slot = journal.keep(number, "x" * 2000)
        assert slot is not None
        journal.printed(slot)
    kept = [journal.keep(number, "y") for number in range(SLOTS + 3)]
    assert kept.count(None) == 3
    assert Path(path).stat().st_size == SIZE


def test_what_does_not_fit_is_left_out(path: str) -> None:
    journal = Journal(path)
    assert journal.keep(1, "x" * PAGE) is None
    journal.begin(1, 0, b"x" * CURVE)
    journal.checkpoint(1, "x" * CURVE)
    assert journal.keep(1, "x" * (PAGE - 2)) is not None
    assert journal.problem == ""


def test_after_the_end_of_the_environment_nothing_is_left(path: str) -> None:
    journal = Journal(path)
    journal.remember("history")
    journal.remove()
    assert not Path(path).exists()
    assert journal.keep(1, "x") is None  # and nothing fails


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
    assert journal.keep(1, "x") is None


def test_another_process_that_lives_has_it(path: str) -> None:
    program = f"""from truemem.records.journal import Journal
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


def test_an_error_while_writing_ends_the_journal_rather_than_leave_it_behind(path: str) -> None:
    journal = Journal(path)
    journal.remember("history")
    limit = os.open("/dev/full", os.O_WRONLY)
    os.dup2(limit, journal._descriptor)
    os.close(limit)
    assert journal.keep(1, "x") is None
    assert "No space left" in journal.problem
    assert not Path(path).exists()


@pytest.mark.parametrize(
    ("tmpdir", "folder"),
    [("", "/tmp"), ("/tmp/of-mine/", "/tmp/of-mine"), ("/mnt/shared/tmp", "/tmp"), ("/tmp/../mnt", "/tmp")],
)
def test_it_lies_below_tmp_whatever_tmpdir_says(tmpdir: str, folder: str) -> None:
    environ = {b"TMPDIR": tmpdir.encode(), b"AWS_LAMBDA_RUNTIME_API": b"169.254.100.1:9001"}
    assert path_in(environ, "truemem") == f"{folder}/.truemem-truemem-16925410019001"
