"""What moves with another member of the lines hides no leak: not in the report, not on the page, not in the gate."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from truemem_workbench.analysis.drift import MOVER_MEMBERS
from truemem_workbench.analysis.finding import Finding
from truemem_workbench.check.measurement import Measurement, Recorded
from truemem_workbench.lines.line import parse_event
from truemem_workbench.page.environments import gather

from tests.report.conftest import Report
from tests.report.written import line

COUNT = 1024
LEAK_KIB = 8
STEPS = np.random.default_rng(4)
MOVES = np.repeat(STEPS.integers(4, size=COUNT), STEPS.geometric(1 / 15, COUNT))[:COUNT]

Written = list[str]
Judge = Callable[[Written], dict[str, Any]]


def beside(member: str, moves: float) -> dict[str, Any]:
    """The member of a line, with a figure that moves."""
    outer, _, inner = member.partition(".")
    return {outer: {inner: moves} if inner else moves}


def written(member: str | None, leak_kib: float = LEAK_KIB) -> Written:
    """An environment's lines: a leak, and 40 MiB that come and go with the member."""
    made = []
    for number, moves in enumerate(MOVES.tolist(), 1):
        held = 150 + 40 * moves + number * leak_kib / 1024
        more = beside(member, 10 + moves) if member else {}
        made.append(line("a", number, PeakRSS=held, CurrentRSS=held, memoryLimit=10240, **more))
    return made


def on_the_page(lines: Written) -> Finding:
    (environment,) = gather(parsed for text in lines for parsed in parse_event(text))
    return environment.finding


def in_the_gate(lines: Written, **more: Any) -> Measurement:
    seen = [Recorded(number, parse_event(text)[0]) for number, text in enumerate(lines, 1)]
    return Measurement("app.py:handler", seen, len(lines), 0, 10240, 1.0, **more)


@pytest.mark.parametrize("member", MOVER_MEMBERS)
def test_a_leak_is_found_behind_what_moves_with_a_member(report: Report, member: str) -> None:
    (environment,) = report(written(member))["environments"]
    said, gate = environment["finding"], in_the_gate(written(member))
    assert said["perInvocationKiB"] == pytest.approx(LEAK_KIB, rel=0.05)
    assert said["cause"] == on_the_page(written(member)).cause == gate.finding.cause == "leak"
    assert gate.verdict.explained == member


def test_without_a_leak_none_is_found() -> None:
    lines = written(MOVER_MEMBERS[0], leak_kib=0)
    assert not on_the_page(lines).grows
    assert not in_the_gate(lines).finding.grows


def test_in_the_gate_it_is_found_by_the_event_as_well() -> None:
    lines = written(None)
    assert in_the_gate(lines).finding.cause != "leak"
    gate = in_the_gate(lines, events=[f"event {moves}" for moves in MOVES.tolist()])
    assert (gate.finding.cause, gate.verdict.explained) == ("leak", "event")
