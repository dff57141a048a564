"""The sidecar's lines as it would write them, for logs of our own making."""

import json
import time
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any

BEGIN_MS = 1_795_288_667_424
MINUTE_MS = 60_000


def line_now(environment: str = "a", invocation: int = 1, *, ago_s: float = 0, **members: Any) -> str:
    """A line of an invocation that began just now, or so many seconds ago."""
    at = int((time.time() - ago_s) * 1000)
    return line(
        environment, invocation, _aws={"Timestamp": at, "CloudWatchMetrics": [{"Namespace": "truemem"}]}, **members
    )


def line(environment: str = "a", invocation: int = 1, **members: Any) -> str:
    """One line. Sizes in MiB; a member that is None is left out."""
    peak = members.setdefault("PeakRSS", 100.0)
    made = {
        "_aws": {"Timestamp": BEGIN_MS + invocation * 1000, "CloudWatchMetrics": [{"Namespace": "truemem"}]},
        "FunctionName": "orders",
        "CurrentRSS": 90.0,
        "MaxMemoryUsed": 200,
        "requestId": request(environment, invocation),
        "environmentId": f"2026/11/21/[$LATEST]{environment}",
        "invocation": invocation,
        "functionVersion": "$LATEST",
        "status": "success",
        "durationMs": 99.5,
        "method": "vmhwm",
        "peakLower": peak,
        "peakUpper": peak,
        "closedBy": "next-invoke",
        "baselineRSS": 90.0,
        "memoryLimit": 1024,
        "holders": {"function": 90.0, "truemem": 5.0},
        "level": "INFO",
        "schema": 1,
        **members,
    }
    return json.dumps({name: value for name, value in made.items() if value is not None}, separators=(",", ":"))


def request(environment: str = "a", invocation: int = 1) -> str:
    """The request id that `line` gives it."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{environment} {invocation}"))


def life(environment: str = "a", invocations: int = 200, grows: float = 0.0, **members: Any) -> list[str]:
    """An environment's lines; what it holds grows by `grows` MiB with each invocation, under a pinch of noise."""
    lines = []
    for number in range(1, invocations + 1):
        held = 90 + grows * number + (number * 7 % 5) / 256
        sizes = {"CurrentRSS": round(held, 2), "PeakRSS": round(held + 10, 2), "baselineRSS": round(held - grows, 2)}
        lines.append(line(environment, number, **(sizes | members)))
    return lines


def extended(invocations: int, **members: Any) -> list[str]:
    """A level function beside an extension that grows by 1 MiB in each invocation."""
    return [
        line("a", n, holders={"function": 90.0, "truemem": 5.0, "extensions": {"agent": 20.0 + n}}, memoryLimit=512,
             **(members if n == invocations else {}))
        for n in range(1, invocations + 1)
    ]  # fmt: skip


def log(folder: Path, lines: Iterable[str], name: str = "log.txt") -> Path:
    path = folder / name
    path.write_text("".join(f"{each}\n" for each in lines), encoding="utf-8")
    return path
