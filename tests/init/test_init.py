"""`truemem init` on projects, as their authors would type it."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result
from truemem_workbench.commands import init as init_command
from truemem_workbench.commands.__main__ import cli
from truemem_workbench.commands.check import check
from truemem_workbench.init import answer, gates, repository
from truemem_workbench.init.plan import plan

from tests.attach.pages import block

Init = Callable[..., Result]
LEAKY = 'KEPT = []\n\n\ndef handler(event, context):\n    KEPT.append("x" * 8192)\n    return {"kept": len(KEPT)}\n'
HEALTHY = 'import json\n\n\ndef handler(event, context):\n    return {"statusCode": 200, "body": json.dumps(event)}\n'
WANTS = 'def handler(event, context):\n    return event["order"]\n'
TEMPLATE = """
Transform: AWS::Serverless-2016-10-31
Globals: {Function: {Runtime: python3.11, Handler: app.handler}}
Resources:
  Orders:
    Type: AWS::Serverless::Function
    Properties: {CodeUri: orders, Events: {Post: {Type: Api, Properties: {Path: "/orders/{id}", Method: post}}}}
  Bills:
    Type: AWS::Serverless::Function
    Properties: {CodeUri: bills, Events: {Queue: {Type: SQS, Properties: {Queue: arn}}}}
"""
SERVICE = """
service: orders
provider: {name: aws, runtime: python3.11, memorySize: 256, environment: {STAGE: "${sls:stage}"}}
functions:
  orders: {handler: src/app.handler, timeout: 9, events: [{httpApi: "POST /orders"}, {sqs: arn}]}
"""


def project(folder: Path, **files: str) -> Path:
    """A folder with these files, whose names have __ for / and _dot_ for a dot."""
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@pytest.fixture
def init(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Init:
    """`truemem init ARGUMENTS` in tmp_path, in this process; what it runs are processes."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    monkeypatch.setattr("truemem_workbench.support.exit_codes.raise_on_signals", lambda: None)  # they are pytest's
    monkeypatch.setattr(repository, "installed_from", lambda _: "")
    return lambda *arguments: CliRunner().invoke(cli, ["init", *arguments])


def stood(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts}


def test_a_leak_is_named_and_a_second_run_changes_nothing(init: Init, tmp_path: Path) -> None:
    project(tmp_path, app_dot_py=LEAKY)
    done = init()
    assert done.exit_code == 1, done.output
    assert "app.py:5 keeps 8." in done.stdout
    *_, last = done.stdout.splitlines()
    command = "truemem check app.py:handler --events memory-events/app.jsonl"
    assert last.startswith(f"Next, after the repair: {command}")
    made = stood(tmp_path)
    assert {str(path.relative_to(tmp_path)) for path in made} == {
        "app.py", "memory-events/app.jsonl", ".github/workflows/memory.yml",
    }  # fmt: skip
    assert init("--no-run").stdout.splitlines()[-1] == f"Next: {command}"
    assert stood(tmp_path) == made

    events = tmp_path / "memory-events/app.jsonl"
    events.write_text('{"own": 1}\r\n')
    said = init("--no-run").stdout
    assert "left as it is, with another text (--force overwrites it): memory-events/app.jsonl" in said
    assert events.read_text() == '{"own": 1}\n'
    assert "written: .github" in init("--no-run", "--install", "./it.whl").stdout
    assert "vars.TRUEMEM || './it.whl'" in (tmp_path / ".github/workflows/memory.yml").read_text()
    assert events.read_text() == '{"own": 1}\n'
    init("--no-run", "--force")
    assert stood(tmp_path) == made


def test_of_two_functions_the_failing_one_is_told(init: Init, tmp_path: Path) -> None:
    project(tmp_path, template_dot_yaml=TEMPLATE, orders__app_dot_py=HEALTHY, bills__app_dot_py=WANTS)
    done = init("--json")
    document = json.loads(done.stdout)
    orders, bills = document["functions"]
    assert (orders["outcome"], orders["check"]["finding"]["cause"]) == ("passed", "none")
    assert (bills["outcome"], bills["check"]["finding"]["cause"]) == ("unknown", "failing")
    assert done.exit_code == 2
    assert document["next"] == "truemem check template.yaml:Bills --events memory-events/Bills.jsonl"
    assert document["nextWhen"] == "after the edit"

    done = init("--function", "Bills")
    assert done.exit_code == 2
    told = " ".join(done.stdout.split())
    step = "Fix that, or put true events into memory-events/Bills.jsonl"
    assert told.count(f"said: KeyError: 'order' (app.py:2). {step}") == told.count("of them said") == 1
    assert told.count("Next") == 1
    assert done.stdout.splitlines()[-1] == f"Next, after the edit: {document['next']}"


def test_a_function_whose_turn_is_too_late_is_not_run(
    init: Init, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(init_command, "PATIENCE_S", 0.0)
    project(tmp_path, template_dot_yaml=TEMPLATE, orders__app_dot_py=WANTS, bills__app_dot_py=WANTS)
    done = init()
    assert done.exit_code == 2
    assert " ".join(done.stdout.split()).count("Bills not run its turn was too late") == 1


def in_a_shell(lines: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the lines of a job as a runner does, on a machine that has truemem where pip would put it."""
    bin_folder = folder / "bin"
    bin_folder.mkdir(exist_ok=True)
    (bin_folder / "pip").write_text('#!/bin/sh\necho "pip $*" >&2\n')
    (bin_folder / "truemem").write_text(f'#!/bin/sh\nexec {sys.executable} -P -m truemem_workbench.commands "$@"\n')
    for program in bin_folder.iterdir():
        program.chmod(0o755)
    variables = {**os.environ, "PATH": f"{bin_folder}:{os.environ['PATH']}", "TRUEMEM": "git+https://example.com/it"}
    script = "\n".join(lines).replace(". /tmp/truemem/bin/activate", "true").replace("python3 -m venv", "echo")
    command = ["/bin/sh", "-e", "-c", script]
    return subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False)


def test_the_job_of_a_service_passes_in_a_shell(init: Init, tmp_path: Path) -> None:
    project(tmp_path, serverless_dot_yml=SERVICE, src__app_dot_py=HEALTHY, _dot_gitlab__x="")
    assert init("--no-run", "--ci", "gitlab").exit_code == 0
    job = yaml.safe_load((tmp_path / ".gitlab-ci.yml").read_text())["memory"]
    assert job["image"] == "python:3.11"
    done = in_a_shell(job["script"], tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "pip install -q git+https://example.com/it" in done.stderr
    assert "serverless.yml:orders passed" in done.stdout
    assert (tmp_path / job["artifacts"]["reports"]["junit"].replace("*", "")).is_file()


def test_the_page_shows_the_file_that_is_written(init: Init, tmp_path: Path) -> None:
    project(tmp_path, src__app_dot_py=HEALTHY, src__requirements_dot_txt="requests\n")
    assert init("--no-run").exit_code == 0
    text = (tmp_path / ".github/workflows/memory.yml").read_text()
    assert text == block("check.md", "actions")
    workflow = yaml.safe_load(text)
    assert workflow[True] == ["pull_request"]  # YAML 1.1 reads `on` so; GitHub does not
    steps = workflow["jobs"]["memory"]["steps"]
    assert all(("uses" in step) != ("run" in step) for step in steps)
    (command,) = steps[-1]["run"].splitlines()
    with check.make_context("truemem check", shlex.split(command)[2:]) as context:
        assert (context.params["form"], context.params["target"]) == ("github", "src/app.py:handler")


def test_all_functions_are_checked_after_one_that_fails(init: Init, tmp_path: Path) -> None:
    project(tmp_path, template_dot_yaml=TEMPLATE, orders__app_dot_py=HEALTHY, bills__app_dot_py=WANTS)
    init("--no-run", "--ci", "github")
    steps = yaml.safe_load((tmp_path / ".github/workflows/memory.yml").read_text())["jobs"]["memory"]["steps"]
    lines = steps[-1]["run"].replace("truemem check", "false").splitlines()
    assert len(lines) == 4
    assert in_a_shell([*lines[:-1], "echo all"], tmp_path).stdout == "all\n"
    assert in_a_shell(lines, tmp_path).returncode == 1


@pytest.mark.parametrize(
    ("files", "arguments", "said"),
    [
        ({"readme_dot_txt": ""}, [], "looked for a template of SAM or CDK, serverless.yml, and handlers in Python"),
        ({"template_dot_yaml": "Resources: ["}, [], "template.yaml is not YAML"),
        ({"app_dot_py": HEALTHY}, ["services"], "no file or folder services. Try truemem init"),
        ({"app_dot_py": HEALTHY}, ["app.py:main"], "no function main in app.py"),
        ({"app_dot_py": HEALTHY}, ["--function", "main"], "--function main: found are app. Try --function app"),
        ({"app_dot_py": HEALTHY}, ["--no-run", "--dry-run"], "leave one out"),
        ({"a__template_dot_yaml": TEMPLATE, "b__template_dot_yaml": TEMPLATE}, [], "2 templates below"),
        ({"app_dot_py": HEALTHY, "memory-events": ""}, [], "cannot write memory-events/app.jsonl"),
        ({"app_dot_py": HEALTHY}, ["/usr"], "/usr is not below this folder. Try cd /usr && truemem init"),
    ],
)
def test_what_cannot_be_used_is_said(
    init: Init, tmp_path: Path, files: dict[str, str], arguments: list[str], said: str
) -> None:
    project(tmp_path, **files)
    done = init(*arguments)
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1), done.output
    assert said in done.stderr


def test_a_build_that_fails_ends_with_its_last_lines(init: Init, tmp_path: Path) -> None:
    script = json.dumps({"scripts": {"build": r"printf '\033[1;31mno such\033[m thing\n'; exit 3"}})
    source = "export const handler = async (event) => event;\n"
    project(tmp_path, package_dot_json=script, src__index_dot_ts=source, tsconfig_dot_json="{}")
    done = init()
    assert done.exit_code == 2
    assert "truemem init: building: npm run build" in done.stderr
    assert "\n  no such thing\n" in done.stderr  # without its colours
    assert done.stderr.splitlines()[-1].endswith("type truemem init again (npm run build)")


def test_what_a_build_leaves_beside_sources_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = '{"scripts": {"build": "mkdir -p dist && cp src/index.ts dist/index.js && cp src/index.ts src/more.js"}}'
    template = SERVICE.replace("python3.11", "nodejs22.x").replace("src/app", "dist/index")
    files = {
        "serverless_dot_yml": template,
        "package_dot_json": script,
        "src__index_dot_ts": "export const handler = 1",
    }
    monkeypatch.chdir(project(tmp_path, **files))
    answer.built(gates.build(plan(".", None, "none", None).builds))
    assert capsys.readouterr().out == "written by the build: src/more.js\n"
    assert plan(".", None, "none", None).builds == []  # dist/index.js is there, and not older


def test_a_dry_run_writes_nothing(init: Init, tmp_path: Path) -> None:
    project(tmp_path, app_dot_py=HEALTHY)
    before = stood(tmp_path)
    done = init("--dry-run", "--install", "./truemem.whl")
    assert (done.exit_code, stood(tmp_path)) == (0, before)
    assert "TRUEMEM: \"${{ vars.TRUEMEM || './truemem.whl' }}\"" in done.stdout
    assert "would run: truemem check app.py:handler --events memory-events/app.jsonl" in done.stdout
    assert done.stdout.splitlines()[-1] == "Next: truemem init"
