"""What the tests of the local Lambda share: environments that leave nothing behind, and actors that speak its APIs."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

import boto3
import psutil
import pytest
import requests
from botocore.config import Config
from mypy_boto3_lambda import LambdaClient
from truemem_workbench.commands.__main__ import cli
from truemem_workbench.commands.local_run import run as command
from truemem_workbench.local import Function, Invocation, LocalLambda, LogLine, Settings
from truemem_workbench.runs.here import Run
from truemem_workbench.support import exit_codes

HERE = Path(__file__).parent
FUNCTIONS = HERE / "functions"
EXTENSIONS = HERE / "extensions"
APP = FUNCTIONS / "app.py"
BOOTSTRAP = FUNCTIONS / "bootstrap"
TOGETHER = FUNCTIONS / "together.py"
RECORDER = EXTENSIONS / "recorder.py"
IDLE_RUNTIME = FUNCTIONS / "idle"
IDLE = {"idle": IDLE_RUNTIME}
"""An extension: the test plays it, and the runtime."""
HANDLER = f"{APP}:handler"
RUN = [sys.executable, "-m", "truemem_workbench.commands", "local", "run"]
BOUND_S = 30
"""Of any wait: reached only when a test fails."""
REQUEST_ID = "Lambda-Runtime-Aws-Request-Id"
T = TypeVar("T")


def run(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """`truemem local run ARGUMENTS`; `options` are those of subprocess.run."""
    captured = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.run([*RUN, *arguments], text=True, timeout=60, check=False, **captured | options)


LocalRun = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def local_run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> LocalRun:
    """`truemem local run ARGUMENTS` in this process: a start of its own takes seconds."""

    def run_here(*arguments: str, text: str = "", cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        monkeypatch.delenv("COLUMNS", raising=False)
        monkeypatch.setattr(sys, "argv", ["truemem", "local", "run", *arguments])
        monkeypatch.setattr(sys, "stdin", io.StringIO(text))
        monkeypatch.chdir(cwd or Path.cwd())
        code = exit_codes.ended(cli, "truemem")
        return subprocess.CompletedProcess(arguments, code, *capsys.readouterr())

    return run_here


SettingsOf = Callable[..., Settings]


@pytest.fixture
def settings_of(monkeypatch: pytest.MonkeyPatch) -> SettingsOf:
    """With which settings `truemem local run ARGUMENTS` would serve its function. Nothing is started."""
    started: list[Settings] = []

    def serve(run: Run, _: object) -> int:
        started.append(run.settings)
        return 0

    def settings(*arguments: str) -> Settings:
        command.main(list(arguments), standalone_mode=False)
        return started[-1]

    monkeypatch.setattr("truemem_workbench.commands.local_console.serve", serve)
    return settings


def in_background(call: Callable[[], T]) -> Future[T]:
    """In a thread that holds up nothing, however long the call is held open."""
    future: Future[T] = Future()

    def work() -> None:
        try:
            future.set_result(call())
        except Exception as error:
            future.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    return future


def until(condition: Callable[[], object]) -> None:
    """Wait for what gives no signal."""
    end = time.monotonic() + BOUND_S
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def executable(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o755)
    return path


def has_ended(process: psutil.Process) -> bool:
    """Its last thread has ended: before that its connections are open. A zombie, too: its parent may not look."""
    try:
        return process.status() == psutil.STATUS_ZOMBIE and len(list(Path(f"/proc/{process.pid}/task").iterdir())) == 1
    except (psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):
        return True


class Reply(Invocation):
    payload: Any
    """So that a test can look into it: what has no such member fails the test."""


class Local(LocalLambda):
    """A local Lambda with what tests ask of it."""

    def __enter__(self) -> Local:
        super().__enter__()
        return self

    def invoke(
        self,
        payload: object = None,
        *,
        tenant_id: str | None = None,
        timeout: float | None = None,
        may_wait: bool = False,
    ) -> Reply:
        return cast(Reply, super().invoke(payload, tenant_id=tenant_id, timeout=timeout, may_wait=may_wait))

    def invoke_in_background(self, payload: object = None) -> Future[Reply]:
        return in_background(lambda: self.invoke(payload, timeout=BOUND_S))

    def finish(self, payload: object = None, *, tenant_id: str | None = None) -> Reply:
        """Invoke, and wait until the extensions are done as well and all is reported."""
        answer = self.invoke(payload, tenant_id=tenant_id)
        self.settle()
        return answer

    def settle(self, *, timeout: float | None = BOUND_S) -> None:
        super().settle(timeout=timeout)

    def post(self, *, name: str = "function", data: str | bytes = b"", **headers: str) -> requests.Response:
        """Call the Invoke API."""
        url = f"{self.endpoint}/2015-03-31/functions/{name}/invocations"
        return requests.post(url, data=data, headers=dashed(headers), timeout=BOUND_S)

    @cached_property
    def api(self) -> Api:
        """The Runtime API, from an `idle` process: it prints the address."""
        address = self.wait_for_line(lambda line: line.text.startswith("127.0.0.1:"))
        return Api(f"http://{address.text}")

    def wait_for_line(self, wanted: Callable[[LogLine], object]) -> LogLine:
        """The first line of the log, old or new, that is wanted."""
        until(lambda: any(map(wanted, self.logs)))
        return next(filter(wanted, self.logs))

    def recorded(self, name: str = "recorder") -> list[dict[str, Any]]:
        """What the recorder printed."""
        return [json.loads(line) for line in self.extension_stdout(name)]

    def read_by_recorder(self, kind: str) -> list[dict[str, Any]]:
        """What the recorder printed of the events of this type that it read from `next`."""
        return [entry for entry in self.recorded() if entry.get("event", {}).get("eventType") == kind]

    def shutdown_reasons(self) -> list[str]:
        """As the recorder read them."""
        return [entry["event"]["shutdownReason"] for entry in self.read_by_recorder("SHUTDOWN")]

    def telemetry(self, name: str = "recorder") -> list[dict[str, Any]]:
        """Every event that the recorder was sent, in order."""
        batches = (entry["telemetry"] for entry in self.recorded(name) if "telemetry" in entry)
        return [event for batch in batches for event in batch]

    def wait_for_telemetry(self, kind: str) -> None:
        self.wait_for_line(lambda line: line.source == "extension:recorder" and f'"{kind}"' in line.text)

    def kinds(self) -> list[str]:
        """Types of the platform's events so far, in order."""
        return kinds(self.events)

    def of_type(self, kind: str) -> list[dict[str, Any]]:
        """The records of every event of a type of the platform's."""
        return [event["record"] for event in self.events if event["type"] == f"platform.{kind}"]


def kinds(events: Sequence[Mapping[str, Any]]) -> list[str]:
    """Without `platform.`."""
    return [event["type"].removeprefix("platform.") for event in events]


def dashed(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


def function_at(spec: Path | str) -> Function:
    """A module by its path, whose `handler` it is, or a bootstrap, or all that a specification may name."""
    return Function.from_spec(f"{spec}:handler" if isinstance(spec, Path) and spec.suffix else str(spec))


Start = Callable[..., Local]


@pytest.fixture
def start() -> Iterator[Start]:
    """Make a local Lambda and enter it. At the end everything is stopped, and nothing of it may be left."""
    started: list[Local] = []

    def make(function: Path | str = HANDLER, **settings: Any) -> Local:
        behaviour = settings.pop("behaviour", None)
        if behaviour is not None:
            settings.setdefault("extensions", {"recorder": RECORDER})
            settings["environment"] = {"RECORDER": json.dumps(behaviour)} | settings.get("environment", {})
        local = Local(function_at(function), Settings(**settings))
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


@pytest.fixture
def start_idle(start: Start) -> Start:
    """The test plays runtime and extension."""
    return lambda **settings: start(IDLE_RUNTIME, **{"extensions": IDLE, "init_timeout_s": 60, **settings})


def cgroups_of(environment_id: str) -> list[Path]:
    return list(Path("/sys/fs/cgroup").glob(f"**/truemem-{environment_id}"))


class Api:
    """A client of the Runtime API's port, for a test that plays extension and runtime."""

    def __init__(self, base: str) -> None:
        self.base = base

    def call(self, method: str, path: str, **options: Any) -> requests.Response:
        return requests.request(method, self.base + path, timeout=BOUND_S, **options)

    def register(self, name: str | None = "idle", body: str = '{"events": ["INVOKE"]}') -> requests.Response:
        headers = {} if name is None else {"Lambda-Extension-Name": name}
        return self.call("POST", "/2020-01-01/extension/register", headers=headers, data=body)

    def registered(self, *events: str) -> dict[str, str]:
        """Register `idle`: the header by which it is known from then on."""
        answer = self.register(body=json.dumps({"events": events}))
        return identified(answer.headers["Lambda-Extension-Identifier"])

    def next_event(self, own: dict[str, str]) -> Future[requests.Response]:
        return in_background(lambda: self.call("GET", "/2020-01-01/extension/event/next", headers=own))

    def next_invocation(self) -> Future[requests.Response]:
        return in_background(lambda: self.call("GET", "/2018-06-01/runtime/invocation/next"))

    def respond(self, request_id: str, body: str = '"done"', **headers: str) -> requests.Response:
        path = f"/2018-06-01/runtime/invocation/{request_id}/response"
        return self.call("POST", path, data=body, headers=dashed(headers))


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


def can_make_cgroups(*controllers: Literal["memory", "cpu", "freezer"], version: Literal[1, 2] | None = None) -> bool:
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


def client_of(local: Local) -> LambdaClient:
    """boto3's client, which asks once."""
    return boto3.client(
        "lambda",
        endpoint_url=local.endpoint,
        region_name="us-east-1",
        aws_access_key_id="local",
        aws_secret_access_key="local",
        config=Config(retries={"max_attempts": 0}),
    )
