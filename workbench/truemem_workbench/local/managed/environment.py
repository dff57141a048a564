"""An execution environment of Lambda Managed Instances: many requests at once, never frozen, no reset in place.

After AWS's code (RIE internal/lambda-managed-instances: rapid/handlers.go and shutdown.go, invoke/running_invoke.go).
That ends with the environment's death; the service puts another environment in its place, and so does this, when the
next request comes.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque

from ..configuration.function import Function
from ..configuration.settings import Settings
from ..errors import STOPPED, Failed, Failure
from ..lifecycle.journal import Journal
from ..lifecycle.launcher import Launcher
from ..lifecycle.shutdown import kill_all, shut_down
from ..processes.freezer import Freezer
from ..processes.memory import Memory
from ..processes.worker_output import WorkerOutput
from ..state.invocation import Pending, error_answer
from .generation import ManagedGeneration, Request, Worker
from .journal import ManagedJournal, make_report

INIT_TIMEOUT = Failure("Sandbox.Timedout", "Init timed out", "timeout")
FLUSH_S = 1.0
"""How long SHUTDOWN waits for telemetry."""


class ManagedEnvironment:
    """Created in the event loop; `run` is its main task, and each request has one more."""

    memory: Memory
    freezer: Freezer

    def __init__(
        self,
        function: Function,
        settings: Settings,
        *,
        launcher: Launcher,
        journal: ManagedJournal,
        output: WorkerOutput | None,
    ) -> None:
        self.function = function
        self.settings = settings
        self.journal: Journal = journal
        self.generation = ManagedGeneration(list(launcher.extensions))
        self._at_once = settings.managed_instances or 1
        self._journal = journal
        self._launcher = launcher
        self._output = output
        self._waiting: deque[Pending] = deque()
        self._serving: set[asyncio.Task[None]] = set()
        self._at_rest = asyncio.Event()
        self._wake = asyncio.Event()
        self._stopping = False
        self._reason = "spindown"

    def equip(self, memory: Memory, freezer: Freezer) -> None:
        """Once, before `run`. Nothing here is ever frozen."""
        self.memory = self._launcher.memory = memory
        self.freezer = self._launcher.freezer = freezer

    def roots(self) -> dict[str, int]:
        """Live processes by name: `runtime`, `extension:NAME`. Workers are the runtime's children."""
        return self.generation.roots()

    # --- for the Invoke API and the session ---------------------------------------------------------------------------

    def submit(self, pending: Pending) -> None:
        """Queue a request: it waits for an idle worker."""
        if self._stopping:
            pending.refuse(STOPPED)
            return
        self._at_rest.clear()
        self._waiting.append(pending)
        self._notify()

    async def settle(self) -> None:
        """Wait until nothing runs and nothing waits: all reports are made. Nothing is frozen then either."""
        await self._at_rest.wait()

    def stop(self, reason: str, *, abort: bool) -> None:
        """Make `run` end: after the requests that are running, or with `abort` in the midst of them."""
        self._stopping = True
        self._reason = reason
        if abort or not self.generation.initialised:
            self.generation.fail(STOPPED)
        self._notify()

    def _notify(self) -> None:
        self._wake.set()
        self.generation.notify()

    # --- the life of the environment, and of those after it -----------------------------------------------------------

    async def run(self) -> None:
        try:
            await self._live()
            while not self._stopping:
                self._rest()
                self._wake.clear()
                if not self._waiting:
                    await self._wake.wait()
                    continue
                self._renew()
                await self._live()
        finally:
            await self._end()

    def _renew(self) -> None:
        """A new environment: no process, no registration, no file in /tmp, no log stream and no mark is shared."""
        self.journal.renew()
        self.memory.forget()
        self._launcher.renew(self.journal.log_stream)
        self.generation = ManagedGeneration(list(self._launcher.extensions))

    async def _live(self) -> None:
        """One environment from its init to its SHUTDOWN."""
        generation = self.generation
        try:
            await self._init(generation)
            await self._serve_all(generation)
            reason = self._reason
        except Failed as failed:
            reason = self._reason if failed.failure is STOPPED else "failure"
            await self._abort(generation, failed.failure)
        await shut_down(generation, reason, self.memory, flush_first_s=FLUSH_S)
        generation.give_up()
        self.journal.relay = None

    async def _init(self, generation: ManagedGeneration) -> None:
        """Raises Failed: then whoever waits for this environment gets its failure for an answer."""
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
            self._journal.runtime_initialised(failed.failure)
            raise
        self._journal.runtime_initialised(None)
        generation.registry.closed = True
        await generation.until(generation.registry.all_ready)

    def _refuse_waiting(self, failure: Failure) -> None:
        """They never began: there is an answer, and no report."""
        while self._waiting:
            pending = self._waiting.popleft()
            if failure is not STOPPED:
                pending.reply(error_answer(pending.request_id, failure))
            pending.refuse(failure)

    async def _abort(self, generation: ManagedGeneration, failure: Failure) -> None:
        """The running requests end with the environment; their reports are told before its SHUTDOWN."""
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
        self._at_rest.set()

    def _rest(self) -> None:
        if not self._waiting and not self._serving:
            self._at_rest.set()

    # --- requests -----------------------------------------------------------------------------------------------------

    async def _serve_all(self, generation: ManagedGeneration) -> None:
        """Raises Failed when a process dies; returns when it is time to stop, and nothing runs any more."""
        self._rest()
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
            self._rest()
        self._notify()

    def _drain(self, generation: ManagedGeneration) -> None:
        generation.processes["runtime"].drain()
        if self._output is not None:
            self._output.drain()

    async def _serve(self, generation: ManagedGeneration, worker: Worker, request: Request) -> None:
        pending = request.pending
        limit = self.settings.timeout_s
        pending.deadline_ms = int((time.time() + limit) * 1000)
        pending.moments.released = time.perf_counter()
        generation.requests[pending.request_id] = request
        self._journal.running = [each.pending for each in generation.requests.values()]
        self.journal.invocation_started(pending)
        try:
            async with asyncio.timeout(limit):
                await worker.send(pending)
                failure = await request.over()
        except TimeoutError:
            failure = Failure("Sandbox.Timedout", f"Task timed out after {limit:.2f} seconds", "timeout")
            generation.time_out(pending.request_id)
        ended = pending.moments.response_sent or time.perf_counter()
        if failure is not None:
            pending.reply(error_answer(pending.request_id, failure))  # the runtime's own answer, if any, was first
        self._drain(generation)  # its lines come before its report
        report = make_report(pending, failure, ended, self.settings.memory_mib, self.memory.mark())
        self._journal.invocation_ended(pending, report)
        del generation.requests[pending.request_id]
        self._journal.running = [each.pending for each in generation.requests.values()]
