"""Errors of the local Lambda, and how each API reports them.

Status, errorType and errorMessage of every refusal are those of AWS's own code (runtime-interface-emulator,
`internal/lambda/rapi`), so that a client sees here what it will see in Lambda.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from typing import Literal

NOT_ALLOWED = "State transition is not allowed"


class ApiRefusal(Exception):
    """A refusal by the Runtime, Extensions or Telemetry API."""

    def __init__(self, status: int, error_type: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.error_type = error_type
        self.message = message

    def body(self) -> dict[str, str]:
        return {"errorMessage": self.message, "errorType": self.error_type}


@dataclass(frozen=True)
class Failure:
    """The reason why an init or an invocation failed."""

    error_type: str
    """Error type as in telemetry, for example `Runtime.ExitError` or `Extension.Crash`."""
    message: str
    """Message for the caller, without the request id that the answer puts before it."""
    reason: Literal["failure", "timeout", "spindown"]
    """The shutdownReason that extensions get."""
    payload: bytes | None = None
    """Body that the runtime itself posted (init/error). The caller gets it unchanged."""

    @property
    def status(self) -> str:
        """Status in runtimeDone and report: `timeout`, `failure` (for the platform's `Sandbox.*`) or `error`."""
        if self.reason == "timeout":
            return "timeout"
        return "failure" if self.error_type.startswith("Sandbox.") else "error"


class WaitFailed(Exception):
    """Raised to end the wait for an init or an invocation."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class Throttled(Exception):
    """Raised for a request that no environment may take. The text is the Reason of TooManyRequestsException."""


STOPPED_FAILURE = Failure("Sandbox.Failure", "The environment was stopped", "spindown")


# --- Extensions API ---------------------------------------------------------------------------------------------------

_refused = partial(ApiRefusal, 403)
empty_extension_name = partial(_refused, "Extension.InvalidExtensionName", "Empty extension name")
invalid_request_format = partial(_refused, "InvalidRequestFormat")
invalid_event = partial(_refused, "Extension.InvalidEventType")
name_taken = partial(_refused, "Extension.InvalidExtensionState", "Extension with this name already registered")
registration_closed = partial(_refused, "Extension.RegistrationClosed", "Extension registration closed already")
missing_identifier = partial(
    _refused, "Extension.MissingExtensionIdentifier", "Missing Lambda-Extension-Identifier header"
)
invalid_identifier = partial(_refused, "Extension.InvalidExtensionIdentifier", "Invalid Lambda-Extension-Identifier")
unknown_identifier = partial(_refused, "Extension.UnknownExtensionIdentifier")
missing_error_type = partial(_refused, "Extension.MissingHeader", "Lambda-Extension-Function-Error-Type not found")


def extension_state(name: str, current: str, wanted: str) -> ApiRefusal:
    text = f"State transition from {current} to {wanted} failed for extension {name}. Error: {NOT_ALLOWED}"
    return _refused("Extension.InvalidExtensionState", text)


def too_many_extensions(limit: int) -> ApiRefusal:
    return _refused("Extension.TooManyExtensions", f"Extension limit ({limit}) reached")


# --- Runtime API ------------------------------------------------------------------------------------------------------

invalid_request_id = partial(ApiRefusal, 400, "InvalidRequestID", "Invalid request ID")
invalid_invocation_id = partial(ApiRefusal, 400, "InvalidInvocationId", "Invalid invocation ID")
invoke_timeout = partial(ApiRefusal, 410, "InvokeTimeout", "Invoke timeout")  # too late, on Managed Instances
invalid_response_mode = partial(ApiRefusal, 400, "InvalidFunctionResponseMode", "Invalid function response mode")
truncated_request = partial(ApiRefusal, 400, "TruncatedHTTPRequest", "HTTP request detected as truncated")


def runtime_state(current: str, wanted: str) -> ApiRefusal:
    text = f"State transition from {current} to {wanted} failed for runtime. Error: {NOT_ALLOWED}"
    return _refused("InvalidStateTransition", text)


def too_large(limit: int) -> ApiRefusal:
    return ApiRefusal(413, "RequestEntityTooLarge", f"Exceeded maximum allowed payload size ({limit} bytes).")


def normalised_error_type(reported: str) -> str:
    """The error type that the platform reports for the one that a runtime posted (RIE fatalerror.go)."""
    if re.fullmatch(r"(Runtime|Function)\.[A-Z][a-zA-Z]+", reported):
        return reported
    return "Function.Unknown" if reported.startswith("Function.") else "Runtime.Unknown"


# --- Telemetry API ----------------------------------------------------------------------------------------------------

telemetry_closed = partial(ApiRefusal, 403, "Telemetry.SubscriptionClosed", "Telemetry API subscription is closed")
telemetry_not_supported = partial(ApiRefusal, 202, "Telemetry.NotSupported", "Telemetry API is not supported")
logs_not_supported = partial(ApiRefusal, 202, "Logs.NotSupported", "Logs API is not supported")
validation_error = partial(ApiRefusal, 400, "ValidationError")
internal_server_error = partial(ApiRefusal, 500, "InternalServerError", "Internal Server Error")
