"""The end of a finite `truemem local run`: what was printed before it, the table, the verdict, the files."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from truemem_workbench.commands import local_run as command
from truemem_workbench.commands.local_console import is_ordinary
from truemem_workbench.commands.local_summary import summarise
from truemem_workbench.judge.finding import Commands
from truemem_workbench.local import LogLine, Report
from truemem_workbench.support.terminal import CURRENT, MARK, PEAK

from testing.invented_lines import curve, leak, line, request_id
from tests.local.conftest import HANDLER, LocalRun
from tests.page.pixels import pixels


def reports(invocations: int, environment: str) -> list[Report]:
    return [
        Report(request_id(row, environment), "success", None, 12.5, 13, 512, 120, None) for row in range(invocations)
    ]


def test_a_run_ends_with_a_table_a_verdict_and_the_files(tmp_path: Path, local_run: LocalRun) -> None:
    files = [tmp_path / "memory.png", tmp_path / "memory.html"]
    outputs = [argument for file in files for argument in ("--output", str(file))]
    done = local_run(HANDLER, "--event", '{"print": "hello"}', "--invocations", "12", "--responses", "all", *outputs)
    lines, _, table = done.stdout.partition("The last 10 of 12 invocations")
    numbers = [row.split()[0] for row in table.splitlines() if row.endswith(" success ")]

    assert done.returncode == 0, done.stderr
    assert {each.split(" | ")[0].strip() for each in lines.splitlines() if each} == {"function", "response"}
    assert (lines.count(" function | hello\n"), lines.count(" response | ")) == (12, 12)
    assert numbers == [str(number) for number in range(3, 13)]
    assert "- Undecided: 12 invocations can be judged, 128 are needed. Next: truemem check" in table
    assert table.count("Written: ") == 2
    assert all(len(pixels(files[0], colour)[0]) for colour in (PEAK, CURRENT, MARK))
    assert files[1].read_text().startswith("<!doctype html>")


def test_a_file_that_cannot_be_drawn_does_not_hide_the_summary(tmp_path: Path, local_run: LocalRun) -> None:
    (tmp_path / "app.py").write_text("def handler(event, context): ...\nraise OSError('no init')")
    done = local_run("app.py:handler", "--event", "{}", "--output", "memory.png", cwd=tmp_path)
    assert (
        "said: OSError: no init (app.py:2). Fix that first. Next, after the repair: truemem check app.py:"
        in done.stdout
    )
    assert "memory.png was not written: the sidecar printed no record" in done.stderr
    assert (done.returncode, [path.name for path in tmp_path.glob("*.png")]) == (2, [])


def test_raw_prints_all_lines_and_no_summary(local_run: LocalRun) -> None:
    done = local_run(HANDLER, "--event", "{}", "--raw")
    assert '"schema":1}\n' in done.stdout
    assert " platform | REPORT RequestId: " in done.stdout
    assert "Undecided" not in done.stdout


def test_json_ends_with_the_summary_after_all_lines(local_run: LocalRun) -> None:
    done = local_run(HANDLER, "--event", '{"raise": "boom"}', "--json")
    *before, last = map(json.loads, done.stdout.splitlines())
    (row,) = last["summary"]["last"]
    assert done.returncode == 1
    assert any('"schema":1' in each["log"]["text"] for each in before if "log" in each)
    assert (last["summary"]["invocations"], last["summary"]["failed"], row["status"]) == (1, 1, "error, ValueError")
    assert row["PeakRSS"] >= row["CurrentRSS"] > 0
    assert last["summary"]["finding"]["cause"] == "failing"


@pytest.mark.parametrize(
    ("arguments", "visible", "status"),
    [
        (["--timeout", "0.5", "--event", '{"sleep": 5}'], "Task timed out after 0.50 seconds", "timeout"),
        (["--event", '{"exit": 3}'], "Runtime exited with error: exit status 3", "error, Runtime.ExitError"),
        (["--event", "{}", "--no-sidecar"], "Undecided: without the sidecar only the mark is known", "success"),
    ],
)
def test_errors_stay_visible_and_are_in_the_table(
    local_run: LocalRun, arguments: list[str], visible: str, status: str
) -> None:
    done = local_run(HANDLER, *arguments)
    assert visible in done.stdout
    assert any(row.rstrip().endswith(f" {status}") for row in done.stdout.splitlines())


@pytest.mark.parametrize(
    ("printed", "cause", "says"),
    [
        (list(leak(300)), "leak", "as far as RSS can tell: 40"),
        (list(curve([100.0] * 150, "leak")), "none", "Smallest safe memory size"),
        ([text.replace("success", "error") for text in leak(300)], "failing", "300 of 300 invocations failed"),
    ],
    ids=["a leak", "level", "failing"],
)
def test_the_summary_has_the_finding(printed: Sequence[str], cause: str, says: str) -> None:
    summary = summarise(reports(len(printed), "leak"), [], printed, Commands(again="truemem check app.py:handler"))
    assert summary.finding.cause == cause
    assert says in " ".join([summary.finding.paragraph(), *summary.sentences])
    assert bool(summary.sentences) is (cause == "none")  # no size of what grows, fails or is undecided


def test_the_line_that_ran_out_of_memory_is_told() -> None:
    running = {"file": "orders.py", "line": 31, "function": "load", "level": 480.0, "stack": ["orders.py:31 load"]}
    printed = [line(0, OutOfMemory=1, outOfMemory={"signals": ["kernel"], "running": running}), line(1)]
    summary = summarise(reports(2, "a"), [], printed, Commands(again=""))
    assert summary.sentences[0] == "Out of memory: orders.py:31 in load ran then."


@pytest.mark.parametrize(
    ("source", "text", "ordinary"),
    [
        ("platform", "START RequestId: 1 Version: $LATEST", True),
        ("platform", "REPORT RequestId: 1\tDuration: 2.00 ms", True),
        ("platform", "REPORT RequestId: 1\tDuration: 2.00 ms\tStatus: timeout", False),
        ("platform", "INIT_REPORT Init Duration: 9.00 ms\tPhase: init\tStatus: success", True),
        ("platform", "EXTENSION\tName: a\tState: LaunchError\tEvents: []\tError Type: PermissionDenied", False),
        ("platform", "2026-11-23T13:00:00.000Z 1 Task timed out after 3.00 seconds", False),
        ("platform", '{"type": "platform.start", "record": {"requestId": "1"}}', True),
        ("platform", '{"type": "platform.report", "record": {"status": "error", "errorType": "x"}}', False),
        ("platform", "{", False),
        ("extension:truemem", line(0), True),
        ("extension:truemem", "truemem INFO mode=exact", True),
        ("extension:truemem", "truemem WARN no telemetry", False),
        ("extension:other", line(0), False),
        ("function", line(0), False),
    ],
)
def test_only_what_the_summary_says_anyway_is_left_out(source: str, text: str, ordinary: bool) -> None:
    assert is_ordinary(LogLine(source, "stdout", text, 0.0)) is ordinary


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (["--timeout", "60", "--memory", "256"], " --memory 256 --timeout 60"),
        (["--timeout", "5400", "--memory", "16384", "--managed-instances", "2"], ""),
    ],
)
def test_check_gets_what_it_takes(given: list[str], kept: str) -> None:
    context = command.run.make_context("run", ["app.py:handler", *given])
    assert str(command.in_check(context)) == f"truemem check app.py:handler{kept}"
