"""The execution environment: init, invoke, freeze, reset, shutdown.

One task does all of it in turn, because an environment serves one invocation at a time. A second invocation waits: it
is `scaling` that gives it to another environment.

The order of steps is that of AWS's own code (RIE rapid/handlers.go): doRuntimeDomainInit, doInvoke, handleReset. One
thing differs: if an extension fails an invocation after its runtime is done, runtimeDone is sent once, not twice.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from abc import ABC, abstractmethod
from random import Random
from typing import Any, Literal

from aiohttp import web

from ..configuration.function import Function
from ..configuration.settings import Lead, Settings, release_lead
from ..errors import STOPPED_FAILURE, Failure, WaitFailed
from ..processes.cpu import Cpu
from ..processes.freezer import Freezer
from ..processes.memory import Memory
from . import events
from .generation import ExtensionAction, Generation, Hold, RuntimeAction, RuntimeState, wait_until
from .invocation import PendingInvocation, error_answer
from .journal import EnvironmentJournal
from .launcher import Launcher, kill_all, shut_down

INIT_TIMEOUT = Failure("Sandbox.Timedout", "Init timed out", "timeout")


class ExecutionEnvironment(ABC):
    """An execution environment. Create it in the event loop; `run` is its main task."""

    memory: Memory
    cpu: Cpu
    freezer: Freezer
    generation: Generation

    def __init__(self, function: Function, settings: Settings, launcher: Launcher, journal: EnvironmentJournal) -> None:
        self.function = function
        self.settings = settings
        self.journal = journal
        self._launcher = launcher
        self._idle = asyncio.Event()
        self._stopping = False
        self._stop_reason = "spindown"

    def equip(self, memory: Memory, cpu: Cpu, freezer: Freezer) -> None:
        """Set memory, CPU and freezer, once, before `run`. They are made after the environment: they ask for its
        `roots`."""
        self.memory = self._launcher.memory = memory
        self.cpu = self._launcher.cpu = cpu
        self.freezer = self._launcher.freezer = freezer

    @property
    def is_initialised(self) -> bool:
        """True if the next request waits for no init."""
        return self.generation.initialised and self.generation.shutdown_event is None

    def roots(self) -> dict[str, int]:
        """Live processes by name: `runtime`, `extension:NAME`."""
        return self.generation.roots()

    def submit(self, pending: PendingInvocation) -> None:
        """Queue an invocation. Its `answer` is set when the runtime posts it, its `report` at its end."""
        if self._stopping:
            pending.refuse(STOPPED_FAILURE)
            return
        self._idle.clear()
        self._enqueue(pending)

    async def settle(self) -> None:
        """Wait until no invocation runs or waits, and all reports are made."""
        await self._idle.wait()

    def stop(self, reason: str, *, abort: bool) -> None:
        """Make `run` end: after the running invocations, or at once with `abort`."""
        self._stopping = True
        self._stop_reason = reason
        if abort or not self.generation.initialised:
            self.generation.fail(STOPPED_FAILURE)
        self._wake()

    @abstractmethod
    async def run(self) -> None:
        """Serve from the first init to the last shutdown. Cleans up also if it is cancelled or fails."""

    @abstractmethod
    def _enqueue(self, pending: PendingInvocation) -> None: ...

    @abstractmethod
    def _wake(self) -> None:
        """End the wait for the next invocation."""

    def _start_clock(self, pending: PendingInvocation) -> float:
        """The invocation begins now: sets its deadline. Returns the time, by perf_counter."""
        pending.deadline_ms = int((time.time() + self.settings.timeout_s) * 1000)
        pending.moments.released = time.perf_counter()
        return pending.moments.released

    def _timeout(self) -> Failure:
        return Failure("Sandbox.Timedout", f"Task timed out after {self.settings.timeout_s:.2f} seconds", "timeout")


async def release(generation: Generation, pending: PendingInvocation, freezer: Freezer, lead: Lead) -> None:
    """Thaw, then send INVOKE to the extensions and the event to the runtime. All answers are prepared before the thaw.

    The lead is the time from the first send to the second: both sends take the same time to reach the kernel.
    """
    runtime = generation.runtime
    assert runtime.pending_next is not None
    extensions = [each for each in generation.registry.all() if each.gates()]
    for each in extensions:
        assert each.pending_next is not None
        each.act(ExtensionAction.RELEASE)
        headers = {
            "Content-Type": "application/json",
            "Lambda-Extension-Event-Identifier": str(uuid.uuid4()),
        }
        await each.pending_next.load(web.Response(body=pending.extension_event(), headers=headers))
    runtime.act(RuntimeAction.RELEASE)
    runtime.current = pending
    await runtime.pending_next.load(web.Response(body=pending.payload, headers=pending.runtime_headers()))

    async def to_runtime() -> None:
        assert runtime.pending_next is not None
        pending.moments.released = time.perf_counter()
        await runtime.pending_next.fire()

    async def to_extensions() -> None:
        for each in extensions:
            assert each.pending_next is not None
            await each.pending_next.fire()

    first, second = (to_runtime, to_extensions) if lead.runtime_first else (to_extensions, to_runtime)
    freezer.thaw()
    begun = time.perf_counter()
    await first()
    if extensions:
        await wait_until(begun + lead.us / 1e6)
    await second()
    generation.relay.resume()


async def resume_runtime(generation: Generation) -> None:
    """Answer restore/next, and wait until the restored runtime asks for its first event. Raises WaitFailed."""
    runtime = generation.runtime
    if runtime.state is RuntimeState.RESTORE_READY and runtime.pending_next is not None:
        runtime.act(RuntimeAction.RESTORE)
        await runtime.pending_next.load(web.Response())
        await runtime.pending_next.fire()
    await generation.until(generation.runtime_ready)


Phase = Literal["init", "snap-start", "invoke"]
SPINDOWN = Failure("Sandbox.Failure", "The environment is not needed any more", "spindown")
RESTORE_TIMEOUT = Failure("Sandbox.Timedout", "Restore timed out", "timeout")
RESTORE_S = 10.0  # time limit of the runtime's hooks after a SnapStart restore


class OnDemandEnvironment(ExecutionEnvironment):
    """An environment that serves one invocation at a time, in the one task `run`."""

    def __init__(
        self, function: Function, settings: Settings, *, launcher: Launcher, journal: EnvironmentJournal, hold: Hold
    ) -> None:
        super().__init__(function, settings, launcher, journal)
        self.generation = Generation(list(launcher.extensions))
        self._queue: asyncio.Queue[PendingInvocation | None] = asyncio.Queue()
        self.hold = hold
        self._init_s: float | None = None
        self._restore_s: float | None = None
        self._snapshot = False
        """True from the snapshot until its restore."""
        self._tenant: str | None = None
        self._used = False
        self._chance = Random()
        self._spans: list[dict[str, Any]] = []

    def _enqueue(self, pending: PendingInvocation) -> None:
        self._queue.put_nowait(pending)

    def _wake(self) -> None:
        self._queue.put_nowait(None)

    # --- the life of the environment ----------------------------------------------------------------------------------

    async def run(self) -> None:
        try:
            await self._first_init()
            while not self._stopping:
                if self._queue.empty():
                    self._idle.set()
                pending = await self._queue.get()
                if pending is None:
                    break
                await self._serve(pending)
            self.freezer.thaw()
            await shut_down(self.generation, self._stop_reason, self.memory)
        finally:
            await self._end()

    async def _end(self) -> None:
        self._stopping = True
        try:
            self.freezer.thaw()
            await kill_all(self.generation, self.memory)
            self.generation.give_up()
        finally:  # no caller waits for ever, whatever failed
            waiting = [self.journal.current]
            while not self._queue.empty():
                waiting.append(self._queue.get_nowait())
            for pending in waiting:
                if pending is not None:
                    pending.refuse(STOPPED_FAILURE)
            self._idle.set()

    async def _first_init(self) -> None:
        """Run the first init. If it fails, no caller sees that: the first invocation repeats init."""
        kind = self.settings.initialization
        try:
            async with asyncio.timeout(self.settings.init_limit_s):
                taken = await self._init("snap-start" if kind == "snap-start" else "init")
            self._init_s = taken if kind == "on-demand" else None
            self._snapshot = kind == "snap-start"
            await self.freeze()
        except TimeoutError:
            await self._reset(INIT_TIMEOUT)
        except WaitFailed as failed:
            if not self._stopping:
                await self._reset(failed.failure)

    async def _init(self, phase: Phase) -> float:
        """Start all processes. Returns the duration in seconds. Raises WaitFailed; the caller limits the time.

        Init on demand is not throttled at any memory size; with provisioned concurrency it is (AWS's guide "Effectively
        running Java on Serverless", datadog-lambda-extension#700). Not known, and throttled here: init for SnapStart,
        and an init that is repeated in an invocation.
        """
        generation = self.generation
        self.freezer.thaw()  # a process that joins a frozen group is frozen
        if phase == "init" and self.settings.initialization == "on-demand":
            self.cpu.unthrottle()
        self.journal.relay = generation.relay
        begun = time.perf_counter()
        self.journal.init_started(phase, self.function.runs_on)
        failure: Failure | None = None
        try:
            await self._launcher.start_all(generation)
        except asyncio.CancelledError:
            failure = INIT_TIMEOUT
            raise
        except WaitFailed as failed:
            failure = failed.failure
            raise
        finally:
            taken = time.perf_counter() - begun
            self.cpu.throttle()
            self.journal.init_ended(generation, phase, failure, taken)
        generation.relay.close_subscription()
        generation.initialised = True
        return taken

    async def thaw(self) -> None:
        """Let all processes run between two invocations."""
        self.freezer.thaw()

    async def freeze(self) -> None:
        """Freeze all processes, as Lambda does between two invocations."""
        self.generation.relay.pause()
        if not await self.freezer.freeze():
            self.journal.say("truemem local: a process would not freeze within 2 s and was left running")
        for process in self.generation.processes.values():
            process.drain()

    async def _reset(self, failure: Failure) -> None:
        """Shut the processes down. /tmp and the high-water mark stay, and the next invocation repeats init."""
        self.freezer.thaw()
        self.generation.relay.resume(flush=True)
        await shut_down(self.generation, failure.reason, self.memory)
        self.generation.give_up()
        self.journal.relay = None
        self.journal.reset(failure)
        self.generation = Generation(list(self._launcher.extensions))

    async def _replace(self) -> None:
        """End this environment and start another one for another tenant. Here only one runs at a time."""
        await self._reset(SPINDOWN)
        self._renew()
        self._launcher.renew(self.journal.log_stream)
        await self._first_init()

    def _renew(self) -> None:
        """Take the identity of another environment: a new log stream and a new high-water mark."""
        self.journal.renew()
        self.memory.forget()

    async def _restore(self) -> None:
        """Restore the snapshot. If that fails, the generation keeps the failure, and the invocation ends with it."""
        generation = self.generation
        self._snapshot = False
        self._renew()
        generation.relay.resend_init()
        self.journal.restore_started(self.function.runs_on)
        begun = time.perf_counter()
        self.freezer.thaw()
        generation.relay.resume()
        try:
            async with asyncio.timeout(RESTORE_S):
                await resume_runtime(generation)
        except TimeoutError:
            generation.fail(RESTORE_TIMEOUT)
        except WaitFailed:
            pass  # the generation has it
        self._restore_s = time.perf_counter() - begun
        self.journal.restore_ended(generation.failure, self._restore_s)

    # --- one invocation -----------------------------------------------------------------------------------------------

    async def _serve(self, pending: PendingInvocation) -> None:
        self.journal.current = pending
        self._spans = []
        if self._used and pending.tenant_id != self._tenant:
            await self._replace()
        self._tenant, self._used = pending.tenant_id, True
        if self._snapshot:
            await self._restore()
        begun = self._start_clock(pending)
        failure: Failure | None = None
        try:
            async with asyncio.timeout(self.settings.timeout_s):
                await self._invoke(pending)
        except TimeoutError:
            failure = self._timeout()
        except WaitFailed as failed:
            failure = failed.failure
        taken = time.perf_counter() - begun
        if failure is None:
            await self.freeze()
        else:
            await self._fail(pending, failure)
        self._report(pending, failure, taken)
        self.journal.current = None

    async def _invoke(self, pending: PendingInvocation) -> None:
        try:
            if not self.generation.initialised:
                await self._init("invoke")
                await resume_runtime(self.generation)
        finally:
            self.journal.invocation_started(pending)
        generation = self.generation
        if generation.failure is not None:
            raise WaitFailed(generation.failure)  # something died between the invocations: this one pays
        await release(generation, pending, self.freezer, release_lead(self.settings.release, self._chance))
        await generation.until(generation.runtime_ready)
        generation.processes["runtime"].drain()  # its lines come before its end
        runtime_done = self.journal.runtime_done(pending, None)
        await generation.until(generation.registry.invocation_over)
        if generation.registry.all():
            self._spans = [self.journal.extension_overhead(runtime_done)]

    async def _fail(self, pending: PendingInvocation, failure: Failure) -> None:
        """Answer the caller at once, then reset the environment."""
        pending.reply(error_answer(pending.request_id, failure))
        if failure.reason == "timeout":
            self.journal.timed_out(pending, failure)
        if pending.moments.runtime_done is None:
            self.journal.runtime_done(pending, failure)
        await self._reset(failure)

    def _report(self, pending: PendingInvocation, failure: Failure | None, taken: float) -> None:
        memory = self.settings.memory_mib
        report = events.make_report(
            pending.request_id, failure, taken, self._init_s, memory, self.memory.mark(), self._restore_s
        )
        self._init_s = self._restore_s = None
        self.journal.invocation_ended(pending, report, self._spans)
