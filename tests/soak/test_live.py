"""The view of a soak that runs."""

import pytest
from rich.console import Console
from truemem_workbench.soak.live import live, shown
from truemem_workbench.soak.tally import Tally
from truemem_workbench.support import terminal

from tests.soak.seen import arrival, begun, ended, line, throttled


def seen() -> Tally:
    tally = begun("a", "b")
    tally.add(arrival(1.0, 20.0, "a", cold=True))
    tally.add(arrival(2.0, 20.0, "b", error="ValueError: no"))
    tally.add(throttled(3.0))
    tally.line(line(1, 1.0, "a", CurrentRSS=41.5, PeakRSS=99.25), "a")
    tally.change(ended("idle", "b", 4.0))
    return tally


def test_the_view_has_memory_latency_and_what_failed() -> None:
    console = Console(width=80)
    with console.capture() as captured:
        console.print(shown("app.py:handler", 300.0, seen(), "No leak."))
    text = captured.get()
    assert "app.py:handler: 4 s of 5 min" in text
    assert "2 served, 1 failed, 1 throttled, 1 cold start; 1 environment" in text
    assert "p50 20 ms" in text
    assert "41.5" in text
    assert "99.2" in text
    assert text.rstrip().endswith("No leak.")
    assert all(len(row) <= 80 for row in text.splitlines())


def test_without_a_terminal_a_line_says_how_far_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(terminal, "QUICK_S", 0.0)
    said = ""
    with live("app.py:handler", 300.0, lambda _: "never asked for") as show:
        show(seen())
        while "served" not in said:  # the test's own time limit ends it otherwise
            said = capsys.readouterr().err
    assert said.startswith("truemem: 2 requests served (seconds), 4 of 300, ")
