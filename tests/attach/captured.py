"""Lines as they would be in a log group: from real runs under the local Lambda, now or once (`captured.txt`).

`python -m tests.attach.captured` makes the file anew: one block of lines for each of RUNS.
"""

import contextlib
import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import requests

from testing.environment import Environment
from tests.attach.insights import LogEvent

FILE = Path(__file__).with_name("captured.txt")
LATE = Path(__file__).parent / "functions" / "late.py"
HOARDER = Path(__file__).parents[1] / "scenarios" / "extensions" / "plain.py"
VENDOR = "vendor-agent"
"""Another extension: the one that docs/queries.md has in its example, hyphen and all."""


class Run(NamedTuple):
    """The life of one execution environment."""

    settings: Mapping[str, Any]
    events: Sequence[Mapping[str, Any]]


RUNS = {
    "drift": Run({}, [{"do": "keep", "mib": 1, "ms": 5}] * 40),
    "leak": Run({"function": LATE}, [{"mib": 8, "keep": True}] * 8),
    "spike": Run({"function": LATE}, [{}, {"mib": 300}, *[{}] * 5]),
    "near the limit": Run({"memory_mib": 256}, [{"mib": 5, "ms": 20}, {"mib": 205, "ms": 40}, {"mib": 5, "ms": 20}]),
    "vendor": Run({"extension": VENDOR}, [{"mib": 10, "ms": 20}] * 3),
    "out of memory": Run({"memory_mib": 256}, [{"mib": 5, "ms": 20}, {"mib": 600, "ms": 20}, {"mib": 5, "ms": 20}]),
    "child killed": Run({"memory_mib": 128}, [{"do": "hog", "mib": 400, "ms": 60}, {"mib": 5, "ms": 20}]),
    "timeout": Run({"timeout_s": 1}, [{"mib": 5, "ms": 20}, {"mib": 60, "ms": 5000}]),
    "crash": Run({}, [{"mib": 5, "ms": 20}, {"do": "crash", "mib": 40, "ms": 60}, {"mib": 5, "ms": 20}]),
    "child": Run({}, [{"do": "child", "mib": 30, "ms": 60}, {"mib": 5, "ms": 20}]),
    "race": Run({"release": "together"}, [{"do": "spike", "mib": 20, "ms": 1}] * 10),
    "exact": Run({"exact": True}, [{"mib": 5, "ms": 5}] * 4),
    "garbage": Run({"garbage": True, "freeze": "off"}, [{"ms": 20}] * 3),
    "hot": Run({"truemem": {"TRUEMEM_AGGREGATE": "60"}}, [{"mib": 60 if n == 70 else 1, "ms": 1} for n in range(130)]),
    "no telemetry": Run({"telemetry": 202}, [{"mib": 5, "ms": 20}] * 2),
}


NOISY = ("vendor", "out of memory", "timeout", "crash")
"""Runs of which the platform's lines about each invocation are kept: queries have to pass over them, or find them."""
PLATFORM = re.compile("(START|END|REPORT) ")


def live(run: Run) -> list[LogEvent]:
    """Do the run now: the whole log of its environment, the sidecar's lines and everybody else's."""
    settings = dict(run.settings)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)  # the local Lambda's processes are another user's
        extensions = []
        if name := settings.pop("extension", None):
            extension = Path(folder) / name
            extension.write_text(HOARDER.read_text())
            extension.chmod(0o755)
            extensions.append(extension)
        garbage = settings.pop("garbage", False)
        environ = {"TRUEMEM_LOG_LEVEL": "info", "TRUEMEM_DETAIL": "auto", **settings.pop("truemem", {})}
        with Environment(extensions=extensions, environment=environ, **settings) as environment:
            for event in run.events:
                environment.attempt(**event)
                if garbage:
                    _send_garbage(environment)
            environment.local.stop()
            begun = next(made for made in environment.local.events if made["type"] == "platform.initStart")
            return [
                LogEvent(round(line.time * 1000), begun["record"]["instanceId"], line.text)
                for line in environment.local.logs
            ]


def _send_garbage(environment: Environment) -> None:
    """To the sidecar's listener, which counts it as lost."""
    port = environment.telemetry_port()
    with contextlib.suppress(requests.RequestException):  # it may hang up on us
        requests.post(f"http://127.0.0.1:{port}/", data=b"not JSON!", timeout=5)


def stored() -> dict[str, list[LogEvent]]:
    """The lines of the file, by the name of the run."""
    runs: dict[str, list[LogEvent]] = {}
    for line in FILE.read_text().rstrip("\n").split("\n"):
        if line.startswith("=== "):
            runs[line[4:]] = lines = []
        else:
            time_ms, stream, message = line.split("\t", 2)
            lines.append(LogEvent(int(time_ms), stream, message.replace("\r", "\n")))
    return runs


def main() -> None:
    parts = []
    for name, run in RUNS.items():
        parts.append(f"=== {name}\n")
        log = live(run)
        while name == "race" and not any('"raced":true' in event.message for event in log):
            log = live(run)  # losing a race is a matter of luck
        for event in log:
            if name not in NOISY and PLATFORM.match(event.message):
                continue
            message = event.message.replace("\n", "\r")  # an event of several lines
            parts.append(f"{event.time_ms}\t{event.stream}\t{message}\n")
    FILE.write_text("".join(parts))
    print(f"{FILE}: {len(parts)} lines")


if __name__ == "__main__":
    main()
