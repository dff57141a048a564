"""TRUEMEM_HOLD=auto: exact where it holds, and whatever breaks, no invocation waits and no record pretends.

How long a hold may last is searched for in simulated time (tests/unit/test_every_hold_ends.py), and measured by
benchmarks/hold.py.
"""

from __future__ import annotations

import itertools
import random
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from truemem_workbench.local import Function

from tests.scenarios.environment import FUNCTIONS, Environment, Record
from tests.scenarios.test_survival import faulty
from tests.scenarios.workload import Judgement, events

LIMIT_MIB = 1769
EXTENSIONS = Path(__file__).parent / "extensions"
HOLDING = {"TRUEMEM_HOLD": "auto", "TRUEMEM_CPU_BUDGET": "10", "TRUEMEM_HOLD_BUDGET": "20"}
"""Enough that what is held does not depend on how quick the machine is."""

FAR_TOO_LONG_MS = 1000
"""Of functions with a timeout of 30 s, none may come near it."""


def serve(environment: Environment, count: int = 60, seed: int = 1) -> list[Judgement]:
    """`count` invocations of 20 to 60 ms, each answered as if there were no sidecar; what is to be said of them."""
    chance = random.Random(seed)
    answers = [
        environment.invoke(mib=chance.choice([1, 5, 20, 64]), ms=chance.choice([20, 40, 60])) for _ in range(count)
    ]
    environment.local.settle()
    done = {
        event["record"]["requestId"]: event["record"]["metrics"]["durationMs"]
        for event in environment.local.events
        if event["type"] == "platform.runtimeDone"
    }
    after = [report.duration_ms - done[report.request_id] for report in environment.local.reports]
    assert max(after) < FAR_TOO_LONG_MS
    records = environment.records()
    assert len(records) == count
    return [Judgement(record, answer, LIMIT_MIB) for record, answer in zip(records, answers, strict=True)]


def held(judgements: list[Judgement]) -> list[Record]:
    return [judgement.record for judgement in judgements if judgement.record.holdMs is not None]


def truthful(judgements: list[Judgement]) -> None:
    assert [judgement for judgement in judgements if not judgement.honest] == []


@pytest.mark.timeout(300)
def test_what_is_held_is_exact() -> None:
    with Environment(memory_mib=LIMIT_MIB, extension_lead_us=0, environment=HOLDING) as environment:
        answers = [environment.invoke(**event) for event in events(160, longer=True)]
        records = environment.records()
    judgements = [Judgement(record, answer, LIMIT_MIB) for record, answer in zip(records, answers, strict=True)]
    truthful(judgements)
    closed = [record for record in held(judgements) if record.closedBy in ("idle", "runtime-done")]
    assert len(closed) >= 20
    exact = [record for record in closed if not record.raced]
    assert len(exact) >= 0.95 * len(closed)  # a rest that telemetry does not bear out in time leaves an interval
    one_process = [made for made in judgements if made.record in exact and made.record.method == "vmhwm"]
    assert [made for made in one_process if not made.exact] == []


def test_off_by_default_nothing_is_held() -> None:
    with Environment(memory_mib=LIMIT_MIB) as environment:
        judgements = serve(environment, 20)
    assert held(judgements) == []
    truthful(judgements)


def test_without_telemetry_nothing_is_held() -> None:
    with Environment(memory_mib=LIMIT_MIB, telemetry=202, environment=HOLDING) as environment:
        for _ in range(20):
            environment.invoke(mib=5, ms=30)
        records = environment.records()
        assert "hold=off" in environment.log()
    assert [record for record in records if record.holdMs is not None] == []


AT_REST = ("idle", "runtime-done")


def test_another_extension_that_lingers_gives_the_idle_close_for_nothing(tmp_path: Path) -> None:
    """Off: nobody is held by us. But where the environment runs on, the window is closed where the runtime rests."""
    for _ in range(5):  # a starved machine may hear of each end before it has looked
        with Environment(
            memory_mib=LIMIT_MIB, extension_lead_us=0, extensions=[EXTENSIONS / "lingerer.py"]
        ) as environment:
            judgements = serve(environment, 20)
        truthful(judgements)
        assert held(judgements) == []
        records = [judgement.record for judgement in judgements]
        if "idle" in {record.closedBy for record in records}:
            break
    assert "idle" in {record.closedBy for record in records}
    assert sum(record.closedBy in AT_REST for record in records) >= len(records) / 2
    pairs = itertools.pairwise(records[1:])
    at_rest = [record for before, record in pairs if {before.closedBy, record.closedBy} <= set(AT_REST)]
    assert sum(bool(record.raced) for record in at_rest) <= 0.1 * len(records)  # an event may have come meanwhile


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("netlink-refused", "Operation not permitted"),
        ("netlink-later", "Operation not permitted"),
        ("netlink-cut", "not watched any more: "),
        ("netlink-wrong", "not watched any more: "),
        ("netlink-frozen", ""),
        ("telemetry-lost", ""),
        ("netlink-later,telemetry-lost", "Operation not permitted"),
        ("netlink-wrong,telemetry-lost", "not watched any more: "),
        ("netlink-frozen,telemetry-lost", ""),
    ],
)
@pytest.mark.timeout(300)
def test_a_signal_that_breaks(tmp_path: Path, fault: str, says: str) -> None:
    with faulty(fault, tmp_path, memory_mib=LIMIT_MIB, extension_lead_us=0, environment=HOLDING) as environment:
        judgements = serve(environment)
        log = environment.log()
    truthful(judgements)
    assert says in log
    assert "ERROR" not in log


@pytest.fixture
def proxied(tmp_path: Path) -> Iterator[Environment]:
    """A function whose runtime talks to a proxy."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    bootstrap = tmp_path / "bootstrap"
    bootstrap.write_text(
        f"#!/bin/sh\nexport AWS_LAMBDA_RUNTIME_API=127.0.0.1:{port} PYTHONPATH={FUNCTIONS}\n"
        f"exec {sys.executable} -m awslambdaric touch.handler\n"
    )
    bootstrap.chmod(0o755)
    tmp_path.chmod(0o755)
    with Environment(
        Function.from_bootstrap(bootstrap),
        memory_mib=LIMIT_MIB,
        extension_lead_us=0,
        extensions=[EXTENSIONS / "proxy.py"],
        environment={**HOLDING, "PROXY_PORT": str(port)},
    ) as environment:
        yield environment


def test_a_proxy_in_between(proxied: Environment) -> None:
    judgements = serve(proxied)
    truthful(judgements)
    assert "a proxy" in proxied.log()
    assert [record for record in held(judgements) if record.raced] == []
