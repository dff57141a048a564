"""Templates and events that are hostile, or no file: one line, and exit code 2."""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from truemem_workbench.check.template import from_template
from truemem_workbench.check.template_yaml import MOST_DEPTH
from truemem_workbench.cli.__main__ import cli
from truemem_workbench.local import BadInput
from truemem_workbench.support import untrusted_text

STEADY = str(Path(__file__).parent / "functions/steady.py") + ":handler"


@pytest.fixture(autouse=True)
def as_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    monkeypatch.setattr("truemem_workbench.check.command.raise_on_signals", lambda: None)  # they are pytest's


def check(*arguments: str | Path, stdin: str | None = None) -> Result:
    return CliRunner().invoke(cli, ["check", *map(str, arguments)], input=stdin)


def refused(ran: Result) -> str:
    """What it said."""
    assert (ran.exit_code, ran.stdout, ran.stderr.count("\n")) == (2, "", 1), ran.output
    assert len(ran.stderr) < 2200
    return ran.stderr


def levels(first: str, following: str, count: int = 40) -> str:
    """A level for each letter and number, each made from the one before."""
    names = [f"a{number}" for number in range(count)]
    made = [f"  a0: &a0 {first}"]
    made += [f"  {now}: &{now} {following.replace('LAST', f'*{last}')}" for last, now in itertools.pairwise(names)]
    return "\n".join(made)


BOMBS = {
    "lists": "[" * 20_000,
    "closed lists": "[" * 20_000 + "]" * 20_000,
    "objects": "{a: " * 20_000,
    "indented": "\n".join(" " * depth + "a:" for depth in range(2_000)),
    "short forms": "!Ref [" * 20_000,
    "dashes": "- " * 20_000,
    "lists of aliases": "Metadata:\n"
    + levels("[x, x, x, x, x, x, x, x, x]", "[LAST, LAST, LAST, LAST, LAST, LAST, LAST]"),
    "merges": "Metadata:\n" + levels("{x: 1}", "{<<: [LAST, LAST, LAST, LAST]}"),
    "large text": f"a: &a {'x' * 1_000_000}\nb: [{', '.join(['*a'] * 5_000)}]",
    "in itself": "a: &a [*a]",
    "merged into itself": "a: &a {<<: *a}",
    "digits": f"a: 0x{'f' * 6000}",
    "no month": "a: 2001-99-99",
    "no number": 'a: !!int ""',
    "no time": "a: !!timestamp x",
    "no boolean": "a: !!bool x",
    "not text": "\0\1\2",
}


@pytest.mark.parametrize("text", BOMBS.values(), ids=BOMBS)
def test_a_template_that_is_a_bomb_is_refused_in_one_line(text: str, tmp_path: Path) -> None:
    path = tmp_path / "template.yaml"
    path.write_text(text)

    assert "template.yaml is not YAML" in refused(check(f"{path}:F"))


def template(properties: str) -> str:
    return f"Resources: {{F: {{Type: 'AWS::Serverless::Function', Properties: {{{properties}}}}}}}"


def test_texts_that_double_with_each_substitution_are_refused(tmp_path: Path) -> None:
    value = "xxxxxxxxxxxxxxxx"
    for _ in range(MOST_DEPTH // 4):
        value = f'!Sub ["${{x}}${{x}}${{x}}${{x}}", {{x: {value}}}]'
    (tmp_path / "template.yaml").write_text(template(f"Environment: {{Variables: {{A: {value}}}}}"))

    assert "a text of Fn::Sub becomes longer" in refused(check(tmp_path / "template.yaml:F"))


def test_aliases_of_an_ordinary_template_are_read(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("def handler(event, context): ...\n")
    shared = "Shared: &shared {Handler: app.handler, Runtime: python3.11, MemorySize: 256}\n"
    (tmp_path / "template.yaml").write_text(shared + template("<<: *shared, Timeout: 7"))

    found = from_template(tmp_path / "template.yaml", "F")
    assert (found.memory_mib, found.timeout_s) == (256, 7)


def test_names_in_a_template_are_no_commands_to_a_terminal(tmp_path: Path) -> None:
    (tmp_path / "template.yaml").write_text(template('Handler: "\\e]52;c;eA==\\a\\n[bold].x"'))

    said = refused(check(tmp_path / "template.yaml:F"))
    assert "\x1b" not in said
    assert "\\x1b]52;c;eA==\\x07\\n[bold]" in said


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "[" * 300 + "]" * 300, '{"a":' * 5_000, "9" * 5000, "NaN", "1\n" + "[" * 5_000]
)
@pytest.mark.parametrize("given", ["--events", "--event @", "--event -"])
def test_events_that_are_hostile_are_refused_in_one_line(text: str, given: str, tmp_path: Path) -> None:
    path = tmp_path / "events.json"
    path.write_text(text)
    arguments = {
        "--events": ["--events", str(path)],
        "--event @": ["--event", f"@{path}"],
        "--event -": ["--event", "-"],
    }

    assert "JSON" in refused(check(STEADY, *arguments[given], stdin=text))


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"a":' * 5_000, "9" * 5000, '{"schema":1,"functions":{"FUNCTION":{"peak":1HUGE}}}']
)
def test_a_baseline_that_is_hostile_is_refused_in_one_line(text: str, tmp_path: Path) -> None:
    path = tmp_path / "memory.json"
    path.write_text(text.replace("FUNCTION", STEADY).replace("HUGE", "0" * 400))

    assert "baseline" in refused(check(STEADY, "--baseline", path))


@pytest.mark.parametrize("given", ["--events PATH", "--event @PATH", "--baseline PATH"])
def test_a_pipe_without_a_writer_is_told(given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(untrusted_text, "WRITER_S", 0.0)
    os.mkfifo(tmp_path / "pipe")

    said = refused(check(STEADY, *given.replace("PATH", str(tmp_path / "pipe")).split()))
    assert "no program has written to it" in said


def test_a_template_that_is_a_pipe_without_a_writer_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(untrusted_text, "WRITER_S", 0.0)
    os.mkfifo(tmp_path / "template.yaml")

    assert "no program has written to it" in refused(check(tmp_path / "template.yaml:F"))


def test_a_file_without_end_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(untrusted_text, "MOST_BYTES", 1 << 20)
    (tmp_path / "template.yaml").symlink_to("/dev/zero")

    assert "it is larger than 1 MiB" in refused(check(tmp_path / "template.yaml:F"))
    assert "it is larger than 1 MiB" in refused(check(STEADY, "--events", "/dev/zero"))


def test_a_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "template.yaml").mkdir()

    assert "Is a directory" in refused(check(tmp_path / "template.yaml:F"))
    assert "Is a directory" in refused(check(STEADY, "--event", f"@{tmp_path}"))


def test_what_a_template_says_is_a_bad_input_in_the_plugin_too(tmp_path: Path) -> None:
    (tmp_path / "template.yaml").write_text(json.dumps({"Resources": {"F": {"Type": "AWS::Serverless::Function"}}}))
    with pytest.raises(BadInput, match="Handler of F in"):
        from_template(tmp_path / "template.yaml", "F")
