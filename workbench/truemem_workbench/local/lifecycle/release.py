"""Hands an invocation to the environment's processes, and wakes a restored runtime."""

from __future__ import annotations

import time
import uuid

from aiohttp import web

from ..configuration.release_order import Lead
from ..processes.freezer import Freezer
from ..state.extension_state import Action
from ..state.generation import Generation
from ..state.invocation import Pending
from ..state.pending_next import wait_until
from ..state.runtime_state import RuntimeAction, RuntimeState


async def release(generation: Generation, pending: Pending, freezer: Freezer, lead: Lead) -> None:
    """Thaw, then send INVOKE to the extensions and the event to the runtime. All answers are prepared before the thaw.

    The lead is the time from the first send to the second: both sends take the same time to reach the kernel.
    """
    runtime = generation.runtime
    assert runtime.pending_next is not None
    extensions = [each for each in generation.registry.all() if each.gates()]
    for each in extensions:
        assert each.pending_next is not None
        each.act(Action.RELEASE)
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
    """Answer restore/next, and wait until the restored runtime asks for its first event. Raises Failed."""
    runtime = generation.runtime
    if runtime.state is RuntimeState.RESTORE_READY and runtime.pending_next is not None:
        runtime.act(RuntimeAction.RESTORE)
        await runtime.pending_next.load(web.Response())
        await runtime.pending_next.fire()
    await generation.until(generation.runtime_ready)
