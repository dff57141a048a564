"""One invocation: what the caller sent, and what the caller will get."""

from __future__ import annotations

import asyncio
import json
import os
import time
import uuid
from dataclasses import dataclass, field
from typing import Literal

from ..errors import Failure, WaitFailed
from .events import Moments, Report, compact

MAX_PAYLOAD = 6 * 1024 * 1024 + 100  # limit of event and response, in bytes each (RIE: 6 MiB + 100 B)


@dataclass(frozen=True)
class Response:
    payload: bytes
    function_error: Literal["Unhandled"] | None = None
    content_type: str = "application/json"


def _trace() -> str:
    root = f"1-{int(time.time()):08x}-{os.urandom(12).hex()}"
    return f"Root={root};Parent={os.urandom(8).hex()};Sampled=0"


@dataclass
class PendingInvocation:
    """An invocation from its arrival to its report. Use it only in the event loop."""

    payload: bytes
    arn: str
    client_context: str | None = None
    tenant_id: str | None = None
    trace: str = field(default_factory=_trace)
    request_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    attempt_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    """Value of `Lambda-Runtime-Invocation-Id`, which a runtime may send back with its response."""
    deadline_ms: int = 0
    """Deadline in epoch milliseconds; 0 until the invocation starts."""
    moments: Moments = field(default_factory=lambda: Moments(time.perf_counter()))
    answer: asyncio.Future[Response] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    report: asyncio.Future[Report] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    log: list[str] = field(default_factory=list)
    """Lines of this invocation, for X-Amz-Log-Result."""
    environment: str = ""
    """Id of the environment; empty until it has one."""
    is_cold: bool = False
    """True if it waits for an init."""

    def reply(self, answer: Response) -> None:
        """Set the answer. Only the first one counts."""
        if not self.answer.done():
            self.answer.set_result(answer)

    def refuse(self, failure: Failure) -> None:
        """Refuse an invocation that will not be served: it gets no answer and no report."""
        for future in (self.answer, self.report):
            if not future.done():
                future.set_exception(WaitFailed(failure))
                future.exception()  # often nothing waits for the second one: no warning about that

    def tracing(self) -> dict[str, str]:
        """The `tracing` of this invocation's events, without `spanId`."""
        return {"type": "X-Amzn-Trace-Id", "value": self.trace}

    def tenant(self) -> dict[str, str]:
        """The tenant for this invocation's events. INVOKE, which extensions get, has none."""
        return {"tenantId": self.tenant_id} if self.tenant_id else {}

    def extension_event(self) -> bytes:
        """INVOKE as extensions get it, without the payload."""
        event = {
            "eventType": "INVOKE",
            "deadlineMs": self.deadline_ms,
            "requestId": self.request_id,
            "invokedFunctionArn": self.arn,
            "tracing": self.tracing(),
        }
        return compact(event)

    def runtime_headers(self) -> dict[str, str]:
        headers = {
            "Content-Type": "application/json",
            "Lambda-Runtime-Aws-Request-Id": self.request_id,
            "Lambda-Runtime-Deadline-Ms": str(self.deadline_ms),
            "Lambda-Runtime-Invoked-Function-Arn": self.arn,
            "Lambda-Runtime-Trace-Id": self.trace,
            "Lambda-Runtime-Invocation-Id": self.attempt_id,
        }
        if self.client_context:
            headers["Lambda-Runtime-Client-Context"] = self.client_context
        if self.tenant_id:
            headers["Lambda-Runtime-Aws-Tenant-Id"] = self.tenant_id
        return headers


def error_answer(request_id: str, failure: Failure) -> Response:
    """The caller's answer if the runtime itself gave none."""
    if failure.payload is not None:
        return Response(failure.payload, "Unhandled")
    body = {
        "errorType": failure.error_type,
        "errorMessage": f"RequestId: {request_id} Error: {failure.message}",
    }
    return Response(json.dumps(body).encode(), "Unhandled")
