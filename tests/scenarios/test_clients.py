"""Exact mode with real runtime clients, and with every shape of client that there may be: each gets what it would get
without a sidecar, and each of its peaks is exact.
"""

import json
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from truemem_workbench.local import Function

from testing.environment import FUNCTIONS, SLACK_MIB, Environment, Record
from testing.installs import Missing
from tests.scenarios.clients import installed

CLIENTS = Path(__file__).with_name("clients")
NODE = CLIENTS / "node"
INIT_FAILS = Path(__file__).parents[1] / "local" / "functions" / "init_fails.py"

MEMORY_MIB = 1769

VARIABLES = {"MALLOC_MMAP_THRESHOLD_": "131072"}
"""What Node frees goes back to the kernel, as Python's mmap does."""

NODE_SLACK_MIB = 2
"""What V8 takes for collecting, and gives back."""

COUNT = 12


def function(*command: str | Path, root: Path, handler: str) -> Function:
    """By its command; the files in that must be readable for whom it runs as."""
    files = tuple(Path(word) for word in command if str(word).startswith("/"))
    return Function(tuple(map(str, command)), root, handler, None, (root, *files))


def python(version: str) -> Function:
    """AWS's own client, on that Python, which polls as on Lambda."""
    command = (installed.python(version), "-m", "awslambdaric", "touch.handler")
    return function(*command, root=FUNCTIONS, handler="touch.handler").standing_for(f"python{version}")


def node() -> Function:
    """AWS's own client."""
    return function(installed.node(), installed.aws_lambda_ric(), "app.handler", root=NODE, handler="app.handler")


def node_http() -> Function:
    """For where aws-lambda-ric is not."""
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

AT_NIGHT = ("awslambdaric-3.12", "node-http")
"""Like awslambdaric 3.11 and 3.13, and aws-lambda-ric, which run with each commit."""

NODE_CLIENTS = ("aws-lambda-ric", "node-http")

SHAPES = (
    *("kept", "per-call", "ipv6-mapped", "workers-threads", "workers-processes", "error", "init-error-once"),
    *("large", "streaming", "streaming-per-call", "own-traffic", "own-traffic-same", "late-work", "late-work-per-call"),
)


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

    def __repr__(self) -> str:
        return f"peak {self.least:.2f} to {self.most:.2f}: {self.record}"


class Run:
    """A client's invocations, and what the sidecar printed."""

    def __init__(self, name: str) -> None:
        try:
            made = CLIENT[name]() if name in CLIENT else shape(name)
        except Missing as missing:
            pytest.skip(f"{missing}")
        self.asked = list(events(COUNT))
        with Environment(made, exact=True, memory_mib=MEMORY_MIB, release="aws", environment=VARIABLES) as environment:
            invocations = [environment.local.invoke(event) for event in self.asked]
            records = environment.records()
        assert [record.requestId for record in records] == [invocation.request_id for invocation in invocations]
        self.errors = {invocation.function_error for invocation in invocations}
        self.answers = [json.loads(invocation.raw.partition(b"\n")[0]) for invocation in invocations]
        self.sizes = [len(invocation.raw) for invocation in invocations]
        slack = NODE_SLACK_MIB if name in NODE_CLIENTS else SLACK_MIB
        following = [*self.answers[1:], None]
        self.judged = [Judged(*known, slack) for known in zip(records, self.answers, following, strict=True)]


@pytest.mark.timeout(900)  # aws-lambda-ric is compiled when it is installed, once
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.nightly] * (name in AT_NIGHT)) for name in (*CLIENT, *SHAPES)]
)
def test_answers_are_untouched_and_peaks_exact(name: str) -> None:
    run = Run(name)
    assert run.errors == {"Unhandled" if name == "error" else None}
    for event, answer, size in zip(run.asked, run.answers, run.sizes, strict=True):
        if name in NODE_CLIENTS:
            assert answer["truth"] >= answer["before"]  # of what it touches some was there before
        else:
            assert answer["touched"] == event["mib"] * 1024
        assert (size > 5 << 20) == (name == "large")
    # A worker may be given the next event before the other one asks for its own: that end is not seen, and said so.
    unseen = (None, "next-invoke", None) if name.startswith("workers") else None
    told = [(record.mode, record.closedBy, record.raced) for record in (judged.record for judged in run.judged)]
    assert set(told) - {unseen} == {("exact", "next-request", None)}
    seen = [place for place, each in enumerate(told) if each != unseen]
    records = [run.judged[place].record for place in seen]
    assert [record.responseBytes for record in records] == [run.sizes[place] for place in seen]
    assert {record.handlerError for record in records} == {True if name == "error" else None}
    assert [judged for judged in run.judged if not judged.within_bounds] == []
    # What several processes held at the same time is not known (curl is started anew for each call).
    one_process = [judged for judged in run.judged if judged.record.method == "vmhwm"]
    assert [judged for judged in one_process if not judged.exact] == []
    assert one_process or name in ("curl", "workers-processes")


@pytest.mark.parametrize("made", [Function.from_handler(f"{INIT_FAILS}:handler"), shape("init-error")], ids=str)
def test_an_init_that_fails_is_answered_as_without_a_sidecar(made: Function) -> None:
    with Environment(made, exact=True) as environment:
        failed = [environment.attempt() for _ in range(2)]
        assert environment.records() == []  # no event ever came to an extension
        log = environment.log().splitlines()
    assert log != []  # what the init phase held can be told by nothing else
    assert all(line.startswith("truemem INFO before its first invocation the environment has ended") for line in log)
    for invocation in failed:
        assert invocation.function_error == "Unhandled"
        assert isinstance(invocation.payload, dict)
        assert invocation.payload["errorMessage"] == "no luck at init"
