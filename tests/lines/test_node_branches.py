"""The preload in Node.js names only what ran: no function that a handler's source has for events that do not come."""

from pathlib import Path
from typing import Any

import pytest

from testing import installs
from tests.lines.test_node import FUNCTIONS, MARK, NODE, Lambda, function, marked

__all__ = ["function"]
pytestmark = pytest.mark.skipif(NODE is None, reason="no node on the path")
FUNCTION_MARK = "// function"
"""Several places of this function may keep it: the function alone is to be named."""
BRANCHES = sorted((FUNCTIONS / "branches").iterdir())


@pytest.fixture(params=["path", *(pytest.param(version, marks=pytest.mark.nightly) for version in ("20", "24"))])
def node(request: pytest.FixtureRequest) -> str:
    if request.param == "path":
        return str(NODE)
    try:
        return str(installs.node(request.param))
    except installs.Missing as missing:
        pytest.skip(str(missing))


def common(source: str) -> str:
    """The same as CommonJS."""
    return source.replace("export const handler", "exports.handler")


def first(found: Any) -> tuple[int, str]:
    assert (found["gaveUp"], found["lines"] != []) == ("", True)
    line = found["lines"][0]
    return line["line"], line["function"]


@pytest.mark.parametrize("kind", [".mjs", ".cjs"])
@pytest.mark.parametrize("path", BRANCHES, ids=lambda path: path.stem)
def test_only_what_ran_is_named(function: Lambda, node: str, path: Path, kind: str) -> None:
    """With code that is hot before it is asked: V8 has inlined it."""
    source = path.read_text() if kind == ".mjs" else common(path.read_text())
    function.node = node
    runs = (function.run(source, 280, name=path.stem + kind, ask=200) for _ in range(4))
    line, name = first(next(found for found in runs if found["lines"]))
    if MARK in source:
        assert line == marked(source)
    else:
        handler = "handler" if kind == ".mjs" else "exports.handler"
        assert (line, name) == (marked(source, FUNCTION_MARK), f"{handler} (line unknown)")


def test_what_a_library_keeps_is_no_branchs(function: Lambda) -> None:
    library = function.root / "node_modules" / "memo"
    library.mkdir(parents=True)
    (library / "index.js").write_text(
        "const all = new Map();\nexports.save = (key, value) => void all.set(key, value);\n"
    )
    source = (
        'const memo = require("memo");\nconst rare = [];\nexports.handler = async ({ n, type }) => {\n'
        '  const rows = new Array(2000).fill(n);\n  if (type === "rare") rare.push(rows);\n'
        "  else memo.save(n, rows);\n  return n;\n};\n"
    )
    assert first(function.run(source, name="app.cjs")) == (3, "exports.handler (line unknown)")


def test_without_counts_only_the_stack_is_named(function: Lambda) -> None:
    """V8 has one count of the functions that run: where a coverage report has it, it is left alone."""
    source = (FUNCTIONS / "branches" / "never_called.mjs").read_text()
    coverage = function.root / "coverage"
    found = function.run(source, NODE_V8_COVERAGE=str(coverage))
    assert first(found)[1] == "handler (line unknown)"
    (report,) = coverage.iterdir()
    assert '"functionName":"store"' in report.read_text()
