"""What people also have on disk, and type, is told in one line and never with the code of a broken limit."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest
from truemem_workbench.lines.line import read
from truemem_workbench.lines.log_files import events
from truemem_workbench.lines.wrapped import inside

from tests.report.conftest import Command, Report
from tests.report.written import life, line, log, request


@pytest.mark.parametrize("by", ["it's", "a\\b", "$", "#", "[0]", "ключ", "a b", "a*"])
def test_by_takes_odd_names(by: str, report: Report) -> None:
    own = json.dumps({by: "x", "requestId": request("a", 1)})
    assert [part["value"] for part in report([line("a", 1), own], "--by", by)["parts"]] == ["x"]


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
    mark_first = 1 if value == "true" else 200  # DuckDB takes it for a number
    assert (environment["mark_first"], environment["mark"], environment["size"]) == (mark_first, 200, 1024)
    *unknown, last = read([path])
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


def test_the_doctor_reads_standard_input(truemem: Command) -> None:
    ran = truemem("doctor", "-", stdin=line("a", 1) + "\n")

    assert (ran.code, "1 line of the sidecar." in ran.out) == (0, True)
