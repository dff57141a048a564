"""Ways in which an environment comes to life other than on demand, and tenants that never share one."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable
from typing import Any

import boto3
import pytest
from truemem_workbench.local import BadInput, Settings

from tests.local.conftest import BOUND_S, HERE, Local, Start, needs_cgroup_v1

SNAP_START = f"{HERE / 'functions' / 'snap_start.py'}:handler"


def kinds(local: Local) -> list[str]:
    """Types of the platform's events so far, in order, without `platform.`."""
    return [event["type"].removeprefix("platform.") for event in local.events]


# --- tenant isolation -------------------------------------------------------------------------------------------------


def test_the_runtime_and_the_platforms_events_name_the_tenant(start: Start) -> None:
    local = start(behaviour={})
    answer = local.invoke({"tenant": True}, tenant_id="blue")
    local.settle(timeout=BOUND_S)
    assert isinstance(answer.payload, dict)
    assert answer.payload["tenant"] == "blue"
    for kind in ("platform.start", "platform.runtimeDone", "platform.report"):
        assert [record["tenantId"] for record in local.of_type(kind)] == ["blue"]
    (invoke,) = (entry["event"] for entry in local.recorded() if entry.get("event", {}).get("eventType") == "INVOKE")
    assert "blue" not in json.dumps(invoke)


def test_without_a_tenant_nobody_speaks_of_one(start: Start) -> None:
    local = start()
    local.invoke({})
    local.settle(timeout=BOUND_S)
    assert "tenantId" not in json.dumps(local.events)


def test_another_tenant_gets_another_environment(start: Start) -> None:
    local = start(behaviour={})
    first = local.invoke({}, tenant_id="blue")
    local.settle(timeout=BOUND_S)
    before = set(local.processes().values())
    local.invoke({}, tenant_id="blue")
    assert set(local.processes().values()) == before

    local.invoke({}, tenant_id="red")
    local.settle(timeout=BOUND_S)
    assert not before & set(local.processes().values())
    assert [record["phase"] for record in local.of_type("platform.initStart")] == ["init", "init"]
    assert len({record["instanceId"] for record in local.of_type("platform.initStart")}) == 2
    ends = [entry["event"] for entry in local.recorded() if entry.get("event", {}).get("eventType") == "SHUTDOWN"]
    assert [event["shutdownReason"] for event in ends] == ["spindown"]
    assert local.report(first.request_id).init_duration_ms is not None


def test_the_invoke_api_takes_the_tenant_in_a_header(start: Start) -> None:
    local = start(name="mine")
    client = boto3.client(
        "lambda",
        endpoint_url=local.endpoint,
        region_name="us-east-1",
        aws_access_key_id="local",
        aws_secret_access_key="local",
    )
    client.invoke(FunctionName="mine", Payload=b"{}", TenantId="green")
    assert local.of_type("platform.start")[0]["tenantId"] == "green"


def test_where_lambda_has_no_tenants(start: Start) -> None:
    local = start(initialization="provisioned-concurrency")
    with pytest.raises(BadInput, match="no tenant isolation with provisioned-concurrency"):
        local.invoke({}, tenant_id="blue")


# --- provisioned concurrency ------------------------------------------------------------------------------------------


def test_provisioned_concurrency_has_its_init_ahead_of_traffic(start: Start) -> None:
    local = start(initialization="provisioned-concurrency", behaviour={})
    local.settle(timeout=BOUND_S)
    answer = local.invoke({"environment": True})
    report = local.report(answer.request_id)

    assert isinstance(answer.payload, dict)
    assert answer.payload["AWS_LAMBDA_INITIALIZATION_TYPE"] == "provisioned-concurrency"
    for kind in ("platform.initStart", "platform.initRuntimeDone", "platform.initReport"):
        (record,) = local.of_type(kind)
        assert (record["initializationType"], record["phase"]) == ("provisioned-concurrency", "init")
    assert report.init_duration_ms is None
    assert "Init Duration" not in report.line()
    assert report.billed_duration_ms < report.duration_ms + 1
    assert [line.text for line in local.logs if line.text.startswith("INIT_REPORT Init Duration: ")]


@pytest.mark.parametrize(
    ("settings", "limit_s"),
    [
        ({}, 10),
        ({"initialization": "provisioned-concurrency"}, 130),
        ({"initialization": "provisioned-concurrency", "timeout_s": 900}, 900),
        ({"initialization": "snap-start"}, 130),
        ({"managed_instances": 2}, 130),
        ({"initialization": "snap-start", "init_timeout_s": 1}, 1),
    ],
)
def test_the_limit_of_init(settings: dict[str, Any], limit_s: float) -> None:
    assert Settings(**settings).init_limit_s == limit_s


def test_an_environment_is_either_managed_or_initialised_ahead() -> None:
    with pytest.raises(BadInput, match="snap-start on Managed Instances"):
        Settings(managed_instances=1, initialization="snap-start")


# --- SnapStart --------------------------------------------------------------------------------------------------------


def test_a_restore_as_telemetry_tells_it(start: Start) -> None:
    local = start(SNAP_START, initialization="snap-start", behaviour={})
    local.settle(timeout=BOUND_S)
    assert kinds(local) == ["initStart", "telemetrySubscription", "initRuntimeDone", "extension", "initReport"]
    published = local.processes()

    first = local.report(local.invoke({}).request_id)
    assert kinds(local)[5:] == ["restoreStart", "restoreRuntimeDone", "restoreReport", "start", "runtimeDone", "report"]
    assert local.processes() == published  # the processes of the snapshot
    (init,), (restore,) = local.of_type("platform.initStart"), local.of_type("platform.restoreStart")
    assert (init["initializationType"], init["phase"]) == ("snap-start", "snap-start")
    assert restore["instanceId"] != init["instanceId"]
    assert restore["instanceId"] == local.log_stream
    assert local.of_type("platform.restoreRuntimeDone") == [{"status": "success"}]
    (told,) = local.of_type("platform.restoreReport")
    assert local.of_type("platform.report")[0]["metrics"]["restoreDurationMs"] == told["metrics"]["durationMs"]
    assert "\tRestore Duration: " in first.line()
    assert "\tInit Duration: " not in first.line()

    second = local.report(local.invoke({}).request_id)
    assert second.restore_duration_ms is None
    assert len(local.of_type("platform.restoreStart")) == 1


def test_an_extension_neither_registers_nor_begins_again(start: Start) -> None:
    local = start(SNAP_START, initialization="snap-start", behaviour={})
    local.settle(timeout=BOUND_S)
    local.invoke({})
    local.settle(timeout=BOUND_S)
    local.stop()
    entries = local.recorded()
    assert len([entry for entry in entries if "registered" in entry]) == 1
    assert [entry["event"]["eventType"] for entry in entries if "event" in entry] == ["INVOKE", "SHUTDOWN"]


def test_the_inits_events_are_delivered_again_after_the_restore(start: Start) -> None:
    local = start(SNAP_START, initialization="snap-start", behaviour={})
    local.settle(timeout=BOUND_S)
    local.invoke({})
    local.settle(timeout=BOUND_S)
    local.stop()
    heard = [event["type"].removeprefix("platform.") for event in local.telemetry()]
    again = len(heard) - 1 - heard[::-1].index("initStart")
    assert heard.index("initStart") == 0
    assert again > 0
    assert heard[again:][:4] == ["initStart", "initRuntimeDone", "initReport", "restoreStart"]
    stamps = {event["time"] for event in local.telemetry() if event["type"] == "platform.initStart"}
    assert len(stamps) == 1  # of the snapshot


@needs_cgroup_v1
@pytest.mark.parametrize(("mode", "spike"), [("snap-start", False), ("provisioned-concurrency", True)])
def test_the_mark_begins_anew_with_a_restore(start: Start, mode: str, spike: bool) -> None:
    local = start(f"{HERE / 'functions' / 'init_spike.py'}:handler", initialization=mode)
    mark = local.report(local.invoke({}).request_id).max_memory_used_mib
    assert (mark >= 200) == spike


def test_the_runtimes_hooks_run_around_the_snapshot(start: Start) -> None:
    local = start(SNAP_START, initialization="snap-start")
    local.settle(timeout=BOUND_S)
    answer = local.invoke({"environment": True})
    assert isinstance(answer.payload, dict)
    assert answer.payload["hooks"] == ["before snapshot", "after restore"]
    environment = answer.payload["environment"]
    assert environment["AWS_LAMBDA_INITIALIZATION_TYPE"] == "snap-start"
    assert "AWS_LAMBDA_LOG_STREAM_NAME" not in environment
    assert "AWS_ACCESS_KEY_ID" not in environment
    asked = urllib.request.Request(
        environment["AWS_CONTAINER_CREDENTIALS_FULL_URI"],
        headers={"Authorization": environment["AWS_CONTAINER_AUTHORIZATION_TOKEN"]},
    )
    with urllib.request.urlopen(asked, timeout=BOUND_S) as response:
        assert json.load(response)["AccessKeyId"] == "local"


def test_a_runtime_that_knows_no_hooks_is_restored_too(start: Start) -> None:
    local = start(HERE / "functions" / "bootstrap", initialization="snap-start")
    assert local.invoke({"a": 1}).payload == {"echo": {"a": 1}}
    local.settle(timeout=BOUND_S)
    assert local.of_type("platform.restoreRuntimeDone") == [{"status": "success"}]


def test_a_hook_that_fails_fails_the_invocation(start: Start) -> None:
    local = start(SNAP_START, initialization="snap-start", environment={"HOOK": "fails"}, behaviour={})
    answer = local.invoke({})
    report = local.report(answer.request_id)
    assert answer.function_error == "Unhandled"
    assert isinstance(answer.payload, dict)
    assert answer.payload["errorMessage"] == "no luck after the restore"
    assert report.error_type == "Runtime.AfterRestoreError"
    assert local.of_type("platform.restoreReport")[0]["errorType"] == "Runtime.AfterRestoreError"
    assert local.invoke({}).function_error == "Unhandled"  # init again, within the invocation, and its hook again


@pytest.mark.parametrize("ends", [lambda local: local.stop(), lambda local: local.stop(abort=True)])
def test_a_snapshot_that_nobody_restores_leaves_nothing(start: Start, ends: Callable[[Local], None]) -> None:
    local = start(SNAP_START, initialization="snap-start")
    local.settle(timeout=BOUND_S)
    ends(local)
    assert local.processes() == {}
