"""A command that is said is a command that can be typed."""

import shlex
import sys
from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from truemem_workbench.commands.__main__ import cli
from truemem_workbench.support.exit_codes import run
from truemem_workbench.support.terminal import console, say
from truemem_workbench.support.typed_command import NEXT, Command, following

OPTION = st.tuples(st.sampled_from(["--env", "--memory", "--json"]), st.one_of(st.none(), st.text()))


@given(st.lists(st.text(min_size=1)), st.lists(OPTION))
def test_a_shell_reads_the_words_that_were_given(arguments: list[str], options: list[tuple[str, str | None]]) -> None:
    words = [word for option in options for word in option if word is not None]
    typed = str(Command("local run", tuple(arguments), tuple(options)))
    assert shlex.split(typed) == ["truemem", "local", "run", *arguments, *words]


def test_another_command_keeps_what_was_given() -> None:
    given = Command("check", ("app.py:handler",)).with_option("--env", "A=1").with_option("--env", "B=x y")
    assert str(given.named("explain")) == "truemem explain app.py:handler --env A=1 --env 'B=x y'"
    assert str(given.without("--env").with_option("--json")) == "truemem check app.py:handler --json"
    assert given.has("--env") and not given.has("--json")


@pytest.mark.parametrize("when", ["", "after the repair"])
def test_the_next_command_is_found_in_a_text(when: str) -> None:
    said = f"It grows. {following('truemem check app.py:handler', when)}"
    assert NEXT.split(said, maxsplit=1)[0::2] == ["It grows.", "truemem check app.py:handler"]


def test_at_a_terminal_it_is_on_a_line_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    out = StringIO()
    say(console(file=out, width=80), f"It grows. {following('truemem check', 'after the repair')}", begin="- ")
    assert out.getvalue() == "- It grows.\n  Next, after the repair: truemem check\n"


@pytest.mark.parametrize(
    ("typed", "near"),
    [
        ("chek app.py:handler", "No such command 'chek'. Did you mean check?"),
        ("local rnu", "No such command 'rnu'. Did you mean run?"),
        ("check --evnt {}", "No such option '--evnt'. Did you mean --event or "),
        ("check app.py:handler --allow threds", "'extension'. Did you mean threads?"),
        ("soak app.py:handler --memory 1.5GB", "'1.5GB' is no whole number of MiB. Did you mean 1536?"),
        ("nothing-like-it", "No such command 'nothing-like-it'. Try "),
    ],
)
def test_what_is_misspelt_is_told_its_neighbour(
    typed: str, near: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["truemem", *typed.split()])
    assert run(cli, "truemem") == 2
    assert near in capsys.readouterr().err
