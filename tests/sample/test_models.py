"""The models: the same bytes every time, those that the `onnx` package would have made, a layer at a time."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from models import main
from network import Shape, model_name, weights
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from onnx_file import IR_VERSION, OPSET, model_chunks, model_size

from tests.sample.conftest import SAMPLE


def by_numpy(shape: Shape, model: int, rows: NDArray[Any]) -> NDArray[Any]:
    """What the model answers, in float64."""
    values = rows.astype(np.float64)
    for matrix, bias in weights(shape, model):
        values = np.maximum(values @ matrix + bias, 0)
    return values


def made(shape: Shape, model: int) -> bytes:
    return b"".join(model_chunks(shape, model))


def made_by_onnx(shape: Shape, model: int) -> bytes:
    """The same model by `onnx.helper`."""
    nodes, tensors = [], []
    flow = "input"
    for layer, (matrix, bias) in enumerate(weights(shape, model)):
        last = "output" if layer == shape.layers - 1 else f"relu{layer}"
        tensors += [numpy_helper.from_array(matrix, f"weight{layer}"), numpy_helper.from_array(bias, f"bias{layer}")]
        nodes += [
            helper.make_node("MatMul", [flow, f"weight{layer}"], [f"matmul{layer}"]),
            helper.make_node("Add", [f"matmul{layer}", f"bias{layer}"], [f"add{layer}"]),
            helper.make_node("Relu", [f"add{layer}"], [last]),
        ]
        flow = last
    rows: list[str | int | None] = ["batch", shape.width]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, rows) for name in ("input", "output")]
    graph = helper.make_graph(nodes, f"model-{model:02}", ends[:1], ends[1:], tensors)
    whole = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    serialised: bytes = whole.SerializeToString(deterministic=True)
    return serialised


@settings(max_examples=40, deadline=None)
@given(layers=st.integers(1, 12), width=st.integers(16, 150), model=st.integers(0, 999))
@example(layers=Shape().layers, width=Shape().width, model=7)
def test_a_model_is_what_onnx_itself_would_write(layers: int, width: int, model: int) -> None:
    shape = Shape(layers, width)
    content = made(shape, model)
    assert content == made_by_onnx(shape, model)
    assert len(content) == model_size(shape, model)


def test_a_model_is_the_same_bytes_every_time_and_no_two_are_alike(model_dir: Path) -> None:
    assert made(Shape(), 7) == (model_dir / model_name(Shape(), 7)).read_bytes()
    assert made(Shape(), 7) != made(Shape(), 8)
    assert len({model_name(shape, 7) for shape in (Shape(), Shape(layers=2), Shape(width=64))}) == 3


def test_a_model_is_24_layers_and_about_6_mib() -> None:
    content = made(Shape(), 0)
    model = onnx.load_from_string(content)

    onnx.checker.check_model(model, full_check=True)
    assert Counter(node.op_type for node in model.graph.node) == {"MatMul": 24, "Add": 24, "Relu": 24}
    assert 6.0 < len(content) / 2**20 < 6.1


def test_no_more_than_one_layers_matrix_is_in_memory_at_a_time() -> None:
    assert max(map(len, model_chunks(Shape(layers=6, width=128), 0))) == 128 * 128 * 4


@pytest.mark.parametrize(("layers", "width"), [(24, 256), (3, 40), (1, 16)])
def test_onnxruntime_computes_what_numpy_computes(layers: int, width: int) -> None:
    shape = Shape(layers, width)
    rows = np.random.default_rng(2026).standard_normal((5, width), dtype=np.float32)
    session = onnxruntime.InferenceSession(made(shape, 3), providers=["CPUExecutionProvider"])

    (answer,) = session.run(None, {"input": rows})

    expected = by_numpy(shape, 3, rows)
    assert answer.shape == (5, width)
    assert np.abs(expected).max() > 0.01
    # float32 sums of `width` products, layer after layer, against float64: a few in a million of the largest value
    np.testing.assert_allclose(answer, expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())


def test_only_missing_models_are_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shape = ["--count", "5", "--layers", "2", "--width", "16"]
    assert main(["make", str(tmp_path), *shape]) == 0
    files = [tmp_path / model_name(Shape(2, 16), model) for model in range(5)]
    assert capsys.readouterr().out.splitlines() == [str(file) for file in files]
    kept = files[0].stat().st_ino
    files[3].unlink()
    files[4].write_bytes(b"half")

    assert main(["make", str(tmp_path), *shape]) == 0

    assert capsys.readouterr().out.splitlines() == [str(file) for file in files[3:]]
    assert sorted(tmp_path.iterdir()) == files
    assert files[0].stat().st_ino == kept


def test_the_commands_defaults_are_the_functions_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in {"MODEL_COUNT": "2", "MODEL_LAYERS": "1", "MODEL_WIDTH": "32"}.items():
        monkeypatch.setenv(name, value)
    assert main(["make", str(tmp_path), "--width", "16"]) == 0
    assert [Path(line).name for line in capsys.readouterr().out.splitlines()] == [
        "model-00-1x16.onnx",
        "model-01-1x16.onnx",
    ]


def test_models_can_be_read_by_the_user_the_function_runs_as(model_dir: Path) -> None:
    assert (model_dir / model_name(Shape(), 0)).stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--count", "none"], "MODEL_COUNT='none' is not a number from 1 to 1000 (the variable, or its option)"),
        (
            ["--layers", "256", "--width", "4096"],
            "MODEL_LAYERS=256 with MODEL_WIDTH=4096 is 16388 MiB a model, and 1024 is the most: lower one of them"
            " (the variable, or its option)",
        ),
    ],
)
def test_an_option_that_cannot_be_used_is_one_line(
    tmp_path: Path, arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["make", str(tmp_path), *arguments]) == 1
    assert capsys.readouterr().err == f"models.py: {words}\n"


def test_the_command_says_in_one_line_where_it_cannot_write(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    arguments = [sys.executable, str(SAMPLE / "models.py"), "make", str(file)]
    command = subprocess.run(arguments, check=False, capture_output=True, text=True)

    assert command.returncode == 1
    assert command.stderr == (
        f"models.py: cannot write to {file}: File exists: set MODEL_DIR to a folder that can be written to\n"
    )
