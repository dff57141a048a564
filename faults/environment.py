"""A light execution environment: the bare API server, a real sidecar, and a real process as the function.

It allows hundreds of runs. The local Lambda also has a runtime, freeze and limits, and takes a second for a reset.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from truemem_workbench.local.configuration.layer import exact_program as wrapper

from faults.subject import Subject
from testing.bare import BareApi, telemetry
from testing.environment import SOURCE

WORKER = Path(__file__).parent / "functions" / "worker.py"
WAIT_S = 20.0
"""Longest wait for anything, in seconds."""


class Died(Exception):
    """The sidecar has ended without being told to."""


class Function:
    """The process that plays the function. worker.py lists its commands."""

    def __init__(self, address: str, *arguments: str, wrapper: Path | None = None) -> None:
        markers = {"AWS_LAMBDA_RUNTIME_API": address, "_HANDLER": "worker.handler", "LAMBDA_TASK_ROOT": "/var/task"}
        command = [sys.executable, "-IS", str(WORKER), *arguments]
        self._process = subprocess.Popen(
            command if wrapper is None else [str(wrapper), *command],
            env={**markers, "PATH": os.defpath},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if wrapper is None else subprocess.DEVNULL,  # it says where exact mode is off
        )
        self.said = self._answer()
        """First of all."""

    def do(self, work: str) -> bool:
        """True if the answer is the right one."""
        assert self._process.stdin is not None
        self._process.stdin.write(work.encode() + b"\n")
        self._process.stdin.flush()
        return self._answer() == work

    def end(self) -> None:
        """As at a reset."""
        self._process.kill()
        self._process.communicate()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().decode().strip()


class FaultEnvironment:
    """One environment, over any number of resets. Leaving it kills all its processes."""

    def __init__(
        self,
        subject: Subject,
        variables: Mapping[str, str] | None = None,
        *,
        exact: bool = False,
        on_line: Callable[[bytes], None] | None = None,
        stdout: int = subprocess.PIPE,
    ) -> None:
        """Create it. With `exact`, the function is a runtime that is started through the program of exact mode.

        `on_line` gets each line of stdout instead of `lines`. `stdout` may be a descriptor instead of a pipe that is
        read.
        """
        self.api = BareApi()
        self.lines: list[bytes] = []
        self.log: list[bytes] = []
        self._on_line = on_line or self.lines.append
        self._stdout = stdout
        self._folder = tempfile.TemporaryDirectory(prefix="truemem-faults-", dir="/tmp")
        self.tmp = Path(self._folder.name)
        self._command = [*subject.launcher, str(subject.path)]
        self.variables = {
            "PATH": f"{Path(sys.executable).parent}:{os.defpath}",
            "TMPDIR": str(self.tmp),
            "AWS_LAMBDA_RUNTIME_API": self.api.address,
            "AWS_LAMBDA_FUNCTION_NAME": "faults",
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "1769",
            **subject.variables,
            **(variables or {}),
        }
        self._wrapper = (wrapper(subject.path) or wrapper(SOURCE)) if exact else None
        self.sidecar: subprocess.Popen[bytes] | None = None
        self._function: Function | None = None
        self._readers: list[threading.Thread] = []
        self.served: list[str] = []
        """Request ids, in order."""
        self.wrong = 0
        """Number of wrong answers of the function."""
        self.broken = 0
        """Number of broken connections of the runtime."""
        self._sent_ns = 0
        self.longest_s = 0.0
        """Longest time from INVOKE to the next `next`, without the function's own time."""
        self._hears = True
        """True if the sidecar takes telemetry."""

    def __enter__(self) -> FaultEnvironment:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        self.api.close()
        self._folder.cleanup()

    def start(self) -> int:
        """Start the sidecar and return its pid, without waiting for it."""
        self.sidecar = subprocess.Popen(
            self._command, env=self.variables, stdin=subprocess.DEVNULL, stdout=self._stdout, stderr=subprocess.PIPE
        )
        for pipe, sink in (self.sidecar.stdout, self._on_line), (self.sidecar.stderr, self.log.append):
            if pipe is not None:
                reader = threading.Thread(target=_read, args=(pipe, sink), daemon=True)
                reader.start()
                self._readers.append(reader)
        return self.sidecar.pid

    def await_next(self) -> int:
        """Serve the sidecar until it asks for its next event. Raises Died; TimeoutError if it does not ask."""
        try:
            return self.api.wait_for_next(self.alive)
        except ConnectionError:
            raise Died from None

    def begin(self) -> None:
        """Start everything: the init phase. Raises Died."""
        self.start()
        self.await_next()
        self.employ()  # Lambda starts the runtime when every extension has registered

    def employ(self) -> None:
        """Start the function; a runtime up to its first request. Raises Died, TimeoutError."""
        arguments = ("runtime",) if self._wrapper is not None else ()
        self._function = Function(self.api.address, *arguments, wrapper=self._wrapper)
        if self._wrapper is not None:
            try:
                self.api.wait_for_runtime(self.alive)
            except ConnectionError:
                raise Died from None

    def employ_stand_in(self, upstream: str) -> int:
        """Start a function whose runtime the caller plays, over connections to the returned port. The sidecar passes
        them on to `upstream`."""
        self._function = Function(self.api.address, "stand-in", upstream)
        return int(self._function.said)

    def alive(self) -> bool:
        """True if the sidecar is alive."""
        return self.sidecar is not None and self.sidecar.poll() is None

    def invoke(self, work: str = "hold 512 0") -> None:
        """Run one invocation with its telemetry. Raises Died, TimeoutError."""
        name = str(uuid.uuid4())
        self.send(name)
        self.work(name, work)

    def send(self, name: str) -> None:
        """Send INVOKE. Raises Died."""
        try:
            self._sent_ns = self.api.invoke(name)
        except OSError:
            if self._dying():
                raise Died from None
            raise
        self.served.append(name)

    def work(self, name: str, work: str) -> None:
        """Do what follows INVOKE: the function's work, the sidecar's `next`, telemetry. Raises Died, TimeoutError."""
        assert self._function is not None
        began_ns = time.monotonic_ns()
        self.wrong += not (self._function.do(work) if self._wrapper is None else self._served(name, work))
        took_ns = time.monotonic_ns() - began_ns
        waited_ns = self.await_next() - self._sent_ns
        self.longest_s = max(self.longest_s, (waited_ns - took_ns) / 1e9)
        self.tell(name)

    def _served(self, name: str, work: str) -> bool:
        """Run an invocation through the Runtime API. Raises Died, TimeoutError."""
        self.api.hand(name, work.encode())
        try:
            answer, _, broken = self.api.wait_for_answer(name, self.alive).decode().rpartition(" ")
            self.api.wait_for_runtime(self.alive)
        except ConnectionError:
            raise Died from None
        self.broken = int(broken)
        return answer == work

    def tell(self, name: str) -> None:
        """Deliver the platform's telemetry of an invocation. It does not wait for a sidecar that takes none. Raises
        Died."""
        if not self._hears:
            return
        try:
            self.api.tell(*telemetry(name))
        except TimeoutError:
            self._hears = False
        except OSError as error:
            if self._dying():
                raise Died from None
            self._hears = not isinstance(error, ConnectionRefusedError)  # it listens no more

    def shut_down(self) -> int | None:
        """Send SHUTDOWN and wait for the end. Returns the exit code, or None if it had to be killed."""
        assert self.sidecar is not None
        code = None
        try:
            while True:
                self.api.shut_down()
                self.await_next()  # it has not got it, so it asks again and gets it again
        except Died:
            code = self.sidecar.returncode
        except OSError as error:  # ended while it was told, or does not end
            code = None if isinstance(error, TimeoutError) else self.sidecar.wait(WAIT_S)
        self.kill()
        return code

    def kill(self) -> None:
        """Kill everything, as at the end of a reset. All printed lines are then in `lines`."""
        if self._function is not None:
            self._function.end()
            self._function = None
        if self.sidecar is not None:
            self.sidecar.kill()
            self.sidecar.wait()
            for reader in self._readers:
                reader.join()
            self._readers.clear()
            for pipe in (self.sidecar.stdout, self.sidecar.stderr):
                if pipe is not None:
                    pipe.close()
            self.sidecar = None
            self.api.begin_again()
            self._hears = True

    def records(self) -> list[dict[str, Any]]:
        """The lines printed so far."""
        return [json.loads(line) for line in self.lines]

    def said(self) -> str:
        """The sidecar's log."""
        return b"".join(self.log).decode(errors="replace")

    def _dying(self) -> bool:
        """Wait a moment for the end of a killed process: its connection breaks first."""
        assert self.sidecar is not None
        with suppress(subprocess.TimeoutExpired):
            self.sidecar.wait(1)
        return not self.alive()


def tally(served: list[str], records: list[dict[str, Any]]) -> Counter[str]:
    """Count how often each request was printed for certain. Lines that may repeat another are left out."""
    printed = Counter(record["requestId"] for record in records if not record.get("mayRepeat"))
    return Counter({name: printed[name] for name in served})


def unread(pid: int, api_address: str) -> bool:
    """True if that process has unread data in its connection to the API (proc_pid_net_tcp(5): rx_queue)."""
    port = f":{int(api_address.rpartition(':')[2]):04X}"
    for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]:
        _, _, remote, state, queues = line.split()[:5]
        if remote.endswith(port) and state == "01" and int(queues.partition(":")[2], 16):
            return True
    return False


def stands(pid: int) -> bool:
    """Wait until a process with a SIGSTOP has stopped. Returns False if it has ended."""
    until = time.monotonic() + WAIT_S
    while time.monotonic() < until:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return False
        if state in "TZX":
            return state == "T"
    return False


def _read(pipe: IO[bytes], sink: Callable[[bytes], None]) -> None:
    for line in pipe:
        sink(line)
