"""Measures how long each command takes until its first output, against `import click` in the same run.

`python -m benchmarks.command` writes benchmarks/results/command.md. Times are of this machine; their ratio says how
much of them is truemem's own.
"""

from __future__ import annotations

import os
import pty
import signal
import statistics
import sys
import tempfile
import time
from pathlib import Path

from truemem_workbench.support.terminal import progress

from benchmarks.publish import ROOT, machine, markdown
from testing.invented_lines import curve, noisy

RESULT = ROOT / "benchmarks" / "results" / "command.md"
RUNS = 21
BASE = "import click"
TRUEMEM = [sys.executable, "-m", "truemem_workbench.cli"]
APP = "def handler(event, context): ..."
INVOCATIONS = 1_000


def commands(folder: Path) -> dict[str, list[str]]:
    """What is measured. It reads files of this folder."""
    log, app = folder / "log.txt", folder / "app.py"
    log.write_text("".join(f"{line}\n" for line in curve(noisy(INVOCATIONS))))
    app.write_text(APP)
    page = str(folder / "page.html")
    return {
        BASE: [sys.executable, "-c", "import click; click.echo('.')"],
        "--help": [*TRUEMEM, "--help"],
        "local run --help": [*TRUEMEM, "local", "run", "--help"],
        "doctor FILE": [*TRUEMEM, "doctor", str(log)],
        "report FILE": [*TRUEMEM, "report", str(log)],
        "page FILE": [*TRUEMEM, "page", str(log), "--output", page],
        "check FILE": [*TRUEMEM, "check", f"{app}:handler"],
        "local run FILE": [*TRUEMEM, "local", "run", f"{app}:handler", "--event", "{}"],
    }


def first_output_ms(command: list[str]) -> float:
    """Time from the start to the first byte on a terminal, in ms. The command is ended then."""
    begin = time.perf_counter()
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(command[0], command)
    os.read(terminal, 1)
    taken = time.perf_counter() - begin
    os.kill(pid, signal.SIGTERM)  # not SIGKILL: a local Lambda removes its processes
    try:
        while os.read(terminal, 4096):
            pass
    except OSError:  # the terminal's other end is closed
        pass
    os.close(terminal)
    os.waitpid(pid, 0)
    return taken * 1000


def main() -> None:
    """Measure by turns, and write the table."""
    with tempfile.TemporaryDirectory() as name:
        measured = commands(Path(name))
        times: dict[str, list[float]] = {each: [] for each in measured}
        with progress("starting", RUNS * len(measured)) as done:
            for _ in range(RUNS):
                for each, command in measured.items():
                    times[each].append(first_output_ms(command))
                    done(1)
    base = statistics.median(times[BASE])
    rows = [
        (f"`{each}`", f"{(middle := statistics.median(taken)):.0f}", f"{min(taken):.0f}", f"{middle / base:.1f}")
        for each, taken in times.items()
    ]
    text = (
        "# The first output of a command\n\n"
        f"`python -m benchmarks.command`: from the start of the process to the first byte on a terminal, {RUNS} runs by"
        f" turns. FILE is a log of {INVOCATIONS:,} invocations, or an empty function. {machine()}.\n\n"
        f"{markdown(['truemem', 'ms, median', 'ms, least', f'against `{BASE}`'], rows)}\n"
    )
    RESULT.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
