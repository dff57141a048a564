"""The extensions that are compared: our executable, the same source under python3, a usual extension, and the floor."""

from __future__ import annotations

import platform
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from truemem_workbench.testing.environment import SOURCE

from benchmarks.publish import ROOT
from layer.__main__ import default_cache
from layer.toolchain import Toolchain

EXTENSIONS = Path(__file__).with_name("extensions")

MACHINE = platform.machine()
EXECUTABLE = ROOT / "dist" / {"aarch64": "arm64"}.get(MACHINE, MACHINE) / "extensions" / "truemem"
"""What `make layer` has made for this machine."""
EXACT_MODE = {"AWS_LAMBDA_EXEC_WRAPPER": str(EXECUTABLE.parents[1] / "truemem" / "exact")}
"""The function's variable that turns exact mode on, with the same layer."""


@dataclass(frozen=True)
class Contender:
    """One extension."""

    name: str
    command: tuple[str | Path, ...]
    variables: Mapping[str, str] = field(default_factory=dict)


OURS = "truemem"
SOURCED = "truemem from source"
PLAIN = "a usual extension"
FLOOR = "floor: static C"


def contenders(folder: Path) -> list[Contender]:
    """All four; the floor is compiled into `folder`. Raises RuntimeError if the layer has not been built."""
    if not EXECUTABLE.exists():
        raise RuntimeError(f"{EXECUTABLE} is not there: run `make layer`")
    toolchain = Toolchain(default_cache().resolve(), lambda what: None)
    floor = folder / "floor"
    command: list[str | Path] = [
        toolchain.compiler(MACHINE),
        "-static",
        "-s",
        "-O2",
        EXTENSIONS / "floor.c",
        "-o",
        floor,
    ]
    subprocess.run(command, env=toolchain.environment(), check=True)
    return [
        Contender(OURS, (EXECUTABLE,)),
        Contender(SOURCED, (SOURCE,)),
        Contender(PLAIN, (sys.executable, EXTENSIONS / "plain.py")),
        Contender(FLOOR, (floor,)),
    ]
