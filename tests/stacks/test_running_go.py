"""The line of Go that ran when memory ran out, at real kills by the kernel: a planted one, its function, or none."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from truemem_workbench.local import Function

from testing.environment import Environment
from tests.local.conftest import needs_cgroups
from tests.stacks.rounds import one_is_named

GO = shutil.which("go")
pytestmark = [
    needs_cgroups,
    pytest.mark.timeout(600),
    pytest.mark.skipif(GO is None, reason="no go on the path"),
]

ROOT = Path(__file__).parents[2]
SOURCE = Path(__file__).with_name("functions") / "go" / "main.go"
LIBRARY = """package hoard

import "bytes"

var all [][]byte

func Keep(size int) { all = append(all, bytes.Repeat([]byte{1}, size)) }
"""
MODULES = "# example.com/hoard v1.0.0\n## explicit; go 1.19\nexample.com/hoard\n"
MODULE = "module function\n\ngo 1.19\n\nrequire example.com/hoard v1.0.0\n"
MIB = 512
TRIES = 6
"""Rounds until a death has its line: a burst may be faster than a look, and then there is none."""
LINES = SOURCE.read_text().split("\n")
CASES = [case for line in LINES for case in re.findall(r'"(\w+)": \w+,', line)]


def build(folder: Path, *options: str) -> Path:
    made = folder / "-".join(("program", *(option.strip("-") for option in options))) / "bootstrap"
    variables = {**os.environ, "GOFLAGS": "-mod=vendor", "GOTOOLCHAIN": "local", "CGO_ENABLED": "0"}
    command = [str(GO), "build", *options, "-o", str(made), "."]
    done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return made


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """Not in pytest's folder: the function's user cannot read that."""
    with tempfile.TemporaryDirectory() as name:
        made = Path(name)
        made.chmod(0o755)
        shutil.copy(SOURCE, made)
        shutil.copytree(ROOT / "libraries" / "go" / "truemem", made / "truemem")
        (made / "go.mod").write_text(MODULE)
        library = made / "vendor" / "example.com" / "hoard"
        library.mkdir(parents=True)
        (library / "hoard.go").write_text(LIBRARY)
        (made / "vendor" / "modules.txt").write_text(MODULES)
        yield made


def ran(case: str, bootstrap: Path, *, exact: bool = False, **variables: str) -> dict[str, Any]:
    """`outOfMemory` of an invocation that does this."""
    function = Function.from_spec(str(bootstrap))
    with Environment(function, environment=variables, exact=exact, memory_mib=MIB, timeout_s=60) as environment:
        environment.local.invoke({})
        environment.local.invoke({"case": case})
        *_, record = environment.records()
    return record.outOfMemory or {}


def check(case: str, running: dict[str, Any]) -> None:
    """The line is one of the case that takes memory; without a line, the function has one."""
    assert Path(running["file"]).name == SOURCE.name
    if "line" in running:
        assert LINES[running["line"] - 1].endswith(f"// {case}")
    else:
        assert running["function"].startswith(f"main.{case}")
    assert MIB / 2 <= running["level"] < 1.25 * MIB  # pages of files are in RSS, and not all in the limit


def test_the_line_is_the_one_that_takes_memory(folder: Path) -> None:
    programs = (
        ("closure", build(folder), str(folder / "main.go")),
        ("library", build(folder, "-trimpath"), "function/main.go"),
    )

    def is_right(program: tuple[str, Path, str], running: dict[str, Any]) -> bool:
        check(program[0], running)
        assert running["file"] == program[2]
        return True

    assert one_is_named(programs, lambda program, exact: ran(program[0], program[1], exact=exact), is_right, TRIES)


@pytest.mark.parametrize("case", ["all", "rarely"])
def test_there_is_no_line_where_it_is_not_known(case: str, folder: Path) -> None:
    assert "running" not in ran(case, build(folder))


@pytest.mark.nightly
@pytest.mark.parametrize("processors", ["1", "2"])
@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("case", CASES)
def test_no_line_is_a_wrong_one(case: str, exact: bool, processors: str, folder: Path) -> None:
    running = ran(case, build(folder), exact=exact, GOMAXPROCS=processors).get("running", {})
    if "file" in running:
        check(case, running)
