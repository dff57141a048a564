"""What people also have on disk, and type, is told in one line and never with the code of a broken limit."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import click
import pytest
from truemem_workbench.lines.line import read
from truemem_workbench.lines.log_files import events
from truemem_workbench.report.store import Store
from truemem_workbench.support.bad_input import BadInput

from tests.report.conftest import Command
from tests.report.written import BEGIN_MS, life, line, log, request


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-8-sig"])
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("form", ["lines", "csv"])
def test_what_powershell_wrote_is_read(
    encoding: str, packed: bool, form: str, truemem: Command, tmp_path: Path
) -> None:
    lines = [line("ü", number) for number in (1, 2)]
    if form == "csv":
        lines = ["timestamp,message", *('1,"' + each.replace('"', '""') + '"' for each in lines)]
    content = (("\ufeff" if encoding == "utf-16-be" else "") + "\r\n".join(lines)).encode(encoding)
    path = tmp_path / "log"
    path.write_bytes(gzip.compress(content) if packed else content)

    assert [each.invocation for each in read([path])] == [1, 2]
    assert truemem("report", path, "--json").document["lines"] == 2
    assert "2 lines of the sidecar" in truemem("doctor", path).out


@pytest.mark.parametrize("command", ["report", "page", "doctor"])
@pytest.mark.parametrize("content", [bytes(range(256)) * 100, bytes(5 << 20), b"\x89PNG\r\n\x1a\n" + os.urandom(9999)])
def test_what_is_no_text_is_no_log(command: str, content: bytes, truemem: Command, tmp_path: Path) -> None:
    path = tmp_path / "picture"
    path.write_bytes(content)
    ran = truemem(command, path)

    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert "picture is not a log, because it is not text" in ran.err


def test_a_mangled_line_makes_no_log_binary(truemem: Command, tmp_path: Path) -> None:
    path = log(tmp_path, [line("a", 1), "\0" * 40, line("a", 2)])

    assert truemem("report", path, "--json").document["lines"] == 2


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "[\n" + "[" * 100_000])
def test_brackets_without_end_are_told(text: str, truemem: Command, tmp_path: Path) -> None:
    path = log(tmp_path, [text])

    assert [truemem(command, path).code for command in ("report", "page")] == [2, 2]


@pytest.mark.parametrize(
    "arguments",
    [
        ["--headroom", "nan"],
        ["--headroom", "inf"],
        ["--invocations-per-month", "nan"],
        ["--invocations-per-month", "inf"],
        ["--gb-second", "nan"],
    ],
    ids=" ".join,
)
def test_what_is_no_number_is_refused(arguments: list[str], truemem: Command, tmp_path: Path) -> None:
    with pytest.raises(click.UsageError, match=r"is no finite number|is not in the range"):
        truemem("report", log(tmp_path, [line()]), *arguments)


@pytest.mark.parametrize("by", ["a..b", 'a"b', "", ".", "a.", "*", "a.*"])
def test_by_wants_a_name(by: str, truemem: Command, tmp_path: Path) -> None:
    ran = truemem("report", log(tmp_path, [line()]), "--by", by)

    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert f"--by {by} is no name of a member. Try --by model_id" in ran.err


@pytest.mark.parametrize("by", ["it's", "a\\b", "$", "#", "[0]", "ключ", "a b", "a*"])
def test_by_takes_odd_names(by: str, truemem: Command, tmp_path: Path) -> None:
    told = json.dumps({by: "x", "requestId": request("a", 1)})
    parts = truemem("report", log(tmp_path, [line("a", 1), told]), "--by", by, "--json").document["parts"]

    assert [part["value"] for part in parts] == ["x"]


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "1e400"])
def test_what_is_no_figure_is_unknown(value: str, truemem: Command, tmp_path: Path) -> None:
    names = ("PeakRSS", "CurrentRSS", "MaxMemoryUsed", "peakUpper", "baselineRSS", "memoryLimit", "durationMs")
    odd = line(
        "a", 1, **dict.fromkeys((*names, "initPeakRSS"), "HERE"), holders={"function": "HERE", "truemem": "HERE"}
    )
    heap = {"inUse": "HERE", "held": 9.0, "mapped": 0.0}
    more = line("a", 2, heap=heap, holders={"function": 1.0, "truemem": 1.0, "extensions": {"x": "HERE"}})
    path = log(tmp_path, [odd.replace('"HERE"', value), more.replace('"HERE"', value), line("a", 3, MaxMemoryUsed=150)])
    text = truemem("report", path, "--json").out

    assert "NaN" not in text
    assert "Infinity" not in text
    (environment,) = json.loads(text)["environments"]
    assert environment["peaks"]["highest"] == 100
    assert (environment["mark_first"], environment["mark"], environment["size"]) == (200, 200, 1024)
    first, _, last = read([path])
    assert (first.peak_rss, first.current_rss, last.peak_rss) == (None, None, 100)


def test_a_time_that_is_none_is_unknown(tmp_path: Path) -> None:
    text = line("a", 1, _aws={"Timestamp": "HERE"})

    for value in ("NaN", "1e400"):
        (read_back,) = read([log(tmp_path, [text.replace('"HERE"', value)])])
        assert read_back.time_ms is None


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
    assert list(events(path))[2] == "START RequestId: 1"


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
        asked.append(name)
        return name.endswith(("]a", "a/b"))

    assert [each.environment[-3:] for each in read([path], wanted=wanted)] == ["T]a", "a/b"]
    assert any(name.endswith("]b") for name in asked)


def test_a_fleet_s_page_has_the_most_urgent_whole(
    truemem: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = log(tmp_path, [*life("calm", 150), *life("leak", 150, grows=1.0), *life("small", 40, PeakRSS=50.0)])
    monkeypatch.setattr("truemem_workbench.page.html.ROOM", 200)
    page = tmp_path / "page.html"
    ran = truemem("report", path, "--html", page)

    assert "has the 2 most urgent of 3 environments, as many as a page holds" in ran.err
    assert "LATEST]leak" in page.read_text()
    assert "LATEST]small" in page.read_text()
    assert "LATEST]calm" not in page.read_text()


def test_the_page_is_of_the_time_that_was_asked_for(truemem: Command, tmp_path: Path) -> None:
    from datetime import UTC, datetime

    since = datetime.fromtimestamp((BEGIN_MS + 151_000) / 1000, UTC).isoformat()
    page = tmp_path / "page.html"

    assert truemem("report", log(tmp_path, life("a", 200)), "--since", since, "--html", page).code == 0
    assert '"count":50' in page.read_text()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["report", "LOG", "--html", "-"], "standard output has the report. Try --html page.html"),
        (["page", "LOG", "--png", "x.jpg"], "--png x.jpg: the picture is a PNG. Try --png page.png"),
        (["page", "LOG", "--output", "-"], "a page is a file. Try --output page.html"),
        (["page", "."], ". is a folder. Try ./*"),
    ],
)
def test_a_page_is_a_file_of_its_kind(arguments: list[str], told: str, truemem: Command, tmp_path: Path) -> None:
    ran = truemem(*(log(tmp_path, [line()]) if each == "LOG" else each for each in arguments))

    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert told in ran.err


def test_the_doctor_reads_standard_input(truemem: Command) -> None:
    ran = truemem("doctor", "-", stdin=line("a", 1) + "\n")

    assert (ran.code, "1 line of the sidecar." in ran.out) == (0, True)


def test_a_file_that_is_gone_is_told(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot be read"), Store() as store:
        store.load([tmp_path / "gone"])
