"""Invokes a probe function, and keeps its answers with the REPORT line of each."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mypy_boto3_lambda import LambdaClient

MIB = 200
"""Moved through the page cache at a time: far above what the function itself holds."""

QUESTIONS: tuple[dict[str, Any], ...] = (
    {"do": "environment"},
    {"do": "nothing"},
    {"do": "code", "mib": MIB},
    {"do": "nothing"},
    {"do": "write", "mib": MIB},
    {"do": "read", "mib": MIB},
)
"""In this order, one after the other: one environment, whose mark never falls."""

MARK = re.compile(r"REPORT RequestId: (\S+).*?Max Memory Used: (\d+) MB", re.DOTALL)
SIDECAR = re.compile(r"truemem INFO method=.*")


class ProbeFailed(Exception):
    """The function raised, or could not be run: what it said."""


def ask(client: LambdaClient, function: str, say: Callable[[str], None]) -> dict[str, Any]:
    """All questions to one function: `{"answers": [...], "sidecar": line or absent}`. Raises ProbeFailed."""
    answers: list[dict[str, Any]] = []
    sidecar: str | None = None
    for question in QUESTIONS:
        say(f"{function}: {json.dumps(question)}")
        result = client.invoke(FunctionName=function, Payload=json.dumps(question).encode(), LogType="Tail")
        payload = json.loads(result["Payload"].read())
        tail = base64.b64decode(result.get("LogResult", "")).decode(errors="replace")
        if "FunctionError" in result:
            raise ProbeFailed(f"{function} failed at {question}: {payload.get('errorMessage', payload)}")
        mark = _mark(tail, payload["requestId"])
        answers.append({**payload, **({"maxMemoryUsedMiB": mark} if mark else {})})
        said = SIDECAR.search(tail)
        sidecar = sidecar or (said[0].strip() if said else None)
    return {"answers": answers, **({"sidecar": sidecar} if sidecar else {})}


def _mark(tail: str, request_id: str) -> int | None:
    """Max Memory Used, MB as in REPORT; None where the tail lacks the line."""
    return next((int(mark) for found, mark in MARK.findall(tail) if found == request_id), None)
