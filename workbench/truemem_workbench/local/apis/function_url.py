"""A Function URL: each HTTP request is an event in payload format 2.0, and the function's answer an HTTP response.

The format is AWS's ("Invoking Lambda function URLs" in Lambda's guide). Where the guide is silent or differs, this does
what was recorded of the service: the path stays percent-encoded, cookies are also a header, a string is answered
without its quotes, other JSON without spaces, what is no JSON as it is, and a function error is a 502.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import parse_qsl, unquote

from aiohttp import web
from multidict import CIMultiDict

from ...support.untrusted_text import loads
from ..configuration.settings import Settings, function_arn
from ..errors import ApiRefusal, Throttled, WaitFailed, too_large
from ..lifecycle.invocation import PendingInvocation, Response
from .http import LOOPBACK, read
from .invoke_api import CALLERS_LIMIT, Submit, fault, throttled

AWS_API = r"2015-03-31/|\d{4}-\d\d-\d\d/functions/"
"""Paths of Lambda's own API. What the local Lambda does not have of it stays a 404."""
URL_ID = "local"
TEXT = re.compile(r"text/|application/([\w.-]+\+)?(json|xml|javascript)\b")
"""Content types whose body stays text in the event. Any other is base64 there, also a form, or what has no type."""
OF_CONNECTION = {"connection", "keep-alive", "te", "transfer-encoding", "upgrade"}
REMAPPED_HEADERS = {*OF_CONNECTION, "content-length", "date", "server"}
"""Headers that a function cannot set: the caller gets them under another name."""
TOKEN = re.compile(r"[!#$%&'*+.^`|~\w-]+", re.ASCII)
UNSAFE = re.compile("[\0-\x08\x0a-\x1f\x7f\ud800-\udfff]")
STREAMED_CONTENT = "application/vnd.awslambda.http-integration-response"
"""Content type of an answer that is streamed: a JSON of status and headers, eight zero bytes, the body."""


@dataclass(frozen=True, kw_only=True)
class HttpRequest:
    method: str
    target: str
    """Path and query as they were sent, percent-encoded."""
    headers: Iterable[tuple[str, str]] = ()
    body: bytes = b""
    source_ip: str = "127.0.0.1"
    time_s: float = field(default_factory=time.time)
    """Epoch seconds."""

    def event(self, request_id: str, trace: str) -> dict[str, Any]:
        """The event for the function."""
        path, _, query = self.target.partition("?")
        sent = [(name.lower(), value) for name, value in self.headers if name.lower() not in OF_CONNECTION]
        cookies = [each.strip() for name, value in sent if name == "cookie" for each in value.split(";")]
        headers = _joined(sent) | ({"cookie": "; ".join(cookies)} if cookies else {})
        host = headers.get("host", "")
        body, is_base64 = _event_body(self.body, headers.get("content-type", ""))
        event = {
            "version": "2.0",
            "routeKey": "$default",
            "rawPath": path,
            "rawQueryString": query,
            "cookies": cookies,
            "headers": headers
            | {
                "x-amzn-trace-id": trace.partition(";")[0],
                "x-forwarded-for": self.source_ip,
                "x-forwarded-port": host.rpartition(":")[2],
                "x-forwarded-proto": "http",
            },
            "queryStringParameters": _joined(parse_qsl(query, keep_blank_values=True)),
            "requestContext": {
                "accountId": "anonymous",
                "apiId": URL_ID,
                "domainName": host,
                "domainPrefix": URL_ID,
                "http": {
                    "method": self.method,
                    "path": unquote(path),
                    "protocol": "HTTP/1.1",
                    "sourceIp": self.source_ip,
                    "userAgent": headers.get("user-agent", ""),
                },
                "requestId": request_id,
                "routeKey": "$default",
                "stage": "$default",
                "time": time.strftime("%d/%b/%Y:%H:%M:%S +0000", time.gmtime(self.time_s)),
                "timeEpoch": int(self.time_s * 1000),
            },
            "body": body,
            "isBase64Encoded": is_base64,
        }
        absent = [name for name in ("cookies", "queryStringParameters", "body") if not event[name]]
        return {name: value for name, value in event.items() if name not in absent}


@dataclass(frozen=True)
class HttpResponse:
    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: {"content-type": "application/json"})
    """Headers by name, in lower case."""
    cookies: tuple[str, ...] = ()
    """Values of `set-cookie`."""


BROKEN = HttpResponse(b"Internal Server Error", 502)


def http_response(answer: Response) -> HttpResponse:
    """What the caller gets for the function's answer."""
    if answer.function_error is not None:
        return BROKEN
    head, body = answer.payload, None
    if answer.content_type == STREAMED_CONTENT:
        head, _, body = answer.payload.partition(b"\0" * 8)
    try:
        parsed = loads(head)
    except ValueError:
        return HttpResponse(answer.payload)
    if not isinstance(parsed, dict) or "statusCode" not in parsed:
        return HttpResponse(_text(parsed)) if body is None else HttpResponse(body)
    try:
        return HttpResponse(
            _body(parsed) if body is None else body,
            _status(parsed["statusCode"]),
            {"content-type": "application/json"}
            | dict(_header(*each) for each in (parsed.get("headers") or {}).items()),
            tuple(_header("set-cookie", cookie)[1] for cookie in parsed.get("cookies") or ()),
        )
    except (ValueError, TypeError, AttributeError):
        return BROKEN


def _joined(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Values by name. Those of one name are joined by commas."""
    values: dict[str, str] = {}
    for name, value in pairs:
        values[name] = f"{values[name]},{value}" if name in values else value
    return values


def _event_body(body: bytes, content_type: str) -> tuple[str, bool]:
    """The body for the event, and whether it is base64."""
    if TEXT.match(content_type.strip().lower()):
        try:
            return body.decode(), False
        except UnicodeDecodeError:
            pass
    return base64.b64encode(body).decode(), bool(body)


def _status(status: object) -> int:
    """Raises ValueError."""
    if isinstance(status, bool) or not isinstance(status, int | str) or not 200 <= int(status) <= 599:
        raise ValueError(f"{status!r} is no status of an answer")
    return int(status)


def _header(name: str, value: object) -> tuple[str, str]:
    """Raises ValueError."""
    text = value if isinstance(value, str) else _text(value).decode()
    if isinstance(value, dict | list) or not TOKEN.fullmatch(name) or UNSAFE.search(text):
        raise ValueError(f"{name}: {text!r} is no header")
    lower = name.lower()
    return (f"x-amzn-remapped-{lower}" if lower in REMAPPED_HEADERS else lower), text


def _body(parsed: dict[str, Any]) -> bytes:
    """Raises ValueError for what is no base64."""
    body = parsed.get("body")
    if body is None:
        return b""
    return base64.b64decode(_text(body), validate=True) if parsed.get("isBase64Encoded") else _text(body)


def _text(value: object) -> bytes:
    text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return text.encode(errors="replace")


class FunctionUrl:
    """Serves every path but those of Lambda's own API."""

    def __init__(self, settings: Settings, submit: Submit) -> None:
        self._settings = settings
        self._submit = submit

    def routes(self) -> list[web.RouteDef]:
        return [web.route("*", f"/{{path:(?!{AWS_API}).*}}", self.invoke)]

    async def invoke(self, request: web.Request) -> web.Response:
        pending = PendingInvocation(b"", function_arn(self._settings.name))
        pending.trace = request.headers.get("X-Amzn-Trace-Id", pending.trace)
        try:
            pending.payload = await self._payload(request, pending)
            self._submit(pending)
            response = http_response(await asyncio.shield(pending.answer))
        except ApiRefusal as error:
            return fault(error.status, "RequestTooLargeException", error.message)
        except Throttled as reason:
            return throttled(reason)
        except WaitFailed:
            response = replace(BROKEN, status=500)
        headers = CIMultiDict(response.headers)
        for cookie in response.cookies:
            headers.add("set-cookie", cookie)
        headers["x-amzn-RequestId"] = pending.request_id
        headers["X-Amzn-Trace-Id"] = pending.trace
        return web.Response(body=response.body, status=response.status, headers=headers)

    @staticmethod
    async def _payload(request: web.Request, pending: PendingInvocation) -> bytes:
        """The event as JSON. Raises ApiRefusal."""
        sent = HttpRequest(
            method=request.method,
            target=request.raw_path,
            headers=[
                (name.decode(errors="replace"), value.decode(errors="replace")) for name, value in request.raw_headers
            ],
            body=await read(request, CALLERS_LIMIT),
            source_ip=request.remote or LOOPBACK,
        )
        payload = _text(sent.event(pending.request_id, pending.trace))
        if len(payload) > CALLERS_LIMIT:
            raise too_large(CALLERS_LIMIT)
        return payload
