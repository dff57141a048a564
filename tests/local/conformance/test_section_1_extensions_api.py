"""The Extensions API, row by row: routes, register, identifiers, next, errors, and what lies in /opt/extensions."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
import uuid
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import requests
from truemem_workbench.local import BadInput
from truemem_workbench.local.configuration.settings import extensions_of
from truemem_workbench.local.state.registry import Registry

from tests.local.conftest import APP, BOUND_S, HERE, Answer, Api, Local, Start, error_of, identified

IDLE = {"idle": HERE / "extensions" / "idle"}
STATE = "State transition from {} to {} failed for extension idle. Error: State transition is not allowed"
NEXT = "/2020-01-01/extension/event/next"
REFUSALS: list[tuple[dict[str, Any], str, str]] = [
    ({"name": None}, "Extension.InvalidExtensionName", "Empty extension name"),
    ({"name": ""}, "Extension.InvalidExtensionName", "Empty extension name"),
    ({"body": "{"}, "InvalidRequestFormat", "Expecting property name enclosed in double quotes"),
    ({"body": '{"configurationKeys": ["a"]}'}, "InvalidRequestFormat", "configurationKeys are deprecated"),
    ({"body": '{"events": ["FOO"]}'}, "Extension.InvalidEventType", "FOO: ErrorInvalidEventType"),
    (
        {"name": "misspelt", "body": '{"events": ["SHUTDOWN"]}'},
        "Extension.InvalidEventType",
        "SHUTDOWN: ShutdownEventNotSupportedForInternalExtension",
    ),
]


class Ready(NamedTuple):
    local: Local
    api: Api
    own: dict[str, str]
    event: Answer
    invocation: Answer


@pytest.fixture
def api(start: Start) -> Api:
    """An environment in its init: one extension is launched and has not registered."""
    return Api(start(HERE / "functions" / "idle", extensions=IDLE, init_timeout_s=60).runtime_api())


def become_ready(start: Start, *events: str) -> Ready:
    local = start(HERE / "functions" / "idle", extensions=IDLE, init_timeout_s=60)
    api = Api(local.runtime_api())
    registered = api.register(body=json.dumps({"events": events}))
    own = identified(registered.headers["Lambda-Extension-Identifier"])
    waiting = api.next_event(own["Lambda-Extension-Identifier"]), api.next_invocation()
    local.settle(timeout=BOUND_S)
    return Ready(local, api, own, *waiting)


@pytest.fixture
def ready(start: Start) -> Ready:
    """An environment after its init: the extension and the runtime wait in `next`. Without SHUTDOWN it ends at once."""
    return become_ready(start, "INVOKE")


# --- 1.1 routes -------------------------------------------------------------------------------------------------------

ROUTES = [
    ("GET", "/2018-06-01/ping", True),
    ("GET", "/2018-06-01/runtime/invocation/next", True),
    ("POST", "/2018-06-01/runtime/invocation/id/response", True),
    ("POST", "/2018-06-01/runtime/invocation/id/error", True),
    ("POST", "/2018-06-01/runtime/init/error", True),
    ("GET", "/2018-06-01/runtime/restore/next", False),
    ("POST", "/2018-06-01/runtime/restore/error", False),
    ("POST", "/2020-01-01/extension/register", True),
    ("GET", "/2020-01-01/extension/event/next", True),
    ("POST", "/2020-01-01/extension/init/error", True),
    ("POST", "/2020-01-01/extension/exit/error", True),
    ("PUT", "/2020-08-15/logs", True),
    ("PUT", "/2022-07-01/telemetry", True),
    ("GET", "/2021-04-23/credentials", False),
]
"""The last column: also without SnapStart."""


@pytest.mark.parametrize("mode", ["on-demand", "snap-start"])
def test_the_routes(start: Start, mode: str) -> None:
    local = start(HERE / "functions" / "idle", extensions=IDLE, init_timeout_s=60, initialization=mode)
    api = Api(local.runtime_api())
    for method, path, everywhere in ROUTES:
        if path.endswith("/next") and "runtime" in path and (everywhere or mode == "snap-start"):
            continue  # it is held open: test_section_1_runtime_api, test_modes
        mounted = api.call(method, path).headers.get("Content-Type") != "text/plain; charset=utf-8"
        expected = everywhere or mode == "snap-start"
        if path.endswith("ping"):
            assert api.call(method, path).text == "pong"
        elif path.endswith("credentials"):
            assert api.call(method, path, headers={"Authorization": "local"}).ok == expected
        else:
            assert mounted == expected, path


def test_a_refusal_is_an_object_of_two(api: Api) -> None:
    answer = api.register(None)
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.json().keys() == {"errorMessage", "errorType"}


# --- 1.2 register, 1.3 identifiers ------------------------------------------------------------------------------------


def test_what_register_refuses(api: Api) -> None:
    for given, error_type, message in REFUSALS:
        status, got_type, got_message = error_of(api.register(**given))
        assert (status, got_type) == (403, error_type)
        assert got_message.startswith(message)


def test_register_answers_with_the_function_and_an_identifier(api: Api) -> None:
    response = api.call(
        "POST",
        "/2020-01-01/extension/register",
        headers={"Lambda-Extension-Name": "idle", "Lambda-Extension-Accept-Feature": "unknown, accountId"},
        data="{}",
    )
    assert response.status_code == 200
    assert uuid.UUID(response.headers["Lambda-Extension-Identifier"])
    assert response.json() == {
        "functionName": "function",
        "functionVersion": "$LATEST",
        "handler": "idle",
        "accountId": "123456789012",
    }


def test_no_configuration_keys_are_none(api: Api) -> None:
    assert api.register(body='{"configurationKeys": []}').status_code == 200


def test_without_the_feature_there_is_no_account(api: Api) -> None:
    assert "accountId" not in api.register().json()


def test_registering_twice_is_an_invalid_state(api: Api) -> None:
    assert api.register().status_code == 200
    message = STATE.format("Registered", "Registered")
    assert error_of(api.register()) == (403, "Extension.InvalidExtensionState", message)


def test_an_unknown_name_is_an_internal_extension(api: Api) -> None:
    """The trap: it is welcome, and the launched file whose name was misspelt blocks the init."""
    invoke = '{"events": ["INVOKE"]}'
    assert api.register("misspelt", invoke).status_code == 200
    taken = (403, "Extension.InvalidExtensionState", "Extension with this name already registered")
    assert error_of(api.register("misspelt", invoke)) == taken


def test_the_file_of_a_misspelt_name_holds_up_the_init_until_its_limit(start: Start) -> None:
    local = start(HERE / "functions" / "idle", extensions=IDLE, init_timeout_s=1)
    assert Api(local.runtime_api()).register("misspelt", '{"events": ["INVOKE"]}').status_code == 200
    local.settle(timeout=BOUND_S)
    assert [record["status"] for record in local.of_type("platform.initReport")] == ["timeout"]
    assert not local.of_type("platform.initRuntimeDone")  # the runtime was never started
    told = {record["name"]: record["state"] for record in local.of_type("platform.extension")}
    assert told == {"idle": "Started", "misspelt": "Registered"}


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/2020-01-01/extension/register"), ("GET", NEXT), ("PUT", "/2022-07-01/telemetry")],
)
def test_what_nobody_expected_is_a_container_error(
    api: Api, monkeypatch: pytest.MonkeyPatch, method: str, path: str
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(Registry, "register", fail)
    monkeypatch.setattr(Registry, "identify", fail)
    answer = api.call(method, path, headers={"Lambda-Extension-Name": "idle"}, data="{}")
    assert error_of(answer) == (500, "InternalServerError", "Internal Server Error")


def test_the_eleventh_extension_is_refused(api: Api) -> None:
    for number in range(9):  # the launched one holds a place
        assert api.register(f"internal-{number}", "{}").status_code == 200
    refusal = (403, "Extension.TooManyExtensions", "Extension limit (10) reached")
    assert error_of(api.register("one-more", "{}")) == refusal


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/2020-01-01/extension/event/next"),
        ("POST", "/2020-01-01/extension/init/error"),
        ("POST", "/2020-01-01/extension/exit/error"),
        ("PUT", "/2022-07-01/telemetry"),
    ],
)
def test_who_does_not_say_who_it_is(api: Api, method: str, path: str) -> None:
    stranger = str(uuid.uuid4())
    unknown = "Unknown Lambda-Extension-Identifier" if path.endswith("error") else f"Unknown extension {stranger}"
    cases = [
        ({}, "Extension.MissingExtensionIdentifier", "Missing Lambda-Extension-Identifier header"),
        (identified("no-uuid"), "Extension.InvalidExtensionIdentifier", "Invalid Lambda-Extension-Identifier"),
        (identified(stranger), "Extension.UnknownExtensionIdentifier", unknown),
    ]
    for headers, error_type, message in cases:
        assert error_of(api.call(method, path, headers=headers)) == (403, error_type, message)


# --- 1.4 next ---------------------------------------------------------------------------------------------------------


def test_only_one_next_may_be_pending(ready: Ready) -> None:
    refused = ready.api.call("GET", NEXT, headers=ready.own)
    assert error_of(refused) == (403, "Extension.InvalidExtensionState", STATE.format("Ready", "Ready"))


def test_invoke(ready: Ready) -> None:
    ready.local.submit_in_background()
    answer, event = ready.event.get(), ready.event.get().json()
    request_id = ready.invocation.get().headers["Lambda-Runtime-Aws-Request-Id"]
    assert answer.headers["Content-Type"] == "application/json"
    assert uuid.UUID(answer.headers["Lambda-Extension-Event-Identifier"])
    assert event.keys() == {"eventType", "deadlineMs", "requestId", "invokedFunctionArn", "tracing"}
    assert (event["eventType"], event["requestId"]) == ("INVOKE", request_id)
    assert event["deadlineMs"] == int(ready.invocation.get().headers["Lambda-Runtime-Deadline-Ms"])
    assert event["tracing"]["type"] == "X-Amzn-Trace-Id"


def test_the_arn_has_the_version_that_the_caller_used(ready: Ready) -> None:
    url = f"{ready.local.endpoint}/2015-03-31/functions/function:$LATEST/invocations"
    calling = Answer(lambda: requests.post(url, timeout=BOUND_S))
    assert ready.event.get().json()["invokedFunctionArn"].endswith(":function:function:$LATEST")
    ready.api.respond(ready.invocation.get().headers["Lambda-Runtime-Aws-Request-Id"])
    assert calling.get().status_code == 200


def test_shutdown(start: Start) -> None:
    ready = become_ready(start, "SHUTDOWN")
    stopping = threading.Thread(target=ready.local.stop)
    before_ms = int(time.time() * 1000)
    stopping.start()
    answer, event = ready.event.get(), ready.event.get().json()
    assert before_ms + 2000 <= event["deadlineMs"] <= time.time() * 1000 + 2000  # the end of the shutdown's window
    assert event.keys() == {"eventType", "deadlineMs", "shutdownReason"}
    assert (event["eventType"], event["shutdownReason"]) == ("SHUTDOWN", "spindown")
    assert isinstance(event["deadlineMs"], int)
    assert answer.headers["Content-Type"].startswith("text/plain")
    assert "Lambda-Extension-Event-Identifier" not in answer.headers
    os.kill(ready.local.processes()["extension:idle"], signal.SIGKILL)
    stopping.join(BOUND_S)


# --- 1.5 init/error, exit/error ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", ["init", "exit"])
def test_an_error_needs_a_type_and_may_be_told_twice(api: Api, call: str) -> None:
    own = identified(api.register().headers["Lambda-Extension-Identifier"])
    path = f"/2020-01-01/extension/{call}/error"
    assert error_of(api.call("POST", path, headers=own)) == (
        403,
        "Extension.MissingHeader",
        "Lambda-Extension-Function-Error-Type not found",
    )
    told = own | {"Lambda-Extension-Function-Error-Type": "Extension.ConfigInvalid"}
    for _ in range(2):
        response = api.call("POST", path, headers=told)
        assert (response.status_code, response.json()) == (202, {"status": "OK"})
    state = {"init": "InitError", "exit": "ExitError"}[call]
    refused = api.call("GET", NEXT, headers=own)
    assert error_of(refused) == (403, "Extension.InvalidExtensionState", STATE.format(state, "Ready"))


def test_registration_closes_with_the_runtimes_first_next(start: Start) -> None:
    local = start(HERE / "functions" / "idle", init_timeout_s=60)
    api = Api(local.runtime_api())
    api.next_invocation()
    local.settle(timeout=BOUND_S)
    refusal = (403, "Extension.RegistrationClosed", "Extension registration closed already")
    assert error_of(api.register("late", "{}")) == refusal


def test_init_error_is_over_with_the_first_next_and_exit_error_is_not(ready: Ready) -> None:
    told = ready.own | {"Lambda-Extension-Function-Error-Type": "Extension.TooLate"}
    refused = ready.api.call("POST", "/2020-01-01/extension/init/error", headers=told)
    assert error_of(refused) == (403, "Extension.InvalidExtensionState", STATE.format("Ready", "InitError"))
    assert ready.api.call("POST", "/2020-01-01/extension/exit/error", headers=told).status_code == 202
    assert "extension:idle" in ready.local.processes()  # it is the exit of the process that counts, not the call


def test_exit_error_while_it_works(ready: Ready) -> None:
    """The call spoils nothing: the invocation that runs is answered. The exit of the process does."""
    url = f"{ready.local.endpoint}/2015-03-31/functions/function/invocations"
    calling = Answer(lambda: requests.post(url, timeout=BOUND_S))
    ready.event.get()
    told = ready.own | {"Lambda-Extension-Function-Error-Type": "Extension.GaveUp"}
    body = {"errorMessage": "why", "errorType": "Extension.GaveUp", "stackTrace": ["here"]}
    answer = ready.api.call("POST", "/2020-01-01/extension/exit/error", headers=told, json=body)
    assert (answer.status_code, answer.json()) == (202, {"status": "OK"})
    ready.api.respond(ready.invocation.get().headers["Lambda-Runtime-Aws-Request-Id"])
    assert calling.get().text == '"done"'
    os.kill(ready.local.processes()["extension:idle"], signal.SIGKILL)
    ready.local.settle(timeout=BOUND_S)
    assert ready.local.reports[0].error_type == "Extension.ExitError"


# --- 1.7 /opt/extensions ----------------------------------------------------------------------------------------------


def test_every_file_is_executed_under_its_name_without_arguments(start: Start, tmp_path: Path) -> None:
    """In parallel: nobody waits for the registration of another. A symlink is a file."""
    for name in ("one.sh", "two"):
        (tmp_path / name).write_text('#!/bin/sh\necho "$(basename "$0") has $#"; echo trouble >&2; exec sleep 600\n')
        (tmp_path / name).chmod(0o755)
    (tmp_path / "three").symlink_to(tmp_path / "two")
    (tmp_path / "folder").mkdir()
    local = start(HERE / "functions" / "idle", extensions=extensions_of(tmp_path), init_timeout_s=60)
    for name in ("one.sh", "two", "three"):
        told = local.lines.wait(lambda line, name=name: line.source == f"extension:{name}")  # type: ignore[misc]
        assert (told.stream, told.text) == ("stdout", f"{name} has 0")
        told = local.lines.wait(lambda line, name=name: line.source == f"extension:{name}" and line.stream == "stderr")  # type: ignore[misc]
        assert told.text == "trouble"
    assert set(local.processes()) == {"extension:one.sh", "extension:two", "extension:three"}


def test_in_the_order_of_their_names_and_a_link_to_a_folder_is_no_folder(tmp_path: Path) -> None:
    for name in ("b", "C", "a"):
        (tmp_path / name).write_text("#!/bin/sh")
        (tmp_path / name).chmod(0o755)
    assert [path.name for path in extensions_of(tmp_path)] == ["C", "a", "b"]  # bytes, as in os.ReadDir
    (tmp_path / "link").symlink_to("/tmp")
    with pytest.raises(BadInput, match="link"):
        extensions_of(tmp_path)


@pytest.mark.parametrize(
    ("interpreter", "kind", "why"),
    [
        ("/nowhere", "UnknownError", "no such file or directory"),
        ("/etc/passwd", "PermissionDenied", "permission denied"),
    ],
)
def test_what_cannot_be_executed_fails_the_init(
    start: Start, tmp_path: Path, interpreter: str, kind: str, why: str
) -> None:
    path = tmp_path / "broken"
    path.write_text(f"#!{interpreter}\n")
    path.chmod(0o755)
    local = start(extensions=[path])
    local.settle(timeout=BOUND_S)
    assert local.of_type("platform.extension") == [
        {"name": "broken", "state": "LaunchError", "events": [], "errorType": kind}
    ]
    assert local.of_type("platform.initReport")[0]["errorType"] == "Extension.LaunchError"
    assert not local.of_type("platform.initRuntimeDone")  # the runtime was never started
    local.lines.wait(lambda line: line.text.endswith(f"\tState: LaunchError\tEvents: []\tError Type: {kind}"))
    answer = local.invoke({}).payload
    assert isinstance(answer, dict)
    assert answer["errorMessage"].endswith(f"/broken: {why}")


def test_who_cannot_execute_something_itself_has_crashed(start: Start, tmp_path: Path) -> None:
    path = tmp_path / "lacking-einem-äh"  # to the kernel's 15 bytes it is half a letter
    path.write_text("#!/usr/bin/env truemem-no-such-program\n")  # exits with 127, as what cannot be executed
    path.chmod(0o755)
    local = start(extensions=[path])
    local.settle(timeout=BOUND_S)
    assert local.of_type("platform.initReport")[0]["errorType"] == "Extension.Crash"


# --- 1.8 limits (of memory, timeout, variables: test_function; of an event's size: test_invoke_api) -------------------


def test_the_eleventh_file_is_not_started(start: Start) -> None:
    idle = HERE / "extensions" / "idle"
    local = start(extensions={f"e{number:02}": idle for number in range(11)}, init_timeout_s=60)
    local.settle(timeout=BOUND_S)
    told = [(each["name"], each["state"], each.get("errorType")) for each in local.of_type("platform.extension")]
    assert told == [
        *((f"e{number:02}", "Started", None) for number in range(10)),
        ("e10", "LaunchError", "TooManyExtensions"),
    ]
    assert local.of_type("platform.initReport")[0]["errorType"] == "Extension.LaunchError"


@pytest.mark.parametrize(("settings", "limit"), [({}, 1024), ({"managed_instances": 1}, 4096)])
def test_how_many_files_may_be_open(start: Start, settings: dict[str, Any], limit: int) -> None:
    local = start(f"{APP}:limits", **settings)
    assert local.invoke({}).payload == [limit, limit]


def test_a_body_of_more_than_a_mebibyte_on_managed_instances(start: Start) -> None:
    idle = HERE / "functions" / "idle"
    api = Api(start(idle, extensions=IDLE, init_timeout_s=60, managed_instances=1).runtime_api())
    body = json.dumps({"events": [], "more": "x" * 2**20})
    assert error_of(api.register(body=body))[:2] == (413, "RequestEntityTooLarge")
    own = identified(api.register(body="{}").headers["Lambda-Extension-Identifier"])
    assert error_of(api.call("PUT", "/2022-07-01/telemetry", headers=own, data=body))[0] == 413
