"""The platform's events, row by row: members and their types, values, order, and the lines of the log.

Every event comes from one of a few environments with real processes; a row looks at all that there are of its type.
"""

import json
import logging
import re
from datetime import datetime
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from truemem_workbench.local import Event, Settings
from truemem_workbench.local.lifecycle.events import level

from tests.local.conftest import BOOTSTRAP, FUNCTIONS, HANDLER, RECORDER, TOGETHER, Local, function_at, kinds

TEXT = {"type": "string", "minLength": 1}
TIME = {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$"}
MS = {"type": "number", "minimum": 0}
WHOLE = {"type": "integer", "minimum": 0}
STATUS = {"enum": ["success", "failure", "error", "timeout"]}
PHASE = {"enum": ["init", "invoke", "snap-start"]}
INIT_TYPE = {"enum": ["on-demand", "provisioned-concurrency", "snap-start"]}


def record(required: dict[str, Any], **optional: Any) -> dict[str, Any]:
    properties = required | optional
    return {"type": "object", "required": list(required), "properties": properties, "additionalProperties": False}


TRACING = record({"type": {"const": "X-Amzn-Trace-Id"}, "value": TEXT}, spanId=TEXT)
SPANS = {"type": "array", "items": record({"name": TEXT, "start": TIME, "durationMs": MS})}
DURATION = record({"durationMs": MS})
INSTANCE = {
    "functionName": TEXT,
    "functionVersion": TEXT,
    "instanceId": TEXT,
    "instanceMaxMemory": {"type": "integer", "minimum": 128 * 1024 * 1024},
}
ENDED = {"status": STATUS}
INVOCATION = {"requestId": TEXT}
REPORT = record(
    {"durationMs": MS, "billedDurationMs": WHOLE, "memorySizeMB": WHOLE, "maxMemoryUsedMB": WHOLE},
    initDurationMs=MS,
    restoreDurationMs=MS,
)
INIT = {"initializationType": INIT_TYPE, "phase": PHASE}

MEMBERS: dict[str, dict[str, Any]] = {
    "platform.initStart": record(INIT | INSTANCE, runtimeVersion=TEXT),
    "platform.initRuntimeDone": record(INIT | ENDED, errorType=TEXT),
    "platform.initReport": record(INIT | ENDED | {"metrics": DURATION}, errorType=TEXT),
    "platform.restoreStart": record(INSTANCE, runtimeVersion=TEXT),
    "platform.restoreRuntimeDone": record(ENDED, errorType=TEXT),
    "platform.restoreReport": record(ENDED | {"metrics": DURATION}, errorType=TEXT),
    "platform.start": record(INVOCATION | {"version": TEXT}, tracing=TRACING, tenantId=TEXT),
    "platform.runtimeDone": record(
        INVOCATION | ENDED,
        errorType=TEXT,
        metrics=record({"durationMs": MS, "producedBytes": WHOLE}),
        spans=SPANS,
        tracing=TRACING,
        tenantId=TEXT,
    ),
    "platform.report": record(
        INVOCATION | ENDED | {"metrics": REPORT}, errorType=TEXT, spans=SPANS, tracing=TRACING, tenantId=TEXT
    ),
    "platform.extension": record(
        {"name": TEXT, "state": TEXT, "events": {"type": "array", "items": {"enum": ["INVOKE", "SHUTDOWN"]}}},
        errorType=TEXT,
    ),
    "platform.telemetrySubscription": record(
        {"name": TEXT, "state": {"const": "Subscribed"}, "types": {"type": "array", "minItems": 1}}
    ),
}


def live(spec: str | Path, *payloads: object, tenant_id: str | None = None, **settings: Any) -> Local:
    """An environment from its init to its end."""
    with Local(function_at(spec), Settings(**{"extensions": {"recorder": RECORDER}, **settings})) as local:
        for payload in payloads:
            local.finish(payload, tenant_id=tenant_id)
    return local


def log_of(life: Local) -> list[str]:
    """The platform's own lines."""
    return [line.text for line in life.logs if line.source == "platform"]


@pytest.fixture(scope="module")
def well() -> Local:
    """A cold and a warm invocation, and an exception that the handler raised."""
    return live(HANDLER, {"n": 1}, {"n": 2}, {"raise": "boom"}, tenant_id="blue")


@pytest.fixture(scope="module")
def ill() -> Local:
    """A runtime that exits, a timeout; init again after each."""
    return live(HANDLER, {"exit": 3}, {"n": 2}, {"sleep": 60}, {"n": 4}, timeout_s=4)


@pytest.fixture(scope="module")
def unborn() -> Local:
    """An init that fails, and fails again within the invocation."""
    return live(FUNCTIONS / "init_fails.py", {})


@pytest.fixture(scope="module")
def late() -> Local:
    """An init over its limit, and again within the invocation."""
    return live(FUNCTIONS / "init_hangs.py", {}, init_timeout_s=3)


@pytest.fixture(scope="module")
def managed() -> Local:
    """Two requests, the second fails."""
    variables = {"RECORDER": json.dumps({"events": ["SHUTDOWN"], "schema": "2025-01-29"})}
    return live(TOGETHER, {}, {"raise": "boom"}, managed_instances=1, environment=variables)


@pytest.fixture(scope="module")
def restored() -> Local:
    return live(FUNCTIONS / "snap_start.py", {}, {}, initialization="snap-start")


@pytest.fixture(scope="module")
def every(well: Local, ill: Local, unborn: Local, late: Local, restored: Local) -> list[Event]:
    return [event for life in (well, ill, unborn, late, restored) for event in life.events]


# --- 3.1 to 3.12: members, types, values ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", MEMBERS)
def test_the_members_of(every: list[Event], kind: str) -> None:
    assert {event["type"] for event in every} == set(MEMBERS)  # logsDropped has a test of its own in section 2
    found = [event for event in every if event["type"] == kind]
    for event in found:
        assert event.keys() == {"time", "type", "record"}
        jsonschema.validate(event["time"], TIME)
        jsonschema.validate(event["record"], MEMBERS[kind])


MANAGED = {"initializationType": {"const": "lambda-managed-instances"}, "phase": {"const": "init"}}
MANAGED_MEMBERS: dict[str, dict[str, Any]] = {
    "platform.initStart": record(MANAGED | INSTANCE, runtimeVersion=TEXT),
    "platform.initRuntimeDone": record(MANAGED | ENDED),
    "platform.initReport": record(MANAGED | ENDED | {"metrics": DURATION}),
    "platform.start": record(INVOCATION | {"version": TEXT, "functionArn": TEXT}, tracing=TRACING),
    "platform.report": record(INVOCATION | ENDED | {"metrics": DURATION}, errorType=TEXT, spans=SPANS, tracing=TRACING),
    "platform.extension": MEMBERS["platform.extension"],
    "platform.telemetrySubscription": MEMBERS["platform.telemetrySubscription"],
}


def test_the_members_on_managed_instances(managed: Local) -> None:
    """No runtimeDone: it is never sent there."""
    assert {event["type"] for event in managed.events} == set(MANAGED_MEMBERS)
    for event in managed.events:
        jsonschema.validate(event["record"], MANAGED_MEMBERS[event["type"]])
    for report in managed.of_type("report"):
        assert [span["name"] for span in report["spans"]] == ["responseLatency", "responseDuration"]


def test_the_instance_is_the_log_stream(well: Local) -> None:
    (start,) = well.of_type("initStart")
    assert re.fullmatch(r"\d{4}/\d\d/\d\d/\[\$LATEST\][0-9a-f]{32}", start["instanceId"])
    assert start["instanceMaxMemory"] == 512 * 1024 * 1024
    assert start["runtimeVersion"].startswith("python:3.")
    assert "runtimeVersion" not in live(BOOTSTRAP, extensions={}).of_type("initStart")[0]


STATUSES = [
    # life, event, index, status, error type
    ("well", "runtimeDone", 2, "success", None),  # what the handler raised is no matter of the platform
    ("well", "report", 2, "success", None),
    ("unborn", "initReport", 0, "error", "Runtime.Unknown"),  # a Python exception's type is not Runtime.X
    ("unborn", "initRuntimeDone", 0, "error", "Runtime.Unknown"),
    ("late", "initReport", 0, "timeout", None),
    ("late", "initRuntimeDone", 0, "error", "Runtime.Unknown"),  # to AWS's code it was never said why
]


@pytest.mark.parametrize(("life", "kind", "index", "status", "error_type"), STATUSES)
def test_status_and_error_type_are_siblings(
    request: pytest.FixtureRequest, life: str, kind: str, index: int, status: str, error_type: str | None
) -> None:
    event = request.getfixturevalue(life).of_type(kind)[index]
    assert (event["status"], event.get("errorType")) == (status, error_type)


def test_spans_tell_where_the_time_went(well: Local, ill: Local) -> None:
    done, report = well.of_type("runtimeDone")[0], well.of_type("report")[0]
    assert [span["name"] for span in done["spans"]] == ["responseLatency", "responseDuration", "runtimeOverhead"]
    assert [span["name"] for span in report["spans"]] == ["extensionOverhead"]
    assert done["metrics"]["durationMs"] <= report["metrics"]["durationMs"]
    assert all(each["metrics"]["producedBytes"] > 0 for each in well.of_type("runtimeDone"))
    for event in (*well.events, *ill.events):
        for metric, value in event["record"].get("metrics", {}).items():
            assert not metric.endswith("durationMs") or value == round(value, 3)
    died = ill.of_type("runtimeDone")[0]
    assert "spans" not in died  # it never called /response
    assert died["metrics"]["producedBytes"] == 0


def test_the_first_report_has_the_init_or_the_restore(well: Local, restored: Local) -> None:
    assert ["initDurationMs" in each["metrics"] for each in well.of_type("report")] == [True, False, False]
    init_ms = well.of_type("report")[0]["metrics"]["initDurationMs"]
    assert init_ms == well.of_type("initReport")[0]["metrics"]["durationMs"]
    first, second, _ = (each["metrics"] for each in well.of_type("report"))
    assert first["billedDurationMs"] >= init_ms + first["durationMs"]
    assert second["billedDurationMs"] < second["durationMs"] + 1
    assert ["restoreDurationMs" in each["metrics"] for each in restored.of_type("report")] == [True, False]
    assert not any("initDurationMs" in each["metrics"] for each in restored.of_type("report"))


# --- 3.15: order ------------------------------------------------------------------------------------------------------

COLD = ["initStart", "telemetrySubscription", "initRuntimeDone", "extension", "initReport"]


def test_the_order_on_managed_instances(managed: Local) -> None:
    """The other orders are in `test_scenarios`."""
    assert managed.kinds() == [*COLD, "start", "report", "start", "report"]
    stamps = [datetime.fromisoformat(event["time"]) for event in managed.events]
    assert stamps == sorted(stamps)


def test_lines_lie_between_the_start_and_the_runtimes_end() -> None:
    """And the end is reported before SHUTDOWN goes out, if the environment is reset."""
    with Local(function_at(HANDLER), Settings(extensions={"recorder": RECORDER})) as local:
        local.invoke({"print": "a line"})
        local.finish({"exit": 3})
        received = [event["record"] if event["type"] == "function" else event["type"] for event in local.telemetry()]
    at = received.index("a line")
    assert received[at - 1 : at + 2] == ["platform.start", "a line", "platform.runtimeDone"]
    done = [event["time"] for event in local.events if event["type"] == "platform.runtimeDone"][1]
    assert datetime.fromisoformat(done).timestamp() <= local.read_by_recorder("SHUTDOWN")[0]["at"] / 1e9


# --- 3.16: the log ----------------------------------------------------------------------------------------------------

LINES = [
    ("well", r"INIT_START Runtime Version: python:3\.\d+"),
    ("well", r"EXTENSION\tName: recorder\tState: Ready\tEvents: \[INVOKE, SHUTDOWN\]"),
    ("well", r"TELEMETRY\tName: recorder\tState: Subscribed\tTypes: \[Platform, Function\]"),
    ("well", r"START RequestId: [0-9a-f-]{36} Version: \$LATEST"),
    ("well", r"END RequestId: [0-9a-f-]{36}"),
    (
        "well",
        r"REPORT RequestId: [0-9a-f-]{36}\tDuration: \d+\.\d\d ms\tBilled Duration: \d+ ms\tMemory Size: 512 MB\t"
        r"Max Memory Used: \d+ MB\tInit Duration: \d+\.\d\d ms",
    ),
    ("ill", r"REPORT .*\tStatus: error\tError Type: Runtime\.ExitError"),
    ("ill", r"REPORT .*\tStatus: timeout"),
    ("unborn", r"INIT_REPORT Init Duration: \d+\.\d\d ms\tPhase: init\tStatus: error\tError Type: Runtime\.Unknown"),
    ("restored", r"INIT_REPORT Init Duration: .*\tPhase: snap-start\tStatus: success"),
    ("restored", r"RESTORE_START Runtime Version: python:3\.\d+"),
    ("restored", r"RESTORE_REPORT Restore Duration: \d+\.\d\d ms\tStatus: success"),
    ("restored", r"REPORT .*\tRestore Duration: \d+\.\d\d ms\tBilled Restore Duration: \d+ ms"),
]


@pytest.mark.parametrize(("life", "pattern"), LINES, ids=[pattern[:30] for _, pattern in LINES])
def test_the_lines_of_the_text_format(request: pytest.FixtureRequest, life: str, pattern: str) -> None:
    log = log_of(request.getfixturevalue(life))
    assert [line for line in log if re.fullmatch(pattern, line)]
    assert life != "well" or not [line for line in log if line.startswith("INIT_REPORT")]  # on demand only a failure


def test_the_json_format_has_the_events_from_info_on(restored: Local) -> None:
    """Of what went well neither the ends of init and runtime, nor a report of init on demand."""
    assert {level(event) for event in restored.events if event["type"] == "platform.initReport"} == {logging.INFO}
    life = live(HANDLER, {}, {"exit": 3}, log_format="JSON")
    logged = [json.loads(line) for line in log_of(life)]
    assert logged == [event for event in life.events if event in logged]
    assert kinds(logged) == [
        *["initStart", "telemetrySubscription", "extension", "start", "report"],
        *["start", "runtimeDone", "report"],
    ]
