"""What a function, its log or a caller wrote, through the commands: shown, and never obeyed."""

import json
import os
import threading
from pathlib import Path

import pytest

from tests.report.conftest import Command, Report
from tests.report.test_ending import ran as process
from tests.report.written import line, log

SCREEN = {
    "OSC 8": "/\x1b]8;;https://example.com\x1b\\here\x1b]8;;\x07",
    "OSC 52": "/\x1b]52;c;cm0gLXJmIH4=\x07",
    "CSI": "/\x1b[2J\x1b[1;1Hgone",
    "C1": "/\x9b2J\x9d52;c;eA==\x9c",
    "bidi": "/\u202eexe.fdp\u2066",
    "line": "/a\nreport | all is well\r\x0b\x0c\x85\u2028b",
}
"""Paths of requests, as a caller may send them."""


def unseen(text: str) -> set[str]:
    """Characters that a terminal would obey, or that turn the text around."""
    turned = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u2028\u2029"
    return {each for each in text if each != "\n" and (ord(each) < 32 or 127 <= ord(each) < 160 or each in turned)}


@pytest.mark.parametrize("path", SCREEN.values(), ids=SCREEN)
def test_a_log_line_is_no_command_to_a_terminal(path: str, truemem: Command, tmp_path: Path) -> None:
    complaint = f"truemem WARN {path}".replace("\n", " ")
    file = log(tmp_path, [line("a", 1), line("a", 2), complaint, "REPORT RequestId: x"])
    ran = truemem("doctor", file)

    assert "It says: /" in ran.out
    assert unseen(ran.out) == set()


@pytest.mark.parametrize("depth", [150, 300, 990, 100_000])
def test_depth_in_one_line_spoils_no_other(depth: int, truemem: Command, report: Report, tmp_path: Path) -> None:
    deep = '{"schema":1,"environmentId":"a","message":' + "[" * depth + "]" * depth + "}"
    wrapped = json.dumps({"message": line("a", 3), "timestamp": 1})
    inside = f'{{"timestamp":1,"message":{deep}}}'
    for lines in ([line("a", 1), deep, line("a", 2)], [wrapped, inside]):
        assert report(lines)["environments"][0]["peaks"]["highest"] == 100
        assert truemem("page", log(tmp_path, lines), "--output", tmp_path / "page.html").code == 0


@pytest.mark.parametrize(
    "said", ["\r", "10 %\r20 %\r\r", "\r\r\n", "a\rb", "\x01\x02", "\0" * 40, "\x85\u2028", '"', "\\"]
)
def test_a_progress_bar_and_a_mangled_line_spoil_no_other(said: str, report: Report) -> None:
    assert report([line("a", 1), line("a", 2), said])["lines"] == 2
    assert report([line("a", 1), said, line("a", 2)])["lines"] == 2


@pytest.mark.parametrize("name", ["""it's a [b] c* "d";e--ü,f""", "a?b", "a\\b", "\udcff"], ids=ascii)
def test_the_temporary_folder_may_have_any_name(name: str, tmp_path: Path) -> None:
    folder = tmp_path / name
    folder.mkdir()
    packed = log(tmp_path, [json.dumps([{"@message": line("a", 1)}])], "console.json")
    ran = process("report", packed, log(folder, [line("a", 2)]), "--json", variables={"TMPDIR": str(folder)})

    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["lines"] == 2


def test_a_pipe_with_a_name_is_waited_for(truemem: Command, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Timer(0.1, pipe.write_text, args=(line("a", 1) + "\n",))
    writer.start()
    ran = truemem("report", pipe, "--json")
    writer.join()

    assert ran.document["lines"] == 1
