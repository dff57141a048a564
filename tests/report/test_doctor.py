"""`truemem doctor`: what is wrong is found, and what is right is not called wrong."""

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from truemem_workbench.attach.change import PRELOAD
from truemem_workbench.commands.doctor import of_lines
from truemem_workbench.judge.log_diagnosis import Log, diagnose_configuration, read_log
from truemem_workbench.support.diagnosis import Diagnosis
from truemem_workbench.support.environment_ids import local_id

from tests.attach.captured import FILE as CAPTURED
from tests.report.conftest import Command, put_events, put_function
from tests.report.written import extended, life, line, line_now, log, request

REPORT = "REPORT RequestId: {id}\tDuration: 1 ms\tMemory Size: 128 MB\tMax Memory Used: 30 MB"
START = "truemem INFO method=vmhwm function processes=1 environment=meminfo telemetry=on limit=512 MiB"
STATE = "EXTENSION\tName: truemem\tState: Ready\tEvents: [INVOKE, SHUTDOWN]"


def reports(count: int) -> list[str]:
    return [REPORT.format(id=request("a", number)) for number in range(1, count + 1)]


def test_the_log_of_real_runs_is_one_where_it_works(truemem: Command) -> None:
    ran = truemem("doctor", CAPTURED)

    lines = sum('"schema"' in each for each in CAPTURED.read_text().splitlines())
    assert ran.code == 0
    assert f"{lines} lines of the sidecar" in ran.out
    assert "vmhwm, of one process, kept by the kernel" in ran.out


HEALTHY = [STATE, START, *reports(11), *(line("a", number) for number in range(1, 11))]

LOGS = {
    "healthy": (HEALTHY, 0, "10 of 10 peaks: vmhwm"),
    "no layer": (reports(5), 1, "`truemem report` says what its REPORT lines prove"),
    "nothing at all": (
        ["START"],
        1,
        "✗ No invocation and no line of the sidecar is in this log.\n  → truemem doctor NAME\n",
    ),
    "one invocation only": (
        [STATE, START, *reports(1)],
        0,
        "next invocation begins.\n  → truemem doctor NAME --follow --invoke\n",
    ),
    "switched off": ([STATE, *reports(9)], 1, "9 invocations ended, and none has a line"),
    "other architecture": (["fork/exec /opt/extensions/truemem: exec format error"], 1, "for another architecture"),
    "misspelt setting": ([*HEALTHY, "truemem WARN TRUEMEM_JURNAL is no setting"], 0, "TRUEMEM_JURNAL is no setting"),
    "sampled": (
        [line("a", n, method="sampled", peakUpper=None) for n in range(1, 9)],
        0,
        "8 of 8 peaks: sampled, a lower bound",
    ),
    "raced": (
        [line("a", n, raced=True, peakUpper=112.5) for n in range(1, 9)],
        0,
        "8 peaks are intervals, 12.5 MiB wide at the median: the function may have run before the window was open."
        f" Exact mode makes them figures.\n  first: request {request('a', 1)}\n  → truemem attach orders --exact\n",
    ),
    "children unread": (
        [line("a", n, method="vmhwm-sum", mode="exact", peakUpper=None) for n in range(1, 9)],
        0,
        "8 peaks are intervals, 924.0 MiB wide at the median, of several processes: one may have ended before it was"
        f" read.\n  first: request {request('a', 1)}\n  → In a Python function the heap probe tells how large its"
        " children were: truemem attach orders --heap\n",
    ),
    "threads": (
        [line("a", n, method="vmhwm-threads", mode="exact", peakLower=100.0, peakUpper=120.0) for n in range(1, 9)],
        0,
        "8 peaks are intervals, 20.0 MiB wide at the median, of threads: what one touches while another gives memory"
        " back may be missing.",
    ),
    "exact": ([line("a", n, mode="exact") for n in range(1, 9)], 0, "8 invocations measured in exact mode"),
    "no telemetry": ([line("a", n, reportMissing=True) for n in range(1, 9)], 0, "no telemetry came"),
    "lines lost": ([*reports(40), line("a", 1)], 0, "39 of 40 invocations with a REPORT have no line"),
    "out of memory": ([line("a", 1, OutOfMemory=1)], 0, "! Out of memory before growth could be judged"),
    "a leak": (life(grows=1.0), 1, "as far as RSS can tell: 1.0 MiB more in each invocation"),
    "a killed environment": (extended(300, environmentKills=1), 1, "✗ The extension agent keeps memory"),
    "failing invocations": (life(status="error", errorType="Boom"), 0, "! Failing: 200 of 200 invocations failed"),
    "a handler that raises": (
        life(invocations=60, handlerError=True),
        0,
        "! Failing: 60 of 60 invocations answered with an error. RSS 90.0 MiB. Fix that first. Next: aws logs"
        " tail /aws/lambda/orders --since 1h\n",
    ),
    "a handler that raises on this machine": (
        [" function | [ERROR] KeyError: 'order'", *life(local_id(), 60, handlerError=True)],
        0,
        "! Invocations failed with an error: 1 line says so.\n  function | [ERROR] KeyError: 'order'\n",
    ),
    "what it is asked next on this machine": (
        life(local_id(), 60, handlerError=True),
        0,
        " Fix that first. Next: truemem check FILE:HANDLER --events FILE\n",
    ),
    "a leak in a handler that raises": (life(grows=1.0, handlerError=True), 1, "1.0 MiB more in each invocation"),
    "nothing measured": ([line("a", n, method=None, PeakRSS=None) for n in (1, 2)], 1, "2 invocations have no peak"),
    "one not measured": ([*HEALTHY, line("b", 1, method=None, PeakRSS=None)], 0, "1 invocation has no peak"),
    "a heap above the memory size": (
        [
            "truemem WARN the heap may grow to 1400 MiB, the function has 1024 MiB: it can be killed",
            *(line("a", n, heap={"runtime": "java", "committed": 64, "limit": 1400}) for n in range(1, 9)),
        ],
        0,
        "! The heap may grow to 1400 MiB, the function has 1024 MiB: it can be killed before the garbage collector has"
        " to run. Set -Xmx870m, or a lower -XX:MaxRAMPercentage, where JAVA_TOOL_OPTIONS or the command has it (that"
        " wins)."
        f"\n  first: request {request('a', 1)}\n  → truemem docs patterns#a-heap-limit-above-the-memory-size",
    ),
    "of the local Lambda": (
        [json.dumps({"log": {"source": "extension:truemem", "text": line("a", n)}}) for n in range(1, 9)],
        0,
        "! /tmp was not measured: ",
    ),
    "nothing in a file": ([], 1, "✗ This log is empty.\n  → truemem doctor NAME\n"),
}


@pytest.mark.parametrize("case", LOGS)
def test_a_log_is_judged(case: str, truemem: Command, tmp_path: Path) -> None:
    lines, code, told = LOGS[case]
    ran = truemem("doctor", log(tmp_path, lines))

    assert told in ran.out
    assert ran.code == code


@pytest.mark.parametrize(
    ("option", "told"),
    [("--function other", "No line of other: this log is of orders."), ("--since 1s", "all from before --since.")],
)
def test_a_log_of_another_function_or_time_is_not_judged(
    option: str, told: str, truemem: Command, tmp_path: Path
) -> None:
    ran = truemem("doctor", log(tmp_path, HEALTHY), *option.split())

    assert told in ran.out
    assert (ran.code, ran.out.count("✗") + ran.out.count("✓")) == (1, 1)


def test_a_healthy_log_has_nothing_to_fix(truemem: Command, tmp_path: Path) -> None:
    *found, memory = map(json.loads, truemem("doctor", log(tmp_path, HEALTHY), "--json").out.splitlines())

    assert all(each["grade"] == "ok" and not each["fix"] for each in found)
    assert (memory["grade"], memory["text"].partition(":")[0]) == ("note", "Undecided")


ARN = "arn:aws:lambda:eu-west-1:123456789012:layer:truemem-{}:1"


def problems(**configuration: Any) -> list[Diagnosis]:
    return [each for each in diagnose_configuration(configuration, Log()) if each.grade != "ok"]


def test_a_configuration_is_judged() -> None:
    attached = {"Layers": [{"Arn": ARN.format("arm64")}], "Architectures": ["arm64"]}

    assert problems(**attached) == []
    assert "No layer" in problems()[0].text
    assert "the layer's name says arm64" in problems(**attached | {"Architectures": ["x86_64"]})[0].text
    (off,) = problems(**attached, Environment={"Variables": {"TRUEMEM_ENABLED": "False"}})
    assert (off.text, off.evidence) == ("The sidecar is switched off: it measures nothing.", "TRUEMEM_ENABLED=False")
    assert problems(PackageType="Image")[0].grade == "note"


SENDS = f"{START} line=no sends to otlp(127.0.0.1:4318),dogstatsd(udp://127.0.0.1:8125)"
WORKS = "truemem INFO otlp to 127.0.0.1:4318: works, 3 invocations taken"
FAILS = "truemem WARN otlp to 127.0.0.1:4318: status 500; 2 invocations dropped, 2 in all"
REJECTS = "truemem WARN otlp to 127.0.0.1:4318: it has rejected 3 data points: exporter: works on gauges alone"
OFF = "truemem WARN otlp is off: OTEL_EXPORTER_OTLP_ENDPOINT needs TLS, which is a collector's"
LOST = "truemem WARN dogstatsd: 4 datagrams dropped so far, 5 sent: [Errno 111] Connection refused"


@pytest.mark.parametrize(
    ("said", "marks"),
    [
        ([WORKS], "✓ OpenTelemetry: what is sent is taken."),
        ([WORKS, FAILS], "! OpenTelemetry: otlp to 127.0.0.1:4318: status 500; 2 invocations dropped, 2 in all"),
        ([FAILS, WORKS], "✓ OpenTelemetry: what is sent is taken."),
        ([WORKS, REJECTS], "! OpenTelemetry: otlp to 127.0.0.1:4318: it has rejected"),
        ([OFF], "✗ OpenTelemetry: otlp is off: OTEL_EXPORTER_OTLP_ENDPOINT needs TLS"),
        ([LOST], "! DogStatsD: dogstatsd: 4 datagrams dropped so far"),
        (["truemem INFO pprof to 127.0.0.1:4040: works, 1 profiles taken"], "✓ pprof: what is sent is taken."),
        (["truemem WARN pprof has nothing to send: it needs"], "! pprof: pprof has nothing to send: it needs"),
    ],
)
def test_the_log_says_which_outputs_work(truemem: Command, tmp_path: Path, said: list[str], marks: str) -> None:
    out = truemem("doctor", log(tmp_path, [*HEALTHY, SENDS, *said])).out
    assert "✓ It sends to otlp(127.0.0.1:4318) and dogstatsd(udp://127.0.0.1:8125)." in out
    assert "! It prints no lines" in out
    assert marks in out


def outputs(**variables: str) -> Sequence[tuple[str, str]]:
    attached = {"Layers": [{"Arn": ARN.format("arm64")}], "Architectures": ["arm64"]}
    found = diagnose_configuration({**attached, "Environment": {"Variables": variables}}, Log())
    return [(each.grade, each.text) for each in found][1:]


def test_configuration_says_where_records_go() -> None:
    assert outputs() == []
    ((grade, text),) = outputs(TRUEMEM_OUTPUT="emf,otlp")
    assert (grade, text.partition(",")[0]) == ("ok", "OpenTelemetry: it sends to 127.0.0.1:4318")
    ((grade, text),) = outputs(TRUEMEM_OUTPUT="emf,pprof", PYROSCOPE_SERVER_ADDRESS="http://localhost:4041")
    assert (grade, text.partition(",")[0]) == ("ok", "pprof: it sends to 127.0.0.1:4041")
    (off, _) = outputs(TRUEMEM_OUTPUT="otlp", OTEL_EXPORTER_OTLP_ENDPOINT="https://x")
    assert off[0] == "problem"
    assert "needs TLS" in off[1]
    assert [grade for grade, _ in outputs(TRUEMEM_OUTPUT="otel")] == ["problem"]
    assert "make no metrics in CloudWatch" in outputs(TRUEMEM_OUTPUT="json")[0][1]


PYTHON = {"Runtime": "python3.13"}
LOADED = {"PYTHONPATH": "/opt/truemem/python:/var/runtime"}


@pytest.mark.parametrize(
    ("configuration", "variables", "log", "grade", "said"),
    [
        (PYTHON, {"TRUEMEM_LINES": "10%", **LOADED}, Log(), "ok", "10% of the environments will name the lines"),
        ({"Runtime": "nodejs22.x"}, {"TRUEMEM_LINES": "on", "NODE_OPTIONS": PRELOAD}, Log(), "ok", "each environment"),
        (PYTHON, {"TRUEMEM_LINES": "on"}, Log(probed=True), "ok", "each environment"),
        (PYTHON, {"TRUEMEM_LINES": "10%"}, Log(), "problem", "nothing loads the heap probe"),
        ({"PackageType": "Image"}, {"TRUEMEM_LINES": "on"}, Log(), "problem", "nothing loads the heap probe"),
        ({"Runtime": "java21"}, {"TRUEMEM_LINES": "on"}, Log(), "note", "java21 is not Python"),
        (
            {**PYTHON, "CapacityProviderConfig": {}},
            {"TRUEMEM_LINES": "on", **LOADED},
            Log(),
            "note",
            "on Managed Instances none is profiled",
        ),
    ],
)
def test_doctor_says_whether_lines_will_be_named(
    configuration: dict[str, Any], variables: dict[str, str], log: Log, grade: str, said: str
) -> None:
    function = {"FunctionName": "orders", "Environment": {"Variables": variables}, **configuration}
    (found,) = of_lines(function, log)
    assert (found.grade, said in found.text) == (grade, True), found
    assert found.fix or grade == "note"


@pytest.mark.parametrize("variables", [{}, {"TRUEMEM_LINES": "off"}, {"TRUEMEM_LINES": " "}])
def test_doctor_is_silent_where_no_lines_are_wanted(variables: dict[str, str]) -> None:
    assert list(of_lines({"Environment": {"Variables": variables}}, Log())) == []


@pytest.mark.parametrize(
    ("heap", "probed"),
    [({"inUse": 1.0}, True), ({"runtime": "nodejs"}, True), ({"runtime": "java"}, False), (None, False)],
)
def test_a_heap_on_the_line_proves_the_probe(heap: dict[str, Any] | None, probed: bool) -> None:
    assert read_log([line("a", 1, heap=heap)]).probed is probed


def test_doctor_looks_at_the_functions_setting(truemem: Command, aws: Callable[[str], Any]) -> None:
    put_function(aws, "orders", Environment={"Variables": {"TRUEMEM_LINES": "10%"}})
    out = truemem("doctor", "--function", "orders").out
    assert "✗ No line of code is named: nothing loads the heap probe." in out
    assert "→ truemem attach orders --lines" in out


def test_lines_prove_that_the_layer_is_attached() -> None:
    for configuration in ({"PackageType": "Image"}, {"Layers": [{"Arn": "arn:aws:lambda:x:1:layer:memory:3"}]}, {}):
        (found,) = diagnose_configuration(configuration, Log(lines=7))
        assert (found.grade, found.fix) == ("ok", "")


@pytest.fixture
def function(aws: Callable[[str], Any]) -> str:
    """A function in AWS without the layer, and without a log."""
    return put_function(aws, "patient")


def test_a_function_is_looked_at_where_it_is(truemem: Command, function: str, aws: Callable[[str], Any]) -> None:
    before = truemem("doctor", function)
    at = int(time.time() * 1000) - 1000
    healthy = [STATE, START, *reports(11), *(line_now("a", number, ago_s=-60) for number in range(1, 11))]
    put_events(aws("logs"), f"/aws/lambda/{function}", "a", [(at, each) for each in healthy])
    after = truemem("doctor", function)

    assert (before.code, after.code) == (1, 0)
    assert "No layer with truemem in its name is attached" in before.out
    assert f"never invoked, or its role does not permit logs.\n  /aws/lambda/{function}\n" in before.out
    assert "The sidecar is attached: its log says so." in after.out
    assert "10 lines of the sidecar" in after.out


def test_a_function_that_was_detached_is_not_attached(
    truemem: Command, function: str, aws: Callable[[str], Any]
) -> None:
    """What is configured now counts, not what the log remembers."""
    at = int(time.time() * 1000) - 1000
    before = [line_now("a", number, ago_s=3600) for number in range(1, 11)]
    put_events(aws("logs"), f"/aws/lambda/{function}", "a", [(at, each) for each in before])
    ran = truemem("doctor", function)
    assert ran.code == 1
    assert ran.out.startswith("✗ It is not attached now: no layer has truemem in its name. The lines in its log end at")
    assert f"  → truemem attach {function}\n" in ran.out


@pytest.mark.parametrize("option", [[], ["--function"], ["--follow"]])
def test_a_function_that_is_not_there_is_told(truemem: Command, aws: Callable[[str], Any], option: list[str]) -> None:
    said = truemem("doctor", *option, "unknown").refusal
    assert "there is no function unknown" in said
    assert "in a Web Function or a MicroVM Lambda starts no extension" in said

    web = "arn:aws:lambda:eu-west-1:123456789012:web-function/shop"
    assert f"{web}: in a Web Function" in truemem("doctor", *option, web).refusal
