"""The shell snippets of docs/attach.md: run by bash with the real AWS CLI against moto's server."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from mypy_boto3_lambda import LambdaClient
from truemem.line_schema import METRICS

from tests.attach import tools
from tests.attach.captured import stored
from tests.attach.pages import block
from tests.attach.test_snippets import ARN, DIST, PAGE, or_skip, or_skip_layer
from tests.layer.built import script
from tests.report.conftest import aws, aws_endpoint, put_events, put_function
from tests.template.stack import EMPTY_ZIP

__all__ = ["aws", "aws_endpoint"]

REGION = "eu-west-1"
NAME = "my-function"

Shell = Callable[..., list[str]]


@pytest.fixture
def lambdas(aws: object, monkeypatch: pytest.MonkeyPatch) -> Iterator[LambdaClient]:
    """Lambda of moto's server; the AWS variables point there."""
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.setenv(name, REGION)
    boto3.setup_default_session(region_name=REGION)
    yield boto3.client("lambda")
    boto3.DEFAULT_SESSION = None


def create(layers: list[str]) -> None:
    """The user's function, as it is before anything is attached."""
    put_function(boto3.client, NAME, Architectures=["x86_64"], Layers=layers)


def publish(lambdas: LambdaClient, name: str) -> str:
    made = lambdas.publish_layer_version(LayerName=name, Content={"ZipFile": EMPTY_ZIP})
    return made["LayerVersionArn"]


def attached(lambdas: LambdaClient) -> list[str]:
    return [layer["Arn"] for layer in lambdas.get_function_configuration(FunctionName=NAME).get("Layers", [])]


@pytest.fixture
def shell(tmp_path: Path, lambdas: LambdaClient) -> Shell:
    """Runs the snippet of that name in an empty folder; the lines that it prints."""
    commands = tmp_path / "bin"
    script(commands, '[ "$*" = layer ]', "make")  # what it makes is there already
    (commands / "aws").symlink_to(or_skip(tools.aws))
    (commands / "truemem").symlink_to(Path(sys.executable).with_name("truemem"))
    variables = {**os.environ, "PATH": f"{commands}:{os.environ['PATH']}"}

    def run(name: str) -> list[str]:
        command = ["bash", "-eu", "-c", block(PAGE, name)]
        done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    return run


def test_the_architecture_is_told(shell: Shell) -> None:
    create([])
    assert shell("architecture") == ["x86_64"]


@pytest.mark.parametrize("name", ["publish", "publish-cli"])
def test_publishing_prints_an_arn_for_each_architecture(
    shell: Shell, lambdas: LambdaClient, tmp_path: Path, name: str
) -> None:
    or_skip_layer() if name == "publish" else built(tmp_path)
    printed = " ".join(shell(name)).split()
    assert [word for word in printed if word.startswith("arn:")] == [ARN, ARN.replace("x86_64", "arm64")]
    for architecture in ("x86_64", "arm64"):
        made = lambdas.get_layer_version(LayerName=f"truemem-{architecture}", VersionNumber=1)
        assert made["CompatibleArchitectures"] == [architecture]


@pytest.mark.parametrize("others", [0, 2])
def test_the_layer_is_attached_beside_the_others(shell: Shell, lambdas: LambdaClient, others: int) -> None:
    kept = [publish(lambdas, f"layer-{number}") for number in range(others)]
    assert publish(lambdas, "truemem-x86_64") == ARN
    create(kept)
    shell("cli")
    assert attached(lambdas) == [*kept, ARN]


def built(folder: Path) -> None:
    """The zips that `make layer` leaves, empty."""
    (folder / DIST).mkdir()
    for architecture in ("x86_64", "arm64"):
        (folder / DIST / f"truemem-layer-{architecture}.zip").write_bytes(EMPTY_ZIP)


def test_what_the_page_looks_for_is_found(shell: Shell) -> None:
    lines = [event.message for event in stored()["spike"]]
    now = round(time.time() * 1000)
    events = [(now + at, line) for at, line in enumerate(lines)]
    put_events(boto3.client("logs"), f"/aws/lambda/{NAME}", "stream", events)
    dimensions = [{"Name": "FunctionName", "Value": NAME}]
    for metric in METRICS:
        data: Any = [{"MetricName": metric, "Dimensions": dimensions, "Value": 1}]
        boto3.client("cloudwatch").put_metric_data(Namespace="truemem", MetricData=data)
    said, listed = shell("check")
    assert said in lines
    assert said.startswith("truemem INFO method=vmhwm ")
    assert sorted(listed.split()) == sorted(METRICS)


def test_without_the_present_configuration_nothing_is_changed(shell: Shell, lambdas: LambdaClient) -> None:
    with pytest.raises(AssertionError, match="GetFunctionConfiguration") as refused:  # there is no such function
        shell("cli")
    assert "UpdateFunctionConfiguration" not in str(refused.value)
