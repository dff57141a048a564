"""Managed Instances: many requests at once in one environment that never freezes and is never reset.

The order of events and their members are in `conformance`; that nothing is frozen, in `test_freezer`.
"""

import base64
import json
import os
import signal
from concurrent.futures import FIRST_COMPLETED, Future, wait
from pathlib import Path

import psutil
import pytest
import requests

from tests.local.conformance.test_section_2_telemetry_api import subscribe
from tests.local.conftest import (
    BOUND_S,
    FUNCTIONS,
    IDLE_RUNTIME,
    RECORDER,
    REQUEST_ID,
    TOGETHER,
    Local,
    LocalRun,
    Start,
    error_of,
    has_ended,
    in_background,
    needs_cgroup_v1,
    until,
)

LISTENS = {"events": ["SHUTDOWN"], "schema": "2025-01-29"}
ONLY_SHUTDOWN = '{"events": ["SHUTDOWN"]}'


def inside(local: Local) -> int:
    """How many requests have entered the handler."""
    return len(list((local.environment_dir / "tmp").glob("here-*")))


# --- requests ---------------------------------------------------------------------------------------------------------


def test_the_command_invokes_at_once(local_run: LocalRun) -> None:
    several = ["--managed-instances", "2", "--event", '{"meet": 2}', "--invocations", "2"]
    ended = local_run(f"{TOGETHER}:handler", "--no-sidecar", *several)
    assert ended.returncode == 0, ended.stdout
    assert ended.stdout.count("response | ") == 2


def test_one_more_than_permitted_waits(start: Start) -> None:
    local = start(IDLE_RUNTIME, managed_instances=2)
    workers = [local.api.next_invocation() for _ in range(3)]  # a runtime may offer more than it is asked for
    for _ in range(3):
        assert local.post(X_Amz_Invocation_Type="Event").status_code == 202

    first = of_one(workers)
    second = of_one(workers)
    local.api.respond(first)
    third = of_one(workers)
    local.api.respond(second)
    local.api.respond(third)
    local.settle()
    order = [kind for kind in local.kinds() if kind in ("start", "report")]
    assert order == ["start", "start", "report", "start", "report", "report"]


def of_one(workers: list[Future[requests.Response]]) -> str:
    """Wait until any `next` is answered: the request id."""
    done, _ = wait(workers, BOUND_S, FIRST_COMPLETED)
    worker = done.pop()
    workers.remove(worker)
    return worker.result().headers[REQUEST_ID]


def test_a_timeout_is_that_requests_alone(start: Start) -> None:
    local = start(TOGETHER, managed_instances=2, timeout_s=3)
    waiting = local.invoke_in_background({"until": "the end"})
    until(lambda: inside(local) == 1)
    processes = local.processes()
    assert local.invoke({}).function_error is None

    late = waiting.result()
    assert late.payload == {
        "errorType": "Sandbox.Timedout",
        "errorMessage": f"RequestId: {late.request_id} Error: Task timed out after 3.00 seconds",
    }
    assert local.invoke({}).function_error is None
    assert local.processes() == processes
    record = next(each for each in local.of_type("report") if each["requestId"] == late.request_id)
    assert (record["status"], record["errorType"]) == ("timeout", "Sandbox.Timedout")


def test_a_dead_worker_gets_no_request(start: Start) -> None:
    local = start(TOGETHER, managed_instances=2)
    answers = [local.invoke_in_background({"meet": 2}) for _ in range(2)]
    dead, alive = (answer.result().payload["pid"] for answer in answers)
    assert len({dead, alive, local.processes()["runtime"]}) == 3  # each is forked by AWS's runtime client
    local.settle()
    process = psutil.Process(dead)
    process.kill()
    until(lambda: has_ended(process))
    assert [local.invoke({}).payload["pid"] for _ in range(3)] == [alive] * 3
    assert not any(event["status"] == "error" for event in local.of_type("report"))


def test_a_response_counts_once_and_in_time(start: Start) -> None:
    local = start(IDLE_RUNTIME, managed_instances=1, timeout_s=1)
    worker = local.api.next_invocation()
    answer = local.invoke_in_background({})
    request_id = worker.result().headers[REQUEST_ID]
    assert local.api.respond(request_id, Lambda_Runtime_Invocation_Id="another").status_code == 410
    assert local.api.respond(request_id, "1").status_code == 202
    assert local.api.respond(request_id, "2").status_code == 400
    assert answer.result().payload == 1

    worker = local.api.next_invocation()
    local.invoke({})  # it times out
    late = worker.result().headers[REQUEST_ID]
    assert error_of(local.api.respond(late)) == (410, "InvokeTimeout", "Invoke timeout")
    assert error_of(local.api.respond(late)) == (400, "InvalidRequestID", "Invalid request ID")


def test_the_log_tail_has_the_lines_of_its_own_request(start: Start) -> None:
    local = start(TOGETHER, managed_instances=2)
    other = local.invoke_in_background({"meet": 2})
    answer = local.post(data='{"meet": 2}', X_Amz_Log_Type="Tail")
    first, seen, last = base64.b64decode(answer.headers["X-Amz-Log-Result"]).decode().splitlines()
    assert (json.loads(first)["type"], json.loads(last)["type"]) == ("platform.start", "platform.report")
    assert seen == f"seen {answer.headers['x-amzn-RequestId']}"
    assert other.result().request_id not in first + seen + last


def test_a_report_has_no_memory_and_comes_at_once(start: Start) -> None:
    local = start(TOGETHER, managed_instances=3, memory_mib=32_768, behaviour=LISTENS)
    answer = local.invoke({})
    report = local.report(answer.request_id)
    assert local.of_type("report")[0]["metrics"] == {"durationMs": report.duration_ms}
    assert not any("Max Memory Used" in line.text or "maxMemoryUsedMB" in line.text for line in local.logs)
    assert report.max_memory_used_mib > 0  # this machine knows it all the same
    local.wait_for_telemetry("platform.report")
    failed = local.invoke({"raise": "boom"})
    assert (failed.function_error, failed.payload["errorMessage"]) == ("Unhandled", "boom")
    assert local.report(failed.request_id).status == "error"

    environment = answer.payload["environment"]
    assert environment["AWS_LAMBDA_FUNCTION_MEMORY_SIZE"] == "32768"
    assert environment["AWS_LAMBDA_MAX_CONCURRENCY"] == "3"
    theirs = Path(f"/proc/{local.processes()['extension:recorder']}/environ").read_bytes().split(b"\0")
    assert b"AWS_LAMBDA_INITIALIZATION_TYPE=lambda-managed-instances" in theirs
    assert not any(each.startswith(b"AWS_LAMBDA_MAX_CONCURRENCY") for each in theirs)


# --- extensions -------------------------------------------------------------------------------------------------------


def test_what_extensions_may_register_for(start_idle: Start) -> None:
    local = start_idle(managed_instances=1)
    refusal = local.api.register(body='{"events": ["INVOKE", "SHUTDOWN"]}')
    assert error_of(refusal) == (403, "Extension.InvalidEventType", "INVOKE: ErrorInvalidEventType")
    refusal = local.api.register("internal", ONLY_SHUTDOWN)
    assert error_of(refusal) == (403, "Extension.InvalidEventType", "No events allowed for internal extensions")
    assert local.api.register("internal", '{"events": []}').status_code == 200

    own = local.api.registered("SHUTDOWN")
    for version in ("2022-07-01", "2022-12-13"):
        status, kind, message = error_of(subscribe(local, own, schemaVersion=version))
        assert (status, kind, message[:15]) == (400, "ValidationError", "schemaVersion: ")
    assert subscribe(local, own, schemaVersion="2025-01-29").status_code == 200


# --- the end ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("victim", "error_type"), [("runtime", "Runtime.ExitError"), ("extension:other", "Extension.Crash")]
)
def test_a_crash_ends_the_environment_and_the_next_starts(start: Start, victim: str, error_type: str) -> None:
    both = {"recorder": RECORDER, "other": RECORDER}
    local = start(TOGETHER, managed_instances=2, extensions=both, behaviour=LISTENS)
    running = [local.invoke_in_background({"until": "the end"}) for _ in range(2)]
    until(lambda: inside(local) == 2)
    os.kill(local.processes()[victim], signal.SIGKILL)
    assert [each.result().payload["errorType"] for each in running] == [error_type] * 2
    local.settle()

    assert local.shutdown_reasons() == ["failure"]
    entries = local.recorded()
    before_shutdown = entries[: next(at for at, entry in enumerate(entries) if "event" in entry)]
    sent = [event for entry in before_shutdown for event in entry.get("telemetry", ())]
    reports = [event["record"] for event in sent if event["type"] == "platform.report"]
    assert [(report["status"], report["errorType"]) for report in reports] == [("error", error_type)] * 2

    assert inside(local) == 2
    assert local.invoke({}).function_error is None
    assert inside(local) == 1  # of its own /tmp
    inits = local.of_type("initStart")
    assert len({init["instanceId"] for init in inits}) == 2
    assert {init["phase"] for init in inits} == {"init"}


@needs_cgroup_v1
def test_the_next_environment_has_a_mark_of_its_own(start: Start) -> None:
    local = start(managed_instances=1)
    assert local.report(local.invoke({"touch": 200}).request_id).max_memory_used_mib >= 200
    os.kill(local.processes()["runtime"], signal.SIGKILL)
    until(lambda: "runtime" not in local.processes())
    assert local.report(local.invoke({}).request_id).max_memory_used_mib < 200


def test_a_failed_init_answers_the_waiting_requests(start: Start) -> None:
    local = start(FUNCTIONS / "init_fails.py", managed_instances=2)
    answer = local.finish({})
    assert (answer.function_error, answer.payload["errorMessage"]) == ("Unhandled", "no luck at init")
    assert not local.of_type("start")
    assert not local.reports
    assert {record["status"] for record in local.of_type("initReport")} == {"error"}


def test_an_init_over_its_limit_has_an_error_type(start: Start) -> None:
    local = start(IDLE_RUNTIME, managed_instances=1, init_timeout_s=0.2)
    local.settle()
    record = local.of_type("initReport")[0]
    assert (record["status"], record["errorType"]) == ("timeout", "Sandbox.Timedout")
    assert not local.of_type("initRuntimeDone")


def test_it_is_stopped_after_what_is_running(start: Start) -> None:
    local = start(TOGETHER, managed_instances=2, behaviour=LISTENS)
    running = local.invoke_in_background({"until": "permitted"})
    until(lambda: inside(local) == 1)
    stopping = in_background(local.stop)
    (local.environment_dir / "tmp" / "permitted").touch()
    assert running.result().function_error is None
    stopping.result()
    assert local.shutdown_reasons() == ["spindown"]
    assert local.telemetry()[-1]["type"] == "platform.report"
