"""Lambda's Invoke API, `POST /2015-03-31/functions/NAME/invocations`, for boto3, the aws CLI and curl."""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
from typing import Protocol
from urllib.parse import unquote

from aiohttp import web

from ...support.bad_input import BadInput
from ...support.untrusted_text import loads
from ..configuration.settings import FUNCTION_VERSION, Settings, function_arn
from ..errors import ApiRefusal, Throttled, WaitFailed
from ..lifecycle.invocation import PendingInvocation
from .http import read, reply

# NAME, ACCOUNT:function:NAME or a whole ARN; each with or without a qualifier.
FUNCTION_REFERENCE = re.compile(
    r"(?:(?:arn:aws[\w-]*:lambda:[\w-]+:)?\d{12}:function:)?([\w-]+)(?::(\$LATEST|[\w-]+))?"
)
EMULATOR_NAME = "function"  # the name of every function in AWS's emulator. It works here too.
LOG_TAIL = 4096
CALLERS_LIMIT = 6 * 1024 * 1024


class Submit(Protocol):
    def __call__(self, pending: PendingInvocation, *, may_wait: bool = False) -> None:
        """Give a request to an environment. Raises Throttled; with `may_wait` the request waits instead."""


class InvokeApi:
    def __init__(self, settings: Settings, submit: Submit) -> None:
        self._settings = settings
        self._submit = submit

    def routes(self) -> list[web.RouteDef]:
        return [web.post("/2015-03-31/functions/{name}/invocations", self.invoke)]

    async def invoke(self, request: web.Request) -> web.Response:
        qualifier = self._find(request)
        if isinstance(qualifier, web.Response):
            return qualifier
        try:
            payload = await read(request, CALLERS_LIMIT)
        except ApiRefusal as error:
            return fault(error.status, "RequestTooLargeException", error.message)
        try:
            loads(payload or b"{}")
            context = _client_context(request)
            tenant = request.headers.get("X-Amz-Tenant-Id")
            self._settings.check_tenant(tenant)
        except BadInput as error:
            return fault(400, "InvalidParameterValueException", str(error))
        except ValueError as error:
            return fault(400, "InvalidRequestContentException", f"Could not parse request body into json: {error}")
        pending = PendingInvocation(
            payload or b"{}",
            function_arn(self._settings.name, qualifier),
            client_context=context,
            tenant_id=tenant,
        )
        if trace := request.headers.get("X-Amzn-Trace-Id"):
            pending.trace = trace
        match request.headers.get("X-Amz-Invocation-Type", "RequestResponse"):
            case "DryRun":
                return web.Response(status=204, headers=_headers(pending))
            case "Event":
                self._submit(pending, may_wait=True)
                return web.Response(status=202, headers=_headers(pending))
            case "RequestResponse":
                return await self._answer(pending, tail=request.headers.get("X-Amz-Log-Type") == "Tail")
            case other:
                return fault(400, "InvalidParameterValueException", f"{other} is no invocation type")

    def _find(self, request: web.Request) -> str | web.Response | None:
        """Return the qualifier of the request, or a 404 if it names another function."""
        name = unquote(request.match_info["name"])
        found = FUNCTION_REFERENCE.fullmatch(name)
        qualifier = request.query.get("Qualifier") or (found and found[2])
        own = self._settings.name
        if found is None or found[1] not in (own, EMULATOR_NAME) or qualifier not in (None, FUNCTION_VERSION):
            missing = function_arn(found[1] if found else name, qualifier)
            fix = f"The local Lambda serves one function. Try FunctionName={own}"
            return fault(404, "ResourceNotFoundException", f"Function not found: {missing}. {fix}")
        return qualifier

    async def _answer(self, pending: PendingInvocation, *, tail: bool) -> web.Response:
        try:
            self._submit(pending)
            answer = await asyncio.shield(pending.answer)
            if tail:
                await asyncio.wait([pending.report])  # the tail has the REPORT line: it must be written first
        except Throttled as reason:
            return throttled(reason)
        except WaitFailed as failed:
            return fault(500, "ServiceException", failed.failure.message)
        headers = _headers(pending) | {
            "Content-Type": answer.content_type,
            "X-Amz-Executed-Version": FUNCTION_VERSION,
        }
        if answer.function_error:
            headers["X-Amz-Function-Error"] = answer.function_error
        if tail:
            log = "\n".join(pending.log).encode()[-LOG_TAIL:]
            headers["X-Amz-Log-Result"] = base64.b64encode(log).decode()
        return web.Response(body=answer.payload, headers=headers)


def fault(status: int, error_type: str, message: str, **members: str) -> web.Response:
    """Make an error answer as AWS does: boto3 chooses the exception by the type in the header."""
    return reply({"Type": "User", "Message": message, **members}, status, {"x-amzn-ErrorType": error_type})


def throttled(reason: Throttled) -> web.Response:
    return fault(429, "TooManyRequestsException", "Rate Exceeded.", Reason=str(reason))


def _headers(pending: PendingInvocation) -> dict[str, str]:
    return {"x-amzn-RequestId": pending.request_id}


def _client_context(request: web.Request) -> str | None:
    """Decode X-Amz-Client-Context, base64 of JSON. Raises ValueError."""
    encoded = request.headers.get("X-Amz-Client-Context")
    if not encoded:
        return None
    try:
        return base64.b64decode(encoded, validate=True).decode()
    except binascii.Error as error:
        raise ValueError(f"client context: {error}") from None
