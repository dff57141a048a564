"""Handing an invocation to the environment."""

from __future__ import annotations

import time
import uuid

from aiohttp import web

from .extension_state import Action
from .freezer import Freezer
from .generation import Generation
from .invocation import Pending
from .parking import wait_until
from .runtime_state import RuntimeAction


async def release(generation: Generation, pending: Pending, freezer: Freezer, lead_us: int) -> None:
    """Thaw, then INVOKE to the extensions, then the event to the runtime. Each answer is ready before the thaw."""
    runtime = generation.runtime
    assert runtime.parked is not None
    extensions = [each for each in generation.registry.all() if each.gates()]
    for each in extensions:
        assert each.parked is not None
        each.act(Action.RELEASE)
        headers = {
            "Content-Type": "application/json",
            "Lambda-Extension-Event-Identifier": str(uuid.uuid4()),
        }
        await each.parked.load(web.Response(body=pending.extension_event(), headers=headers))
    runtime.act(RuntimeAction.RELEASE)
    runtime.current = pending
    await runtime.parked.load(web.Response(body=pending.payload, headers=pending.runtime_headers()))

    freezer.thaw()
    for each in extensions:
        assert each.parked is not None
        await each.parked.fire()
    if extensions and lead_us:
        await wait_until(time.perf_counter() + lead_us / 1e6)
    pending.moments.released = time.perf_counter()
    await runtime.parked.fire()
    generation.relay.resume()
