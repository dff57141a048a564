"""What the tests of the local Lambda share: environments that leave nothing behind, and actors that speak its APIs."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import psutil
import pytest
import requests
from truemem_workbench.local import Function, LocalLambda, LogLine, Settings, Stopped

HERE = Path(__file__).parent
APP = HERE / "functions" / "app.py"
RECORDER = HERE / "extensions" / "recorder.py"
BOUND_S = 30
"""Of any wait: reached only when a test fails."""


class Lines:
    """The log, for waiting on."""

    def __init__(self) -> None:
        self._all: list[LogLine] = []
        self._changed = threading.Condition()

    def add(self, line: LogLine) -> None:
        with self._changed:
            self._all.append(line)
            self._changed.notify_all()

    def wait(self, wanted: Callable[[LogLine], object]) -> LogLine:
        """The first line, old or new, that is wanted."""

        def found() -> LogLine | None:
            return next((line for line in self._all if wanted(line)), None)

        with self._changed:
            line = self._changed.wait_for(found, BOUND_S)
            assert line is not None, [line.text for line in self._all]
            return line


class Local(LocalLambda):
    """A local Lambda with what tests ask of it."""

    def __init__(self, function: Function, settings: Settings) -> None:
        self.lines = Lines()
        super().__init__(function, settings, self.lines.add)

    def recorded(self, name: str = "recorder") -> list[dict[str, Any]]:
        """What the recorder printed."""
        return [json.loads(line) for line in self.extension_stdout(name)]

    def telemetry(self, name: str = "recorder") -> list[dict[str, Any]]:
        """Every event that the recorder was sent, in order."""
        batches = (entry["telemetry"] for entry in self.recorded(name) if "telemetry" in entry)
        return [event for batch in batches for event in batch]

    def wait_for_telemetry(self, kind: str) -> None:
        self.lines.wait(lambda line: line.source == "extension:recorder" and f'"{kind}"' in line.text)

    def of_type(self, kind: str) -> list[dict[str, Any]]:
        """The records of every event of a type."""
        return [event["record"] for event in self.events if event["type"] == kind]

    def submit_in_background(self, payload: object = None) -> threading.Thread:
        """An invocation whose answer nobody waits for."""

        def call() -> None:
            with contextlib.suppress(Stopped):
                self.invoke(payload)

        thread = threading.Thread(target=call, daemon=True)
        thread.start()
        return thread

    def runtime_api(self) -> str:
        """From an `idle` process: it prints the address."""
        address = self.lines.wait(lambda line: line.text.startswith("127.0.0.1:"))
        return f"http://{address.text}"


Start = Callable[..., Local]


@pytest.fixture
def start() -> Iterator[Start]:
    """Make a local Lambda and enter it. At the end everything is stopped, and nothing of it may be left."""
    started: list[Local] = []

    def make(function: Path | str = f"{APP}:handler", **settings: Any) -> Local:
        behaviour = settings.pop("behaviour", None)
        if behaviour is not None:
            settings.setdefault("extensions", {"recorder": RECORDER})
            settings["environment"] = {"RECORDER": json.dumps(behaviour)} | settings.get("environment", {})
        local = Local(Function.from_spec(str(function)), Settings(**settings))
        local.start()
        started.append(local)
        return local

    yield make
    for local in started:
        pids = local.processes().values()
        local.stop(abort=True)
        assert not [pid for pid in pids if psutil.pid_exists(pid)]
        assert not local.environment_dir.exists()
        assert not cgroups_of(local.environment_id)


def cgroups_of(environment_id: str) -> list[Path]:
    return list(Path("/sys/fs/cgroup").glob(f"**/truemem-{environment_id}"))


class Api:
    """A client of the Runtime API's port, for a test that plays extension and runtime."""

    def __init__(self, base: str) -> None:
        self.base = base

    def call(self, method: str, path: str, **options: Any) -> requests.Response:
        return requests.request(method, self.base + path, timeout=BOUND_S, **options)

    def in_background(self, method: str, path: str, **options: Any) -> Answer:
        return Answer(lambda: self.call(method, path, **options))

    def register(self, name: str | None = "idle", body: str = '{"events": ["INVOKE"]}') -> requests.Response:
        headers = {} if name is None else {"Lambda-Extension-Name": name}
        return self.call("POST", "/2020-01-01/extension/register", headers=headers, data=body)

    def next_event(self, identifier: str) -> Answer:
        return self.in_background("GET", "/2020-01-01/extension/event/next", headers=identified(identifier))

    def next_invocation(self) -> Answer:
        return self.in_background("GET", "/2018-06-01/runtime/invocation/next")

    def respond(self, request_id: str, body: str = '"done"', **headers: str) -> requests.Response:
        path = f"/2018-06-01/runtime/invocation/{request_id}/response"
        return self.call("POST", path, data=body, headers=headers)


class Answer:
    """A call that is held open."""

    def __init__(self, call: Callable[[], requests.Response]) -> None:
        self._call = call
        self._response: requests.Response | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._response = self._call()
        except requests.RequestException:
            self._response = None

    def get(self) -> requests.Response:
        self._thread.join(BOUND_S)
        assert self._response is not None
        return self._response


def identified(identifier: str) -> dict[str, str]:
    return {"Lambda-Extension-Identifier": identifier}


def error_of(response: requests.Response) -> tuple[int, str, str]:
    body = response.json()
    return response.status_code, body["errorType"], body["errorMessage"]


def interrupted(command: list[str], cue: str) -> int:
    """Ctrl-C once a line of its stdout has `cue`: the exit code. Nothing that it had started may be left."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert any(cue in line for line in process.stdout)
        children = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGINT)
        process.stdout.read()
        code = process.wait(BOUND_S)
    assert not psutil.wait_procs(children, timeout=BOUND_S)[1]
    return code


def can_make_cgroups(*controllers: Literal["memory", "freezer"], version: Literal[1, 2] | None = None) -> bool:
    """Whether this machine permits them: the tests of what only they can do are skipped otherwise."""
    from truemem_workbench.local.processes.cgroups import NotPermitted, create

    try:
        for controller in controllers:
            create(controller, f"truemem-probe-{os.getpid()}", only_version=version).remove()
    except NotPermitted:
        return False
    return True


needs_cgroups = pytest.mark.skipif(
    not can_make_cgroups("memory", "freezer"), reason="no permission to make a cgroup on this machine"
)
needs_cgroup_v1 = pytest.mark.skipif(
    not can_make_cgroups("memory", version=1), reason="no cgroup v1, which alone lets its peak begin anew"
)
