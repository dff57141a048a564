"""`explain --init` of Node.js handlers: what packages and statements hold, as a process that nothing traces has it."""

import dataclasses
from pathlib import Path
from statistics import median

import pytest
from truemem_workbench.explain.init_cost import InitCost, Row
from truemem_workbench.explain.init_run import ONE_THREAD, init_cost
from truemem_workbench.local import Function, LocalLambda, Settings
from truemem_workbench.target.target import Target

from testing import installs
from tests.heaps.test_node import FUNCTIONS, NODE

pytestmark = pytest.mark.skipif(NODE is None, reason="no node on the path")
PACKAGES = {
    "holds": "exports.held = Buffer.alloc(20 * 2**20, 1);",
    "shared": "exports.held = Buffer.alloc(10 * 2**20, 1);",
    "objects": "exports.list = Array.from({ length: 100_000 }, (_, n) => ({ n }));",
    "first": 'require("shared"); exports.held = Buffer.alloc(6 * 2**20, 1);',
    "@scope/sleeps": "Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 200);",
    "wastes": "Buffer.alloc(30 * 2**20, 1);",
    "late": "exports.held = Buffer.alloc(5 * 2**20, 1);",
}
COMMON = """\
const { held } = require("holds");
const first = require("first");
const shared = require("shared");
require("@scope/sleeps");
require("wastes");
const objects = require("objects");
const MODEL = Buffer.alloc(
  8 * 2**20, 1);

exports.handler = async () => { require("late"); return settled(MODEL, shared, first, objects); };
"""
MODULES = """\
import { held } from "holds";
import "first";
import { part } from "./helper.mjs";
const MODEL = Buffer.alloc(8 * 2**20, 1);

export const handler = async () => settled(MODEL.length + part.length, held);
"""
SETTLED = """
function settled() {
  const load = process.getBuiltinModule ?? require;
  const v8 = load("node:v8");
  v8.setFlagsFromString("--expose-gc");
  const gc = load("node:vm").runInNewContext("gc");
  for (let step = 0, sum = 0; step < 5_000_000; step += 1) sum += step % 7;
  for (let time = 0; time < 2; time += 1) gc({ type: "major", execution: "sync", flavor: "last-resort" });
  const { total_physical_size: physical, used_heap_size: used } = v8.getHeapStatistics();
  const said = load("node:fs").readFileSync("/proc/self/smaps_rollup", "latin1");
  return Number(said.match(/Rss:\\s+(\\d+)/)[1]) / 1024 - (physical - used) / 2 ** 20;
}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("init")
    for name, text in PACKAGES.items():
        (folder / "node_modules" / name).mkdir(parents=True)
        (folder / "node_modules" / name / "index.js").write_text(text)
    (folder / "helper.mjs").write_text("export const part = Buffer.alloc(5 * 2**20, 1);")
    return folder


def function(path: Path, text: str, node: Path = Path(str(NODE))) -> Function:
    path.write_text(text + SETTLED)
    command = (str(node.resolve()), str(FUNCTIONS / "client.mjs"), f"{path.stem}.handler")
    return Function(command, path.parent, f"{path.stem}.handler", "nodejs20.x", needs=(FUNCTIONS, path, node))


def explained(path: Path, text: str, node: Path = Path(str(NODE))) -> InitCost:
    target = Target(spec="app", name="app", function=function(path, text, node), source=path)
    return init_cost(target, {}, lambda *_: None)


@pytest.fixture(scope="module")
def seen(folder: Path) -> InitCost:
    return explained(folder / "app.cjs", COMMON)


def row(seen: InitCost, name: str) -> Row:
    return next(each for each in seen.root.rows.values() if each.name.endswith(name))


def held(folder: Path, text: str) -> float:
    """MiB that it holds in its first invocation, by processes that nothing traces: the median of three. V8's compilers
    are in memory in each."""
    return median(_held(folder, text) for _ in range(3))


def _held(folder: Path, text: str) -> float:
    made = function(folder / "judged.cjs", text)
    program, *rest = made.command
    judged = dataclasses.replace(made, command=(program, ONE_THREAD, *rest))
    with LocalLambda(judged, Settings(memory_mib=2048)) as local:
        answer = local.invoke({}).payload
    assert isinstance(answer, float), answer
    return answer


@pytest.mark.parametrize(
    ("name", "mib", "at"),
    [("holds", 20, "app.cjs:1"), ("@scope/sleeps", 0, "app.cjs:4"), ("wastes", 0, "app.cjs:5"), ("app.cjs:7", 8, "")],
)
def test_each_package_and_statement_has_what_it_holds(seen: InitCost, name: str, mib: float, at: str) -> None:
    found = row(seen, name)
    assert found.kib / 1024 == pytest.approx(mib, abs=1.5)
    assert found.at.endswith(at)


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["holds", "first"])
def test_what_a_package_saves_a_judge_saves_too(folder: Path, seen: InitCost, name: str) -> None:
    saved = held(folder, COMMON) - held(folder, COMMON.replace(f'require("{name}")', "{}"))
    assert (row(seen, name).saves_kib or 0.0) / 1024 == pytest.approx(saved, abs=2)


def test_the_first_that_requires_a_package_pays(seen: InitCost) -> None:
    first = row(seen, "first")
    [shared] = first.rows.values()
    assert shared.name == "shared"
    assert shared.kib / 1024 == pytest.approx(10, abs=1.5)
    assert first.own_kib / 1024 == pytest.approx(6, abs=1.5)
    assert (first.saves_kib or 0.0) / 1024 == pytest.approx(6, abs=1.5)
    assert row(seen, "objects").kib / 1024 > 100_000 * 24 / 2**20  # a header, a pointer each to properties and elements


def test_time_and_memory_sum_up(seen: InitCost) -> None:
    assert row(seen, "@scope/sleeps").ms >= 200
    assert seen.root.kib == pytest.approx(seen.held_kib)
    assert seen.first is not None
    assert seen.first.rows["package late"].kib / 1024 == pytest.approx(5, abs=1.5)


@pytest.mark.nightly
@pytest.mark.parametrize("version", ["22", "24", "26"])
def test_es_modules_have_what_they_hold(folder: Path, version: str) -> None:
    try:
        node = installs.node(version)
    except installs.Missing as missing:
        pytest.skip(str(missing))
    seen = explained(folder / "app.mjs", MODULES, node)
    expected = {"holds": 20, "helper.mjs": 5, "app.mjs:4": 8}
    assert {name: row(seen, name).kib / 1024 for name in expected} == pytest.approx(expected, abs=2)
    assert row(seen, "first").own_kib / 1024 == pytest.approx(6, abs=2)
    assert row(seen, "holds").at.endswith("app.mjs:1")
