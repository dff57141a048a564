"""The pytest plugin, in projects of its own."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import FUNCTIONS

pytest_plugins = ["pytester"]

BY_MODULE = ("-p", "no:truemem", "-p", "truemem_workbench.pytest_plugin")
"""Once, whether its entry point is installed or not."""


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """With the functions beside the tests, where the function's own user can read them."""
    for name in ("leaky.py", "steady.py"):
        shutil.copy(FUNCTIONS / name, pytester.path)
    return pytester


def run(project: pytest.Pytester, test: str, *arguments: str) -> pytest.RunResult:
    project.makepyfile(test)
    return project.runpytest_inprocess(*BY_MODULE, "-p", "no:xdist", "--strict-markers", *arguments)


def test_a_leak_fails_its_test_and_says_all_at_a_glance(project: pytest.Pytester) -> None:
    done = run(
        project,
        """
        import pytest

        @pytest.mark.memory(handler="leaky.py:handler", invocations=60, max_drift_kib=4, max_peak_mib=200, quick=True)
        def test_memory(): ...
        """,
    )
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(
        [
            "leaky.py:handler FAILED: 60 invocations after * to warm up, * s",
            "limit * allowed * measured*",
            "max-drift * 4 KiB * KiB (*) * BROKEN",
            "max-peak * 200 MiB * MiB * kept",
            "current *",
            "peak *",
            "It grows by *, and 4 KiB are allowed.",
        ]
    )
    done.stdout.no_fnmatch_line("*Traceback*")


def test_a_steady_function_passes_and_the_test_may_look(project: pytest.Pytester) -> None:
    done = run(
        project,
        """
        import pytest

        @pytest.mark.memory("steady.py:handler", invocations=40, max_peak_mib=200, env={"A": "B"}, memory_mib=300,
                            events=[{"mib": 1}, {"mib": 2}], warm_up=0, quick=True)
        def test_memory(truemem):
            assert truemem.measurement.memory_mib == 300
            assert truemem.measurement.verdict.name == "stable"
        """,
        "--junitxml=report.xml",
    )
    done.assert_outcomes(passed=1)
    assert 'name="truemem_peak_mib"' in (project.path / "report.xml").read_text()


def test_a_test_may_invoke_by_itself(project: pytest.Pytester) -> None:
    done = run(
        project,
        """
        import pytest

        @pytest.mark.memory(handler="steady.py:handler", max_peak_mib=200)
        def test_enough(lambda_environment):
            assert lambda_environment.invoke({"mib": 3}).payload == 3 * 2**20

        @pytest.mark.memory(handler="steady.py:handler", max_peak_mib=30)
        def test_too_much(lambda_environment):
            lambda_environment.invoke({"mib": 1})
            lambda_environment.invoke({"mib": 40})

        @pytest.mark.memory(handler="steady.py:handler", env={"A": "B"})
        def test_of_other_things(lambda_environment):
            assert lambda_environment.invoke({"variable": "A"}).payload == "B"

        @pytest.mark.memory(handler="steady.py:handler", max_peak_mib=1)
        def test_that_fails_by_itself(lambda_environment):
            assert lambda_environment.invoke({"mib": 1}).payload == "something else"
        """,
    )
    done.assert_outcomes(passed=2, failed=2)
    done.stdout.fnmatch_lines(["max-peak * 30 MiB * MiB * BROKEN", "*in invocation 2, and 30 MiB are allowed.*"])
    done.stdout.no_fnmatch_line("max-peak * 1 MiB *")


def test_what_is_asked_wrongly_is_told_in_one_line(project: pytest.Pytester) -> None:
    done = run(
        project,
        """
        import pytest

        @pytest.mark.memory(handlr="app.py:handler")
        def test_a_word_that_there_is_not(): ...

        @pytest.mark.memory(handler="app.py:handler")
        def test_a_file_that_there_is_not(): ...

        @pytest.mark.memory(handler="app.py:handler")
        def test_two_runs(truemem, lambda_environment): ...

        def test_without_a_marker(lambda_environment): ...
        """,
    )
    done.assert_outcomes(failed=2, errors=2)
    done.stdout.fnmatch_lines_random(
        [
            "truemem: @pytest.mark.memory got an unexpected keyword argument 'handlr'. Try @pytest.mark.memory(*",
            "truemem: no file app.py. Try PATH/app.py:handler",
            "truemem: the fixtures truemem and lambda_environment are two runs. Take one of them",
            'truemem: which function? Try @pytest.mark.memory(handler="app.py:handler")',
        ]
    )
    done.stdout.no_fnmatch_line("*During handling*")


def test_projects_that_do_not_use_it_pay_nothing(tmp_path: Path) -> None:
    """What it imports beside pytest itself: no package of ours, and none of theirs."""
    script = (
        "import sys, pytest, contextlib; before = set(sys.modules);"
        "import truemem_workbench.pytest_plugin; print(*sorted(set(sys.modules) - before))"
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, cwd=tmp_path)
    assert done.stdout.split() == ["truemem_workbench", "truemem_workbench.pytest_plugin"]
