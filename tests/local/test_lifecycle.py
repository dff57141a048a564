"""Init, invocation, reset and shutdown of an environment with real processes."""

from __future__ import annotations

import gc
import os
import time
from pathlib import Path
from typing import Any

import pytest
from truemem_workbench.local import BadInput, Function, LocalLambda, Settings, Stopped
from truemem_workbench.local.processes.user import UID

from tests.local.conftest import APP, BOUND_S, HERE, RECORDER, Api, Local, Start, error_of, identified


def events(local: Local, kind: str) -> list[dict[str, Any]]:
    """What the recorder read from `next`."""
    entries = (entry["event"] for entry in local.recorded() if "event" in entry)
    return [event for event in entries if event["eventType"] == kind]


# --- init -------------------------------------------------------------------------------------------------------------


def test_the_runtime_starts_when_every_extension_has_registered(start: Start) -> None:
    local = start(HERE / "functions" / "idle", extensions={"idle": HERE / "extensions" / "idle"}, init_timeout_s=60)
    api = Api(local.runtime_api())
    assert set(local.processes()) == {"extension:idle"}

    identifier = api.register().headers["Lambda-Extension-Identifier"]
    local.lines.wait(lambda line: line.source == "function")  # it prints the address as well
    api.next_invocation()
    assert not local.of_type("platform.initReport")  # the extension's own `next` is missing

    api.next_event(identifier)
    local.settle(timeout=BOUND_S)
    assert [record["status"] for record in local.of_type("platform.initReport")] == ["success"]


def test_an_init_in_the_order_of_aws_code(start: Start) -> None:
    local = start(behaviour={})
    local.settle(timeout=BOUND_S)
    assert [event["type"] for event in local.events] == [
        "platform.initStart",
        "platform.telemetrySubscription",
        "platform.initRuntimeDone",
        "platform.extension",
        "platform.initReport",
    ]
    assert local.of_type("platform.extension") == [
        {"name": "recorder", "state": "Ready", "events": ["INVOKE", "SHUTDOWN"]}
    ]


def test_the_first_report_carries_the_init_and_bills_it(start: Start) -> None:
    local = start()
    first = local.report(local.invoke({}).request_id)
    second = local.report(local.invoke({}).request_id)
    assert first.init_duration_ms is not None
    assert first.billed_duration_ms >= first.init_duration_ms + first.duration_ms
    assert second.init_duration_ms is None
    assert second.billed_duration_ms < second.duration_ms + 1


def test_a_failed_init_is_done_again_within_the_first_invocation(start: Start) -> None:
    local = start(f"{HERE / 'functions' / 'init_fails.py'}:handler")
    answer = local.invoke({})
    local.settle(timeout=BOUND_S)

    assert answer.function_error == "Unhandled"
    assert isinstance(answer.payload, dict)
    assert answer.payload["errorMessage"] == "no luck at init"  # what the runtime itself posted
    reports = local.of_type("platform.initReport")
    assert [(report["phase"], report["status"]) for report in reports] == [("init", "error"), ("invoke", "error")]
    assert any(line.text.startswith("INIT_REPORT Init Duration: ") for line in local.logs)


def test_an_init_over_its_limit_is_done_again_under_the_functions_timeout(start: Start) -> None:
    # Python itself must have started by then, on a busy machine as well.
    local = start(f"{HERE / 'functions' / 'init_hangs.py'}:handler", init_timeout_s=3)
    assert local.invoke({"a": 1}).payload == {"a": 1}  # /tmp survived: the second init found the mark of the first
    reports = local.of_type("platform.initReport")
    assert [(report["phase"], report["status"]) for report in reports] == [("init", "timeout"), ("invoke", "success")]


def test_an_extension_that_gives_up_in_init(start: Start) -> None:
    local = start(behaviour={"init_error": "Extension.ConfigInvalid"})
    answer = local.invoke({})
    assert isinstance(answer.payload, dict)
    assert answer.payload["errorType"] == "Extension.InitError"
    assert local.of_type("platform.extension")[0]["errorType"] == "Extension.ConfigInvalid"


@pytest.mark.parametrize(("command", "error_type"), [("/bin/true", "Extension.Crash"), ("no", "Extension.LaunchError")])
def test_without_its_extension_the_runtime_is_not_started(
    start: Start, tmp_path: Path, command: str, error_type: str
) -> None:
    path = tmp_path / "extension"
    path.write_text(f"#!/{command.lstrip('/')}\n")
    path.chmod(0o755)
    answer = start(extensions=[path]).invoke({})
    assert isinstance(answer.payload, dict)
    assert answer.payload["errorType"] == error_type


def test_no_runtime_done_without_a_runtime(start: Start) -> None:
    local = start(extensions=[Path("/bin/false")])
    local.settle(timeout=BOUND_S)
    assert local.of_type("platform.initReport")[0]["errorType"] == "Extension.Crash"
    assert not local.of_type("platform.initRuntimeDone")


# --- invocation -------------------------------------------------------------------------------------------------------


def test_the_function_runs_as_in_lambda(start: Start) -> None:
    local = start(environment={"MINE": "yes"})
    answer = local.invoke({"a": 1})
    assert isinstance(answer.payload, dict)
    assert answer.payload["event"] == {"a": 1}
    assert answer.payload["requestId"] == answer.request_id
    assert answer.payload["cwd"] == str(APP.parent)
    ordinary = os.geteuid() == 0 and not local.notices  # a notice says why it is not
    assert answer.payload["uid"] == (UID if ordinary else os.geteuid())

    environment = local.invoke({"environment": True}).payload
    assert isinstance(environment, dict)
    assert environment["_HANDLER"] == "app.handler"
    assert environment["LAMBDA_TASK_ROOT"] == str(APP.parent)
    assert environment["AWS_EXECUTION_ENV"].startswith("AWS_Lambda_python3.")
    assert environment["AWS_LAMBDA_LOG_STREAM_NAME"].endswith(local.environment_id)
    assert environment["MINE"] == "yes"
    assert "HOME" not in environment  # the host's own variables stay there


def test_the_answer_does_not_wait_for_the_extensions(start: Start) -> None:
    local = start(behaviour={"linger_s": 1.0})
    answer = local.invoke({})
    assert not local.of_type("platform.report")  # the extension is still at work, and the environment busy
    report = local.report(answer.request_id)
    assert report.duration_ms >= 1000
    runtime_done = local.of_type("platform.runtimeDone")[0]
    assert runtime_done["metrics"]["durationMs"] < report.duration_ms
    spans = local.of_type("platform.report")[0]["spans"]
    assert [span["name"] for span in spans] == ["extensionOverhead"]


def test_a_second_invocation_waits_its_turn(start: Start) -> None:
    local = start(behaviour={"linger_s": 0.3})
    answers = [local.invoke({"n": n}) for n in range(3)]
    local.settle(timeout=BOUND_S)
    order = [record["requestId"] for record in local.of_type("platform.start")]
    assert order == [answer.request_id for answer in answers]
    kinds = [e["type"].removeprefix("platform.") for e in local.events if "requestId" in e["record"]]
    assert kinds == ["start", "runtimeDone", "report"] * 3


def test_invoke_as_the_extension_reads_it(start: Start) -> None:
    local = start(behaviour={}, timeout_s=7)
    answer = local.invoke({})
    local.settle(timeout=BOUND_S)
    entry = next(entry for entry in local.recorded() if "event" in entry)
    event = entry["event"]
    assert set(event) == {"eventType", "deadlineMs", "requestId", "invokedFunctionArn", "tracing"}
    assert event["requestId"] == answer.request_id
    assert event["invokedFunctionArn"] == answer.arn
    assert isinstance(event["deadlineMs"], int)
    assert 0 < event["deadlineMs"] - entry["at"] / 1e6 <= 7001
    assert entry["headers"]["lambda-extension-event-identifier"]
    assert entry["headers"]["content-type"] == "application/json"


def test_an_extension_for_shutdown_alone_never_gates(start: Start) -> None:
    local = start(behaviour={"events": ["SHUTDOWN"]})
    local.invoke({})
    local.settle(timeout=BOUND_S)
    local.stop()
    assert not events(local, "INVOKE")
    assert [event["shutdownReason"] for event in events(local, "SHUTDOWN")] == ["spindown"]


def test_an_exception_in_the_handler_is_a_success_for_the_platform(start: Start) -> None:
    local = start(behaviour={})
    answer = local.invoke({"raise": "boom"})
    assert answer.function_error == "Unhandled"
    assert isinstance(answer.payload, dict)
    assert (answer.payload["errorType"], answer.payload["errorMessage"]) == ("ValueError", "boom")
    assert local.report(answer.request_id).status == "success"
    assert local.of_type("platform.runtimeDone")[0]["status"] == "success"
    pid = local.processes()["runtime"]
    local.invoke({})
    assert local.processes()["runtime"] == pid  # no reset


def test_the_report_comes_with_the_next_invocation(start: Start) -> None:
    """With that much lead, a report that came at the thaw would come before INVOKE."""
    local = start(behaviour={"linger_s": 0.5}, release="extension:200000")
    first = local.invoke({"n": 1})
    local.settle(timeout=BOUND_S)
    assert local.of_type("platform.report")  # it is made
    local.invoke({"n": 2})
    local.wait_for_telemetry("platform.report")

    invoked, reported = arrivals(local, first.request_id)
    assert invoked[1] < reported
    local.stop()
    assert len([event for event in local.telemetry() if event["type"] == "platform.report"]) == 2  # the last: SHUTDOWN


def arrivals(local: Local, request_id: str) -> tuple[list[int], int]:
    """When each INVOKE came, and when the report of an invocation came: time_ns."""
    invoked = [entry["at"] for entry in local.recorded() if entry.get("event", {}).get("eventType") == "INVOKE"]
    reported = [
        entry["at"]
        for entry in local.recorded()
        for event in entry.get("telemetry", [])
        if event["type"] == "platform.report" and event["record"]["requestId"] == request_id
    ]
    return invoked, reported[0]


# --- reset ------------------------------------------------------------------------------------------------------------


def test_a_timeout(start: Start) -> None:
    local = start(behaviour={}, timeout_s=0.5)
    answer = local.invoke({"sleep": 60})
    assert isinstance(answer.payload, dict)
    assert answer.payload["errorMessage"].endswith("Task timed out after 0.50 seconds")
    report = local.report(answer.request_id)
    assert (report.status, report.error_type) == ("timeout", None)
    assert local.of_type("platform.runtimeDone")[0].keys() >= {"status", "requestId"}
    assert "errorType" not in local.of_type("platform.runtimeDone")[0]
    assert [event["shutdownReason"] for event in events(local, "SHUTDOWN")] == ["timeout"]
    assert report.line().endswith("\tStatus: timeout")


@pytest.mark.parametrize(("code", "how"), [(3, "with error: exit status 3"), (0, "without providing a reason")])
def test_a_runtime_that_exits(start: Start, code: int, how: str) -> None:
    local = start(behaviour={})
    local.settle(timeout=BOUND_S)
    before = local.processes()
    answer = local.invoke({"exit": code})
    assert answer.payload == {
        "errorType": "Runtime.ExitError",
        "errorMessage": f"RequestId: {answer.request_id} Error: Runtime exited {how}",
    }
    assert local.report(answer.request_id).error_type == "Runtime.ExitError"
    assert local.processes() == {}
    assert [event["shutdownReason"] for event in events(local, "SHUTDOWN")] == ["failure"]

    again = local.invoke({})
    assert again.function_error is None
    after = local.processes()
    assert after.keys() == before.keys()
    assert not set(after.values()) & set(before.values())
    assert [record["phase"] for record in local.of_type("platform.initStart")] == ["init", "invoke"]
    assert local.report(again.request_id).init_duration_ms is None  # it was part of the invocation


def test_a_reset_clears_identifiers(start: Start) -> None:
    extensions = {"idle": HERE / "extensions" / "idle"}
    local = start(HERE / "functions" / "idle", extensions=extensions, init_timeout_s=60, timeout_s=0.2)
    api = Api(local.runtime_api())
    identifier = api.register().headers["Lambda-Extension-Identifier"]
    api.next_event(identifier)
    api.next_invocation()
    local.report(local.invoke({}).request_id)  # nobody answers: a timeout
    refused = api.call("GET", "/2020-01-01/extension/event/next", headers=identified(identifier))
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
    local = start(behaviour={"linger_s": 60}, timeout_s=0.5)
    answer = local.invoke({})
    assert answer.function_error is None
    assert local.report(answer.request_id).status == "timeout"
    assert [record["status"] for record in local.of_type("platform.runtimeDone")] == ["success"]


# --- shutdown ---------------------------------------------------------------------------------------------------------


def test_spindown(start: Start) -> None:
    local = start(behaviour={})
    local.invoke({})
    local.stop()
    (event,) = events(local, "SHUTDOWN")
    assert event["shutdownReason"] == "spindown"
    entry = next(entry for entry in local.recorded() if entry.get("event") == event)
    assert event["deadlineMs"] - entry["at"] / 1e6 <= 2001
    assert entry["headers"]["content-type"].startswith("text/plain")
    assert "lambda-extension-event-identifier" not in entry["headers"]
    assert local.processes() == {}
    local.stop()  # once more does nothing


def test_who_ignores_shutdown_is_killed_after_two_seconds(start: Start) -> None:
    local = start(behaviour={"ignore_shutdown": True})
    local.settle(timeout=BOUND_S)
    pid = local.processes()["extension:recorder"]
    began = time.monotonic()
    local.stop()
    assert time.monotonic() - began >= 1.9  # not before its window is over
    assert not Path(f"/proc/{pid}").exists()


def test_stop_waits_for_the_invocation_that_runs(start: Start) -> None:
    local = start(behaviour={"linger_s": 0.5})
    answer = local.invoke({})
    local.stop()
    assert [report.request_id for report in local.reports] == [answer.request_id]
    assert local.reports[0].status == "success"


def test_a_runtime_that_waits_twice_is_left_without_a_word(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    local = start(HERE / "functions" / "asks_twice")
    assert local.invoke({"a": 1}).payload == {"a": 1}
    local.stop()
    gc.collect()  # asyncio tells of a task that was forgotten when that goes
    assert [record.getMessage() for record in caplog.records if record.name == "asyncio"] == []


def test_an_invocation_after_the_stop_is_refused() -> None:
    local = LocalLambda(Function.from_spec(f"{APP}:handler"), Settings())
    with local:
        local.invoke({})
    with pytest.raises(Stopped):
        local.invoke({})


def test_two_extensions_of_one_name() -> None:
    with pytest.raises(BadInput, match=r"two extensions named recorder\.py"):
        Settings(extensions=[RECORDER, HERE / "elsewhere" / "recorder.py"])


def test_the_recorder_prints_json(start: Start) -> None:
    """The other tests rest on it."""
    local = start(behaviour={})
    local.settle(timeout=BOUND_S)
    assert local.recorded()[0]["registered"].endswith("200 OK")
