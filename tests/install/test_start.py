"""How the command starts: what it imports before it has something to say, its help and its completion."""

import os
import shlex
import subprocess
import sys

import click
import pytest
from truemem_workbench.commands.__main__ import BARE, COMMANDS, cli

from tests.install.dependencies import imported
from tests.install.test_first_contact import TYPED

NAMES = ["local run", *(name for name in COMMANDS if name != "local")]
LOADED = """
import sys
from truemem_workbench.commands.__main__ import main
for typed in sys.argv[1:] or [""]:
    sys.argv[1:] = typed.split()
    try:
        main()
    except SystemExit as ended:
        assert not ended.code, typed
print(*{name.partition(".")[0] for name in sys.modules}, file=sys.stderr)
"""


def run(*typed: str, **variables: str) -> tuple[str, set[str]]:
    """What the command prints when it is called with each of these in turn, and the packages that it has imported."""
    done = subprocess.run(
        [sys.executable, "-c", LOADED, *typed],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, set(done.stderr.split())


def test_help_imports_no_package_that_is_slow() -> None:
    shown, loaded = run("", "--version", *(f"{name} --help" for name in NAMES))
    assert shown.count("Usage: truemem") == 1 + len(NAMES)
    assert "click" in loaded
    assert not loaded & {"multiprocessing", *imported()} - {"click"}  # they are slow


def test_bare_it_prints_its_help_and_what_to_begin_with() -> None:
    assert run()[0] == run("--help")[0] + BARE
    assert run("local")[0] == run("local --help")[0]


def test_completion_imports_nothing_slow() -> None:
    for typed, expected in [("truemem re", ["report"]), ("truemem report --fun", ["--function"])]:
        words = {"COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" "))}
        out, loaded = run(_TRUEMEM_COMPLETE="bash_complete", **words)
        assert out.split() == [f"plain,{each}" for each in expected]
        assert not loaded & {"multiprocessing", *imported()} - {"click"}  # they are slow


@pytest.mark.parametrize("typed", TYPED)
def test_each_command_of_the_pages_has_options_that_there_are(typed: str) -> None:
    words = shlex.split(typed.rpartition("truemem ")[2].partition(" > ")[0])
    command: click.Command | None = cli
    while isinstance(command, click.Group) and not words[0].startswith("-"):
        command = command.get_command(click.Context(command), words.pop(0))
    assert command is not None
    if words != ["--version"]:
        command.make_context(typed, words)
