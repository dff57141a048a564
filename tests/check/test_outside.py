"""Templates and events that are hostile, or no file: one line, and exit code 2."""

import itertools
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from truemem_workbench.support import untrusted_text
from truemem_workbench.target.cloudformation_yaml import MOST_DEPTH
from truemem_workbench.target.template import from_template

from tests.check.conftest import STEADY, Refused


def levels(first: str, following: str, count: int = 40) -> str:
    """A level for each letter and number, each made from the one before."""
    names = [f"a{number}" for number in range(count)]
    made = [f"  a0: &a0 {first}"]
    made += [f"  {now}: &{now} {following.replace('LAST', f'*{last}')}" for last, now in itertools.pairwise(names)]
    return "\n".join(made)


BOMBS = {
    "lists": "[" * 20_000,
    "objects": "{a: " * 20_000,
    "indented": "\n".join(" " * depth + "a:" for depth in range(2_000)),
    "short forms": "!Ref [" * 20_000,
    "lists of aliases": "Metadata:\n"
    + levels("[x, x, x, x, x, x, x, x, x]", "[LAST, LAST, LAST, LAST, LAST, LAST, LAST]"),
    "merges": "Metadata:\n" + levels("{x: 1}", "{<<: [LAST, LAST, LAST, LAST]}"),
    "large text": f"a: &a {'x' * 1_000_000}\nb: [{', '.join(['*a'] * 5_000)}]",
    "in itself": "a: &a [*a]",
    "merged into itself": "a: &a {<<: *a}",
    "digits": f"a: 0x{'f' * 6000}",
    "no month": "a: 2001-99-99",
    "no number": 'a: !!int ""',
    "not text": "\0\1\2",
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "template.yaml"


@pytest.mark.parametrize("text", BOMBS.values(), ids=BOMBS)
def test_a_template_that_is_a_bomb_is_refused_in_one_line(text: str, path: Path, refused: Refused) -> None:
    path.write_text(text)
    assert "template.yaml is not YAML" in refused(f"{path}:F")


def template(properties: str) -> str:
    return f"Resources: {{F: {{Type: 'AWS::Serverless::Function', Properties: {{{properties}}}}}}}"


def test_texts_that_double_with_each_substitution_are_refused(path: Path, refused: Refused) -> None:
    value = "xxxxxxxxxxxxxxxx"
    for _ in range(MOST_DEPTH // 4):
        value = f'!Sub ["${{x}}${{x}}${{x}}${{x}}", {{x: {value}}}]'
    path.write_text(template(f"Environment: {{Variables: {{A: {value}}}}}"))
    assert "a text of Fn::Sub becomes longer" in refused(f"{path}:F")


def test_aliases_of_an_ordinary_template_are_read(path: Path) -> None:
    path.with_name("app.py").write_text("def handler(event, context): ...\n")
    shared = "Shared: &shared {Handler: app.handler, Runtime: python3.11, MemorySize: 256}\n"
    path.write_text(shared + template("<<: *shared, Timeout: 7"))
    found = from_template(path, "F")
    assert (found.memory_mib, found.timeout_s) == (256, 7)


def test_names_in_a_template_are_no_commands_to_a_terminal(path: Path, refused: Refused) -> None:
    path.write_text(template('Handler: "\\e]52;c;eA==\\a\\n[bold].x"'))
    said = refused(f"{path}:F")
    assert "\x1b" not in said
    assert "\\x1b]52;c;eA==\\x07\\n[bold]" in said


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "[" * 300 + "]" * 300, '{"a":' * 5_000, "9" * 5000, "NaN", "1\n" + "[" * 5_000]
)
@pytest.mark.parametrize("given", ["--events PATH", "--event @PATH", "--event -"])
def test_events_that_are_hostile_are_refused_in_one_line(text: str, given: str, path: Path, refused: Refused) -> None:
    path.write_text(text)
    assert "JSON" in refused(STEADY, *given.replace("PATH", str(path)).split(), stdin=text)


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"a":' * 5_000, "9" * 5000, '{"schema":1,"functions":{"FUNCTION":{"peak":1HUGE}}}']
)
def test_a_baseline_that_is_hostile_is_refused_in_one_line(text: str, path: Path, refused: Refused) -> None:
    path.write_text(text.replace("FUNCTION", STEADY).replace("HUGE", "0" * 400))
    assert "baseline" in refused(STEADY, "--baseline", path)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (os.mkfifo, "no program has written to it"),
        (lambda path: path.symlink_to("/dev/zero"), "it is larger than 1 MiB"),
    ],
    ids=["a pipe without a writer", "a file without end"],
)
@pytest.mark.parametrize("given", ["PATH:F", "STEADY --events PATH", "STEADY --event @PATH", "STEADY --baseline PATH"])
def test_what_cannot_be_read_as_a_file_is_refused(
    make: Callable[[Path], None], said: str, given: str, path: Path, refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(untrusted_text, "WRITER_S", 0.0)
    monkeypatch.setattr(untrusted_text, "MOST_FILE_BYTES", 1 << 20)
    make(path)
    assert said in refused(*given.replace("PATH", str(path)).replace("STEADY", STEADY).split())


def test_a_folder_is_refused(path: Path, refused: Refused) -> None:
    path.mkdir()
    assert "Is a directory" in refused(f"{path}:F")
    assert "Is a directory" in refused(STEADY, "--event", f"@{path}")
