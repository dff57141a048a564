"""Datagrams of DogStatsD: as Datadog's own client writes them, and by the documented grammar."""

import re
from pathlib import Path
from typing import Any, cast

import pytest
from datadog.dogstatsd.base import DogStatsd
from hypothesis import given
from hypothesis import strategies as st
from truemem.config import Config
from truemem.output_settings import DogStatsdSettings
from truemem.outputs import RecordOutputs
from truemem.outputs.dogstatsd import MOST_DATAGRAM_BYTES, AgentSocket, datagram, tag
from truemem.records.record import InvocationRecord
from truemem.support.clock import Clock
from truemem.support.log import set_level

from faults.receivers import Agent

TAGS = {"functionname": "orders", "executedversion": "7", "memorysize": "512", "region": "eu-west-1"}
GRAMMAR = re.compile(
    r"[a-zA-Z][a-zA-Z0-9_.]{0,199}:-?[0-9]+(\.[0-9]+)?\|d\|#TAG(,TAG)*".replace("TAG", r"[a-z][a-z0-9_\-:./]*")
)
"""NAME:VALUE|TYPE|#TAGS ("Datagram format and shell usage"), a name and a tag ("Getting started with tags")."""


def made(**members: Any) -> InvocationRecord:
    named = ("PeakRSS", "CurrentRSS", "MaxMemoryUsed", "MemoryDrift", "OutOfMemory")
    metrics = {name: members.pop(name) for name in named if name in members}
    return InvocationRecord(1, metrics, members)


class Wire:
    """A socket that keeps what Datadog's client sends."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []

    def send(self, data: bytes) -> int:
        self.sent.append(data)
        return len(data)

    def close(self) -> None: ...


def test_lines_are_those_of_datadogs_own_client() -> None:
    lines = datagram(made(PeakRSS=20.5, OutOfMemory=1, method="vmhwm"), TAGS).decode().splitlines()
    tags = [*(f"{name}:{value}" for name, value in TAGS.items()), "cold_start:false", "method:vmhwm"]
    client, wire = DogStatsd(disable_telemetry=True, disable_buffering=True, origin_detection_enabled=False), Wire()
    client.socket = cast(Any, wire)
    client.distribution("truemem.memory.peak", 21495808, tags=tags)
    client.distribution("truemem.oom", 1, tags=tags)
    assert [line.strip() for line in b"".join(wire.sent).decode().splitlines()] == lines


def test_a_record_without_values_is_no_datagram() -> None:
    assert datagram(made(method="vmhwm"), TAGS) == b""


def test_tags_are_as_datadog_keeps_them() -> None:
    assert tag("executedversion", "$LATEST") == "executedversion:_latest"
    assert tag("tenant", "a b|#c,d\ne:") == "tenant:a_b__c_d_e"


def test_what_is_too_long_loses_its_last_values() -> None:
    members = {"PeakRSS": 1.0, "CurrentRSS": 1.0, "MaxMemoryUsed": 1.0, "MemoryDrift": 1.0, "baselineRSS": 1.0}
    longest = datagram(made(**members), {**TAGS, "more": "y" * 190, "most": "z" * 190}).decode()
    assert longest.partition(":")[0] == "truemem.memory.peak"
    assert 0 < len(longest.splitlines()) < len(members)


values = st.none() | st.booleans() | st.floats() | st.integers() | st.text()
names = st.sampled_from(
    ["PeakRSS", "CurrentRSS", "MemoryDrift", "baselineRSS", "method", "tenantId", "coldStart", "heap"]
)


@given(
    st.dictionaries(names, values | st.dictionaries(st.sampled_from(["used", "held"]), values)), st.text(), st.text()
)
def test_any_record_keeps_to_the_grammar(members: dict[str, Any], name: str, arn: str) -> None:
    made = datagram(InvocationRecord(1, {}, members), {"functionname": name, "tenant": arn})
    assert len(made) <= MOST_DATAGRAM_BYTES
    for line in made.decode("ascii").split("\n") if made else []:
        assert GRAMMAR.fullmatch(line), line


# The socket


def connected(agent: Agent) -> AgentSocket:
    path = agent.url.removeprefix("unix://") if agent.url.startswith("unix://") else ""
    port = 0 if path else int(agent.url.rpartition(":")[2])
    return AgentSocket(DogStatsdSettings("" if path else "127.0.0.1", port, path))


@pytest.fixture
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Short: the name of a Unix socket has 107 bytes."""
    return tmp_path_factory.mktemp("a") / "s"


@pytest.mark.parametrize("unix", [False, True])
def test_datagrams_arrive_and_an_agent_that_is_gone_is_counted(
    unix: bool, path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    set_level("info")
    with Agent(str(path) if unix else "") as agent:
        made = connected(agent)
        made.send(b"one")
        assert agent.received() == [b"one"]
    for _ in range(5):
        made.send(b"gone")
    made.end()
    assert (made.lost, made.sent) == (5, 1)
    lines = capfd.readouterr().err.splitlines()
    assert "dogstatsd: 5 datagrams dropped so far" in lines[-1]
    assert "refused" in lines[-1]
    assert len(lines) < 5


def test_lines_tell_of_the_first_loss_at_once() -> None:
    """Of those after it a minute later: each record is a loss where no agent is."""
    with Agent() as agent:
        variables = {name.encode(): value.encode() for name, value in agent.variables.items()}
    outputs = RecordOutputs(Config({b"TRUEMEM_OUTPUT": b"dogstatsd"}), variables, Clock())
    told = []
    for _ in range(6):
        outputs.finished(made(PeakRSS=5.0), None)
        told.append(outputs.lost)
    assert [count > 0 for count in told[1:]] == [True] * 5
    assert told[1] == told[5] < 6


def test_an_agent_that_starts_anew_is_found_again(path: Path) -> None:
    with Agent(str(path)) as agent:
        made = connected(agent)
        made.send(b"one")
    path.unlink()
    made.send(b"lost")
    with Agent(str(path)) as agent:
        made.send(b"two")
        assert agent.received() == [b"two"]
    assert made.lost == 1


def test_a_full_agent_is_not_waited_for(path: Path) -> None:
    with Agent(str(path)) as agent:
        made = connected(agent)
        for _ in range(5000):
            made.send(b"x" * 1000)
        assert made.lost > 0
        assert len(agent.received()) == made.sent
