"""Each question that can be asked here is asked for real: the probe's functions under the local Lambda."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from truemem_workbench.local import LocalLambda, LogLine
from truemem_workbench.probe import functions, log_answers, page, questions
from truemem_workbench.probe.questions import Outcome

from tests.probe.unpacked import client_of, here, served, unpacked

MIB = 20
"""Enough to be seen."""
IN_THE_LOG = {"HotSpot counters", "NODE_OPTIONS preload", "log filter"}


def invoke(local: LocalLambda, name: str) -> questions.Invoke:
    client = client_of(local)
    return lambda event: client.invoke(FunctionName=name, Payload=json.dumps(event).encode(), LogType="Tail")


@pytest.fixture(scope="module")
def log() -> list[LogLine]:
    """The log of `measure`, until its last answer."""
    return []


@pytest.fixture(scope="module")
def asked(log: list[LogLine]) -> Iterator[dict[str, Outcome]]:
    """All that `measure` finds out on this machine, with small files."""
    small = tuple((when, {**event, "mib": MIB} if "mib" in event else event) for when, event in questions.MARKS)
    with pytest.MonkeyPatch.context() as patch, served("measure", functions.MEASURE, log) as local:
        patch.setattr(questions, "MARKS", small)
        patch.setattr(questions, "IDLE_S", 2.0)
        yield questions.measure(invoke(local, "measure"))


def test_every_question_has_an_outcome_and_none_breaks(asked: dict[str, Outcome]) -> None:
    assert {name for _, name, _ in page.ROWS} <= set(asked) | IN_THE_LOG
    for name, outcome in asked.items():
        assert outcome["ok"] or outcome.get("errno"), (name, outcome)  # a refusal has a number; a defect would not


def test_this_kernel_permits_what_the_sidecar_needs(asked: dict[str, Outcome]) -> None:
    assert asked["clear_refs own"]["value"]["works"] is True
    other = asked["clear_refs other"]["value"]
    assert other["after"]["VmHWM"] - other["after"]["VmRSS"] < 1024  # KiB: the mark is at the level again
    for name in ("clear_refs other by its parent", "status other", "environ other", "fd other", "SO_TIMESTAMPNS"):
        assert asked[name]["ok"], (name, asked[name])
    raised = asked["oom_score_adj raise"]["value"]
    assert raised["after"] > raised["before"]


def test_files_are_moved_without_being_held_and_mapped_files_are_held(asked: dict[str, Outcome]) -> None:
    marks = asked["mark"]["value"]
    start, read, _, mapped, *tmp = (marks[when] for when, _ in questions.MARKS)
    for each in (read, *tmp):
        assert 0 < each["movedMiB"] <= MIB
        assert each["rssMiB"] - start["rssMiB"] < MIB / 2
    assert mapped["rssOfFilesMiB"] - start["rssOfFilesMiB"] >= MIB / 2


def test_the_mark_of_each_report_is_kept_and_never_falls(asked: dict[str, Outcome]) -> None:
    marks = [each["maxMemoryUsedMiB"] for each in asked["mark"]["value"].values()]
    assert len(marks) == len(questions.MARKS)
    assert marks == sorted(marks)
    assert asked["one environment"]["value"] is True


def test_the_order_of_release_is_that_of_the_extension_and_the_handler(asked: dict[str, Outcome]) -> None:
    order = asked["order of release"]["value"]
    assert order["invocations"] == questions.INVOCATIONS
    lead = order["extensionLeadUs"]
    assert lead["min"] <= lead["p50"] <= lead["p99"]
    assert (order["extensionFirst"] == 0) == (lead["p99"] <= 0)


def test_a_process_stops_between_two_invocations_while_its_clock_goes_on(asked: dict[str, Outcome]) -> None:
    freeze = asked["freeze"]["value"]
    assert freeze["stopped"]["monotonicMs"] > freeze["idleMs"] / 2
    assert freeze["stopped"]["afterLastNextMs"] < freeze["idleMs"] / 2
    assert freeze["wallMs"] >= freeze["idleMs"]


def test_the_metrics_of_the_run_are_not_among_the_users_own(asked: dict[str, Outcome], log: list[LogLine]) -> None:
    assert asked["sidecar"]["ok"]
    lines = [json.loads(line.text) for line in log if '"_aws"' in line.text]
    assert {each["_aws"]["CloudWatchMetrics"][0]["Namespace"] for each in lines} == {"truemem-probe"}
    assert all(function.variables["TRUEMEM_NAMESPACE"] == "truemem-probe" for function in functions.ALL)


def test_a_question_that_fails_does_not_take_the_other_marks_along() -> None:
    def invoke(event: dict[str, Any]) -> dict[str, Any]:
        if event["do"] == "write":
            raise questions.Failed("no space left")
        return {"Payload": io.BytesIO(b'{"rss": {"value": {"VmRSS": 20480}}}')}

    marks = questions.measure(invoke)["mark"]["value"]
    assert marks.pop("after a file was written to /tmp") == {"error": "no space left"}
    assert set(map(str, marks.values())) == {"{'rssMiB': 20}"}


def test_what_the_sidecar_found_is_kept(asked: dict[str, Outcome]) -> None:
    assert asked["sidecar"]["value"].startswith("method=")


def test_a_function_that_fails_is_an_outcome_of_each_question() -> None:
    with served("filter", functions.FILTER) as local:  # knows none of the questions
        found = questions.measure(invoke(local, "filter"))
    assert not any(found[name]["ok"] for name in ("environment", "mark", "order of release", "freeze"))


def test_a_runtime_in_python_is_started_through_the_wrapper_and_answers() -> None:
    log: list[LogLine] = []
    function = functions.WRAPPED["python3.13"]
    with served("wrapped", function, log) as local:
        found = questions.wrapped(invoke(local, "wrapped"))
    value = log_answers.wrapper("wrapped", {**found, "tail": ""}, [line.text for line in log])["value"]
    assert value == {
        "runtime": "AWS_Lambda_python3.13",
        "answered": True,
        "version": sys.version.split()[0],
        "sidecarMode": "default",  # truemem's own wrapper is not in /opt here
    }


def test_the_wrapper_is_seen_although_there_is_no_handler() -> None:
    log: list[LogLine] = []
    with served("wrapped", functions.WRAPPED["java21"], log) as local:  # no code of Java; here none of Python either
        found = questions.wrapped(invoke(local, "wrapped"))
    assert not found["answer"]["ok"]
    outcome = log_answers.wrapper("wrapped", found, [line.text for line in log])
    assert outcome["value"]["runtime"] == "AWS_Lambda_java21"
    assert outcome["value"]["answered"] is False


def test_a_wrapper_that_is_not_in_the_log_was_not_started() -> None:
    answered = {"answer": {"ok": True, "value": {}}, "tail": ""}
    refused = {"answer": {"ok": False, "error": "the runtime is not supported"}, "tail": ""}
    assert log_answers.wrapper("wrapped", answered, ["truemem-probe wrapper another AWS_Lambda_java21"])["ok"] is False
    assert log_answers.wrapper("wrapped", refused, []) == refused["answer"]


def through_wrapper(runtime: str, *command: str, **variables: str) -> str:
    """What the wrapper and this command print, started as a managed runtime is."""
    function = functions.WRAPPED[runtime]
    with unpacked(function) as folder:
        given = {**here(function, folder), "AWS_EXECUTION_ENV": f"AWS_Lambda_{runtime}", "TMPDIR": str(folder)}
        given |= {"AWS_LAMBDA_FUNCTION_NAME": "wrapped", "PATH": os.environ["PATH"], **variables}
        arguments = [given["AWS_LAMBDA_EXEC_WRAPPER"], *(each.replace("TASK", f"{folder}/task") for each in command)]
        done = subprocess.run(arguments, env=given, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout


@pytest.mark.skipif(shutil.which("node") is None, reason="Node.js is not installed")
def test_a_file_of_the_layer_is_preloaded_into_node() -> None:
    code = "require('TASK/index.js').handler().then(answer => console.log(JSON.stringify(answer)))"
    wrapper, answer = through_wrapper("nodejs22.x", "node", "-e", code).splitlines()
    assert wrapper == "truemem-probe wrapper wrapped AWS_Lambda_nodejs22.x"
    outcome = log_answers.preload({"answer": {"ok": True, "value": json.loads(answer)}})
    assert outcome["value"]["version"].startswith("v")


@pytest.mark.skipif(shutil.which("java") is None, reason="Java is not installed")
@pytest.mark.parametrize(("option", "there"), [("-XX:+UsePerfData", True), ("-XX:-UsePerfData", False)])
def test_hotspots_counters_are_read_while_the_jvm_runs(option: str, there: bool, tmp_path: Path) -> None:
    (tmp_path / "Sleeps.java").write_text(
        "class Sleeps { public static void main(String[] a) throws Exception { Thread.sleep(3000); } }"
    )
    printed = through_wrapper("java21", "java", option, str(tmp_path / "Sleeps.java"))
    outcome = log_answers.hotspot("wrapped", {"tail": ""}, printed.splitlines())
    if there:
        assert outcome["value"]["options"] == [option]
        assert outcome["value"]["readable"]
        assert outcome["value"]["isHotSpots"]
        assert outcome["value"]["bytes"] >= 4096
    else:
        assert outcome == {"ok": False, "error": f"there is no file {option}"}


def test_ruby_can_run_the_handler() -> None:
    ruby = shutil.which("ruby")
    if ruby is None:
        pytest.skip("Ruby is not installed")
    code = "load 'TASK/app.rb'; puts handler(event: {}, context: nil)[:version]"
    assert through_wrapper("ruby3.4", ruby, "-e", code).splitlines()[1].count(".") == 2


Lines = Callable[[str], bool]


@pytest.mark.parametrize(
    ("passes", "kept"),
    [
        (lambda line: True, {*log_answers.FILTERED, "line of truemem"}),
        (lambda line: '"ERROR"' in line or "PeakRSS" in line, {"function error", "extension error", "line of truemem"}),
        (lambda line: '"ERROR"' in line and "extension" not in line, {"function error"}),
    ],
)
def test_lines_of_function_extension_and_sidecar_are_told_apart(passes: Lines, kept: set[str]) -> None:
    log: list[LogLine] = []
    with served("filter", functions.FILTER, log) as local:
        asked = questions.filtered(invoke(local, "filter"))
    messages = [line.text for line in log if passes(line.text)]
    found = log_answers.log_filter("filter", asked, messages)["value"]
    assert {line for line, there in found.items() if there} == kept
    assert set(found) == {*log_answers.FILTERED, "line of truemem"}


def test_a_log_without_any_line_of_the_function_says_nothing_about_the_filter() -> None:
    outcome = log_answers.log_filter("filter", {"ok": True, "value": []}, ["of another function"])
    assert outcome == {"ok": False, "error": "no line of the function came"}
