"""The table: every invocation, doubt where there is doubt; and all that is printed is text."""

import dataclasses
import io

import pytest
from rich.console import Console
from truemem_workbench.demo.replay import Outcome, _print, bar, table
from truemem_workbench.demo.verdict import Row
from truemem_workbench.demo.workload import Call

from tests.demo.conftest import MakeRow


@pytest.mark.parametrize(("width", "bars"), [(80, False), (110, True)])
def test_every_invocation_has_its_line(spike_run: list[Row], make_row: MakeRow, width: int, bars: bool) -> None:
    rows = [
        *spike_run,
        make_row(31, 1234.5, 1200.1, 1300, batch=2000, peakLower=1100, raced=True),
        make_row(32, 100, 90, 110, peakLower=99.6),  # no interval: what the kernel does not know anyway
        Row(number=33, call=Call(1), record=None, mark=1),
        Row(number=34, call=Call(1), record=None, mark=1, error="Runtime.ExitError"),
    ]
    stream = io.StringIO()
    Console(file=stream, width=width).print(table(rows, bars=bars))
    lines = [line.rstrip() for line in stream.getvalue().splitlines()]

    figures = [line.split()[:7] for line in lines if line.split() and line.split()[0].isdigit()]
    assert len(figures) == 34
    assert figures[31] == ["32", "32", "1", "100.0", "90.0", "110", "vmhwm"]
    assert [line.split()[0] for line in lines if "no record" in line] == ["33"]
    assert [line.split()[0] for line in lines if "ExitError" in line] == ["34"]
    assert figures[4] == ["5", "5", "4,000", "500.0", "201.0", "512", "vmhwm"]
    assert figures[5] == ["6", "6", "1", "210.0", "200.0", "512", "vmhwm"]
    assert any("1234.5 (1100-1234)" in line and "vmhwm, raced" in line for line in lines)
    assert ("█" in stream.getvalue()) == bars
    assert max(map(len, lines)) <= width


def test_the_bar_shows_current_peak_and_mark(make_row: MakeRow) -> None:
    row = make_row(1, peak=50, current=25, mark=100)
    assert bar(row, full=100).plain == "█" * 6 + "▒" * 6 + " " * 12 + "│"


def test_an_error_is_shown_and_not_obeyed(spike_run: list[Row], capsys: pytest.CaptureFixture[str]) -> None:
    error = "Runtime.[bold]\x1b[2J[/api]"
    rows = [dataclasses.replace(spike_run[0], error=error), *spike_run[1:]]
    outcome = Outcome(rows, [], "nothing", [f"notice {error}"], 1.0)
    _print(outcome, workload="w", settings="128 MiB", files=[], after=None)

    out = capsys.readouterr().out
    shown = "Runtime.[bold]\\x1b[2J[/api]"
    assert "\x1b[2J" not in out
    assert f"notice {shown}" in " ".join(out.split())
    assert f"({shown})" in " ".join(out.split())
    assert "[bold]The ONNX" not in out
