"""Each question that can be asked here is asked for real: the probe's functions under the local Lambda."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from truemem_workbench.local import LocalLambda, LogLine

from research.probe import functions, page, questions
from research.probe.questions import Outcome
from tests.probe.unpacked import client_of, served

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
    for name in (
        "clear_refs other by its parent",
        "status other",
        "environ other",
        "fd other",
        "mem other",
        "SO_TIMESTAMPNS",
    ):
        assert asked[name]["ok"], (name, asked[name])
    raised = asked["oom_score_adj raise"]["value"]
    assert raised["after"] > raised["before"]


def test_the_environments_kind_is_told_what_is_absent_refused(asked: dict[str, Outcome]) -> None:
    assert asked["kind of environment"]["value"] == {
        "AWS_EXECUTION_ENV": f"AWS_Lambda_{functions.RUNTIME}",
        "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",
    }
    assert asked["adapter"]["value"] == {"extension": False, "variables": []}
    assert asked["dumpable"]["value"] is True
    assert "/" in asked["code mounts"]["value"]
    scope = Path("/proc/sys/kernel/yama/ptrace_scope")
    if scope.exists():
        assert asked["ptrace scope"]["value"] == int(scope.read_text())
        assert asked["mem other once allowed"]["ok"]
    else:
        assert (asked["ptrace scope"]["errno"], asked["mem other once allowed"]["errno"]) == ("ENOENT", "EINVAL")
    if not [*Path("/dev").glob("nvidia*")]:
        assert asked["gpus"]["errno"] == "ENODEV"


def test_mapped_files_are_held_and_moved_ones_are_not(asked: dict[str, Outcome]) -> None:
    marks = asked["mark"]["value"]
    start, read, _, mapped, *tmp = (marks[when] for when, _ in questions.MARKS)
    for each in (read, *tmp):
        assert 0 < each["movedMiB"] <= MIB
        assert each["rssMiB"] - start["rssMiB"] < MIB / 2
    assert mapped["rssOfFilesMiB"] - start["rssOfFilesMiB"] >= MIB / 2


def test_the_order_of_release_compares_extension_and_handler(asked: dict[str, Outcome]) -> None:
    order = asked["order of release"]["value"]
    assert order["invocations"] == questions.INVOCATIONS
    lead = order["extensionLeadUs"]
    assert lead["min"] <= lead["p50"] <= lead["p99"]
    assert (order["extensionFirst"] == 0) == (lead["p99"] <= 0)


def test_between_invocations_a_process_stops_but_not_its_clock(asked: dict[str, Outcome]) -> None:
    freeze = asked["freeze"]["value"]
    assert freeze["stopped"]["monotonicMs"] > freeze["idleMs"] / 2
    assert freeze["stopped"]["afterLastNextMs"] < freeze["idleMs"] / 2
    assert freeze["wallMs"] >= freeze["idleMs"]


def test_the_metrics_of_the_run_are_not_among_the_users_own(asked: dict[str, Outcome], log: list[LogLine]) -> None:
    assert asked["sidecar"]["value"].startswith("method=")
    lines = [json.loads(line.text) for line in log if '"_aws"' in line.text]
    assert {each["_aws"]["CloudWatchMetrics"][0]["Namespace"] for each in lines} == {"truemem-probe"}
    assert all(function.variables["TRUEMEM_NAMESPACE"] == "truemem-probe" for function in functions.ALL)


def test_python_is_started_through_the_wrapper_and_answers() -> None:
    log: list[LogLine] = []
    function = functions.WRAPPED["python3.13"]
    with served("wrapped", function, log) as local:
        found = questions.wrapped(invoke(local, "wrapped"))
    value = questions.wrapper("wrapped", {**found, "tail": ""}, [line.text for line in log])["value"]
    assert value == {
        "runtime": "AWS_Lambda_python3.13",
        "answered": True,
        "version": sys.version.split()[0],
        "sidecarMode": "default",  # truemem's own wrapper is not in /opt here
    }


def test_lines_of_function_extension_and_sidecar_are_told_apart() -> None:
    log: list[LogLine] = []
    with served("filter", functions.FILTER, log) as local:
        asked = questions.filtered(invoke(local, "filter"))
    errors = [line.text for line in log if '"ERROR"' in line.text or "PeakRSS" in line.text]
    found = questions.log_filter("filter", asked, errors)["value"]
    assert {line for line, kept in found.items() if kept} == {"function error", "extension error", "line of truemem"}
    assert set(found) == {*questions.FILTERED, "line of truemem"}
