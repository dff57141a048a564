"""The local Lambda for synchronous code: it runs in a thread of its own."""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import json
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from ..support.failed_answer import error_of
from ..support.untrusted_text import parsed
from .apis.http import LOOPBACK
from .configuration.function import Function
from .configuration.settings import Settings, function_arn
from .errors import WaitFailed
from .lifecycle.environment import OnDemandEnvironment
from .lifecycle.events import Event, Report
from .lifecycle.generation import Hold
from .lifecycle.invocation import PendingInvocation
from .lifecycle.journal import Archive, EnvironmentChange, LogLine
from .lifecycle.managed_instances import ManagedEnvironment
from .sandbox import Sandbox
from .scaling import Answer, Scaling
from .server import Server

T = TypeVar("T")


@dataclass(frozen=True)
class Invocation:
    """What a caller of Lambda's Invoke API gets."""

    request_id: str
    payload: object
    """The answer as JSON; None if it is not JSON."""
    raw: bytes
    function_error: str | None
    """`Unhandled`, or None."""
    status: int
    """HTTP status: 200, also with a function error."""
    arn: str
    environment: str = ""
    """Id of the environment that answered."""

    @property
    def error(self) -> str:
        """What a failed invocation said (`error_of`); empty for one that did not fail."""
        return error_of(self.payload, self.function_error) if self.function_error else ""


class Stopped(Exception):
    """Raised by `invoke` if the environment was stopped before the answer came."""


class LocalLambda:
    """A function on this machine. Entering it serves the APIs and starts init; leaving it stops everything.

    Without `scaling` it has one execution environment. That serves one invocation at a time, or N of them with
    `Settings(managed_instances=N)`: then call `invoke` from N threads. One more invocation waits. With `scaling`, each
    request that finds no free environment starts another, and is throttled where there may be no more. Every attribute
    may be read from any thread.
    """

    def __init__(
        self,
        function: Function,
        settings: Settings,
        on_log: Callable[[LogLine], None] | None = None,
        scaling: Scaling | None = None,
        on_environment: Callable[[EnvironmentChange], None] | None = None,
        on_answer: Callable[[Answer], None] | None = None,
    ) -> None:
        """`on_log` gets every log line when it comes, `on_environment` every change of an environment's life,
        `on_answer` what each request over HTTP came to. They are called in the server's thread."""
        self._settings = settings
        self._archive = Archive(on_log, on_environment, keep=scaling is None or scaling.keep)
        self._server = Server(function, settings, scaling, self._archive, on_answer)
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
        """Serve the APIs and begin init. Raises BadInput for a port in use, or a mechanism that is not permitted."""
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
        """Send SHUTDOWN and stop. No process, cgroup, socket or folder stays. A second call does nothing.

        It waits for a running invocation, unless `abort` is true.
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
        self,
        payload: object = None,
        *,
        tenant_id: str | None = None,
        timeout: float | None = None,
        may_wait: bool = False,
    ) -> Invocation:
        """Invoke the function. Returns when the runtime posts its response or an error, as Lambda's Invoke API does.

        The extensions may work for longer: `settle` and `report` wait for them. For a request of another tenant,
        another environment replaces the present one first. Raises TimeoutError after `timeout` seconds, Stopped if the
        environment is stopped, BadInput for a tenant if Lambda takes none. With scaling also Throttled, or with
        `may_wait` it waits for a place.
        """
        if self._stopped:
            raise Stopped("the environment was stopped")
        self._settings.check_tenant(tenant_id)
        return self._call(self._invoke(json.dumps(payload).encode(), tenant_id, may_wait=may_wait), timeout)

    async def _invoke(self, payload: bytes, tenant_id: str | None, *, may_wait: bool) -> Invocation:
        pending = PendingInvocation(payload, function_arn(self._settings.name), tenant_id=tenant_id)
        try:
            self._server.fleet.submit(pending, may_wait=may_wait)
            answer = await pending.answer
        except WaitFailed as failed:
            raise Stopped(failed.failure.message) from None
        payload = parsed(answer.payload)
        return Invocation(
            pending.request_id, payload, answer.payload, answer.function_error, 200, pending.arn, pending.environment
        )

    async def answer(self, payload: bytes) -> Answer:
        """Make one request, in the server's loop (`run`). Raises Stopped if its environment is stopped before."""
        try:
            return await self._server.fleet.answer(PendingInvocation(payload, function_arn(self._settings.name)))
        except WaitFailed as failed:
            raise Stopped(failed.failure.message) from None

    def begin(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Run a coroutine in the server's loop while this thread goes on. `cancel` of what is returned cancels it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the server's loop, and return its result. An interrupt cancels it."""
        running = self.begin(work)
        try:
            return running.result()
        except BaseException:
            running.cancel()
            raise

    def settle(self, *, timeout: float | None = None) -> None:
        """Wait until no invocation runs or waits. Then all is frozen, and all reports and lines are there."""
        if not self._stopped:
            self._call(self._server.fleet.settle(), timeout)

    def rest(self, workers: int, patience_s: float) -> int:
        """On Managed Instances, wait until so many workers wait for a request, for so long at most: the next requests
        then come to one each. Returns how many do."""
        environment = self._only.environment
        assert isinstance(environment, ManagedEnvironment)
        return self._call(environment.rest(workers, patience_s))

    def visit(self, wants: Callable[[int], bool], work: Callable[[int], object]) -> None:
        """Call `work` with the pid of each runtime that it `wants`, between two invocations (Fleet.visit)."""
        if not self._stopped:
            self.run(self._server.fleet.visit(wants, work))

    @contextmanager
    def thawed(self) -> Iterator[None]:
        """The processes of the only environment run, without an invocation, as long as the block lasts."""
        self.settle()
        if self._settings.managed_instances is not None:  # nothing is ever frozen
            yield
            return
        environment = self.environment
        self._call(environment.thaw())
        try:
            yield
        finally:
            self._call(environment.freeze())

    def report(self, request_id: str, *, timeout: float | None = None) -> Report:
        """Wait for the end of an invocation, freeze or reset included. Returns its REPORT."""
        self.settle(timeout=timeout)
        return next(report for report in self.reports if report.request_id == request_id)

    # --- what happened ------------------------------------------------------------------------------------------------

    @property
    def endpoint(self) -> str:
        """Address of the Invoke API, for boto3's `endpoint_url`, and of the Function URL."""
        return f"http://{LOOPBACK}:{self._server.port}"

    @property
    def notices(self) -> list[str]:
        """What this machine does not permit, in sentences for the user."""
        return list(self._server.fleet.notices)

    @property
    def limits_cpu(self) -> bool:
        """True if the processes have a limit of CPU: it was asked for, and this machine permits it."""
        return self._only.environment.cpu.group is not None

    @property
    def reports(self) -> list[Report]:
        return list(self._archive.reports)

    @property
    def events(self) -> list[Event]:
        """Every event of the platform so far, in order, also if no extension has got it."""
        return list(self._archive.events)

    @property
    def logs(self) -> list[LogLine]:
        return list(self._archive.lines)

    def extension_stdout(self, name: str) -> list[str]:
        """The lines that an extension has printed on stdout so far."""
        return [line.text for line in self.logs if line.source == f"extension:{name}" and line.stream == "stdout"]

    @property
    def environment_ids(self) -> list[str]:
        """The environments that have started and do not end, in the order of their start."""
        return [sandbox.id for sandbox in self._server.fleet.sandboxes]

    def processes(self, environment_id: str | None = None) -> dict[str, int]:
        """Live pids by name, `runtime` and `extension:NAME`, of this environment, or of the only one."""
        if self._stopped:
            return {}
        sandbox = self._only if environment_id is None else self._server.fleet.sandbox(environment_id)
        return sandbox.environment.roots()

    # --- the only environment, without scaling ------------------------------------------------------------------------

    @property
    def _only(self) -> Sandbox:
        assert self._server.fleet.only is not None, "with scaling there is no only environment"
        return self._server.fleet.only

    @property
    def environment_id(self) -> str:
        """Id of the environment: the end of its first log stream's name. Its cgroups are `truemem-ID`."""
        return self._only.id

    @property
    def hold(self) -> Hold:
        """Holds the runtime, for scenarios. Set before the start, it holds the runtime's first `next` as well."""
        return self._server.hold

    @property
    def environment(self) -> OnDemandEnvironment:
        """The environment, for scenarios. Not on Managed Instances, which have no scenarios."""
        assert isinstance(self._only.environment, OnDemandEnvironment)
        return self._only.environment

    def kills(self) -> int:
        """Processes that the memory limit has killed so far."""
        return self._only.environment.memory.kills()

    @property
    def log_stream(self) -> str:
        """The present log stream. It changes with a SnapStart restore, another tenant, or a new managed environment."""
        return self._only.journal.log_stream

    @property
    def environment_dir(self) -> Path:
        """The private working folder. Its `tmp` is the processes' /tmp. `stop` removes it."""
        return self._only.folder

    def tmp_kib(self) -> float:
        """KiB that files and folders in the processes' /tmp take of a disk, without our own (`.truemem-`)."""
        return self._only.tmp.used_kib()
