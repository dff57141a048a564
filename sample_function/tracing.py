"""X-Ray, only if asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

Handler = TypeVar("Handler", bound=Callable[..., object])


def traced(handler: Handler, *, service: str, enabled: bool) -> Handler:
    """`handler` with a segment for each invocation and a subsegment for each call to S3; or just `handler`.

    A switch of our own, off by default. Powertools' own, POWERTOOLS_TRACE_DISABLED, is on by default in Lambda, and
    even a Tracer that is disabled imports `aws_xray_sdk` to tell it so: memory and cold-start time for nothing.
    Here nothing of it is imported unless TRACER_ENABLED is true. POWERTOOLS_TRACE_DISABLED still wins over it, and
    outside Lambda (no LAMBDA_TASK_ROOT) Powertools traces nothing at all.
    """
    if not enabled:
        return handler
    from aws_lambda_powertools import Tracer

    # only botocore: the default is to try each of the libraries that the SDK knows
    tracer = Tracer(service=service, patch_modules=("botocore",))
    # the answer may be large, and says nothing that the log does not
    return cast(Handler, tracer.capture_lambda_handler(handler, capture_response=False))
