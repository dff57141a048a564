"""`--load`: a user's Locust file drives the local function, with the real Locust."""

import os
import sys
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
import pytest
from truemem_workbench.local import Answer, Function, LocalLambda, Scaling, Settings
from truemem_workbench.soak import load
from truemem_workbench.soak.load import ClientStats, LoadProcess, LoadScript
from truemem_workbench.soak.run import Plan, Ran, run
from truemem_workbench.support.bad_input import BadInput
from truemem_workbench.target.options import resolved

# As Locust's documentation has it, in "Writing a locustfile".
QUICKSTART = """
import time
from locust import HttpUser, task, between

class QuickstartUser(HttpUser):
    wait_time = between(1, 5)

    @task
    def hello_world(self):
        self.client.get("/hello")
        self.client.get("/world")

    @task(3)
    def view_items(self):
        for item_id in range(10):
            self.client.get(f"/item?id={item_id}", name="/item")
            time.sleep(1)

    def on_start(self):
        self.client.post("/login", json={"username":"foo", "password":"bar"})
"""
FUNCTION = """
import json

def handler(event, context):
    if event.get("n"):
        return event["n"]
    match event["rawPath"], event["requestContext"]["http"]["method"]:
        case "/hello", "GET":
            return "Hello, world!"
        case "/world", "GET":
            raise ValueError("the world is not there")
        case "/item", "GET" if event["queryStringParameters"]["id"].isdigit():
            return {"statusCode": 200, "body": "an item"}
        case "/login", "POST":
            return {"statusCode": 401 if json.loads(event["body"])["password"] == "bar" else 200}
"""
WITH_BOTO3 = """
import boto3
from botocore.config import Config
from locust import User, constant_throughput, task

class Caller(User):
    wait_time = constant_throughput(10)

    def on_start(self):
        self.client = boto3.client(
            "lambda",
            endpoint_url=self.host,
            region_name="us-east-1",
            aws_access_key_id="local",
            aws_secret_access_key="local",
            config=Config(retries={"total_max_attempts": 1}),  # each attempt counts
        )

    @task
    def invoke(self):
        with self.environment.events.request.measure("Invoke", "function") as request:
            answer = self.client.invoke(FunctionName="function", Payload=b'{"n": 1}')
            if "FunctionError" in answer:
                request["exception"] = RuntimeError(answer["Payload"].read())
"""
ENDLESS = """
from locust import HttpUser, constant, task

class Patient(HttpUser):
    wait_time = constant(0.05)

    @task
    def hello(self):
        self.client.get("/hello")
"""
FINITE = """
from locust import HttpUser, events, task

class Counting(HttpUser):
    @task
    def ten_of_each(self):
        for _ in range(10):
            self.client.get("/hello")
            self.client.get("/world")
        self.environment.runner.quit()

@events.quitting.add_listener
def judge(environment, **_):
    environment.process_exit_code = 3
"""
WORLD = "ValueError: the world is not there (app.py:11)"


def written(folder: Path, text: str, name: str = "locustfile.py") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def driven(folder: Path, script: str, enough: int | None = None, **options: Any) -> tuple[ClientStats, list[Answer]]:
    """What Locust measured at a function, and what the function's side did.

    With `enough`, Ctrl-C ends it after so many requests.
    """
    function = Function.from_spec(f"{written(folder, FUNCTION, 'app.py')}:handler")
    answers: list[Answer] = []
    scaling = Scaling(environments=8)
    with LocalLambda(function, Settings(), scaling=scaling, on_answer=answers.append) as local:
        with LoadProcess(LoadScript(path=written(folder, script), **options), local.endpoint) as process:
            while enough is not None and len(answers) < enough:
                assert not process.wait(0.05)
            if enough is not None:
                process.interrupt()
            assert process.wait(60)
            stats = process.stats()
        local.settle()
    assert stats is not None
    assert "gevent" not in sys.modules
    return stats, answers


def soaked(folder: Path, script: Path) -> Ran:
    target = resolved(f"{written(folder, FUNCTION, 'app.py')}:handler", python=None, timeout_s=None, env=())
    plan = Plan(for_s=60, scaling=Scaling(environments=8, keep=False))
    return run(target, LoadScript(path=script), [], plan, None, lambda _: None)


def test_soak_is_driven_by_a_script(tmp_path: Path) -> None:
    ran = soaked(tmp_path, written(tmp_path, FINITE))
    assert (ran.tally.asked, ran.tally.errors, ran.signal) == (20, {"ValueError": 10}, 0)
    assert ran.tally.late_ms.percentile(1) == ran.tally.late_ms.percentile(0)  # none is late
    assert sum(len(each.lines) for each in ran.tally.environments) == 20
    assert any(notice.startswith("Locust saw 20 requests, 10 failed requests, p50 ") for notice in ran.notices)
    assert [(limit.measured, limit.outcome) for limit in ran.limits] == [("3", "broken")]  # the file's own limit


RAISES = """
from locust import HttpUser, task

class Raising(HttpUser):
    calls = 0

    @task
    def fail(self):
        Raising.calls += 1
        if Raising.calls > 3:
            self.environment.runner.quit()
        raise KeyError("no such key")
"""


def test_what_a_task_raises_is_reported(tmp_path: Path) -> None:
    script = written(tmp_path, RAISES)
    assert f"a task of {script} raised KeyError: 'no such key'" in soaked(tmp_path, script).notices


def test_soak_outlives_figures_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load.Locust, "stats", lambda *_: [].pop())
    ran = soaked(tmp_path, written(tmp_path, FINITE))
    assert ran.tally.asked == 20
    (limit,) = ran.limits
    assert limit.outcome == "unknown"
    assert "Locust ended with code 3" in limit.sentence
    with pytest.raises(BadInput, match="No module named 'absent'"):
        soaked(tmp_path, written(tmp_path, "import absent", "broken.py"))


# At the end Locust kills its users: a request that is under way then counts on one side alone.


def test_quickstart_of_the_documentation_works_unchanged(tmp_path: Path) -> None:
    stats, answers = driven(tmp_path, QUICKSTART, enough=9, users=3, spawn_rate=3)
    errors = Counter(answer.error for answer in answers)
    assert errors["HTTP 401"] == 3
    assert set(errors) <= {"", "HTTP 401", WORLD}
    assert abs(stats.requests - len(answers)) <= 3
    assert abs(stats.failures - 3 - errors[WORLD]) <= 3
    assert stats.exit_code == 0  # failed requests alone are no failure of the file


def test_boto3_in_a_locust_file_uses_the_invoke_api(tmp_path: Path) -> None:
    stats, answers = driven(tmp_path, WITH_BOTO3, enough=10, users=2)
    assert abs(stats.requests - len(answers)) <= 2
    assert stats.failures == 0
    assert {answer.payload for answer in answers} == {b"1"}


def test_run_time_is_passed_on(tmp_path: Path) -> None:
    stats, answers = driven(tmp_path, ENDLESS, for_s=0.5)
    assert stats.exit_code == 0
    assert abs(stats.requests - len(answers)) <= 1


def test_interrupt_before_the_first_request_is_no_error(tmp_path: Path) -> None:
    with LoadProcess(LoadScript(path=written(tmp_path, ENDLESS)), "http://127.0.0.1:9") as process:
        process.interrupt()
        assert process.wait(30)
        assert process.stats() in (None, ClientStats("Locust", 0, 0, {}, 0))


def test_leaving_ends_every_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "END_S", 0.5)
    pids = written(tmp_path, "", "pids")
    deaf = "import os, signal, subprocess\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    deaf += f"open({str(pids)!r}, 'w').write(f'{{os.getpid()}} {{subprocess.Popen([\"sleep\", \"60\"]).pid}}')\n"
    with LoadProcess(LoadScript(path=written(tmp_path, deaf + "signal.pause()")), "http://127.0.0.1:9"):
        while not pids.read_text():
            time.sleep(0.05)
    left = [psutil.Process(pid) for pid in map(int, pids.read_text().split()) if psutil.pid_exists(pid)]
    assert all(process.status() == psutil.STATUS_ZOMBIE for process in left)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import absent", "Locust ended with code 1: ModuleNotFoundError: No module named 'absent'"),
        ("def (", "Locust ended with code 1: SyntaxError: invalid syntax"),
        ("x = 1", "No User class found!"),
    ],
)
def test_file_that_cannot_run_is_bad_input(tmp_path: Path, text: str, said: str) -> None:
    with LoadProcess(LoadScript(path=written(tmp_path, text)), "http://127.0.0.1:9") as process:
        assert process.wait(60)
        with pytest.raises(BadInput, match=r"--load .*locustfile\.py: ") as refused:
            process.stats()
    assert str(refused.value).endswith(said)


def test_script_is_checked_before_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, said in [("absent.py", "there is no such file"), (".", "there is no such file")]:
        with pytest.raises(BadInput, match=said):
            LoadScript(path=tmp_path / name)
    with pytest.raises(BadInput, match="neither a Locust file"):
        LoadScript(path=written(tmp_path, "", "load.txt"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BadInput, match="k6 is not on the PATH"):
        LoadScript(path=written(tmp_path, "", "load.js"))
    monkeypatch.setattr("truemem_workbench.support.bad_input.find_spec", lambda _: None)
    with pytest.raises(BadInput, match=r"locust is not installed. Try pip install 'truemem\[locust\]'"):
        LoadScript(path=written(tmp_path, ENDLESS))


K6 = """#!/bin/sh
echo "$@" > {folder}/arguments
while [ "$1" != --summary-export ]; do shift; done
cat > "$2" <<END
{{"metrics": {{"http_reqs": {{"count": 9, "rate": 3}}, "http_req_failed": {{"passes": 2, "fails": 7, "value": 0.2}},
"http_req_duration": {{"med": 1.5, "p(95)": 3, "p(99)": 4.25}}}}}}
END
exit {code}
"""


@pytest.mark.parametrize(("code", "exit_code"), [(0, 0), (99, 99), (105, 0)])
def test_k6_is_run_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, exit_code: int) -> None:
    """With a stand-in, which knows the options and the summary of k6's documentation."""
    written(tmp_path, K6.format(folder=tmp_path, code=code), "k6").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    script = LoadScript(path=written(tmp_path, "", "load.js"), users=3, for_s=1.5)
    with LoadProcess(script, "http://127.0.0.1:9") as process:
        assert process.wait(30)
        assert process.stats() == ClientStats("k6", 9, 2, {50: 1.5, 95: 3, 99: 4.25}, exit_code)
    arguments = (tmp_path / "arguments").read_text().split()
    assert arguments[0] == "run"
    assert arguments[-1] == str(script.path)
    pairs = list(pairwise(arguments))
    for pair in [("--env", "BASE_URL=http://127.0.0.1:9"), ("--vus", "3"), ("--duration", "2s")]:
        assert pair in pairs
    with pytest.raises(BadInput, match="k6 has no spawn rate"):
        LoadScript(path=script.path, spawn_rate=1)
