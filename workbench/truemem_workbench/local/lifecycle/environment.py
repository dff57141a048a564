"""The execution environment: init, invoke, freeze, reset, shutdown.

One task does all of it in turn, because an environment serves one invocation at a time. A second invocation waits; the
real service would start a second environment for it.

The order of steps is that of AWS's own code (RIE rapid/handlers.go): doRuntimeDomainInit, doInvoke, handleReset. One
thing differs: if an extension fails an invocation after its runtime is done, runtimeDone is sent once, not twice.
"""

from __future__ import annotations

import asyncio
import time
from random import Random
from typing import Any, Literal

from ..configuration.function import Function
from ..configuration.release_order import lead
from ..configuration.settings import Settings
from ..errors import STOPPED, Failed, Failure
from ..state.generation import Generation
from ..state.hold import Hold
from ..state.invocation import Pending, error_answer
from ..telemetry import events
from .journal import Journal
from .launcher import Launcher
from .release import release, resume_runtime
from .serving import INIT_TIMEOUT, Serving
from .shutdown import kill_all, shut_down

Phase = Literal["init", "snap-start", "invoke"]
SPINDOWN = Failure("Sandbox.Failure", "The environment is not needed any more", "spindown")
RESTORE_TIMEOUT = Failure("Sandbox.Timedout", "Restore timed out", "timeout")
RESTORE_S = 10.0
"""Time limit of the runtime's hooks after a SnapStart restore."""


class Environment(Serving):
    """An environment that serves one invocation at a time, in the one task `run`."""

    def __init__(
        self, function: Function, settings: Settings, *, launcher: Launcher, journal: Journal, hold: Hold
    ) -> None:
        super().__init__(function, settings, launcher, journal)
        self.generation = Generation(list(launcher.extensions))
        self._queue: asyncio.Queue[Pending | None] = asyncio.Queue()
        self.hold = hold
        self._init_s: float | None = None
        self._restore_s: float | None = None
        self._snapshot = False
        """True from the snapshot until its restore."""
        self._tenant: str | None = None
        self._used = False
        self._chance = Random()
        self._spans: list[dict[str, Any]] = []

    def _enqueue(self, pending: Pending) -> None:
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
        self.freezer.thaw()
        await kill_all(self.generation, self.memory)
        self.generation.give_up()
        waiting = [self.journal.current]
        while not self._queue.empty():
            waiting.append(self._queue.get_nowait())
        for pending in waiting:
            if pending is not None:
                pending.refuse(STOPPED)
        self._idle.set()

    async def _first_init(self) -> None:
        """Run the first init. If it fails, no caller sees that: the first invocation repeats init."""
        kind = self.settings.initialization
        try:
            async with asyncio.timeout(self.settings.init_limit_s):
                taken = await self._init("snap-start" if kind == "snap-start" else "init")
            self._init_s = taken if kind == "on-demand" else None
            self._snapshot = kind == "snap-start"
            await self._freeze()
        except TimeoutError:
            await self._reset(INIT_TIMEOUT)
        except Failed as failed:
            if not self._stopping:
                await self._reset(failed.failure)

    async def _init(self, phase: Phase) -> float:
        """Start all processes. Returns the duration in seconds. Raises Failed; the caller limits the time."""
        generation = self.generation
        self.freezer.thaw()  # a process that joins a frozen group is frozen
        self.journal.relay = generation.relay
        begun = time.perf_counter()
        self.journal.init_started(phase, self.function.runtime)
        failure: Failure | None = None
        try:
            await self._launcher.start_all(generation)
        except asyncio.CancelledError:
            failure = INIT_TIMEOUT
            raise
        except Failed as failed:
            failure = failed.failure
            raise
        finally:
            taken = time.perf_counter() - begun
            self.journal.init_ended(generation, phase, failure, taken)
        generation.relay.close_subscription()
        generation.initialised = True
        return taken

    async def _freeze(self) -> None:
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
        generation.relay.tell_init_again()
        self.journal.restore_started(self.function.runtime)
        begun = time.perf_counter()
        self.freezer.thaw()
        generation.relay.resume()
        try:
            async with asyncio.timeout(RESTORE_S):
                await resume_runtime(generation)
        except TimeoutError:
            generation.fail(RESTORE_TIMEOUT)
        except Failed:
            pass  # the generation has it
        self._restore_s = time.perf_counter() - begun
        self.journal.restore_ended(generation.failure, self._restore_s)

    # --- one invocation -----------------------------------------------------------------------------------------------

    async def _serve(self, pending: Pending) -> None:
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
        except Failed as failed:
            failure = failed.failure
        taken = time.perf_counter() - begun
        if failure is None:
            await self._freeze()
        else:
            await self._fail(pending, failure)
        self._report(pending, failure, taken)
        self.journal.current = None

    async def _invoke(self, pending: Pending) -> None:
        try:
            if not self.generation.initialised:
                await self._init("invoke")
                await resume_runtime(self.generation)
        finally:
            self.journal.invocation_started(pending)
        generation = self.generation
        if generation.failure is not None:
            raise Failed(generation.failure)  # something died between the invocations: this one pays
        await release(generation, pending, self.freezer, lead(self.settings.release, self._chance))
        await generation.until(generation.runtime_ready)
        generation.processes["runtime"].drain()  # its lines come before its end
        runtime_done = self.journal.runtime_done(pending, None)
        await generation.until(generation.registry.invocation_over)
        if generation.registry.all():
            self._spans = [self.journal.extension_overhead(runtime_done)]

    async def _fail(self, pending: Pending, failure: Failure) -> None:
        """Answer the caller at once, then reset the environment."""
        pending.reply(error_answer(pending.request_id, failure))
        if failure.reason == "timeout":
            self.journal.timed_out(pending, failure)
        if pending.moments.runtime_done is None:
            self.journal.runtime_done(pending, failure)
        await self._reset(failure)

    def _report(self, pending: Pending, failure: Failure | None, taken: float) -> None:
        memory = self.settings.memory_mib
        report = events.make_report(
            pending.request_id, failure, taken, self._init_s, memory, self.memory.mark(), self._restore_s
        )
        self._init_s = self._restore_s = None
        self.journal.invocation_ended(pending, report, self._spans)
