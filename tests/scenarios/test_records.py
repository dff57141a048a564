"""One line per invocation: complete, in order, valid, short, and about the right time."""

import json
import time
from pathlib import Path

import pytest

from testing.environment import SLACK_MIB, Environment

HOARDER = Path(__file__).parent / "extensions" / "plain.py"


@pytest.mark.smoke
def test_a_spike_does_not_outlive_its_invocation() -> None:
    with Environment() as environment:
        environment.invoke(mib=200, ms=60)
        for _ in range(3):
            environment.invoke(mib=5, ms=30)
        spike, *after = environment.records()
    assert spike.PeakRSS > 200
    for record in after[:-1]:
        assert record.PeakRSS < 60
        assert record.MaxMemoryUsed >= 200  # the mark never falls: that is the lie


def test_a_line_for_each_invocation_and_one_notice() -> None:
    with Environment(memory_mib=1024, environment={"TRUEMEM_DETAIL": "auto"}) as environment:
        for number in range(40):
            environment.invoke(mib=number % 7, ms=number % 3)
        records = environment.told()
        reports = {report.request_id: report for report in environment.local.reports}
        log = environment.log()
    assert [record.invocation for record in records] == list(range(1, 41))
    full = [record.line for record in records if record.drift is None and record.method == "vmhwm"]
    assert max(len(line.encode()) for line in full) < 1024
    short = [record for record in records if json.loads(record.line)["schema"] == 2]
    assert not {1, 2, 4, 8, 16, 32, 40} & {record.invocation for record in short}
    figures = [record.line for record in short if "peakUpper" not in record.line]
    assert max(len(line.encode()) for line in figures) < 600
    for record in records:
        assert not record.reportMissing
        assert record.MaxMemoryUsed == reports[record.requestId].max_memory_used_mib
        assert record.durationMs == pytest.approx(reports[record.requestId].duration_ms, abs=0.01)
        assert record.status == "success"
    assert log.count("method=vmhwm") == 1
    assert "telemetry=on" in log


def test_the_first_record_carries_the_init_phase() -> None:
    with Environment() as environment:
        answer = environment.invoke()
        environment.invoke()
        first, second = environment.records()
    assert first.coldStart is True
    assert first.initPeakRSS == pytest.approx(answer["before"] / 1024, abs=1)
    assert second.coldStart is None
    assert second.initPeakRSS is second.initRaced is None


def test_the_timestamp_is_the_invocations_not_the_printing() -> None:
    with Environment() as environment:
        before = time.time() * 1000
        environment.invoke()
        after = time.time() * 1000
        time.sleep(0.5)  # frozen; the line is printed after this
        environment.invoke()
        record = environment.records()[0]
    # The runtime is released first: a short invocation may be answered before the sidecar hears of it.
    assert before - 1 <= record.document["_aws"]["Timestamp"] < after + 250


def test_who_holds_the_memory_and_of_which_kind_it_is() -> None:
    with Environment(extensions=[HOARDER], memory_mib=1024) as environment:
        environment.invoke("keep", mib=64)
        environment.invoke()
        record = environment.records()[0]
    assert record.holders["extensions"][HOARDER.name] > 30
    assert 1 < record.holders["truemem"] < 40
    assert record.holders["function"] == record.CurrentRSS
    assert sum(record.rss.values()) == pytest.approx(record.CurrentRSS, abs=SLACK_MIB)
    assert record.rss["anon"] > 64


@pytest.mark.parametrize("exact", [False, True], ids=["default", "exact"])
def test_switched_off_it_takes_no_part(exact: bool) -> None:
    with Environment(environment={"TRUEMEM_ENABLED": "false"}, exact=exact) as environment:
        for _ in range(2):
            assert environment.invoke(mib=5)["touched"] == 5 * 1024
        assert environment.records() == []
        assert environment.log() == ""
        said = [entry.text for entry in environment.local.logs if "exact mode is off" in entry.text]
    assert len(said) == exact
    extension = next(event for event in environment.local.events if event["type"] == "platform.extension")
    assert extension["record"]["events"] == ["SHUTDOWN"]
