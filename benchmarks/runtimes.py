"""Functions whose work is done by one thread, on each runtime that this machine has or can install.

Their sources are in functions/threaded: each does the kind of work that its event names.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from truemem_workbench.local import BadInput, Function
from truemem_workbench.local.configuration.function import with_project_python
from truemem_workbench.local.configuration.node_function import from_node_handler

from testing import installs
from testing.installs import Missing

SOURCES = Path(__file__).with_name("functions") / "threaded"
PYTHON_WORK = f"{SOURCES / 'work.py'}:handler"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
JAVAS = ("17", "21")
NODES = ("22", "24")

ORDINARY = ("plain_json", "hashing", "regex", "sqlite", "zipped", "rows", "decimals", "sorting", "caching", "spooled")
"""Kinds of work that the handlers of functions in Python have."""
IN_PYTHON = (*ORDINARY, "touch", "twice", "buffers", "answer")
PLAIN = ("small", "touch", "twice", "buffers", "sorting", "table", "caching", "answer")
"""Kinds in C, Rust and Go."""
IN_SHELL = ("small", "touch", "twice", "buffers", "table", "answer")
IN_NODE = ("small", "json", "buffers", "objects", "touch", "twice", "answer")
IN_JAVA = ("small", "blocks", "objects", "touch", "answer")
MANAGED_JAVA = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Xmx1024m")
"""As Lambda starts a JVM."""


@dataclass(frozen=True)
class Runtime:
    """A function on one runtime."""

    name: str
    function: Function
    kinds: Sequence[str]
    """The work that its events name."""
    least: float
    """The promise: least share of figures in exact mode. With a garbage collector in threads of its own it is less."""


@dataclass(frozen=True)
class Row:
    """One row of the table: how its function is made."""

    name: str
    make: Callable[[Path], Function]
    """Gets an empty folder for what is compiled. Raises Missing."""
    kinds: Sequence[str]
    least: float = 0.97

    def runtime(self, folder: Path) -> Runtime:
        """Raises Missing if this machine cannot have it."""
        folder.mkdir()
        try:
            return Runtime(self.name, self.make(folder), self.kinds, self.least)
        except BadInput as problem:
            raise Missing(str(problem)) from None


def rows(pythons: Sequence[str], aws_go: Path | None) -> Iterator[Row]:
    """All of them. `pythons`: interpreters that replace those of their version; `aws_go`: a checkout of
    github.com/aws/aws-lambda-go."""
    asked = {installs.python_version(path): path for path in pythons}
    for version in dict.fromkeys((*PYTHONS, *asked)):
        yield Row(f"Python {version}", _python(version, asked.get(version)), IN_PYTHON)
    yield Row("Go", _go, PLAIN)
    if aws_go is not None:
        yield Row("Go, AWS's library", lambda folder: _go(folder, aws_go), PLAIN)
    yield Row("C", _c, PLAIN)
    yield Row("Rust", _rust, PLAIN)
    yield Row("shell without children", _shell, IN_SHELL)
    for version in NODES:
        yield Row(f"Node.js {version}", _node(version), IN_NODE, least=0.8)
    for version in JAVAS:
        yield Row(f"Java {version}", _java(version), IN_JAVA, least=0.8)


def compiled(*command: str | Path, cwd: Path | None = None) -> None:
    """Run a compiler. Raises Missing if it is not here, or refuses."""
    name = command[0]
    if shutil.which(name) is None:
        raise Missing(f"there is no {name} on the path")
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Missing(f"{name} failed: {done.stderr.strip()}")


def _python(version: str, asked: str | None) -> Callable[[Path], Function]:
    def make(_: Path) -> Function:
        interpreter = asked or str(installs.python(version))
        return with_project_python(Function.from_handler(PYTHON_WORK), interpreter)[0]

    return make


def _go(folder: Path, library: Path | None = None) -> Function:
    for source in (SOURCES / "go").glob("*.go"):
        shutil.copy(source, folder)
    module = "module bootstrap\n\ngo 1.18\n"
    if library is not None:
        name = "github.com/aws/aws-lambda-go"
        module += f"\nrequire {name} v0.0.0\n\nreplace {name} => {library.resolve()}\n"
    (folder / "go.mod").write_text(module)
    tags = ["-tags", "aws"] if library is not None else []
    compiled("go", "build", "-mod=mod", *tags, "-o", folder / "bootstrap", ".", cwd=folder)
    return Function.from_bootstrap(folder / "bootstrap")


def _c(folder: Path) -> Function:
    compiled("cc", "-O2", "-D_GNU_SOURCE", SOURCES / "work.c", "-o", folder / "bootstrap")
    return Function.from_bootstrap(folder / "bootstrap")


def _rust(folder: Path) -> Function:
    compiled("rustc", "-O", "--edition", "2021", SOURCES / "work.rs", "-o", folder / "bootstrap")
    return Function.from_bootstrap(folder / "bootstrap")


def _shell(folder: Path) -> Function:
    bash = shutil.which("bash")
    if bash is None:
        raise Missing("there is no bash on the path")
    (folder / "bootstrap").write_text(f"#!{bash}\n{(SOURCES / 'work.sh').read_text()}")
    (folder / "bootstrap").chmod(0o755)
    return Function.from_bootstrap(folder / "bootstrap")


def _node(version: str) -> Callable[[Path], Function]:
    def make(_: Path) -> Function:
        path = f"{installs.node(version).parent}{os.pathsep}{os.environ['PATH']}"
        with patch.dict(os.environ, PATH=path):
            return from_node_handler(f"{SOURCES / 'work.mjs'}:handler", None, lambda _: None)

    return make


def _java(version: str) -> Callable[[Path], Function]:
    def make(folder: Path) -> Function:
        program = installs.java(version, download=True)
        return java(program, folder, *MANAGED_JAVA)

    return make


def java(program: str | Path, folder: Path, *options: str) -> Function:
    """The work in Java, compiled into `folder`. Raises Missing."""
    compiled("javac", "--release", "17", "-d", folder, SOURCES / "Work.java")
    command = (str(program), *options, "-cp", str(folder), "Work")
    return Function(command, folder, "Work", None, (folder,))
