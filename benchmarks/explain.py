"""Does `truemem explain` name the line? Some 20 leaks in each language, and a repaired twin of each.

The programs in functions/leaks are other people's, who had read nothing of the product: leaks of public reports and
some of their own, with a truth that does not use it (truth.txt, by truth.*). A line that ends with `LEAK` and
the name is at fault; it was marked before the first run. Each runs as a user would type it, two at a time. The line
must be right first in 90 %, its file in 95 %, and none may be named in a twin. An hour and a half.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any

from benchmarks.kit.bench import Bench
from testing import installs
from testing.pages import ROOT, Result, Table

TITLE = "Which line leaks"
PROGRAMS = ROOT / "benchmarks" / "functions" / "leaks"
LINE, FILE = 0.90, 0.95
MARK = re.compile(r"(?:#|//) LEAK ([a-z][a-z0-9_]*)\s*$")
MOST_S = 900
NOTES = f"""\
Line: the first line that is named is one of the marked. File: it is in that file. Accused: twins in which a line is
named. Told / true: KiB at the lines by KiB of the plain loop, median, from 1 KiB on. Seconds of a run, median.
The promise: lines {LINE:.0%}, files {FILE:.0%}, no twin."""


@dataclass(frozen=True)
class Way:
    """How the programs of a language are run."""

    language: str
    folder: str
    version: str
    arguments: Sequence[str] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    build: Sequence[Sequence[str]] = ()
    """Commands, in a copy of the folder."""

    @property
    def name(self) -> str:
        return f"{self.language} {self.version}".strip()


def _node(language: str, folder: str, version: str, spec: str, build: Sequence[Sequence[str]] = ()) -> Way:
    path = f"{installs.node(version).parent}:{os.environ['PATH']}"
    return Way(language, folder, version, (spec,), {"PATH": path}, build)


def _java(version: str) -> Way:
    home = str(installs.java(version).parents[1])
    build = (["sh", "-c", "javac -g --release 17 -d . $(find . -name '*.java')"],)
    return Way("Java", "java", version, ("bootstrap", "--env", f"JAVA_HOME={home}"), {"JAVA_HOME": home}, build)


def _python(language: str, folder: str, version: str) -> Way:
    interpreter = str(installs.python(version))
    build = (["sh", "build.sh", interpreter],) if folder == "cpp" else ()
    return Way(language, folder, version, ("app.py:handler", "--python", interpreter), {}, build)


def _typescript(tool: str, version: str, spec: str) -> Way:
    tools = installs.node_packages(installs.CACHE / "typescript", PROGRAMS / "ts")
    return _node(f"TypeScript, {tool}", "ts", version, spec, (["sh", "build.sh", str(tools)],))


def _rust() -> Way:
    return Way("Rust", "rust", "", ("target/release/bootstrap",), {}, (["cargo", "build", "-qr"],))


def _go() -> Way:
    return Way("Go", "go", "", ("bootstrap",), {}, (["go", "build", "-o", "bootstrap", "main.go"],))


WAYS: Mapping[str, Callable[[], Way]] = {
    "Python 3.11": partial(_python, "Python", "python", "3.11"),
    "Python 3.13": partial(_python, "Python", "python", "3.13"),
    "C++ below Python 3.11": partial(_python, "C++ below Python", "cpp", "3.11"),
    "Rust": _rust,
    "Node.js 20": partial(_node, "Node.js", "node", "20", "app.mjs:handler"),
    "Node.js 24": partial(_node, "Node.js", "node", "24", "app.mjs:handler"),
    "TypeScript, esbuild, 24": partial(_typescript, "esbuild", "24", "dist-esbuild/app.mjs:handler"),
    "TypeScript, tsc, 20": partial(_typescript, "tsc", "20", "dist-tsc/app.js:handler"),
    "Java 17": partial(_java, "17"),
    "Java 25": partial(_java, "25"),
    "Go": _go,
}


@dataclass(frozen=True)
class Said:
    """What was said of a leak, or of its twin."""

    leak: str
    is_repaired: bool
    lines: Sequence[tuple[str, int]]
    kib: float
    """At all lines, of an invocation."""
    seconds: float


def marks(folder: Path) -> dict[str, set[tuple[str, int]]]:
    """The lines that are at fault, by leak."""
    found: dict[str, set[tuple[str, int]]] = {}
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".py", ".cpp", ".rs", ".mjs", ".js", ".ts", ".java", ".go") and "dist-" not in str(path):
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                if (mark := MARK.search(line)) is not None:
                    found.setdefault(mark[1], set()).add((str(path), number))
    return found


def truths(folder: Path) -> dict[str, float]:
    """KiB of an invocation by the plain loop, by leak."""
    rows = (line.split() for line in (folder / "truth.txt").read_text(encoding="utf-8").splitlines() if line)
    return {row[0]: float(row[2]) for row in rows}


def explained(way: Way, folder: Path, leak: str, is_repaired: bool) -> Said:
    spec, *more = way.arguments
    command = [sys.executable, "-m", "truemem_workbench.commands", "explain", str(folder / spec), *more, "--json"]
    command += ["--env", f"LEAK={leak}", *(["--env", "REPAIRED=1"] if is_repaired else [])]
    done = subprocess.run(
        command, env={**os.environ, **way.variables}, capture_output=True, text=True, check=False, timeout=MOST_S
    )
    assert done.stdout.startswith("{"), f"{way.name}, {leak}: {done.stderr[-400:]}"
    said: Mapping[str, Any] = json.loads(done.stdout)["explanation"]
    lines = [(str(each["file"]), int(each["line"])) for each in said["lines"] if each.get("file")]
    kib = sum(float(each["perInvocationKiB"]) for each in said["lines"])
    return Said(leak, is_repaired, lines, kib, float(said["seconds"]))


def run(bench: Bench) -> Result:
    rows, broken = [], []
    for name in bench.each("languages", bench.chosen(WAYS)):
        try:
            way = WAYS[name]()
        except installs.Missing as problem:
            broken.append(f"{name}: {problem}")
            continue
        with tempfile.TemporaryDirectory(prefix="truemem-leaks-", dir="/var/tmp") as made:
            folder = Path(made) / way.folder
            shutil.copytree(PROGRAMS / way.folder, folder)
            Path(made).chmod(0o755)  # the function may run as another user
            for command in way.build:
                subprocess.run(command, cwd=folder, check=True, capture_output=True)
            at_fault = marks(folder)
            chosen = sorted(at_fault)[: bench.count(len(at_fault))]
            row, promises = _measured(bench, way, folder, chosen, at_fault)
            rows.append(row)
            broken += [f"{name}: {words}" for words, is_kept in promises.items() if not is_kept]
    headings = ("", "leaks", "line", "file", "twins accused", "told / true", "s")
    return Result([Table("", headings, rows, NOTES)], broken)


def _measured(
    bench: Bench, way: Way, folder: Path, leaks: Sequence[str], at_fault: Mapping[str, set[tuple[str, int]]]
) -> tuple[list[str], dict[str, bool]]:
    asked = [(leak, is_repaired) for leak in leaks for is_repaired in (False, True)]
    advance = bench.step(way.name, len(asked))
    said: list[Said] = []
    with ThreadPool(2) as pool:
        for one in pool.imap_unordered(lambda each: explained(way, folder, *each), asked):
            said.append(one)
            advance()
            first, known = one.lines[:1], at_fault[one.leak]
            if bool(first) if one.is_repaired else not (first and first[0] in known):
                bench.echo(f"{way.name}, {one.leak}{', repaired' * one.is_repaired}: {first}, true {sorted(known)}")
    of = [each for each in said if not each.is_repaired]
    line = sum(bool(each.lines) and each.lines[0] in at_fault[each.leak] for each in of)
    file = sum(bool(each.lines) and each.lines[0][0] in {at for at, _ in at_fault[each.leak]} for each in of)
    accused = sum(bool(each.lines) for each in said if each.is_repaired)
    true = truths(folder)
    ratios = [each.kib / true[each.leak] for each in of if each.kib and true.get(each.leak, 0) >= 1]
    row = [
        way.name, f"{len(of)}", f"{line}", f"{file}", f"{accused} of {len(said) - len(of)}",
        f"{statistics.median(ratios):.2f}" if ratios else "", f"{statistics.median(each.seconds for each in said):.0f}",
    ]  # fmt: skip
    promises = {
        f"{line} of {len(of)} lines": line >= LINE * len(of),
        f"{file} of {len(of)} files": file >= FILE * len(of),
        f"{accused} twins accused": not accused,
    }
    return row, promises
