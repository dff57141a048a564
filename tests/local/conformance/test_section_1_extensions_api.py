"""The Extensions API, row by row: routes, register, identifiers, next, errors, and what lies in /opt/extensions."""

import json
import os
import signal
import time
import uuid
from concurrent.futures import Future
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import requests
from truemem_workbench.local import BadInput, Settings
from truemem_workbench.local.configuration.settings import extensions_of
from truemem_workbench.local.lifecycle.generation import Registry

from tests.local.conftest import (
    APP,
    BOUND_S,
    IDLE,
    REQUEST_ID,
    Api,
    Local,
    Start,
    error_of,
    executable,
    identified,
    in_background,
    until,
)

STATE = "State transition from {} to {} failed for extension idle. Error: State transition is not allowed"
INVALID_STATE = "Extension.InvalidExtensionState"
REGISTER = "/2020-01-01/extension/register"
NEXT = "/2020-01-01/extension/event/next"
INIT_ERROR = "/2020-01-01/extension/init/error"
EXIT_ERROR = "/2020-01-01/extension/exit/error"
TELEMETRY = "/2022-07-01/telemetry"


class Ready(NamedTuple):
    local: Local
    own: dict[str, str]
    event: Future[requests.Response]
    invocation: Future[requests.Response]

    def respond(self) -> None:
        """As the runtime, to the invocation that it was given."""
        self.local.api.respond(self.invocation.result(BOUND_S).headers[REQUEST_ID])

    def kill(self) -> None:
        os.kill(self.local.processes()["extension:idle"], signal.SIGKILL)


@pytest.fixture
def api(start_idle: Start) -> Api:
    """An environment in its init: one extension is launched and has not registered."""
    return start_idle().api


def become_ready(local: Local, *events: str) -> Ready:
    own = local.api.registered(*events)
    waiting = local.api.next_event(own), local.api.next_invocation()
    local.settle()
    return Ready(local, own, *waiting)


@pytest.fixture
def ready(start_idle: Start) -> Ready:
    """An environment after its init: the extension and the runtime wait in `next`. Without SHUTDOWN it ends at once."""
    return become_ready(start_idle(), "INVOKE")


# --- 1.1 routes: those of the Runtime and Telemetry APIs have tests of their own --------------------------------------


@pytest.mark.parametrize("mode", ["on-demand", "snap-start"])
def test_the_routes_of_a_restore_are_there_with_snap_start_alone(start_idle: Start, mode: str) -> None:
    api = start_idle(initialization=mode).api
    assert api.call("GET", "/2018-06-01/ping").text == "pong"
    mounted = api.call("POST", "/2018-06-01/runtime/restore/error").status_code != 404
    credentials = api.call("GET", "/2021-04-23/credentials", headers={"Authorization": "local"})
    assert mounted == credentials.ok == (mode == "snap-start")


# --- 1.2 register, 1.3 identifiers ------------------------------------------------------------------------------------


def test_what_register_refuses(api: Api) -> None:
    misspelt: dict[str, Any] = {"name": "misspelt", "body": '{"events": ["SHUTDOWN"]}'}
    refusals: list[tuple[dict[str, Any], str, str]] = [
        ({"name": None}, "Extension.InvalidExtensionName", "Empty extension name"),
        ({"name": ""}, "Extension.InvalidExtensionName", "Empty extension name"),
        ({"body": "{"}, "InvalidRequestFormat", "Expecting property name enclosed in double quotes"),
        ({"body": '{"configurationKeys": ["a"]}'}, "InvalidRequestFormat", "configurationKeys are deprecated"),
        ({"body": '{"events": ["FOO"]}'}, "Extension.InvalidEventType", "FOO: ErrorInvalidEventType"),
        (misspelt, "Extension.InvalidEventType", "SHUTDOWN: ShutdownEventNotSupportedForInternalExtension"),
    ]
    for given, error_type, message in refusals:
        answer = api.register(**given)
        assert error_of(answer)[:2] == (403, error_type)
        assert answer.headers["Content-Type"] == "application/json"
        assert answer.json().keys() == {"errorMessage", "errorType"}
        assert answer.json()["errorMessage"].startswith(message)


def test_register_answers_with_the_function_and_an_identifier(api: Api) -> None:
    headers = {"Lambda-Extension-Name": "idle", "Lambda-Extension-Accept-Feature": "unknown, accountId"}
    response = api.call("POST", REGISTER, headers=headers, data='{"configurationKeys": []}')  # none: no refusal
    assert response.status_code == 200
    assert uuid.UUID(response.headers["Lambda-Extension-Identifier"])
    known = {"functionName": "function", "functionVersion": "$LATEST", "handler": "idle"}
    assert response.json() == known | {"accountId": "123456789012"}
    assert error_of(api.register()) == (403, INVALID_STATE, STATE.format("Registered", "Registered"))
    assert api.register("internal", "{}").json() == known  # it did not ask for that feature


def test_a_misspelt_name_holds_up_the_init(start_idle: Start) -> None:
    """The trap: the name is welcome as an internal extension, and the file is waited for until the init's limit."""
    local = start_idle(init_timeout_s=3)
    assert local.api.register("misspelt").status_code == 200
    taken = (403, INVALID_STATE, "Extension with this name already registered")
    assert error_of(local.api.register("misspelt")) == taken
    local.settle()
    assert [record["status"] for record in local.of_type("initReport")] == ["timeout"]
    assert not local.of_type("initRuntimeDone")  # the runtime was never started
    states = {record["name"]: record["state"] for record in local.of_type("extension")}
    assert states == {"idle": "Started", "misspelt": "Registered"}


@pytest.mark.parametrize(("method", "path"), [("POST", REGISTER), ("GET", NEXT), ("PUT", TELEMETRY)])
def test_a_bug_of_ours_is_a_container_error(api: Api, monkeypatch: pytest.MonkeyPatch, method: str, path: str) -> None:
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


def test_a_call_without_a_known_identifier_is_refused(api: Api) -> None:
    stranger = str(uuid.uuid4())
    for method, path in [("GET", NEXT), ("POST", INIT_ERROR), ("POST", EXIT_ERROR), ("PUT", TELEMETRY)]:
        unknown = "Unknown Lambda-Extension-Identifier" if path.endswith("error") else f"Unknown extension {stranger}"
        for headers, error_type, message in (
            ({}, "Extension.MissingExtensionIdentifier", "Missing Lambda-Extension-Identifier header"),
            (identified("no-uuid"), "Extension.InvalidExtensionIdentifier", "Invalid Lambda-Extension-Identifier"),
            (identified(stranger), "Extension.UnknownExtensionIdentifier", unknown),
        ):
            assert error_of(api.call(method, path, headers=headers)) == (403, error_type, message)


# --- 1.4 next ---------------------------------------------------------------------------------------------------------


def test_invoke(ready: Ready) -> None:
    before_ms, limit_ms = int(time.time() * 1000), Settings().timeout_s * 1000
    calling = in_background(lambda: ready.local.post(name="function:$LATEST"))
    answer, runtimes = ready.event.result(BOUND_S), ready.invocation.result(BOUND_S).headers
    event = answer.json()
    assert answer.headers["Content-Type"] == "application/json"
    assert uuid.UUID(answer.headers["Lambda-Extension-Event-Identifier"])
    assert event.keys() == {"eventType", "deadlineMs", "requestId", "invokedFunctionArn", "tracing"}
    assert (event["eventType"], event["requestId"]) == ("INVOKE", runtimes[REQUEST_ID])
    assert event["invokedFunctionArn"] == runtimes["Lambda-Runtime-Invoked-Function-Arn"]
    assert event["invokedFunctionArn"].endswith(":function:function:$LATEST")  # as the caller named it
    assert event["deadlineMs"] == int(runtimes["Lambda-Runtime-Deadline-Ms"])
    assert isinstance(event["deadlineMs"], int)
    assert before_ms + limit_ms <= event["deadlineMs"] <= time.time() * 1000 + limit_ms
    assert event["tracing"]["type"] == "X-Amzn-Trace-Id"
    ready.respond()
    assert calling.result(BOUND_S).status_code == 200


def test_shutdown(start_idle: Start) -> None:
    ready = become_ready(start_idle(), "SHUTDOWN")
    before_ms = int(time.time() * 1000)
    stopping = in_background(ready.local.stop)
    answer = ready.event.result(BOUND_S)
    event = answer.json()
    assert before_ms + 2000 <= event["deadlineMs"] <= time.time() * 1000 + 2000  # the end of the shutdown's window
    assert event.keys() == {"eventType", "deadlineMs", "shutdownReason"}
    assert (event["eventType"], event["shutdownReason"]) == ("SHUTDOWN", "spindown")
    assert isinstance(event["deadlineMs"], int)
    assert answer.headers["Content-Type"].startswith("text/plain")
    assert "Lambda-Extension-Event-Identifier" not in answer.headers
    ready.kill()
    stopping.result(BOUND_S)


# --- 1.5 init/error, exit/error ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("path", "state"), [(INIT_ERROR, "InitError"), (EXIT_ERROR, "ExitError")])
def test_an_error_needs_a_type_and_may_be_sent_twice(api: Api, path: str, state: str) -> None:
    own = api.registered("INVOKE")
    missing = (403, "Extension.MissingHeader", "Lambda-Extension-Function-Error-Type not found")
    assert error_of(api.call("POST", path, headers=own)) == missing
    typed = own | {"Lambda-Extension-Function-Error-Type": "Extension.ConfigInvalid"}
    for _ in range(2):
        response = api.call("POST", path, headers=typed)
        assert (response.status_code, response.json()) == (202, {"status": "OK"})
    refused = api.call("GET", NEXT, headers=own)
    assert error_of(refused) == (403, INVALID_STATE, STATE.format(state, "Ready"))


def test_registration_closes_with_the_runtimes_first_next(start_idle: Start) -> None:
    local = start_idle(extensions={})
    local.api.next_invocation()
    local.settle()
    refusal = (403, "Extension.RegistrationClosed", "Extension registration closed already")
    assert error_of(local.api.register("late", "{}")) == refusal


def test_what_an_extension_that_waits_for_an_event_may_call(ready: Ready) -> None:
    """Neither `next` again nor init/error, but exit/error. It is the exit of the process that counts, not the call."""
    api, typed = ready.local.api, ready.own | {"Lambda-Extension-Function-Error-Type": "Extension.TooLate"}
    for method, path, wanted in (("GET", NEXT, "Ready"), ("POST", INIT_ERROR, "InitError")):
        refused = api.call(method, path, headers=typed)
        assert error_of(refused) == (403, INVALID_STATE, STATE.format("Ready", wanted))
    assert api.call("POST", EXIT_ERROR, headers=typed).status_code == 202
    assert "extension:idle" in ready.local.processes()


def test_exit_error_while_it_works(ready: Ready) -> None:
    """The call spoils nothing: the invocation that runs is answered. The exit of the process does."""
    calling = ready.local.invoke_in_background()
    ready.event.result(BOUND_S)
    typed = ready.own | {"Lambda-Extension-Function-Error-Type": "Extension.GaveUp"}
    answer = ready.local.api.call("POST", EXIT_ERROR, headers=typed, json={"errorMessage": "why"})
    assert (answer.status_code, answer.json()) == (202, {"status": "OK"})
    ready.respond()
    assert calling.result().payload == "done"
    ready.kill()
    ready.local.settle()
    assert ready.local.reports[0].error_type == "Extension.ExitError"


# --- 1.7 /opt/extensions ----------------------------------------------------------------------------------------------


def test_every_file_is_executed_under_its_name(start_idle: Start, tmp_path: Path) -> None:
    """In parallel and without arguments: none waits for the registration of another. A symlink is a file."""
    for name in ("one.sh", "two"):
        executable(tmp_path / name, '#!/bin/sh\necho "$(basename "$0") has $#"; echo trouble >&2; exec sleep 600\n')
    (tmp_path / "three").symlink_to(tmp_path / "two")
    (tmp_path / "folder").mkdir()
    local = start_idle(extensions=extensions_of(tmp_path))
    said = {
        (f"extension:{name}", stream, text)
        for name in ("one.sh", "two", "three")
        for stream, text in (("stdout", f"{name} has 0"), ("stderr", "trouble"))
    }
    until(lambda: said <= {(line.source, line.stream, line.text) for line in local.logs})
    assert set(local.processes()) == {"extension:one.sh", "extension:two", "extension:three"}


def test_files_are_in_byte_order_and_a_link_to_a_folder_is_one(tmp_path: Path) -> None:
    for name in ("b", "C", "a"):
        executable(tmp_path / name, "#!/bin/sh")
    assert [path.name for path in extensions_of(tmp_path)] == ["C", "a", "b"]  # as in os.ReadDir
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
    local = start(extensions=[executable(tmp_path / "broken", f"#!{interpreter}\n")])
    local.settle()
    assert local.of_type("extension") == [{"name": "broken", "state": "LaunchError", "events": [], "errorType": kind}]
    assert local.of_type("initReport")[0]["errorType"] == "Extension.LaunchError"
    assert not local.of_type("initRuntimeDone")  # the runtime was never started
    local.wait_for_line(lambda line: line.text.endswith(f"\tState: LaunchError\tEvents: []\tError Type: {kind}"))
    answer = local.invoke({}).payload
    assert answer["errorType"] == "Extension.LaunchError"
    assert answer["errorMessage"].endswith(f"/broken: {why}")


def test_a_script_that_cannot_execute_its_program_has_crashed(start: Start, tmp_path: Path) -> None:
    name = "lacking-einem-äh"  # to the kernel's 15 bytes it is half a letter
    text = "#!/usr/bin/env truemem-no-such-program\n"  # exits with 127, as what cannot be executed
    local = start(extensions=[executable(tmp_path / name, text)])
    local.settle()
    assert local.of_type("initReport")[0]["errorType"] == "Extension.Crash"


# --- 1.8 limits (of memory, timeout, variables: test_function; of an event's size: test_invoke_api) -------------------


def test_the_eleventh_file_is_not_started(start_idle: Start) -> None:
    local = start_idle(extensions={f"e{number:02}": IDLE["idle"] for number in range(11)})
    local.settle()
    states = [(each["name"], each["state"], each.get("errorType")) for each in local.of_type("extension")]
    started = [(f"e{number:02}", "Started", None) for number in range(10)]
    assert states == [*started, ("e10", "LaunchError", "TooManyExtensions")]
    assert local.of_type("initReport")[0]["errorType"] == "Extension.LaunchError"


@pytest.mark.parametrize(("settings", "limit"), [({}, 1024), ({"managed_instances": 1}, 4096)])
def test_how_many_files_may_be_open(start: Start, settings: dict[str, Any], limit: int) -> None:
    assert start(f"{APP}:limits", **settings).invoke({}).payload == [limit, limit]


def test_a_body_above_a_mebibyte_on_managed_instances(start_idle: Start) -> None:
    api = start_idle(managed_instances=1).api
    body = json.dumps({"events": [], "more": "x" * 2**20})
    assert error_of(api.register(body=body))[:2] == (413, "RequestEntityTooLarge")
    assert error_of(api.call("PUT", TELEMETRY, headers=api.registered(), data=body))[0] == 413
