"""A web server behind the Lambda Web Adapter: measured in exact mode, at a port that is known beforehand."""

import base64
import json
import socket
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from truemem_workbench.commands.soak import soak
from truemem_workbench.judge.finding import commands_local
from truemem_workbench.local import BadInput
from truemem_workbench.local.configuration.layer import WEB_ADAPTER, free_port
from truemem_workbench.runs.here import Run
from truemem_workbench.support.typed_command import Command
from truemem_workbench.support.web_adapter import ASYNC, PORT, PROXY, READY_PATH
from truemem_workbench.target.resolve import resolve
from truemem_workbench.target.web_app import from_command, get

from testing.environment import SLACK_MIB
from testing.web import REAL, SERVER, WebEnvironment
from testing.workload import Judgement
from tests.check.conftest import Check, Refused, invoke_check, refused
from tests.local.conftest import executable

__all__ = ["invoke_check", "refused"]
FEW = ("--invocations", 20, "--most", 20, "--warm-up", 5, "--max-drift", 1000, "--json", "--no-explain")
SIZES = (1, 20, 5, 64, 5, 20, 1)
REQUESTS: tuple[tuple[dict[str, Any], str, bytes], ...] = (
    (
        {"rawPath": "/a%20b", "rawQueryString": "x=1&x=2", "requestContext": {"http": {"method": "POST"}}},
        "/a%20b?x=1&x=2",
        b"{}",
    ),
    (
        {
            "httpMethod": "POST",
            "path": "/a b",
            "multiValueQueryStringParameters": {"x": ["1", "2"]},
            "requestContext": {"elb": {}},
        },
        "/a%20b?x=1&x=2",
        b"\xff",
    ),
    ({"Records": []}, "/events", b'{"Records": []}'),
)


@pytest.fixture(params=["stand-in", "AWS's own"])
def adapter(request: pytest.FixtureRequest) -> Path:
    if request.param == "stand-in":
        return WEB_ADAPTER
    if not REAL.is_file():
        pytest.skip(f"no {REAL}. Try make web-adapter")
    return REAL


def test_each_record_is_exact_behind_the_adapter(adapter: Path) -> None:
    with WebEnvironment(adapter=adapter, memory_mib=1024) as environment:
        answers = [environment.invoke(mib=mib, ms=1) for mib in (*SIZES, 0)]
        records = environment.told()
    seen = [Judgement(*each, 1024) for each in zip(records, answers, strict=True)][:-1]  # no request ends the last one
    assert [each.record.mode for each in seen] == ["exact"] * len(SIZES)
    assert [each for each in seen if not each.within_bounds or abs(each.error) > SLACK_MIB] == []


def test_a_server_that_has_ended_is_measured_again(adapter: Path) -> None:
    with WebEnvironment(adapter=adapter) as environment:
        environment.invoke(mib=5)
        assert environment.attempt("crash", mib=5).payload
        environment.attempt(mib=5)  # the adapter may answer before Lambda sees that the server has ended
        for _ in range(3):  # the sidecar's port is had again, though connections of the killed one are not gone
            environment.invoke(mib=5)
        assert [record.mode for record in environment.records()][-3:-1] == ["exact", "exact"]
        assert "is taken" not in environment.log()


def test_a_sidecar_that_is_off_passes_the_events_on() -> None:
    with WebEnvironment(environment={"TRUEMEM_ENABLED": "false"}) as environment:
        assert environment.invoke(mib=1)["touched"] == 1024
        assert environment.records() == []


def test_a_port_that_is_taken_is_said_and_nothing_else_ends() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])
        with WebEnvironment(exact=False, environment={PORT: port}) as environment:
            environment.invoke(mib=5)
            environment.invoke(mib=5)
            records = environment.told()
    assert [record.mode for record in records] == [None, None]
    assert "TRUEMEM_PORT is taken" in environment.log()


def test_events_become_requests_as_the_adapter_makes_them(adapter: Path) -> None:
    with WebEnvironment(adapter=adapter, exact=False) as environment:
        for event, target, body in REQUESTS:
            is_http = "requestContext" in event
            encoded = {"body": base64.b64encode(body).decode(), "isBase64Encoded": True} if is_http else {}
            sent = {"headers": {"host": "h", "a": "1"}, **event, **encoded} if is_http else event
            payload: Any = environment.local.invoke(sent).payload
            got = json.loads(payload["body"]) if is_http else payload
            assert (got["target"], base64.b64decode(got["body"])) == (target, body)
            if is_http:
                assert got["headers"]["a"] == "1"
                assert payload["statusCode"] == 200


def test_a_template_is_run_behind_the_adapter(tmp_path: Path) -> None:
    layer = "!Sub 'arn:aws:lambda:${AWS::Region}:753240598075:layer:LambdaAdapterLayerX86:28'"
    port = free_port()
    (tmp_path / "template.yaml").write_text(
        "Resources:\n  It:\n    Type: AWS::Serverless::Function\n    Properties:\n"
        f"      {{CodeUri: ., Handler: run.sh, Runtime: python3.13, Layers: [{layer}], Environment: {{Variables:"
        f" {{AWS_LAMBDA_EXEC_WRAPPER: /opt/bootstrap, PORT: {port}, {PORT}: 9717, {PROXY}: '127.0.0.1:9717'}}}}}}"
    )
    executable(tmp_path / "run.sh", f"#!/bin/sh\nexec {SERVER}\n")
    target = resolve(f"{tmp_path / 'template.yaml'}:It")
    assert (target.http, [each for each in target.notices if "layers of" in each]) == (port, [])
    with Run(target) as run:
        for _ in range(3):
            assert run.invoke({"requestContext": {"http": {"method": "GET"}}}).function_error is None
        seen = run.measurement(0).seen
    assert [each.line.mode for each in seen][:2] == ["exact", "exact"]


def test_check_runs_the_command_of_a_web_server(invoke_check: Check) -> None:
    port = free_port()
    done = invoke_check(*FEW, "--http", port, "--event", "/?do=hold&mib=30", "--", *SERVER.split())
    document = json.loads(done.stdout)
    assert (document["checked"], document["errors"]["count"]) == (SERVER, 0), done.output
    assert max(document["peaks"]) > 30
    assert f"--http {port}" in document["finding"]["next"]


def test_answers_of_4xx_and_5xx_have_failed(invoke_check: Check, tmp_path: Path) -> None:
    port = free_port()
    files = ["--http", port, f"{sys.executable} -m http.server {port}"]
    done = invoke_check("--event", "/nosuch", *files)
    assert (done.exit_code, "5 of them said: HTTP 404: /nosuch" in done.stdout) == (2, True), done.output
    assert "--event /a/path/that/there/is" in done.stdout
    post = {"requestContext": {"http": {"method": "POST"}}, "rawPath": "/"}
    (tmp_path / "events.json").write_text(json.dumps([get("/"), get("/"), post]))
    done = invoke_check(*FEW, "--max-errors", 40, "--events", tmp_path / "events.json", *files)
    document = json.loads(done.stdout)
    assert (document["errors"]["count"], document["finding"]["cause"]) == (8, "undecided"), done.output
    assert {each["name"]: each["outcome"] for each in document["limits"]}["max-errors"] == "kept"
    done = invoke_check(*FEW, "--allow-errors", "--event", "/nosuch", *files)
    assert json.loads(done.stdout)["errors"]["count"] == 25, done.output  # and it goes on


def test_a_leak_of_a_web_server_is_soaked_next() -> None:
    given = (("--http", "8080"), ("--env", "LEAK=1"), ("--invocations", "2000"))
    commands = commands_local(Command("check", ("node server.js",), given), can_explain=False, is_web=True)
    assert commands.explain == "truemem soak 'node server.js' --http 8080 --env LEAK=1 --for 10m"
    of_template = commands_local(Command("check", ("web.yaml:It",)), is_web=True)
    assert of_template.log == "truemem local run web.yaml:It --event /"


def test_a_soak_counts_what_is_not_found() -> None:
    port = free_port()
    server = f"{sys.executable} -m http.server {port}"
    given = ["--for", "1s", "--rate", "5", "--cpu", "off", "--http", port, "--event", "/nosuch", "--json"]
    done = CliRunner().invoke(soak, [*map(str, given), server])
    document = json.loads(done.stdout)
    assert document["errors"]["byType"].keys() == {"HTTP 404"}, done.output
    assert document["finding"]["next"].endswith(f"--http {port} --event /a/path/that/there/is")


def test_what_is_no_web_server_is_told(refused: Refused, tmp_path: Path) -> None:
    assert "Try truemem check --http PORT -- uvicorn app:app" in refused("uvicorn", "app:app")
    assert "no program nosuch" in refused("--http", 8080, "nosuch")
    assert "one request at a time" in refused("--http", free_port(), "--managed-instances", 2, "--", "sleep", 1)
    assert "names its own program" in refused("--http", 8080, "--python", "python3", "--", "sleep", 1)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        assert "Address already in use" in refused("--http", other.getsockname()[1], "--", "sleep", 1)


def test_a_server_that_is_not_ready_is_told_why() -> None:
    port = free_port()
    with pytest.raises(BadInput, match=f"does not listen on port {port} in"):
        Run(from_command("sleep 60", port), init_timeout_s=0.5).__enter__()
    target = from_command(f"{sys.executable} -m http.server {port}", port)
    wants = {READY_PATH: "/nosuch", "AWS_LWA_READINESS_CHECK_HEALTHY_STATUS": "200"}
    with pytest.raises(BadInput, match=f"answers /nosuch with 404.*{READY_PATH}=/a/path"):
        Run(replace(target, environment={**target.environment, **wants}), init_timeout_s=2.5).__enter__()


@pytest.mark.nightly  # 12 s
def test_the_first_event_waits_for_a_server_if_asked() -> None:
    port = free_port()
    target = from_command(f"sh -c 'sleep 11; exec {sys.executable} -m http.server {port}'", port)
    with Run(replace(target, environment={**target.environment, ASYNC: "true"})) as run:
        assert run.invoke(get("/")).error == ""
