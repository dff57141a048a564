"""Measurements of invented runs, written as the sidecar would print them; and the command itself."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from truemem_workbench.commands.__main__ import cli
from truemem_workbench.explain import run
from truemem_workbench.printed.line import parse_event
from truemem_workbench.runs.measurement import Measurement, Recorded

from tests.report.written import line

FUNCTIONS = Path(__file__).with_name("functions")
LEAKY = f"{FUNCTIONS / 'leaky.py'}:handler"
STEADY = f"{FUNCTIONS / 'steady.py'}:handler"

FEW = (*run.JITTER[:4], 0.0)  # looks of a tracer: ten, as a user has them, take twice the time
Check = Callable[..., Result]
Refused = Callable[..., str]


def emf(number: int, current: float, peak: float, **members: Any) -> str:
    """A line of the sidecar, MiB."""
    ours = {"_aws": {"Timestamp": 1_760_000_000_000 + 100 * number}, "requestId": f"request-{number}"}
    sizes = {"CurrentRSS": current, "PeakRSS": peak, "memoryLimit": 256, "MaxMemoryUsed": None}
    return line("one", number, **{"environmentId": "one", "holders": None, **ours, **sizes, **members})


def recorded(number: int, current: float, peak: float, **members: Any) -> Recorded:
    (parsed,) = parse_event(emf(number, current, peak, **members))
    return Recorded(number, parsed)


def run_of(currents: Sequence[float], *, spike: float = 5, warm_up: int = 0, **members: Any) -> Measurement:
    """Invocations that left these levels behind, MiB, each with a peak `spike` above its own."""
    made = [recorded(number, current, current + spike) for number, current in enumerate(currents, 1)]
    settings: dict[str, Any] = {"spec": "app.py:handler", "memory_mib": 256, "seconds": 3.0} | members
    return Measurement(seen=made, invocations=len(made), warm_up=warm_up, **settings)


def ending_with(last: Recorded, run: Measurement) -> Measurement:
    """The same run, but for its last invocation."""
    return replace(run, seen=[*run.seen[:-1], last])


LEVEL = [50.0] * 200
"""As flat as can be."""
LEAK = [50 + 0.0078125 * number for number in range(200)]
"""8 KiB with each invocation."""
NOISY = [level + (number * 37 % 100) / 100 for number, level in enumerate(LEAK)]
"""The same, and up to 1 MiB that comes and goes."""
FILLING = [50 + 8 * (1 - math.exp(-number / 120)) for number in range(400)]
"""A cache that has not filled yet."""


@pytest.fixture
def invoke_check(monkeypatch: pytest.MonkeyPatch) -> Check:
    """`truemem check ARGUMENTS`, in this process. A test that wants the lines of a leak asks for them: `--explain`."""
    monkeypatch.setattr(run, "LOOKS", len(FEW))
    monkeypatch.setattr(run, "JITTER", FEW)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    monkeypatch.setattr("truemem_workbench.support.exit_codes.raise_on_signals", lambda: None)  # they are pytest's

    def invoke(*arguments: object, stdin: str | None = None) -> Result:
        given = list(map(str, arguments))
        if not any("explain" in each or each.endswith(".html") for each in given):
            given.append("--no-explain")
        return CliRunner().invoke(cli, ["check", *given], input=stdin)

    return invoke


@pytest.fixture
def refused(invoke_check: Check) -> Refused:
    """What `truemem check ARGUMENTS` says where it takes nothing on: one short line, and exit code 2."""

    def invoke(*arguments: object, stdin: str | None = None) -> str:
        done = invoke_check(*arguments, stdin=stdin)
        assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.output
        assert len(done.stderr) < 2200
        return done.stderr

    return invoke
