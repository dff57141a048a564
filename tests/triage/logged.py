"""What Lambda logs of an environment's invocations, with the truth that is planted in it."""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple

BEGIN_MS = 1_795_288_667_424
OUT_OF_MEMORY = "Status: error\tError Type: Runtime.OutOfMemory"
TIMEOUT = "Status: timeout"


class Logged(NamedTuple):
    """A line of a stream."""

    time_ms: int
    stream: str
    text: str


def report(
    mark: float, size: int = 512, *, init: bool = False, status: str = "", duration: float = 20.0, request: str = ""
) -> str:
    """A REPORT line in the text format."""
    parts = [
        f"REPORT RequestId: {request or uuid.uuid4()}",
        f"Duration: {duration:.2f} ms",
        f"Billed Duration: {int(duration) + 1} ms",
        f"Memory Size: {size} MB",
        f"Max Memory Used: {int(mark)} MB",
        *(["Init Duration: 250.10 ms"] if init else []),
        *([status] if status else []),
    ]
    return "\t".join(parts)


def stream_of(name: str, version: str = "$LATEST") -> str:
    return f"2026/11/21/[{version}]{uuid.uuid5(uuid.NAMESPACE_OID, name).hex}"


def life(
    peaks: Iterable[float], name: str = "a", size: int = 512, *, begin_ms: int = BEGIN_MS, slower: float = 0.0
) -> Iterator[Logged]:
    """An environment whose invocations have these peaks, MB: what it logs until one needs more than there is. Each
    takes `slower` ms more than the one before."""
    mark = 0.0
    for number, peak in enumerate(peaks):
        killed = peak > size
        mark = max(mark, min(peak, size))
        status = OUT_OF_MEMORY if killed else ""
        text = report(mark, size, init=number == 0, status=status, duration=20 + slower * number)
        yield Logged(begin_ms + 500 * number, stream_of(name), text)
        if killed:
            return


def flat(count: int, level: float = 100.0) -> list[float]:
    return [level] * count


def noisy(count: int, seed: int, level: float = 100.0, grows: float = 0.0) -> list[float]:
    """Peaks with a long tail, which grow by `grows` MB in each invocation."""
    drawn = random.Random(seed)
    return [level + drawn.lognormvariate(1, 1) + grows * number for number in range(count)]


def iso(each: Logged) -> str:
    return datetime.fromtimestamp(each.time_ms / 1000, UTC).isoformat()


def platform(each: Logged) -> dict[str, Any]:
    """The same in Lambda's JSON format."""
    told = dict(part.split(": ", 1) for part in each.text.removeprefix("REPORT ").split("\t"))
    metrics = {
        "durationMs": float(told["Duration"].removesuffix(" ms")),
        "billedDurationMs": int(told["Billed Duration"].removesuffix(" ms")),
        "memorySizeMB": int(told["Memory Size"].removesuffix(" MB")),
        "maxMemoryUsedMB": int(told["Max Memory Used"].removesuffix(" MB")),
        **({"initDurationMs": 250.1} if "Init Duration" in told else {}),
    }
    record = {"requestId": told["RequestId"], "metrics": metrics, "status": told.get("Status", "success")}
    if "Error Type" in told:
        record["errorType"] = told["Error Type"]
    return {"time": iso(each), "type": "platform.report", "record": record}


def tail(lines: Iterable[Logged]) -> str:
    """As `aws logs tail` prints them."""
    made = sorted(lines)
    return "".join(f"{iso(each)} {each.stream} {each.text}\n" for each in made)
