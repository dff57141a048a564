"""Links interpreter and our own C, makes the image with all modules in it, and compiles the wrapper that starts the
runtime."""

from __future__ import annotations

import json
import os
import platform
import re
import shlex
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from . import compiled, image, unused
from .compiled import Library
from .cpython import LEAN, SMALL_POOLS, Build
from .errors import BuildError
from .imports import Module, closure
from .toolchain import Toolchain

HERE = Path(__file__).parent
TABLES = HERE / "modules.c"
PROGRAM = (HERE / "main.c", HERE / "image.c", HERE / "unused.c", TABLES, HERE / "absent.c")
CALLED = HERE / "called.txt"
"""Functions that are side by side in the file, in this order (layer/called.py): those of each invocation are first. A
name of no function does no harm."""
WRAPPER_SOURCE = HERE / "exact.c"
SAMPLER_SOURCE = HERE.parent / "workbench" / "truemem_workbench" / "explain" / "malloc_sampler.c"
SIDECAR_FOLDER = HERE.parent / "extension" / "truemem"


def interpreted(build: Build, library: Library, sidecar: Path = SIDECAR_FOLDER) -> list[Module]:
    """The modules of the executable that are byte code: not those of the `library`. Raises BuildError."""
    return [module for module in closure(sidecar, build.library, built_in()) if module.name not in library.modules]


def built_in() -> list[str]:
    """Names of the modules that are in the interpreter itself."""
    return ["builtins", "sys", *re.findall(r"^    MODULE\((\w+),", TABLES.read_text(), re.MULTILINE)]


def link(
    build: Build,
    toolchain: Toolchain,
    sidecar: Path,
    libraries: Mapping[str, Library],
    machines: Mapping[str, Path],
    emulator: Callable[[str], Path],
) -> None:
    """Write each machine's executable to its path: the `sidecar` of this folder, in part compiled in each machine's
    library. `emulator` gives what runs a program for another machine. Raises BuildError."""
    with tempfile.TemporaryDirectory() as name:
        for machine, target in machines.items():
            library = libraries[machine]
            chosen = interpreted(build, library, sidecar)
            frozen, names = freeze(build, chosen, Path(name)), names_of(build, chosen, library)
            started = program(build, toolchain, machine, Path(name), library)
            command = [started] if machine == platform.machine() else [emulator(machine), started]
            memory = image.memory(command, frozen.read_bytes(), names)
            linked = unused.without_unreached(started.read_bytes(), sections(started).read_text(), memory)
            _replace(target, image.with_memory(linked, memory))


def program(build: Build, toolchain: Toolchain, machine: str, work: Path, library: Library) -> Path:
    """Link what makes the image, and becomes it, in the folder `work`, with the compiled modules of the
    `library`. Raises BuildError."""
    (work / compiled.TABLE).write_text(compiled.table(library.modules))
    include = [f"-I{build.include}", f"-I{build.configuration(machine)}", f"-I{work}"]
    flags = ["-static", "-v", "-O2", "-g0", "-Wl,--gc-sections", *LEAN.split(), SMALL_POOLS, *include]
    parts = [*PROGRAM, *library.paths, build.archive(machine)]
    command = [toolchain.compiler(machine), *flags, *map(str, parts), "-lm"]
    return linked(toolchain, machine, command, work)


def linked(toolchain: Toolchain, machine: str, command: list[str], work: Path) -> Path:
    """The program that the command (with -v) links in the folder `work`, with its relocations; its `sections` are
    beside it. Raises BuildError."""
    said = _run([*command, "-o", machine], toolchain, machine, work)
    lines = [line for line in said.splitlines() if line.startswith("ld.lld ")]
    if not lines:
        raise BuildError(f"linking for {machine} failed: the compiler does not say how it links")
    order = work / "order"
    order.write_text("\n".join(CALLED.read_text().split()))
    options = ["--emit-relocs", f"-Map={sections(work / machine)}", "--no-eh-frame-hdr"]
    options += [f"--symbol-ordering-file={order}", "--no-warn-symbol-ordering"]
    # Once more by the linker itself: the compiler does not pass these options to it.
    _run([str(toolchain.zig), *shlex.split(lines[-1]), *options], toolchain, machine, work)
    return work / machine


def sections(linked: Path) -> Path:
    """The linker's map of a program."""
    return linked.with_suffix(".map")


def names_of(build: Build, chosen: list[Module], library: Library) -> str:
    """What `image.memory` keeps: all names that these modules have, or C looks up."""
    names = unused.named(module.path.read_bytes() for module in chosen)
    return " ".join(sorted(names.union(library.looked_up, build.looked_up.read_text().split())))


def freeze(build: Build, chosen: list[Module], work: Path) -> Path:
    """Write the modules of the image, compiled, in the folder `work`. Raises BuildError."""
    order, frozen = work / "order.json", work / "frozen"
    order.write_text(json.dumps([[module.name, str(module.path), module.is_package] for module in chosen]))
    command: list[str | Path] = [build.interpreter, "-S", "-s", HERE / "freeze.py", frozen, order]
    environment = {"PATH": os.defpath, "PYTHONHOME": str(build.folder)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildError(f"freezing failed: {(done.stderr.strip().splitlines() or ['no message'])[-1]}")
    return frozen


def compile_wrapper(toolchain: Toolchain, machines: dict[str, Path]) -> None:
    """Write each machine's `exact` to its path. Raises BuildError."""
    with tempfile.TemporaryDirectory() as name:
        for machine, target in machines.items():
            program = _cc(toolchain, machine, ["-s", "-Os", "-Wall", "-Wextra", "-Werror", WRAPPER_SOURCE], Path(name))
            _replace(target, program.read_bytes())


def compile_sampler(toolchain: Toolchain, machines: dict[str, Path]) -> None:
    """Write each machine's library for `truemem explain` to its path: it is no part of the layer. Raises BuildError."""
    flags = ["-shared", "-fPIC", "-fvisibility=hidden", "-s", "-O2", "-g0", "-Wall", "-Wextra", "-Werror"]
    with tempfile.TemporaryDirectory() as name:
        for machine, target in machines.items():
            command = [toolchain.compiler_for_glibc(machine), *flags, str(SAMPLER_SOURCE), "-ldl"]
            _replace(target, _compiled(toolchain, machine, command, Path(name)).read_bytes())


def _cc(toolchain: Toolchain, machine: str, sources: list[str | Path], work: Path) -> Path:
    """Compile in the folder `work`, to which paths are relative."""
    command = [toolchain.compiler(machine), "-static", "-Wl,--gc-sections", "-g0", *map(str, sources)]
    return _compiled(toolchain, machine, command, work)


def _compiled(toolchain: Toolchain, machine: str, command: list[str], work: Path) -> Path:
    """What the command makes for this machine, in the folder `work`. Raises BuildError."""
    _run([*command, "-o", machine], toolchain, machine, work)
    return work / machine


def _run(command: list[str], toolchain: Toolchain, machine: str, work: Path) -> str:
    """What the command says. Raises BuildError."""
    done = subprocess.run(command, cwd=work, env=toolchain.environment(), capture_output=True, text=True, check=False)
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if "error:" in line] or [done.stderr.strip()]
        raise BuildError(f"linking for {machine} failed: {errors[0]}")
    return done.stderr


def _replace(target: Path, content: bytes) -> None:
    """Replace the file at once: a process that runs from the old one keeps it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.name}.partial")
    partial.write_bytes(content)
    partial.chmod(0o755)
    partial.replace(target)
