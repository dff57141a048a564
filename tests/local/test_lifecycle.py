"""Init, invocation, reset and shutdown of an environment with real processes.

What the events and calls look like is in `conformance`: here is what happens, and in which order.
"""

from __future__ import annotations

import gc
import os
import time
from pathlib import Path
from typing import Any

import pytest
from truemem_workbench.local import Stopped
from truemem_workbench.local.processes import user

from tests.local.conftest import APP, BOUND_S, FUNCTIONS, Start, error_of

# --- init -------------------------------------------------------------------------------------------------------------


def test_the_runtime_starts_when_every_extension_has_registered(start_idle: Start) -> None:
    local = start_idle()
    assert set(local.processes()) == {"extension:idle"}  # it prints the address as well

    own = local.api.registered("INVOKE")
    local.wait_for_line(lambda line: line.source == "function")
    local.api.next_invocation()
    assert not local.of_type("initReport")  # the extension's own `next` is missing

    local.api.next_event(own)
    local.settle()
    assert [record["status"] for record in local.of_type("initReport")] == ["success"]


def test_the_first_report_carries_the_init_and_bills_it(start: Start) -> None:
    local = start()
    first, second = (local.report(local.invoke({}).request_id) for _ in range(2))
    assert first.init_duration_ms is not None
    assert first.billed_duration_ms >= first.init_duration_ms + first.duration_ms
    assert second.init_duration_ms is None
    assert second.billed_duration_ms < second.duration_ms + 1


@pytest.mark.parametrize(
    ("function", "settings", "statuses", "answer"),
    [
        # what the runtime itself posted
        ("init_fails.py", {}, ["error", "error"], {"errorMessage": "no luck at init"}),
        # /tmp survives: the second init finds the mark of the first
        ("init_hangs.py", {"init_timeout_s": 3}, ["timeout", "success"], {"a": 1}),
    ],
    ids=["failed", "over its limit"],
)
def test_an_init_that_did_not_end_well_is_done_again_within_the_first_invocation(
    start: Start, function: str, settings: dict[str, Any], statuses: list[str], answer: dict[str, Any]
) -> None:
    local = start(FUNCTIONS / function, **settings)
    told = local.finish({"a": 1})
    assert told.payload.items() >= answer.items()
    assert told.function_error == ("Unhandled" if "errorMessage" in answer else None)
    reports = [(report["phase"], report["status"]) for report in local.of_type("initReport")]
    assert reports == [("init", statuses[0]), ("invoke", statuses[1])]


def test_an_extension_that_gives_up_in_init(start: Start) -> None:
    local = start(behaviour={"init_error": "Extension.ConfigInvalid"})
    assert local.invoke({}).payload["errorType"] == "Extension.InitError"
    assert local.of_type("extension")[0]["errorType"] == "Extension.ConfigInvalid"


@pytest.mark.parametrize("program", ["/bin/true", "/bin/false"])
def test_an_extension_that_exits_in_init_has_crashed_and_no_runtime_is_started(start: Start, program: str) -> None:
    local = start(extensions=[Path(program)])
    assert local.finish({}).payload["errorType"] == "Extension.Crash"
    assert local.of_type("initReport")[0]["errorType"] == "Extension.Crash"
    assert not local.of_type("initRuntimeDone")


# --- invocation -------------------------------------------------------------------------------------------------------


def test_the_function_runs_as_in_lambda(start: Start) -> None:
    local = start(environment={"MINE": "yes"})
    answer = local.invoke({"a": 1})
    ordinary = os.geteuid() == 0 and not local.notices  # a notice says why it is not
    assert answer.payload["event"] == {"a": 1}
    assert answer.payload["requestId"] == answer.request_id
    assert answer.payload["cwd"] == str(APP.parent)
    assert answer.payload["uid"] == (user.ordinary().uid if ordinary else os.geteuid())

    environment = local.invoke({"environment": True}).payload
    assert environment["_HANDLER"] == "app.handler"
    assert environment["LAMBDA_TASK_ROOT"] == str(APP.parent)
    assert environment["AWS_EXECUTION_ENV"].startswith("AWS_Lambda_python3.")
    assert environment["AWS_LAMBDA_LOG_STREAM_NAME"].endswith(local.environment_id)
    assert environment["MINE"] == "yes"
    assert "HOME" not in environment  # the host's own variables stay there


def test_the_answer_does_not_wait_for_the_extensions(start: Start) -> None:
    local = start(behaviour={"linger_s": 1.0})
    answer = local.invoke({})
    assert not local.of_type("report")  # the extension is still at work, and the environment busy
    report = local.report(answer.request_id)
    assert report.duration_ms >= 1000
    assert local.of_type("runtimeDone")[0]["metrics"]["durationMs"] < report.duration_ms


def test_a_second_invocation_waits_its_turn(start: Start) -> None:
    local = start(behaviour={"linger_s": 0.3})
    answers = [local.invoke({"n": n}) for n in range(3)]
    local.settle()
    order = [record["requestId"] for record in local.of_type("start")]
    assert order == [answer.request_id for answer in answers]
    assert local.kinds()[5:] == ["start", "runtimeDone", "report"] * 3


def test_an_extension_for_shutdown_alone_never_gates(start: Start) -> None:
    local = start(behaviour={"events": ["SHUTDOWN"]})
    local.finish({})
    local.stop()
    assert not local.read_by_recorder("INVOKE")
    assert local.shutdown_reasons() == ["spindown"]


def test_an_exception_in_the_handler_is_passed_on_and_resets_nothing(start: Start) -> None:
    local = start()
    answer = local.finish({"raise": "boom"})
    assert answer.function_error == "Unhandled"
    assert (answer.payload["errorType"], answer.payload["errorMessage"]) == ("ValueError", "boom")
    before = local.processes()
    local.invoke({})
    assert local.processes() == before


def test_the_report_comes_with_the_next_invocation(start: Start) -> None:
    """With that much lead, a report that came at the thaw would come before INVOKE."""
    local = start(behaviour={"linger_s": 0.5}, release="extension:200000")
    first = local.finish({"n": 1})
    assert local.of_type("report")  # it is made
    local.invoke({"n": 2})
    local.wait_for_telemetry("platform.report")

    invoked = [entry["at"] for entry in local.read_by_recorder("INVOKE")]
    reported = [
        (entry["at"], event["record"]["requestId"])
        for entry in local.recorded()
        for event in entry.get("telemetry", [])
        if event["type"] == "platform.report"
    ]
    assert reported[0][1] == first.request_id
    assert invoked[1] < reported[0][0]
    local.stop()
    assert [event["type"] for event in local.telemetry()].count("platform.report") == 2  # the last: with SHUTDOWN


# --- reset ------------------------------------------------------------------------------------------------------------


def test_a_timeout_names_the_functions_limit(start: Start) -> None:
    local = start(behaviour={}, timeout_s=0.5)
    answer = local.finish({"sleep": 60})
    assert answer.payload["errorMessage"].endswith("Task timed out after 0.50 seconds")
    assert local.shutdown_reasons() == ["timeout"]


@pytest.mark.parametrize(("code", "how"), [(3, "with error: exit status 3"), (0, "without providing a reason")])
def test_a_runtime_that_exits_is_an_error_and_all_processes_start_anew(start: Start, code: int, how: str) -> None:
    local = start(behaviour={})
    local.settle()
    before = local.processes()
    answer = local.finish({"exit": code})
    assert answer.payload == {
        "errorType": "Runtime.ExitError",
        "errorMessage": f"RequestId: {answer.request_id} Error: Runtime exited {how}",
    }
    assert local.report(answer.request_id).error_type == "Runtime.ExitError"
    assert local.processes() == {}
    assert local.shutdown_reasons() == ["failure"]

    again = local.invoke({})
    assert again.function_error is None
    after = local.processes()
    assert after.keys() == before.keys()
    assert not set(after.values()) & set(before.values())
    assert [record["phase"] for record in local.of_type("initStart")] == ["init", "invoke"]
    assert local.report(again.request_id).init_duration_ms is None  # it was part of the invocation


def test_a_reset_clears_identifiers(start_idle: Start) -> None:
    local = start_idle(timeout_s=0.2)
    own = local.api.registered("INVOKE")
    local.api.next_event(own)
    local.api.next_invocation()
    local.finish({})  # it is never answered: a timeout
    refused = local.api.next_event(own).result(BOUND_S)
    assert error_of(refused)[:2] == (403, "Extension.UnknownExtensionIdentifier")


@pytest.mark.parametrize(("code", "how"), [(1, "exit status 1"), (0, "exit code 0")])
def test_an_extension_that_exits_is_a_crash_even_with_0(start: Start, code: int, how: str) -> None:
    local = start(behaviour={"exit_on_invoke": code})
    answer = local.invoke({"sleep": 60})
    assert answer.payload == {
        "errorType": "Extension.Crash",
        "errorMessage": f"RequestId: {answer.request_id} Error: {how}",
    }
    report = local.report(answer.request_id)
    assert (report.status, report.error_type) == ("error", "Extension.Crash")


def test_an_extension_over_the_deadline_spoils_an_answered_invocation(start: Start) -> None:
    local = start(behaviour={"linger_s": 60}, timeout_s=2)
    answer = local.invoke({})
    assert answer.function_error is None
    assert local.report(answer.request_id).status == "timeout"
    assert [record["status"] for record in local.of_type("runtimeDone")] == ["success"]


# --- shutdown ---------------------------------------------------------------------------------------------------------


def test_an_extension_that_ignores_shutdown_is_killed_after_two_seconds(start: Start) -> None:
    local = start(behaviour={"ignore_shutdown": True})
    local.settle()
    pid = local.processes()["extension:recorder"]
    began = time.monotonic()
    local.stop()
    assert time.monotonic() - began >= 1.9  # not before its window is over
    assert not Path(f"/proc/{pid}").exists()


def test_stop_waits_for_the_invocation_that_runs_and_later_ones_are_refused(start: Start) -> None:
    local = start(behaviour={"linger_s": 0.5})
    answer = local.invoke({})
    local.stop()
    assert [(report.request_id, report.status) for report in local.reports] == [(answer.request_id, "success")]
    assert local.processes() == {}
    with pytest.raises(Stopped):
        local.invoke({})


def test_a_runtime_that_waits_twice_is_left_without_a_word(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    local = start(FUNCTIONS / "asks_twice")
    assert local.invoke({"a": 1}).payload == {"a": 1}
    local.stop()
    gc.collect()  # asyncio tells of a task that was forgotten when that goes
    assert [record.getMessage() for record in caplog.records if record.name == "asyncio"] == []
