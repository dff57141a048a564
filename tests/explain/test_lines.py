"""Functions with a planted leak run under the tracer: the line that keeps it is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from truemem_workbench.explain.attribution import Holder
from truemem_workbench.explain.explanation import Explanation
from truemem_workbench.explain.run import explain
from truemem_workbench.local import Function, Settings

FUNCTIONS = Path(__file__).with_name("functions")


def explained(handler: str, plain_seconds: float = 60, module: str = "planted.py") -> Explanation:
    return explained_function(Function.from_spec(f"{FUNCTIONS / module}:{handler}"), plain_seconds)


def explained_function(function: Function, plain_seconds: float = 60, timeout_s: float = 30) -> Explanation:
    return explain(
        function,
        Settings(name="planted", memory_mib=1024, timeout_s=timeout_s),
        [{}],
        invocations=160,
        plain_seconds=plain_seconds,
        measured_kib=8.0,
        progress=lambda _, __, ___: None,
    )


def line_marked(handler: str, comment: str = "#") -> tuple[str, int]:
    """The line that ends with this mark."""
    for path in sorted(FUNCTIONS.glob("*.py" if comment == "#" else "*.mjs")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if line.endswith(f"{comment} {handler}"):
                return str(path), number
    raise AssertionError(handler)


def names_first(explanation: Explanation, line: str, comment: str = "#") -> Holder:
    """The first that keeps: its line has this mark."""
    first = explanation.holders[0]
    assert (first.file, first.line) == line_marked(line, comment), explanation.lines()
    return first


@pytest.mark.parametrize(
    ("handler", "kind"),
    [
        ("module_list", "list of dict planted.ORDERS"),
        pytest.param("dict_cache", "dict of dict planted.STATE['orders']", marks=pytest.mark.nightly),
        ("untracked", "dict of bytearray planted.RAW"),
        pytest.param("instance", "dict of dict planted.store.data", marks=pytest.mark.nightly),
        ("cached", "cache planted.price"),
        pytest.param("handlers", "list of logging.StreamHandler planted.log.handlers", marks=pytest.mark.nightly),
        ("threads", "dict of threading.Thread threading._active"),
        ("tasks", "list of _asyncio.Task planted.TASKS"),
        pytest.param("errors", "list of ValueError planted.ERRORS", marks=pytest.mark.nightly),
        pytest.param("callbacks", "list of function planted.store.callbacks['saved']", marks=pytest.mark.nightly),
        ("linked", "Link planted.head"),
    ],
)
def test_the_line_that_keeps_comes_first(handler: str, kind: str) -> None:
    explanation = explained(handler)
    first = names_first(explanation, handler)
    assert f"{first.kind} {first.owner}".strip() == kind
    assert 7.8 < first.kib < 13  # 8,000 bytes, and a thread or a task with it
    assert explanation.missing == ()


def test_a_native_block_is_found_by_memray() -> None:
    explanation = explained("native")
    first = names_first(explanation, "native")
    assert (first.kind, len(explanation.holders)) == ("native block", 1)
    assert first.native == ("ffi_call",)  # the C function that ctypes calls through, and malloc's caller
    assert 0.9 < first.kib / (8000 / 1024) < 1.1
    assert explanation.missing == ()


@pytest.mark.parametrize(
    "handler",
    [
        "predictions",
        pytest.param("native_thread", marks=pytest.mark.nightly),
        pytest.param("native_forks", marks=pytest.mark.nightly),
        pytest.param("arrays", marks=pytest.mark.nightly),
        pytest.param("sessions", marks=pytest.mark.nightly),
    ],
)
def test_beside_libraries_with_native_code_the_line_comes_first(handler: str) -> None:
    explanation = explained(handler, module="libraries.py")
    names_first(explanation, handler)
    assert explanation.missing == ()


@pytest.mark.nightly
def test_a_model_that_is_loaded_each_time_and_not_kept_is_not_accused() -> None:
    assert explained("steady", module="libraries.py").holders == []


def test_without_memray_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("truemem_workbench.explain.native.can_trace", lambda _: False)
    assert any("pip install memray" in said for said in explained("native").missing)


def test_a_full_cache_is_not_accused() -> None:
    assert explained("bounded").holders == []


@pytest.mark.parametrize(
    ("options", "line", "missing"),
    [
        ({"handler": "ends"}, "module_list", ["had 2 processes"]),
        ({"handler": "native_ends"}, "native", ["had 2 processes"]),
        ({"handler": "raises"}, "module_list", ["170 of 170 invocations failed"]),
        ({"handler": "hangs", "plain_seconds": 3}, "module_list", ["An invocation did not end: 70 of"]),
        ({"handler": "aborts", "module": "libraries.py"}, "aborts", ["signal: aborted", "had 2 processes"]),
    ],
    ids=["its process ends", "native", "it fails", "it never ends", "it crashes"],
)
def test_a_partial_answer_says_what_is_missing(options: dict[str, Any], line: str, missing: list[str]) -> None:
    explanation = explained(**options)
    names_first(explanation, line)
    assert [part for part in missing if not any(part in said for said in explanation.missing)] == []


def test_a_child_process_writes_nothing_of_ours() -> None:
    explanation = explained("forks")
    names_first(explanation, "module_list")
    assert explanation.missing == ()


def test_too_few_looks_are_said() -> None:
    explanation = explained("module_list", plain_seconds=0)
    assert explanation.holders == []
    assert any("ended after 0 s: 0 of" in said for said in explanation.missing), explanation.missing
