"""`--load FILE`: the user's own scenario calls the function over HTTP, as a Locust file or a k6 script.

The real tool runs it, as a process of its own: Locust replaces Python's sockets and threads (gevent), and that must not
happen in a process that measures.
"""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any

from ..local.scaling import Answer
from ..support.bad_input import BadInput, need
from ..support.untrusted_text import loads, read_text
from .driver import Arrival

TAIL_LINES = 40
"""Lines of the tool's output that are kept."""
END_S = 10.0
"""How long a tool that must end may take."""


@dataclass(frozen=True, kw_only=True)
class LoadScript:
    """A Locust file or a k6 script. Construction raises BadInput, also if the tool is not installed."""

    path: Path
    users: int | None = None
    """Most at once. None: what the script or the tool's own configuration says."""
    spawn_rate: float | None = None
    """New users in a second until all are there."""
    for_s: float | None = None
    """Length of the soak in seconds. None: until the script or Ctrl-C ends it."""

    def __post_init__(self) -> None:
        if not self.path.is_file():
            raise BadInput(f"--load {self.path}: there is no such file. Try --load locustfile.py")
        if isinstance(self.tool(), K6) and self.spawn_rate is not None:
            raise BadInput(f"--load {self.path}: k6 has no spawn rate. Try stages in the script's options")

    def tool(self) -> Tool:
        """Raises BadInput."""
        tool = TOOLS.get(self.path.suffix)
        if tool is None:
            raise BadInput(f"--load {self.path}: neither a Locust file (.py) nor a k6 script (.js)")
        return tool()


@dataclass(frozen=True)
class ClientStats:
    """What the tool measured, on its side of the connection."""

    tool: str
    requests: int
    failures: int
    percentiles_ms: Mapping[int, float]
    """The 50th, 95th and 99th. Empty if there was no request."""
    exit_code: int
    """Exit code of the client. Not 0: the script's own limits are not kept. Failed requests alone do not count in
    Locust."""
    raised: str = ""
    """What the script raised last, outside of requests; empty if nothing."""


def arrived(answer: Answer, zero_s: float) -> Arrival:
    """A request over HTTP, which was due when it came. `zero_s`: the loop's time at second 0 of the soak."""
    begun_s = answer.begun_s - zero_s
    return Arrival(begun_s, begun_s, answer, answer.ended_s - zero_s)


class LoadProcess:
    """The tool while it runs. Leaving the context ends it."""

    def __init__(self, script: LoadScript, endpoint: str) -> None:
        """Start it against this endpoint."""
        self._path = script.path
        self._tool = script.tool()
        self._folder = tempfile.TemporaryDirectory(prefix="truemem-load-")
        self._stats = Path(self._folder.name) / "stats.json"
        self._output: deque[str] = deque(maxlen=TAIL_LINES)
        self._process = subprocess.Popen(
            self._tool.command(script, endpoint, self._stats),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            process_group=0,  # a terminal's Ctrl-C must not reach it: `interrupt` does
        )
        self._interrupted = False
        self._raised = ""
        assert self._process.stdout is not None
        self._reader = threading.Thread(target=self._read, args=[self._process.stdout], daemon=True)
        self._reader.start()

    def __enter__(self) -> LoadProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.interrupt()
        if not self.wait(END_S):
            os.killpg(self._process.pid, signal.SIGKILL)
            self.wait()
        self._folder.cleanup()

    def interrupt(self) -> None:
        """Pass Ctrl-C on: the tool stops its users and writes its statistics."""
        self._interrupted = True
        self._process.terminate()  # SIGINT may hit a user of Locust in the middle of a request

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for its end. Returns whether it has ended."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout_s)
        return self._process.returncode is not None

    def _read(self, lines: Iterable[str]) -> None:
        in_traceback = False
        for line in lines:
            self._output.append(line)
            if in_traceback and not line.startswith(" "):
                self._raised = line.strip()
            in_traceback = line.startswith("Traceback ") or (in_traceback and line.startswith(" "))

    def stats(self) -> ClientStats | None:
        """What it has measured, after its end. None if it was interrupted too early. Else raises BadInput with its last
        line if it has written no statistics."""
        self._reader.join(END_S)
        code = self._process.returncode
        try:
            return replace(self._tool.stats(loads(read_text(self._stats)), code), raised=self._raised)
        except (OSError, LookupError, TypeError, ValueError):
            if self._interrupted:
                return None
            last = next((line.strip() for line in reversed(self._output) if line.strip()), "it printed nothing")
            raise BadInput(f"--load {self._path}: {self._tool.name} ended with code {code}: {last}") from None


class Tool(ABC):
    name: str

    @abstractmethod
    def __init__(self) -> None:
        """Raises BadInput if it is not installed."""

    @abstractmethod
    def command(self, script: LoadScript, endpoint: str, stats: Path) -> list[str]:
        """The command that writes its statistics to the file `stats`."""

    @abstractmethod
    def stats(self, document: Any, exit_code: int) -> ClientStats:
        """Read the client's statistics. Raises LookupError, TypeError or ValueError."""


class Locust(Tool):
    name = "Locust"

    def __init__(self) -> None:
        found = shutil.which("locust")  # the user's own: it has the packages that the file imports
        if found is None:
            need("locust")
        self._command = [sys.executable, "-m", "locust"] if found is None else [found]

    def command(self, script: LoadScript, endpoint: str, stats: Path) -> list[str]:
        return [
            *self._command,
            "--headless",
            "--only-summary",
            *_options(
                locustfile=script.path,
                host=endpoint,
                users=script.users,
                spawn_rate=script.spawn_rate,
                run_time=_seconds(script.for_s),
                json_file=stats.with_suffix(""),
                exit_code_on_error=0,
            ),
        ]

    def stats(self, document: Any, exit_code: int) -> ClientStats:
        counts: Counter[float] = Counter()
        for entry in document:
            counts.update({float(time_ms): count for time_ms, count in entry["response_times"].items()})
        requests, failures = (sum(entry[name] for entry in document) for name in ("num_requests", "num_failures"))
        percentiles = {percent: _percentile(counts, percent) for percent in (50, 95, 99)} if counts else {}
        return ClientStats(self.name, requests, failures, percentiles, exit_code)


class K6(Tool):
    """k6, whose script finds the endpoint in `__ENV.BASE_URL`."""

    name = "k6"
    INTERRUPTED = 105
    """Exit code after Ctrl-C."""

    def __init__(self) -> None:
        if shutil.which("k6") is None:
            raise BadInput("k6 is not on the PATH. Install it, or try --load with a Locust file")

    def command(self, script: LoadScript, endpoint: str, stats: Path) -> list[str]:
        options = _options(
            env=f"BASE_URL={endpoint}",
            summary_export=stats,
            summary_trend_stats="med,p(95),p(99)",
            vus=script.users,
            duration=_seconds(script.for_s),
        )
        return ["k6", "run", "--quiet", "--no-color", *options, str(script.path)]

    def stats(self, document: Any, exit_code: int) -> ClientStats:
        metrics = document["metrics"]
        requests = metrics.get("http_reqs", {"count": 0})["count"]
        durations = metrics.get("http_req_duration", {})
        names = {50: "med", 95: "p(95)", 99: "p(99)"}
        percentiles = {percent: durations[name] for percent, name in names.items()} if durations else {}
        failures = metrics.get("http_req_failed", {"passes": 0})["passes"]
        return ClientStats(
            self.name, requests, failures, percentiles, 0 if exit_code == self.INTERRUPTED else exit_code
        )


TOOLS: Mapping[str, type[Tool]] = {".py": Locust, ".js": K6, ".ts": K6}


def _options(**values: object) -> list[str]:
    """Options of a command, without those that are None."""
    given = {f"--{name.replace('_', '-')}": str(value) for name, value in values.items() if value is not None}
    return [word for option in given.items() for word in option]


def _seconds(seconds: float | None) -> str | None:
    return None if seconds is None else f"{math.ceil(seconds)}s"


def _percentile(counts: Counter[float], percent: int) -> float:
    """A percentile as Locust computes it, from its rounded times and their counts."""
    above = 0
    for time_ms in sorted(counts, reverse=True):
        above += counts[time_ms]
        if (counts.total() - above) * 100 <= counts.total() * percent:
            return time_ms
    raise ValueError("no times")
