"""What the demo prints is text, whatever a function's error is called."""

from __future__ import annotations

import dataclasses

import pytest
from truemem_workbench.demo.__main__ import _print
from truemem_workbench.demo.run import Outcome
from truemem_workbench.demo.verdict import Row


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
