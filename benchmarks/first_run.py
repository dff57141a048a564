"""How long does the very first run take, from the wheel in a fresh environment?

With an empty cache, and with npm and compilers that only note that they were called. Half a minute, and what pip takes.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import tempfile
import time
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from truemem_workbench.local.configuration.node_function import BUILD_TOOLS
from truemem_workbench.support.bad_input import BadInput

from benchmarks.kit.bench import Bench
from testing.installs import NODES, Missing, node
from testing.pages import Result, Table

TITLE = "The first run"
SETTINGS = {"wheel": "The wheel. Default: that of make wheel."}
DIST = Path(__file__).parents[1] / "dist"
MOST_S = 15.0
SOURCES = {
    "app.py": "def handler(event, context):\n    return event\n",
    "index.mjs": "export const handler = async (event) => event;\n",
}


@contextmanager
def installed(wheel: Path) -> Iterator[Path]:
    """A folder with the environment, as pip makes it for a user, and with the functions."""
    with tempfile.TemporaryDirectory(prefix="truemem-first-") as name:
        folder = Path(name)
        venv.create(folder / "venv", with_pip=True)
        subprocess.run([folder / "venv/bin/pip", "install", "--quiet", wheel], check=True)
        for file, source in SOURCES.items():
            (folder / file).write_text(source)
        for tool in BUILD_TOOLS[:-1]:  # all but python3
            (folder / tool).write_text(f"#!/bin/sh\ntouch {folder}/called\nexit 1\n")
            (folder / tool).chmod(0o755)
        yield folder


def seconds(folder: Path, file: str, path: str) -> tuple[float, float]:
    """The time that 20 invocations took, and their CPU time, s. Raises BadInput if the run fails, or compiles."""
    shutil.rmtree(folder / "cache", ignore_errors=True)
    command: list[str | Path] = [
        folder / "venv/bin/truemem",
        "local",
        "run",
        f"{file}:handler",
        "--event",
        "{}",
        "--invocations",
        "20",
    ]
    variables = {**os.environ, "TRUEMEM_CACHE": str(folder / "cache"), "PATH": f"{path}{folder}:{os.environ['PATH']}"}
    begun, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False)
    passed, after = time.monotonic() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode or (folder / "called").exists():
        raise BadInput(f"{file}: {done.stderr.strip().rpartition(chr(10))[2] or 'npm or a compiler was called'}")
    return passed, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def run(bench: Bench) -> Result:
    wheel = Path(bench.settings.get("wheel") or next(iter(sorted(DIST.glob("truemem-*.whl"))), "no wheel: make wheel"))
    if not wheel.is_file():
        raise BadInput(f"{wheel} is not there. Try make wheel")
    paths = {"Python": ""}
    for version in NODES:
        try:
            paths[f"Node.js {version}"] = f"{node(version).parent}:"
        except Missing as why:
            bench.echo(f"Node.js {version}: left out, {why}")
    rows, slow = [], []
    with installed(wheel) as folder:
        for name in bench.each("first run", bench.chosen(paths)):
            passed, cpu = seconds(folder, "app.py" if name == "Python" else "index.mjs", paths[name])
            rows.append([name, f"{passed:.1f}", f"{cpu:.1f}"])
            if passed > MOST_S:
                slow.append(f"{name}: the first run took {passed:.0f} s, and may take {MOST_S:.0f}")
    note = "`truemem local run` with 20 invocations, from a wheel in a fresh environment with an empty TRUEMEM_CACHE."
    return Result([Table("", ("function", "s", "CPU s"), rows, note, 1)], slow)
