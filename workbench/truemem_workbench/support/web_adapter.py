"""AWS's Lambda Web Adapter, which runs a web server as a function: exact mode there. Pure.

The adapter is an extension that asks for the events itself, so no wrapper helps: it has to be pointed at a port of the
sidecar (its guide, "Request interception"). If nothing listens there, no event is served.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from . import docs_link

NAME = "lambda-adapter"
"""The extension's name: that of its file."""
WRAPPERS = ("AWS_LAMBDA_EXEC_WRAPPER", "TRUEMEM_EXEC_WRAPPER")
STARTS_APP = "/opt/bootstrap"
"""The wrapper in the adapter's layer: it starts the web server."""
PREFIX = "AWS_LWA_"
HTTP, FAILED_FROM = "HTTP ", 400
"""Begin of what is said of a response that failed, and its least status."""
READY_PATH, ASYNC = f"{PREFIX}READINESS_CHECK_PATH", f"{PREFIX}ASYNC_INIT"
"""The path that tells whether the web server is ready, and whether the first event waits for that, not init."""
USUAL_APP_PORT = 8080
"""Where the web server listens, if no variable says it."""
PROXY, PORT = f"{PREFIX}LAMBDA_RUNTIME_API_PROXY", "TRUEMEM_PORT"
"""Where the adapter asks for events, and where the sidecar takes these requests."""
USUAL_PORT = "9717"
"""No extension that we know listens there, and no outgoing connection has it: those have 32768 and more (ip(7))."""
LAYER = re.compile(r":753240598075:layer:LambdaAdapterLayer(?:X86|Arm64):(\d+)$")
"""AWS's layer of the adapter, and its version."""
FIRST, REGISTERS_THERE, REPAIRED = 25, (26, 27), 28
"""Versions of that layer. 25 has adapter 0.9.1, the first that reads PROXY. 26 and 27 have 1.0.0, which registers
through it (aws-lambda-web-adapter#737): before the sidecar listens, perhaps, and then it ends, and init fails. 28 has
1.0.1, without that."""


def is_there(layers: Sequence[str], variables: Mapping[str, str]) -> bool:
    """Does the function run behind the adapter, as far as its layers (ARNs) and variables tell?"""
    wraps = STARTS_APP in (variables.get(name) for name in WRAPPERS)
    return wraps or any(map(LAYER.search, layers)) or any(name.startswith(PREFIX) for name in variables)


def app_port(variables: Mapping[str, str]) -> str:
    """The port of the web server, as the adapter reads it."""
    return variables.get(f"{PREFIX}PORT") or variables.get("PORT") or str(USUAL_APP_PORT)


def failed(answer: object, event: object) -> str:
    """What a response of the web server counts as, if its status is 4xx or 5xx: a failed invocation here, as for k6 and
    Locust, though the platform calls it a success. `answer` is the payload, `event` what was sent. "" for others."""
    status = answer.get("statusCode") if isinstance(answer, Mapping) else None
    if not isinstance(status, int) or status < FAILED_FROM:
        return ""
    path = (event.get("rawPath") or event.get("path")) if isinstance(event, Mapping) else None
    return f"{HTTP}{status}{f': {path}' if path else ''}"


def unready(said: Sequence[str]) -> str:
    """The status with which the web server has answered last that it is not ready, by the lines of our stand-in; ""
    where it has not answered."""
    return next((found[1] for text in reversed(said) if (found := re.search(r" status=(\d+)$", text))), "")


def why_not(layers: Sequence[str], variables: Mapping[str, str]) -> str:
    """Why its adapter must not be pointed at the sidecar, as a sentence without a full stop; "" where it may be."""
    other = variables.get(PROXY)
    if other and not is_ours(variables):
        return f"{PROXY} points at something else"
    number = next((int(found[1]) for found in map(LAYER.search, layers) if found), None)
    if number is None:
        return f"the version of its Lambda Web Adapter is not known ({docs_link.command('web-adapter#by-hand')})"
    if number < FIRST or number in REGISTERS_THERE:
        why = "is too old to be measured so" if number < FIRST else "would fail in init, by a fault of its own"
        return f"its Lambda Web Adapter, layer version {number}, {why}. Version {REPAIRED} or newer can"
    return ""


def is_ours(variables: Mapping[str, str | None]) -> bool:
    """Is the adapter pointed at the sidecar's port?"""
    port = variables.get(PORT)
    return bool(port) and (variables.get(PROXY) or "").removeprefix("http://") == f"127.0.0.1:{port}"


def pointed(port: str | None) -> dict[str, str | None]:
    """The variables that point the adapter at the sidecar: at this port, None for the usual one."""
    return {PORT: port or USUAL_PORT, PROXY: f"127.0.0.1:{port or USUAL_PORT}"}


def freed(variables: Mapping[str, str | None]) -> dict[str, str | None]:
    """The variables that are to go so that the adapter asks Lambda itself; none where it does."""
    return {PORT: None, PROXY: None} if is_ours(variables) else {}
