"""Runs a command of truemem as a child process. The tools print what a terminal would show: one answer, one place."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import anyio
from anyio.abc import Process

from ..support.exit_codes import CLEANUP_S, ENDING
from ..support.terminal import PROGRESS_FILE

TELL_S = 2.0
"""Time between two notices of progress. A client gives up a call after a minute without one."""
GRACE_S = CLEANUP_S + 2
"""Time to end after SIGTERM. The command ends its local Lambda, and itself after CLEANUP_S."""


_running: set[Process] = set()


def progress_words(seconds: float, written: str) -> str:
    """The phase, its count and the seconds so far. `written`: what the command wrote last, `{"phase": "invoking",
    "done": 120, "of": 400}`; may be empty."""
    try:
        told = json.loads(written)
        phase, done, of = str(told["phase"]), float(told.get("done") or 0), float(told.get("of") or 0)
    except (ValueError, KeyError, TypeError, AttributeError):
        phase, done, of = "", 0.0, 0.0
    count = f", {done:,.0f} of {of:,.0f}" if of else f", {done:,.0f}" if done else ""
    return f"{phase or 'starting'}{count}, {seconds:,.0f} s"


class ChildResult(NamedTuple):
    code: int
    """Exit code; negative: the signal that ended it."""
    out: str
    err: str


Tell = Callable[[float, str], Awaitable[None]]
"""Is called with the seconds so far, and how far that is in words."""


async def run(words: Sequence[str], tell: Tell) -> ChildResult:
    """Run `truemem` with these words, and call `tell` while it runs. If it is cancelled, the command gets
    SIGTERM and ends what it has begun; on Linux also if this process is killed. Raises ValueError or OSError for words
    that no process can have."""
    # -P: a module in the project's folder must not replace one of ours
    command = [sys.executable, "-P", "-m", f"{__package__}.beside", str(os.getpid()), *words]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, tempfile.TemporaryDirectory() as folder:
        counted = Path(folder, "progress.json")
        given = {**os.environ, PROGRESS_FILE: str(counted)}
        process = await anyio.open_process(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=given)
        _running.add(process)
        async with anyio.create_task_group() as group:
            group.start_soon(_tell, tell, counted)
            try:
                code = await process.wait()
            finally:
                await _end(process)
                _running.discard(process)
            group.cancel_scope.cancel()
        out.seek(0)
        err.seek(0)
        return ChildResult(code, out.read().decode(errors="replace"), err.read().decode(errors="replace"))


async def end_at_a_signal() -> None:
    """Wait for Ctrl-C, SIGTERM, SIGHUP or SIGQUIT; then end all commands that run, and this process. Nothing else can
    end it: a thread waits for the next line of standard input."""
    with anyio.open_signal_receiver(*ENDING) as signals:
        async for number in signals:
            async with anyio.create_task_group() as group:
                for process in _running:
                    group.start_soon(_end, process)
            os._exit(128 + number)


async def _tell(tell: Tell, counted: Path) -> None:
    begun = anyio.current_time()
    while True:
        try:
            written = counted.read_text()
        except OSError:  # not yet
            written = ""
        seconds = anyio.current_time() - begun
        await tell(seconds, progress_words(seconds, written))
        await anyio.sleep(TELL_S)


async def _end(process: Process) -> None:
    """End it, and wait until it has ended, although this task is cancelled."""
    if process.returncode is not None:
        return
    with anyio.CancelScope(shield=True), suppress(ProcessLookupError):
        process.terminate()
        with anyio.move_on_after(GRACE_S):
            await process.wait()
        if process.returncode is None:
            process.kill()
            await process.wait()
