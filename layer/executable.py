"""Interpreter, frozen modules and our own C: one static file."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path

from .cpython import Build
from .errors import BuildError
from .imports import Module, closure
from .toolchain import Toolchain

HERE = Path(__file__).parent
PROGRAM = (HERE / "main.c", HERE / "quick_import.c")
SIDECAR = HERE.parent / "extension" / "truemem"


def modules(build: Build) -> list[Module]:
    """What goes into the file. Raises BuildError."""
    builtin = _python(build, []).split()
    return closure(SIDECAR, build.library, builtin)


def link(build: Build, toolchain: Toolchain, chosen: list[Module], machines: dict[str, Path]) -> None:
    """Write each machine's executable to its path. Raises BuildError."""
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        order, frozen = work / "order.json", work / "frozen.c"
        order.write_text(json.dumps([[module.name, str(module.path), module.is_package] for module in chosen]))
        _python(build, [str(frozen), str(order)])
        for machine, target in machines.items():
            target.parent.mkdir(parents=True, exist_ok=True)
            _cc(build, toolchain, machine, frozen, work / machine)
            (work / machine).chmod(0o755)
            partial = target.with_name(f".{target.name}.partial")
            partial.write_bytes((work / machine).read_bytes())
            partial.chmod(0o755)
            partial.replace(target)  # a sidecar that runs from the old one keeps it


def _cc(build: Build, toolchain: Toolchain, machine: str, frozen: Path, target: Path) -> None:
    command = [toolchain.compiler(machine), "-static", "-s", "-Wl,--gc-sections", "-O2", "-g0"]
    command += [f"-I{build.include}", f"-I{build.configuration(machine)}", *map(str, PROGRAM), frozen.name]
    command += [*map(str, build.archives(machine)), "-lm", "-o", str(target)]
    done = subprocess.run(
        command, cwd=frozen.parent, env=toolchain.environment(), capture_output=True, text=True, check=False
    )
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if "error" in line] or [done.stderr.strip()]
        raise BuildError(f"linking for {machine} failed: {errors[0]}")


def _python(build: Build, arguments: list[str]) -> str:
    """Run freeze.py."""
    command = [str(build.interpreter), "-S", "-s", str(HERE / "freeze.py"), *arguments]
    environment = {"PATH": os.defpath, "PYTHONHOME": str(build.folder)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildError(f"freezing failed: {(done.stderr.strip().splitlines() or ['no word'])[-1]}")
    return done.stdout
