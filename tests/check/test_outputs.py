"""The same result for a terminal, a program, a build server and GitHub."""

import io
import json
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest
from truemem_workbench.answer.baseline import read_baseline
from truemem_workbench.answer.limits import LimitCheck, Limits, find
from truemem_workbench.answer.outputs import (
    Outputs,
    add_summary,
    github_annotations,
    github_summary,
    plain_text,
    print_result,
    write_junit,
)
from truemem_workbench.answer.picture import draw_curve
from truemem_workbench.answer.result import Result
from truemem_workbench.runs.measurement import FailedInvocation, Measurement, curve
from truemem_workbench.support.terminal import console

from tests.check.conftest import LEAK, LEVEL, recorded, run_of

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
    print_result(result, console(file=file, width=width))
    file.flush()
    return [line.rstrip() for line in raw.getvalue().decode(encoding).splitlines()]


def test_a_person_sees_limit_measured_curve_and_why(broken: Result) -> None:
    lines = shown(broken)
    assert lines[0] == "app.py:handler FAILED: 200 invocations (40 to warm up), 3 s"
    assert any(line.split()[:3] == ["max-drift", "4", "KiB"] and line.endswith("BROKEN") for line in lines)
    assert any(line.split()[:3] == ["max-peak", "256", "MiB"] and line.endswith("kept") for line in lines)
    (current,) = (line for line in lines if line.startswith("current"))
    assert "▁" in current
    assert "█" not in current  # 2 % more is no mountain
    assert any(line.startswith("- It grows by 8.0 KiB (") for line in lines)
    assert any(line.startswith("- Leak with ") and "as far as RSS can tell: 8.0 KiB more" in line for line in lines)
    assert any(line.startswith("current") and "____" in line for line in shown(broken, "latin-1"))


def test_a_narrow_terminal_has_the_whole_outcome(broken: Result) -> None:
    for width in (20, 50):
        ends = [line.split()[-1:] for line in shown(broken, width=width)]
        assert [end for end in ends if end in (["BROKEN"], ["kept"])] == [["BROKEN"], ["kept"]]


def test_the_log_of_one_that_failed_is_shown(kept: Result) -> None:
    failing = run_of(LEVEL, failures=[FailedInvocation(1, "no"), FailedInvocation(9, "no", ["one [b]", "```"])])
    result = result_of(failing)
    assert shown(result)[-3:] == ["The log of invocation 9 ends:", "  one [b]", "  ```"]
    assert plain_text(result).endswith("The log of invocation 9 ends:\n  one [b]\n  ```")
    assert github_summary(result).endswith("\n      one [b]\n      ```\n```\n")  # more than three spaces: no end
    assert result.document()["log"] == ["The log of invocation 9 ends:", "  one [b]", "  ```"]
    assert "log" not in kept.document()


def test_one_that_passes_says_so_with_its_finding(kept: Result) -> None:
    lines = shown(kept)
    assert lines[0].startswith("app.py:handler passed: 200 invocations")
    assert any(line.startswith("- No leak: memory does not grow") for line in lines)
    in_tmp = run_of(LEVEL, left_in_tmp=dict.fromkeys(range(1, len(LEVEL) + 1), 3.0)).finding.paragraph()
    assert "/tmp does not grow either; RSS 50.0 MiB." in in_tmp


def test_a_curve_goes_from_its_lowest_to_its_highest() -> None:
    levels = [0.0, 1, 2, 3, 4, 5, 6, 7]
    assert [curve(each) for each in ([], [50, 50, 50], levels, [100, 101])] == ["", "▁▁▁", "▁▂▃▄▅▆▇█", "▁▂"]
    values = [1.0] * 50 + [9.0] + [1.0] * 49
    assert curve(values, width=10) == "▁" * 10
    assert curve(values, width=10, highest=True) == "▁▁▁▁▁█▁▁▁▁"


def test_a_curve_ends_before_the_processes_do() -> None:
    ending = recorded(201, 1, 2, closedBy="shutdown")
    result = Result(replace(run_of(LEVEL), seen=[*run_of(LEVEL).seen, ending]), [])
    assert all(
        line.endswith(end) for line, end in zip(result.curves(), ("50.0 MiB", "55.0 MiB", "99.5 ms"), strict=True)
    )
    document = result.document()
    assert document["currents"] == LEVEL
    assert document["peaks"] == [level + 5 for level in LEVEL]


def test_the_picture_is_one(broken: Result, tmp_path: Path) -> None:
    path = tmp_path / "curve.png"
    draw_curve(broken, LIMITS, path)
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
    write_junit(result, folder / "report.xml")
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
    failing = run_of(LEVEL, failures=[FailedInvocation(1, "ValueError: \x1b[31m<&>\ud800")])
    suite = junit_of(result_of(failing), tmp_path)
    assert (suite.get("failures"), suite.get("errors")) == ("0", "1")
    (error,) = suite.iter("error")
    assert "number 1: ValueError: \\x1b[31m<&>\\ud800." in (error.get("message") or "")


def test_a_result_is_written_to_all_its_places(
    kept: Result, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [tmp_path / name for name in ("report.xml", "report.json", "curve.png")]
    places = Outputs(
        command="truemem soak",
        form="github",
        files=files,
        summary=tmp_path / "summary.md",
        baseline=tmp_path / "memory.json",
    )
    places.try_them()
    assert places.write(kept, {".png": lambda path: path.write_bytes(b"picture")}) == 0
    suite = ET.parse(files[0]).getroot()[0]
    assert (suite.get("name"), suite.get("time"), suite.get("tests")) == ("truemem soak", "3.000", "2")
    assert json.loads(files[1].read_text())["checked"] == "app.py:handler"
    assert files[2].read_bytes() == b"picture"
    assert "| p50 |  | 99.5 ms | note |" in (tmp_path / "summary.md").read_text()
    assert read_baseline(tmp_path / "memory.json", "app.py:handler") == kept.baseline()
    printed = capsys.readouterr()
    assert " p50 " in printed.out
    assert printed.err.startswith("truemem soak: the baseline of app.py:handler is written to ")


# --- for GitHub -------------------------------------------------------------------------------------------------------


def test_an_annotation_points_to_the_handler(broken: Result, kept: Result) -> None:
    (command,) = github_annotations(broken)
    assert command.startswith("::error file=src/app.py,line=12,title=truemem%3A max-drift::It grows by 8.0 KiB")
    assert github_annotations(kept) == []
    finding = LimitCheck("max-peak", "", "", "broken", "one\ntwo\r100%")
    (command,) = github_annotations(Result(run_of(LEVEL), [finding], Path("a,b:c.py")))
    assert command == "::error file=a%2Cb%3Ac.py,title=truemem%3A max-peak::one\\ntwo\\r100%25"


def test_the_summary_follows_those_of_other_steps(broken: Result, kept: Result, tmp_path: Path) -> None:
    path = tmp_path / "summary.md"
    add_summary(broken, path)
    add_summary(kept, path)
    text = path.read_text()
    assert text.count("### app.py:handler") == 2
    assert re.search(r"\| max-drift \| 4 KiB \| 8\.0 KiB \(.* to .*\) \| ❌ broken \|", text)
