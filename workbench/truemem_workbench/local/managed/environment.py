"""An execution environment of Lambda Managed Instances: it serves many requests at once, never freezes, and is not
reset.

It follows AWS's code (RIE internal/lambda-managed-instances: rapid/handlers.go and shutdown.go,
invoke/running_invoke.go). When an environment fails, that code ends; the service then starts another environment. Here
the next request starts it.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque

from ..configuration.function import Function
from ..configuration.settings import Settings
from ..errors import STOPPED, Failed, Failure
from ..lifecycle.launcher import Launcher
from ..lifecycle.serving import INIT_TIMEOUT, Serving
from ..lifecycle.shutdown import kill_all, shut_down
from ..processes.worker_output import WorkerOutput
from ..state.invocation import Pending, error_answer
from .generation import ManagedGeneration, Request, Worker
from .journal import ManagedJournal, make_report

FLUSH_S = 1.0
"""How long SHUTDOWN waits for the delivery of telemetry."""


class ManagedEnvironment(Serving):
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
        self._waiting: deque[Pending] = deque()
        self._serving: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()

    def _enqueue(self, pending: Pending) -> None:
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
        except Failed as failed:
            reason = self._stop_reason if failed.failure is STOPPED else "failure"
            await self._abort(generation, failed.failure)
        await shut_down(generation, reason, self.memory, flush_first_s=FLUSH_S)
        generation.give_up()
        self.journal.relay = None

    async def _init(self, generation: ManagedGeneration) -> None:
        """Run the init phase. Raises Failed; then the requests that wait get that failure as their answer."""
        self.journal.relay = generation.relay
        begun = time.perf_counter()
        self.journal.init_started("init", self.function.runtime)
        failure: Failure | None = None
        try:
            async with asyncio.timeout(self.settings.init_limit_s):
                await self._start_everything(generation)
        except TimeoutError:
            failure = INIT_TIMEOUT
        except Failed as failed:
            failure = failed.failure
        self.journal.init_ended(generation, "init", failure, time.perf_counter() - begun)
        if failure is not None:
            self._refuse_waiting(failure)
            raise Failed(failure)
        generation.relay.close_subscription()
        generation.initialised = True

    async def _start_everything(self, generation: ManagedGeneration) -> None:
        for name in self._launcher.extensions:
            self._launcher.launch_extension(generation, name)
        await generation.until(generation.registry.all_registered)
        self._launcher.launch_runtime(generation)
        try:
            await generation.until(generation.runtime_ready)
        except Failed as failed:
            self.journal.runtime_initialised(failed.failure)
            raise
        self.journal.runtime_initialised(None)
        generation.registry.closed = True
        await generation.until(generation.registry.all_ready)

    def _refuse_waiting(self, failure: Failure) -> None:
        """Refuse the requests that wait. They get an answer, but no report, because they never began."""
        while self._waiting:
            pending = self._waiting.popleft()
            if failure is not STOPPED:
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
        await self._abort(self.generation, STOPPED)
        await kill_all(self.generation, self.memory)
        self.generation.give_up()
        self._refuse_waiting(STOPPED)
        self._idle.set()

    def _note_idle(self) -> None:
        if not self._waiting and not self._serving:
            self._idle.set()

    # --- requests -----------------------------------------------------------------------------------------------------

    async def _serve_all(self, generation: ManagedGeneration) -> None:
        """Serve requests until the stop, and wait for the running ones. Raises Failed when a process dies."""
        self._note_idle()
        while True:
            await generation.until(lambda: self._stopping or self._can_serve(generation))
            if self._stopping:
                break
            request = Request(self._waiting.popleft())
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

    async def _serve(self, generation: ManagedGeneration, worker: Worker, request: Request) -> None:
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
