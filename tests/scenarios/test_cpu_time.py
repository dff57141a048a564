"""CPU time on the line: what the function's own clocks say, in the window in which it was used."""

from pathlib import Path

import pytest

from testing.environment import Environment

WORK = Path(__file__).parent / "clients" / "cpu_time.py"
STEP_MS = 20
"""A child's user and system time are each known to a tick of 10 ms."""
CLIENT_MS = 5
"""The runtime client's own, in an invocation."""


@pytest.mark.parametrize("exact", [False, True])
def test_each_invocation_has_the_cpu_time_that_it_used(exact: bool) -> None:
    kinds = ["burn", "threads", "child", "child that lives", "let it end", "wait", "child that is left", "wait", "burn"]
    work = ["nothing", *(do for kind in kinds for do in (kind, "nothing"))]
    with Environment(WORK, exact=exact) as environment:
        answers = [environment.invoke(do=do) for do in work]
        records = environment.records()
    pairs = [
        (do, record.cpuMs, answer["cpuMs"])
        for do, record, answer in zip(work, records, answers, strict=True)
        if record.cpuMs is not None
    ]
    wrong = [pair for pair in pairs if not pair[2] - STEP_MS <= pair[1] <= pair[2] + STEP_MS + CLIENT_MS]
    assert wrong == []
    assert len(pairs) > len(work) // 2  # of one whose window closes late on a busy machine it is not known


@pytest.mark.parametrize("exact", [False, True])
def test_that_of_an_orphan_is_not_known(exact: bool) -> None:
    with Environment(WORK, exact=exact) as environment:
        for do in ("nothing", "orphan", "nothing"):
            environment.invoke(do=do)
        records = environment.records()
    assert records[1].cpuMs is None


@pytest.mark.parametrize("exact", [False, True])
def test_that_of_a_function_that_ends_at_once_is_not_known(exact: bool) -> None:
    """It is started and has ended within one invocation: before, its line said 0.0."""
    with Environment(exact=exact) as environment:
        for _ in range(5):
            environment.attempt("crash")
        records = environment.records()
    assert {record.errorType for record in records} == {"Runtime.ExitError"}
    assert [record.cpuMs for record in records] == [None] * 5
