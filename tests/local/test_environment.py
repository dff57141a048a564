"""Init, invocation, reset and shutdown of an environment with real processes.

What the events and calls look like is in `conformance`, deaths are in `test_scenarios`: here is what happens otherwise.
"""

import gc
import os
import time
from datetime import datetime
from pathlib import Path

import pytest
from truemem_workbench.local import Stopped
from truemem_workbench.local.processes import process
from truemem_workbench.support.environment_ids import is_local

from tests.local.conftest import APP, BOUND_S, FUNCTIONS, Start, error_of

# --- init -------------------------------------------------------------------------------------------------------------


def test_the_runtime_starts_after_all_registrations(start_idle: Start) -> None:
    local = start_idle()
    api = local.api  # the extension has printed the address
    assert set(local.processes()) == {"extension:idle"}

    own = api.registered("INVOKE")
    local.wait_for_line(lambda line: line.source == "function")
    local.api.next_invocation()
    assert not local.of_type("initReport")  # the extension's own `next` is missing

    local.api.next_event(own)
    local.settle()
    assert [record["status"] for record in local.of_type("initReport")] == ["success"]


def test_an_extension_that_gives_up_in_init(start: Start) -> None:
    local = start(behaviour={"init_error": "Extension.ConfigInvalid"})
    assert local.invoke({}).payload["errorType"] == "Extension.InitError"
    assert local.of_type("extension")[0]["errorType"] == "Extension.ConfigInvalid"


@pytest.mark.parametrize("program", ["/bin/true", "/bin/false"])
def test_an_extension_that_exits_in_init_has_crashed(start: Start, program: str) -> None:
    local = start(extensions=[Path(program)])
    assert local.finish({}).payload["errorType"] == "Extension.Crash"
    assert local.of_type("initReport")[0]["errorType"] == "Extension.Crash"
    assert not local.of_type("initRuntimeDone")  # no runtime was started


# --- invocation -------------------------------------------------------------------------------------------------------


def test_the_function_runs_as_in_lambda(start: Start) -> None:
    local = start(environment={"MINE": "yes"})
    answer = local.invoke({"a": 1})
    ordinary = os.geteuid() == 0 and not local.notices  # a notice says why it is not
    assert answer.payload["event"] == {"a": 1}
    assert answer.payload["requestId"] == answer.request_id
    assert answer.payload["cwd"] == str(APP.parent)
    assert answer.payload["uid"] == (process.ordinary().uid if ordinary else os.geteuid())

    environment = local.invoke({"environment": True}).payload
    assert environment["_HANDLER"] == "app.handler"
    assert environment["LAMBDA_TASK_ROOT"] == str(APP.parent)
    assert environment["AWS_EXECUTION_ENV"] == "AWS_Lambda_python3.13"
    assert environment["AWS_LAMBDA_LOG_STREAM_NAME"].endswith(local.environment_id)
    assert is_local(environment["AWS_LAMBDA_LOG_STREAM_NAME"])
    assert environment["MINE"] == "yes"
    assert "HOME" not in environment  # the host's own variables stay there


def test_an_exception_in_the_handler_resets_nothing(start: Start) -> None:
    """An extension that is registered for SHUTDOWN alone gates no invocation."""
    local = start(behaviour={"events": ["SHUTDOWN"]})
    answer = local.finish({"raise": "boom"})
    assert (answer.payload["errorType"], answer.payload["errorMessage"]) == ("ValueError", "boom")
    before = local.processes()
    local.invoke({})
    assert local.processes() == before
    local.stop()
    assert not local.read_by_recorder("INVOKE")
    assert local.shutdown_reasons() == ["spindown"]


def test_answers_do_not_wait_for_extensions_but_others_do(start: Start) -> None:
    local = start(behaviour={"linger_s": 0.3})
    answers = [local.invoke({})]
    assert not local.of_type("report")  # the extension is still at work, and the environment busy
    answers += [local.invoke({}) for _ in range(2)]
    local.settle()
    order = [record["requestId"] for record in local.of_type("start")]
    assert order == [answer.request_id for answer in answers]
    assert local.kinds()[5:] == ["start", "runtimeDone", "report"] * 3
    assert local.reports[0].duration_ms >= 300
    assert local.of_type("runtimeDone")[0]["metrics"]["durationMs"] < local.reports[0].duration_ms


def test_the_report_comes_with_the_next_invocation(start: Start) -> None:
    """With that much lead, a report that came at the thaw would come before INVOKE."""
    local = start(behaviour={"linger_s": 0.5}, release="extension:200000")
    first = local.finish({"n": 1})
    assert local.of_type("report")  # it is made
    local.invoke({"n": 2})
    local.wait_for_telemetry("platform.report")

    invoked = [entry["at"] for entry in local.read_by_recorder("INVOKE")]
    batches = [(entry["at"], entry["telemetry"]) for entry in local.recorded() if "telemetry" in entry]
    at, report = next((at, each) for at, batch in batches for each in batch if each["type"] == "platform.report")
    assert report["record"]["requestId"] == first.request_id
    assert invoked[1] < at
    local.stop()
    assert [event["type"] for event in local.telemetry()].count("platform.report") == 2  # the last: with SHUTDOWN


@pytest.mark.parametrize(("order", "runtime_first"), [("runtime:200000", True), ("extension:200000", False)])
def test_the_side_that_is_chosen_gets_its_event_first(start: Start, order: str, runtime_first: bool) -> None:
    local = start(behaviour={"types": []}, release=order)
    in_handler = local.finish({"now": True}).payload  # time_ns, as `at`
    (invoked,) = (entry["at"] for entry in local.read_by_recorder("INVOKE"))
    assert (in_handler < invoked) == runtime_first
    # The invocation's own times begin when the runtime gets its event.
    (record,) = local.of_type("runtimeDone")
    handed_over = next(span for span in record["spans"] if span["name"] == "responseLatency")["start"]
    assert (datetime.fromisoformat(handed_over).timestamp() < invoked / 1e9) == runtime_first


def test_each_side_gets_every_invocation_once(start: Start) -> None:
    local = start(behaviour={}, release="together")
    answers = [local.invoke({"n": number}) for number in range(5)]
    local.settle()
    assert [answer.function_error for answer in answers] == [None] * 5
    received = [entry["event"]["requestId"] for entry in local.read_by_recorder("INVOKE")]
    assert received == [answer.request_id for answer in answers]


# --- reset ------------------------------------------------------------------------------------------------------------


def test_a_reset_clears_identifiers(start_idle: Start) -> None:
    local = start_idle(timeout_s=0.2)
    own = local.api.registered("INVOKE")
    local.api.next_event(own)
    local.api.next_invocation()
    local.finish({})  # it is never answered: a timeout
    refused = local.api.next_event(own).result(BOUND_S)
    assert error_of(refused)[:2] == (403, "Extension.UnknownExtensionIdentifier")


def test_an_extension_that_exits_is_a_crash_even_with_0(start: Start) -> None:
    local = start(behaviour={"exit_on_invoke": 0})
    answer = local.invoke({"sleep": 60})
    message = f"RequestId: {answer.request_id} Error: exit code 0"
    assert answer.payload == {"errorType": "Extension.Crash", "errorMessage": message}


def test_an_extension_over_the_deadline_is_a_timeout(start: Start) -> None:
    local = start(behaviour={"linger_s": 60}, timeout_s=2)
    answer = local.invoke({})
    assert answer.function_error is None
    assert local.report(answer.request_id).status == "timeout"
    assert [record["status"] for record in local.of_type("runtimeDone")] == ["success"]


# --- shutdown ---------------------------------------------------------------------------------------------------------


def test_an_extension_that_ignores_shutdown_is_killed(start: Start) -> None:
    local = start(behaviour={"ignore_shutdown": True})
    local.settle()
    pid = local.processes()["extension:recorder"]
    began = time.monotonic()
    local.stop()
    assert time.monotonic() - began >= 1.9  # not before its window is over
    assert not Path(f"/proc/{pid}").exists()


def test_stop_waits_for_the_running_invocation_alone(start: Start) -> None:
    local = start(behaviour={"linger_s": 0.3})
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
    gc.collect()  # asyncio warns of a task that was forgotten when that goes
    assert [record.getMessage() for record in caplog.records if record.name == "asyncio"] == []
