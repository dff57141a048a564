"""What people also have on disk, and type: it is told in one line, and never with the code of a broken limit."""

import gzip
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
from truemem_workbench.printed.line import read
from truemem_workbench.printed.log_files import events
from truemem_workbench.printed.wrapped import inside
from truemem_workbench.support import untrusted_text

from tests.report.conftest import Command, Report
from tests.report.written import life, line, log, request

REPORT = (
    "REPORT RequestId: {id}\tDuration: 1.5 ms\tBilled Duration: 2 ms\tMemory Size: 128 MB\tMax Memory Used: 30 MB\t"
)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """By the words that stand for them below."""
    monkeypatch.setattr(untrusted_text, "WRITER_S", 0.0)
    os.mkfifo(tmp_path / "pipe")
    pictures = {
        "EVERY-BYTE": bytes(range(256)) * 100,
        "ZEROS": bytes(5 << 20),
        "PNG": b"\x89PNG\r\n\x1a\n" + os.urandom(9999),
    }
    for name, content in pictures.items():
        (tmp_path / name).write_bytes(content)
    return {
        "LOG": log(tmp_path, [line()]),
        "OWN": log(tmp_path, [REPORT.format(id=1), line("a", 1), REPORT.format(id=2), line("a", 2)], "own.txt"),
        "EMPTY": log(tmp_path, ["START"], "empty.txt"),
        "PIPE": tmp_path / "pipe",
        "NO-LOG": tmp_path / "no\x1b[2J\nlog.txt",
        **{name: tmp_path / name for name in pictures},
    }


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("report", "nothing to read from. Try the NAME of a function, FILE... or --log-group NAME"),
        ("report LOG --log-group orders", "several places to read from"),
        ("report LOG --function other", "no line of other: this log is of orders. Leave --function out, or name one"),
        ("report OWN --function other", "no line of other: this log is of orders"),  # whose REPORT name no function
        ("report OWN --since 1s", "all 2 lines are of another time, function or environment"),
        ("page OWN --function other", "no line of other: this log is of orders"),
        ("report nowhere.log", "there is no file nowhere.log. For a function in AWS try its NAME alone"),
        ("report EMPTY", "no line of the sidecar and no REPORT in these files. Try truemem doctor "),
        ("lines EMPTY", "Try truemem doctor "),
        ("report LOG --environment zzz", "all 1 lines are of another time, function or environment"),
        ("report LOG --since yesterday", "--since yesterday is no time. Try --since 3h"),
        ("report LOG --compare 41", "--compare 41 is not two versions. Try --compare 41:42"),
        ("report LOG --compare 1:2", "no line is of version 1. There are: $LATEST"),
        ("report LOG --by colour", "--by colour: no JSON line has it together with a request id"),
        ("report LOG --json --format csv", "standard output takes one of them"),
        ("report LOG --output -", "--output -: its ending is not .json or .csv or .html. Try --output -.json"),
        ("report LOG --fail-on peak", "--fail-on peak without a saved run. Try --baseline FILE.json"),
        ("report LOG --baseline LOG", "log.txt is no saved report. Make one with truemem report"),
        ("report LOG --baseline nowhere.json", "--baseline nowhere.json is no file. Make one with --output FILE.json"),
        ("page nowhere.log", "there is no file nowhere.log"),
        ("page EMPTY", "Try truemem doctor "),
        ("page LOG --environment x9", "no line of the sidecar of x9 in"),
        ("page LOG --output no/folder.html", "cannot write no/folder.html: No such file or directory"),
        ("page LOG --output x.jpg", "--output x.jpg: its ending is not .html or .png. Try --output x.html"),
        ("report .", ". is a folder. Try ./*"),
        ("doctor .", "is a folder"),
        ("doctor x --since bogus", "--since bogus is no time. Try --since 3h"),  # before AWS is asked
        ("report LOG --by \udcff\x1b", "--by \\udcff\\x1b is not in UTF-8"),
        ("report LOG --environment \udcff\x1b", "--environment \\udcff\\x1b is not in UTF-8"),
    ],
)
def test_bad_input_is_one_line(arguments: str, told: str, truemem: Command, files: dict[str, Path]) -> None:
    words = arguments.split()
    refusal = truemem(*(files.get(word, word) for word in words)).refusal
    assert refusal.startswith(f"truemem {words[0]}: ")
    assert told in refusal


@pytest.mark.parametrize("command", ["report", "page", "doctor"])
@pytest.mark.parametrize(
    ("file", "told"),
    [
        ("EVERY-BYTE", "EVERY-BYTE is not a log, because it is not text"),
        ("ZEROS", "ZEROS is not a log, because it is not text"),
        ("PNG", "PNG is not a log, because it is not text"),
        ("/dev/zero", "it is not text"),
        ("PIPE", "no program has written to it"),
        ("NO-LOG", "no\\x1b[2J\\nlog.txt"),
    ],
)
def test_what_is_no_log_is_told(command: str, file: str, told: str, truemem: Command, files: dict[str, Path]) -> None:
    refusal = truemem(command, files.get(file, file)).refusal
    assert told in refusal
    assert refusal[:-1].isprintable()


@pytest.mark.parametrize("by", ["a..b", 'a"b', "", ".", "a.", "*", "a.*"])
def test_by_wants_a_name(by: str, truemem: Command, files: dict[str, Path]) -> None:
    told = f"--by {by} is no name of a member. Try --by model_id"
    assert told in truemem("report", files["LOG"], "--by", by).refusal


@pytest.mark.parametrize("option", ["--headroom nan", "--invocations-per-month inf", "--gb-second nan"])
def test_what_is_no_number_is_refused(option: str, truemem: Command, files: dict[str, Path]) -> None:
    with pytest.raises(click.UsageError, match=r"is no finite number|is not in the range"):
        truemem("report", files["LOG"], *option.split())


@pytest.mark.parametrize(
    ("variables", "told"),
    [
        ({"AWS_ENDPOINT_URL": "notaurl"}, "Invalid endpoint: notaurl. Check AWS_ENDPOINT_URL"),
        ({"AWS_PROFILE": "unknown"}, "could not be found. Try aws sso login"),
        ({"AWS_REGION": "eu west"}, "Try aws configure set region eu-west-1"),
        ({"AWS_ACCESS_KEY_ID": None}, "no AWS credentials. Try aws sso login, or aws configure"),
        ({"AWS_DEFAULT_REGION": None}, "You must specify a region. Try aws configure set region eu-west-1"),
    ],
    ids=lambda each: next(iter(each)) if isinstance(each, dict) else "",
)
@pytest.mark.parametrize("command", ["report x", "metrics x", "doctor --function x"])
def test_what_is_wrong_around_aws_is_told(
    command: str,
    variables: dict[str, str | None],
    told: str,
    truemem: Command,
    aws: Callable[[str], Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("AWS_REGION", raising=False)
    for name, value in variables.items():
        if value is None:
            monkeypatch.delenv(name)
        else:
            monkeypatch.setenv(name, value)
    assert told in truemem(*command.split()).refusal


NO_FIGURES = ["NaN", "Infinity", "-Infinity", "1e400", "-1e400", "1" + "0" * 400, "9" * 5000, "[" * 400 + "]" * 400]


@pytest.mark.parametrize("value", [*NO_FIGURES, "true"], ids=lambda value: f"{value[:6]}, {len(value)}")
def test_what_is_no_figure_is_unknown_and_spoils_no_other_line(value: str, truemem: Command, tmp_path: Path) -> None:
    names = ("PeakRSS", "CurrentRSS", "MaxMemoryUsed", "peakUpper", "baselineRSS", "memoryLimit", "durationMs")
    odd: dict[str, Any] = dict.fromkeys((*names, "initPeakRSS"), "HERE")
    odd |= {"_aws": {"Timestamp": "HERE"}, "holders": {"function": "HERE", "truemem": "HERE"}}
    held = {"function": 1.0, "truemem": 1.0, "extensions": {"x": "HERE"}}
    more = {"heap": {"inUse": "HERE", "held": 9.0, "mapped": 0.0}, "holders": held}
    lines = [line("a", 1, **odd), line("a", 2, **more), line("a", 3, MaxMemoryUsed=150)]
    path = log(tmp_path, [each.replace('"HERE"', value) for each in lines])
    text = truemem("report", path, "--json").out

    assert not re.search("NaN|Infinity", text)
    (environment,) = json.loads(text)["environments"]
    assert environment["peaks"]["highest"] == 100
    *unknown, last = read([path])
    mark = 200 if unknown else 150  # else the whole line is not read
    assert (environment["mark_first"], environment["mark"], environment["size"]) == (mark, mark, 1024)
    assert last.peak_rss == 100
    if unknown:
        assert (unknown[0].peak_rss, unknown[0].current_rss, unknown[0].time_ms) == (None, None, None)
    assert truemem("page", path, "--output", tmp_path / "page.html").code == 0
    assert "of the sidecar" in truemem("doctor", path).out


@pytest.mark.parametrize("form", ["list", "one a line"])
def test_the_console_s_json_has_the_function_s_own_lines_too(form: str, truemem: Command, tmp_path: Path) -> None:
    messages = [
        {"level": "INFO", "message": "scored", "model_id": "large", "function_request_id": request("a", 1)},
        json.loads(line("a", 1)),
        "START RequestId: 1",
    ]
    rows = [{"@timestamp": "2026-11-21 12:00:00.000", "@message": message} for message in messages]
    path = log(tmp_path, [json.dumps(rows, indent=1)] if form == "list" else map(json.dumps, rows), "console.json")

    (part,) = truemem("report", path, "--by", "model_id", "--json").document["parts"]
    assert part["value"] == "large"
    assert [list(inside(event)) for event in events(path)][2] == ["START RequestId: 1"]


def test_the_bytes_that_were_read_are_told(tmp_path: Path) -> None:
    plain = log(tmp_path, life("a", 3000))
    packed = tmp_path / "log.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))

    for path in (plain, packed):
        told: list[int] = []
        assert len(list(events(path, told.append))) == 3000
        assert sum(told) == path.stat().st_size
        assert len(told) >= 3


def test_other_environments_are_not_even_parsed(tmp_path: Path) -> None:
    escaped = line("a/b", 1).replace("a/b", "a\\/b")
    broken = line("other", 1).replace('"invocation":1', '"invocation":')
    path = log(tmp_path, [line("a", 1), line("b", 1), escaped, broken])
    asked: list[str] = []

    def wanted(name: str) -> bool:
        asked.append(name[-3:])
        return name.endswith(("]a", "a/b"))

    assert [each.environment[-3:] for each in read([path], wanted=wanted)] == ["T]a", "a/b"]
    assert "T]b" in asked


def test_a_fleet_s_page_has_the_most_urgent_whole(
    truemem: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = log(tmp_path, [*life("calm", 150), *life("leak", 150, grows=1.0), *life("small", 40, PeakRSS=50.0)])
    monkeypatch.setattr("truemem_workbench.page.html.ROOM", 200)
    page = tmp_path / "page.html"
    ran = truemem("report", path, "--output", page)

    assert "has the 2 most urgent of 3 environments, as many as a page holds" in ran.err
    assert "LATEST]leak" in page.read_text()
    assert "LATEST]small" in page.read_text()
    assert "LATEST]calm" not in page.read_text()


@pytest.mark.parametrize("by", ["it's", "a\\b", "$", "#", "[0]", "ключ", "a b", "a*"])
def test_by_takes_odd_names(by: str, report: Report) -> None:
    own = json.dumps({by: "x", "requestId": request("a", 1)})
    assert [part["value"] for part in report([line("a", 1), own], "--by", by)["parts"]] == ["x"]
