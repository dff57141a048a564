"""Lines of Node.js are those of the source, by the maps of real builds (functions/node/built)."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from truemem_workbench.explain.source_maps import Spot, original

from tests.lines.test_node import FUNCTIONS, NODE, ROOT, Lambda, function
from tests.lines.test_node_branches import node

__all__ = ["function", "node"]
pytestmark = pytest.mark.skipif(NODE is None, reason="no node on the path")
BUILT = FUNCTIONS / "built"
BUILDS = ("esbuild", "inline", "tsc", "swc", "webpack")
ORACLE = """
const [, maps, ...files] = process.argv, { SourceMap } = require("module"), { readFileSync } = require("fs");
const { mapped } = require(maps), read = (file) => readFileSync(file, "utf8");
let [compared, differing] = [0, 0];
for (const file of files) {
  const lines = read(file).split("\\n").slice(0, -1);
  const places = lines.flatMap((text, line) => [...text].map((_, column) => ({ line, column })));
  const found = mapped(file, read(file), places, { read });
  const nodes = new SourceMap(JSON.parse(read(`${file}.map`)));
  places.forEach((place, i) => {
    if (!found[i]) return; // Node.js overlooks that the source of the last ones is not known
    compared += 1;
    differing += nodes.findEntry(place.line, place.column).originalLine + 1 !== found[i].line;
  });
}
console.log(JSON.stringify([compared, differing]));
"""


def marked(text: str, file: str = "store.ts") -> tuple[str, int]:
    path = BUILT / "src" / file
    return str(path), next(number for number, line in enumerate(path.read_text().splitlines(), 1) if text in line)


def profiled(function: Lambda, build: str) -> Any:
    """The first line that a deployed build names, with its map where that has been put beside it."""
    for path in (BUILT / build).iterdir():
        shutil.copy(path, function.root)
    return function.run((BUILT / build / "index.js").read_text(), name="index.js")["lines"][0]


@pytest.mark.parametrize("build", BUILDS)
def test_a_function_names_the_line_of_its_source(function: Lambda, node: str, build: str) -> None:
    function.node = node
    line = profiled(function, build)
    assert (line["file"], line["line"], line["function"]) == ("src/store.ts", marked("orders.set")[1], "remember")
    assert "column" not in line
    assert line["stack"][0].split(":")[0] == "src/index.ts"


@pytest.mark.parametrize("text", [None, "no map", "{}", '{"mappings":"A,!","sources":[5]}'])
def test_without_a_map_the_column_tells_the_place(function: Lambda, text: str | None) -> None:
    code = (BUILT / "esbuild" / "index.js").read_text()
    if text is not None:
        (function.root / "index.js.map").write_text(text)
    line = function.run(code, name="index.js")["lines"][0]
    assert (line["file"], line["line"], line["function"]) == ("index.js", 1, "s")
    assert code[line["column"] - 1 :].startswith(("f.set(e.id,e)", "set(e.id,e)"))
    assert line["stack"][0].startswith("index.js:1:")


def test_a_map_too_large_for_the_function_is_not_read(function: Lambda) -> None:
    """It would take several times its size."""
    map_of = json.loads((BUILT / "esbuild" / "index.js.map").read_text())
    (function.root / "index.js.map").write_text(json.dumps({**map_of, "more": "x" * 3_400_000}))
    line = function.run((BUILT / "esbuild" / "index.js").read_text(), name="index.js")["lines"][0]
    assert (line["file"], line["column"] > 0) == ("index.js", True)


def test_places_are_those_that_nodejs_itself_finds() -> None:
    files = [str(path.with_suffix("")) for path in BUILT.glob("*/*.map")]
    command = [str(NODE), "-e", ORACLE, str(ROOT / "layer" / "truemem" / "maps.cjs"), *files]
    compared, differing = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert compared > 1000
    assert differing == 0


@pytest.mark.parametrize("build", BUILDS)
def test_a_source_is_found_on_this_machine(build: str, tmp_path: Path) -> None:
    """Where it is now: what was built may be elsewhere, and webpack does not say where its folders are."""
    shutil.copytree(BUILT, tmp_path / "built")
    place = tmp_path / "built" / build / ("store.js" if build in ("tsc", "swc") else "index.js")
    lines = place.read_text().splitlines()
    row = next(number for number, text in enumerate(lines) if ".set(" in text)
    spot = Spot(str(place), row + 1, lines[row].index(".set(") + 2)
    found = original([spot])[spot]
    assert found == Spot(str(tmp_path / "built" / "src" / "store.ts"), marked("orders.set")[1])


def test_a_place_without_a_map_stays_as_it_is(tmp_path: Path) -> None:
    plain = Spot("/task/app.mjs", 3, 7)
    assert original([plain])[plain] == Spot("/task/app.mjs", 3)
    (tmp_path / "index.js").write_text("x;" * 200)
    minified = Spot(str(tmp_path / "index.js"), 1, 31, "s")
    assert original([minified])[minified] == minified
