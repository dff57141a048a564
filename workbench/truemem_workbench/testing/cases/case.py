"""The cases: what each folder says, and its program made ready to run."""

from __future__ import annotations

import atexit
import functools
import hashlib
import shutil
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..installs import CACHE, Missing, node_packages, python_packages

FOLDER = Path(__file__).parents[4] / "tests" / "cases"
RUNTIMES = Path(__file__).with_name("runtimes")
CAUSES = (
    "none",
    "leak",
    "hoarding",
    "cache",
    "collector",
    "native",
    "processes",
    "threads",
    "descriptors",
    "tmp",
    "extension",
    "page-cache",
    "failing",
)
"""What a case may have as its known cause: those of a finding but `undecided`."""
HARMLESS = frozenset({"none", "cache", "collector", "page-cache"})


@dataclass(frozen=True)
class Case:
    """A public report, rebuilt."""

    name: str
    """That of the folder."""
    title: str
    causes: tuple[str, ...]
    """The known cause first, then others that are true as well."""
    sources: tuple[str, ...]
    established: str
    """What the thread of the report found out."""
    runtime: str
    """python, nodejs, java or shell."""
    nightly: bool
    options: tuple[str, ...]
    """Of `truemem check`."""
    holder: str | None
    """What the finding's holder has in it; None where any is right."""
    hidden: bool | None
    exits: frozenset[int]
    event: str
    """JSON; also what the program gets when it is measured."""
    packages: tuple[str, ...]
    """NAME==VERSION: beside those of requirements.lock. Their lock file is in the folder."""
    node: int | None
    """The version of Node.js that shows it; None where any does."""
    measure: dict[str, Any]
    """`invocations`, and `node`: flags of Node.js."""

    @property
    def folder(self) -> Path:
        return FOLDER / self.name


@dataclass(frozen=True)
class Ready:
    """A program that can run: in a folder that every user can read."""

    folder: Path
    target: str
    """As `truemem check` names it."""
    python: Path
    """Interpreter of a Python handler."""
    extensions: Path | None

    @property
    def arguments(self) -> list[str]:
        """Of `truemem check`."""
        python = ["--python", str(self.python)] if self.target.endswith(".py:handler") else []
        return [self.target, *python, *(["--extensions", str(self.extensions)] if self.extensions else [])]


def exits(causes: tuple[str, ...]) -> frozenset[int]:
    """The exit codes of `truemem check` that fit the causes."""
    fitting = set()
    for cause in causes:
        if cause in HARMLESS:
            fitting.add(0)
        elif cause == "failing":
            fitting.add(2)
        elif cause == "hoarding":
            fitting.update((0, 1))  # a level that the limit still allows, or one that it does not
        else:
            fitting.add(1)
    return frozenset(fitting)


def read(folder: Path) -> Case:
    """The case of a folder. Raises KeyError or ValueError if its file is not as README.md says."""
    told = tomllib.loads((folder / "case.toml").read_text())
    causes = tuple(told.pop("cause"))
    case = Case(
        name=folder.name,
        title=told.pop("title"),
        causes=causes,
        sources=tuple(told.pop("sources")),
        established=told.pop("established"),
        runtime=told.pop("runtime"),
        nightly=told.pop("nightly", True),
        options=tuple(told.pop("options", ())),
        holder=told.pop("holder", None),
        hidden=told.pop("hidden", None),
        exits=frozenset(told.pop("exits", exits(causes))),
        event=told.pop("event", "{}"),
        packages=tuple(told.pop("packages", ())),
        node=told.pop("node", None),
        measure=told.pop("measure", {}),
    )
    if told or not set(causes) <= set(CAUSES):
        raise ValueError(f"{folder.name}/case.toml: {', '.join(told) or 'cause'} is not as README.md says")
    return case


@functools.cache
def cases() -> tuple[Case, ...]:
    """All of them, by name."""
    return tuple(read(file.parent) for file in sorted(FOLDER.glob("*/case.toml")))


def ready(case: Case) -> Ready:
    """Install what the program needs, and copy it to a folder for this run. Raises Missing."""
    # in /tmp, because the function runs as another user
    folder = Path(tempfile.mkdtemp(prefix=f"truemem-case-{case.folder.name}-", dir="/tmp"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    shutil.copytree(case.folder, folder, dirs_exist_ok=True)
    folder.chmod(0o755)
    python, target = Path(sys.executable), str(folder / "app.py:handler")
    lock = case.folder / "requirements.lock"
    if lock.is_file():
        digest = hashlib.sha256(lock.read_bytes()).hexdigest()[:12]
        python = python_packages(CACHE / f"case-{digest}", lock.read_text()) / "python"
    if case.runtime == "nodejs":
        _check_node(case.node)
        target = str(folder / "index.mjs:handler")
        if (case.folder / "package-lock.json").is_file():
            (folder / "node_modules").symlink_to(node_packages(CACHE / f"case-{case.name}", case.folder))
    elif case.runtime == "java":
        if shutil.which("javac") is None:
            raise Missing("there is no JDK: no javac on the path")
        source = [str(RUNTIMES / "Bootstrap.java"), str(folder / "App.java")]
        subprocess.run(["javac", "--release", "17", "-d", str(folder), *source], check=True)
        target = _executable(folder, f'exec java $JAVA_FLAGS -cp "{folder}" Bootstrap')
    elif case.runtime == "shell":
        if shutil.which("curl") is None:
            raise Missing("there is no curl on the path")
        target = _executable(folder, (RUNTIMES / "bootstrap.sh").read_text())
    extensions = folder / "extensions"
    return Ready(folder, target, python, extensions if extensions.is_dir() else None)


def _check_node(version: int | None) -> None:
    if shutil.which("node") is None:
        raise Missing("there is no node on the path")
    told = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout.strip()
    if version is not None and not told.startswith(f"v{version}."):
        raise Missing(f"it needs Node.js {version}, and the node on the path is {told}")


def _executable(folder: Path, script: str) -> str:
    bootstrap = folder / "bootstrap"
    bootstrap.write_text(f"#!/bin/bash\n{script}\n")
    bootstrap.chmod(0o755)
    return str(bootstrap)
