"""Ways in which an environment comes to life other than on demand, and tenants that never share one.

The order of a restore's events is in `test_scenarios`, their members are in `conformance`.
"""

import json
import urllib.request

import pytest
from truemem_workbench.local import BadInput

from tests.local.conftest import BOOTSTRAP, BOUND_S, FUNCTIONS, Start, kinds, needs_cgroup_v1

SNAP_START = FUNCTIONS / "snap_start.py"


# --- tenant isolation -------------------------------------------------------------------------------------------------


def test_each_tenant_gets_an_environment_of_its_own(start: Start) -> None:
    local = start(behaviour={})
    first = local.finish({"tenant": True}, tenant_id="blue")
    assert first.payload["tenant"] == "blue"
    for kind in ("start", "runtimeDone", "report"):
        assert [record["tenantId"] for record in local.of_type(kind)] == ["blue"]
    (invoke,) = local.read_by_recorder("INVOKE")
    assert "blue" not in json.dumps(invoke["event"])
    before = set(local.processes().values())
    local.invoke({}, tenant_id="blue")
    assert set(local.processes().values()) == before

    local.finish({}, tenant_id="red")
    assert not before & set(local.processes().values())
    assert [record["phase"] for record in local.of_type("initStart")] == ["init", "init"]
    assert len({record["instanceId"] for record in local.of_type("initStart")}) == 2
    assert local.shutdown_reasons() == ["spindown"]
    assert local.report(first.request_id).init_duration_ms is not None


# --- provisioned concurrency ------------------------------------------------------------------------------------------


def test_provisioned_concurrency_has_its_init_ahead(start: Start) -> None:
    local = start(initialization="provisioned-concurrency", behaviour={})
    local.settle()
    answer = local.invoke({"environment": True})
    report = local.report(answer.request_id)

    assert answer.payload["AWS_LAMBDA_INITIALIZATION_TYPE"] == "provisioned-concurrency"
    for kind in ("initStart", "initRuntimeDone", "initReport"):
        (record,) = local.of_type(kind)
        assert (record["initializationType"], record["phase"]) == ("provisioned-concurrency", "init")
    assert report.init_duration_ms is None
    assert "Init Duration" not in report.line()
    assert report.billed_duration_ms < report.duration_ms + 1
    assert [line.text for line in local.logs if line.text.startswith("INIT_REPORT Init Duration: ")]
    assert "tenantId" not in json.dumps(local.events)
    with pytest.raises(BadInput, match="no tenant isolation with provisioned-concurrency"):
        local.invoke({}, tenant_id="blue")


# --- SnapStart --------------------------------------------------------------------------------------------------------


def test_a_restore_as_runtime_and_extensions_see_it(start: Start) -> None:
    """That processes stay and the instance is another one: the scenario `snap-start`."""
    local = start(SNAP_START, initialization="snap-start", behaviour={})
    answer = local.invoke({"environment": True})
    report = local.report(answer.request_id)
    (init,), (restore,) = local.of_type("initStart"), local.of_type("restoreStart")
    assert init["initializationType"] == "snap-start"
    assert restore["instanceId"] == local.log_stream
    assert local.of_type("restoreRuntimeDone") == [{"status": "success"}]
    (restored,) = local.of_type("restoreReport")
    assert local.of_type("report")[0]["metrics"]["restoreDurationMs"] == restored["metrics"]["durationMs"]
    assert "\tInit Duration: " not in report.line()

    environment = answer.payload["environment"]
    assert answer.payload["hooks"] == ["before snapshot", "after restore"]
    assert environment["AWS_LAMBDA_INITIALIZATION_TYPE"] == "snap-start"
    assert environment.keys().isdisjoint(("AWS_LAMBDA_LOG_STREAM_NAME", "AWS_ACCESS_KEY_ID"))
    asked = urllib.request.Request(
        environment["AWS_CONTAINER_CREDENTIALS_FULL_URI"],
        headers={"Authorization": environment["AWS_CONTAINER_AUTHORIZATION_TOKEN"]},
    )
    with urllib.request.urlopen(asked, timeout=BOUND_S) as response:
        assert json.load(response)["AccessKeyId"] == "local"
    local.stop()
    entries = local.recorded()
    assert len([entry for entry in entries if "registered" in entry]) == 1
    assert [entry["event"]["eventType"] for entry in entries if "event" in entry] == ["INVOKE", "SHUTDOWN"]
    received = kinds(local.telemetry())
    again = len(received) - 1 - received[::-1].index("initStart")  # init's events are sent once more
    assert again > received.index("initStart") == 0
    assert received[again:][:4] == ["initStart", "initRuntimeDone", "initReport", "restoreStart"]
    assert len({event["time"] for event in local.telemetry() if event["type"] == "platform.initStart"}) == 1


@needs_cgroup_v1
@pytest.mark.parametrize(("mode", "spike"), [("snap-start", False), ("provisioned-concurrency", True)])
def test_the_mark_begins_anew_with_a_restore(start: Start, mode: str, spike: bool) -> None:
    local = start(FUNCTIONS / "init_spike.py", initialization=mode)
    mark = local.report(local.invoke({}).request_id).max_memory_used_mib
    assert (mark >= 200) == spike


def test_a_runtime_that_knows_no_hooks_is_restored_too(start: Start) -> None:
    local = start(BOOTSTRAP, initialization="snap-start")
    assert local.finish({"a": 1}).payload == {"echo": {"a": 1}}
    assert local.of_type("restoreRuntimeDone") == [{"status": "success"}]


def test_a_hook_that_fails_fails_the_invocation(start: Start) -> None:
    local = start(SNAP_START, initialization="snap-start", environment={"HOOK": "fails"}, behaviour={})
    answer = local.finish({})
    assert (answer.function_error, answer.payload["errorMessage"]) == ("Unhandled", "no luck after the restore")
    assert local.report(answer.request_id).error_type == "Runtime.AfterRestoreError"
    assert local.of_type("restoreReport")[0]["errorType"] == "Runtime.AfterRestoreError"
    assert local.invoke({}).function_error == "Unhandled"  # init again, within the invocation, and its hook again


def test_a_snapshot_that_is_never_restored_leaves_nothing(start: Start) -> None:
    local = start(SNAP_START, initialization="snap-start")
    local.settle()
    local.stop()
    assert local.processes() == {}
