"""The table: every invocation, doubt where there is doubt; and all that is printed is text."""

import dataclasses
import io

import pytest
from rich.console import Console
from truemem_workbench.demo.replay import Outcome, _print, bar, method, peak, table
from truemem_workbench.demo.verdict import Row
from truemem_workbench.demo.workload import Call

from tests.demo.conftest import MakeRow


@pytest.mark.parametrize(("width", "bars"), [(80, False), (110, True)])
def test_every_invocation_has_its_line(spike_run: list[Row], make_row: MakeRow, width: int, bars: bool) -> None:
    widest = make_row(31, 1234.5, 1200.1, 1300, batch=2000, peakLower=1100, raced=True)
    stream = io.StringIO()
    Console(file=stream, width=width).print(table([*spike_run, widest], bars=bars))
    lines = [line.rstrip() for line in stream.getvalue().splitlines()]

    figures = [line.split()[:7] for line in lines if line.split() and line.split()[0].isdigit()]
    assert len(figures) == 31
    assert figures[4] == ["5", "5", "4,000", "500.0", "201.0", "512", "vmhwm"]
    assert figures[5] == ["6", "6", "1", "210.0", "200.0", "512", "vmhwm"]
    assert any("1234.5 (1100-1234)" in line and "vmhwm, raced" in line for line in lines)
    assert ("█" in stream.getvalue()) == bars
    assert max(map(len, lines)) <= width


def test_the_bar_shows_current_peak_and_mark(make_row: MakeRow) -> None:
    row = make_row(1, peak=50, current=25, mark=100)
    assert bar(row, full=100).plain == "█" * 6 + "▒" * 6 + " " * 12 + "│"


def test_an_interval_is_printed_only_where_the_bounds_are_apart(make_row: MakeRow) -> None:
    assert peak(make_row(1, 100, 90, 110)) == "100.0"
    assert peak(make_row(1, 100, 90, 110, peakLower=99.6)) == "100.0"
    assert peak(make_row(1, 100, 90, 110, peakLower=80)) == "100.0 (80-100)"


def test_the_method_says_raced_lost_and_failed(make_row: MakeRow) -> None:
    assert method(make_row(1, 100, 90, 110)) == "vmhwm"
    assert method(make_row(1, 100, 90, 110, raced=True)) == "vmhwm, raced"
    assert method(Row(number=1, call=Call(1), record=None, mark=1)) == "no record"
    assert method(Row(number=1, call=Call(1), record=None, mark=1, error="Runtime.ExitError")) == "ExitError"


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
