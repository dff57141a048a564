"""The handler, in a process of its own, as in Lambda."""

from __future__ import annotations

import importlib.metadata
import json
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from network import Shape, model_name

from tests.sample.conftest import DRIVER, SAMPLE, Sample
from tests.sample.s3_server import S3
from tests.sample.test_models import by_numpy

REQUEST = "52fdfc07-2182-454f-963f-5f0f9a621d72"

EVENTS = [{"model": model} for model in (3, 11, 3, 25, 39, 0, 11)]


def test_a_model_answers_the_same_every_time_and_however_it_was_loaded(sample: Sample) -> None:
    incident = sample(*EVENTS)
    repaired = sample(*EVENTS, LOAD_FROM="path", CACHE_SIZE="2", POP_BEFORE_LOAD="true", MMAP_THRESHOLD="32768")

    outputs = [answer["output"] for answer in incident.answers]
    assert outputs == [answer["output"] for answer in repaired.answers]
    assert outputs[0] == outputs[2]
    assert outputs[1] == outputs[6]
    assert len(set(outputs)) == 5
    assert all(output > 0.01 for output in outputs)


def test_the_cache_grows_to_its_size_and_no_further(sample: Sample) -> None:
    run = sample(*EVENTS, CACHE_SIZE="3")
    assert [answer["cached"] for answer in run.answers] == [1, 2, 2, 3, 3, 3, 3]


def test_a_batch_has_the_output_of_its_rows(sample: Sample) -> None:
    one, many = sample({"model": 4}, {"model": 4, "batch": 1300}).answers
    assert many["output"] == pytest.approx(one["output"], abs=2e-4)
    assert many["batch"] == 1300


def test_scores_of_given_rows_are_those_that_numpy_computes(sample: Sample) -> None:
    rows = np.random.default_rng(5).normal(size=(70, 256)).astype(np.float32)  # more than one slice of 64
    (answer,) = sample({"model": 9, "rows": rows.tolist()}).answers

    expected = by_numpy(Shape(), 9, rows).mean(axis=1)
    assert answer["batch"] == 70
    # float32 sums through 24 layers, against float64: differences seen are below 2 in a million
    np.testing.assert_allclose(answer["scores"], expected, rtol=2e-5)
    assert answer["output"] == pytest.approx(expected.mean(), rel=2e-5, abs=5e-5)


def test_models_of_another_shape_and_number_answer_just_as_well(sample: Sample, tmp_path: Path) -> None:
    variables = {"MODEL_COUNT": "3", "MODEL_LAYERS": "2", "MODEL_WIDTH": "16", "MODEL_DIR": str(tmp_path)}
    events = [{"model": 2}, {"model": 2, "rows": [[0.25] * 16]}]
    first, second = sample(*events, **variables), sample(*events, **variables)
    assert first.code == 0, first.stderr
    assert first.answers == second.answers
    assert [path.name for path in tmp_path.iterdir()] == ["model-02-2x16.onnx"]
    assert "from 0 to 2" in sample({"model": 3}, **variables).stderr


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


def test_model_tenant_and_request_are_properties_of_the_metrics_and_never_dimensions(sample: Sample) -> None:
    run = sample({"model": 1, "tenant": "acme"}, {"model": 2})
    first, second = (line for line in run.metrics if "Rows" in line)

    assert (first["model"], first["tenant"], first["requestId"]) == (1, "acme", REQUEST)
    assert second["model"] == 2
    assert "tenant" not in second
    directives = [directive for line in run.metrics for directive in line["_aws"]["CloudWatchMetrics"]]
    dimensions = {name for directive in directives for names in directive["Dimensions"] for name in names}
    assert dimensions <= {"service", "function_name"}


def test_every_log_line_has_request_model_and_tenant(sample: Sample) -> None:
    run = sample({"model": 6, "tenant": "acme"}, {"model": 6})

    assert [line["message"] for line in run.log] == ["loaded", "scored", "scored"]
    assert {line["function_request_id"] for line in run.log} == {REQUEST}
    assert {line["model"] for line in run.log} == {6}
    # one invocation's tenant is not the next one's
    assert [line.get("tenant") for line in run.log] == ["acme", "acme", None]
    assert [answer.get("tenant") for answer in run.answers] == ["acme", None]
    assert run.log[0]["load_ms"] > 0


def test_with_tenant_isolation_the_service_names_the_tenant(sample: Sample) -> None:
    isolated = DRIVER.replace("class Context:", 'class Context:\n    tenant_id = "from-the-service"')
    run = sample({"model": 6}, {"model": 6, "tenant": "acme"}, driver=isolated)
    assert [line["tenant"] for line in run.metrics if "Rows" in line] == ["from-the-service", "acme"]


@pytest.mark.parametrize("event", [{}, {"model": 40}, {"model": 3, "batch": 0}])
def test_an_event_that_names_no_model_is_one_clear_error(sample: Sample, event: dict[str, Any]) -> None:
    run = sample(event)
    assert run.code != 0
    assert re.search(r'^events.BadEvent: event .* must be a whole number from .*"model": 3', run.stderr, re.MULTILINE)


def test_a_bad_variable_ends_the_start_and_says_what_to_do(sample: Sample) -> None:
    run = sample({"model": 1}, CACHE_SIZE="lots")
    assert run.answers == []
    assert run.stderr.splitlines()[-1] == "settings.BadSetting: CACHE_SIZE='lots' is not a number from 0 to 40"


def test_a_missing_model_is_made_on_first_use(sample: Sample, model_dir: Path) -> None:
    path = model_dir / model_name(Shape(), 17)
    content = path.read_bytes()
    path.unlink()

    run = sample({"model": 17})

    assert [answer["model"] for answer in run.answers] == [17]
    assert path.read_bytes() == content


def test_the_model_store_stays_within_its_bound(sample: Sample, tmp_path: Path) -> None:
    run = sample(*EVENTS, LOAD_FROM="path", CACHE_SIZE="1", MODEL_DIR=str(tmp_path), MODEL_STORE_MIB="13")
    assert run.answers == sample(*EVENTS, CACHE_SIZE="1").answers
    assert sorted(path.name for path in tmp_path.iterdir()) == [model_name(Shape(), 0), model_name(Shape(), 11)]


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


def test_the_tracer_sends_a_segment_only_if_it_is_enabled(sample: Sample, s3: S3, tmp_path: Path) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as daemon:
        daemon.bind(("127.0.0.1", 0))
        daemon.settimeout(20)
        in_lambda = {
            **s3.variables,
            "MODEL_DIR": str(tmp_path),
            "LAMBDA_TASK_ROOT": str(SAMPLE),
            "_X_AMZN_TRACE_ID": "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1",
            "AWS_XRAY_DAEMON_ADDRESS": f"127.0.0.1:{daemon.getsockname()[1]}",
        }
        assert sample({"model": 1}, **in_lambda).code == 0
        traced = sample({"model": 1}, {"model": 2}, **in_lambda, TRACER_ENABLED="true")
        assert traced.code == 0, traced.stderr

        # the first datagram that arrives is the traced run's: the other sent none
        segments: list[dict[str, Any]] = []
        while sum(segment["name"] == "## handler" for segment in segments) < 2:
            segments.append(json.loads(daemon.recv(65_536).partition(b"\n")[2]))
    assert {segment["trace_id"] for segment in segments} == {"1-5759e988-bd862e3fe1be46a994272793"}
    cold = [segment["annotations"]["ColdStart"] for segment in segments if segment["name"] == "## handler"]
    assert cold == [True, False]
    assert any("PutObject" in json.dumps(segment) for segment in segments)


MAPPED = """
import ctypes, malloc
class Mallinfo2(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in "arena ordblks smblks hblks hblkhd".split()]
    _fields_ += [(name, ctypes.c_size_t) for name in "usmblks fsmblks uordblks fordblks keepcost".split()]
libc = ctypes.CDLL(None)
libc.mallinfo2.restype = Mallinfo2
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]
def mapped():
    before = libc.mallinfo2().hblkhd
    for _ in range(8):  # the first ones may still fit into what malloc has at hand
        libc.malloc(100_000)
    return libc.mallinfo2().hblkhd > before
print(mapped(), malloc.set_mmap_threshold(32768), mapped())
"""


def test_the_mmap_threshold_gives_blocks_above_it_a_mapping_of_their_own() -> None:
    process = subprocess.run([sys.executable, "-c", MAPPED], check=True, capture_output=True, text=True, cwd=SAMPLE)
    assert process.stdout.split() == ["False", "True", "True"]


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
