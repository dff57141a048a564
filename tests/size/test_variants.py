"""`truemem size` over the values of one variable: a row for each, the best of them, and why one has none."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from truemem_workbench.size.choice import Trial
from truemem_workbench.size.local_sweep import LocalSweep, Sweep
from truemem_workbench.size.varied import Variants, variants_of
from truemem_workbench.support.bad_input import BadInput

from tests.size.conftest import HASHING, Size, tried

MODELS = ("--env", "MODEL=small", "--env", "MODEL=large")
SAMPLE = Path(__file__).parents[2] / "sample_function"
ONNX = """
import os
import numpy, onnxruntime
MODEL = onnxruntime.InferenceSession(os.environ["MODEL"], providers=["CPUExecutionProvider"])
[INPUT] = MODEL.get_inputs()
def handler(event, context):
    shape = [each if isinstance(each, int) else 1 for each in INPUT.shape]
    return len(MODEL.run(None, {INPUT.name: numpy.ones(shape, numpy.float32)}))
"""


@pytest.fixture
def swept(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What a sweep returns, or raises, by MODEL: invented figures."""
    outcomes: dict[str, Any] = {
        "small": Sweep(trials=[tried(256, 40.0, 41.0, peak=100.0), tried(512, 20.0, 21.0, peak=100.0)], notices=[]),
        "large": Sweep(trials=[tried(256, 90.0, 91.0, peak=300.0), tried(512, 45.0, 46.0, peak=300.0)], notices=[]),
    }

    def run(self: LocalSweep, asked: object) -> Sweep:
        outcome = outcomes[self._target.environment["MODEL"]]
        if isinstance(outcome, BadInput):
            raise outcome
        assert isinstance(outcome, Sweep)
        return outcome

    monkeypatch.setattr(LocalSweep, "run", run)
    return outcomes


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ((), None),
        (("A=1", "B=2"), None),
        (("A=1", "A=1"), None),
        (("A=1", "B=x=1", "A=2", "A=1"), Variants("A", ["1", "2"], ["B=x=1"])),
    ],
)
def test_a_variable_with_several_values_varies(env: tuple[str, ...], expected: Variants | None) -> None:
    assert variants_of(env) == expected


def test_two_variables_that_vary_are_refused(invoke_size: Size) -> None:
    done = invoke_size(HASHING, *MODELS, "--env", "THREADS=1", "--env", "THREADS=2")
    assert done.exit_code == 2
    assert "MODEL and THREADS have several values each, and one variable can vary" in done.stderr


def test_what_is_refused_begins_with_no_value(invoke_size: Size) -> None:
    done = invoke_size(HASHING, *MODELS, "--managed-instances", "8")
    assert (done.exit_code, "1 of 2" in done.stderr) == (2, False), done.output


def test_a_picture_is_of_one_value(invoke_size: Size) -> None:
    done = invoke_size(HASHING, *MODELS, "--output", "sizes.png")
    assert done.exit_code == 2
    assert "its ending is not .json" in done.stderr


def test_each_value_has_its_row_and_one_is_best(invoke_size: Size, swept: dict[str, Any]) -> None:
    done = invoke_size(HASHING, *MODELS, "--env", "OTHER=1", "--json")
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    small, large = document["variants"]
    assert (small["value"], small["peak"], small["fitsIn"]) == ("small", 100.0, 192)
    assert (large["value"], large["peak"], large["fitsIn"]) == ("large", 300.0, 384)
    assert document["best"] == "small"
    assert document["next"] == f"truemem check {HASHING} --env OTHER=1 --env MODEL=small --memory 512"
    assert "MODEL=large costs 2.2 times that" in document["sentences"][0]


def test_a_value_that_cannot_be_tried_has_its_row_too(invoke_size: Size, swept: dict[str, Any]) -> None:
    swept["large"] = BadInput("it needs 9,000 MiB")
    done = invoke_size(HASHING, *MODELS)
    assert done.exit_code == 0, done.output
    assert "not tried" in done.stdout
    assert "- MODEL=large: it needs 9,000 MiB" in done.stdout


def test_a_value_that_fails_says_what_failed(invoke_size: Size, swept: dict[str, Any]) -> None:
    broken = Trial(memory=512, invocations=5, failures=5, error="ValueError: no model", peak=104.0)
    swept["large"] = Sweep(trials=[broken], notices=[])
    done = invoke_size(HASHING, *MODELS)
    assert done.exit_code == 0, done.output
    assert "512 MB is out: all invocations failed, the last with ValueError: no model" in done.stdout
    assert ["large", *"-" * 6, "fails"] in [row.split() for row in done.stdout.splitlines()]


def test_where_no_value_can_be_tried_it_says_why(invoke_size: Size, swept: dict[str, Any]) -> None:
    swept["small"] = swept["large"] = BadInput("no limit of CPU")
    done = invoke_size(HASHING, *MODELS)
    assert (done.exit_code, "no limit of CPU" in done.stderr) == (2, True), done.output


def test_a_signal_leaves_what_is_known(invoke_size: Size, swept: dict[str, Any]) -> None:
    swept["small"] = Sweep(trials=[tried(512, 20.0, 21.0, peak=100.0)], notices=[], signal=2)
    done = invoke_size(HASHING, *MODELS)
    assert done.exit_code == 130, done.output
    assert "It was ended early. Not tried: large." in done.stdout


def test_ended_before_a_size_was_tried_none_is_said(invoke_size: Size, swept: dict[str, Any]) -> None:
    swept["small"] = Sweep(trials=[Trial(memory=512, invocations=1, peak=100.0)], notices=[], signal=2)
    done = invoke_size(HASHING, *MODELS)
    assert "It was ended early at MODEL=small: no size of it was tried. Not tried: large." in done.stdout
    assert ["small", "100.0", *"-" * 5, "ended", "early"] in [row.split() for row in done.stdout.splitlines()]


def onnx_model(folder: Path, width: int) -> Path:
    """A model of the sample function: 24 layers of so many features."""
    sys.path.insert(0, str(SAMPLE))
    try:
        from onnx_file import model_chunks
        from settings import read_settings

        shape = read_settings({"MODEL_WIDTH": str(width)}).shape
        path = folder / f"{width}.onnx"
        path.write_bytes(b"".join(model_chunks(shape, 0)))
    finally:
        sys.path.remove(str(SAMPLE))
    return path


@pytest.mark.nightly
@pytest.mark.timeout(400)
def test_a_real_model_that_is_larger_has_the_larger_peak(invoke_size: Size, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(ONNX)
    models = [onnx_model(tmp_path, width) for width in (128, 768)]
    given = [word for path in (*models, tmp_path / "none.onnx") for word in ("--env", f"MODEL={path}")]
    done = invoke_size(f"{tmp_path / 'app.py'}:handler", *given, "--memory", "512", "--invocations", "5", "--json")
    assert done.exit_code == 0, done.output
    small, large, none = json.loads(done.stdout)["variants"]
    more_mib = (models[1].stat().st_size - models[0].stat().st_size) / 2**20
    assert large["peak"] - small["peak"] > more_mib
    assert large["fitsIn"] > small["fitsIn"]
    assert "NoSuchFile" in json.dumps(none["result"])
