"""Links interpreter, frozen modules and our own C into one static file, and compiles the wrapper that starts the
runtime."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path

from .cpython import Build
from .errors import BuildError
from .imports import Module, at_import, closure
from .toolchain import Toolchain

HERE = Path(__file__).parent
PROGRAM = (HERE / "main.c", HERE / "quick_import.c")
WRAPPER = HERE / "exact.c"
SIDECAR = HERE.parent / "extension" / "truemem"
FIRST = "truemem.__main__"
"""What is imported before the sidecar registers: by itself, so that the request leaves early."""
NEXT = ("truemem.lifecycle.startup", "truemem.platform.runtime_proxy")
"""What it imports while that request is on its way: one block of code."""


def modules(build: Build) -> list[Module]:
    """The modules of the executable. Raises BuildError."""
    builtin = _python(build, []).split()
    return closure(SIDECAR, build.library, builtin)


def link(build: Build, toolchain: Toolchain, chosen: list[Module], machines: dict[str, Path]) -> None:
    """Write each machine's executable to its path. Raises BuildError."""
    block = at_import(chosen, NEXT) - at_import(chosen, (FIRST,))
    rows = [[module.name, str(module.path), module.is_package, module.name in block] for module in chosen]
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        order, frozen = work / "order.json", work / "frozen.c"
        order.write_text(json.dumps(rows))
        _python(build, [str(frozen), str(order)])
        for machine, target in machines.items():
            sources = [
                "-O2",
                f"-I{build.include}",
                f"-I{build.configuration(machine)}",
                *map(str, PROGRAM),
                frozen.name,
            ]
            _cc(toolchain, machine, [*sources, *map(str, build.archives(machine)), "-lm"], work, target)


def compile_wrapper(toolchain: Toolchain, machines: dict[str, Path]) -> None:
    """Write each machine's `exact` to its path. Raises BuildError."""
    with tempfile.TemporaryDirectory() as name:
        for machine, target in machines.items():
            _cc(toolchain, machine, ["-Os", "-Wall", "-Wextra", "-Werror", str(WRAPPER)], Path(name), target)


def _cc(toolchain: Toolchain, machine: str, sources: list[str], work: Path, target: Path) -> None:
    """Compile in the folder `work`, to which paths are relative, and replace the target at once."""
    command = [toolchain.compiler(machine), "-static", "-s", "-Wl,--gc-sections", "-g0", *sources, "-o", machine]
    done = subprocess.run(command, cwd=work, env=toolchain.environment(), capture_output=True, text=True, check=False)
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if "error" in line] or [done.stderr.strip()]
        raise BuildError(f"linking {target.name} for {machine} failed: {errors[0]}")
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.name}.partial")
    partial.write_bytes((work / machine).read_bytes())
    partial.chmod(0o755)
    partial.replace(target)  # a process that runs from the old one keeps it


def _python(build: Build, arguments: list[str]) -> str:
    """Run freeze.py."""
    command = [str(build.interpreter), "-S", "-s", str(HERE / "freeze.py"), *arguments]
    environment = {"PATH": os.defpath, "PYTHONHOME": str(build.folder)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildError(f"freezing failed: {(done.stderr.strip().splitlines() or ['no message'])[-1]}")
    return done.stdout
