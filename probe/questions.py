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
"""Size of the files that are read or written at a time: far above what the function itself holds."""

QUESTIONS: tuple[dict[str, Any], ...] = (
    {"do": "environment"},
    {"do": "nothing"},
    {"do": "code", "mib": MIB},
    {"do": "nothing"},
    {"do": "write", "mib": MIB},
    {"do": "read", "mib": MIB},
)
"""The questions in their order. They need one environment, because its mark never falls."""

MARK = re.compile(r"REPORT RequestId: (\S+).*?Max Memory Used: (\d+) MB", re.DOTALL)
SIDECAR = re.compile(r"truemem INFO method=.*")


class ProbeFailed(Exception):
    """The function failed. The message is what it said."""


def ask(client: LambdaClient, function: str, say: Callable[[str], None]) -> dict[str, Any]:
    """Ask one function all questions. Returns `{"answers": [...], "sidecar": line or absent}`. Raises ProbeFailed."""
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
    """Max Memory Used in MB as in REPORT. None if the log tail has no such line."""
    return next((int(mark) for found, mark in MARK.findall(tail) if found == request_id), None)
