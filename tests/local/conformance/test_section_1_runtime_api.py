"""The Runtime API, row by row (1.9), played by the test over HTTP."""

from __future__ import annotations

import json
import socket
import threading
import uuid
from pathlib import Path

import pytest
import requests
from truemem_workbench.local import Invocation
from truemem_workbench.local.errors import normalised_error_type, truncated_request
from truemem_workbench.local.state.invocation import MAX_PAYLOAD

from tests.local.conftest import BOUND_S, HERE, Answer, Api, Local, Start, error_of

INVOCATION = "/2018-06-01/runtime/invocation"
STATE = "State transition from {} to {} failed for runtime. Error: State transition is not allowed"


class Caller:
    """An invocation that is waited for in a thread of its own."""

    def __init__(self, local: Local, payload: object) -> None:
        self._result: list[Invocation] = []
        self._thread = threading.Thread(target=lambda: self._result.append(local.invoke(payload)), daemon=True)
        self._thread.start()

    def get(self) -> Invocation:
        self._thread.join(BOUND_S)
        return self._result[0]


@pytest.fixture
def local(start: Start) -> Local:
    return start(HERE / "functions" / "idle", init_timeout_s=60)


@pytest.fixture
def api(local: Local) -> Api:
    return Api(local.runtime_api())


def test_an_invocation_as_the_runtime_sees_it(local: Local, api: Api) -> None:
    waiting = api.next_invocation()
    caller = Caller(local, {"a": 1})
    event = waiting.get()

    assert event.json() == {"a": 1}
    headers = event.headers
    assert uuid.UUID(headers["Lambda-Runtime-Aws-Request-Id"])
    assert uuid.UUID(headers["Lambda-Runtime-Invocation-Id"])
    assert headers["Lambda-Runtime-Invoked-Function-Arn"].endswith(":function:function")
    assert headers["Lambda-Runtime-Trace-Id"].startswith("Root=1-")
    assert len(headers["Lambda-Runtime-Deadline-Ms"]) == 13
    assert headers["Content-Type"] == "application/json"
    assert "Lambda-Runtime-Client-Context" not in headers

    accepted = api.respond(headers["Lambda-Runtime-Aws-Request-Id"], '"fine"')
    assert (accepted.status_code, accepted.json()) == (202, {"status": "OK"})
    assert caller.get().payload == "fine"


def test_asking_again_without_an_answer_delivers_the_same_event(local: Local, api: Api) -> None:
    waiting = api.next_invocation()
    Caller(local, {"a": 1})
    first = waiting.get()
    again = api.call("GET", f"{INVOCATION}/next")
    name = "Lambda-Runtime-Aws-Request-Id"
    assert (again.json(), again.headers[name]) == (first.json(), first.headers[name])


def test_what_response_and_error_refuse(local: Local, api: Api) -> None:
    early = api.respond("whatever")
    assert error_of(early) == (403, "InvalidStateTransition", STATE.format("Started", "InvocationResponse"))

    waiting = api.next_invocation()
    caller = Caller(local, {})
    request_id = waiting.get().headers["Lambda-Runtime-Aws-Request-Id"]
    assert error_of(api.respond("another")) == (400, "InvalidRequestID", "Invalid request ID")
    wrong = api.respond(request_id, **{"Lambda-Runtime-Invocation-Id": "another"})
    assert error_of(wrong) == (400, "InvalidInvocationId", "Invalid invocation ID")
    assert api.call("POST", f"{INVOCATION}/another/error", data="{}").status_code == 400

    assert api.respond(request_id).status_code == 202
    late = api.respond(request_id)
    state = STATE.format("RuntimeResponseSentState", "InvocationResponse")
    assert error_of(late) == (403, "InvalidStateTransition", state)
    assert caller.get().payload == "done"


def test_an_error_is_taken_and_passed_on(local: Local, api: Api) -> None:
    waiting = api.next_invocation()
    caller = Caller(local, {})
    headers = waiting.get().headers
    path = f"{INVOCATION}/{headers['Lambda-Runtime-Aws-Request-Id']}/error"
    body = {"errorType": "Mine", "errorMessage": "no luck"}
    own_attempt = {"Lambda-Runtime-Invocation-Id": headers["Lambda-Runtime-Invocation-Id"]}
    told = own_attempt | {"Lambda-Runtime-Function-Error-Type": "Function.Mine"}
    answer = api.call("POST", path, json=body, headers=told)
    assert (answer.status_code, answer.json()) == (202, {"status": "OK"})
    assert (caller.get().payload, caller.get().function_error) == (body, "Unhandled")


def test_a_response_that_is_cut_off(local: Local, api: Api) -> None:
    waiting = api.next_invocation()
    caller = Caller(local, {})
    request_id = waiting.get().headers["Lambda-Runtime-Aws-Request-Id"]
    host, port = api.base.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as connection:
        head = f"POST {INVOCATION}/{request_id}/response HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n"
        connection.sendall(head.encode() + b"only this")
    answer = caller.get()
    assert answer.function_error == "Unhandled"
    told = json.loads(answer.raw)
    assert told["errorType"] == "Runtime.TruncatedResponse"
    assert told["errorMessage"].endswith("Error: HTTP request detected as truncated")


def test_the_refusal_that_nobody_reads_any_more() -> None:
    refusal = truncated_request()
    assert (refusal.status, refusal.error_type) == (400, "TruncatedHTTPRequest")


def test_what_the_caller_sends_along_reaches_the_runtime(local: Local, api: Api) -> None:
    waiting = api.next_invocation()
    url = f"{local.endpoint}/2015-03-31/functions/function/invocations"
    sent = {"X-Amz-Client-Context": "eyJhIjogMX0=", "X-Amz-Tenant-Id": "blue", "X-Amzn-Trace-Id": "Root=1-2-3"}
    calling = Answer(lambda: requests.post(url, headers=sent, timeout=BOUND_S))
    headers = waiting.get().headers
    assert headers["Lambda-Runtime-Client-Context"] == '{"a": 1}'
    assert headers["Lambda-Runtime-Aws-Tenant-Id"] == "blue"
    assert headers["Lambda-Runtime-Trace-Id"] == "Root=1-2-3"
    api.respond(headers["Lambda-Runtime-Aws-Request-Id"])
    assert calling.get().status_code == 200


def test_an_init_error_is_taken(api: Api) -> None:
    told = {"Lambda-Runtime-Function-Error-Type": "Runtime.NoLuck"}
    answer = api.call("POST", "/2018-06-01/runtime/init/error", json={"errorMessage": "why"}, headers=told)
    assert (answer.status_code, answer.json()) == (202, {"status": "OK"})
    refused = api.call("GET", f"{INVOCATION}/next")
    assert error_of(refused) == (403, "InvalidStateTransition", STATE.format("InitError", "Ready"))


def test_a_response_mode_that_does_not_exist(local: Local, api: Api) -> None:
    waiting = api.next_invocation()
    caller = Caller(local, {})
    request_id = waiting.get().headers["Lambda-Runtime-Aws-Request-Id"]
    mode = {"Lambda-Runtime-Function-Response-Mode": "swimming"}
    refused = api.respond(request_id, **mode)
    assert error_of(refused)[:2] == (400, "InvalidFunctionResponseMode")
    answer = caller.get()
    assert answer.function_error == "Unhandled"
    assert json.loads(answer.raw)["errorType"] == "Runtime.InvalidResponseModeHeader"


def test_a_streamed_response_arrives_whole(local: Local, api: Api) -> None:
    waiting = api.next_invocation()
    caller = Caller(local, {})
    request_id = waiting.get().headers["Lambda-Runtime-Aws-Request-Id"]
    accepted = api.call(
        "POST",
        f"{INVOCATION}/{request_id}/response",
        data=iter([b'{"part":', b"1}"]),
        headers={"Lambda-Runtime-Function-Response-Mode": "streaming"},
    )
    assert accepted.status_code == 202
    assert caller.get().payload == {"part": 1}


def test_a_response_that_is_too_large(local: Local, api: Api) -> None:
    waiting = api.next_invocation()
    caller = Caller(local, {})
    request_id = waiting.get().headers["Lambda-Runtime-Aws-Request-Id"]
    refused = api.respond(request_id, "x" * (MAX_PAYLOAD + 1))
    message = "Exceeded maximum allowed payload size (6291556 bytes)."
    assert error_of(refused) == (413, "RequestEntityTooLarge", message)
    answer = caller.get()
    assert answer.function_error == "Unhandled"
    assert json.loads(answer.raw)["errorType"] == "Function.ResponseSizeTooLarge"


def test_init_error_is_for_init(api: Api, local: Local) -> None:
    waiting = api.next_invocation()
    Caller(local, {})
    waiting.get()
    refused = api.call("POST", "/2018-06-01/runtime/init/error", data="{}")
    assert error_of(refused) == (403, "InvalidStateTransition", STATE.format("Running", "InitError"))


def test_ping_and_what_is_not_there(api: Api) -> None:
    assert api.call("GET", "/2018-06-01/ping").text == "pong"
    assert api.call("GET", "/2018-06-01/runtime/restore/next").status_code == 404  # SnapStart's


@pytest.mark.parametrize(
    ("reported", "kept"),
    [
        ("Runtime.ImportModuleError", "Runtime.ImportModuleError"),
        ("Function.Mine", "Function.Mine"),
        ("Function.not-mine", "Function.Unknown"),
        ("ValueError", "Runtime.Unknown"),
        ("", "Runtime.Unknown"),
    ],
)
def test_error_types_are_normalised(reported: str, kept: str) -> None:
    assert normalised_error_type(reported) == kept


# --- SnapStart's routes -----------------------------------------------------------------------------------------------

RESTORE = "/2018-06-01/runtime/restore"


@pytest.fixture
def published(start: Start) -> tuple[Local, Api, Answer]:
    """An environment whose runtime waits for its restore."""
    local = start(HERE / "functions" / "idle", initialization="snap-start", init_timeout_s=60)
    api = Api(local.runtime_api())
    waiting = api.in_background("GET", f"{RESTORE}/next")
    local.settle(timeout=BOUND_S)
    return local, api, waiting


def test_a_restore_is_an_answer_without_a_body(published: tuple[Local, Api, Answer]) -> None:
    local, api, waiting = published
    caller = Caller(local, {"a": 1})
    restored = waiting.get()
    assert (restored.status_code, restored.content) == (200, b"")
    event = api.next_invocation().get()
    assert event.json() == {"a": 1}
    api.respond(event.headers["Lambda-Runtime-Aws-Request-Id"])
    assert caller.get().payload == "done"


def test_an_error_of_the_restore_is_taken_and_passed_on(published: tuple[Local, Api, Answer]) -> None:
    local, api, waiting = published
    caller = Caller(local, {})
    waiting.get()
    body = {"errorType": "Runtime.Mine", "errorMessage": "no luck"}
    told = {"Lambda-Runtime-Function-Error-Type": "Runtime.Mine"}
    answer = api.call("POST", f"{RESTORE}/error", json=body, headers=told)
    assert (answer.status_code, answer.json()) == (202, {"status": "OK"})
    assert (caller.get().payload, caller.get().function_error) == (body, "Unhandled")
    assert local.of_type("platform.restoreRuntimeDone") == [{"status": "error", "errorType": "Runtime.Mine"}]


# --- a runtime that cannot be executed --------------------------------------------------------------------------------


def test_a_runtime_that_cannot_be_executed(start: Start, tmp_path: Path) -> None:
    path = tmp_path / "bootstrap"
    path.write_text("#!/nowhere\n")
    path.chmod(0o755)
    local = start(path)
    answer = local.invoke({})
    assert answer.payload == {
        "errorType": "Runtime.InvalidEntrypoint",
        "errorMessage": f"RequestId: {answer.request_id} Error: fork/exec {path}: no such file or directory",
    }
    told = local.of_type("platform.initRuntimeDone")[0]
    assert (told["status"], told["errorType"]) == ("error", "Runtime.InvalidEntrypoint")
