"""The Runtime API, row by row (1.9), played by the test over HTTP."""

import socket
import uuid
from concurrent.futures import Future
from pathlib import Path
from typing import NamedTuple

import pytest
import requests
from truemem_workbench.local.errors import normalised_error_type, truncated_request
from truemem_workbench.local.lifecycle.invocation import MAX_PAYLOAD

from tests.local.conftest import BOUND_S, REQUEST_ID, Api, Local, Reply, Start, error_of, executable, in_background

INVOCATION = "/2018-06-01/runtime/invocation"
INIT_ERROR = "/2018-06-01/runtime/init/error"
RESTORE = "/2018-06-01/runtime/restore"
ERROR_TYPE = "Lambda-Runtime-Function-Error-Type"
STATE = "State transition from {} to {} failed for runtime. Error: State transition is not allowed"


class Delivered(NamedTuple):
    """An invocation that the runtime, played by the test, has been given."""

    event: requests.Response
    request_id: str
    answer: Future[Reply]
    """What its caller gets."""


def deliver(local: Local, payload: object = None) -> Delivered:
    waiting = local.api.next_invocation()
    answer = local.invoke_in_background(payload)
    event = waiting.result(BOUND_S)
    return Delivered(event, event.headers[REQUEST_ID], answer)


def is_accepted(response: requests.Response) -> bool:
    return (response.status_code, response.json()) == (202, {"status": "OK"})


@pytest.fixture
def local(start_idle: Start) -> Local:
    return start_idle(extensions={})


@pytest.fixture
def api(local: Local) -> Api:
    return local.api


def test_an_invocation_as_the_runtime_sees_it(local: Local, api: Api) -> None:
    delivered = deliver(local, {"a": 1})
    assert delivered.event.json() == {"a": 1}
    headers = delivered.event.headers
    assert uuid.UUID(delivered.request_id)
    assert uuid.UUID(headers["Lambda-Runtime-Invocation-Id"])
    assert headers["Lambda-Runtime-Invoked-Function-Arn"].endswith(":function:function")
    assert headers["Lambda-Runtime-Trace-Id"].startswith("Root=1-")
    assert len(headers["Lambda-Runtime-Deadline-Ms"]) == 13
    assert headers["Content-Type"] == "application/json"
    assert "Lambda-Runtime-Client-Context" not in headers
    again = api.call("GET", f"{INVOCATION}/next")  # not answered yet: the same event
    assert (again.json(), again.headers[REQUEST_ID]) == ({"a": 1}, delivered.request_id)
    assert is_accepted(api.respond(delivered.request_id, '"fine"'))
    assert delivered.answer.result().payload == "fine"


def test_what_response_and_error_refuse(local: Local, api: Api) -> None:
    early = api.respond("whatever")
    assert error_of(early) == (403, "InvalidStateTransition", STATE.format("Started", "InvocationResponse"))

    _, request_id, answer = deliver(local)
    assert error_of(api.respond("another")) == (400, "InvalidRequestID", "Invalid request ID")
    wrong = api.respond(request_id, Lambda_Runtime_Invocation_Id="another")
    assert error_of(wrong) == (400, "InvalidInvocationId", "Invalid invocation ID")
    assert api.call("POST", f"{INVOCATION}/another/error", data="{}").status_code == 400
    late_init = api.call("POST", INIT_ERROR, data="{}")
    assert error_of(late_init) == (403, "InvalidStateTransition", STATE.format("Running", "InitError"))

    assert api.respond(request_id).status_code == 202
    late = api.respond(request_id)
    state = STATE.format("RuntimeResponseSentState", "InvocationResponse")
    assert error_of(late) == (403, "InvalidStateTransition", state)
    assert answer.result().payload == "done"


def test_an_error_is_taken_and_passed_on(local: Local, api: Api) -> None:
    event, request_id, caller = deliver(local)
    body = {"errorType": "Mine", "errorMessage": "no luck"}
    own_attempt = {"Lambda-Runtime-Invocation-Id": event.headers["Lambda-Runtime-Invocation-Id"]}
    stack = "x" * (1 << 20)  # AWS's client for Java tells X-Ray that much
    headers = own_attempt | {ERROR_TYPE: "Function.Mine", "Lambda-Runtime-Function-XRay-Error-Cause": stack}
    assert is_accepted(api.call("POST", f"{INVOCATION}/{request_id}/error", json=body, headers=headers))
    assert (caller.result().payload, caller.result().function_error) == (body, "Unhandled")


def test_a_response_that_is_cut_off(local: Local, api: Api) -> None:
    _, request_id, caller = deliver(local)
    host, port = api.base.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as connection:
        head = f"POST {INVOCATION}/{request_id}/response HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n"
        connection.sendall(head.encode() + b"only this")
    answer = caller.result()
    assert (answer.function_error, answer.payload["errorType"]) == ("Unhandled", "Runtime.TruncatedResponse")
    assert answer.payload["errorMessage"].endswith("Error: HTTP request detected as truncated")
    refusal = truncated_request()  # the runtime has gone: nothing reads it
    assert (refusal.status, refusal.error_type) == (400, "TruncatedHTTPRequest")


def test_what_the_caller_sends_along_reaches_the_runtime(local: Local, api: Api) -> None:
    waiting = api.next_invocation()
    sent = {"X-Amz-Client-Context": "eyJhIjogMX0=", "X-Amz-Tenant-Id": "blue", "X-Amzn-Trace-Id": "Root=1-2-3"}
    calling = in_background(lambda: local.post(**sent))
    headers = waiting.result(BOUND_S).headers
    assert headers["Lambda-Runtime-Client-Context"] == '{"a": 1}'
    assert headers["Lambda-Runtime-Aws-Tenant-Id"] == "blue"
    assert headers["Lambda-Runtime-Trace-Id"] == "Root=1-2-3"
    api.respond(headers[REQUEST_ID])
    assert calling.result(BOUND_S).status_code == 200


def test_an_init_error_is_taken(api: Api) -> None:
    headers = {ERROR_TYPE: "Runtime.NoLuck"}
    assert is_accepted(api.call("POST", INIT_ERROR, json={"errorMessage": "why"}, headers=headers))
    refused = api.call("GET", f"{INVOCATION}/next")
    assert error_of(refused) == (403, "InvalidStateTransition", STATE.format("InitError", "Ready"))


def test_a_streamed_response_arrives_whole(local: Local, api: Api) -> None:
    _, request_id, caller = deliver(local)
    pieces = iter([b'{"part":', b"1}"])
    streaming = {"Lambda-Runtime-Function-Response-Mode": "streaming"}
    accepted = api.call("POST", f"{INVOCATION}/{request_id}/response", data=pieces, headers=streaming)
    assert accepted.status_code == 202
    assert caller.result().payload == {"part": 1}


TOO_LARGE = "Exceeded maximum allowed payload size (6291556 bytes)."
NO_MODE = {"Lambda_Runtime_Function_Response_Mode": "swimming"}


@pytest.mark.parametrize(
    ("body", "headers", "refusal", "error_type"),
    [
        ("{}", NO_MODE, (400, "InvalidFunctionResponseMode"), "Runtime.InvalidResponseModeHeader"),
        (
            "x" * (MAX_PAYLOAD + 1),
            {},
            (413, "RequestEntityTooLarge", TOO_LARGE),
            "Function.ResponseSizeTooLarge",
        ),
    ],
    ids=["of a mode that does not exist", "too large"],
)
def test_a_response_that_is_refused_fails_the_invocation(
    local: Local, api: Api, body: str, headers: dict[str, str], refusal: tuple[object, ...], error_type: str
) -> None:
    _, request_id, caller = deliver(local)
    refused = api.respond(request_id, body, **headers)
    assert error_of(refused)[: len(refusal)] == refusal
    assert (caller.result().function_error, caller.result().payload["errorType"]) == ("Unhandled", error_type)


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


@pytest.mark.parametrize("fails", [False, True])
def test_a_restore_is_answered_without_a_body(start_idle: Start, fails: bool) -> None:
    local = start_idle(extensions={}, initialization="snap-start")
    restored = in_background(lambda: local.api.call("GET", f"{RESTORE}/next"))
    local.settle()
    caller = local.invoke_in_background({"a": 1})
    assert (restored.result(BOUND_S).status_code, restored.result().content) == (200, b"")
    if fails:
        body = {"errorType": "Runtime.Mine", "errorMessage": "no luck"}
        assert is_accepted(local.api.call("POST", f"{RESTORE}/error", json=body, headers={ERROR_TYPE: "Runtime.Mine"}))
        assert (caller.result().payload, caller.result().function_error) == (body, "Unhandled")
        assert local.of_type("restoreRuntimeDone") == [{"status": "error", "errorType": "Runtime.Mine"}]
    else:
        event = local.api.next_invocation().result(BOUND_S)
        assert event.json() == {"a": 1}
        local.api.respond(event.headers[REQUEST_ID])
        assert caller.result().payload == "done"


def test_a_runtime_that_cannot_be_executed(start: Start, tmp_path: Path) -> None:
    path = executable(tmp_path / "bootstrap", "#!/nowhere\n")
    local = start(path)
    answer = local.invoke({})
    assert answer.payload == {
        "errorType": "Runtime.InvalidEntrypoint",
        "errorMessage": f"RequestId: {answer.request_id} Error: fork/exec {path}: no such file or directory",
    }
    done = local.of_type("initRuntimeDone")[0]
    assert (done["status"], done["errorType"]) == ("error", "Runtime.InvalidEntrypoint")
