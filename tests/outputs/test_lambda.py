"""Records on their way to a collector and an agent, under the local Lambda."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
import requests
from truemem_workbench.printed.line import read

from faults import receivers
from faults.receivers import Agent, Collector, points
from testing.environment import FUNCTIONS, Environment
from tests.outputs.test_otlp_document import judged
from tests.scenarios.killing import kill

MIB = 1 << 20
TRACE_ID, SPAN_ID = "5759e988bd862e3fe1be46a994272793", "53995c3f42cd8ad8"
TRACE = f"Root=1-{TRACE_ID[:8]}-{TRACE_ID[8:]};Parent={SPAN_ID};Sampled=1"


def environment(output: str, *variables: Mapping[str, str], **settings: object) -> Environment:
    merged = {"TRUEMEM_OUTPUT": output}
    for each in variables:
        merged |= each
    return Environment(environment=merged, **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("exact", [False, True])
def test_a_collector_gets_each_invocations_peak(exact: bool) -> None:
    with Collector() as collector, environment("emf,otlp", collector.start().variables, exact=exact) as made:
        for mib in 1, 40, 2:
            made.invoke(mib=mib)
        records = made.told()
    assert collector.invocations == 3
    peaks = [round(record.PeakRSS * MIB) for record in records]
    found = [point for request in collector.taken for point in points(request, "faas.mem_usage")]
    assert sum(point["sum"] for point in found) == sum(peaks)
    assert max(point["max"] for point in found) == max(peaks)
    assert {record.traceId for record in records} == {None}
    for body in collector.bodies:
        judged(body)
    resource = collector.taken[0]["resourceMetrics"][0]["resource"]["attributes"]
    named = {each["key"]: next(iter(each["value"].values())) for each in resource}
    assert named["faas.instance"] == records[0].environmentId
    assert (named["faas.max_memory"], named["cloud.account.id"]) == (f"{512 * MIB}", "123456789012")
    assert "line=yes sends to otlp(127.0.0.1:" in made.log()


def test_the_highest_peak_leads_to_its_trace() -> None:
    with Collector() as collector, environment("emf,otlp", collector.start().variables) as made:
        made.invoke()
        url = f"{made.local.endpoint}/2015-03-31/functions/function/invocations"
        answer = requests.post(url, json={"do": "hold", "mib": 60}, headers={"X-Amzn-Trace-Id": TRACE}, timeout=30)
        assert answer.ok
        made.invoke()
        records = made.records()
    assert [record.traceId for record in records] == [None, TRACE_ID, None]
    exemplars = [each for request in collector.taken for each in points(request, "faas.mem_usage")]
    highest = max(exemplars, key=lambda point: point["max"])["exemplars"][0]
    assert (highest["traceId"], highest["spanId"]) == (TRACE_ID, SPAN_ID)
    attribute = {"key": "faas.invocation_id", "value": {"stringValue": records[1].requestId}}
    assert highest["filteredAttributes"] == [attribute]


def test_an_agent_gets_a_datagram_for_each_invocation() -> None:
    with Agent() as agent, environment("emf,dogstatsd", agent.variables) as made:
        for _ in range(3):
            made.invoke(mib=5)
        records = made.told()
        datagrams = agent.received()
    assert len(datagrams) == 3
    for record, datagram in zip(records, datagrams, strict=True):
        first = datagram.decode().splitlines()[0]
        assert first.startswith(f"truemem.memory.peak:{round(record.PeakRSS * MIB)}|d|#functionname:function,")
        assert "account_id:123456789012" in first
    assert b"cold_start:true" in datagrams[0]
    assert b"cold_start:false" in datagrams[1]


def test_without_a_line_the_collector_has_it_all() -> None:
    with Collector() as collector, environment("otlp", collector.start().variables) as made:
        for _ in range(3):
            made.invoke()
        made.local.stop()
        assert made.local.extension_stdout(made.name) == []
    assert collector.invocations == 3
    assert "line=no" in made.log()


def test_a_plain_line_is_read_as_any_other(tmp_path: Path) -> None:
    with environment("json") as made:
        for _ in range(3):
            made.invoke()
        made.local.stop()
        lines = made.local.extension_stdout(made.name)
    assert not any("_aws" in json.loads(line) for line in lines)
    (tmp_path / "log").write_text("\n".join(lines))
    found = list(read([tmp_path / "log"]))
    assert [line.request_id for line in found] == [each.request_id for each in made.invocations]
    assert all(line.time_ms is not None and not line.may_repeat for line in found)


@pytest.mark.parametrize(
    ("behaviour", "interval_ms"),
    [
        (receivers.never, "1000"),
        (receivers.never, "600000"),
        (receivers.answers(receivers.status(500)), "1000"),
        (receivers.dies, "1000"),
        (receivers.slowly(0.001), "1000"),
    ],
)
def test_whatever_a_collector_does_each_invocation_has_its_line(
    behaviour: receivers.Behaviour, interval_ms: str
) -> None:
    with Collector(behaviour) as collector:
        interval = {"OTEL_METRIC_EXPORT_INTERVAL": interval_ms}
        with environment("emf,otlp", collector.start().variables, interval) as made:
            for _ in range(12):
                made.invoke(ms=120)
            records = made.told()
    assert [(record.status, record.reportMissing) for record in records] == [("success", None)] * 12
    assert collector.bodies  # it was waited for


def test_of_requests_that_overlap_each_peak_is_sent() -> None:
    settings = {"managed_instances": 4, "memory_mib": 512}
    with Collector() as collector:
        variables = {"TRUEMEM_OUTPUT": "emf,otlp", **collector.start().variables}
        with Environment(FUNCTIONS / "together.py", environment=variables, **settings) as made:  # type: ignore[arg-type]
            for _ in range(4):
                made.invoke(mib=1, ms=300)
            records = made.records()
    known = [record for record in records if record.PeakRSS is not None]  # a busy machine may miss one
    assert collector.invocations == len(known) >= 2


@pytest.mark.parametrize("output", ["otlp", "dogstatsd"])
def test_a_killed_sidecars_records_are_sent_once(output: str) -> None:
    """Also those that share a line. What it had taken into a collector's period is lost with it."""
    with Collector() as collector, Agent() as agent:
        receiver = {**collector.start().variables, "OTEL_METRIC_EXPORT_INTERVAL": "600000"}
        variables = receiver if output == "otlp" else agent.variables
        with environment(f"emf,{output}", variables, {"TRUEMEM_AGGREGATE": "300"}) as made:
            for _ in range(5):
                made.invoke(ms=100)
            made.local.settle()
            kill(made)
            for _ in range(2):
                made.attempt(ms=100)
            records = made.records()
            datagrams = agent.received()
    assert sum(record.recovered is True for record in records) >= 3
    if output == "otlp":
        assert 2 <= collector.invocations <= 7
    else:
        assert len(datagrams) == len(records)
