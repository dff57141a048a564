"""The line of Node.js that ran when memory ran out, at real kills by the kernel: a planted one, or none."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from truemem_workbench.local import Function

from testing import installs
from testing.environment import Environment
from tests.local.conftest import needs_cgroups
from tests.stacks.rounds import one_is_named

pytestmark = [needs_cgroups, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
SOURCE = Path(__file__).with_name("functions") / "deaths.mjs"
CLIENT = ROOT / "tests/heaps/functions/node/client.mjs"
PRELOAD = ROOT / "layer/truemem/heap.cjs"
LIBRARY = """"use strict";
const held = [];
exports.keep = (bytes) => held.push(Buffer.alloc(bytes, 1));
"""
MIB = 512
TRIES = 4
"""Rounds until a death has its line: a burst may be faster than a look, and then there is none."""
LINES = SOURCE.read_text().split("\n")
CASES = {
    found[1]: number for number, line in enumerate(LINES) if (found := re.match(r"  (?:async )?(\w+)\(\) \{$", line))
}
"""The lines of SOURCE from which on they are."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("function")
    shutil.copy(SOURCE, made)
    library = made / "node_modules" / "hoard"
    library.mkdir(parents=True)
    (library / "index.js").write_text(LIBRARY)
    return made


def ran(case: str, folder: Path, version: str = "24", *, exact: bool = False, probe: bool = True) -> dict[str, Any]:
    """`outOfMemory` of an invocation that does this."""
    try:
        node = installs.node(version)
    except installs.Missing as reason:
        pytest.skip(str(reason))
    command = (str(node), "--max-old-space-size=8192", str(CLIENT), "deaths.handler")
    function = Function(command, folder, "deaths.handler", f"nodejs{version}.x", needs=(folder, CLIENT.parent, node))
    variables = {"NODE_OPTIONS": f"--require {PRELOAD}"} if probe else {}
    with Environment(function, environment=variables, exact=exact, memory_mib=MIB, timeout_s=60) as environment:
        environment.local.invoke({})
        environment.local.invoke({"case": case})
        _, record = environment.records()
    return record.outOfMemory or {}


def check(case: str, running: dict[str, Any]) -> None:
    """The line is one of the case that allocates, or the child's; without a line, the function has one."""
    end = next(number for number in range(CASES[case], len(LINES)) if LINES[number] == "  },")
    allocates = [number + 1 for number in range(CASES[case], end) if LINES[number].endswith("// allocates")]
    assert running["file"] == SOURCE.name
    if "line" in running:
        in_child = [number for number, line in enumerate(LINES, 1) if 'argv[2] === "fork"' in line]
        assert running["line"] in (in_child if case == "child_of_fork" else allocates)
    else:
        assert running["function"] == case
    assert MIB / 2 <= running["level"] < 1.25 * MIB  # pages of files are in RSS, and not all in the limit


def test_the_line_is_the_one_that_allocates(folder: Path) -> None:
    def has_line(case: str, running: dict[str, Any]) -> bool:
        check(case, running)
        return "line" in running

    cases = ("json", "stringified", "once")
    assert one_is_named(cases, lambda case, exact: ran(case, folder, exact=exact), has_line, TRIES)


@pytest.mark.parametrize("case", ["worker", "child", "files"])
def test_there_is_no_line_where_it_is_not_known(case: str, folder: Path) -> None:
    running = ran(case, folder).get("running", {})  # of `node -e` there may be a stack, without a file
    assert not {"file", "line"} & running.keys()


def test_there_is_no_line_without_the_probe(folder: Path) -> None:
    assert "running" not in ran("json", folder, probe=False)


@pytest.mark.nightly
@pytest.mark.parametrize("version", ["20", "22", "24"])
@pytest.mark.parametrize("case", CASES)
def test_no_line_is_a_wrong_one(case: str, version: str, folder: Path) -> None:
    running = ran(case, folder, version).get("running", {})
    if "file" in running:
        check(case, running)
