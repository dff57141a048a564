"""The sample function's modules, its models, and a way to run it as Lambda would: in a process of its own."""

import itertools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.sample.s3_server import S3, make_bucket, s3_server

SAMPLE = Path(__file__).parents[2] / "sample_function"
sys.path.insert(0, str(SAMPLE))

DRIVER = """
import json, sys, app
class Context:
    function_name = "onnx-incident"
    memory_limit_in_mb = 512
    invoked_function_arn = "arn:aws:lambda:us-east-1:123456789012:function:onnx-incident"
    aws_request_id = "52fdfc07-2182-454f-963f-5f0f9a621d72"
for event in json.load(sys.stdin):
    print("answer", json.dumps(app.handler(event, Context())))
"""


@dataclass(frozen=True)
class Run:
    """One process that imported app.py and handled some events."""

    code: int
    answers: list[dict[str, Any]]
    lines: list[dict[str, Any]]
    """What it printed on stdout as JSON: log lines and metrics."""
    stderr: str

    @property
    def metrics(self) -> list[dict[str, Any]]:
        return [line for line in self.lines if "_aws" in line]

    @property
    def log(self) -> list[dict[str, Any]]:
        return [line for line in self.lines if "_aws" not in line]


Sample = Callable[..., Run]


@pytest.fixture(scope="session")
def model_dir() -> Iterator[Path]:
    """All 40 models, made once by the command."""
    with tempfile.TemporaryDirectory(prefix="truemem-sample-") as folder:
        subprocess.run([sys.executable, SAMPLE / "models.py", "make", folder], check=True, stdout=subprocess.DEVNULL)
        yield Path(folder)


@pytest.fixture(scope="session")
def sample(model_dir: Path) -> Sample:
    """Start the sample function with some variables, hand it some events, collect everything."""

    def run(*events: dict[str, Any], driver: str = DRIVER, **variables: str) -> Run:
        environment = {
            "PATH": os.environ.get("PATH", ""),
            "MODEL_DIR": str(model_dir),
            "AWS_LAMBDA_FUNCTION_NAME": "onnx-incident",
            **variables,
        }
        process = subprocess.run(
            [sys.executable, "-c", driver],
            input=json.dumps(events),
            check=False,
            capture_output=True,
            text=True,
            cwd=SAMPLE,
            env=environment,
        )
        lines = process.stdout.splitlines()
        return Run(
            process.returncode,
            [json.loads(line.removeprefix("answer ")) for line in lines if line.startswith("answer ")],
            [json.loads(line) for line in lines if line.startswith("{")],
            process.stderr,
        )

    return run


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    with s3_server() as endpoint:
        yield endpoint


NUMBERS = itertools.count(1)


@pytest.fixture
def s3(s3_endpoint: str) -> S3:
    """A bucket for this test alone."""
    return make_bucket(s3_endpoint, f"models-{next(NUMBERS)}")
