"""Lives that are not init, invocations, spindown: what the records say of each, and that nothing is lost."""

from pathlib import Path
from typing import Any

import pytest
from truemem_workbench.local import Function
from truemem_workbench.support.environment_ids import is_local

from testing.environment import EXTENSIONS, Environment, Record

HERE = Path(__file__).parent
LOCAL = HERE.parent / "local" / "functions"
VENDOR = EXTENSIONS / "vendor.py"


def told(environment: Environment) -> list[Record]:
    """The records: one for each invocation, in order, all of this environment."""
    records = environment.told()
    assert {record.environmentId for record in records} == {environment.local.log_stream}
    return records


def members(records: list[Record], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(record.document.get(name) for name in names) for record in records]


@pytest.mark.parametrize(
    ("exact", "modes"),
    [
        pytest.param(False, [None, None, None, None, None], id="default"),
        pytest.param(True, ["exact", None, "exact", None, "exact"], id="exact"),
    ],
)
def test_an_environment_goes_on_after_a_reset(exact: bool, modes: list[str | None]) -> None:
    with Environment(timeout_s=4, exact=exact) as environment:
        environment.invoke(mib=80)
        environment.attempt(mib=60, ms=60_000)
        environment.invoke(mib=5)
        environment.attempt("leave", ms=20)
        environment.invoke(mib=5)
        records = told(environment)
    assert members(records, "invocation", "coldStart", "suppressedInit", "status", "errorType") == [
        (1, True, None, "success", None),
        (2, None, None, "timeout", None),
        (3, None, True, "success", None),
        (4, None, None, "error", "Runtime.ExitError"),
        (5, None, True, "success", None),
    ]
    assert [record.mode for record in records] == modes
    assert [record.closedBy for record in records[1::2]] == ["shutdown", "shutdown"]
    assert records[1].PeakRSS > 60
    assert {record.highWaterMark for record in records} == {records[0].PeakRSS}
    assert [record.ending is not None for record in records] == [False, True, False, True, False]
    assert [record.initPeakRSS is not None for record in records] == [True, False, True, False, True]


@pytest.mark.parametrize(("function", "init_timeout_s"), [("init_fails.py", None), ("init_hangs.py", 0.5)])
def test_an_init_that_fails_is_repeated_in_the_first_invocation(function: str, init_timeout_s: float | None) -> None:
    with Environment(LOCAL / function, init_timeout_s=init_timeout_s) as environment:
        answer = environment.attempt()
        environment.attempt()
        records = environment.records()
    if answer.function_error:  # it failed in the invocation as well: no INVOKE ever reached an extension
        assert answer.request_id not in [record.requestId for record in records]
        return
    assert members(records, "invocation", "coldStart", "suppressedInit") == [(1, True, True), (2, None, None)]


def test_an_extension_that_dies_ends_the_invocation() -> None:
    with Environment(extensions=[VENDOR], environment={"DIES": "1"}) as environment:
        environment.invoke(mib=5)
        environment.attempt(mib=30, ms=10_000)
        environment.invoke(mib=5)
        records = told(environment)
    died = records[1]
    assert (died.status, died.errorType, died.OutOfMemory) == ("error", "Extension.Crash", None)
    assert died.ending["level"] > died.lastSamples[-1][1] > 0
    assert (records[2].invocation, records[2].suppressedInit) == (3, True)


@pytest.mark.smoke
def test_provisioned_concurrency_waits_after_its_init() -> None:
    with Environment(initialization="provisioned-concurrency") as environment:
        environment.local.settle()
        environment.invoke(mib=5)
        environment.invoke(mib=5)
        records = told(environment)
    assert members(records, "initializationType", "coldStart", "invocation") == [
        ("provisioned-concurrency", True, 1),
        (None, None, 2),
    ]
    assert records[0].initPeakRSS is not None
    assert records[0].durationMs is not None


def test_after_a_restore_ids_and_marks_are_this_environments_own() -> None:
    function = Function.from_handler(f"{LOCAL / 'snap_start.py'}:handler")
    with Environment(function, initialization="snap-start") as environment:
        environment.local.settle()
        snapshot = environment.local.log_stream
        environment.attempt()
        environment.attempt()
        records = told(environment)
    assert environment.local.log_stream != snapshot
    assert is_local(environment.local.log_stream)
    assert members(records, "invocation", "initializationType", "coldStart", "initPeakRSS") == [
        (1, "snap-start", True, None),
        (2, None, None, None),
    ]
    assert records[0].highWaterMark == records[0].PeakRSS  # not the snapshot's
