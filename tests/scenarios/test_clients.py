"""With real runtime clients, and with every shape of client that there may be: what `auto` ends at rest is exact, and
where a client's coming back cannot be told the record does not pretend.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from truemem_workbench.local import Function, LocalLambda, Settings

from tests.installs import Missing
from tests.scenarios.clients import installed
from tests.scenarios.environment import FUNCTIONS, SIDECAR, SLACK_MIB, Environment, Record

CLIENTS = Path(__file__).with_name("clients")
NODE = CLIENTS / "node"
INIT_FAILS = Path(__file__).parents[1] / "local" / "functions" / "init_fails.py"

MEMORY_MIB = 1769
"""A whole vCPU: what looks may cost is not what decides here."""

VARIABLES = {
    "TRUEMEM_HOLD": "auto",
    "TRUEMEM_CPU_BUDGET": "10",  # nor on a machine that is slow
    "TRUEMEM_HOLD_BUDGET": "20",  # nor what holds may cost
    "MALLOC_MMAP_THRESHOLD_": "131072",  # what Node frees goes back to the kernel, as Python's mmap does
}

NODE_SLACK_MIB = 2
"""What V8 takes for collecting, and gives back."""

LEAD_US = {"curl": 300}
"""A shell with its children races wherever it is released at the same instant, and is not held then,"""
COUNT = {"curl": 100, "own-traffic-same": 60, "late-work": 60}
"""and seldom at all; those that mislead need a hold to do it."""

STARVED = 3
"""A sidecar that gets too little CPU may look too seldom to see a client come back, or to be misled by one: in one of
so many environments it has to."""

NOT_WATCHED = "the runtime's connections are not watched any more: "


def function(*command: str | Path, root: Path, handler: str) -> Function:
    """By its command; the files in that must be readable for whom it runs as."""
    files = tuple(Path(word) for word in command if str(word).startswith("/"))
    return Function(tuple(map(str, command)), root, handler, None, (root, *files))


def python(version: str) -> Function:
    """AWS's own client, on that Python."""
    command = (installed.python(version), "-m", "awslambdaric", "touch.handler")
    return function(*command, root=FUNCTIONS, handler="touch.handler")


def node() -> Function:
    """AWS's own client."""
    return function(installed.node(), installed.aws_lambda_ric(), "app.handler", root=NODE, handler="app.handler")


def node_http() -> Function:
    """For where aws-lambda-ric cannot be installed."""
    return function(installed.node(), NODE / "bootstrap.mjs", root=NODE, handler="bootstrap.mjs")


def shape(name: str) -> Function:
    """One of shapes.py."""
    return function(sys.executable, CLIENTS / "shapes.py", name, root=CLIENTS, handler=name)


CLIENT: dict[str, Callable[[], Function]] = {
    "awslambdaric-3.11": lambda: python("3.11"),
    "awslambdaric-3.12": lambda: python("3.12"),
    "awslambdaric-3.13": lambda: python("3.13"),
    "aws-lambda-ric": node,
    "node-http": node_http,
    "curl": lambda: Function.from_bootstrap(CLIENTS / "curl"),
}
"""The others are shapes."""

NODE_CLIENTS = ("aws-lambda-ric", "node-http")

READABLE = (
    *CLIENT,
    "kept",
    "per-call",
    "ipv6-mapped",
    "workers-threads",
    "workers-processes",
    "error",
    "init-error-once",
)
"""Those whose coming back must be seen."""

DIFFICULT = ("large", "streaming", "streaming-per-call", "own-traffic", "late-work-per-call")
"""Those where it may be missed."""

MISLEADING = ("own-traffic-same", "late-work")
"""Those that are sure to be taken for being back while they are not. (`late-work` asks on the connection that it has
answered on: from the answer's 202 on it looks as if it had.)"""


def events(count: int) -> Iterator[dict[str, Any]]:
    """The same for every client; each takes what it understands."""
    chance = random.Random(3)
    for _ in range(count):
        yield {
            "do": "hold",
            "mib": chance.choice((1, 5, 12, 24)),
            "ms": chance.uniform(30, 60),
            "pauses": [chance.uniform(3, 30) for _ in range(2)],
            "late": chance.choice((1, 5, 12, 24)),
            "late_ms": chance.uniform(5, 15),
        }


class ClientEnvironment(Environment):
    """A function with a client of its own, under `auto`."""

    def __init__(self, made: Function, lead_us: int = 0) -> None:
        self.local = LocalLambda(
            made,
            Settings(extensions=[SIDECAR], memory_mib=MEMORY_MIB, extension_lead_us=lead_us, environment=VARIABLES),
        )
        self.name = SIDECAR.name
        self.invocations = []


class Judged:
    """One record against what its function and the next invocation's said. All in MiB."""

    def __init__(self, record: Record, answer: dict[str, Any], after: dict[str, Any] | None, slack: float) -> None:
        self.record = record
        self.least = answer["truth"] / 1024 - SLACK_MIB
        """The peak was this,"""
        self.most = max(answer["truth"], after["before"] if after else 0) / 1024 + slack
        """or up to this: the runtime itself may have taken more since its handler looked."""

    @property
    def within_bounds(self) -> bool:
        upper = self.record.peakUpper if self.record.peakUpper is not None else MEMORY_MIB
        return bool(self.record.peakLower <= self.most and self.least <= upper)

    @property
    def exact(self) -> bool:
        return bool(self.least <= self.record.PeakRSS <= self.most)

    @property
    def one_process(self) -> bool:
        """Where there are several (curl), what each held at which time is not known, hold or no hold."""
        return bool(self.record.method == "vmhwm")

    @property
    def held_until_rest(self) -> bool:
        return self.record.holdMs is not None and self.record.closedBy == "idle"

    def __repr__(self) -> str:
        return f"peak {self.least:.2f} to {self.most:.2f}: {self.record}"


class Run:
    """A client's invocations, and what the sidecar printed."""

    def __init__(self, name: str) -> None:
        try:
            made = CLIENT[name]() if name in CLIENT else shape(name)
        except Missing as missing:
            pytest.skip(f"{missing}")
        self.asked = list(events(COUNT.get(name, 25)))
        with ClientEnvironment(made, LEAD_US.get(name, 0)) as environment:
            invocations = [environment.local.invoke(event) for event in self.asked]
            records = environment.records()
            self.log = environment.log()
        assert [record.requestId for record in records] == [invocation.request_id for invocation in invocations]
        self.errors = {invocation.function_error for invocation in invocations}
        self.answers = [json.loads(invocation.raw.partition(b"\n")[0]) for invocation in invocations]
        self.sizes = [len(invocation.raw) for invocation in invocations]
        slack = NODE_SLACK_MIB if name in NODE_CLIENTS else SLACK_MIB
        following = [*self.answers[1:], None]
        self.judged = [Judged(*known, slack) for known in zip(records, self.answers, following, strict=True)]


def assert_answers_are_untouched(name: str, run: Run) -> None:
    assert run.errors == {"Unhandled" if name == "error" else None}
    for event, answer, size in zip(run.asked, run.answers, run.sizes, strict=True):
        if name in NODE_CLIENTS:
            assert answer["truth"] >= answer["before"]  # of what it touches some was there before
        else:
            assert answer["touched"] == event["mib"] * 1024
        assert (size > 5 << 20) == (name == "large")


def assert_truthful(run: Run) -> None:
    assert [judged for judged in run.judged if not judged.within_bounds] == []
    claims = [judged for judged in run.judged if judged.one_process and not judged.record.raced]
    assert [judged for judged in claims if not judged.exact] == []
    opened_at_rest = [False, *(judged.held_until_rest for judged in run.judged)]
    both = zip(opened_at_rest, run.judged, strict=False)
    from_rest_to_rest = [judged for opened, judged in both if opened and judged.held_until_rest and judged.one_process]
    # A rest that telemetry does not bear out in time leaves an interval; the others have been judged above.
    assert sum(bool(judged.record.raced) for judged in from_rest_to_rest) <= len(from_rest_to_rest) / 10


def runs(name: str) -> Iterator[Run]:
    """As many as a test wants, none of which may be wrong in anything."""
    for _ in range(STARVED):
        run = Run(name)
        assert_answers_are_untouched(name, run)
        assert_truthful(run)
        yield run


@pytest.mark.timeout(900)  # aws-lambda-ric is compiled when it is installed, once
@pytest.mark.parametrize("name", READABLE)
def test_a_client_is_seen_to_come_back(name: str) -> None:
    for run in runs(name):
        assert NOT_WATCHED not in run.log
        held = [judged for judged in run.judged if judged.held_until_rest]
        if held:
            break
    assert held != [], run.log


@pytest.mark.parametrize("name", DIFFICULT)
def test_where_that_is_missed_nothing_is_wrong(name: str) -> None:
    next(runs(name))


@pytest.mark.parametrize("name", MISLEADING)
def test_a_client_that_misleads_is_not_believed_any_more(name: str) -> None:
    for run in runs(name):
        if NOT_WATCHED in run.log:
            break
    assert NOT_WATCHED in run.log
    assert not any(judged.held_until_rest for judged in run.judged[-5:])


@pytest.mark.parametrize("made", [Function.from_handler(f"{INIT_FAILS}:handler"), shape("init-error")], ids=str)
def test_an_init_that_fails_is_answered_as_without_a_sidecar(made: Function) -> None:
    with ClientEnvironment(made) as environment:
        failed = [environment.attempt() for _ in range(2)]
        assert environment.records() == []  # no event ever came to an extension
        log = environment.log().splitlines()
    assert log != []  # of what the init phase held, nobody else can tell
    assert all(line.startswith("truemem INFO before its first invocation the environment has ended") for line in log)
    for invocation in failed:
        assert invocation.function_error == "Unhandled"
        assert isinstance(invocation.payload, dict)
        assert invocation.payload["errorMessage"] == "no luck at init"
