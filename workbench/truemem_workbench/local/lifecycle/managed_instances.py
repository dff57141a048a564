"""Lambda Managed Instances: one environment serves many requests at once, never freezes, and is not reset.

It follows AWS's code (RIE internal/lambda-managed-instances: rapid/handlers.go and shutdown.go, core/registrations.go,
invoke/ and interop/events_api.go). When an environment fails, that code ends; the service then starts another
environment. Here the next request starts it.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from .. import errors
from ..configuration.function import Function
from ..configuration.settings import Settings
from ..errors import STOPPED_FAILURE, ApiRefusal, Failure, WaitFailed
from ..processes.process import WorkerOutput
from . import events
from .environment import INIT_TIMEOUT, ExecutionEnvironment
from .events import Report
from .generation import Extension, Generation, PendingNext, Registry, RuntimeAction, RuntimeState
from .invocation import PendingInvocation, error_answer
from .journal import EnvironmentJournal, LogLine
from .launcher import Launcher, kill_all, shut_down


class ManagedRegistry(Registry):
    """Registrations on Managed Instances: no extension may register for INVOKE, and only external ones for SHUTDOWN."""

    def register(self, name: str | None, events: list[str]) -> Extension:
        if events and name not in {extension.name for extension in self.external()}:
            raise errors.invalid_event("No events allowed for internal extensions")
        if "INVOKE" in events:
            raise errors.invalid_event("INVOKE: ErrorInvalidEventType")
        return super().register(name, events)


class ClaimedInvocation:
    """An invocation that a worker of the runtime has taken."""

    def __init__(self, pending: PendingInvocation) -> None:
        self.pending = pending
        self.claimed = False
        """True once a worker has begun to post a response or an error."""
        self._over: asyncio.Future[Failure | None] = asyncio.get_running_loop().create_future()

    def end(self, failure: Failure | None = None) -> None:
        """End the request. Only the first call counts."""
        if not self._over.done():
            self._over.set_result(failure)

    async def over(self) -> Failure | None:
        """Wait for the end of the request. Returns its failure, or None."""
        return await asyncio.shield(self._over)


class Worker:
    """One worker that waits in `next` for a request."""

    def __init__(self, request: web.Request) -> None:
        self._request = request
        self.pending_next = PendingNext(request)

    def gone(self) -> bool:
        """True if the worker's connection is closed: its process has died."""
        transport = self._request.transport
        return transport is None or transport.is_closing()

    async def send(self, pending: PendingInvocation) -> None:
        try:
            await self.pending_next.load(web.Response(body=pending.payload, headers=pending.runtime_headers()))
            await self.pending_next.fire()
        except ConnectionError:  # it died just now: the request will time out, as in AWS's code
            self.pending_next.give_up()


class ManagedGeneration(Generation):
    def __init__(self, extension_names: list[str]) -> None:
        super().__init__(extension_names)
        self.registry = ManagedRegistry(extension_names)
        self.requests: dict[str, ClaimedInvocation] = {}
        """Running requests by request id."""
        self._timed_out: set[str] = set()
        self._idle: list[Worker] = []

    def worker_ready(self, worker: Worker) -> None:
        """Add a worker that waits in `next`. The first one makes the runtime ready."""
        if self.runtime.state is RuntimeState.STARTED:
            self.runtime.act(RuntimeAction.NEXT)
        self._idle.append(worker)
        self.notify()

    def has_idle_worker(self) -> bool:
        for worker in [each for each in self._idle if each.gone()]:
            self._idle.remove(worker)
            worker.pending_next.give_up()
        return bool(self._idle)

    def idle_workers(self) -> int:
        return len(self._idle) if self.has_idle_worker() else 0

    def take_worker(self) -> Worker:
        """Take the worker that has waited longest."""
        return self._idle.pop(0)

    def claim(self, request_id: str, attempt_id: str | None) -> ClaimedInvocation:
        """Find the request that a response or an error is for. Each can be claimed once. Raises ApiRefusal."""
        request = self.requests.get(request_id)
        if request is None:
            raise self._refusal(request_id)
        if attempt_id and attempt_id != request.pending.attempt_id:
            raise errors.invoke_timeout()
        if request.claimed:
            raise errors.invalid_request_id()
        request.claimed = True
        return request

    def time_out(self, request_id: str) -> None:
        """Remember that the request has timed out. Its worker continues, and its late response is refused."""
        self._timed_out.add(request_id)

    def _refusal(self, request_id: str) -> ApiRefusal:
        if request_id not in self._timed_out:
            return errors.invalid_request_id()
        self._timed_out.discard(request_id)  # the refusal says so once
        return errors.invoke_timeout()

    def give_up(self) -> None:
        for worker in self._idle:
            worker.pending_next.give_up()
        super().give_up()


@dataclass(frozen=True)
class ManagedReport(Report):
    """The report of one request. Only this machine has its memory fields: telemetry and log of Managed Instances have
    none.

    `billed_duration_ms` is 0: instances are billed, not requests.
    """

    def record(self, spans: Sequence[Mapping[str, Any]], tracing: Mapping[str, str]) -> dict[str, Any]:
        return super().record(spans, tracing) | {"metrics": {"durationMs": self.duration_ms}}


def make_report(
    pending: PendingInvocation, failure: Failure | None, ended: float, memory_mib: int, mark_bytes: int
) -> Report:
    """Make a report. `ended`, by perf_counter: when the response was sent or the request was given up."""
    duration_s = ended - pending.moments.released
    made = events.make_report(pending.request_id, failure, duration_s, None, memory_mib, mark_bytes)
    error_type = failure.error_type if failure else None  # a timeout has one here: Sandbox.Timedout
    return ManagedReport(**vars(made) | {"error_type": error_type, "billed_duration_ms": 0})


class ManagedJournal(EnvironmentJournal):
    """The output of an environment that runs several requests at once: a line belongs to the request that it names. The
    log format is always JSON: an event is its own line."""

    running: Iterable[PendingInvocation] = ()

    def _write(self, line: LogLine) -> None:
        super()._write(line)
        for pending in self.running:
            if pending.request_id in line.text:
                pending.log.append(line.text)

    def runtime_initialised(self, failure: Failure | None) -> None:
        """Emit initRuntimeDone: at the first `next` of a worker, or when the runtime died before it."""
        self.emit("platform.initRuntimeDone", events.init_runtime_done(self._settings, "init", failure))

    def init_ended(self, generation: Generation, phase: str, failure: Failure | None, duration_s: float) -> None:
        """Emit the last events of init. Here a timeout has an error type, so the initReport has it too."""
        self.extensions_reported(generation)
        report = events.init_report(self._settings, phase, failure, duration_s)
        if failure is not None:
            report["errorType"] = failure.error_type
        self.emit("platform.initReport", report)
        if failure is None:
            self.changed("initialised", init_s=duration_s)

    def invocation_started(self, pending: PendingInvocation) -> None:
        record = events.start(pending.request_id, pending.tracing()) | {"functionArn": pending.arn}
        self.emit("platform.start", record)

    def invocation_ended(
        self, pending: PendingInvocation, report: Report, spans: Sequence[dict[str, Any]] = ()
    ) -> None:
        self._archive.report(report)
        record = report.record(spans or pending.moments.spans(self._epoch), pending.tracing())
        self.emit("platform.report", record)
        pending.report.set_result(report)


FLUSH_S = 1.0  # how long SHUTDOWN waits for the delivery of telemetry


class ManagedEnvironment(ExecutionEnvironment):
    """An environment that serves many requests at once: each has a task of its own beside `run`. It never freezes."""

    generation: ManagedGeneration
    journal: ManagedJournal

    def __init__(
        self,
        function: Function,
        settings: Settings,
        *,
        launcher: Launcher,
        journal: ManagedJournal,
        output: WorkerOutput | None,
    ) -> None:
        super().__init__(function, settings, launcher, journal)
        self.generation = ManagedGeneration(list(launcher.extensions))
        self._at_once = settings.managed_instances or 1
        self._output = output
        self._waiting: deque[PendingInvocation] = deque()
        self._serving: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()

    async def rest(self, workers: int, patience_s: float) -> int:
        """Wait until so many workers wait in `next`, for so long at most. Returns how many do."""
        with suppress(TimeoutError, WaitFailed):
            async with asyncio.timeout(patience_s):
                await self.generation.until(lambda: self.generation.idle_workers() >= workers)
        return self.generation.idle_workers()

    def _enqueue(self, pending: PendingInvocation) -> None:
        self._waiting.append(pending)
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self.generation.notify()

    # --- the life of the environment, and of those after it -----------------------------------------------------------

    async def run(self) -> None:
        try:
            await self._live()
            while not self._stopping:
                self._note_idle()
                self._changed.clear()
                if not self._waiting:
                    await self._changed.wait()
                    continue
                self._renew()
                await self._live()
        finally:
            await self._end()

    def _renew(self) -> None:
        """Start as a new environment, with nothing of the last one: no process, file, log stream or mark."""
        self.journal.renew()
        self.memory.forget()
        self._launcher.renew(self.journal.log_stream)
        self.generation = ManagedGeneration(list(self._launcher.extensions))

    async def _live(self) -> None:
        """Run one environment from its init to its SHUTDOWN."""
        generation = self.generation
        try:
            await self._init(generation)
            await self._serve_all(generation)
            reason = self._stop_reason
        except WaitFailed as failed:
            reason = self._stop_reason if failed.failure is STOPPED_FAILURE else "failure"
            await self._abort(generation, failed.failure)
            if failed.failure is not STOPPED_FAILURE:
                self.journal.reset(failed.failure)
        await shut_down(generation, reason, self.memory, flush_first_s=FLUSH_S)
        generation.give_up()
        self.journal.relay = None

    async def _init(self, generation: ManagedGeneration) -> None:
        """Run the init phase. Raises WaitFailed; then the requests that wait get that failure as their answer."""
        self.journal.relay = generation.relay
        begun = time.perf_counter()
        self.journal.init_started("init", self.function.runs_on)
        failure: Failure | None = None
        try:
            async with asyncio.timeout(self.settings.init_limit_s):
                await self._start_everything(generation)
        except TimeoutError:
            failure = INIT_TIMEOUT
        except WaitFailed as failed:
            failure = failed.failure
        self.journal.init_ended(generation, "init", failure, time.perf_counter() - begun)
        if failure is not None:
            self._refuse_waiting(failure)
            raise WaitFailed(failure)
        generation.relay.close_subscription()
        generation.initialised = True

    async def _start_everything(self, generation: ManagedGeneration) -> None:
        for name in self._launcher.extensions:
            await self._launcher.launch_extension(generation, name)
        await generation.until(generation.registry.all_registered)
        await self._launcher.launch_runtime(generation)
        try:
            await generation.until(generation.runtime_ready)
        except WaitFailed as failed:
            self.journal.runtime_initialised(failed.failure)
            raise
        self.journal.runtime_initialised(None)
        generation.registry.closed = True
        await generation.until(generation.registry.all_ready)

    def _refuse_waiting(self, failure: Failure) -> None:
        """Refuse the requests that wait. They get an answer, but no report, because they never began."""
        while self._waiting:
            pending = self._waiting.popleft()
            if failure is not STOPPED_FAILURE:
                pending.reply(error_answer(pending.request_id, failure))
            pending.refuse(failure)

    async def _abort(self, generation: ManagedGeneration, failure: Failure) -> None:
        """End the running requests with this failure. Their reports come before SHUTDOWN."""
        for request in list(generation.requests.values()):
            request.end(failure)
        await self._all_served()

    async def _all_served(self) -> None:
        if self._serving:
            await asyncio.wait(self._serving)

    async def _end(self) -> None:
        self._stopping = True
        await self._abort(self.generation, STOPPED_FAILURE)
        await kill_all(self.generation, self.memory)
        self.generation.give_up()
        self._refuse_waiting(STOPPED_FAILURE)
        self._idle.set()

    def _note_idle(self) -> None:
        if not self._waiting and not self._serving:
            self._idle.set()

    # --- requests -----------------------------------------------------------------------------------------------------

    async def _serve_all(self, generation: ManagedGeneration) -> None:
        """Serve requests until the stop, and wait for the running ones. Raises WaitFailed when a process dies."""
        self._note_idle()
        while True:
            await generation.until(lambda: self._stopping or self._can_serve(generation))
            if self._stopping:
                break
            request = ClaimedInvocation(self._waiting.popleft())
            task = asyncio.create_task(self._serve(generation, generation.take_worker(), request))
            self._serving.add(task)
            task.add_done_callback(self._served)
        await generation.until(lambda: not self._serving)

    def _can_serve(self, generation: ManagedGeneration) -> bool:
        return (
            generation.failure is None
            and len(generation.requests) < self._at_once
            and bool(self._waiting)
            and generation.has_idle_worker()
        )

    def _served(self, task: asyncio.Task[None]) -> None:
        self._serving.discard(task)
        if self.generation.failure is None:
            self._note_idle()
        self._wake()

    def _drain(self, generation: ManagedGeneration) -> None:
        generation.processes["runtime"].drain()
        if self._output is not None:
            self._output.drain()

    async def _serve(self, generation: ManagedGeneration, worker: Worker, request: ClaimedInvocation) -> None:
        pending = request.pending
        self._start_clock(pending)
        generation.requests[pending.request_id] = request
        self.journal.running = [each.pending for each in generation.requests.values()]
        self.journal.invocation_started(pending)
        try:
            async with asyncio.timeout(self.settings.timeout_s):
                await worker.send(pending)
                failure = await request.over()
        except TimeoutError:
            failure = self._timeout()
            generation.time_out(pending.request_id)
        ended = pending.moments.response_sent or time.perf_counter()
        if failure is not None:
            pending.reply(error_answer(pending.request_id, failure))  # the runtime's own answer, if any, was first
        self._drain(generation)  # its lines come before its report
        report = make_report(pending, failure, ended, self.settings.memory_mib, self.memory.mark())
        self.journal.invocation_ended(pending, report)
        del generation.requests[pending.request_id]
        self.journal.running = [each.pending for each in generation.requests.values()]
