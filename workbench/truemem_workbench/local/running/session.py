"""The synchronous face: a local Lambda in a thread of its own."""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import json
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from ...support.untrusted_text import loads
from ..configuration.function import Function
from ..configuration.settings import Settings
from ..configuration.variables import function_arn
from ..errors import Failed
from ..lifecycle.environment import Environment
from ..lifecycle.journal import LogLine
from ..state.hold import Hold
from ..state.invocation import Pending
from ..telemetry.events import Event, Report
from .server import LOOPBACK, Server

T = TypeVar("T")


@dataclass(frozen=True)
class Invocation:
    """What the caller of Lambda's Invoke API sees."""

    request_id: str
    payload: object
    """The answer as JSON; None if it is not JSON."""
    raw: bytes
    function_error: str | None
    """`Unhandled`, or None."""
    status: int
    """200: with a function error as well."""
    arn: str


class Stopped(Exception):
    """The environment was stopped before the invocation had its answer."""


class LocalLambda:
    """One execution environment on this machine. Entering serves it and starts its init; leaving stops it.

    It serves one invocation at a time, or with `Settings(managed_instances=N)` N of them: call `invoke` from as many
    threads. One more waits, where the real service takes another environment.
    Every attribute may be read from any thread.
    """

    def __init__(self, function: Function, settings: Settings, on_log: Callable[[LogLine], None] | None = None) -> None:
        """`on_log` gets every log line as it comes, in the server's thread."""
        self._settings = settings
        self._server = Server(function, settings, on_log)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="truemem-local", daemon=True)
        self._stopped = False

    # --- life ---------------------------------------------------------------------------------------------------------

    def __enter__(self) -> LocalLambda:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop(abort=error is not None)

    def start(self) -> None:
        """Serve, and begin the init phase. Raises BadInput for a port that is in use or a mechanism not permitted."""
        self._thread.start()
        starting = asyncio.run_coroutine_threadsafe(self._server.start(), self._loop)
        try:
            starting.result()
        except BaseException:  # refused, or Ctrl-C while it starts
            concurrent.futures.wait([starting])
            self.stop(abort=True)
            raise
        atexit.register(self.stop, abort=True)

    def stop(self, reason: str = "spindown", *, abort: bool = False) -> None:
        """SHUTDOWN to the extensions, then nothing is left: no process, cgroup, socket or folder. Idempotent.

        An invocation that is running is waited for, unless `abort`.
        """
        if self._stopped:
            return
        try:
            self._call(self._server.stop(reason, abort=abort))
        finally:
            self._end_thread()
            atexit.unregister(self.stop)

    def _end_thread(self) -> None:
        self._stopped = True
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _call(self, work: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout)

    # --- invocations --------------------------------------------------------------------------------------------------

    def invoke(
        self, payload: object = None, *, tenant_id: str | None = None, timeout: float | None = None
    ) -> Invocation:
        """Returns when the runtime posts its response (or on an error), as Lambda's Invoke API does.

        The environment may be busy for longer, with its extensions: `settle` or `report` wait for that. A request of
        another tenant gets another environment: the present one ends first. Raises TimeoutError after `timeout`
        seconds, Stopped if the environment is stopped, BadInput for a tenant where Lambda takes none.
        """
        if self._stopped:
            raise Stopped("the environment was stopped")
        self._settings.check_tenant(tenant_id)
        return self._call(self._invoke(json.dumps(payload).encode(), tenant_id), timeout)

    async def _invoke(self, payload: bytes, tenant_id: str | None) -> Invocation:
        pending = Pending(payload, function_arn(self._settings.name), tenant_id=tenant_id)
        self._server.environment.submit(pending)
        try:
            answer = await pending.answer
        except Failed as failed:
            raise Stopped(failed.failure.message) from None
        try:
            parsed = loads(answer.payload, lenient=True)
        except ValueError:
            parsed = None
        return Invocation(pending.request_id, parsed, answer.payload, answer.function_error, 200, pending.arn)

    def settle(self, *, timeout: float | None = None) -> None:
        """Wait until no invocation runs or waits: all is frozen, every report is made, every line is in `logs`."""
        if not self._stopped:
            self._call(self._server.environment.settle(), timeout)

    def report(self, request_id: str, *, timeout: float | None = None) -> Report:
        """The REPORT of an invocation, made at its end: after the freeze, or after the reset that it caused."""
        self.settle(timeout=timeout)
        return next(report for report in self.reports if report.request_id == request_id)

    # --- what happened ------------------------------------------------------------------------------------------------

    @property
    def endpoint(self) -> str:
        """Of the Invoke API, for boto3's `endpoint_url`."""
        return f"http://{LOOPBACK}:{self._server.port}"

    @property
    def notices(self) -> list[str]:
        """What this machine does not permit, in plain words."""
        return list(self._server.notices)

    @property
    def reports(self) -> list[Report]:
        return list(self._server.journal.reports)

    @property
    def events(self) -> list[Event]:
        """Every platform event, in order of emission: whether an extension heard it or not."""
        return list(self._server.journal.events)

    @property
    def logs(self) -> list[LogLine]:
        return list(self._server.journal.lines)

    def extension_stdout(self, name: str) -> list[str]:
        """That extension's lines on stdout so far."""
        return [line.text for line in self.logs if line.source == f"extension:{name}" and line.stream == "stdout"]

    def processes(self) -> dict[str, int]:
        """Live pids by name: `runtime`, `extension:NAME`."""
        return {} if self._stopped else self._server.environment.roots()

    @property
    def environment_id(self) -> str:
        """The end of the log stream's name; its cgroups are `truemem-ID`."""
        return self._server.id

    @property
    def hold(self) -> Hold:
        """For scenarios: set before the start, it holds the runtime's first `next` as well."""
        return self._server.hold

    @property
    def environment(self) -> Environment:
        """For scenarios, of which there are none on Managed Instances."""
        assert isinstance(self._server.environment, Environment)
        return self._server.environment

    @property
    def log_stream(self) -> str:
        """As at present: it changes with a SnapStart restore, another tenant, a new managed environment."""
        return self._server.journal.log_stream

    @property
    def environment_dir(self) -> Path:
        """The private working folder (its `tmp` is the processes' TMPDIR), removed on stop."""
        return self._server.folder
