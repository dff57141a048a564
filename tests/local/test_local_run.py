"""The command itself: `truemem local run`, as a process."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
import requests

from tests.local.conftest import (
    APP,
    BOOTSTRAP,
    BOUND_S,
    EXTENSIONS,
    FUNCTIONS,
    HANDLER,
    RECORDER,
    RUN,
    LocalRun,
    SettingsOf,
    cgroups_of,
    interrupted,
    run,
)

TEMPLATE = FUNCTIONS / "template.yaml"
BAD = [
    (["nowhere.py:handler"], "no file nowhere.py. Try PATH/app.py:handler"),
    ([HANDLER, "--extensions", "nowhere"], "no folder nowhere to take extensions from. Try --extensions"),
    ([HANDLER, "--memory", "64"], "memory of 64 MiB: Lambda has 128 to 10240. Try --memory 512"),
    ([HANDLER, "--memory", "1G"], "'1G' is no whole number of MiB. Did you mean 1024?"),
    ([HANDLER, "--event", '{"a":'], "is not JSON: '{\"a\":'"),
    ([HANDLER, "--event", "@nowhere.json"], "cannot read the event from nowhere.json"),
    ([HANDLER, "--invocations", "3"], "--invocations 3 without an event. Try --event"),
    ([HANDLER, "--env", "NAME"], "--env NAME has no value. Try --env NAME=VALUE"),
    ([HANDLER, "--cpu", "fast"], "cpu fast: it is size, off, or 0.05 to 6 vCPUs. Try --cpu size"),
    ([HANDLER, "--scenario", "crahs"], "'crahs' is not one of 'timeout', 'crash'"),
    ([HANDLER, "--bogus"], "No such option '--bogus'. Try "),
    ([HANDLER, "--scenario", "crash", "--invocations", "2"], "--scenario with --invocations"),
    ([HANDLER, "--scenario", "crash", "--managed-instances", "2"], "--scenario with --managed-instances"),
    ([HANDLER, "--scenario", "crash", "--environments", "2"], "--scenario with --environments"),
    ([HANDLER, "--environments", "0"], "0 environments: one or more serve a function. Try --environments 1"),
    ([HANDLER, "--event", "{}", "--reserved-concurrency", "0"], "all would be throttled. Try --reserved-concurrency 1"),
    ([HANDLER, "--snap-start", "--provisioned-concurrency"], "Leave one out"),
    ([HANDLER, "--snap-start", "--tenant", "blue"], "no tenant isolation with snap-start. Leave one out"),
    ([HANDLER, "--scenario", "long-freeze", "--gap", "-1"], "gap of -1 s: from 0 to 86400 (a day). Try --gap 5"),
    ([HANDLER, "--scenario", "long-freeze", "--gap", "nan"], "gap of nan s"),
    ([HANDLER, "--event", "{}", "--output", "a.svg"], "its ending is not .png or .html. Try --output a.png"),
    ([HANDLER, "--event", "{}", "--output", "nowhere/a.png"], "cannot write nowhere/a.png: No such file"),
    ([HANDLER, "--output", "a.png"], "--output a.png draws the invocations of an event. Try --event"),
    ([HANDLER, "--scenario", "crash", "--event", "{}", "--output", "a.png"], "without --scenario"),
    ([HANDLER, "--event", "{}", "--no-sidecar", "--output", "a.png"], "Leave --no-sidecar out"),
    ([HANDLER, "--event", "{}", "--raw", "--json"], "--raw with --json"),
    ([HANDLER, "--lines", "--no-probe"], "--lines with --no-probe: nothing could name them"),
    ([HANDLER, "--lines", "--no-sidecar"], "--lines with --no-sidecar"),
    ([HANDLER, "--lines", "--managed-instances", "2"], "--lines with --managed-instances"),
    ([str(BOOTSTRAP), "--lines"], "it is for Python and Node.js"),
    ([str(TEMPLATE)], f"names no function. Try {TEMPLATE}:LOGICAL_ID"),
    ([f"{TEMPLATE}:Order"], f"(found: Orders, Waits). Try {TEMPLATE}:Orders"),
    ([f"{TEMPLATE}:Orders", "--runtime", "python3.11"], "the template says that of"),
    ([f"{TEMPLATE}:Waits", "--lines"], "runs on Managed Instances: --lines and --scenario are on demand"),
    ([], "Missing argument"),
]


@pytest.mark.parametrize(("arguments", "says"), BAD, ids=[says[:30] for _, says in BAD])
def test_bad_input_is_one_line_and_exit_code_2(
    tmp_path: Path, local_run: LocalRun, arguments: list[str], says: str
) -> None:
    done = local_run(*arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith("truemem local run: ")
    assert says in done.stderr


def test_a_port_in_use(local_run: LocalRun) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = local_run(HANDLER, "--no-sidecar", "--port", str(port))
    assert done.returncode == 2
    assert done.stderr == f"truemem local run: port {port} is in use. Try --port 0 (a free one)\n"


def test_a_templates_configuration_is_the_default(local_run: LocalRun, settings_of: SettingsOf) -> None:
    event = '{"print": "hello"}'
    spec = f"{TEMPLATE}:Orders"
    done = local_run(spec, "--no-sidecar", "--event", event, "--json")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["response"]["payload"]["event"] for line in lines if "response" in line] == [json.loads(event)]
    cases = [
        ([spec], ("Orders", 320, 7, None, "orders")),
        ([spec, "--memory", "256", "--env", "TABLE=mine", "--name", "n"], ("n", 256, 7, None, "mine")),
        ([spec, "--timeout", "2", "--managed-instances", "4"], ("Orders", 2048, 2, 4, "orders")),
        ([f"{TEMPLATE}:Waits"], ("Waits", 4096, 3, 5, None)),
        ([HANDLER], ("functions", 512, 30, None, None)),
    ]
    for arguments, expected in cases:
        made = settings_of(*arguments, "--no-sidecar")
        table = made.environment.get("TABLE")
        assert (made.name, made.memory_mib, made.timeout_s, made.managed_instances, table) == expected


def test_an_event_from_standard_input_twice(local_run: LocalRun) -> None:
    done = local_run(HANDLER, "--no-sidecar", "--event", "-", "--invocations", "2", "--json", text='{"print": "hello"}')
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    responses = [line["response"]["payload"]["event"] for line in lines if "response" in line]
    texts = [line["log"]["text"] for line in lines if "log" in line]
    assert done.returncode == 0, done.stderr
    assert responses == [{"print": "hello"}] * 2
    assert texts.count("hello") == 2
    assert len([text for text in texts if text.startswith("REPORT ")]) == 2


class Serving:
    """The command without --event, serving until it is ended."""

    def __init__(self, *arguments: str) -> None:
        command = [*RUN, HANDLER, "--no-sidecar", "--json", *arguments]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def invoke(self, payload: object) -> Any:
        """Once it says where it serves."""
        assert self.process.stdout is not None
        lines = map(json.loads, self.process.stdout)
        url = next(line["serving"]["url"] for line in lines if "serving" in line)
        return requests.post(url, json=payload, timeout=BOUND_S).json()

    def everything(self) -> tuple[list[psutil.Process], str, Path]:
        """Its processes, the id of its environment, its working folder."""
        children = psutil.Process(self.process.pid).children(recursive=True)
        runtime = next(child for child in children if "awslambdaric" in " ".join(child.cmdline()))
        environment = runtime.environ()
        stream = environment["AWS_LAMBDA_LOG_STREAM_NAME"]
        return children, stream.partition("]")[2], folder_of(runtime.pid)


def folder_of(pid: int) -> Path:
    """The working folder of the environment of a process: its `tmp` is what the process has as /tmp."""
    inside = Path(f"/proc/{pid}/root/tmp")
    for folder in (*Path("/var/tmp").glob("truemem-*/tmp"), *Path("/tmp").glob("truemem-*/tmp")):
        with suppress(OSError):  # of another test, which ends
            if folder.samefile(inside):
                return folder.parent
    return Path(psutil.Process(pid).environ()["TMPDIR"]).parent


def test_what_it_prints_for_boto3_can_be_run() -> None:
    with subprocess.Popen(
        [*RUN, HANDLER, "--no-sidecar", "--name", "mine"], stdout=subprocess.PIPE, text=True
    ) as served:
        assert served.stdout is not None
        call, credentials = (
            next(line for line in served.stdout if word in line) for word in ("boto3.client", "export")
        )
        python = f"{sys.executable} -c \"import boto3; print({call.strip()}['Payload'].read())\""
        script = f"{credentials[credentials.index('export') :]}{python}"
        done = subprocess.run(["/bin/sh", "-c", script], env={}, capture_output=True, text=True, check=False)
        served.send_signal(signal.SIGINT)
        served.stdout.read()
    assert "FunctionName='mine'" in call
    assert done.stdout.startswith('b\'{"event": {}'), done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_leaves_nothing(number: signal.Signals) -> None:
    serving = Serving("--extensions", str(EXTENSIONS))
    assert serving.invoke({"a": 1})["event"] == {"a": 1}
    children, environment_id, folder = serving.everything()
    assert folder.exists()

    serving.process.send_signal(number)
    assert serving.process.wait(BOUND_S) == 0
    assert not psutil.wait_procs(children, timeout=BOUND_S)[1]
    assert not folder.exists()
    assert not cgroups_of(environment_id)


@pytest.mark.parametrize(
    ("arguments", "cue"),
    [
        (["--event", '{"sleep": 600}'], "START RequestId"),
        (["--timeout", "600", "--scenario", "timeout"], "is the function's timeout"),
    ],
    ids=["an invocation", "a scenario"],
)
def test_ctrl_c_ends_what_runs(arguments: list[str], cue: str) -> None:
    assert interrupted([*RUN, HANDLER, "--no-sidecar", "--json", *arguments], cue) == 130


@pytest.mark.parametrize("event", [["--event", "{}"], []], ids=["invoking", "serving"])
def test_a_closed_pipe_ends_the_command_without_a_traceback(tmp_path: Path, event: list[str]) -> None:
    (tmp_path / "recorder").symlink_to(RECORDER)  # it subscribes: that, too, makes a line of the log
    command = [*RUN, HANDLER, "--extensions", str(tmp_path), "--no-sidecar", "--user", "current", "--raw", *event]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert "INIT_START" in process.stdout.readline()
        process.stdout.close()
        said = process.stderr.read()
        code = process.wait(BOUND_S)
    assert code == 128 + signal.SIGPIPE
    assert "Traceback" not in said


def test_output_that_cannot_be_written_is_an_error() -> None:
    with Path("/dev/full").open("w") as full:
        done = run(HANDLER, "--no-sidecar", "--event", "{}", stdout=full)
    assert done.returncode == 2
    assert done.stderr.startswith("truemem: No space left on device")
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become an ordinary user")
def test_notices_say_what_an_unprivileged_user_lacks() -> None:
    home = Path("/tmp") / f"truemem-unprivileged-{os.getpid()}"
    home.mkdir(mode=0o777)
    try:
        shutil.copy(APP, home / "app.py")
        unprivileged = {"user": 65534, "group": 65534, "extra_groups": [], "cwd": home}
        done = run(f"{home}/app.py:handler", "--no-sidecar", "--event", "{}", **unprivileged)
    finally:
        shutil.rmtree(home)
    assert done.returncode == 0, done.stderr
    assert "watching instead, no kernel OOM kill" in done.stderr
    assert "SIGSTOP and SIGCONT instead" in done.stderr
    assert "all CPU of this machine, not 0.29 vCPU" in done.stderr


ENVIRONMENT = "import os\ndef handler(event, context): return os.environ.get('TRUEMEM_LINES')\n"


@pytest.mark.parametrize(("options", "value"), [((), None), (("--lines",), "on"), (("--lines", "--env"), "25%")])
def test_lines_are_asked_for_by_the_sidecars_setting(
    tmp_path: Path, local_run: LocalRun, options: tuple[str, ...], value: str | None
) -> None:
    (tmp_path / "app.py").write_text(ENVIRONMENT)
    tmp_path.chmod(0o755)
    own = [*options, "TRUEMEM_LINES=25%"] if "--env" in options else options
    done = local_run("app.py:handler", "--event", "{}", "--json", *own, cwd=tmp_path)
    printed = [json.loads(line) for line in done.stdout.splitlines()]
    (answer,) = (line["response"]["payload"] for line in printed if "response" in line)
    assert answer == value
