"""An execution environment without its weight: the bare API server, a real sidecar, a real process as the function.

For faults by the hundred. The local Lambda has runtime, freeze and limits as well, and takes a second for a reset.
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

from truemem_workbench.local.configuration.sidecar import exact as wrapper
from truemem_workbench.testing.environment import SOURCE

from benchmarks.bare import BareApi
from benchmarks.running import telemetry
from faults.subject import Subject

WORKER = Path(__file__).parent / "functions" / "worker.py"
WAIT_S = 20.0
"""What has not happened by then does not happen."""


class Died(Exception):
    """The sidecar has ended, and nobody has told it to."""


class Function:
    """The process that stands for the function. See worker.py for what it may be told."""

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


class Environment:
    """One environment, over any number of resets. Leaving it kills what is left."""

    def __init__(
        self,
        subject: Subject,
        variables: Mapping[str, str] | None = None,
        *,
        exact: bool = False,
        on_line: Callable[[bytes], None] | None = None,
        stdout: int = subprocess.PIPE,
    ) -> None:
        """`exact`: the function is a runtime, started through the program of exact mode. `on_line` gets each line of
        stdout instead of `lines`; `stdout` may be a descriptor instead of a pipe that is read."""
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
        """Answers of the function that were not as they should be."""
        self.broken = 0
        """Connections of the runtime that have broken."""
        self._sent_ns = 0
        self.longest_s = 0.0
        """From INVOKE to the next `next`, the function's own time left out."""
        self._hears = True
        """Does the sidecar take telemetry?"""

    def __enter__(self) -> Environment:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        self.api.close()
        self._folder.cleanup()

    def start(self) -> int:
        """Start the sidecar, not waiting for it; its pid."""
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
        """Start the function: a runtime up to its first request. Raises Died, TimeoutError."""
        arguments = ("runtime",) if self._wrapper is not None else ()
        self._function = Function(self.api.address, *arguments, wrapper=self._wrapper)
        if self._wrapper is not None:
            try:
                self.api.wait_for_runtime(self.alive)
            except ConnectionError:
                raise Died from None

    def employ_stand_in(self, upstream: str) -> int:
        """Start a function whose runtime is played by the caller, over connections to the port that is returned: the
        sidecar passes them on to `upstream`."""
        self._function = Function(self.api.address, "stand-in", upstream)
        return int(self._function.said)

    def alive(self) -> bool:
        """Is the sidecar?"""
        return self.sidecar is not None and self.sidecar.poll() is None

    def invoke(self, work: str = "hold 512 0") -> None:
        """One invocation with its telemetry. Raises Died, TimeoutError."""
        name = str(uuid.uuid4())
        self.send(name)
        self.work(name, work)

    def send(self, name: str) -> None:
        """INVOKE. Raises Died."""
        try:
            self._sent_ns = self.api.invoke(name)
        except OSError:
            if self._dying():
                raise Died from None
            raise
        self.served.append(name)

    def work(self, name: str, work: str) -> None:
        """What comes after it: the function's work, the sidecar's `next`, telemetry. Raises Died, TimeoutError."""
        assert self._function is not None
        began_ns = time.monotonic_ns()
        self.wrong += not (self._function.do(work) if self._wrapper is None else self._served(name, work))
        took_ns = time.monotonic_ns() - began_ns
        waited_ns = self.await_next() - self._sent_ns
        self.longest_s = max(self.longest_s, (waited_ns - took_ns) / 1e9)
        self.tell(name)

    def _served(self, name: str, work: str) -> bool:
        """The same through the Runtime API. Raises Died, TimeoutError."""
        self.api.hand(name, work.encode())
        try:
            answer, _, broken = self.api.wait_for_answer(name, self.alive).decode().rpartition(" ")
            self.api.wait_for_runtime(self.alive)
        except ConnectionError:
            raise Died from None
        self.broken = int(broken)
        return answer == work

    def tell(self, name: str) -> None:
        """What the platform says of an invocation. Where it is not taken, nobody waits for that. Raises Died."""
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
        """SHUTDOWN, and wait for the end; the exit code. None if it had to be killed."""
        assert self.sidecar is not None
        code = None
        try:
            while True:
                self.api.shut_down()
                self.await_next()  # it has not got it: who asks again is told again
        except Died:
            code = self.sidecar.returncode
        except OSError as error:  # ended while it was told, or does not end
            code = None if isinstance(error, TimeoutError) else self.sidecar.wait(WAIT_S)
        self.kill()
        return code

    def kill(self) -> None:
        """End everything, as at the end of a reset; what was printed is all in `lines`."""
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
        """The lines that were printed so far."""
        return [json.loads(line) for line in self.lines]

    def said(self) -> str:
        """The log."""
        return b"".join(self.log).decode(errors="replace")

    def _dying(self) -> bool:
        """Its connection broke: it takes a moment until a killed process is gone."""
        assert self.sidecar is not None
        with suppress(subprocess.TimeoutExpired):
            self.sidecar.wait(1)
        return not self.alive()


def tally(served: list[str], records: list[dict[str, Any]]) -> Counter[str]:
    """How often each request was printed for certain; lines that may repeat another are left out."""
    printed = Counter(record["requestId"] for record in records if not record.get("mayRepeat"))
    return Counter({name: printed[name] for name in served})


def unread(pid: int, api_address: str) -> bool:
    """Does anything lie unread in that process's connection to the API? (proc_pid_net_tcp(5): rx_queue.)"""
    port = f":{int(api_address.rpartition(':')[2]):04X}"
    for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]:
        _, _, remote, state, queues = line.split()[:5]
        if remote.endswith(port) and state == "01" and int(queues.partition(":")[2], 16):
            return True
    return False


def stands(pid: int) -> bool:
    """Wait until a process that was sent SIGSTOP stands still; False if it has ended."""
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
