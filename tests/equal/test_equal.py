"""The compiled sidecar says what its source says, byte for byte: to the kernel, to Lambda, and in its lines.

Each seed is a life in a Lambda that is made up (simulation/): settings, processes, memory, bytes, clocks, and whatever
goes wrong. The same CPython plays it twice, once with the compiled modules.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

import pytest

from layer import compiled, cpython, executable
from layer.__main__ import default_cache
from layer.compiled import Library
from layer.toolchain import Toolchain

SIMULATION = Path(__file__).with_name("simulation")
ENTRY = Path("truemem/lifecycle/self_check.py")
"""What `truemem --check` runs: the driver is in its place."""
TOLD = re.compile(r", lines (\d+), (.*)")
"""How many lines a conversation has printed, and how each life in it has ended."""
pytestmark = pytest.mark.timeout(900)
"""What the layer's build has not compiled yet is compiled here."""

SOME, MANY, AT_ONCE = 60, 2000, 250


@dataclass(frozen=True)
class Sidecar:
    """A program that plays what its variable SEEDS asks for, with a sidecar in it."""

    command: list[str | Path]
    environment: dict[str, str]

    def start(self, asked: str) -> subprocess.Popen[str]:
        environment = {**self.environment, "SEEDS": asked}
        return subprocess.Popen(self.command, env=environment, stdout=subprocess.PIPE, text=True, errors="replace")


def differing(one: Sidecar, other: Sidecar, count: int) -> tuple[list[str], str]:
    """A line for each of the first `count` seeds, as the one has it, and where the other one differs first: "" if it
    does not."""
    lines: list[str] = []
    for first in range(0, count, AT_ONCE):
        asked = f"{first} {min(AT_ONCE, count - first)}"
        with one.start(asked) as left, other.start(asked) as right:
            ours, theirs = (started.communicate()[0].splitlines() for started in (left, right))
        for line, its in zip_longest(ours, theirs, fillvalue="ended early"):
            if line != its:
                return lines, first_difference(one, other, str(len(lines)))
            lines.append(line)
    assert len(lines) == count, lines[-1:]
    return lines, ""


def first_difference(one: Sidecar, other: Sidecar, seed: str) -> str:
    said = [sidecar.start(seed).communicate()[0].splitlines() for sidecar in (one, other)]
    at = next((at for at, pair in enumerate(zip(*said, strict=False)) if pair[0] != pair[1]), min(map(len, said)))
    before = "\n".join(said[0][max(0, at - 3) : at])
    return f"seed {seed}:\n{before}\n- {said[0][at : at + 1]}\n+ {said[1][at : at + 1]}"


def check(told: list[str]) -> None:
    """These conversations were no empty words, and each life has ended in one of the ways it may."""
    printed, ends = zip(*(TOLD.findall(line)[0] for line in told), strict=True)
    assert sum(map(int, printed)) > 3 * len(told)
    assert {"returns", "killed", "exits 1"} == set(", ".join(ends).split(", ")) - {"too many calls"}


def _no_emulator(machine: str) -> Path:
    raise AssertionError(f"nothing is built for {machine}")


class Workshop:
    """Links executables whose `--check` is the driver."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        cache = default_cache()
        cache.mkdir(parents=True, exist_ok=True)
        self._toolchain = Toolchain(cache, print)
        self._build = cpython.build(cache, self._toolchain, print)
        self._machine = platform.machine()
        # Of the sidecar as it is: the layer's own.
        library = compiled.library(cache, self._build, self._toolchain, self._machine, executable.SIDECAR_FOLDER)
        self.interpreted = self.linked("interpreted", Library())
        self.compiled = self.linked("compiled", library)

    def linked(self, name: str, library: Library, change: Callable[[Path], None] = lambda _: None) -> Sidecar:
        """The executable with a copy of the source; `change` gets the copy's folder."""
        work = self._folder / name
        shutil.copytree(executable.SIDECAR_FOLDER, work / "truemem", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copytree(SIMULATION, work / "simulation", ignore=shutil.ignore_patterns("__pycache__"))
        (work / ENTRY).write_text("from simulation.driver import main\n")
        change(work)
        made, machine = work / "sidecar", self._machine
        libraries = {machine: library}
        executable.link(self._build, self._toolchain, work / "truemem", libraries, {machine: made}, _no_emulator)
        return Sidecar([made, "--check"], {})


@pytest.fixture(scope="module")
def workshop() -> Iterator[Workshop]:
    with tempfile.TemporaryDirectory() as name:
        yield Workshop(Path(name))


def test_the_compiled_sidecar_says_what_its_source_says(workshop: Workshop) -> None:
    told, difference = differing(workshop.interpreted, workshop.compiled, SOME)
    assert not difference, difference
    check(told)


@pytest.mark.nightly
def test_two_thousand_conversations_are_the_same(workshop: Workshop) -> None:
    told, difference = differing(workshop.interpreted, workshop.compiled, MANY)
    assert not difference, difference
    check(told)


def test_the_source_says_the_same_in_another_python(workshop: Workshop) -> None:
    program = "import sys; from simulation.driver import main; main('')"
    path = os.pathsep.join(map(str, (executable.SIDECAR_FOLDER.parent, SIMULATION.parent)))
    source = Sidecar([sys.executable, "-c", program], {"PYTHONPATH": path, "PYTHONHASHSEED": "0"})
    assert differing(workshop.interpreted, source, 20)[1] == ""


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        pytest.param("support/numbers.py", "128 >> 8", "120 >> 8", marks=pytest.mark.nightly),
        pytest.param(
            "lifecycle/turn.py", "CALM_NS: Final = 2 * MS", "CALM_NS: Final = 3 * MS", marks=pytest.mark.nightly
        ),
        ("measure/window.py", "KERNEL_SLACK_KIB: Final = 256", "KERNEL_SLACK_KIB: Final = 255"),
    ],
)
def test_one_number_that_differs_is_seen(workshop: Workshop, file: str, old: str, new: str) -> None:
    def change(work: Path) -> None:
        path = work / "truemem" / file
        text = path.read_text()
        assert text.count(old) == 1
        path.write_text(text.replace(old, new))

    changed = workshop.linked(Path(file).stem, Library(), change)
    assert differing(workshop.interpreted, changed, 40)[1].startswith("seed ")
