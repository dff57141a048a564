"""The pytest plugin, in projects of its own."""

import json
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.check.conftest import FUNCTIONS

pytest_plugins = ["pytester"]

BY_MODULE = ("-p", "no:truemem", "-p", "truemem_workbench.commands.pytest_plugin")
"""Once, whether its entry point is installed or not."""


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """With the functions beside the tests, where the function's own user can read them."""
    for name in ("leaky.py", "steady.py"):
        shutil.copy(FUNCTIONS / name, pytester.path)
    return pytester


def _pattern(text: str) -> str:
    """A regular expression of a text in which `*` is anything."""
    return ".*".join(map(re.escape, text.split("*")))


def run(project: pytest.Pytester, tests: str, *arguments: str) -> pytest.RunResult:
    project.makepyfile("import pathlib, pytest\n\nmemory = pytest.mark.memory\n" + textwrap.dedent(tests))
    return project.runpytest_inprocess(*BY_MODULE, "-p", "no:xdist", "--strict-markers", *arguments)


def test_a_leak_fails_its_test_and_says_all_at_a_glance(project: pytest.Pytester) -> None:
    done = run(
        project,
        """
        @memory(handler="leaky.py:handler", invocations=60, max_drift_kib=4, max_peak_mib=200, explain=False)
        def test_memory(): ...
        """,
    )
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(
        [
            "leaky.py:handler FAILED: * invocations (* to warm up), * s",
            "limit * allowed * measured*",
            "max-drift * 4 KiB * KiB (*) * BROKEN",
            "max-peak * 200 MiB * MiB * kept",
            "current *",
            "peak *",
            "It grows by *, and 4 KiB are allowed.*",
            "60 invocations did not decide it: * more were made",
        ]
    )
    done.stdout.no_fnmatch_line("*Traceback*")


def test_a_steady_function_passes_and_the_test_may_look(project: pytest.Pytester) -> None:
    done = run(
        project,
        """
        @memory("steady.py:handler", invocations=130, max_peak_mib=200, env={"A": "B"}, memory_mib=300,
                max_p99_ms=60_000, max_errors_percent=0, events=[{"mib": 1}, {"mib": 2}], warm_up=0)
        def test_memory(truemem):
            assert truemem.measurement.memory_mib == 300
            assert truemem.measurement.verdict.name != "growing"
            assert [each.name for each in truemem.limits] == ["max-errors", "growth", "max-peak", "max-p99"]
        """,
        "--junitxml=report.xml",
    )
    done.assert_outcomes(passed=1)
    report = (project.path / "report.xml").read_text()
    assert 'name="truemem_peak_mib"' in report
    assert 'name="truemem_p99_ms"' in report


def test_a_test_may_invoke_by_itself(project: pytest.Pytester) -> None:
    done = run(
        project,
        """
        @memory(handler="steady.py:handler", max_peak_mib=200)
        def test_enough(lambda_environment):
            assert lambda_environment.invoke({"mib": 3}).payload == 3 * 2**20

        @memory(handler="steady.py:handler", max_peak_mib=30)
        def test_too_much(lambda_environment):
            lambda_environment.invoke({"mib": 1})
            lambda_environment.invoke({"mib": 40})

        @memory(handler="steady.py:handler", env={"A": "B"})
        def test_of_other_things(lambda_environment):
            assert lambda_environment.invoke({"variable": "A"}).payload == "B"

        @memory(handler="steady.py:handler", max_peak_mib=1)
        def test_that_fails_by_itself(lambda_environment):
            assert lambda_environment.invoke({"mib": 1}).payload == "something else"
        """,
    )
    done.assert_outcomes(passed=2, failed=2)
    done.stdout.fnmatch_lines(["max-peak * 30 MiB * MiB * BROKEN", "*in invocation 2, and 30 MiB are allowed.*"])
    done.stdout.no_fnmatch_line("max-peak * 1 MiB *")


def test_a_wrong_use_is_refused_in_one_line(project: pytest.Pytester) -> None:
    done = run(
        project,
        """
        @memory(handlr="app.py:handler")
        def test_a_word_that_there_is_not(): ...

        @memory(handler="app.py:handler")
        def test_a_file_that_there_is_not(): ...

        @memory(handler="app.py:handler")
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


def test_messages_use_the_words_of_the_marker(project: pytest.Pytester) -> None:
    done = run(
        project,
        r"""
        @memory("steady.py:handler", invocations=10, most=40, warm_up=0)
        def test_too_few(): ...

        @memory("steady.py:handler", event={"fail": True, "say": "\x1b]52;c;eA==\x07[bold]"})
        def test_that_fails(): ...

        @memory("no\x1b[2J.py:handler")
        def test_refused(): ...
        """,
    )
    done.assert_outcomes(failed=3)
    done.stdout.fnmatch_lines_random(
        [
            "*could not be measured: 40 invocations (0 to warm up)*",
            "Undecided: 40 invocations can be judged, 128 are needed. Next: truemem check steady.py:handler *",
            "allow_errors=True measures invocations that are meant to fail",
            '*raise ValueError("as told")',
        ]
    )
    # what a function says is no command to the terminal
    assert "\\x1b]52;c;eA==\\x07[bold]" in done.stdout.str()
    assert "no\\x1b[2J.py" in done.stdout.str()
    assert "\x1b" not in done.stdout.str()


def test_events_and_baseline_are_files_seen_from_the_root(project: pytest.Pytester) -> None:
    (project.mkdir("data") / "events.jsonl").write_text('{"mib": 2}\n{"mib": 3}\n')
    figures = {"schema": 1, "functions": {"steady.py:handler": {"peak": 12.0, "current": 10.0}}}
    (project.path / "memory.json").write_text(json.dumps(figures))
    done = run(
        project,
        """
        ASKED = dict(handler="steady.py:handler", invocations=130, warm_up=0)

        @memory(**ASKED, events="data/events.jsonl", baseline="memory.json", max_growth="1%")
        def test_as_text(truemem): ...

        @memory(**ASKED, events=pathlib.Path("data/events.jsonl"), baseline=pathlib.Path("memory.json"), max_growth=500)
        def test_as_paths(truemem): ...
        """,
    )
    done.assert_outcomes(passed=1, failed=1)
    done.stdout.fnmatch_lines(["max-growth (peak) * 1 % * BROKEN"])


WHOLE = "is not a whole number, 1 or more. Try invocations=200"
WRONG = [
    *((f"invocations={wrong}", f"invocations={wrong} {WHOLE}") for wrong in ("'abc'", "0", "True", "2.5")),
    ("most=10", "most=10 is below invocations=200. Try most=2000"),
    ("warm_up=-1", "warm_up=-1 is not a whole number, 0 or more. Try warm_up=80"),
    ("max_drift_kib='4'", "max_drift_kib='4' is not a number, 0 or more. Try max_drift_kib=4"),
    ("max_peak_mib=float('nan')", "max_peak_mib=nan is not a number, 0 or more. Try max_peak_mib=256"),
    ("max_p99_ms='1'", "max_p99_ms='1' is not a number, 0 or more. Try max_p99_ms=500"),
    ("allow_errors=True, max_errors_percent=5", "allow_errors with max_errors_percent=5: leave one out"),
    ("env={'A': 1}", "env={'A': 1} is not names and values, all of them text. Try env={'NAME': 'VALUE'}"),
    ("event=object", "event: <class 'object'> is not JSON (*). Try event={'key': 1}"),
    ("events=[{1, 2}]", "events: {1, 2} is not JSON (*). Try events={'key': 1}"),
    (
        "events={'a': 1}",
        "events={'a': 1} is not the path of a file or a list of events. Try events='tests/events.jsonl'*",
    ),
    ("events='no.jsonl'", "cannot read events from *no.jsonl: No such file*. Try events=PATH/events.jsonl"),
    ("events=[1], event=2", "event with events: leave one out"),
    ("memory_mib=5", "memory_mib=5 is not a whole number, 128 to 10240. Try memory_mib=512"),
    ("timeout_s=0", "timeout_s=0 is not seconds, up to 1800. Try timeout_s=30"),
    ("extensions=5", "extensions=5 is not the path of a folder. Try extensions='extensions'"),
    ("extensions='none'", "no folder none to take extensions from. Try extensions=PATH/extensions"),
    ("allow='leak'", "allow='leak' is not a list of leak, native, *. Try allow=['descriptors']"),
    ("exact='yes'", "exact='yes' is not True or False. Try exact=True"),
    ("max_growth='10%'", "max_growth='10%': over what? Try baseline='memory.json'"),
    ("max_growth='x', baseline='b'", "max_growth='x' is not MiB or a share. Try max_growth=8 or '10%'"),
    ("baseline=5", "baseline=5 is not the path of a file. Try baseline='memory.json'"),
    ("baseline='no.json'", "cannot read *no.json: No such file or directory. Try --write-baseline *no.json"),
    ("handler=5", "handler=5 is not text. Try handler='app.py:handler'"),
]


def test_every_wrong_value_is_refused_in_one_line(project: pytest.Pytester) -> None:
    handler = 'handler="steady.py:handler", '
    tests = [
        f"@memory({'' if 'handler' in given else handler}{given})\ndef test_{number}(): ..."
        for number, (given, _) in enumerate(WRONG)
    ]
    done = run(project, "\n\n".join(tests))
    done.assert_outcomes(failed=len(WRONG))
    for _, said in WRONG:
        done.stdout.re_match_lines_random([f"^truemem: (@pytest.mark.memory )?{_pattern(said)}$"])
    done.stdout.no_fnmatch_line("*Traceback*")


def test_projects_that_do_not_use_it_pay_nothing(tmp_path: Path) -> None:
    """What it imports beside pytest itself: no package of ours, and none of theirs."""
    script = (
        "import sys, pytest, contextlib; before = set(sys.modules);"
        "import truemem_workbench.commands.pytest_plugin; print(*sorted(set(sys.modules) - before))"
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, cwd=tmp_path)
    package, room = "truemem_workbench", "truemem_workbench.commands"
    assert done.stdout.split() == [package, room, f"{room}.pytest_plugin"]
