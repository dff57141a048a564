"""The log files of a fleet with everything that a report tells apart: for engines that must say the same of them."""

import gzip
import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from truemem_workbench.judge.drift import Point

from testing import fleets
from tests.attach.captured import stored
from tests.report.forms import FORMS, MESSAGES
from tests.report.profiled import growth_line, with_profile
from tests.report.written import life, line, request

QUIET = ("cache", "one step", "exponential", "arenas", "model swap")
"""Kinds of fleets without a leak (`testing.fleets`)."""


def write(folder: Path) -> list[Path]:
    """The files: plain, gzipped, wrapped, exported, each with lines of several environments."""
    lines = [*captured(), *quiet(), *leaking(), *uncollected(), *odd()]
    quarters = [lines[at::4] for at in range(4)]  # each environment is in all of them
    files = [written(folder / "plain.log", quarters[0]), written(folder / "of-[$LATEST], more.log", quarters[1])]
    files.append(folder / "packed.log.gz")
    files[-1].write_bytes(gzip.compress(joined(quarters[2])))
    files.append(
        written(folder / "docker.log", (json.dumps({"log": each, "stream": "stdout"}) for each in quarters[3]))
    )
    for name in ("sam logs", "console, CSV", "Insights, JSON", "Firehose", "Loki"):
        files.append(folder / f"{name}.export")
        files[-1].write_bytes(FORMS[name](MESSAGES))
    return files


def captured() -> Iterator[str]:
    """Lines of real runs: out of memory, timeouts, crashes, shared lines, resources, another extension."""
    yield from (event.message.rstrip("\n") for log in stored().values() for event in log)


def quiet() -> Iterator[str]:
    for kind in QUIET:
        yield from points(fleets.quiet(kind, 1)[:4], f"q-{kind}", kind.replace(" ", "-"))


def leaking() -> Iterator[str]:
    """A leak that no environment shows alone, and one that each does, whose line of code is named."""
    yield from points(fleets.leaking(2, 1, environments=30), "small", "leaks-together")
    yield from with_profile(life("alone", 300, grows=0.5, FunctionName="leaks-alone"), growth_line(500.0))


def uncollected() -> Iterator[str]:
    """A heap of Java that grows because nothing was collected, on lines without metadata."""
    for number in range(1, 301):
        heap = {"runtime": "java", "used": 10 + number / 2, "committed": 300, "limit": 435, "collections": 0}
        sizes = {"CurrentRSS": 60 + number / 2, "PeakRSS": 65 + number / 2, "processes": 1, "memoryLimit": 512}
        members = json.loads(line("lazy", number, FunctionName="uncollected", heap=heap, **sizes))
        time_ms = members.pop("_aws")["Timestamp"]
        yield json.dumps({**members, "timestamp": datetime.fromtimestamp(time_ms / 1000, UTC).isoformat()})


def overlapping() -> Iterator[str]:
    """A heap of Java that keeps more on Managed Instances, where some requests end after those that began later."""
    for number in range(1, 401):
        ended = number + 3 * (number % 10 == 0)
        collected = {"live": 50 + ended / 2, "used": 60 + ended / 2, "collections": ended // 4, "gcMs": ended * 2.0}
        sizes = {"CurrentRSS": 200 + ended / 2, "PeakRSS": 205 + ended / 2, "processes": 1, "memoryLimit": 2048}
        heap = {"runtime": "java", "committed": 600, "limit": 700, **collected}
        yield line("shared", number, FunctionName="overlapping", sharedBy=4, heap=heap, **sizes)


def odd() -> Iterator[str]:
    """Repeated, cut off, newer, and what the function itself said: of its own requests, and of others."""
    yield from [line("alone", 7, FunctionName="leaks-alone", mayRepeat=True)] * 2
    yield line("alone", 8, FunctionName="leaks-alone")[:-200]
    yield line("alone", 9, FunctionName="leaks-alone", schema=99)
    for number in range(1, 301):
        said = {"level": "INFO", "message": "scored", "model_id": f"model-{number % 3}"}
        yield json.dumps({**said, "function_request_id": request("alone", number)})
    yield json.dumps({"model_id": "no request"})
    yield json.dumps({"model_id": "elsewhere", "requestId": request("another", 1)})


def points(fleet: Sequence[Sequence[Point]], name: str, function: str) -> Iterator[str]:
    for number, environment in enumerate(fleet):
        for point in environment:
            held = round(point.current_kib / 1024, 2)
            sizes = {"CurrentRSS": held, "PeakRSS": round(held + 5, 2), "baselineRSS": held}
            yield line(f"{name}-{number}", point.invocation, FunctionName=function, **sizes)


def written(path: Path, lines: Iterable[str]) -> Path:
    path.write_bytes(joined(lines))
    return path


def joined(lines: Iterable[str]) -> bytes:
    return "".join(f"{each}\n" for each in lines).encode()
