"""Managed Instances: many requests at once in one environment that never freezes and is never reset."""

from __future__ import annotations

import base64
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from pathlib import Path
from typing import Any

import psutil
import pytest
import requests
from truemem_workbench.local import BadInput, Invocation, Settings
from truemem_workbench.local.apis.telemetry_api import MANAGED_SCHEMA, parse

from tests.local.conformance.test_section_2_telemetry_api import PATH, subscription
from tests.local.conftest import BOUND_S, HERE, RECORDER, Api, Local, Start, error_of, identified, needs_cgroup_v1
from tests.local.test_cli import run

TOGETHER = f"{HERE / 'functions' / 'together.py'}:handler"
IDLE_RUNTIME = HERE / "functions" / "idle"
IDLE_EXTENSION = {"idle": HERE / "extensions" / "idle"}
LISTENS = {"events": ["SHUTDOWN"], "schema": "2025-01-29"}
ONLY_SHUTDOWN = '{"events": ["SHUTDOWN"]}'


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    pool = ThreadPoolExecutor()
    yield pool
    pool.shutdown(wait=False, cancel_futures=True)


def until(condition: Callable[[], Any]) -> None:
    end = time.monotonic() + BOUND_S
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def inside(local: Local) -> int:
    """How many requests have entered the handler."""
    return len(list((local.environment_dir / "tmp").glob("here-*")))


def permit(local: Local, name: str) -> None:
    (local.environment_dir / "tmp" / name).touch()


def later(threads: ThreadPoolExecutor, local: Local, event: object) -> Future[Invocation]:
    return threads.submit(local.invoke, event, timeout=BOUND_S)


def types(local: Local) -> list[str]:
    return [event["type"].removeprefix("platform.") for event in local.events]


def shutdowns(local: Local) -> list[dict[str, Any]]:
    """What the recorder read from `next`: nothing else comes here."""
    return [entry["event"] for entry in local.recorded() if "event" in entry]


# --- requests ---------------------------------------------------------------------------------------------------------


def test_requests_meet_inside_the_handler(start: Start, threads: ThreadPoolExecutor) -> None:
    local = start(TOGETHER, managed_instances=2)
    answers = [later(threads, local, {"meet": 2}) for _ in range(2)]
    pids = {answer.result().payload["pid"] for answer in answers}  # type: ignore[index]
    assert len(pids) == 2  # a process each, forked by AWS's runtime client
    assert local.processes()["runtime"] not in pids


def test_the_command_invokes_at_once() -> None:
    ended = run(TOGETHER, "--no-sidecar", "--managed-instances", "2", "--event", '{"meet": 2}', "--invocations", "2")
    assert ended.returncode == 0, ended.stdout
    assert ended.stdout.count("response | ") == 2


def test_one_more_than_permitted_waits(start: Start, threads: ThreadPoolExecutor) -> None:
    local = start(IDLE_RUNTIME, managed_instances=2, name="mine")
    api = Api(local.runtime_api())
    workers = [
        threads.submit(api.call, "GET", "/2018-06-01/runtime/invocation/next") for _ in range(3)
    ]  # a runtime may offer more than it is asked for
    for _ in range(3):
        invoke_and_forget(local)

    first = of_one(workers)
    second = of_one(workers)
    api.respond(first)
    third = of_one(workers)
    api.respond(second)
    api.respond(third)
    local.settle(timeout=BOUND_S)
    told = [kind for kind in types(local) if kind in ("start", "report")]
    assert told == ["start", "start", "report", "start", "report", "report"]


def invoke_and_forget(local: Local) -> None:
    url = f"{local.endpoint}/2015-03-31/functions/mine/invocations"
    assert requests.post(url, headers={"X-Amz-Invocation-Type": "Event"}, timeout=BOUND_S).status_code == 202


def of_one(workers: list[Future[requests.Response]]) -> str:
    """Wait until any `next` is answered: the request id."""
    done, _ = wait_for(workers, BOUND_S, FIRST_COMPLETED)
    worker = done.pop()
    workers.remove(worker)
    return worker.result().headers["Lambda-Runtime-Aws-Request-Id"]


def test_a_timeout_is_that_requests_alone(start: Start, threads: ThreadPoolExecutor) -> None:
    local = start(TOGETHER, managed_instances=2, timeout_s=3)
    late = later(threads, local, {"until": "the end"})
    until(lambda: inside(local) == 1)
    processes = local.processes()
    assert local.invoke({}).function_error is None

    assert late.result().payload == {
        "errorType": "Sandbox.Timedout",
        "errorMessage": f"RequestId: {late.result().request_id} Error: Task timed out after 3.00 seconds",
    }
    assert local.invoke({}).function_error is None
    assert local.processes() == processes
    record = next(each for each in local.of_type("platform.report") if each["requestId"] == late.result().request_id)
    assert (record["status"], record["errorType"]) == ("timeout", "Sandbox.Timedout")


def test_a_dead_worker_gets_no_request(start: Start, threads: ThreadPoolExecutor) -> None:
    local = start(TOGETHER, managed_instances=2)
    answers = [later(threads, local, {"meet": 2}) for _ in range(2)]
    dead, alive = (answer.result().payload["pid"] for answer in answers)  # type: ignore[index]
    local.settle(timeout=BOUND_S)
    process = psutil.Process(dead)
    process.kill()
    until(lambda: ended(process))
    assert [local.invoke({}).payload["pid"] for _ in range(3)] == [alive] * 3  # type: ignore[index]
    assert not any(event["status"] == "error" for event in local.of_type("platform.report"))


def ended(process: psutil.Process) -> bool:
    """Its parent may not look: then it stays a zombie."""
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_a_late_response_is_told_so_once(start: Start) -> None:
    local = start(IDLE_RUNTIME, managed_instances=1, timeout_s=0.1)
    api = Api(local.runtime_api())
    worker = api.next_invocation()
    local.invoke({})
    late = worker.get().headers["Lambda-Runtime-Aws-Request-Id"]
    assert error_of(api.respond(late)) == (410, "InvokeTimeout", "Invoke timeout")
    assert error_of(api.respond(late)) == (400, "InvalidRequestID", "Invalid request ID")


def test_a_response_counts_once(start: Start, threads: ThreadPoolExecutor) -> None:
    local = start(IDLE_RUNTIME, managed_instances=1)
    api = Api(local.runtime_api())
    worker = api.next_invocation()
    answer = later(threads, local, {})
    headers = worker.get().headers
    request_id = headers["Lambda-Runtime-Aws-Request-Id"]
    wrong = api.respond(request_id, **{"Lambda-Runtime-Invocation-Id": "another"})
    assert wrong.status_code == 410
    assert api.respond(request_id, "1").status_code == 202
    assert api.respond(request_id, "2").status_code == 400
    assert answer.result().payload == 1


def test_an_exception_in_the_handler_is_an_error_in_the_report(start: Start) -> None:
    local = start(TOGETHER, managed_instances=1)
    answer = local.invoke({"raise": "boom"})
    assert answer.function_error == "Unhandled"
    assert answer.payload["errorMessage"] == "boom"  # type: ignore[index]
    assert local.report(answer.request_id).status == "error"


def test_the_log_tail_has_the_lines_of_its_own_request(start: Start, threads: ThreadPoolExecutor) -> None:
    local = start(TOGETHER, managed_instances=2, name="mine")
    other = later(threads, local, {"meet": 2})
    url = f"{local.endpoint}/2015-03-31/functions/mine/invocations"
    answer = requests.post(url, headers={"X-Amz-Log-Type": "Tail"}, data='{"meet": 2}', timeout=BOUND_S)
    tail = base64.b64decode(answer.headers["X-Amz-Log-Result"]).decode().splitlines()
    request_id = answer.headers["x-amzn-RequestId"]
    assert [json.loads(tail[0])["type"], tail[1], json.loads(tail[2])["type"]] == [
        "platform.start",
        f"seen {request_id}",
        "platform.report",
    ]
    assert other.result().request_id not in "".join(tail)


# --- what is told -----------------------------------------------------------------------------------------------------


def test_an_init_and_a_request_in_the_order_of_aws_code(start: Start) -> None:
    local = start(TOGETHER, managed_instances=1, behaviour=LISTENS)
    local.invoke({})
    local.settle(timeout=BOUND_S)
    assert types(local) == [
        "initStart",
        "telemetrySubscription",
        "initRuntimeDone",
        "extension",
        "initReport",
        "start",
        "report",
    ]
    for kind in ("initStart", "initRuntimeDone", "initReport"):
        assert local.of_type(f"platform.{kind}")[0]["initializationType"] == "lambda-managed-instances"
    local.wait_for_telemetry("platform.report")


def test_a_report_has_a_duration_and_no_memory(start: Start) -> None:
    local = start(TOGETHER, managed_instances=1)
    answer = local.invoke({})
    report = local.report(answer.request_id)
    record = local.of_type("platform.report")[0]
    assert record["metrics"] == {"durationMs": report.duration_ms}
    assert [span["name"] for span in record["spans"]] == ["responseLatency", "responseDuration"]
    assert not any("Max Memory Used" in line.text or "maxMemoryUsedMB" in line.text for line in local.logs)
    assert report.max_memory_used_mib > 0  # this machine knows it all the same


def test_extensions_are_not_told_the_concurrency(start: Start) -> None:
    local = start(TOGETHER, managed_instances=3, behaviour=LISTENS)
    environment = local.invoke({}).payload["environment"]  # type: ignore[index]
    assert environment["AWS_LAMBDA_MAX_CONCURRENCY"] == "3"
    theirs = Path(f"/proc/{local.processes()['extension:recorder']}/environ").read_bytes().split(b"\0")
    assert b"AWS_LAMBDA_INITIALIZATION_TYPE=lambda-managed-instances" in theirs
    assert not any(each.startswith(b"AWS_LAMBDA_MAX_CONCURRENCY") for each in theirs)


def test_nothing_is_ever_frozen(start: Start) -> None:
    local = start(f"{HERE / 'functions' / 'app.py'}:counting", managed_instances=1)
    counter = local.environment_dir / "tmp" / "counter"
    local.invoke({"path": str(counter)})
    local.settle(timeout=BOUND_S)
    before = int(counter.read_text() or 0)
    until(lambda: int(counter.read_text() or 0) > before)
    assert local.notices == [] or not any("freeze" in notice for notice in local.notices)


# --- extensions -------------------------------------------------------------------------------------------------------


@pytest.fixture
def api(start: Start) -> Api:
    """The API of an environment whose one extension, `idle`, the test plays itself."""
    return Api(start(IDLE_RUNTIME, managed_instances=1, extensions=IDLE_EXTENSION, init_timeout_s=60).runtime_api())


def test_there_is_no_invoke_to_register_for(api: Api) -> None:
    refusal = api.register(body='{"events": ["INVOKE", "SHUTDOWN"]}')
    assert error_of(refusal) == (403, "Extension.InvalidEventType", "INVOKE: ErrorInvalidEventType")
    refusal = api.register("internal", ONLY_SHUTDOWN)
    assert error_of(refusal) == (403, "Extension.InvalidEventType", "No events allowed for internal extensions")
    assert api.register("internal", '{"events": []}').status_code == 200
    assert api.register(body=ONLY_SHUTDOWN).status_code == 200


def test_only_the_latest_schema_is_accepted(api: Api) -> None:
    own = identified(api.register(body=ONLY_SHUTDOWN).headers["Lambda-Extension-Identifier"])
    for version in ("2022-07-01", "2022-12-13"):
        status, kind, message = error_of(api.call("PUT", PATH, headers=own, json=subscription(schemaVersion=version)))
        assert (status, kind) == (400, "ValidationError")
        assert message.startswith("schemaVersion: ")
    assert api.call("PUT", PATH, headers=own, json=subscription(schemaVersion="2025-01-29")).status_code == 200


# --- the end ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("victim", "error_type"), [("runtime", "Runtime.ExitError"), ("extension:other", "Extension.Crash")]
)
def test_a_crash_ends_the_environment_and_another_takes_its_place(
    start: Start, threads: ThreadPoolExecutor, victim: str, error_type: str
) -> None:
    both = {"recorder": RECORDER, "other": RECORDER}
    local = start(TOGETHER, managed_instances=2, extensions=both, environment={"RECORDER": json.dumps(LISTENS)})
    running = [later(threads, local, {"until": "the end"}) for _ in range(2)]
    until(lambda: inside(local) == 2)
    os.kill(local.processes()[victim], signal.SIGKILL)
    for each in running:
        assert each.result().payload["errorType"] == error_type  # type: ignore[index]
    local.settle(timeout=BOUND_S)

    assert [event["shutdownReason"] for event in shutdowns(local)] == ["failure"]
    entries = local.recorded()
    end = next(at for at, entry in enumerate(entries) if "event" in entry)
    told = [
        event for entry in entries[:end] for event in entry.get("telemetry", ()) if event["type"] == "platform.report"
    ]
    assert [(event["record"]["status"], event["record"]["errorType"]) for event in told] == [("error", error_type)] * 2

    assert inside(local) == 2
    assert local.invoke({}).function_error is None
    assert inside(local) == 1  # of its own /tmp
    streams = [record["instanceId"] for record in local.of_type("platform.initStart")]
    assert len(set(streams)) == 2
    assert not any(record["phase"] != "init" for record in local.of_type("platform.initStart"))


@needs_cgroup_v1
def test_the_next_environment_has_a_mark_of_its_own(start: Start) -> None:
    local = start(managed_instances=1)
    assert local.report(local.invoke({"touch": 200}).request_id).max_memory_used_mib >= 200
    os.kill(local.processes()["runtime"], signal.SIGKILL)
    until(lambda: "runtime" not in local.processes())
    assert local.report(local.invoke({}).request_id).max_memory_used_mib < 200


def test_an_init_that_fails_answers_whoever_waits(start: Start) -> None:
    local = start(f"{HERE / 'functions' / 'init_fails.py'}:handler", managed_instances=2)
    answer = local.invoke({})
    assert answer.function_error == "Unhandled"
    assert answer.payload["errorMessage"] == "no luck at init"  # type: ignore[index]
    local.settle(timeout=BOUND_S)
    assert not local.of_type("platform.start")
    assert not local.reports
    assert {record["status"] for record in local.of_type("platform.initReport")} == {"error"}


def test_an_init_over_its_limit_has_an_error_type(start: Start) -> None:
    local = start(IDLE_RUNTIME, managed_instances=1, init_timeout_s=0.2)
    local.settle(timeout=BOUND_S)
    record = local.of_type("platform.initReport")[0]
    assert (record["status"], record["errorType"]) == ("timeout", "Sandbox.Timedout")
    assert not local.of_type("platform.initRuntimeDone")


def test_it_is_stopped_after_what_is_running(start: Start, threads: ThreadPoolExecutor) -> None:
    local = start(TOGETHER, managed_instances=2, behaviour=LISTENS)
    running = later(threads, local, {"until": "permitted"})
    until(lambda: inside(local) == 1)
    stopping = threads.submit(local.stop)
    permit(local, "permitted")
    assert running.result().function_error is None
    stopping.result()
    assert [event["shutdownReason"] for event in shutdowns(local)] == ["spindown"]
    assert local.telemetry()[-1]["type"] == "platform.report"


def test_no_request_at_all_is_refused() -> None:
    with pytest.raises(BadInput, match="Try --managed-instances 4"):
        Settings(managed_instances=0)


# --- settings ---------------------------------------------------------------------------------------------------------


def test_the_largest_environment(start: Start) -> None:
    local = start(TOGETHER, managed_instances=1, memory_mib=32_768)
    answer = local.invoke({})
    assert isinstance(answer.payload, dict)
    assert answer.payload["environment"]["AWS_LAMBDA_FUNCTION_MEMORY_SIZE"] == "32768"


@pytest.mark.parametrize("timeout_ms", [25, 250, 30_000])
def test_telemetry_is_buffered_for_as_long_as_aws_allows(timeout_ms: int) -> None:
    wanted = {
        "schemaVersion": "2025-01-29",
        "types": ["platform"],
        "buffering": {"timeoutMs": timeout_ms},
        "destination": {"protocol": "HTTP", "URI": "http://sandbox.localdomain:8080"},
    }
    assert parse(json.dumps(wanted).encode(), MANAGED_SCHEMA) == wanted
