"""Functions with a planted leak run under the tracer: the line that keeps it is named.

The tracer runs none of the function's code, takes nothing away from it, and says what it could not see.
"""

import sys
import venv
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
from truemem_workbench.explain import native, run
from truemem_workbench.explain.attribution import Holder
from truemem_workbench.explain.explanation import Explanation
from truemem_workbench.explain.run import explain
from truemem_workbench.local import Function
from truemem_workbench.local.configuration.function import with_project_python
from truemem_workbench.support.terminal import Progress
from truemem_workbench.target.target import Target

from tests.check.conftest import FEW

FUNCTIONS = Path(__file__).with_name("functions")


def explained(
    handler: str | Function,
    module: str = "planted.py",
    timeout_s: float = 30,
    jitter: tuple[float, ...] = FEW,
    progress: Progress = lambda _, __, ___: None,
) -> Explanation:
    function = Function.from_spec(f"{FUNCTIONS / module}:{handler}") if isinstance(handler, str) else handler
    with patch.multiple(run, LOOKS=len(jitter), JITTER=jitter):
        return explain(
            Target(spec="planted", name="planted", function=function, memory_mib=1024, timeout_s=timeout_s),
            [{}],
            invocations=151,
            plain_seconds=60,
            measured_kib=8.0,
            progress=progress,
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
        pytest.param("untracked", "dict of bytearray planted.RAW", marks=pytest.mark.nightly),
        pytest.param("instance", "dict of dict planted.store.data", marks=pytest.mark.nightly),
        pytest.param("cached", "cache planted.price", marks=pytest.mark.nightly),
        pytest.param("handlers", "list of logging.StreamHandler planted.log.handlers", marks=pytest.mark.nightly),
        ("threads", "dict of threading.Thread threading._active"),
        pytest.param("tasks", "list of _asyncio.Task planted.TASKS", marks=pytest.mark.nightly),
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


def test_small_objects_count_with_the_room_that_they_take() -> None:
    explanation = explained("prices")
    first = names_first(explanation, "prices")
    assert first.kib == pytest.approx(400 * (32 + 8 * 9 / 8) / 1024, rel=0.06)
    assert explanation.rest_kib == 0


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
        pytest.param("files", marks=pytest.mark.nightly),
    ],
)
def test_the_line_comes_first_beside_native_libraries(handler: str) -> None:
    explanation = explained(handler, module="libraries.py")
    names_first(explanation, handler)
    assert explanation.missing == ()


@pytest.mark.nightly
def test_a_model_that_is_not_kept_is_not_accused() -> None:
    assert explained("steady", module="libraries.py").holders == []


def test_a_full_cache_is_not_accused() -> None:
    assert explained("bounded").holders == []


@pytest.mark.parametrize(
    ("options", "line", "missing"),
    [
        ({"handler": "forks"}, "module_list", []),  # a child process writes nothing of ours
        ({"handler": "ends"}, "module_list", ["had 2 processes"]),
        pytest.param({"handler": "native_ends"}, "native", ["had 2 processes"], marks=pytest.mark.nightly),
        ({"handler": "raises"}, "module_list", ["170 of 170 invocations failed"]),
        pytest.param(
            {"handler": "aborts", "module": "libraries.py"},
            "aborts",
            ["signal: aborted", "had 2 processes"],
            marks=pytest.mark.nightly,
        ),
    ],
    ids=["it forks", "its process ends", "native", "it fails", "it crashes"],
)
def test_a_partial_answer_says_what_is_missing(
    options: dict[str, Any], line: str, missing: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("truemem_workbench.explain.run.LOOKS_S", 0)
    explanation = explained(**options, jitter=run.JITTER)
    names_first(explanation, line)
    assert [part for part in missing if not any(part in said for said in explanation.missing)] == []
    assert bool(explanation.missing) == bool(missing)


def test_an_invocation_that_does_not_end_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock stands still, and then leaves it a second."""
    now = [0.0]
    monkeypatch.setattr("truemem_workbench.explain.run.time", SimpleNamespace(monotonic=lambda: now[0]))

    def progress(_: str, done: int, __: int) -> None:
        if done == 70:
            now[0] = run.INVOKING * run.limit_s(60) - 1

    explanation = explained("hangs", jitter=run.JITTER, progress=progress)
    names_first(explanation, "module_list")
    assert [said.partition(":")[0] for said in explanation.missing] == ["An invocation did not end"]
    assert "70 of 170 were traced" in explanation.missing[0]


def test_a_python_without_memray_takes_that_of_our_installation() -> None:
    assert native.variables(Path(sys.executable)) == native.MALLOC_VARIABLE
    bare = Path(sys._base_executable)  # type: ignore[attr-defined]
    ours = str(Path(find_spec("memray").origin).parents[1])  # type: ignore[union-attr, arg-type]
    assert native.variables(bare) == {**native.MALLOC_VARIABLE, native.OURS: ours}


IMAGES = """
import sys
from importlib.util import find_spec
import rich
from PIL import Image

KEPT = []

def handler(event, context):
    assert rich.OF == "the function"
    assert not [each for each in ("typing_extensions", "jinja2", "ruff") if find_spec(each)]
    KEPT.append(Image.new("L", (100, 80)))
"""


@pytest.fixture
def with_pillow_alone(tmp_path: Path) -> Function:
    """Its environment has Pillow and nothing that memray needs, but a module that has the name of one."""
    venv.create(tmp_path / "venv", symlinks=True)
    packages = next((tmp_path / "venv").glob("lib/python*/site-packages"))
    for each in Path(find_spec("PIL").origin).parents[1].glob("[Pp][Ii][Ll]*"):  # type: ignore[union-attr, arg-type]
        (packages / each.name).symlink_to(each)
    (tmp_path / "rich.py").write_text("OF = 'the function'")
    (tmp_path / "app.py").write_text(IMAGES)
    return with_project_python(Function.from_spec(f"{tmp_path / 'app.py'}:handler"), str(tmp_path / "venv"))[0]


def test_memray_needs_nothing_of_the_functions_environment(with_pillow_alone: Function) -> None:
    explanation = explained(with_pillow_alone)
    assert explanation.missing == ()
    first = explanation.holders[0]
    assert (Path(first.file).name, first.line, first.kind) == ("app.py", 12, "native block")
    assert 0.9 < first.kib / (8000 / 1024) < 1.3


def test_a_memray_that_cannot_be_loaded_whole_is_not_taken(tmp_path: Path) -> None:
    venv.create(tmp_path, symlinks=True)
    packages = next(tmp_path.glob("lib/python*/site-packages"))
    for each in ("memray", "rich"):  # without typing_extensions
        (packages / each).symlink_to(Path(find_spec(each).origin).parent)  # type: ignore[union-attr, arg-type]
    assert native.OURS in (native.variables(tmp_path / "bin" / "python") or {})


# --- a hostile function -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "handler",
    [
        "attributes",
        "proxies",
        "pool",
        *(pytest.param(each, marks=pytest.mark.nightly) for each in ("sequence", "keys")),
    ],
)
def test_no_code_of_the_functions_objects_runs(handler: str) -> None:
    """Nor is a line of the handler accused of what a thread keeps that was there before (`pool`)."""
    explanation = explained(handler, module="hostile.py")
    assert explanation.missing == ()  # the handler raises if any has run
    names_first(explanation, handler)


def test_a_function_that_traces_itself_is_left_alone() -> None:
    explanation = explained("traces", module="hostile.py")
    names_first(explanation, "traces")
    assert explanation.missing == ("The function traces itself (sys.settrace): no line was seen that keeps.",)


def test_a_function_that_ends_the_tracing_is_said() -> None:
    explanation = explained("stops", module="hostile.py")
    assert any("has stopped tracemalloc" in said for said in explanation.missing), explanation.missing
    assert not any("ended too early" in said for said in explanation.missing), explanation.missing
    assert {each.kind for each in explanation.holders} <= {"block", "list of bytearray"}


def test_what_is_not_understood_and_what_to_install_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def raises(*_: object) -> None:
        raise TypeError("a dict where a text should be")

    monkeypatch.setattr("truemem_workbench.explain.run.attribute", raises)
    monkeypatch.setattr("truemem_workbench.explain.native.variables", lambda _: None)
    found, install = explained("module_list").missing
    assert "a dict where a text should be" in found
    assert "pip install memray" in install
