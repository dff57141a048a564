"""The line that keeps, from the preload in Node.js (layer/truemem/lines.cjs): real processes, and a stand-in client."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from testing.plants import CACHES, LEAKS, Planted, planted

ROOT = Path(__file__).parents[2]
PRELOAD = ROOT / "layer" / "truemem" / "heap.cjs"
FUNCTIONS = Path(__file__).with_name("functions") / "node"
NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="no node on the path")

HANDLERS = 24
"""Planted ones, of which half are in Node.js."""
MARK = "// leak"
LEAK = """
const kept = [];
export const handler = async ({ n }) => {
  const rows = new Array(2000).fill(n);
  kept.push(rows); // leak
  return rows.length;
};
"""


def leak_and(code: str) -> str:
    """The leak, with this before it returns."""
    return LEAK.replace("  return", f"  {code}\n  return")


@dataclass
class Lambda:
    """A folder of a function, and the folder of the heap page."""

    root: Path
    tmp: Path
    node: str = str(NODE)

    def start(
        self, source: str, *, name: str = "app.mjs", invocations: int = 90, ask: int = 10, **variables: str
    ) -> subprocess.Popen[str]:
        (self.root / name).write_text(source)
        own = {name: value for name, value in os.environ.items() if name != "NODE_OPTIONS"}
        own |= {"NODE_OPTIONS": f"--require {PRELOAD}", "AWS_LAMBDA_RUNTIME_API": "127.0.0.1:9", "TRUEMEM_LINES": "on"}
        own |= {"TMPDIR": str(self.tmp), "LAMBDA_TASK_ROOT": str(self.root)}
        command = [self.node, str(FUNCTIONS / "driver.cjs"), str(self.root / name), str(invocations), str(ask)]
        return subprocess.Popen(command, env={**own, **variables}, stdout=-1, stderr=-1, text=True)

    def run(self, source: str, invocations: int = 90, **given: Any) -> Any:
        """The answer, or None. Each invocation was answered, and nothing of ours was printed."""
        with self.start(source, invocations=invocations, **given) as process:
            return answer(process, invocations)


def answer(process: subprocess.Popen[str], invocations: int = 90) -> Any:
    out, error = process.communicate(timeout=60)
    assert (process.returncode, error) == (0, "")
    said = json.loads(out)
    assert said["answers"] == invocations
    return said["found"]


@pytest.fixture
def function(tmp_path: Path) -> Iterator[Lambda]:
    # TMPDIR is believed below /tmp only.
    folder = Path("/tmp") / f"truemem-lines-test-{os.getpid()}-{time.monotonic_ns()}"
    folder.mkdir()
    root = tmp_path / "task"
    root.mkdir()
    yield Lambda(root, folder)
    shutil.rmtree(folder)


def marked(source: str, mark: str = MARK) -> int:
    return next(number for number, line in enumerate(source.splitlines(), 1) if line.rstrip().endswith(mark))


def lines(found: Any) -> list[int]:
    return [each["line"] for each in found["lines"]]


# --- It names the line ------------------------------------------------------------------------------------------------


def plants(kinds: Any) -> list[Any]:
    each = (one for one in planted(kinds, HANDLERS) if one.handler.endswith(".mjs"))
    return [pytest.param(one, id=f"{one.handler} {one.kind.name}") for one in each]


@pytest.mark.parametrize("plant", plants(LEAKS))
def test_a_planted_leak_is_named(function: Lambda, plant: Planted) -> None:
    found = function.run(plant.source)
    assert lines(found)[:1] == [plant.line]
    first = found["lines"][0]
    assert first["perInvocationKiB"] == pytest.approx(plant.kind.kib, rel=0.1)
    assert first["share"] > 0.8
    assert found["gaveUp"] == ""
    assert found["invocations"] in range(54, 61)


@pytest.mark.parametrize("plant", plants(CACHES))
def test_a_planted_cache_is_not_accused(function: Lambda, plant: Planted) -> None:
    found = function.run(plant.source)
    assert (found["lines"], found["gaveUp"]) == ([], "")


@pytest.mark.parametrize("path", sorted((FUNCTIONS / "keeps").iterdir()), ids=lambda path: path.stem)
def test_what_keeps_is_named(function: Lambda, path: Path) -> None:
    """V8 samples by chance: of an array whose bytes are outside of the heap not always enough."""
    source = path.read_text()
    runs = (function.run(source, name=path.name) for _ in range(4))
    found = next(each for each in runs if each["lines"])
    assert (found["lines"][0]["file"], lines(found)[0]) == (path.name, marked(source))


@pytest.mark.parametrize("path", sorted((FUNCTIONS / "clean").iterdir()), ids=lambda path: path.stem)
def test_what_keeps_nothing_is_not_accused(function: Lambda, path: Path) -> None:
    assert function.run(path.read_text(), name=path.name)["lines"] == []


def test_the_way_to_it_is_on_the_stack(function: Lambda) -> None:
    (function.root / "lib").mkdir()
    (function.root / "lib" / "load.mjs").write_text(
        "export function load(n) {\n  return { n, r: new Array(3000).fill(n) };\n}\n"
    )
    store = "const all = new Map();\nexport function remember(key, value) {\n  all.set(key, value);\n}\n"
    (function.root / "lib" / "store.mjs").write_text(store)
    found = function.run(
        'import { load } from "./lib/load.mjs";\nimport { remember } from "./lib/store.mjs";\n'
        "export const handler = async ({ n }) => {\n  const made = load(n);\n  remember(n, made);\n  return 1;\n};\n"
    )
    (line,) = found["lines"]
    assert (line["file"], line["line"], line["function"]) == ("lib/store.mjs", 3, "remember")
    assert line["stack"] == ["app.mjs:4 handler", "lib/load.mjs:2 load"]


@pytest.mark.parametrize("keeps", ["library", "caller"])
def test_a_librarys_file_is_named_where_it_keeps(function: Lambda, keeps: str) -> None:
    library = function.root / "node_modules" / "keeper"
    library.mkdir(parents=True)
    kept = "all[key] = value; " if keeps == "library" else ""
    made = f"const value = new Array(3000).fill(key); {kept}return value;"
    code = f"const all = {{}};\nexports.make = (key) => {{ {made} }};\n"
    (library / "index.js").write_text(code)
    keeping = "const made = make(n);" if keeps == "library" else "kept.push(make(n));"
    found = function.run(
        'const { make } = require("keeper");\nconst kept = [];\nexports.handler = async ({ n }) => {\n'
        f"  const one = [n];\n  {keeping}\n  return one;\n}};\n",
        name="app.cjs",
    )
    (line,) = found["lines"]
    keeper = ("node_modules/keeper/index.js", 2) if keeps == "library" else ("app.cjs", 5)
    assert (line["file"], line["line"]) == keeper
    assert line["stack"] == ["app.cjs:5 exports.handler", "node_modules/keeper/index.js:2 exports.make"]


def test_it_is_asked_through_awss_client_as_well(function: Lambda) -> None:
    """Which has an addon."""
    (function.root / "addon.cjs").write_text("process.dlopen = () => {}")
    options = f"--require {function.root / 'addon.cjs'} --require {PRELOAD}"
    assert lines(function.run(LEAK, NODE_OPTIONS=options, ADDON="1")) == [marked(LEAK)]


# --- It gives up, and is withdrawn ------------------------------------------------------------------------------------


def test_too_much_memory_or_cpu_ends_it(function: Lambda) -> None:
    hot = (
        "const { cpuUsage } = process; export const handler = ({ n }) => {"
        " const since = cpuUsage(); while (n > 20 && cpuUsage(since).user < 5000); return 1 };"
    )
    many = "const kept = []; export const handler = () => { for (let i = 0; i < 2000; i++) kept.push([i]); return 1 };"
    assert function.run(many, ASK="truemem-lines-1 60 1000 1\n")["gaveUp"] == "memory"
    found = function.run(hot, ASK="truemem-lines-1 60 100 6553\n")
    assert (found["gaveUp"], found["lines"]) == ("cpu", [])


def test_a_look_that_would_take_long_is_not_begun(function: Lambda) -> None:
    """The function's timeout goes on, and a small memory size buys little CPU."""
    many = "const many = Array.from({ length: 3e6 }, (_, i) => ({ i }));" + LEAK
    found = function.run(many, AWS_LAMBDA_FUNCTION_MEMORY_SIZE="128")
    assert (found["gaveUp"], found["lines"]) == ("looks", [])


OPEN = "import inspector from 'inspector'; inspector.open(0, '127.0.0.1');"
PROFILED = """import { Session } from 'inspector'; const other = new Session(); other.connect();
other.post('HeapProfiler.startSampling');
const ask = (method) => { let done = false; other.post(method, (error) => (done = !error)); return done; };"""


@pytest.mark.parametrize(("objects", "looks"), [(100, {6}), (1_000_000, {7, 8})])
def test_one_large_request_makes_it_coarser(function: Lambda, objects: int, looks: set[int]) -> None:
    """It would cost the next one as much: an invocation's CPU is known when it is over."""
    work = f"for (let i = 0; i < {objects}; i += 1) globalThis.last = {{ i, pair: [i, i] }};"
    source = leak_and("if (n % 15 === 14) work();") + f"function work() {{ {work} }}\n"
    found = function.run(source)
    assert found["looks"] in looks
    assert lines(found) == [marked(LEAK)]


def test_it_leaves_an_inspector_alone(function: Lambda) -> None:
    with function.start(OPEN + LEAK) as process:
        out, error = process.communicate(timeout=60)
    assert "Debugger listening" in error
    assert json.loads(out)["found"]["gaveUp"] == "inspector is in use"


def test_it_leaves_a_heap_profile_alone(function: Lambda) -> None:
    handler = (
        "export const handler = ({ n }) => { if (n === 80) { if (!ask('HeapProfiler.stopSampling'))"
        " throw new Error('it was stopped'); other.disconnect(); } return n; };"
    )
    assert function.run(PROFILED + handler)["gaveUp"] == "heap profiler is in use"


STOPS = {
    "inspector": "new Promise((done) => other.post('HeapProfiler.stopSampling', (error, value) => done(value)))",
    "inspector/promises": "other.post('HeapProfiler.stopSampling')",
}


@pytest.mark.parametrize("module", STOPS)
def test_it_ends_before_the_functions_own_heap_profile(function: Lambda, module: str) -> None:
    requires = [str(NODE), "-e", f"require('{module}')"]
    if subprocess.run(requires, check=False, capture_output=True).returncode:
        pytest.skip("Node.js 18 has none")
    handler = f"""import {{ Session }} from '{module}';
const {{ post }} = Session.prototype, other = new Session(), kept = [];
export const handler = async ({{ n }}) => {{
  if (n === 30) {{
    other.connect();
    await other.post('HeapProfiler.startSampling', {{ samplingInterval: 64 }});
  }}
  if ([20, 30].includes(n)) kept.push(new Array(100000 * n).fill(n)); // sampled by ours, then by theirs
  if (n !== 80) return n;
  const {{ profile }} = await {STOPS[module]};
  const large = profile.samples.filter((each) => each.size > 1e7).map((each) => Math.round(each.size / 8e5));
  if (String(large) !== '30') throw new Error(`it has ${{large}}`);
  if (Session.prototype.post !== post) throw new Error('replaced');
  return n;
}};
"""
    found = function.run(handler)
    assert (found["gaveUp"], found["lines"]) == ("heap profiler is in use", [])


def test_a_request_that_is_withdrawn_ends_the_profile(function: Lambda) -> None:
    check = """import { Session } from 'inspector';
const sampled = () => {
  const own = new Session();
  let on = false;
  own.connect();
  own.post('HeapProfiler.getSamplingProfile', (error) => (on = !error));
  own.disconnect();
  return on;
};
export const handler = ({ n }) => {
  if ([35, 60].includes(n) && sampled() !== (n === 35)) throw new Error(`sampled in ${n}`);
  return n;
};"""
    assert function.run(check, WITHDRAW="40") is None
    assert [path.name.rpartition("-")[0] for path in function.tmp.iterdir()] == [".truemem-heap"]


def test_it_happens_once(function: Lambda) -> None:
    again = leak_and("if (n === 80) rmSync(`${process.env.TMPDIR}/.truemem-lines-${process.pid}.json`);")
    assert function.run("import { rmSync } from 'fs';" + again, invocations=200) is None


@pytest.mark.parametrize("lines", ["off", ""])
def test_off_looks_for_no_request(function: Lambda, lines: str) -> None:
    assert function.run(LEAK, TRUEMEM_LINES=lines) is None


@pytest.mark.parametrize("ask", ["", "truemem-lines-2 60 100 6553\n", "truemem-lines-1 60 100\n", "x" * 5000])
def test_a_request_that_is_not_understood_is_none(function: Lambda, ask: str) -> None:
    assert function.run(LEAK, ASK=ask) is None


@pytest.mark.parametrize("kind", ["symlinkSync('/etc/passwd', path)", "mkdirSync(path)", "execSync(`mkfifo ${path}`)"])
def test_a_request_that_is_no_file_is_none(function: Lambda, kind: str) -> None:
    made = (
        "import { mkdirSync, symlinkSync } from 'fs'; import { execSync } from 'child_process';"
        f" const path = `${{process.env.TMPDIR}}/.truemem-lines-${{process.pid}}`; {kind};"
    )
    assert function.run(made + LEAK, ask=1000) is None


def test_a_link_in_the_answers_place_is_not_followed(function: Lambda) -> None:
    victim = function.tmp / "victim"
    victim.write_text("precious")
    link = "import { symlinkSync } from 'fs'; for (const name of ['.json', '.json.new'])"
    link += f" symlinkSync('{victim}', `${{process.env.TMPDIR}}/.truemem-lines-${{process.pid}}${{name}}`);"
    assert lines(function.run(link + LEAK)) == [marked(LEAK)]
    assert victim.read_text() == "precious"
    (found,) = function.tmp.glob("*.json")
    assert (found.is_symlink(), found.stat().st_mode & 0o777) == (False, 0o600)


# --- It does no harm --------------------------------------------------------------------------------------------------

BREAKS = {
    "arrays": "for (const name of ['push', 'map', 'filter', 'slice', 'concat', 'sort', 'shift', 'reduce', 'findIndex'])"
    " Array.prototype[name] = () => { throw new Error('broken') };",
    "strings": "for (const name of ['slice', 'startsWith', 'indexOf', 'split', 'replace', 'includes'])"
    " String.prototype[name] = () => { throw new Error('broken') };",
    "maps": "for (const { prototype } of [Map, Set]) for (const name of ['get', 'set', 'has'])"
    " prototype[name] = () => { throw new Error('broken') };",
    "globals": "for (const name of ['JSON', 'Map', 'Set', 'Math', 'RegExp', 'Error', 'console', 'performance'])"
    " delete globalThis[name];",
    "process": "process.env = {}; process.cpuUsage = process.hrtime = () => { throw new Error('broken') };",
    "inherited": "Object.prototype.throwIfNoEntry = true; Object.prototype.toJSON = () => 'broken';",
    "frozen": "for (const { prototype } of [Object, Array, Function, RegExp, String]) Object.freeze(prototype);",
}


@pytest.mark.parametrize("breaks", BREAKS)
def test_a_function_that_breaks_built_ins_is_answered(function: Lambda, breaks: str) -> None:
    source = leak_and(f"if (n === 5) {{ {BREAKS[breaks]} }}").replace("kept.push(rows)", "kept[n] = rows")
    with function.start(source) as process:
        out, error = process.communicate(timeout=60)
    assert (process.returncode, error) == (0, "")
    assert out.endswith('"answers":90}') or breaks == "inherited"
    (path,) = function.tmp.glob("*.json")
    found = json.loads(path.read_text())
    if breaks in ("arrays", "strings", "inherited"):
        assert found["gaveUp"] == "built-ins are replaced"
    else:
        assert lines(found) == [marked(source)]


def test_it_is_off_in_a_worker_thread(function: Lambda) -> None:
    source = (
        "import { Worker } from 'worker_threads'; const code = `const { channel } = require('diagnostics_channel');"
        " const getHeader = () => '127.0.0.1:9'; for (let n = 0; n < 90; n += 1) channel('http.client.request.start')"
        ".publish({ request: { path: '/2018-06-01/runtime/invocation/next', getHeader } })`; "
        "export const handler = () =>"
        " new Promise((resolve) => new Worker(code, { eval: true }).on('exit', () => resolve(1)));"
    )
    assert function.run(source, invocations=3, ask=1) is None


def test_a_freeze_in_the_middle_changes_nothing(function: Lambda) -> None:
    stops = leak_and("if (n === 40) process.kill(process.pid, 'SIGSTOP');")
    with function.start(stops) as process:
        os.waitid(os.P_PID, process.pid, os.WSTOPPED)
        time.sleep(0.3)
        process.send_signal(signal.SIGCONT)
        found = answer(process)
    assert lines(found) == [marked(LEAK)]


def test_one_that_is_killed_leaves_its_request_only(function: Lambda) -> None:
    with function.start(leak_and("if (n === 40) process.kill(process.pid, 'SIGKILL');")) as process:
        assert process.wait(60) == -signal.SIGKILL
        pid = process.pid
    assert {path.name for path in function.tmp.iterdir()} == {f".truemem-heap-{pid}", f".truemem-lines-{pid}"}


def test_v8s_own_limit_ends_the_process_as_ever(function: Lambda) -> None:
    full = leak_and("while (n === 40) kept.push(new Array(10000).fill(kept.length));")
    ends = []
    for asked in ("on", "off"):
        options = f"--require {PRELOAD} --max-old-space-size=50"
        with function.start(full, NODE_OPTIONS=options, TRUEMEM_LINES=asked) as process:
            out, error = process.communicate(timeout=60)
        ends.append((process.returncode, out, "heap out of memory" in error))
    assert ends == [(-signal.SIGABRT, "", True)] * 2
    assert not list(function.tmp.glob("*.json*"))


CHILD = """const { Session } = require('inspector');
const session = new Session();
let sampled = true;
session.connect();
session.post('HeapProfiler.getSamplingProfile', (error) => (sampled = !error));
const hooked = !String(process.dlopen).includes('[native code]');
process.send({ sampled, hooked, options: process.env.NODE_OPTIONS });"""


def test_children_have_nothing_of_it(function: Lambda) -> None:
    (function.root / "child.cjs").write_text(CHILD)
    forks = """import cluster from 'cluster';
import { fork } from 'child_process';
cluster.setupPrimary({ exec: `${import.meta.dirname ?? process.env.LAMBDA_TASK_ROOT}/child.cjs` });
const of = (child) => new Promise((resolve) => child.once('message', resolve));
async function check() {
  const said = await Promise.all([of(fork(cluster.settings.exec)), of(cluster.fork())]);
  const expected = JSON.stringify([{ sampled: false, hooked: false }, { sampled: false, hooked: false }]);
  if (JSON.stringify(said) !== expected) throw new Error(JSON.stringify(said));
  for (const each of Object.values(cluster.workers)) each.disconnect();
}
"""
    found = function.run(forks + leak_and("if (n === 40) await check();"))
    assert lines(found) == [marked(forks + LEAK)]
    assert len(list(function.tmp.iterdir())) == 3  # the page, the request and the answer


@pytest.fixture
def small_tmp(function: Lambda) -> Iterator[Lambda]:
    """/tmp of 16 pages."""
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(function.tmp)]
    if os.geteuid() or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("mounting a disk is not permitted here")
    yield function
    subprocess.run(["umount", "-l", str(function.tmp)], check=True)


@pytest.mark.parametrize("pages", [0, 1])
def test_a_full_tmp_has_no_half_answer(small_tmp: Lambda, pages: int) -> None:
    """The answer has two pages: a stack of long names."""
    names = [f"{'long' * 60}{n}" for n in range(20)]
    within = [*(f"{name}(n)" for name in names[1:]), "kept.push(new Array(2000).fill(n))"]
    calls = [f"function {name}(n) {{ {call}; }}" for name, call in zip(names, within, strict=True)]
    source = f"""import {{ fstatSync, ftruncateSync, openSync, writeSync }} from 'fs';
const kept = [];
{chr(10).join(calls)}
function fill() {{
  const file = openSync(`${{process.env.TMPDIR}}/full`, 'w');
  try {{
    for (;;) writeSync(file, Buffer.alloc(4096));
  }} catch {{
    ftruncateSync(file, fstatSync(file).size - {4096 * pages});
  }}
}}
export const handler = ({{ n }}) => {{
  {names[0]}(n);
  if (n === 40) fill();
  return n;
}};
"""
    assert small_tmp.run(source) is None
    left = {path.name.rstrip("-0123456789") for path in small_tmp.tmp.iterdir()}
    assert left == {".truemem-heap", ".truemem-lines", "full"}


def test_a_source_that_is_not_understood_has_its_functions_line(function: Lambda) -> None:
    """It is gone when it is to be read."""
    source = leak_and("if (n === 20) unlinkSync(new URL(import.meta.url));")
    found = function.run('import { unlinkSync } from "fs";' + source)
    assert lines(found) == [3]


def test_a_large_bundle_is_read_in_part(function: Lambda) -> None:
    filler = "".join(f"const value{n} = [`a${{'}}'}}`, /[`'\"]/, {n}];\n" for n in range(30_000))
    source = filler + LEAK
    assert lines(function.run(source)) == [marked(source)]
