"""How far a command is: at a terminal, in a log, and for a program that has started it."""

from __future__ import annotations

import json
import os
import pty
import select
from pathlib import Path

import pytest
from truemem_workbench.support import terminal


def test_in_a_log_a_line_comes_late_and_seldom(capsys: pytest.CaptureFixture[str]) -> None:
    owner = terminal.ProgressOwner("truemem check")
    said = {}
    for seconds in (0.5, 9.5, 10, 10.5, 19.5, 20, 59, 61, 71, 90.5, 91):
        owner.keep("measuring", int(20 * seconds), 2000)
        owner.tell(seconds)
        said[seconds] = capsys.readouterr().err

    assert [seconds for seconds, text in said.items() if text] == [10, 20, 59, 71]
    assert said[20] == "truemem check: measuring, 400 of 2,000, 20 s\n"


def test_a_phase_without_a_count_has_no_figure(capsys: pytest.CaptureFixture[str]) -> None:
    terminal.ProgressOwner("truemem explain").tell(12.4)

    assert capsys.readouterr().err == "truemem explain: starting, 12 s\n"


def test_a_part_of_what_is_shown_goes_on_with_it(capsys: pytest.CaptureFixture[str]) -> None:
    owner = terminal.ProgressOwner("truemem doctor")
    with owner.shown() as whole, owner.shown() as part:
        part("reading", 1, 2)
        owner.tell(10)
        whole("judging", 2, 2)
    owner.tell(20)

    assert [line.partition(": ")[2] for line in capsys.readouterr().err.splitlines()] == [
        "reading, 1 of 2, 10 s",
        "judging, 2 of 2, 20 s",
    ]


def test_a_program_finds_it_in_a_file_and_none_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "progress.json"
    monkeypatch.setenv(terminal.PROGRESS_FILE, str(place))
    monkeypatch.setattr(terminal, "WRITTEN_S", 0.01)
    monkeypatch.setattr(terminal, "QUICK_S", 0.0)
    found: dict[str, object] = {}
    with terminal.progress("reading (MiB)", 5 << 20, terminal.MIB) as done:
        done(3 << 20)
        while found.get("done") != 3:  # the test's own time limit ends it otherwise
            found = json.loads(place.read_text()) if place.exists() else {}

    assert found == {"phase": "reading (MiB)", "done": 3, "of": 5, "seconds": found["seconds"]}
    assert [*tmp_path.iterdir()] == [place]
    assert capsys.readouterr().err == ""


def test_a_terminal_shows_phase_and_count_while_time_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    controller, worker = pty.openpty()
    with os.fdopen(worker, "w") as file:
        monkeypatch.setattr("sys.stderr", file)
        shown = ""
        with terminal.steps() as step:
            step("measuring", 120, 400)
            while "0:00:01" not in shown:  # the test's own time limit ends it otherwise
                if select.select([controller], [], [], 0.1)[0]:
                    shown += os.read(controller, 65536).decode()
    os.close(controller)

    assert "measuring" in shown
    assert "120/400" in shown
