"""The pages "from zero to the line", docs/first-LANGUAGE.md: files, commands, what these print, and the repair."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
import venv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from testing import installs

ROOT = Path(__file__).parents[1]
STAND_INS = Path(__file__).with_name("stand_ins")
LANGUAGES = ("python", "nodejs", "typescript", "java", "go")
MARK = "the leak"
"""The comment at the line that the page names."""
INSTALLS = "pip install"
MOST_S = 600
_PART = re.compile(r"(?:^\*\*(\S+)\*\*\n\n)?^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FIGURE = re.compile(r"\d[\d.,]*")


class Step(NamedTuple):
    """A command of the page, and what it says that this prints; empty where it says nothing."""

    command: str
    quoted: str


@dataclass(frozen=True)
class Page:
    """One of the pages, read."""

    text: str
    files: Mapping[str, str]
    """By their paths in the project's folder."""
    steps: tuple[Step, ...]
    """From nothing to the line."""
    repair: str
    """A diff, as git makes it."""
    proof: tuple[Step, ...]

    @property
    def leak(self) -> str:
        """The place that is marked in the source, such as `src/app.py:14`. Raises ValueError unless it is one."""
        (place,) = (
            f"{name}:{number}"
            for name, text in self.files.items()
            for number, line in enumerate(text.splitlines(), 1)
            if line.endswith(MARK)
        )
        return place


def read(language: str) -> Page:
    """The page of a language."""
    text = (ROOT / "docs" / f"first-{language}.md").read_text()
    files: dict[str, str] = {}
    steps: list[Step] = []
    repair, before = "", 0
    for name, kind, block in _PART.findall(text):
        if name:
            files[name] = block
        elif kind == "bash":
            steps += (Step(command, "") for command in block.splitlines())
        elif kind == "diff":
            repair, before = block, len(steps)
        else:
            steps[-1] = steps[-1]._replace(quoted=block)
    return Page(text, files, tuple(steps[:before]), repair, tuple(steps[before:]))


class Done(NamedTuple):
    """A step that was taken."""

    step: Step
    printed: str
    """Both outputs, in their order."""
    code: int
    seconds: float


def take(steps: tuple[Step, ...], folder: Path, variables: Mapping[str, str]) -> Iterator[Done]:
    """Type the commands one after the other, in a shell in that folder."""
    for step in steps:
        began = time.monotonic()
        done = subprocess.run(
            step.command, shell=True, cwd=folder, env=variables, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, timeout=MOST_S, check=False,
        )  # fmt: skip
        yield Done(step, done.stdout, done.returncode, time.monotonic() - began)


def faults(page: Page, done: Sequence[Done]) -> list[str]:
    """What the page says and was not so, of its steps to the line and its proof, all of them in their order."""
    to_line, proof = done[: len(page.steps)], done[len(page.steps) :]
    found = [] if f"{page.leak} keeps" in to_line[-1].printed else [f"{page.leak} is not named"]
    found += [f"{each.step.command} ended with {each.code}" for each in (*to_line[:-1], *proof) if each.code]
    found += [f"not printed by the step before: {command}" for command in _untold(done)]
    return found + [f"quoted, not printed: {words}" for each in done for words in _unlike(each)]


def _unlike(done: Done) -> list[str]:
    """What the page quotes, and was not printed in this order. Figures and white space may differ; `...` leaves out."""
    rest, missing = _words(done.printed), []
    for words in filter(None, map(_words, done.step.quoted.split("..."))):
        before, found, after = rest.partition(words)
        if not found:
            missing.append(words)
        rest = after if found else before
    return missing


def _untold(done: Sequence[Done]) -> list[str]:
    """Commands that the step before has not printed word for word, to the end of a line; of `pip`, anywhere."""
    return [
        after.step.command
        for before, after in pairwise(done)
        if f"{after.step.command}{'' if before.step.command.startswith(INSTALLS) else os.linesep}" not in before.printed
    ]


def _words(text: str) -> str:
    return " ".join(_FIGURE.sub("1", text).split())


def write(page: Page, folder: Path) -> None:
    """Write the page's files into a folder."""
    for name, text in page.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def repair(page: Page, folder: Path) -> None:
    """Apply the page's diff. Raises CalledProcessError if it does not fit."""
    subprocess.run(["git", "apply", "--unidiff-zero", "-"], cwd=folder, input=page.repair, text=True, check=True)


def stand_ins(language: str, folder: Path, home: Path, programs: Path, *, npm: bool = True) -> dict[str, str]:
    """Put into place what a machine without the registries of Go and Maven lacks, and what a test need not fetch again.
    Returns variables. Raises installs.Missing.

    Go: AWS's module is replaced by a small one that speaks the Runtime API. Java: the same two interfaces as AWS's in a
    local repository, and a `mvn` that makes the jar with javac. TypeScript: node_modules is there, if `npm`. The pages
    say nothing of it: a reader has the real ones.
    """
    for tool in {"go": ["go"], "java": ["javac", "jar"], "nodejs": ["node"], "typescript": ["node", "npm"]}.get(
        language, []
    ):
        if shutil.which(tool) is None:
            raise installs.Missing(f"there is no {tool} on the path")
    if language == "go":
        with (folder / "go.mod").open("a") as file:
            file.write(f"\nreplace github.com/aws/aws-lambda-go => {STAND_INS / 'aws-lambda-go'}\n")
        return {"GOFLAGS": "-mod=mod", "GOPROXY": "off"}
    if language == "java":
        _core_jar(home / ".m2/repository/com/amazonaws/aws-lambda-java-core")
        (programs / "mvn").write_text((STAND_INS / "mvn").read_text())
        (programs / "mvn").chmod(0o755)
    if language == "typescript" and npm:
        tools = installs.node_packages(installs.CACHE / "typescript", ROOT / "benchmarks/functions/leaks/ts")
        (folder / "node_modules").symlink_to(tools)
    return {}


def _core_jar(place: Path, version: str = "1.2.3") -> None:
    """The interfaces of aws-lambda-java-core that the page needs, as Maven keeps it in its repository."""
    folder = place / version
    classes = folder / "classes"
    classes.mkdir(parents=True)
    jar = folder / f"aws-lambda-java-core-{version}.jar"
    sources = [str(each) for each in (STAND_INS / "java-core").rglob("*.java")]
    installs.run(["javac", "--release", "11", "-d", str(classes), *sources])
    installs.run(["jar", "cf", str(jar), "-C", str(classes), "."])
    jar.with_suffix(".pom").write_text("<project></project>\n")


def our_command(programs: Path) -> None:
    """A `truemem` in that folder which is this checkout's."""
    (programs / "truemem").write_text(f'#!/bin/sh\nexec {sys.executable} -m truemem_workbench.commands "$@"\n')
    (programs / "truemem").chmod(0o755)


def variables(home: Path, *programs: Path, **more: str) -> dict[str, str]:
    """The variables of a new user: a home of his own, and the programs of these folders first on the PATH."""
    hidden = ("VIRTUAL_ENV", "PYTHONPATH", "COLUMNS", "GITHUB_STEP_SUMMARY", "AWS_REGION", "AWS_DEFAULT_REGION")
    own = {name: value for name, value in os.environ.items() if name not in hidden}
    return {**own, "HOME": str(home), "PATH": os.pathsep.join((*map(str, programs), os.environ["PATH"])), **more}


def prose(text: str) -> str:
    """A page without its blocks."""
    return _PART.sub("", text)


def typed(language: str, wheel: Path, base: Path) -> tuple[Page, list[Done]]:
    """The page's commands, typed with an environment and a home that are made below `base`: no cache of pip, npm, Go or
    truemem is there. Raises installs.Missing."""
    page = read(language)
    folder, home, programs, environment = (base / name for name in ("orders", "home", "bin", "venv"))
    for each in (folder, home, programs):
        each.mkdir()
    write(page, folder)
    own = stand_ins(language, folder, home, programs, npm=False)
    (folder / page.steps[0].command.split()[-1]).symlink_to(wheel)
    venv.create(environment, with_pip=True, symlinks=True)
    user = variables(home, programs, environment / "bin", **own)
    done = [*take(page.steps, folder, user)]
    repair(page, folder)
    return page, [*done, *take(page.proof, folder, user)]
