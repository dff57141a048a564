"""What the commands print at 80 columns: a terminal cuts a longer line in the middle of a word."""

import re
import sys
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st
from truemem_workbench.commands.__main__ import COMMANDS, cli
from truemem_workbench.support.terminal import console, notify, say

from tests.account.conftest import Account, account
from tests.attach.captured import stored
from tests.report.conftest import Command, aws, aws_endpoint, truemem

__all__ = ["account", "aws", "aws_endpoint", "truemem"]

COMMAND = re.compile(r"\s*(Next[^:]*: |→ )?(truemem|aws|pip) |.*: truemem ")
"""A line with a command is not wrapped: it is to be copied."""


@pytest.fixture
def narrow(truemem: Command, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """What a command prints at 80 columns. Each of its words is one of those that a wide terminal has."""

    def run(*arguments: str | Path) -> str:
        wide = truemem(*arguments).out
        monkeypatch.setenv("COLUMNS", "80")
        shown = truemem(*arguments).out
        monkeypatch.delenv("COLUMNS")
        words = {*wide.split()}
        assert [word for word in shown.split() if word not in words and not set(word) <= set("─")] == []
        assert [line for line in shown.split("\n") if len(line) > 80 and not COMMAND.match(line)] == []
        return shown

    return run


@pytest.mark.parametrize("run", stored())
def test_no_word_of_report_and_doctor_is_cut(narrow: Callable[..., str], tmp_path: Path, run: str) -> None:
    name = f"payments-{'long-' * 9}name"
    one, other = tmp_path / "one.log", tmp_path / "other.log"
    one.write_text("".join(f"{event.message}\n" for event in stored()[run]))
    other.write_text(one.read_text().replace('"FunctionName":"function"', f'"FunctionName":"{name}"'))
    for logs in ([one], [other], [one, other]):
        assert "\\n" not in narrow("report", *logs)
        narrow("report", *logs, "--all")
        narrow("doctor", *logs)


def test_no_word_of_a_plan_is_cut(narrow: Callable[..., str], account: Account) -> None:
    names = [account.function(f"a-{'long-' * 10}name-{number}", Runtime="provided.al2023") for number in range(4)]
    account.said[names[3]] = {"LastUpdateStatus": "InProgress"}
    shown = narrow("attach", *names, "--exact", "--lines", "--dry-run")
    assert "\n  ! provided.al2023 starts no wrapper: attached in the default mode." in shown


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "local"] + ["local run"])
def test_no_word_of_a_help_text_is_cut(name: str) -> None:
    context, command = click.Context(cli), cli
    for each in name.split():
        found = command.get_command(context, each)
        assert found is not None
        context, command = click.Context(found, info_name=each, parent=context, terminal_width=80), found  # type: ignore[assignment]
    told = command.get_help(context)
    assert [line for line in told.split("\n") if len(line) > 80] == []
    assert "<=None" not in told  # a range without an end


@given(st.lists(st.text("ab-/:.", min_size=1, max_size=90), min_size=1), st.sampled_from(["", "- ", "  "]))
def test_a_sentence_is_wrapped_between_words(words: list[str], begin: str) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("COLUMNS", "80")
        out = StringIO()
        say(console(file=out, width=80), " ".join(words), begin=begin)
    assert out.getvalue().split() == [*begin.split(), *words]
    assert all(len(line) <= 80 or len(line.split()) == 1 + line.startswith("- ") for line in out.getvalue().split("\n"))


def test_elsewhere_a_sentence_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    out = StringIO()
    say(console(file=out, width=80), "word " * 40 + "end. Next: truemem check", begin="- ")
    assert out.getvalue() == "- " + "word " * 40 + "end. Next: truemem check\n"


def test_a_message_is_wrapped_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    notify("truemem check", "nothing " * 20)
    lines = capsys.readouterr().err.rstrip().split("\n")
    assert len(lines) == 3
    assert {*" ".join(lines).split()} == {"truemem", "check:", "nothing"}
