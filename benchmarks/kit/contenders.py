"""The extensions that are compared: our executable, the same without its image and from source, a usual extension, the
floor, and AWS's own sample in Go if it is given. And other code of ours: a commit of this repository."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from layer import compiled, cpython, executable
from layer.__main__ import default_cache
from layer.toolchain import Toolchain
from testing.bare import Extension
from testing.environment import SOURCE
from testing.pages import ROOT

EXTENSIONS = ROOT / "benchmarks" / "extensions"
MACHINE = platform.machine()
EXECUTABLE = ROOT / "dist" / {"aarch64": "arm64"}.get(MACHINE, MACHINE) / "extensions" / "truemem"
"""What `make layer` has made for this machine."""


def wrapper_of(executable: Path) -> Path:
    """The program that starts a runtime in exact mode, in the same layer."""
    return executable.parents[1] / "truemem" / "exact"


EXACT_MODE = {"AWS_LAMBDA_EXEC_WRAPPER": str(wrapper_of(EXECUTABLE))}
"""The function's variable that turns exact mode on, with the same layer."""


@dataclass(frozen=True)
class Contender:
    """One extension."""

    name: str
    command: tuple[str | Path, ...]
    variables: Mapping[str, str] = field(default_factory=dict)
    stdin: str | Path = os.devnull
    errors: bool = True
    """Is what it says on stderr shown?"""

    def start(self, variables: Mapping[str, str] | None = None) -> Extension:
        """Start it under an API of its own."""
        return Extension(self.command, {**self.variables, **(variables or {})}, self.stdin, self.errors)


OURS = "truemem"
UNSAVED = "truemem without its image"
SOURCED = "truemem from source"
PLAIN = "a usual extension"
GO = "AWS's sample in Go"
FLOOR = "floor: static C"
BEFORE_HELP = "A commit to compare with, by turns."
GO_HELP = f"Compare with {GO}: a checkout, or its build."
ONE_FILE = (OURS, GO, FLOOR)
"""Those that are one file, and can be started cold."""

GO_VARIABLES = {"AWS_SAM_LOCAL": "true", "DISPATCH_POST_URI": "http://127.0.0.1:9/"}
"""It listens on all addresses instead of the name `sandbox`; it does not start without an address to send to."""


def contenders(folder: Path, go: str | None = None) -> list[Contender]:
    """All of them, ours first and the floor last; what is compiled goes into `folder`. `go` is a checkout of
    go-example-telemetry-api-extension (github.com/aws-samples/aws-lambda-extensions), or what was built from one.
    Raises RuntimeError if the layer has not been built, or the sample cannot be."""
    if not EXECUTABLE.exists():
        raise RuntimeError(f"{EXECUTABLE} is not there: run `make layer`")
    toolchain = Toolchain(default_cache().resolve(), lambda what: None)
    build = cpython.build(default_cache().resolve(), toolchain, lambda what: None)
    floor = folder / "floor"
    command = [toolchain.compiler(MACHINE), "-static", "-s", "-O2", str(EXTENSIONS / "floor.c"), "-o", str(floor)]
    subprocess.run(command, env=toolchain.environment(), check=True)
    cache = default_cache().resolve()
    library = compiled.library(cache, build, toolchain, MACHINE, executable.SIDECAR_FOLDER)
    unsaved = executable.program(build, toolchain, MACHINE, folder, library)
    frozen = executable.freeze(build, executable.interpreted(build, library), folder)
    return [
        Contender(OURS, (EXECUTABLE,)),
        Contender(UNSAVED, (unsaved,), stdin=frozen),
        Contender(SOURCED, (SOURCE,)),
        Contender(PLAIN, (sys.executable, EXTENSIONS / "plain.py")),
        *([Contender(GO, (_sample(Path(go), folder),), GO_VARIABLES, errors=False)] if go is not None else []),
        Contender(FLOOR, (floor,)),
    ]


def _sample(given: Path, folder: Path) -> Path:
    if given.is_file():
        return given.resolve()
    built = folder / "go-sample"
    done = subprocess.run(["go", "build", "-o", built], cwd=given, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"go build in {given}: {done.stderr.strip()}")
    return built


@contextmanager
def code_of(commit: str | None) -> Iterator[Path | None]:
    """A folder with the code of a commit; None without one."""
    if commit is None:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="truemem-before-") as folder:
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--detach", "--force", folder, commit], check=True, capture_output=True)
        Path(folder).chmod(0o755)  # an extension runs as an ordinary user
        try:
            yield Path(folder)
        finally:
            subprocess.run([*git, "remove", "--force", folder], check=True, capture_output=True)


def layer_of(code: Path) -> Path:
    """Build the layer of this code; its executable. Raises CalledProcessError."""
    command = [sys.executable, "-m", "layer", "--output", str(code / "dist")]
    subprocess.run(command, cwd=code, check=True, capture_output=True)
    return code / "dist" / EXECUTABLE.relative_to(ROOT / "dist")
