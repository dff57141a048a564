"""The tracer runs none of the function's code, takes nothing away from it, and says what it could not see."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from truemem_workbench.explain.explanation import Explanation
from truemem_workbench.explain.users import Users

from tests.explain.test_lines import explained, names_first


def traced(handler: str) -> Explanation:
    return explained(handler, module="hostile.py")


@pytest.mark.parametrize("handler", ["attributes", "sequence", "proxies", "keys"])
def test_no_code_of_the_functions_objects_runs(handler: str) -> None:
    explanation = traced(handler)
    assert explanation.missing == ()  # the handler raises if any has run
    names_first(explanation, handler)


def test_a_thread_that_was_there_before_accuses_no_line_of_the_handler() -> None:
    names_first(traced("pool"), "pool")


def test_a_function_that_traces_itself_is_left_alone() -> None:
    explanation = traced("traces")
    names_first(explanation, "traces")
    assert explanation.missing == ("The function traces itself (sys.settrace): no line was seen that keeps.",)


def test_a_function_that_ends_the_tracing_is_said() -> None:
    explanation = traced("stops")
    assert any("has stopped tracemalloc" in said for said in explanation.missing), explanation.missing
    assert not any("ended too early" in said for said in explanation.missing), explanation.missing
    assert {each.kind for each in explanation.holders} <= {"block", "list of bytearray"}


def test_what_cannot_be_understood_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def raises(*_: object) -> None:
        raise TypeError("a dict where a text should be")

    monkeypatch.setattr("truemem_workbench.explain.run.attribute", raises)
    monkeypatch.setattr("truemem_workbench.explain.native.can_trace", lambda _: False)
    assert any("a dict where a text should be" in said for said in explained("module_list").missing)


def test_libraries_beside_the_users_code_are_not_the_users(tmp_path: Path) -> None:
    root = tmp_path / "site-packages" / "task"
    package = tmp_path / "package"
    package.mkdir()
    (package / "leaklib.py").write_text("KEPT = []\n")
    (package / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'
        '[project]\nname = "leaklib"\nversion = "1"\n[tool.setuptools]\npy-modules = ["leaklib"]\n'
    )
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--target", root, package],
        check=True,
    )
    users = Users(root)
    assert not users.is_theirs((f"{root}/leaklib.py", 1))
    assert users.is_theirs((f"{root}/leaklib_of_ours.py", 1))
    assert users.is_theirs((f"{root}/app.py", 1))
    assert not users.is_theirs((f"{root}/vendored/site-packages/numpy/__init__.py", 1))
