"""The handler, in a process of its own, as in Lambda."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from network import Shape, weights
from numpy.typing import NDArray

from testing.emf_check import valid_emf
from tests.sample.conftest import SAMPLE, Sample
from tests.sample.s3_server import S3

REQUEST = "52fdfc07-2182-454f-963f-5f0f9a621d72"

EVENTS = [{"model": model} for model in (3, 11, 3, 25, 39, 0, 11)]


def by_numpy(shape: Shape, model: int, rows: NDArray[Any]) -> NDArray[Any]:
    """What the model answers, in float64."""
    values = rows.astype(np.float64)
    for matrix, bias in weights(shape, model):
        values = np.maximum(values @ matrix + bias, 0)
    return values


def test_a_model_answers_the_same_however_it_was_loaded(sample: Sample) -> None:
    incident = sample(*EVENTS)
    repaired = sample(*EVENTS, LOAD_FROM="path", CACHE_SIZE="2", POP_BEFORE_LOAD="true", MMAP_THRESHOLD="32768")

    outputs = [answer["output"] for answer in incident.answers]
    assert outputs == [answer["output"] for answer in repaired.answers]
    assert outputs[0] == outputs[2]
    assert outputs[1] == outputs[6]
    assert len(set(outputs)) == 5
    assert all(output > 0.01 for output in outputs)


def test_scores_of_given_rows_are_those_that_numpy_computes(sample: Sample) -> None:
    rows = np.random.default_rng(5).normal(size=(70, 256)).astype(np.float32)  # more than one slice of 64
    (answer,) = sample({"model": 9, "rows": rows.tolist()}).answers

    expected = by_numpy(Shape(), 9, rows).mean(axis=1)
    assert answer["batch"] == 70
    # float32 sums through 24 layers, against float64: differences seen are below 2 in a million
    np.testing.assert_allclose(answer["scores"], expected, rtol=2e-5)
    assert answer["output"] == pytest.approx(expected.mean(), rel=2e-5, abs=5e-5)


def test_metrics_go_out_as_emf_once_per_invocation(sample: Sample) -> None:
    run = sample({"model": 1, "tenant": "acme"}, {"model": 1}, {"model": 2, "batch": 10})

    directives = [each for line in run.metrics for each in valid_emf(json.dumps(line))["_aws"]["CloudWatchMetrics"]]
    assert {directive["Namespace"] for directive in directives} == {"OnnxIncident"}
    # model, tenant and request are no dimensions
    dimensions = {name for directive in directives for names in directive["Dimensions"] for name in names}
    assert dimensions <= {"service", "function_name"}
    assert sum("ColdStart" in line for line in run.metrics) == 1
    scored = [line for line in run.metrics if "Rows" in line]
    assert [(line.get("ModelLoads"), line["Rows"]) for line in scored] == [
        ([1.0], [1.0]),
        (None, [1.0]),
        ([1.0], [10.0]),
    ]
    labels = [(line["model"], line.get("tenant"), line["requestId"]) for line in scored]
    assert labels == [(1, "acme", REQUEST), (1, None, REQUEST), (2, None, REQUEST)]
    assert [line.get("tenant") for line in run.log if line["message"] == "scored"] == ["acme", None, None]
    assert {line["function_request_id"] for line in run.log} == {REQUEST}


def test_an_event_that_names_no_model_is_one_clear_error(sample: Sample) -> None:
    run = sample({"model": 40})
    assert run.code != 0
    assert re.search(r'^events.BadEvent: event .* must be a whole number from .*"model": 3', run.stderr, re.MULTILINE)


IMPORTED = """
import sys
sys.modules["onnx"] = None  # as if it were not there: importing it is an error
import app
app.models.content(1)
print(*[name for name in ("onnxruntime", "boto3", "aws_xray_sdk") if name in sys.modules])
"""


def imported(**variables: str) -> list[str]:
    process = subprocess.run(
        [sys.executable, "-c", IMPORTED], check=True, capture_output=True, text=True, cwd=SAMPLE, env=variables
    )
    return process.stdout.split()


def test_what_is_not_needed_is_not_imported_and_onnx_never(tmp_path: Path, s3: S3) -> None:
    small = {"MODEL_DIR": str(tmp_path), "MODEL_LAYERS": "1", "MODEL_WIDTH": "16"}
    assert imported(**small) == ["onnxruntime"]
    assert imported(**small, **s3.variables) == ["onnxruntime", "boto3"]
    assert imported(**small, TRACER_ENABLED="true") == ["onnxruntime", "aws_xray_sdk"]


def test_requirements_are_what_the_tests_ran_with() -> None:
    lock = (SAMPLE.parent / "requirements.lock").read_text()
    lines = (SAMPLE / "requirements.txt").read_text().splitlines()
    assert [line for line in lines if not line.startswith("#") and f"\n{line} \\\n" not in f"\n{lock}"] == []
