"""Ends a generation of processes: spindown, failure or timeout (RIE rapid/shutdown.go)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import time

from aiohttp import web

from ..processes.memory import Memory, tree
from ..state.extension_state import Action, State
from ..state.generation import Generation
from ..state.registry import Extension

WINDOW_EXTERNAL_S = 2.0
WINDOW_INTERNAL_S = 0.5
RUNTIME_SHARE = 0.3
"""Share of the shutdown time that the runtime has to end after SIGTERM."""
REAP_S = 5.0
"""Time for the kernel to end killed processes. Only an uninterruptible wait takes that long."""


def window(generation: Generation) -> float:
    """Seconds for the shutdown: 2 with an external extension, 0.5 with internal ones only, 0 with none."""
    if generation.registry.external():
        return WINDOW_EXTERNAL_S
    return WINDOW_INTERNAL_S if generation.registry.all() else 0.0


async def shut_down(generation: Generation, reason: str, memory: Memory, *, flush_first_s: float = 0) -> None:
    """End all processes: SIGTERM to the runtime, SHUTDOWN to the extensions, then SIGKILL. All processes must be
    thawed.

    With `flush_first_s`, SHUTDOWN waits that long for the delivery of telemetry, as on Managed Instances.
    """
    loop = asyncio.get_running_loop()
    total = window(generation)
    deadline = loop.time() + total
    event = {
        "eventType": "SHUTDOWN",
        "deadlineMs": int((time.time() + total) * 1000),
        "shutdownReason": reason,
    }
    generation.shutdown_event = json.dumps(event, separators=(",", ":")).encode()

    await _stop_runtime(generation, total)
    if flush_first_s:
        await generation.relay.flush(flush_first_s)
    for extension in generation.registry.external():
        await _notify(generation, extension)
    generation.relay.resume(flush=True)
    await _exits(generation, deadline - loop.time())
    for extension in generation.registry.external():
        _note_exit(generation, extension)
    await kill_all(generation, memory)


async def _stop_runtime(generation: Generation, total: float) -> None:
    runtime = generation.processes.get("runtime")
    if runtime is None:
        return
    if total and runtime.alive:
        runtime.signal_group(signal.SIGTERM)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(runtime.exited), total * RUNTIME_SHARE)
    runtime.signal_group(signal.SIGKILL)


async def _notify(generation: Generation, extension: Extension) -> None:
    """Send SHUTDOWN if the extension asked for it, else SIGKILL. An external extension never gets SIGTERM."""
    process = generation.processes.get(f"extension:{extension.name}")
    if process is None or not process.alive:
        return
    if "SHUTDOWN" not in extension.events:
        process.signal_group(signal.SIGKILL)
    elif extension.state is State.READY and extension.pending_next is not None:
        assert generation.shutdown_event is not None
        extension.act(Action.RELEASE)
        await extension.pending_next.load(shutdown_response(generation.shutdown_event))
        await extension.pending_next.fire()


def shutdown_response(event: bytes) -> web.Response:
    """Make the answer with SHUTDOWN: only a body, without an event id, and with Go's content type, as in AWS's code."""
    return web.Response(body=event, headers={"Content-Type": "text/plain; charset=utf-8"})


async def _exits(generation: Generation, within_s: float) -> bool:
    waiting = [process.exited for process in generation.processes.values() if process.alive]
    if not waiting:
        return True
    _, late = await asyncio.wait(waiting, timeout=max(0.0, within_s))
    return not late


def _note_exit(generation: Generation, extension: Extension) -> None:
    process = generation.processes.get(f"extension:{extension.name}")
    if process is None or extension.state is not State.RUNNING:
        return
    clean = process.exited.done() and process.exited.result() == 0
    extension.act(Action.EXIT_CLEAN if clean else Action.EXIT_DIRTY)


async def kill_all(generation: Generation, memory: Memory) -> None:
    """Send SIGKILL to every process of the environment, also to those that left their group or lost their parent."""
    known = tree(generation.roots().values())
    for process in generation.processes.values():
        process.signal_group(signal.SIGKILL)
    end = time.monotonic() + REAP_S
    while pids := [pid for pid in {*known, *memory.pids()} if pid > 1]:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        known = set()
        if time.monotonic() > end:
            break
        await asyncio.sleep(0.002)
    await _exits(generation, REAP_S)
