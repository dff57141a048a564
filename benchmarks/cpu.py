"""Measures the CPU time that an extension takes for one invocation, telemetry and line included, by turns with others.

Runs the layer of `make layer`, other executables of it (`--before`), AWS's sample in Go, and the floor.

Exit codes: 0 measured, 2 not measured.
"""

from __future__ import annotations

import gc
import os
import signal
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import click
from rich.console import Console

from benchmarks import namespace, publish
from benchmarks.bare import Extension, FunctionProcesses, Runtime
from benchmarks.contenders import EXECUTABLE, FLOOR, GO, OURS, Contender, contenders, wrapper_of
from benchmarks.running import HARDLY_SAMPLING, telemetry

DEFAULT, EXACT, SAMPLING = "default mode", "exact mode", "default mode, 2 ms, sampled"
"""In the default mode as in Lambda: frozen as soon as nothing waits for the extension, so that it samples nothing; the
telemetry of an invocation comes with the next one."""
PAUSE_S = 0.002
"""Between two invocations: the extension sleeps, and is to be woken."""
WARM_UP = 40
BLOCK = 20
"""Invocations in a row, then it is another's turn."""


@dataclass(frozen=True)
class Cpu:
    """One row: CPU time of one invocation, ms."""

    name: str
    mode: str
    invocations: int
    median: float
    """Of blocks,"""
    minimum: float
    """and of the best of them: other programs on the machine only add to it."""
    beside: float | None
    """Median of the differences to the first executable in the same mode, block by block; None for itself."""


@dataclass
class Side:
    """One contender in one mode, and what was measured of it."""

    name: str
    mode: str
    run: Callable[[int], None]
    """One invocation, by its number."""
    extension: Extension
    blocks: list[float] = field(default_factory=list)
    """ms of an invocation."""
    count: int = 0

    def turn(self, count: int) -> float:
        """So many invocations; CPU time of one, ms."""
        before = self.extension.cpu_ns()
        for _ in range(count):
            time.sleep(PAUSE_S)
            self.count += 1
            self.run(self.count)
        time.sleep(PAUSE_S)
        return (self.extension.cpu_ns() - before) / count / 1e6


class _Taken(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextmanager
def destination() -> Iterator[str]:
    """Where the sample in Go sends telemetry to. What is not taken it keeps, and that takes ever more time."""
    with HTTPServer(("127.0.0.1", 0), _Taken) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/"
        finally:
            server.shutdown()


@contextmanager
def side(
    contender: Contender, mode: str, event: bytes = b'{"key":"value"}', wrapper: Path | None = None
) -> Iterator[Side]:
    """An environment with this extension, warm. `event`: in exact mode, which the runtime answers with itself.
    `wrapper`: that starts it; else the one in the extension's layer."""
    with destination() as uri, ExitStack() as stack:
        variables = {"DISPATCH_POST_URI": uri, **({} if mode == SAMPLING else HARDLY_SAMPLING)}
        extension = stack.enter_context(contender.start(variables))
        api = extension.api
        api.wait_for_next()
        with (
            Runtime(api.address, wrapper or wrapper_of(Path(contender.command[0])))
            if mode == EXACT
            else FunctionProcesses(api.address)
        ):
            if mode == EXACT:
                api.wait_for_runtime()

            def run(number: int) -> None:
                os.kill(extension.pid, signal.SIGCONT)
                name, before = (f"00000000-0000-4000-8000-{at:012d}" for at in (number, number - 1))
                api.invoke(name)
                if mode == EXACT:
                    api.hand(name, event)
                    api.wait_for_answer(name)
                    api.wait_for_runtime()
                api.wait_for_next()
                api.tell(*telemetry(before if mode == DEFAULT else name))
                if mode == DEFAULT:
                    os.kill(extension.pid, signal.SIGSTOP)

            made = Side(contender.name, mode, run, extension)
            made.turn(WARM_UP)
            yield made


def measure(compared: Sequence[tuple[Contender, str]], blocks: int, advance: Callable[[], None]) -> list[Cpu]:
    """A row for each contender in its mode; of each mode the first is what the others are set against."""
    with ExitStack() as stack:
        sides = [stack.enter_context(side(contender, mode)) for contender, mode in compared]
        order = list(sides)
        gc.disable()
        for _ in range(blocks):
            for each in order:
                each.blocks.append(each.turn(BLOCK))
            order.reverse()
            advance()
        gc.enable()
    firsts: dict[str, Side] = {}
    rows = []
    for each in sides:
        first = firsts.setdefault(each.mode, each)
        apart = [its - ours for its, ours in zip(each.blocks, first.blocks, strict=True)]
        rows.append(
            Cpu(
                each.name,
                each.mode,
                blocks * BLOCK,
                round(statistics.median(each.blocks), 3),
                round(min(each.blocks), 3),
                None if each is first else round(statistics.median(apart), 3),
            )
        )
    return rows


def in_their_modes(compared: Sequence[Contender], before: Sequence[Path]) -> list[tuple[Contender, str]]:
    """Ours and those `before`, in each mode; the sample in Go and the floor, which know one."""
    ours = [Contender(OURS, (EXECUTABLE,)), *(Contender(str(path), (path.resolve(),)) for path in before)]
    others = [contender for contender in compared if contender.name in (GO, FLOOR)]
    return [
        *((contender, DEFAULT) for contender in (*ours, *others)),
        *((contender, mode) for mode in (EXACT, SAMPLING) for contender in ours),
    ]


HEADINGS = ("", "CPU of an invocation, median, ms", "minimum", f"beside {OURS}")


def cells(rows: Sequence[Cpu]) -> list[list[str]]:
    """For people."""
    return [
        [
            f"{row.name}, {row.mode}",
            f"{row.median:.3f}",
            f"{row.minimum:.3f}",
            "" if row.beside is None else f"{row.beside:+.3f}",
        ]
        for row in rows
    ]


@click.command(help=__doc__)
@click.option("--blocks", default=50, show_default=True, help=f"Of {BLOCK} invocations, each.")
@click.option("--before", multiple=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--go", type=click.Path(exists=True, path_type=Path), help=f"Compare with {GO}: a checkout, or its build."
)
def main(blocks: int, before: tuple[Path, ...], go: Path | None) -> None:
    """See the module."""
    namespace.enter()
    with tempfile.TemporaryDirectory() as folder, publish.measuring() as step:
        compared = in_their_modes(contenders(Path(folder), go), before)
        rows = measure(compared, blocks, step("CPU of an invocation", blocks))
    Console(width=140).print(publish.shown("CPU of an invocation", HEADINGS, cells(rows)))


if __name__ == "__main__":
    main()
