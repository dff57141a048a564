"""A function of which every invocation fails: what failed, where, and the one command to type next."""

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from truemem_workbench.commands.__main__ import cli
from truemem_workbench.commands.explain import explain
from truemem_workbench.judge.causes import find
from truemem_workbench.judge.curves import Curves, Failed
from truemem_workbench.judge.finding import commands_local
from truemem_workbench.local import Function
from truemem_workbench.runs.measurement import end_of_log
from truemem_workbench.support.typed_command import Command

from tests.check.conftest import Check
from tests.mcp.conftest import Asked, asked

__all__ = ["asked"]

HANDLER = "def handler(event, context):\n    return event['order']\n"
UNSET = f"import os\nTABLE = os.environ['TABLE_NAME']\n{HANDLER}"
CHECK = "truemem check app.py:handler"
FUNCTIONS = {
    "a variable": (
        UNSET,
        "KeyError: 'TABLE_NAME', a variable that is not set (app.py:2)",
        "{check} --env TABLE_NAME=VALUE",
    ),
    "a package": (f"import absent\n{HANDLER}", "No module named 'absent'", "{python} -m pip install absent"),
    "a module above": (f"import shared\n{HANDLER}", "No module named 'shared'", "{check} --env PYTHONPATH={above}"),
    "a member of the event": (HANDLER, "KeyError: 'order' (app.py:2)", "{check} --event @event.json"),
    "init": (
        f"raise OSError('no database')\n{HANDLER}",
        "OSError: no database (app.py:1)",
        "truemem local run app.py:handler --event '{{}}'",
    ),
}  # fmt: skip
"""What is wrong: the module, what is said, and the command to type next."""


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The function's folder, from which the command is typed. `shared.py` is in the folder above."""
    monkeypatch.setattr("truemem_workbench.support.exit_codes.raise_on_signals", lambda: None)  # they are pytest's
    with tempfile.TemporaryDirectory(prefix="truemem-test-") as name:
        Path(name).chmod(0o755)  # the function may run as another user
        (Path(name) / "shared.py").write_text("")
        own = Path(name) / "own"
        own.mkdir(mode=0o755)
        monkeypatch.chdir(own)
        yield own


def written(folder: Path, text: str) -> str:
    (folder / "app.py").write_text(text)
    return "app.py:handler"


@pytest.mark.parametrize("missing", FUNCTIONS)
def test_what_is_missing_is_said_with_the_command(missing: str, folder: Path, invoke_check: Check) -> None:
    text, said, command = FUNCTIONS[missing]
    (folder / "requirements.txt").write_text("")
    done = invoke_check(written(folder, text), "--json")
    finding = json.loads(done.stdout)["finding"]

    assert done.exit_code == 2
    assert finding["cause"] == "failing"
    assert (
        f"5 of them said: {'Runtime.ImportModuleError: Unable to import' if 'No module' in said else said}"
        in (finding["sentence"])
    )
    assert said in finding["sentence"]
    assert finding["next"] == command.format(check=CHECK, python=sys.executable, above=folder.parent)
    assert ("list it in requirements.txt as well" in finding["sentence"]) == (missing == "a package")


@pytest.mark.parametrize(
    ("said", "package"),
    [
        ("Runtime.ImportModuleError: Error: Cannot find module '@a/pad/sub' Require stack: - /a/index.js", "@a/pad"),
        ("Error: Cannot find package 'pad' imported from /a/index.mjs", "pad"),
        ("Error: Cannot find module './lib/pad'", ""),
        ("Error: Cannot find module '/a/lib/pad.mjs' imported from /a/index.mjs", ""),
    ],
)
def test_a_package_of_npm_is_installed_where_it_is_listed(said: str, package: str, folder: Path) -> None:
    (folder / "package.json").write_text("{}")
    elsewhere = "(cd ../other && npm install {})"
    for place, command in {
        "src": "npm install {}",
        ".aws-sam/build/It": "npm install {}",
        "../other": elsewhere,
    }.items():
        function = Function(("node",), folder / place, "index.handler", "nodejs22.x", ())
        made = commands_local(Command("check", ("index.js:handler",)), function=function)
        found = find(Curves(failed=Failed({said: 5}, in_init=True), invocations=5), made)
        assert found.next == (command.format(package) if package else made.log), found.paragraph()


def test_a_log_does_not_end_with_the_head_of_a_traceback() -> None:
    error = "[ERROR] Runtime.ImportModuleError: Unable to import module 'app': No module named 'absent'"
    assert end_of_log(["START", f"{error}\rTraceback (most recent call last):"]) == ["START", error]


def test_the_terminal_has_the_same_answer_once(folder: Path, invoke_check: Check) -> None:
    out = " ".join(invoke_check(written(folder, UNSET)).output.split())

    assert out.count("Next: ") == out.count("invocations failed") == 1
    assert f"Give it TABLE_NAME. Next: {CHECK} --env TABLE_NAME=VALUE" in out
    assert "--allow-errors" not in out  # which would measure no more


def test_an_init_that_fails_cannot_be_allowed(folder: Path, invoke_check: Check) -> None:
    done = invoke_check(written(folder, UNSET), "--allow-errors")

    assert done.exit_code == 2
    assert f"Next: {CHECK} --allow-errors --env TABLE_NAME=VALUE" in " ".join(done.output.split())


def test_what_fails_is_not_traced(folder: Path) -> None:
    done = CliRunner().invoke(explain, [written(folder, UNSET), "--json"])

    assert done.exit_code == 2
    document = json.loads(done.stdout)
    assert document["finding"]["next"] == f"{CHECK} --env TABLE_NAME=VALUE"
    assert "explanation" not in document


def test_a_soak_says_what_is_missing(folder: Path) -> None:
    words = ["soak", written(folder, HANDLER), "--for", "3s", "--environments", "1"]
    done = CliRunner().invoke(cli, [*words, "--json"])

    assert done.exit_code == 1
    finding = json.loads(done.stdout)["finding"]
    assert finding["cause"] == "failing"
    assert finding["next"] == f"truemem {' '.join(words)} --event @event.json"


def test_a_sweep_of_sizes_says_what_is_missing(folder: Path) -> None:
    done = CliRunner().invoke(cli, ["size", written(folder, UNSET), "--memory", "256,512", "--invocations", "2"])
    out = " ".join(done.output.split())

    assert done.exit_code == 2
    assert out.count("a variable that is not set") == 1
    assert out.endswith(f"Next: {CHECK} --env TABLE_NAME=VALUE")


def test_a_local_run_says_what_is_missing(folder: Path) -> None:
    done = CliRunner().invoke(cli, ["local", "run", written(folder, UNSET), "--event", "{}", "--json"])
    finding = json.loads(done.stdout.splitlines()[-1])["summary"]["finding"]

    assert (finding["cause"], finding["next"]) == ("failing", f"{CHECK} --event '{{}}' --env TABLE_NAME=VALUE")


def test_an_assistant_is_told_the_same(asked: Asked, folder: Path) -> None:
    answer = asked("check", {"target": f"{folder}/{written(folder, UNSET)}"})

    assert answer.text.startswith("Failing: 5 of 5 invocations failed.")
    assert answer.text.count("invocations failed") == 1
    assert answer.document["nextCall"] == {"tool": "check", "arguments": {"target": f"{folder}/app.py:handler"}}
    assert answer.document["nextMissing"] == ["env.TABLE_NAME"]

    answer = asked("run", {"target": f"{folder}/{written(folder, HANDLER)}"})
    assert "Its event was {}: give it one of its own, or --events with a file of them." in answer.text
    assert answer.document["nextCall"] == {"tool": "check", "arguments": {"target": f"{folder}/app.py:handler"}}
    assert (answer.document["nextMissing"], answer.document.get("nextWhen")) == (["event"], None)


@pytest.mark.parametrize(
    ("text", "options", "code"),
    [
        (HANDLER, (), 2),
        (HANDLER, ("--undecided-exit", 125), 125),
        ("def other(): ...\n", ("--undecided-exit", 125), 125),
        (HANDLER, ("--undecided-exit", 125, "--memroy", 512), 128),
        (HANDLER, ("--undecided-exit", 125, "--events", "none.jsonl"), 128),
        (HANDLER, ("--undecided-exit", 125, "--memory", 1), 128),
        (HANDLER, ("--undecided-exit", 125, "--python", "./none"), 128),
        (HANDLER, ("--undecided-exit", 125, "--baseline", "none.json"), 128),
        (HANDLER, ("--memroy", 512), 2),
    ],
    ids=[
        "as usual",
        "fails",
        "no handler",
        "a wrong option ends git bisect run",
        "no events",
        "no size",
        "no interpreter",
        "no baseline",
        "a wrong option as usual",
    ],
)
def test_what_cannot_be_judged_is_skipped_by_git(
    text: str, options: tuple[object, ...], code: int, folder: Path, invoke_check: Check
) -> None:
    done = invoke_check(written(folder, text), *options)
    assert done.exit_code == code, done.output
    assert "--undecided-exit" not in done.stdout
