"""A hot function: invocations share lines, and none is lost, whatever ends the environment."""

import json
from typing import Any

from truemem_workbench.printed.document import spread

from testing.environment import Environment, Record
from tests.scenarios.killing import kill

ON = {"TRUEMEM_AGGREGATE": "300", "TRUEMEM_SETTLE": "off"}  # a reading of malloc has a line of its own


def apart(records: list[Record]) -> list[Any]:
    """A document for each invocation."""
    return [one for record in records for one in spread(json.loads(record.line))]


def test_invocations_share_lines_and_each_is_told_once() -> None:
    with Environment(environment=ON) as environment:
        for number in range(130):
            environment.invoke(mib=40 if number == 70 else number % 5)
        records = environment.records()
        marks = {report.request_id: report.max_memory_used_mib for report in environment.local.reports}
    told = apart(records)
    assert [one["requestId"] for one in told] == [made.request_id for made in environment.invocations]
    assert [one["invocation"] for one in told] == list(range(1, 131))
    assert [one["MaxMemoryUsed"] for one in told] == [marks[one["requestId"]] for one in told]
    assert all(one["status"] == "success" for one in told)
    # the cold start and the last, whose window SHUTDOWN has closed, have their own
    together = [record for record in records if record.aggregate]
    assert [record.aggregate["invocations"] for record in together] == [100, 28]
    assert records[0].coldStart is True
    assert records[-1].closedBy == "shutdown"
    assert together[0].aggregate["peakRequestId"] == environment.invocations[70].request_id
    assert together[0].aggregate["peakMax"] > 40


def test_what_has_waited_is_printed_during_a_long_invocation() -> None:
    with Environment(environment={"TRUEMEM_AGGREGATE": "1"}) as environment:
        for _ in range(4):
            environment.invoke()
        environment.invoke(ms=4000)
        before = [Record(line) for line in environment.local.extension_stdout(environment.name)]
        environment.invoke()
        environment.records()
    assert [one["invocation"] for one in apart(before)] == [1, 2, 3, 4]
    assert [record.aggregate is None for record in before] == [True, False]


def test_an_invocation_that_crashes_has_its_own_line() -> None:
    with Environment(environment=ON) as environment:
        for number in range(9):
            environment.attempt("crash" if number == 4 else "hold", ms=20)  # time to see it begin
        records = environment.records()
    assert [one["requestId"] for one in apart(records)] == [made.request_id for made in environment.invocations]
    alone = [record for record in records if not record.aggregate]
    assert [record.invocation for record in alone] == [1, 5, 6, 9]  # cold start, crash, after the reset, the last
    assert alone[1].errorType == "Runtime.ExitError"
    assert alone[2].suppressedInit is True


def test_a_killed_sidecar_has_left_each_that_waited() -> None:
    with Environment(environment=ON) as environment:
        for _ in range(25):
            environment.invoke(mib=3)
        environment.local.settle()  # it has read each event
        kill(environment)
        for _ in range(5):
            environment.attempt(mib=3)
        records = environment.records()
    told = [one["requestId"] for one in apart(records)]
    assert len(told) == len(set(told))
    invoked = [made.request_id for made in environment.invocations]
    assert set(invoked) - set(told) <= {invoked[25]}  # its event was sent to the process that was killed
    recovered = [record for record in records if record.recovered]
    assert len(recovered) >= 23
    assert all(record.aggregate is None for record in recovered)
