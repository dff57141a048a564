"""Starts real processes as an ordinary user, reads their output line by line, and reports their exit."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from io import RawIOBase
from pathlib import Path
from typing import IO, Any, Literal

from ...support.conditions import Condition

UID, GID = 993, 990  # ids of the function and its extensions in Lambda (`sbx_user1051`)

# The shell's own test, as the other user: path modes, ACLs and mounts all count.
_CAN_READ = 'for path; do test -r "$path" || { echo "$path"; exit 1; }; done'


@dataclass(frozen=True)
class User:
    uid: int
    gid: int

    @property
    def identity(self) -> dict[str, Any]:
        """Arguments of subprocess.Popen for a process of this user."""
        return {"user": self.uid, "group": self.gid, "extra_groups": []}


def ordinary() -> User:
    """Lambda's ids, where that user has a name on this machine; else those of `nobody`: a JVM keeps its counters in a
    file that has the user's name, and without one there is none."""
    with suppress(KeyError):
        pwd.getpwuid(UID)
        return User(UID, GID)
    with suppress(KeyError):
        nobody = pwd.getpwnam("nobody")
        return User(nobody.pw_uid, nobody.pw_gid)
    return User(UID, GID)


def choose_user(asked: Literal["auto", "current"], needs: Sequence[Path]) -> tuple[User | None, str | None]:
    """Choose the user to switch to, or None for the current one, and a notice if Lambda does it in another way.

    That user must be able to read the interpreter, the code and the extensions (`needs`).
    """
    if os.geteuid() != 0:
        return None, None
    if asked == "current":
        return None, "processes run as root, as asked: in Lambda they are an ordinary user"
    user = ordinary()
    hidden = _first_unreadable(needs, user)
    if hidden is None:
        return user, None
    fix = "Move it, or open its folders (chmod o+rx)"
    notice = f"processes run as root: uid {user.uid} cannot read {hidden}. {fix}"
    return None, Condition(notice, "processes run as root")


def _first_unreadable(paths: Sequence[Path], user: User) -> str | None:
    shell = ["/bin/sh", "-c", _CAN_READ, "sh", *map(str, paths)]
    done = subprocess.run(shell, cwd="/", env={}, capture_output=True, text=True, check=False, **user.identity)
    return done.stdout.strip() if done.returncode else None


# The process waits for a line before its first own instruction: by then we have put it into its cgroups. A preexec_fn
# would do the same and is not safe in a process with threads. `env -i` because a shell exports variables of its own.
# The limit of open files stays lower if this process itself may not open so many.
# What enters another /tmp is in "/" then, so the folder is entered here.
_GATE = 'ulimit -n "$0" 2>/dev/null; cd "$1" && shift && read -r _ && exec "$@" </dev/null'
LAUNCHER = "env"
NOT_PERMITTED, NOT_FOUND = 126, 127
"""Exit codes of the launcher for a command that it could not execute. The command itself may use the same codes."""

LineSink = Callable[[str, str], None]  # gets (stream, text): one line of `stdout` or `stderr`, without its newline

PIPE_SIZE = 65_536
LONGEST_LINE = 262_118  # 2^18 - 26: where CloudWatch splits a log event


class ChildProcess:
    """One child process, an extension or the runtime. It leads its own process group."""

    def __init__(self, popen: subprocess.Popen[bytes], on_line: LineSink, on_exit: Callable[[int], None]) -> None:
        self._popen = popen
        self._on_exit = on_exit
        self._loop = asyncio.get_running_loop()
        self.pid = popen.pid
        self.exited: asyncio.Future[int] = self._loop.create_future()
        """The exit code, or minus the number of the signal that ended the process."""
        self.launched = True
        """False, after the exit, if the command could not be executed."""
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


async def spawn(
    start: Callable[[], subprocess.Popen[bytes]], on_line: LineSink, on_exit: Callable[[int], None]
) -> ChildProcess:
    """Start a process by this call of `started`. Raises OSError as that does."""
    # In a thread: it takes some milliseconds, and other environments answer meanwhile.
    starting = asyncio.ensure_future(asyncio.to_thread(start))
    try:
        popen = await asyncio.shield(starting)
    except asyncio.CancelledError:
        popen = await starting
        popen.kill()
        popen.wait()
        raise
    return ChildProcess(popen, on_line, on_exit)


def started(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    cwd: Path,
    user: User | None,
    entering: Sequence[str],
    descriptors: int,
    admit: Callable[[int], None],
) -> subprocess.Popen[bytes]:
    """Start a command (absolute path first) in its own process group. `admit` gets the pid before the command runs.

    `entering`, if not empty, is put before the command, and becomes the user (`Tmp.entering`). `descriptors` is the
    limit of open files. Raises OSError if the command cannot be started.
    """
    env = shutil.which(LAUNCHER) or f"/usr/bin/{LAUNCHER}"
    variables = [f"{key}={value}" for key, value in environment.items()]
    popen: subprocess.Popen[bytes] = subprocess.Popen(
        [*entering, "/bin/sh", "-c", _GATE, str(descriptors), str(cwd), env, "-i", *variables, *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=cwd,
        env={},
        process_group=0,
        **(user.identity if user and not entering else {}),
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
    return popen


LONGEST_PATH = 107  # longest path of a Unix socket in bytes (unix(7))


class WorkerOutput:
    """Streams for the workers of AWS's Python runtime client, whose lines would mix on one pipe. Listens until `close`.

    The client asks for them at the socket in `_LAMBDA_TELEMETRY_LOG_FD_PROVIDER_SOCKET`. A worker connects twice, for
    stdout and stderr, without saying which.
    """

    def __init__(self, path: Path, on_line: LineSink) -> None:
        self._on_line = on_line
        self._streams: list[LineStream] = []
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(path))
        path.chmod(0o666)  # the workers are another user
        self._listener.listen(128)
        self._listener.setblocking(False)
        asyncio.get_running_loop().add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except BlockingIOError:
                return
            with connection:
                self._streams.append(LineStream(connection.makefile("rb", buffering=0), "stdout", self._on_line))

    def drain(self) -> None:
        """Read every line that was written up to now."""
        for stream in self._streams:
            stream.drain()

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._listener)
        self._listener.close()
        for stream in self._streams:
            stream.close()
