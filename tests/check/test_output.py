"""The same result for a terminal, a program, a build server and GitHub."""

from __future__ import annotations

import io
import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from truemem_workbench.check import github, junit, picture, terminal
from truemem_workbench.check.limits import LimitCheck, Limits, find
from truemem_workbench.check.measurement import Failure, Measurement
from truemem_workbench.check.result import Result
from truemem_workbench.check.text import curve
from truemem_workbench.support.terminal import console

from tests.check.conftest import LEAK, LEVEL, run_of

LIMITS = Limits(drift_kib=4, peak_mib=256)


def result_of(measurement: Measurement) -> Result:
    return Result(measurement, find(measurement, LIMITS), Path("src/app.py"), 12)


@pytest.fixture
def broken() -> Result:
    return result_of(run_of(LEAK, warm_up=40))


@pytest.fixture
def kept() -> Result:
    return result_of(run_of(LEVEL))


# --- for people -------------------------------------------------------------------------------------------------------


def shown(result: Result, encoding: str = "utf-8", width: int = 110) -> list[str]:
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding=encoding)
    terminal.show(result, console(file=file, width=width))
    file.flush()
    return [line.rstrip() for line in raw.getvalue().decode(encoding).splitlines()]


def test_a_person_sees_limit_measured_curve_and_why(broken: Result) -> None:
    lines = shown(broken)
    assert lines[0] == "app.py:handler FAILED: 160 invocations after 40 to warm up, 3 s"
    assert any(line.split()[:3] == ["max-drift", "4", "KiB"] and line.endswith("BROKEN") for line in lines)
    assert any(line.split()[:3] == ["max-peak", "256", "MiB"] and line.endswith("kept") for line in lines)
    (current,) = (line for line in lines if line.startswith("current"))
    assert "▁" in current
    assert "█" not in current  # 2 % more is no mountain
    assert any(line.startswith("- It grows by 8.0 KiB (") for line in lines)
    assert any(line.startswith("- Leak with ") and "as far as RSS can tell: 8.0 KiB more" in line for line in lines)


@pytest.mark.parametrize("width", [20, 50, 80])
def test_a_narrow_terminal_has_the_whole_outcome(broken: Result, width: int) -> None:
    outcomes = [line.split()[-1] for line in shown(broken, width=width) if line.split()[-1:] in (["BROKEN"], ["kept"])]
    assert outcomes == ["BROKEN", "kept"]


def test_the_log_of_one_that_failed_is_shown(kept: Result) -> None:
    failing = run_of(LEVEL, failures=[Failure(1, "no"), Failure(9, "no", ["one [b]", "```"])])
    result = result_of(failing)
    assert shown(result)[-3:] == ["The log of invocation 9 ends:", "  one [b]", "  ```"]
    assert result.text().endswith("The log of invocation 9 ends:\n  one [b]\n  ```")
    assert github.summary(result).endswith("\n      one [b]\n      ```\n```\n")  # more than three spaces: no end
    assert result.document()["log"] == ["The log of invocation 9 ends:", "  one [b]", "  ```"]
    assert "log" not in kept.document()


def test_it_can_be_read_without_utf(broken: Result) -> None:
    assert any(line.startswith("current") and "____" in line for line in shown(broken, "latin-1"))


def test_one_that_passes_says_so_with_its_finding(kept: Result) -> None:
    lines = shown(kept)
    assert lines[0].startswith("app.py:handler passed: 200 invocations")
    assert any(line.startswith("- No leak: memory does not grow.") for line in lines)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], ""),
        ([50, 50, 50], "▁▁▁"),
        ([0, 1, 2, 3, 4, 5, 6, 7], "▁▂▃▄▅▆▇█"),
        ([100, 101], "▁▂"),
        ([0, 0], "▁▁"),
    ],
)
def test_a_curve_goes_from_its_lowest_to_its_highest(values: list[float], expected: str) -> None:
    assert curve(values) == expected


def test_a_column_is_a_median_and_of_peaks_the_highest() -> None:
    values = [1.0] * 50 + [9.0] + [1.0] * 49
    assert curve(values, width=10) == "▁" * 10
    assert curve(values, width=10, highest=True) == "▁▁▁▁▁█▁▁▁▁"


def test_the_picture_is_one(broken: Result, tmp_path: Path) -> None:
    path = tmp_path / "curve.png"
    picture.draw(broken, LIMITS, path)
    assert path.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


# --- for programs -----------------------------------------------------------------------------------------------------


def test_the_document_has_the_figures_and_no_nulls(broken: Result) -> None:
    document = json.loads(json.dumps(broken.document()))
    assert document["outcome"] == "failed"
    assert document["finding"]["cause"] == "leak"
    assert document["finding"]["perInvocationKiB"] == pytest.approx(8, abs=0.1)
    assert [limit["outcome"] for limit in document["limits"]] == ["broken", "kept"]
    assert len(document["currents"]) == 160
    assert None not in document.values()


def junit_of(result: Result, folder: Path) -> ET.Element:
    junit.write(result, folder / "report.xml")
    (suite,) = ET.parse(folder / "report.xml").getroot()
    return suite


def test_junit_has_a_case_for_each_limit(broken: Result, tmp_path: Path) -> None:
    suite = junit_of(broken, tmp_path)
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("2", "1", "0")
    drift, peak = suite.findall("testcase")
    failure = drift.find("failure")
    assert failure is not None
    assert (failure.get("message") or "").startswith("It grows by 8.0 KiB")
    assert "▁" in (failure.text or "")
    assert list(peak) == []


def test_junit_calls_what_could_not_be_measured_an_error(tmp_path: Path) -> None:
    failing = run_of(LEVEL, failures=[Failure(1, "ValueError: \x1b[31m<&>\ud800")])
    suite = junit_of(result_of(failing), tmp_path)
    assert (suite.get("failures"), suite.get("errors")) == ("0", "1")
    (error,) = suite.iter("error")
    assert "number 1: ValueError: \\x1b[31m<&>\\ud800." in (error.get("message") or "")


def test_junit_has_no_character_that_xml_has_not(tmp_path: Path) -> None:
    finding = LimitCheck("max-peak", "", "", "broken", "\x1b[31m<&>\ud800")
    (failure,) = junit_of(Result(run_of(LEVEL), [finding]), tmp_path).iter("failure")
    assert failure.get("message") == "\\x1b[31m<&>\\ud800"


# --- for GitHub -------------------------------------------------------------------------------------------------------


def test_an_annotation_points_to_the_handler_of_what_is_broken(broken: Result, kept: Result) -> None:
    (command,) = github.errors(broken)
    assert command.startswith("::error file=src/app.py,line=12,title=truemem%3A max-drift::It grows by 8.0 KiB")
    assert github.errors(kept) == []


def test_nothing_in_a_message_ends_its_command() -> None:
    finding = LimitCheck("max-peak", "", "", "broken", "one\ntwo\r100%")
    (command,) = github.errors(Result(run_of(LEVEL), [finding], Path("a,b:c.py")))
    assert command == "::error file=a%2Cb%3Ac.py,title=truemem%3A max-peak::one\\ntwo\\r100%25"


def test_the_summary_follows_those_of_other_steps(broken: Result, kept: Result, tmp_path: Path) -> None:
    path = tmp_path / "summary.md"
    github.add_summary(broken, path)
    github.add_summary(kept, path)
    text = path.read_text()
    assert text.count("### app.py:handler") == 2
    assert re.search(r"\| max-drift \| 4 KiB \| 8\.0 KiB \(.* to .*\) \| ❌ broken \|", text)
