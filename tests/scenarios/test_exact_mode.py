"""Exact mode in the lives that an environment may have."""

import os
import signal
import socket
import sys
from pathlib import Path
from typing import Any

import pytest
from truemem_workbench.local import Function

from testing.environment import Environment
from testing.workload import Judgement
from tests.local.conftest import executable

HERE = Path(__file__).parent
PROXY = HERE / "extensions" / "proxy.py"
CLIENTS = HERE / "clients"


def free_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return str(taken.getsockname()[1])


def judged(environment: Environment, answers: list[dict[str, Any]]) -> list[Judgement]:
    """The last records, against what the function answered."""
    records = environment.told()[-len(answers) :]
    return [Judgement(record, answer, 512) for record, answer in zip(records, answers, strict=True)]


def test_init_ends_when_the_runtime_first_asks_for_an_event() -> None:
    with Environment(HERE.parent / "local" / "functions" / "init_spike.py", exact=True) as environment:
        environment.attempt()
        (record,) = environment.records()
    assert record.initPeakRSS > record.PeakRSS + 20
    assert record.initRaced is None
    assert record.mode == "exact"


def test_an_event_of_6_mb_belongs_to_its_own_invocation() -> None:
    with Environment(exact=True) as environment:
        environment.invoke(mib=1)
        environment.local.invoke({"do": "hold", "mib": 1, "padding": "x" * 6_000_000})
        for _ in range(2):  # the client keeps an event until it has the next one
            environment.invoke(mib=1)
        before, large, _, after = environment.records()
    assert large.requestBytes > 6_000_000
    assert large.PeakRSS > before.PeakRSS + 5
    assert after.PeakRSS < large.PeakRSS - 5
    assert before.raced is large.raced is after.raced is None


@pytest.mark.parametrize("initialization", ["provisioned-concurrency", "snap-start"])
def test_it_goes_on_after_a_wait_or_a_restore(initialization: str) -> None:
    with Environment(exact=True, initialization=initialization) as environment:
        environment.local.settle()
        for mib in (5, 1):
            environment.invoke(mib=mib)
        records = environment.records()
    assert [record.mode for record in records] == ["exact", "exact"]


@pytest.mark.smoke
def test_telemetry_is_not_needed() -> None:
    with Environment(exact=True, telemetry=202) as environment:
        judgements = judged(environment, [environment.invoke(mib=mib) for mib in (20, 1, 5)])
    for each in judgements:
        assert each.record.mode == "exact"
        assert each.exact


@pytest.mark.parametrize(
    ("variable", "exact"),
    [("TRUEMEM_EXEC_WRAPPER", True), ("AWS_LAMBDA_EXEC_WRAPPER", False)],
    ids=["behind ours", "in front of ours"],
)
def test_another_vendors_proxy(variable: str, exact: bool, tmp_path: Path) -> None:
    """Its wrapper sets an address of its own. Ours, if it comes after, sends the sidecar there. Else the runtime passes
    us by, and we say no more than we know."""
    tmp_path.chmod(0o755)
    port = free_port()
    text = f'#!/bin/sh\nexport AWS_LAMBDA_RUNTIME_API=127.0.0.1:{port}\nexec "$@"\n'
    variables = {"PROXY_PORT": port, variable: str(executable(tmp_path / "vendor", text))}
    with Environment(exact=exact, extensions=[PROXY], environment=variables) as environment:
        judgements = judged(environment, [environment.invoke(mib=mib) for mib in (20, 1, 5)])
    for each in judgements:
        assert each.record.mode == ("exact" if exact else None), environment.log()
        assert each.exact if exact else each.honest


@pytest.mark.parametrize(
    ("client", "spoils", "mode"),
    [
        ("patient", "refused anonymous cut-off short", "exact"),
        ("patient-per-call", "refused anonymous cut-off", "exact"),
        # On a new connection it may as well be another worker, which has got the first one's event once more.
        ("patient-per-call", "short", None),
    ],
)
def test_wrong_answers_before_the_event_belong_to_no_invocation(client: str, spoils: str, mode: str | None) -> None:
    """The runtime asks again; what it has held meanwhile, more than its handler holds, belongs to no invocation."""
    command = (sys.executable, str(CLIENTS / "chained.py"), sys.executable, str(CLIENTS / "shapes.py"), client)
    function = Function(command, CLIENTS, client, None, (CLIENTS,))
    vendor = {"PROXY_PORT": free_port(), "PROXY_SPOILS": spoils}
    with Environment(function, extensions=[PROXY], environment=vendor) as environment:
        judgements = judged(environment, [environment.invoke(mib=mib, ms=20) for mib in (5, 30, 1)])
    for each in judgements:
        assert each.record.mode == mode, environment.log()
        assert each.exact if mode else each.honest, each


def test_a_sidecar_that_stands_still_loses_nothing() -> None:
    with Environment(exact=True, freeze="off") as environment:
        environment.invoke(mib=1)
        sidecar = environment.local.processes()[f"extension:{environment.name}"]
        answers = []
        for mib in (20, 1, 5, 30):
            os.kill(sidecar, signal.SIGSTOP)
            os.kill(sidecar, signal.SIGCONT)
            answers.append(environment.invoke(mib=mib))
        judgements = judged(environment, answers)
    assert [each for each in judgements if not each.honest] == []
