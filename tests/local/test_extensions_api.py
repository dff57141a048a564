"""Every refusal of the Extensions API, over HTTP: status, errorType, errorMessage."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from .conftest import BOUND_S, HERE, Api, Start, error_of, identified

IDLE = {"idle": HERE / "extensions" / "idle"}
STATE = "State transition from {} to {} failed for extension idle. Error: State transition is not allowed"
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


@pytest.fixture
def api(start: Start) -> Api:
    """An environment in its init: one extension is launched and has not registered."""
    return Api(start(HERE / "functions" / "idle", extensions=IDLE, init_timeout_s=60).runtime_api())


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


def test_only_one_next_may_be_pending(start: Start) -> None:
    local = start(HERE / "functions" / "idle", extensions=IDLE, init_timeout_s=60)
    api = Api(local.runtime_api())
    identifier = api.register().headers["Lambda-Extension-Identifier"]
    api.next_event(identifier)
    api.next_invocation()
    local.settle(timeout=BOUND_S)  # init is over: the extension waits
    refused = api.call("GET", "/2020-01-01/extension/event/next", headers=identified(identifier))
    assert error_of(refused) == (403, "Extension.InvalidExtensionState", STATE.format("Ready", "Ready"))


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
    refused = api.call("GET", "/2020-01-01/extension/event/next", headers=own)
    assert error_of(refused) == (403, "Extension.InvalidExtensionState", STATE.format(state, "Ready"))


def test_registration_closes_with_the_runtimes_first_next(start: Start) -> None:
    local = start(HERE / "functions" / "idle", init_timeout_s=60)
    api = Api(local.runtime_api())
    api.next_invocation()
    local.settle(timeout=BOUND_S)
    refusal = (403, "Extension.RegistrationClosed", "Extension registration closed already")
    assert error_of(api.register("late", "{}")) == refusal
