"""Starts real processes, reads their output line by line, and reports their exit."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from io import RawIOBase
from pathlib import Path
from typing import IO

from .user import User

# The process waits for a line before its first own instruction: by then we have put it into its cgroups. A preexec_fn
# would do the same and is not safe in a process with threads. `env -i` because a shell exports variables of its own.
# The limit of open files stays lower if this process itself may not open so many.
_GATE = 'ulimit -n "$0" 2>/dev/null; read -r _ && exec "$@" </dev/null'
LAUNCHER = "env"
NOT_PERMITTED, NOT_FOUND = 126, 127
"""Exit codes of the launcher for a command that it could not execute. The command itself may use the same codes."""

LineSink = Callable[[str, str], None]
"""Gets (stream, text): one line of `stdout` or `stderr`, without its newline."""

PIPE_SIZE = 65_536
LONGEST_LINE = 262_118  # 2^18 - 26: where CloudWatch splits a log event


class Process:
    """One child process, an extension or the runtime. It leads its own process group."""

    def __init__(self, popen: subprocess.Popen[bytes], on_line: LineSink, on_exit: Callable[[int], None]) -> None:
        self._popen = popen
        self._on_exit = on_exit
        self._loop = asyncio.get_running_loop()
        self.pid = popen.pid
        self.exited: asyncio.Future[int] = self._loop.create_future()
        """The exit code, or minus the number of the signal that ended the process."""
        self.launched = True
        """After the exit: False if the command could not be executed."""
        self._streams = [LineStream(popen.stdout, "stdout", on_line), LineStream(popen.stderr, "stderr", on_line)]
        self._pidfd = os.pidfd_open(popen.pid)
        self._loop.add_reader(self._pidfd, self._reap)

    def _reap(self) -> None:
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        name = _name_of(self.pid)
        code = self._popen.wait()
        self.launched = name != LAUNCHER.encode() or code not in (NOT_PERMITTED, NOT_FOUND)
        self.drain()
        self.exited.set_result(code)
        self._on_exit(code)

    @property
    def alive(self) -> bool:
        return not self.exited.done()

    def drain(self) -> None:
        """Read every line that was written up to now."""
        for stream in self._streams:
            stream.drain()

    def signal_group(self, number: signal.Signals) -> None:
        """Send a signal to the whole process group, as Lambda does, also after its leader's death."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def close(self) -> None:
        """Stop reading. A descendant that is still alive could hold the pipes open for ever."""
        self.drain()
        for stream in self._streams:
            stream.close()


def _name_of(pid: int) -> bytes:
    """The command's name, at most 15 bytes. The kernel keeps it until the process is waited for."""
    return Path(f"/proc/{pid}/comm").read_bytes().strip()


class LineStream:
    """Reads lines from a pipe or a socket when they come."""

    def __init__(self, pipe: IO[bytes] | RawIOBase | None, name: str, on_line: LineSink) -> None:
        assert pipe is not None
        self._pipe: IO[bytes] | RawIOBase | None = pipe
        self._name = name
        self._on_line = on_line
        self._rest = b""
        os.set_blocking(pipe.fileno(), False)
        asyncio.get_running_loop().add_reader(pipe.fileno(), self.drain)

    def drain(self) -> None:
        """Read once. That takes all that the pipe held at the call; a loop could go on for ever."""
        if self._pipe is None:
            return
        try:
            data = os.read(self._pipe.fileno(), PIPE_SIZE)
        except BlockingIOError:
            return
        if data:
            self._take(data)
        else:
            self.close()

    def _take(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > LONGEST_LINE:
            lines.append(self._rest)
            self._rest = b""
        for line in lines:
            self._on_line(self._name, line.decode(errors="replace"))

    def close(self) -> None:
        if self._pipe is None:
            return
        asyncio.get_running_loop().remove_reader(self._pipe.fileno())
        self._pipe.close()
        self._pipe = None
        if self._rest:
            self._take(b"\n")


def spawn(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    cwd: Path,
    user: User | None,
    descriptors: int,
    admit: Callable[[int], None],
    on_line: LineSink,
    on_exit: Callable[[int], None],
) -> Process:
    """Start a command (absolute path first) in its own process group. `admit` gets the pid before the command runs.

    `descriptors` is the limit of open files. Raises OSError if the command cannot be started.
    """
    env = shutil.which(LAUNCHER) or f"/usr/bin/{LAUNCHER}"
    variables = [f"{key}={value}" for key, value in environment.items()]
    identity = {"user": user.uid, "group": user.gid, "extra_groups": []} if user else {}
    popen = subprocess.Popen(
        ["/bin/sh", "-c", _GATE, str(descriptors), env, "-i", *variables, *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=cwd,
        env={},
        process_group=0,
        **identity,  # type: ignore[call-overload]
    )
    try:
        admit(popen.pid)
        assert popen.stdin is not None
        popen.stdin.write(b"\n")
        popen.stdin.close()
    except BaseException:
        popen.kill()
        popen.wait()
        raise
    return Process(popen, on_line, on_exit)
