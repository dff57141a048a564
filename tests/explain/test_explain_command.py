"""`truemem explain`: the lines that hold what grows, whatever a gate would say."""

import json
import signal
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from truemem_workbench.commands.__main__ import cli
from truemem_workbench.support.exit_codes import Ended

from tests.check.conftest import STEADY
from tests.explain.test_run import FUNCTIONS, line_marked
from tests.report.test_profiles import top


@pytest.fixture(autouse=True)
def _signals_are_pytests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("truemem_workbench.support.exit_codes.raise_on_signals", lambda: None)


def explain(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["explain", *map(str, arguments)])


def test_it_names_the_line_and_what_to_type_next(tmp_path: Path) -> None:
    path, profile = tmp_path / "growth.html", tmp_path / "growth.pb.gz"
    outputs = "--output", path, "--output", profile
    done = explain(f"{FUNCTIONS / 'planted.py'}:module_list", "--invocations", 130, "--json", *outputs)
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    first = document["explanation"]["lines"][0]
    assert (first["file"], first["line"]) == line_marked("module_list")
    assert len(document["explanation"]["looks"]) == 10
    assert document["finding"]["cause"] == "leak"
    assert document["finding"]["next"] == f"truemem check {FUNCTIONS / 'planted.py'}:module_list"
    assert "ORDERS.append(order)" in path.read_text()
    kept = next(line for line in top(profile).splitlines() if line.endswith(f"planted.py:{first['line']}"))
    assert kept.split()[0] == f"{round(first['perInvocationKiB'] * 1024)}B"


def test_a_function_that_keeps_nothing_is_explained_too() -> None:
    done = explain(STEADY, "--invocations", 130)
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("No line of code holds more with each invocation (")
    assert "- No leak:" in done.stdout


def test_after_too_few_looks_the_exit_code_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("truemem_workbench.explain.run.LOOKS_S", 0)
    monkeypatch.setattr("truemem_workbench.explain.run.TIMES", 0)
    done = explain(STEADY, "--invocations", 130)
    assert done.exit_code == 2, done.output
    assert done.stdout.startswith("Which line keeps it is not known: 0 looks of 4 (")
    assert "The time for it was over: 0 of " in done.stdout


def test_what_was_ended_is_to_be_explained_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def ended(*_: object, **__: object) -> None:
        raise Ended(signal.SIGINT)

    monkeypatch.setattr("truemem_workbench.explain.run.trace", ended)
    done = explain(STEADY, "--invocations", 10)
    assert done.exit_code == 130, done.output
    assert done.stdout.rstrip().endswith(f" Next: truemem explain {STEADY} --invocations 10")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([Path(__file__).parents[1] / "local" / "functions" / "bootstrap"], "bootstrap is a script: name the program"),
        ([STEADY, "--output", "growth.txt"], "its ending is not .html or .speedscope.json or .pb.gz"),
        ([STEADY, "--event", "{}", "--events", __file__], "leave one out"),
    ],
)
def test_what_cannot_be_explained_is_refused(arguments: list[object], said: str) -> None:
    done = explain(*arguments)
    assert (done.exit_code, said in done.stderr) == (2, True), done.output
