"""The handler, in a process of its own, as in Lambda."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from models import model_path

if TYPE_CHECKING:
    from tests.sample.conftest import Sample

SAMPLE = Path(__file__).parents[2] / "sample_function"

EVENTS = [{"model": model} for model in (3, 11, 3, 25, 39, 0, 11)]


def test_a_model_answers_the_same_every_time_and_however_it_was_loaded(sample: Sample) -> None:
    incident = sample(*EVENTS)
    mended = sample(*EVENTS, LOAD_FROM="path", CACHE_SIZE="2", POP_BEFORE_LOAD="true", MMAP_THRESHOLD="32768")

    outputs = [answer["output"] for answer in incident.answers]
    assert outputs == [answer["output"] for answer in mended.answers]
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


def test_metrics_go_out_as_emf_once_per_invocation(sample: Sample) -> None:
    run = sample({"model": 1}, {"model": 1}, {"model": 2, "batch": 10})
    emitted = [line for line in run.lines if "_aws" in line]

    loads: list[Any] = []
    for line in emitted:
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
    assert sum("ColdStart" in line for line in emitted) == 1


def test_what_was_scored_is_logged_with_its_request(sample: Sample) -> None:
    run = sample({"model": 6})
    (scored,) = [line for line in run.lines if line.get("message") == "scored"]
    assert scored["function_request_id"] == "52fdfc07-2182-454f-963f-5f0f9a621d72"
    assert scored["model"] == 6


@pytest.mark.parametrize("event", [{}, {"model": 40}, {"model": "3"}, {"model": True}, {"model": 3, "batch": 0}])
def test_an_event_that_names_no_model_is_one_clear_error(sample: Sample, event: dict[str, Any]) -> None:
    run = sample(event)
    assert run.code != 0
    assert re.search(r'^ValueError: event .* must be a whole number from .*"model": 3', run.stderr, re.MULTILINE)


def test_a_bad_variable_ends_the_start_with_its_mend(sample: Sample) -> None:
    run = sample({"model": 1}, CACHE_SIZE="lots")
    assert run.answers == []
    assert run.stderr.splitlines()[-1] == "settings.BadSetting: CACHE_SIZE='lots' is not a number from 0 to 40"


def test_a_missing_model_is_made_at_start(sample: Sample, model_dir: Path) -> None:
    content = model_path(model_dir, 17).read_bytes()
    model_path(model_dir, 17).unlink()

    run = sample({"model": 17})

    assert [answer["model"] for answer in run.answers] == [17]
    assert model_path(model_dir, 17).read_bytes() == content


def test_the_process_that_holds_the_sessions_never_imports_onnx(model_dir: Path) -> None:
    code = "import app, sys; print('onnx' in sys.modules, 'onnxruntime' in sys.modules)"
    process = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        text=True,
        cwd=SAMPLE,
        env={"MODEL_DIR": str(model_dir)},
    )
    assert process.stdout.split() == ["False", "True"]


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


def test_requirements_are_pinned_as_in_the_lock_file() -> None:
    lock = (SAMPLE.parent / "requirements.lock").read_text()
    pinned = [line for line in (SAMPLE / "requirements.txt").read_text().splitlines() if "==" in line]
    assert len(pinned) == 5
    for line in pinned:
        assert f"\n{line} \\\n" in f"\n{lock}"
