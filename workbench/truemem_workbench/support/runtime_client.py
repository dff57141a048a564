"""Stands in for `runtime_client`, the C part of AWS's runtime client, where that cannot be loaded.

It has the same functions. The function's process imports it, so it imports only the standard library.
"""

import http.client
import os
from email.message import Message

_headers: dict[str, str] = {}


def initialize_client(user_agent: str) -> None:
    _headers["User-Agent"] = user_agent


def next() -> tuple[bytes, Message]:
    """Wait for the next event. Returns it with its headers. Raises RuntimeError and OSError."""
    return _call("GET", "next", None, {})


def post_invocation_result(
    invoke_id: str, result: bytes, content_type: str = "application/json", invocation_id: str | None = None
) -> None:
    """Raises RuntimeError and OSError."""
    _call("POST", f"{invoke_id}/response", result, {"Content-Type": content_type, **_given(invocation_id)})


def post_error(invoke_id: str, error: str, xray_fault: str, invocation_id: str | None = None) -> None:
    """Raises RuntimeError and OSError."""
    headers = {"Content-Type": "application/json", "Lambda-Runtime-Function-XRay-Error-Cause": xray_fault}
    _call("POST", f"{invoke_id}/error", error.encode(), {**headers, **_given(invocation_id)})


def _given(invocation_id: str | None) -> dict[str, str]:
    return {} if invocation_id is None else {"Lambda-Runtime-Invocation-Id": invocation_id}


def _call(method: str, path: str, body: bytes | None, headers: dict[str, str]) -> tuple[bytes, Message]:
    connection = http.client.HTTPConnection(os.environ["AWS_LAMBDA_RUNTIME_API"])
    try:
        connection.request(method, f"/2018-06-01/runtime/invocation/{path}", body, _headers | headers)
        answer = connection.getresponse()
        content = answer.read()
    finally:
        connection.close()
    if answer.status not in (200, 202):
        raise RuntimeError(f"{method} {path}: the Runtime API answered {answer.status}")
    return content, answer.headers
