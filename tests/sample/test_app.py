"""The handler, in a process of its own, as in Lambda."""

import importlib.metadata
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from network import Shape

from tests.sample.conftest import SAMPLE, Sample
from tests.sample.s3_server import S3
from tests.sample.test_models import by_numpy

REQUEST = "52fdfc07-2182-454f-963f-5f0f9a621d72"

EVENTS = [{"model": model} for model in (3, 11, 3, 25, 39, 0, 11)]


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
    run = sample({"model": 1}, {"model": 1}, {"model": 2, "batch": 10})

    loads: list[Any] = []
    for line in run.metrics:
        assert isinstance(line["_aws"]["Timestamp"], int)
        for directive in line["_aws"]["CloudWatchMetrics"]:
            assert directive["Namespace"] == "OnnxIncident"
            assert all(line[name] for dimensions in directive["Dimensions"] for name in dimensions)
            for metric in directive["Metrics"]:
                values = line[metric["Name"]]
                assert all(isinstance(value, int | float) for value in values)
        if "Rows" in line:
            loads.append((line.get("ModelLoads"), line["Rows"]))
    assert loads == [([1.0], [1.0]), (None, [1.0]), ([1.0], [10.0])]
    assert sum("ColdStart" in line for line in run.metrics) == 1


def test_model_tenant_and_request_are_no_dimensions(sample: Sample) -> None:
    run = sample({"model": 1, "tenant": "acme"}, {"model": 2})
    # one invocation's tenant is not the next one's
    assert [line.get("tenant") for line in run.log if line["message"] == "scored"] == ["acme", None]
    assert {line["function_request_id"] for line in run.log} == {REQUEST}
    first, second = (line for line in run.metrics if "Rows" in line)

    assert (first["model"], first["tenant"], first["requestId"]) == (1, "acme", REQUEST)
    assert second["model"] == 2
    assert "tenant" not in second
    directives = [directive for line in run.metrics for directive in line["_aws"]["CloudWatchMetrics"]]
    dimensions = {name for directive in directives for names in directive["Dimensions"] for name in names}
    assert dimensions <= {"service", "function_name"}


@pytest.mark.parametrize("event", [{}, {"model": 40}, {"model": 3, "batch": 0}])
def test_an_event_that_names_no_model_is_one_clear_error(sample: Sample, event: dict[str, Any]) -> None:
    run = sample(event)
    assert run.code != 0
    assert re.search(r'^events.BadEvent: event .* must be a whole number from .*"model": 3', run.stderr, re.MULTILINE)


def test_a_bad_variable_ends_the_start_and_says_what_to_do(sample: Sample) -> None:
    run = sample({"model": 1}, CACHE_SIZE="lots")
    assert run.answers == []
    assert run.stderr.splitlines()[-1] == "settings.BadSetting: CACHE_SIZE='lots' is not a number from 0 to 40"


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
    """Those without a marker are installed here; those with one are for another Python, and in the lock file."""
    lock = (SAMPLE.parent / "requirements.lock").read_text()
    lines = (SAMPLE / "requirements.txt").read_text().splitlines()
    pinned = [line for line in lines if not line.startswith("#")]
    names = set()
    for line in pinned:
        requirement, _, marker = line.partition(" ; ")
        name, exact, version = requirement.partition("==")
        assert exact
        names.add(name)
        if marker:
            assert f"\n{line} \\\n" in f"\n{lock}"
        else:
            assert importlib.metadata.version(name) == version
    assert names == {"aws-lambda-powertools", "aws-xray-sdk", "boto3", "numpy", "onnxruntime"}
