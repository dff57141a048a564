"""Node.js functions: heap snapshots name what keeps, and watched lines the line that keeps it."""

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st
from truemem_workbench.explain import run
from truemem_workbench.explain.attribution import Users
from truemem_workbench.explain.explanation import Explanation, what
from truemem_workbench.explain.node import HeapGrowth, Snapshot, breadth_first, holders
from truemem_workbench.explain.run import JITTER
from truemem_workbench.local.configuration.node_function import from_node_handler

from tests.check.conftest import Check
from tests.explain.test_run import FUNCTIONS, explained, names_first
from tests.heaps.test_node import NODE
from tests.heaps.test_node import function as node_function
from tests.lines.test_source_maps import BUILDS, BUILT, marked

META: dict[str, Any] = {
    "node_fields": ["type", "name", "id", "self_size", "edge_count"],
    "node_types": [["synthetic", "object", "closure", "array", "code", "string"]],
    "edge_fields": ["type", "name_or_index", "to_node"],
    "edge_types": [["context", "element", "property", "internal", "weak"]],
    "location_fields": ["object_index", "script_id", "line", "column"],
}
Edge = tuple[str, Any, str]
"""Kind, name, and the node it leads to."""


def snapshot(nodes: dict[str, tuple[str, str, int, list[Edge]]], places: dict[str, tuple[int, int]]) -> Snapshot:
    """Nodes are kind, name, bytes and edges, by a name of ours that gives the id; the root is the first."""
    strings: list[str] = []
    order = list(nodes)
    rows: list[int] = []
    edges: list[int] = []

    def text(value: str) -> int:
        strings.append(value)
        return len(strings) - 1

    for each, (kind, name, size, below) in nodes.items():
        number = int.from_bytes(each.encode(), "big")
        rows += [META["node_types"][0].index(kind), text(name), number, size, len(below)]
        for edge, label, to in below:
            at = label if edge == "element" else text(label)
            edges += [META["edge_types"][0].index(edge), at, 5 * order.index(to)]
    spots = [part for each, (script, line) in places.items() for part in (5 * order.index(each), script, line, 0)]
    return Snapshot.parse(
        {"snapshot": {"meta": META}, "nodes": rows, "edges": edges, "strings": strings, "locations": spots}
    )


def heap(kept: int, *, weak: bool = False) -> Snapshot:
    """A module's list `orders` with as many functions of 1,024 bytes, which are of script 7, line 3."""
    items = [f"f{number}" for number in range(kept)]
    reference = "weak" if weak else "element"
    return snapshot(
        {
            "root": ("synthetic", "", 0, [("element", 1, "scope")]),
            "scope": ("object", "system / Context", 40, [("context", "orders", "list")]),
            "list": ("object", "Array", 16, [("internal", "elements", "table")]),
            "table": ("array", "", 8, [(reference, n if not weak else str(n), each) for n, each in enumerate(items)]),
            **{each: ("closure", "", 1024, []) for each in items},
        },
        dict.fromkeys(items, (7, 2)),
    )


def grown(kept: list[int], **options: Any) -> list[dict[str, Any]]:
    growth = HeapGrowth()
    for number, each in enumerate(kept):
        growth.add(10 * number, heap(each, **options))
    found = growth.document({"7": "/task/app.mjs"}, {})
    keepers: list[dict[str, Any]] = found["keepers"]
    return keepers


def test_a_list_keeps_what_came_after_the_first_snapshot() -> None:
    (keeper,) = grown([10, 20, 30, 40, 50])
    assert keeper["bytes"] == [1024 * each for each in (0, 10, 20, 30, 40)]
    assert (keeper["kind"], keeper["of"], keeper["owner"]) == ("Array", "function", "orders")
    assert keeper["madeAt"] == [(("/task/app.mjs", 3, 1, ""), 40)]
    assert grown([10, 20, 30], weak=True) == []
    # without a watched line it is that of the functions that are kept
    (holder,) = holders({"invocations": [0, 10, 20, 30, 40], "keepers": [keeper]}, 1.0)
    assert (holder.file, holder.line, holder.kib, holder.items) == ("/task/app.mjs", 3, 1.0, 1.0)


def test_a_variable_is_read_by_the_oldest_function_of_its_scope() -> None:
    def variable(kept: int) -> Snapshot:
        return snapshot(
            {
                "root": ("synthetic", "", 0, [("element", 1, "f1"), ("element", 2, "f2"), ("element", 3, "inner")]),
                "scope": ("object", "system / Context", 40, [("context", "text", f"text {kept}")]),
                "f1": ("closure", "", 64, [("internal", "context", "block")]),
                "f2": ("closure", "", 64, [("internal", "context", "block")]),
                "inner": ("object", "system / Context", 40, []),
                "block": ("object", "system / Context", 40, [("internal", "previous", "scope")]),
                f"text {kept}": ("closure", "", 1024 * kept, []),
            },
            {},
        )

    growth = HeapGrowth()
    for number in range(5):
        growth.add(10 * number, variable(number))
    (keeper,) = growth.growing().values()
    assert (keeper.kind, keeper.owner, keeper.closure) == ("variable", "text", int.from_bytes(b"f1", "big"))


def test_what_a_root_holds_is_told_by_its_kind() -> None:
    """Strings that the debugger brings at one look do not hide sockets, of which one comes each time."""

    def roots(sockets: int, texts: int) -> Snapshot:
        nodes: dict[str, tuple[str, str, int, list[Edge]]] = {
            f"s{n}": ("object", "TCP", 1024, []) for n in range(sockets)
        }
        nodes |= {f"t{n}": ("string", "source", 4096, []) for n in range(texts)}
        edges: list[Edge] = [("internal", str(n), each) for n, each in enumerate(nodes)]
        root: list[Edge] = [("element", 1, "handles")]
        return snapshot(
            {"root": ("synthetic", "", 0, root), "handles": ("synthetic", "(GC roots)", 0, edges), **nodes}, {}
        )

    growth = HeapGrowth()
    for number in range(5):
        growth.add(10 * number, roots(number, 90 if number > 2 else 0))
    found = {each.of: (each.kind, each.sizes[-1], each.items) for each in growth.growing().values()}
    assert found["TCP"] == ("synthetic", 4096, [0, 1, 2, 3, 4])


def keepers_of(*owners: str, kib: float) -> dict[str, Any]:
    at = [0, 10, 20, 30, 40]
    each = {"kind": "Array", "of": "Object", "bytes": [int(kib * 1024 * n) for n in at], "items": at}
    return {
        "invocations": at,
        "keepers": [{**each, "owner": owner, "grewAt": [], "madeAt": [], "home": None} for owner in owners],
    }


def test_what_keeps_is_named_without_a_line_as_well() -> None:
    found = holders(keepers_of("kept", "sent", kib=8), 16.0)
    assert [(each.file, each.line, each.kib, what(each)) for each in found] == [
        ("", 0, 8.0, "Array of Object kept"),
        ("", 0, 8.0, "Array of Object sent"),
    ]
    assert holders(keepers_of("kept", kib=1), 16.0) == []
    assert holders(keepers_of("kept", kib=1), 0.0) == []


@given(st.lists(st.integers(0, 30), min_size=1, max_size=5))
def test_bytes_are_those_of_new_objects(kept: list[int]) -> None:
    for keeper in grown(kept):
        assert keeper["bytes"] == [1024 * max(0, each - kept[0]) for each in kept]


@given(st.lists(st.tuples(st.integers(0, 19), st.integers(0, 19)), max_size=80))
def test_the_shortest_ways_from_the_root_are_scipys(edges: list[tuple[int, int]]) -> None:
    begins, ends = np.array(edges, np.int64).reshape(-1, 2).T
    graph = scipy.sparse.csr_array((np.ones(len(edges)), (begins, ends)), shape=(20, 20))
    order, above = scipy.sparse.csgraph.breadth_first_order(graph, 0)
    found = breadth_first(20, begins, ends)
    assert (found[0].tolist(), found[1].tolist()) == (order.tolist(), np.maximum(above, -1).tolist())


@pytest.mark.parametrize("document", [{}, {"snapshot": {"meta": META}, "nodes": [1], "edges": [], "strings": []}])
def test_what_is_no_heap_snapshot_is_an_error(document: dict[str, Any]) -> None:
    with pytest.raises((LookupError, ValueError)):
        Snapshot.parse(document)


# --- functions in Node.js ---------------------------------------------------------------------------------------------

needs_node = pytest.mark.skipif(NODE is None, reason="no node on the path")


def traced(handler: str, **options: Any) -> Explanation:
    return explained(node_function("planted", name=handler, folder=FUNCTIONS), **options)


NIGHTLY = {
    "list": "Array of Object ORDERS",
    "map": "Map of Object bySession",
    "set": "Set of Object seen",
    "members": "Object of Object state.orders",
    "instance": "Map of Object store.#data",
    "module": "Object of Object",
    "closure": "Array of function callbacks",
    "listener": "Array of function emitter._events.saved",
    "timer": "TimersList of Timeout timerListMap[3600000]",
    "linked": "variable chain",
    "copy": "variable copied",
    "nested": "variable copied",
    "samename": "variable copied",
    "undone": "Array of Object ORDERS",
    "proxied": "Array of Object target",
    "frozen": "Array of Object ORDERS",
    "buffers": "Array of Buffer ORDERS",
    "promises": "Array of function pending",
    "strings": "variable text",
    "executor": "Array of Object ORDERS",
}


@needs_node
@pytest.mark.parametrize(
    ("handler", "kind"),
    [
        ("weak", "Set of Object seen"),  # what a WeakMap has is kept by its key
        ("race", "Promise of function shutdown"),
        *(pytest.param(*each, marks=pytest.mark.nightly) for each in NIGHTLY.items()),
    ],
)
def test_the_line_that_keeps_comes_first(handler: str, kind: str) -> None:
    explanation = traced(handler)
    first = names_first(explanation, handler, "//")
    assert f"{first.kind} {first.owner}".strip() == kind
    assert 0.9 < first.kib / (8000 / 1024) < 1.1
    assert explanation.missing == ()


@needs_node
@pytest.mark.parametrize("build", ["webpack", *(pytest.param(each, marks=pytest.mark.nightly) for each in BUILDS)])
def test_the_line_is_that_of_the_source(build: str) -> None:
    first = explained(node_function("index", folder=BUILT / build)).holders[0]
    assert (first.file, first.line, first.column) == (*marked("orders.set"), 0)
    assert what(first) == "Map of Object orders"
    assert first.stack == (marked("remember(order)", "index.ts"), marked("orders.set"))


@needs_node
def test_minified_code_without_a_map_has_columns(tmp_path: Path) -> None:
    code = (BUILT / "esbuild" / "index.js").read_text()
    (tmp_path / "index.js").write_text(code)
    explanation = explained(node_function("index", folder=tmp_path))
    first = explanation.holders[0]
    assert code[first.column - 1 :].startswith("set(e.id,e)")
    assert what(first) == "Map of Object f, in s"
    quoted, *_ = [line for line in explanation.lines() if "f.set(e.id,e)" in line]
    assert len(quoted) < 90
    assert "Build it with a map" in explanation.lines()[-1]


@needs_node
def test_the_file_of_a_library_that_holds_is_named(tmp_path: Path) -> None:
    """A handler with a callback, by AWS's client: it answers when nothing is left to do, of the tracer neither."""
    library = tmp_path / "node_modules" / "memo" / "index.js"
    library.parent.mkdir(parents=True)
    library.write_text(
        "const store = new Map();\nmodule.exports = (key, make) => {\n  if (!store.has(key)) {\n"
        "    const value = make();\n    store.set(key, value);\n  }\n  return store.get(key);\n};\n"
    )
    app = tmp_path / "app.js"
    app.write_text(
        'const memo = require("memo");\nlet n = 0;\nexports.handler = (event, context, callback) => {\n'
        "  const rows = memo(`order-${(n += 1)}`, () => new Array(1000).fill(n));\n"
        "  setImmediate(callback, null, rows.length);\n};\n"
    )
    explanation = explained(from_node_handler(f"{app}:handler", None, pytest.fail, deployed="nodejs22.x"))
    first = explanation.holders[0]
    assert (first.file, first.line, first.called) == (str(library), 5, (str(app), 4))
    assert explanation.annotations()[0][1] == 4  # the user's own line
    assert any("called at" in line and "memo(`order-" in line for line in explanation.lines())


@needs_node
def test_an_open_socket_is_told_by_the_line_that_made_it(tmp_path: Path) -> None:
    (tmp_path / "app.mjs").write_text(
        'import net from "node:net";\nconst server = net.createServer(() => {}).unref();\n'
        'const ready = new Promise((done) => server.listen(0, "127.0.0.1", done));\n'
        "export const handler = async () => {\n  await ready;\n"
        '  const socket = net.connect(server.address().port, "127.0.0.1");\n'
        '  await new Promise((done) => socket.once("connect", done));\n};\n'
    )
    first = explained(node_function("app", folder=tmp_path)).holders[0]
    assert (first.file, first.line, first.kind) == (str(tmp_path / "app.mjs"), 6, "open TCP")


@needs_node
def test_native_memory_is_kept_by_its_object(tmp_path: Path) -> None:
    """Node.js's own list of it keeps nothing."""
    (tmp_path / "app.mjs").write_text(
        'import { createDeflateRaw } from "node:zlib";\nconst contexts = new Map();\nlet n = 0;\n'
        "export const handler = async () => {\n  const deflate = createDeflateRaw({ windowBits: 9, memLevel: 1 });\n"
        "  deflate.write(Buffer.alloc(500));\n  await new Promise((done) => deflate.flush(done));\n"
        "  contexts.set((n += 1), deflate);\n};\n"
    )
    first = explained(node_function("app", folder=tmp_path)).holders[0]
    assert (first.file, first.line, what(first)) == (str(tmp_path / "app.mjs"), 8, "Map of DeflateRaw contexts")


@needs_node
@pytest.mark.parametrize("handler", ["bounded", pytest.param("steady", marks=pytest.mark.nightly)])
def test_what_does_not_grow_is_not_accused(handler: str) -> None:
    explanation = traced(handler)
    assert explanation.holders == []
    assert "the lines 0.0 (by V8's heap snapshots), not known 8.0." in "\n".join(explanation.lines())


@needs_node
@pytest.mark.parametrize(
    ("handler", "said"),
    [
        ("raises", "170 of 170 invocations failed"),
        pytest.param("ends", "had 2 processes", marks=pytest.mark.nightly),
        pytest.param("hangs", "Task timed out", marks=pytest.mark.nightly),
        pytest.param("hangsEarly", "Task timed out", marks=pytest.mark.nightly),
    ],
)
def test_a_partial_answer_says_what_is_missing(handler: str, said: str) -> None:
    # the others do not live to see a fifth look of five
    explanation = traced(handler) if handler == "raises" else traced(handler, timeout_s=3, jitter=JITTER)
    names_first(explanation, "list", "//")
    assert any(said in each for each in explanation.missing), explanation.missing


@needs_node
def test_an_environment_of_pythons_is_not_the_users(tmp_path: Path) -> None:
    """With truemem in it, and the runtime client: below the function's folder, as `python -m venv .venv` puts it."""
    ours = tmp_path / ".venv/lib/python3.11/site-packages/truemem_workbench"
    client = ours / "local/configuration/aws-lambda-ric/x86_64/node_modules/aws-lambda-ric/index.mjs"
    files = [tmp_path / "index.mjs", tmp_path / "node_modules/a/a.js", ours / "explain/node_tracer.mjs", client]
    inspector = Path(run.__file__).with_name("node_inspector.mjs")
    client.parent.mkdir(parents=True)
    client.write_text(
        f"import {{ fileOf }} from {str(inspector)!r};"
        "console.log(JSON.stringify(process.argv.slice(2).map((each) => fileOf(each) !== null)));process.exit(0)"
    )
    variables = {"LAMBDA_TASK_ROOT": str(tmp_path), "TRUEMEM_EXPLAIN_FOREIGN": Users(tmp_path).foreign}
    done = subprocess.run([str(NODE), client, *files], env=variables, stdout=-1, check=True)
    assert json.loads(done.stdout) == [True, True, False, False]


@needs_node
@pytest.mark.nightly
@pytest.mark.parametrize(
    ("module", "handler"),
    [
        ("index.mjs", "export const handler = async () => {"),
        ("index.js", "exports.handler = async () => {"),
        ("index.cjs", "exports.handler = (event, context, callback) => { setTimeout(callback, 1);"),
    ],
)
def test_the_command_explains_through_awss_own_client(
    invoke_check: Check, tmp_path: Path, module: str, handler: str
) -> None:
    (tmp_path / module).write_text(
        f"const kept = [];\n{handler}\n  kept.push(new Array(10000).fill(kept.length));\n}};\n"
    )
    (tmp_path / "template.yaml").write_text(
        "Resources:\n  Orders:\n    Type: AWS::Serverless::Function\n"
        "    Properties: {Runtime: nodejs20.x, Handler: index.handler, CodeUri: ., MemorySize: 512}\n"
    )
    for target in (f"{tmp_path / module}:handler", f"{tmp_path / 'template.yaml'}:Orders")["callback" in handler :]:
        done = invoke_check(target, "--explain", "--max-drift", 8, "--format", "github")
        assert done.exit_code == 1, done.output
        assert f"{module}:3  Array of Array kept" in done.stdout
        assert f"{module},line=2," in done.stdout  # the handler's own annotation
