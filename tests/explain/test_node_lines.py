"""Node.js functions with a planted leak: heap snapshots and watched lines name the line that keeps it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from truemem_workbench.explain.explanation import Explanation
from truemem_workbench.local import Function
from truemem_workbench.local.configuration.node_function import BUILDING

from tests.check.conftest import Check
from tests.explain.test_lines import FUNCTIONS, explained_function, names_first

NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="no node on the path")


def explained(handler: str, timeout_s: float = 30) -> Explanation:
    node, client = Path(str(NODE)).resolve(), FUNCTIONS / "client.mjs"
    function = Function(
        command=(str(node), str(client), f"planted.{handler}"),
        task_root=FUNCTIONS,
        handler=f"planted.{handler}",
        runtime="nodejs20.x",
        needs=(FUNCTIONS, node, client),
    )
    return explained_function(function, timeout_s=timeout_s)


@pytest.mark.parametrize(
    ("handler", "kind"),
    [
        ("list", "Array of Object ORDERS"),
        pytest.param("map", "Map of Object bySession", marks=pytest.mark.nightly),
        pytest.param("set", "Set of Object seen", marks=pytest.mark.nightly),
        pytest.param("members", "Object of Object state.orders", marks=pytest.mark.nightly),
        pytest.param("instance", "Map of Object store.#data", marks=pytest.mark.nightly),
        pytest.param("module", "Object of Object", marks=pytest.mark.nightly),
        pytest.param("closure", "Array of function callbacks", marks=pytest.mark.nightly),
        pytest.param("listener", "Array of function emitter._events.saved", marks=pytest.mark.nightly),
        pytest.param("timer", "TimersList of Timeout timerListMap[3600000]", marks=pytest.mark.nightly),
        pytest.param("linked", "variable chain", marks=pytest.mark.nightly),
        pytest.param("copy", "variable copied", marks=pytest.mark.nightly),
        pytest.param("nested", "variable copied", marks=pytest.mark.nightly),
        pytest.param("samename", "variable copied", marks=pytest.mark.nightly),
        pytest.param("undone", "Array of Object ORDERS", marks=pytest.mark.nightly),
        pytest.param("weak", "Set of Object seen", marks=pytest.mark.nightly),
        pytest.param("proxied", "Array of Object target", marks=pytest.mark.nightly),
        pytest.param("frozen", "Array of Object ORDERS", marks=pytest.mark.nightly),
        pytest.param("buffers", "Array of Buffer ORDERS", marks=pytest.mark.nightly),
        pytest.param("promises", "Array of function pending", marks=pytest.mark.nightly),
        pytest.param("strings", "variable text", marks=pytest.mark.nightly),
    ],
)
def test_the_line_that_keeps_comes_first(handler: str, kind: str) -> None:
    explanation = explained(handler)
    first = names_first(explanation, handler, "//")
    assert f"{first.kind} {first.owner}".strip() == kind
    assert 0.9 < first.kib / (8000 / 1024) < 1.1
    assert explanation.missing == ()


@pytest.mark.parametrize("handler", ["bounded", pytest.param("steady", marks=pytest.mark.nightly)])
def test_what_does_not_grow_is_not_accused(handler: str) -> None:
    explanation = explained(handler)
    assert explanation.holders == []
    assert "garbage that V8 has not collected yet" in "\n".join(explanation.lines())


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
    explanation = explained(handler, timeout_s=3)
    names_first(explanation, "list", "//")
    assert any(said in each for each in explanation.missing), explanation.missing


@pytest.mark.nightly
@pytest.mark.timeout(1200)
@pytest.mark.skipif(any(shutil.which(tool) is None for tool in BUILDING), reason="no npm, or no compiler")
@pytest.mark.parametrize("module", ["index.mjs", "index.js"])
def test_the_command_explains_through_awss_own_client(invoke_check: Check, tmp_path: Path, module: str) -> None:
    export = "export const handler =" if module == "index.mjs" else "exports.handler ="
    (tmp_path / module).write_text(
        f"const kept = [];\n{export} async () => {{\n  kept.push(new Array(10000).fill(kept.length));\n}};\n"
    )
    (tmp_path / "template.yaml").write_text(
        "Resources:\n  Orders:\n    Type: AWS::Serverless::Function\n"
        "    Properties: {Runtime: nodejs20.x, Handler: index.handler, CodeUri: ., MemorySize: 512}\n"
    )
    for target in (f"{tmp_path / module}:handler", f"{tmp_path / 'template.yaml'}:Orders"):
        done = invoke_check(target, "--explain", "--max-drift", 8, "--format", "github")
        assert done.exit_code == 1, done.output
        assert f"{module}:3  Array of Array kept" in done.stdout
        assert f"{module},line=2," in done.stdout  # the handler's own annotation
